//! Decides how long appends are gathered before they are written together. Pure: the current time is passed in.
//!
//! A commit costs the same for one row as for many, so when many runs produce text at the same time, one commit for
//! many pieces is worth an imperceptible delay. The first append after a silence never waits. While only few runs are
//! active, only pieces that arrive faster than a reader could follow are gathered.

use std::time::Duration;

use tokio::time::Instant;

use crate::lane::Traffic;

/// A run that has been silent for this long is not in the middle of a text. One that is appends again as soon as its
/// last append is written, which takes up to [`LONGEST_TEXT`].
const SILENCE: Duration = Duration::from_millis(300);

/// Length of a counting round: each active run appends within that time.
const ROUND: Duration = Duration::from_millis(120);

/// Up to this many concurrently active runs, appends do not wait for those of other runs.
const FEW_MAX: u32 = 8;

/// The time between two writes of text while few runs are active. A model that produces text more slowly than that,
/// as all do over a network, never waits; the pieces of one that produces its text all at once are written several at
/// a time.
const BURST: Duration = Duration::from_millis(2);

/// What each active run adds to the time between two writes of text: with 200 runs that produce 10,000 words a second
/// the maximum is reached, and a write contains 1,000 words, five per run.
const EACH_TEXT: Duration = Duration::from_micros(500);

/// User interfaces show at most ten updates of text a second.
const LONGEST_TEXT: Duration = Duration::from_millis(100);

/// Like [`EACH_TEXT`], for appends that a caller may be waiting for.
const EACH: Duration = Duration::from_micros(25);

/// Like [`LONGEST_TEXT`], for appends that a caller may be waiting for.
const LONGEST: Duration = Duration::from_millis(5);

/// The remembered state of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunPace {
    at: Instant,
    round: u64,
    /// Whether its last append was part of a text.
    text: bool,
}

/// Whether an append may wait for others; the more urgent, the shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Haste {
    /// The first append after a silence.
    AtOnce,
    /// A caller may be waiting for it.
    Brief,
    /// A continuation of the run's text.
    Patient,
}

