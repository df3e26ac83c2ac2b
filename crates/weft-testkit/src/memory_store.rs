//! In-memory stores, for tests of code that needs a store.

mod account;
mod canvas;
mod chat;
mod identity;
mod memory;
mod notice;
mod run;
mod run_message;
mod schedule;
mod share;
mod spending;
mod task;
mod usage;
mod version;
mod work;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use weft_core::budget::Spent;
use weft_core::id::{CanvasId, ProcessId, RunId, ScheduleId, SessionId, SessionKey, TaskId, TenantId};
use weft_core::seam::Clock;
use weft_core::seam::canvas_store::StoredCanvas;
use weft_core::seam::clock::FixedClock;
use weft_core::seam::process_store::StoredProcess;
use weft_core::seam::run_messages::RunMessage;
use weft_core::seam::run_store;
use weft_core::seam::schedule_store::Schedule;
use weft_core::seam::session_store::{
    Feedback, MessagePosition, Session, SessionCommit, SessionFilter, SessionMessage, SessionOrder,
    SessionStore,
};
use weft_core::seam::task_store::Task;
use weft_core::seam::token_store::{StoredToken, TokenFilter, TokenStore};
use weft_core::seam::tool_source::{PinStore, ToolPin};
use weft_core::seam::version_store::CanvasVersion;
use weft_core::{Error, ErrorKind, Result, async_trait};

use run::Journaled;
use work::Queued;

/// All stores over one set of maps. A clone is another handle to the same data.
#[derive(Clone)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    tables: Arc<Mutex<StoreTables>>,
}

#[derive(Default)]
struct StoreTables {
    canvases: BTreeMap<(TenantId, CanvasId), StoredCanvas>,
    versions: BTreeMap<(TenantId, CanvasId, Arc<str>), Arc<str>>,
    /// Metadata of the versions, without their labels.
    facts: BTreeMap<(TenantId, CanvasId, Arc<str>), CanvasVersion>,
    /// The versions that labels point to.
    labels: BTreeMap<(TenantId, CanvasId, String), Arc<str>>,
    sessions: BTreeMap<(TenantId, SessionId), KeptConversation>,
    runs: BTreeMap<(TenantId, RunId), Journaled>,
    processes: BTreeMap<ProcessId, StoredProcess>,
    tokens: BTreeMap<String, StoredToken>,
    pins: BTreeMap<(String, String), ToolPin>,
    /// By run: the usage recorded so far.
    spent: BTreeMap<(TenantId, RunId), Spent>,
    /// By tenant, day and canvas.
    spending: BTreeMap<(TenantId, i64, CanvasId), Spent>,
    work: BTreeMap<(TenantId, RunId), Queued>,
    schedules: BTreeMap<(TenantId, ScheduleId), Schedule>,
    tasks: BTreeMap<(TenantId, TaskId), Task>,
    memories: memory::MemoryTable,
    chats: chat::Chats,
    accounts: account::AccountTables,
    identities: identity::IdentityTables,
    shares: share::ShareTable,
    audit: share::Audit,
    notices: notice::Notices,
    uses: usage::Uses,
    run_messages: Vec<RunMessage>,
}

impl StoreTables {
    /// Removes the data of a tenant, unless one of its runs is under way.
    fn forget_tenant(&mut self, id: &TenantId) -> Result<()> {
        if self.runs.iter().any(|((tenant, _), journal)| tenant == id && journal.run.ending.is_none()) {
            return Err(conflict("a run of the tenant is under way".to_owned()));
        }
        self.canvases.retain(|(tenant, _), _| tenant != id);
        self.versions.retain(|(tenant, ..), _| tenant != id);
        self.facts.retain(|(tenant, ..), _| tenant != id);
        self.labels.retain(|(tenant, ..), _| tenant != id);
        self.sessions.retain(|(tenant, _), _| tenant != id);
        self.runs.retain(|(tenant, _), _| tenant != id);
        self.tokens.retain(|_, token| token.tenant != *id);
        self.spent.retain(|(tenant, _), _| tenant != id);
        self.spending.retain(|(tenant, ..), _| tenant != id);
        self.work.retain(|(tenant, _), _| tenant != id);
        self.schedules.retain(|(tenant, _), _| tenant != id);
        self.tasks.retain(|(tenant, _), _| tenant != id);
        self.shares.retain(|_, share| share.tenant != *id);
        self.audit.retain(|(tenant, ..), _| tenant != id);
        self.notices.retain(|key, _| key.tenant != *id);
        self.memories.retain(|(tenant, _), _| tenant != id);
        self.uses.retain(|one| one.tenant != *id);
        self.run_messages.retain(|message| message.run.tenant != *id);
        self.chats.retain(|(tenant, _), _| tenant != id);
        Ok(())
    }
}

