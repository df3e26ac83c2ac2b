//! How far down the engine goes for a template.
//!
//! Its reader, its compiler and whatever frees its trees go down once for each operator of a chain and once for each
//! `elif`, without an end. A stack that is too short for that ends the whole process, which no limit on time, steps or
//! memory prevents: it has to be known before the engine sees the template.

use weft_core::{Error, Result};

use super::Token;

/// How deep brackets may nest.
pub(super) const NESTING_MAX: usize = 40;
/// Operators, members, filters and calls that apply to one value, with those around its brackets, at most.
// Each is up to four levels once the charges are put in.
pub(super) const CHAIN_MAX: usize = 150;
/// Branches within one another, at most: an `if`, and each of its `elif`s.
pub(super) const BRANCHES_MAX: usize = 100;

/// Words that are operators.
const OPERATORS: [&str; 7] = ["and", "else", "if", "in", "is", "not", "or"];

/// The operators that are open at some place of a block.
#[derive(Debug, Default)]
pub(super) struct Descent {
    /// Those before each bracket that is open, in it.
    around: Vec<usize>,
    /// Those since the last bracket or comma.
    here: usize,
}

impl Descent {
    /// How many brackets are open.
    pub(super) fn nesting(&self) -> usize {
        self.around.len()
    }

    /// Goes on by a token.
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
            // What follows is beside what came before, and not below it.
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
            return Err(Error::invalid(message).help("work parts of it out before, with `{% set %}`"));
        }
        Ok(())
    }
}

/// The branches that are open at some place of a template: how many each `if` has so far.
#[derive(Debug, Default)]
pub(super) struct Branches(Vec<usize>);

impl Branches {
    /// Goes on by a statement.
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
        let message = format!("the Jinja template has more than {BRANCHES_MAX} branches within one another");
        Err(Error::invalid(message).help("look values up in a table: `{% set names = {'a': 'b'} %}`"))
    }
}
