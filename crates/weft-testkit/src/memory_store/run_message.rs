//! In-memory messages that wait for runs.

use weft_core::id::{ProcessId, RunKey};
use weft_core::seam::RunMessages;
use weft_core::seam::run_messages::{MESSAGES_MAX, RunMessage, too_many};
use weft_core::{Result, async_trait};

use super::{MemoryStore, conflict};

#[async_trait]
impl RunMessages for MemoryStore {
    async fn leave_message(&self, message: &RunMessage) -> Result<bool> {
        let mut tables = self.tables();
        let at = (message.run.tenant.clone(), message.run.id.clone());
        if tables.runs.get(&at).is_none_or(|journal| journal.run.ending.is_some()) {
            return Ok(false);
        }
        let waiting: Vec<_> = tables.run_messages.iter().filter(|waits| waits.run == message.run).collect();
        if waiting.len() >= MESSAGES_MAX {
            return Err(too_many());
        }
        if waiting.iter().any(|waits| waits.id == message.id) {
            return Err(conflict("this message waits for the run already".to_owned()));
        }
        tables.run_messages.push(message.clone());
        Ok(true)
    }

    async fn messages_for(&self, owner: &ProcessId, count_max: u64) -> Result<Vec<RunMessage>> {
        let tables = self.tables();
        let is_its = |message: &&RunMessage| {
            let at = (message.run.tenant.clone(), message.run.id.clone());
            let run = tables.runs.get(&at).map(|journal| &journal.run);
            run.is_some_and(|run| run.ending.is_none() && run.owner.as_ref() == Some(owner))
        };
        let mut found: Vec<_> = tables.run_messages.iter().filter(is_its).cloned().collect();
        found.sort_by(|a, b| (a.sent_ms, &a.id).cmp(&(b.sent_ms, &b.id)));
        found.truncate(usize::try_from(count_max).unwrap_or(usize::MAX));
        Ok(found)
    }

    async fn message_waits(&self, run: &RunKey, id: &str) -> Result<bool> {
        Ok(self.tables().run_messages.iter().any(|message| message.run == *run && message.id == id))
    }

    async fn remove_messages(&self, run: &RunKey, ids: &[String]) -> Result<u64> {
        let mut tables = self.tables();
        let before = tables.run_messages.len();
        tables.run_messages.retain(|message| message.run != *run || !ids.contains(&message.id));
        Ok((before - tables.run_messages.len()) as u64)
    }
}
