//! Reads the parameters of one node: coerces what hand-written files spell differently, and notes
//! everything that is wrong instead of stopping at the first problem.

use std::sync::Arc;

use serde_json::Map;
use weft_core::exception::Handling;
use weft_core::value::to_text;
pub use weft_core::value::{described, number, truth, whole};
use weft_core::{Component, ComponentId, Json, NodeSource, ParamProblem, Reference, Template};

/// The parameters of one node and what was found wrong with them so far.
#[derive(Debug)]
pub struct Params<'a> {
    /// The node.
    pub source: NodeSource<'a>,
    problems: Vec<ParamProblem>,
    warnings: Vec<ParamProblem>,
}

/// How long a wait for a person may be, in seconds.
const WAIT_SECONDS_MAX: f64 = 315_360_000.0;

impl<'a> Params<'a> {
    /// Starts reading.
    pub fn of(source: &NodeSource<'a>) -> Self {
        Self { source: *source, problems: Vec::new(), warnings: Vec::new() }
    }

    /// What was read, or everything that is wrong.
    ///
    /// # Errors
    /// The problems noted so far, if there are any.
    pub fn done<T>(self, read: T) -> Result<T, Vec<ParamProblem>> {
        if self.problems.is_empty() { Ok(read) } else { Err(self.problems) }
    }

    /// The component, or everything that is wrong.
    ///
    /// # Errors
    /// The problems noted so far, if there are any.
    pub fn finish(
        self,
        component: impl Component + 'static,
    ) -> Result<Arc<dyn Component>, Vec<ParamProblem>> {
        if self.problems.is_empty() { Ok(Arc::new(component)) } else { Err(self.problems) }
    }

    /// Notes a problem.
    pub fn problem(&mut self, problem: ParamProblem) {
        self.problems.push(problem);
    }

    /// Notes something that is not as it was meant, but does no harm.
    pub fn warn(&mut self, problem: ParamProblem) {
        self.warnings.push(problem);
    }

    /// What is set and has no effect, so far.
    pub fn warnings(&mut self) -> Vec<ParamProblem> {
        std::mem::take(&mut self.warnings)
    }

    /// Warns when a parameter asks for something that this build does not do.
    pub fn without_effect(&mut self, key: &str, what: &str) {
        if self.get(key).is_some_and(asks_for_something) {
            let message = format!("has no effect: {what} isn't part of this build");
            self.warnings.push(ParamProblem::new(pointer(&[key]), message));
        }
    }

    /// Warns when a parameter is set that changes nothing here, and says why.
    pub fn ignored(&mut self, key: &str, why: &str) {
        if self.get(key).is_some_and(asks_for_something) {
            let message = format!("has no effect: {why}");
            self.warnings.push(ParamProblem::new(pointer(&[key]), message).help("take it out"));
        }
    }

