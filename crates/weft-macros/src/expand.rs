//! Expands a function to the function and its tool.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt as _;
use syn::{Attribute, Error, ItemFn, Result};

use crate::declared::{Argument, Arguments, take_arguments};
use crate::options::{ToolOptions, doc_of};

/// Returns the function, and next to it the function that returns its tool.
///
/// # Errors
/// If the function cannot be a tool, with the position and what to write instead.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = ToolOptions::read(attribute)?;
    let mut function: ItemFn = syn::parse2(item)?;
    let arguments = take_arguments(&mut function)?;
    let own = function.sig.ident.unraw();
    let name = options.name.map_or_else(|| own.to_string(), |name| name.value());
    let description = options.description.map_or_else(|| doc_of(&function.attrs), |words| words.value());
    if description.trim().is_empty() {
        let message =
            "the model has to know what the tool does: write a doc comment, or `description = \"…\"`";
        return Err(Error::new(own.span(), message));
    }
    let (visibility, called) = (&function.vis, &function.sig.ident);
    let gives = format_ident!("{own}_tool", span = own.span());
    let words =
        format!("The tool `{name}`, which calls [`{own}`].\n\n# Errors\nWhen its arguments are no struct.");
    let conditions = function.attrs.iter().filter(|attribute| is_condition(attribute));
    let made = match arguments {
        Arguments::Struct(of) => quote! {
            ::weft_agent::function::tool(#name, #description, |arguments: #of| #called(arguments))
        },
        Arguments::Fields(fields) => of_fields(&name, &description, called, &fields),
    };
    Ok(quote! {
        #function

        #(#conditions)*
        #[doc = #words]
        #visibility fn #gives() -> ::weft_agent::function::Made {
            #made
        }
    })
}

/// Whether an attribute controls conditional compilation, so that it must apply to the tool as well.
fn is_condition(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
}

fn of_fields(name: &str, description: &str, called: &syn::Ident, fields: &[Argument]) -> TokenStream {
    let names: Vec<_> = fields.iter().map(|field| &field.name).collect();
    let declared = fields.iter().map(|Argument { name, of, description, attributes }| {
        let doc = (!description.is_empty()).then(|| quote! { #[doc = #description] });
        quote! { #(#attributes)* #doc #name: #of }
    });
    quote! {
        #[derive(::weft_agent::function::serde::Deserialize, ::weft_agent::function::schemars::JsonSchema)]
        #[serde(crate = "::weft_agent::function::serde")]
        #[schemars(crate = "::weft_agent::function::schemars")]
        struct Arguments { #(#declared),* }
        ::weft_agent::function::tool(#name, #description, |Arguments { #(#names),* }: Arguments| {
            #called(#(#names),*)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(attribute: TokenStream, item: TokenStream) -> String {
        expand(attribute, item).unwrap().to_string()
    }

    fn refused(attribute: TokenStream, item: TokenStream) -> String {
        expand(attribute, item).unwrap_err().to_string()
    }

    #[test]
    fn the_function_is_kept_and_a_tool_added() {
        let item = quote! {
            /// Adds.
            ///
            /// Exactly.
            #[cfg(all())]
            pub async fn add(/** One. */ #[serde(default)] a: i64, #[tool(arg = "Two.")] mut b: i64) -> Result<i64> { Ok(a + b) }
        };
        let text = expanded(TokenStream::new(), item);
        assert!(text.contains("async fn add (a : i64 , mut b : i64)"), "{text}");
        assert!(text.contains("# [cfg (all ())] # [doc") && text.contains("pub fn add_tool ()"), "{text}");
        assert!(text.contains(r#""add" , "Adds.\n\nExactly.""#), "{text}");
        assert!(
            text.contains(r#"# [serde (default)] # [doc = "One."] a : i64 , # [doc = "Two."] b : i64"#),
            "{text}"
        );
        assert!(text.contains("| Arguments { a , b } : Arguments | { add (a , b) }"), "{text}");
    }

    #[test]
    fn name_description_and_struct_can_be_set() {
        let item = quote! { async fn r#move(#[tool(args)] way: Way) -> Result<String> { go(way).await } };
        let text = expanded(quote! { name = "move-it", description = "Moves." }, item);
        assert!(text.contains("fn move_tool ()"), "{text}");
        assert!(
            text.contains(r#"tool ("move-it" , "Moves." , | arguments : Way | r#move (arguments))"#),
            "{text}"
        );
    }

    #[test]
    fn an_unsupported_function_is_refused_with_a_remedy() {
        let check = |attribute: TokenStream, item: TokenStream, expected: &str| {
            let told = refused(attribute, item);
            assert!(told.contains(expected), "{told}");
        };
        let none = TokenStream::new;
        check(none(), quote! { fn f() -> R { r() } }, "`async fn`");
        check(none(), quote! { async fn f() -> R { r() } }, "write a doc comment");
        check(quote! { description = " " }, quote! { async fn f() -> R { r() } }, "write a doc comment");
        check(none(), quote! { async fn f<T>(t: T) -> R { r() } }, "no generic parameters");
        check(none(), quote! { async fn f(&self) -> R { r() } }, "no `self`");
        check(none(), quote! { async fn f((a, b): (u8, u8)) -> R { r() } }, "write one");
        check(none(), quote! { async fn f(a: &str) -> R { r() } }, "owned value");
        check(none(), quote! { async fn f(a: impl Into<String>) -> R { r() } }, "write a type");
        check(none(), quote! { async fn f(#[tool(args)] a: A, b: B) -> R { r() } }, "the only one");
        check(none(), quote! { async fn f(#[tool(what)] a: A) -> R { r() } }, "`arg = \"what it is\"`");
        check(none(), quote! { async fn f() { r() } }, "gives a `Result`");
        check(none(), quote! { struct F; }, "expected `fn`");
        check(quote! { label = "x" }, quote! { async fn f() -> R { r() } }, "`name` and `description`");
        check(quote! { name = "a", name = "b" }, quote! { async fn f() -> R { r() } }, "twice");
        check(quote! { name = "a b" }, quote! { async fn f() -> R { r() } }, "letters, digits");
    }
}
