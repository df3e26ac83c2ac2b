//! A store that injects faults at seeded rates: calls fail before or after they took effect, never get an answer, or
//! take effect after the caller has given up. The calling process can also be suspended for a while.

mod run_message;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use weft_core::budget::Spent;
use weft_core::id::{CanvasId, TenantId};
use weft_core::seam::process_store::{ProcessPlace, StoredProcess};
use weft_core::seam::run_store::{
    FinishedRun, GiveWayWord, Retention, RunFilter, RunLease, RunRequest, StoredEntry, StoredRun,
};
use weft_core::seam::session_store::{
    Feedback, MessagePosition, Session, SessionCommit, SessionFilter, SessionMessage,
};
use weft_core::seam::spending_store::{DaySpent, SpendingStore};
use weft_core::seam::{ProcessStore, RunStore, SessionStore};
use weft_core::{Error, ErrorKind, ProcessId, Result, RunId, RunKey, SessionKey, async_trait};

use crate::dice::Dice;
use crate::memory_store::MemoryStore;

/// Maximum delay of a late call, in milliseconds.
const LATE_MAX_MS: u64 = 60_000;

/// Maximum duration of a call that is only slow, in milliseconds.
const SLOW_MAX_MS: u64 = 3_000;

/// How many of a thousand calls have each kind of fault. Calls that change nothing only fail, are slow or get no
/// answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// Fail without effect.
    pub fail: u16,
    /// Take effect, and fail.
    pub done_but_failed: u16,
    /// Have no effect, and get no answer.
    pub hang: u16,
    /// Take effect, and get no answer.
    pub done_but_hang: u16,
    /// Get no answer, and take effect much later, when the caller no longer waits.
    pub late: u16,
    /// Take a few seconds.
    pub slow: u16,
}

impl FaultRates {
    /// Every kind of fault at the same rate.
    pub fn all(per_mille: u16) -> Self {
        let rate = per_mille;
        Self { fail: rate, done_but_failed: rate, hang: rate, done_but_hang: rate, late: rate, slow: rate }
    }
}

enum InjectedFault {
    None,
    Fail,
    DoneButFailed,
    Hang,
    DoneButHang,
    Late(Duration),
    Slow(Duration),
}

enum CallEffect {
    Something,
    Nothing,
}

/// The connection of one process to a store, with injected faults.
pub struct FaultyStore {
    store: Arc<MemoryStore>,
    rates: FaultRates,
    dice: Mutex<Dice>,
    /// Calls that take effect late.
    late: Mutex<JoinSet<()>>,
    calm: AtomicBool,
    /// Number of calls until the connection is cut permanently; `u64::MAX` for never.
    left: AtomicU64,
    faults: AtomicU64,
    /// The process is suspended: it makes no progress.
    asleep: AtomicBool,
    /// Signals that the process resumes. Waiters resume in the order in which they arrived, so that a history is
    /// reproducible.
    woken: Notify,
}

impl FaultyStore {
    /// Creates a connection to `store` with faults at these rates.
    pub fn new(store: Arc<MemoryStore>, rates: FaultRates, dice: Dice) -> Self {
        Self {
            store,
            rates,
            dice: Mutex::new(dice),
            late: Mutex::default(),
            calm: AtomicBool::new(false),
            left: AtomicU64::new(u64::MAX),
            faults: AtomicU64::new(0),
            asleep: AtomicBool::new(false),
            woken: Notify::new(),
        }
    }