/// Counts the active runs.
#[derive(Debug)]
pub(crate) struct Pace {
    round: u64,
    round_began: Instant,
    /// In the current round.
    speaking: u32,
    /// In the previous round.
    spoke: u32,
    /// When the last write began.
    wrote: Instant,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self { round: 1, round_began: now, speaking: 0, spoke: 0, wrote: now }
    }

    /// Records an append of a run; `heard` is its remembered state. Returns the urgency of the append, which is at
    /// least `haste`: the first piece of a text never waits.
    pub(crate) fn hear(&mut self, heard: &mut Option<RunPace>, haste: Haste, now: Instant) -> Haste {
        let since = now.saturating_duration_since(self.round_began);
        if since >= ROUND {
            // After a silence of all runs, the previous round was empty.
            self.spoke = if since < 2 * ROUND { self.speaking } else { 0 };
            self.speaking = 0;
            self.round += 1;
            self.round_began = now;
        }
        let text = haste == Haste::Patient;
        let before = heard.replace(RunPace { at: now, round: self.round, text });
        if before.is_none_or(|before| before.round != self.round) {
            self.speaking += 1;
        }
        match before {
            Some(before) if now.saturating_duration_since(before.at) >= SILENCE => Haste::AtOnce,
            Some(before) if text && !before.text => Haste::AtOnce,
            Some(_) => haste,
            None => Haste::AtOnce,
        }
    }

    /// Records the end of a run with this remembered state: runs that follow one another are not active at the same
    /// time.
    pub(crate) fn leave(&mut self, heard: RunPace) {
        if heard.round == self.round {
            self.speaking = self.speaking.saturating_sub(1);
        } else if heard.round + 1 == self.round {
            self.spoke = self.spoke.saturating_sub(1);
        }
    }

    /// Records the start of a write.
    pub(crate) fn write(&mut self, now: Instant) {
        self.wrote = now;
    }

    /// Whether few or many runs are active.
    pub(crate) fn traffic(&self) -> Traffic {
        // At the beginning of a round hardly any run has been heard, so the previous round counts as well.
        if self.speaking.max(self.spoke) <= FEW_MAX { Traffic::Low } else { Traffic::High }
    }

    /// Until when appends are gathered, given the most urgent of them; `None` when they have to be written now.
    pub(crate) fn until(&self, haste: Haste, now: Instant) -> Option<Instant> {
        let speak = self.speaking.max(self.spoke);
        let time = match (haste, self.traffic()) {
            (Haste::AtOnce, _) | (Haste::Brief, Traffic::Low) => return None,
            (Haste::Brief, Traffic::High) => EACH.saturating_mul(speak).min(LONGEST),
            (Haste::Patient, Traffic::Low) => BURST,
            (Haste::Patient, Traffic::High) => EACH_TEXT.saturating_mul(speak).min(LONGEST_TEXT),
        };
        let until = self.wrote + time;
        (now < until).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// `count` runs stream a word every 20 ms for a while.
    fn many(pace: &mut Pace, count: usize, from: Instant) -> (Instant, Vec<Option<RunPace>>) {
        let mut heard = vec![None; count];
        let mut now = from;
        for _ in 0..5 {
            for run in &mut heard {
                pace.hear(run, Haste::Patient, now);
                now += ms(20) / u32::try_from(count).unwrap();
            }
        }
        (now, heard)
    }

    #[test]
    fn while_few_runs_stream_only_bursts_are_batched() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        let (now, _) = many(&mut pace, FEW_MAX as usize, begun);
        pace.write(now);
        assert_eq!((pace.until(Haste::Brief, now), pace.traffic()), (None, Traffic::Low));
        assert_eq!(pace.until(Haste::Patient, now), Some(now + BURST));
        assert_eq!(pace.until(Haste::Patient, now + BURST), None);
    }

    #[test]
    fn many_streaming_runs_share_a_write_and_a_silent_run_does_not_wait() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        let (now, mut heard) = many(&mut pace, 200, begun);
        pace.write(now);
        assert_eq!(pace.traffic(), Traffic::High);
        assert_eq!(pace.until(Haste::Patient, now), Some(now + LONGEST_TEXT));
        assert_eq!(pace.until(Haste::Brief, now), Some(now + LONGEST));
        assert_eq!(pace.until(Haste::AtOnce, now), None);
        assert_eq!(pace.until(Haste::Patient, now + LONGEST_TEXT), None);
        assert_eq!(pace.hear(&mut heard[0], Haste::Patient, now), Haste::Patient);
        assert_eq!(pace.hear(&mut heard[0], Haste::Brief, now), Haste::Brief);
        assert_eq!(
            pace.hear(&mut heard[0], Haste::Patient, now),
            Haste::AtOnce,
            "the first words of a text do not wait"
        );
        assert_eq!(pace.hear(&mut None, Haste::Brief, now), Haste::AtOnce);
        assert_eq!(pace.hear(&mut heard[1], Haste::Patient, now + SILENCE + ms(20)), Haste::AtOnce);
        // By then every run has been silent long enough.
        assert_eq!(pace.until(Haste::Brief, now + SILENCE + ms(20)), None);
    }

    #[test]
    fn runs_in_sequence_do_not_count_as_concurrent() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        for nth in 0..200 {
            let (mut heard, now) = (None, begun + ms(5) * nth);
            pace.hear(&mut heard, Haste::Brief, now);
            pace.hear(&mut heard, Haste::Patient, now + ms(2));
            assert_eq!(pace.traffic(), Traffic::Low);
            pace.leave(heard.unwrap());
        }
    }

    #[test]
    fn the_time_between_writes_grows_with_the_number_of_runs() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        let (now, _) = many(&mut pace, 40, begun);
        pace.write(now);
        assert_eq!(pace.until(Haste::Patient, now), Some(now + EACH_TEXT * 40));
        assert_eq!(pace.until(Haste::Brief, now), Some(now + EACH * 40));
    }
}
