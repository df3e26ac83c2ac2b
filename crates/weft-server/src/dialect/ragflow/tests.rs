use std::sync::Arc;

use serde_json::json;
use weft_core::citation::{Chunk, Cited};
use weft_core::component::{Form, MessageEnd};
use weft_core::journal::{ActivationRef, FrameStep, NextEdges, WaitingForm};
use weft_core::{Ending, Entry, Outputs, Record, RunId, TurnInput};

use super::*;
use weft_core::seam::chat_model::Usage;

fn entry(record: Record) -> Entry {
    Entry { seq: 1, event: Some(1), at_ms: 1_767_000_001_500, record }
}

fn view() -> RunView {
    let mut view = RunView::begun(&RunId::new("m1"), &"s1".into(), 1_767_000_000_999);
    view.inputs = json!({"a": 1}).as_object().unwrap().clone();
    view
}

fn who() -> ActivationRef {
    ActivationRef { name: "Writer".into(), ..crate::dialect::activation() }
}

#[track_caller]
fn check(record: Record, event: &str, data: &str) {
    let expected = format!(
        r#"{{"event":"{event}","message_id":"m1","created_at":1767000000,"task_id":"m1","session_id":"s1","data":{data}}}"#
    );
    assert_eq!(frame(&entry(record), &view()).unwrap(), expected);
}

fn said(text: &str) -> Record {
    Record::Said { activation: 1, node: "Message:M".into(), text: text.into() }
}

