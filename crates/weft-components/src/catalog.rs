//! The list of all component types, by name.

use weft_core::{Catalog, ComponentSpec};

use crate::control::{
    begin, categorize, exit_loop, iteration, iteration_item, loop_item, repeat, switch, unbuilt, user_fill_up,
};
use crate::data::{
    data_operations, excel_processor, list_operations, lookup, retrieval, string_transform,
    variable_aggregator, variable_assigner,
};
use crate::ingestion::{
    compiler, extractor, file, one_chunker, parser, presentation_chunker, qa_chunker, table_chunker,
    tag_chunker, title_chunker, token_chunker, tokenizer,
};
use crate::model::{agent, browser, deep_research, llm};
use crate::output::{doc_generator, invoke, message};
use crate::tools::{
    ak_share, arxiv, bgpt, bing, calculator, code_exec, conversation_search, crawler, current_time, deepl,
    duck_duck_go, email, exe_sql, git_hub, google, google_scholar, http_get, jin10, keenable_search, pub_med,
    querit_contents, querit_search, qweather, read_file, searxng, tavily_extract, tavily_search, tu_share,
    web_search, wikipedia, write_file, yahoo_finance,
};

/// Every component type that this build can run.
pub static ALL: &[&ComponentSpec] = &[
    &agent::SPEC,
    &ak_share::SPEC,
    &arxiv::SPEC,
    &bgpt::SPEC,
    &begin::SPEC,
    &bing::SPEC,
    &browser::SPEC,
    &calculator::SPEC,
    &categorize::SPEC,
    &code_exec::SPEC,
    &compiler::SPEC,
    &conversation_search::SPEC,
    &crawler::SPEC,
    &current_time::SPEC,
    &data_operations::SPEC,
    &deepl::SPEC,
    &deep_research::SPEC,
    &doc_generator::SPEC,
    &duck_duck_go::SPEC,
    &email::SPEC,
    &excel_processor::SPEC,
    &exe_sql::SPEC,
    &exit_loop::SPEC,
    &extractor::SPEC,
    &file::SPEC,
    &git_hub::SPEC,
    &google::SPEC,
    &google_scholar::SPEC,
    &http_get::SPEC,
    &invoke::SPEC,
    &iteration::SPEC,
    &iteration_item::SPEC,
    &jin10::SPEC,
    &keenable_search::SPEC,
    &llm::SPEC,
    &list_operations::SPEC,
    &lookup::SPEC,
    &repeat::SPEC,
    &loop_item::SPEC,
    &message::SPEC,
    &one_chunker::SPEC,
    &parser::SPEC,
    &presentation_chunker::SPEC,
    &pub_med::SPEC,
    &qa_chunker::SPEC,
    &qweather::SPEC,
    &querit_contents::SPEC,
    &querit_search::SPEC,
    &read_file::SPEC,
    &retrieval::SPEC,
    &searxng::SPEC,
    &string_transform::SPEC,
    &switch::SPEC,
    &table_chunker::SPEC,
    &tag_chunker::SPEC,
    &tavily_extract::SPEC,
    &tavily_search::SPEC,
    &title_chunker::SPEC,
    &token_chunker::SPEC,
    &tokenizer::SPEC,
    &tu_share::SPEC,
    &user_fill_up::SPEC,
    &variable_aggregator::SPEC,
    &variable_assigner::SPEC,
    &web_search::SPEC,
    &wikipedia::SPEC,
    &write_file::SPEC,
    &yahoo_finance::SPEC,
];

/// Returns the component type of this name, including types that this build knows but cannot run.
pub fn find(kind: &str) -> Option<&'static ComponentSpec> {
    ALL.iter().copied().chain(&unbuilt::ALL).find(|spec| spec.kind == kind)
}

