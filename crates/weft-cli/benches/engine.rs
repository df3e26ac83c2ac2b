//! What the engine costs for each node, beside a hand-written loop that does only what it must: fill
//! in one reference, keep the output, write the two events. The last lines put both in proportion.
//!
//! `cargo bench -p weft-cli`

#![allow(missing_docs, reason = "measurements")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "measurements stop at the first failure"
)]

#[path = "../tests/it/workload.rs"]
mod workload;

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use divan::Bencher;
use tokio::runtime::Runtime;
use weft_app::{App, Config, DEFAULT_TENANT};
use weft_core::seam::canvas_store::CanvasHead;
use weft_core::{CanvasId, CanvasKey, SessionId, SessionKey, TenantId, TurnInput};
use weft_dsl::{CompileOptions, Plan};
use weft_engine::{EntryReader, SessionState, StartRun};
use weft_server::answer::Answer;
use weft_server::dialect::ragflow::{Additions, RunView, write_frame};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static IN_MEMORY: LazyLock<App> =
    LazyLock::new(|| RUNTIME.block_on(weft_app::assemble_in_memory(&Config::default())).unwrap());

/// How often the proportion is measured; the fastest counts.
const ROUNDS: usize = 15;

fn main() {
    divan::main();
    proportion();
}

#[divan::bench(args = [10, 100, 1000])]
fn w1_line(bencher: Bencher, count: usize) {
    let plan = plan(&workload::line(count));
    bencher.bench(|| assert_eq!(unstored(&plan, "hi").len(), 2 + count));
}

#[divan::bench(args = [10, 100, 1000])]
fn w1_line_with_journal(bencher: Bencher, count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { data: folder.path().to_owned(), ..Config::default() };
    let app = RUNTIME.block_on(weft_app::assemble(&config)).unwrap();
    let canvas = CanvasId::new("line");
    let (tenant, text) = (tenant(), workload::line(count).to_string());
    RUNTIME.block_on(app.put_canvas(&tenant, Some(canvas.clone()), CanvasHead::default(), &text)).unwrap();
    bencher.bench(|| assert_eq!(stored(&app, &canvas, "hi").len(), 2 + count));
    RUNTIME.block_on(app.shut_down(Duration::ZERO)).unwrap();
}

#[divan::bench]
fn w2_fan_of_50(bencher: Bencher) {
    let plan = plan(&workload::fan(50));
    bencher.bench(|| assert_eq!(unstored(&plan, "hi").lines().count(), 50));
}

#[divan::bench]
fn w2_iteration_over_1000(bencher: Bencher) {
    let (plan, items) = (plan(&workload::iteration()), workload::items(1000));
    bencher.bench(|| assert_eq!(unstored(&plan, &items).matches("item i").count(), 1000));
}

#[divan::bench(args = [10, 100, 1000])]
fn floor(bencher: Bencher, count: usize) {
    bencher.bench(|| by_hand(count));
}

/// The cost of one more node, in the engine and by hand, in the same run.
fn proportion() {
    let (short, long) = (plan(&workload::line(10)), plan(&workload::line(1000)));
    let fastest = |work: &dyn Fn()| {
        let time = |_| {
            let began = Instant::now();
            work();
            began.elapsed()
        };
        (0..ROUNDS).map(time).min().unwrap_or_default()
    };
    let per_node = |short: Duration, long: Duration| long.saturating_sub(short).as_secs_f64() * 1e6 / 990.0;
    let engine = per_node(
        fastest(&|| drop(black_box(unstored(&short, "hi")))),
        fastest(&|| drop(black_box(unstored(&long, "hi")))),
    );
    let floor =
        per_node(fastest(&|| drop(black_box(by_hand(10)))), fastest(&|| drop(black_box(by_hand(1000)))));
    println!(
        "one more node: {engine:.2} µs in the engine, {floor:.2} µs by hand: {:.1} times",
        engine / floor
    );
}

fn tenant() -> TenantId {
    TenantId::new(DEFAULT_TENANT)
}

fn plan(canvas: &serde_json::Value) -> Arc<Plan> {
    let canvas = weft_dsl::load(canvas.to_string().as_bytes()).unwrap();
    Arc::new(weft_dsl::compile(&canvas, &IN_MEMORY.catalog, &CompileOptions::default()).unwrap().plan)
}

fn unstored(plan: &Arc<Plan>, query: &str) -> String {
    RUNTIME.block_on(async {
        let session = SessionKey::new(&tenant(), SessionId::generate());
        let input = TurnInput { query: query.to_owned(), ..TurnInput::default() };
        let canvas = CanvasId::new("measured");
        let request = StartRun {
            plan: Arc::clone(plan),
            canvas,
            session: session.clone(),
            input,
            seed: None,
            task: None,
        };
        let state = SessionState::new(plan);
        let (feed, _, _) = Box::pin(IN_MEMORY.engine.run_unstored(request, state, Vec::new())).await.unwrap();
        read(EntryReader::new(Some(feed), None, 0), &session).await
    })
}

fn stored(app: &App, canvas: &CanvasId, query: &str) -> String {
    RUNTIME.block_on(async {
        let canvas = CanvasKey::new(&tenant(), canvas.clone());
        let session = app.open_session(&canvas, "", None).await.unwrap();
        let input = TurnInput { query: query.to_owned(), ..TurnInput::default() };
        let run = app.start_turn(&session.key, input).await.unwrap();
        read(run.entries, &session.key).await
    })
}

/// Every event as a client gets it; the answer.
async fn read(mut entries: EntryReader, session: &SessionKey) -> String {
    let mut view = RunView::new(&weft_core::RunId::generate(), &session.id);
    let (mut answer, mut frame) = (Answer::default(), Vec::new());
    while let Some(entry) = entries.next().await.unwrap() {
        view.learn(&entry);
        answer.learn(&entry);
        frame.clear();
        write_frame(&entry, &view, Additions::default(), &mut frame);
        black_box(&frame);
    }
    answer.text()
}

#[derive(serde::Serialize)]
struct Event<'a> {
    event: &'a str,
    data: Data<'a>,
}

#[derive(serde::Serialize)]
struct Data<'a> {
    component_id: &'a str,
    component_name: &'a str,
    component_type: &'a str,
    inputs: Option<(&'a str, &'a str)>,
    outputs: Option<&'a str>,
    elapsed_time: f64,
}

fn by_hand(count: usize) -> String {
    let mut outputs: HashMap<String, String> = HashMap::with_capacity(count);
    let (mut before, mut frame) = (String::new(), Vec::new());
    for at in 0..count {
        let id = format!("StringTransform:S{at}");
        let input = outputs.get(&before).map_or("hi", String::as_str);
        let text = format!("{input}.");
        for (event, outputs) in [("node_started", None), ("node_finished", Some(text.as_str()))] {
            frame.clear();
            let data = Data {
                component_id: &id,
                component_name: &id,
                component_type: "StringTransform",
                inputs: Some((&before, input)),
                outputs,
                elapsed_time: 0.0,
            };
            serde_json::to_writer(&mut frame, &Event { event, data }).unwrap();
            black_box(&frame);
        }
        outputs.insert(id.clone(), text);
        before = id;
    }
    outputs.remove(&before).unwrap_or_default()
}
