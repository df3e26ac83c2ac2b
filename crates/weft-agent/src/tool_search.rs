//! Search for tools: when their definitions would fill the prompt, the model is offered one tool that finds the
//! others, and gets only the definitions of those it has found or called. If the model's provider has such a search
//! itself, the provider is sent all definitions, to be withheld from the model until it has found them.

use std::sync::Arc;

use serde_json::{Map, json};
use weft_core::seam::chat_model::ModelInfo;
use weft_core::tool::{
    Invocation, Origin, Purpose, Tool, ToolBody, ToolOutput, ToolSession as _, ToolStream, once,
};
use weft_core::{Error, Json, Result};

use crate::bm25::{self, Counts, words};
use crate::code_mode::signature;
use crate::toolkit::{Toolkit, WeakToolkit, schemas};
use crate::window::{tokens, tokens_of_tools};

pub use crate::offered_tools::{found_by_provider, on_offer};

/// The name of the tool that finds other tools.
pub const SEARCH_FUNCTION: &str = "search_tools";

/// Maximum tokens of definitions in a prompt before tools are searched for. A smaller window has less room:
/// [`WINDOW_SHARE`].
const TOKENS_MAX: usize = 10_000;
/// Definitions may take one part in this many of a window.
// The rest of the window is for the conversation and the answer.
const WINDOW_SHARE: usize = 2;
/// Default number of tools that one search returns.
const FOUND: usize = 5;
/// Maximum number of tools that one search returns.
const FOUND_MAX: usize = 20;
/// Maximum tokens of names in the description of the search, which tell the model what it may find.
// The description is part of every request.
const NAMES_TOKENS_MAX: usize = 600;
/// Characters of a description in the result of a search; the full description is in the definition.
const SUMMARY_LETTERS_MAX: usize = 200;
/// Maximum number of words that are read per tool.
// Descriptions come from servers, and each search reads all of them.
const WORDS_MAX: usize = 2_000;

/// When tools are searched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolSearch {
    /// When their definitions would take up much of the window.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never: every prompt contains all definitions.
    Never,
}

/// The properties of a model that matter for a search of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeker {
    /// The size of its window in tokens.
    pub window: usize,
    /// The number of tools among which its provider's search can find; 0 without such a search.
    pub found_by_provider_max: usize,
}

impl Seeker {
    /// A model that is sent definitions of tools.
    pub fn of(model: &ModelInfo) -> Self {
        Self { window: model.window, found_by_provider_max: model.deferred_tools_max }
    }

    /// The same model where its tools are described in the prompt, so that the provider cannot search them.
    #[must_use]
    pub fn by_prompt(self) -> Self {
        Self { found_by_provider_max: 0, ..self }
    }
}

/// Adds a search to a toolkit for such a model if one is needed: the provider's if possible, otherwise our own.
/// Returns whether one was needed.
///
/// # Errors
/// The errors of registering it.
pub fn add_search(tools: &Toolkit, how: ToolSearch, seeker: Seeker) -> Result<bool> {
    let all = tools.tools();
    let needed = match how {
        ToolSearch::Never => false,
        ToolSearch::Always => !all.is_empty(),
        ToolSearch::Auto => tokens_of_tools(&schemas(&all)) > TOKENS_MAX.min(seeker.window / WINDOW_SHARE),
    };
    if needed {
        let mut search = search_tool(tools, &all);
        if all.len() <= seeker.found_by_provider_max {
            // Still registered, because work that started without the provider's search may call it.
            search.traits.purpose = Purpose::LeavesFindingToProvider;
        }
        tools.register_own(search)?;
    }
    Ok(needed)
}

fn search_tool(tools: &Toolkit, all: &[Arc<Tool>]) -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what the tool should do, in a few words, or its name"},
            "limit": {"type": "integer", "minimum": 1, "maximum": FOUND_MAX, "default": FOUND,
                "description": "how many tools to give"},
        },
        "required": ["query"],
    });
    let (mut names, mut left, mut spent) = (Vec::new(), all.len(), 0);
    for tool in all {
        // One for the separator between two names.
        spent += tokens(&tool.name) + 1;
        if spent > NAMES_TOKENS_MAX {
            break;
        }
        names.push(tool.name.as_str());
        left -= 1;
    }
    let rest = if left > 0 { format!(" and {left} more") } else { String::new() };
    let description = format!(
        "Finds tools. There are {} tools, and you see only those that you have found. Search before you say that \
         something cannot be done; what is found can be called in your next step. The tools: {}{rest}.",
        all.len(),
        names.join(", ")
    );
    let body = Arc::new(Search(tools.downgrade()));
    let mut tool = Tool::new(SEARCH_FUNCTION, description, parameters, Origin::Function, body);
    tool.traits.purpose = Purpose::FindsTools;
    tool.traits.idempotent = true;
    tool
}