/// Returns the catalog that plans are compiled against: [`ALL`], and the names that this build knows but cannot run.
pub fn catalog() -> Catalog {
    Catalog::new(ALL.iter().copied().chain(&unbuilt::ALL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn declared(folder: &Path, found: &mut BTreeSet<String>) {
        // Split, so that this file does not seem to declare one.
        let declaration = concat!("static SPEC: ", "ComponentSpec = ComponentSpec {");
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

    /// Every name that published canvases have used for a component or an agent tool, of both generations,
    /// after the renames on loading.
    const PUBLISHED: &str = "Agent AgentInvoke AkShare Answer ArXiv BGPT Begin Bing Browser Categorize CodeExec Compiler Crawler
        DataOperations DeepL DocGenerator DuckDuckGo Email ExcelProcessor ExeSQL ExitLoop ExtractKeywords Extractor File
        Generate GitHub Google GoogleScholar Invoke Iteration IterationItem Jin10 KeenableSearch KeywordExtract LLM
        ListOperations Loop LoopItem Message Parser PubMed QWeather QueritContents QueritSearch Retrieval RewriteQuestion
        SearXNG StringTransform Switch TavilyExtract TavilySearch TitleChunker TokenChunker Tokenizer TuShare UserFillUp
        VariableAggregator VariableAssigner WaitingDialogue WenCai Wikipedia YahooFinance";

    /// A name is a component, or is refused by name; none is unknown.
    #[tokio::test]
    async fn every_published_component_runs_or_is_refused_by_name() {
        for kind in PUBLISHED.split_whitespace() {
            let spec = find(kind).unwrap_or_else(|| panic!("{kind} is unknown"));
            let node = crate::testing::Node::new(kind, serde_json::json!({}));
            let Ok(component) = node.try_build() else {
                // It names the missing parameter.
                continue;
            };
            let refused = component.shape().unsupported;
            assert_eq!(
                refused.is_some(),
                !ALL.iter().any(|one| one.kind == spec.kind),
                "{kind}: {refused:?}"
            );
            assert!(refused.is_none_or(|why| why.contains(kind) && why.contains('(')), "{kind}");
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
    fn every_component_builds_from_defaults_or_reports_what_is_missing() {
        for spec in catalog().all() {
            let node = crate::testing::Node::new(spec.kind, serde_json::json!({}));
            if let Err(problems) = node.try_build() {
                assert!(!problems.is_empty(), "{}", spec.kind);
            }
            assert_eq!(spec.parameters()["type"], "object", "{}", spec.kind);
        }
    }

    /// Declared parameters that are read elsewhere, and where.
    const READ_ELSEWHERE: [(&str, &[&str]); 2] = [
        // By the agent that has it as a tool.
        ("Agent", &["function_name", "description", "user_prompt"]),
        // By the plan: a node shows no prologue.
        ("Begin", &["prologue", "enablePrologue"]),
    ];
    /// Settings with which a component reads further parameters.
    fn variants(kind: &str) -> Vec<serde_json::Value> {
        use serde_json::json;
        let by = |key: &str, values: &[&str]| values.iter().map(|value| json!({key: value})).collect();
        match kind {
            "Agent" | "Categorize" | "Compiler" | "Extractor" | "Browser" | "LLM" => {
                vec![json!({"temperatureEnabled": true, "topPEnabled": true,
                "presencePenaltyEnabled": true, "frequencyPenaltyEnabled": true, "maxTokensEnabled": true})]
            }
            "DeepResearch" => {
                let engine = |engine: &weft_core::field::Choice| {
                    json!({"engine": engine.value, "temperatureEnabled": true, "topPEnabled": true,
                        "presencePenaltyEnabled": true, "frequencyPenaltyEnabled": true, "maxTokensEnabled": true})
                };
                web_search::ENGINES.iter().map(engine).collect()
            }
            "DataOperations" => by(
                "operations",
                &["select_keys", "filter_values", "append_or_update", "remove_keys", "rename_keys"],
            ),
            "ListOperations" => by("operations", &["sort", "filter"]),
            "StringTransform" => by("method", &["split", "merge"]),
            "WebSearch" => web_search::ENGINES.iter().map(|engine| json!({"engine": engine.value})).collect(),
            "Begin" => by("mode", &["webhook"]),
            "UserFillUp" => vec![json!({"timeout_seconds": 5})],
            _ => Vec::new(),
        }
    }

    /// Every declared parameter is read, and every parameter that is read is declared: otherwise a form offers
    /// an ineffective setting, or hides an effective one.
    #[cfg(debug_assertions)]
    #[test]
    fn declared_parameters_match_those_read() {
        use weft_core::field::specs;
        use weft_core::params::asked_for;
        for spec in ALL {
            let elsewhere =
                READ_ELSEWHERE.iter().filter(|(kind, _)| *kind == spec.kind).flat_map(|(_, keys)| *keys);
            let elsewhere: BTreeSet<&str> = elsewhere.copied().collect();
            let declared = specs(spec.fields).flat_map(|spec| std::iter::once(&spec.name).chain(spec.older));
            let expected: BTreeSet<&str> =
                declared.copied().filter(|name| !elsewhere.contains(name)).collect();
            asked_for::take();
            for params in std::iter::once(serde_json::json!({})).chain(variants(spec.kind)) {
                let _ = crate::testing::Node::new(spec.kind, params).try_build();
            }
            let mut read = asked_for::take();
            // Those that every component has.
            let common =
                [weft_core::field::common::RETRY_IF.name(), weft_core::field::common::RETRY_MAX.name()];
            read.retain(|name| !common.contains(name));
            if spec.kind == "LoopItem" {
                // It reads those of its Loop.
                read.clear();
            }
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
                let Some(spec) = catalog.get(kind) else { continue };
                let upstream = component["upstream"].as_array().into_iter().flatten();
                let upstream: Vec<weft_core::ComponentId> =
                    upstream.filter_map(serde_json::Value::as_str).map(Into::into).collect();
                let source = weft_core::NodeSource {
                    id: &id.as_str().into(),
                    kind,
                    params: component["obj"]["params"].as_object().unwrap(),
                    parent: None,
                    components: &ids,
                    item: None,
                    downstream: &[],
                    upstream: &upstream,
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
