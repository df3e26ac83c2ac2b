//! From text to pieces, by every method.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::cut(bytes));
