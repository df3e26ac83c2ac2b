//! canvas JSON → plan → run → components → **agents** → events → API
//!
//! Attributes for programs that embed the engine. They are re-exported by `weft-agent`, whose guide shows how to use
//! them.

mod declared;
mod expand;
mod options;

use proc_macro::TokenStream;

/// Makes a tool of an asynchronous function.
///
/// The function stays as it is. Beside it there is another one, without arguments, whose name ends in `_tool` and which
/// gives the tool: `add_tool()` for `add`. The tool has the function's name; its doc comment tells the model what it
/// does, and those of the arguments what they are. The function gives a `weft_core::Result` of anything that is
/// `IntoOutput`, and its arguments are owned values that implement `serde::Deserialize` and `schemars::JsonSchema`.
///
/// Of the function: `#[tool(name = "…")]` and `#[tool(description = "…")]` go before its own name and words. Of an
/// argument: `#[tool(arg = "…")]` says what it is instead of a doc comment; `#[tool(args)]`, of the only argument, says
/// that it is a struct with all arguments of the tool; attributes of serde and schemars are those of a field.
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(attribute.into(), item.into()).unwrap_or_else(|error| error.to_compile_error()).into()
}
