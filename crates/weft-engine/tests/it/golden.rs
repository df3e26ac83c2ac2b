//! The sample canvases, each against the event log beside it. `UPDATE=1` rewrites the logs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use weft_core::citation::Cited;
use weft_core::seam::Knowledge;
use weft_core::seam::http::HttpResponse;
use weft_core::{ErrorKind, Json, Outputs, Record, TurnInput};
use weft_dsl::Plan;
use weft_models::script::Script;
use weft_testkit::fake_http::FakeHttp;

use crate::kit::Ran;
use crate::real::{World, compiled, searching};

#[derive(Deserialize)]
pub(crate) struct Input {
    pub conversations: Vec<Conversation>,
}

#[derive(Deserialize)]
pub(crate) struct Conversation {
    pub shows: String,
    pub turns: Vec<TurnInput>,
}

#[derive(Deserialize)]
struct Answer {
    url: String,
    status: Option<u16>,
    #[serde(default)]
    headers: serde_json::Map<String, Json>,
    #[serde(default)]
    body: String,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    kind: ErrorKind,
    message: String,
}

pub(crate) fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../canvases")
}

pub(crate) fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

pub(crate) fn http(folder: &Path) -> FakeHttp {
    let answers: Vec<Answer> =
        read(&folder.join("http.json")).map(|text| serde_json::from_str(&text).unwrap()).unwrap_or_default();
    answers.into_iter().fold(FakeHttp::new(), |http, answer| match answer.error {
        Some(failure) => http.fails_once(&answer.url, failure.kind, &failure.message),
        None => {
            let header =
                |(name, value): (String, Json)| (name, value.as_str().unwrap_or_default().to_owned());
            let headers = answer.headers.into_iter().map(header).collect();
            http.with(
                &answer.url,
                HttpResponse { status: answer.status.unwrap(), headers, body: answer.body },
            )
        }
    })
}

pub(crate) async fn documents(folder: &Path) -> Arc<dyn Knowledge> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder.join("documents")).into_iter().flatten().flatten().collect();
    files.sort_by_key(std::fs::DirEntry::path);
    let name = |file: &std::fs::DirEntry| file.file_name().to_string_lossy().into_owned();
    let files = files.iter().map(|file| (name(file), std::fs::read(file.path()).unwrap()));
    let dataset = folder.file_name().unwrap().to_str().unwrap();
    searching(files.map(|(name, bytes)| (dataset, name, bytes))).await
}

/// Where a sample runs, its plan, and its conversations.
pub(crate) async fn world_of(folder: &Path) -> (World, Arc<Plan>, Vec<Conversation>) {
    let plan = compiled(&read(&folder.join("canvas.json")).unwrap())
        .unwrap_or_else(|p| panic!("{folder:?}: {p:#?}"));
    (world_in(folder).await, plan, conversations(folder))
}

/// Where a sample runs.
pub(crate) async fn world_in(folder: &Path) -> World {
    let script =
        read(&folder.join("script.json")).map_or_else(Script::new, |text| Script::parse(&text).unwrap());
    World::with_search(script, http(folder), documents(folder).await)
}

/// The conversations of a sample.
pub(crate) fn conversations(folder: &Path) -> Vec<Conversation> {
    let input: Input = serde_json::from_str(&read(&folder.join("input.json")).unwrap()).unwrap();
    input.conversations
}

async fn log_of(folder: &Path) -> String {
    let (world, plan, conversations) = world_of(folder).await;
    told(&world, &plan, conversations).await
}

/// The events of these conversations, one per line.
pub(crate) async fn told(world: &World, plan: &Arc<Plan>, conversations: Vec<Conversation>) -> String {
    let mut log = String::new();
    for conversation in conversations {
        writeln!(log, "# {}", conversation.shows).unwrap();
        let asked: Vec<_> =
            conversation.turns.iter().map(|turn| (turn.query.clone(), turn.inputs.clone())).collect();
        let ran = world.hold(plan, conversation.turns).await;
        for ((query, inputs), ran) in asked.iter().zip(&ran) {
            writeln!(log, "> {query:?} {}", Json::Object(inputs.clone())).unwrap();
            write_log(&mut log, ran);
        }
    }
    log
}

