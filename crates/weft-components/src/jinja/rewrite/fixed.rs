//! Expressions of which it is known what comes of them before the template is given anything.

use super::Token;

/// How many of them are looked at in one template.
pub(super) const FIXED_MAX: usize = 100;
/// Bytes of one that is looked at, at most.
// What an author writes down by hand is short, and to work it out takes no time.
const LENGTH_MAX: usize = 200;

/// Words that may stand in one. Tests, filters and functions may not: what they cost does not follow from their length.
const WORDS: [&str; 12] =
    ["and", "else", "false", "False", "if", "in", "none", "None", "not", "or", "true", "True"];
/// Signs that may.
const SIGNS: [&str; 15] = ["!=", "%", "*", "**", "+", ",", "-", "/", "//", "<", "<=", "==", ">", ">=", "~"];

/// An expression of numbers and texts alone.
#[derive(Debug)]
pub(crate) struct Fixed {
    /// As it is shown.
    pub written: String,
    /// For the template engine.
    pub source: String,
}

/// The expression in what stands between the braces; `keyword` is the first token of a statement.
pub(super) fn expression<'t, 'a>(tokens: &'t [Token<'a>], keyword: Option<&str>) -> &'t [Token<'a>] {
    match keyword {
        None => tokens,
        Some("if" | "elif") => &tokens[1..],
        Some("set") => match tokens.iter().position(|token| token.text() == "=") {
            Some(end) => &tokens[end + 1..],
            None => &[],
        },
        Some(_) => &[],
    }
}

/// Whether nothing in an expression depends on what the template is given.
pub(super) fn is_fixed(expression: &[Token<'_>]) -> bool {
    let length: usize = expression.iter().map(|token| token.text().len()).sum();
    let part = |token: &Token<'_>| match token {
        Token::Atom(text) => {
            text.starts_with(|c: char| c.is_ascii_digit() || c == '\'' || c == '"') || WORDS.contains(text)
        }
        Token::Operator(sign) => SIGNS.contains(sign),
        Token::Open(bracket) | Token::Close(bracket) => matches!(*bracket, "(" | ")" | "[" | "]"),
        Token::Variable(_) => false,
    };
    expression.len() > 1 && length <= LENGTH_MAX && expression.iter().all(part)
}

/// The divisions by a 0 that is written down: they fail whatever is divided.
pub(super) fn by_zero(expression: &[Token<'_>]) -> impl Iterator<Item = String> {
    expression.windows(3).enumerate().filter_map(move |(at, three)| {
        let [left, Token::Operator(sign @ ("/" | "//" | "%")), Token::Atom(zero)] = three else {
            return None;
        };
        let is_zero = zero.starts_with('0') && zero.chars().all(|c| matches!(c, '0' | '.'));
        // A text in which a value is put.
        let is_format = *sign == "%" && left.text().starts_with(['\'', '"']);
        // What binds tighter makes another value of it.
        let next = expression.get(at + 3).map_or("", Token::text);
        let goes_on = matches!(next, "**" | "|" | "." | "[" | "(");
        (left.ends_operand() && is_zero && !is_format && !goes_on).then(|| format!("{sign} {zero}"))
    })
}

/// Tokens as they are shown.
pub(super) fn shown(expression: &[Token<'_>]) -> String {
    expression.iter().map(Token::text).collect::<Vec<_>>().join(" ")
}
