//! Formats compiled knowledge as chunks that are found and read like others.

use std::collections::{BTreeSet, HashMap};

use serde_json::json;
use weft_agent::window::{cut, tokens};
use weft_core::pipeline::PipelineChunk;
use weft_core::seam::document_reader::Position;
use weft_core::value::to_text;

use super::kind::TemplateKind;
use super::knowledge::{CompiledItem, Knowledge};
use super::templates::CompilationTemplate;
use crate::ingestion::passed::COMPILED;

/// Maximum number of tokens in a chunk.
const CHUNK_TOKENS: usize = 512;
/// Maximum number of positions in the document that a chunk refers to.
const POSITIONS_MAX: usize = 64;
/// Maximum number of ancestors that are named before an entry.
// They are repeated in each chunk that begins with the entry.
const ABOVE_MAX: usize = 8;

/// A line, and the chunks from which it is taken.
#[derive(Debug, Default)]
struct WrittenLine {
    text: String,
    /// The ancestors of the line: repeated if a chunk begins with it.
    above: String,
    sources: BTreeSet<usize>,
}

/// Lines that belong together under one title.
#[derive(Debug)]
struct WrittenSection {
    title: String,
    lines: Vec<WrittenLine>,
}

/// A document that was compiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompiledDocument<'a> {
    /// Its name.
    pub document: &'a str,
    /// Its chunks.
    pub chunks: &'a [PipelineChunk],
    /// The template used.
    pub template: &'a CompilationTemplate,
}

impl CompiledDocument<'_> {
    /// Returns the chunks that contain what was found.
    pub(super) fn chunks_of(self, knowledge: &Knowledge) -> Vec<PipelineChunk> {
        let sections = sections(self.template.kind, &self.template.name, knowledge);
        sections.iter().flat_map(|section| self.cut(section)).collect()
    }

    /// Splits a section into chunks, each with the title.
    fn cut(self, section: &WrittenSection) -> Vec<PipelineChunk> {
        let title = format!("{} ({})", section.title, self.document);
        let title = cut(&title, CHUNK_TOKENS / 4);
        let mut chunks = Vec::new();
        let (mut text, mut sources) = (String::new(), BTreeSet::new());
        for line in &section.lines {
            // A longer line continues in the next chunk, so that nothing that was found is lost.
            for shown in pieces(&line.text) {
                if !text.is_empty() && tokens(&text) + tokens(shown) + 1 > CHUNK_TOKENS {
                    chunks.push(self.chunk(std::mem::take(&mut text), &std::mem::take(&mut sources)));
                }
                if text.is_empty() {
                    text.push_str(title);
                    text.push('\n');
                    if !line.above.is_empty() {
                        text.push('\n');
                        text.push_str(cut(&line.above, CHUNK_TOKENS / 8));
                    }
                }
                text.push('\n');
                text.push_str(shown);
                sources.extend(&line.sources);
            }
        }
        if !text.is_empty() {
            chunks.push(self.chunk(text, &sources));
        }
        chunks
    }

    fn chunk(self, text: String, sources: &BTreeSet<usize>) -> PipelineChunk {
        let told = sources.iter().filter_map(|place| self.chunks.get(place.checked_sub(1)?));
        let positions: Vec<Position> =
            told.flat_map(|chunk| &chunk.positions).copied().take(POSITIONS_MAX).collect();
        let mut chunk = PipelineChunk {
            tokens: u32::try_from(tokens(&text)).unwrap_or(u32::MAX),
            text,
            positions,
            ..PipelineChunk::default()
        };
        let by = json!({"kind": self.template.kind.name(), "name": self.template.name});
        chunk.rest.insert(COMPILED.to_owned(), by);
        chunk
    }
}

/// Splits a line into pieces that fit into a chunk, after sentences or words if possible.
fn pieces(line: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let whole = cut(rest, CHUNK_TOKENS / 2);
        let piece = if whole.len() == rest.len() { whole } else { up_to_an_end(whole) };
        pieces.push(piece);
        rest = rest[piece.len()..].trim_start();
    }
    pieces
}

/// Returns the beginning of a text up to the last end of a sentence or a word; all of it if that is less than half.
fn up_to_an_end(text: &str) -> &str {
    let last = text
        .char_indices()
        .rev()
        .find(|&(_, c)| c.is_whitespace() || matches!(c, '。' | '！' | '？' | '；' | '，'));
    let end = last.map_or(text.len(), |(at, c)| at + c.len_utf8());
    if end * 2 < text.len() { text } else { &text[..end] }
}

