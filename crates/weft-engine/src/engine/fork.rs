//! Forks a run: the new run shares the beginning of another one, and diverges from a given step on.

use std::collections::HashSet;
use std::sync::Arc;

use weft_core::context::Pin;
use weft_core::journal::{Forked, NextEdges};
use weft_core::masking::Masks;
use weft_core::seam::run_store::{RunLease, StoredEntry, StoredRun};
use weft_core::seam::session_store::Session;
use weft_core::value::{listed, to_text};
use weft_core::{
    ComponentId, Entry, Error, Outputs, Record, Reference, Result, Route, RunId, RunKey, SessionKey,
};
use weft_dsl::Plan;

use super::rebuild::BegunRun;
use super::{Engine, PickedUp, Prepared, Stores};
use crate::journal::written;
use crate::secrets;

/// Maximum number of messages that a forked session begins with: what canvases can look back on and more.
const MESSAGES_MAX: u64 = 1_000;

/// Where to fork a run.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkPoint {
    /// The node whose end is the last thing that both runs share.
    pub node: ComponentId,
    /// Which of its activations; if absent, the last.
    pub activation: Option<u32>,
    /// What it produces in the new run: these outputs replace those of the same names. `to` says where a
    /// branching node continues.
    pub edit: Pin,
}

impl Engine {
    /// Starts a run that shares the beginning of another one up to the end of a step, whose result may be
    /// edited. The new run belongs to its own session, `session`, which starts as the other one was when its
    /// run began. `plan` is the canvas version that the other run ran.
    ///
    /// # Errors
    /// `NotFound` when the node has not ended in that run; `Invalid` for an invalid edit; `Conflict` when the
    /// session already exists, or when the journal does not fit the canvas; otherwise as [`Engine::pick_up`].
    pub async fn fork(
        &self,
        run: &StoredRun,
        plan: Arc<Plan>,
        session: SessionKey,
        point: &ForkPoint,
    ) -> Result<(RunKey, PickedUp)> {
        let stores = self.stores()?;
        let secrets = self.secrets_of(&plan, &run.key.tenant).await?;
        let mut entries = self.whole_journal(&stores, &run.key, &secrets).await?;
        let at = place(&entries, point).ok_or_else(|| not_there(&run.key, point))?;
        // The end of the node belongs to both runs too, edited or not.
        let later = entries.split_off(at + 1);
        let edited = match entries.last_mut() {
            Some(entry) => edit(&mut entry.record, &plan, &point.edit)?,
            None => false,
        };
        if edited {
            say_anew(&mut entries, &plan);
        }
        let shared_to = take_over_calls(&mut entries, &later);
        let original = stores.sessions.load(&SessionKey::new(&run.key.tenant, run.session.clone())).await?;
        let begun = BegunRun { run, session: &original, plan: Arc::clone(&plan), entries: &entries };
        // Verified before anything is stored: can the run be set up again?
        let Prepared { mut state, context, machine, .. } =
            self.as_begun(&stores, begun, None, secrets).await?;
        let now_ms = self.now_ms();
        let key = RunKey::new(&session.tenant, RunId::generate());
        let edited_before = match entries.first().map(|entry| &entry.record) {
            Some(Record::RunStarted { forks: Some(before), .. }) => {
                before.given().filter(|seq| *seq < shared_to).collect()
            }
            _ => Vec::new(),
        };
        let shared = Forked { run: run.key.id.clone(), seq: shared_to, edited, edited_before };
        // The waiting nodes are tasks of the other session; here they become new tasks. Those whose time was up
        // when the run began have to time out again when the new run is set up.
        let over = machine.timed_out_tasks();
        drop(machine);
        state.paused.iter_mut().for_each(|paused| paused.forget_asked(&over));
        let state = state.to_json()?;
        let Some(Record::RunStarted { session: of, revision, forks, state: begun, settings, .. }) =
            entries.first_mut().map(|entry| &mut entry.record)
        else {
            return Err(Error::internal("a journal without a beginning"));
        };
        let messages = stores.sessions.messages(&original.key, *revision, MESSAGES_MAX).await?;
        (*of, *revision, *forks) = (session.id.clone(), 0, Some(shared));
        *begun = Some(Arc::new(state.clone()));
        // What runs from here on uses those of now.
        *settings = Some(Arc::new(self.settings_of(&plan, &key.tenant)));
        let mut state = state;
        secrets::seal(&mut state, &plan, &context.masks);
        let forked =
            Session { key: session, state, revision: 0, created_ms: now_ms, updated_ms: now_ms, ..original };
        // The session is stored before its run: a run without a session could not be picked up, while an
        // empty session is harmless.
        stores.sessions.create(&forked, &messages).await?;
        let new = StoredRun {
            query: run.query.clone(),
            // From the start: a run without an owner could be picked up elsewhere before its entries are stored.
            owner: Some(self.0.ownership.process.id.clone()),
            ..StoredRun::begun(key.clone(), forked.key.id, run.canvas.clone(), now_ms)
        };
        self.say_at_work(&stores).await?;
        store(&stores, &new, entries, &context.masks).await?;
        Ok((key, self.pick_up(&new, plan).await?))
    }
}

