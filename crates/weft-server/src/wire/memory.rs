//! Memories of agents and their messages.

use serde::Serialize;
use serde_json::Value as Json;
use weft_core::TenantId;
use weft_core::id::MemoryId;
use weft_core::seam::memory_store::{
    Extraction, MEMORY_BYTES, MEMORY_BYTES_MAX, Memory, MemoryMessage, MemorySettings, MessageStatus,
    MessageType, NAME_CHARS_MAX,
};

use super::python;
use super::time::{date_and_time, http_date};
use crate::auth::Caller;
use crate::body::{ABOUT_CHARS_MAX, Body, excerpt};
use crate::error::ApiError;

/// Default sampling temperature of the model that extracts from turns.
const TEMPERATURE: f64 = 0.5;

/// Reads the settings of a new memory.
///
/// # Errors
/// 101 naming the field that is missing or is not valid.
pub fn settings(body: &Body, caller: &Caller) -> Result<MemorySettings, ApiError> {
    body.require(&["name", "memory_type", "embd_id", "llm_id"])?;
    let settings = MemorySettings {
        name: String::new(),
        avatar: String::new(),
        description: String::new(),
        types: Vec::new(),
        embedder: String::new(),
        llm_id: String::new(),
        team: false,
        owner: caller.user_id.clone(),
        size_max: MEMORY_BYTES,
        temperature: TEMPERATURE,
        system_prompt: String::new(),
        user_prompt: String::new(),
    };
    changed(body, settings)
}

/// Applies the fields of a request to the settings of a memory; absent fields stay as they are.
///
/// # Errors
/// 101 naming the field that is not valid.
pub fn changed(body: &Body, before: MemorySettings) -> Result<MemorySettings, ApiError> {
    let text = |key: &str, before: String| {
        Ok::<_, ApiError>(body.text_within(key, ABOUT_CHARS_MAX)?.unwrap_or(before))
    };
    let model = |key: &str, before: String| Ok::<_, ApiError>(text(key, before)?.trim().to_owned());
    match body.text("forgetting_policy")? {
        Some(policy) if policy != "FIFO" => {
            return Err(ApiError::argument(format!("Forgetting policy '{policy}' is not supported.")));
        }
        Some(_) | None => {}
    }
    Ok(MemorySettings {
        name: name(body, before.name)?,
        avatar: text("avatar", before.avatar)?,
        description: text("description", before.description)?,
        types: types(body, before.types)?,
        embedder: model("embd_id", before.embedder)?,
        llm_id: model("llm_id", before.llm_id)?,
        team: match body.text("permissions")?.as_deref() {
            None => before.team,
            Some("me") => false,
            Some("team") => true,
            Some(other) => {
                let message = format!("Unknown permission '{}'.", excerpt(other));
                return Err(ApiError::argument(message));
            }
        },
        owner: before.owner,
        size_max: size(body, before.size_max)?,
        temperature: match body.get("temperature") {
            None => before.temperature,
            Some(given) => given
                .as_f64()
                .filter(|given| (0.0..=1.0).contains(given))
                .ok_or_else(|| ApiError::argument("Temperature should be in range [0, 1]."))?,
        },
        system_prompt: text("system_prompt", before.system_prompt)?,
        user_prompt: text("user_prompt", before.user_prompt)?,
    })
}

fn name(body: &Body, before: String) -> Result<String, ApiError> {
    let Some(name) = body.text("name")? else { return Ok(before) };
    let name = name.trim();
    if name.is_empty() {
        return Err(ApiError::argument("Memory name cannot be empty or whitespace."));
    }
    if name.chars().count() > NAME_CHARS_MAX {
        return Err(ApiError::argument(format!("Memory name '{name}' exceeds limit of {NAME_CHARS_MAX}.")));
    }
    Ok(name.to_owned())
}

fn types(body: &Body, before: Vec<MessageType>) -> Result<Vec<MessageType>, ApiError> {
    let Some(given) = body.get("memory_type") else { return Ok(before) };
    let given = given.as_array().ok_or_else(|| ApiError::argument("Memory type must be a list."))?;
    let (mut types, mut unknown) = (Vec::new(), Vec::new());
    for one in given {
        match one.as_str().and_then(MessageType::named) {
            Some(kind) if !types.contains(&kind) => types.push(kind),
            Some(_) => {}
            None => unknown.push(python::quoted(one)),
        }
    }
    if !unknown.is_empty() {
        // The API formats them as a set.
        let message = format!("Memory type '{{{}}}' is not supported.", unknown.join(", "));
        return Err(ApiError::argument(message));
    }
    if types.is_empty() {
        let all = MessageType::ALL.map(MessageType::as_str).join(", ");
        return Err(ApiError::argument(format!("Memory type is empty: choose among {all}.")));
    }
    // Sorted, because a memory with messages rejects different types.
    types.sort();
    Ok(types)
}

