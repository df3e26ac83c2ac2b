//! How long an expression of SQL goes on. The parser follows `a + b + c` in a loop and counts no depth there, yet what it
//! makes of it is nested once for each sign, and is let go of level by level on the stack of whoever asked. Pure.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

/// Signs and keywords of one expression, at most; also queries that are joined into one.
// Far more than anybody writes between two commas, and a small part of what the stack of a worker takes.
const CHAIN_MAX: usize = 2_000;

/// What joins two queries into one.
const JOINING: [Keyword; 4] = [Keyword::UNION, Keyword::EXCEPT, Keyword::INTERSECT, Keyword::MINUS];
/// Between what stands on both sides of these there is no chain: a `CASE` keeps its branches in a list.
const BRANCHING: [Keyword; 3] = [Keyword::WHEN, Keyword::THEN, Keyword::ELSE];

/// What is open, with the count of the expression that goes on behind it: `f(1, 2) + f(1, 2)` is one.
enum Opened {
    Bracket(usize),
    Case(usize),
}

/// Whether one of the expressions of a statement goes on for too long.
pub(crate) fn is_too_long(tokens: &[Token]) -> bool {
    let (mut open, mut count, mut joined) = (Vec::new(), 0_usize, 0_usize);
    for token in tokens {
        match token {
            Token::LParen | Token::LBrace => open.push(Opened::Bracket(std::mem::take(&mut count))),
            // Behind a type each pair makes a list of what stands before it.
            Token::LBracket => open.push(Opened::Bracket(std::mem::take(&mut count) + 1)),
            Token::RParen | Token::RBrace | Token::RBracket => count = closed(&mut open).unwrap_or(count),
            Token::Comma => count = 0,
            Token::Word(word) => match (word.keyword, open.last()) {
                (Keyword::NoKeyword, _) => {}
                (Keyword::CASE, _) => open.push(Opened::Case(std::mem::take(&mut count))),
                (Keyword::END, Some(Opened::Case(before))) => {
                    count = *before;
                    open.pop();
                }
                (branching, Some(Opened::Case(_))) if BRANCHING.contains(&branching) => count = 0,
                (joining, _) if JOINING.contains(&joining) => {
                    // Counted over commas and brackets: each query on its way has lists of its own.
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

/// The count before the bracket that is closed; a `CASE` in it without an end is over, too.
fn closed(open: &mut Vec<Opened>) -> Option<usize> {
    loop {
        if let Opened::Bracket(before) = open.pop()? {
            return Some(before);
        }
    }
}
