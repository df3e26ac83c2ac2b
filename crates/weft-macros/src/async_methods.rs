//! `#[async_trait]`: asynchronous methods of traits that are used as trait objects.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, quote};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Block, Error, FnArg, GenericParam, ImplItem, Item, ItemTrait, Lifetime,
    ParenthesizedGenericArguments, Pat, Result, ReturnType, Signature, TraitItem, Type, TypeBareFn,
    TypeImplTrait, TypeParamBound, TypeReference, WherePredicate, parse_quote,
};

/// The lifetime of the future that a method returns, and of all references that the method is given.
const CALL: &str = "'async_trait";

/// Rewrites the asynchronous methods of a trait or of an implementation of one.
///
/// # Errors
/// For any other item.
pub(crate) fn expand(item: TokenStream) -> Result<TokenStream> {
    match syn::parse2(item)? {
        Item::Trait(mut item) => {
            let is_sync = is_sync(&item);
            for member in &mut item.items {
                let TraitItem::Fn(method) = member else { continue };
                // A method with a body moves `&self` into a future that may be sent to another thread.
                let bound = (!is_sync && method.default.is_some()).then(|| parse_quote!(Self: Sync));
                rewrite(&mut method.attrs, &mut method.sig, method.default.as_mut(), bound);
            }
            Ok(item.into_token_stream())
        }
        Item::Impl(mut item) => {
            for member in &mut item.items {
                let ImplItem::Fn(method) = member else { continue };
                rewrite(&mut method.attrs, &mut method.sig, Some(&mut method.block), None);
            }
            Ok(item.into_token_stream())
        }
        other => Err(Error::new_spanned(other, "`async_trait` is for traits and their implementations")),
    }
}

fn is_sync(item: &ItemTrait) -> bool {
    let is_sync = |bound: &TypeParamBound| match bound {
        TypeParamBound::Trait(bound) => bound.path.is_ident("Sync"),
        _ => false,
    };
    item.supertraits.iter().any(is_sync)
}

