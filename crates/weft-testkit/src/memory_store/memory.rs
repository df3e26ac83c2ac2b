//! Memories of agents.

use std::collections::BTreeMap;

use weft_core::id::{MemoryId, MemoryKey, TenantId};
use weft_core::seam::memory_store::{
    Extraction, ExtractionOutcome, MEMORIES_MAX, Memory, MemoryMessage, MemorySettings, MessageFilter,
    MessageSize, MessageStatus, NewMessage, TakenMessage, free_name, room,
};
use weft_core::{Error, ErrorKind, Result, async_trait};

use super::MemoryStore;

/// A memory with its messages.
pub(super) struct KeptMemory {
    memory: Memory,
    messages: BTreeMap<i64, MessageRow>,
    last: i64,
}

struct MessageRow {
    message: MemoryMessage,
    origin: Option<String>,
    due_ms: Option<i64>,
    attempts: u32,
}

impl MessageRow {
    fn size(&self) -> MessageSize {
        (self.message.number, self.message.message.size(), self.message.forgotten_ms.is_some())
    }
}

pub(super) type MemoryTable = BTreeMap<(TenantId, MemoryId), KeptMemory>;

fn at(key: &MemoryKey) -> (TenantId, MemoryId) {
    (key.tenant.clone(), key.id.clone())
}

fn missing(key: &MemoryKey) -> Error {
    Error::not_found(format!("there is no memory `{}`", key.id))
}

fn conflict(what: &str) -> Error {
    Error::new(ErrorKind::Conflict, what)
}

impl KeptMemory {
    fn make_room(&mut self, needed: u64, kept: Option<i64>) -> Result<()> {
        let sizes: Vec<MessageSize> = self.messages.values().map(MessageRow::size).collect();
        let (fixed, sizes): (Vec<_>, Vec<_>) =
            sizes.into_iter().partition(|(number, ..)| Some(*number) == kept);
        let needed = fixed.iter().fold(needed, |sum, (_, size, _)| sum + size);
        for number in room(sizes, needed, self.memory.settings.size_max)? {
            self.messages.remove(&number);
        }
        Ok(())
    }

    fn push(&mut self, message: &NewMessage, source: Option<i64>) -> &mut MessageRow {
        self.last += 1;
        let number = self.last;
        let message = MemoryMessage {
            number,
            message: message.clone(),
            source,
            forgotten_ms: None,
            enabled: true,
            extraction: Extraction::Done,
        };
        self.messages.entry(number).or_insert(MessageRow { message, origin: None, due_ms: None, attempts: 0 })
    }

    fn there(&mut self, number: i64) -> Result<&mut MessageRow> {
        let found = self.messages.get_mut(&number).filter(|row| row.message.forgotten_ms.is_none());
        found.ok_or_else(|| Error::not_found(format!("there is no message {number}")))
    }
}

fn free(memories: &MemoryTable, key: &MemoryKey, wanted: &str) -> String {
    let others = memories.iter().filter(|((tenant, id), _)| *tenant == key.tenant && *id != key.id);
    let others: Vec<String> = others.map(|(_, kept)| kept.memory.settings.name.clone()).collect();
    free_name(wanted, &others)
}

fn fits(filter: &MessageFilter, message: &MemoryMessage) -> bool {
    let of = &message.message;
    let lower = |text: &str| text.to_lowercase();
    message.forgotten_ms.is_none()
        && filter.kind.is_none_or(|kind| of.kind == kind)
        && filter
            .sources
            .as_ref()
            .is_none_or(|some| message.source.is_some_and(|source| some.contains(&source)))
        && (filter.agents.is_empty() || filter.agents.contains(&of.agent))
        && filter.session.as_ref().is_none_or(|session| of.session == *session)
        && filter.session_holds.as_ref().is_none_or(|part| lower(&of.session).contains(&lower(part)))
        && filter.user.as_ref().is_none_or(|user| of.user == *user)
        && (!filter.found_only || message.enabled)
}

#[async_trait]
impl weft_core::seam::MemoryStore for MemoryStore {
    async fn create(&self, memory: &Memory) -> Result<Memory> {
        let memories = &mut self.tables().memories;
        if memories.keys().filter(|(tenant, _)| *tenant == memory.key.tenant).count() >= MEMORIES_MAX {
            return Err(Error::new(ErrorKind::QuotaExceeded, "there are too many memories"));
        }
        if memories.contains_key(&at(&memory.key)) {
            return Err(conflict("the memory is there already"));
        }
        let mut memory = memory.clone();
        memory.settings.name = free(memories, &memory.key, &memory.settings.name);
        let kept = KeptMemory { memory: memory.clone(), messages: BTreeMap::new(), last: 0 };
        memories.insert(at(&memory.key), kept);
        Ok(memory)
    }

    async fn get(&self, key: &MemoryKey) -> Result<Memory> {
        let found = self.tables().memories.get(&at(key)).map(|kept| kept.memory.clone());
        // Like a store on disk: other tasks run before the result arrives.
        tokio::task::yield_now().await;
        found.ok_or_else(|| missing(key))
    }

    async fn list(&self, tenant: &TenantId) -> Result<Vec<Memory>> {
        let tables = self.tables();
        let own = tables.memories.iter().filter(|((owner, _), _)| owner == tenant);
        let mut own: Vec<Memory> = own.map(|(_, kept)| kept.memory.clone()).collect();
        own.sort_by_key(|memory| std::cmp::Reverse((memory.created_ms, memory.key.id.clone())));
        Ok(own)
    }

