//! General chunking: sections and sentences are packed up to a number of tokens; rows of spreadsheets become lines.

use weft_core::error::Result;

use crate::chunk::draft::Cutting;
use crate::chunk::flow::{Flow, TablePlacement};
use crate::chunk::sheet;
use crate::chunk::source::ChunkSource;
use crate::chunk::writer::PieceWriter;

/// Cuts a document into chunks.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    if sheet::is_sheet(source) {
        return Ok(sheet::cut(source));
    }
    let flow = Flow::new(&source.placed, TablePlacement::Apart);
    let mut writer = PieceWriter::new(&flow, &source.settings).breaking_at_headings();
    writer.all();
    Ok(Cutting { drafts: writer.drafts, ..Cutting::default() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::seam::document_reader::{ChunkMethod, PieceKind};

    use crate::chunk::testing::{at, contents, cut, parsed, request};
    use crate::element::Parsed;
    use crate::tokens;

    const NAIVE: ChunkMethod = ChunkMethod::Naive;

    #[test]
    fn the_context_of_a_table_is_found_quickly() {
        let text = format!("{}\n\n|a|b|\n|1|2|", "It is so. ".repeat(20_000));
        let begun = std::time::Instant::now();
        let document = cut(&text, "a.md", ChunkMethod::Naive, json!({ "table_context_size": 16 }));
        let table = document.pieces.last().unwrap();
        assert!(table.content.starts_with("It is so. It is so. It is so. It is so.\n<table>"), "{table:?}");
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    #[test]
    fn sections_are_packed_and_start_with_their_heading() {
        let text = "# Returns\n\nYou may return goods.\n\n## Time\n\nWithin thirty days of the day you got them.\n\n# Payment\n\nBy card.";
        let document = cut(text, "a.md", NAIVE, json!({ "chunk_token_num": 14 }));
        assert_eq!(
            contents(&document),
            [
                "Returns\n\nYou may return goods.",
                "Time\n\nWithin thirty days of the day you got them.",
                "Payment\n\nBy card."
            ]
        );
        assert_eq!(document.pieces[1].headings, ["Returns", "Time"]);
        assert_eq!(document.pieces[2].headings, ["Payment"]);
        let contents: Vec<(u8, &str, usize)> = document
            .headings
            .iter()
            .map(|heading| (heading.level, heading.title.as_str(), heading.piece))
            .collect();
        assert_eq!(contents, [(1, "Returns", 0), (2, "Time", 1), (1, "Payment", 2)]);
        let whole = cut(text, "a.md", NAIVE, json!({}));
        assert_eq!(whole.pieces.len(), 1);
        assert_eq!(whole.pieces[0].tokens, tokens(&whole.pieces[0].content));
    }

    #[test]
    fn a_heading_stays_with_the_text_below() {
        let first = "word ".repeat(30);
        let long = "One sentence is here. ".repeat(10);
        let document =
            cut(&format!("{first}\n\n# Title\n\n{long}"), "a.md", NAIVE, json!({ "chunk_token_num": 40 }));
        let contents = contents(&document);
        assert_eq!(contents[0], first.trim());
        assert!(contents[1].starts_with("Title\n\nOne sentence is here. One"), "{contents:?}");
        assert!(contents.iter().all(|content| content.ends_with('.') || content.ends_with("word")));
        assert!(document.pieces.iter().all(|piece| piece.tokens <= 40));
    }

    #[test]
    fn a_list_of_headings_is_cut_between_them() {
        let text: Vec<String> = (0..60).map(|number| format!("# Heading number {number}")).collect();
        let document = cut(&text.join("\n\n"), "a.md", NAIVE, json!({ "chunk_token_num": 32 }));
        assert!(document.pieces.len() > 4);
        assert!(document.pieces.iter().all(|piece| piece.content.starts_with("Heading")), "{document:?}");
    }

    #[test]
    fn plain_delimiters_may_split_and_backticked_ones_must() {
        let settings = |delimiter: &str| json!({ "chunk_token_num": 12, "delimiter": delimiter });
        let text = "alpha beta gamma; delta epsilon zeta; eta theta iota; kappa lambda";
        let document = cut(text, "a.txt", NAIVE, settings(";"));
        assert!(document.pieces.len() > 1);
        let ends = |content: &str| content.ends_with(';') || content.ends_with("lambda");
        assert!(contents(&document).into_iter().all(ends), "{document:?}");
        let document = cut("a\n\nb %% c\n\n%% d %%", "a.txt", NAIVE, settings("`%%`"));
        assert_eq!(contents(&document), ["a\n\nb %%", "c\n\n%%", "d %%"]);
        let document = cut("%%\n\na %% %% b", "a.txt", NAIVE, settings("`%%`"));
        assert_eq!(contents(&document), ["a %%", "b"]);
    }

    #[test]
    fn long_text_is_split_at_sentences_then_words_then_anywhere() {
        let settings = json!({ "chunk_token_num": 30 });
        let check = |text: &str, ends: &[char]| {
            let document = cut(text, "a.txt", NAIVE, settings.clone());
            assert!(document.pieces.len() > 2, "{text}");
            for piece in &document.pieces {
                assert!(piece.tokens <= 30 && piece.tokens == tokens(&piece.content), "{piece:?}");
                assert!(piece.content.ends_with(ends) || text.ends_with(&piece.content), "{piece:?}");
            }
            let joined: String = contents(&document).concat().split_whitespace().collect();
            assert_eq!(joined, text.split_whitespace().collect::<String>());
        };
        check(&"The cat sat on the mat, and it slept. ".repeat(20), &['.']);
        check(&"猫坐在垫子上，睡着了。".repeat(20), &['。']);
        check(&"cat mat ".repeat(100), &['t']);
        check(&"汉字没有标点".repeat(50), &['汉', '字', '没', '有', '标', '点']);
        check(&"x9Qz".repeat(100), &['x', '9', 'Q', 'z']);
        check(&"👨‍👩‍👧".repeat(30), &['👧']);
    }

    #[test]
    fn overlap_is_measured_in_tokens_and_starts_at_a_sentence() {
        let sentences: Vec<String> =
            (100..140).map(|number| format!("Fact {number} is well known here.")).collect();
        let settings = json!({ "chunk_token_num": 64, "overlapped_percent": 25 });
        for text in
            [sentences.join(" "), sentences.join("\n\n"), format!("# T\n\n{}", sentences.join("\n\n- "))]
        {
            let document = cut(&text, "a.txt", NAIVE, settings.clone());
            assert!(document.pieces.len() > 4);
            for pair in document.pieces.windows(2) {
                let start = &pair[1].content[..11];
                let repeated = pair[0].content.find(start).unwrap_or_else(|| panic!("{pair:?}"));
                let repeated = tokens(&pair[0].content[repeated..]);
                assert!((8..=16).contains(&repeated), "{repeated} {pair:?}");
                assert!(pair[1].tokens <= 64);
            }
        }
    }

    #[test]
    fn tables_are_separate_chunks() {
        let text = "# Prices\n\nAll in euros. They hold this year.\n\n## List\n\n|item|price|\n|pen & ink|2|\n\nEnd of it. More.";
        let document = cut(text, "a.md", NAIVE, json!({ "table_context_size": 6 }));
        let table = &document.pieces[1];
        assert_eq!(table.kind, PieceKind::Table);
        assert_eq!(table.headings, ["Prices", "List"]);
        assert_eq!(
            table.content,
            "They hold this year.\nList\n<table>\n<tr><th>item</th><th>price</th></tr>\n<tr><td>pen &amp; ink</td><td>2</td></tr>\n</table>\nEnd of it. More."
        );
        assert_eq!(contents(&document)[0], "Prices\n\nAll in euros. They hold this year.");
        assert_eq!(document.headings.iter().map(|heading| heading.piece).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_long_table_is_split_between_rows_and_repeats_its_header() {
        let rows: String = (0..40).map(|row| format!("|name {row}|value {row}|\n")).collect();
        let text = format!("|key|content|\n{}", rows.trim_end());
        let document = cut(&text, "a.md", NAIVE, json!({ "chunk_token_num": 120 }));
        assert!(document.pieces.len() > 3);
        for piece in &document.pieces {
            assert!(
                piece.content.starts_with("<table>\n<tr><th>key</th>") && piece.content.ends_with("</table>")
            );
            assert!(piece.tokens <= 120);
        }
        let all = contents(&document).concat();
        assert!((0..40).all(|row| all.contains(&format!("<td>value {row}</td>"))));
    }

    #[test]
    fn code_stays_whole_where_it_fits() {
        let code = "    fn main() {\n        body();\n    }";
        let text = format!("{}\n\n```\n{code}\n```", "word ".repeat(30));
        let document = cut(&text, "a.md", NAIVE, json!({ "chunk_token_num": 40 }));
        assert_eq!(contents(&document)[1], code);
    }

    #[test]
    fn positions_of_merged_chunks_are_kept() {
        let parsed = Parsed {
            elements: vec![
                at("one", 1, 10.0),
                at("two", 1, 22.0),
                at("three", 1, 400.0),
                at("four", 2, 10.0),
            ],
            pages: 2,
            ..Parsed::default()
        };
        let document = super::super::super::cut(&parsed, &request("a.pdf", NAIVE, json!({}))).unwrap();
        let places: Vec<(u32, f32, f32)> =
            document.pieces[0].positions.iter().map(|at| (at.page, at.top, at.bottom)).collect();
        assert_eq!(places, [(1, 10.0, 32.0), (1, 400.0, 410.0), (2, 10.0, 20.0)]);
        let request = request("a.pdf", NAIVE, json!({ "pages": [[2, 2]] }));
        let document = super::super::super::cut(&parsed, &request).unwrap();
        assert_eq!(contents(&document), ["four"]);
    }

    #[test]
    fn children_know_their_parent() {
        let text = "# Head\n\nOne. Two! Three.\n\n# Other\n\nFour.";
        let settings = json!({ "chunk_token_num": 8, "children_delimiter": ".!" });
        let document = cut(text, "a.md", NAIVE, settings);
        assert_eq!(contents(&document), ["Head\n\nOne.", "Two!", "Three.", "Other\n\nFour."]);
        let parents: Vec<&str> = document.parents.iter().map(|piece| piece.content.as_str()).collect();
        assert_eq!(parents, ["Head\n\nOne. Two! Three.", "Other\n\nFour."]);
        let of: Vec<Option<usize>> = document.pieces.iter().map(|piece| piece.parent).collect();
        assert_eq!(of, [Some(0), Some(0), Some(0), Some(1)]);
        assert_eq!(document.pieces[2].headings, ["Head"]);
        assert_eq!(document.headings[1].piece, 3);
    }

    #[test]
    fn the_chunks_of_a_document_are_limited() {
        let words = "one two three four five six seven eight nine.\n\n".repeat(60_000);
        let request = request("a.txt", NAIVE, json!({ "chunk_token_num": 1 }));
        let error = crate::chunk::cut(&parsed(&words), &request).unwrap_err();
        assert!(error.full().contains("more than 50000 pieces"), "{}", error.full());
        // A chunk of a single word is as useless as it is costly.
        let few = cut("one two three four five six", "a.txt", NAIVE, json!({ "chunk_token_num": 1 }));
        assert_eq!(few.pieces.len(), 1);
    }

    #[test]
    fn a_file_without_text_is_refused() {
        let error =
            super::super::super::cut(&Parsed::default(), &request("a.pdf", NAIVE, json!({}))).unwrap_err();
        assert_eq!(error.message, "the file has no text");
    }
}
