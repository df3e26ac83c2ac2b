//! Extracts from a run's journal what it got from outside, so that the same work can be repeated from that
//! alone. Performs no I/O.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_core::effect::{EffectResult, Effects, Known, Recorded, RecordedCall};
use weft_core::journal::{ActivationRef, NextEdges};
use weft_core::{ComponentId, Entry, Record};

/// Known calls of one activation, by their positions in its work.
pub type KnownCalls = HashMap<Arc<str>, Known>;

/// What the activations of a run got from outside, by their numbers. Work that began again after an
/// interruption also has what it had got before.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    activations: BTreeMap<u32, Activation>,
}

#[derive(Clone, Debug)]
struct Activation {
    place: Where,
    calls: KnownCalls,
    /// It was interrupted, and a later activation does its work.
    again: bool,
}

/// A node in its rounds, named in a way that also holds in another version of the canvas.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Where {
    /// The node.
    pub node: ComponentId,
    /// The numbers of the rounds around it, outermost first, 0-based.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<usize>,
}

impl From<&ActivationRef> for Where {
    fn from(who: &ActivationRef) -> Self {
        Self { node: who.node.clone(), rounds: who.frame.iter().map(|step| step.round).collect() }
    }
}

/// What an activation got from outside, as stored in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedAnswers {
    /// The activation's node and rounds.
    #[serde(flatten)]
    pub place: Where,
    /// The results, by the positions of the calls in its work.
    pub gave: BTreeMap<Arc<str>, EffectResult>,
    /// The fingerprints of the questions, where known, by the same positions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asked: BTreeMap<Arc<str>, Arc<str>>,
}

/// Answers from which a run is repeated although it need not be the run that got them: its canvas may have
/// changed since. Activations are told apart by node, round and order. An answer is looked up by its position
/// first, and by its question when the answer at that position belongs to another question.
#[derive(Debug)]
pub struct ReplayScript {
    at: HashMap<Where, Vec<RecordedAnswers>>,
    shared: Arc<Recorded>,
}

impl ReplayScript {
    /// Builds a script from recorded answers, in the order of the activations.
    pub fn of(answers: &[RecordedAnswers]) -> Self {
        let mut at: HashMap<Where, Vec<RecordedAnswers>> = HashMap::new();
        let mut by_question = HashMap::new();
        for of in answers {
            for (key, question) in &of.asked {
                if let Some(gave) = of.gave.get(key) {
                    // Keeps the first answer: when the same question was asked again, the model may have known more.
                    by_question.entry(Arc::clone(question)).or_insert_with(|| gave.clone());
                }
            }
            at.entry(of.place.clone()).or_default().push(of.clone());
        }
        Self { at, shared: Arc::new(Recorded::by_question(by_question)) }
    }

    /// Returns the effects of an activation, given its place and the number of activations there before it.
    pub fn effects(&self, place: &Where, nth: usize) -> Effects {
        let of = self.at.get(place).and_then(|all| all.get(nth));
        let known = of.iter().flat_map(|of| &of.gave);
        let known = known.map(|(key, gave)| (Arc::clone(key), Known::Ended(gave.clone()))).collect();
        let questions = of.iter().flat_map(|of| &of.asked);
        let questions = questions.map(|(key, asked)| (Arc::clone(key), Arc::clone(asked))).collect();
        Effects::recorded(known, questions, Arc::clone(&self.shared))
    }

    /// Returns the calls so far, with how each was answered.
    pub fn calls(&self) -> Vec<RecordedCall> {
        self.shared.calls()
    }
}

/// Adds the fingerprints of the questions to the answers that a run was repeated from.
pub fn note_questions(answers: &mut [RecordedAnswers], entries: &[Entry], calls: &[RecordedCall]) {
    let mut counts: HashMap<Where, usize> = HashMap::new();
    for entry in entries {
        let Record::NodeStarted { who } = &entry.record else { continue };
        let place = Where::from(who);
        let nth = counts.entry(place.clone()).or_insert(0);
        let of = answers.iter_mut().filter(|of| of.place == place).nth(*nth);
        *nth += 1;
        let Some(of) = of else { continue };
        for call in calls.iter().filter(|call| call.activation == who.activation) {
            if let Some(question) = &call.question {
                of.asked.insert(Arc::clone(&call.key), Arc::clone(question));
            }
        }
    }
}

