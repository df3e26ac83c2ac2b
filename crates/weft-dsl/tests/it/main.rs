#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]
#![allow(missing_docs, reason = "tests")]
#![allow(clippy::needless_pass_by_value, reason = "literals read better by value")]

mod catalog;
mod diagnostics;
mod plans;
mod refused;
mod robust;
mod samples;
mod shapes;

use serde_json::Value as Json;
use weft_dsl::{Canvas, CompileOptions, Compiled, Problem, compile, load};

fn parsed(document: &Json) -> Canvas {
    load(document.to_string().as_bytes()).unwrap()
}

fn compiled(document: &Json) -> Compiled {
    compile(&parsed(document), &catalog::catalog(), &CompileOptions::default()).unwrap()
}

/// All diagnostics of a canvas.
fn problems(source: &str, options: &CompileOptions<'_>) -> Vec<Problem> {
    let canvas = load(source.as_bytes()).unwrap();
    match compile(&canvas, &catalog::catalog(), options) {
        Ok(compiled) => compiled.warnings,
        Err(problems) => problems,
    }
}
