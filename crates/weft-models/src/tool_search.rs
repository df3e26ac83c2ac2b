//! Which providers have a search for tools: a request contains all definitions, and the model is shown those that it
//! has searched for.

use weft_core::{Error, Result};

use crate::config::ModelEntry;
use crate::factories::Provider;

/// Maximum number of deferred tools in one request to Anthropic.
const DEFERRED_MAX: usize = 10_000;
/// The first version of Anthropic's models with the search.
const FIRST_VERSION: (u32, u32) = (4, 5);

/// How many tools the provider of a model can defer until they are searched for; 0 when it has no search.
///
/// # Errors
/// `Invalid` for an entry that requires a search with a wire format that has none.
pub(crate) fn deferred_tools_max(entry: &ModelEntry) -> Result<usize> {
    let of_anthropic = entry.wire() == Provider::Anthropic;
    if entry.tool_search == Some(true) && !of_anthropic {
        let error = Error::invalid(format!(
            "`tool_search` of the model `{}` is true, but `{}` does not support tool search",
            entry.name,
            entry.wire().as_str()
        ));
        return Err(error.help("remove it: agents search for their tools themselves"));
    }
    let searches = || entry.tool_search.unwrap_or_else(|| searches(entry.provider_name()));
    Ok(if entry.tools && of_anthropic && searches() { DEFERRED_MAX } else { 0 })
}

/// Whether a model supports the search according to Anthropic's documentation. Older names have the version before
/// the family (`claude-3-5-sonnet`), and a number with many digits is a date.
fn searches(model: &str) -> bool {
    let name = model.to_lowercase();
    let Some((_, rest)) = name.split_once("claude-") else { return false };
    let mut parts = rest.split(|c: char| !c.is_ascii_alphanumeric());
    let family = parts.next().unwrap_or_default();
    let mut number = || parts.next().filter(|part| part.len() <= 2)?.parse::<u32>().ok();
    let Some(major) = number().filter(|_| family.bytes().all(|b| b.is_ascii_alphabetic())) else {
        return false;
    };
    (major, number().unwrap_or(0)) >= FIRST_VERSION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_models_support_tool_search_and_older_ones_do_not() {
        for name in [
            "claude-sonnet-4-5-20250929",
            "claude-opus-4-5",
            "claude-haiku-4-5-20251001",
            "claude-opus-4-8",
            "claude-fable-5",
            "claude-opus-5-5",
            "anthropic/claude-sonnet-4.6",
            "us.anthropic.Claude-Opus-4-6-v1:0",
        ] {
            assert!(searches(name), "{name}");
        }
        for name in [
            "claude-opus-4-1-20250805",
            "claude-sonnet-4-20250514",
            "claude-3-5-sonnet-20241022",
            "claude-3-opus-latest",
            "claude-mythos-preview",
            "claude-",
            "deepseek-chat",
            "",
        ] {
            assert!(!searches(name), "{name}");
        }
    }

    #[test]
    fn an_entry_overrides_the_tool_search_support_of_its_wire() {
        let check = |change: fn(&mut ModelEntry), expected: Option<usize>| {
            let mut entry = ModelEntry::new("claude-sonnet-4-5", Provider::Anthropic);
            change(&mut entry);
            assert_eq!(deferred_tools_max(&entry).ok(), expected, "{entry:?}");
        };
        check(|_| {}, Some(DEFERRED_MAX));
        check(|entry| entry.tool_search = Some(false), Some(0));
        check(|entry| entry.tools = false, Some(0));
        check(|entry| entry.model = Some("own".into()), Some(0));
        check(
            |entry| (entry.model, entry.tool_search) = (Some("own".into()), Some(true)),
            Some(DEFERRED_MAX),
        );
        check(|entry| entry.provider = Some(Provider::OpenAi), Some(0));
        check(|entry| (entry.provider, entry.tool_search) = (Some(Provider::OpenAi), Some(true)), None);
    }
}
