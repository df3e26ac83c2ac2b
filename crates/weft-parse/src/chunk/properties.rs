//! What holds for any document.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::test_runner::TestCaseError;
use serde_json::{Map, Value, json};
use weft_core::error::ErrorKind;
use weft_core::seam::document_reader::{ChunkMethod, Position, ReadDocument, ReadRequest};

use super::{WHOLE_TOKENS_MAX, cut};
use crate::element::{Element, ElementBody, Parsed, TableElement};
use crate::tokens;

fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-z]{1,9} ",
        2 => "[A-Z][a-z]{1,6}[.,;!?] ",
        2 => "[汉字无标点甲乙丙丁]{1,12}[。！，；]?",
        1 => "[0-9]{1,5}[.,]?[0-9]{0,2} ",
        1 => prop_oneof![Just("\n"), Just("\r\n"), Just("\t"), Just("  "), Just("`%%`"), Just("第一章 "), Just("Chapter 2 ")]
            .prop_map(str::to_owned),
        1 => prop_oneof![Just("👨‍👩‍👧"), Just("e\u{301}\u{302}"), Just("한국어"), Just("<b>&"), Just("目录"), Just("\0")]
            .prop_map(str::to_owned),
        1 => "\\PC{0,6}",
    ];
    vec(part, 0..40).prop_map(|parts| parts.concat())
}

fn body() -> impl Strategy<Value = ElementBody> {
    let table = (vec(vec(text(), 0..4), 0..6), 0..3_usize, proptest::option::of(text()));
    prop_oneof![
        2 => (any::<u8>(), "[A-Z][a-z 汉]{0,30}").prop_map(|(level, text)| ElementBody::Heading { level: level % 8, text }),
        5 => text().prop_map(ElementBody::Paragraph),
        1 => (any::<u8>(), text()).prop_map(|(depth, text)| ElementBody::Item { depth, text }),
        1 => text().prop_map(|text| ElementBody::Code { language: None, text }),
        1 => table.prop_map(|(rows, header_rows, caption)| ElementBody::Table(TableElement { caption, header_rows, rows })),
        1 => text().prop_map(|caption| ElementBody::Image { caption }),
        1 => (0..9_u32, proptest::option::of("[a-z]{0,5}")).prop_map(|(number, name)| ElementBody::Break { number, name }),
    ]
}

fn position() -> impl Strategy<Value = Position> {
    (1..4_u32, 0..3_u8, 0..40_u8).prop_map(|(page, column, line)| Position {
        page,
        left: f32::from(column) * 100.0,
        right: f32::from(column) * 100.0 + 90.0,
        top: f32::from(line) * 12.0,
        bottom: f32::from(line) * 12.0 + 10.0,
    })
}

fn parsed() -> impl Strategy<Value = Parsed> {
    let element = (body(), vec(position(), 0..3)).prop_map(|(body, positions)| Element::new(body, positions));
    vec(element, 0..12).prop_map(|elements| Parsed { elements, ..Parsed::default() })
}

fn settings() -> impl Strategy<Value = Map<String, Value>> {
    let delimiter = prop_oneof![Just("\\n"), Just("。.!"), Just("`%%`\\n"), Just(" ")];
    let children = prop_oneof![3 => Just(""), 1 => Just("。.`%%`")];
    (
        10..120_u32,
        delimiter,
        children,
        prop_oneof![2 => Just(0_u32), 1 => 0..=90_u32],
        any::<bool>(),
        0..30_u32,
    )
        .prop_map(|(limit, delimiter, children, overlap, html, context)| {
            let settings = json!({
                "chunk_token_num": limit, "delimiter": delimiter, "children_delimiter": children,
                "overlapped_percent": overlap, "html4excel": html, "table_context_size": context,
            });
            settings.as_object().cloned().unwrap_or_default()
        })
}

fn read(
    parsed: &Parsed,
    name: &str,
    method: ChunkMethod,
    settings: &Map<String, Value>,
) -> Option<ReadDocument> {
    let request = ReadRequest { name: name.to_owned(), method, settings: settings.clone() };
    match cut(parsed, &request) {
        Ok(document) => Some(document),
        Err(error) => {
            assert!(matches!(error.kind, ErrorKind::Invalid | ErrorKind::Unsupported), "{error:?}");
            None
        }
    }
}

