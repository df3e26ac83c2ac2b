//! Threads of graph agents that outlive their process.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a child process talks to its test")]

use std::sync::Arc;

use serde_json::json;
use weft_agent::graph::{
    CallNote, Checkpoint, Checkpointer, FolderCheckpointer, GraphAgent, GraphState, MemoryCheckpointer, Node,
    Saved, StopReason, TurnOptions, Update, VERSION,
};
use weft_agent::message::Message;
use weft_agent::toolkit::Toolkit;
use weft_core::effect::{EffectResult, Known};
use weft_core::{ErrorKind, Tool};
use weft_models::{Reply, ScriptedModel};

use crate::graph_kit::{Counted, Watched, ada, look, script};

/// A temporary folder, removed at the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("weft-graph-{}", weft_core::id::generate());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn checkpoint(id: &str, parent: Option<&str>, node: Node, update: Update) -> Checkpoint {
    let (id, parent) = (id.to_owned(), parent.map(str::to_owned));
    Checkpoint { version: VERSION, id, parent, node, update, at_ms: 5 }
}

/// The contract of every checkpointer.
async fn keeps_threads(checkpointer: &dyn Checkpointer) {
    assert_eq!(checkpointer.latest("t").await.unwrap(), None);
    let hello = Update { messages: vec![Message::user("Q")], ..Update::default() };
    checkpointer.put("t", &checkpoint("1", None, Node::Start, hello.clone())).await.unwrap();
    let begun = Update { new_turn: true, max_steps: Some(3), ..Update::default() };
    checkpointer.put("t", &checkpoint("2", Some("1"), Node::InitState, begun.clone())).await.unwrap();
    let note = |key: &str, gave: Option<EffectResult>| CallNote { key: key.into(), gave };
    checkpointer.put_call("t", "2", &note("model#0", None)).await.unwrap();
    let gave = EffectResult::Value(Arc::new(json!({"a": 1})));
    checkpointer.put_call("t", "2", &note("model#0", Some(gave.clone()))).await.unwrap();
    checkpointer.put_call("t", "2", &note("tool#0", None)).await.unwrap();
    let saved = checkpointer.latest("t").await.unwrap().unwrap();
    let mut state = GraphState::default();
    state.apply(hello.clone());
    state.apply(begun);
    assert_eq!((saved.state, &*saved.id, saved.node), (state, "2", Node::InitState));
    assert_eq!(saved.calls[&Arc::from("model#0")], Known::Ended(gave));
    assert_eq!(saved.calls[&Arc::from("tool#0")], Known::Begun);

    // The second write after the same parent is refused, whatever it is.
    let late = checkpointer.put("t", &checkpoint("3", Some("1"), Node::Agent, Update::default())).await;
    assert_eq!(late.unwrap_err().kind, ErrorKind::Conflict);
    let late = checkpointer.put_call("t", "1", &note("tool#0", None)).await;
    assert_eq!(late.unwrap_err().kind, ErrorKind::Conflict);
    let first = checkpointer.put("t", &checkpoint("4", None, Node::Start, hello)).await;
    assert_eq!(first.unwrap_err().kind, ErrorKind::Conflict);
    checkpointer.put("t", &checkpoint("5", Some("2"), Node::MemoryTrigger, Update::default())).await.unwrap();
    assert!(checkpointer.latest("t").await.unwrap().unwrap().calls.is_empty(), "writes belong to one node");

    // Names are names, not paths; threads are isolated.
    for name in ["T", "../t", "a/b", "日本", "t.jsonl", "%74"] {
        assert_eq!(checkpointer.latest(name).await.unwrap(), None, "{name}");
        checkpointer.put(name, &checkpoint(name, None, Node::Start, Update::default())).await.unwrap();
        assert_eq!(checkpointer.latest(name).await.unwrap().unwrap().id, name);
    }
    for name in ["", &"x".repeat(101)] {
        let refused = checkpointer.put(name, &checkpoint("1", None, Node::Start, Update::default())).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Invalid);
        assert_eq!(checkpointer.latest(name).await.unwrap_err().kind, ErrorKind::Invalid);
    }
    let newer = Checkpoint { version: VERSION + 1, ..checkpoint("1", None, Node::Start, Update::default()) };
    let read = match checkpointer.put("newer", &newer).await {
        Ok(()) => checkpointer.latest("newer").await.map(drop),
        refused => refused,
    };
    assert_eq!(read.unwrap_err().kind, ErrorKind::Conflict);
}

