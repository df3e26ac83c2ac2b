//! The names that a template uses: filters, tests, methods, and variables that it does not define itself.

use std::collections::BTreeSet;

use super::token::Token;
use crate::jinja::loop_members::is_no_member_of_loop;

/// A name that a template uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Named {
    /// `x|name`
    Filter(String),
    /// `x is name`
    Test(String),
    /// `x.name(…)`
    Method(String),
    /// `name(…)`
    Function(String),
    /// `name` or `name.member`
    Variable(String),
}

/// Keywords of expressions.
const WORDS: [&str; 15] = [
    "in",
    "and",
    "or",
    "not",
    "if",
    "elif",
    "else",
    "is",
    "true",
    "false",
    "none",
    "True",
    "False",
    "None",
    "recursive",
];

/// The names of one template.
#[derive(Debug, Default)]
pub(super) struct NamesOfTemplate {
    asked: BTreeSet<Named>,
    /// Names that it defines itself. Scopes are ignored: a name that is defined in one place is not a typo in another.
    made: BTreeSet<String>,
    /// Whether there is a loop, which defines `loop`.
    loops: bool,
}

impl NamesOfTemplate {
    /// Records the names within the braces; `keyword` is the first token of a statement.
    pub(super) fn note(&mut self, tokens: &[Token<'_>], keyword: Option<&str>) {
        self.asked.extend(asked(tokens));
        let end = |mark: &str| tokens.iter().position(|token| token.text() == mark);
        let from = match keyword {
            Some("for") => {
                let end = end("in").unwrap_or(tokens.len());
                self.made.extend(tokens[1..end].iter().filter_map(name).map(str::to_owned));
                self.loops = true;
                end
            }
            // A member of a namespace is not a variable.
            Some("set") if !matches!(tokens.get(2), Some(Token::Operator("."))) => {
                let end = end("=").unwrap_or(tokens.len());
                self.made.extend(tokens[1..end].iter().filter_map(name).map(str::to_owned));
                end
            }
            Some("filter") => {
                let filter = tokens.get(1).and_then(name).map(|name| Named::Filter(name.to_owned()));
                self.asked.extend(filter);
                2
            }
            Some(_) => 1,
            None => 0,
        };
        for at in from..tokens.len() {
            let Some(variable) = variable(tokens, at) else { continue };
            match tokens.get(at + 1) {
                // An argument of a call, or a variable that `with` defines.
                Some(Token::Operator("=")) => {
                    self.made.extend((keyword == Some("with")).then_some(variable));
                }
                Some(Token::Open("(")) => drop(self.asked.insert(Named::Function(variable))),
                _ => drop(self.asked.insert(Named::Variable(variable))),
            }
        }
    }

    /// Returns the names that it uses and does not define.
    pub(super) fn asked_of_others(self) -> BTreeSet<Named> {
        let Self { asked, made, loops } = self;
        let foreign = |named: &Named| match named {
            Named::Variable(path) => {
                let first = path.split('.').next().unwrap_or(path);
                let of_a_loop = loops && first == "loop" && !is_no_member_of_loop(path);
                !made.contains(first) && !of_a_loop
            }
            Named::Filter(_) | Named::Test(_) | Named::Method(_) | Named::Function(_) => true,
        };
        asked.into_iter().filter(foreign).collect()
    }
}

fn name<'a>(token: &Token<'a>) -> Option<&'a str> {
    match token {
        Token::Atom(name) if name.starts_with(|c: char| c.is_alphabetic() || c == '_') => Some(name),
        _ => None,
    }
}

/// Returns the variable at this position with its members, unless the name there is something else.
fn variable(tokens: &[Token<'_>], at: usize) -> Option<String> {
    let text = |back: usize| at.checked_sub(back).map_or("", |place| tokens[place].text());
    let first = name(&tokens[at]).filter(|name| !WORDS.contains(name))?;
    let tested = text(1) == "is" || text(1) == "not" && text(2) == "is";
    if matches!(text(1), "." | "|") || tested {
        return None;
    }
    let mut path = first.to_owned();
    let mut at = at + 1;
    while tokens.get(at) == Some(&Token::Operator("."))
        && tokens.get(at + 2) != Some(&Token::Open("("))
        && let Some(member) = tokens.get(at + 1).and_then(name)
    {
        path = format!("{path}.{member}");
        at += 2;
    }
    Some(path)
}

/// Returns the filter or test that a filter such as `map('upper')` names by a string.
fn named_by_text(call: &[Token<'_>]) -> Option<Named> {
    let [Token::Atom(filter), Token::Open("("), arguments @ ..] = call else { return None };
    let text = |token: &Token<'_>| match token {
        Token::Atom(text) => {
            let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
            Some(text.trim_matches(quote).to_owned())
        }
        _ => None,
    };
    let (named, end) = match (*filter, arguments) {
        ("map" | "select" | "reject", [named, end, ..]) => (named, end),
        ("selectattr" | "rejectattr", [_, Token::Operator(","), named, end, ..]) => (named, end),
        _ => return None,
    };
    // If more follows, it is an expression.
    if !matches!(end, Token::Operator(",") | Token::Close(_)) {
        return None;
    }
    text(named).map(|name| if *filter == "map" { Named::Filter(name) } else { Named::Test(name) })
}

/// Returns the filters, tests and methods that tokens name.
fn asked(tokens: &[Token<'_>]) -> Vec<Named> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let name = |at: usize| tokens.get(at).and_then(name);
        let behind = tokens.get(at + 2);
        if *token == Token::Operator("|") {
            found.extend(named_by_text(&tokens[at + 1..]));
        }
        found.extend(match token {
            // A dotted name is not one of the library's.
            Token::Operator("|") if behind != Some(&Token::Operator(".")) => {
                name(at + 1).map(|name| Named::Filter(name.to_owned()))
            }
            Token::Atom("is") if at > 0 && tokens[at - 1].ends_operand() => {
                let place = if name(at + 1) == Some("not") { at + 2 } else { at + 1 };
                name(place).map(|name| Named::Test(name.to_owned()))
            }
            Token::Operator(".") if behind == Some(&Token::Open("(")) => {
                name(at + 1).map(|name| Named::Method(name.to_owned()))
            }
            _ => None,
        });
    }
    found
}
