//! The worker alone, for programs that embed the server and for tests. `weft` brings its own.

fn main() -> std::process::ExitCode {
    weft_parse::work()
}
