//! Messages as programs see them: an author, and blocks of content that survive a round trip through JSON.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Map;
use weft_core::Json;
use weft_core::tool::{Block, ToolOutput};

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person, or another agent that talks to this one.
    User,
    /// The agent.
    Assistant,
    /// The environment: instructions, and results of tools.
    System,
}

/// One message. Its JSON has the same fields; `content` may also be a plain string.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// A unique id. All chunks of a message that is still being written share it.
    pub id: String,
    /// The name of the author.
    pub name: String,
    /// The role of the author.
    pub role: Role,
    /// The content.
    #[serde(deserialize_with = "blocks")]
    pub content: Vec<ContentBlock>,
    /// Additional data for programs, such as a structured answer.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Json>,
    /// When it began, in milliseconds since 1970-01-01 UTC; 0 when unknown.
    #[serde(default)]
    pub timestamp_ms: i64,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A model's reasoning.
    Thinking {
        /// The reasoning.
        thinking: String,
        /// The provider's signature of it, which has to be sent back with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A call of a tool.
    ToolUse(ToolUse),
    /// The result of a call.
    ToolResult(ToolResult),
    /// A picture.
    Image {
        /// Where it is.
        source: Source,
    },
    /// A recording of sound.
    Audio {
        /// Where it is.
        source: Source,
    },
    /// A video.
    Video {
        /// Where it is.
        source: Source,
    },
}

/// A call of a tool, as a model asks for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Unique within a conversation; its result has the same id.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// Its arguments.
    pub input: Map<String, Json>,
    /// The arguments as the model wrote them, when they are not plain JSON or not complete yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<String>,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The content of the result: a string, or blocks of text, image, audio and video.
    #[serde(deserialize_with = "blocks")]
    pub output: Vec<ContentBlock>,
}

/// Where the bytes of a picture or a recording are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Source {
    /// Inline.
    Base64 {
        /// Their media type, such as `image/png`.
        media_type: String,
        /// The bytes.
        data: String,
    },
    /// At a URL.
    Url {
        /// The address.
        url: String,
    },
}

impl Source {
    /// Reads a URL; a base64 data URL becomes its bytes.
    pub fn of_url(url: &str) -> Self {
        // Stored as bytes in a block of their own kind: as a URL, a megabyte of data would be shown to the model as
        // text.
        let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        match inline {
            Some((media_type, data)) => {
                Self::Base64 { media_type: media_type.to_owned(), data: data.to_owned() }
            }
            None => Self::Url { url: url.to_owned() },
        }
    }

    /// The URL; for bytes, a data URL.
    pub fn to_url(&self) -> String {
        match self {
            Self::Base64 { media_type, data } => format!("data:{media_type};base64,{data}"),
            Self::Url { url } => url.clone(),
        }
    }
}

/// Content as a list of blocks or as a single string.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawContent {
    Text(String),
    Blocks(Vec<ContentBlock>),
}

fn blocks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ContentBlock>, D::Error> {
    Ok(match RawContent::deserialize(deserializer)? {
        RawContent::Text(text) => vec![ContentBlock::text(text)],
        RawContent::Blocks(blocks) => blocks,
    })
}

/// A kind of content, for [`Message::blocks_of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// [`ContentBlock::Text`]
    Text,
    /// [`ContentBlock::Thinking`]
    Thinking,
    /// [`ContentBlock::ToolUse`]
    ToolUse,
    /// [`ContentBlock::ToolResult`]
    ToolResult,
    /// [`ContentBlock::Image`]
    Image,
    /// [`ContentBlock::Audio`]
    Audio,
    /// [`ContentBlock::Video`]
    Video,
}

impl ContentBlock {
    /// A block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Which kind it is.
    pub fn kind(&self) -> BlockKind {
        match self {
            Self::Text { .. } => BlockKind::Text,
            Self::Thinking { .. } => BlockKind::Thinking,
            Self::ToolUse(_) => BlockKind::ToolUse,
            Self::ToolResult(_) => BlockKind::ToolResult,
            Self::Image { .. } => BlockKind::Image,
            Self::Audio { .. } => BlockKind::Audio,
            Self::Video { .. } => BlockKind::Video,
        }
    }
}

/// The output of a tool as content. A resource becomes text, or a video if it is one.
pub fn content_of(output: &ToolOutput) -> Vec<ContentBlock> {
    let content = |block: &Block| match block {
        Block::Text { text } => ContentBlock::text(text),
        Block::Image { url } => ContentBlock::Image { source: Source::of_url(url) },
        Block::Audio { url } => ContentBlock::Audio { source: Source::of_url(url) },
        Block::Resource { uri, media_type: Some(media_type), text: None }
            if media_type.starts_with("video/") =>
        {
            ContentBlock::Video { source: Source::of_url(uri) }
        }
        Block::Resource { .. } => {
            let alone = ToolOutput { blocks: vec![block.clone()], ..ToolOutput::default() };
            ContentBlock::text(alone.to_text())
        }
    };
    output.blocks.iter().map(content).collect()
}

/// The content as text, for a model that reads only text; calls and results of tools are left out.
pub(crate) fn text_of(content: &[ContentBlock]) -> String {
    let shown = |what: &str, source: &Source| match source {
        Source::Base64 { .. } => format!("[{what}]"),
        // A model would read the bytes as text.
        Source::Url { url } if url.starts_with("data:") => format!("[{what}]"),
        Source::Url { url } => format!("[{what}: {url}]"),
    };
    let parts = content.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.clone()),
        ContentBlock::Image { source } => Some(shown("an image", source)),
        ContentBlock::Audio { source } => Some(shown("a recording", source)),
        ContentBlock::Video { source } => Some(shown("a video", source)),
        // These have their own form in the request, or are not sent.
        ContentBlock::Thinking { .. } | ContentBlock::ToolUse(_) | ContentBlock::ToolResult(_) => None,
    });
    parts.collect::<Vec<_>>().join("\n")
}

impl Message {
    /// A message with a new id.
    pub fn new(role: Role, name: impl Into<String>, content: Vec<ContentBlock>) -> Self {
        Self {
            id: weft_core::id::generate(),
            name: name.into(),
            role,
            content,
            metadata: Map::new(),
            timestamp_ms: 0,
        }
    }

    /// A message of a person, under the name `user`.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, "user", vec![ContentBlock::text(text)])
    }

    /// The result of a tool call: a message of the system with one block.
    pub fn tool_result(result: ToolResult) -> Self {
        Self::new(Role::System, "system", vec![ContentBlock::ToolResult(result)])
    }

    /// Sets its time, unless it has one.
    pub(crate) fn stamped(mut self, now_ms: i64) -> Self {
        if self.timestamp_ms == 0 {
            self.timestamp_ms = now_ms;
        }
        self
    }

    /// Its text blocks, separated by line breaks.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            ContentBlock::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Its blocks of one kind, in order.
    pub fn blocks_of(&self, kind: BlockKind) -> impl Iterator<Item = &ContentBlock> {
        self.content.iter().filter(move |block| block.kind() == kind)
    }

    /// Whether it has blocks of this kind.
    pub fn has(&self, kind: BlockKind) -> bool {
        self.blocks_of(kind).next().is_some()
    }

    /// The calls that it asks for.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(call),
            _ => None,
        })
    }

    /// The results that it contains.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolResult(result) => Some(result),
            _ => None,
        })
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::user(text)
    }
}
