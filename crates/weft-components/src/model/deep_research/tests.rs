use serde_json::{Value as Json, json};
use weft_agent::research::tags;
use weft_core::citation::Chunk;
use weft_core::context::Signal;
use weft_core::seam::chat_model::ChatDelta;
use weft_core::seam::http::HttpResponse;
use weft_core::{ErrorKind, Piece};

use crate::testing::{Node, Setting, Stage, failure};

fn chunk(id: &str) -> Chunk {
    Chunk {
        id: id.to_owned(),
        content: format!("{id} text"),
        document_id: "d".to_owned(),
        document_name: "d.md".to_owned(),
        ..Chunk::default()
    }
}

fn setting() -> Setting {
    Setting { query: "Why?", ..Setting::default() }
}

/// A node with these answers of its model, and these passages in its datasets.
fn stage(node: &Node, setting: Setting, answers: &[&str], passages: &[&str]) -> Stage {
    let stage = Stage::new(node, &*node.build(), setting);
    for answer in answers {
        stage.answer_text(answer);
    }
    *stage.outside.found.lock().unwrap() = passages.iter().map(|id| chunk(id)).collect();
    stage
}

fn last_system(stage: &Stage) -> String {
    stage.asked().last().unwrap().messages[0].text.clone()
}

#[tokio::test]
async fn a_question_is_answered_from_all_that_was_found() {
    let node = Node::new("DeepResearch", json!({"dataset_ids": ["one"], "sys_prompt": "Be brief."}));
    let (first, third) = (tags::query("rain"), tags::query("snow"));
    let answers =
        [&*first, "A [ID:0].", &*third, "B [ID:1].", "Enough.", "It rains [ID:0] and snows [ID: 1] [ID:9]."];
    let stage = stage(&node, setting(), &answers, &["a", "b"]);
    let outputs = json!(node.build().run(&stage.ctx).await.unwrap().outputs);
    // A mark without a source is removed, and others are normalised.
    assert_eq!(outputs["content"], "It rains [ID:0] and snows [ID:1].");
    assert_eq!(outputs["chunks"].as_array().unwrap().len(), 2);
    assert_eq!(outputs["queries"][1]["query"], "snow");
    assert_eq!(outputs["sources"], json!([{"kind": "dataset", "count": 2}]));
    assert_eq!((&outputs["stop_reason"], &outputs["gaps"]), (&json!("enough"), &json!([])));
    let system = last_system(&stage);
    for part in ["Be brief.", "ID: 0\nTitle: d.md\na text", "ID: 1", "Naming your sources"] {
        assert!(system.contains(part), "{system}");
    }
    assert_eq!(stage.asked().last().unwrap().messages[1].text, "Why?");
    assert_eq!(stage.outside.searched.lock().unwrap()[1].questions, ["snow"]);
}

/// At its last step a model may send one more stray query; it is not shown, and only a query is no answer.
#[tokio::test]
async fn an_answer_contains_no_search_tags() {
    let node = Node::new("DeepResearch", json!({"dataset_ids": ["one"], "reasoning": false}));
    let ran = async |answers: &[&str]| {
        let stage = stage(&node, setting(), answers, &["a"]);
        node.build().run(&stage.ctx).await.map(|finished| json!(finished.outputs)["content"].clone())
    };
    let asks = tags::query("rain");
    let (asks, beside) = (asks.as_str(), format!("I look. {asks}So [ID:0]."));
    assert_eq!(ran(&[beside.as_str()]).await.unwrap(), "I look. So [ID:0].");
    // Asked once more, it answers.
    assert_eq!(ran(&[asks, "It rains [ID:0]."]).await.unwrap(), "It rains [ID:0].");
    assert!(ran(&[asks, asks]).await.unwrap_err().gave_nothing);
}

