//! Compares two runs node by node, without I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use weft_core::component::Route;
use weft_core::journal::{ActivationRef, Ending, NextEdges};
use weft_core::seam::chat_model::Usage;
use weft_core::{ComponentId, Entry, Json, Outputs, Record};

use crate::recording::Where;

/// What two runs have in common and where they differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// How each run ended; absent for a run that has not.
    pub ending: [Option<&'static str>; 2],
    /// The answers, when they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<[Json; 2]>,
    /// How long each run took, in seconds.
    pub elapsed: [f64; 2],
    /// The model usage of each run.
    pub usage: [Usage; 2],
    /// Every activation of either run, in the order of the first run; those that only the second has stand
    /// where they ran in it.
    pub nodes: Vec<NodeComparison>,
}

/// One activation, compared between both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeComparison {
    /// The node and the rounds it ran in.
    #[serde(flatten)]
    pub place: Where,
    /// Which of the activations at this place, counted from 1.
    pub nth: usize,
    /// Its display name.
    pub name: Arc<str>,
    /// How the two activations compare.
    pub verdict: Verdict,
    /// What differs, by name: `inputs`, `outputs`, `error`, `route`, `tools`; each with the value in the
    /// first and in the second run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub changes: BTreeMap<&'static str, [Json; 2]>,
    /// How long it worked in each run, in seconds.
    pub elapsed: [Option<f64>; 2],
}

/// How an activation compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Its inputs and results are the same in both.
    Same,
    /// It is in both and differs.
    Changed,
    /// Only the first run has it.
    OnlyFirst,
    /// Only the second run has it.
    OnlySecond,
}

impl Comparison {
    /// Compares two journals.
    pub fn of(first: &[Entry], second: &[Entry]) -> Self {
        let (one, two) = (Story::of(first), Story::of(second));
        let answer = (one.answer != two.answer).then(|| [one.answer.clone(), two.answer.clone()]);
        Self {
            ending: [one.ending, two.ending].map(|ending| ending.map(Ending::as_str)),
            answer,
            elapsed: [one.elapsed, two.elapsed],
            usage: [one.usage, two.usage],
            nodes: beside(&one.nodes, &two.nodes),
        }
    }

    /// Whether both runs did the same and produced the same results.
    pub fn is_same(&self) -> bool {
        self.ending[0] == self.ending[1]
            && self.answer.is_none()
            && self.nodes.iter().all(|node| node.verdict == Verdict::Same)
    }
}

/// An activation as read from a journal.
struct ComparedActivation {
    place: Where,
    nth: usize,
    name: Arc<str>,
    inputs: Arc<Outputs>,
    outputs: Arc<Outputs>,
    error: Option<Arc<str>>,
    route: NextEdges,
    tools: Vec<Json>,
    elapsed: f64,
}

#[derive(Default)]
struct Story {
    nodes: Vec<ComparedActivation>,
    ending: Option<Ending>,
    answer: Json,
    elapsed: f64,
    usage: Usage,
}

impl Story {
    fn of(entries: &[Entry]) -> Self {
        let mut story = Self::default();
        let mut counts: BTreeMap<Where, usize> = BTreeMap::new();
        // Kept until the end of their activation, because calls are reported while it works.
        let mut tools: BTreeMap<u32, Vec<Json>> = BTreeMap::new();
        for entry in entries {
            match &entry.record {
                Record::ToolFinished { activation, call } => {
                    let started = &call.started;
                    let told = json!({"tool": started.tool, "arguments": started.arguments, "result": call.result, "failed": call.failed});
                    tools.entry(*activation).or_default().push(told);
                }
                // Suspended or interrupted work is recorded when it finally ends.
                Record::NodeFinished { who, route: NextEdges::Suspended, .. } => {
                    drop(tools.remove(&who.activation));
                }
                Record::NodeFinished { who, inputs, outputs, error, elapsed, route, .. } => {
                    let ActivationRef { node, frame, name, activation, .. } = who;
                    let place =
                        Where { node: node.clone(), rounds: frame.iter().map(|step| step.round).collect() };
                    let nth = counts.entry(place.clone()).or_insert(0);
                    *nth += 1;
                    story.nodes.push(ComparedActivation {
                        nth: *nth,
                        place,
                        name: Arc::clone(name),
                        inputs: Arc::clone(inputs),
                        outputs: Arc::clone(outputs),
                        error: error.clone(),
                        route: route.clone(),
                        tools: tools.remove(activation).unwrap_or_default(),
                        elapsed: *elapsed,
                    });
                }
                Record::RunFinished { ending, outputs, usage, elapsed, .. } => {
                    story.ending = Some(*ending);
                    story.answer = json!(outputs);
                    (story.usage, story.elapsed) = (*usage, *elapsed);
                }
                _ => {}
            }
        }
        story
    }
}

