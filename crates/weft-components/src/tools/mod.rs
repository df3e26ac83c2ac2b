//! Small tools: nodes of a canvas as well as tools of an agent.

pub(crate) mod ak_share;
pub(crate) mod arxiv;
pub(crate) mod bgpt;
pub(crate) mod bing;
pub(crate) mod calculator;
pub(crate) mod code_exec;
pub(crate) mod conversation_search;
pub(crate) mod crawler;
pub(crate) mod current_time;
pub(crate) mod deepl;
pub(crate) mod duck_duck_go;
pub(crate) mod email;
pub(crate) mod exe_sql;
pub(crate) mod git_hub;
pub(crate) mod google;
pub(crate) mod google_scholar;
pub(crate) mod http_get;
pub(crate) mod jin10;
pub(crate) mod keenable_search;
pub(crate) mod pub_med;
pub(crate) mod querit_contents;
pub(crate) mod querit_search;
pub(crate) mod qweather;
pub(crate) mod read_file;
pub(crate) mod search;
pub(crate) mod searxng;
pub(crate) mod tavily_extract;
pub(crate) mod tavily_search;
pub(crate) mod tu_share;
pub(crate) mod web_search;
pub(crate) mod wikipedia;
pub(crate) mod write_file;
pub(crate) mod yahoo_finance;

#[cfg(test)]
mod tests;
