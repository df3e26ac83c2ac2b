//! An example of each component's parameters, taken from the sample canvases by `cargo xtask generated`.

use std::collections::HashMap;
use std::sync::LazyLock;

use weft_core::component_reference::Example;

/// Examples by component type.
static EXAMPLES: LazyLock<HashMap<String, Example>> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).unwrap_or_default());

/// Returns the example of a component type; `None` if no sample has one.
pub fn example(kind: &str) -> Option<&'static Example> {
    EXAMPLES.get(kind)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::catalog;

    #[test]
    fn every_component_has_a_valid_example() {
        for spec in catalog::ALL.iter().filter(|spec| !spec.measuring_only) {
            let example = example(spec.kind).unwrap_or_else(|| panic!("{} has none", spec.kind));
            assert!(example.from.starts_with("canvases/") || example.from.starts_with("pipelines/"));
        }
        let number = example("Calculator").map(|example| &example.params["expression"]);
        assert!(number.is_some_and(|expression| expression.is_string()), "{number:?}");
        assert_eq!(example("File").map(|example| json!(example.params)), Some(json!(Map::new())));
        assert!(example("Nothing").is_none());
    }
}
