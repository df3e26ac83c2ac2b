//! Builds the canvas of a chat assistant. The engine runs it like any other, so there is only one way in which
//! questions are answered, journals written and interrupted turns resumed.

use std::collections::HashMap;

use serde_json::{Map, json};
use weft_core::Json;
use weft_core::seam::chat_store::ChatSettings;

use super::ChatTurn;

/// Prompt that rewrites a question which relies on earlier messages into one that can be searched for.
const REFINE: &str = "Rewrite the user's last question so that it can be understood without the conversation: put \
in what words such as \"it\" or \"there\" stand for, and keep its language. If it can be understood already, repeat \
it. Reply with the question and nothing else.";

/// Number of earlier turns that the rewriting considers.
const REFINE_TURNS: u64 = 3;

const QUESTION: &str = "VariableAggregator:Question";
const SEARCH: &str = "Retrieval:Search";
const FOUND: &str = "Switch:Found";
const NOTHING: &str = "Message:Nothing";
const RESEARCH: &str = "DeepResearch:Answer";
const ANSWER: &str = "LLM:Answer";

/// The sources of knowledge of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DatasetChoice {
    /// No dataset was selected.
    None,
    /// The selected datasets.
    Datasets,
    /// None of the selected datasets exists any more.
    Gone,
}

struct Drawing<'a> {
    settings: &'a ChatSettings,
    turn: &'a ChatTurn,
    knowledge: DatasetChoice,
    components: Map<String, Json>,
}

/// Builds the canvas of an assistant for a turn. Values that differ between questions are inputs of the turn, so that
/// an assistant has few canvases.
pub(super) fn draw(settings: &ChatSettings, turn: &ChatTurn) -> Json {
    let knowledge = match (turn.datasets.is_empty(), turn.datasets_gone) {
        (false, _) => DatasetChoice::Datasets,
        (true, true) => DatasetChoice::Gone,
        (true, false) => DatasetChoice::None,
    };
    let mut drawing = Drawing { settings, turn, knowledge, components: Map::new() };
    let first = drawing.question();
    drawing.add("begin", "Begin", &json!({"enablePrologue": false}), &[first]);
    json!({"components": drawing.components, "globals": {}})
}

