//! Notifications: a run has failed, a budget is nearly used up, a task is overdue.
//!
//! A notification is recorded in the store under a key derived from the event, by the process that detects it; any
//! process may then deliver it, by a signed webhook call and by mail, with retries until it is delivered or given up.

mod deliver;
mod message;
mod watch;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use weft_core::seam::notice_store::{Notice, NoticeKey, NoticeKind};
use weft_core::seam::task_store::Task;
use weft_core::seam::{Http, Mailer, NoticeStore};
use weft_core::{Json, Result, TenantId};

use crate::config::NotificationsConfig;
use crate::rates::Rates;

pub use self::deliver::{SIGNATURE_HEADER, TIMESTAMP_HEADER};

/// Maximum number of cached keys of notifications that this process has recorded, so that they are not written each
/// time.
const SEEN_MAX: usize = 10_000;

/// Records and delivers notifications. Clones share the same state.
#[derive(Clone)]
pub struct Notifications {
    /// Stores waiting notifications.
    pub store: Arc<dyn NoticeStore>,
    pub(crate) config: Arc<NotificationsConfig>,
    http: Arc<dyn Http>,
    mailer: Arc<dyn Mailer>,
    rates: Arc<Rates<TenantId>>,
    seen: Arc<Mutex<HashSet<NoticeKey>>>,
}

impl std::fmt::Debug for Notifications {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notifications").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Notifications {
    /// Creates notifications that are delivered from `store` by the settings, with these clients.
    pub fn new(
        store: Arc<dyn NoticeStore>,
        config: NotificationsConfig,
        http: Arc<dyn Http>,
        mailer: Arc<dyn Mailer>,
    ) -> Self {
        let (config, rates, seen) = (Arc::new(config), Arc::default(), Arc::default());
        Self { store, config, http, mailer, rates, seen }
    }

    /// Records notifications, unless this process has already recorded them.
    ///
    /// # Errors
    /// As [`NoticeStore::push_notices`].
    pub async fn note(&self, mut notices: Vec<Notice>) -> Result<()> {
        // Not held while the store writes: recording twice uses the same key.
        {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            notices.retain(|notice| !seen.contains(&notice.key));
        }
        if notices.is_empty() {
            return Ok(());
        }
        self.store.push_notices(&notices).await?;
        // Marked only after they were stored: failed ones are tried again at the next check.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() + notices.len() > SEEN_MAX {
            // Forgotten keys cost one more write each, which stores nothing new.
            seen.clear();
        }
        seen.extend(notices.into_iter().map(|notice| notice.key));
        Ok(())
    }
}

/// Returns the notification that a task is overdue.
pub(crate) fn overdue(task: &Task, at_ms: i64) -> Notice {
    let subject = task.key.id.as_str().to_owned();
    let key = NoticeKey { tenant: task.key.tenant.clone(), kind: NoticeKind::TaskOverdue, subject };
    Notice { key, said: Json::Object(serde_json::Map::new()), at_ms }
}
