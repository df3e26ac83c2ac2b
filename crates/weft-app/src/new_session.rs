//! Creation of conversations, with a canvas or with an assistant.

use std::sync::Arc;

use weft_core::seam::session_store::{Session, SessionMessage};
use weft_core::{CanvasKey, Json, Result, SessionId, SessionKey};
use weft_engine::SessionState;

/// Maximum length of a session's name, in characters.
const NAME_CHARS_MAX: usize = 255;

/// An earlier message: its role (`user`, `assistant`) and its text.
pub type Said = (&'static str, String);

/// Properties of a conversation that is to be created.
#[derive(Clone, Debug, Default)]
pub struct NewSession<'a> {
    /// The user who owns it.
    pub user_id: &'a str,
    /// Its id; generated if absent.
    pub id: Option<SessionId>,
    /// Its name in lists, which is cut to a readable length.
    pub name: &'a str,
    /// Earlier messages that it continues.
    pub before: &'a [Said],
}

impl NewSession<'_> {
    /// Returns the session in this state for the store.
    pub(crate) fn session(
        &self,
        canvas: &CanvasKey,
        version: &Arc<str>,
        state: SessionState,
        now_ms: i64,
    ) -> Result<Session> {
        // They count for `sys.conversation_turns`, by which canvases recognize a first question.
        let turns = self.before.iter().filter(|(role, _)| *role == "user").count() as u64;
        Ok(Session {
            user_id: self.user_id.to_owned(),
            name: named(self.name),
            ..Session::new(
                SessionKey::new(&canvas.tenant, self.id.clone().unwrap_or_else(SessionId::generate)),
                canvas.id.clone(),
                Arc::clone(version),
                SessionState { turns, ..state }.to_json()?,
                now_ms,
            )
        })
    }
}

/// Returns a name for lists of sessions, cut to a readable length.
pub(crate) fn named(text: &str) -> String {
    text.chars().take(NAME_CHARS_MAX).collect()
}

/// Converts earlier messages into messages of this time.
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
