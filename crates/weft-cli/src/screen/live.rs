//! Lines on standard error that move.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::harmless;

/// How often a line that turns does so.
const TICK: Duration = Duration::from_millis(100);
/// A line that turns.
const TURNING: &str = "  {spinner} {msg}";
/// A line that fills.
const FILLING: &str = "  {bar:32} {percent:>3}%  {prefix}  {wide_msg}";
/// A line that counts cases.
const COUNTING: &str = "{bar:30} {pos}/{len} cases {msg}";

/// Several lines that move, one for each thing that is being done.
#[derive(Default)]
pub(crate) struct LiveLines(MultiProgress);

impl LiveLines {
    /// A line that turns.
    pub(crate) fn turning(&self, text: &str) -> LiveLine {
        let line = LiveLine::of(self.0.add(ProgressBar::new_spinner()), TURNING);
        line.say(text);
        line.0.enable_steady_tick(TICK);
        line
    }

    /// A line above them that stays.
    pub(crate) fn tell(&self, text: &str) {
        drop(self.0.println(harmless(text)));
    }
}

/// One line that moves.
pub(crate) struct LiveLine(ProgressBar);

impl LiveLine {
    fn of(bar: ProgressBar, template: &str) -> Self {
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// A line that fills up to `length`.
    pub(crate) fn filling(length: u64) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_length(length);
        Self::of(bar, FILLING)
    }

    /// A line that counts cases on a terminal, and nothing elsewhere.
    pub(crate) fn counting(cases: usize) -> Self {
        if super::Notes::is_terminal() {
            Self::of(ProgressBar::new(cases as u64), COUNTING)
        } else {
            Self(ProgressBar::hidden())
        }
    }

    /// One more.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// How far it is filled.
    pub(crate) fn fill(&self, position: u64) {
        self.0.set_position(position);
    }

    /// What stands before its text.
    pub(crate) fn count(&self, text: &str) {
        self.0.set_prefix(harmless(text));
    }

    /// Its text.
    pub(crate) fn say(&self, text: &str) {
        self.0.set_message(harmless(text));
    }

    /// A line above it that stays.
    pub(crate) fn tell(&self, text: &str) {
        self.0.println(harmless(text));
    }

    /// Takes it away.
    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}
