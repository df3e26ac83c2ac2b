//! What components declare their parameters with, and read them by.

pub(crate) use weft_core::field::{Choice, Field, FieldGroup, Kind, Widget, choice, fields};
pub(crate) use weft_core::params::{Params, asks_for_something, is_empty, pointer};
pub(crate) use weft_core::value::{described, number, truth, whole};

use weft_core::{ParamProblem, Template};

/// What is said of a node, and not of a tool, that has no text here: what follows, and what to write.
pub(crate) fn unfilled(
    field: &Field<Template>,
    text: &Template,
    so: &str,
    help: &str,
) -> Option<ParamProblem> {
    let problem = || ParamProblem::new(pointer(&[field.name()]), format!("is empty, so {so}")).help(help);
    text.source().trim().is_empty().then(problem)
}

/// What is written down as the name of a server and holds more than that: no server is reached by it.
pub(crate) fn more_than_a_host(field: &Field<Template>, text: &Template) -> Option<ParamProblem> {
    let host = written_out(text)?.trim();
    // An address of IPv6 has several.
    let has_port = host.matches(':').count() == 1;
    let is_more = has_port || host.contains(|c: char| matches!(c, '/' | '@') || c.is_whitespace());
    // It is not shown: an address may have a password in it.
    let problem =
        ParamProblem::new(pointer(&[field.name()]), "is more than the name of a server: the node fails");
    is_more.then(|| {
        problem.help("write the name alone, such as `db.example.org`; the port has a parameter of its own")
    })
}

/// What a parameter says, where all of it is written down and nothing comes in when it runs.
pub(crate) fn written_out(text: &Template) -> Option<&str> {
    let written = text.source();
    // Braces that are left are a reference with a slip, which is named as one.
    let is_open = text.references().next().is_some() || written.contains(['{', '}']);
    (!is_open).then_some(written)
}
