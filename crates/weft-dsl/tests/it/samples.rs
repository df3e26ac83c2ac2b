//! Real canvases, if their folder exists.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;
use weft_dsl::{CompileOptions, compile, load};

use crate::catalog::catalog;

/// The files of the optional folder of real canvases: name and text.
pub(crate) fn files() -> Vec<(String, String)> {
    let shared = option_env!("WEFT_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let Ok(folder) = std::fs::read_dir(shared.join("canvases/ragflow")) else {
        weft_testkit::skipped("there is no folder of existing canvases (WEFT_SHARED)");
        return Vec::new();
    };
    let mut files: Vec<_> = folder
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            (
                path.file_stem().unwrap().to_string_lossy().into_owned(),
                std::fs::read_to_string(&path).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

/// The warnings of one of them: its first component cannot run, and hence none of the others.
const HEADHUNTER: &[&str] = &[
    "will-fail",
    "unsupported-component",
    "older-generation",
    "unsupported-component",
    "unsupported-component",
    "unsupported-component",
    "unsupported-component",
];

#[test]
fn every_agent_and_every_pipeline_compiles() {
    for (name, text) in files() {
        let canvas = load(text.as_bytes()).unwrap();
        let result = compile(&canvas, &catalog(), &CompileOptions::default());
        match name.as_str() {
            // Its prompts name nodes that were renamed; only an Extractor finds the intended ones.
            "advanced_ingestion_pipeline" => {
                let problems = result.unwrap_err();
                assert!(problems.iter().all(|problem| problem.code == "unknown-reference"), "{problems:#?}");
                assert_eq!(problems.len(), 3);
            }
            _ => {
                let compiled = result.unwrap_or_else(|problems| panic!("{name}: {problems:#?}"));
                let expected: &[&str] = match name.as_str() {
                    "exesql" => &["will-fail"],
                    "headhunter_zh" => HEADHUNTER,
                    // `{iteration:0@generate` is not closed there.
                    "iteration" => &["unclosed-reference"],
                    _ => &[],
                };
                let codes: Vec<_> = compiled.warnings.iter().map(|warning| warning.code).collect();
                assert_eq!(codes, expected, "{name}: {:#?}", compiled.warnings);
                assert_eq!(compiled.plan.nodes.len(), canvas.nodes.len(), "{name}");
            }
        }
    }
}

#[test]
fn every_file_is_saved_unchanged() {
    for (name, text) in files() {
        let written: Json = serde_json::from_str(&text).unwrap();
        let canvas = load(text.as_bytes()).unwrap();
        assert_eq!(canvas.as_written().to_string(), written.to_string(), "{name}");
        let renamed =
            matches!(name.as_str(), "advanced_ingestion_pipeline" | "chunk_summary" | "title_chunker");
        assert_eq!(canvas.to_json() != written, renamed, "{name}");
        let text = canvas.to_json().to_string();
        assert_eq!(
            load(text.as_bytes()).unwrap().to_json().to_string(),
            text,
            "{name}: twice is the same as once"
        );
        if !renamed {
            assert_eq!(text, written.to_string(), "{name}");
        }
    }
}

/// The editor derives `components` from the drawing; so do we, with the same result.
#[test]
fn a_drawing_compiles_to_the_same_components_as_the_editor() {
    let mut compared = 0;
    for (name, text) in files() {
        let mut document: Json = serde_json::from_str(&text).unwrap();
        if document.pointer("/dsl/graph").is_none() || name == "title_chunker" {
            continue;
        }
        let whole = load(text.as_bytes()).unwrap();
        document["dsl"].as_object_mut().unwrap().remove("components");
        let drawn = load(document.to_string().as_bytes()).unwrap();
        let mut expected: Vec<_> = whole.nodes.keys().collect();
        let mut found: Vec<_> = drawn.nodes.keys().collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{name}");
        for (id, node) in &whole.nodes {
            let links = |node: &weft_dsl::CanvasNode| {
                node.downstream.iter().map(|l| l.to.clone()).collect::<Vec<_>>()
            };
            assert_eq!(links(&drawn.nodes[id]), links(node), "{name}: {id}");
            assert_eq!(
                (&drawn.nodes[id].kind, &drawn.nodes[id].name),
                (&node.kind, &node.name),
                "{name}: {id}"
            );
            let tools = |node: &weft_dsl::CanvasNode| -> Vec<_> {
                let tools = node.params.get("tools").and_then(Json::as_array).into_iter().flatten();
                tools.map(|tool| tool["component_name"].clone()).collect()
            };
            assert_eq!(tools(&drawn.nodes[id]), tools(node), "{name}: {id}");
            if node.kind == "Categorize" {
                // The editor sorts the categories; the drawing has them in drawing order.
                let to = |node: &weft_dsl::CanvasNode| -> BTreeMap<_, _> {
                    let categories = node.params["category_description"].as_object().unwrap();
                    categories.iter().map(|(name, category)| (name.clone(), category["to"].clone())).collect()
                };
                assert_eq!(to(&drawn.nodes[id]), to(node), "{name}: {id}");
            }
        }
        compared += 1;
    }
    assert!(compared > 5 || files().is_empty());
}

#[test]
fn sample_canvases_compile_without_diagnostics() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../canvases");
    let files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("canvas.json"))
        .filter(|path| path.is_file())
        .collect();
    assert!(!files.is_empty());
    for path in files {
        let text = std::fs::read(&path).unwrap();
        let canvas = load(&text).unwrap();
        let compiled = compile(&canvas, &catalog(), &CompileOptions::default());
        let compiled = compiled.unwrap_or_else(|problems| panic!("{}: {problems:#?}", path.display()));
        assert_eq!(compiled.warnings, [], "{}", path.display());
        assert_eq!(canvas.to_json(), serde_json::from_slice::<Json>(&text).unwrap());
    }
}
