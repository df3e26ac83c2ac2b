//! Chunking by the abstract and the sections of a paper.

use serde_json::json;
use weft_core::error::Result;

use crate::chunk::delimiter::Delimiters;
use crate::chunk::draft::{Children, Cutting};
use crate::chunk::flow::{Flow, Placed, SpanRole, TablePlacement, plain};
use crate::chunk::numbering::Levels;
use crate::chunk::sections::sections;
use crate::chunk::source::{ChunkSource, WHOLE_TOKENS_MAX};
use crate::chunk::writer::PieceWriter;
use crate::element::ElementBody;

/// Number of elements at the beginning that are searched for the abstract.
const FRONT_MAX: usize = 40;
/// Maximum number of characters in a title or a line of authors.
const FRONT_LINE_MAX: usize = 300;
/// Keywords of the abstract's chunk, by which it is found whatever its text says.
const KEYWORDS: [&str; 5] = ["abstract", "summary", "摘要", "总结", "概括"];
/// Words that an abstract begins with.
const ABSTRACT: [&str; 4] = ["abstract", "summary", "摘要", "摘 要"];

/// Cuts a paper into chunks.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    let placed = &source.placed;
    let settings = &source.settings;
    let found = find_abstract(placed);
    let mut cutting = Cutting::default();
    front(source, found.as_ref().map(|found| found.0), &mut cutting);
    let levels = Levels::find(placed);
    let deepest = levels.most_frequent();
    let (first, end) = found.unwrap_or((0, 0));
    // The abstract and the text after it always begin sections; otherwise they would be merged with their neighbours.
    let level = |at: usize| levels.of(at).filter(|level| Some(*level) <= deepest || at == first || at == end);
    let flow = Flow::with_levels(placed, TablePlacement::Apart, level);
    let before = flow.spans.partition_point(|span| span.element < first);
    let after = flow.spans.partition_point(|span| span.element < end);
    let mut writer = PieceWriter::new(&flow, settings);
    writer.spans(0..before, &[]);
    cutting.drafts = writer.drafts;
    let none = Delimiters::default();
    let mut writer = PieceWriter::new(&flow, settings).limit(WHOLE_TOKENS_MAX, settings).uncut(&none);
    writer.spans(before..after, &[]);
    // A table becomes a draft of its own, so more than one draft does not mean that the abstract was cut.
    if writer.drafts.len() > 1 && !flow.spans[before..after].iter().any(|span| span.role == SpanRole::Table) {
        cutting.warnings.push(format!("the abstract has more than {WHOLE_TOKENS_MAX} tokens and was cut"));
    }
    for draft in &mut writer.drafts {
        draft.piece.keywords = KEYWORDS.map(str::to_owned).to_vec();
        draft.children = Children::None;
    }
    cutting.drafts.append(&mut writer.drafts);
    let mut writer = PieceWriter::new(&flow, settings);
    // The section that contains the abstract may continue after it.
    for section in sections(&flow).into_iter().filter(|section| section.spans.end > after) {
        writer.spans(section.spans.start.max(after)..section.spans.end, &[]);
    }
    cutting.drafts.append(&mut writer.drafts);
    Ok(cutting)
}

/// Finds the elements of the abstract: a heading of that name and the text below it, or a paragraph that begins with
/// it.
fn find_abstract(placed: &[Placed<'_>]) -> Option<(usize, usize)> {
    let front = &placed[..placed.len().min(FRONT_MAX)];
    let first = front.iter().position(|placed| starts_abstract(&placed.element.body))?;
    let text = plain(&placed[first].element.body)?;
    // The word alone, perhaps with a number or a colon, is a title even if the file does not mark it as a heading.
    let is_title = matches!(placed[first].element.body, ElementBody::Heading { .. })
        || text.trim().chars().count() <= 12;
    if !is_title {
        return Some((first, first + 1));
    }
    let is_text = |placed: &Placed<'_>| {
        matches!(placed.element.body, ElementBody::Paragraph(_) | ElementBody::Item { .. })
    };
    let mut below = placed[first + 1..].iter().take_while(|placed| is_text(placed)).count();
    if !placed[first + 1 + below..]
        .iter()
        .any(|placed| matches!(placed.element.body, ElementBody::Heading { .. }))
    {
        // Without headings nothing marks its end, so it is taken to be one paragraph.
        below = below.min(1);
    }
    Some((first, first + 1 + below))
}

