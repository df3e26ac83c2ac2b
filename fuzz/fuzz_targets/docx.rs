//! The text of DOCX.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::read_part("a.docx", "word/document.xml", bytes, &[]));
