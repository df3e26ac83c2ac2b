//! Chunking of tag sets: texts, each with the tags that it is found by.

use std::collections::HashSet;

use weft_core::error::{Error, Result};

use crate::chunk::delimited::{self, DelimitedRow};
use crate::chunk::draft::{Cutting, PieceDraft};
use crate::chunk::source::ChunkSource;

/// Reads rows of a text and a list of tags. Rows of any other shape are added to the text of the next one.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    let mut rows = delimited::of_tables(source);
    if rows.is_empty() {
        rows = delimited::of_lines(source);
    }
    let mut cutting = Cutting::default();
    let mut before: Vec<String> = Vec::new();
    let mut last = 0;
    for DelimitedRow { element, cells, line } in rows {
        last = element;
        let Some((content, tags)) = cells.split_first().filter(|(_, tags)| !tags.is_empty()) else {
            before.push(line);
            continue;
        };
        before.push(content.clone());
        let mut draft = PieceDraft::of(source, element, before.join("\n"));
        draft.piece.keywords = words(tags);
        cutting.drafts.push(draft);
        before.clear();
    }
    if cutting.drafts.is_empty() {
        return Err(Error::invalid("the file has no row with a text and its tags")
            .help("put the text into the first column and the tags, separated by commas, into the second"));
    }
    if !before.is_empty() {
        let rows = weft_core::value::plural(before.len(), "row");
        cutting.warnings.push(format!("the file ends with {rows} without tags"));
        cutting.drafts.push(PieceDraft::of(source, last, before.join("\n")));
    }
    Ok(cutting)
}

fn words(tags: &[String]) -> Vec<String> {
    let (mut words, mut seen) = (Vec::new(), HashSet::new());
    for tag in tags.iter().flat_map(|tags| tags.split([',', '，', ';', '；', '、'])).map(str::trim) {
        if !tag.is_empty() && seen.insert(tag) {
            words.push(tag.to_owned());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::seam::document_reader::ChunkMethod;

    use crate::chunk::testing::{contents, cut, parsed, request};

    const TAG: ChunkMethod = ChunkMethod::Tag;

    #[test]
    fn a_row_has_a_text_and_tags() {
        let document = cut(
            "|How to return?|returns, money，returns|\n|more text||\n|Where?|place|",
            "a.csv",
            TAG,
            json!({}),
        );
        assert_eq!(contents(&document), ["How to return?", "more text\nWhere?"]);
        assert_eq!(document.pieces[0].keywords, ["returns", "money"]);
        let document = cut("first line\nWhere?\tplace, time\nleft", "a.txt", TAG, json!({}));
        assert_eq!(contents(&document), ["first line\nWhere?", "left"]);
        assert_eq!(
            (&document.pieces[0].keywords[..], document.warnings.len()),
            (&["place".to_owned(), "time".to_owned()][..], 1)
        );
        let tags: String = (0..60_000).map(|at| format!("t{at},t{at},")).collect();
        let begun = std::time::Instant::now();
        let document = cut(&format!("|Where?|{tags}|"), "a.csv", TAG, json!({}));
        assert_eq!(document.pieces[0].keywords.len(), 60_000);
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
        let error = crate::chunk::cut(&parsed("nothing"), &request("a.txt", TAG, json!({}))).unwrap_err();
        assert!(error.message.contains("tags"));
    }
}
