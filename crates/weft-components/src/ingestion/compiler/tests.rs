//! The compiler of documents, from the parameters of the node to the searchable chunks.

use std::collections::HashMap;

use serde_json::json;
use weft_core::context::Signal;
use weft_core::{ErrorKind, Json, Value};

use super::kind::{KINDS, TemplateKind};
use super::templates::{CompilationTemplate, ListField, chosen};
use crate::params::Params;
use crate::testing::{Node, Setting, Stage, failure};

fn compiler(params: Json) -> Node {
    Node::new("Compiler", params).behind("TokenChunker:C", "TokenChunker")
}

fn values(chunks: Json) -> HashMap<&'static str, Value> {
    let document = json!({"file": "f1", "name": "a.pdf"});
    HashMap::from([("TokenChunker:C@document", document.into()), ("TokenChunker:C@chunks", chunks.into())])
}

fn chunks() -> Json {
    let at = |page: u32| json!([{"page": page, "left": 0.0, "right": 1.0, "top": 0.0, "bottom": 1.0}]);
    json!([
        {"text": "The bridge was opened in 1932.", "headings": ["History"], "positions": at(1)},
        {"text": "Work on it had begun in 1928.", "positions": at(2), "own": true},
    ])
}

/// The templates of a node, and the places of errors and warnings.
fn read(params: Json) -> (Vec<CompilationTemplate>, Vec<String>, Vec<String>) {
    let node = compiler(params);
    let source = node.source();
    let mut params = Params::of(&source);
    let templates = chosen(&mut params).templates;
    let problems = params.problems().iter().map(|problem| problem.pointer.clone()).collect();
    (templates, problems, params.warnings().into_iter().map(|problem| problem.pointer).collect())
}

#[tokio::test]
async fn compiled_knowledge_is_added_beside_the_document_chunks() {
    let node = compiler(json!({"compilation_template_group_id": "timeline"}));
    let component = node.build();
    let mut stage =
        Stage::new(&node, &*component, Setting { values: values(chunks()), ..Setting::default() });
    let events = json!({"items": [{"name": "The bridge is opened", "time": "1932", "sources": [1]},
        {"name": "Work begins", "time": "1928", "description": "on the bridge", "sources": [2]}]});
    stage.answer_text(&format!("```json\n{events}\n```"));
    let found = json!(component.run(&stage.ctx).await.unwrap().outputs);
    let chunks = found["chunks"].as_array().unwrap();
    assert_eq!((chunks.len(), &chunks[1]["own"]), (3, &json!(true)));
    let made = &chunks[2];
    assert_eq!(
        made["text"],
        "Timeline (a.pdf)\n\n- 1928: Work begins (on the bridge)\n- 1932: The bridge is opened"
    );
    let pages: Vec<_> = made["positions"].as_array().unwrap().iter().map(|at| at["page"].clone()).collect();
    assert_eq!((pages, &made["compiled"]["kind"]), (vec![json!(1), json!(2)], &json!("timeline")));
    assert_eq!(found["compiled"][0]["items"][0]["time"], "1928");
    assert_eq!(found["document"].get("warnings"), None);

    // The model sees the passages with their numbers, and the format of its answer.
    let asked = stage.asked().remove(0);
    assert_eq!(asked.messages.len(), 2);
    assert!(asked.messages[1].text.starts_with("[1] History\nThe bridge was opened"), "{asked:?}");
    assert!(asked.messages[0].text.contains("What is wanted is a timeline"), "{asked:?}");
    assert!(
        asked.schema.is_some_and(
            |schema| schema["properties"]["items"]["items"]["required"] == json!(["name", "time"])
        )
    );
    assert!(!stage.signals().iter().any(|signal| matches!(signal, Signal::Warn(_))));
}