fn sections(kind: TemplateKind, title: &str, knowledge: &Knowledge) -> Vec<WrittenSection> {
    let items = &knowledge.items;
    let lines = match kind {
        TemplateKind::Wiki => return items.iter().map(page).collect(),
        TemplateKind::MindMap | TemplateKind::PageIndex | TemplateKind::Tree => outline(items),
        TemplateKind::Timeline => items.iter().map(event).collect(),
        TemplateKind::List => items.iter().map(entry).collect(),
        TemplateKind::KnowledgeGraph => {
            let mut lines: Vec<WrittenLine> = items.iter().map(entry).collect();
            lines.extend(knowledge.relations.iter().map(|relation| {
                let text = format!("- {} → {} → {}", relation.from, relation.kind, relation.to);
                let text = with(text, &relation.description);
                WrittenLine { text, sources: relation.sources.clone(), ..WrittenLine::default() }
            }));
            lines
        }
    };
    vec![WrittenSection { title: title.to_owned(), lines }]
}

/// Appends a description to a text, unless it is empty.
fn with(text: String, description: &str) -> String {
    if description.is_empty() { text } else { format!("{text}: {description}") }
}

fn line(text: String, item: &CompiledItem) -> WrittenLine {
    WrittenLine { text, sources: item.sources.clone(), ..WrittenLine::default() }
}

/// Formats an entry with its type and its values.
fn entry(item: &CompiledItem) -> WrittenLine {
    let name = match item.kind.as_str() {
        "" => format!("- {}", item.name),
        kind => format!("- {} ({kind})", item.name),
    };
    let mut text = with(name, &item.description);
    for (field, value) in &item.values {
        text.push_str(&format!("; {field}: {}", to_text(value)));
    }
    line(text, item)
}

fn event(item: &CompiledItem) -> WrittenLine {
    let name = match item.time.as_str() {
        "" => format!("- {}", item.name),
        time => format!("- {time}: {}", item.name),
    };
    let text = if item.description.is_empty() { name } else { format!("{name} ({})", item.description) };
    line(text, item)
}

/// Formats the page of a subject.
fn page(item: &CompiledItem) -> WrittenSection {
    let title = match item.kind.as_str() {
        "" => item.name.clone(),
        kind => format!("{} – {kind}", item.name),
    };
    let mut lines = Vec::new();
    if !item.description.is_empty() {
        lines.push(line(item.description.clone(), item));
    }
    lines.extend(item.facts.iter().map(|fact| line(format!("- {fact}"), item)));
    if !item.related.is_empty() {
        lines.push(line(format!("See also: {}", item.related.join(", ")), item));
    }
    if lines.is_empty() {
        // A bare title can be found as well.
        lines.push(line(item.name.clone(), item));
    }
    WrittenSection { title, lines }
}

/// Formats entries as an outline, each indented by its depth.
fn outline(items: &[CompiledItem]) -> Vec<WrittenLine> {
    let known: HashMap<&str, usize> =
        items.iter().enumerate().map(|(at, item)| (item.key.as_str(), at)).collect();
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
    let mut first = Vec::new();
    for (at, item) in items.iter().enumerate() {
        match known.get(item.under.as_str()) {
            Some(above) if *above != at => below[*above].push(at),
            // It has no parent, or one that was not found.
            _ => first.push(at),
        }
    }
    let mut outline = OutlineWriter { items, below, written: vec![false; items.len()], lines: Vec::new() };
    // Entries in a cycle are not below any root, so they follow in their order.
    for at in first.into_iter().chain(0..items.len()) {
        outline.add(at);
    }
    outline.lines
}

/// An outline that is being written.
struct OutlineWriter<'a> {
    items: &'a [CompiledItem],
    below: Vec<Vec<usize>>,
    written: Vec<bool>,
    lines: Vec<WrittenLine>,
}

