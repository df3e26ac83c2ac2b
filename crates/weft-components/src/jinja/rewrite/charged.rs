//! Writes the tokens of a block with charges on whatever is retained.

use super::token::Token;

/// Filters that build about as much as they are given.
const COPYING: [&str; 20] = [
    "capitalize",
    "dictsort",
    "e",
    "escape",
    "items",
    "list",
    "lower",
    "map",
    "reject",
    "rejectattr",
    "reverse",
    "select",
    "selectattr",
    "sort",
    "string",
    "title",
    "trim",
    "unique",
    "upper",
    "urlencode",
];

/// Charges for reading the operand before it.
const READ: &str = "| weft_read ";

/// Operators that may read all of the operand before them.
const READING: [&str; 7] = ["is", "==", "!=", "<", "<=", ">", ">="];

/// Writes tokens with the charges inserted. Its recursion depth and lookahead are bounded by [`super::descent`].
pub(super) fn write(tokens: &[Token<'_>], out: &mut String) {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if is_text(token) && tokens.get(at + 1) == Some(&Token::Operator("%")) {
            let end = operand_end(tokens, at + 2);
            out.push_str(&format!("weft_printf({}, ", token.text()));
            write_charged(&tokens[at + 2..end], out);
            out.push_str(") ");
            at = end;
            continue;
        }
        let operand_before = at > 0 && tokens[at - 1].ends_operand();
        // The left operand of an append is copied, too.
        if !operand_before && !is_literal(token) {
            let end = operand_end(tokens, at);
            if matches!(tokens.get(end), Some(Token::Operator("~" | "+"))) {
                write(&tokens[at..end], out);
                out.push_str(READ);
                at = end;
                continue;
            }
        }
        let wrap = match token.text() {
            "~" | "+" => Some((token.text(), "weft_cost(", ") ")),
            // A text cannot be repeated a negative number of times, so that only a number gets past this.
            "*" if operand_before => Some(("* -1 * -1 *", "weft_number(", ") ")),
            // What may be long is the container that is searched, not the value that is searched for.
            "in" if operand_before || is_not_in(tokens, at) => Some(("in", "", READ)),
            _ => None,
        };
        if operand_before && READING.contains(&token.text()) {
            out.push_str(READ);
        }
        at += 1;
        if let Some((operator, before, after)) = wrap {
            let end = operand_end(tokens, at);
            out.push_str(operator);
            out.push(' ');
            out.push_str(before);
            write(&tokens[at..end], out);
            out.push_str(after);
            at = end;
        } else if let Token::Open(open) = token {
            let end = group_end(tokens, at - 1);
            out.push_str(if operand_before { "" } else { "weft_cost(" });
            out.push_str(open);
            let members = &tokens[at..end.saturating_sub(1).max(at)];
            match slice_from(members).filter(|_| operand_before && *open == "[") {
                Some(colon) => write_slice(members, colon, out),
                None if operand_before && *open == "(" => write_each(members, out, write_argument),
                None => write_members(members, out),
            }
            if let Some(Token::Close(close)) = tokens.get(end.saturating_sub(1)) {
                out.push_str(close);
            }
            out.push_str(if operand_before { " " } else { ") " });
            at = end;
        } else {
            out.push_str(token.text());
            out.push(' ');
            if token.text() == "|"
                && let Some(name) = tokens.get(at)
            {
                write_charge(name.text(), out);
            }
        }
    }
}

/// Writes the filter that charges for the filter of this name.
fn write_charge(name: &str, out: &mut String) {
    if COPYING.contains(&name) {
        out.push_str(&format!("weft_filter('{name}') | "));
    } else {
        out.push_str("weft_read | ");
    }
}