impl Drawing<'_> {
    fn add(&mut self, id: &str, kind: &str, params: &Json, downstream: &[&str]) {
        let object = json!({"component_name": kind, "params": params});
        let component = json!({"obj": object, "downstream": downstream, "upstream": []});
        self.components.insert(id.to_owned(), component);
    }

    fn flag(&self, key: &str) -> bool {
        super::flag(self.settings.prompt_config.get(key))
    }

    /// Adds the nodes from the question on, and returns the first one.
    fn question(&mut self) -> &'static str {
        let answer = self.answer();
        let refined = self.knowledge == DatasetChoice::Datasets && self.flag("refine_multiturn");
        if !refined {
            return answer;
        }
        // The first question of a conversation relies on no earlier messages.
        let item = json!({"cpn_id": "sys.conversation_turns", "operator": ">", "value": 1});
        let case = json!({"logical_operator": "and", "items": [item], "to": ["LLM:Refine"]});
        let switch = json!({"conditions": [case], "end_cpn_ids": [QUESTION]});
        self.add("Switch:Turns", "Switch", &switch, &["LLM:Refine", QUESTION]);
        let refine = json!({
            "llm_id": self.llm_id(),
            "sys_prompt": REFINE,
            "message_history_window_size": REFINE_TURNS,
            "cite": false,
        });
        self.add("LLM:Refine", "LLM", &refine, &[QUESTION]);
        // Takes the first one with a value: the rewritten question, else the original one.
        let variables = json!([{"value": "LLM:Refine@content"}, {"value": "sys.query"}]);
        let groups = json!([{"group_name": "question", "variables": variables}]);
        self.add(QUESTION, "VariableAggregator", &json!({"groups": groups}), &[answer]);
        "Switch:Turns"
    }

    fn asked(&self) -> String {
        let refined = self.knowledge == DatasetChoice::Datasets && self.flag("refine_multiturn");
        if refined { format!("{{{QUESTION}@question}}") } else { "{sys.query}".to_owned() }
    }

    /// Adds the nodes from the search on, and returns the first one.
    fn answer(&mut self) -> &'static str {
        let says_nothing = !super::text(&self.settings.prompt_config, "empty_response").is_empty();
        match self.knowledge {
            DatasetChoice::Gone if says_nothing => {
                self.message(NOTHING, "{begin@empty_response}");
                NOTHING
            }
            DatasetChoice::Datasets if self.turn.reasoning.is_some() => {
                self.research();
                RESEARCH
            }
            DatasetChoice::Datasets => {
                let next = if says_nothing { FOUND } else { ANSWER };
                let search = Json::Object(self.search());
                self.add(SEARCH, "Retrieval", &search, &[next]);
                if says_nothing {
                    let item =
                        json!({"cpn_id": format!("{SEARCH}@chunks"), "operator": "empty", "value": ""});
                    let case = json!({"logical_operator": "and", "items": [item], "to": [NOTHING]});
                    let switch = json!({"conditions": [case], "end_cpn_ids": [ANSWER]});
                    self.add(FOUND, "Switch", &switch, &[NOTHING, ANSWER]);
                    self.message(NOTHING, "{begin@empty_response}");
                }
                self.model();
                SEARCH
            }
            DatasetChoice::None | DatasetChoice::Gone => {
                self.model();
                ANSWER
            }
        }
    }

    fn message(&mut self, id: &str, content: &str) {
        let params = json!({"content": [content], "auto_play": self.flag("tts")});
        self.add(id, "Message", &params, &[]);
    }

    fn model(&mut self) {
        let mut params = self.asking();
        let knowledge = match self.knowledge {
            DatasetChoice::Datasets => format!("{{{SEARCH}@formalized_content}}"),
            DatasetChoice::None | DatasetChoice::Gone => String::new(),
        };
        params.insert("sys_prompt".to_owned(), self.instructions(&knowledge).into());
        params.insert("cite".to_owned(), self.turn.quote.into());
        self.add(ANSWER, "LLM", &Json::Object(params), &["Message:Answer"]);
        self.message("Message:Answer", &format!("{{{ANSWER}@content}}"));
    }

    fn research(&mut self) {
        let mut params = self.search();
        params.extend(self.asking());
        // It adds the knowledge that it finds to the instructions itself.
        params.insert("sys_prompt".to_owned(), self.instructions("").into());
        params.insert("strategy".to_owned(), self.turn.reasoning.as_deref().unwrap_or_default().into());
        let key = super::text(&self.settings.prompt_config, "tavily_api_key");
        if !key.is_empty() {
            params.insert("engine".to_owned(), "tavily".into());
            params.insert("api_key".to_owned(), key.into());
        }
        self.add(RESEARCH, "DeepResearch", &Json::Object(params), &["Message:Answer"]);
        self.message("Message:Answer", &format!("{{{RESEARCH}@content}}"));
    }

    fn llm_id(&self) -> &str {
        self.turn.llm_id.as_deref().unwrap_or(&self.settings.llm_id)
    }

    /// Returns the model and its sampling parameters.
    fn asking(&self) -> Map<String, Json> {
        let mut params = Map::new();
        params.insert("llm_id".to_owned(), self.llm_id().into());
        let given = |key: &str| self.turn.llm_setting.get(key).or_else(|| self.settings.llm_setting.get(key));
        for (key, switch) in super::SAMPLING {
            // Also what is no number: the component reads a number written as a text, and names anything else.
            if let Some(value) = given(key).filter(|value| !value.is_null() && **value != "") {
                params.insert(key.to_owned(), value.clone());
                params.insert(switch.to_owned(), true.into());
            }
        }
        params
    }

    fn search(&self) -> Map<String, Json> {
        let settings = self.settings;
        let prompt = &settings.prompt_config;
        // An assistant may want no passages, but the component needs at least one; its weight is that of the
        // keywords.
        let params = json!({
            "query": self.asked(),
            "dataset_ids": ["{begin@datasets}"],
            "doc_ids": ["{begin@documents}"],
            "top_n": settings.top_n.max(1),
            "top_k": settings.top_k,
            "similarity_threshold": settings.similarity_threshold,
            "keywords_similarity_weight": 1.0 - settings.vector_similarity_weight,
            "rerank_id": settings.rerank_id,
            "cross_languages": prompt.get("cross_languages").filter(|languages| languages.is_array()),
            "keyword": self.flag("keyword"),
            "toc_enhance": self.flag("toc_enhance"),
            "use_kg": self.flag("use_kg"),
            "llm_id": self.llm_id(),
        });
        let mut params = match params {
            Json::Object(params) => params,
            _ => Map::new(),
        };
        if !settings.meta_data_filter.is_empty() {
            params.insert("meta_data_filter".to_owned(), Json::Object(settings.meta_data_filter.clone()));
        }
        params
    }

    /// Returns the instructions, with the variables replaced by references.
    fn instructions(&self, knowledge: &str) -> String {
        let own = super::text(&self.settings.prompt_config, "system");
        let text = self.turn.system.as_deref().unwrap_or(own);
        let parameters = super::parameters(&self.settings.prompt_config);
        let places: HashMap<&str, usize> =
            parameters.iter().enumerate().map(|(place, key)| (key.name.as_str(), place)).collect();
        // In one pass: a prompt may be long and have very many variables.
        let mut pieces = text.split('{');
        let mut filled = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let named = piece.split_once('}').and_then(|(name, rest)| Some((name, places.get(name)?, rest)));
            match named {
                Some(("knowledge", _, rest)) => filled.extend([knowledge, rest]),
                Some(("date", _, rest)) if !self.turn.date_given => filled.extend(["{sys.date}", rest]),
                Some((_, place, rest)) => {
                    filled.extend([format!("{{begin@variables.{place}}}").as_str(), rest]);
                }
                None => filled.extend(["{", piece]),
            }
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(prompt: Json) -> ChatSettings {
        let prompt_config = match prompt {
            Json::Object(prompt) => prompt,
            _ => Map::new(),
        };
        ChatSettings { llm_id: "m".to_owned(), prompt_config, ..ChatSettings::default() }
    }

    fn ids(settings: &ChatSettings, turn: &ChatTurn) -> Vec<String> {
        let drawn = draw(settings, turn);
        let mut ids: Vec<String> = drawn["components"].as_object().unwrap().keys().cloned().collect();
        ids.sort();
        ids
    }

    fn with_datasets() -> ChatTurn {
        ChatTurn { datasets: vec!["d".to_owned()], ..ChatTurn::default() }
    }

    #[test]
    fn the_chat_settings_decide_which_components_the_canvas_has() {
        let plain = settings(json!({"refine_multiturn": true, "empty_response": "none"}));
        assert_eq!(ids(&plain, &ChatTurn::default()), ["LLM:Answer", "Message:Answer", "begin"]);
        let gone = ChatTurn { datasets_gone: true, ..ChatTurn::default() };
        assert_eq!(ids(&plain, &gone), ["Message:Nothing", "begin"]);
        let all = [
            "LLM:Answer",
            "LLM:Refine",
            "Message:Answer",
            "Message:Nothing",
            "Retrieval:Search",
            "Switch:Found",
            "Switch:Turns",
            "VariableAggregator:Question",
            "begin",
        ];
        assert_eq!(ids(&plain, &with_datasets()), all);
        let short = settings(json!({}));
        assert_eq!(
            ids(&short, &with_datasets()),
            ["LLM:Answer", "Message:Answer", "Retrieval:Search", "begin"]
        );
        let deep = ChatTurn { reasoning: Some("tree".to_owned()), ..with_datasets() };
        assert_eq!(ids(&short, &deep), ["DeepResearch:Answer", "Message:Answer", "begin"]);
    }

    #[test]
    fn a_long_prompt_with_many_variables_is_compiled_quickly() {
        let parameters: Vec<Json> = (0..50_000).map(|n| json!({"key": format!("k{n}")})).collect();
        let system = format!("{} {{k7}} {{{{k8}}}} {{k9", "x".repeat(2_000_000));
        let chat = settings(json!({"system": system, "parameters": parameters}));
        let began = std::time::Instant::now();
        let drawn = draw(&chat, &ChatTurn::default());
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
        let prompt = drawn["components"]["LLM:Answer"]["obj"]["params"]["sys_prompt"].as_str().unwrap();
        assert!(prompt.ends_with("x {begin@variables.7} {{begin@variables.8}} {k9"));
    }

    #[test]
    fn variables_become_references_and_other_braces_are_kept() {
        let parameters = json!([{"key": "knowledge"}, {"key": "tone"}, {"key": "date", "optional": true}]);
        let system = "Use {knowledge} on {date}, {tone}. Reply as {\"a\": {b}}.";
        let chat = settings(json!({"system": system, "parameters": parameters}));
        let prompt = |turn: &ChatTurn| {
            draw(&chat, turn)["components"]["LLM:Answer"]["obj"]["params"]["sys_prompt"].clone()
        };
        assert_eq!(
            prompt(&with_datasets()),
            "Use {Retrieval:Search@formalized_content} on {sys.date}, {begin@variables.1}. Reply as {\"a\": {b}}."
        );
        let given = ChatTurn { date_given: true, ..ChatTurn::default() };
        assert_eq!(
            prompt(&given),
            "Use  on {begin@variables.2}, {begin@variables.1}. Reply as {\"a\": {b}}."
        );
    }

    #[test]
    fn no_model_setting_is_left_out() {
        let mut chat = settings(json!({}));
        let given =
            json!({"temperature": "warm", "top_p": "0.5", "presence_penalty": "", "max_tokens": null});
        chat.llm_setting = given.as_object().unwrap().clone();
        let drawn = draw(&chat, &ChatTurn::default());
        let params = &drawn["components"]["LLM:Answer"]["obj"]["params"];
        assert_eq!((&params["temperature"], &params["temperatureEnabled"]), (&json!("warm"), &json!(true)));
        assert_eq!((&params["top_p"], &params["topPEnabled"]), (&json!("0.5"), &json!(true)));
        assert!(params.get("presence_penalty").is_none() && params.get("max_tokens").is_none(), "{params}");
    }

    #[test]
    fn a_turn_can_override_the_model_and_its_settings() {
        let mut chat = settings(json!({}));
        chat.llm_setting = json!({"temperature": 0.5, "top_p": 0.25, "odd": 1}).as_object().unwrap().clone();
        let llm_setting = json!({"top_p": 0.75, "max_tokens": null}).as_object().unwrap().clone();
        let turn = ChatTurn { llm_id: Some("n".to_owned()), llm_setting, quote: true, ..ChatTurn::default() };
        let params = draw(&chat, &turn)["components"]["LLM:Answer"]["obj"]["params"].clone();
        let expected = json!({"llm_id": "n", "sys_prompt": "", "cite": true, "temperature": 0.5,
            "temperatureEnabled": true, "top_p": 0.75, "topPEnabled": true});
        assert_eq!(params, expected);
    }
}
