//! The one list of components, by name.

use weft_core::{Catalog, ComponentSpec};

use crate::control::{
    begin, categorize, exit_loop, iteration, iteration_item, loop_item, repeat, switch, unbuilt, user_fill_up,
};
use crate::data::{
    data_operations, list_operations, lookup, retrieval, string_transform, variable_aggregator,
    variable_assigner,
};
use crate::model::{agent, llm};
use crate::output::{invoke, message};
use crate::tools::{
    calculator, code_exec, current_time, http_get, read_file, searxng, web_search, write_file,
};

/// Every component that this build can run.
pub static ALL: &[&ComponentSpec] = &[
    &agent::SPEC,
    &begin::SPEC,
    &calculator::SPEC,
    &categorize::SPEC,
    &code_exec::SPEC,
    &current_time::SPEC,
    &data_operations::SPEC,
    &exit_loop::SPEC,
    &http_get::SPEC,
    &invoke::SPEC,
    &iteration::SPEC,
    &iteration_item::SPEC,
    &llm::SPEC,
    &list_operations::SPEC,
    &lookup::SPEC,
    &repeat::SPEC,
    &loop_item::SPEC,
    &message::SPEC,
    &read_file::SPEC,
    &retrieval::SPEC,
    &searxng::SPEC,
    &string_transform::SPEC,
    &switch::SPEC,
    &user_fill_up::SPEC,
    &variable_aggregator::SPEC,
    &variable_assigner::SPEC,
    &web_search::SPEC,
    &write_file::SPEC,
];

/// The component type of this name, also when this build cannot run it.
pub fn find(kind: &str) -> Option<&'static ComponentSpec> {
    ALL.iter().copied().chain(&unbuilt::ALL).find(|spec| spec.kind == kind)
}