impl Recording {
    /// Extracts a recording from a journal.
    pub fn of(entries: &[Entry]) -> Self {
        let mut activations: BTreeMap<u32, Activation> = BTreeMap::new();
        let mut carried: HashMap<Where, KnownCalls> = HashMap::new();
        for entry in entries {
            match &entry.record {
                Record::NodeStarted { who } => {
                    let place = Where::from(who);
                    let calls = carried.remove(&place).unwrap_or_default();
                    activations.insert(who.activation, Activation { place, calls, again: false });
                }
                Record::EffectStarted { activation, key, .. } => {
                    if let Some(of) = activations.get_mut(activation) {
                        of.calls.insert(Arc::clone(key), Known::Begun);
                    }
                }
                Record::EffectFinished { activation, key, gave } => {
                    if let Some(of) = activations.get_mut(activation) {
                        of.calls.insert(Arc::clone(key), Known::Ended(gave.clone()));
                    }
                }
                Record::NodeFinished { who, route: NextEdges::Suspended, suspension: None, .. } => {
                    if let Some(of) = activations.get_mut(&who.activation) {
                        of.again = true;
                        // The activation that does this work again begins with what it has got so far.
                        carried.insert(of.place.clone(), of.calls.clone());
                    }
                }
                _ => {}
            }
        }
        Self { activations }
    }

    /// Returns what an activation got from outside.
    pub fn of_activation(&self, activation: u32) -> KnownCalls {
        self.activations.get(&activation).map(|of| of.calls.clone()).unwrap_or_default()
    }

    /// Returns the results for storage in a file, in the order of the activations. Activations without
    /// results are included, because those of one place are told apart by their order.
    pub fn answers(&self) -> Vec<RecordedAnswers> {
        let whole = self.activations.values().filter(|of| !of.again);
        let gave = |known: &Known| match known {
            Known::Ended(gave) => Some(gave.clone()),
            // A call that never returned has no answer.
            Known::Begun => None,
        };
        whole
            .map(|of| RecordedAnswers {
                place: of.place.clone(),
                gave: of
                    .calls
                    .iter()
                    .filter_map(|(key, known)| Some((Arc::clone(key), gave(known)?)))
                    .collect(),
                asked: BTreeMap::new(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entries(records: Vec<Record>) -> Vec<Entry> {
        let entry = |(record, seq)| Entry { seq, event: None, at_ms: 0, record };
        records.into_iter().zip(1..).map(entry).collect()
    }

    fn who(activation: u32, node: &str) -> ActivationRef {
        ActivationRef {
            activation,
            node: node.into(),
            name: node.into(),
            kind: "LLM".into(),
            frame: [].into(),
        }
    }

    fn gave(activation: u32, key: &str, value: i64) -> Record {
        Record::EffectFinished {
            activation,
            key: key.into(),
            gave: EffectResult::Value(Arc::new(json!(value))),
        }
    }

    fn began(activation: u32, key: &str) -> Record {
        Record::EffectStarted { activation, key: key.into(), effect: "model".into() }
    }

    fn cut(who: ActivationRef) -> Record {
        Record::NodeFinished {
            who,
            inputs: Arc::default(),
            outputs: Arc::default(),
            error: None,
            elapsed: 0.0,
            route: NextEdges::Suspended,
            assigned: Vec::new(),
            suspension: None,
            spent: weft_core::budget::Spent::default(),
        }
    }

    #[test]
    fn repeated_work_gets_its_recorded_effects() {
        let recording = Recording::of(&entries(vec![
            Record::NodeStarted { who: who(1, "A") },
            began(1, "model#0"),
            gave(1, "model#0", 1),
            began(1, "model#1"),
            cut(who(1, "A")),
            Record::PickedUp { by: Arc::default(), handed_over: false },
            Record::NodeStarted { who: who(2, "A") },
            gave(2, "model#1", 2),
            Record::NodeStarted { who: who(3, "A") },
        ]));
        assert_eq!(recording.of_activation(1)["model#1"], Known::Begun);
        assert_eq!(recording.of_activation(2).len(), 2);
        assert!(recording.of_activation(9).is_empty());
        let answers = recording.answers();
        let keys: Vec<Vec<&str>> =
            answers.iter().map(|a| a.gave.keys().map(|key| &**key).collect()).collect();
        assert_eq!(keys, [vec!["model#0", "model#1"], vec![]]);
        let text = serde_json::to_string(&answers).unwrap();
        assert_eq!(serde_json::from_str::<Vec<RecordedAnswers>>(&text).unwrap(), answers);
    }
}