struct Search(WeakToolkit);

impl Search {
    fn search(&self, arguments: &Map<String, Json>) -> Result<ToolOutput> {
        let tools = self.0.upgrade().ok_or_else(|| Error::internal("the tools are not there any more"))?;
        let query = arguments.get("query").and_then(Json::as_str).unwrap_or_default();
        let limit =
            arguments.get("limit").and_then(Json::as_u64).and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(FOUND).clamp(1, FOUND_MAX);
        let all = tools.tools();
        let scripted = all.iter().any(|tool| tool.traits.purpose == Purpose::RunsScripts);
        let of_work = |tool: &Arc<Tool>| tool.traits.purpose == Purpose::Work;
        let tools: Vec<Arc<Tool>> = all.into_iter().filter(of_work).collect();
        let best = ranked(query, &tools);
        let told = |place: &usize| {
            let tool = &tools[*place];
            let summary: String = tool.description.chars().take(SUMMARY_LETTERS_MAX).collect();
            if scripted {
                // A script needs no definition, and the request contains none.
                json!({"name": tool.name, "signature": signature(tool)})
            } else {
                json!({"name": tool.name, "description": summary})
            }
        };
        let shown: Vec<Json> = best.iter().take(limit).map(told).collect();
        let mut answer = json!({"tools": shown, "more": best.len().saturating_sub(limit)});
        if shown.is_empty() {
            answer["note"] = "no tool fits; try other words for what it should do".into();
        }
        Ok(ToolOutput::value(answer))
    }
}

impl ToolBody for Search {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let done = self.search(&invocation.arguments);
        once(async { done })
    }
}

/// A word of the name counts as much as this many words of the description.
// A name says what a tool is; a description also names other things.
const NAME_WEIGHT: usize = 3;

/// The positions of the tools that contain words of the query, best first.
fn ranked(query: &str, tools: &[Arc<Tool>]) -> Vec<usize> {
    let texts: Vec<Counts> = tools.iter().map(|tool| counted(tool)).collect();
    let mut scores = bm25::scores(query, &texts);
    // A query that is exactly the name of a tool always finds it first.
    if let Some(place) = tools.iter().position(|tool| tool.name.eq_ignore_ascii_case(query.trim())) {
        scores[place] = f64::INFINITY;
    }
    bm25::best(&scores)
}