fn write_log(log: &mut String, ran: &Ran) {
    let mut event = 0;
    for record in &ran.records {
        event += u32::from(record.is_event());
        let number = if record.is_event() { event.to_string() } else { "-".to_owned() };
        if let Some(line) = line(record) {
            writeln!(log, "{number} {line}").unwrap();
        }
    }
}

fn line(record: &Record) -> Option<String> {
    let json = |outputs: &Outputs| serde_json::to_string(outputs).unwrap();
    Some(match record {
        Record::RunStarted { resumes, .. } => {
            format!("workflow_started{}", if resumes.is_some() { " resumed" } else { "" })
        }
        Record::NodeStarted { who } => {
            let rounds: String =
                who.frame.iter().map(|step| format!(" {}[{}]", step.node, step.round)).collect();
            format!("node_started {}{rounds}", who.node)
        }
        Record::NodeSkipped { node, .. } => format!("skipped {node}"),
        Record::FrameOpened { .. }
        | Record::ModelUsed { .. }
        | Record::EffectStarted { .. }
        | Record::EffectFinished { .. }
        | Record::Published { .. }
        | Record::Sourced { .. }
        | Record::PickedUp { .. } => return None,
        Record::Played { activation, audio, .. } => {
            format!("played {activation} {} bytes of {}", audio.base64.len() / 4 * 3, audio.media_type)
        }
        Record::Said { node, text, .. } => format!("message {node} {text:?}"),
        Record::ThinkingStarted { node, .. } => format!("start_to_think {node}"),
        Record::ThinkingEnded { node, .. } => format!("end_to_think {node}"),
        Record::MessageEnded { node, end, .. } => {
            let pages =
                |c: &Cited| c.chunk.positions.iter().map(|p| p[0].to_string()).collect::<BTreeSet<_>>();
            let cited = end.cited.iter().map(|c| {
                let pages: String = pages(c).iter().map(|page| format!(" p. {page}")).collect();
                format!(" [ID:{}] {}{pages}", c.number, c.chunk.document_name)
            });
            format!("message_end {node}{}", cited.collect::<String>())
        }
        Record::MessageReset { node, .. } => format!("message_reset {node}"),
        Record::ToolStarted { call, .. } => format!("tool_start {} {}", call.path, call.arguments),
        Record::ToolFinished { call, .. } => {
            let failed = if call.failed { " failed" } else { "" };
            format!("tool_end {} {}{failed}", call.started.path, call.result)
        }
        Record::Limited { node, reason, .. } => format!("limited {node} {}", reason.as_str()),
        Record::Warned { node, message } => format!("warning {node} {message}"),
        Record::NodeFinished { who, outputs, error, .. } => {
            let error = error.as_ref().map(|error| format!(" error {error:?}")).unwrap_or_default();
            format!("node_finished {} {}{error}", who.node, json(outputs))
        }
        Record::Waiting { forms } => {
            let forms =
                forms.iter().map(|f| format!(" {} {:?}", f.node, f.form.tips.as_deref().unwrap_or_default()));
            format!("user_inputs{}", forms.collect::<String>())
        }
        Record::RunFinished { ending, outputs, error, .. } => {
            let error = error.as_ref().map(|error| format!(" {error:?}")).unwrap_or_default();
            format!("workflow_finished {} {}{error}", ending.as_str(), json(outputs))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn samples_match_their_golden_logs() {
    let mut folders: Vec<_> =
        std::fs::read_dir(samples()).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    let mut wrong = Vec::new();
    for folder in &folders {
        let log = log_of(folder).await;
        let path = folder.join("events.txt");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &log).unwrap();
        } else if read(&path).as_deref() != Some(&*log) {
            let expected = read(&path).unwrap_or_default();
            let differs =
                log.lines().zip(expected.lines().chain(std::iter::repeat(""))).find(|(a, b)| a != b);
            wrong.push(format!("{}: {differs:#?}", folder.display()));
        }
    }
    assert!(folders.len() >= 20, "the samples are there");
    assert!(wrong.is_empty(), "UPDATE=1 rewrites the logs; read the diff\n{}", wrong.join("\n"));
}
