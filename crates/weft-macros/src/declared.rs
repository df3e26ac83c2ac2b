//! Validates the declaration of a function and extracts its arguments.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::{Attribute, Error, FnArg, Ident, ItemFn, Pat, PatType, Result, ReturnType, Signature, Type};

use crate::options::{ArgumentOption, doc_of};

/// An argument of a tool function.
pub(crate) struct Argument {
    pub name: Ident,
    pub of: Type,
    /// Its description for the model; empty if there is none.
    pub description: String,
    /// Its serde and schemars attributes, as on a struct field.
    pub attributes: Vec<Attribute>,
}

/// How a tool passes arguments to its function.
pub(crate) enum Arguments {
    /// Each argument separately.
    Fields(Vec<Argument>),
    /// As one struct defined by the program.
    Struct(Box<Type>),
}

/// Extracts the arguments from a function and removes the macro's attributes from its declaration.
pub(crate) fn take_arguments(function: &mut ItemFn) -> Result<Arguments> {
    check(&function.sig)?;
    let count = function.sig.inputs.len();
    let mut fields = Vec::with_capacity(count);
    for input in &mut function.sig.inputs {
        let FnArg::Typed(input) = input else {
            return Err(Error::new(input.span(), "a tool is a function of its own and takes no `self`"));
        };
        let (argument, option) = take_argument(input)?;
        match option {
            ArgumentOption::Whole if count == 1 => return Ok(Arguments::Struct(Box::new(argument.of))),
            ArgumentOption::Whole => {
                let message = "`args` is the struct of all arguments, so it is the only one";
                return Err(Error::new(argument.name.span(), message));
            }
            ArgumentOption::None | ArgumentOption::Described(_) => fields.push(argument),
        }
    }
    Ok(Arguments::Fields(fields))
}

fn check(signature: &Signature) -> Result<()> {
    let refuse = |span: Span, message: &str| Err(Error::new(span, message));
    if signature.asyncness.is_none() {
        return refuse(signature.fn_token.span, "a tool is an `async fn`");
    }
    if !signature.generics.params.is_empty() {
        let message = "a tool has one schema, so its function has no generic parameters";
        return refuse(signature.generics.span(), message);
    }
    if let ReturnType::Default = signature.output {
        return refuse(signature.ident.span(), "a tool gives a `Result` with what the model is told");
    }
    Ok(())
}

fn take_argument(input: &mut PatType) -> Result<(Argument, ArgumentOption)> {
    let Pat::Ident(name) = &*input.pat else {
        return Err(Error::new(input.pat.span(), "the model knows an argument by its name: write one"));
    };
    if let Type::Reference(borrowed) = &*input.ty {
        let message = "arguments come from a model's JSON: take an owned value, such as a `String`";
        return Err(Error::new(borrowed.span(), message));
    }
    if let Type::ImplTrait(of) = &*input.ty {
        return Err(Error::new(of.span(), "a tool has one schema: write a type"));
    }
    let mut option = ArgumentOption::None;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("tool")) {
        option = ArgumentOption::read(attribute)?;
    }
    let description = match &option {
        ArgumentOption::Described(words) => words.clone(),
        ArgumentOption::None | ArgumentOption::Whole => doc_of(&input.attrs),
    };
    let ours = |attribute: &Attribute| {
        ["tool", "doc", "serde", "schemars"].iter().any(|name| attribute.path().is_ident(name))
    };
    let field =
        |attribute: &&Attribute| ["serde", "schemars"].iter().any(|name| attribute.path().is_ident(name));
    let attributes = input.attrs.iter().filter(field).cloned().collect();
    input.attrs.retain(|attribute| !ours(attribute));
    let (name, of) = (name.ident.clone(), (*input.ty).clone());
    Ok((Argument { name, of, description, attributes }, option))
}