struct KeptConversation {
    session: Session,
    /// Each with the revision that added it.
    messages: Vec<(i64, SessionMessage)>,
}

struct WallClock;

impl Clock for WallClock {
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn running(&self) -> Duration {
        static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGAN.elapsed()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// Creates an empty store that stamps changes with the system time.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(WallClock))
    }

    /// Creates an empty store in which it is always the same time, in milliseconds since 1970.
    pub fn at(now_ms: i64) -> Self {
        Self::with_clock(Arc::new(FixedClock(now_ms)))
    }

    /// Creates an empty store that stamps changes with this clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { clock, tables: Arc::default() }
    }

    fn tables(&self) -> MutexGuard<'_, StoreTables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SessionStore for MemoryStore {
    async fn create(&self, session: &Session, opening: &[SessionMessage]) -> Result<()> {
        let at = (session.key.tenant.clone(), session.key.id.clone());
        let mut tables = self.tables();
        if tables.sessions.contains_key(&at) {
            return Err(conflict(format!("there is a session `{}` already", session.key.id)));
        }
        let messages = opening.iter().map(|message| (session.revision, message.clone())).collect();
        tables.sessions.insert(at, KeptConversation { session: session.clone(), messages });
        Ok(())
    }

    async fn load(&self, key: &SessionKey) -> Result<Session> {
        let at = (key.tenant.clone(), key.id.clone());
        let found = self.tables().sessions.get(&at).map(|c| c.session.clone());
        found.ok_or_else(|| missing("session", key.id.as_str()))
    }

    async fn messages(&self, key: &SessionKey, revision: i64, count_max: u64) -> Result<Vec<SessionMessage>> {
        let at = (key.tenant.clone(), key.id.clone());
        let messages = self.tables().sessions.get(&at).map(|c| c.messages.clone()).unwrap_or_default();
        let mut messages: Vec<_> =
            messages.into_iter().filter(|(of, _)| *of <= revision).map(|(_, message)| message).collect();
        let count_max = usize::try_from(count_max).unwrap_or(usize::MAX);
        Ok(messages.split_off(messages.len().saturating_sub(count_max)))
    }

    async fn messages_after(
        &self,
        key: &SessionKey,
        after: Option<MessagePosition>,
        count_max: u64,
    ) -> Result<Vec<(MessagePosition, SessionMessage)>> {
        let at = (key.tenant.clone(), key.id.clone());
        let messages = self.tables().sessions.get(&at).map(|c| c.messages.clone()).unwrap_or_default();
        let mut last: Option<MessagePosition> = None;
        let placed = messages.into_iter().map(|(revision, message)| {
            let place = last.filter(|last| last.revision == revision).map_or(0, |last| last.place + 1);
            let at = MessagePosition { revision, place };
            last = Some(at);
            (at, message)
        });
        let follow = placed.filter(|(at, _)| after.is_none_or(|after| *at > after));
        Ok(follow.take(usize::try_from(count_max).unwrap_or(usize::MAX)).collect())
    }

    async fn commit(&self, key: &SessionKey, commit: SessionCommit<'_>) -> Result<()> {
        let now = self.clock.now_ms();
        let at = (key.tenant.clone(), key.id.clone());
        let mut tables = self.tables();
        if let Some(lease) = commit.lease {
            tables.held(lease, "store the session")?;
        }
        let busy = if commit.lease.is_none() { tables.at_work(key) } else { None };
        let conversation = tables.sessions.get_mut(&at).ok_or_else(|| missing("session", key.id.as_str()))?;
        if conversation.session.revision != commit.revision {
            return Err(conflict(format!("the session `{}` has changed since it was read", key.id)));
        }
        if let Some(run) = busy {
            return Err(run_store::at_work(&key.id, &run));
        }
        conversation.session.state = commit.state.clone();
        conversation.session.revision += 1;
        conversation.session.updated_ms = now;
        let revision = conversation.session.revision;
        conversation.messages.extend(commit.messages.iter().map(|message| (revision, message.clone())));
        if let Some(change) = commit.tasks {
            tables.change_tasks(key, change);
        }
        Ok(())
    }

    async fn list(&self, tenant: &TenantId, filter: &SessionFilter) -> Result<(Vec<Session>, u64)> {
        let mut found: Vec<_> = self
            .tables()
            .sessions
            .values()
            .map(|c| &c.session)
            .filter(|s| {
                s.key.tenant == *tenant
                    && filter.canvas.as_ref().is_none_or(|canvas| *canvas == s.canvas)
                    && filter.id.as_ref().is_none_or(|id| id == s.key.id.as_str())
                    && filter.user_id.as_ref().is_none_or(|user| *user == s.user_id)
                    && filter.name.as_ref().is_none_or(|name| *name == s.name)
                    && s.name.to_lowercase().contains(&filter.keywords.to_lowercase())
            })
            .map(|s| Session { state: serde_json::Value::Null, ..s.clone() })
            .collect();
        let when = |session: &Session| match filter.order {
            SessionOrder::Updated => (session.updated_ms, String::new()),
            SessionOrder::Created => (session.created_ms, String::new()),
            SessionOrder::Name => (0, session.name.clone()),
        };
        found.sort_by(|a, b| (when(a), &a.key.id).cmp(&(when(b), &b.key.id)));
        if !filter.ascending {
            found.reverse();
        }
        let total = found.len() as u64;
        if let Some((created_ms, id)) = &filter.after {
            found.retain(|session| (session.created_ms, &session.key.id) > (*created_ms, id));
        }
        Ok((page(found, filter.offset, filter.limit).0, total))
    }

    async fn rename(&self, key: &SessionKey, name: &str) -> Result<()> {
        let now = self.clock.now_ms();
        let mut tables = self.tables();
        let found = tables.sessions.get_mut(&(key.tenant.clone(), key.id.clone()));
        let session = &mut found.ok_or_else(|| missing("session", key.id.as_str()))?.session;
        name.clone_into(&mut session.name);
        session.updated_ms = now;
        Ok(())
    }

    async fn judge(&self, key: &SessionKey, run: &RunId, feedback: &Feedback) -> Result<()> {
        let mut tables = self.tables();
        let found = tables.sessions.get_mut(&(key.tenant.clone(), key.id.clone()));
        let messages = found.into_iter().flat_map(|conversation| &mut conversation.messages);
        let mut judged = false;
        for (_, message) in messages {
            if message.run.as_ref() == Some(run) && message.role == "assistant" {
                message.feedback = Some(feedback.clone());
                judged = true;
            }
        }
        if judged { Ok(()) } else { Err(missing("answer of the run", run.as_str())) }
    }

    async fn forget_run(&self, key: &SessionKey, run: &RunId) -> Result<()> {
        let mut tables = self.tables();
        let found = tables.sessions.get_mut(&(key.tenant.clone(), key.id.clone()));
        let messages = &mut found.ok_or_else(|| missing("session", key.id.as_str()))?.messages;
        let before = messages.len();
        messages.retain(|(_, message)| message.run.as_ref() != Some(run));
        if messages.len() == before {
            return Err(missing("message of the run", run.as_str()));
        }
        let gone = tables.runs.get(&(key.tenant.clone(), run.clone()));
        if gone.is_some_and(|journaled| journaled.run.ending.is_some()) {
            tables.runs.remove(&(key.tenant.clone(), run.clone()));
        }
        Ok(())
    }

    async fn delete(&self, key: &SessionKey) -> Result<()> {
        let mut tables = self.tables();
        let at = (key.tenant.clone(), key.id.clone());
        tables.sessions.remove(&at).ok_or_else(|| missing("session", key.id.as_str()))?;
        tables.drop_homeless_tasks();
        tables.runs.retain(|_, j| j.run.key.tenant != key.tenant || j.run.session != key.id);
        Ok(())
    }
}