    /// A parameter; null counts as absent.
    pub fn get(&self, key: &str) -> Option<&'a Json> {
        #[cfg(test)]
        asked_for::note(key);
        self.source.params.get(key).filter(|value| !value.is_null())
    }

    /// A text. Numbers and truth values become their text form.
    pub fn text(&mut self, key: &str) -> Option<String> {
        match self.get(key)? {
            Json::Object(_) | Json::Array(_) => {
                self.problem(ParamProblem::new(pointer(&[key]), "must be a text"));
                None
            }
            value => Some(to_text(value)),
        }
    }

    /// A number, also one written as text; an empty text counts as absent.
    pub fn number(&mut self, key: &str) -> Option<f64> {
        let value = self.get(key)?;
        if value.as_str().is_some_and(|text| text.trim().is_empty()) {
            return None;
        }
        let number = number(value);
        if number.is_none() {
            let message = format!("must be a number, and is {}", described(value));
            self.problem(ParamProblem::new(pointer(&[key]), message));
        }
        number
    }

    /// A number within bounds.
    pub fn number_in(&mut self, key: &str, bounds: std::ops::RangeInclusive<f64>) -> Option<f64> {
        let number = self.number(key)?;
        if bounds.contains(&number) {
            return Some(number);
        }
        let message = format!("must be from {} to {}, and is {number}", bounds.start(), bounds.end());
        self.problem(ParamProblem::new(pointer(&[key]), message));
        None
    }

    /// A whole number within bounds, or the default when absent.
    pub fn count(&mut self, key: &str, default: usize, bounds: std::ops::RangeInclusive<usize>) -> usize {
        let Some(number) = self.number(key) else { return default };
        match whole(number).and_then(|n| usize::try_from(n).ok()).filter(|n| bounds.contains(n)) {
            Some(count) => count,
            None => {
                let (low, high) = bounds.into_inner();
                let message = format!("must be a whole number from {low} to {high}, and is {number}");
                self.problem(ParamProblem::new(pointer(&[key]), message));
                default
            }
        }
    }

    /// How long to wait for a person, in whole seconds up to ten years.
    pub fn seconds(&mut self, key: &str) -> Option<u64> {
        let seconds = self.number_in(key, 1.0..=WAIT_SECONDS_MAX)?;
        // Parts of a second make no difference to a person.
        whole(seconds.ceil()).and_then(|seconds| u64::try_from(seconds).ok())
    }

    /// Whether something is switched on; absent is `None`.
    pub fn flag(&mut self, key: &str) -> Option<bool> {
        let value = self.get(key)?;
        let flag = truth(value);
        if flag.is_none() {
            let message = format!("must be true or false, and is {}", described(value));
            self.problem(ParamProblem::new(pointer(&[key]), message));
        }
        flag
    }

    /// A list of texts; a single text is a list of one.
    pub fn texts(&mut self, key: &str) -> Vec<String> {
        match self.get(key) {
            None => Vec::new(),
            Some(Json::Array(items)) => items.iter().map(to_text).collect(),
            Some(Json::Object(_)) => {
                self.problem(ParamProblem::new(pointer(&[key]), "must be a list of texts"));
                Vec::new()
            }
            Some(value) => vec![to_text(value)],
        }
    }

    /// A list of objects, each with its place in the list.
    pub fn objects(&mut self, key: &str) -> Vec<(usize, &'a Map<String, Json>)> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let Some(items) = value.as_array() else {
            self.problem(ParamProblem::new(pointer(&[key]), "must be a list"));
            return Vec::new();
        };
        let mut objects = Vec::new();
        for (place, item) in items.iter().enumerate() {
            match item.as_object() {
                Some(object) => objects.push((place, object)),
                None => self.problem(ParamProblem::new(
                    pointer(&[key, &place.to_string()]),
                    format!("must be an object, and is {}", described(item)),
                )),
            }
        }
        objects
    }

    /// A text with references in it; a bare reference counts.
    pub fn template(&mut self, key: &str, default: &str) -> Template {
        let text = self.text(key).filter(|text| !text.is_empty());
        Template::parse_value(text.as_deref().unwrap_or(default), self.source.names())
    }

    /// A parameter that is nothing but a reference; empty counts as absent.
    pub fn reference(&mut self, key: &str) -> Option<Reference> {
        let text = self.text(key).filter(|text| !text.trim().is_empty())?;
        self.reference_at(pointer(&[key]), &text)
    }

    /// A reference somewhere deeper inside the parameters.
    pub fn reference_at(&mut self, pointer: String, text: &str) -> Option<Reference> {
        let reference = Reference::whole(text, self.source.names());
        if reference.is_none() {
            let problem = ParamProblem::new(pointer, format!("`{text}` is no reference to anything in this canvas"))
                .help("write the id of a component and the name of an output, such as `Agent:Writer@content`, or a global, such as `sys.query`");
            self.problem(problem);
        }
        reference
    }

    /// A reference that must be there.
    pub fn required_reference(&mut self, key: &str) -> Option<Reference> {
        let empty =
            self.get(key).is_none_or(|value| value.as_str().is_some_and(|text| text.trim().is_empty()));
        if empty {
            let problem = ParamProblem::new(pointer(&[key]), "is missing")
                .help("refer to an output of an earlier component or to a global, such as `sys.query`");
            self.problem(problem);
            return None;
        }
        self.reference(key)
    }

    /// Ids of components: a list, or one text.
    pub fn targets(&mut self, pointer: &str, value: Option<&Json>) -> Vec<ComponentId> {
        let ids: Vec<ComponentId> = match value {
            Some(Json::String(id)) if !id.is_empty() => vec![id.as_str().into()],
            Some(Json::Array(ids)) => {
                ids.iter().filter_map(Json::as_str).filter(|id| !id.is_empty()).map(Into::into).collect()
            }
            _ => Vec::new(),
        };
        if ids.is_empty() {
            let problem = ParamProblem::new(pointer, "names no component to go on with")
                .help("connect this branch to a component");
            self.problem(problem);
        }
        ids
    }

    /// What should happen when the node fails.
    pub fn exception(&self) -> Handling {
        Handling::of(self.source.params)
    }
}

/// Which parameters components have asked for, for the test that compares them with what is declared.
#[cfg(test)]
pub mod asked_for {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    thread_local! {
        static KEYS: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// A parameter has been asked for.
    pub fn note(key: &str) {
        KEYS.with_borrow_mut(|keys| keys.insert(key.to_owned()));
    }

    /// Those that this thread has asked for since it was asked last.
    pub fn take() -> BTreeSet<String> {
        KEYS.take()
    }
}

/// Neither null, false, zero nor empty.
pub fn asks_for_something(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(flag) => *flag,
        Json::Number(number) => number.as_f64() != Some(0.0),
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(members) => !members.is_empty(),
    }
}

/// A JSON pointer from its unescaped parts (RFC 6901).
pub fn pointer(parts: &[&str]) -> String {
    parts.iter().flat_map(|part| ["/".to_owned(), part.replace('~', "~0").replace('/', "~1")]).collect()
}

/// A JSON schema of named parameters: `(name, type, what it is)`; a type of `any` leaves it open.
pub fn schema(fields: &[(&str, &str, &str)]) -> Json {
    let properties: Map<String, Json> = fields
        .iter()
        .map(|(name, kind, what)| {
            let mut field = Map::new();
            if *kind != "any" {
                field.insert("type".to_owned(), (*kind).into());
            }
            field.insert("description".to_owned(), (*what).into());
            ((*name).to_owned(), Json::Object(field))
        })
        .collect();
    serde_json::json!({"type": "object", "properties": properties})
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_coerced_and_problems_carry_their_place() {
        let node = crate::testing::Node::new(
            "X",
            json!({"a": "10", "b": "x", "c": null, "d": "true", "e": [1, "b"], "f": 1.5, "g": "a@b"}),
        );
        let mut params = Params::of(&node.source());
        assert_eq!(params.count("a", 1, 0..=20), 10);
        assert_eq!(params.number("b"), None);
        assert_eq!(params.number("c"), None);
        assert_eq!(params.flag("d"), Some(true));
        assert_eq!(params.texts("e"), ["1", "b"]);
        assert_eq!(params.count("f", 7, 0..=20), 7);
        assert_eq!(params.reference("g"), None);
        let places: Vec<_> = params.problems.iter().map(|problem| problem.pointer.as_str()).collect();
        assert_eq!(places, ["/b", "/f", "/g"]);
    }

    #[test]
    fn pointers_are_escaped() {
        assert_eq!(pointer(&["a/b", "~c", "0"]), "/a~1b/~0c/0");
    }
}
