//! Sessions, which begin with `initialize`: the negotiated revision and capabilities, open questions to the client, and
//! requests in progress. They are kept in memory; a client whose session no longer exists starts a new one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Map, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use weft_core::Json;

use super::capabilities::Client;
use super::message::{RpcError, code};
use super::outlet::LogLevel;
use super::revision::ProtocolRevision;

/// Maximum number of sessions of one caller. Beyond it the one that was unused for longest is removed.
// Few clients end their sessions, so most of them end in this way.
const PER_OWNER_MAX: usize = 1_000;
/// Maximum number of sessions of all callers.
const ALL_MAX: usize = 10_000;
/// Maximum number of concurrent requests of one session.
pub(super) const UNDER_WAY_MAX: usize = 64;

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requests in progress, by their ids.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<HashMap<String, CancellationToken>>);

/// A request in progress, until this is dropped.
#[derive(Debug)]
pub(super) struct Working {
    under_way: Arc<UnderWay>,
    id: String,
    /// Fires when the client cancels it.
    pub(super) cancelled: CancellationToken,
}

impl UnderWay {
    /// Registers a request in progress.
    pub(super) fn begin(self: &Arc<Self>, id: &Json) -> Result<Working, RpcError> {
        // As JSON, so that the number 1 and the string "1" are different ids.
        let (id, mut all) = (id.to_string(), held(&self.0));
        if all.len() >= UNDER_WAY_MAX {
            let message =
                format!("{UNDER_WAY_MAX} requests are in progress, which is the maximum: wait for responses");
            return Err(RpcError::new(code::BUSY, message));
        }
        if all.contains_key(&id) {
            return Err(RpcError::new(code::INVALID_REQUEST, "a request with this id is in progress"));
        }
        let cancelled = CancellationToken::new();
        all.insert(id.clone(), cancelled.clone());
        Ok(Working { under_way: Arc::clone(self), id, cancelled })
    }

    /// Cancels the request that the parameters of `notifications/cancelled` name.
    pub(super) fn cancel(&self, params: &Map<String, Json>) {
        let Some(id) = params.get("requestId") else { return };
        if let Some(cancelled) = held(&self.0).get(&id.to_string()) {
            cancelled.cancel();
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        held(&self.under_way.0).remove(&self.id);
    }
}

/// A session of a client.
#[derive(Debug)]
pub(super) struct ServedSession {
    pub(super) revision: ProtocolRevision,
    pub(super) client: Client,
    pub(super) under_way: Arc<UnderWay>,
    level: Mutex<LogLevel>,
    asked: Mutex<ClientQuestions>,
}

/// Open questions to the client.
#[derive(Debug, Default)]
struct ClientQuestions {
    count: u64,
    open: HashMap<String, oneshot::Sender<Result<Json, Json>>>,
    /// Whether the client has left, so that no further answers arrive.
    closed: bool,
}

/// An open question to the client, until this is dropped.
pub(super) struct ClientQuestion<'a> {
    session: &'a ServedSession,
    pub(super) id: String,
    answer: oneshot::Receiver<Result<Json, Json>>,
}

impl ServedSession {
    /// Creates a session from the parameters of `initialize`.
    pub(super) fn new(params: &Map<String, Json>) -> Self {
        Self {
            revision: ProtocolRevision::negotiated(params.get("protocolVersion").and_then(Json::as_str)),
            client: Client::new(params.get("capabilities")),
            under_way: Arc::default(),
            level: Mutex::new(LogLevel::Info),
            asked: Mutex::default(),
        }
    }

    /// Creates a session for a single request without one; its client has no capabilities.
    pub(super) fn without_session(revision: ProtocolRevision) -> Self {
        let closed = ClientQuestions { closed: true, ..ClientQuestions::default() };
        Self { revision, asked: Mutex::new(closed), ..Self::new(&Map::new()) }
    }

    pub(super) fn level(&self) -> LogLevel {
        *held(&self.level)
    }

    pub(super) fn set_level(&self, level: LogLevel) {
        *held(&self.level) = level;
    }

    /// Registers a question.
    pub(super) fn question(&self) -> ClientQuestion<'_> {
        let mut asked = held(&self.asked);
        asked.count += 1;
        let id = format!("weft-{}", asked.count);
        let (sender, answer) = oneshot::channel();
        // Otherwise the sender is dropped, and the caller gets the error that the client has left.
        if !asked.closed {
            asked.open.insert(id.clone(), sender);
        }
        drop(asked);
        ClientQuestion { session: self, id, answer }
    }

    /// Passes an answer to its question. An answer without an open question is ignored.
    pub(super) fn answered(&self, id: &Json, outcome: Result<Json, Json>) {
        let sender = id.as_str().and_then(|id| held(&self.asked).open.remove(id));
        if let Some(sender) = sender {
            // The call that asked may have been dropped.
            drop(sender.send(outcome));
        }
    }

    /// Fails all open and future questions: the client has left.
    pub(super) fn close(&self) {
        let mut asked = held(&self.asked);
        asked.closed = true;
        asked.open.clear();
    }
}

