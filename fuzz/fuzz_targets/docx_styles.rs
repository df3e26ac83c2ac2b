//! The styles of DOCX.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::read_part(
    "a.docx",
    "word/styles.xml",
    bytes,
    &[
        ("word/document.xml", "<w:p><w:pPr><w:pStyle w:val='a'/></w:pPr><w:r><w:t>text</w:t></w:r></w:p>"),
        ("word/_rels/document.xml.rels", "<R><R Id='a' Type='x/styles' Target='styles.xml'/></R>"),
    ],
));
