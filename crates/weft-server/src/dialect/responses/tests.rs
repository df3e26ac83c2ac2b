use weft_core::component::MessageEnd;
use weft_core::context::{Limited, ToolFinished, ToolStarted};
use weft_core::seam::chat_model::Usage;
use weft_core::{ComponentId, TurnInput};

use super::*;

/// A run with these records: its events, and the final response.
fn told(records: Vec<Record>) -> (Vec<Json>, ResponseRun) {
    let mut run = ResponseRun::new(&"r".into(), &"s".into(), &"c".into());
    let mut events = Vec::new();
    for (seq, record) in (1..).zip(records) {
        events.extend(run.events(&Arc::new(Entry { seq, event: Some(seq), at_ms: 7_000, record })));
    }
    (events, run)
}

fn started() -> Record {
    let input = Box::new(TurnInput { query: "q".to_owned(), ..TurnInput::default() });
    Record::RunStarted {
        version: weft_core::journal::JOURNAL_VERSION,
        canvas: "c".into(),
        canvas_version: "v".into(),
        session: "s".into(),
        input,
        seed: 0,
        resumes: None,
        reply: String::new(),
        now_ms: 0,
        revision: 0,
        state: None,
        forks: None,
        limits: None,
        settings: None,
        by: "".into(),
    }
}

fn end(ending: Ending, limited: Vec<Limited>) -> Record {
    let usage = Usage { prompt_tokens: 3, completion_tokens: 5, ..Usage::default() };
    let error = (ending == Ending::Failed).then(|| "it broke".into());
    let (outputs, spent) = (Arc::default(), weft_core::budget::Spent::default());
    Record::RunFinished { ending, outputs, error, usage, uses: Vec::new(), limited, spent, elapsed: 0.0 }
}

fn node() -> ComponentId {
    "M".into()
}

fn said(activation: u32, text: &str) -> Record {
    Record::Said { activation, node: node(), text: text.into() }
}

fn kinds(events: &[Json]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn cited(number: u32, url: Option<&str>) -> Cited {
    let chunk = Chunk {
        document_id: "d".to_owned(),
        document_name: "a.pdf".to_owned(),
        url: url.map(str::to_owned),
        ..Chunk::default()
    };
    Cited { number, chunk: Arc::new(chunk) }
}

#[test]
fn text_and_reasoning_are_items_with_consecutive_numbers() {
    let (events, run) = told(vec![
        started(),
        Record::ThinkingStarted { activation: 1, node: node() },
        said(1, "hm"),
        Record::ThinkingEnded { activation: 1, node: node() },
        said(1, "Hel"),
        said(1, "lo"),
        Record::MessageEnded { activation: 1, node: node(), end: MessageEnd::default() },
        end(Ending::Succeeded, Vec::new()),
    ]);
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(kinds(&events), expected);
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let response = run.response();
    assert_eq!(events.last().unwrap()["response"], response);
    assert_eq!((&response["id"], &response["status"]), (&json!("resp_r"), &json!("completed")));
    assert_eq!(response["output"][0]["content"], json!([{"type": "reasoning_text", "text": "hm"}]));
    assert_eq!(response["output"][1]["content"][0]["text"], "Hello");
    assert_eq!((&response["usage"]["total_tokens"], &response["created_at"]), (&json!(8), &json!(7)));
}

#[test]
fn citations_are_annotations_with_their_positions() {
    let (events, run) = told(vec![
        started(),
        Record::Sourced { sources: vec![cited(0, None), cited(1, Some("https://x"))] },
        said(1, "é [ID:0] [ID: 1] [ID:9] [ID:x] [ID: é [ID:1] [ID:"),
        end(Ending::Succeeded, Vec::new()),
    ]);
    let response = run.response();
    let annotations = &response["output"][0]["content"][0]["annotations"];
    let expected = json!([
        {"type": "file_citation", "index": 2, "file_id": "d", "filename": "a.pdf"},
        {"type": "url_citation", "start_index": 9, "end_index": 16, "url": "https://x", "title": "a.pdf"},
        {"type": "url_citation", "start_index": 38, "end_index": 44, "url": "https://x", "title": "a.pdf"},
    ]);
    assert_eq!(*annotations, expected);
    let added: Vec<&Json> = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.annotation.added")
        .map(|event| &event["annotation"])
        .collect();
    assert_eq!(added, expected.as_array().unwrap().iter().collect::<Vec<_>>());
}

#[test]
fn retracted_text_stays_as_an_empty_item() {
    let (events, run) = told(vec![
        started(),
        said(1, "wro"),
        Record::MessageReset { activation: Some(1), node: node() },
        said(1, "right"),
        end(Ending::Succeeded, Vec::new()),
    ]);
    let response = run.response();
    let text = |place: usize| response["output"][place]["content"][0]["text"].clone();
    assert_eq!((text(0), text(1)), (json!(""), json!("right")));
    assert_eq!(response["output"][0]["status"], "incomplete");
    let finished: Vec<&Json> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| &event["item"])
        .collect();
    assert_eq!(finished, response["output"].as_array().unwrap().iter().collect::<Vec<_>>());
}

