//! Random canvases with messages that are written at the same time: every dialect, the history and a replay give the
//! same text, in which no message is interleaved with another.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use weft_core::{Entry, RunKey, SessionKey};
use weft_server::dialect::openai::Completion;
use weft_server::dialect::ragflow::RunView;
use weft_server::frames::{AnswersSoFar, CompletionChunks, Kinds, RunEvents, Terminator};
use weft_server::sse::Frames;
use weft_testkit::{Reply, Script};

use crate::support::{Bench, Frame, begin, bench, component, default_tenant, frames, said};

/// One of the branches that start at the same time.
#[derive(Clone, Debug)]
struct Way {
    /// The delay between two pieces of its model.
    delay_ms: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A message streams the model's text.
    Streamed,
    /// A variable is set in between.
    Assigned,
    /// A message in every iteration, with this many at once.
    Rounds(usize),
}

fn ways() -> impl Strategy<Value = Vec<Way>> {
    let kind = prop_oneof![
        3 => Just(Kind::Streamed),
        1 => Just(Kind::Assigned),
        1 => (1..4_usize).prop_map(Kind::Rounds),
    ];
    prop::collection::vec((0..40_u64, kind).prop_map(|(delay_ms, kind)| Way { delay_ms, kind }), 2..4)
}

fn canvas(ways: &[Way]) -> Json {
    let mut components = serde_json::Map::new();
    let mut first = Vec::new();
    for (i, way) in ways.iter().enumerate() {
        let (model, message) = (format!("LLM:M{i}"), format!("Message:M{i}"));
        let asks = json!({"llm_id": "m", "sys_prompt": format!("WAY{i}"), "cite": false});
        let text = |text: String| json!({"content": [text]});
        let mut add = |id: &str, kind: &str, params: &Json, to: &[&str]| {
            components.insert(id.to_owned(), component(kind, params, to));
        };
        match way.kind {
            Kind::Streamed => {
                add(&model, "LLM", &asks, &[&message]);
                add(&message, "Message", &text(format!("<{i} {{{model}@content}}>")), &[]);
                first.push(model);
            }
            Kind::Assigned => {
                let sets = format!("VariableAssigner:V{i}");
                let variables = json!([{"variable": "env.last", "operator": "overwrite", "parameter": format!("{model}@content")}]);
                add(&model, "LLM", &asks, &[&sets]);
                add(&sets, "VariableAssigner", &json!({"variables": variables}), &[&message]);
                add(&message, "Message", &text(format!("<{i} {{{model}@content}}>")), &[]);
                first.push(model);
            }
            Kind::Rounds(at_once) => {
                let (each, item) = (format!("Iteration:I{i}"), format!("IterationItem:I{i}"));
                let params = json!({"items_ref": "env.list", "parallelism": at_once,
                    "outputs": {"all": {"ref": format!("{message}@content")}}});
                add(&each, "Iteration", &params, &[]);
                add(&item, "IterationItem", &json!({}), &[&model]);
                add(&model, "LLM", &asks, &[&message]);
                add(&message, "Message", &text(format!("<{i} {{{item}@item}} {{{model}@content}}>")), &[]);
                for id in [&item, &model, &message] {
                    components[id]["parent_id"] = json!(each);
                }
                first.push(each);
            }
        }
    }
    let mut start = begin("", "");
    start["downstream"] = json!(first);
    components.insert("begin".to_owned(), start);
    let variables = json!({"list": {"name": "list", "type": "array", "value": ["a", "b", "c"]},
        "last": {"name": "last", "type": "string", "value": ""}});
    let globals = json!({"env.list": ["a", "b", "c"], "env.last": ""});
    json!({"components": components, "globals": globals, "variables": variables})
}

fn script(ways: &[Way]) -> Script {
    ways.iter().enumerate().fold(Script::new(), |script, (i, way)| {
        let pieces = ["one ", "two ", "three"].map(|word| format!("{word}{i}"));
        let reply = Reply::pieces(pieces).thinking("hm").when_system(format!("WAY{i}"));
        script.reply(reply.always().delay_ms(way.delay_ms))
    })
}

fn shown(mut writer: impl Frames, entries: &[Arc<Entry>]) -> Vec<Frame> {
    let mut out = Vec::new();
    entries.iter().for_each(|entry| writer.write(entry, &mut out));
    writer.finish(None, &mut out);
    frames(&String::from_utf8(out).unwrap())
}

