//! In-memory notices.

use std::collections::BTreeMap;

use weft_core::id::TenantId;
use weft_core::seam::NoticeStore;
use weft_core::seam::notice_store::{
    Notice, NoticeKey, NoticeLease, NoticeOutcome, NoticeState, StoredNotice,
};
use weft_core::{Error, Result, async_trait};

use super::{MemoryStore, StoreTables, conflict, page};

pub(super) type Notices = BTreeMap<NoticeKey, Noted>;

pub(super) struct Noted {
    stored: StoredNotice,
    fence: i64,
}

fn ready_ms(stored: &StoredNotice) -> Option<i64> {
    match stored.state {
        NoticeState::Waiting { from_ms } => Some(from_ms),
        NoticeState::Taken { until_ms } => Some(until_ms),
        NoticeState::Delivered { .. } | NoticeState::GivenUp { .. } => None,
    }
}

impl StoreTables {
    pub(super) fn note(&mut self, notice: &Notice) {
        self.notices.entry(notice.key.clone()).or_insert_with(|| Noted {
            stored: StoredNotice {
                notice: notice.clone(),
                state: NoticeState::Waiting { from_ms: notice.at_ms },
                done: Vec::new(),
                attempts: 0,
                reason: String::new(),
            },
            fence: 0,
        });
    }
}

#[async_trait]
impl NoticeStore for MemoryStore {
    async fn push_notices(&self, notices: &[Notice]) -> Result<()> {
        if notices.iter().any(|notice| notice.key.subject.is_empty()) {
            return Err(Error::invalid("a notice needs a subject"));
        }
        let mut tables = self.tables();
        notices.iter().for_each(|notice| tables.note(notice));
        Ok(())
    }

    async fn take_notices(
        &self,
        now_ms: i64,
        until_ms: i64,
        count_max: u64,
    ) -> Result<Vec<(NoticeLease, StoredNotice)>> {
        let mut tables = self.tables();
        let is_ready = |noted: &&mut Noted| ready_ms(&noted.stored).is_some_and(|ready| ready <= now_ms);
        let mut ready: Vec<&mut Noted> = tables.notices.values_mut().filter(is_ready).collect();
        ready.sort_by_key(|noted| (ready_ms(&noted.stored), noted.stored.notice.key.subject.clone()));
        let take = |noted: &mut Noted| {
            noted.fence += 1;
            noted.stored.attempts += 1;
            noted.stored.state = NoticeState::Taken { until_ms };
            let lease = NoticeLease { key: noted.stored.notice.key.clone(), fence: noted.fence };
            (lease, noted.stored.clone())
        };
        let count_max = usize::try_from(count_max).unwrap_or(usize::MAX);
        Ok(ready.into_iter().take(count_max).map(take).collect())
    }

    async fn settle_notice(&self, lease: &NoticeLease, outcome: &NoticeOutcome) -> Result<()> {
        let mut tables = self.tables();
        let held = |noted: &&mut Noted| {
            noted.fence == lease.fence && matches!(noted.stored.state, NoticeState::Taken { .. })
        };
        let noted = tables.notices.get_mut(&lease.key).filter(held).ok_or_else(|| {
            conflict(format!("the notice of `{}` belongs to another process now", lease.key.subject))
        })?;
        noted.stored.state = outcome.state;
        noted.stored.done.clone_from(&outcome.done);
        noted.stored.reason.clone_from(&outcome.reason);
        Ok(())
    }

    async fn notices(&self, tenant: &TenantId, offset: u64, limit: u64) -> Result<(Vec<StoredNotice>, u64)> {
        let tables = self.tables();
        let of_tenant = tables.notices.values().filter(|noted| noted.stored.notice.key.tenant == *tenant);
        let mut found: Vec<StoredNotice> = of_tenant.map(|noted| noted.stored.clone()).collect();
        let place = |stored: &StoredNotice| {
            let key = &stored.notice.key;
            (stored.notice.at_ms, key.kind.as_str(), key.subject.clone())
        };
        found.sort_by_key(|stored| std::cmp::Reverse(place(stored)));
        Ok(page(found, offset, limit))
    }

    async fn prune_notices(&self, before_ms: i64) -> Result<u64> {
        let notices = &mut self.tables().notices;
        let before = notices.len();
        notices.retain(|_, noted| noted.stored.notice.at_ms >= before_ms);
        Ok((before - notices.len()) as u64)
    }
}