/// The findings are reported in any case, however often the model continues to search.
#[tokio::test]
async fn a_model_that_only_searches_still_gets_an_answer() {
    let node = Node::new("DeepResearch", json!({"dataset_ids": ["one"], "max_steps": 1}));
    let (first, more) = (tags::query("rain"), tags::query("more"));
    let answers = [&*first, "It rains [ID:0].", &*more, &*more];
    let setting = Setting { heard: true, ..setting() };
    let mut stage = stage(&node, setting, &answers, &["a"]);
    let outputs = json!(node.build().run(&stage.ctx).await.unwrap().outputs);
    assert_eq!(outputs["content"], "It rains [ID:0].");
    assert_eq!(outputs["stop_reason"], "limit");
    let asked = stage.asked().last().unwrap().messages.last().unwrap().text.clone();
    assert!(asked.starts_with("Why?") && asked.contains("Answer in words now"), "{asked}");
    let (pieces, end) = heard(&mut stage).await;
    let said =
        all(&pieces, |piece| if let Piece::Text(text) = piece { Some(text.to_string()) } else { None });
    assert_eq!((said.as_str(), end), ("It rains [ID:0].", None));
}

/// Even if nothing was found that a mark could lead to.
#[tokio::test]
async fn marks_without_a_source_are_removed_from_the_answer() {
    let node = Node::new("DeepResearch", json!({"dataset_ids": ["missing"]}));
    let query = tags::query("rain");
    let answers = [&*query, "Enough.", "It is so [ID:1]."];
    let stage = stage(&node, setting(), &answers, &[]);
    let outputs = json!(node.build().run(&stage.ctx).await.unwrap().outputs);
    assert_eq!((&outputs["content"], &outputs["stop_reason"]), (&json!("It is so."), &json!("failed")));
    assert!(stage.ctx.run.citations.was_searched());
}

/// A switch in a form, or on the canvas, turns it off: then it searches once, as Retrieval does.
#[tokio::test]
async fn without_reasoning_it_searches_once() {
    for (reasoning, setting) in [
        (json!(false), setting()),
        (
            json!("{begin@deep}"),
            Setting { query: "Why?", ..Setting::values([("begin@deep", json!("false"))]) },
        ),
    ] {
        let node = Node::new("DeepResearch", json!({"dataset_ids": ["one"], "reasoning": reasoning}));
        let stage = stage(&node, setting, &["So [ID:0]."], &["a"]);
        let outputs = json!(node.build().run(&stage.ctx).await.unwrap().outputs);
        assert_eq!((&outputs["content"], &outputs["stop_reason"]), (&json!("So [ID:0]."), &json!("once")));
        assert_eq!(stage.outside.searched.lock().unwrap().len(), 1);
        assert_eq!(stage.asked().len(), 1);
    }
}

/// The chunks that a listener sees.
async fn heard(stage: &mut Stage) -> (Vec<Piece>, Option<ErrorKind>) {
    let mut pieces = Vec::new();
    for signal in stage.signals() {
        let Signal::Publish(_, text) = signal else { continue };
        let mut reader = text.read();
        loop {
            match reader.next().await {
                Ok(Some(piece)) => pieces.push(piece),
                Ok(None) => return (pieces, None),
                Err(error) => return (pieces, Some(error.kind)),
            }
        }
    }
    panic!("nothing was published")
}

fn all(pieces: &[Piece], thinking: impl Fn(&Piece) -> Option<String>) -> String {
    pieces.iter().filter_map(thinking).collect()
}

