//! Files made to do harm, and files that are just broken.

use std::io::{Cursor, Write as _};

use proptest::prelude::{ProptestConfig, Strategy, any, prop, proptest};
use proptest::sample::Index;
use weft_parse::{DocumentSettings, parse};

use crate::build::{archive, archive_of, docx, read, reason, relations, samples, text, written, xlsx};

/// Content larger than the limits is not unpacked; `archive` has a test with false sizes.
#[test]
fn bombs_are_not_unpacked() {
    for (name, path) in [("a.docx", "word/document.xml"), ("a.xlsx", "xl/worksheets/sheet1.xml")] {
        let mut bytes = archive(&[(path, "<a/>")]);
        let list = bytes.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
        bytes[list + 24..list + 28].copy_from_slice(&(600_u32 << 20).to_le_bytes());
        let reason = reason(name, &bytes);
        assert!(reason.contains("larger than 512 MiB"), "{reason}");
    }
}

#[test]
fn billion_laughs_are_not_expanded() {
    let mut entities = String::from("<!ENTITY l0 \"ha\">");
    for level in 1..30 {
        let below = format!("&l{};", level - 1).repeat(10);
        entities.push_str(&format!("<!ENTITY l{level} \"{below}\">"));
    }
    let source = format!("<?xml version='1.0'?><!DOCTYPE a [{entities}]><a>text &l29;</a>");
    assert_eq!(text(&read("a.xml", source.as_bytes())), "a: text &l29;");
    let body = format!("<!DOCTYPE a [{entities}]><w:p><w:r><w:t>text &l29;</w:t></w:r></w:p>");
    let bytes = archive(&[("word/document.xml", &body)]);
    assert_eq!(text(&read("a.docx", &bytes)), "text &l29;");
}

#[test]
fn depth_is_bounded() {
    let deep = 100_000;
    let check = |name: &str, bytes: Vec<u8>, part: &str| {
        let said = match parse(name, &bytes, &DocumentSettings::new()) {
            Ok(parsed) => parsed.warnings.join(" "),
            Err(error) => error.full(),
        };
        assert!(said.contains(part), "{name}: {said}");
    };
    check("a.xml", "<a>".repeat(deep).into_bytes(), "nested more than");
    check("a.json", "[".repeat(deep).into_bytes(), "recursion limit");
    check("a.html", ("<p>text".to_owned() + &"<div>".repeat(deep)).into_bytes(), "nested too deeply");
    check("a.docx", docx(&("<w:tbl><w:tr><w:tc>".repeat(deep) + "x")), "nested more than");
    check("a.docx", docx(&("<m:oMath>".to_owned() + &"<m:f><m:num>".repeat(deep))), "nested more than");
    // The allowed depth does not overflow the stack.
    let quotes = ">".repeat(2_000) + " text";
    assert!(text(&read("a.md", quotes.as_bytes())).contains("text"));
    let lists: String = (0..500).map(|depth| format!("{}- a\n", " ".repeat(depth * 2))).collect();
    assert!(!read("a.md", lists.as_bytes()).elements.is_empty());
    assert!(text(&read("a.html", ("<b>".repeat(1_500) + "text").as_bytes())).contains("text"));
    // Deeper content still gives its text, even if a tag is split across two parts.
    let page = format!("<main>{}<p>the <b>inner</b>most</p>", "<div class=a>".repeat(10_000));
    let parsed = read("a.html", page.as_bytes());
    assert_eq!((text(&parsed).as_str(), parsed.warnings.len()), ("the innermost", 1));
}

#[test]
fn sheets_are_bounded_by_their_contents() {
    let far = "<dimension ref='A1:XFD1048576'/><sheetData><row r='1'><c r='A1'><v>1</v></c></row>
        <row r='1048576'><c r='A1048576'><v>2</v></c><c r='XFD1048576'><v>3</v></c></row></sheetData>
        <mergeCells><mergeCell ref='A1:XFD1048576'/></mergeCells>";
    let parsed = read("a.xlsx", &xlsx(far));
    assert!(parsed.warnings[0].contains("too large"), "{:?}", parsed.warnings);
}

