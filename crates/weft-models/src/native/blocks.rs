//! The blocks of an answer of Anthropic in their order, as far as they have to go back to it beside the words and the
//! calls: genai hands on neither the searches for tools nor where the reasoning stood between them.

use serde_json::{Value as Json, json};

/// Bytes of blocks that go back with one answer, at most. Without them the model searches again.
const BYTES_MAX: usize = 1 << 20;

/// The blocks so far.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    /// The search that is being asked for, with its input as far as it has come.
    open: Option<(Json, String)>,
    searched: bool,
    bytes: usize,
    /// The last frame is one that genai takes for a piece of text, and fails to.
    misread: bool,
}

#[derive(Debug)]
enum Block {
    /// So many bytes of the message's text.
    Text(usize),
    Thinking {
        thinking: String,
        signature: String,
    },
    /// As it is.
    Whole(Json),
}

impl Blocks {
    /// Looks at a frame before genai does.
    pub(super) fn frame(&mut self, event: Option<&str>, data: &str) {
        self.misread = false;
        let parsed = || serde_json::from_str::<Json>(data).unwrap_or_default();
        match event {
            Some("content_block_start") => self.start(parsed()["content_block"].take()),
            // All other pieces come as events of genai.
            Some("content_block_delta") => {
                if let Some((_, input)) = &mut self.open {
                    let delta = &parsed()["delta"];
                    let piece = delta["partial_json"].as_str().unwrap_or_default();
                    // Beyond that it is not kept, and needs no room: what is cut off reads as no object.
                    if input.len() < BYTES_MAX {
                        input.push_str(piece);
                        self.bytes += piece.len();
                    }
                    self.misread = true;
                }
            }
            Some("content_block_stop") => self.stop(),
            _ => {}
        }
    }

    fn start(&mut self, block: Json) {
        self.open = None;
        match block["type"].as_str().unwrap_or_default() {
            "thinking" => {
                self.blocks.push(Block::Thinking { thinking: String::new(), signature: String::new() });
            }
            "redacted_thinking" => self.push(block),
            "server_tool_use" => self.open = Some((block, String::new())),
            kind if is_result(kind) => {
                if let Some(result) = result(&block) {
                    self.push(result);
                }
            }
            _ => {}
        }
    }

    fn stop(&mut self) {
        let Some((block, input)) = self.open.take() else { return };
        let input = if input.is_empty() { Ok(block["input"].clone()) } else { serde_json::from_str(&input) };
        // What is no object was cut off, and was not searched for.
        let Some(input) = input.ok().filter(Json::is_object) else { return };
        self.push(
            json!({"type": "server_tool_use", "id": block["id"], "name": block["name"], "input": input}),
        );
    }

    fn push(&mut self, block: Json) {
        // Hidden reasoning is the only other block that is kept whole.
        self.searched |= block["type"] != "redacted_thinking";
        self.bytes += block.to_string().len();
        self.blocks.push(Block::Whole(block));
    }

    /// Whether what genai has just failed at is a frame of a search. It goes on after that.
    pub(super) fn take_misread(&mut self) -> bool {
        std::mem::take(&mut self.misread)
    }

    pub(super) fn said(&mut self, text: &str) {
        match self.blocks.last_mut() {
            Some(Block::Text(bytes)) => *bytes += text.len(),
            _ => self.blocks.push(Block::Text(text.len())),
        }
    }

    pub(super) fn thought(&mut self, text: &str) {
        if let Some(Block::Thinking { thinking, .. }) = self.blocks.last_mut() {
            thinking.push_str(text);
            self.bytes += text.len();
        }
    }

    pub(super) fn signed(&mut self, seal: &str) {
        if let Some(Block::Thinking { signature, .. }) = self.blocks.last_mut() {
            signature.push_str(seal);
            self.bytes += seal.len();
        }
    }

    /// Whether the model has searched.
    pub(super) fn searched(&self) -> bool {
        self.searched || self.open.is_some()
    }

    /// All of them, as the message's seal has them; see [`super::seal`].
    pub(super) fn packed(&self) -> Option<String> {
        let pack = |block: &Block| match block {
            Block::Text(bytes) => Some(json!({"type": "text", "bytes": bytes})),
            // Without its seal it would be refused.
            Block::Thinking { signature, .. } if signature.is_empty() => None,
            Block::Thinking { thinking, signature } => {
                Some(json!({"type": "thinking", "thinking": thinking, "signature": signature}))
            }
            Block::Whole(block) => Some(block.clone()),
        };
        // All or none: a list with gaps would be refused.
        let fits = self.bytes <= BYTES_MAX;
        fits.then(|| Json::Array(self.blocks.iter().filter_map(pack).collect()).to_string())
    }
}

/// Some answers name the kind of the search in the type of its result; no request may.
fn is_result(kind: &str) -> bool {
    kind.starts_with("tool_search_tool_") && kind.ends_with("result")
}

/// A result with those of its members that a request may hold.
fn result(block: &Json) -> Option<Json> {
    let content = &block["content"];
    let content = match content["tool_references"].as_array() {
        Some(found) => {
            let reference = |one: &Json| {
                json!({"type": "tool_reference", "tool_name": one["tool_name"].as_str()?}).into()
            };
            let found: Vec<Json> = found.iter().filter_map(reference).collect();
            json!({"type": "tool_search_tool_search_result", "tool_references": found})
        }
        None => {
            json!({"type": "tool_search_tool_result_error", "error_code": content["error_code"].as_str()?})
        }
    };
    let id = block["tool_use_id"].as_str()?;
    Some(json!({"type": "tool_search_tool_result", "tool_use_id": id, "content": content}))
}
