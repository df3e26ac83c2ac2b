//! Finds paths into `sys.*` and `env.*` that lead to nothing in any run.

use std::cell::Cell;
use std::iter::Peekable;
use std::str::Split;

use serde_json::Map;
use weft_core::suggest::misspelled;
use weft_core::{Json, Reference};

use crate::assigned::Assigned;
use crate::canvas::Canvas;
use crate::paths::prefixes;
use crate::problem::{Problem, ProblemList};
use crate::references::{NodeText, ReferencesWritten};

/// Maximum number of paths followed per canvas: each may lead into a text that has to be parsed.
const LOOKS_MAX: usize = 1_000;
/// Longer texts are not parsed.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Maximum number of members compared with a name.
const COMPARED_MAX: usize = 64;

/// The globals of a canvas, some of which never change.
pub(crate) struct GlobalWays<'a> {
    canvas: &'a Canvas,
    globals: &'a Map<String, Json>,
    assigned: &'a Assigned<'a>,
    looks_left: Cell<usize>,
}

/// A step of a path that leads to nothing.
struct LostStep {
    /// The path up to the step, such as `sys.files.0`.
    from: String,
    /// What the value there is.
    is: &'static str,
    /// The step.
    step: String,
    /// What to write instead.
    instead: String,
}

impl<'a> GlobalWays<'a> {
    /// Creates the check for the globals of a new session.
    pub(crate) fn new(
        canvas: &'a Canvas,
        globals: &'a Map<String, Json>,
        assigned: &'a Assigned<'a>,
    ) -> Self {
        Self { canvas, globals, assigned, looks_left: Cell::new(LOOKS_MAX) }
    }

    /// Reports a node's paths that lead to nothing.
    pub(crate) fn check<'r>(
        &self,
        text: NodeText<'_>,
        read: impl Iterator<Item = &'r Reference>,
        problems: &mut ProblemList,
    ) {
        let mut lost: Vec<(&Reference, LostStep)> = Vec::new();
        for reference in read {
            let Reference::Global(name) = reference else { continue };
            if lost.iter().all(|(known, _)| *known != reference)
                && let Some(step) = self.lost(name)
            {
                lost.push((reference, step));
            }
        }
        if lost.is_empty() {
            return;
        }
        let written = ReferencesWritten::of(self.canvas, text);
        for (reference, LostStep { from, is, step, instead }) in lost {
            let name = reference.to_string();
            let (pointer, owner) = (written.place(&name), written.owner(&name));
            let message = format!("`{reference}` is empty: `{from}` is {is} and has no member `{step}`");
            let problem = Problem::warning("unknown-global", pointer, message);
            problems.add(problem.help(format!("write `{instead}`")).about(&owner.id, &owner.name));
        }
    }

    fn lost(&self, name: &str) -> Option<LostStep> {
        // The longest one: `env.a.b` may be declared next to `env.a`.
        let variable = prefixes(name).filter(|prefix| self.globals.contains_key(*prefix)).last()?;
        let steps = || name[variable.len() + 1..].split('.');
        if self.globals.contains_key(name) || self.assigned.may_change(variable) {
            return None;
        }
        let left = self.looks_left.get().checked_sub(1)?;
        self.looks_left.set(left);
        let at = |is, step: &str, instead: String| {
            Some(LostStep { from: variable.to_owned(), is, step: step.to_owned(), instead })
        };
        match variable {
            "sys.conversation_turns" => at("a number", steps().next()?, variable.to_owned()),
            "sys.date" | "sys.run_id" => at("a text", steps().next()?, variable.to_owned()),
            "sys.files" | "sys.history" => {
                let first = steps().next()?;
                if first.parse::<i64>().is_err() {
                    return at("a list", first, format!("{variable}.0"));
                }
                let entry = format!("{variable}.{first}");
                let second = steps().nth(1)?.to_owned();
                Some(LostStep { from: entry.clone(), is: "a text", step: second, instead: entry })
            }
            _ => self.lost_in_variable(variable, steps()),
        }
    }

    /// Checks a path into a variable that the canvas declares and never changes.
    fn lost_in_variable(&self, variable: &str, steps: Split<'_, char>) -> Option<LostStep> {
        let declared = self.canvas.variables.get(variable.strip_prefix("env.")?)?;
        // The value of a secret may be set from elsewhere.
        if declared.is_secret() {
            return None;
        }
        lost_in(self.globals.get(variable)?, variable.to_owned(), &mut steps.peekable())
    }
}

/// Returns the first step that leads to nothing in a value; `from` is the path to the value.
fn lost_in(value: &Json, mut from: String, steps: &mut Peekable<Split<'_, char>>) -> Option<LostStep> {
    let mut value = value;
    let mut at_first = true;
    while let Some(&step) = steps.peek() {
        let lost =
            |is, instead: String| Some(LostStep { from: from.clone(), is, step: step.to_owned(), instead });
        let next = match value {
            Json::Null => return None,
            Json::Bool(_) => return lost("true or false", from.clone()),
            Json::Number(_) => return lost("a number", from.clone()),
            // Not set yet, or too long to parse here.
            Json::String(text) if text.is_empty() || text.len() > TEXT_BYTES_MAX => return None,
            // A text may contain JSON, into which a path may lead.
            Json::String(text) => match serde_json::from_str::<Json>(text) {
                Ok(within @ (Json::Object(_) | Json::Array(_))) => return lost_in(&within, from, steps),
                _ => return lost("a text", from.clone()),
            },
            Json::Array(items) => match step.parse::<i64>() {
                // Negative positions count from the end.
                Ok(place) => items.get(usize::try_from(place).ok()?)?,
                Err(_) => return lost("a list", format!("{from}.0")),
            },
            Json::Object(members) => match members.get(step) {
                Some(member) => member,
                // A name that is nearly the same as another one is reported as a misspelling.
                None if at_first && is_slip(step, members) => return None,
                None => return lost("an object", format!("{from}.{}", members.keys().next()?)),
            },
        };
        (value, at_first) = (next, false);
        from = format!("{from}.{step}");
        steps.next();
    }
    None
}

fn is_slip(step: &str, members: &Map<String, Json>) -> bool {
    misspelled(step, members.keys().take(COMPARED_MAX).map(String::as_str)).is_some()
}
