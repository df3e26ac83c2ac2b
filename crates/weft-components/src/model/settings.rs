//! The parameters that LLM and Agent share.

use std::sync::Arc;
use std::time::Duration;

use weft_agent::structured::Schema;
use weft_core::seam::chat_model::{Audience, Author, ChatMessage, ChatRequest, Sampling};
use weft_core::{Json, ParamProblem, Reference, Template};

use crate::model::sections::Sections;
use crate::params::{Params, pointer, schema, truth};

/// Turns of history when a canvas does not say.
const HISTORY_TURNS: usize = 13;
/// Turns of history, at most.
const HISTORY_TURNS_MAX: usize = 1_000;
/// Seconds between two tries, at most.
const DELAY_MAX: f64 = 3_600.0;
/// Tries after the first, at most.
const RETRIES_MAX: usize = 20;

/// One entry of `prompts`.
#[derive(Debug)]
pub struct Prompt {
    /// Who says it.
    pub author: Author,
    /// What.
    pub text: Template,
}

/// Which model a node asks, and how: all that every component with a model has.
#[derive(Debug)]
pub struct Asking {
    /// Empty means the default model.
    pub llm_id: String,
    /// How the answer is generated.
    pub sampling: Sampling,
    /// Tries after the first; absent: as many as the model's settings say.
    pub retries: Option<u32>,
    /// How long to wait before the second try; absent: as the model's settings say.
    pub retry_delay: Option<Duration>,
    /// Whether equal requests may be answered from memory.
    pub cached: bool,
}

impl Asking {
    /// Reads the parameters.
    pub fn read(params: &mut Params<'_>) -> Self {
        let blank = |value: &Json| value.as_str().is_some_and(|text| text.trim().is_empty());
        let given = params.get("max_retries").is_some_and(|value| !blank(value));
        let retries = given.then(|| params.count("max_retries", 0, 0..=RETRIES_MAX));
        Self {
            llm_id: params.text("llm_id").unwrap_or_default(),
            sampling: sampling(params),
            retries: retries.and_then(|retries| u32::try_from(retries).ok()),
            retry_delay: params.number_in("delay_after_error", 0.0..=DELAY_MAX).map(Duration::from_secs_f64),
            cached: params.flag("cache").unwrap_or(false),
        }
    }

    /// A request whose pieces nobody sees.
    pub fn request(&self, messages: Vec<ChatMessage>) -> ChatRequest {
        ChatRequest {
            messages,
            sampling: self.sampling.clone(),
            retries_max: self.retries,
            retry_delay: self.retry_delay,
            cached: self.cached,
            audience: Audience::Nobody,
            ..ChatRequest::default()
        }
    }

    /// How often an answer that does not keep to its form may be put right.
    pub fn repairs(&self) -> u32 {
        self.retries.unwrap_or(0).saturating_add(1)
    }

    /// The schema of these parameters.
    pub fn params_schema() -> Json {
        schema(&[
            ("llm_id", "string", "the model, such as `deepseek-chat@DeepSeek`; empty means the default"),
            ("temperature", "number", "0 to 2; sent when `temperatureEnabled` is true"),
            ("temperatureEnabled", "boolean", "whether `temperature` is sent"),
            ("top_p", "number", "0 to 1; sent when `topPEnabled` is true and it is not 0"),
            ("topPEnabled", "boolean", "whether `top_p` is sent"),
            (
                "presence_penalty",
                "number",
                "-2 to 2; sent when `presencePenaltyEnabled` is true and it is not 0",
            ),
            ("presencePenaltyEnabled", "boolean", "whether `presence_penalty` is sent"),
            (
                "frequency_penalty",
                "number",
                "-2 to 2; sent when `frequencyPenaltyEnabled` is true and it is not 0",
            ),
            ("frequencyPenaltyEnabled", "boolean", "whether `frequency_penalty` is sent"),
            (
                "max_tokens",
                "integer",
                "tokens of the answer, at most; sent when `maxTokensEnabled` is true and it is not 0",
            ),
            ("maxTokensEnabled", "boolean", "whether `max_tokens` is sent"),
            ("thinking", "string", "enabled, disabled or default"),
            (
                "max_retries",
                "integer",
                "tries after the first; 0 is none, absent what the model's settings say",
            ),
            ("delay_after_error", "number", "seconds before the second try; it doubles each time"),
            (
                "cache",
                "boolean",
                "whether an equal request may be answered from memory; needs `models.cache`",
            ),
        ])
    }
}

