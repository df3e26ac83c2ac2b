//! canvas JSON → plan → run → components → **agents** → events → API
//!
//! Attributes for programs that embed the engine. They are re-exported by `weft-agent`, whose guide shows how to use
//! them.

mod declared;
mod expand;
mod options;

use proc_macro::TokenStream;

/// Turns an asynchronous function into a tool.
///
/// The function itself stays unchanged. The macro adds a second function without arguments that returns the tool; its
/// name ends in `_tool`, such as `add_tool()` for `add`. The tool has the name of the function. The function's doc
/// comment tells the model what the tool does, and the doc comments of the arguments describe these. The function must
/// return a `weft_core::Result` of any type that implements `IntoOutput`, and its arguments must be owned values that
/// implement `serde::Deserialize` and `schemars::JsonSchema`.
///
/// On the function, `#[tool(name = "…")]` and `#[tool(description = "…")]` override its name and doc comment. On an
/// argument, `#[tool(arg = "…")]` describes it in place of a doc comment, and serde and schemars attributes work as on
/// a struct field. On the only argument of a function, `#[tool(args)]` declares that it is a struct with all arguments
/// of the tool.
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(attribute.into(), item.into()).unwrap_or_else(|error| error.to_compile_error()).into()
}