/// What plans are compiled against: [`ALL`], and the names this build knows and cannot run.
pub fn catalog() -> Catalog {
    Catalog::new(ALL.iter().copied().chain(&unbuilt::ALL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn declared(folder: &Path, found: &mut BTreeSet<String>) {
        // In two parts, so that this file does not seem to declare one.
        let declaration = concat!("pub static SPEC: ", "ComponentSpec = ComponentSpec {");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                declared(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let Some((_, spec)) = text.split_once(declaration) else { continue };
            let kind = spec.split_once("kind: \"").and_then(|(_, rest)| rest.split_once('"')).unwrap().0;
            assert!(found.insert(kind.to_owned()), "{kind} is declared twice");
        }
    }

    #[test]
    fn the_list_names_every_component_on_disk_in_order() {
        let mut on_disk = BTreeSet::new();
        declared(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut on_disk);
        let listed: Vec<&str> = ALL.iter().map(|spec| spec.kind).collect();
        assert_eq!(listed, on_disk.iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn every_component_builds_from_nothing_or_says_what_is_missing() {
        for spec in catalog().all() {
            let node = crate::testing::Node::new(spec.kind, serde_json::json!({}));
            if let Err(problems) = node.try_build() {
                assert!(!problems.is_empty(), "{}", spec.kind);
            }
            assert_eq!((spec.params_schema)()["type"], "object", "{}", spec.kind);
        }
    }

    /// Declared parameters that are read elsewhere, and where.
    const READ_ELSEWHERE: [(&str, &[&str]); 2] = [
        // By the agent that has it as a tool.
        ("Agent", &["function_name", "description", "user_prompt"]),
        // By the plan: nobody is greeted by a node.
        ("Begin", &["prologue", "enablePrologue"]),
    ];
    /// Parameters that are read and not offered: older names, what other editors write, and what is read to
    /// say that it has no effect.
    const NOT_OFFERED: [(&str, &[&str]); 6] = [
        ("Agent", &["output_structure", "custom_header"]),
        ("Categorize", &["sys_prompt", "prompts", "cite", "visual_files_var", "output_structure"]),
        ("LLM", &["output_structure"]),
        ("ListOperations", &["dsl_version"]),
        ("Message", &["messages", "output_format", "auto_play", "memory_ids"]),
        ("Retrieval", &["retrieval_from", "memory_ids"]),
    ];
    /// What every node has.
    const COMMON: [&str; 3] = ["exception_method", "exception_goto", "exception_default_value"];

    /// Parameters with which a component reads what it reads only then.
    fn variants(kind: &str) -> Vec<serde_json::Value> {
        use serde_json::json;
        let by = |key: &str, values: &[&str]| values.iter().map(|value| json!({key: value})).collect();
        match kind {
            "Agent" | "Categorize" | "LLM" => vec![json!({"temperatureEnabled": true, "topPEnabled": true,
                "presencePenaltyEnabled": true, "frequencyPenaltyEnabled": true, "maxTokensEnabled": true})],
            "DataOperations" => by(
                "operations",
                &["select_keys", "filter_values", "append_or_update", "remove_keys", "rename_keys"],
            ),
            "ListOperations" => by("operations", &["sort", "filter"]),
            "StringTransform" => by("method", &["split", "merge"]),
            "UserFillUp" => vec![json!({"timeout_seconds": 5})],
            _ => Vec::new(),
        }
    }

    /// A parameter that is declared is read, and one that is read is declared: else a form offers what
    /// changes nothing, or hides what does.
    #[test]
    fn what_is_declared_is_what_is_read() {
        use crate::params::asked_for;
        let of = |list: &[(&str, &'static [&'static str])], kind: &str| -> BTreeSet<String> {
            let found = list.iter().filter(|(of, _)| *of == kind).flat_map(|(_, keys)| *keys);
            found.map(|key| (*key).to_owned()).collect()
        };
        for spec in ALL {
            let schema = (spec.params_schema)();
            let declared: BTreeSet<String> =
                schema["properties"].as_object().unwrap().keys().cloned().collect();
            asked_for::take();
            for params in std::iter::once(serde_json::json!({})).chain(variants(spec.kind)) {
                let _ = crate::testing::Node::new(spec.kind, params).try_build();
            }
            let read: BTreeSet<String> =
                asked_for::take().into_iter().filter(|key| !COMMON.contains(&key.as_str())).collect();
            let expected: BTreeSet<String> =
                declared.difference(&of(&READ_ELSEWHERE, spec.kind)).cloned().collect();
            let read: BTreeSet<String> = read.difference(&of(&NOT_OFFERED, spec.kind)).cloned().collect();
            assert_eq!(read, expected, "{}: read on the left, declared on the right", spec.kind);
        }
    }

    #[test]
    fn published_canvases_build() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/canvases/ragflow");
        let Ok(files) = std::fs::read_dir(&folder) else {
            weft_testkit::skipped(format_args!("there are no published canvases at {}", folder.display()));
            return;
        };
        let catalog = catalog();
        let mut problems = Vec::new();
        for file in files {
            let path = file.unwrap().path();
            let json: serde_json::Value =
                serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let components =
                json.pointer("/dsl/components").or(json.pointer("/components")).unwrap().as_object().unwrap();
            let ids = components.keys().map(|id| id.as_str().into()).collect();
            for (id, component) in components {
                let kind = component["obj"]["component_name"].as_str().unwrap();
                // Files of the ingestion engine are not agents.
                let Some(spec) = catalog.get(kind) else { continue };
                let source = weft_core::NodeSource {
                    id: &id.as_str().into(),
                    kind,
                    params: component["obj"]["params"].as_object().unwrap(),
                    parent: None,
                    components: &ids,
                    item: None,
                    downstream: &[],
                    others: &weft_core::component::NoOthers,
                    measuring: false,
                };
                if let Err(found) = (spec.build)(&source) {
                    problems.push(format!("{} {id}: {found:?}", path.display()));
                }
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}
