//! Problems of a canvas: one record per finding, all reported together.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;
use weft_core::ComponentId;

use crate::span;

/// How severe a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The canvas cannot run.
    Error,
    /// The canvas runs, but probably not as its author meant.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// One finding about a canvas.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// A stable code for programs, such as `unknown-component`.
    pub code: &'static str,
    /// How severe it is.
    pub severity: Severity,
    /// Its place: a JSON pointer (RFC 6901) into the document as written.
    pub pointer: String,
    /// The bytes of the source text to underline; see [`crate::span`].
    pub span: Option<Range<usize>>,
    /// The component it is about.
    pub component: Option<ComponentId>,
    /// That component's display name.
    pub name: Option<Arc<str>>,
    /// What is wrong, without the place.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Problem {
    /// Creates a problem that keeps the canvas from running.
    pub fn error(code: &'static str, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            pointer: pointer.into(),
            span: None,
            component: None,
            name: None,
            message: message.into(),
            help: None,
        }
    }

    /// Creates a problem that does not keep the canvas from running.
    pub fn warning(code: &'static str, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, pointer, message) }
    }

    /// Adds advice on what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds advice on what to do about it, if there is any.
    #[must_use]
    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    /// Sets the component it is about.
    #[must_use]
    pub fn about(mut self, component: &ComponentId, name: &Arc<str>) -> Self {
        self.component = Some(component.clone());
        self.name = Some(Arc::clone(name));
        self
    }

    /// Whether it keeps the canvas from running.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: {}", self.severity, self.code, self.message)?;
        match (&self.name, &self.component) {
            (Some(name), Some(id)) if **name != *id.as_str() => write!(f, ", in “{name}” (`{id}`)")?,
            (_, Some(id)) => write!(f, ", in `{id}`")?,
            (_, None) => {}
        }
        if !self.pointer.is_empty() {
            write!(f, ", at {}", self.pointer)?;
        }
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

/// Code of a problem that a component reports about its parameters but that does not keep it from working.
pub const PARAMETER_WARNING: &str = "parameter-warning";

/// Code of the problem that every run reaches a component which this build cannot run.
pub const WILL_FAIL: &str = "will-fail";

/// Maximum number of problems kept per canvas; further ones are only counted.
// Each one is located in the text and reported; a generated mistake may occur ten thousand times.
pub const PROBLEMS_MAX: usize = 1_000;

/// Collects problems, up to [`PROBLEMS_MAX`].
#[derive(Debug, Default)]
pub struct ProblemList {
    kept: Vec<Problem>,
    errors: usize,
    dropped: usize,
}

impl ProblemList {
    /// Adds a problem.
    pub fn add(&mut self, problem: Problem) {
        // Counted before anything is dropped: a canvas must not pass because its errors were found late.
        self.errors += usize::from(problem.is_error());
        if self.is_full() {
            self.dropped += 1;
        } else {
            self.kept.push(problem);
        }
    }

    /// Whether a further problem would only be counted, so that its place and message are not needed.
    pub fn is_full(&self) -> bool {
        self.kept.len() >= PROBLEMS_MAX
    }

    /// Whether there is an error, or a problem reported by a component, at this place.
    pub fn tells_of(&self, pointer: &str) -> bool {
        let told = |problem: &&Problem| problem.is_error() || problem.code == PARAMETER_WARNING;
        self.kept.iter().filter(told).any(|problem| problem.pointer == pointer)
    }

    /// Whether any of them keeps the canvas from running.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Moves problems to the place that `place` returns for theirs, if any.
    pub(crate) fn place_anew(&mut self, place: impl Fn(&str) -> Option<String>) {
        for problem in &mut self.kept {
            if let Some(pointer) = place(&problem.pointer) {
                problem.pointer = pointer;
            }
        }
    }

    /// Returns all problems in the order of the source text, each with its span.
    pub fn finish(mut self, source: &str) -> Vec<Problem> {
        // A duplicate key brings its own span: its pointer would only lead to the last of the equal keys.
        let without: Vec<_> = (0..self.kept.len()).filter(|&ix| self.kept[ix].span.is_none()).collect();
        let spans = span::locate(source, without.iter().map(|&ix| self.kept[ix].pointer.as_str()));
        for (ix, span) in without.into_iter().zip(spans) {
            self.kept[ix].span = span;
        }
        // A stable sort: findings at the same place stay in the order in which they were made.
        self.kept.sort_by_key(|p| p.span.as_ref().map_or(0, |span| span.start));
        if self.dropped > 0 {
            let severity = if self.has_errors() { Severity::Error } else { Severity::Warning };
            let more = weft_core::value::plural(self.dropped, "more problem");
            let message = format!("{more} like these");
            self.kept.push(Problem { severity, ..Problem::error("more-problems", "", message) });
        }
        self.kept
    }
}

impl Extend<Problem> for ProblemList {
    fn extend<I: IntoIterator<Item = Problem>>(&mut self, problems: I) {
        problems.into_iter().for_each(|problem| self.add(problem));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pointer::join;

    #[test]
    fn a_problem_reads_as_one_line() {
        let problem =
            Problem::error("unknown-component", join("/components/A:x/obj", "a/b~c"), "there is no `Foo`")
                .about(&"A:x".into(), &"Asker".into())
                .help("did you mean `Fox`?");
        assert_eq!(
            problem.to_string(),
            "error[unknown-component]: there is no `Foo`, in “Asker” (`A:x`), at /components/A:x/obj/a~1b~0c \
             (did you mean `Fox`?)"
        );
    }

    #[test]
    fn further_problems_are_only_counted() {
        let mut problems = ProblemList::default();
        problems.extend((0..PROBLEMS_MAX + 2).map(|_| Problem::warning("w", "/a", "m")));
        assert!(!problems.has_errors());
        let all = problems.finish("{\"a\": 1}");
        assert_eq!(all.len(), PROBLEMS_MAX + 1);
        assert_eq!(all[0].span, Some(6..7));
        assert_eq!(all[PROBLEMS_MAX].message, "2 more problems like these");
    }
}
