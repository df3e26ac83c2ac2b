//! Small files that refer to one content from many places: the result must not be many times as large.

use weft_parse::element::{ElementBody, Parsed};

use crate::build::{archive, docx, pptx, read, relations, text, xlsx};
use crate::office::outlook;

/// Bytes of the whole result.
fn size(parsed: &Parsed) -> usize {
    text(parsed).len()
}

/// The text of the innermost of many nested tables, each with a row-spanning cell.
fn nested(open: &str, close: &str) -> String {
    open.repeat(60) + "innermost" + &close.repeat(60)
}

#[test]
fn tables_within_tables_do_not_multiply() {
    let html = nested(
        "<table><tr><td rowspan=9>",
        "</td></tr><tr><td></td></tr><tr><td></td></tr><tr><td></td></tr></table>",
    );
    let below = "<w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr></w:tc></w:tr>".repeat(3);
    let word = nested(
        "<w:tbl><w:tr><w:tc><w:tcPr><w:vMerge w:val='restart'/></w:tcPr><w:p><w:r><w:t>x</w:t></w:r></w:p>",
        &format!("</w:tc></w:tr>{below}</w:tbl>"),
    )
    .replace("innermost", "<w:p><w:r><w:t>innermost</w:t></w:r></w:p>");
    for (name, bytes) in [("a.html", html.into_bytes()), ("a.docx", docx(&word))] {
        let parsed = read(name, &bytes);
        assert_eq!(text(&parsed).matches("innermost").count(), 4, "{name}");
        assert!(size(&parsed) < 2_000, "{name}: {}", size(&parsed));
    }
}

#[test]
fn attachments_sharing_one_offset_are_not_all_read() {
    use std::io::{Cursor, Write as _};
    const COUNT: usize = 30;
    let folders: Vec<String> =
        (0..COUNT).map(|number| format!("/__attach_version1.0_#{number:08X}")).collect();
    let names: Vec<&str> = folders.iter().map(String::as_str).collect();
    let mail = outlook(&names, &[("/0037", "Hi")], &[("", vec![0; 32])]);
    let mut file = cfb::CompoundFile::open(Cursor::new(mail)).unwrap();
    for (number, folder) in folders.iter().enumerate() {
        let words = if number == 0 { 40_000 } else { 1_000 };
        let mut stream = file.create_stream(format!("{folder}/__substg1.0_37010102")).unwrap();
        stream.write_all("word ".repeat(words).as_bytes()).unwrap();
    }
    let mut bytes = file.into_inner().into_inner();
    let all = text(&read("a.msg", &bytes)).matches("word").count();
    assert_eq!(all, 40_000 + 1_000 * (COUNT - 1));
    // All that is stored of each attachment is the offset of the first one, and its length.
    let name: Vec<u8> = "__substg1.0_37010102".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let entries: Vec<usize> =
        (0..bytes.len() - 128).step_by(128).filter(|at| bytes[*at..].starts_with(&name)).collect();
    assert_eq!(entries.len(), COUNT);
    let length = |at: &usize| u64::from_le_bytes(bytes[at + 120..at + 128].try_into().unwrap());
    let first = entries.iter().copied().max_by_key(length).unwrap();
    let place = bytes[first + 116..first + 128].to_vec();
    for at in entries {
        bytes[at + 116..at + 128].copy_from_slice(&place);
    }
    // Refusing such a file is acceptable as well.
    if let Ok(parsed) = weft_parse::parse("a.msg", &bytes, &weft_parse::DocumentSettings::new()) {
        assert!(size(&parsed) < 9 * bytes.len(), "{} of {}", size(&parsed), bytes.len());
        assert!(parsed.warnings.iter().any(|warning| warning.contains("left out")), "{:?}", parsed.warnings);
    }
}

#[test]
fn notes_are_read_once() {
    let paragraph = "<w:r><w:footnoteReference w:id='2'/></w:r><w:r><w:commentReference w:id='0'/></w:r>";
    let parsed = read("a.docx", &docx(&format!("<w:p>{}</w:p>", paragraph.repeat(1_000))));
    let text = text(&parsed);
    assert_eq!((text.matches("the note").count(), text.matches("really?").count()), (1, 1));
    assert_eq!(text.matches("[2]").count(), 1_001);
}

#[test]
fn a_chapter_is_read_once_however_often_the_book_names_it() {
    let item = |n: usize| format!("<item id='c{n}' href='{}a.xhtml'/>", "./".repeat(n % 3));
    let items: String = (0..1_000).map(item).collect();
    let spine: String = (0..1_000).map(|n| format!("<itemref idref='c{n}'/>")).collect();
    let bytes = archive(&[
        ("mimetype", "application/epub+zip"),
        (
            "META-INF/container.xml",
            "<container><rootfiles><rootfile full-path='b.opf'/></rootfiles></container>",
        ),
        ("b.opf", &format!("<package><manifest>{items}</manifest><spine>{spine}</spine></package>")),
        ("a.xhtml", "<html><body><p>the only chapter</p></body></html>"),
    ]);
    let parsed = read("a.epub", &bytes);
    assert_eq!(text(&parsed).matches("the only chapter").count(), 1);
}