impl ClientQuestion<'_> {
    /// Waits for the client's answer.
    pub(super) async fn answer(mut self) -> Result<Json, RpcError> {
        let gone = || RpcError::new(code::BUSY, "the client disconnected without answering");
        let outcome = (&mut self.answer).await.map_err(|_| gone())?;
        outcome.map_err(|error| {
            let why = error.get("message").and_then(Json::as_str).unwrap_or("it gives no reason");
            let why: String = why.chars().take(1_000).collect();
            RpcError::new(code::BUSY, format!("the client cannot answer: {why}"))
                .with_data(json!({"error": error}))
        })
    }
}

impl Drop for ClientQuestion<'_> {
    fn drop(&mut self) {
        held(&self.session.asked).open.remove(&self.id);
    }
}

/// The open sessions over HTTP.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<String, OpenSession>>);

#[derive(Debug)]
struct OpenSession {
    owner: String,
    session: Arc<ServedSession>,
    used: Instant,
}

impl Sessions {
    /// Adds a session and returns its id.
    pub(super) fn open(&self, owner: &str, session: ServedSession) -> String {
        let id = weft_core::id::generate();
        let mut all = held(&self.0);
        // Counted each time: there are ten thousand at most, and sessions begin rarely.
        let own = all.values().filter(|open| open.owner == owner).count();
        if own >= PER_OWNER_MAX || all.len() >= ALL_MAX {
            // A caller at its own limit only displaces its own sessions.
            let may_go = |open: &OpenSession| own < PER_OWNER_MAX || open.owner == owner;
            let oldest = all.iter().filter(|(_, open)| may_go(open)).min_by_key(|(_, open)| open.used);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone())
                && let Some(gone) = all.remove(&oldest)
            {
                gone.session.close();
            }
        }
        let open = OpenSession { owner: owner.to_owned(), session: Arc::new(session), used: Instant::now() };
        all.insert(id.clone(), open);
        id
    }

    /// Returns the session with this id, if it belongs to this caller.
    pub(super) fn find(&self, owner: &str, id: &str) -> Option<Arc<ServedSession>> {
        let mut all = held(&self.0);
        let open = all.get_mut(id).filter(|open| open.owner == owner)?;
        open.used = Instant::now();
        Some(Arc::clone(&open.session))
    }

    /// Ends a session. Returns false if the caller has none with this id.
    pub(super) fn close(&self, owner: &str, id: &str) -> bool {
        let mut all = held(&self.0);
        if all.get(id).is_none_or(|open| open.owner != owner) {
            return false;
        }
        all.remove(id).inspect(|open| open.session.close()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_belongs_to_its_caller() {
        let sessions = Sessions::default();
        let id = sessions.open("a", ServedSession::new(&Map::new()));
        assert!(sessions.find("a", &id).is_some() && sessions.find("b", &id).is_none());
        assert!(!sessions.close("b", &id) && sessions.close("a", &id) && !sessions.close("a", &id));
    }

    #[test]
    fn opening_too_many_sessions_closes_the_callers_oldest() {
        let sessions = Sessions::default();
        let other = sessions.open("b", ServedSession::new(&Map::new()));
        let first = sessions.open("a", ServedSession::new(&Map::new()));
        for _ in 0..PER_OWNER_MAX {
            sessions.open("a", ServedSession::new(&Map::new()));
        }
        assert!(sessions.find("a", &first).is_none() && sessions.find("b", &other).is_some());
        assert_eq!(held(&sessions.0).len(), PER_OWNER_MAX + 1);
    }

    #[tokio::test]
    async fn answers_reach_the_request_that_asked() {
        let session = ServedSession::new(&Map::new());
        let question = session.question();
        session.answered(&json!("weft-9"), Ok(json!(0)));
        session.answered(&json!(question.id), Ok(json!({"action": "accept"})));
        assert_eq!(question.answer().await.unwrap(), json!({"action": "accept"}));
        let refused = session.question();
        session.answered(&json!(refused.id), Err(json!({"code": -1, "message": "no"})));
        assert!(refused.answer().await.unwrap_err().message.ends_with("no"));
        let left = session.question();
        session.close();
        assert!(left.answer().await.unwrap_err().message.contains("disconnected"));
        assert!(session.question().answer().await.is_err());
    }

    #[test]
    fn a_request_is_active_until_it_is_answered() {
        let under_way = Arc::new(UnderWay::default());
        let working = under_way.begin(&json!(1)).unwrap();
        assert!(under_way.begin(&json!(1)).is_err());
        let other = under_way.begin(&json!("1")).unwrap();
        under_way.cancel(json!({"requestId": 1}).as_object().unwrap());
        assert!(working.cancelled.is_cancelled() && !other.cancelled.is_cancelled());
        drop(working);
        under_way.begin(&json!(1)).unwrap();
        let all: Vec<_> = (0..UNDER_WAY_MAX - 1).map(|n| under_way.begin(&json!(n)).unwrap()).collect();
        assert_eq!(under_way.begin(&json!("more")).unwrap_err().code, code::BUSY, "{}", all.len());
    }
}
