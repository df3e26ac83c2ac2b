//! Example parameters for each component, taken from the samples, which are known to be correct because tests run them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use crate::source;

/// File with the examples, which the program displays.
pub(crate) const FILE: &str = "crates/weft-components/src/examples.json";

/// A component of a sample: its type, its parameters, and its location.
pub(crate) struct ShownComponent {
    /// Its type.
    pub kind: String,
    params: Map<String, Value>,
    from: String,
}

/// The components of all sample canvases and pipelines, in the order of the files.
pub(crate) fn shown(root: &Path) -> Result<Vec<ShownComponent>> {
    let mut files: Vec<PathBuf> = source::entries(&root.join("canvases"))?
        .into_iter()
        .map(|folder| folder.join("canvas.json"))
        .filter(|file| file.is_file())
        .collect();
    let is_json = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    files.extend(source::entries(&root.join("pipelines"))?.into_iter().filter(is_json));
    let mut shown = Vec::new();
    for file in files {
        let place = source::relative(root, &file);
        let canvas: Value =
            serde_json::from_str(&source::read_text(&file)?).with_context(|| place.clone())?;
        let from = place.trim_end_matches("/canvas.json");
        shown.extend(components(canvas.get("dsl").unwrap_or(&canvas), from));
    }
    Ok(shown)
}

fn components(canvas: &Value, from: &str) -> Vec<ShownComponent> {
    let components = canvas.get("components").and_then(Value::as_object).into_iter().flatten();
    let component = |component: &Value| {
        let object = component.get("obj")?;
        let kind = object.get("component_name")?.as_str()?.to_owned();
        let params = object.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
        Some(ShownComponent { kind, params, from: from.to_owned() })
    };
    components.filter_map(|(_, one)| component(one)).collect()
}

/// Contents of the examples file: for each type the shortest component that sets a parameter.
pub(crate) fn text(shown: &[ShownComponent]) -> Result<String> {
    let mut best: BTreeMap<&str, (usize, Value)> = BTreeMap::new();
    for ShownComponent { kind, params, from } in shown {
        let params: Map<String, Value> =
            params.clone().into_iter().filter(|(name, value)| says_something(name, value)).collect();
        let length = if params.is_empty() { usize::MAX } else { serde_json::to_string(&params)?.len() };
        let example = json!({"from": from, "params": params});
        match best.get(kind.as_str()) {
            Some((shortest, _)) if *shortest <= length => {}
            _ => drop(best.insert(kind, (length, example))),
        }
    }
    let examples: BTreeMap<&str, Value> =
        best.into_iter().map(|(kind, (_, example))| (kind, example)).collect();
    Ok(serde_json::to_string_pretty(&examples)? + "\n")
}

/// Whether a parameter belongs in an example: not if it is an address used only in tests, or the outputs that an editor
/// adds to every component.
fn says_something(name: &str, value: &Value) -> bool {
    let noted = |output: &Value| output.get("value").is_some();
    let leftover = || value.as_object().is_some_and(|outputs| outputs.values().all(noted));
    name != "base_url" && !(name == "outputs" && leftover())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_example_that_says_something_counts() {
        let part = |kind: &str, params: Value| json!({"obj": {"component_name": kind, "params": params}});
        let noted = json!({"content": {"type": "string", "value": ""}});
        let canvas = json!({"components": {
            "begin": part("Begin", json!({})),
            "A": part("Agent", json!({"sys_prompt": "Be kind.", "outputs": noted})),
            "B": part("Agent", json!({"sys_prompt": "No.", "base_url": "https://x.example"})),
            "C": part("Agent", json!({"outputs": noted})),
            "I": part("Iteration", json!({"outputs": {"all": {"ref": "A@content"}}})),
        }});
        let shown = components(&canvas, "canvases/x");
        let found: Value = serde_json::from_str(&text(&shown).unwrap()).unwrap();
        let expected = json!({
            "Agent": {"from": "canvases/x", "params": {"sys_prompt": "No."}},
            "Begin": {"from": "canvases/x", "params": {}},
            "Iteration": {"from": "canvases/x", "params": {"outputs": {"all": {"ref": "A@content"}}}},
        });
        assert_eq!(found, expected);
    }
}