#[test]
fn attributes_of_a_tag_are_limited() {
    let tag = |count: usize| {
        let attributes: String = (0..count).map(|n| format!(" a{n}=1")).collect();
        read("a.html", format!("<p>before</p><p{attributes}>behind</p>").as_bytes())
    };
    assert_eq!(text(&tag(1_000)), "before\nbehind");
    // Each attribute is compared with all before it, so the rest of the page is given up instead.
    let cut = tag(80_000);
    assert_eq!(text(&cut), "before");
    assert!(cut.warnings.join(" ").contains("too large"), "{:?}", cut.warnings);
    // A long text without tags is read to its end.
    let long = format!(
        "<p>{}</p><script>{}</script><p>end</p>",
        "a \"b\" ".repeat(90_000),
        "x = 'y' / 2;".repeat(90_000)
    );
    assert!(text(&read("a.html", long.as_bytes())).ends_with("end"));
}

#[test]
fn invalid_urls_are_left_out() {
    let target = format!("https://example.com/{}", "a".repeat(100_000));
    let link = "<w:hyperlink r:id='a'><w:r><w:t>here</w:t></w:r></w:hyperlink>".repeat(1_000);
    let bytes = archive(&[
        ("word/document.xml", &format!("<w:p>{link}</w:p>")),
        ("word/_rels/document.xml.rels", &relations(&[("a", "hyperlink", &target)])),
    ]);
    let parsed = read("a.docx", &bytes);
    assert!(text(&parsed).starts_with("herehere") && size(&parsed) == 4_000, "{}", size(&parsed));
}

#[test]
fn paths_of_values_do_not_grow_with_every_level() {
    let name = "n".repeat(10_000);
    let json = format!("{{\"{name}\":").repeat(100);
    let values = vec!["[1,[2]]"; 2_000].join(",");
    let parsed = read("a.json", format!("{json}[{values}]{}", "}".repeat(100)).as_bytes());
    assert!(parsed.elements.len() >= 2_000, "{}", parsed.elements.len());
    assert!(size(&parsed) < 4_000 * 2_000, "{}", size(&parsed));
}

#[test]
fn long_merged_cells_are_repeated_only_so_far() {
    let row =
        "<a:tr h='1'><a:tc vMerge='1'><a:p/></a:tc><a:tc><a:p><a:r><a:t>x</a:t></a:r></a:p></a:tc></a:tr>";
    let long = "word ".repeat(200_000);
    let slide = format!(
        "<p:sld><a:tbl><a:tr><a:tc rowSpan='1000'><a:p><a:r><a:t>{long}</a:t></a:r></a:p></a:tc>
         <a:tc><a:p><a:r><a:t>y</a:t></a:r></a:p></a:tc></a:tr>{}</a:tbl></p:sld>",
        row.repeat(999)
    );
    let parsed = read("a.pptx", &pptx(&slide));
    let table = parsed.elements.iter().find_map(|element| match &element.body {
        ElementBody::Table(table) => Some(table),
        _ => None,
    });
    let table = table.expect("there is a table");
    assert_eq!(table.rows.len(), 1_000);
    assert!(table.rows.iter().flatten().map(String::len).sum::<usize>() < 20 << 20);
}

/// Without a limit this would copy two hundred gigabytes.
#[test]
fn merged_areas_over_one_long_text_are_limited() {
    let long = "word ".repeat(400_000);
    let areas = "<mergeCell ref='A1:A2'/>".repeat(100_000);
    let sheet = format!(
        "<sheetData><row r='1'><c r='A1' t='inlineStr'><is><t>{long}</t></is></c></row><row r='2'><c r='B2'><v>2</v></c></row>
         </sheetData><mergeCells>{areas}</mergeCells>"
    );
    assert!(text(&read("a.xlsx", &xlsx(&sheet))).ends_with("|2"));
}

#[test]
fn cells_merged_down_a_sheet_are_limited() {
    let long = "word ".repeat(6_000);
    let sheet = format!(
        "<sheetData><row r='1'><c r='A1' t='inlineStr'><is><t>{long}</t></is></c></row>
         <row r='10000'><c r='B10000'><v>2</v></c></row></sheetData><mergeCells><mergeCell ref='A1:A10000'/></mergeCells>"
    );
    let parsed = read("a.xlsx", &xlsx(&sheet));
    assert!(text(&parsed).ends_with("|2"), "the last row is there");
    assert!(size(&parsed) < 17 << 20, "{}", size(&parsed));
}
