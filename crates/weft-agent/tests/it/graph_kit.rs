//! A graph agent with a scripted model, and an inspectable checkpointer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use serde_json::{Value as Json, json};
use weft_agent::graph::{
    CallNote, Checkpoint, Checkpointer, EventKind, GraphAgent, GraphAgentBuilder, GraphEvent, GraphReply,
    GraphState, MemoryCheckpointer, Node, Saved, StreamItem, TurnOptions,
};
use weft_agent::toolkit::Toolkit;
use weft_core::{Error, ErrorKind, Result, Tool, async_trait};
use weft_models::{Reply, Script, ScriptedModel};

/// Keeps threads in memory, records what was added, and simulates the death of its writer: it blocks forever at
/// a given write.
#[derive(Clone, Default)]
pub(crate) struct Watched {
    pub inner: MemoryCheckpointer,
    pub checkpoints: Arc<Mutex<Vec<Checkpoint>>>,
    /// How many writes succeed; later ones block forever.
    pub writes_max: Option<usize>,
    pub writes: Arc<AtomicUsize>,
    pub stopped: Arc<tokio::sync::Notify>,
}

impl Watched {
    pub(crate) fn over(inner: &MemoryCheckpointer, writes_max: usize) -> Self {
        Self { inner: inner.clone(), writes_max: Some(writes_max), ..Self::default() }
    }

    async fn pass(&self) {
        let nth = self.writes.fetch_add(1, Ordering::SeqCst);
        if self.writes_max.is_some_and(|max| nth >= max) {
            self.stopped.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// The checkpoints of a node with the states that they led to.
    pub(crate) fn after(&self, node: Node) -> Vec<(Checkpoint, GraphState)> {
        let mut state = GraphState::default();
        let mut found = Vec::new();
        for checkpoint in self.checkpoints.lock().unwrap().iter() {
            state.apply(checkpoint.update.clone());
            if checkpoint.node == node {
                found.push((checkpoint.clone(), state.clone()));
            }
        }
        found
    }

    pub(crate) fn nodes(&self) -> Vec<&'static str> {
        self.checkpoints.lock().unwrap().iter().map(|checkpoint| checkpoint.node.as_str()).collect()
    }
}

#[async_trait]
impl Checkpointer for Watched {
    async fn put(&self, thread: &str, checkpoint: &Checkpoint) -> Result<()> {
        self.pass().await;
        self.inner.put(thread, checkpoint).await?;
        self.checkpoints.lock().unwrap().push(checkpoint.clone());
        Ok(())
    }

    async fn put_call(&self, thread: &str, after: &str, call: &CallNote) -> Result<()> {
        self.pass().await;
        self.inner.put_call(thread, after, call).await
    }

    async fn latest(&self, thread: &str) -> Result<Option<Saved>> {
        self.inner.latest(thread).await
    }
}

/// Tools that count their calls: `look` (idempotent), `pay`, and `fail`, which fails.
#[derive(Clone, Default)]
pub(crate) struct Counted(Arc<Mutex<Vec<String>>>);

impl Counted {
    pub(crate) fn calls(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn tool(&self, name: &str) -> Tool {
        let (calls, own) = (Arc::clone(&self.0), name.to_owned());
        let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}});
        Tool::function(name, "Does it.", schema, move |arguments| {
            let q = arguments["q"].as_str().unwrap_or("nothing").to_owned();
            calls.lock().unwrap().push(format!("{own} {q}"));
            let gave = if own == "fail" {
                Err(Error::invalid("no such thing"))
            } else {
                Ok(json!(format!("{own}ed {q}")))
            };
            async move { gave }
        })
    }

    pub(crate) fn toolkit(&self) -> Toolkit {
        let tools = Toolkit::new();
        let mut look = self.tool("look");
        look.traits.idempotent = true;
        tools.register(look).unwrap();
        tools.register(self.tool("pay")).unwrap();
        tools.register(self.tool("fail")).unwrap();
        tools
    }
}

pub(crate) fn script(replies: impl IntoIterator<Item = Reply>) -> ScriptedModel {
    ScriptedModel::new(replies.into_iter().fold(Script::new(), Script::reply))
}

/// An agent `Ada` that looks and pays.
pub(crate) fn ada(model: &ScriptedModel, tools: &Counted) -> GraphAgentBuilder {
    GraphAgent::builder("Ada", Arc::new(model.clone())).instructions("S").toolkit(tools.toolkit())
}

pub(crate) fn look(q: &str) -> Reply {
    Reply::call("look", json!({"q": q}))
}

/// The events of a turn and its reply.
pub(crate) async fn streamed(
    agent: &GraphAgent,
    thread: &str,
    question: &str,
    options: TurnOptions,
) -> (Vec<GraphEvent>, Result<GraphReply>) {
    let (mut events, mut reply) = (Vec::new(), Err(Error::new(ErrorKind::Internal, "no reply")));
    let mut items = agent.process_message_stream(thread, question, options);
    while let Some(item) = items.next().await {
        match item {
            Ok(StreamItem::Event(event)) => events.push(event),
            Ok(StreamItem::Reply(given)) => reply = Ok(given),
            Err(error) => reply = Err(error),
        }
    }
    (events, reply)
}

/// Events as a golden log, without parts that differ between runs.
pub(crate) fn log(events: &[GraphEvent]) -> Vec<Json> {
    let plain = |event: &GraphEvent| {
        let mut json = serde_json::to_value(event).unwrap();
        for name in ["run_id", "ts"] {
            json.as_object_mut().unwrap().remove(name);
        }
        json
    };
    events.iter().map(plain).collect()
}

pub(crate) fn count(events: &[GraphEvent], is: impl Fn(&EventKind) -> bool) -> usize {
    events.iter().filter(|event| is(&event.kind)).count()
}