#[tokio::test]
async fn threads_are_kept_in_memory() {
    keeps_threads(&MemoryCheckpointer::new()).await;
}

#[tokio::test]
async fn threads_are_kept_in_a_folder() {
    let folder = Folder::new();
    keeps_threads(&FolderCheckpointer::open(&folder.0).unwrap()).await;
    let inside: Vec<_> =
        std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(inside.contains(&"%2e%2e%2ft.jsonl".into()), "{inside:?}");
}

#[tokio::test]
async fn two_processes_share_a_folder() {
    let folder = Folder::new();
    let (a, b) = (FolderCheckpointer::open(&folder.0).unwrap(), FolderCheckpointer::open(&folder.0).unwrap());
    let mut parent: Option<String> = None;
    for (nth, one) in [&a, &b, &b, &a, &a, &b].into_iter().enumerate() {
        let id = nth.to_string();
        one.put("t", &checkpoint(&id, parent.as_deref(), Node::Agent, Update::default())).await.unwrap();
        parent = Some(id);
    }
    let both = [&a, &b].map(|one| {
        let id = weft_core::id::generate();
        let parent = parent.clone();
        async move { one.put("t", &checkpoint(&id, parent.as_deref(), Node::Agent, Update::default())).await }
    });
    let won = futures::future::join_all(both).await.iter().filter(|put| put.is_ok()).count();
    assert_eq!(won, 1);
}

#[tokio::test]
async fn a_partial_last_line_is_dropped_and_other_damage_is_an_error() {
    use std::io::Write as _;
    let folder = Folder::new();
    let kept = FolderCheckpointer::open(&folder.0).unwrap();
    kept.put("t", &checkpoint("1", None, Node::Start, Update::default())).await.unwrap();
    let path = folder.0.join("t.jsonl");
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"checkpoint\":{\"id\":\"2\",").unwrap();
    assert_eq!(kept.latest("t").await.unwrap().unwrap().id, "1");
    kept.put("t", &checkpoint("2", Some("1"), Node::InitState, Update::default())).await.unwrap();
    assert_eq!(kept.latest("t").await.unwrap().unwrap().id, "2");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("checkpoint", "ch\u{0}ck", 1)).unwrap();
    let error = kept.latest("t").await.unwrap_err();
    assert!(error.kind == ErrorKind::Conflict && error.full().contains("line 1 of"), "{}", error.full());
}

#[tokio::test]
async fn checkpoints_of_earlier_versions_can_be_read() {
    let folder = Folder::new();
    let kept = FolderCheckpointer::open(&folder.0).unwrap();
    // Without fields added later, and with an unknown one.
    let old = json!({"checkpoint": {"id": "1", "node": "finalize", "state": {
        "messages": [
            {"id": "m1", "name": "user", "role": "user", "content": "My name is Eve."},
            {"id": "m2", "name": "Ada", "role": "assistant", "content": "Hello Eve."}
        ],
        "current_step": 2, "max_steps": 5, "scratchpad": "gone"
    }}});
    std::fs::write(folder.0.join("t.jsonl"), format!("{old}\n")).unwrap();
    let model = script([Reply::text("You are Eve.")]);
    let agent = ada(&model, &Counted::default()).checkpointer(Arc::new(kept)).build().unwrap();
    let state = agent.state("t").await.unwrap().unwrap();
    assert_eq!((state.current_step, state.stop, state.stop_reason), (2, false, StopReason::None));
    let reply = agent.process_message("t", "Who am I?").await.unwrap();
    assert_eq!((reply.reply.as_str(), reply.metadata.steps_taken), ("You are Eve.", 0));
    assert!(model.requests()[0].messages.iter().any(|message| message.text == "My name is Eve."));
}

/// Replies by the content of the conversation, so that a repeated request gets the same answer.
fn scripted() -> [Reply; 3] {
    [
        look("x").and_call("pay", json!({"q": "5"})),
        Reply::call("fail", json!({"q": "y"})).and_call("look", json!({"q": "z"})),
        Reply::text("All done."),
    ]
}

