//! The times for which a schedule queues runs at a given moment. Pure.

use weft_core::seam::schedule_store::{Misfire, Schedule};

use super::times::Times;

/// A time whose run was not queued within this many milliseconds counts as missed. Longer than the interval at which
/// workers check, shorter than people would wait.
pub const MISSED_AFTER_MS: i64 = 60_000;

/// A clock that goes back by more than this many milliseconds was wrong before. Clocks of different machines differ by
/// less.
pub const CLOCK_BACK_MS: i64 = 3_600_000;

/// Maximum number of runs queued at once for missed times.
pub const MADE_UP_MAX: u32 = 1_000;

/// The decision about a schedule at a given moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The times for which runs are queued, earliest first, in milliseconds since 1970.
    pub fires: Vec<i64>,
    /// The next time, in milliseconds since 1970; absent if there is none.
    pub next_ms: Option<i64>,
    /// The time up to which everything is decided, in milliseconds since 1970.
    pub decided_ms: i64,
}

/// Decides about all times from the stored next time to now; `None` if there is nothing to decide.
pub fn decide(times: &Times, schedule: &Schedule, now_ms: i64) -> Option<Decision> {
    let next_ms = schedule.next_ms?;
    let from_now = |fires| Some(Decision { fires, next_ms: times.after(now_ms), decided_ms: now_ms });
    if schedule.decided_ms.saturating_sub(now_ms) > CLOCK_BACK_MS {
        // The stored decision is about future times. Times that had a run keep it, because the id of a run follows from
        // its time.
        return from_now(Vec::new());
    }
    if next_ms > now_ms {
        return None;
    }
    let missed_ms = now_ms.saturating_sub(MISSED_AFTER_MS);
    let mut in_time = Vec::new();
    let mut at = if next_ms > missed_ms { Some(next_ms) } else { times.after(missed_ms) };
    while let Some(fire) = at.filter(|fire| *fire <= now_ms) {
        in_time.push(fire);
        at = times.after(fire);
    }
    let made_up_max = match schedule.misfire {
        Misfire::Skip => 0,
        // A run on time also counts for the missed ones before it.
        Misfire::Once => u32::from(in_time.is_empty()),
        Misfire::All { max } => max.min(MADE_UP_MAX),
    };
    let mut fires = Vec::new();
    // From the latest backward, so that the most recently missed times are run.
    let mut at = times.until(missed_ms);
    while let Some(fire) = at.filter(|fire| *fire >= next_ms && fires.len() < made_up_max as usize) {
        fires.push(fire);
        at = fire.checked_sub(1).and_then(|before| times.until(before));
    }
    fires.reverse();
    fires.append(&mut in_time);
    from_now(fires)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_core::seam::schedule_store::{SessionPolicy, Timing};
    use weft_core::{ScheduleKey, TenantId, TurnInput};

    use super::*;

    const MINUTE: i64 = 60_000;
    const HOUR: i64 = 60 * MINUTE;

    /// A schedule that is due every ten minutes from 0 on.
    fn schedule(misfire: Misfire, next_ms: i64, decided_ms: i64) -> (Times, Schedule) {
        let timing = Timing::Every { every_ms: 10 * MINUTE, from_ms: 0 };
        let times = Times::parse(&timing).unwrap();
        let schedule = Schedule {
            key: ScheduleKey::new(&TenantId::from("t"), "s"),
            canvas: "c".into(),
            name: String::new(),
            timing,
            input: TurnInput::default(),
            session: SessionPolicy::New,
            misfire,
            next_ms: Some(next_ms),
            decided_ms,
            revision: 0,
            created_ms: 0,
            updated_ms: 0,
        };
        (times, schedule)
    }

    fn decided(misfire: Misfire, next_ms: i64, now_ms: i64) -> Option<Vec<i64>> {
        let (times, schedule) = schedule(misfire, next_ms, 0);
        let decision = decide(&times, &schedule, now_ms)?;
        assert_eq!((decision.next_ms, decision.decided_ms), (times.after(now_ms), now_ms));
        Some(decision.fires.into_iter().map(|fire| fire / MINUTE).collect())
    }

    #[test]
    fn a_time_that_is_not_missed_fires_under_every_policy() {
        for misfire in [Misfire::Skip, Misfire::Once, Misfire::All { max: 3 }] {
            assert_eq!(decided(misfire, 20 * MINUTE, 20 * MINUTE - 1), None);
            assert_eq!(decided(misfire, 20 * MINUTE, 20 * MINUTE), Some(vec![20]));
            assert_eq!(decided(misfire, 20 * MINUTE, 21 * MINUTE - 1), Some(vec![20]));
        }
    }

    #[test]
    fn missed_times_are_skipped_fired_once_or_all_fired() {
        let (three_missed, one_in_time) = (45 * MINUTE, 50 * MINUTE + 5);
        assert_eq!(decided(Misfire::Skip, 20 * MINUTE, three_missed), Some(vec![]));
        assert_eq!(decided(Misfire::Once, 20 * MINUTE, three_missed), Some(vec![40]));
        assert_eq!(decided(Misfire::All { max: 9 }, 20 * MINUTE, three_missed), Some(vec![20, 30, 40]));
        assert_eq!(decided(Misfire::All { max: 2 }, 20 * MINUTE, three_missed), Some(vec![30, 40]));
        assert_eq!(decided(Misfire::All { max: 0 }, 20 * MINUTE, three_missed), Some(vec![]));
        assert_eq!(decided(Misfire::Skip, 20 * MINUTE, one_in_time), Some(vec![50]));
        assert_eq!(decided(Misfire::Once, 20 * MINUTE, one_in_time), Some(vec![50]));
        assert_eq!(decided(Misfire::All { max: 2 }, 20 * MINUTE, one_in_time), Some(vec![30, 40, 50]));
        // Even after a very long outage at most the maximum fires, and the decision is fast.
        let late = 1_000_000 * HOUR;
        let all = decided(Misfire::All { max: u32::MAX }, 20 * MINUTE, late).unwrap();
        assert_eq!(all.len(), MADE_UP_MAX as usize + 1);
    }

    #[test]
    fn a_clock_that_goes_back_fires_nothing_twice() {
        let (times, schedule) = schedule(Misfire::All { max: 9 }, 130 * MINUTE, 2 * HOUR);
        // A small step back: the decision stands.
        assert_eq!(decide(&times, &schedule, HOUR), None);
        // A large step back: the earlier clock was wrong, and the schedule does not wait for that time to come again.
        let ahead = Schedule { next_ms: Some(1_000 * HOUR), decided_ms: 999 * HOUR, ..schedule };
        let decision = decide(&times, &ahead, 5 * HOUR + 1).unwrap();
        let next_ms = Some(5 * HOUR + 10 * MINUTE);
        assert_eq!(decision, Decision { fires: vec![], next_ms, decided_ms: 5 * HOUR + 1 });
    }

    #[test]
    fn a_disabled_schedule_never_fires() {
        let (times, schedule) = schedule(Misfire::Once, 0, 0);
        assert_eq!(decide(&times, &Schedule { next_ms: None, ..schedule }, HOUR), None);
    }

    proptest! {
        /// However irregular the checks are, every time fires once as long as the gaps between them are short enough.
        #[test]
        fn with_frequent_checks_each_time_fires_once(steps in prop::collection::vec(1..MISSED_AFTER_MS, 1..300)) {
            let (times, mut schedule) = schedule(Misfire::Skip, 10 * MINUTE, 0);
            let (mut now, mut fires) = (0, Vec::new());
            for step in steps {
                now += step;
                if let Some(decision) = decide(&times, &schedule, now) {
                    fires.extend(decision.fires);
                    (schedule.next_ms, schedule.decided_ms) = (decision.next_ms, decision.decided_ms);
                }
            }
            let expected: Vec<i64> = (1..).map(|n| n * 10 * MINUTE).take_while(|fire| *fire <= now).collect();
            prop_assert_eq!(fires, expected);
        }
    }
}
