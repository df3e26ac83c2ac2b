//! The journal: the one table that is written at every step of every run.
//!
//! Appends of all runs go through one task. While it writes, others queue up; then it takes all
//! that wait and writes them as one statement, so many runs share the cost of one commit. When many runs
//! speak at the same time it waits some milliseconds for more of them ([`crate::pace`]).

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use sea_orm::{DbErr, RuntimeErr, sqlx};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout_at;
use weft_core::budget::Spent;
use weft_core::id::{RunKey, SessionKey};
use weft_core::seam::run_store::{RunLease, StoredEntry, StoredRun, overtaken};
use weft_core::{Error, ErrorKind, Result};

use crate::batch::{Batch, BatchOutcome};
use crate::failure::{failure, is_absent, is_duplicate, is_orphan};
use crate::known_runs::{KeptRow, KnownRuns, LocalRun};
use crate::lane::{JournalRow, Lane};
use crate::pace::Haste;
use crate::pack;
use crate::place::StorePlace;

/// Appends that wait to be written; the next caller waits for a place.
const APPENDS_QUEUED_MAX: usize = 1024;

/// Appends in one statement. Each has a handful of values, of which SQLite takes 32,766 and others no fewer.
const GROUP_ROWS_MAX: usize = 512;

/// Bytes in one statement, unless a single append is larger. MariaDB takes 16 MiB by default.
const GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;

const DOING: &str = "append to the journal";

/// The way to the task that writes.
pub(crate) struct JournalQueue {
    queue: mpsc::Sender<JournalRequest>,
    /// Wakes the task that writes while it gathers: something waits that is not patient, or the queue is full.
    hurry: Arc<Notify>,
    /// Whether batches are executed by the task that writes.
    runs_batches: bool,
    known: KnownRuns,
    task: Mutex<JoinSet<()>>,
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

enum JournalRequest {
    Append(Append),
    Batch(Batch, oneshot::Sender<Result<BatchOutcome, DbErr>>),
    Close,
}

/// One call of `append`: one row.
struct Append {
    row: JournalRow,
    haste: Haste,
    answer: Answer,
}

type Answer = oneshot::Sender<Result<()>>;

impl JournalQueue {
    /// Starts what writes: a thread, where it may wait for a disk, else a task. It ends when this is dropped.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(crate) fn start(lane: Lane, place: StorePlace) -> Result<Self> {
        let (queue, asked) = mpsc::channel(APPENDS_QUEUED_MAX);
        let (known, hurry) = (KnownRuns::new(), Arc::new(Notify::new()));
        let runs_batches = lane.is_own();
        let writer = JournalWriter { lane, place, known: known.clone(), hurry: Arc::clone(&hurry) };
        let (end, ended) = oneshot::channel();
        let run = async move {
            writer.run(asked).await;
            // Who does not wait for the end does not hear of it.
            let _ = end.send(());
        };
        let mut task = JoinSet::new();
        if runs_batches {
            let runtime = Handle::current();
            let thread = std::thread::Builder::new().name("weft-journal".to_owned());
            let started = thread.spawn(move || runtime.block_on(run));
            started.map_err(|cause| {
                Error::new(ErrorKind::Unavailable, "cannot open the store: no thread can be started")
                    .because(cause)
            })?;
        } else {
            task.spawn(run);
        }
        let (task, ended) = (Mutex::new(task), Mutex::new(Some(ended)));
        Ok(Self { queue, hurry, runs_batches, known, task, ended })
    }

    /// Gives something to the task that writes. It is woken only by what cannot wait: while it gathers a wake for
    /// each word would cost more than the word.
    async fn ask(
        &self,
        ask: JournalRequest,
        haste: Haste,
    ) -> Result<(), mpsc::error::SendError<JournalRequest>> {
        if let Err(error) = self.queue.try_send(ask) {
            self.hurry.notify_one();
            self.queue.send(error.into_inner()).await?;
        }
        if haste != Haste::Patient {
            self.hurry.notify_one();
        }
        Ok(())
    }