/// How often each word occurs in the name, the description and the parameters of a tool.
fn counted(tool: &Tool) -> Counts {
    let mut counts = Counts::new();
    for word in words(&tool.name) {
        *counts.entry(word).or_default() += NAME_WEIGHT;
    }
    let empty = Map::new();
    let parameters = tool.parameters["properties"].as_object().unwrap_or(&empty);
    let described = parameters.iter().flat_map(|(name, schema)| {
        words(name).chain(words(schema["description"].as_str().unwrap_or_default()))
    });
    for word in words(&tool.description).chain(described).take(WORDS_MAX) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolkit::Offered;
    use crate::used::Used;
    use weft_core::seam::chat_model::ToolSchema;

    const OWN: Seeker = Seeker { window: 1_000, found_by_provider_max: 0 };

    fn tool(name: &str, description: &str) -> Tool {
        let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        Tool::function(name, description, parameters, |_| async { Ok(Json::Null) })
    }

    fn best(query: &str, tools: &[(&str, &str)]) -> Vec<String> {
        let tools: Vec<_> = tools.iter().map(|(name, about)| Arc::new(tool(name, about))).collect();
        ranked(query, &tools).into_iter().map(|place| tools[place].name.clone()).collect()
    }

    #[test]
    fn the_best_matching_tool_comes_first() {
        let tools = [
            ("send_mail", "Sends an e-mail to a person."),
            ("getWeatherForecast", "Tells what the weather will be."),
            (
                "list_files",
                "Lists files of a folder, with the weather of the day they were made on in their names.",
            ),
            ("查天气", "查询城市的天气预报"),
        ];
        let first = |query: &str| best(query, &tools).into_iter().next().unwrap_or_default();
        assert_eq!(first("weather forecasts"), "getWeatherForecast");
        assert_eq!(first("email a colleague, please: mail"), "send_mail");
        assert_eq!(first("天气"), "查天气");
        assert_eq!(first("LIST_FILES"), "list_files");
        assert_eq!(best("nothing fits 123", &tools), [""; 0]);
        assert_eq!(best("", &tools), [""; 0]);
        assert_eq!(best("x", &[]), [""; 0]);
    }

    #[test]
    fn few_tools_are_listed_and_many_are_searched() {
        let many = |count: usize| {
            let tools = Toolkit::new();
            for place in 0..count {
                let about = format!("Does the thing number {place}, at some length and for many reasons.");
                tools.register(tool(&format!("thing_{place}"), &about)).unwrap();
            }
            tools
        };
        for found_by_provider_max in [0, 10_000] {
            let added = |tools: &Toolkit, how, window| {
                add_search(tools, how, Seeker { window, found_by_provider_max }).unwrap()
            };
            assert!(!added(&many(20), ToolSearch::Auto, 128_000));
            assert!(added(&many(20), ToolSearch::Auto, 1_000));
            assert!(!added(&many(500), ToolSearch::Never, 1_000));
            assert!(!added(&many(0), ToolSearch::Always, 1_000));
            let tools = many(500);
            assert!(added(&tools, ToolSearch::Auto, 128_000));
            let (schemas, cost) = Offered::default().now(on_offer(tools.tools(), &[]));
            let sent = if found_by_provider_max == 0 { 1 } else { 500 };
            assert_eq!((schemas.len(), schemas.iter().all(|tool| tool.deferred)), (sent, sent > 1));
            assert!(cost <= 2_000, "{cost}");
        }
    }

    #[test]
    fn the_provider_searches_tools_if_it_can() {
        let offered = |seeker: Seeker| {
            let tools = Toolkit::new();
            for name in ["a", "b", "c"] {
                tools.register(tool(name, "x")).unwrap();
            }
            add_search(&tools, ToolSearch::Always, seeker).unwrap();
            let told = tools.find("nothing").unwrap_err().full();
            let (schemas, _) = Offered::default().now(on_offer(tools.tools(), &[]));
            let shown = |tool: &ToolSchema| format!("{}{}", tool.name, if tool.deferred { "?" } else { "" });
            (schemas.iter().map(shown).collect::<Vec<_>>().join(" "), told)
        };
        let seeker = Seeker { window: 1_000, found_by_provider_max: 3 };
        let (names, told) = offered(seeker);
        assert_eq!(names, "a? b? c?");
        // The names of all would fill the prompt, too.
        assert!(told.contains("search for one") && !told.contains("these: a"), "{told}");
        assert_eq!(offered(seeker.by_prompt()).0, "search_tools");
        assert_eq!(offered(Seeker { found_by_provider_max: 2, ..seeker }).0, "search_tools");
    }

    #[test]
    fn calling_an_unknown_tool_reports_the_available_ones() {
        let tools = Toolkit::new();
        for name in ["a", "b"] {
            tools.register(tool(name, "x")).unwrap();
        }
        let mut reads = tool("read_result", "x");
        reads.traits.purpose = Purpose::ReadsResults;
        tools.register_own(reads).unwrap();
        let told = tools.find("nothing").unwrap_err().full();
        assert!(told.contains("use one of these: a, b") && !told.contains("read_result"), "{told}");
        add_search(&tools, ToolSearch::Always, OWN).unwrap();
        assert!(tools.find("nothing").unwrap_err().full().contains("use one of these: search_tools"));
    }

    #[test]
    fn found_or_called_tools_are_offered() {
        let tools = Toolkit::new();
        for name in ["a", "b", "c", "d"] {
            tools.register(tool(name, "x")).unwrap();
        }
        add_search(&tools, ToolSearch::Always, OWN).unwrap();
        let used = |name: &str, results: Json| Used {
            name: name.to_owned(),
            arguments: Json::Null,
            results,
            file: None,
        };
        let offered = |used: &[Used]| {
            let names = on_offer(tools.tools(), used).into_iter().map(|tool| tool.name.clone());
            names.collect::<Vec<_>>()
        };
        assert_eq!(offered(&[]), ["search_tools"]);
        let found = used("search_tools", json!({"tools": [{"name": "b"}, {"name": "gone"}]}));
        // The result of another tool is no search.
        let called = used("d", json!({"tools": [{"name": "a"}]}));
        assert_eq!(offered(&[found, called]), ["b", "d", "search_tools"]);
    }
}
