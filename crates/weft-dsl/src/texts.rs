//! Finds parts of a node's texts that look like references but are not: braces that are not closed or not
//! opened, misspelled names, and the short names of an Iteration used outside of one.

mod slips;

use serde_json::Map;
use weft_core::params::is_empty;
use weft_core::reference::Names;
use weft_core::value::truth;
use weft_core::{Json, Template};

pub(crate) use self::slips::{KnownNames, MeantOutputs};

use self::slips::{Slip, TextLanguage};
use crate::build::Builder;
use crate::canvas::CanvasNode;
use crate::pointer::join;
use crate::problem::{PARAMETER_WARNING, Problem, ProblemList};
use crate::suggest::Suggester;

/// The short names that an Iteration provides to its body. `{result}` is left out because texts use it for
/// other things.
const OF_AN_ITEM: [&str; 2] = ["item", "index"];

/// A component as written: a node, or a tool that is written inside its agent.
#[derive(Clone, Copy)]
struct WrittenComponent<'a> {
    kind: &'a str,
    params: &'a Map<String, Json>,
}

impl WrittenComponent<'_> {
    /// Whether it has this type. As in the catalog, case does not matter.
    fn is_a(self, kind: &str) -> bool {
        self.kind.eq_ignore_ascii_case(kind)
    }

    /// Whether the text is in another language, where braces mean something else.
    fn is_program(self, key: &str) -> bool {
        self.is_a("CodeExec") && key == "script"
    }

    /// Whether a parameter is used as it stands, so that a reference in it is no reference.
    fn is_literal(self, key: &str) -> bool {
        let param = |name: &str| self.params.get(name);
        match key {
            // It opens conversations, and a task has none.
            "prologue" => {
                let is_task = param("mode").and_then(Json::as_str).is_some_and(|mode| mode.trim() == "task");
                self.is_a("Begin") && !is_task && param("enablePrologue").and_then(truth).unwrap_or(true)
            }
            "inputs" => self.is_a("Begin") || self.is_a("UserFillUp"),
            "empty_response" => self.is_a("Retrieval"),
            "filter" => self.is_a("ListOperations"),
            "exception_default_value" => param("exception_method").is_some_and(|method| !is_empty(method)),
            _ => false,
        }
    }

    /// Returns how its texts are read.
    fn language(self) -> TextLanguage {
        let renders = ["Message", "StringTransform", "UserFillUp"].iter().any(|kind| self.is_a(kind));
        if renders { TextLanguage::Jinja } else { TextLanguage::References }
    }
}

/// Reports problems in the texts of a node.
pub(crate) fn check(
    builder: &Builder<'_>,
    known: KnownNames<'_>,
    node: &CanvasNode,
    suggester: &mut Suggester,
    problems: &mut ProblemList,
) {
    let iterates = builder.iterates();
    let (is_literal, language) = (false, TextLanguage::References);
    let mut texts = TextCheck { node, known, iterates, is_literal, language, suggester, problems };
    let written = WrittenComponent { kind: node.kind.as_str(), params: &node.params };
    texts.component(written, &node.place.params);
}

/// Returns the parts of a text between two marks, such as `{%` and `%}`.
pub(crate) fn blocks<'t>(text: &'t str, open: &'t str, close: &'t str) -> impl Iterator<Item = &'t str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, inside) = rest.split_once(open)?;
        let (inside, behind) = inside.split_once(close)?;
        rest = behind;
        Some(inside)
    })
}

struct TextCheck<'a> {
    node: &'a CanvasNode,
    known: KnownNames<'a>,
    /// Whether the canvas has an Iteration.
    iterates: bool,
    /// Whether references are not read in this parameter.
    is_literal: bool,
    /// How its texts are read.
    language: TextLanguage,
    suggester: &'a mut Suggester,
    problems: &'a mut ProblemList,
}

impl TextCheck<'_> {
    fn component(&mut self, written: WrittenComponent<'_>, pointer: &str) {
        let around = (self.is_literal, self.language);
        for (key, value) in written.params.iter().filter(|(key, _)| !written.is_program(key)) {
            (self.is_literal, self.language) = (written.is_literal(key), written.language());
            self.of(value, &join(pointer, key));
        }
        (self.is_literal, self.language) = around;
    }

    fn of(&mut self, value: &Json, pointer: &str) {
        match value {
            Json::String(text) => self.text(text, pointer),
            Json::Array(items) => {
                items.iter().enumerate().for_each(|(index, item)| self.of(item, &join(pointer, index)));
            }
            Json::Object(members) => {
                // A tool of an agent.
                let kind = members.get("component_name").and_then(Json::as_str);
                // A program, whatever names its component.
                let program = |(key, _): &(&String, &Json)| *key == "script" && members.contains_key("lang");
                for (key, member) in members.iter().filter(|member| !program(member)) {
                    let pointer = join(pointer, key);
                    match (kind, member) {
                        (Some(kind), Json::Object(params)) if key == "params" => {
                            self.component(WrittenComponent { kind, params }, &pointer);
                        }
                        _ => self.of(member, &pointer),
                    }
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    fn text(&mut self, text: &str, pointer: &str) {
        if self.is_literal {
            let template = Template::parse(text, self.known.names);
            if let Some(reference) = template.references().next() {
                let message =
                    format!("`{{{reference}}}` is treated as literal text: references are not read here");
                let help = "remove it; a text with references can be shown by a Message".to_owned();
                self.warn(pointer, &Slip { code: PARAMETER_WARNING, message, help });
            }
            return;
        }
        if let Some(slip) = slips::first(text, self.language, self.known, self.suggester) {
            self.warn(pointer, &slip);
        }
        // In Jinja, `item` is a name like any other.
        let Names { item, .. } = self.known.names;
        if item.is_some() || !self.iterates || text.contains("{%") || text.contains("{{") {
            return;
        }
        let stands = |name: &&str| {
            let written = format!("{{{name}}}");
            text.match_indices(&written).any(|(at, _)| !slips::is_of_tex(text, at))
        };
        if let Some(name) = OF_AN_ITEM.into_iter().find(stands) {
            self.warn(
                pointer,
                &Slip {
                    code: "outside-iteration",
                    message: format!(
                        "`{{{name}}}` is treated as literal text: this component is not in an Iteration"
                    ),
                    help: "put the component into the Iteration, or refer to an output of the Iteration"
                        .to_owned(),
                },
            );
        }
    }

    fn warn(&mut self, pointer: &str, Slip { code, message, help }: &Slip) {
        // A component that cannot read a text, or reads it differently, has reported so.
        if self.problems.tells_of(pointer) {
            return;
        }
        let problem = Problem::warning(code, pointer, message).help(help);
        self.problems.add(problem.about(&self.node.id, &self.node.name));
    }
}