#[tokio::test]
async fn a_turn_interrupted_anywhere_resumes_without_repetition() {
    let (tools, watched) = (Counted::default(), Watched::default());
    let agent = ada(&script(scripted()), &tools).checkpointer(Arc::new(watched.clone())).build().unwrap();
    let expected = agent.process_message("t", "Q").await.unwrap();
    let (writes, undisturbed) = (watched.writes.load(std::sync::atomic::Ordering::SeqCst), tools.calls());
    assert_eq!(undisturbed, ["look x", "pay 5", "fail y", "look z"]);
    assert!(writes > 12, "{writes} writes");
    for cut in 0..writes {
        let (kept, tools) = (MemoryCheckpointer::new(), Counted::default());
        // Recorded model answers are not requested again, so each process gets the rest of the script.
        let model = script(scripted());
        let cut_off = Watched::over(&kept, cut);
        let agent = ada(&model, &tools).checkpointer(Arc::new(cut_off.clone())).build().unwrap();
        tokio::select! {
            _ = agent.process_message("t", "Q") => panic!("it was not cut off at {cut}"),
            () = cut_off.stopped.notified() => {}
        }
        let asked = model.requests().len();
        let saved = kept.latest("t").await.unwrap();
        let Some(saved) = saved else { continue };
        // An answer that was not recorded is requested again.
        let answers =
            saved.state.messages.iter().filter(|m| m.role == weft_agent::message::Role::Assistant).count();
        let noted =
            saved.calls.iter().any(|(key, known)| key.contains("model") && matches!(known, Known::Ended(_)));
        let rest = scripted().into_iter().skip(answers + usize::from(noted));
        let model = script(rest);
        let agent = ada(&model, &tools).checkpointer(Arc::new(kept)).build().unwrap();
        let reply = agent.resume("t", TurnOptions::default()).await.unwrap();
        assert_eq!((&reply.reply, &reply.metadata), (&expected.reply, &expected.metadata), "cut at {cut}");
        assert!(
            asked + model.requests().len() <= 4,
            "cut at {cut}: at most the lost answer is requested again"
        );
        let calls = tools.calls();
        let count = |name: &str| calls.iter().filter(|call| call.starts_with(name)).count();
        // At-most-once effects were executed once, or not at all if recorded but never started.
        assert!(count("pay") <= 1 && count("fail") <= 1, "cut at {cut}: {calls:?}");
        let state = agent.state("t").await.unwrap().unwrap();
        assert!(state.open_calls().is_empty());
        assert_eq!(state.tool_call_history.len(), 4);
        let unknown = state.tool_result_history.iter().filter(|text| text.contains("nobody knows")).count();
        assert!(unknown <= 1 && calls.len() + unknown >= 4, "cut at {cut}: {calls:?}");
    }
}

#[tokio::test]
async fn a_new_message_closes_an_interrupted_turn() {
    let (kept, tools) = (MemoryCheckpointer::new(), Counted::default());
    // After the model's first answer: start, init, trigger, note, checkpoint.
    let cut_off = Watched::over(&kept, 5);
    let agent = ada(&script(scripted()), &tools).checkpointer(Arc::new(cut_off.clone())).build().unwrap();
    tokio::select! {
        _ = agent.process_message("t", "Q") => panic!("it was not cut off"),
        () = cut_off.stopped.notified() => {}
    }
    assert_eq!(kept.latest("t").await.unwrap().unwrap().state.open_calls().len(), 2);
    let model = script([Reply::text("Never mind.")]);
    let agent = ada(&model, &tools).checkpointer(Arc::new(kept)).build().unwrap();
    let reply = agent.process_message("t", "Forget it.").await.unwrap();
    assert_eq!((reply.reply.as_str(), reply.metadata.steps_taken), ("Never mind.", 0));
    assert!(agent.state("t").await.unwrap().unwrap().open_calls().is_empty());
}

#[tokio::test]
async fn concurrent_turns_of_one_thread_do_not_interleave() {
    let kept = MemoryCheckpointer::new();
    let agent = |reply: &str| {
        let model = script([Reply::text(reply).delay_ms(5)]);
        ada(&model, &Counted::default()).checkpointer(Arc::new(kept.clone())).build().unwrap()
    };
    let (a, b) = (agent("A."), agent("B."));
    let (a, b) = tokio::join!(a.process_message("t", "QA"), b.process_message("t", "QB"));
    let refused: Vec<_> = [a, b].into_iter().filter_map(Result::err).map(|error| error.kind).collect();
    assert_eq!(refused, [ErrorKind::Conflict]);
}