#[tokio::test]
async fn the_research_is_shown_as_thinking_and_the_answer_as_text() {
    let node = Node::new("DeepResearch", json!({"dataset_ids": ["one"]}));
    let query = format!("I look. {}", tags::query("rain"));
    let setting = Setting { heard: true, ..setting() };
    let mut stage = stage(&node, setting, &[&query, "It rains.", "Enough.", "So [ID:0]."], &["a"]);
    node.build().run(&stage.ctx).await.unwrap();
    let (pieces, end) = heard(&mut stage).await;
    let thought =
        all(&pieces, |piece| if let Piece::Thinking(text) = piece { Some(text.to_string()) } else { None });
    let said =
        all(&pieces, |piece| if let Piece::Text(text) = piece { Some(text.to_string()) } else { None });
    assert!(
        thought.contains("I look.") && thought.contains("It rains.") && !thought.contains("<|"),
        "{thought}"
    );
    assert_eq!((said.as_str(), end), ("So [ID:0].", None));
    let first_text = pieces.iter().position(|piece| matches!(piece, Piece::Text(_))).unwrap();
    assert!(pieces[first_text..].iter().all(|piece| matches!(piece, Piece::Text(_))));
}

#[tokio::test]
async fn a_failure_ends_the_stream() {
    let node = Node::new("DeepResearch", json!({"dataset_ids": ["one"]}));
    let mut stage = stage(&node, Setting { heard: true, ..setting() }, &[], &["a"]);
    stage.answer([ChatDelta::Text("I look.".to_owned()), ChatDelta::Warning("break".to_owned())]);
    let error = node.build().run(&stage.ctx).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    let (pieces, end) = heard(&mut stage).await;
    assert!(matches!(pieces.as_slice(), [Piece::Thinking(_), ..]), "{pieces:?}");
    assert_eq!(end, Some(ErrorKind::Unavailable));
}

#[tokio::test]
async fn the_web_is_searched_too() {
    let params = json!({"dataset_ids": ["missing"], "api_key": "k-12345", "strategy": "tree", "depth": 0});
    let node = Node::new("DeepResearch", params);
    let verdict = json!({"is_sufficient": false, "missing_information": ["when"]}).to_string();
    let stage = stage(&node, setting(), &[&verdict, "It is so [ID:0]."], &[]);
    let body =
        json!({"results": [{"url": "https://a.example/", "title": "A", "content": "Page."}]}).to_string();
    stage.outside.pages.lock().unwrap().push(Ok(HttpResponse { status: 200, headers: Vec::new(), body }));
    let outputs = json!(node.build().run(&stage.ctx).await.unwrap().outputs);
    let sent = stage.outside.sent.lock().unwrap();
    assert_eq!(sent[0].url, "https://api.tavily.com/search");
    assert!(matches!(&sent[0].body, weft_core::seam::http::HttpBody::Json(body)
        if body["query"] == "Why?" && body["search_depth"] == "advanced" && body["max_results"] == 6));
    assert_eq!(outputs["sources"], json!([{"kind": "web", "count": 1}]));
    assert_eq!((&outputs["gaps"], &outputs["stop_reason"]), (&json!(["when"]), &json!("limit")));
    assert!(outputs["notes"][0].as_str().unwrap().contains("the source `dataset` failed: "));
    assert!(last_system(&stage).contains("## Not found\n\n- when"), "the model learns what is missing");
}

#[tokio::test]
async fn no_hits_and_no_sources_are_reported() {
    let node = Node::new("DeepResearch", json!({"dataset_ids": ["one"], "reasoning": false}));
    let stage = stage(&node, setting(), &["I found nothing."], &[]);
    let outputs = json!(node.build().run(&stage.ctx).await.unwrap().outputs);
    assert_eq!((&outputs["content"], &outputs["chunks"]), (&json!("I found nothing."), &json!([])));
    assert!(last_system(&stage).contains("Nothing was found"));
    let error = failure(&Node::new("DeepResearch", json!({})), setting()).await;
    assert!(error.full().contains("there is nothing to search (choose datasets"), "{}", error.full());
    let node = Node::new("DeepResearch", json!({"dataset_ids": ["one"]}));
    let error = failure(&node, Setting::default()).await;
    assert!(error.full().contains("there is no question"), "{}", error.full());
}