/// Returns the position of the entry that a fork point refers to.
fn place(entries: &[Entry], point: &ForkPoint) -> Option<usize> {
    entries.iter().rposition(|entry| match &entry.record {
        // Suspended work has not ended.
        Record::NodeFinished { who, route, .. } => {
            who.node == point.node
                && *route != NextEdges::Suspended
                && point.activation.is_none_or(|activation| activation == who.activation)
        }
        _ => false,
    })
}

fn not_there(key: &RunKey, point: &ForkPoint) -> Error {
    let which = point.activation.map(|activation| format!(" as activation {activation}")).unwrap_or_default();
    Error::not_found(format!("`{}` did not end{which} in run {}", point.node, key.id))
        .help("`weft runs show` prints which nodes ended, and the numbers of their activations")
}

/// Takes over calls of work that ran beside the edited node and begins again. A call that it had started, and
/// that returned later in the other run, has been made: its result is taken over instead of making the call
/// again. A call that has not returned belongs to the other run, which may still be waiting for it; this run
/// makes its own. Returns the number of the last entry that both runs share.
fn take_over_calls(entries: &mut Vec<Entry>, later: &[Entry]) -> u64 {
    let mut begun: HashSet<(u32, Arc<str>)> = HashSet::new();
    for entry in entries.iter() {
        match &entry.record {
            Record::EffectStarted { activation, key, .. } => {
                begun.insert((*activation, Arc::clone(key)));
            }
            Record::EffectFinished { activation, key, .. } => {
                begun.remove(&(*activation, Arc::clone(key)));
            }
            // A node that has ended has nothing under way, whatever the outcome of its last call.
            Record::NodeFinished { who, .. } => begun.retain(|(activation, _)| *activation != who.activation),
            _ => {}
        }
    }
    let came = later.iter().filter(|entry| match &entry.record {
        Record::EffectFinished { activation, key, .. } => begun.remove(&(*activation, Arc::clone(key))),
        _ => false,
    });
    // Without an event number: the run that made the call reports it.
    let came: Vec<Entry> = came.map(|entry| Entry { event: None, ..entry.clone() }).collect();
    entries.retain(|entry| match &entry.record {
        Record::EffectStarted { activation, key, .. } => !begun.contains(&(*activation, Arc::clone(key))),
        _ => true,
    });
    let shared_to = entries.len() as u64;
    entries.extend(came);
    for (entry, seq) in entries.iter_mut().zip(1..) {
        entry.seq = seq;
    }
    shared_to
}

/// Replaces the message of a node that had said its result with its new result: the last entry is its end,
/// and what it said before is reset.
fn say_anew(entries: &mut Vec<Entry>, plan: &Plan) {
    let Some(Entry { seq, at_ms, record: Record::NodeFinished { who, outputs, .. }, .. }) = entries.last()
    else {
        return;
    };
    let (seq, at_ms, activation, node) = (*seq, *at_ms, who.activation, who.node.clone());
    let Some(shape) = plan.nodes.iter().find(|other| other.id == node).map(|node| &node.shape) else {
        return;
    };
    let main = if shape.main_output.is_empty() { "content" } else { shape.main_output };
    let Some(text) = outputs.get(main).map(|value| to_text(&value.snapshot())) else { return };
    let ended = entries.iter().rev().find_map(|entry| match &entry.record {
        Record::MessageEnded { activation: of, end, .. } if *of == activation => Some(end.clone()),
        _ => None,
    });
    // A node that says nothing of its own has no message to correct.
    let Some(end) = ended.filter(|_| said(entries, activation) != text) else { return };
    let Some(finished) = entries.pop() else { return };
    let mut event = entries.iter().filter_map(|entry| entry.event).max().unwrap_or(0);
    let new = [
        Record::MessageReset { activation: Some(activation), node: node.clone() },
        Record::Said { activation, node: node.clone(), text: text.into() },
        Record::MessageEnded { activation, node, end },
        finished.record,
    ];
    for (record, seq) in new.into_iter().zip(seq..) {
        event += 1;
        entries.push(Entry { seq, event: Some(event), at_ms, record });
    }
}