/// Writes a `filter` block's tag.
pub(super) fn write_filter(tokens: &[Token<'_>], out: &mut String) {
    let (statement, chain) = tokens.split_at(tokens.len().min(1));
    write(statement, out);
    if let Some(name) = chain.first() {
        write_charge(name.text(), out);
    }
    write(chain, out);
}

/// Whether a token is a string literal.
fn is_text(token: &Token<'_>) -> bool {
    matches!(token, Token::Atom(text) if text.starts_with(['\'', '"']))
}

/// Whether a token is a string or number literal.
fn is_literal(token: &Token<'_>) -> bool {
    matches!(token, Token::Atom(text) if text.starts_with(|c: char| c == '\'' || c == '"' || c.is_ascii_digit()))
}

/// Writes a `for` with its list in a call that charges for iterating over it.
pub(super) fn write_loop(tokens: &[Token<'_>], out: &mut String) {
    let Some(from) = tokens.iter().position(|token| token.text() == "in") else {
        return write(tokens, out);
    };
    let list = &tokens[from + 1..];
    let mut depth = 0_usize;
    let condition = list.iter().position(|token| {
        match token {
            Token::Open(_) => depth += 1,
            Token::Close(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token.text() == "if"
    });
    let (list, condition) = list.split_at(condition.unwrap_or(list.len()));
    write(&tokens[..from], out);
    out.push_str("in weft_each(");
    write(list, out);
    out.push_str(") ");
    write(condition, out);
}

/// Whether the `in` at `at` is part of `not in`.
fn is_not_in(tokens: &[Token<'_>], at: usize) -> bool {
    at > 1 && tokens[at - 1].text() == "not" && tokens[at - 2].ends_operand()
}

/// Returns the position of the first colon of a slice, within its brackets.
fn slice_from(members: &[Token<'_>]) -> Option<usize> {
    let mut depth = 0_usize;
    members.iter().position(|token| {
        match token {
            Token::Open(_) => depth += 1,
            Token::Close(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(token, Token::Operator(":"))
    })
}

/// Writes the inside of `value[from:to:step]`. Slicing a text scans all of it, and a filter cannot be followed by
/// brackets, so the charge is a call around `from`, which cannot see the text and assumes the longest one there is.
fn write_slice(members: &[Token<'_>], colon: usize, out: &mut String) {
    out.push_str("weft_slice(");
    // A slice may have no start, but the call needs an argument.
    if colon == 0 {
        out.push_str("none");
    }
    write(&members[..colon], out);
    out.push_str("): ");
    write_members(&members[colon + 1..], out);
}

/// Writes the content of brackets: members separated by commas or colons, each charged.
pub(super) fn write_members(tokens: &[Token<'_>], out: &mut String) {
    write_each(tokens, out, write_member);
}

/// Writes the content of brackets, each member by `one`.
fn write_each(tokens: &[Token<'_>], out: &mut String, one: fn(&[Token<'_>], &mut String)) {
    let mut depth = 0_usize;
    let mut from = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Open(_) => depth += 1,
            Token::Close(_) => depth = depth.saturating_sub(1),
            Token::Operator(sign @ ("," | ":")) if depth == 0 => {
                one(&tokens[from..at], out);
                out.push_str(sign);
                out.push(' ');
                from = at + 1;
            }
            _ => {}
        }
    }
    one(&tokens[from..], out);
}

/// Writes an argument of a call, which may scan it even if it is a single name.
fn write_argument(tokens: &[Token<'_>], out: &mut String) {
    match tokens {
        [Token::Operator(spread @ ("*" | "**")), value @ ..] => {
            out.push_str(spread);
            out.push_str("weft_cost(");
            write(value, out);
            out.push_str(") ");
        }
        [name, equals @ Token::Operator("="), value @ ..] => {
            out.push_str(name.text());
            out.push_str(equals.text());
            write_argument(value, out);
        }
        [value] if !is_literal(value) => {
            write(tokens, out);
            out.push_str(READ);
        }
        value => write_member(value, out),
    }
}

/// Writes one member; of `name=value` the value is charged.
fn write_member(tokens: &[Token<'_>], out: &mut String) {
    match tokens {
        [Token::Operator("*" | "**"), ..] => write(tokens, out),
        [name, equals @ Token::Operator("="), value @ ..] => {
            out.push_str(name.text());
            out.push_str(equals.text());
            write_charged(value, out);
        }
        value => write_charged(value, out),
    }
}

/// Writes a value with a charge on it. A single name or literal builds nothing new.
pub(super) fn write_charged(tokens: &[Token<'_>], out: &mut String) {
    if tokens.len() < 2 {
        return write(tokens, out);
    }
    out.push_str("weft_cost(");
    write(tokens, out);
    out.push_str(") ");
}

/// Returns where the group that opens at `at` ends.
fn group_end(tokens: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(at) {
        match token {
            Token::Open(_) => depth += 1,
            Token::Close(_) if depth <= 1 => return place + 1,
            Token::Close(_) => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Returns where the operand that begins at `at` ends: signs, a value, then members, calls, filters and powers, which
/// all bind tighter than the operators that are wrapped.
fn operand_end(tokens: &[Token<'_>], mut at: usize) -> usize {
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.text() == text);
    loop {
        while is(at, "-") || is(at, "not") {
            at += 1;
        }
        at = if matches!(tokens.get(at), Some(Token::Open(_))) { group_end(tokens, at) } else { at + 1 };
        loop {
            if is(at, ".") || is(at, "|") {
                at += 2;
            } else if is(at, "(") || is(at, "[") {
                at = group_end(tokens, at);
            } else {
                break;
            }
        }
        if !is(at, "**") {
            return at.min(tokens.len());
        }
        at += 1;
    }
}
