//! By headings that patterns tell: each with what is below it, under the headings above.

use weft_core::error::Result;

use crate::chunk::ChunkSource;
use crate::chunk::draft::Cutting;
use crate::chunk::flow::{Flow, Joint, Placed, TablePlacement};
use crate::chunk::sections::sections;
use crate::chunk::settings::ChunkSettings;
use crate::chunk::writer::PieceWriter;
use crate::element::{Element, ElementBody};

/// Cuts a document. A line is a heading of the first level with a pattern that it has; the file's own headings are looked
/// at as Markdown writes them, too, so that `^##[^#]` is one of the second level in a Word file as well. Without a pattern
/// the file's own levels count.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    let patterns = &source.settings;
    let lines = lines(source);
    let placed: Vec<Placed<'_>> = lines.iter().map(TitleLine::placed).collect();
    let deepest = patterns.hierarchy.unwrap_or(u32::MAX);
    let level = |at: usize| {
        let level = level(patterns, &placed[at].element.body)?;
        (u32::from(level) <= deepest).then_some(level)
    };
    let flow = Flow::with_levels(&placed, TablePlacement::Inside(patterns.limit), level);
    let mut writer = PieceWriter::new(&flow, &source.settings);
    for section in sections(&flow) {
        let above = if patterns.title_paths { section.above.as_slice() } else { &[] };
        writer.spans(section.spans, above);
    }
    let mut cutting = Cutting { drafts: writer.drafts, ..Cutting::default() };
    for draft in &mut cutting.drafts {
        let origin = |at: usize| lines.get(at).map_or(source.placed.len(), |line| line.origin);
        let last = draft.elements.end.checked_sub(1).map_or(0, |at| origin(at) + 1);
        draft.elements = origin(draft.elements.start)..last;
    }
    Ok(cutting)
}

/// A line of a paragraph, or an element of another kind.
struct TitleLine<'a> {
    placed: Placed<'a>,
    /// The line, where it is a part of its element only.
    own: Option<Element>,
    /// Its element.
    origin: usize,
}

impl TitleLine<'_> {
    fn placed(&self) -> Placed<'_> {
        Placed { element: self.own.as_ref().unwrap_or(self.placed.element), ..self.placed }
    }
}

/// Takes paragraphs with a line that is a heading apart into their lines.
fn lines<'a>(source: &ChunkSource<'a>) -> Vec<TitleLine<'a>> {
    let mut lines = Vec::new();
    for (origin, placed) in source.placed.iter().enumerate() {
        let text = match &placed.element.body {
            ElementBody::Paragraph(text) if text.contains('\n') => text,
            _ => {
                lines.push(TitleLine { placed: *placed, own: None, origin });
                continue;
            }
        };
        let is_heading = |line: &str| matching(&source.settings, line).is_some();
        if !text.lines().any(is_heading) {
            lines.push(TitleLine { placed: *placed, own: None, origin });
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let joint = if number == 0 { placed.joint } else { Joint::Line };
            let body = ElementBody::Paragraph(line.to_owned());
            let own = Element { body, positions: placed.element.positions.clone() };
            lines.push(TitleLine { placed: Placed { joint, ..*placed }, own: Some(own), origin });
        }
    }
    lines
}

/// The level of the first pattern that a line has.
fn matching(settings: &ChunkSettings, line: &str) -> Option<u8> {
    let has = |patterns: &Vec<regex::Regex>| patterns.iter().any(|pattern| pattern.is_match(line));
    let level = settings.title_levels.iter().position(has)?;
    u8::try_from(level + 1).ok()
}

fn level(settings: &ChunkSettings, body: &ElementBody) -> Option<u8> {
    let has_none = settings.title_levels.iter().all(Vec::is_empty);
    match body {
        ElementBody::Heading { level, .. } if has_none => Some((*level).max(1)),
        ElementBody::Heading { level, text } => {
            let marked = format!("{} {text}", "#".repeat(usize::from((*level).max(1))));
            matching(settings, &marked).or_else(|| matching(settings, text))
        }
        ElementBody::Paragraph(text) | ElementBody::Item { text, .. } if !text.contains('\n') => {
            matching(settings, text)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};
    use weft_core::seam::document_reader::ChunkMethod;

    use crate::chunk::testing::{contents, cut};

    fn titled(text: &str, settings: Json) -> Vec<String> {
        let document = cut(text, "a.docx", ChunkMethod::Titles, settings);
        contents(&document).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn headings_of_a_file_are_told_as_markdown_writes_them() {
        let text = "# A\n\none\n\n## B\n\ntwo\n\n### C\n\nthree\n\n## D\n\nfour";
        let levels = json!([["^#[^#]"], ["^##[^#]"], ["^###[^#]"]]);
        let all = ["A\n\none", "A\nB\n\ntwo", "A\nB\nC\n\nthree", "A\nD\n\nfour"];
        assert_eq!(titled(text, json!({"title_levels": levels})), all);
        let second = ["A\n\none", "A\nB\n\ntwo\n\nC\n\nthree", "A\nD\n\nfour"];
        assert_eq!(titled(text, json!({"title_levels": levels, "hierarchy": 2})), second);
        let alone = ["A\n\none", "B\n\ntwo\n\nC\n\nthree", "D\n\nfour"];
        let settings = json!({"title_levels": levels, "hierarchy": 2, "title_paths": false});
        assert_eq!(titled(text, settings), alone);
        assert_eq!(titled(text, json!({})), all, "without patterns the file says it itself");
    }

    #[test]
    fn lines_of_a_plain_text_are_headings_when_a_pattern_says_so() {
        let text = "Part 1\nintro\n1.1 First\nbody\nmore\n1.2 Second\nend";
        let levels = json!([["^Part \\d+"], ["^\\d+\\.\\d+ "]]);
        let expected = ["Part 1\nintro", "Part 1\n1.1 First\nbody\nmore", "Part 1\n1.2 Second\nend"];
        assert_eq!(titled(text, json!({"title_levels": levels})), expected);
    }

    #[test]
    fn a_long_section_is_cut_at_the_limit() {
        let text = format!("# A\n\n{}", "word ".repeat(200));
        let settings = json!({"title_levels": [["^# "]], "chunk_token_num": 64});
        let pieces = titled(&text, settings);
        assert!(pieces.len() >= 3 && pieces.iter().all(|piece| crate::tokens(piece) <= 64), "{pieces:?}");
    }
}