/// How a node asks its model, with words of its own.
#[derive(Debug)]
pub struct Settings {
    /// Which model, and how.
    pub asking: Asking,
    /// The instructions.
    pub system: Template,
    /// What replaces our own words for a stage.
    pub sections: Sections,
    /// What is said after the history.
    pub prompts: Vec<Prompt>,
    /// Turns of history that come first.
    pub history_turns: usize,
    /// Whether sources are to be cited.
    pub cite: bool,
    /// Where images come from, besides the attached files.
    pub images: Option<Reference>,
    /// What the answer has to look like.
    pub schema: Option<Arc<Schema>>,
    /// What is shown when the model fails.
    pub default: Option<Json>,
    /// Whether the answer may be handed on while it is being written.
    pub streams: bool,
    /// Parameters without effect.
    pub warnings: Vec<ParamProblem>,
}

impl Settings {
    /// Reads the parameters.
    pub fn read(params: &mut Params<'_>) -> Self {
        let schema = schema_of_answer(params);
        params.without_effect("output_structure", "`output_structure`");
        let prompts = prompts(params);
        let asking = Asking::read(params);
        let (system, sections) =
            Sections::read(&params.text("sys_prompt").unwrap_or_default(), params.source.names());
        let exception = params.exception();
        let idle: Vec<_> = sections
            .without_effect()
            .map(|name| ParamProblem::new("/sys_prompt", format!("its section <{name}> has no effect")))
            .collect();
        Self {
            asking,
            system,
            sections,
            prompts,
            history_turns: params.count("message_history_window_size", HISTORY_TURNS, 0..=HISTORY_TURNS_MAX),
            cite: params.flag("cite").unwrap_or(true),
            images: params.reference("visual_files_var"),
            streams: schema.is_none() && exception.goto.is_empty(),
            schema,
            default: exception.covering(),
            warnings: params.warnings().into_iter().chain(idle).collect(),
        }
    }

    /// Whether the answer names its sources when there are some. A value has no place for marks.
    pub fn cites(&self) -> bool {
        self.cite && self.schema.is_none()
    }

    /// Everything the texts refer to.
    pub fn references(&self) -> Vec<Reference> {
        let prompts = self.prompts.iter().flat_map(|prompt| prompt.text.references());
        self.system
            .references()
            .chain(self.sections.references())
            .chain(prompts)
            .chain(&self.images)
            .cloned()
            .collect()
    }
}

/// The schema of these parameters.
pub fn params_schema() -> Json {
    with(
        Asking::params_schema(),
        &[
            ("sys_prompt", "string", "the instructions, with references"),
            ("prompts", "any", "[{role, content}] or one text: what is said after the history"),
            ("message_history_window_size", "integer", "how many earlier turns come first"),
            ("cite", "boolean", "whether to cite sources that the turn has found; true when absent"),
            ("visual_files_var", "string", "a reference to images"),
            ("outputs", "object", "`structured` holds a JSON schema for a structured answer"),
        ],
    )
}

/// A schema of parameters with more of them.
pub fn with(mut all: Json, more: &[(&str, &str, &str)]) -> Json {
    let more = schema(more);
    if let (Some(Json::Object(all)), Some(Json::Object(more))) =
        (all.get_mut("properties"), more.get("properties"))
    {
        all.extend(more.clone());
    }
    all
}

/// The schema at `outputs.structured`, or below it under `schema` or `structured`. Only one with
/// properties counts.
fn schema_of_answer(params: &mut Params<'_>) -> Option<Arc<Schema>> {
    let structured = params.get("outputs")?.get("structured")?.as_object()?;
    let below = |key: &'static str| (key, structured.get(&key[1..]).and_then(Json::as_object));
    let places = [("", Some(structured)), below("/schema"), below("/structured")];
    let (place, schema) = places
        .into_iter()
        .find_map(|(place, schema)| Some((place, schema.filter(|schema| has_properties(schema))?)))?;
    let mut schema = schema.clone();
    // A saved canvas may hold the last answer beside the schema.
    schema.remove("value");
    match Schema::new(Json::Object(schema)) {
        Ok(schema) => Some(Arc::new(schema)),
        Err(error) => {
            params.problem(ParamProblem::new(format!("/outputs/structured{place}"), error.message));
            None
        }
    }
}

