//! Parses the parameters of the attribute.

use proc_macro2::TokenStream;
use syn::parse::Parser as _;
use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Meta, Result};

/// Options of a function.
#[derive(Default)]
pub(crate) struct ToolOptions {
    pub name: Option<LitStr>,
    pub description: Option<LitStr>,
}

impl ToolOptions {
    /// Parses `name = "…", description = "…"`.
    pub(crate) fn read(attribute: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        let parser = syn::meta::parser(|meta| {
            let place = if meta.path.is_ident("name") {
                &mut options.name
            } else if meta.path.is_ident("description") {
                &mut options.description
            } else {
                return Err(meta.error("a tool has `name` and `description`"));
            };
            if place.replace(meta.value()?.parse()?).is_some() {
                return Err(meta.error("it is said twice"));
            }
            Ok(())
        });
        parser.parse2(attribute)?;
        if let Some(name) = options.name.as_ref().filter(|name| !is_function_name(&name.value())) {
            let message = "models know functions by names of up to 64 letters, digits, `_` and `-`";
            return Err(syn::Error::new(name.span(), message));
        }
        Ok(options)
    }
}

fn is_function_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=64).contains(&name.len()) && name.chars().all(letter)
}

/// Option of an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ArgumentOption {
    /// No option.
    #[default]
    None,
    /// Its description.
    Described(String),
    /// It is the struct with all arguments.
    Whole,
}

impl ArgumentOption {
    /// Parses `arg = "…"` or `args`.
    pub(crate) fn read(attribute: &Attribute) -> Result<Self> {
        let mut option = Self::None;
        attribute.parse_nested_meta(|meta| {
            option = if meta.path.is_ident("arg") {
                Self::Described(meta.value()?.parse::<LitStr>()?.value())
            } else if meta.path.is_ident("args") {
                Self::Whole
            } else {
                return Err(meta.error("an argument has `arg = \"what it is\"` or `args`"));
            };
            Ok(())
        })?;
        Ok(option)
    }
}

/// Text of doc comments, without the leading space of each line.
pub(crate) fn doc_of(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    let lines: Vec<String> =
        lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned()).collect();
    lines.join("\n").trim().to_owned()
}
