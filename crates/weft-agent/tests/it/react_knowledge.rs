//! Knowledge that is looked up before an agent reasons.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use weft_agent::long_term::{LongTermMemory, Owner, Remembered, Storing};
use weft_agent::react::{KnowledgeBase, KnowledgeDocument, MemoryControl, QueryRewrite};
use weft_core::{Error, ErrorKind, Result, async_trait};
use weft_models::Reply;

use crate::react_kit::{ada, finish, remembered, script};

/// Always returns the same documents, and records the queries.
#[derive(Clone, Default)]
struct Fixed {
    documents: Vec<(&'static str, f64)>,
    fails: bool,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Fixed {
    fn of(documents: &[(&'static str, f64)]) -> Self {
        Self { documents: documents.to_vec(), ..Self::default() }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl KnowledgeBase for Fixed {
    async fn retrieve(&self, query: &str, limit: usize) -> Result<Vec<KnowledgeDocument>> {
        self.asked.lock().unwrap().push(query.to_owned());
        if self.fails {
            return Err(Error::new(ErrorKind::Unavailable, "away"));
        }
        let documents = self.documents.iter().take(limit);
        Ok(documents
            .map(|(text, score)| KnowledgeDocument {
                text: (*text).to_owned(),
                score: *score,
                source: Some(format!("{text}.md")),
            })
            .collect())
    }
}

#[tokio::test]
async fn the_rewritten_question_is_looked_up_and_the_best_comes_first() {
    let (a, b) = (Fixed::of(&[("low", 0.1), ("high", 0.9)]), Fixed::of(&[("middle", 0.5)]));
    let model = script([
        finish("Paris is the capital."),
        Reply::text(json!({"rewritten_query": "How many people live in Paris?"}).to_string()),
        finish("Two million."),
    ]);
    // The first turn has no knowledge, so that the second one has context to be rewritten from.
    let mut before = ada(&model).build().unwrap().session();
    before.reply("Capital of France?").await.unwrap();
    let agent = ada(&model).knowledge(Arc::new(a.clone())).knowledge(Arc::new(b.clone())).build().unwrap();
    let mut session = agent.resume(before.state()).unwrap();
    session.reply("And how many people?").await.unwrap();
    assert_eq!((a.asked(), b.asked()), (vec!["How many people live in Paris?".to_owned()], a.asked()));
    let rewriting = &model.requests()[1];
    assert!(rewriting.messages.iter().any(|m| m.text == "Paris is the capital."), "it sees the conversation");
    let last = model.requests().pop().unwrap();
    let told = last.messages.iter().find(|m| m.text.starts_with("<retrieved_knowledge>")).unwrap();
    let place = |text: &str| told.text.find(text).unwrap();
    assert!(
        place("[high.md]\nhigh") < place("[middle.md]\nmiddle") && place("[middle.md]") < place("[low.md]")
    );
}

#[tokio::test]
async fn the_original_question_is_looked_up_when_rewriting_is_off_or_fails() {
    let base = Fixed::of(&[("x", 1.0)]);
    let model = script([finish("A.")]);
    let agent =
        ada(&model).knowledge(Arc::new(base.clone())).query_rewrite(QueryRewrite::Off).build().unwrap();
    agent.session().reply("Q").await.unwrap();
    let model = script([Reply::text("no JSON at all"), finish("A.")]);
    let agent = ada(&model).knowledge(Arc::new(base.clone())).build().unwrap();
    let mut session = agent.session();
    session.reply("Q").await.unwrap();
    assert_eq!(base.asked(), ["Q", "Q"]);
    assert!(session.warnings().join("").contains("uses the original question"));
}

#[tokio::test]
async fn a_failing_or_empty_knowledge_base_does_not_stop_the_reply() {
    let (failing, found, nothing) =
        (Fixed { fails: true, ..Fixed::default() }, Fixed::of(&[("x", 1.0)]), Fixed::default());
    let model = script([finish("A."), finish("B.")]);
    let agent = |bases: Vec<Fixed>| {
        let builder = ada(&model).query_rewrite(QueryRewrite::Off);
        bases.into_iter().fold(builder, |builder, base| builder.knowledge(Arc::new(base))).build().unwrap()
    };
    let mut session = agent(vec![failing, found]).session();
    session.reply("Q").await.unwrap();
    assert!(session.warnings().join("").contains("left out: away"), "{:?}", session.warnings());
    assert!(remembered(session.memory())[1].starts_with("user:<retrieved_knowledge>"));
    let mut session = agent(vec![nothing]).session();
    session.reply("Q").await.unwrap();
    assert!(!remembered(session.memory()).iter().any(|line| line.contains("retrieved_knowledge")));
}

/// Knowledge and memories that are never found, because the search does not end.
struct Endless;

#[async_trait]
impl KnowledgeBase for Endless {
    async fn retrieve(&self, _: &str, _: usize) -> Result<Vec<KnowledgeDocument>> {
        std::future::pending().await
    }
}

#[async_trait]
impl LongTermMemory for Endless {
    async fn add(&self, _: &Owner, _: &str, _: Storing) -> Result<Vec<String>> {
        std::future::pending().await
    }

    async fn search(&self, _: &Owner, _: &str, _: usize) -> Result<Vec<Remembered>> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn an_interruption_ends_the_search_for_knowledge_and_memories() {
    let model = script([]);
    let knowing = ada(&model).knowledge(Arc::new(Endless)).query_rewrite(QueryRewrite::Off);
    let remembering =
        ada(&model).long_term_memory(Arc::new(Endless), Owner::user("Eve"), MemoryControl::Static);
    for agent in [knowing, remembering] {
        let mut session = agent.build().unwrap().session();
        let interrupt = session.interrupt();
        let interrupted = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            interrupt.interrupt();
        };
        let replied = tokio::time::timeout(Duration::from_secs(1), session.reply("Q"));
        let ((), reply) = tokio::join!(interrupted, replied);
        let reply = reply.expect("the reply ends soon after the interruption").unwrap();
        assert_eq!(reply.metadata["is_interrupted"], json!(true));
    }
}
