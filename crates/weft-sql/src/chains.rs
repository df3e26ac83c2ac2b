//! Limits the length of SQL expressions. The parser handles `a + b + c` in a loop that does not count towards its depth
//! limit, but the syntax tree is nested once for each operator and is dropped recursively on the stack of the caller.
//! Pure code.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

/// Maximum number of operators and keywords in one expression, and of queries joined into one.
// Far more than anyone writes between two commas, and a small part of the stack of a worker thread.
const CHAIN_MAX: usize = 2_000;

/// Keywords that join two queries into one.
const JOINING: [Keyword; 4] = [Keyword::UNION, Keyword::EXCEPT, Keyword::INTERSECT, Keyword::MINUS];
/// Keywords that do not continue a chain: a `CASE` stores its branches in a list.
const BRANCHING: [Keyword; 3] = [Keyword::WHEN, Keyword::THEN, Keyword::ELSE];

/// An open parenthesis or `CASE`, with the count of the surrounding expression, which continues after it: `f(1, 2) +
/// f(1, 2)` is a single expression.
enum OpenChain {
    Bracket(usize),
    Case(usize),
}

/// Whether an expression in a statement is too long.
pub(crate) fn is_too_long(tokens: &[Token]) -> bool {
    let (mut open, mut count, mut joined) = (Vec::new(), 0_usize, 0_usize);
    for token in tokens {
        match token {
            Token::LParen | Token::LBrace => open.push(OpenChain::Bracket(std::mem::take(&mut count))),
            // After a type, each pair of brackets nests the type before it in an array.
            Token::LBracket => open.push(OpenChain::Bracket(std::mem::take(&mut count) + 1)),
            Token::RParen | Token::RBrace | Token::RBracket => count = closed(&mut open).unwrap_or(count),
            Token::Comma => count = 0,
            Token::Word(word) => match (word.keyword, open.last()) {
                (Keyword::NoKeyword, _) => {}
                (Keyword::CASE, _) => open.push(OpenChain::Case(std::mem::take(&mut count))),
                (Keyword::END, Some(OpenChain::Case(before))) => {
                    count = *before;
                    open.pop();
                }
                (branching, Some(OpenChain::Case(_))) if BRANCHING.contains(&branching) => count = 0,
                (joining, _) if JOINING.contains(&joining) => {
                    // Counted across commas and parentheses, because each query contains lists of its own.
                    joined += 1;
                    count = 0;
                }
                _ => count += 1,
            },
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::Placeholder(_)
            | Token::Period
            | Token::Whitespace(_) => {}
            _ => count += 1,
        }
        if count.max(joined) > CHAIN_MAX {
            return true;
        }
    }
    false
}

/// The count before the parenthesis that is closed; also closes a `CASE` within it that has no `END`.
fn closed(open: &mut Vec<OpenChain>) -> Option<usize> {
    loop {
        if let OpenChain::Bracket(before) = open.pop()? {
            return Some(before);
        }
    }
}
