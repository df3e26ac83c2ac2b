//! What people are told without having asked: that a run has failed, a budget is nearly used up, a task is overdue.
//!
//! A fact is noted in the store, under a name that follows from it, by whoever comes to know it; whichever process takes
//! it delivers it, by a call that is signed and by mail, again and again until it is told or given up.

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

/// Facts that this process knows to be noted, so that they are not written again each time that they are seen.
const SEEN_MAX: usize = 10_000;

/// What is needed to tell people something. A clone is another handle to the same.
#[derive(Clone)]
pub struct Notifications {
    /// Where facts wait.
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
    /// Facts in `store` are told as the settings say, by these ways out.
    pub fn new(
        store: Arc<dyn NoticeStore>,
        config: NotificationsConfig,
        http: Arc<dyn Http>,
        mailer: Arc<dyn Mailer>,
    ) -> Self {
        let (config, rates, seen) = (Arc::new(config), Arc::default(), Arc::default());
        Self { store, config, http, mailer, rates, seen }
    }

    /// Notes facts, unless this process has noted them already.
    ///
    /// # Errors
    /// As [`NoticeStore::push_notices`].
    pub async fn note(&self, mut notices: Vec<Notice>) -> Result<()> {
        // Not held while the store writes: what is noted twice has the same name.
        {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            notices.retain(|notice| !seen.contains(&notice.key));
        }
        if notices.is_empty() {
            return Ok(());
        }
        self.store.push_notices(&notices).await?;
        // Marked when they are stored: what could not be is tried again at the next look.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() + notices.len() > SEEN_MAX {
            seen.clear();
        }
        seen.extend(notices.into_iter().map(|notice| notice.key));
        Ok(())
    }
}

/// That nobody has answered a task in time.
pub(crate) fn overdue(task: &Task, at_ms: i64) -> Notice {
    let subject = task.key.id.as_str().to_owned();
    let key = NoticeKey { tenant: task.key.tenant.clone(), kind: NoticeKind::TaskOverdue, subject };
    Notice { key, said: Json::Object(serde_json::Map::new()), at_ms }
}