fn has_properties(schema: &serde_json::Map<String, Json>) -> bool {
    schema.get("properties").and_then(Json::as_object).is_some_and(|properties| !properties.is_empty())
}

fn prompts(params: &mut Params<'_>) -> Vec<Prompt> {
    let source = params.source;
    let names = source.names();
    let user = |text: &str| Prompt { author: Author::User, text: Template::parse_value(text, names) };
    let entries = match params.get("prompts") {
        Some(Json::Array(entries)) if !entries.is_empty() => entries,
        Some(Json::String(text)) if !text.is_empty() => return vec![user(text)],
        None | Some(Json::Array(_) | Json::String(_)) => return vec![user("{sys.query}")],
        Some(_) => {
            params.problem(ParamProblem::new("/prompts", "must be a text or a list of {role, content}"));
            return Vec::new();
        }
    };
    let mut prompts = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        let at = |key: &str| pointer(&["prompts", &place.to_string(), key]);
        if let Json::String(text) = entry {
            prompts.push(user(text));
            continue;
        }
        let text = entry.get("content").and_then(Json::as_str).unwrap_or_default();
        let author = match entry.get("role").and_then(Json::as_str).unwrap_or("user") {
            "user" => Author::User,
            "assistant" => Author::Assistant,
            "system" => Author::System,
            other => {
                let problem =
                    ParamProblem::new(at("role"), format!("`{other}` says nothing in a conversation"));
                params.problem(problem.help("use `user`, `assistant` or `system`"));
                continue;
            }
        };
        prompts.push(Prompt { author, text: Template::parse(text, names) });
    }
    prompts
}

/// A value is sent only when its switch is on, and, but for the temperature, when it is not 0.
fn sampling(params: &mut Params<'_>) -> Sampling {
    let mut when_on = |flag: &str, key: &str, bounds| match params.flag(flag) {
        Some(true) => params.number_in(key, bounds),
        Some(false) | None => None,
    };
    let temperature = when_on("temperatureEnabled", "temperature", 0.0..=2.0);
    let not_zero = |value: Option<f64>| value.filter(|value| *value != 0.0);
    let top_p = not_zero(when_on("topPEnabled", "top_p", 0.0..=1.0));
    let presence_penalty = not_zero(when_on("presencePenaltyEnabled", "presence_penalty", -2.0..=2.0));
    let frequency_penalty = not_zero(when_on("frequencyPenaltyEnabled", "frequency_penalty", -2.0..=2.0));
    let max_tokens = match params.flag("maxTokensEnabled") {
        Some(true) => {
            u32::try_from(params.count("max_tokens", 0, 0..=10_000_000)).ok().filter(|max| *max > 0)
        }
        Some(false) | None => None,
    };
    let thinking = match params.get("thinking") {
        Some(Json::String(word)) => match word.as_str() {
            "enabled" => Some(true),
            "disabled" => Some(false),
            _ => None,
        },
        Some(other) => truth(other),
        None => None,
    };
    Sampling { temperature, top_p, presence_penalty, frequency_penalty, max_tokens, thinking }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Node;
    use serde_json::json;

    #[test]
    fn the_schema_is_found_at_three_places() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "value": 3});
        for outputs in [
            json!({"structured": schema}),
            json!({"structured": {"schema": schema}}),
            json!({"structured": {"structured": schema}}),
        ] {
            let node = Node::new("LLM", json!({"outputs": outputs}));
            let found = schema_of_answer(&mut Params::of(&node.source())).unwrap();
            assert_eq!(found.json.get("value"), None);
            assert!(found.check("{\"a\": 1}").is_ok());
        }
        let none = json!({"outputs": {"content": {}, "structured": {"properties": {}}}});
        assert!(schema_of_answer(&mut Params::of(&Node::new("LLM", none).source())).is_none());
        let broken = json!({"outputs": {"structured": {"properties": {"a": {"type": 7}}}}});
        assert_eq!(Node::new("LLM", broken).problems(), ["/outputs/structured"]);
    }
}
