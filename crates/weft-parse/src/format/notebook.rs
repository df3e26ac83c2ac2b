//! Jupyter notebooks: text, code, and the output of the code.

use serde_json::Value;

use super::{FileContents, FileFormat, FileInput, ReadResult, html, markdown};
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;
use crate::words::{beginning, decode};

/// Jupyter notebooks.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "a Jupyter notebook",
    endings: &["ipynb"],
    is_binary: false,
    looks: |contents: &FileContents<'_>| {
        let text = contents.text();
        text.trim_start().starts_with('{') && text.contains("\"nbformat\"") && text.contains("\"cells\"")
    },
    read,
};

/// Maximum number of characters of a cell's plain output.
const PRINTED_CHARS_MAX: usize = 4_000;
/// Maximum number of characters of a cell's markup output, which can contain whole programs.
const SHOWN_CHARS_MAX: usize = 100_000;

fn read(file: &FileInput<'_>) -> ReadResult {
    let notebook: Value = serde_json::from_str(&decode(file.bytes))
        .map_err(|cause| Unreadable::because("it is not a notebook", cause))?;
    let cells = cells(&notebook).ok_or_else(|| Unreadable::new("it is not a notebook: it has no cells"))?;
    let mut parts = PartCollector::default();
    parts.say("title", notebook["metadata"]["title"].as_str().unwrap_or_default());
    let authors: Vec<&str> = notebook["metadata"]["authors"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["name"].as_str())
        .collect();
    parts.say("author", &authors.join(", "));
    // The first names the language that ran; the other has a free-form name.
    let language = ["language_info", "kernelspec"]
        .into_iter()
        .find_map(|key| notebook["metadata"][key]["name"].as_str())
        // Kernels are named with their version, such as `python3`.
        .map(|name| if name.starts_with("python") { "python".to_owned() } else { name.to_owned() });
    for cell in cells {
        // In versions 2 and 3 the code of a cell is its `input`.
        let source = text(cell.get("source").unwrap_or(&cell["input"]));
        match cell["cell_type"].as_str() {
            Some("heading") => parts.heading(level(cell), &source),
            Some("markdown") => markdown::add(&source, &mut parts),
            Some("code") => {
                parts.code(language.clone(), &source);
                for output in cell["outputs"].as_array().into_iter().flatten() {
                    add_output(output, &mut parts);
                }
            }
            // A raw cell, which is meant for converters.
            _ => parts.paragraph(&source),
        }
    }
    Ok(parts.finish())
}

/// The cells of a notebook; up to version 3 they are on worksheets.
fn cells(notebook: &Value) -> Option<Vec<&Value>> {
    if let Some(cells) = notebook["cells"].as_array() {
        return Some(cells.iter().collect());
    }
    let sheets = notebook["worksheets"].as_array()?;
    Some(sheets.iter().filter_map(|sheet| sheet["cells"].as_array()).flatten().collect())
}

/// Level of a heading, which is a cell of its own up to version 3.
fn level(cell: &Value) -> u8 {
    cell["level"].as_u64().and_then(|level| u8::try_from(level).ok()).unwrap_or(1)
}

/// A text, given as a string or as a list of lines.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

/// Adds the output of a cell.
fn add_output(output: &Value, parts: &mut PartCollector) {
    let plain = printed(output);
    // Rich output contains only the name of its type as a plain text alternative.
    if !plain.trim().is_empty() && !plain.starts_with("<IPython.core.display.") {
        parts.code(None, beginning(&plain, PRINTED_CHARS_MAX));
        return;
    }
    let shown = |kind: &str| output["data"].get(kind).map(text).filter(|shown| !shown.trim().is_empty());
    if let Some(shown) = shown("text/markdown") {
        markdown::add(beginning(&shown, SHOWN_CHARS_MAX), parts);
    } else if let Some(shown) = shown("text/html") {
        html::fragment(beginning(&shown, SHOWN_CHARS_MAX), parts);
    } else if let Some(shown) = shown("text/latex") {
        parts.paragraph(beginning(&shown, PRINTED_CHARS_MAX));
    }
}

fn printed(output: &Value) -> String {
    match output["output_type"].as_str() {
        Some("stream") => text(&output["text"]),
        // Up to version 3 the representations of an output are separate fields.
        Some("execute_result" | "display_data" | "pyout") => {
            text(output["data"].get("text/plain").unwrap_or(&output["text"]))
        }
        Some("error" | "pyerr") => {
            let part = |key: &str| output[key].as_str().unwrap_or_default().to_owned();
            format!("{}: {}", part("ename"), part("evalue"))
        }
        _ => String::new(),
    }
}
