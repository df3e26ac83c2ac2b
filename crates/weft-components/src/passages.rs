//! Sources that were found, as a model reads them and as programs do.

use indexmap::IndexMap;
use serde_json::json;
use weft_core::Json;
use weft_core::citation::Cited;

/// Bytes of text handed on, at most.
const TEXT_MAX: usize = 800_000;
/// What stands between two passages.
const SEPARATOR: &str = "\n------\n";

/// The passages as a model reads them, each with the number it is cited by.
pub fn formalized(found: &[Cited]) -> String {
    let mut text = String::new();
    for Cited { number, chunk } in found {
        let url = chunk.url.as_ref().map(|url| format!("URL: {url}\n")).unwrap_or_default();
        let block = format!("ID: {number}\nTitle: {}\n{url}{}", chunk.document_name, chunk.content.trim());
        if text.len() + block.len() > TEXT_MAX {
            break;
        }
        if !text.is_empty() {
            text.push_str(SEPARATOR);
        }
        text.push_str(&block);
    }
    text
}

/// The passages as values, each with the number it is cited by.
pub fn chunks(found: &[Cited]) -> Json {
    let chunk = |Cited { number, chunk }: &Cited| {
        let mut json = serde_json::to_value(&**chunk).unwrap_or_default();
        json["number"] = (*number).into();
        json
    };
    found.iter().map(chunk).collect()
}

/// How many passages each document gave, most first.
pub fn documents(found: &[Cited]) -> Json {
    let mut counts: IndexMap<&str, (&str, usize)> = IndexMap::new();
    for Cited { chunk, .. } in found {
        counts.entry(&chunk.document_id).or_insert((&chunk.document_name, 0)).1 += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, (_, count))| std::cmp::Reverse(*count));
    counts
        .into_iter()
        .map(|(id, (name, count))| json!({"doc_id": id, "doc_name": name, "count": count}))
        .collect()
}