#[tokio::test]
async fn a_part_the_model_fails_on_is_omitted_and_reported() {
    let long = "words about the bridge ".repeat(30);
    let given = json!([{"text": long}, {"text": long}, {"text": "the end"}, {"text": " "}]);
    let params = json!({"compilation_template_group_id": "wiki", "llm_id": "small", "max_calls": 2});
    let node = compiler(params);
    let component = node.build();
    let mut stage = Stage::new(&node, &*component, Setting { values: values(given), ..Setting::default() });
    let page = json!({"items": [{"name": "Bridge", "type": "building", "description": "It stands.", "facts": ["It is red."]}]});
    // Four answers: each of the two parts is requested, and once more as the answer has the wrong format.
    for answer in ["none", "none", "none", "none"] {
        stage.answer_text(answer);
    }
    let found = json!(component.run(&stage.ctx).await.unwrap().outputs);
    let said = found["document"]["warnings"].as_array().unwrap();
    let said: Vec<&str> = said.iter().filter_map(Json::as_str).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].starts_with("`Wiki` is compiled without the chunks 1 to 1: no answer of the model"),
        "{said:?}"
    );
    assert!(
        stage.signals().iter().any(|signal| matches!(signal, Signal::Warn(text) if text.as_str() == said[1]))
    );
    assert_eq!((found["chunks"].as_array().unwrap().len(), &found["compiled"][0]["items"]), (4, &json!([])));

    // One call covers one part; the parts after it are reported as well.
    let params = json!({"compilation_template_group_id": "wiki", "llm_id": "small", "max_calls": 1});
    let node = compiler(params);
    let component = node.build();
    let given = json!([{"text": long}, {"text": long}]);
    let stage = Stage::new(&node, &*component, Setting { values: values(given), ..Setting::default() });
    stage.answer_text("none").answer_text(&page.to_string());
    let found = json!(component.run(&stage.ctx).await.unwrap().outputs);
    assert_eq!(found["chunks"][2]["text"], "Bridge – building (a.pdf)\n\nIt stands.\n- It is red.");
    assert_eq!(
        found["document"]["warnings"],
        json!(["`Wiki` is compiled without the chunks from 2 on: `max_calls` is exhausted"])
    );
    assert!(
        stage.asked()[1].messages.last().unwrap().text.contains("can't be used"),
        "one answer is repaired"
    );
}

#[tokio::test]
async fn calls_unused_by_one_template_go_to_another() {
    let long = "words about the bridge ".repeat(30);
    let given = |count: usize| Json::from(vec![json!({"text": long}); count]);
    let found = async |templates: Json, calls: usize, count: usize| {
        let params = json!({"templates": templates, "llm_id": "small", "max_calls": calls});
        let node = compiler(params);
        let component = node.build();
        let values = values(given(count));
        let stage = Stage::new(&node, &*component, Setting { values, ..Setting::default() });
        for _ in 0..count * 3 {
            stage.answer_text("{\"items\": []}");
        }
        let found = json!(component.run(&stage.ctx).await.unwrap().outputs);
        (stage.asked().len(), found["document"]["warnings"].clone())
    };
    let both = json!([{"kind": "wiki"}, {"kind": "list"}]);
    assert_eq!(found(both, 4, 2).await, (4, Json::Null));
    let three = json!([{"kind": "wiki"}, {"kind": "list"}, {"kind": "timeline"}]);
    let (asked, warnings) = found(three, 2, 1).await;
    assert_eq!((asked, warnings.as_array().map(Vec::len)), (2, Some(1)), "{warnings}");
    assert_eq!(warnings[0], "`Timeline` is compiled without the chunks from 1 on: `max_calls` is exhausted");
}

#[tokio::test]
async fn summaries_are_combined_into_one() {
    let long = "words about the bridge ".repeat(30);
    let node = compiler(json!({"compilation_template_group_id": "tree", "llm_id": "small"}));
    let component = node.build();
    let given = json!([{"text": long}, {"text": long}]);
    let stage = Stage::new(&node, &*component, Setting { values: values(given), ..Setting::default() });
    for name in ["first", "second", "whole"] {
        stage.answer_text(
            &json!({"items": [{"name": name, "description": format!("about the {name}")}]}).to_string(),
        );
    }
    let found = json!(component.run(&stage.ctx).await.unwrap().outputs);
    assert_eq!(
        found["chunks"][2]["text"],
        "Summaries (a.pdf)\n\n- whole: about the whole\n  - first: about the first\n  - second: about the second"
    );
    let above = stage.asked().remove(2);
    assert_eq!(above.messages[1].text, "first\nabout the first\n\nsecond\nabout the second\n\n");
    assert_eq!(found["compiled"][0]["items"][0]["parent"], "whole");
}

#[tokio::test]
async fn without_a_writing_model_the_document_reports_that_nothing_is_compiled() {
    let node = compiler(json!({"compilation_template_group_id": "tree", "llm_id": "quoting"}));
    let component = node.build();
    let mut stage =
        Stage::new(&node, &*component, Setting { values: values(chunks()), ..Setting::default() });
    let found = json!(component.run(&stage.ctx).await.unwrap().outputs);
    assert_eq!(found["chunks"].as_array().unwrap().len(), 2);
    let said = "nothing is compiled: no language model is configured";
    assert_eq!(found["document"]["warnings"], json!([said]));
    assert!(
        stage.signals().iter().any(|signal| matches!(signal, Signal::Warn(text) if text.as_str() == said))
    );
}

