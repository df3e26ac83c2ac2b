//! Past conversations, from the store of sessions.

use std::sync::Arc;

use weft_core::seam::SessionStore;
use weft_core::seam::conversations::{ConversationQuery, Conversations, MESSAGES_MAX, PastMessage};
use weft_core::seam::session_store::SessionFilter;
use weft_core::{Error, ErrorKind, Result, SessionKey, TenantId, async_trait};

/// Maximum number of conversations of a user that are searched: the last changed ones.
const SESSIONS_MAX: u64 = 50;
/// Maximum number of messages of each of them: the latest.
const OF_SESSION_MAX: u64 = 200;

/// The conversations of a store.
pub(crate) struct StoredConversations(pub Arc<dyn SessionStore>);

impl StoredConversations {
    async fn of(&self, key: &SessionKey, count_max: u64) -> Result<Vec<PastMessage>> {
        let messages = self.0.messages(key, i64::MAX, count_max).await?;
        let session = &key.id;
        Ok(messages
            .into_iter()
            .map(|message| PastMessage {
                session: session.clone(),
                role: message.role,
                content: message.content,
                at_ms: message.created_ms,
            })
            .collect())
    }
}

#[async_trait]
impl Conversations for StoredConversations {
    async fn messages(&self, tenant: &TenantId, query: &ConversationQuery) -> Result<Vec<PastMessage>> {
        let key = SessionKey { tenant: tenant.clone(), id: query.session.clone() };
        let mut all = self.of(&key, MESSAGES_MAX as u64).await?;
        let Some(user) = query.user.as_ref().filter(|user| !user.is_empty()) else { return Ok(all) };
        let filter = SessionFilter {
            canvas: Some(query.canvas.clone()),
            user_id: Some(user.clone()),
            limit: SESSIONS_MAX,
            ..SessionFilter::default()
        };
        let (sessions, _) = self.0.list(tenant, &filter).await?;
        // The messages of this conversation come first, and were read above.
        for session in sessions.into_iter().filter(|session| session.key.id != query.session) {
            let left = MESSAGES_MAX.saturating_sub(all.len()) as u64;
            if left == 0 {
                break;
            }
            match self.of(&session.key, left.min(OF_SESSION_MAX)).await {
                Ok(messages) => all.extend(messages),
                // It was just removed concurrently.
                Err(Error { kind: ErrorKind::NotFound, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;
    use weft_core::seam::session_store::{Session, SessionMessage};
    use weft_testkit::memory_store::MemoryStore;

    use super::*;

    async fn said(store: &MemoryStore, (tenant, canvas, id, user): (&str, &str, &str, &str), words: &str) {
        let session = Session {
            user_id: user.to_owned(),
            ..Session::new(SessionKey::new(&tenant.into(), id), canvas, "", Json::Null, 0)
        };
        let message = SessionMessage {
            role: "user".to_owned(),
            content: words.to_owned(),
            run: None,
            reference: Json::Null,
            created_ms: 7,
            feedback: None,
        };
        SessionStore::create(store, &session, &[message]).await.unwrap();
    }

    #[tokio::test]
    async fn a_user_finds_only_their_own_conversations_with_this_canvas() {
        let store = MemoryStore::default();
        for (of, words) in [
            (("t", "c", "s1", "ada"), "mine now"),
            (("t", "c", "s2", "ada"), "mine before"),
            (("t", "c", "s3", "bob"), "another user's"),
            (("t", "d", "s4", "ada"), "another canvas's"),
            (("u", "c", "s5", "ada"), "another tenant's"),
            (("t", "c", "s6", ""), "nobody's"),
        ] {
            said(&store, of, words).await;
        }
        let conversations = StoredConversations(Arc::new(store));
        for (session, user, expected) in [
            ("s1", Some("ada"), vec!["mine now", "mine before"]),
            ("s1", None, vec!["mine now"]),
            // Sessions without a user name do not count as one user.
            ("s6", Some(""), vec!["nobody's"]),
        ] {
            let user = user.map(str::to_owned);
            let query = ConversationQuery { canvas: "c".into(), session: session.into(), user };
            let found = conversations.messages(&"t".into(), &query).await.unwrap();
            let found: Vec<_> = found.iter().map(|message| message.content.as_str()).collect();
            assert_eq!(found, expected);
        }
    }
}