#[test]
fn parameters_are_checked() {
    let problems = |params: Json| Node::new("DeepResearch", params).problems();
    assert_eq!(problems(json!({"dataset_ids": ["one"], "engine": "altavista"})), ["/engine"]);
    let wrong = json!({"strategy": "guess", "max_steps": 0, "depth": 9, "seconds": "x", "web_results": 21, "engine": "tavily"});
    let mut found = problems(wrong);
    found.sort();
    assert_eq!(found, ["/depth", "/max_steps", "/seconds", "/strategy", "/web_results"]);
    let shape = Node::new("DeepResearch", json!({"engine": "tavily"})).build().shape();
    assert_eq!(shape.lacks.unwrap().pointer, "/api_key");
    let arguments = super::SPEC.arguments().unwrap();
    assert_eq!(arguments["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), ["query"]);
}

#[tokio::test]
async fn points_that_are_not_certain_are_answered_with_a_caveat() {
    let node = Node::new("DeepResearch", json!({"dataset_ids": ["one"], "strategy": "agentic", "depth": 0}));
    let plan = json!({"claims": [{"question": "Is it so?", "query": "so"}]}).to_string();
    let report =
        json!({"report": "It may be so [ID:0].", "confidence": 0.6, "gaps": ["the year"]}).to_string();
    let verdict = json!({"is_sufficient": false, "confidence": 0.6}).to_string();
    let stage = stage(&node, setting(), &[&plan, &report, &verdict, "Perhaps [ID:0]."], &["a"]);
    let outputs = json!(node.build().run(&stage.ctx).await.unwrap().outputs);
    assert_eq!(outputs["claims"][0]["verified"], false);
    assert_eq!((&outputs["gaps"], &outputs["stop_reason"]), (&json!(["the year"]), &json!("limit")));
    let system = last_system(&stage);
    for part in ["### Is it so?\nIt may be so [ID:0].\nThis is not certain", "## Not found\n\n- the year"] {
        assert!(system.contains(part), "{system}");
    }
}

/// The effort of `reasoning` sets what the canvas leaves open.
#[tokio::test]
async fn the_effort_is_read_from_the_reasoning_setting() {
    for (reasoning, params, searches) in [
        (json!("low"), json!({}), 1),
        (json!("{begin@effort}"), json!({}), 1),
        (json!(1), json!({"max_searches": 5, "depth": 1}), 2),
        // Other strategies have no efforts.
        (json!("low"), json!({"strategy": "tree", "depth": 1}), 1),
    ] {
        let mut all = json!({"dataset_ids": ["one"], "strategy": "agentic", "reasoning": reasoning});
        for (key, value) in params.as_object().unwrap() {
            all[key] = value.clone();
        }
        let node = Node::new("DeepResearch", all);
        let plan = json!({"claims": [{"question": "Is it so?", "query": "so"}, {"question": "B?", "query": "b"}],
            "is_sufficient": true, "missing_information": []});
        let report = json!({"report": "So [ID:0].", "confidence": 0.1, "gaps": ["the year"]}).to_string();
        let setting = Setting { query: "Why?", ..Setting::values([("begin@effort", json!("low"))]) };
        let stage = stage(&node, setting, &[&plan.to_string(), &report, &report, "So."], &["a"]);
        node.build().run(&stage.ctx).await.unwrap();
        assert_eq!(stage.outside.searched.lock().unwrap().len(), searches, "{params}");
    }
}

#[tokio::test]
async fn at_the_highest_effort_the_model_may_answer_from_its_own_knowledge() {
    for (reasoning, by_itself) in [(json!("ultra"), true), (json!("high"), false)] {
        let node = Node::new(
            "DeepResearch",
            json!({"dataset_ids": ["one"], "strategy": "agentic", "reasoning": reasoning, "depth": 0}),
        );
        let plan = json!({"claims": [{"question": "Is it so?", "query": "so"}]}).to_string();
        let stage = stage(&node, setting(), &[&plan, "I think so."], &[]);
        node.build().run(&stage.ctx).await.unwrap();
        assert_eq!(last_system(&stage).contains("no source confirms"), by_itself);
    }
}
