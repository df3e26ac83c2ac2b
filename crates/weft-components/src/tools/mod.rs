//! Small helpers: nodes of a canvas and tools of an agent alike.

pub mod ak_share;
pub mod arxiv;
pub mod bgpt;
pub mod bing;
pub mod calculator;
pub mod code_exec;
pub mod conversation_search;
pub mod crawler;
pub mod current_time;
pub mod deepl;
pub mod duck_duck_go;
pub mod email;
pub mod exe_sql;
pub mod git_hub;
pub mod google;
pub mod google_scholar;
pub mod http_get;
pub mod jin10;
pub mod keenable_search;
pub mod pub_med;
pub mod querit_contents;
pub mod querit_search;
pub mod qweather;
pub mod read_file;
pub(crate) mod search;
pub mod searxng;
pub mod tavily_extract;
pub mod tavily_search;
pub mod tu_share;
pub mod web_search;
pub mod wikipedia;
pub mod write_file;
pub mod yahoo_finance;

#[cfg(test)]
mod tests;