/// Returns what an activation has said, without its reasoning.
fn said(entries: &[Entry], activation: u32) -> String {
    let (mut text, mut thinking) = (String::new(), false);
    for entry in entries {
        match &entry.record {
            Record::Said { activation: of, text: piece, .. } if *of == activation && !thinking => {
                text.push_str(piece);
            }
            Record::ThinkingStarted { activation: of, .. } if *of == activation => thinking = true,
            Record::ThinkingEnded { activation: of, .. } if *of == activation => thinking = false,
            Record::MessageReset { activation: Some(of), .. } if *of == activation => text.clear(),
            _ => {}
        }
    }
    text
}

/// Changes what a node produced. Returns whether there was anything to change.
fn edit(record: &mut Record, plan: &Plan, edit: &Pin) -> Result<bool> {
    let Record::NodeFinished { who, outputs, error, route, .. } = record else { return Ok(false) };
    if edit.outputs.0.is_empty() && edit.to.is_none() {
        return Ok(false);
    }
    let node = plan.nodes.iter().find(|node| node.id == who.node);
    let mut given: Outputs = (**outputs).clone();
    for (name, value) in &edit.outputs.0 {
        // An output that it did produce is its own, whatever its shape declares.
        if given.0.get(&**name).is_none() && !gives(plan, &who.node, name) {
            let known = listed(given.0.iter().map(|(name, _)| name));
            let error = Error::invalid(format!("`{}` has no output `{name}`", who.node));
            return Err(error.help(format!("it gave {known}")));
        }
        given.set(name, value.clone());
    }
    // A node that now has a result has not failed.
    given.0.remove("_ERROR");
    *outputs = Arc::new(given);
    *error = None;
    let branches = node.and_then(|node| node.shape.branches.as_ref());
    let leads_to = |id: &ComponentId| branches.iter().any(|all| all.iter().any(|(_, ids)| ids.contains(id)));
    *route = match (&edit.to, branches, &*route) {
        (Some(to), Some(_), _) if to.iter().all(leads_to) => NextEdges::Routed(Route::To(to.clone())),
        (Some(_), Some(_), _) => {
            return Err(Error::invalid(format!("no branch of `{}` leads there", who.node)));
        }
        (Some(_), None, _) => {
            let error = Error::invalid(format!("`{}` does not branch", who.node));
            return Err(error
                .help("only a node with branches, such as Switch, can continue elsewhere: leave `to` out"));
        }
        (None, Some(_), NextEdges::None | NextEdges::Exception) => {
            return Err(Error::invalid(format!("`{}` failed: say where the run continues", who.node)));
        }
        (None, None, NextEdges::None | NextEdges::Exception) => NextEdges::Routed(Route::Onward),
        (None, _, route) => route.clone(),
    };
    Ok(true)
}

/// Whether a node may have an output of this name: its parameters declare it, or another node reads it.
fn gives(plan: &Plan, id: &ComponentId, name: &str) -> bool {
    let declared = plan.nodes.iter().find(|node| node.id == *id).is_none_or(|node| {
        let outputs = &node.shape.outputs;
        name == node.shape.main_output
            || outputs.open
            || outputs.named.iter().any(|output| output.name == name)
    });
    let all = plan.nodes.iter();
    let mut read = all.flat_map(|node| node.reads.iter().chain(node.alternative_reads.iter().flatten()));
    declared
        || read.any(|read| match &read.reference {
            Reference::Output { component, path } => {
                *component == *id && path.split('.').next() == Some(name)
            }
            Reference::Global(_) => false,
        })
}

async fn store(stores: &Stores, run: &StoredRun, entries: Vec<Entry>, masks: &Masks) -> Result<()> {
    stores.runs.create(run).await?;
    let stored: Result<Vec<StoredEntry>> = entries
        .into_iter()
        .map(|Entry { seq, event, at_ms, record }| {
            let record = written(&record, masks).map_err(|cause| {
                Error::internal(format!("cannot write entry {seq} of run {}", run.key.id)).because(cause)
            })?;
            Ok(StoredEntry { seq, event, at_ms, record: record.into() })
        })
        .collect();
    // All in one append. If the process ends before it, there is a run without entries, which is closed as
    // one that never began; half a copy, which would resume from the wrong place, cannot occur.
    stores.runs.append(&RunLease::of(run), stored?).await
}
