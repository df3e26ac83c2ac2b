//! In-memory records of the models that runs have used.

use std::collections::BTreeMap;

use weft_core::id::{RunId, RunKey, TenantId};
use weft_core::seam::UsageStore;
use weft_core::seam::run_store::FinishedRun;
use weft_core::seam::usage_store::{UsageBy, UsageFilter, UsageLine};
use weft_core::usage::{ModelUse, UsageOwner};
use weft_core::{Result, async_trait};

use super::{MemoryStore, StoreTables};

const DAY_MS: i64 = 86_400_000;

pub(super) type Uses = Vec<Noted>;

pub(super) struct Noted {
    pub(super) tenant: TenantId,
    run: RunId,
    day: i64,
    canvas: String,
    session: String,
    user: String,
    what: ModelUse,
}

impl Noted {
    fn side(&self, side: UsageBy) -> String {
        match side {
            UsageBy::Day => self.day.to_string(),
            UsageBy::Agent => self.canvas.clone(),
            UsageBy::Node => self.what.node.to_string(),
            UsageBy::Model => self.what.model.to_string(),
            UsageBy::User => self.user.clone(),
            UsageBy::Session => self.session.clone(),
        }
    }
}

impl StoreTables {
    pub(super) fn note_uses(&mut self, key: &RunKey, finished: &FinishedRun) {
        let Some(journal) = self.runs.get(&(key.tenant.clone(), key.id.clone())) else { return };
        let run = &journal.run;
        let home = self.sessions.get(&(key.tenant.clone(), run.session.clone()));
        let user = home.map(|home| home.session.user_id.clone()).unwrap_or_default();
        self.uses.retain(|one| one.tenant != key.tenant || one.run != key.id);
        self.uses.extend(finished.uses.iter().map(|what| Noted {
            tenant: key.tenant.clone(),
            run: key.id.clone(),
            day: finished.at_ms.div_euclid(DAY_MS),
            canvas: run.canvas.to_string(),
            session: run.session.to_string(),
            user: user.clone(),
            what: what.clone(),
        }));
    }
}

#[async_trait]
impl UsageStore for MemoryStore {
    async fn note_usage(&self, owner: &UsageOwner, at_ms: i64, uses: &[ModelUse]) -> Result<()> {
        let run = RunId::generate();
        let mut tables = self.tables();
        let (canvas, session, user) = match owner {
            UsageOwner::Conversation(key) => {
                let Some(home) = tables.sessions.get(&(key.tenant.clone(), key.id.clone())) else {
                    return Ok(());
                };
                let session = &home.session;
                (session.canvas.to_string(), key.id.to_string(), session.user_id.clone())
            }
            UsageOwner::Dataset(_) | UsageOwner::Memory(_) => Default::default(),
        };
        tables.uses.extend(uses.iter().map(|what| Noted {
            tenant: owner.tenant().clone(),
            run: run.clone(),
            day: at_ms.div_euclid(DAY_MS),
            canvas: canvas.clone(),
            session: session.clone(),
            user: user.clone(),
            what: what.clone(),
        }));
        Ok(())
    }

    async fn usage(&self, tenant: &TenantId, filter: &UsageFilter) -> Result<Vec<UsageLine>> {
        let tables = self.tables();
        let wanted = |one: &&Noted| {
            one.tenant == *tenant
                && one.day >= filter.since_day
                && filter.only.iter().all(|(side, value)| one.side(*side) == *value)
        };
        let mut lines: BTreeMap<Vec<String>, UsageLine> = BTreeMap::new();
        for one in tables.uses.iter().filter(wanted) {
            let of: Vec<String> = filter.by.iter().map(|side| one.side(*side)).collect();
            let empty = || UsageLine { of: of.clone(), usage: Default::default(), micros: 0 };
            let line = lines.entry(of.clone()).or_insert_with(empty);
            line.usage += one.what.usage;
            line.micros += one.what.micros;
        }
        let mut lines: Vec<UsageLine> = lines.into_values().collect();
        lines.sort_by_key(|line| std::cmp::Reverse((line.micros, line.usage.total_tokens())));
        lines.truncate(usize::try_from(filter.limit).unwrap_or(usize::MAX));
        Ok(lines)
    }

    async fn prune_usage(&self, tenant: &TenantId, before_day: i64) -> Result<u64> {
        let uses = &mut self.tables().uses;
        let before = uses.len();
        uses.retain(|one| one.tenant != *tenant || one.day >= before_day);
        Ok((before - uses.len()) as u64)
    }
}
