//! What the workloads W1 to W10 cost, each beside a floor that does only what must be done: as ratios of
//! CPU in one call, because times on a shared machine say little.
//!
//! `cargo xtask measure` builds the program and starts this. Both the model and the floors' servers are
//! this program in processes of their own, so that their CPU is told apart.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement prints, and stops when it cannot be made"
)]

mod datasets;
mod floors;
mod model;
mod process;
mod programs;
mod wire;
#[path = "../../../weft-cli/tests/it/workload.rs"]
mod workload;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::process::Process;
use crate::wire::{Load, Streams};

/// Words of an answer of W4, over four seconds after the first.
const W4_WORDS: usize = 200;
/// Sessions of W4, unless `MEASURE_SESSIONS` says something else.
const W4_SESSIONS: usize = 200;

/// What is measured.
const WORKLOADS: [&str; 10] = ["w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9", "w10"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["model"] => runtime.block_on(model::serve()),
        ["reframe", upstream, model] => runtime.block_on(floors::reframe(upstream, model)),
        [program, wanted @ ..] => {
            let unknown = wanted.iter().find(|name| !WORKLOADS.contains(name));
            assert!(unknown.is_none(), "there is no workload {unknown:?}: {}", WORKLOADS.join(", "));
            let wanted = if wanted.is_empty() { &WORKLOADS[..] } else { wanted };
            runtime.block_on(measure(Path::new(program), wanted));
        }
        [] => panic!("usage: measure PROGRAM [WORKLOAD...]"),
    }
}

/// The program, and where it may write.
struct Bench {
    program: PathBuf,
    folder: PathBuf,
    model: Process,
}