/// A record of a binary workbook.
fn record(kind: u16, body: &[u8]) -> Vec<u8> {
    let kind = match kind {
        0..0x80 => vec![kind as u8],
        _ => vec![(kind & 0x7f) as u8 | 0x80, (kind >> 7) as u8],
    };
    [&kind[..], &[u8::try_from(body.len()).unwrap()], body].concat()
}

#[test]
fn binary_sheets_are_bounded_by_their_contents() {
    let wide = |text: &str| {
        let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], &units].concat()
    };
    // A visible sheet, its number, the name of its part and its own.
    let sheet = [&[0_u8, 0, 0, 0, 1, 0, 0, 0][..], &wide("rId1"), &wide("S")].concat();
    let workbook = [record(0x9c, &sheet), record(0x90, &[]), record(0x84, &[])].concat();
    let cell = |row: u32, column: u32, value: f64| {
        let body = [&column.to_le_bytes()[..], &[0; 4], &value.to_le_bytes()].concat();
        [record(0, &row.to_le_bytes()), record(5, &body)].concat()
    };
    let sheet = [
        record(0x94, &[0; 16]),
        record(0x91, &[]),
        cell(0, 0, 1.0),
        cell(1_000_000, 1_000, 2.0),
        cell(1_000_001, 4_000_000_000, 3.0),
        record(0x92, &[]),
    ]
    .concat();
    let links = relations(&[("rId1", "worksheet", "worksheets/sheet1.bin")]);
    let bytes = archive_of(&[
        ("xl/workbook.bin", &workbook),
        ("xl/_rels/workbook.bin.rels", links.as_bytes()),
        ("xl/worksheets/sheet1.bin", &sheet),
    ]);
    let parsed = read("a.xlsb", &bytes);
    assert_eq!(text(&parsed), format!("--- 1 S\ntable(0) 1 / {}2", "|".repeat(1_000)));
    assert!(parsed.warnings[0].contains("too large"), "{:?}", parsed.warnings);
}

#[test]
fn cyclic_outlines_and_pages_terminate() {
    let object = |text: &str| {
        let mut pdf = format!("%PDF-1.4\n{text}\n");
        let start = pdf.len();
        pdf.push_str(&format!(
            "xref\n0 1\n0000000000 65535 f \ntrailer << /Root 1 0 R /Size 9 >>\nstartxref\n{start}\n%%EOF"
        ));
        pdf
    };
    let circles = [
        "1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj 2 0 obj << /Type /Pages /Kids [2 0 R] /Count 3 >> endobj",
        "1 0 obj << /Type /Catalog /Pages 2 0 R /Outlines 3 0 R >> endobj 2 0 obj << /Type /Pages /Kids [] /Count 0 >> endobj
         3 0 obj << /First 4 0 R >> endobj 4 0 obj << /Title (a) /Next 4 0 R /First 3 0 R >> endobj",
        "1 0 obj 1 0 R endobj",
    ];
    for circle in circles {
        // Whatever the input, there is a result.
        let _ = parse("a.pdf", object(circle).as_bytes(), &DocumentSettings::new());
    }
    let page = "1 0 obj << /Type /Catalog /Pages 2 0 R /Outlines 3 0 R >> endobj
        2 0 obj << /Type /Pages /Kids [5 0 R] /Count 1 >> endobj 3 0 obj << /First 4 0 R >> endobj
        4 0 obj << /Title (a) /Next 4 0 R /First 3 0 R >> endobj
        5 0 obj << /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 6 0 R /Resources << /Font << /F 7 0 R >> /XObject << /X 8 0 R >> >> >> endobj
        6 0 obj << /Length 44 >> stream\nBT /F 9 Tf 1 1 Td (text) Tj ET /X Do        \nendstream endobj
        7 0 obj << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> endobj
        8 0 obj << /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 8 0 R >> >> /Length 5 >> stream\n/X Do\nendstream endobj";
    let _ = parse("a.pdf", object(page).as_bytes(), &DocumentSettings::new());
}

