#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]
#![allow(missing_docs, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "tests may read where to find data and whether to update it")]

mod agents;
mod agents_answers;
mod agents_background;
mod agents_limits;
mod agents_steering;
mod agents_tool_history;
mod agents_waiting;
mod assignments;
mod branches;
mod budgets;
mod citations;
mod cycles;
mod extremes;
mod faults;
mod forks;
mod frame_failures;
mod frames;
mod give_way;
mod golden;
mod joins;
mod kit;
mod limits;
mod mutants;
mod pauses;
mod random;
mod real;
mod replays;
mod rows;
mod shared;
mod simulation;
mod speaking;
mod stopping;
mod storage;
mod streams;
mod survival;
mod suspensions;
mod tasks;
mod trials;
mod two_processes;