impl Drop for Bench {
    fn drop(&mut self) {
        // What cannot be removed is the system's to clean up.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

async fn measure(program: &Path, wanted: &[&str]) {
    let folder = std::env::temp_dir().join(format!("weft-measure-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let bench = Bench { program: program.to_owned(), folder, model: Process::this(&["model"]) };
    println!("| workload | weft | floor | ratio |\n|---|---|---|---|");
    for name in wanted {
        match *name {
            "w1" => w1(&bench),
            "w2" => w2(&bench),
            "w3" => w3(&bench),
            "w4" => w4(&bench).await,
            "w5" => w5(&bench).await,
            "w6" => w6(&bench).await,
            "w7" => datasets::questions(&bench).await,
            "w8" => datasets::small_files(&bench).await,
            "w9" => datasets::chunks(&bench).await,
            _ => programs::calls(&bench).await,
        }
    }
}

fn row(what: &str, unit: &str, weft: f64, floor: Option<f64>) {
    match floor {
        Some(floor) => println!("| {what} | {weft:.2} {unit} | {floor:.2} {unit} | {:.2} |", weft / floor),
        None => println!("| {what} | {weft:.2} {unit} | | |"),
    }
}

impl Bench {
    /// CPU milliseconds of a run of this canvas in process, whose answer must be whole.
    fn run(&self, canvas: &Json, query: &str, runs: u32, whole: impl Fn(&str) -> bool) -> f64 {
        let file = self.folder.join("canvas.json");
        std::fs::write(&file, canvas.to_string()).unwrap();
        let (runs_text, llm) = (runs.to_string(), format!("http://{}/v1", self.model.address));
        let mut command = std::process::Command::new(&self.program);
        command.arg("run").arg(file).args(["--query", query, "--repeat", &runs_text, "--warmup", "2"]);
        let output = command.args(["--llm-base-url", &llm, "--bench-json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let result: Json = serde_json::from_slice(&output.stdout).unwrap();
        let answer = result["answer"].as_str().unwrap_or_default();
        assert!(whole(answer), "not whole: {answer:?}");
        result["cpu_s"].as_f64().unwrap() * 1e3 / f64::from(runs)
    }

    /// The program as a server of one agent that asks `model`.
    async fn serve(&self, model: &str) -> Process {
        self.serve_with(model, &[]).await
    }

    /// The same with further settings.
    async fn serve_with(&self, model: &str, settings: &[(&str, &str)]) -> Process {
        self.serve_canvas(&workload::chat(model), settings).await
    }

    /// The program as a server of this canvas.
    async fn serve_canvas(&self, canvas: &Json, settings: &[(&str, &str)]) -> Process {
        let (file, data) = (self.folder.join("canvas.json"), self.folder.join("data"));
        std::fs::write(&file, canvas.to_string()).unwrap();
        drop(std::fs::remove_dir_all(&data));
        let address = process::free_address();
        let mut command = std::process::Command::new(&self.program);
        command.args(["serve", "--listen", &address, "--no-auth", "--data"]).arg(data);
        command.arg("--agent").arg(format!("bench={}", file.display()));
        command.env("WEFT_OPENAI_BASE_URL", format!("http://{}/v1", self.model.address));
        command.envs(settings.iter().copied());
        let server = Process::server(command, address);
        server.answers().await;
        server
    }

    fn reframe(&self, model: &str) -> Process {
        Process::this(&["reframe", &self.model.address, model])
    }
}

/// CPU milliseconds of some work in this thread.
fn by_hand(runs: u32, work: impl Fn()) -> f64 {
    work();
    let before = process::thread_cpu();
    (0..runs).for_each(|_| work());
    (process::thread_cpu() - before).as_secs_f64() * 1e3 / f64::from(runs)
}

fn w1(bench: &Bench) {
    let weft = |count: usize, runs| {
        bench.run(&workload::line(count), "hi", runs, |answer| answer.len() == 2 + count)
    };
    let floor = |count: usize, runs| by_hand(runs, || floors::line(count));
    let each = |long: f64, short: f64| (long - short) * 1e3 / 990.0;
    let (weft, floor) = (each(weft(1_000, 60), weft(10, 600)), each(floor(1_000, 60), floor(10, 600)));
    row("W1: one more node in a line", "µs", weft, Some(floor));
}

fn w2(bench: &Bench) {
    let weft = bench.run(&workload::fan(50), "hi", 200, |answer| answer.lines().count() == 50);
    row("W2f: 50 nodes side by side", "ms", weft, None);
    let all = |answer: &str| answer.matches("item i").count() == 1_000;
    let weft = bench.run(&workload::iteration(), &workload::items(1_000), 60, all);
    let floor = by_hand(60, || floors::iteration(1_000));
    row("W2i: an iteration over 1,000 items", "ms", weft, Some(floor));
}

fn w3(bench: &Bench) {
    let model = "mock-50-0-0-5";
    let weft = bench.run(&workload::react(model), "hello", 100, |answer| answer.trim().ends_with("w49"));
    let floor = tokio::task::block_in_place(|| floors::react(&bench.model.address, model, 100));
    row("W3: an agent that calls a tool five times", "ms", weft, Some(floor));
}

#[expect(clippy::disallowed_methods, reason = "a program that measures has no configuration")]
async fn w4(bench: &Bench) {
    let model = format!("mock-{W4_WORDS}-100-20-0");
    let count = std::env::var("MEASURE_SESSIONS").ok().and_then(|count| count.parse().ok());
    let count = count.unwrap_or(W4_SESSIONS);
    let streams = Streams { count, over: Duration::from_secs(1), words: W4_WORDS };
    let direct = wire::load(
        &bench.model.address,
        "/v1/chat/completions",
        &streams,
        |_| json!({"model": model, "stream": true, "messages": [{"role": "user", "content": "hello"}]}),
    );
    let direct = direct.await;
    let floor = bench.reframe(&model);
    let reframed = loaded(&floor, "/chat", &streams).await;
    drop(floor);
    let weft = bench.serve(&model).await;
    let ours = loaded(&weft, "/api/v1/agents/bench/completions", &streams).await;
    let tokens = (streams.count * W4_WORDS) as f64;
    let each = |load: &Load| load.cpu.as_secs_f64() * 1e6 / tokens;
    row(&format!("W4: a token, {count} sessions"), "µs", each(&ours), Some(each(&reframed)));
    let added = |load: &Load| load.first.as_secs_f64() * 1e3 - direct.first.as_secs_f64() * 1e3;
    row("W4: added to the first token, median", "ms", added(&ours), Some(added(&reframed)));
    row("W4: memory at its most", "MiB", ours.memory, Some(reframed.memory));
}

async fn loaded(server: &Process, path: &str, streams: &Streams) -> Load {
    let before = server.cpu();
    let load = wire::load(
        &server.address,
        path,
        streams,
        |nth| json!({"query": "hello", "session_id": format!("s{nth}"), "stream": true}),
    );
    let load = load.await;
    Load { cpu: server.cpu() - before, memory: server.memory_at_most(), ..load }
}

async fn w5(bench: &Bench) {
    let weft = bench.serve("mock-1-0-0-0").await;
    let once = Streams { count: 1, over: Duration::ZERO, words: 1 };
    loaded(&weft, "/api/v1/agents/bench/completions", &once).await;
    let cpu = weft.cpu().as_secs_f64() * 1e3;
    tokio::time::sleep(Duration::from_secs(1)).await;
    row("W5: CPU to the first answer", "ms", cpu, None);
    row("W5: memory when idle", "MiB", weft.memory(), None);
}

async fn w6(bench: &Bench) {
    const TURNS: usize = 220;
    let weft = bench.serve("mock-50-0-0-0").await;
    let before = weft.cpu();
    let query = "some words of a question that a user may well ask the assistant ".repeat(3);
    for turn in 0..TURNS {
        let body = json!({"query": format!("turn {turn}: {query}"), "session_id": "long", "stream": true});
        wire::ask(&weft.address, "/api/v1/agents/bench/completions", &body, 50).await;
    }
    let turn = (weft.cpu() - before).as_secs_f64() * 1e3 / TURNS as f64;
    row("W6: a turn of a long conversation", "ms", turn, None);
}
