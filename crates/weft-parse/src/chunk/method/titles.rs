//! Chunking by headings that are recognized by patterns: each with the text below it, under the headings above it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use regex::Regex;
use weft_core::error::Result;
use weft_core::pattern::begins;

use crate::chunk::draft::Cutting;
use crate::chunk::flow::{Flow, FlowSpan, Joint, Placed, SpanRole, TablePlacement};
use crate::chunk::sections::{FlowSection, pack_small, sections};
use crate::chunk::settings::ChunkSettings;
use crate::chunk::source::ChunkSource;
use crate::chunk::writer::PieceWriter;
use crate::element::{Element, ElementBody};
use crate::tokens::tokens;

/// Minimum size, in tokens, to which small sections are merged when chunks do not repeat the headings above them.
const GROUP_TOKENS_MIN: u32 = 32;

/// Cuts a document into chunks. The level of a heading is that of the pattern that its line matches. Headings marked by
/// the file are also matched in their Markdown form, so that `^##[^#]` matches one of the second level in a Word file
/// as well. Without patterns the file's own levels apply.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    let settings = &source.settings;
    let patterns = TitlePatterns::of(source);
    let lines = lines(source, &patterns);
    let placed: Vec<Placed<'_>> = lines.iter().map(TitleLine::placed).collect();
    let levels: Vec<Option<u8>> = placed.iter().map(|one| patterns.level(&one.element.body)).collect();
    let deepest = deepest(settings, &levels);
    let level = |at: usize| levels[at].filter(|level| u32::from(*level) <= deepest);
    let mut flow = Flow::with_levels(&placed, TablePlacement::Inside(settings.limit), level);
    let apart = cut_up(&flow, settings);
    if !apart.is_empty() {
        flow = Flow::with_apart(&placed, |at| apart.contains(&at), level);
    }
    let (mut writer, sections) = sectioned(&flow, settings);
    for section in sections {
        writer.spans(section.spans.clone(), above(&section, settings));
    }
    // Chunks refer to the elements of the document, not to the lines that these were split into.
    let mut cutting = Cutting { drafts: writer.drafts, ..Cutting::default() };
    for draft in &mut cutting.drafts {
        let origin = |at: usize| lines.get(at).map_or(source.placed.len(), |line| line.origin);
        let last = draft.elements.end.checked_sub(1).map_or(0, |at| origin(at) + 1);
        draft.elements = origin(draft.elements.start)..last;
    }
    Ok(cutting)
}

/// The sections of a document, and the writer for their chunks.
fn sectioned<'a>(flow: &'a Flow<'a>, settings: &'a ChunkSettings) -> (PieceWriter<'a>, Vec<FlowSection>) {
    let mut sections = sections(flow);
    let mut writer = PieceWriter::new(flow, settings);
    if settings.title_opening
        && let [first, _, ..] = sections.as_slice()
        && opening(flow, first).is_some_and(|text| writer.open_with(text))
    {
        sections.remove(0);
    }
    if !settings.title_paths {
        sections = pack_small(sections, GROUP_TOKENS_MIN, settings.limit);
    }
    (writer, sections)
}

/// The headings that the chunks of a section begin with.
fn above<'a>(section: &'a FlowSection, settings: &ChunkSettings) -> &'a [usize] {
    if settings.title_paths { &section.above } else { &[] }
}

/// The tables that do not fit into one chunk with the rest of their section; they would be cut where the chunk ends.
fn cut_up(flow: &Flow<'_>, settings: &ChunkSettings) -> HashSet<usize> {
    let mut apart = HashSet::new();
    let is_table = |span: &&FlowSpan| flow.table(span).is_some();
    if !flow.spans.iter().any(|span| is_table(&span)) {
        return apart;
    }
    let (writer, sections) = sectioned(flow, settings);
    for section in &sections {
        let spans = &flow.spans[section.spans.clone()];
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else { continue };
        let mut tables = spans.iter().filter(is_table).peekable();
        if tables.peek().is_none() {
            continue;
        }
        let fits = tokens(&flow.text[first.start..last.end]) <= writer.room(above(section, settings));
        // A table that is larger than a chunk is separate already.
        apart.extend(tables.filter(|span| !fits || span.role == SpanRole::Table).map(|span| span.element));
    }
    apart
}

/// Text of a section that has no headings and no tables.
fn opening<'a>(flow: &'a Flow<'_>, section: &FlowSection) -> Option<&'a str> {
    let spans = &flow.spans[section.spans.clone()];
    let (first, last) = (spans.first()?, spans.last()?);
    let is_text = spans.iter().all(|span| span.role == SpanRole::Text);
    is_text.then(|| flow.text[first.start..last.end].trim())
}

