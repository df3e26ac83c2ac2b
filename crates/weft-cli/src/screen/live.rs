//! Animated lines on standard error.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::harmless;

/// Interval of the animation.
const TICK: Duration = Duration::from_millis(100);
/// A line with a spinner.
const TURNING: &str = "  {spinner} {msg}";
/// A progress bar.
const FILLING: &str = "  {bar:32} {percent:>3}%  {prefix}  {wide_msg}";
/// A progress bar that counts cases.
const COUNTING: &str = "{bar:30} {pos}/{len} cases {msg}";

/// Several animated lines, one per task.
#[derive(Default)]
pub(crate) struct LiveLines(MultiProgress);

impl LiveLines {
    /// Adds a line with a spinner.
    pub(crate) fn turning(&self, text: &str) -> LiveLine {
        let line = LiveLine::of(self.0.add(ProgressBar::new_spinner()), TURNING);
        line.say(text);
        line.0.enable_steady_tick(TICK);
        line
    }

    /// Prints a permanent line above them.
    pub(crate) fn tell(&self, text: &str) {
        drop(self.0.println(harmless(text)));
    }
}

/// An animated line.
pub(crate) struct LiveLine(ProgressBar);

impl LiveLine {
    fn of(bar: ProgressBar, template: &str) -> Self {
        // This only fails for an invalid template, and all of them are constants.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Creates a progress bar up to `length`.
    pub(crate) fn filling(length: u64) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_length(length);
        Self::of(bar, FILLING)
    }

    /// Creates a progress bar that counts cases on a terminal, and is hidden otherwise.
    pub(crate) fn counting(cases: usize) -> Self {
        if super::Notes::is_terminal() {
            Self::of(ProgressBar::new(cases as u64), COUNTING)
        } else {
            Self(ProgressBar::hidden())
        }
    }

    /// Advances by one.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Sets the position.
    pub(crate) fn fill(&self, position: u64) {
        self.0.set_position(position);
    }

    /// Sets the text before the message.
    pub(crate) fn count(&self, text: &str) {
        self.0.set_prefix(harmless(text));
    }

    /// Sets the message.
    pub(crate) fn say(&self, text: &str) {
        self.0.set_message(harmless(text));
    }

    /// Prints a permanent line above it.
    pub(crate) fn tell(&self, text: &str) {
        self.0.println(harmless(text));
    }

    /// Removes the line.
    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}
