//! How long an expression of SQL goes on. The parser follows `a + b + c` in a loop and counts no depth there, yet what it
//! makes of it is nested once for each sign, and is let go of level by level on the stack of whoever asked. Pure.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

/// Signs and keywords of one expression, at most; also queries that are joined into one.
// Far more than anybody writes between two commas, and a small part of what the stack of a worker takes.
const CHAIN_MAX: usize = 1_000;

/// What joins two queries into one.
const JOINING: [Keyword; 4] = [Keyword::UNION, Keyword::EXCEPT, Keyword::INTERSECT, Keyword::MINUS];

/// Whether one of the expressions of a statement goes on for too long.
pub fn is_too_long(tokens: &[Token]) -> bool {
    // One count for each bracket that is open, since `f(1, 2) + f(1, 2)` goes on behind it, and one around them all.
    let (mut open, mut count, mut joined) = (Vec::new(), 0_usize, 0_usize);
    for token in tokens {
        match token {
            Token::LParen | Token::LBrace => open.push(std::mem::take(&mut count)),
            // Behind a type each pair makes a list of what stands before it.
            Token::LBracket => open.push(std::mem::take(&mut count) + 1),
            Token::RParen | Token::RBrace | Token::RBracket => count = open.pop().unwrap_or(count),
            Token::Comma => count = 0,
            Token::Word(word) if JOINING.contains(&word.keyword) => {
                // Counted over commas and brackets: each query on its way has lists of its own.
                joined += 1;
                count = 0;
            }
            Token::Word(word) if word.keyword == Keyword::NoKeyword => {}
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
