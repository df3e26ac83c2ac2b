//! The lines of a prompt.

use weft_agent::window::{Keep, Line};

/// Adds a message; consecutive messages of one author are joined, so that no text is lost.
pub(super) fn add(lines: &mut Vec<Line>, line: Line) {
    match lines.last_mut() {
        Some(last) if last.message.author == line.message.author && !last.message.text.is_empty() => {
            if !line.message.text.is_empty() {
                last.message.text.push_str("\n\n");
                last.message.text.push_str(&line.message.text);
            }
            // A prompt that is joined to a message of the history must not be dropped with it.
            if line.keep == Keep::Pinned {
                last.keep = Keep::Pinned;
            }
        }
        Some(last) if last.message.author == line.message.author => *last = line,
        _ => lines.push(line),
    }
}