    /// Appends entries as one row. See [`weft_core::seam::RunStore::append`].
    /// `list` is what stands for entries that are kept in pieces.
    pub(crate) async fn append(
        &self,
        lease: &RunLease,
        haste: Haste,
        entries: &[StoredEntry],
        list: Option<Vec<u8>>,
    ) -> Result<()> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
        let gap = entries.windows(2).any(|two| two[1].seq.checked_sub(two[0].seq) != Some(1));
        if gap || first.seq == 0 || i64::try_from(last.seq).is_err() {
            return Err(Error::invalid(format!(
                "cannot {DOING}: the entries for the run `{}` are not numbered consecutively from 1",
                lease.run.id
            )));
        }
        let (answer, answered) = oneshot::channel();
        // Packed here and not by the task that writes: that one serves all runs, one after the other.
        let body = list.unwrap_or_else(|| pack::pack_fast(entries));
        let row = JournalRow { lease: lease.clone(), first_seq: first.seq, last_seq: last.seq, body };
        let haste = self.known.hear(&lease.run, haste);
        self.ask(JournalRequest::Append(Append { row, haste, answer }), haste).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }

    /// Whether batches are for the task that writes. Else each has a transaction of its own.
    pub(crate) fn runs_batches(&self) -> bool {
        self.runs_batches
    }

    /// Executes a batch.
    pub(crate) async fn run(&self, batch: Batch) -> Result<BatchOutcome, DbErr> {
        let gone = || DbErr::Conn(RuntimeErr::SqlxError(sqlx::Error::PoolClosed.into()));
        let (answer, answered) = oneshot::channel();
        self.ask(JournalRequest::Batch(batch, answer), Haste::AtOnce).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// Notes a run that has no entries yet.
    pub(crate) fn begun(&self, run: &StoredRun) {
        let session = SessionKey::new(&run.key.tenant, run.session.clone());
        let home = LocalRun { session, canvas: run.canvas.clone(), noted: Some(Spent::default()) };
        self.known.set(&run.key, 0, Some(home));
    }

    /// What is known of a run that began here and has not ended.
    pub(crate) fn home(&self, key: &RunKey) -> Option<LocalRun> {
        self.known.home(key)
    }

    /// All rows of a run that began here, in order; nothing when they are not kept.
    pub(crate) fn rows(&self, key: &RunKey) -> Option<Vec<KeptRow>> {
        self.known.rows(key)
    }

    /// Notes what has been noted of what a run has used.
    pub(crate) fn noted(&self, key: &RunKey, spent: Option<Spent>) {
        self.known.noted(key, spent);
    }

    /// Forgets what is known of a run: it has ended, or somebody else has written into it.
    pub(crate) fn ended(&self, key: &RunKey) {
        self.known.forget(key);
    }

    /// Notes that runs were removed.
    pub(crate) fn removed(&self) {
        self.known.forget_all();
    }

    /// Writes what is queued, then stops the task.
    pub(crate) async fn close(&self) {
        // A failure means that it has stopped already.
        let _ = self.ask(JournalRequest::Close, Haste::AtOnce).await;
        let mut task = std::mem::take(&mut *self.task.lock().unwrap_or_else(PoisonError::into_inner));
        while task.join_next().await.is_some() {}
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ended) = ended {
            let _ = ended.await;
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Unavailable, format!("cannot {DOING}: the store is closed"))
}

fn missing(key: &RunKey) -> Error {
    Error::not_found(format!("cannot {DOING}: there is no run `{}`", key.id))
}

struct JournalWriter {
    lane: Lane,
    place: StorePlace,
    known: KnownRuns,
    hurry: Arc<Notify>,
}

impl JournalWriter {
    async fn run(mut self, mut asked: mpsc::Receiver<JournalRequest>) {
        let mut waiting = VecDeque::new();
        loop {
            // What was left of the last group has waited already.
            let mut haste = if waiting.is_empty() { Haste::Patient } else { Haste::AtOnce };
            if waiting.is_empty() {
                match asked.recv().await {
                    Some(ask) => haste = self.take(ask, &mut waiting, &mut asked).await,
                    None => return self.lane.close(),
                }
            }
            while waiting.len() < APPENDS_QUEUED_MAX {
                let more = match asked.try_recv() {
                    Ok(ask) => ask,
                    Err(_) if haste == Haste::AtOnce || waiting.len() >= GROUP_ROWS_MAX => break,
                    Err(_) => {
                        let until = self.known.gather_until(haste);
                        let Some(until) = until else { break };
                        // Then there is more to take, or the time is over.
                        let _ = timeout_at(until, self.hurry.notified()).await;
                        continue;
                    }
                };
                // The most urgent one decides for all: they are written by the same statement.
                haste = haste.min(self.take(more, &mut waiting, &mut asked).await);
            }
            let group = next_group(&mut waiting);
            if group.is_empty() {
                continue;
            }
            self.write(group).await;
        }
    }

    /// Takes what is asked to where it waits; how long it may do so. A batch does not wait, and nobody for it.
    async fn take(
        &mut self,
        ask: JournalRequest,
        waiting: &mut VecDeque<Append>,
        asked: &mut mpsc::Receiver<JournalRequest>,
    ) -> Haste {
        match ask {
            JournalRequest::Append(append) => {
                let haste = append.haste;
                waiting.push_back(append);
                haste
            }
            JournalRequest::Batch(batch, answer) => {
                // A caller that went away has no use for the answer.
                let _ = answer.send(self.lane.run(batch).await);
                Haste::Patient
            }
            JournalRequest::Close => {
                asked.close();
                Haste::AtOnce
            }
        }
    }

    /// Writes a group in which no run appears twice, and answers every caller.
    async fn write(&mut self, group: Vec<Append>) {
        let traffic = self.known.write();
        let (mut rows, mut answers) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
        for Append { row, answer, .. } in group {
            match self.check_follows(&row).await {
                Ok(()) => {
                    rows.push(row);
                    answers.push(answer);
                }
                Err(error) => reply(answer, Err(error)),
            }
        }
        if rows.is_empty() {
            return;
        }
        match self.lane.insert(&rows, traffic).await {
            Err(error)
                if rows.len() > 1 && (is_absent(&error) || is_duplicate(&error) || is_orphan(&error)) =>
            {
                // Another process is in the way of one of them; the others must not suffer.
                for (row, answer) in rows.into_iter().zip(answers) {
                    let outcome = self.lane.insert(std::slice::from_ref(&row), traffic).await;
                    self.settle(row, answer, outcome).await;
                }
            }
            outcome => {
                for (row, answer) in rows.into_iter().zip(answers) {
                    self.settle(row, answer, outcome.clone()).await;
                }
            }
        }
    }

