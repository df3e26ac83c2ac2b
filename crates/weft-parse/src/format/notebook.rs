//! Notebooks of Jupyter: text, programs, and what these printed.

use serde_json::Value;

use super::{FileContents, FileFormat, FileInput, ReadResult, Unreadable, markdown};
use crate::parts::PartCollector;
use crate::words::{beginning, decode};

/// Notebooks.
pub const FORMAT: FileFormat = FileFormat {
    name: "a Jupyter notebook",
    endings: &["ipynb"],
    is_binary: false,
    looks: |contents: &FileContents<'_>| {
        let text = contents.text();
        text.trim_start().starts_with('{') && text.contains("\"nbformat\"") && text.contains("\"cells\"")
    },
    read,
};

/// Characters of what a cell has printed, at most.
const PRINTED_CHARS_MAX: usize = 4_000;

fn read(file: &FileInput<'_>) -> ReadResult {
    let notebook: Value = serde_json::from_str(&decode(file.bytes))
        .map_err(|cause| Unreadable::because("it is not a notebook", cause))?;
    let Some(cells) = notebook["cells"].as_array() else {
        return Err(Unreadable::new("it is not a notebook of version 4 or newer: it has no cells"));
    };
    let mut parts = PartCollector::default();
    parts.say("title", notebook["metadata"]["title"].as_str().unwrap_or_default());
    let authors: Vec<&str> = notebook["metadata"]["authors"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["name"].as_str())
        .collect();
    parts.say("author", &authors.join(", "));
    // The first says what ran; the other is called as people like.
    let language = ["language_info", "kernelspec"]
        .into_iter()
        .find_map(|key| notebook["metadata"][key]["name"].as_str())
        .map(|name| if name.starts_with("python") { "python".to_owned() } else { name.to_owned() });
    for cell in cells {
        let source = text(&cell["source"]);
        match cell["cell_type"].as_str() {
            Some("markdown") => markdown::add(&source, &mut parts),
            Some("code") => {
                parts.code(language.clone(), &source);
                for output in cell["outputs"].as_array().into_iter().flatten() {
                    parts.code(None, beginning(&printed(output), PRINTED_CHARS_MAX));
                }
            }
            _ => parts.paragraph(&source),
        }
    }
    Ok(parts.finish())
}

/// A text, or its lines.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

fn printed(output: &Value) -> String {
    match output["output_type"].as_str() {
        Some("stream") => text(&output["text"]),
        Some("execute_result" | "display_data") => text(&output["data"]["text/plain"]),
        Some("error") => {
            let part = |key: &str| output[key].as_str().unwrap_or_default().to_owned();
            format!("{}: {}", part("ename"), part("evalue"))
        }
        _ => String::new(),
    }
}
