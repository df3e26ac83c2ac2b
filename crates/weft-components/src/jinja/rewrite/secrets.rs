//! What a template may do with a secret: write it as it is, alone or joined to text.
//!
//! A transformed value (a filter, a slice, a comparison per character) is not recognized by what masks secrets, and would
//! be shown and stored in clear.

use std::collections::HashMap;

use weft_core::{Error, Reference};

use super::token::Token;

/// The variables that stand for secrets.
pub(super) type SecretVariables = HashMap<String, Reference>;

/// Words that compute something else from the values beside them.
const WORDS: [&str; 7] = ["and", "else", "if", "in", "is", "not", "or"];

/// Returns the first secret that tokens contain.
pub(super) fn first<'s>(tokens: &[Token<'_>], secrets: &'s SecretVariables) -> Option<&'s Reference> {
    tokens.iter().find_map(|token| match token {
        Token::Variable(name) => secrets.get(name),
        _ => None,
    })
}

/// Returns the first secret of an expression, unless the expression only joins its secrets to other values.
pub(super) fn transformed<'s>(tokens: &[Token<'_>], secrets: &'s SecretVariables) -> Option<&'s Reference> {
    let secret = first(tokens, secrets)?;
    let joins = |beside: Option<&Token<'_>>| matches!(beside, None | Some(Token::Operator("~" | "+")));
    let mut depth = 0_usize;
    let is_joined = tokens.iter().enumerate().all(|(at, token)| match token {
        Token::Open(_) => {
            depth += 1;
            true
        }
        Token::Close(_) => {
            depth = depth.saturating_sub(1);
            true
        }
        Token::Variable(name) if secrets.contains_key(name) => {
            let before = at.checked_sub(1).and_then(|before| tokens.get(before));
            depth == 0 && joins(before) && joins(tokens.get(at + 1))
        }
        // Members and filters bind tighter than the joining operators: they belong to the other values.
        Token::Operator(sign) => depth > 0 || matches!(*sign, "~" | "+" | "." | "|"),
        Token::Atom(word) => depth > 0 || !WORDS.contains(word),
        Token::Variable(_) => true,
    });
    (!is_joined).then_some(secret)
}

/// The error for a secret that is used in another way.
pub(super) fn refused(secret: &Reference) -> Error {
    Error::invalid(format!(
        "the Jinja template transforms or tests `{secret}`, and the result would be shown in clear"
    ))
    .help("use the secret as it is: write it, or join it to text with `~`, outside of `filter` and other statements")
}
