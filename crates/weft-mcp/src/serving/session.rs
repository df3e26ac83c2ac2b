//! Conversations that began with `initialize`: what they agreed on, what was asked in them, and what is being worked
//! on. They are kept in memory; whoever comes back to one that is gone begins anew.

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

/// Conversations of one caller. The one that was silent for longest makes room.
// Few clients say that they leave, so that this is the end of most.
const PER_OWNER_MAX: usize = 1_000;
/// Conversations of all callers.
const ALL_MAX: usize = 10_000;
/// Requests of one conversation that are worked on at the same time.
pub(super) const UNDER_WAY_MAX: usize = 64;

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is being worked on, by the ids of the requests.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<HashMap<String, CancellationToken>>);

/// A request that is being worked on, until this is dropped.
#[derive(Debug)]
pub(super) struct Working {
    under_way: Arc<UnderWay>,
    id: String,
    /// Fires when the client wants nothing more of it.
    pub(super) cancelled: CancellationToken,
}

impl UnderWay {
    /// Notes that a request is being worked on.
    pub(super) fn begin(self: &Arc<Self>, id: &Json) -> Result<Working, RpcError> {
        // As JSON, so that the number 1 and the text "1" are two ids.
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

    /// Does as `notifications/cancelled` says.
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

/// A conversation.
#[derive(Debug)]
pub(super) struct ServedSession {
    pub(super) revision: ProtocolRevision,
    pub(super) client: Client,
    pub(super) under_way: Arc<UnderWay>,
    level: Mutex<LogLevel>,
    asked: Mutex<ClientQuestions>,
}

/// Questions that were put to the client.
#[derive(Debug, Default)]
struct ClientQuestions {
    count: u64,
    open: HashMap<String, oneshot::Sender<Result<Json, Json>>>,
    /// Nobody will answer any more.
    closed: bool,
}

/// A question that waits for its answer, until this is dropped.
pub(super) struct ClientQuestion<'a> {
    session: &'a ServedSession,
    pub(super) id: String,
    answer: oneshot::Receiver<Result<Json, Json>>,
}

impl ServedSession {
    /// As the parameters of `initialize` want it.
    pub(super) fn new(params: &Map<String, Json>) -> Self {
        Self {
            revision: ProtocolRevision::negotiated(params.get("protocolVersion").and_then(Json::as_str)),
            client: Client::new(params.get("capabilities")),
            under_way: Arc::default(),
            level: Mutex::new(LogLevel::Info),
            asked: Mutex::default(),
        }
    }

    /// For a request without a conversation, whose client can do nothing in particular.
    pub(super) fn unsaid(revision: ProtocolRevision) -> Self {
        let closed = ClientQuestions { closed: true, ..ClientQuestions::default() };
        Self { revision, asked: Mutex::new(closed), ..Self::new(&Map::new()) }
    }

    pub(super) fn level(&self) -> LogLevel {
        *held(&self.level)
    }

    pub(super) fn set_level(&self, level: LogLevel) {
        *held(&self.level) = level;
    }

    /// Makes room for an answer.
    pub(super) fn question(&self) -> ClientQuestion<'_> {
        let mut asked = held(&self.asked);
        asked.count += 1;
        let id = format!("weft-{}", asked.count);
        let (sender, answer) = oneshot::channel();
        // Otherwise the sender goes at once, and whoever waits for the answer hears that the client is gone.
        if !asked.closed {
            asked.open.insert(id.clone(), sender);
        }
        drop(asked);
        ClientQuestion { session: self, id, answer }
    }

    /// Takes in an answer. One to what was not asked is passed over.
    pub(super) fn answered(&self, id: &Json, outcome: Result<Json, Json>) {
        let sender = id.as_str().and_then(|id| held(&self.asked).open.remove(id));
        if let Some(sender) = sender {
            // Whoever asked may have gone.
            drop(sender.send(outcome));
        }
    }

    /// Nobody answers any more.
    pub(super) fn close(&self) {
        let mut asked = held(&self.asked);
        asked.closed = true;
        asked.open.clear();
    }
}

impl ClientQuestion<'_> {
    /// What the client says.
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

/// The conversations that are open over HTTP.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<String, OpenSession>>);

#[derive(Debug)]
struct OpenSession {
    owner: String,
    session: Arc<ServedSession>,
    used: Instant,
}

impl Sessions {
    /// Opens one, and names it.
    pub(super) fn open(&self, owner: &str, session: ServedSession) -> String {
        let id = weft_core::id::generate();
        let mut all = held(&self.0);
        let own = all.values().filter(|open| open.owner == owner).count();
        if own >= PER_OWNER_MAX || all.len() >= ALL_MAX {
            // Who has as many as one caller may have pushes out an own conversation and no other's.
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

    /// The one of this name, if it is this caller's.
    pub(super) fn find(&self, owner: &str, id: &str) -> Option<Arc<ServedSession>> {
        let mut all = held(&self.0);
        let open = all.get_mut(id).filter(|open| open.owner == owner)?;
        open.used = Instant::now();
        Some(Arc::clone(&open.session))
    }

    /// Ends one. Whether there was such a one.
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