fn fits(filter: &TokenFilter, token: &StoredToken) -> bool {
    filter.tenant.as_ref().is_none_or(|tenant| token.tenant == *tenant)
        && filter.user.as_ref().is_none_or(|user| token.user.as_ref() == Some(user))
        && filter.name.as_ref().is_none_or(|name| token.name == *name || token.id() == name)
}

#[async_trait]
impl TokenStore for MemoryStore {
    async fn add(&self, token: &StoredToken) -> Result<()> {
        let mut tables = self.tables();
        if tables.tokens.contains_key(&token.hash) {
            return Err(conflict("this token is stored already".to_owned()));
        }
        tables.tokens.insert(token.hash.clone(), token.clone());
        Ok(())
    }

    async fn find(&self, hash: &str) -> Result<StoredToken> {
        self.tables().tokens.get(hash).cloned().ok_or_else(|| Error::not_found("there is no such token"))
    }

    async fn used(&self, hash: &str, at_ms: i64) -> Result<()> {
        if let Some(token) = self.tables().tokens.get_mut(hash) {
            token.last_used_ms = token.last_used_ms.max(Some(at_ms));
        }
        Ok(())
    }

    async fn list(&self, filter: &TokenFilter) -> Result<Vec<StoredToken>> {
        let tables = self.tables();
        let mut tokens: Vec<_> =
            tables.tokens.values().filter(|token| fits(filter, token)).cloned().collect();
        tokens.sort_by(|a, b| (a.created_ms, &a.hash).cmp(&(b.created_ms, &b.hash)));
        if let Some((created_ms, hash)) = &filter.after {
            tokens.retain(|token| (token.created_ms, &token.hash) > (*created_ms, hash));
        }
        let of = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Ok(tokens.into_iter().skip(of(filter.offset)).take(of(filter.limit)).collect())
    }

