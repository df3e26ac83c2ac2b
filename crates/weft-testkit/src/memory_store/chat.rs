//! Chat assistants.

use std::collections::BTreeMap;

use weft_core::id::{CanvasId, CanvasKey, TenantId};
use weft_core::seam::ChatStore;
use weft_core::seam::chat_store::{Chat, ChatFilter, ChatOrder, NAME_CHARS_MAX};
use weft_core::{Error, Result, async_trait};

use super::{MemoryStore, conflict, missing, page};

pub(super) type Chats = BTreeMap<(TenantId, CanvasId), Chat>;

fn at(key: &CanvasKey) -> (TenantId, CanvasId) {
    (key.tenant.clone(), key.id.clone())
}

fn checked(chats: &Chats, chat: &Chat) -> Result<()> {
    if chat.name.is_empty() || chat.name.chars().count() > NAME_CHARS_MAX {
        return Err(Error::invalid("the name of the chat assistant is empty or too long"));
    }
    let folded = chat.name.to_lowercase();
    let taken = chats.values().any(|other| {
        other.key.tenant == chat.key.tenant
            && other.key.id != chat.key.id
            && other.kind == chat.kind
            && other.name.to_lowercase() == folded
    });
    if taken {
        Err(conflict(format!("there is a chat assistant named `{}` already", chat.name)))
    } else {
        Ok(())
    }
}

#[async_trait]
impl ChatStore for MemoryStore {
    async fn create(&self, chat: &Chat) -> Result<()> {
        let chats = &mut self.tables().chats;
        checked(chats, chat)?;
        if chats.contains_key(&at(&chat.key)) {
            return Err(conflict(format!("there is a chat assistant `{}` already", chat.key.id)));
        }
        chats.insert(at(&chat.key), chat.clone());
        Ok(())
    }

    async fn get(&self, key: &CanvasKey) -> Result<Chat> {
        let found = self.tables().chats.get(&at(key)).cloned();
        // Like a store on disk: other tasks run before the result arrives.
        tokio::task::yield_now().await;
        found.ok_or_else(|| missing("chat assistant", key.id.as_str()))
    }

    async fn change(&self, chat: &Chat, now_ms: i64) -> Result<Option<Chat>> {
        let chats = &mut self.tables().chats;
        checked(chats, chat)?;
        let Some(stored) = chats.get_mut(&at(&chat.key)).filter(|stored| stored.revision == chat.revision)
        else {
            return Ok(None);
        };
        *stored = Chat { revision: chat.revision + 1, updated_ms: now_ms, ..chat.clone() };
        Ok(Some(stored.clone()))
    }

    async fn list(&self, tenant: &TenantId, filter: &ChatFilter) -> Result<(Vec<Chat>, u64)> {
        let mut found: Vec<Chat> = self
            .tables()
            .chats
            .values()
            .filter(|chat| {
                chat.key.tenant == *tenant
                    && filter.id.as_ref().is_none_or(|id| *id == chat.key.id)
                    && filter.kind.is_none_or(|kind| kind == chat.kind)
                    && filter.name.as_ref().is_none_or(|name| name.to_lowercase() == chat.name.to_lowercase())
                    && chat.name.to_lowercase().contains(&filter.keywords.to_lowercase())
            })
            .cloned()
            .collect();
        found.sort_by_cached_key(|chat| {
            let (when, name) = match filter.order {
                ChatOrder::Created => (chat.created_ms, String::new()),
                ChatOrder::Updated => (chat.updated_ms, String::new()),
                ChatOrder::Name => (0, chat.name.to_lowercase()),
            };
            (when, name, chat.key.id.clone())
        });
        if !filter.ascending {
            found.reverse();
        }
        Ok(page(found, filter.offset, filter.limit))
    }

    async fn delete(&self, key: &CanvasKey) -> Result<()> {
        let gone = self.tables().chats.remove(&at(key));
        gone.map(drop).ok_or_else(|| missing("chat assistant", key.id.as_str()))
    }
}
