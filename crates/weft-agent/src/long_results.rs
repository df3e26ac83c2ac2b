//! Results that are too long for a conversation: they are stored in a file that the model reads part by part.

use std::sync::Arc;

use serde_json::{Map, json};
use weft_core::effect::Delivery;
use weft_core::id::FileId;
use weft_core::tool::{
    Invocation, Origin, Purpose, Tool, ToolBody, ToolOutput, ToolSession as _, ToolStream, once,
};
use weft_core::{Error, Json, NodeContext, Result};

use crate::run_files;
use crate::toolkit::Toolkit;
use crate::window::tokens;

/// The name of the tool that reads them.
pub const READ_FUNCTION: &str = "read_result";

/// Characters of a long result that the model sees immediately.
// Enough to see what it is, and usually to know whether the rest is needed.
const HEAD_LETTERS: usize = 2_000;
/// Default number of characters of one read.
const PART_LETTERS: usize = 8_000;
/// Maximum number of characters of one read.
// About as many tokens as a result may have in the conversation by default.
const PART_LETTERS_MAX: usize = 40_000;
/// The prefix of the names of the files.
const FILE_PREFIX: &str = "result-";

/// A result that was stored in a file.
pub(crate) struct Shelved {
    /// The file.
    pub file: FileId,
    /// The text that replaces the result for the model.
    pub text: String,
}

/// Stores the text of a result in a file when it has more tokens than allowed; `reader` is the name of the tool that
/// reads it.
///
/// # Errors
/// The errors of storing it.
pub(crate) async fn shelve(
    ctx: &NodeContext,
    tool: &str,
    text: &str,
    reader: &str,
    tokens_max: usize,
) -> Result<Option<Shelved>> {
    if tokens(text) <= tokens_max {
        return Ok(None);
    }
    let name = format!("{FILE_PREFIX}{tool}.txt");
    let keep = async { run_files::keep(ctx, &name, "text/plain", text.as_bytes().to_vec().into()).await };
    // As an effect: a run that resumes after an interruption refers the model to the same file.
    let (file, _) = ctx.effect("file", Delivery::Idempotent, keep).await?;
    let letters = text.chars().count();
    let head: String = text.chars().take(HEAD_LETTERS).collect();
    let text = format!(
        "{head}\n[… the result has {letters} letters, of which these are the first {HEAD_LETTERS}. Read on with {reader}: \
         {{\"id\": \"{}\", \"offset\": {HEAD_LETTERS}}}, or look for a text in it with `find`.]",
        file.id
    );
    Ok(Some(Shelved { file: file.id, text }))
}

/// Adds the tool that reads long results to a toolkit that has other tools.
///
/// # Errors
/// The errors of registering it.
pub fn add_reader(tools: &Toolkit) -> Result<()> {
    if !tools.tools().is_empty() {
        tools.register_own(read_tool())?;
    }
    Ok(())
}

fn read_tool() -> Tool {
    let description = "Reads a part of a tool's result that was too long to be shown. The result was put into a file; \
        its id stands at the end of what was shown of it.";
    let parameters = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "the id of the file"},
            "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "the letter to begin at"},
            "length": {"type": "integer", "minimum": 1, "maximum": PART_LETTERS_MAX, "default": PART_LETTERS,
                "description": "how many letters"},
            "find": {"type": "string",
                "description": "begin where this text stands next, at or after `offset`, instead of at `offset`"},
        },
        "required": ["id"],
    });
    let mut tool =
        Tool::new(READ_FUNCTION, description, parameters, Origin::Function, Arc::new(ReadLongResult));
    tool.traits.purpose = Purpose::ReadsResults;
    // Files do not change, so an interrupted read may be repeated.
    tool.traits.idempotent = true;
    tool
}

struct ReadLongResult;

impl ToolBody for ReadLongResult {
    fn call(&self, invocation: Invocation) -> ToolStream {
        once(async move { read(&invocation.agent, &invocation.arguments).await })
    }
}

async fn read(ctx: &NodeContext, arguments: &Map<String, Json>) -> Result<ToolOutput> {
    let whole = |name: &str| arguments.get(name).and_then(Json::as_u64).and_then(|n| usize::try_from(n).ok());
    let id = arguments.get("id").and_then(Json::as_str).unwrap_or_default();
    let unknown = || {
        Error::not_found(format!("there is no result `{id}`"))
            .help("use the id that stands at the end of the result that was too long")
    };
    let (file, bytes) =
        ctx.run.seams.files.read(&ctx.run.tenant, &id.into()).await.map_err(|error| match error.kind {
            weft_core::ErrorKind::NotFound => unknown(),
            _ => error,
        })?;
    // Only result files of this conversation may be read.
    if file.session.as_ref() != Some(&ctx.run.session) || !file.name.starts_with(FILE_PREFIX) {
        return Err(unknown());
    }
    let text = String::from_utf8_lossy(&bytes);
    let length = whole("length").unwrap_or(PART_LETTERS).clamp(1, PART_LETTERS_MAX);
    let find = arguments.get("find").and_then(Json::as_str).filter(|find| !find.is_empty());
    Ok(ToolOutput::text(part(&text, whole("offset").unwrap_or(0), length, find)))
}

/// A number of characters of a text, with a line that gives their position.
fn part(text: &str, offset: usize, length: usize, find: Option<&str>) -> String {
    let letters = text.chars().count();
    let byte = |offset: usize| text.char_indices().nth(offset).map_or(text.len(), |(at, _)| at);
    let mut start = byte(offset);
    if let Some(find) = find {
        match text[start..].find(find) {
            Some(at) => start += at,
            None => return format!("`{find}` does not stand at or after letter {offset} of {letters}"),
        }
    }
    let first = text[..start].chars().count();
    let shown: String = text[start..].chars().take(length).collect();
    let end = first + shown.chars().count();
    format!("[letters {first} to {end} of {letters}]\n{shown}")
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn parts_are_counted_in_characters() {
        let text = "añb 語 tail";
        assert_eq!(part(text, 0, 3, None), "[letters 0 to 3 of 10]\nañb");
        assert_eq!(part(text, 4, 1, None), "[letters 4 to 5 of 10]\n語");
        assert_eq!(part(text, 8, 40_000, None), "[letters 8 to 10 of 10]\nil");
        assert_eq!(part(text, 99, 5, None), "[letters 10 to 10 of 10]\n");
        assert_eq!(part(text, 0, 4, Some("tail")), "[letters 6 to 10 of 10]\ntail");
        assert_eq!(part(text, 7, 4, Some("tail")), "`tail` does not stand at or after letter 7 of 10");
    }
}