/// Each level doubles the number of visits if nodes are visited more than once.
#[test]
fn page_trees_that_refer_to_themselves_are_refused() {
    let node = |below: usize| format!("<< /Type /Pages /Kids [{below} 0 R {below} 0 R] >>");
    let chain = (3..60).map(node).collect();
    for tree in [vec![node(2)], vec![node(3), node(2)], chain] {
        let catalog = "<< /Type /Catalog /Pages 2 0 R >>".to_owned();
        let objects: Vec<Vec<u8>> = std::iter::once(catalog).chain(tree).map(String::into_bytes).collect();
        let reason = reason("a.pdf", &written(&objects));
        assert!(reason.contains("page tree of the PDF refers to itself"), "{reason}");
    }
}

#[test]
fn a_library_panic_is_reported_as_a_reason() {
    // The beginning of a spreadsheet, and an empty font record.
    let records = [9, 8, 4, 0, 0, 6, 5, 0, 0x42, 0, 0, 0];
    let mut file = cfb::CompoundFile::create(Cursor::new(Vec::new())).unwrap();
    file.create_stream("/Workbook").unwrap().write_all(&records).unwrap();
    let bytes = file.into_inner().into_inner();
    let reason = reason("a.xls", &bytes);
    assert!(reason.ends_with("the library for files of this kind failed on it"), "{reason}");
}

/// Reads it under every name, so that every text reader sees it.
fn read_anyhow(bytes: &[u8]) {
    for (name, _) in samples() {
        let _ = parse(name, bytes, &DocumentSettings::new());
    }
}

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { cases: count, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        read_anyhow(&bytes);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[\\PC\n\t<>&;#|`*\\[\\]{}\",:-]{0,300}") {
        read_anyhow(text.as_bytes());
    }
}

/// Files of every format with some bytes changed.
fn mutated(bytes: &[u8], changes: &[(Index, u8)], cut: Option<Index>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (place, byte) in changes {
        let at = place.index(bytes.len());
        bytes[at] = *byte;
    }
    if let Some(cut) = cut {
        bytes.truncate(cut.index(bytes.len()));
    }
    bytes
}

/// Files of every format, changed.
fn read_broken(changes: &[(Index, u8)], cut: Option<Index>) {
    for (name, bytes) in samples() {
        let _ = parse(name, &mutated(&bytes, changes, cut), &DocumentSettings::new());
    }
}

/// Archives with changed parts, since changes of the archives themselves only break their checksums.
fn read_broken_parts(changes: &[(Index, u8)], cut: Option<Index>) {
    for (name, bytes) in samples() {
        let Ok(mut inner) = zip::ZipArchive::new(Cursor::new(bytes)) else { continue };
        let mut files = Vec::new();
        for index in 0..inner.len() {
            let mut file = inner.by_index(index).unwrap();
            let mut text = Vec::new();
            std::io::Read::read_to_end(&mut file, &mut text).unwrap();
            let name = file.name().unwrap().into_owned();
            files.push((name, String::from_utf8_lossy(&mutated(&text, changes, cut)).into_owned()));
        }
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let _ = parse(name, &archive(&files), &DocumentSettings::new());
    }
}

fn any_changes() -> impl Strategy<Value = Vec<(Index, u8)>> {
    prop::collection::vec((any::<Index>(), any::<u8>()), 1..12)
}

/// Characters with a meaning in XML.
fn marks() -> impl Strategy<Value = Vec<(Index, u8)>> {
    let mark = prop::sample::select(b"<>/='\"&; 09ax\n:!-[]".to_vec());
    prop::collection::vec((any::<Index>(), mark), 1..12)
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn broken_files_are_read_or_refused(changes in any_changes(), cut in prop::option::of(any::<Index>())) {
        read_broken(&changes, cut);
    }

    #[test]
    fn broken_parts_of_archives_are_read_or_refused(changes in marks(), cut in prop::option::of(any::<Index>())) {
        read_broken_parts(&changes, cut);
    }
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    #[ignore = "takes many minutes; see fuzz/README.md"]
    fn many_broken_files(changes in any_changes(), marks in marks(), cut in prop::option::of(any::<Index>())) {
        read_broken(&changes, cut);
        read_broken(&marks, None);
        read_broken_parts(&marks, cut);
        read_broken_parts(&changes, None);
    }
}