/// Where a child process keeps its thread and records the calls of its tools.
const FOLDER: &str = "WEFT_TEST_GRAPH_FOLDER";

/// Asks for permission on standard output before each write, and gets it on standard input.
struct Asking(FolderCheckpointer);

impl Asking {
    fn ask() {
        println!("write");
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }
}

#[weft_core::async_trait]
impl Checkpointer for Asking {
    async fn put(&self, thread: &str, checkpoint: &Checkpoint) -> weft_core::Result<()> {
        Self::ask();
        self.0.put(thread, checkpoint).await
    }

    async fn put_call(&self, thread: &str, after: &str, call: &CallNote) -> weft_core::Result<()> {
        Self::ask();
        self.0.put_call(thread, after, call).await
    }

    async fn latest(&self, thread: &str) -> weft_core::Result<Option<Saved>> {
        self.0.latest(thread).await
    }
}

/// The agent of a child process: its model's answers follow from the results so far, and its tools record their
/// calls in a file.
fn childs_agent(folder: &std::path::Path) -> GraphAgent {
    let model = ScriptedModel::from_fn(|request, _| {
        let results = request.messages.iter().filter(|message| message.tool_call_id.is_some()).count();
        scripted()[results / 2].clone()
    });
    let tools = Toolkit::new();
    for name in ["look", "pay", "fail"] {
        let calls = folder.join("calls");
        let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}});
        let mut tool = Tool::function(name, "Does it.", schema, move |arguments| {
            use std::io::Write as _;
            let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&calls).unwrap();
            writeln!(file, "{name} {}", arguments["q"].as_str().unwrap()).unwrap();
            let gave = if name == "fail" { Err(weft_core::Error::invalid("no")) } else { Ok(json!("done")) };
            async move { gave }
        });
        tool.traits.idempotent = name == "look";
        tools.register(tool).unwrap();
    }
    let kept = Asking(FolderCheckpointer::open(folder.join("threads")).unwrap());
    let agent = GraphAgent::builder("Ada", Arc::new(model)).toolkit(tools).checkpointer(Arc::new(kept));
    agent.build().unwrap()
}

#[tokio::test]
#[ignore = "it is a child process of another test"]
async fn child_process() {
    let folder = std::path::PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let agent = childs_agent(&folder);
    let reply = match agent.state("t").await.unwrap() {
        None => agent.process_message("t", "Q").await,
        Some(_) => agent.resume("t", TurnOptions::default()).await,
    };
    let reply = reply.unwrap();
    println!("reply {}", json!([reply.reply, reply.metadata]));
}

/// Runs a child until it has asked for `writes` writes and is killed, or until it has replied.
fn run_child(folder: &std::path::Path, writes: usize) -> Option<String> {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["graph_crash::child_process", "--exact", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let (mut asked, mut reply) = (0, None);
    for line in output.lines().map(Result::unwrap) {
        if let Some(said) = line.strip_prefix("reply ") {
            reply = Some(said.to_owned());
        }
        // The test harness may have started the line.
        if line.ends_with("write") {
            if asked == writes {
                break;
            }
            asked += 1;
            writeln!(input).unwrap();
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reply
}

#[test]
fn a_process_after_a_killed_one_repeats_nothing() {
    let undisturbed = Folder::new();
    let expected = run_child(&undisturbed.0, usize::MAX).unwrap();
    assert!(expected.contains("All done."), "{expected}");
    for writes in 0.. {
        let folder = Folder::new();
        if let Some(reply) = run_child(&folder.0, writes) {
            assert_eq!(reply, expected);
            assert!(writes > 12, "killed at {writes} writes only");
            break;
        }
        let reply = run_child(&folder.0, usize::MAX).unwrap();
        assert_eq!(reply, expected, "killed at write {writes}");
        let calls = std::fs::read_to_string(folder.0.join("calls")).unwrap();
        let count = |name: &str| calls.lines().filter(|call| call.starts_with(name)).count();
        assert!(count("pay") == 1 && count("fail") == 1, "killed at write {writes}: {calls}");
        assert!(count("look") <= 3, "killed at write {writes}: {calls}");
    }
}
