//! Results of a check.

use std::fmt;

/// Information to print, and problems.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Findings {
    /// One line each.
    pub facts: Vec<String>,
    /// One line each; any of them fails the check.
    pub problems: Vec<String>,
}

impl Findings {
    /// Adds a fact.
    pub(crate) fn fact(&mut self, line: impl Into<String>) {
        self.facts.push(line.into());
    }

    /// Adds a problem.
    pub(crate) fn problem(&mut self, line: impl Into<String>) {
        self.problems.push(line.into());
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.facts {
            writeln!(f, "  {line}")?;
        }
        for line in &self.problems {
            writeln!(f, "  wrong: {line}")?;
        }
        Ok(())
    }
}
