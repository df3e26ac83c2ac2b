//! Invariants that must hold under any fault.

use std::collections::BTreeMap;

use weft_core::journal::{NextEdges, Record};
use weft_core::seam::chat_model::Usage;

use super::town::{Held, Turn};
use crate::survival::{check, place_of};

/// A conversation with faults against the same one without.
pub(super) fn compare(plain: &Held, rough: &Held) {
    for (n, turn) in plain.turns.iter().enumerate() {
        keeps_its_promises(turn, &format!("without trouble, turn {n}"));
    }
    for (n, turn) in rough.turns.iter().enumerate() {
        keeps_its_promises(turn, &format!("turn {n}"));
    }
    // Every turn is stored once: a run that was not started, or was given up, leaves the session unchanged.
    let kept = rough.turns.iter().filter(|turn| turn.has_begun() && !turn.was_given_up()).count();
    assert_eq!(rough.session.revision, kept as i64, "the session counts its turns");
    let hurt = rough.turns.iter().any(Turn::was_hurt);
    for (who, count) in &rough.calls {
        let before = plain.calls.get(who).copied().unwrap_or(0);
        let once = !is_model(who);
        assert!(!once || *count <= before, "{who} was called {count} times instead of {before}");
    }
    if hurt {
        return;
    }
    for (who, before) in &plain.calls {
        let count = rough.calls.get(who).copied().unwrap_or(0);
        assert!(count >= *before, "{who} was called {count} times instead of {before}");
    }
    let begun: Vec<_> = rough.turns.iter().filter(|turn| turn.has_begun()).collect();
    let endings: Vec<_> = begun.iter().map(|turn| turn.run.ending).collect();
    assert_eq!(endings, plain.turns.iter().map(|turn| turn.run.ending).collect::<Vec<_>>());
    let (ours, theirs) = (used(begun.iter().copied()), used(plain.turns.iter()));
    assert!(ours.calls >= theirs.calls, "usage is counted: {ours:?} {theirs:?}");
    let made: u64 = rough.calls.iter().filter(|(who, _)| is_model(who)).map(|(_, count)| count).sum();
    assert!(rough.tells_the_time || ours.calls <= made, "and counted once: {ours:?} of {made}");
    if !rough.tells_the_time {
        assert_eq!(values(rough), values(plain), "every node has the outputs it has without faults");
        assert_eq!(letters(rough), letters(plain), "every text is shown once");
    } else {
        assert_eq!(nodes(rough), nodes(plain), "the same nodes end");
    }
}

fn keeps_its_promises(turn: &Turn, place: &str) {
    check(&turn.entries, place);
    let Some(Record::RunFinished { ending, usage, .. }) = turn.entries.last().map(|entry| &entry.record)
    else {
        panic!("{place}: the last record is the end")
    };
    assert_eq!(turn.run.ending, Some(*ending), "{place}");
    let mut counted = Usage::default();
    for entry in &turn.entries {
        if let Record::ModelUsed { usage, .. } = &entry.record {
            counted += *usage;
        }
    }
    assert_eq!(*usage, counted, "{place}: usage equals recorded usage");
    let events: Vec<_> = turn.entries.iter().filter(|entry| entry.event.is_some()).cloned().collect();
    for seen in &turn.seen {
        assert_eq!(*seen, events, "{place}: every reader sees every event once");
    }
}

/// An interrupted model may be called again.
fn is_model(who: &str) -> bool {
    who.starts_with("model ")
}

fn used<'a>(turns: impl Iterator<Item = &'a Turn>) -> Usage {
    let mut all = Usage::default();
    for turn in turns {
        if let Some(Record::RunFinished { usage, .. }) = turn.entries.last().map(|entry| &entry.record) {
            all += *usage;
        }
    }
    all
}

/// The last outputs of every node, in each of its rounds.
fn values(held: &Held) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    for entry in held.turns.iter().flat_map(|turn| &turn.entries) {
        if let Record::NodeFinished { who, outputs, route, .. } = &entry.record
            && *route != NextEdges::Suspended
        {
            let rounds: String =
                who.frame.iter().map(|step| format!(" {} {}", step.node, step.round)).collect();
            values.insert(format!("{}{rounds}", who.node), serde_json::to_string(outputs).unwrap());
        }
    }
    values
}

fn nodes(held: &Held) -> Vec<String> {
    let mut nodes = Vec::new();
    for entry in held.turns.iter().flat_map(|turn| &turn.entries) {
        if let Record::NodeFinished { who, route, .. } = &entry.record
            && *route != NextEdges::Suspended
        {
            nodes.push(place_of(who).split(" [").next().unwrap_or_default().to_owned());
        }
    }
    nodes.sort();
    nodes
}

/// Everything that was shown, unordered: parallel messages may interleave differently.
fn letters(held: &Held) -> Vec<char> {
    let mut letters: Vec<char> = held.said.iter().flat_map(|text| text.chars()).collect();
    letters.sort_unstable();
    letters
}
