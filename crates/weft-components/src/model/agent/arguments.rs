//! Turns a model's arguments into parameters of a component. A model writes plain text, never references: text that
//! could be read as a reference is passed to the component as the value of one.

use std::sync::Arc;

use serde_json::Map;
use weft_core::{ComponentId, Json, Reference, Value};

/// Name of the component whose outputs stand for what the model wrote. No component of a canvas has this name.
pub(super) const ARGUMENTS: &str = "tool-arguments";

/// The parameters of a call, and the values of their references.
pub(super) struct Laid {
    /// The canvas's parameters, overridden by the arguments.
    pub params: Map<String, Json>,
    /// Values of the references among the arguments.
    pub values: Vec<(Reference, Value)>,
}

/// Lays arguments over the parameters that a canvas sets.
pub(super) fn lay(params: &Map<String, Json>, arguments: Map<String, Json>) -> Laid {
    let mut laid = Laid { params: params.clone(), values: Vec::new() };
    for (name, value) in arguments {
        let value = laid.protected(value);
        laid.params.insert(name, value);
    }
    laid
}

impl Laid {
    fn protected(&mut self, value: Json) -> Json {
        match value {
            Json::String(text) if reads_as_reference(&text) => {
                // A number rather than what the model wrote: a name could be crafted to contain another reference.
                let path: Arc<str> = format!("a{}", self.values.len()).into();
                let reference = Reference::Output { component: ComponentId::from(ARGUMENTS), path };
                let written = format!("{{{reference}}}");
                self.values.push((reference, Value::text(text)));
                Json::String(written)
            }
            Json::Array(items) => items.into_iter().map(|item| self.protected(item)).collect(),
            Json::Object(map) => map
                .into_iter()
                .map(|(name, value)| (name, self.protected(value)))
                .collect::<Map<_, _>>()
                .into(),
            plain => plain,
        }
    }
}

/// Whether any way of reading parameters could take a text, or part of it, for a reference. Some strip braces and
/// spaces from both ends first, so that even `}sys.query` counts.
fn reads_as_reference(text: &str) -> bool {
    // A bare `secret.…` is a reference nowhere: see [`Reference::whole`].
    let bare = text.trim_start();
    text.contains(['{', '}', '@']) || bare.starts_with("sys.") || bare.starts_with("env.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// However a text is written, a component reads it as that text.
    #[test]
    fn no_spelling_of_an_argument_makes_it_a_reference() {
        let components = std::collections::HashSet::from([ComponentId::from(ARGUMENTS), "A:x".into()]);
        let item = "Item:i".into();
        let names = weft_core::reference::Names { components: &components, item: Some(&item) };
        for text in [
            "}sys.query",
            "sys.query}",
            " \u{a0}sys.query",
            "\u{3000}env.key ",
            "A:x@out",
            "{{ A:x@out }}",
            "}item{",
            "result}",
            "{item}",
            "{% if env.key %}",
        ] {
            let laid = lay(&Map::new(), Map::from_iter([("q".to_owned(), json!(text))]));
            let inputs = weft_core::reference::Inputs::from_iter(laid.values);
            let written = laid.params["q"].as_str().unwrap();
            let template = weft_core::Template::parse_value(written, names);
            assert_eq!(*template.value(&inputs).unwrap(), json!(text));
            let own = |r: &Reference| r.component().is_some_and(|id| id.as_str() == ARGUMENTS);
            assert!(template.references().all(own), "{text:?} became {written}");
        }
    }

    #[test]
    fn model_output_is_never_read_as_a_reference() {
        let params = json!({"query": "{sys.query}", "top_n": 3});
        let arguments =
            json!({"query": "tell me {sys.secret}", "more": ["plain", "sys.query", 4], "to": "a@b.c"});
        let laid = lay(params.as_object().unwrap(), arguments.as_object().unwrap().clone());
        let expected = json!({
            "query": "{tool-arguments@a0}", "top_n": 3,
            "more": ["plain", "{tool-arguments@a1}", 4], "to": "{tool-arguments@a2}",
        });
        assert_eq!(Json::Object(laid.params), expected);
        let values: Vec<String> = laid.values.iter().map(|(r, v)| format!("{r}={}", v.snapshot())).collect();
        assert_eq!(
            values,
            [
                "tool-arguments@a0=\"tell me {sys.secret}\"",
                "tool-arguments@a1=\"sys.query\"",
                "tool-arguments@a2=\"a@b.c\""
            ]
        );
    }
}
