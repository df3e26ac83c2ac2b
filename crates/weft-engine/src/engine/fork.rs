//! A run that shares the beginning of another one, and goes its own way from a step on.

use std::sync::Arc;

use weft_core::context::Pin;
use weft_core::journal::{Forked, Onward};
use weft_core::seam::run_store::{StoredEntry, StoredRun};
use weft_core::seam::session_store::Session;
use weft_core::{ComponentId, Entry, Error, Outputs, Record, Result, Route, RunId, RunKey, SessionKey};
use weft_dsl::Plan;

use super::{Engine, PickedUp, Prepared, Stores};

/// Messages that a forked session begins with, at most: what canvases can look back on and more.
const MESSAGES_MAX: u64 = 1_000;

/// Where to fork a run.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkPoint {
    /// The node whose end is the last thing that both runs share.
    pub node: ComponentId,
    /// Which of its activations; absent: the last.
    pub activation: Option<u32>,
    /// What it gives in the new run: these outputs replace those of the same names. `to` says where a
    /// node that branches goes on.
    pub edit: Pin,
}

impl Engine {
    /// Begins a run that shares the beginning of another one up to the end of a step, which may have
    /// given something else. It belongs to a session of its own, `session`, that is like the other one's
    /// was when the run began. `plan` is the version of the canvas that the other run ran.
    ///
    /// # Errors
    /// `NotFound` when the node has not ended in that run; `Invalid` for an edit that makes no sense;
    /// `Conflict` when the session is there already, or when the journal does not fit the canvas; as
    /// [`Engine::pick_up`].
    pub async fn fork(
        &self,
        run: &StoredRun,
        plan: Arc<Plan>,
        (session, point): (SessionKey, &ForkPoint),
    ) -> Result<(RunKey, PickedUp)> {
        let stores = self.0.stores.clone().ok_or_else(|| Error::internal("this engine has no store"))?;
        let mut entries = self.whole_journal(&stores, &run.key).await?;
        let at = place(&entries, point).ok_or_else(|| not_there(&run.key, point))?;
        entries.truncate(at + 1);
        if let Some(entry) = entries.last_mut() {
            edit(&mut entry.record, &plan, &point.edit)?;
        }
        let original = stores.sessions.load(&SessionKey::new(&run.key.tenant, run.session.clone())).await?;
        // Whether it can be set up again is known before anything is stored.
        let Prepared { mut state, .. } =
            self.as_begun(&stores, (run, &original, Arc::clone(&plan)), (&entries, None)).await?;
        let now_ms = self.now_ms();
        let key = RunKey::new(&session.tenant, RunId::generate());
        let shared = Forked { run: run.key.id.clone(), seq: entries.last().map_or(0, |entry| entry.seq) };
        // Whatever waits is a task of the other session; here it is a new one.
        state.paused.iter_mut().for_each(|paused| paused.forget_asked());
        let state = state.to_json()?;
        let Some(Record::RunStarted { session: of, revision, forks, state: begun, .. }) =
            entries.first_mut().map(|entry| &mut entry.record)
        else {
            return Err(Error::internal("a journal without a beginning"));
        };
        let messages = stores.sessions.messages(&original.key, *revision, MESSAGES_MAX).await?;
        (*of, *revision, *forks) = (session.id.clone(), 0, Some(shared));
        *begun = Some(Arc::new(state.clone()));
        let forked =
            Session { key: session, state, revision: 0, created_ms: now_ms, updated_ms: now_ms, ..original };
        stores.sessions.create(&forked, &messages).await?;
        let new = StoredRun {
            key: key.clone(),
            session: forked.key.id,
            ending: None,
            started_ms: now_ms,
            finished_ms: None,
            alive_ms: now_ms,
            ..run.clone()
        };
        store(&stores, &new, entries).await?;
        Ok((key, self.pick_up(&new, plan).await?))
    }
}

/// The entry that a fork point means.
fn place(entries: &[Entry], point: &ForkPoint) -> Option<usize> {
    entries.iter().rposition(|entry| match &entry.record {
        // Work that was put off has not ended.
        Record::NodeFinished { who, route, .. } => {
            who.node == point.node
                && *route != Onward::Suspended
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

/// Makes a node have given something else.
fn edit(record: &mut Record, plan: &Plan, edit: &Pin) -> Result<()> {
    let Record::NodeFinished { who, outputs, error, route, .. } = record else { return Ok(()) };
    if edit.outputs.0.is_empty() && edit.to.is_none() {
        return Ok(());
    }
    let mut given: Outputs = (**outputs).clone();
    for (name, value) in &edit.outputs.0 {
        given.set(name, value.clone());
    }
    given.0.shift_remove("_ERROR");
    *outputs = Arc::new(given);
    *error = None;
    let branches =
        plan.nodes.iter().find(|node| node.id == who.node).and_then(|node| node.shape.branches.as_ref());
    let leads_to = |id: &ComponentId| branches.iter().any(|all| all.iter().any(|(_, ids)| ids.contains(id)));
    *route = match (&edit.to, branches, &*route) {
        (Some(to), Some(_), _) if to.iter().all(leads_to) => Onward::By(Route::To(to.clone())),
        (Some(_), Some(_), _) => {
            return Err(Error::invalid(format!("no branch of `{}` leads there", who.node)));
        }
        (Some(_), None, _) => {
            return Err(Error::invalid(format!("`{}` does not branch", who.node)));
        }
        (None, Some(_), Onward::Nowhere | Onward::Exception) => {
            return Err(Error::invalid(format!("`{}` failed: say where the run goes on", who.node)));
        }
        (None, None, Onward::Nowhere | Onward::Exception) => Onward::By(Route::Onward),
        (None, _, route) => route.clone(),
    };
    Ok(())
}

async fn store(stores: &Stores, run: &StoredRun, entries: Vec<Entry>) -> Result<()> {
    stores.runs.create(run).await?;
    let stored: Result<Vec<StoredEntry>> = entries
        .into_iter()
        .map(|Entry { seq, event, at_ms, record }| {
            let record = serde_json::to_string(&record).map_err(|cause| {
                Error::internal(format!("cannot write entry {seq} of run {}", run.key.id)).because(cause)
            })?;
            Ok(StoredEntry { seq, event, at_ms, record: record.into() })
        })
        .collect();
    stores.runs.append(&run.key, stored?).await
}
