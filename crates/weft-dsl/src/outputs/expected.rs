//! Checks that values that are known before a run are what the nodes need that read them.

use weft_core::component::Expected;
use weft_core::{Json, Reference};

use super::{CanvasOutputs, always};
use crate::build::Built;
use crate::problem::{Problem, ProblemList};
use crate::references::{NodeText, ReferencesWritten};

/// Longer texts are not parsed.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// The types of the session globals that every run has, in JSON Schema terms.
static SYSTEM: [(&str, &str); 9] = [
    ("sys.query", "string"),
    ("sys.user_id", "string"),
    ("sys.date", "string"),
    ("sys.run_id", "string"),
    ("sys.conversation_turns", "number"),
    ("sys.files", "array"),
    ("sys.history", "array"),
    ("sys.usage", "object"),
    ("sys.chat_template_kwargs", "object"),
];

impl<'a> CanvasOutputs<'a> {
    /// Reports references whose value is known to be something else than the node needs.
    pub(super) fn check_expected(&self, built: &Built, text: NodeText<'_>, problems: &mut ProblemList) {
        for (reference, expected) in &built.draft.shape.expects {
            let Some(is) = self.unfit(reference, *expected) else { continue };
            let written = ReferencesWritten::of(self.canvas, text);
            let (need, help) = words(*expected);
            let message = format!("`{reference}` is {is}, but {need}");
            let problem = Problem::warning("wrong-type", written.place(&reference.to_string()), message);
            problems.add(problem.help(help).about(&text.node.id, &text.node.name));
        }
    }

    /// Returns what a value is, if it is known not to be what is expected.
    fn unfit(&self, reference: &Reference, expected: Expected) -> Option<&'static str> {
        let kind = self.kind(reference)?;
        let items = self.constant(reference).and_then(Json::as_array).filter(|items| !items.is_empty());
        match (expected, kind) {
            (Expected::List, "array") | (Expected::Rows | Expected::Objects, "object") => return None,
            (Expected::Text, "array" | "object") => return named(kind),
            (Expected::Text, _) => return None,
            (Expected::Rows, "array") => {
                let is_row = |item: &Json| item.is_object() || item.is_array();
                return items?
                    .iter()
                    .any(|item| !is_row(item))
                    .then_some("a list with other items than rows");
            }
            (Expected::Objects, "array") => {
                return (!items?.iter().any(Json::is_object)).then_some("a list without objects");
            }
            // Any text that is not known may be the JSON of rows.
            (Expected::Rows, "string") if !self.constant(reference).is_some_and(is_plain_text) => {
                return None;
            }
            _ => {}
        }
        named(kind)
    }

    /// Returns the JSON Schema type of a value, as far as it is known.
    pub(super) fn kind(&self, reference: &Reference) -> Option<&'static str> {
        match reference {
            Reference::Global(name) => {
                if let Some(value) = self.constant(reference) {
                    return kind_of_value(value);
                }
                let (_, kind) = SYSTEM.iter().find(|(global, _)| **global == **name)?;
                (!self.is_changed(name)).then_some(*kind)
            }
            Reference::Output { component, path } => {
                let kind = self.declared_kind(component, path)?;
                (!self.may_be_other(self.nodes.get(component)?, path)).then_some(kind)
            }
        }
    }

    /// Returns the value of a variable that the canvas declares and never changes.
    pub(super) fn constant(&self, reference: &Reference) -> Option<&'a Json> {
        let Reference::Global(name) = reference else { return None };
        let declared = self.canvas.variables.get(name.strip_prefix("env.")?)?;
        // The value of a secret may be set from elsewhere.
        if declared.is_secret() || self.is_changed(name) {
            return None;
        }
        self.globals.get(&**name)
    }

    /// Returns the type of an output as its component declares it.
    pub(super) fn declared_kind(
        &self,
        component: &weft_core::ComponentId,
        path: &str,
    ) -> Option<&'static str> {
        let of = *self.nodes.get(component)?;
        let named = self.named.get(component).and_then(|named| named.get(path));
        let by_type = always(of).find(|output| *output.name == *path);
        let kind = named.map(|known| known.output.kind).or(by_type.map(|output| output.kind))?;
        of.sound.then_some(kind)
    }

    fn is_changed(&self, global: &str) -> bool {
        self.changed.contains(global) || self.assigned.may_change(global)
    }
}

/// Returns the JSON Schema type of a value; `None` for null, which stands for a value that is not there.
pub(super) fn kind_of_value(value: &Json) -> Option<&'static str> {
    match value {
        Json::Null => None,
        Json::Bool(_) => Some("boolean"),
        Json::Number(_) => Some("number"),
        Json::String(_) => Some("string"),
        Json::Array(_) => Some("array"),
        Json::Object(_) => Some("object"),
    }
}

/// Returns a type in words; `None` if it says nothing.
pub(super) fn named(kind: &str) -> Option<&'static str> {
    match kind {
        "string" => Some("a text"),
        "number" | "integer" => Some("a number"),
        "boolean" => Some("true or false"),
        "object" => Some("an object"),
        "array" => Some("a list"),
        _ => None,
    }
}

/// Whether a value is a text that contains neither a list nor an object as JSON.
fn is_plain_text(value: &Json) -> bool {
    let within = |text: &str| serde_json::from_str::<Json>(text).ok();
    value.as_str().is_some_and(|text| {
        text.len() <= TEXT_BYTES_MAX
            && !within(text).is_some_and(|value| value.is_array() || value.is_object())
    })
}

/// Returns what is needed and what becomes of the node, and the remedy.
fn words(expected: Expected) -> (&'static str, &'static str) {
    match expected {
        Expected::List => (
            "a list is needed here: the component fails",
            "refer to a list, such as the result of a StringTransform that splits a text",
        ),
        Expected::Text => (
            "a text is needed here: the component fails",
            "refer to a text, such as one item of the list or one member of the object",
        ),
        Expected::Rows => (
            "rows are needed here: the component fails",
            "refer to a list of objects, such as the output of another component that reads rows",
        ),
        Expected::Objects => (
            "only objects are processed here: nothing of it is in the result",
            "refer to an object or a list of objects",
        ),
    }
}
