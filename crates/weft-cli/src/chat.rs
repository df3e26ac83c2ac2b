//! `weft chat`: a conversation in the terminal, or through a pipe.

use std::pin::pin;

use tokio::signal::ctrl_c;
use weft_core::TurnInput;
use weft_core::journal::{Ending, WaitingForm};
use weft_core::seam::session_store::Session;

use crate::args::ChatArgs;
use crate::failure::{Exit, Outcome};
use crate::follow::{Show, follow};
use crate::lines::InputLines;
use crate::local::{self, Opened};
use crate::progress::Progress;
use crate::run::{conclude, tell_limits};
use crate::screen::{Data, Notes};
use crate::setup::Setup;
use crate::signals::Termination;
use crate::{form, sources};

/// The input prompt.
const PROMPT: &str = "> ";

/// Converses until the input ends.
///
/// # Errors
/// When it cannot start, or standard output is closed.
pub(crate) async fn run(args: &ChatArgs, setup: &Setup) -> Outcome {
    let opened = local::open(setup, &args.file).await?;
    // In one block, so that the data folder is closed whatever the outcome.
    let ended = async {
        let session = opened.session(args.session.as_deref()).await?;
        let waiting = opened.waiting(&session).await?;
        let lines = InputLines::stdin();
        if lines.interactive {
            Notes::line(format!("{} Ctrl-C stops an answer, Ctrl-D ends the conversation.", setup.model));
        }
        let prologue = opened.prologue(&session).await?;
        let opened = &opened;
        let (data, termination) = (Data::stdout(), Termination::listen());
        let mut chat = ChatLoop { opened, session, setup, lines, data, termination, last: Exit::Done };
        chat.talk(&prologue, waiting).await
    };
    let ended = ended.await;
    opened.close().await?;
    ended
}

struct ChatLoop<'a> {
    opened: &'a Opened,
    session: Session,
    setup: &'a Setup,
    lines: InputLines,
    data: Data,
    /// A signal that stops an answer also ends the conversation.
    termination: Termination,
    last: Exit,
}

impl ChatLoop<'_> {
    async fn talk(&mut self, prologue: &str, waiting: Vec<WaitingForm>) -> Outcome {
        self.data.text(prologue)?;
        self.data.end_line()?;
        let mut turns = 0_u64;
        if !waiting.is_empty() {
            turns += 1;
            if !self.answer_forms(waiting).await? {
                return Ok(self.left_waiting());
            }
        }
        while let Some(query) = self.next_question().await {
            if query.trim().is_empty() {
                continue;
            }
            turns += 1;
            let waiting = self.turn(TurnInput { query, ..TurnInput::default() }).await?;
            if !self.answer_forms(waiting).await? {
                return Ok(self.left_waiting());
            }
        }
        if turns > 0 && self.lines.interactive {
            Notes::line(format!("\nContinue later with:\n  {}", self.command()));
        }
        Ok(self.last)
    }

    /// Returns the next line. Ctrl-C at a terminal only prints how to quit; with a pipe it ends the conversation, and
    /// SIGTERM always does.
    async fn next_question(&mut self) -> Option<String> {
        loop {
            let typed = tokio::select! {
                biased;
                // Polled before the line: otherwise a line entered at that moment would be taken.
                _ = ctrl_c() => None,
                () = self.termination.received() => return None,
                line = self.lines.next(PROMPT) => Some(line),
            };
            match typed {
                Some(line) => return line,
                None if !self.lines.interactive => return None,
                None => Notes::line("\n(Ctrl-D ends the conversation)"),
            }
        }
    }

    /// Asks until the run no longer waits. Returns whether it got that far.
    async fn answer_forms(&mut self, mut waiting: Vec<WaitingForm>) -> Outcome<bool> {
        while !waiting.is_empty() {
            let answers = {
                let mut interrupt = pin!(ctrl_c());
                tokio::select! {
                    biased;
                    _ = &mut interrupt => None,
                    () = self.termination.received() => None,
                    answers = form::ask(&waiting, &mut self.lines) => answers,
                }
            };
            // Left as it is: the run keeps waiting, and another command may answer it.
            let Some(inputs) = answers else { return Ok(false) };
            waiting = self.turn(TurnInput { inputs, ..TurnInput::default() }).await?;
        }
        Ok(true)
    }

    /// Executes a turn; returns the forms for which it waits.
    async fn turn(&mut self, input: TurnInput) -> Outcome<Vec<WaitingForm>> {
        let handle = self.opened.turn(&self.session.key, input).await?;
        let answer = follow(handle, Show::Answer, &mut self.data, &mut Progress::Tools).await?;
        Notes::text(&sources::lines(&answer.cited));
        if answer.end.as_ref().is_some_and(|end| end.ending == Ending::Waiting) {
            self.last = Exit::Waiting;
            // `conclude`, which tells them otherwise, would also describe the forms that are asked here.
            tell_limits(&answer);
            return Ok(answer.forms);
        }
        self.last = conclude(&answer, String::new);
        Ok(Vec::new())
    }

    fn left_waiting(&self) -> Exit {
        Notes::line(format!("\nThe run still waits. Continue with:\n  {}", self.command()));
        Exit::Waiting
    }

    fn command(&self) -> String {
        self.opened.command("chat", &self.session.key.id, self.setup)
    }
}
