//! Limits how deep the engine recurses for a template.
//!
//! Its parser, its compiler and the code that drops its trees recurse once for each operator of a chain and once for
//! each `elif`, without a limit. A stack overflow would end the whole process, and no limit on time, steps or memory
//! prevents it: the depth has to be known before the engine sees the template.

use weft_core::{Error, Result};

use super::token::Token;

/// Maximum nesting depth of brackets.
pub(super) const NESTING_MAX: usize = 40;
/// Maximum number of operators, members, filters and calls that apply to one value, including those around its
/// brackets.
// Each takes up to four levels once the charges are inserted.
pub(super) const CHAIN_MAX: usize = 150;
/// Maximum number of nested branches: an `if`, and each of its `elif`s.
pub(super) const BRANCHES_MAX: usize = 100;

/// Words that are operators.
const OPERATORS: [&str; 7] = ["and", "else", "if", "in", "is", "not", "or"];

/// The operators that are open at some position in a block.
#[derive(Debug, Default)]
pub(super) struct Descent {
    /// Number of operators before each open bracket, within the enclosing one.
    around: Vec<usize>,
    /// Number of operators since the last bracket or comma.
    here: usize,
}

impl Descent {
    /// Returns how many brackets are open.
    pub(super) fn nesting(&self) -> usize {
        self.around.len()
    }

    /// Advances by a token.
    ///
    /// # Errors
    /// `Invalid` when it is too deep.
    pub(super) fn note(&mut self, token: &Token<'_>) -> Result<()> {
        match token {
            Token::Open(_) => {
                self.around.push(self.here + 1);
                self.here = 0;
            }
            Token::Close(_) => self.here = self.around.pop().unwrap_or(self.here),
            // What follows is next to what came before, and not below it.
            Token::Operator("," | ":") => self.here = 0,
            Token::Operator(_) => self.here += 1,
            Token::Atom(word) => self.here += usize::from(OPERATORS.contains(word)),
            Token::Variable(_) => {}
        }
        if self.nesting() > NESTING_MAX {
            let message = format!("the Jinja template nests more than {NESTING_MAX} brackets deep");
            return Err(Error::invalid(message));
        }
        if self.around.iter().sum::<usize>() + self.here > CHAIN_MAX {
            let message = format!("the Jinja template has more than {CHAIN_MAX} operators in one expression");
            return Err(Error::invalid(message).help("compute parts of it first with `{% set %}`"));
        }
        Ok(())
    }
}

/// The branches that are open at some position in a template: the number of branches of each `if` so far.
#[derive(Debug, Default)]
pub(super) struct Branches(Vec<usize>);

impl Branches {
    /// Advances by a statement.
    ///
    /// # Errors
    /// `Invalid` when it is too deep.
    pub(super) fn note(&mut self, statement: &str) -> Result<()> {
        match statement {
            "if" => self.0.push(1),
            "elif" => {
                if let Some(branches) = self.0.last_mut() {
                    *branches += 1;
                }
            }
            "endif" => {
                self.0.pop();
            }
            _ => return Ok(()),
        }
        if self.0.iter().sum::<usize>() <= BRANCHES_MAX {
            return Ok(());
        }
        let message = format!("the Jinja template has more than {BRANCHES_MAX} nested branches");
        Err(Error::invalid(message).help("look values up in a table: `{% set names = {'a': 'b'} %}`"))
    }
}