    async fn change(&self, seen: &Memory, settings: &MemorySettings, now_ms: i64) -> Result<Option<Memory>> {
        let memories = &mut self.tables().memories;
        let name = free(memories, &seen.key, &settings.name);
        let Some(kept) = memories.get_mut(&at(&seen.key)) else { return Ok(None) };
        let before = &kept.memory.settings;
        if *before != seen.settings {
            return Ok(None);
        }
        if (before.embedder != settings.embedder || before.types != settings.types)
            && !kept.messages.is_empty()
        {
            return Err(conflict("the memory has messages"));
        }
        kept.memory.settings = MemorySettings { name, ..settings.clone() };
        kept.memory.updated_ms = now_ms;
        kept.make_room(0, None)?;
        Ok(Some(kept.memory.clone()))
    }

    async fn delete(&self, key: &MemoryKey) -> Result<()> {
        self.tables().memories.remove(&at(key)).map(drop).ok_or_else(|| missing(key))
    }

    async fn add(&self, key: &MemoryKey, origin: &str, message: &NewMessage, now_ms: i64) -> Result<i64> {
        let memories = &mut self.tables().memories;
        let kept = memories.get_mut(&at(key)).ok_or_else(|| missing(key))?;
        if let Some(known) = kept.messages.values().find(|row| row.origin.as_deref() == Some(origin)) {
            return Ok(known.message.number);
        }
        kept.make_room(message.size(), None)?;
        let row = kept.push(message, None);
        (row.origin, row.due_ms) = (Some(origin.to_owned()), Some(now_ms));
        row.message.extraction = Extraction::Pending { problem: String::new() };
        Ok(row.message.number)
    }

    async fn message(&self, key: &MemoryKey, number: i64) -> Result<MemoryMessage> {
        let memories = &mut self.tables().memories;
        let kept = memories.get_mut(&at(key)).ok_or_else(|| missing(key))?;
        Ok(kept.there(number)?.message.clone())
    }

    async fn messages(&self, key: &MemoryKey, filter: &MessageFilter) -> Result<(Vec<MemoryMessage>, u64)> {
        let tables = self.tables();
        let Some(kept) = tables.memories.get(&at(key)) else { return Ok((Vec::new(), 0)) };
        let all = kept.messages.values().rev().map(|row| &row.message);
        let mut found: Vec<MemoryMessage> = all.filter(|message| fits(filter, message)).cloned().collect();
        let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let total = found.len() as u64;
        found.retain(|message| filter.after.is_none_or(|after| message.number < after));
        Ok((found.into_iter().skip(count(filter.offset)).take(count(filter.limit)).collect(), total))
    }

    async fn set_status(&self, key: &MemoryKey, number: i64, status: MessageStatus) -> Result<()> {
        let memories = &mut self.tables().memories;
        let kept = memories.get_mut(&at(key)).ok_or_else(|| missing(key))?;
        kept.there(number)?.message.enabled = status == MessageStatus::Enabled;
        Ok(())
    }

    async fn forget(&self, key: &MemoryKey, number: i64, now_ms: i64) -> Result<()> {
        let memories = &mut self.tables().memories;
        let kept = memories.get_mut(&at(key)).ok_or_else(|| missing(key))?;
        kept.there(number)?.message.forgotten_ms = Some(now_ms);
        Ok(())
    }

    async fn remove_of_user(&self, tenant: &TenantId, user: &str) -> Result<()> {
        let memories = &mut self.tables().memories;
        let own = memories.iter_mut().filter(|((owner, _), _)| owner == tenant);
        own.for_each(|(_, kept)| kept.messages.retain(|_, row| row.message.message.user != user));
        Ok(())
    }

    async fn take(&self, now_ms: i64, until_ms: i64, count_max: u64) -> Result<Vec<TakenMessage>> {
        let memories = &mut self.tables().memories;
        let rows = memories.values_mut().flat_map(|kept| {
            let key = kept.memory.key.clone();
            kept.messages.values_mut().map(move |row| (key.clone(), row))
        });
        let mut due: Vec<(MemoryKey, &mut MessageRow)> =
            rows.filter(|(_, row)| row.due_ms.is_some_and(|due| due <= now_ms)).collect();
        due.sort_by_key(|(key, row)| (row.due_ms, key.id.clone(), row.message.number));
        let taken =
            due.into_iter().take(usize::try_from(count_max).unwrap_or(usize::MAX)).map(|(memory, row)| {
                (row.due_ms, row.attempts) = (Some(until_ms), row.attempts + 1);
                TakenMessage { memory, message: row.message.clone(), attempts: row.attempts }
            });
        Ok(taken.collect())
    }

    async fn settle(&self, taken: &TakenMessage, outcome: &ExtractionOutcome) -> Result<()> {
        let lost = || conflict("the message is somebody else's");
        let memories = &mut self.tables().memories;
        let kept = memories.get_mut(&at(&taken.memory)).ok_or_else(lost)?;
        let raw = taken.message.number;
        let row = kept.messages.get_mut(&raw).ok_or_else(lost)?;
        if row.due_ms.is_none() || row.attempts != taken.attempts {
            return Err(lost());
        }
        let derived: &[NewMessage] = match outcome {
            ExtractionOutcome::RetryAt { from_ms, problem } => {
                row.due_ms = Some(*from_ms);
                row.message.extraction = Extraction::Pending { problem: problem.clone() };
                &[]
            }
            ExtractionOutcome::Failed { vector, problem } => {
                row.due_ms = None;
                row.message.message.vector.clone_from(vector);
                row.message.extraction = Extraction::Failed(problem.clone());
                &[]
            }
            ExtractionOutcome::Done { vector, derived } => {
                row.due_ms = None;
                row.message.message.vector.clone_from(vector);
                row.message.extraction = Extraction::Done;
                derived
            }
        };
        kept.make_room(derived.iter().map(NewMessage::size).sum(), Some(raw))?;
        for message in derived {
            kept.push(message, Some(raw));
        }
        Ok(())
    }
}