/// The deepest level whose headings begin a section.
fn deepest(settings: &ChunkSettings, levels: &[Option<u8>]) -> u32 {
    let Some(hierarchy) = settings.hierarchy else { return u32::MAX };
    if hierarchy > 0 && settings.title_families.is_empty() {
        return hierarchy;
    }
    let mut counts: BTreeMap<u8, usize> = BTreeMap::new();
    for level in levels.iter().flatten() {
        *counts.entry(*level).or_default() += 1;
    }
    let found = if hierarchy == 0 {
        // Of equally frequent levels, the outermost.
        counts.iter().max_by_key(|(level, count)| (**count, Reverse(**level))).map(|(level, _)| *level)
    } else {
        let there: Vec<u8> = counts.into_keys().collect();
        there.get(hierarchy as usize - 1).or(there.last()).copied()
    };
    found.map_or(u32::MAX, u32::from)
}

/// How the headings of a document are recognized.
enum TitlePatterns<'a> {
    /// As marked by the file.
    OfFile,
    /// By patterns that may match anywhere in a line; several for each level.
    Levels(&'a [Vec<Regex>]),
    /// By patterns that match at the start of a line; one for each level.
    Family(&'a [Regex]),
}

impl<'a> TitlePatterns<'a> {
    /// Chooses the patterns. Of several families it takes the one that matches the most lines, since levels of
    /// different families are not comparable.
    fn of(source: &'a ChunkSource<'_>) -> Self {
        let ChunkSettings { title_levels, title_families, .. } = &source.settings;
        if !title_levels.iter().all(Vec::is_empty) {
            return Self::Levels(title_levels);
        }
        let mut most = (0, Self::OfFile);
        for family in title_families {
            let family = Self::Family(family);
            let count = |body: &ElementBody| match body {
                ElementBody::Paragraph(text) | ElementBody::Item { text, .. } => {
                    text.lines().filter(|line| family.of_line(line).is_some()).count()
                }
                ElementBody::Heading { level, text } => {
                    usize::from(family.of_heading(*level, text).is_some())
                }
                _ => 0,
            };
            let count = source.placed.iter().map(|placed| count(&placed.element.body)).sum();
            if count > most.0 {
                most = (count, family);
            }
        }
        most.1
    }

    /// Level of a line that the file does not mark as a heading.
    fn of_line(&self, line: &str) -> Option<u8> {
        let place = match self {
            Self::OfFile => None,
            Self::Levels(levels) => {
                levels.iter().position(|level| level.iter().any(|pattern| pattern.is_match(line)))
            }
            Self::Family(family) => {
                let line = line.trim();
                family.iter().position(|pattern| begins(pattern, line)).filter(|_| !is_figure(line))
            }
        };
        u8::try_from(place? + 1).ok()
    }

    /// Level, by the patterns, of a line that the file marks as a heading.
    fn of_heading(&self, level: u8, text: &str) -> Option<u8> {
        let marked = format!("{} {text}", "#".repeat(usize::from(level.max(1))));
        self.of_line(&marked).or_else(|| self.of_line(text))
    }

    fn level(&self, body: &ElementBody) -> Option<u8> {
        match (body, self) {
            (ElementBody::Heading { level, .. }, Self::OfFile) => Some((*level).max(1)),
            (ElementBody::Heading { level, text }, Self::Levels(_)) => self.of_heading(*level, text),
            // A heading marked by the file is always a heading: without a match it is below all levels of the family.
            (ElementBody::Heading { level, text }, Self::Family(family)) => {
                self.of_heading(*level, text).or_else(|| u8::try_from(family.len() + 1).ok())
            }
            // A paragraph of several lines has none that is a heading; otherwise it would have been split.
            (ElementBody::Paragraph(text) | ElementBody::Item { text, .. }, _) if !text.contains('\n') => {
                self.of_line(text)
            }
            _ => None,
        }
    }
}

/// Whether the number that a line begins with is not that of a heading: it starts with zero, is an amount, or belongs
/// to an entry of a table of contents.
fn is_figure(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = line.split_at(digits);
    let amount = || {
        let next = rest.trim_start_matches(' ');
        // `3 5`, `3~5` and `3 个` are amounts: a range, or a number with a measure word.
        next.len() < rest.len() && next.starts_with(|c: char| c.is_ascii_digit() || "~个只-".contains(c))
    };
    number.starts_with('0') || !number.is_empty() && (amount() || rest.starts_with(".."))
}

/// A line of a paragraph, or an element of another kind.
struct TitleLine<'a> {
    placed: Placed<'a>,
    /// The line, if it is only a part of its element.
    own: Option<Element>,
    /// Index of its element.
    origin: usize,
}

impl TitleLine<'_> {
    fn placed(&self) -> Placed<'_> {
        Placed { element: self.own.as_ref().unwrap_or(self.placed.element), ..self.placed }
    }
}

