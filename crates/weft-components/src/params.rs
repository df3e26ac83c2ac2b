//! How components declare and read their parameters.

pub(crate) use weft_core::field::{Choice, Field, FieldGroup, Kind, Widget, choice, fields};
pub(crate) use weft_core::params::{Params, asks_for_something, is_empty, pointer};
pub(crate) use weft_core::value::{described, number, truth, whole};

use weft_core::{Json, ParamProblem, Template};

/// Returns the problem of a field that is empty on a node and not on a tool: the consequence, and what to enter.
pub(crate) fn unfilled(
    field: &Field<Template>,
    text: &Template,
    so: &str,
    help: &str,
) -> Option<ParamProblem> {
    let problem = || ParamProblem::new(pointer(&[field.name()]), format!("is empty, so {so}")).help(help);
    text.source().trim().is_empty().then(problem)
}

/// Returns the ids in a list of names, or in a single one, each with its pointer inside the parameters.
pub(crate) fn ids(params: &Params<'_>, field: &Field<Vec<String>>) -> Vec<(String, String)> {
    let at = params.pointer(field);
    let texts: Vec<(String, &str)> = match params.get(field) {
        Some(Json::Array(items)) => {
            let places = items.iter().enumerate();
            places.filter_map(|(place, item)| Some((format!("{at}/{place}"), item.as_str()?))).collect()
        }
        Some(Json::String(text)) => vec![(at, text.as_str())],
        _ => Vec::new(),
    };
    let named = texts.into_iter().map(|(at, text)| (at, text.trim().to_owned()));
    named.filter(|(_, id)| !id.is_empty()).collect()
}

/// Returns the problem of a literal server name that holds more than a host name: no server can be reached by it.
pub(crate) fn more_than_a_host(field: &Field<Template>, text: &Template) -> Option<ParamProblem> {
    let host = written_out(text)?.trim();
    // An IPv6 address has several colons.
    let has_port = host.matches(':').count() == 1;
    let is_more = has_port || host.contains(|c: char| matches!(c, '/' | '@') || c.is_whitespace());
    // The value is not shown: an address may contain a password.
    let problem = ParamProblem::new(pointer(&[field.name()]), "is not just a server name: the node fails");
    is_more.then(|| {
        problem.help("enter only the name, such as `db.example.org`; the port has its own parameter")
    })
}

/// Returns the text of a parameter that is entirely literal, with nothing filled in at run time.
pub(crate) fn written_out(text: &Template) -> Option<&str> {
    let written = text.source();
    // Remaining braces are a mistyped reference, which is reported as such elsewhere.
    let is_open = text.references().next().is_some() || written.contains(['{', '}']);
    (!is_open).then_some(written)
}
