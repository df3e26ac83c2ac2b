//! Small helpers: nodes of a canvas and tools of an agent alike.

pub mod calculator;
pub mod code_exec;
pub mod current_time;
pub mod http_get;
pub mod read_file;
pub mod searxng;
pub mod web_search;
pub mod write_file;

#[cfg(test)]
mod tests;
