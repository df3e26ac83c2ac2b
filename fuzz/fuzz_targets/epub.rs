//! Chapters of EPUB.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::read_part(
    "a.epub",
    "a.xhtml",
    bytes,
    &[
        ("META-INF/container.xml", "<rootfile full-path='a.opf'/>"),
        ("a.opf", "<package><item id='a' href='a.xhtml'/><itemref idref='a'/></package>"),
    ],
));
