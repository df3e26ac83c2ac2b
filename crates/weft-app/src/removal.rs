//! Removal of canvases, chat assistants and sessions with everything that belongs to them.

use std::time::Duration;

use tokio::time::Instant;
use weft_core::error::found;
use weft_core::seam::canvas_store::CHAT_TYPE;
use weft_core::seam::run_store::RunFilter;
use weft_core::seam::session_store::Session;
use weft_core::seam::share_store::{ShareTarget, ShareToken};
use weft_core::{CanvasKey, Error, ErrorKind, Result, RunKey, SessionKey};

use crate::app::App;
use crate::chats::{PLAIN, SINGLE};

/// Number of runs read in one batch.
const PAGE: u64 = 500;

/// How long to wait for cancelled runs to stop. A run whose process is gone does not stop at all.
const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// Pauses between checks: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);

impl App {
    /// Removes a canvas with its sessions and runs; runs under way are stopped first.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn remove_canvas(&self, key: &CanvasKey) -> Result<()> {
        if self.canvases.get(key).await?.head.canvas_type == CHAT_TYPE {
            // It is removed together with its assistant.
            return Err(Error::not_found(format!("there is no canvas `{}`", key.id)));
        }
        self.stop_runs_of(key).await?;
        self.canvases.delete(key).await?;
        self.plans.forget(key);
        // After the canvas: a token that is created meanwhile finds the canvas gone, and is removed by its creator.
        let target = ShareTarget::Agent(key.id.clone());
        self.accounts.stores.shares.remove_shares(&key.tenant, &target).await.map(drop)
    }

    /// Removes an assistant with its conversations; runs under way are stopped first.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn remove_chat(&self, key: &CanvasKey) -> Result<()> {
        // The assistant goes first, so that no turn starts that would create its canvas again.
        self.chats.delete(key).await?;
        self.stop_runs_of(key).await?;
        // The canvas only exists after a question. The conversations are removed in any case.
        found(self.canvases.delete(key).await)?;
        self.plans.forget(key);
        let target = ShareTarget::Chat(key.id.clone());
        self.accounts.stores.shares.remove_shares(&key.tenant, &target).await.map(drop)
    }

    /// Removes a session with everything that belongs to it; a run under way is stopped first, and still reports its
    /// end.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn end_session(&self, session: &SessionKey) -> Result<()> {
        // Listed first: a run that ends at this moment may still have to tell its readers.
        let filter = RunFilter {
            session: Some(session.id.clone()),
            unfinished: true,
            limit: PAGE,
            ..RunFilter::default()
        };
        let runs = self.runs.list(&session.tenant, &filter).await?;
        if self.engine.cancel_session(session).await? {
            tracing::info!(session.id = %session.id, "a run is stopped whose session is to be removed");
        }
        self.stop_runs(runs.into_iter().map(|run| run.key).collect()).await?;
        self.remove_session(session).await
    }

    async fn stop_runs_of(&self, key: &CanvasKey) -> Result<()> {
        let mut filter = RunFilter { unfinished: true, limit: PAGE, ..RunFilter::default() };
        let mut of_canvas = Vec::new();
        loop {
            let page = self.runs.list(&key.tenant, &filter).await?;
            // Offsets would shift when runs start or end concurrently.
            filter.after = page.last().map(|run| (run.started_ms, run.key.id.clone()));
            let is_last = (page.len() as u64) < PAGE;
            of_canvas.extend(page.into_iter().filter(|run| run.canvas == key.id).map(|run| run.key));
            if is_last {
                break;
            }
        }
        self.stop_runs(of_canvas).await
    }

    /// Cancels runs and waits a while for their end: only a run that ends before it is removed can report to its
    /// readers how it has ended.
    async fn stop_runs(&self, mut runs: Vec<RunKey>) -> Result<()> {
        for run in &runs {
            self.engine.cancel(run).await?;
        }
        let until = Instant::now() + STOP_TIME_MAX;
        let mut pause = PAUSE_MIN;
        loop {
            let mut left = Vec::new();
            for run in runs {
                let ended = match self.runs.get(&run).await {
                    // Its last entry is only sent after it is stored.
                    Ok(stored) => stored.ending.is_some() && !self.engine.is_under_way(&run),
                    Err(error) if error.kind == ErrorKind::NotFound => true,
                    Err(error) => return Err(error),
                };
                if !ended {
                    left.push(run);
                }
            }
            if left.is_empty() || Instant::now() >= until {
                return Ok(());
            }
            runs = left;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Removes a session again if its canvas, or the version that it is on, was removed while it was stored.
    pub(crate) async fn stays_with_canvas(&self, canvas: &CanvasKey, session: &Session) -> Result<()> {
        let there = self.has_version(canvas, &session.canvas_version).await;
        stays_with(there, self.sessions.delete(&session.key)).await
    }

    async fn has_version(&self, canvas: &CanvasKey, version: &str) -> Result<()> {
        // Nearly every session is on the newest version, which is never removed.
        if *self.canvases.newest(canvas).await? == *version {
            return Ok(());
        }
        self.versions.get_version(canvas, version).await.map(drop)
    }

    /// The same for a conversation with an assistant.
    pub(crate) async fn stays_with_chat(&self, chat: &CanvasKey, session: &SessionKey) -> Result<()> {
        stays_with(self.chat_is_there(chat).await, self.sessions.delete(session)).await
    }

    /// The same for the canvas of an assistant.
    pub(crate) async fn canvas_stays_with_chat(&self, chat: &CanvasKey) -> Result<()> {
        stays_with(self.chat_is_there(chat).await, self.canvases.delete(chat)).await
    }

    /// The same for a share token of an agent or an assistant. A share token of a key is useless without the key.
    pub(crate) async fn share_stays(&self, share: &ShareToken) -> Result<()> {
        let take_back = self.accounts.stores.shares.remove_share(&share.tenant, &share.target, &share.hash);
        let key = CanvasKey::new(&share.tenant, share.target.id().clone());
        match &share.target {
            ShareTarget::Agent(_) => stays_with(self.canvases.newest(&key).await, take_back).await,
            ShareTarget::Chat(_) => stays_with(self.chat_is_there(&key).await, take_back).await,
            ShareTarget::OfKey(_) => Ok(()),
        }
    }

    async fn chat_is_there(&self, chat: &CanvasKey) -> Result<()> {
        match chat.id.as_str() {
            PLAIN | SINGLE => Ok(()),
            _ => self.chats.get(chat).await.map(drop),
        }
    }
}

/// Removes an object again if its owner was removed while it was stored, and returns the reason. Removal deletes an
/// owner before it looks for the owner's objects for the last time, so one of the two sides finds the object.
pub(crate) async fn stays_with<T>(
    owner: Result<T>,
    take_back: impl Future<Output = Result<()>>,
) -> Result<()> {
    let Err(error) = owner else { return Ok(()) };
    if error.kind == ErrorKind::NotFound {
        found(take_back.await)?;
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use weft_core::seam::canvas_store::CanvasHead;
    use weft_core::{Json, TenantId};

    use super::*;
    use crate::{Config, assemble_in_memory};

    #[tokio::test]
    async fn a_session_is_removed_again_if_its_version_was_removed_while_it_was_stored() {
        let app = assemble_in_memory(&Config::default()).await.unwrap();
        let canvas = CanvasKey::new(&TenantId::new("t"), "c");
        let older = app.canvases.put(&canvas, &CanvasHead::default(), "1").await.unwrap().version;
        let newest = app.canvases.put(&canvas, &CanvasHead::default(), "2").await.unwrap().version;
        for (version, stays) in [(&*newest, true), (&*older, true), ("none", false)] {
            let key = SessionKey::new(&canvas.tenant, version);
            let session = Session::new(key, "c", version, Json::Null, 1);
            app.sessions.create(&session, &[]).await.unwrap();
            assert_eq!(app.stays_with_canvas(&canvas, &session).await.is_ok(), stays, "{version}");
            assert_eq!(app.sessions.load(&session.key).await.is_ok(), stays, "{version}");
        }
    }
}
