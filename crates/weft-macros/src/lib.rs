//! canvas JSON → plan → run → components → **agents** → events → API
//!
//! Attributes: `async_trait` for the traits of the seams, re-exported by `weft-core`, and `tool` for programs that embed
//! the engine, re-exported by `weft-agent`, whose guide shows how to use it.

mod async_methods;
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

/// Lets a trait that is used as a trait object have asynchronous methods: each returns a boxed future that can be sent
/// to another thread. Goes on the trait and on each of its implementations.
///
/// The code it generates differs from that of the crate `async-trait` in one respect: all references that a method is
/// given share one lifetime, that of the call, where that crate declares a lifetime for each with a bound for each.
/// Callers see no difference. The compiler does: whether a future can be sent to another thread is worked out anew for
/// every distinct set of bounds, down to the last type of the database driver. Without bounds it is worked out once,
/// and the store is checked in 22 s in place of 57.
#[proc_macro_attribute]
pub fn async_trait(_attribute: TokenStream, item: TokenStream) -> TokenStream {
    async_methods::expand(item.into()).unwrap_or_else(|error| error.to_compile_error()).into()
}
