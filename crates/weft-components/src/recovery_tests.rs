//! Activations that are done again after a crash.

mod agents;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use weft_core::citation::Chunk;
use weft_core::effect::Known;
use weft_core::seam::clock::FixedClock;
use weft_core::seam::http::HttpResponse;
use weft_core::{Error, ErrorKind, Result};

use crate::testing::{Node, Replace, Setting, Stage};

type Notes = Vec<(Arc<str>, Known)>;

fn page(status: u16, headers: &[(&str, &str)], body: &str) -> Result<HttpResponse> {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Ok(HttpResponse { status, headers: headers.collect(), body: body.to_owned() })
}

/// An activation of a node in a process that has read `notes`. Web servers answer with `pages`; the
/// clock shows `now_ms`, and so does the file `clock`.
async fn life(
    node: &Node,
    notes: &[(Arc<str>, Known)],
    pages: Vec<Result<HttpResponse>>,
    now_ms: i64,
) -> Stage {
    let component = node.build();
    let seams: Replace = Box::new(move |seams| seams.clock = Arc::new(FixedClock(now_ms)));
    let setting = Setting { query: "Q", seams: Some(seams), ..Setting::default() };
    let stage = Stage::new(node, &*component, setting).again(notes);
    *stage.outside.pages.lock().unwrap() = pages;
    let chunk = Chunk { id: format!("c{now_ms}"), content: "known".to_owned(), ..Chunk::default() };
    stage.outside.found.lock().unwrap().push(chunk);
    stage.answer_text(&format!("answer {now_ms}"));
    let run = &stage.ctx.run;
    run.seams.workspace.write(&run.tenant, "clock", &now_ms.to_string()).await.unwrap();
    stage
}

async fn run(node: &Node, stage: &Stage) -> Result<Json> {
    node.build().run(&stage.ctx).await.map(|finished| json!(finished.outputs))
}

/// How often the outside was asked, and what is in the file.
async fn traces(stage: &Stage) -> (usize, String) {
    let outside = &stage.outside;
    let asked = outside.sent.lock().unwrap().len()
        + outside.searched.lock().unwrap().len()
        + outside.asked.lock().unwrap().len();
    let run = &stage.ctx.run;
    (asked, run.seams.workspace.read(&run.tenant, "clock").await.unwrap())
}

#[tokio::test]
async fn what_a_component_got_from_outside_it_has_again() {
    let hits =
        json!({"results": [{"url": "https://a.example/", "title": "A", "content": "about a"}]}).to_string();
    let web = |method: &str| json!({"url": "https://a.example", "method": method});
    // Whether a call that was cut off is made again.
    let check = async |kind: &'static str, params: Json, made_again: bool| {
        let node = Node::new(kind, params);
        let pages = || vec![page(200, &[], &hits)];
        let mut first = life(&node, &[], pages(), 1).await;
        let expected = run(&node, &first).await.unwrap();
        let notes = first.notes();
        // A search asks more than once: for the datasets, for what is best, for its text.
        let calls = if kind == "Retrieval" { 3 } else { 1 };
        assert_eq!(notes.len(), 2 * calls, "{kind}: {notes:?}");

        // It came back: nobody is asked, and nothing happens outside.
        let mut second = life(&node, &notes, Vec::new(), 2).await;
        assert_eq!(run(&node, &second).await.unwrap(), expected, "{kind}");
        assert_eq!(traces(&second).await, (0, "2".to_owned()), "{kind}");
        assert_eq!(second.notes(), [], "{kind}");

        // It was cut off.
        let mut third = life(&node, &notes[..1], pages(), 3).await;
        let before = traces(&third).await;
        let result = run(&node, &third).await;
        match result {
            Ok(_) => assert!(made_again, "{kind}"),
            Err(error) => {
                assert!(!made_again && error.kind == ErrorKind::Interrupted, "{kind}: {error}");
                assert_eq!(traces(&third).await, before, "{kind}");
                // That is what it gave, from now on.
                let notes: Notes = [&notes[..1], &third.notes()].concat();
                let fourth = life(&node, &notes, pages(), 4).await;
                assert_eq!(run(&node, &fourth).await.unwrap_err().kind, ErrorKind::Interrupted);
            }
        }
    };
    check("Invoke", web("get"), true).await;
    check("Invoke", web("post"), false).await;
    check("Invoke", web("put"), false).await;
    check("HttpGet", json!({"url": "a.example"}), true).await;
    check("SearXNG", json!({"searxng_url": "https://s.example"}), true).await;
    check("TavilySearch", json!({"api_key": "k"}), true).await;
    check("QueritContents", json!({"api_key": "k", "urls": "https://a.example"}), true).await;
    check("WebSearch", json!({"engine": "searxng", "searxng_url": "https://s.example"}), true).await;
    check("Retrieval", json!({"dataset_ids": ["d"], "query": "{sys.query}"}), true).await;
    check("ReadFile", json!({"path": "clock"}), true).await;
    check("WriteFile", json!({"path": "clock", "content": "x"}), true).await;
    check("WriteFile", json!({"path": "clock", "content": "x", "append": true}), false).await;
    check("CurrentTime", json!({}), true).await;
    check("LLM", json!({"llm_id": "m"}), true).await;
    check("Agent", json!({"llm_id": "m"}), true).await;
    let categories = json!({"a": {"to": ["Agent:A"]}, "answer 1": {"to": ["Agent:B"]}});
    check("Categorize", json!({"llm_id": "m", "category_description": categories}), true).await;
}

#[tokio::test(start_paused = true)]
async fn tries_that_had_failed_are_neither_made_nor_waited_for_again() {
    let params = json!({"url": "https://a.example", "max_retries": 2, "delay_after_error": 10});
    let node = Node::new("Invoke", params);
    let gone = || Err(Error::new(ErrorKind::Unavailable, "gone"));
    let mut first = life(&node, &[], vec![gone(), page(503, &[], ""), page(200, &[], "ok")], 1).await;
    let expected = run(&node, &first).await.unwrap();
    let notes = first.notes();
    let second = life(&node, &notes[..5], vec![page(200, &[], "ok")], 2).await;
    let begun = tokio::time::Instant::now();
    assert_eq!(run(&node, &second).await.unwrap(), expected);
    assert_eq!((second.outside.sent.lock().unwrap().len(), begun.elapsed()), (1, Duration::ZERO));
}

#[tokio::test]
async fn a_page_that_had_redirected_is_not_asked_again() {
    let node = Node::new("HttpGet", json!({"url": "a.example"}));
    let end = || page(200, &[], "the end");
    let mut first = life(&node, &[], vec![page(302, &[("location", "/b")], ""), end()], 1).await;
    let expected = run(&node, &first).await.unwrap();
    let notes = first.notes();
    let second = life(&node, &notes[..2], vec![end()], 2).await;
    assert_eq!(run(&node, &second).await.unwrap(), expected);
    let sent: Vec<String> = second.outside.sent.lock().unwrap().iter().map(|sent| sent.url.clone()).collect();
    assert_eq!(sent, ["https://a.example/b"]);
}