#[tokio::test]
async fn a_second_compiler_reads_the_document_not_the_first_result() {
    let mut given = chunks();
    given.as_array_mut().unwrap().push(json!({"text": "Timeline", "compiled": {"kind": "timeline"}}));
    let node = compiler(json!({"compilation_template_group_id": "graph"}));
    let component = node.build();
    let stage = Stage::new(&node, &*component, Setting { values: values(given), ..Setting::default() });
    let graph = json!({"items": [{"name": "Bridge", "type": "building"}],
        "relations": [{"from": "Bridge", "type": "crosses", "to": "River", "description": "in the north"}]});
    stage.answer_text(&graph.to_string());
    let found = json!(component.run(&stage.ctx).await.unwrap().outputs);
    assert_eq!(found["chunks"].as_array().unwrap().len(), 4);
    assert_eq!(
        found["chunks"][3]["text"],
        "Knowledge graph (a.pdf)\n\n- Bridge (building)\n- Bridge → crosses → River: in the north"
    );
    assert!(!stage.asked()[0].messages[1].text.contains("Timeline"));
}

#[test]
fn templates_are_built_in_or_custom() {
    for kind in KINDS {
        let (templates, problems, warnings) = read(json!({"compilation_template_group_id": kind.value}));
        assert_eq!((problems, warnings), (Vec::new(), Vec::new()), "{}", kind.value);
        assert_eq!(templates.len(), 1);
        assert_eq!(
            (templates[0].kind.name(), TemplateKind::of(kind.value)),
            (kind.value, Some(templates[0].kind))
        );
        assert!(weft_agent::structured::Schema::new(templates[0].kind.schema(&templates[0])).is_ok());
    }
    let (templates, ..) =
        read(json!({"compilation_template_group_ids": ["Page-Index", "pageindex", "mindmap"]}));
    let kinds: Vec<TemplateKind> = templates.iter().map(|template| template.kind).collect();
    assert_eq!(kinds, [TemplateKind::PageIndex, TemplateKind::MindMap]);

    // As a template is stored elsewhere.
    let config = json!({"kind": "knowledge_graph", "entity": {"description": "Find them.",
        "fields": [{"type": "person", "description": "Somebody.", "rule": "- Full name."}, {"type": ""}]},
        "relation": {"description": "", "fields": [{"type": "", "description": "", "rule": ""}]}, "global_rules": "Be brief.",
        "rechunk": true});
    let (templates, problems, warnings) = read(json!({"templates": [{"name": "Who", "config": config}]}));
    assert_eq!((problems, warnings), (Vec::new(), vec!["/templates/0/rechunk".to_owned()]));
    let words = "What is looked for: Find them.\n- `person`: Somebody. - Full name.\n\nBe brief.";
    assert_eq!((templates[0].name.as_str(), templates[0].words.as_str()), ("Who", words));

    let list = json!({"kind": "list", "instruction": "All duties.", "fields": [{"name": "party", "description": "who"}]});
    let (templates, problems, warnings) = read(json!({"templates": [list]}));
    assert_eq!((problems, warnings), (Vec::new(), Vec::new()));
    assert_eq!(templates[0].fields, [ListField { name: "party".to_owned(), description: "who".to_owned() }]);
    let schema = templates[0].kind.schema(&templates[0]);
    assert_eq!(
        schema.pointer("/properties/items/items/properties/values/properties/party/description"),
        Some(&json!("who"))
    );
}

#[tokio::test]
async fn missing_prerequisites_are_named_with_the_remedy() {
    let node = compiler(json!({"compilation_template_group_id": "d8c5d296aa0511f1998b3dc126099a8d"}));
    let said = node.build().shape().unsupported.unwrap();
    assert!(said.contains("`d8c5d296aa0511f1998b3dc126099a8d`") && said.contains("`timeline`"), "{said}");
    let error = failure(&node, Setting { values: values(chunks()), ..Setting::default() }).await;
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(
        error.message.contains("d8c5d296aa0511f1998b3dc126099a8d") && error.full().contains("`templates`"),
        "{error:?}"
    );

    // Beside its own templates, an unknown group is a warning.
    let both = json!({"compilation_template_group_id": "d8c5", "templates": [{"kind": "tree"}]});
    assert_eq!(compiler(both.clone()).build().shape().unsupported, None);
    assert_eq!(read(both).2, ["/compilation_template_group_id"]);
    let wrong = |params: Json| read(params).1;
    assert_eq!(wrong(json!({})), ["/compilation_template_group_id"]);
    assert_eq!(wrong(json!({"templates": [{"kind": "mindmp", "name": "M"}]})), ["/templates/0/kind"]);
    assert_eq!(
        wrong(json!({"templates": [{"kind": "wiki", "instruction": ["x"], "entity": 1, "fields": "x"}]})),
        ["/templates/0/instruction", "/templates/0/entity", "/templates/0/fields"]
    );
    assert_eq!(
        read(json!({"templates": [{"kind": "wiki", "fields": [{"name": "x"}]}]})).2,
        ["/templates/0/fields"]
    );
    let many = vec![json!({"kind": "wiki", "name": "W"}); 17];
    assert_eq!(wrong(json!({"templates": many})), ["/templates"]);
}