impl OutlineWriter<'_> {
    /// Writes an entry and all of its descendants, each once.
    fn add(&mut self, start: usize) {
        // Without recursion: a model may chain thousands of entries.
        let mut waiting = vec![(start, Vec::<usize>::new())];
        while let Some((at, above)) = waiting.pop() {
            if std::mem::replace(&mut self.written[at], true) {
                continue;
            }
            let item = &self.items[at];
            let names: Vec<&str> = above.iter().map(|at| self.items[*at].name.as_str()).collect();
            let text = with(format!("{}- {}", "  ".repeat(above.len()), item.name), &item.description);
            self.lines.push(WrittenLine { above: names.join(" › "), ..line(text, item) });
            let mut above = above;
            if above.len() < ABOVE_MAX {
                above.push(at);
            }
            waiting.extend(self.below[at].iter().rev().map(|below| (*below, above.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, under: &str) -> CompiledItem {
        CompiledItem {
            name: name.to_owned(),
            key: name.to_owned(),
            under: under.to_owned(),
            sources: BTreeSet::from([1]),
            ..CompiledItem::default()
        }
    }

    fn shown(lines: &[WrittenLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn an_outline_lists_everything_once_even_cycles() {
        let items = [
            item("a", ""),
            item("c", "b"),
            item("b", "a"),
            item("d", "a"),
            item("x", "y"),
            item("y", "x"),
            item("z", "z"),
            item("o", "gone"),
        ];
        let lines = outline(&items);
        assert_eq!(shown(&lines), ["- a", "  - b", "    - c", "  - d", "- z", "- o", "- x", "  - y"]);
        assert_eq!(lines[2].above, "a › b");
        let deep: Vec<CompiledItem> =
            (0..4_000).map(|at: i32| item(&at.to_string(), &(at - 1).to_string())).collect();
        assert_eq!(outline(&deep).len(), 4_000);
    }

    #[test]
    fn chunks_are_small_and_name_their_source() {
        let at = |page| Position { page, ..Position::default() };
        let chunk = |page| PipelineChunk { positions: vec![at(page)], ..PipelineChunk::default() };
        let chunks = [chunk(1), chunk(2)];
        let template = CompilationTemplate::built_in(TemplateKind::MindMap);
        let compiled = CompiledDocument { document: "a.pdf", chunks: &chunks, template: &template };
        let mut items = vec![item("Centre", "")];
        for number in 0..100 {
            let mut leaf = item(&format!("leaf {number}"), "Centre");
            leaf.description = "words and words and words".to_owned();
            leaf.sources = BTreeSet::from([2, 77]);
            items.push(leaf);
        }
        let made = compiled.chunks_of(&Knowledge { items, relations: Vec::new() });
        assert!(made.len() > 1 && made.iter().all(|chunk| chunk.tokens as usize <= CHUNK_TOKENS), "{made:?}");
        assert!(
            made[0].text.starts_with("Mind map (a.pdf)\n\n- Centre\n  - leaf 0: words"),
            "{}",
            made[0].text
        );
        assert!(made[1].text.starts_with("Mind map (a.pdf)\n\nCentre\n  - leaf "), "{}", made[1].text);
        assert_eq!((made[0].positions.len(), made[1].positions.as_slice()), (2, &[at(2)][..]));
        assert_eq!(made[0].rest["compiled"], json!({"kind": "mind_map", "name": "Mind map"}));
        assert_eq!(compiled.chunks_of(&Knowledge::default()), Vec::new());
    }

    #[test]
    fn overlong_text_continues_in_the_next_chunk() {
        let template = CompilationTemplate::built_in(TemplateKind::Tree);
        let compiled = CompiledDocument { document: "a.pdf", chunks: &[], template: &template };
        for (sentence, apart) in
            [("承租人应当按照约定的期限支付租金。", ""), ("The rent has to be paid.", " ")]
        {
            let mut summary = item("Contract", "");
            summary.description = [sentence; 120].join(apart);
            let made = compiled.chunks_of(&Knowledge { items: vec![summary], relations: Vec::new() });
            assert!(
                made.len() > 1 && made.iter().all(|chunk| chunk.tokens as usize <= CHUNK_TOKENS),
                "{made:?}"
            );
            assert!(made.iter().all(|chunk| chunk.text.starts_with("Summaries (a.pdf)\n\n")), "{made:?}");
            let said: usize =
                made.iter().map(|chunk| chunk.text.matches(sentence.trim_end_matches('.')).count()).sum();
            assert!(said >= 118, "only text across a boundary is in two chunks: {said}");
        }
        assert_eq!(pieces(&"x".repeat(1_500)).concat().len(), 1_500);
        assert!(pieces(" ").len() <= 1 && pieces("").is_empty());
    }
}
