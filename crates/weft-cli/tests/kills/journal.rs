//! What must hold for the journal of a run that was interrupted and resumed.

use std::collections::HashSet;
use std::sync::Arc;

use weft_core::Entry;
use weft_core::budget::Spent;
use weft_core::journal::{ActivationRef, Ending, NextEdges, Record};
use weft_core::seam::chat_model::Usage;

/// All violations in a journal, in words.
pub(crate) fn wrong(entries: &[Entry]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };
    for (n, entry) in entries.iter().enumerate() {
        must(entry.seq == n as u64 + 1, format!("entry {} is at place {}", entry.seq, n + 1));
    }
    for (n, event) in entries.iter().filter_map(|entry| entry.event).enumerate() {
        must(event == n as u64 + 1, format!("event {event} is at place {}", n + 1));
    }
    let ends = entries.iter().filter(|entry| matches!(entry.record, Record::RunFinished { .. })).count();
    must(ends == 1, format!("{ends} endings"));
    let (mut open, mut given, mut used) = (HashSet::new(), HashSet::new(), Usage::default());
    for entry in entries {
        match &entry.record {
            Record::NodeStarted { who } => {
                must(open.insert(who.activation), format!("{} started twice", who.activation));
            }
            Record::NodeFinished { who, route, .. } => {
                open.remove(&who.activation);
                if *route != NextEdges::Suspended {
                    given.retain(|(place, _): &(String, Arc<str>)| *place != place_of(who));
                }
            }
            Record::EffectStarted { activation, key, .. } => {
                let call = (maker(entries, *activation), Arc::clone(key));
                must(!given.contains(&call), format!("{} made {key} again", call.0));
            }
            Record::EffectFinished { activation, key, .. } => {
                given.insert((maker(entries, *activation), Arc::clone(key)));
            }
            Record::ModelUsed { usage, .. } => used += *usage,
            _ => {}
        }
    }
    let Some(Record::RunFinished { ending, usage, .. }) = entries.last().map(|entry| &entry.record) else {
        must(false, "the last entry is not an end".to_owned());
        return wrong;
    };
    must(open.is_empty() || *ending == Ending::Waiting, format!("{open:?} have no end"));
    must(*usage == used, format!("{usage:?} is told and {used:?} was used"));
    wrong
}

fn place_of(who: &ActivationRef) -> String {
    format!("{} {:?}", who.node, who.frame)
}

fn maker(entries: &[Entry], activation: u32) -> String {
    let who = entries.iter().find_map(|entry| match &entry.record {
        Record::NodeStarted { who } if who.activation == activation => Some(place_of(who)),
        _ => None,
    });
    who.unwrap_or_default()
}

/// The ending, and its outputs as JSON without the parts that differ from run to run.
pub(crate) fn outcome(entries: &[Entry]) -> Option<(Ending, String)> {
    match &entries.last()?.record {
        Record::RunFinished { ending, outputs, .. } => {
            Some((*ending, timeless(&serde_json::to_string(outputs).unwrap())))
        }
        _ => None,
    }
}

/// What the run has used of budgets, according to its last entry.
pub(crate) fn spent(entries: &[Entry]) -> Spent {
    match entries.last().map(|entry| &entry.record) {
        Some(Record::RunFinished { spent, .. }) => *spent,
        _ => Spent::default(),
    }
}

/// A text without the parts that depend on the run and on its time: timestamps such as `2026-11-22T03:08:51`, names
/// of days, and file ids, which are derived from the run id.
fn timeless(text: &str) -> String {
    const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    const ID_DIGITS: usize = 32;
    let mut rest = text;
    let mut kept = String::new();
    while let Some(first) = rest.chars().next() {
        let time: Vec<char> = rest.chars().take(19).collect();
        let is_time = time.len() == 19
            && time.iter().zip("dddd-dd-ddTdd:dd:dd".chars()).all(|(c, like)| match like {
                'd' => c.is_ascii_digit(),
                _ => *c == like,
            });
        let digits = rest.chars().take_while(char::is_ascii_hexdigit).count();
        let day = DAYS.iter().find(|day| rest.starts_with(**day));
        let (length, word) = match day {
            _ if is_time => (19, "a time"),
            _ if digits == ID_DIGITS => (digits, "an id"),
            Some(day) => (day.len(), "a day"),
            None => (first.len_utf8(), &rest[..first.len_utf8()]),
        };
        kept.push_str(word);
        rest = &rest[length..];
    }
    kept
}

/// Whether a call may have been made whose result is unknown.
pub(crate) fn is_interrupted(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| match &entry.record {
        Record::NodeFinished { error: Some(error), .. } => error.contains("may have been carried out"),
        Record::ToolFinished { call, .. } => call.result.to_string().contains("may have been carried out"),
        _ => false,
    })
}

/// Whether anything of the run was stored before its process ended.
pub(crate) fn has_begun(entries: &[Entry]) -> bool {
    matches!(entries.first().map(|entry| &entry.record), Some(Record::RunStarted { .. }))
}
