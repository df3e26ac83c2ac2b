//! How a conversation begins, with a canvas or with an assistant.

use std::sync::Arc;

use weft_core::seam::session_store::{Session, SessionMessage};
use weft_core::{CanvasKey, Json, Result, SessionId, SessionKey};
use weft_engine::SessionState;

/// How long a session's name is at most, in characters.
const NAME_CHARS_MAX: usize = 255;

/// What was said before a conversation: by which role (`user`, `assistant`), and what.
pub type Said = (&'static str, String);

/// What is known of a conversation that is about to begin.
#[derive(Clone, Debug, Default)]
pub struct NewSession<'a> {
    /// Whose it is.
    pub user_id: &'a str,
    /// Its id; one that nobody has when it is not given.
    pub id: Option<SessionId>,
    /// What lists show; it is cut to a readable length.
    pub name: &'a str,
    /// What it goes on with.
    pub before: &'a [Said],
}

impl NewSession<'_> {
    /// The session as it is stored, in this state.
    pub(crate) fn session(
        &self,
        canvas: &CanvasKey,
        version: &Arc<str>,
        state: SessionState,
        now_ms: i64,
    ) -> Result<Session> {
        let turns = self.before.iter().filter(|(role, _)| *role == "user").count() as u64;
        Ok(Session {
            key: SessionKey::new(&canvas.tenant, self.id.clone().unwrap_or_else(SessionId::generate)),
            canvas: canvas.id.clone(),
            canvas_version: Arc::clone(version),
            user_id: self.user_id.to_owned(),
            name: self.name.chars().take(NAME_CHARS_MAX).collect(),
            state: SessionState { turns, ..state }.to_json()?,
            revision: 0,
            created_ms: now_ms,
            updated_ms: now_ms,
        })
    }
}

/// What was said, as messages of this time.
pub(crate) fn messages(said: &[Said], now_ms: i64) -> Vec<SessionMessage> {
    let message = |(role, content): &Said| SessionMessage {
        role: (*role).to_owned(),
        content: content.clone(),
        run: None,
        reference: Json::Null,
        created_ms: now_ms,
        feedback: None,
    };
    said.iter().map(message).collect()
}