    /// Suspends the process: no call is made and no answer arrives until it wakes up.
    pub fn fall_asleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// Resumes the process: pending calls are made, and answers that arrived in the meantime are received.
    pub fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
        self.woken.notify_waiters();
    }

    /// Whether the process is suspended.
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }

    /// Returns once the process is not suspended.
    pub async fn awake(&self) {
        while self.is_asleep() {
            let woken = self.woken.notified();
            // Checked again, since any wake-up from here on is noticed.
            if self.is_asleep() {
                woken.await;
            }
        }
    }

    /// Stops injecting faults, except for late calls that are already under way.
    pub fn calm_down(&self) {
        self.calm.store(true, Ordering::SeqCst);
    }

    /// After `calls` more calls nothing is done and no answer arrives, as if the process had ended.
    pub fn cut_after(&self, calls: u64) {
        self.left.store(calls, Ordering::SeqCst);
    }

    /// Whether the connection is cut.
    pub fn is_cut(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }

    /// Number of faults injected so far.
    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::SeqCst)
    }

    fn dice(&self) -> MutexGuard<'_, Dice> {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn throw(&self, changes: &CallEffect) -> InjectedFault {
        if self.calm.load(Ordering::SeqCst) {
            return InjectedFault::None;
        }
        let FaultRates { fail, done_but_failed, hang, done_but_hang, late, slow } = self.rates;
        let mut dice = self.dice();
        let mut thrown = dice.below(1_000);
        let mut hits = |rate: u16| {
            let hit = thrown < u64::from(rate);
            thrown = thrown.wrapping_sub(u64::from(rate));
            hit
        };
        if hits(fail) {
            return InjectedFault::Fail;
        }
        if hits(hang) {
            return InjectedFault::Hang;
        }
        if hits(slow) {
            return InjectedFault::Slow(Duration::from_millis(dice.below(SLOW_MAX_MS)));
        }
        match changes {
            CallEffect::Nothing => InjectedFault::None,
            CallEffect::Something if hits(done_but_failed) => InjectedFault::DoneButFailed,
            CallEffect::Something if hits(done_but_hang) => InjectedFault::DoneButHang,
            CallEffect::Something if hits(late) => {
                InjectedFault::Late(Duration::from_millis(dice.below(LATE_MAX_MS)))
            }
            CallEffect::Something => InjectedFault::None,
        }
    }

    async fn call<T: Send + 'static>(
        &self,
        changes: CallEffect,
        work: impl FnOnce(Arc<MemoryStore>) -> BoxFuture<'static, Result<T>> + Send,
    ) -> Result<T> {
        self.awake().await;
        let spent = |left: u64| (left != u64::MAX).then(|| left.saturating_sub(1));
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spent);
        // The last call takes effect but is never answered: the process ends during it.
        if left == Ok(0) {
            return std::future::pending().await;
        }
        let last = left == Ok(1);
        let work = work(Arc::clone(&self.store));
        let fault = self.throw(&changes);
        if !matches!(fault, InjectedFault::None) {
            self.faults.fetch_add(1, Ordering::SeqCst);
        }
        let result = match fault {
            InjectedFault::None => work.await,
            InjectedFault::Fail => Err(broken("and nothing was done")),
            InjectedFault::DoneButFailed => work.await.and_then(|_| Err(broken("although it was done"))),
            InjectedFault::Hang => std::future::pending().await,
            InjectedFault::DoneButHang => {
                drop(work.await);
                std::future::pending().await
            }
            InjectedFault::Late(by) => {
                let work = async move {
                    tokio::time::sleep(by).await;
                    drop(work.await);
                };
                self.late.lock().unwrap_or_else(PoisonError::into_inner).spawn(work);
                std::future::pending().await
            }
            InjectedFault::Slow(by) => {
                tokio::time::sleep(by).await;
                work.await
            }
        };
        if last {
            return std::future::pending().await;
        }
        self.awake().await;
        result
    }
}

fn broken(how: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the connection broke, {how}"))
}

#[async_trait]
impl RunStore for FaultyStore {
    async fn create(&self, run: &StoredRun) -> Result<()> {
        let run = run.clone();
        self.call(CallEffect::Something, |s| async move { RunStore::create(&*s, &run).await }.boxed()).await
    }

    async fn announce(&self, run: &StoredRun, revision: i64) -> Result<bool> {
        let run = run.clone();
        self.call(CallEffect::Something, |s| async move { s.announce(&run, revision).await }.boxed()).await
    }

    async fn append(&self, lease: &RunLease, entries: Vec<StoredEntry>) -> Result<()> {
        let lease = lease.clone();
        self.call(CallEffect::Something, |s| async move { s.append(&lease, entries).await }.boxed()).await
    }

    async fn claim(&self, run: &RunKey, seen: i64, by: &ProcessId) -> Result<Option<RunLease>> {
        let (run, by) = (run.clone(), by.clone());
        self.call(CallEffect::Something, |s| async move { s.claim(&run, seen, &by).await }.boxed()).await
    }

    async fn release(&self, leases: &[RunLease]) -> Result<()> {
        let leases = leases.to_vec();
        self.call(CallEffect::Something, |s| async move { s.release(&leases).await }.boxed()).await
    }

    async fn request_cancel(&self, run: &RunKey, now_ms: i64) -> Result<bool> {
        let run = run.clone();
        self.call(CallEffect::Something, |s| async move { s.request_cancel(&run, now_ms).await }.boxed())
            .await
    }

    async fn say_of_giving_way(&self, run: &RunKey, word: GiveWayWord) -> Result<bool> {
        let run = run.clone();
        let said = |s: Arc<MemoryStore>| async move { s.say_of_giving_way(&run, word).await }.boxed();
        self.call(CallEffect::Something, said).await
    }

    async fn requests(&self, owner: &ProcessId) -> Result<Vec<RunRequest>> {
        let owner = owner.clone();
        self.call(CallEffect::Nothing, |s| async move { s.requests(&owner).await }.boxed()).await
    }

