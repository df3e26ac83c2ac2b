//! `weft run --bench-json`: measures the duration of runs, without or with a journal.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio::task::JoinSet;
use weft_app::App;
use weft_core::journal::Ending;
use weft_core::seam::canvas_store::CanvasHead;
use weft_core::{CanvasId, CanvasKey, Record, RunId, SessionId, SessionKey, TurnInput};
use weft_dsl::Plan;
use weft_engine::{EntryReader, SessionState, StartRun};
use weft_server::answer::Answer;
use weft_server::dialect::ragflow::{Additions, RunView, write_frame};

use crate::args::RunArgs;
use crate::check::{self, Measuring};
use crate::chosen_tenant::tenant;
use crate::document::Document;
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::Data;
use crate::setup::Setup;

/// The canvas that is run repeatedly.
#[derive(Clone)]
struct Subject {
    app: App,
    plan: Arc<Plan>,
    canvas: CanvasId,
    input: TurnInput,
    journal: Journal,
}

/// Whether runs are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Journal {
    Kept,
    None,
}

/// A timed run.
struct Timed {
    wall: Duration,
    answer: String,
}

/// Runs a canvas many times and prints the times.
///
/// # Errors
/// When the canvas cannot run, or one of the runs fails.
pub(crate) async fn run(args: &RunArgs, setup: &Setup) -> Outcome {
    let folder = args.measuring.with_journal.then(Scratch::new).transpose()?;
    let mut config = setup.config.clone();
    let app = match &folder {
        Some(folder) => {
            // Its own store, because a benchmark must not touch an existing one.
            config.data.clone_from(&folder.0);
            config.store.url = String::new();
            weft_app::assemble(&config).await
        }
        None => weft_app::assemble_in_memory(&config).await,
    };
    let app = app.map_err(|error| Failure::before_running(&error))?;
    let (subject, load) = load(args, setup, app).await?;
    // Sequentially: one-time initialization happens before the clock starts.
    repeat(&subject, args.measuring.warmup.unwrap_or(0), 1).await?;
    let count = args.measuring.repeat.unwrap_or(1);
    let (cpu, began) = (cpu_time(), Instant::now());
    let runs = repeat(&subject, count, args.measuring.concurrency.unwrap_or(1)).await?;
    let (total, cpu) = (began.elapsed(), cpu_time().saturating_sub(cpu));
    let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
    let result = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "answer": runs.last().map_or("", |run| run.answer.as_str()),
        "load_ms": milliseconds(load),
        "wall_ms": runs.iter().map(|run| milliseconds(run.wall)).collect::<Vec<_>>(),
        "total_s": total.as_secs_f64(),
        "cpu_s": cpu.as_secs_f64(),
    });
    subject.app.shut_down(Duration::ZERO).await?;
    // After the store is closed, whose files are in it.
    drop(folder);
    let mut data = Data::stdout();
    data.line(&result.to_string())?;
    data.flush()?;
    Ok(Exit::Done)
}

/// Reads and checks the canvas; returns how long that took.
async fn load(args: &RunArgs, setup: &Setup, app: App) -> Outcome<(Subject, Duration)> {
    let began = Instant::now();
    let document = Document::read(&args.file)?;
    let compiled = check::compile(&document, &app, setup, Measuring::Yes)
        .map_err(|problems| check::refused(&document, problems, setup.colour))?;
    // Storing the canvas, below, is no part of loading it.
    let load = began.elapsed();
    let canvas = CanvasId::new("measured");
    let input = TurnInput { query: args.query.clone().unwrap_or_default(), ..TurnInput::default() };
    let journal = if args.measuring.with_journal { Journal::Kept } else { Journal::None };
    if journal == Journal::Kept {
        let head = CanvasHead { title: "measured".to_owned(), ..CanvasHead::default() };
        let text = document.text().unwrap_or_default();
        app.put_canvas(&tenant(), Some(canvas.clone()), head, text).await?;
    }
    Ok((Subject { app, plan: Arc::new(compiled.plan), canvas, input, journal }, load))
}

/// Runs `count` times, `at_once` concurrently; returns the runs in the order of their ends.
async fn repeat(subject: &Subject, count: u32, at_once: u32) -> Outcome<Vec<Timed>> {
    let begun = Arc::new(AtomicU32::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..at_once.min(count) {
        let (subject, begun) = (subject.clone(), Arc::clone(&begun));
        workers.spawn(async move {
            let mut runs = Vec::new();
            // Each worker takes the next run, so that slow runs delay no others.
            while begun.fetch_add(1, Ordering::Relaxed) < count {
                runs.push(Box::pin(subject.once()).await?);
            }
            Ok::<_, Failure>(runs)
        });
    }
    let mut runs = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    while let Some(worker) = workers.join_next().await {
        runs.extend(
            worker.map_err(|error| Failure::failed(format!("a run stopped unexpectedly: {error}")))??,
        );
    }
    Ok(runs)
}

impl Subject {
    /// Executes a run in its own session, serializing every event as for a client.
    async fn once(&self) -> Outcome<Timed> {
        let began = Instant::now();
        let session = SessionKey::new(&tenant(), SessionId::generate());
        let entries = match self.journal {
            Journal::None => self.unstored(session.clone()).await?,
            Journal::Kept => self.stored(session.clone()).await?,
        };
        let answer = read(entries, &session.id).await?;
        Ok(Timed { wall: began.elapsed(), answer })
    }

    async fn unstored(&self, session: SessionKey) -> Outcome<EntryReader> {
        let state = SessionState::new(&self.plan);
        let request = StartRun {
            plan: Arc::clone(&self.plan),
            canvas: self.canvas.clone(),
            session,
            input: self.input.clone(),
            seed: None,
            task: None,
        };
        let (feed, _, _) = self.app.engine.run_unstored(request, state, Vec::new()).await?;
        Ok(EntryReader::new(Some(feed), None, 0))
    }

    async fn stored(&self, session: SessionKey) -> Outcome<EntryReader> {
        let canvas = CanvasKey::new(&session.tenant, self.canvas.clone());
        self.app.open_session(&canvas, "", Some(session.id.clone())).await?;
        Ok(self.app.start_turn(&session, self.input.clone()).await?.entries)
    }
}

/// Serializes and discards every event of a run; returns its answer.
async fn read(mut entries: EntryReader, session: &SessionId) -> Outcome<String> {
    let mut view = RunView::new(&RunId::generate(), session);
    let (mut frame, mut answer) = (Vec::new(), Answer::default());
    while let Some(entry) = entries.next().await? {
        view.learn(&entry);
        answer.learn(&entry);
        frame.clear();
        write_frame(&entry, &view, Additions::default(), &mut frame);
        // Otherwise the compiler may remove the unused serialization.
        std::hint::black_box(&frame);
        if let Record::RunFinished { ending, error, .. } = &entry.record
            && *ending != Ending::Succeeded
        {
            let why = error.as_deref().unwrap_or("it waits for a person");
            return Err(Failure::failed(format!("a measured run ended with {}: {why}", ending.as_str())));
        }
    }
    Ok(answer.text())
}

/// Returns the user and system time of this process so far.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// A temporary folder.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Outcome<Self> {
        let path = std::env::temp_dir().join(format!("weft-measure-{}", SessionId::generate()));
        let made = std::fs::create_dir(&path);
        made.map_err(|error| Failure::failed(format!("cannot make the folder {}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A failure is left to the system's own clean-up.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
