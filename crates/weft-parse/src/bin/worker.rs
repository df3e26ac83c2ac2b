//! The worker as a separate program, for programs that embed the server and for tests. `weft` contains its own.

fn main() -> std::process::ExitCode {
    weft_parse::work()
}