fn check(document: &ReadDocument, parsed: &Parsed, limit: u32) -> Result<(), TestCaseError> {
    let given: Vec<&Position> = parsed.elements.iter().flat_map(|element| &element.positions).collect();
    for piece in document.pieces.iter().chain(&document.parents) {
        assert!(!piece.content.trim().is_empty(), "{piece:?}");
        assert_eq!(piece.tokens, tokens(&piece.content), "{piece:?}");
        assert!(piece.tokens <= limit || piece.content.chars().count() == 1, "{limit} {piece:?}");
        for place in piece.positions.iter().filter(|place| place.right > 0.0) {
            let edge = |fits: fn(&Position) -> f32, value: f32| {
                given.iter().any(|given| given.page == place.page && fits(given) == value)
            };
            assert!(edge(|at| at.left, place.left) && edge(|at| at.right, place.right), "{place:?}");
            assert!(edge(|at| at.top, place.top) && edge(|at| at.bottom, place.bottom), "{place:?}");
        }
    }
    assert!(document.pieces.iter().all(|piece| piece.parent.is_none_or(|at| at < document.parents.len())));
    assert!(document.headings.iter().all(|heading| heading.piece < document.pieces.len()));
    assert!(document.headings.is_sorted_by_key(|heading| heading.piece));
    Ok(())
}

/// Whether the letters of a text stand in another one, in order.
fn has_in_order(all: &str, text: &str) -> bool {
    let mut letters = all.chars().filter(|c| c.is_alphanumeric());
    text.chars().filter(|c| c.is_alphanumeric()).all(|c| letters.any(|other| other == c))
}

fn letters(elements: &[Element]) -> String {
    let mut all = String::new();
    for element in elements {
        match &element.body {
            ElementBody::Heading { text, .. }
            | ElementBody::Paragraph(text)
            | ElementBody::Item { text, .. }
            | ElementBody::Code { text, .. } => {
                all.push_str(text);
            }
            ElementBody::Table(table) => {
                all.extend(table.caption.iter().map(String::as_str));
                all.extend(table.rows.iter().flatten().map(String::as_str));
            }
            ElementBody::Image { caption } => all.push_str(caption),
            ElementBody::Break { .. } => {}
        }
    }
    all
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn limits_and_places_hold_for_every_method(parsed in parsed(), settings in settings()) {
        let limit = settings["chunk_token_num"].as_u64().unwrap() as u32;
        for method in ChunkMethod::ALL {
            for name in ["a.md", "a.pdf", "a.csv", "a.txt"] {
                let Some(document) = read(&parsed, name, method, &settings) else { continue };
                let whole = matches!(
                    method,
                    ChunkMethod::One | ChunkMethod::Paper | ChunkMethod::Picture | ChunkMethod::Qa | ChunkMethod::Table | ChunkMethod::Tag
                );
                check(&document, &parsed, if whole { WHOLE_TOKENS_MAX } else { limit })?;
                assert_eq!(Some(document), read(&parsed, name, method, &settings));
            }
        }
    }

    #[test]
    fn nothing_of_the_text_is_lost(parsed in parsed(), settings in settings()) {
        let mut settings = settings;
        settings.insert("delimiter".to_owned(), json!("\n"));
        let mut plain = parsed;
        // Tables have marks of their own among their text; they have their own tests.
        plain.elements.retain(|element| !matches!(element.body, ElementBody::Table(_)));
        let expected = letters(&plain.elements);
        for method in [ChunkMethod::Naive, ChunkMethod::Book, ChunkMethod::Laws, ChunkMethod::Manual, ChunkMethod::Paper, ChunkMethod::Presentation, ChunkMethod::One] {
            let Some(document) = read(&plain, "a.md", method, &settings) else {
                assert!(plain.elements.iter().all(|element| crate::chunk::flow::plain(&element.body).is_none()));
                continue;
            };
            let all: String = document.pieces.iter().map(|piece| piece.content.as_str()).collect();
            let is_said = document.warnings.iter().any(|warning| warning.contains("left out"));
            assert!(is_said || has_in_order(&all, &expected), "{method:?}\n{all}\n{expected}");
        }
    }

    #[test]
    fn nothing_of_a_table_is_lost(parsed in parsed(), settings in settings()) {
        let mut settings = settings;
        settings.insert("delimiter".to_owned(), json!("\n"));
        let Some(document) = read(&parsed, "a.md", ChunkMethod::Naive, &settings) else { return Ok(()) };
        let all: String = document.pieces.iter().map(|piece| piece.content.replace("&amp;", "&").replace("&lt;", "<")).collect();
        assert!(has_in_order(&all, &letters(&parsed.elements)), "{all}\n{:?}", parsed.elements);
    }

    #[test]
    fn any_settings_are_read_or_refused(name in "[a-z_]{1,12}", number in any::<f64>(), text in text()) {
        for value in [json!(number), json!(text), json!([[number, text]]), json!({ "a": number })] {
            for key in ["chunk_token_num", "delimiter", "children_delimiter", "overlapped_percent", "html4excel", "pages", "table_context_size", name.as_str()] {
                let parsed = super::testing::parsed("# A\n\nsome text. And more.");
                let settings = [(key.to_owned(), value.clone())].into_iter().collect();
                read(&parsed, "a.md", ChunkMethod::Naive, &settings);
            }
        }
    }
}