#[test]
fn tool_calls_are_sent_whole_and_unfinished_ones_are_incomplete() {
    let call = |id: &str| ToolStarted {
        agent: "Agent:A".into(),
        path: "A-->look".into(),
        call: id.into(),
        tool: "look".into(),
        arguments: Arc::new(json!({"q": 1})),
    };
    let gave = |id: &str, failed: bool| ToolFinished {
        started: call(id),
        result: Arc::new(json!({"n": 1})),
        failed,
        repaired: false,
        elapsed: 0.5,
    };
    let begun = |id: &str| Record::ToolStarted { activation: 1, call: call(id) };
    let over = |id: &str, failed| Record::ToolFinished { activation: 1, call: gave(id, failed) };
    let (events, run) = told(vec![
        started(),
        begun("c1"),
        begun("c2"),
        begun("c3"),
        over("c2", true),
        over("c1", false),
        end(Ending::Cancelled, Vec::new()),
    ]);
    let response = run.response();
    let calls = response["output"].as_array().unwrap();
    let statuses: Vec<&str> = calls.iter().map(|call| call["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["completed", "failed", "incomplete"]);
    assert_eq!((&calls[0]["output"], &calls[0]["arguments"]), (&json!("{\"n\":1}"), &json!("{\"q\":1}")));
    assert_eq!(calls[1]["error"]["content"][0]["text"], "{\"n\":1}");
    assert_eq!(kinds(&events).iter().filter(|kind| **kind == "response.output_item.done").count(), 3);
    assert_eq!(
        (response["status"].as_str(), kinds(&events).last()),
        (Some("cancelled"), Some(&"response.incomplete"))
    );
}

#[test]
fn every_ending_has_its_status() {
    let last = |ending, limited: Vec<Limited>| {
        let (events, run) = told(vec![started(), said(1, "x"), end(ending, limited)]);
        (kinds(&events).last().unwrap().to_string(), run.response())
    };
    let (kind, response) = last(Ending::Failed, Vec::new());
    assert_eq!((kind.as_str(), &response["error"]["message"]), ("response.failed", &json!("it broke")));
    assert_eq!(response["output"][0]["status"], "incomplete");
    let (kind, response) = last(Ending::Succeeded, vec![Limited::MaxRounds]);
    let details = json!({"reason": "max_output_tokens", "limit": "max_rounds"});
    assert_eq!((kind.as_str(), &response["incomplete_details"]), ("response.incomplete", &details));
    assert_eq!(last(Ending::Waiting, Vec::new()).0, "response.completed");
    let (_, run) = told(vec![started()]);
    assert_eq!((run.status(), &run.response()["usage"]), ("in_progress", &Json::Null));
}
