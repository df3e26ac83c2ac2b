//! Prints what files are made of: `cargo run -p weft-parse --example parts -- FILE…`
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program for the terminal")]

use weft_parse::DocumentSettings;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        match weft_parse::parse(&path, &std::fs::read(&path)?, &DocumentSettings::new()) {
            Ok(parsed) => println!("{parsed:#?}"),
            Err(error) => println!("{}", error.full()),
        }
    }
    Ok(())
}