#[test]
fn starts() {
    let started = |resumes| Record::RunStarted {
        version: 1,
        canvas: "c".into(),
        canvas_version: "v".into(),
        session: "s1".into(),
        input: Box::new(TurnInput { inputs: view().inputs, ..TurnInput::default() }),
        seed: 1,
        resumes,
        reply: String::new(),
        now_ms: 0,
        revision: 0,
        state: None,
        forks: None,
        limits: None,
        settings: None,
        by: Arc::default(),
    };
    check(started(None), "workflow_started", r#"{"inputs":{"a":1}}"#);
    check(started(Some("m0".into())), "workflow_started", r#"{"inputs":{"a":1},"resumes":"m0"}"#);
    check(
        Record::NodeStarted { who: who() },
        "node_started",
        r#"{"inputs":null,"created_at":1767000001.5,"component_id":"Agent:A","component_name":"Writer","component_type":"Agent","thoughts":""}"#,
    );
    let mut learned = RunView::new(&"m1".into(), &"?".into());
    learned.learn(&entry(started(None)));
    assert_eq!((learned.session.as_str(), learned.started_ms), ("s1", 1_767_000_001_500));
    assert_eq!(learned.inputs, view().inputs);
}

#[test]
fn messages() {
    check(
        said("a \"b\"\u{2028}汉"),
        "message",
        r#"{"content":"a \"b\"\u2028汉","component_id":"Message:M"}"#,
    );
    let (activation, node) = (1, "Message:M".into());
    check(
        Record::ThinkingStarted { activation, node },
        "message",
        r#"{"content":"","start_to_think":true,"component_id":"Message:M"}"#,
    );
    let node = "Message:M".into();
    check(
        Record::ThinkingEnded { activation, node },
        "message",
        r#"{"content":"","end_to_think":true,"component_id":"Message:M"}"#,
    );
    let ended = |end| Record::MessageEnded { activation, node: "Message:M".into(), end };
    check(ended(MessageEnd::default()), "message_end", r#"{"component_id":"Message:M"}"#);
    check(
        ended(MessageEnd { status: Some(201), ..MessageEnd::default() }),
        "message_end",
        r#"{"component_id":"Message:M","status":201}"#,
    );
    check(
        Record::MessageReset { activation: None, node: "Message:M".into() },
        "message_reset",
        r#"{"component_id":"Message:M"}"#,
    );
}

/// A message in an iteration names its iteration while it runs.
#[test]
fn messages_in_rounds() {
    let rounds = [FrameStep { node: "Iteration:I".into(), activation: 2, round: 3 }];
    let who = ActivationRef { activation: 7, frame: rounds.into(), ..who() };
    let mut view = view();
    view.learn(&entry(Record::NodeStarted { who }));
    let said = |activation| {
        let record = Record::Said { activation, node: "Message:M".into(), text: "x".into() };
        let written: Json = serde_json::from_str(&frame(&entry(record), &view).unwrap()).unwrap();
        written["data"].clone()
    };
    let round = json!([{"node": "Iteration:I", "activation": 2, "round": 3}]);
    assert_eq!(said(7), json!({"content": "x", "component_id": "Message:M", "frame": round}));
    assert_eq!(said(8), json!({"content": "x", "component_id": "Message:M"}));
    let end = Record::MessageEnded { activation: 7, node: "Message:M".into(), end: MessageEnd::default() };
    let end: Json = serde_json::from_str(&frame(&entry(end), &view).unwrap()).unwrap();
    assert_eq!(end["data"]["frame"], round);
}

#[test]
fn sources() {
    let chunk = Chunk {
        id: "c9".into(),
        content: "…".into(),
        document_id: "d1".into(),
        document_name: "geo.pdf".into(),
        dataset_id: "k1".into(),
        similarity: Some(f64::NAN),
        ..Chunk::default()
    };
    let cited = vec![Cited { number: 4, chunk: Arc::new(chunk) }];
    check(
        Record::MessageEnded {
            activation: 1,
            node: "M".into(),
            end: MessageEnd { cited, ..MessageEnd::default() },
        },
        "message_end",
        r#"{"component_id":"M","reference":{"chunks":{"4":{"id":"c9","content":"…","document_id":"d1","document_name":"geo.pdf","dataset_id":"k1","image_id":null,"positions":[],"url":null,"similarity":null,"vector_similarity":null,"term_similarity":null,"doc_type":null}},"doc_aggs":{"geo.pdf":{"doc_name":"geo.pdf","doc_id":"d1","count":1}}}}"#,
    );
}

fn finished() -> Record {
    Record::NodeFinished {
        who: who(),
        inputs: Arc::new(Outputs::of("sys.query", json!("capital?"))),
        outputs: Arc::new(Outputs::of("content", json!("Paris"))),
        error: None,
        elapsed: 0.5,
        route: NextEdges::default(),
        assigned: Vec::new(),
        suspension: None,
        spent: Default::default(),
    }
}

const FINISHED: &str = r#"{"inputs":{"sys.query":"capital?"},"outputs":{"content":"Paris","_created_time":1767000001.0,"_elapsed_time":0.5},"component_id":"Agent:A","component_name":"Writer","component_type":"Agent","error":null,"elapsed_time":0.5,"created_at":1767000001.5}"#;

#[test]
fn finishes() {
    check(finished(), "node_finished", FINISHED);
    check(
        Record::RunFinished {
            ending: Ending::Failed,
            outputs: Arc::new(Outputs::of("content", json!("Pa"))),
            error: Some("it broke".into()),
            usage: Usage { prompt_tokens: 3, completion_tokens: 4, calls: 1, ..Usage::default() },
            limited: Vec::new(),
            uses: Vec::new(),
            spent: Default::default(),
            elapsed: 1.25,
        },
        "workflow_finished",
        r#"{"inputs":{"a":1},"outputs":{"content":"Pa"},"status":"failed","error":"it broke","elapsed_time":1.25,"created_at":1767000001.5,"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"calls":1}}"#,
    );
}

#[test]
fn additions() {
    let trace = [traced(&entry(finished())).unwrap()];
    let mut out = Vec::new();
    let additions = Additions { blank_content: true, trace: Some(&trace) };
    assert!(write_frame(&entry(finished()), &view(), additions, &mut out));
    let own = FINISHED.strip_suffix('}').unwrap();
    let expected = format!(
        r#""data":{own},"content":"","trace":[{{"component_id":"Agent:A","trace":[{FINISHED}]}}]}}}}"#
    );
    let frame = String::from_utf8(out).unwrap();
    assert!(frame.ends_with(&expected), "{frame}");
}

#[test]
fn waiting() {
    let form = |fields: Json, tips: Option<&str>| Form {
        fields: fields.as_object().unwrap().clone(),
        tips: tips.map(str::to_owned),
        ..Form::default()
    };
    let waiting = |node: &str, form| WaitingForm::new(node.into(), [].into(), form);
    let forms = vec![
        waiting("Fill:1", form(json!({"ok": {"type": "boolean"}}), Some("Ready?"))),
        waiting("Fill:2", form(json!({"ok": {"type": "line"}, "why": {}}), None)),
    ];
    check(
        Record::Waiting { forms },
        "user_inputs",
        r#"{"inputs":{"ok":{"type":"boolean"},"why":{}},"tips":"Ready?","forms":[{"component_id":"Fill:1","inputs":{"ok":{"type":"boolean"}},"tips":"Ready?"},{"component_id":"Fill:2","inputs":{"ok":{"type":"line"},"why":{}},"tips":""}]}"#,
    );
}

/// Work that is suspended in the middle: its end frame says that it is not final, and in an iteration its form has an
/// address.
#[test]
fn a_suspended_node_in_the_middle() {
    let Record::NodeFinished { who, inputs, elapsed, assigned, .. } = finished() else { panic!() };
    let route = NextEdges::Suspended;
    let suspended = Record::NodeFinished {
        who,
        inputs,
        outputs: Arc::default(),
        error: None,
        elapsed,
        route,
        assigned,
        suspension: None,
        spent: Default::default(),
    };
    let expected = FINISHED.replace("\"content\":\"Paris\",", "");
    check(
        suspended,
        "node_finished",
        &expected.replace("\"error\":null,", "\"error\":null,\"suspended\":true,"),
    );
    let step = FrameStep { node: "It:1".into(), activation: 3, round: 2 };
    let form = Form { fields: serde_json::Map::new(), tips: None, ..Form::default() };
    let forms = vec![WaitingForm::new("Agent:A".into(), [step].into(), form)];
    check(
        Record::Waiting { forms },
        "user_inputs",
        r#"{"inputs":{},"tips":"","forms":[{"component_id":"Agent:A","frame":[{"node":"It:1","activation":3,"round":2}],"address":"Agent:A[2]","inputs":{},"tips":""}]}"#,
    );
}

#[test]
fn warnings() {
    let warned = Record::Warned { node: "Agent:A".into(), message: "no tools".into() };
    assert!(warned.is_event());
    check(warned, "warning", r#"{"component_id":"Agent:A","message":"no tools"}"#);
}

#[test]
fn internal_records_have_no_frame() {
    let record = Record::NodeSkipped { node: "a".into(), frame: [].into() };
    assert_eq!(record.is_event(), event_name(&record).is_some());
    assert_eq!(frame(&entry(record), &view()), None);
}
