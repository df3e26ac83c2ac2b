//! A text of a canvas: literal text with references, or a Jinja template.

use weft_core::reference::{Inputs, Names, Segment, is_name_char};
use weft_core::rendering::BoundedText;
use weft_core::suggest::{did_you_mean, misspelled};
use weft_core::{Json, NodeSource, ParamProblem, Reference, Result, Template};

use crate::jinja::{Jinja, LOOP_MEMBERS, is_no_member_of_loop};

/// Maximum number of components compared with a misspelled id.
const COMPARED_MAX: usize = 1_000;

/// A parsed text.
#[derive(Debug)]
pub(crate) enum Text {
    /// Literal text and references.
    Plain(Template),
    /// A sandboxed template.
    Jinja(Jinja),
}

impl Text {
    /// Parses a text.
    ///
    /// # Errors
    /// A problem if it is a malformed Jinja template.
    pub(crate) fn parse(text: &str, source: &NodeSource<'_>, pointer: &str) -> Result<Self, ParamProblem> {
        // Recognised by its blocks: a text with nothing but references needs no template engine.
        if Jinja::recognises(text, source.names()) {
            return Jinja::parse(text, source.names()).map(Self::Jinja).map_err(|error| {
                // Canvases of other products write references in this way.
                let help = if text.contains("{{#") {
                    "write references as `{Component@output}` or `{env.name}`"
                } else {
                    "correct the template, or write `{{ '{{' }}` where braces are meant literally"
                };
                match missing_component(text, source.names()) {
                    Some(id) => missing(id, source.names(), pointer, &error.full()),
                    None => ParamProblem::new(pointer, error.full()).help(help),
                }
            });
        }
        Ok(Self::Plain(Template::parse(text, source.names())))
    }

    /// Returns warnings about the parameter at `pointer` for what is probably a mistake: names in a template that
    /// nothing here defines, and a reference that is treated as text.
    pub(crate) fn doubts(&self, source: &NodeSource<'_>, pointer: &str) -> Vec<ParamProblem> {
        let jinja = match self {
            Self::Jinja(jinja) => jinja,
            Self::Plain(template) => {
                return taken_for_text(template, source.names(), pointer).into_iter().collect();
            }
        };
        let warning = |what: &String| {
            let problem = ParamProblem::new(pointer, format!("fails when the template reaches it: {what}"));
            problem.help("docs/templates.md lists the filters, tests and methods")
        };
        let failing = |written: &String| {
            let message = format!("fails when the template reaches `{written}`, which never has a value");
            ParamProblem::new(pointer, message).help("correct the expression, or write its result there")
        };
        let failing = jinja.failing().iter().map(failing);
        let empty = jinja.empty().iter().map(|path| empty(path, source.names(), pointer));
        jinja.unknown().iter().map(warning).chain(failing).chain(empty).collect()
    }

    /// Returns the references that the text reads.
    pub(crate) fn references(&self) -> Vec<Reference> {
        match self {
            Self::Plain(template) => template.references().cloned().collect(),
            Self::Jinja(jinja) => jinja.references().cloned().collect(),
        }
    }

    /// Renders the text.
    ///
    /// # Errors
    /// When a Jinja template fails, or when the text grows beyond its limits.
    pub(crate) fn render(&self, inputs: &Inputs) -> Result<String> {
        match self {
            Self::Jinja(jinja) => jinja.render(inputs),
            Self::Plain(template) => template.render(inputs),
        }
    }

    /// Renders the text, joining the elements of a list by `delimiter`.
    ///
    /// # Errors
    /// When a Jinja template fails, or when the text grows beyond its limits.
    pub(crate) fn render_joined(&self, inputs: &Inputs, delimiter: &str) -> Result<String> {
        let template = match self {
            Self::Jinja(jinja) => return jinja.render(inputs),
            Self::Plain(template) => template,
        };
        let mut text = BoundedText::new(inputs.room());
        for segment in template.segments() {
            match segment {
                Segment::Literal(literal) => text.push(literal)?,
                Segment::Reference(reference) => match &*inputs.json(reference) {
                    Json::Array(items) => {
                        for (place, item) in items.iter().enumerate() {
                            text.push(if place > 0 { delimiter } else { "" })?;
                            text.push_value(item)?;
                        }
                    }
                    other => text.push_value(other)?,
                },
            }
        }
        Ok(text.finish())
    }
}

/// Returns the id of a component that a template names without braces and that does not exist: the template engine takes
/// its parts for names of its own.
fn missing_component<'t>(text: &'t str, names: Names<'_>) -> Option<&'t str> {
    let of_id = |c: char| is_name_char(c) || matches!(c, ':' | '-');
    text.match_indices('@').find_map(|(at, _)| {
        let before = &text[..at];
        let id = &before[before.trim_end_matches(of_id).len()..];
        // In lower case, it may be the beginning of an address, such as `mailto:`.
        let is_id = id.contains(':') && id.starts_with(char::is_uppercase);
        (is_id && !names.components.contains(id)).then_some(id)
    })
}

fn missing(id: &str, names: Names<'_>, pointer: &str, error: &str) -> ParamProblem {
    let known = names.components.iter().take(COMPARED_MAX).map(|id| id.as_str());
    let help = misspelled(id, known).map(did_you_mean);
    let problem = ParamProblem::new(pointer, format!("there is no component `{id}`, so that {error}"));
    let problem = problem.help(help.unwrap_or_else(|| "refer to a component of this canvas".to_owned()));
    ParamProblem { code: Some("unknown-reference"), ..problem }
}

/// Warns of a variable that is never given a value.
fn empty(path: &str, names: Names<'_>, pointer: &str) -> ParamProblem {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    if is_no_member_of_loop(path) {
        let message = format!("`{path}` is empty: `loop` has no such member");
        return ParamProblem::new(pointer, message).help(format!("it has {}", LOOP_MEMBERS.join(", ")));
    }
    let problem = ParamProblem::new(pointer, format!("`{path}` is empty: there is no variable `{first}`"));
    problem.help(match (names.components.contains(first), rest) {
        (true, "") => format!("name an output of it, such as `{{{first}@content}}`"),
        (true, output) => format!("write `{{{first}@{output}}}`"),
        (false, _) => {
            "refer to a component as `{Agent:Writer@content}`, give the name a value with `{% set %}`, or \
             put `{% raw %}` around literal braces"
                .to_owned()
        }
    })
}

/// Warns of a text that consists only of a reference without braces, in a place where references need braces.
pub(crate) fn taken_for_text(template: &Template, names: Names<'_>, pointer: &str) -> Option<ParamProblem> {
    let text = template.source().trim();
    let reference = Reference::whole(text, names).filter(|_| !text.contains(['{', '}']))?;
    let problem = ParamProblem::new(pointer, format!("`{text}` is treated as literal text"));
    template.alone().is_none().then(|| problem.help(format!("write `{{{reference}}}`")))
}

/// Removes a model's `<think>` sections from a text.
pub(crate) fn without_thinking(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some((before, behind)) = rest.split_once("<think>") {
        kept.push_str(before);
        // Without an end tag, the rest is all thinking: the model was cut off in the middle of it.
        rest = behind.split_once("</think>").map_or("", |(_, behind)| behind);
    }
    kept.push_str(rest);
    kept
}
