//! Plain text: paragraphs are separated by empty lines.

use super::{FileContents, FileFormat, FileInput, ReadResult};
use crate::parts::PartCollector;
use crate::words::decode;

/// Plain text.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "text",
    endings: &["txt", "text", "log", "asc", "srt", "vtt", "tex", "rst", "adoc", "org"],
    is_binary: false,
    looks: |_: &FileContents<'_>| true,
    read,
};

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut parts = PartCollector::default();
    paragraphs(&decode(file.bytes), &mut parts);
    Ok(parts.finish())
}

/// Adds the paragraphs of a text.
pub(super) fn paragraphs(text: &str, parts: &mut PartCollector) {
    // Before the split at `\r`, or every line would end twice.
    let text = text.replace("\r\n", "\n");
    let mut paragraph = String::new();
    for line in text.split(['\n', '\r', '\u{c}']) {
        if line.trim().is_empty() {
            parts.plain(&paragraph);
            paragraph.clear();
        } else {
            if !paragraph.is_empty() {
                paragraph.push('\n');
            }
            paragraph.push_str(line);
        }
    }
    parts.plain(&paragraph);
}