fn starts_abstract(body: &ElementBody) -> bool {
    let Some(text) = plain(body) else { return false };
    let text = text.trim_start().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ');
    let text = text.to_lowercase();
    // Chinese has no space between the word and the text that follows.
    ABSTRACT.iter().any(|word| {
        text.strip_prefix(word)
            .is_some_and(|rest| rest.chars().next().is_none_or(|c| !c.is_alphanumeric() || c > '\u{2e80}'))
    })
}

/// Extracts title and authors from the elements before the abstract.
fn front(source: &ChunkSource<'_>, end: Option<usize>, cutting: &mut Cutting) {
    let known = &source.parsed.metadata;
    let has = |name: &str| {
        known.get(name).and_then(|value| value.as_str()).is_some_and(|text| !text.trim().is_empty())
    };
    // Without an abstract only the first element can be the title.
    let lines: Vec<(usize, String)> = source.placed[..end.unwrap_or(1).min(source.placed.len())]
        .iter()
        .enumerate()
        .filter_map(|(at, placed)| {
            Some((at, plain(&placed.element.body)?.split_whitespace().collect::<Vec<_>>().join(" ")))
        })
        .filter(|(_, text)| text.chars().count() <= FRONT_LINE_MAX)
        .collect();
    let is_heading = |at: usize| matches!(source.placed[at].element.body, ElementBody::Heading { .. });
    let title = lines
        .iter()
        .find(|(at, _)| is_heading(*at))
        .or(lines.first())
        .filter(|(at, _)| end.is_some() || is_heading(*at));
    let Some((at, title)) = title else { return };
    if !has("title") {
        cutting.metadata.insert("title".to_owned(), json!(title));
    }
    // Lines with addresses are not names.
    let authors = lines.iter().find(|(line, text)| line > at && !text.contains('@') && !is_heading(*line));
    if let (Some((_, authors)), true, false) = (authors, end.is_some(), has("author")) {
        cutting.metadata.insert("author".to_owned(), json!(authors));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::seam::document_reader::ChunkMethod;

    use crate::chunk::testing::{contents, cut};

    const PAPER: ChunkMethod = ChunkMethod::Paper;

    #[test]
    fn the_abstract_is_one_chunk_and_found_by_its_name() {
        let long = "We show a thing that nobody has shown before. ".repeat(40);
        let text = format!(
            "# On things\n\nAda Byron, Grace Hopper\n\nada@example.org\n\n## Abstract\n\n{long}\n\n## 1 Introduction\n\n{long}\n\n### 1.1 More\n\nsmall\n\n## 2 End\n\nBye."
        );
        let document = cut(&text, "a.pdf", PAPER, json!({ "chunk_token_num": 100 }));
        assert_eq!(document.metadata["title"], "On things");
        assert_eq!(document.metadata["author"], "Ada Byron, Grace Hopper");
        let found =
            document.pieces.iter().find(|piece| piece.keywords.contains(&"abstract".to_owned())).unwrap();
        assert_eq!(found.content, format!("Abstract\n\n{}", long.trim()));
        assert_eq!(found.headings, ["On things", "Abstract"]);
        let others = document.pieces.iter().filter(|piece| piece.keywords.is_empty());
        assert!(others.clone().count() > 4 && others.clone().all(|piece| piece.tokens <= 100));
        assert_eq!(contents(&document).last(), Some(&"2 End\n\nBye."));
        assert!(contents(&document).iter().any(|content| content.ends_with("1.1 More\n\nsmall")));
    }

    #[test]
    fn an_abstract_may_be_one_paragraph() {
        let text = "论物\n\n张三\n\n摘要：我们展示了一个东西。\n\n正文开始了。";
        let document = cut(text, "a.pdf", PAPER, json!({}));
        assert_eq!(contents(&document), ["论物\n\n张三", "摘要：我们展示了一个东西。", "正文开始了。"]);
        assert_eq!(document.metadata["title"], "论物");
        let document = cut("Abstraction is no abstract.\n\nText.", "a.pdf", PAPER, json!({}));
        assert_eq!(contents(&document), ["Abstraction is no abstract.\n\nText."]);
        assert!(document.metadata.is_empty());
    }
}