    async fn unattended(&self, gone: &[ProcessId], count_max: u64) -> Result<Vec<StoredRun>> {
        let gone = gone.to_vec();
        self.call(CallEffect::Nothing, |s| async move { s.unattended(&gone, count_max).await }.boxed()).await
    }

    async fn finish(&self, lease: &RunLease, finished: FinishedRun) -> Result<()> {
        let lease = lease.clone();
        self.call(CallEffect::Something, |s| async move { s.finish(&lease, finished).await }.boxed()).await
    }

    async fn get(&self, key: &RunKey) -> Result<StoredRun> {
        let key = key.clone();
        self.call(CallEffect::Nothing, |s| async move { RunStore::get(&*s, &key).await }.boxed()).await
    }

    async fn entries(&self, key: &RunKey, after_seq: u64, count_max: u64) -> Result<Vec<StoredEntry>> {
        let key = key.clone();
        self.call(CallEffect::Nothing, |s| async move { s.entries(&key, after_seq, count_max).await }.boxed())
            .await
    }

    async fn list(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<StoredRun>> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.call(CallEffect::Nothing, |s| async move { RunStore::list(&*s, &tenant, &filter).await }.boxed())
            .await
    }

    async fn expired(&self, tenant: &TenantId, keep: &Retention, count_max: u64) -> Result<Vec<StoredRun>> {
        let (tenant, keep) = (tenant.clone(), *keep);
        let work = |s: Arc<MemoryStore>| async move { s.expired(&tenant, &keep, count_max).await };
        self.call(CallEffect::Nothing, |s| work(s).boxed()).await
    }

    async fn remove(&self, runs: &[RunKey]) -> Result<u64> {
        let runs = runs.to_vec();
        self.call(CallEffect::Something, |s| async move { RunStore::remove(&*s, &runs).await }.boxed()).await
    }
}

#[async_trait]
impl SessionStore for FaultyStore {
    async fn create(&self, session: &Session, opening: &[SessionMessage]) -> Result<()> {
        let (session, opening) = (session.clone(), opening.to_vec());
        let work = |s: Arc<MemoryStore>| async move { SessionStore::create(&*s, &session, &opening).await };
        self.call(CallEffect::Something, |s| work(s).boxed()).await
    }

    async fn load(&self, key: &SessionKey) -> Result<Session> {
        let key = key.clone();
        self.call(CallEffect::Nothing, |s| async move { s.load(&key).await }.boxed()).await
    }

    async fn messages(&self, key: &SessionKey, revision: i64, count_max: u64) -> Result<Vec<SessionMessage>> {
        let key = key.clone();
        self.call(CallEffect::Nothing, |s| async move { s.messages(&key, revision, count_max).await }.boxed())
            .await
    }

    async fn messages_after(
        &self,
        key: &SessionKey,
        after: Option<MessagePosition>,
        count_max: u64,
    ) -> Result<Vec<(MessagePosition, SessionMessage)>> {
        let key = key.clone();
        let work = |s: Arc<MemoryStore>| async move { s.messages_after(&key, after, count_max).await };
        self.call(CallEffect::Nothing, |s| work(s).boxed()).await
    }

    async fn commit(&self, key: &SessionKey, commit: SessionCommit<'_>) -> Result<()> {
        let SessionCommit { revision, state, messages, tasks, lease } = commit;
        let (key, state, messages) = (key.clone(), state.clone(), messages.to_vec());
        let (tasks, lease) = (tasks.cloned(), lease.cloned());
        let work = |s: Arc<MemoryStore>| async move {
            let (tasks, lease) = (tasks.as_ref(), lease.as_ref());
            s.commit(&key, SessionCommit { revision, state: &state, messages: &messages, tasks, lease }).await
        };
        self.call(CallEffect::Something, |s| work(s).boxed()).await
    }

    async fn list(&self, tenant: &TenantId, filter: &SessionFilter) -> Result<(Vec<Session>, u64)> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        let work = |s: Arc<MemoryStore>| async move { SessionStore::list(&*s, &tenant, &filter).await };
        self.call(CallEffect::Nothing, |s| work(s).boxed()).await
    }

    async fn rename(&self, key: &SessionKey, name: &str) -> Result<()> {
        let (key, name) = (key.clone(), name.to_owned());
        self.call(CallEffect::Something, |s| async move { s.rename(&key, &name).await }.boxed()).await
    }

    async fn judge(&self, key: &SessionKey, run: &RunId, feedback: &Feedback) -> Result<()> {
        let (key, run, feedback) = (key.clone(), run.clone(), feedback.clone());
        self.call(CallEffect::Something, |s| async move { s.judge(&key, &run, &feedback).await }.boxed())
            .await
    }

    async fn forget_run(&self, key: &SessionKey, run: &RunId) -> Result<()> {
        let (key, run) = (key.clone(), run.clone());
        let work = |s: Arc<MemoryStore>| async move { s.forget_run(&key, &run).await };
        self.call(CallEffect::Something, |s| work(s).boxed()).await
    }

    async fn delete(&self, key: &SessionKey) -> Result<()> {
        let key = key.clone();
        self.call(CallEffect::Something, |s| async move { SessionStore::delete(&*s, &key).await }.boxed())
            .await
    }
}