/// Turns an asynchronous method into one that returns a boxed future; leaves any other as it is.
fn rewrite(
    attributes: &mut Vec<Attribute>,
    signature: &mut Signature,
    body: Option<&mut Block>,
    bound: Option<WherePredicate>,
) {
    if signature.asyncness.take().is_none() {
        return;
    }
    let mut lifetimes = CallLifetimes::default();
    let mut is_by_value = false;
    for input in &mut signature.inputs {
        match input {
            FnArg::Receiver(receiver) => match &mut receiver.reference {
                Some((_, lifetime)) => lifetimes.of_reference(lifetime),
                None => {
                    is_by_value = true;
                    lifetimes.visit_type_mut(&mut receiver.ty);
                }
            },
            FnArg::Typed(input) => lifetimes.visit_type_mut(&mut input.ty),
        }
    }
    let call = Lifetime::new(CALL, Span::call_site());
    let mut outlive: Vec<WherePredicate> = bound.into_iter().collect();
    if is_by_value {
        outlive.push(parse_quote!(Self: #call));
    }
    for parameter in &signature.generics.params {
        if let GenericParam::Type(parameter) = parameter {
            let name = &parameter.ident;
            outlive.push(parse_quote!(#name: #call));
        }
    }
    outlive.extend(lifetimes.named.iter().chain(&lifetimes.fresh).map(|named| parse_quote!(#named: #call)));
    for lifetime in lifetimes.fresh.iter().chain([&call]) {
        signature.generics.params.push(parse_quote!(#lifetime));
    }
    if !outlive.is_empty() {
        signature.generics.make_where_clause().predicates.extend(outlive);
    }
    let answer: Type = match &signature.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, answer) => (**answer).clone(),
    };
    signature.output = parse_quote! {
        -> ::core::pin::Pin<::std::boxed::Box<
            dyn ::core::future::Future<Output = #answer> + ::core::marker::Send + #call
        >>
    };
    attributes.push(parse_quote! {
        #[allow(clippy::diverging_sub_expression, clippy::let_unit_value, clippy::redundant_locals, clippy::semicolon_if_nothing_returned,
            clippy::type_complexity, clippy::used_underscore_binding)]
    });
    if let Some(body) = body {
        *body = boxed(signature, &answer, body);
    }
}

/// Returns a body that returns `body` as a future.
fn boxed(signature: &mut Signature, answer: &Type, body: &Block) -> Block {
    let inputs = signature.inputs.iter_mut().filter_map(owned_input);
    let moved: Vec<TokenStream> = inputs.collect();
    // It is never executed. It tells the compiler the type of the block, which `return` and `?` inside it need.
    let typed = quote! {
        if let ::core::option::Option::Some(answer) = ::core::option::Option::None::<#answer> {
            #[allow(unreachable_code)]
            return answer;
        }
    };
    parse_quote!({
        ::std::boxed::Box::pin(async move {
            #typed
            #(#moved)*
            let answer: #answer = #body;
            #[allow(unreachable_code)]
            answer
        })
    })
}

/// Returns the statement that moves an argument into the future even if the body does not mention it: a guard that is
/// passed to a method is held until the method has ended. `None` for what need not be moved.
fn owned_input(input: &mut FnArg) -> Option<TokenStream> {
    let FnArg::Typed(input) = input else { return None };
    if matches!(*input.ty, Type::Reference(_)) {
        return None;
    }
    let Pat::Ident(pattern) = &mut *input.pat else { return None };
    let (mutability, name) = (pattern.mutability.take(), &pattern.ident);
    Some(quote!(let #mutability #name = #name;))
}

/// Gives lifetimes to the references in the arguments of a method.
#[derive(Default)]
struct CallLifetimes {
    /// The lifetimes that the method names itself.
    named: Vec<Lifetime>,
    /// The lifetimes that are made up.
    fresh: Vec<Lifetime>,
    /// Within how many `&mut` the visited type stands.
    mutable: usize,
}

impl CallLifetimes {
    fn of_reference(&mut self, lifetime: &mut Option<Lifetime>) {
        match lifetime {
            Some(lifetime) => self.visit_lifetime_mut(lifetime),
            None => *lifetime = Some(self.elided(Span::call_site())),
        }
    }

    /// The lifetime of the call will do for everything but what is behind `&mut`: a caller cannot shorten the lifetimes
    /// of what can be exchanged.
    fn elided(&mut self, span: Span) -> Lifetime {
        if self.mutable == 0 {
            return Lifetime::new(CALL, span);
        }
        let lifetime = Lifetime::new(&format!("'inner{}", self.fresh.len()), span);
        self.fresh.push(lifetime.clone());
        lifetime
    }
}

impl VisitMut for CallLifetimes {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = self.elided(lifetime.span());
        } else if lifetime.ident != "static" && !self.named.contains(lifetime) {
            self.named.push(lifetime.clone());
        }
    }

    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        self.of_reference(&mut reference.lifetime);
        let is_mutable = usize::from(reference.mutability.is_some());
        self.mutable += is_mutable;
        self.visit_type_mut(&mut reference.elem);
        self.mutable -= is_mutable;
    }

    fn visit_type_impl_trait_mut(&mut self, bounds: &mut TypeImplTrait) {
        visit_mut::visit_type_impl_trait_mut(self, bounds);
        let call = Lifetime::new(CALL, Span::call_site());
        bounds.bounds.push(TypeParamBound::Lifetime(call));
    }

    // References among the arguments of functions have the lifetime of the call of those functions.
    fn visit_type_bare_fn_mut(&mut self, _function: &mut TypeBareFn) {}

    fn visit_parenthesized_generic_arguments_mut(&mut self, _function: &mut ParenthesizedGenericArguments) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(item: TokenStream) -> String {
        expand(item).unwrap().to_string().split_whitespace().collect()
    }

    #[test]
    fn all_references_have_the_lifetime_of_the_call() {
        let code = expanded(quote! {
            trait Store: Send + Sync {
                async fn get(&self, id: &str, view: View<'_>) -> Result<(), Error>;
                fn name(&self) -> &str;
            }
        });
        let expected = "fnget<'async_trait>(&'async_traitself,id:&'async_traitstr,view:View<'async_trait>)";
        assert!(code.contains(expected), "{code}");
        assert!(!code.contains("where"), "a bound makes the compiler check every future anew: {code}");
        assert!(code.contains("fnname(&self)->&str;"), "{code}");
    }

    #[test]
    fn what_is_behind_a_mutable_reference_has_a_lifetime_of_its_own() {
        let code = expanded(quote! {
            impl Visitor for Log {
                async fn visit(&self, state: &mut State<'_>, next: &dyn Fn(&str) -> bool) {}
            }
        });
        assert!(code.contains("state:&'async_traitmutState<'inner0>"), "{code}");
        assert!(code.contains("next:&'async_traitdynFn(&str)->bool"), "{code}");
        assert!(code.contains("where'inner0:'async_trait"), "{code}");
    }

    #[test]
    fn names_of_the_method_outlive_its_call() {
        let code = expanded(quote! {
            impl<'a> Visitor<'a> for Log {
                async fn visit<T: Send>(self, item: T, name: &'a str, to: &'static str, by: impl Fn() + Send) {}
            }
        });
        assert!(code.contains("whereSelf:'async_trait,T:'async_trait,'a:'async_trait"), "{code}");
        assert!(!code.contains("'static:"), "{code}");
        assert!(code.contains("by:implFn()+Send+'async_trait"), "{code}");
    }

    #[test]
    fn a_default_body_needs_a_trait_that_can_be_shared() {
        let body = quote!(
            async fn run(&self) {}
        );
        let code = expanded(quote!(trait Work { #body async fn stop(&self); }));
        assert_eq!(code.matches("whereSelf:Sync").count(), 1, "{code}");
        let code = expanded(quote!(trait Work: Sync { #body }));
        assert!(!code.contains("where"), "{code}");
    }

    #[test]
    fn another_item_is_refused() {
        let error = expand(quote!(
            struct Work;
        ))
        .unwrap_err()
        .to_string();
        assert_eq!(error, "`async_trait` is for traits and their implementations");
    }
}
