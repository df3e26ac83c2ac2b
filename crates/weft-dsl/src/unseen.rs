//! Details in the text of a canvas that its parsed document no longer shows.

use weft_core::value::shortened;

use crate::problem::Problem;
use crate::span;

/// Maximum number of characters of a number that are shown.
const NUMBER_SHOWN_MAX: usize = 40;

/// Reports details in a text that its parsed document no longer shows.
pub(crate) fn problems(source: &str) -> Vec<Problem> {
    let unseen = span::unseen(source);
    let mut problems = Vec::new();
    for duplicate in unseen.duplicates {
        let message = "this key occurs more than once in the same object: only the last one counts";
        let problem =
            Problem::warning("duplicate-key", duplicate.pointer, message).help("remove one of them");
        problems.push(Problem { span: Some(duplicate.span), ..problem });
    }
    for lost in unseen.lost {
        let number = source.get(lost.span.clone()).unwrap_or_default();
        let message = format!(
            "`{}` has more digits than a number can hold: it is read as another number",
            shortened(number, NUMBER_SHOWN_MAX)
        );
        let problem = Problem::warning("lost-digits", lost.pointer, message);
        let problem = problem.help("write it as a text, in quotes");
        problems.push(Problem { span: Some(lost.span), ..problem });
    }
    problems
}

/// Like `problems`, without spans, for a canvas that another parser reads before it is compiled.
pub fn unseen_in_text(source: &str) -> Vec<Problem> {
    problems(source).into_iter().map(|problem| Problem { span: None, ..problem }).collect()
}

/// Like `problems`, for a canvas that is a member of an object, such as of a request body, or deeper in it: `a/b` is the
/// member `b` of the member `a`. What is compiled is the parsed member, which has lost these details by then. The places
/// are within the canvas and have no spans, because its text is written anew.
pub fn unseen_in_member(source: &str, member: &str) -> Vec<Problem> {
    let inside = |problem: Problem| {
        let pointer = problem.pointer.strip_prefix('/')?.strip_prefix(member)?;
        let pointer = pointer.starts_with('/').then(|| pointer.to_owned())?;
        Some(Problem { pointer, span: None, ..problem })
    };
    problems(source).into_iter().filter_map(inside).collect()
}