#[async_trait]
impl SpendingStore for FaultyStore {
    async fn note(&self, lease: &RunLease, day: i64, spent: Spent) -> Result<()> {
        let lease = lease.clone();
        self.call(CallEffect::Something, |s| async move { s.note(&lease, day, spent).await }.boxed()).await
    }

    async fn spent(&self, tenant: &TenantId, canvas: Option<&CanvasId>, since_day: i64) -> Result<Spent> {
        let (tenant, canvas) = (tenant.clone(), canvas.cloned());
        let work = |s: Arc<MemoryStore>| async move { s.spent(&tenant, canvas.as_ref(), since_day).await };
        self.call(CallEffect::Nothing, |s| work(s).boxed()).await
    }

    async fn days(&self, tenant: &TenantId, since_day: i64, count_max: u64) -> Result<Vec<DaySpent>> {
        let tenant = tenant.clone();
        self.call(CallEffect::Nothing, |s| async move { s.days(&tenant, since_day, count_max).await }.boxed())
            .await
    }

    async fn fold_days(&self, tenant: &TenantId, before_day: i64) -> Result<u64> {
        let tenant = tenant.clone();
        self.call(CallEffect::Something, |s| async move { s.fold_days(&tenant, before_day).await }.boxed())
            .await
    }
}

#[async_trait]
impl ProcessStore for FaultyStore {
    async fn beat(&self, id: &ProcessId, place: Option<&ProcessPlace>) -> Result<()> {
        let (id, place) = (id.clone(), place.cloned());
        self.call(CallEffect::Something, |s| async move { s.beat(&id, place.as_ref()).await }.boxed()).await
    }

    async fn list(&self) -> Result<Vec<StoredProcess>> {
        self.call(CallEffect::Nothing, |s| async move { ProcessStore::list(&*s).await }.boxed()).await
    }

    async fn forget(&self, id: &ProcessId, beat: i64) -> Result<bool> {
        let id = id.clone();
        self.call(CallEffect::Something, |s| async move { s.forget(&id, beat).await }.boxed()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contracts::store;

    #[tokio::test]
    async fn without_faults_it_keeps_the_store_contract() {
        let faulty = FaultyStore::new(Arc::default(), FaultRates::default(), Dice::new(1));
        store::session_store_keeps_its_contract(&faulty).await;
        store::run_store_keeps_its_contract(&faulty).await;
        store::process_store_keeps_its_contract(&faulty, &faulty).await;
        store::run_messages_keep_their_contract(&faulty, &faulty).await;
    }

    /// What of 4,000 changes was done, and what was said of them: every way to fail is taken.
    #[tokio::test(start_paused = true)]
    async fn every_fault_happens_at_about_its_rate() {
        let key = RunKey::new(&"t".into(), "r");
        let run = StoredRun::begun(key.clone(), "s", "c", 0);
        let memory = Arc::new(MemoryStore::new());
        RunStore::create(&*memory, &run).await.unwrap();
        let faulty = FaultyStore::new(Arc::clone(&memory), FaultRates::all(50), Dice::new(7));
        let (mut done, mut failed, mut failed_done, mut silent, mut silent_done) = (0, 0, 0, 0, 0);
        let (lease, by) = (RunLease::of(&run), ProcessId::from("p"));
        for _ in 1..=4_000 {
            let fence = RunStore::get(&*memory, &key).await.unwrap().fence;
            let asked = tokio::time::timeout(Duration::from_secs(10), faulty.claim(&key, fence, &by));
            let answer = asked.await;
            let is_done = RunStore::get(&*memory, &key).await.unwrap().fence > fence;
            match (answer, is_done) {
                (Ok(Ok(_)), true) => done += 1,
                (Ok(Ok(_)), false) => panic!("it was reported as done"),
                (Ok(Err(_)), true) => failed_done += 1,
                (Ok(Err(_)), false) => failed += 1,
                (Err(_), true) => silent_done += 1,
                (Err(_), false) => silent += 1,
            }
        }
        // 200 of each are expected; the late ones count as silent, the slow ones as done.
        assert!((2_900..3_100).contains(&done), "{done}");
        for count in [failed, failed_done, silent_done] {
            assert!((130..270).contains(&count), "{failed} {failed_done} {silent_done}");
        }
        assert!((280..480).contains(&silent), "{silent}");
        faulty.calm_down();
        for _ in 0..500 {
            faulty.release(std::slice::from_ref(&lease)).await.unwrap();
        }
    }
}
