//! Follows a run, and writes its output to standard output as it is produced.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_core::journal::Ending;
use weft_core::{Entry, Record};
use weft_engine::RunHandle;
use weft_server::answer::Answer;
use weft_server::dialect::ragflow::{self, RunView};

use crate::failure::{Failure, Outcome};
use crate::progress::Progress;
use crate::screen::{Data, Notes};
use crate::signals::stopped;
use crate::sources;

/// What is written to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Its answer.
    Answer,
    /// Every event, as a line of JSON.
    Events,
}

/// Exit code after Ctrl-C was pressed twice.
// 128 and the number of SIGINT, as shells report it.
const INTERRUPTED: i32 = 130;
/// Signals within this time count as one: `timeout` sends its signal to the process and again to the process group.
const SAME_SIGNAL: Duration = Duration::from_millis(200);

/// Reads a run to its end and prints it. Ctrl-C or SIGTERM stops the run; a second one the program. If standard
/// output is closed, the run is stopped, too.
///
/// # Errors
/// When the journal cannot be read, or standard output is closed.
pub(crate) async fn follow(
    mut run: RunHandle,
    show: Show,
    data: &mut Data,
    progress: &mut Progress,
) -> Outcome<Answer> {
    // The first entry names the session.
    let mut view = View { view: RunView::new(&run.key.id, &"".into()), answer: Answer::default(), show };
    let mut interrupt = pin!(stopped());
    let mut interrupted: Option<Instant> = None;
    let mut failure = None;
    loop {
        // The signal first, so that a run with many entries is stopped at once.
        let entry = tokio::select! {
            biased;
            () = &mut interrupt => {
                interrupt.set(stopped());
                match interrupted {
                    Some(first) if first.elapsed() >= SAME_SIGNAL => std::process::exit(INTERRUPTED),
                    Some(_) => continue,
                    None => interrupted = Some(Instant::now()),
                }
                run.cancel.cancel();
                // Both outputs mostly go to the same terminal, and the note must not continue the line of the answer.
                failure = failure.or(data.end_line().err());
                Notes::line("stopping …");
                continue;
            }
            entry = run.entries.next() => entry?,
        };
        let Some(entry) = entry else { break };
        // The answer's line is ended first, so that the note does not continue it.
        if progress.tells(&entry.record) && data.is_terminal() {
            failure = failure.or(data.end_line().err());
        }
        progress.observe(&entry.record);
        if let Err(error) = view.show(&entry, data, progress) {
            failure.get_or_insert(error);
            view.show = Show::Answer;
            // The run is stopped and read to its end, so that it is not left unfinished.
            run.cancel.cancel();
        }
    }
    progress.close();
    match failure {
        None => Ok(view.answer),
        Some(failure) => Err(failure),
    }
}

/// Follows a run for a command with the flag `--events`. The sources that an answer cites are listed after it.
///
/// # Errors
/// As [`follow`].
pub(crate) async fn follow_shown(run: RunHandle, show: Show) -> Outcome<Answer> {
    let mut data = Data::stdout();
    let mut progress = match show {
        Show::Answer => Progress::Tools,
        Show::Events => Progress::Silent,
    };
    let answer = follow(run, show, &mut data, &mut progress).await?;
    if show == Show::Answer {
        Notes::text(&sources::lines(&answer.cited));
    }
    Ok(answer)
}

struct View {
    view: RunView,
    answer: Answer,
    show: Show,
}

impl View {
    fn show(&mut self, entry: &Arc<Entry>, data: &mut Data, progress: &mut Progress) -> Outcome<()> {
        self.view.learn(entry);
        self.answer.learn(entry);
        match self.show {
            Show::Events => match ragflow::frame(entry, &self.view) {
                Some(frame) => data.text(&(frame + "\n")),
                None => Ok(()),
            },
            Show::Answer => self.show_answer(&entry.record, data, progress),
        }
    }

    fn show_answer(&mut self, record: &Record, data: &mut Data, progress: &mut Progress) -> Outcome<()> {
        match record {
            Record::Said { activation, text, .. } if !self.answer.is_thinking(*activation) => {
                if data.is_terminal() {
                    progress.make_room();
                }
                data.text(text)
            }
            Record::MessageReset { .. } => {
                data.end_line()?;
                Notes::line("note: the model starts over; its text so far is discarded");
                Ok(())
            }
            Record::RunFinished { ending: Ending::Succeeded, outputs, .. } => {
                // A canvas without a message still has a result.
                if !self.has_spoken() && !outputs.0.is_empty() {
                    let outputs =
                        serde_json::to_string(outputs).map_err(|error| Failure::failed(error.to_string()))?;
                    data.text(&outputs)?;
                }
                data.end_line()
            }
            Record::RunFinished { .. } => data.end_line(),
            _ => Ok(()),
        }
    }

    fn has_spoken(&self) -> bool {
        self.answer.shown().is_some_and(|shown| matches!(shown.record, Record::MessageEnded { .. }))
    }
}
