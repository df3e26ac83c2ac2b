//! The outline that a document brings along: titles and how deep they are.

use std::collections::{HashMap, HashSet};

use pdf_oxide::PdfDocument;
use pdf_oxide::object::{Object, ObjectRef};

/// Titles of one outline, at most.
const TITLES_MAX: usize = 20_000;
/// Levels of an outline, at most.
const DEPTH_MAX: u8 = 9;

/// Titles, as [`key`] has them, with their levels.
pub(super) type Outline = HashMap<String, u8>;

/// The outline of a document; empty when it has none. Outlines may lead in circles, so every entry is
/// visited once.
pub(super) fn read(document: &PdfDocument) -> Outline {
    let mut outline = Outline::new();
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
        // What is below an entry goes on top, so that of two equal titles the first one counts.
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

/// A title without its number, its blanks and its signs, since these are often not those of the text.
pub(super) fn key(title: &str) -> String {
    let start = title.find(|c: char| c.is_alphabetic()).unwrap_or(0);
    title[start..].chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The text of a string of a PDF.
pub(super) fn text_string(bytes: &[u8]) -> String {
    pdf_oxide::optional_content::decode_pdf_text_string(bytes)
}