/// Splits each paragraph that contains a heading into its lines.
fn lines<'a>(source: &ChunkSource<'a>, patterns: &TitlePatterns<'_>) -> Vec<TitleLine<'a>> {
    let mut lines = Vec::new();
    for (origin, placed) in source.placed.iter().enumerate() {
        let text = match &placed.element.body {
            ElementBody::Paragraph(text) if text.contains('\n') => text,
            _ => {
                lines.push(TitleLine { placed: *placed, own: None, origin });
                continue;
            }
        };
        if !text.lines().any(|line| patterns.of_line(line).is_some()) {
            lines.push(TitleLine { placed: *placed, own: None, origin });
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let joint = if number == 0 { placed.joint } else { Joint::Line };
            let body = ElementBody::Paragraph(line.to_owned());
            let own = Element::new(body, placed.element.positions.clone());
            lines.push(TitleLine { placed: Placed { joint, ..*placed }, own: Some(own), origin });
        }
    }
    lines
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
    fn headings_are_marked_as_in_markdown() {
        let text = "# A\n\none\n\n## B\n\ntwo\n\n### C\n\nthree\n\n## D\n\nfour";
        let levels = json!([["^#[^#]"], ["^##[^#]"], ["^###[^#]"]]);
        let all = ["A\n\none", "A\nB\n\ntwo", "A\nB\nC\n\nthree", "A\nD\n\nfour"];
        assert_eq!(titled(text, json!({"title_levels": levels})), all);
        let second = ["A\n\none", "A\nB\n\ntwo\n\nC\n\nthree", "A\nD\n\nfour"];
        assert_eq!(titled(text, json!({"title_levels": levels, "hierarchy": 2})), second);
        assert_eq!(titled(text, json!({})), all, "without patterns the headings of the file are used");
    }

    #[test]
    fn plain_text_lines_that_match_a_pattern_are_headings() {
        let text = "Part 1\nintro\n1.1 First\nbody\nmore\n1.2 Second\nend";
        let levels = json!([["^Part \\d+"], ["^\\d+\\.\\d+ "]]);
        let expected = ["Part 1\nintro", "Part 1\n1.1 First\nbody\nmore", "Part 1\n1.2 Second\nend"];
        assert_eq!(titled(text, json!({"title_levels": levels})), expected);
    }

    #[test]
    fn grouped_sections_have_no_parent_headings_and_are_not_too_small() {
        let words = "word ".repeat(40);
        let text = format!("# A\n\n{words}\n\n## B\n\ntwo\n\n### C\n\nthree\n\n## D\n\n{words}");
        let settings = json!({"hierarchy": 2, "title_paths": false});
        let pieces = titled(&text, settings);
        assert_eq!(pieces.len(), 2, "{pieces:?}");
        assert!(pieces[1].starts_with("B\n\ntwo\n\nC\n\nthree\n\nD"), "{pieces:?}");
    }

    const LAW: &str = "Preface\n\nPART ONE General\nChapter I Scope\nArticle 1 This law protects, as Section 9 says.\n                       Article 2 It applies in 12 towns.\nChapter II Duties\nArticle 3 Be fair.";

    fn families() -> Json {
        json!([
            ["第[零一二三]+章", "第[零一二三]+条"],
            ["PART (ONE|TWO)", "Chapter (I+|IV)", "Section [0-9]+", "Article [0-9]+"],
            ["[0-9]{,2}\\. "],
        ])
    }

    #[test]
    fn the_pattern_family_with_the_most_lines_is_used() {
        let all = [
            "Preface",
            "PART ONE General\nChapter I Scope\nArticle 1 This law protects, as Section 9 says.",
            "PART ONE General\nChapter I Scope\nArticle 2 It applies in 12 towns.",
            "PART ONE General\nChapter II Duties\nArticle 3 Be fair.",
        ];
        assert_eq!(titled(LAW, json!({"title_families": families()})), all);
        // There are no sections, so articles are the third existing level.
        assert_eq!(titled(LAW, json!({"title_families": families(), "hierarchy": 3})), all);
        let chapters = titled(LAW, json!({"title_families": families(), "hierarchy": 2}));
        assert_eq!(chapters.len(), 3, "{chapters:?}");
        assert!(chapters[2].starts_with("PART ONE General\nChapter II Duties"), "{chapters:?}");
        let grouped = json!({"title_families": families(), "hierarchy": 0, "title_paths": false, "chunk_token_num": 64});
        assert_eq!(titled(LAW, grouped).len(), 1, "small sections are merged");
    }

    #[test]
    fn marked_headings_count_besides_those_of_a_pattern_family() {
        let text = "# Chapter I Scope\n\none\n\n# Notes\n\ntwo\n\n# Chapter II Duties\n\nthree";
        let pieces = titled(text, json!({"title_families": families()}));
        let chapter = "Chapter I Scope\nNotes\n\ntwo";
        assert_eq!(pieces, ["Chapter I Scope\n\none", chapter, "Chapter II Duties\n\nthree"]);
        let none = titled("# A\n\none\n\n## B\n\ntwo", json!({"title_families": families(), "hierarchy": 2}));
        assert_eq!(
            none,
            ["A\n\none", "A\nB\n\ntwo"],
            "no line matches a pattern: the headings of the file are used"
        );
    }

    #[test]
    fn text_before_the_first_heading_can_be_prepended_to_each_chunk() {
        let text = "Ada\n\nada@example.org\n\n# Education\n\nLondon\n\n# Work\n\n## Looms\n\nLead";
        let opened = json!({"title_opening": true});
        let ada = "Ada\n\nada@example.org";
        let pieces = titled(text, opened.clone());
        assert_eq!(pieces[0], format!("{ada}\nEducation\n\nLondon"));
        assert_eq!(pieces.len(), 2, "{pieces:?}");
        assert!(pieces[1].starts_with(&format!("{ada}\nWork")) && pieces[1].ends_with("Lead"), "{pieces:?}");
        assert_eq!(titled(text, json!({})).len(), 3, "it is a chunk if nothing else is requested");
        // Long sections, sections without subheadings, and tables are separate chunks.
        let long = format!("{}\n\n# A\n\none", "word ".repeat(200));
        let pieces = titled(&long, opened.clone());
        assert!(pieces.len() == 2 && pieces[1] == "A\n\none", "{pieces:?}");
        assert_eq!(titled("one\n\ntwo", opened), ["one\n\ntwo"]);
        let grouped = json!({"title_opening": true, "title_paths": false, "chunk_token_num": 64});
        let text = format!("Ada\n\n# A\n\n{}\n\n# B\n\n{}", "one ".repeat(40), "two ".repeat(40));
        let pieces = titled(&text, grouped);
        assert!(pieces.len() == 2 && pieces.iter().all(|piece| piece.starts_with("Ada\n")), "{pieces:?}");
    }

    #[test]
    fn a_number_that_is_no_heading_starts_no_section() {
        for (line, expected) in [
            ("0 to 9", true),
            ("12 - 14", true),
            ("3....... 17", true),
            ("12 Things", false),
            ("Art. 1", false),
        ] {
            assert_eq!(super::is_figure(line), expected, "{line}");
        }
    }

    #[test]
    fn a_table_is_not_split_with_its_section() {
        let text = format!(
            "# A\n\n{}\n\n|a|b|\n|1|2|\n|3|4|\n\nafter\n\n# B\n\nshort\n\n|c|\n|5|",
            "word ".repeat(110)
        );
        let pieces = titled(&text, json!({"chunk_token_num": 128}));
        assert_eq!(pieces.len(), 4, "{pieces:?}");
        assert!(pieces[0].starts_with("A\n\nword") && !pieces[0].contains('<'), "{pieces:?}");
        assert!(pieces[1].starts_with("<table>") && pieces[1].ends_with("</table>"), "{pieces:?}");
        assert_eq!(pieces[2], "after");
        // There is room for this one beside its text.
        assert!(
            pieces[3].starts_with("B\n\nshort\n\n<table>") && pieces[3].ends_with("</table>"),
            "{pieces:?}"
        );
    }

    #[test]
    fn what_stands_around_a_table_leaves_room_for_it() {
        let (title, text) = ("word ".repeat(60), "It is so. ".repeat(30));
        let text = format!("{title}\n\n# {title}\n\none\n\n## B\n\n{text}\n\n|a|b|\n|1|2|\n\n{text}");
        let settings = json!({"title_opening": true, "chunk_token_num": 256, "table_context_size": 256});
        let pieces = titled(&text, settings);
        assert!(pieces.iter().all(|piece| crate::tokens(piece) <= 256), "{pieces:?}");
        let table: Vec<_> = pieces.iter().filter(|piece| piece.contains("<td>")).collect();
        let [table] = table.as_slice() else { panic!("{pieces:?}") };
        assert!(table.starts_with("It is so. It") && table.contains("word\n<table>"), "{table}");
        assert!(table.contains("<td>2</td></tr>\n</table>\nIt is so. It"), "{table}");
    }

    #[test]
    fn a_long_section_is_split_at_the_limit() {
        let text = format!("# A\n\n{}", "word ".repeat(200));
        let settings = json!({"title_levels": [["^# "]], "chunk_token_num": 64});
        let pieces = titled(&text, settings);
        assert!(pieces.len() >= 3 && pieces.iter().all(|piece| crate::tokens(piece) <= 64), "{pieces:?}");
    }
}
