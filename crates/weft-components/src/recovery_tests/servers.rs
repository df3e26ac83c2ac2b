//! Tools of servers that offer something else in the next life of the work.

use std::sync::{Arc, Mutex};

use serde_json::json;
use weft_core::context::Signal;
use weft_core::effect::Known;
use weft_core::seam::chat_model::{ChatDelta, ChatRequest};
use weft_core::seam::tool_source::{Offered, ToolSource};
use weft_core::tool::Origin;
use weft_core::{Error, ErrorKind, Result, TenantId, Tool, async_trait};

use crate::testing::{Node, Replace, Setting, Stage};

/// A server with one tool, `look`.
#[derive(Clone, Copy)]
enum Server {
    Offers,
    OffersNothing,
    Fails,
}

struct Source(Server, Arc<Mutex<usize>>);

#[async_trait]
impl ToolSource for Source {
    async fn tools(&self, _: &TenantId, _: &str) -> Result<Offered> {
        let Self(server, called) = self;
        let called = Arc::clone(called);
        let look = move || {
            let mut tool = Tool::function("look", "Looks.", json!({"type": "object"}), move |_| {
                *called.lock().unwrap() += 1;
                async { Ok(json!("seen")) }
            });
            tool.origin = Origin::Mcp("srv".to_owned());
            Arc::new(tool)
        };
        match server {
            Server::Offers => Ok(Offered { tools: vec![look()], ..Offered::default() }),
            Server::OffersNothing => Ok(Offered::default()),
            Server::Fails => Err(Error::new(ErrorKind::Unavailable, "nobody there")),
        }
    }
}

struct Life {
    content: String,
    notes: Vec<(Arc<str>, Known)>,
    asked: Vec<ChatRequest>,
    called: usize,
    warnings: usize,
}

async fn life(server: Server, notes: &[(Arc<str>, Known)], replies: &[Option<&str>]) -> Life {
    let params = json!({"llm_id": "tools", "tools": [{"component_name": "Calculator"}],
        "mcp": [{"mcp_id": "srv", "tools": {"look": {"description": "Looks."}}}]});
    let node = Node::new("Agent", params);
    let component = node.build();
    let called = Arc::<Mutex<usize>>::default();
    let source = Source(server, Arc::clone(&called));
    let seams: Replace = Box::new(move |seams| seams.tools = Arc::new(source));
    let setting = Setting { query: "Q", seams: Some(seams), ..Setting::default() };
    let mut stage = Stage::new(&node, &*component, setting).again(notes);
    for reply in replies {
        let call = || ChatDelta::ToolCall {
            index: 0,
            id: Some("c".to_owned()),
            name: Some("look_1".to_owned()),
            arguments: "{}".to_owned(),
        };
        stage.answer([reply.map_or_else(call, |text| ChatDelta::Text(text.to_owned()))]);
    }
    let outputs = json!(component.run(&stage.ctx).await.unwrap().outputs);
    let content = outputs["content"].as_str().unwrap().to_owned();
    let (mut notes, mut warnings) = (Vec::new(), 0);
    for signal in stage.all_signals() {
        match signal {
            Signal::EffectStarted(started) => notes.push((started.key, Known::Begun)),
            Signal::EffectFinished(gave) => notes.push((gave.key, Known::Ended(gave.gave))),
            Signal::Warn(_) => warnings += 1,
            _ => {}
        }
    }
    let called = *called.lock().unwrap();
    Life { content, notes, asked: stage.asked(), called, warnings }
}

fn offered(request: &ChatRequest) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[tokio::test]
async fn an_agent_keeps_the_tools_it_began_with() {
    let first = life(Server::Offers, &[], &[None, Some("done")]).await;
    assert_eq!((first.content.as_str(), first.called), ("done", 1));
    // The model had been asked, and its call had come back.
    let place = first.notes.iter().position(|(key, known)| &**key == "c/tool#0" && *known != Known::Begun);
    let known = &first.notes[..=place.unwrap()];
    for server in [Server::Offers, Server::OffersNothing, Server::Fails] {
        let second = life(server, known, &[Some("done")]).await;
        assert_eq!((second.content.as_str(), second.called, second.warnings), ("done", 0, 0));
        assert_eq!(offered(&second.asked[0]), ["calculator_0", "look_1"]);
        assert_eq!(second.asked[0].messages, first.asked[1].messages);
    }
}

#[tokio::test]
async fn a_tool_that_was_missing_stays_missing() {
    let first = life(Server::OffersNothing, &[], &[None, Some("done")]).await;
    assert_eq!((first.called, first.warnings), (0, 1));
    assert!(first.asked[1].messages.last().unwrap().text.contains("there is no tool `look_1`"));
    for server in [Server::Offers, Server::Fails] {
        let second = life(server, &first.notes[..4], &[Some("done")]).await;
        assert_eq!((second.called, second.warnings), (0, 0));
        assert_eq!(offered(&second.asked[0]), ["calculator_0"]);
        assert_eq!(second.asked[0].messages, first.asked[1].messages);
    }
}
