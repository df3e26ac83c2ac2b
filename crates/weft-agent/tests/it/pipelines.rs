//! Several agents on one task.

use std::sync::Arc;
use std::time::Duration;

use weft_agent::pipeline::{FanOut, MessageHub, fan_out, sequential};
use weft_agent::react::{FinishStyle, ReActAgent, Settings};
use weft_agent::{Message, Session};
use weft_core::ErrorKind;
use weft_models::{Reply, ScriptedModel};

use crate::react_kit::{remembered, script};

fn named(name: &str, model: &ScriptedModel) -> Session {
    let settings = Settings { finish: FinishStyle::Text, ..Settings::default() };
    ReActAgent::builder(name, Arc::new(model.clone())).settings(settings).build().unwrap().session()
}

#[tokio::test]
async fn each_reply_is_the_next_agents_message() {
    let (a, b) = (script([Reply::text("one")]), script([Reply::text("two")]));
    let (mut first, mut second) = (named("A", &a), named("B", &b));
    let reply = sequential(&mut [&mut first, &mut second], "Q").await.unwrap();
    assert_eq!((reply.text().as_str(), reply.name.as_str()), ("two", "B"));
    assert_eq!(b.requests()[0].messages.last().unwrap().text, "A: one");
    assert_eq!(sequential(&mut [], "Q").await.unwrap().text(), "Q");

    let (a, b) = (script([Reply::error(ErrorKind::Unavailable, "away")]), script([]));
    let (mut first, mut second) = (named("A", &a), named("B", &b));
    assert_eq!(
        sequential(&mut [&mut first, &mut second], "Q").await.unwrap_err().kind,
        ErrorKind::Unavailable
    );
    assert!(b.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn all_get_the_same_message() {
    for (how, least, most) in [(FanOut::Gathered, 100, 150), (FanOut::InTurn, 300, 400)] {
        let models = ["x", "y", "z"].map(|text| script([Reply::text(text).delay_ms(100)]));
        let mut sessions: Vec<Session> = models.iter().map(|model| named("A", model)).collect();
        let mut all: Vec<&mut Session> = sessions.iter_mut().collect();
        let began = tokio::time::Instant::now();
        let replies = fan_out(&mut all, "Q", how).await;
        let texts: Vec<_> = replies.iter().map(|reply| reply.as_ref().unwrap().text()).collect();
        assert_eq!(texts, ["x", "y", "z"]);
        let took = began.elapsed();
        assert!(
            took >= Duration::from_millis(least) && took < Duration::from_millis(most),
            "{how:?}: {took:?}"
        );
    }
    let models = [script([Reply::error(ErrorKind::Unavailable, "away")]), script([Reply::text("y")])];
    let mut sessions: Vec<Session> = models.iter().map(|model| named("A", model)).collect();
    let mut all: Vec<&mut Session> = sessions.iter_mut().collect();
    let replies = fan_out(&mut all, "Q", FanOut::Gathered).await;
    assert!(replies[0].is_err() && replies[1].is_ok(), "one that fails stops no other");
}

#[tokio::test]
async fn in_a_hub_every_member_receives_each_message() {
    let models = ["a", "b", "c"].map(|text| script([Reply::text(text), Reply::text(format!("{text}2"))]));
    let [mut ada, mut bo, mut cy] =
        [("Ada", &models[0]), ("Bo", &models[1]), ("Cy", &models[2])].map(|(name, model)| named(name, model));
    {
        let mut hub = MessageHub::new([&mut ada, &mut bo]);
        hub.announce(Message::user("Begin.")).await.unwrap();
        let replies: Vec<_> = hub.round().await.unwrap().iter().map(Message::text).collect();
        assert_eq!(replies, ["a", "b"]);
        assert_eq!(hub.join(&mut cy), 2);
        hub.speak(1).await.unwrap();
        hub.leave(0).unwrap();
        hub.speak(1).await.unwrap();
        assert_eq!(hub.speak(2).await.unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(hub.leave(7).unwrap_err().kind, ErrorKind::NotFound);
    }
    assert_eq!(remembered(ada.memory()), ["user:Begin.", "assistant:a", "assistant:b", "assistant:b2"]);
    let heard: Vec<_> = models[1].requests()[1].messages.iter().map(|message| message.text.clone()).collect();
    assert_eq!(heard, ["Begin.", "Ada: a", "b"]);
    assert_eq!(
        remembered(cy.memory()),
        ["assistant:b2", "assistant:c"],
        "a new participant has no earlier messages"
    );
    assert_eq!(remembered(bo.memory()).last().unwrap(), "assistant:c");
}
