//! The last test program of a run of all tests: lists the tests that could not run here.

#![expect(clippy::print_stdout, reason = "whoever runs the tests should see what was left out")]

fn main() {
    // Other runners ask what there is first; there is no test to pick.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    print!("{}", weft_testkit::skip::report());
}
