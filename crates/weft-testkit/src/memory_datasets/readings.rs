//! An in-memory log of readings.

use weft_core::id::{DatasetKey, TenantId};
use weft_core::seam::ReadingLog;
use weft_core::seam::dataset_store::DocumentState;
use weft_core::seam::reading_log::{READINGS_MAX, Reading, ReadingFilter};
use weft_core::{Error, Result, async_trait};

use super::{DatasetTables, KeptDocument, MemoryDatasets, bounded, page};

impl KeptDocument {
    /// The log entry for a reading that has just ended, if its state is one that is logged.
    pub(super) fn over(&self, now_ms: i64) -> Option<Reading> {
        let document = &self.document;
        let state = document.state;
        let over = matches!(state, DocumentState::Done | DocumentState::Failed | DocumentState::Cancelled);
        let made = state == DocumentState::Done;
        over.then(|| Reading {
            id: weft_core::id::generate(),
            document: document.key.clone(),
            name: document.name.clone(),
            method: document.method,
            settings: document.settings.clone(),
            state,
            message: if state == DocumentState::Cancelled { String::new() } else { document.message.clone() },
            begun_ms: document.begun_ms,
            ended_ms: now_ms,
            duration_ms: document.duration_ms,
            chunk_count: if made { document.chunk_count } else { 0 },
            token_count: if made { document.token_count } else { 0 },
        })
    }
}

impl DatasetTables {
    pub(super) fn note(&mut self, reading: Reading) {
        let of_it = |one: &&Reading| one.document == reading.document;
        if self.readings.iter().filter(of_it).count() >= bounded(READINGS_MAX)
            && let Some(oldest) = self.readings.iter().position(|one| one.document == reading.document)
        {
            self.readings.remove(oldest);
        }
        self.readings.push(reading);
    }
}

#[async_trait]
impl ReadingLog for MemoryDatasets {
    async fn readings(&self, dataset: &DatasetKey, filter: &ReadingFilter) -> Result<(Vec<Reading>, u64)> {
        let words = filter.keywords.to_lowercase();
        let fits = |reading: &&Reading| {
            reading.document.dataset == *dataset
                && filter.document.as_ref().is_none_or(|id| reading.document.id == *id)
                && (filter.states.is_empty() || filter.states.contains(&reading.state))
                && reading.name.to_lowercase().contains(&words)
                && filter.from_ms.is_none_or(|from| reading.ended_ms >= from)
                && filter.to_ms.is_none_or(|to| reading.ended_ms <= to)
        };
        let mut found: Vec<Reading> = self.tables().readings.iter().filter(fits).cloned().collect();
        found.sort_by_key(|reading| reading.ended_ms);
        if !filter.ascending {
            found.reverse();
        }
        Ok(page(found, filter.offset, filter.limit))
    }

    async fn reading(&self, tenant: &TenantId, id: &str) -> Result<Reading> {
        let tables = self.tables();
        let own = |one: &&Reading| one.id == id && one.document.dataset.tenant == *tenant;
        let found = tables.readings.iter().find(own).cloned();
        found.ok_or_else(|| Error::not_found(format!("there is no reading `{id}`")))
    }

    async fn forget_readings(&self, before_ms: i64) -> Result<u64> {
        let mut tables = self.tables();
        let before = tables.readings.len();
        tables.readings.retain(|reading| reading.ended_ms >= before_ms);
        Ok((before - tables.readings.len()) as u64)
    }
}