    async fn total(&self, filter: &TokenFilter) -> Result<u64> {
        Ok(self.tables().tokens.values().filter(|token| fits(filter, token)).count() as u64)
    }

    async fn remove(&self, tenant: &TenantId, hash: &str) -> Result<()> {
        let mut tables = self.tables();
        if tables.tokens.get(hash).is_none_or(|token| token.tenant != *tenant) {
            return Err(Error::not_found("there is no such token"));
        }
        tables.tokens.remove(hash);
        Ok(())
    }

    async fn count(&self) -> Result<u64> {
        Ok(self.tables().tokens.len() as u64)
    }
}

#[async_trait]
impl PinStore for MemoryStore {
    async fn pins(&self, server: &str) -> Result<Vec<ToolPin>> {
        Ok(self.tables().pins.values().filter(|pin| pin.server == server).cloned().collect())
    }

    async fn accept(&self, pins: &[ToolPin]) -> Result<()> {
        if pins.iter().any(|pin| pin.server.is_empty() || pin.tool.is_empty()) {
            return Err(Error::invalid("a tool without a name cannot be accepted"));
        }
        let keyed = pins.iter().map(|pin| ((pin.server.clone(), pin.tool.clone()), pin.clone()));
        self.tables().pins.extend(keyed);
        Ok(())
    }
}

/// One page of the results, and the total number of results.
fn page<T>(found: Vec<T>, offset: u64, limit: u64) -> (Vec<T>, u64) {
    let total = found.len() as u64;
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    (found.into_iter().skip(offset).take(limit).collect(), total)
}

fn hash(dsl: &str) -> Arc<str> {
    Sha256::digest(dsl.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

fn conflict(message: String) -> Error {
    Error::new(ErrorKind::Conflict, message)
}

fn missing(what: &str, name: &str) -> Error {
    Error::not_found(format!("there is no {what} `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contracts::store;

    #[tokio::test]
    async fn memory_keeps_the_contracts() {
        let memory = MemoryStore::new();
        store::canvas_store_keeps_its_contract(&memory).await;
        store::version_store_keeps_its_contract(&memory, &memory).await;
        store::session_store_keeps_its_contract(&memory).await;
        store::task_store_keeps_its_contract(&memory, &memory).await;
        store::run_store_keeps_its_contract(&memory).await;
        let (runs, sessions, tasks, spending) = (&memory, &memory, &memory, &memory);
        store::stores_are_fenced(store::FencedStores { runs, sessions, tasks, spending }).await;
        store::process_store_keeps_its_contract(&memory, &memory).await;
        store::run_messages_keep_their_contract(&memory, &memory).await;
        store::token_store_keeps_its_contract(&memory).await;
        store::spending_store_keeps_its_contract(&memory, &memory).await;
        let datasets = crate::MemoryDatasets::new();
        store::usage_store_keeps_its_contract(&memory, &memory, &memory, &datasets, &memory).await;
        store::pin_store_keeps_its_contract(&memory).await;
        store::work_queue_keeps_its_contract(&MemoryStore::new()).await;
        store::notice_store_keeps_its_contract(&memory, &memory).await;
        store::schedule_store_keeps_its_contract(&memory).await;
        let (users, tenants, tokens) = (&memory, &memory, &memory);
        let stores = crate::contracts::accounts::ContractStores { users, tenants, tokens };
        crate::contracts::accounts::account_stores_keep_their_contract(stores).await;
        crate::contracts::identities::identity_store_keeps_its_contract(&memory, &memory).await;
        crate::contracts::accounts::share_store_keeps_its_contract(&memory).await;
        crate::contracts::audit::audit_store_keeps_its_contract(&memory).await;
        crate::contracts::chats::chat_store_keeps_its_contract(&memory).await;
        crate::contracts::memories::memory_store_keeps_its_contract(&memory).await;
        store::stores_remove_related_data_together(&memory, &memory, &memory, &memory, &memory).await;
        store::stores_keep_large_values(&memory, &memory).await;
    }
}
