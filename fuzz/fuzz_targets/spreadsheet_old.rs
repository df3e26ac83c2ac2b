//! Spreadsheets of Excel before 2007.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::read("a.xls", bytes));