/// The text that every dialect gives for the same entries.
async fn told(bench: &Bench, key: &RunKey, session: &SessionKey) -> Vec<(&'static str, String)> {
    let mut entries = Vec::new();
    let mut reader = bench.app.engine.events(key, 0).await.unwrap();
    while let Some(entry) = reader.next().await.unwrap() {
        entries.push(entry);
    }
    let view = || RunView::new(&key.id, &session.id);
    let events = |kinds| shown(RunEvents::new(view(), kinds, Terminator::Done), &entries);
    let visible = |frames: &[Frame]| {
        let mut thinking = false;
        let messages = frames.iter().map(Frame::json).filter(|json| json["event"] == "message");
        let texts = messages.filter_map(|json| {
            let data = &json["data"];
            thinking = (thinking || data["start_to_think"] == true) && data["end_to_think"] != true;
            (!thinking).then(|| data["content"].as_str().unwrap_or_default().to_owned())
        });
        texts.collect::<String>()
    };
    let all = events(Kinds::All);
    stand_apart(&all);
    let style = weft_server::dialect::openai::CompletionStyle::Agent;
    let completion = Completion {
        version: "".into(),
        session: session.id.clone(),
        canvas: "c".into(),
        started_ms: 0,
        style,
    };
    let chunks = shown(CompletionChunks::new(completion, None), &entries);
    let deltas = chunks
        .iter()
        .map(Frame::json)
        .filter_map(|json| json["choices"][0]["delta"]["content"].as_str().map(str::to_owned));
    let so_far = shown(AnswersSoFar::new(view()), &entries);
    let mut so_far =
        so_far.iter().map(Frame::json).filter_map(|json| json["data"]["answer"].as_str().map(str::to_owned));
    let again = bench.app.replay(key).await.unwrap();
    assert_eq!(again.differences, []);
    let again: Vec<_> = again.entries.into_iter().map(Arc::new).collect();
    let again = shown(RunEvents::new(view(), Kinds::All, Terminator::Done), &again);
    let history = bench.app.sessions.messages(session, i64::MAX, 10).await.unwrap();
    vec![
        ("history", history.last().unwrap().content.clone()),
        ("events", visible(&all)),
        ("session events", visible(&events(Kinds::Session))),
        ("older events", visible(&events(Kinds::Older))),
        ("chunks", deltas.collect()),
        ("whole answers", so_far.next_back().unwrap_or_default()),
        ("replay", visible(&again)),
    ]
}

/// The frames of a message are not interleaved with those of another; the frames name their message.
fn stand_apart(frames: &[Frame]) {
    let mut speaker: Option<Json> = None;
    for json in frames.iter().map(Frame::json) {
        let ends = json["event"] == "message_end";
        if !ends && json["event"] != "message" {
            continue;
        }
        let who = json!([json["data"]["component_id"], json["data"]["frame"]]);
        assert!(who[0].is_string(), "{json}");
        assert!(speaker.is_none_or(|speaker| speaker == who), "{json} in {frames:?}");
        speaker = (!ends).then_some(who);
    }
    assert_eq!(speaker, None);
}

async fn one_text(ways: &[Way]) {
    let bench = bench(script(ways)).await;
    let agent = bench.store("a", canvas(ways)).await;
    let path = format!("/api/v1/agents/{agent}/completions");
    let stream = bench.post(&path, json!({"query": "q"})).await.frames();
    let first = stream[0].json();
    let session = SessionKey::new(&default_tenant(), first["session_id"].as_str().unwrap());
    let key = RunKey::new(&default_tenant(), first["message_id"].as_str().unwrap());
    let texts = told(&bench, &key, &session).await;
    let (_, expected) = &texts[0];
    for (i, way) in ways.iter().enumerate() {
        let message = format!("one {i}two {i}three{i}>");
        let times = if matches!(way.kind, Kind::Rounds(_)) { 3 } else { 1 };
        assert_eq!(expected.matches(&message).count(), times, "{ways:?}: {expected}");
    }
    for (dialect, text) in &texts {
        assert_eq!(text, expected, "{dialect} {ways:?}");
    }
}

fn virtual_time() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.min(48), ..ProptestConfig::default() })]

    #[test]
    fn every_dialect_gives_the_same_text(ways in ways()) {
        virtual_time().block_on(one_text(&ways));
    }
}

/// Clients that can show several messages may request them concurrently; others get one after the other.
#[test]
fn messages_are_interleaved_only_on_request() {
    let ways = [10, 15].map(|delay_ms| Way { delay_ms, kind: Kind::Streamed });
    virtual_time().block_on(async {
        let bench = bench(script(&ways)).await;
        let agent = bench.store("a", canvas(&ways)).await;
        let path = format!("/api/v1/agents/{agent}/completions");
        let speakers = |frames: &[Frame]| {
            let messages = frames.iter().map(Frame::json).filter(|json| json["event"] == "message");
            let mut speakers: Vec<_> =
                messages.map(|json| json["data"]["component_id"].to_string()).collect();
            speakers.dedup();
            speakers.len()
        };
        let at_once = bench.post(&path, json!({"query": "q", "parallel_messages": true})).await.frames();
        assert!(speakers(&at_once) > 2, "{at_once:?}");
        let session = SessionKey::new(&default_tenant(), at_once[0].json()["session_id"].as_str().unwrap());
        let history = bench.app.sessions.messages(&session, i64::MAX, 10).await.unwrap();
        assert_eq!(history.last().unwrap().content, "<0 one 0two 0three0><1 one 1two 1three1>");
        let in_turn = bench.post(&path, json!({"query": "q"})).await.frames();
        assert_eq!(speakers(&in_turn), 2);
        assert_eq!(said(&in_turn).matches("hm").count(), 2);
        let refused =
            bench.post(&path, json!({"query": "q", "parallel_messages": "perhaps"})).await.refusal();
        assert_eq!(refused.0, 101);
        // OpenAI's format cannot name the message of a piece.
        let path = format!("/api/v1/agents_openai/{agent}/chat/completions");
        let body = json!({"model": "m", "stream": true, "parallel_messages": true,
            "messages": [{"role": "user", "content": "q"}]});
        let chunks = bench.post(&path, body).await.frames();
        let deltas = chunks
            .iter()
            .map(Frame::json)
            .filter_map(|json| json["choices"][0]["delta"]["content"].as_str().map(str::to_owned));
        assert_eq!(deltas.collect::<String>(), "<0 one 0two 0three0><1 one 1two 1three1>");
    });
}
