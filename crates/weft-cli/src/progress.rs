//! What the nodes of a run are doing, for people who watch: one line each, live on a terminal.

use std::collections::HashMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use weft_core::Record;
use weft_core::journal::Who;

use crate::screen::{Notes, harmless};

/// How often a live line moves.
const TICK: Duration = Duration::from_millis(100);
/// Live lines at the same time; further nodes are shown when they end.
const LIVE_MAX: usize = 16;

/// Shows nodes as they start and end.
pub enum Progress {
    /// Not at all.
    Silent,
    /// A line for each node that ends.
    Lines,
    /// A line for each node that works, which stays when it ends.
    Live(Live),
}

/// Lines that move.
pub struct Live {
    lines: MultiProgress,
    working: HashMap<u32, ProgressBar>,
    /// Ends that are told when the answer is complete, which shares the terminal.
    held_back: Option<Vec<String>>,
}

impl Progress {
    /// What suits the place that standard error leads to.
    pub fn for_people() -> Self {
        if !Notes::is_terminal() {
            return Self::Lines;
        }
        Self::Live(Live { lines: MultiProgress::new(), working: HashMap::new(), held_back: None })
    }

    /// Takes in what happened.
    pub fn observe(&mut self, record: &Record) {
        match (self, record) {
            (Self::Live(live), Record::NodeStarted { who }) => live.start(who),
            (Self::Live(live), Record::NodeFinished { who, error, elapsed, .. }) => {
                live.end(who.activation, ended(who, error.as_deref(), *elapsed));
            }
            (Self::Lines, Record::NodeFinished { who, error, elapsed, .. }) => {
                Notes::line(ended(who, error.as_deref(), *elapsed));
            }
            (Self::Live(_) | Self::Lines | Self::Silent, _) => {}
        }
    }

    /// Makes room for text on the same terminal.
    pub fn make_room(&mut self) {
        if let Self::Live(live) = self {
            live.stop_moving();
        }
    }

    /// Nothing more will happen.
    pub fn close(&mut self) {
        if let Self::Live(live) = self {
            live.stop_moving();
            live.held_back.take().into_iter().flatten().for_each(Notes::line);
        }
    }
}

impl Live {
    fn start(&mut self, who: &Who) {
        if self.held_back.is_some() || self.working.len() >= LIVE_MAX {
            return;
        }
        let line = self.lines.add(ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg}") {
            line.set_style(style);
        }
        line.set_message(harmless(&named(who)));
        line.enable_steady_tick(TICK);
        self.working.insert(who.activation, line);
    }

    fn end(&mut self, activation: u32, text: String) {
        if let Some(line) = self.working.remove(&activation) {
            line.finish_and_clear();
        }
        match &mut self.held_back {
            Some(held_back) => held_back.push(text),
            None => drop(self.lines.println(harmless(&text))),
        }
    }

    fn stop_moving(&mut self) {
        self.working.drain().for_each(|(_, line)| line.finish_and_clear());
        self.held_back.get_or_insert_default();
    }
}

fn named(who: &Who) -> String {
    if *who.name == *who.kind { who.kind.to_string() } else { format!("{} ({})", who.name, who.kind) }
}

fn ended(who: &Who, error: Option<&str>, elapsed: f64) -> String {
    let name = named(who);
    match error {
        None => format!("  ✓ {name}, {}", duration(elapsed)),
        Some(error) => format!("  ✗ {name}, {}: {error}", duration(elapsed)),
    }
}

/// Seconds as people say them.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => "under 1 ms".to_owned(),
        s if s < 1.0 => format!("{:.0} ms", s * 1000.0),
        s => format!("{s:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |seconds, expected| assert_eq!(duration(seconds), expected);
        check(0.0, "under 1 ms");
        check(0.0123, "12 ms");
        check(2.34, "2.3 s");
    }
}