fn size(body: &Body, before: u64) -> Result<u64, ApiError> {
    let Some(given) = body.get("memory_size") else { return Ok(before) };
    given.as_u64().filter(|size| (1..=MEMORY_BYTES_MAX).contains(size)).ok_or_else(|| {
        ApiError::argument(format!("Memory size should be in range (0, {MEMORY_BYTES_MAX}] Bytes."))
    })
}

/// A memory with its settings, as the API returns it.
#[derive(Debug, Serialize)]
pub struct MemoryItem {
    id: MemoryId,
    name: String,
    avatar: String,
    tenant_id: TenantId,
    owner_name: String,
    memory_type: Vec<MessageType>,
    storage_type: &'static str,
    embd_id: String,
    llm_id: String,
    permissions: &'static str,
    description: String,
    memory_size: u64,
    forgetting_policy: &'static str,
    temperature: f64,
    system_prompt: String,
    user_prompt: String,
    create_time: i64,
    create_date: String,
    update_time: i64,
    update_date: String,
}

/// The only storage type of messages.
pub const STORAGE: &str = "table";

impl From<Memory> for MemoryItem {
    fn from(memory: Memory) -> Self {
        let Memory { key, settings, created_ms, updated_ms } = memory;
        Self {
            id: key.id,
            name: settings.name,
            avatar: settings.avatar,
            tenant_id: key.tenant,
            owner_name: settings.owner,
            memory_type: settings.types,
            storage_type: STORAGE,
            embd_id: settings.embedder,
            llm_id: settings.llm_id,
            permissions: if settings.team { "team" } else { "me" },
            description: settings.description,
            memory_size: settings.size_max,
            forgetting_policy: "FIFO",
            temperature: settings.temperature,
            system_prompt: settings.system_prompt,
            user_prompt: settings.user_prompt,
            create_time: created_ms,
            create_date: http_date(created_ms),
            update_time: updated_ms,
            update_date: http_date(updated_ms),
        }
    }
}

/// Progress of a model on a turn.
#[derive(Debug, Serialize)]
struct TaskItem {
    /// From 0 to 1, or −1 if it failed.
    progress: f64,
    progress_msg: String,
}

/// A message of a memory.
#[derive(Debug, Serialize)]
pub struct MessageItem {
    message_id: i64,
    message_type: MessageType,
    source_id: Option<i64>,
    memory_id: MemoryId,
    user_id: String,
    agent_id: String,
    agent_name: String,
    session_id: String,
    valid_at: String,
    invalid_at: Option<String>,
    forget_at: Option<String>,
    status: bool,
    content: String,
    task: TaskItem,
    /// The messages derived from it.
    extract: Vec<MessageItem>,
    /// How well it matches the question; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f64>,
    /// Its vector; absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_embed: Option<Vec<f32>>,
}

impl MessageItem {
    /// Builds the representation of a message, with the name of its agent.
    pub fn new(memory: &MemoryId, message: MemoryMessage, agent_name: impl Fn(&str) -> String) -> Self {
        let MemoryMessage { number, message, source, forgotten_ms, enabled, extraction } = message;
        let (progress, progress_msg) = match extraction {
            Extraction::Pending { problem } => (0.0, problem),
            Extraction::Done => (1.0, String::new()),
            Extraction::Failed(problem) => (-1.0, problem),
        };
        Self {
            message_id: number,
            message_type: message.kind,
            source_id: source,
            memory_id: memory.clone(),
            user_id: message.user,
            agent_name: agent_name(&message.agent),
            agent_id: message.agent,
            session_id: message.session,
            valid_at: date_and_time(message.valid_ms),
            invalid_at: message.invalid_ms.map(date_and_time),
            forget_at: forgotten_ms.map(date_and_time),
            status: enabled,
            content: message.content,
            task: TaskItem { progress, progress_msg },
            extract: Vec::new(),
            similarity: None,
            content_embed: None,
        }
    }

    /// Adds the messages derived from it.
    #[must_use]
    pub fn with(self, extract: Vec<Self>) -> Self {
        Self { extract, ..self }
    }

    /// Adds the similarity to the question.
    #[must_use]
    pub fn scored(self, similarity: f64) -> Self {
        Self { similarity: Some(similarity), ..self }
    }

    /// Adds its vector, which is empty without an embedding model.
    #[must_use]
    pub fn embedded(self, vector: Vec<f32>) -> Self {
        Self { content_embed: Some(vector), ..self }
    }

    /// The message number.
    pub fn number(&self) -> i64 {
        self.message_id
    }

    /// The number of the message that it was derived from.
    pub fn source(&self) -> Option<i64> {
        self.source_id
    }
}

/// Reads whether searches should find a message.
///
/// # Errors
/// 101 when the value is not a boolean.
pub fn status(body: &Body) -> Result<MessageStatus, ApiError> {
    match body.get("status").and_then(Json::as_bool) {
        Some(true) => Ok(MessageStatus::Enabled),
        Some(false) => Ok(MessageStatus::Disabled),
        None => Err(ApiError::argument("Status must be a boolean.")),
    }
}