    async fn settle(&mut self, row: JournalRow, answer: Answer, outcome: Result<(), DbErr>) {
        match outcome {
            Ok(()) => {
                self.known.appended(row);
                reply(answer, Ok(()));
            }
            Err(error) => {
                // A server may have written before its connection broke: ask it the next time.
                self.known.forget(&row.lease.run);
                let error = self.failed(&row.lease, error).await;
                reply(answer, Err(error));
            }
        }
    }

    async fn failed(&mut self, lease: &RunLease, error: DbErr) -> Error {
        let key = &lease.run;
        if is_absent(&error) {
            return match self.lane.fence(key).await {
                Ok(None) => missing(key).because(error),
                // Fencing numbers only grow: whatever it is by now, it is not the writer's.
                Ok(Some(_)) => overtaken(lease, DOING).because(error),
                Err(error) => failure(&self.place, DOING, error),
            };
        }
        if is_duplicate(&error) {
            return Error::new(
                ErrorKind::Conflict,
                format!("cannot {DOING}: another writer has taken over the run `{}`", key.id),
            )
            .help("read the run again: it belongs to the other writer now");
        }
        if is_orphan(&error) {
            return missing(key);
        }
        failure(&self.place, DOING, error)
    }

    async fn check_follows(&mut self, row: &JournalRow) -> Result<()> {
        let key = &row.lease.run;
        if self.known.last_seq(key).is_some_and(|last| row.first_seq == last + 1) {
            return Ok(());
        }
        // Unknown, or known from a time before another process wrote.
        let last = self
            .lane
            .last_seq(key)
            .await
            .map_err(|error| failure(&self.place, DOING, error))?
            .ok_or_else(|| missing(key))?;
        self.known.set(key, last, None);
        if row.first_seq == last + 1 {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "cannot {DOING}: the journal of the run `{}` ends at {last}, entry {} does not follow",
                key.id, row.first_seq
            ),
        ))
    }
}

fn reply(answer: Answer, outcome: Result<()>) {
    // A caller that went away has no use for the answer.
    let _ = answer.send(outcome);
}

/// Takes what can be written by one statement: of each run the first append only, because whether
/// the second follows is known when the first is stored.
fn next_group(waiting: &mut VecDeque<Append>) -> Vec<Append> {
    let mut group: Vec<Append> = Vec::new();
    let mut bytes = 0;
    let mut runs = HashSet::new();
    let mut left = VecDeque::new();
    while let Some(append) = waiting.pop_front() {
        let full = group.len() >= GROUP_ROWS_MAX
            || (!group.is_empty() && bytes + append.row.body.len() > GROUP_BYTES_MAX);
        if full || runs.contains(&append.row.lease.run) {
            // What is left of a run stays in order, so nothing of it may overtake.
            runs.insert(append.row.lease.run.clone());
            left.push_back(append);
            continue;
        }
        runs.insert(append.row.lease.run.clone());
        bytes += append.row.body.len();
        group.push(append);
    }
    *waiting = left;
    group
}

#[cfg(test)]
mod tests {
    use weft_core::TenantId;

    use super::*;

    fn append(run: &str, first_seq: u64, bytes: usize) -> Append {
        let lease = RunLease { run: RunKey::new(&TenantId::from("t"), run), fence: 1 };
        let row = JournalRow { lease, first_seq, last_seq: first_seq, body: vec![0; bytes] };
        Append { row, haste: Haste::Patient, answer: oneshot::channel().0 }
    }

    fn check(waiting: Vec<Append>, groups: &[&[(&str, u64)]]) {
        let mut waiting = VecDeque::from(waiting);
        for group in groups {
            let taken = next_group(&mut waiting);
            let taken: Vec<_> =
                taken.iter().map(|a| (a.row.lease.run.id.as_str(), a.row.first_seq)).collect();
            assert_eq!(taken, *group);
        }
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_group_holds_one_append_of_each_run() {
        let waiting = vec![append("a", 1, 9), append("b", 1, 9), append("a", 2, 9), append("a", 3, 9)];
        check(waiting, &[&[("a", 1), ("b", 1)], &[("a", 2)], &[("a", 3)]]);
    }

    #[test]
    fn a_group_is_limited_in_size_and_keeps_the_order_of_a_run() {
        let large = GROUP_BYTES_MAX;
        let waiting =
            vec![append("a", 1, large), append("b", 1, large), append("b", 2, 0), append("c", 1, 0)];
        check(waiting, &[&[("a", 1), ("c", 1)], &[("b", 1)], &[("b", 2)]]);
    }
}
