//! Expressions whose value is known without any input.

use super::token::Token;

/// Maximum number of them that are checked in a template.
// Each of them is compiled and evaluated whenever the canvas is checked.
pub(super) const FIXED_MAX: usize = 100;
/// Maximum number of bytes in an expression that is checked.
// What an author writes by hand is short, and takes no time to evaluate.
const LENGTH_MAX: usize = 200;

/// Words that such an expression may contain. Tests, filters and functions are excluded: their cost does not follow
/// from their length.
const WORDS: [&str; 12] =
    ["and", "else", "false", "False", "if", "in", "none", "None", "not", "or", "true", "True"];
/// Operators that it may contain.
const SIGNS: [&str; 15] = ["!=", "%", "*", "**", "+", ",", "-", "/", "//", "<", "<=", "==", ">", ">=", "~"];

/// An expression that consists only of numbers and texts.
#[derive(Debug)]
pub(crate) struct Fixed {
    /// Its form for display.
    pub written: String,
    /// Its source for the template engine.
    pub source: String,
}

/// Returns the expression within the braces; `keyword` is the first token of a statement.
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

/// Whether nothing in an expression depends on the input.
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

/// Returns the divisions by a literal 0: they fail whatever the dividend is.
pub(super) fn by_zero(expression: &[Token<'_>]) -> impl Iterator<Item = String> {
    expression.windows(3).enumerate().filter_map(move |(at, three)| {
        let [left, Token::Operator(sign @ ("/" | "//" | "%")), Token::Atom(zero)] = three else {
            return None;
        };
        let is_zero = zero.starts_with('0') && zero.chars().all(|c| matches!(c, '0' | '.'));
        // A `%` after a text is formatting.
        let is_format = *sign == "%" && left.text().starts_with(['\'', '"']);
        // An operator that binds tighter makes another value of it.
        let next = expression.get(at + 3).map_or("", Token::text);
        let goes_on = matches!(next, "**" | "|" | "." | "[" | "(");
        (left.ends_operand() && is_zero && !is_format && !goes_on).then(|| format!("{sign} {zero}"))
    })
}

/// Returns tokens in their form for display.
pub(super) fn shown(expression: &[Token<'_>]) -> String {
    expression.iter().map(Token::text).collect::<Vec<_>>().join(" ")
}
