//! The outline stored in a document: titles and their levels.

use std::collections::{HashMap, HashSet};

use pdf_oxide::PdfDocument;
use pdf_oxide::object::{Object, ObjectRef};

/// Maximum number of titles in one outline.
const TITLES_MAX: usize = 20_000;
/// Maximum number of outline levels.
const DEPTH_MAX: u8 = 9;

/// Titles, normalized by [`key`], with their levels.
pub(super) type OutlineLevels = HashMap<String, u8>;

/// Reads the outline of a document; empty if it has none. Each entry is visited once, since outlines may contain
/// cycles.
pub(super) fn read(document: &PdfDocument) -> OutlineLevels {
    let mut outline = OutlineLevels::new();
    let Ok(catalog) = document.catalog() else { return outline };
    let root = catalog.as_dict().and_then(|catalog| catalog.get("Outlines").cloned());
    let Some(root) = root.and_then(|root| document.resolve_object(&root).ok()) else { return outline };
    let mut open: Vec<(ObjectRef, u8)> =
        reference(&root, "First").map(|first| (first, 1)).into_iter().collect();
    let mut seen = HashSet::new();
    while let Some((entry, level)) = open.pop() {
        if !seen.insert(entry) || seen.len() > TITLES_MAX {
            continue;
        }
        let Ok(object) = document.load_object(entry) else { continue };
        let title = object.as_dict().and_then(|entry| entry.get("Title"));
        if let Some(Ok(Object::String(bytes))) = title.map(|title| document.resolve_object(title)) {
            let key = key(&text_string(&bytes));
            if !key.is_empty() {
                outline.entry(key).or_insert(level);
            }
        }
        // Children are pushed last, so that they are visited first and the first of two equal titles wins.
        open.extend(reference(&object, "Next").map(|next| (next, level)));
        if level < DEPTH_MAX {
            open.extend(reference(&object, "First").map(|first| (first, level + 1)));
        }
    }
    outline
}

fn reference(object: &Object, key: &str) -> Option<ObjectRef> {
    object.as_dict()?.get(key)?.as_reference()
}

/// Normalizes a title by removing its number, spaces and punctuation, which often differ from those in the text.
pub(super) fn key(title: &str) -> String {
    // A title without letters, such as a year, consists of its number.
    let start = title.find(|c: char| c.is_alphabetic()).unwrap_or(0);
    title[start..].chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Decodes a text string of a PDF.
pub(super) fn text_string(bytes: &[u8]) -> String {
    pdf_oxide::optional_content::decode_pdf_text_string(bytes)
}
