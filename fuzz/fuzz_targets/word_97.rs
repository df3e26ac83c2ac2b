//! Documents of Word 97.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::read("a.doc", bytes));
