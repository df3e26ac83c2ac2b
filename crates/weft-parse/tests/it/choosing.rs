//! Detection of the format of a file.

use crate::build::{docx, epub, read, reason, samples, shown};

#[test]
fn every_format_is_known_by_its_extension() {
    for (name, bytes) in samples() {
        assert!(!read(name, &bytes).elements.is_empty(), "{name}");
    }
}

#[test]
fn unambiguous_content_takes_precedence_over_the_extension() {
    let document = docx("<w:p><w:r><w:t>inside</w:t></w:r></w:p>");
    for name in ["a.pdf", "a.txt", "a", "a.xlsx"] {
        assert_eq!(shown(&read(name, &document)), ["inside"], "{name}");
    }
    assert_eq!(read("book.zip", &epub()).pages, 2);
    // Programs export HTML pages as spreadsheets.
    assert_eq!(shown(&read("a.xls", b"<html><table><tr><td>a<td>b</table>")), ["table(0) a|b"]);
    assert_eq!(shown(&read("a.xls", b"name\tage\nAda\t36\n")), ["table(1) name|age / Ada|36"]);
}

#[test]
fn without_an_extension_the_text_decides() {
    let check = |bytes: &[u8], expected: &str| assert_eq!(shown(&read("README", bytes))[0], expected);
    check(b"<!DOCTYPE html><p>a", "a");
    check(b"{\"a\": 1}", "a: 1");
    check(b"# Title\n\ntext", "# Title");
    check(b"From: a@example.com\nSubject: S\n\ntext", "# S");
    check(b"#!/bin/sh\necho", "`` #!/bin/sh\necho");
    check(b"just text", "just text");
    // For text, the extension is trusted.
    assert_eq!(shown(&read("a.txt", b"# no title")), ["# no title"]);
}

#[test]
fn unsupported_files_are_refused_with_a_reason() {
    let check = |name: &str, bytes: &[u8], part: &str| {
        let reason = reason(name, bytes);
        assert!(reason.contains(part) && reason.starts_with(&format!("cannot read `{name}`: ")), "{reason}");
    };
    check("a.png", b"\x89PNG\r\n\x1a\n0000", "picture");
    let mut older = cfb::CompoundFile::create(std::io::Cursor::new(Vec::new())).unwrap();
    drop(older.create_stream("/PP40").unwrap());
    check("a.ppt", &older.into_inner().into_inner(), "an old or unknown format");
    check("a.zip", &crate::build::archive(&[("x.txt", "x")]), "archive");
    check("a.docx", b"PK\x03\x04 broken", "damaged container");
    check("a.pdf", b"\x00\x01\x02 no pdf", "it is not a PDF");
    check("a.xlsx", b"this is no archive", "it is not a spreadsheet");
    check("a.docx", b"# neither is this", "it is not a DOCX");
    check("a.pptx", b"name,age\nAda,36\n", "it is not a PPTX");
    check("a.epub", b"this is no archive", "it is not an EPUB");
    check("a.dat", b"\x00\x01\x02", "this kind of file is not known");
    check("a.txt", b"\x00\x01\x02\x03", "it is not text");
    check("a.txt", b"  \n", "it is empty");
    check("a.html", b"<script>x</script>", "there is no text in it");
    check("a.json", b"{\"a\": ", "it is not JSON");
    check("a.ipynb", b"{}", "no cells");
    check("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 broken", "damaged container");
}