/// Merges both lists: activations in both keep the order of the first, and those only in the second follow
/// whatever preceded them there.
fn beside(first: &[ComparedActivation], second: &[ComparedActivation]) -> Vec<NodeComparison> {
    // Matched by place and order: activation numbers shift at the first difference, after which everything
    // would differ.
    let places: BTreeMap<(&Where, usize), usize> =
        second.iter().enumerate().map(|(at, told)| ((&told.place, told.nth), at)).collect();
    let known: BTreeMap<(&Where, usize), ()> =
        first.iter().map(|told| ((&told.place, told.nth), ())).collect();
    let is_new = |told: &&ComparedActivation| !known.contains_key(&(&told.place, told.nth));
    let mut all = Vec::new();
    let mut next = 0;
    for one in first {
        let Some(&at) = places.get(&(&one.place, one.nth)) else {
            all.push(only(one, Verdict::OnlyFirst));
            continue;
        };
        // An activation that ran earlier in the second run than its neighbours here has been passed already;
        // it is still compared with its partner.
        if at >= next {
            let between = second.get(next..at).unwrap_or_default();
            all.extend(between.iter().filter(is_new).map(|told| only(told, Verdict::OnlySecond)));
            next = at + 1;
        }
        if let Some(two) = second.get(at) {
            all.push(both(one, two));
        }
    }
    let rest = second.get(next..).unwrap_or_default();
    all.extend(rest.iter().filter(is_new).map(|told| only(told, Verdict::OnlySecond)));
    all
}

fn only(told: &ComparedActivation, verdict: Verdict) -> NodeComparison {
    let elapsed = match verdict {
        Verdict::OnlySecond => [None, Some(told.elapsed)],
        _ => [Some(told.elapsed), None],
    };
    NodeComparison {
        place: told.place.clone(),
        nth: told.nth,
        name: Arc::clone(&told.name),
        verdict,
        changes: BTreeMap::new(),
        elapsed,
    }
}

fn both(one: &ComparedActivation, two: &ComparedActivation) -> NodeComparison {
    let mut changes = BTreeMap::new();
    let mut compare = |what, first: Json, second: Json| {
        if first != second {
            changes.insert(what, [first, second]);
        }
    };
    compare("inputs", json!(one.inputs), json!(two.inputs));
    compare("outputs", json!(one.outputs), json!(two.outputs));
    compare("error", json!(one.error), json!(two.error));
    compare("route", route(&one.route), route(&two.route));
    compare("tools", json!(one.tools), json!(two.tools));
    let verdict = if changes.is_empty() { Verdict::Same } else { Verdict::Changed };
    NodeComparison {
        place: one.place.clone(),
        nth: one.nth,
        name: Arc::clone(&one.name),
        verdict,
        changes,
        elapsed: [Some(one.elapsed), Some(two.elapsed)],
    }
}

/// Returns the route of a run from a node as JSON: node ids, or a keyword.
pub fn route(onward: &NextEdges) -> Json {
    match onward {
        NextEdges::Routed(Route::Onward) => json!("onward"),
        NextEdges::Routed(Route::To(ids)) => json!(ids.iter().map(ComponentId::as_str).collect::<Vec<_>>()),
        NextEdges::Routed(Route::EndFrame) => json!("end_of_frame"),
        NextEdges::Exception => json!("exception"),
        NextEdges::None => json!("nowhere"),
        NextEdges::Suspended => json!("suspended"),
    }
}
