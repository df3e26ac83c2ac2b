//! The parameters that LLM and Agent share.

use std::sync::Arc;
use std::time::Duration;

use weft_agent::structured::Schema;
use weft_core::field::AnyField;
use weft_core::seam::chat_model::{Audience, Author, ChatMessage, ChatRequest, Sampling};
use weft_core::suggest::{did_you_mean, misspelled};
use weft_core::{Json, ParamProblem, Reference, Template};

use crate::model::sections::Sections;
use crate::params::{
    Field, FieldGroup, Kind, Params, Widget, choice, described, fields, number, pointer, truth, whole,
};
use crate::text::taken_for_text;

/// Default number of history turns.
// What canvases made elsewhere expect where they set nothing.
const HISTORY_TURNS: usize = 13;
/// Maximum number of history turns.
// No context window holds more, and all of it is read from the store for every turn.
const HISTORY_TURNS_MAX: usize = 1_000;
/// Maximum number of seconds between two attempts.
// A wait holds the run and its slot among those of the tenant.
const DELAY_MAX: f64 = 3_600.0;
/// Maximum number of retries.
// The waits double: without a cap, the twentieth would last for days.
const RETRIES_MAX: usize = 20;

static LLM_ID: Field<String> =
    Field::text("llm_id", "the model, such as `deepseek-chat@DeepSeek`; the default model if empty")
        .elsewhere(&["model", "model_name"])
        .widget(Widget::ChatModel);
static TEMPERATURE: Field<Option<f64>> =
    Field::number("temperature", &(0.0..=2.0), "how freely words are chosen")
        .shown_when("temperatureEnabled", ON);
static TEMPERATURE_ENABLED: Field<bool> = Field::flag("temperatureEnabled", "whether `temperature` is sent");
static TOP_P: Field<Option<f64>> = Field::number(
    "top_p",
    &(0.0..=1.0),
    "the cumulative probability of the tokens to sample from; 0 is not sent",
)
.shown_when("topPEnabled", ON);
static TOP_P_ENABLED: Field<bool> = Field::flag("topPEnabled", "whether `top_p` is sent");
static PRESENCE_PENALTY: Field<Option<f64>> = Field::number(
    "presence_penalty",
    &(-2.0..=2.0),
    "the penalty for tokens that have already occurred; 0 is not sent",
)
.shown_when("presencePenaltyEnabled", ON);
static PRESENCE_PENALTY_ENABLED: Field<bool> =
    Field::flag("presencePenaltyEnabled", "whether `presence_penalty` is sent");
static FREQUENCY_PENALTY: Field<Option<f64>> = Field::number(
    "frequency_penalty",
    &(-2.0..=2.0),
    "the penalty for tokens by their frequency so far; 0 is not sent",
)
.shown_when("frequencyPenaltyEnabled", ON);
static FREQUENCY_PENALTY_ENABLED: Field<bool> =
    Field::flag("frequencyPenaltyEnabled", "whether `frequency_penalty` is sent");
static MAX_TOKENS: Field<Option<usize>> =
    Field::optional_count("max_tokens", &(0..=10_000_000), "the maximum length of the answer; 0 is not sent")
        .unit("tokens")
        .shown_when("maxTokensEnabled", ON);
static MAX_TOKENS_ENABLED: Field<bool> = Field::flag("maxTokensEnabled", "whether `max_tokens` is sent");
static THINKING: Field = Field::raw(
    "thinking",
    Kind::Choice(&[choice("default", "the model's default"), choice("enabled", ""), choice("disabled", "")]),
    "whether the model thinks first",
);
static MAX_RETRIES: Field<Option<usize>> = Field::optional_count(
    "max_retries",
    &(0..=RETRIES_MAX),
    "the maximum number of retries; if absent, as in the model's settings",
);
static DELAY_AFTER_ERROR: Field<Option<f64>> = Field::number(
    "delay_after_error",
    &(0.0..=DELAY_MAX),
    "the delay before the first retry; it doubles with each further one",
)
.unit("seconds");
static CACHE: Field<bool> = Field::flag(
    "cache",
    "whether an identical request may be answered from the cache; requires `models.cache`",
);
/// The values of a switch that is on.
const ON: &[&str] = &["true"];

/// Which model a node uses.
pub(crate) static MODEL: FieldGroup = fields(&[&LLM_ID]);

/// How the model generates its answer.
pub(crate) static SAMPLING: FieldGroup = FieldGroup {
    title: "Model settings",
    fields: &[
        &TEMPERATURE_ENABLED,
        &TEMPERATURE,
        &TOP_P_ENABLED,
        &TOP_P,
        &PRESENCE_PENALTY_ENABLED,
        &PRESENCE_PENALTY,
        &FREQUENCY_PENALTY_ENABLED,
        &FREQUENCY_PENALTY,
        &MAX_TOKENS_ENABLED,
        &MAX_TOKENS,
        &THINKING,
        &MAX_RETRIES,
        &DELAY_AFTER_ERROR,
        &CACHE,
    ],
};

/// An entry of `prompts`.
#[derive(Debug)]
pub(crate) struct Prompt {
    /// Author of the message.
    pub author: Author,
    /// Text of the message.
    pub text: Template,
}

/// Which model a node uses, and how: common to all components with a model.
#[derive(Debug)]
pub(crate) struct Asking {
    /// The model; empty for the default model.
    pub llm_id: String,
    /// How the answer is generated.
    pub sampling: Sampling,
    /// Number of retries; `None` for that of the model's settings.
    pub retries: Option<u32>,
    /// Wait before the second attempt; `None` for that of the model's settings.
    pub retry_delay: Option<Duration>,
    /// Whether equal requests may be answered from the cache.
    pub cached: bool,
}

impl Asking {
    /// Reads the parameters.
    pub(crate) fn read(params: &mut Params<'_>) -> Self {
        let retries = params.take(&MAX_RETRIES);
        Self {
            llm_id: params.take(&LLM_ID),
            sampling: sampling(params),
            retries: retries.and_then(|retries| u32::try_from(retries).ok()),
            retry_delay: params.take(&DELAY_AFTER_ERROR).map(Duration::from_secs_f64),
            cached: params.take(&CACHE),
        }
    }

    /// Returns a request whose answer is not streamed to anyone.
    pub(crate) fn request(&self, messages: Vec<ChatMessage>) -> ChatRequest {
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

    /// Maximum number of times an answer that violates its schema may be repaired.
    pub(crate) fn repairs(&self) -> u32 {
        self.retries.unwrap_or(0).saturating_add(1)
    }
}

/// The instructions.
static SYS_PROMPT: Field<String> = Field::text("sys_prompt", "the instructions")
    .with_references()
    .elsewhere(&["system_prompt", "system", "instructions"])
    .widget(Widget::Lines);
/// The messages that follow the history.
static PROMPTS: Field = Field::raw(
    "prompts",
    Kind::Any,
    "the messages after the history: a text, or a list of `{role, content}`; the question if absent",
)
.elsewhere(&["prompt", "user_prompt", "messages"]);
/// Whether sources are cited.
static CITE: Field<bool> =
    Field::flag("cite", "whether to cite the sources found in this turn").on_by_default();
/// Where images come from.
static VISUAL_FILES_VAR: Field<Option<Reference>> =
    Field::reference("visual_files_var", "images for the model to look at");
/// Written by older editors.
static OUTPUT_STRUCTURE: Field =
    Field::raw("output_structure", Kind::Any, "an older parameter for a structured answer").not_offered();
static MESSAGE_HISTORY_WINDOW_SIZE: Field<usize> = Field::count(
    "message_history_window_size",
    HISTORY_TURNS,
    &(0..=HISTORY_TURNS_MAX),
    "the number of earlier turns to include",
);
static OUTPUTS: Field = Field::raw(
    "outputs",
    Kind::Object(&[Field::raw("structured", Kind::Object(&[]), "the JSON Schema for a structured answer")]),
    "the required form of the answer",
)
.widget(Widget::JsonSchema);

/// The messages that a node sends its model.
pub(crate) static WORDS: FieldGroup = fields(&[
    &SYS_PROMPT,
    &PROMPTS,
    &MESSAGE_HISTORY_WINDOW_SIZE,
    &CITE,
    &VISUAL_FILES_VAR,
    &OUTPUTS,
    &OUTPUT_STRUCTURE,
]);

/// How a node uses its model, with its own messages.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Which model, and how it is used.
    pub asking: Asking,
    /// The instructions.
    pub system: Template,
    /// Replacements for the built-in prompts of stages.
    pub sections: Sections,
    /// The messages that follow the history.
    pub prompts: Vec<Prompt>,
    /// Number of history turns that precede the prompts.
    pub history_turns: usize,
    /// Whether sources are to be cited.
    pub cite: bool,
    /// Source of images, besides the attached files.
    pub images: Option<Reference>,
    /// Schema of the answer.
    pub schema: Option<Arc<Schema>>,
    /// Shown when the model fails.
    pub default: Option<Json>,
    /// Whether the answer may be streamed while it is being generated.
    pub streams: bool,
    /// Whether the texts of attached files are added to the question. Not in an Iteration that passes them one by one.
    pub attaches_texts: bool,
    /// Parameters without effect.
    pub warnings: Vec<ParamProblem>,
}

/// Whether a node is in an Iteration over the attached files.
fn goes_through_files(params: &Params<'_>) -> bool {
    let items = params.source.parent.and_then(|(_, iteration)| iteration.get("items_ref"));
    let items = items.and_then(Json::as_str).unwrap_or_default();
    // A reference may stand in braces or without them.
    items.trim_matches(['{', '}', ' ']) == "sys.files"
}

impl Settings {
    /// Reads the parameters.
    pub(crate) fn read(params: &mut Params<'_>) -> Self {
        let schema = schema_of_answer(params);
        params.without_effect(&OUTPUT_STRUCTURE, "`output_structure`");
        let prompts = prompts(params);
        let asking = Asking::read(params);
        let (system, sections) = Sections::read(&params.take(&SYS_PROMPT), params.source.names());
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
            history_turns: params.take(&MESSAGE_HISTORY_WINDOW_SIZE),
            cite: params.take(&CITE),
            images: params.take(&VISUAL_FILES_VAR),
            // A structured answer is validated once it is complete, and an answer that may go to another branch must
            // not have been shown before.
            streams: schema.is_none() && exception.goto.is_empty(),
            attaches_texts: !goes_through_files(params),
            schema,
            default: exception.covering(),
            warnings: params.warnings().into_iter().chain(idle).collect(),
        }
    }

    /// Whether the answer cites its sources, if there are any. A structured value has no place for citation marks.
    pub(crate) fn cites(&self) -> bool {
        self.cite && self.schema.is_none()
    }

    /// Returns everything the texts refer to.
    pub(crate) fn references(&self) -> Vec<Reference> {
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

/// Returns the schema at `outputs.structured`, or below it under `schema` or `structured`. Only a schema with
/// properties counts.
fn schema_of_answer(params: &mut Params<'_>) -> Option<Arc<Schema>> {
    let structured = params.get(&OUTPUTS)?.get("structured")?.as_object()?;
    let below = |key: &'static str| (key, structured.get(&key[1..]).and_then(Json::as_object));
    let places = [("", Some(structured)), below("/schema"), below("/structured")];
    let found = places
        .into_iter()
        .find_map(|(place, schema)| Some((place, schema.filter(|schema| has_properties(schema))?)));
    let Some((place, schema)) = found else {
        // Editors start with empty `properties`.
        let none_yet = structured.contains_key("properties");
        if !none_yet && SCHEMA_WORDS.iter().any(|word| structured.contains_key(*word)) {
            let message = "has no effect: only a schema with `properties` requests a structured answer";
            let help = "describe an object; a list can be one of its properties";
            params.warn(ParamProblem::new("/outputs/structured", message).help(help));
        }
        return None;
    };
    unmet(params, schema, &format!("/outputs/structured{place}"));
    let mut schema = schema.clone();
    // A saved canvas may hold the last answer next to the schema.
    schema.remove("value");
    match Schema::new(Json::Object(schema)) {
        Ok(schema) => Some(Arc::new(schema)),
        Err(error) => {
            params.problem(ParamProblem::new(format!("/outputs/structured{place}"), error.message));
            None
        }
    }
}

/// Warns about required members that the schema does not describe: models that keep to it never write them.
fn unmet(params: &mut Params<'_>, schema: &serde_json::Map<String, Json>, at: &str) {
    let Some(properties) = schema.get("properties").and_then(Json::as_object) else { return };
    let required = schema.get("required").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    for (place, name) in required.iter().enumerate() {
        let Some(name) = name.as_str().filter(|name| !properties.contains_key(*name)) else { continue };
        let known = properties.keys().take(COMPARED_MAX).map(String::as_str);
        let help = misspelled(name, known).map_or_else(
            || "describe it in `properties`, or remove it from `required`".to_owned(),
            did_you_mean,
        );
        let message = format!("`{name}` is required, and the schema has no such property");
        params.warn(ParamProblem::new(format!("{at}/required/{place}"), message).help(help));
    }
}

/// Maximum number of properties that a name is compared with.
const COMPARED_MAX: usize = 64;

/// Keywords that only a schema has; editors also leave the description of an output in its place.
const SCHEMA_WORDS: [&str; 7] =
    ["items", "required", "anyOf", "oneOf", "allOf", "$ref", "additionalProperties"];

fn has_properties(schema: &serde_json::Map<String, Json>) -> bool {
    schema.get("properties").and_then(Json::as_object).is_some_and(|properties| !properties.is_empty())
}

/// Returns the author of the entry of `prompts` at this position; a problem for a role that a conversation does not
/// have.
pub(crate) fn author_of(params: &mut Params<'_>, place: usize, entry: &Json) -> Option<Author> {
    // Keys that are ignored are reported even if the role is wrong.
    doubts_of(params, place, entry);
    match entry.get("role").and_then(Json::as_str).unwrap_or("user") {
        "user" => Some(Author::User),
        "assistant" => Some(Author::Assistant),
        "system" => Some(Author::System),
        other => {
            let at = pointer(&["prompts", &place.to_string(), "role"]);
            let problem = ParamProblem::new(at, format!("`{other}` is not a role of a conversation"));
            params.problem(problem.help("use `user`, `assistant` or `system`"));
            None
        }
    }
}

/// Warns of keys of a `prompts` entry that are ignored.
fn doubts_of(params: &mut Params<'_>, place: usize, entry: &Json) {
    let at = |key: &str| pointer(&["prompts", &place.to_string(), key]);
    for key in entry.as_object().into_iter().flat_map(|entry| entry.keys()) {
        let missing = ["role", "content"].into_iter().filter(|known| entry.get(known).is_none());
        if let Some(meant) = misspelled(key, missing) {
            let problem = ParamProblem::new(at(key), "has no effect: a prompt has no such key");
            params.warn(problem.help(did_you_mean(meant)));
        }
    }
    match entry.get("content") {
        None | Some(Json::Null) => {}
        Some(Json::String(text)) => {
            let names = params.source.names();
            let doubt = taken_for_text(&Template::parse(text, names), names, &at("content"));
            doubt.into_iter().for_each(|doubt| params.warn(doubt));
        }
        Some(other) => {
            let problem =
                ParamProblem::new(at("content"), format!("must be a text, and is {}", described(other)));
            params.problem(problem.help("enter the text of the message"));
        }
    }
}

fn prompts(params: &mut Params<'_>) -> Vec<Prompt> {
    let source = params.source;
    let names = source.names();
    let user = |text: &str| Prompt { author: Author::User, text: Template::parse_value(text, names) };
    let entries = match params.get(&PROMPTS) {
        Some(Json::Array(entries)) if !entries.is_empty() => entries,
        Some(Json::String(text)) if !text.is_empty() => return vec![user(text)],
        // A node without a prompt passes the question on, as editors show it.
        None | Some(Json::Array(_) | Json::String(_)) => return vec![user("{sys.query}")],
        Some(_) => {
            params.problem(ParamProblem::new("/prompts", "must be a text or a list of {role, content}"));
            return Vec::new();
        }
    };
    let mut prompts = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        if let Json::String(text) = entry {
            prompts.push(user(text));
            continue;
        }
        let text = entry.get("content").and_then(Json::as_str).unwrap_or_default();
        let Some(author) = author_of(params, place, entry) else { continue };
        prompts.push(Prompt { author, text: Template::parse(text, names) });
    }
    prompts
}

/// Reads the sampling settings. A value is sent only if its switch is on and, except for the temperature, it is not 0.
fn sampling(params: &mut Params<'_>) -> Sampling {
    for (on, value) in SWITCHED {
        unsent(params, on, value);
    }
    let mut when_on =
        |on: &Field<bool>, value: &Field<Option<f64>>| params.take(on).then(|| params.take(value)).flatten();
    let not_zero = |value: Option<f64>| value.filter(|value| *value != 0.0);
    let temperature = when_on(&TEMPERATURE_ENABLED, &TEMPERATURE);
    let top_p = not_zero(when_on(&TOP_P_ENABLED, &TOP_P));
    let presence_penalty = not_zero(when_on(&PRESENCE_PENALTY_ENABLED, &PRESENCE_PENALTY));
    let frequency_penalty = not_zero(when_on(&FREQUENCY_PENALTY_ENABLED, &FREQUENCY_PENALTY));
    let max_tokens = params.take(&MAX_TOKENS_ENABLED).then(|| params.take(&MAX_TOKENS)).flatten();
    // Canvases write 0 for no limit.
    let max_tokens = max_tokens.and_then(|max| u32::try_from(max).ok()).filter(|max| *max > 0);
    let thinking = match params.get(&THINKING) {
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

/// The values that are only sent when they are switched on, with their switches.
static SWITCHED: [(&Field<bool>, &dyn AnyField); 5] = [
    (&TEMPERATURE_ENABLED, &TEMPERATURE),
    (&TOP_P_ENABLED, &TOP_P),
    (&PRESENCE_PENALTY_ENABLED, &PRESENCE_PENALTY),
    (&FREQUENCY_PENALTY_ENABLED, &FREQUENCY_PENALTY),
    (&MAX_TOKENS_ENABLED, &MAX_TOKENS),
];

/// Warns about a value without its switch, which editors write next to it, on or off.
fn unsent(params: &mut Params<'_>, on: &Field<bool>, value: &dyn AnyField) {
    let fits = |given: f64| match value.spec().kind {
        Kind::Number { min, max } => (min..=max).contains(&given),
        Kind::Whole { min, max } => whole(given).is_some_and(|given| (min..=max).contains(&given)),
        _ => true,
    };
    // What is no such number is reported as that.
    let is_given = params.get(value).and_then(number).is_some_and(|given| given != 0.0 && fits(given));
    if is_given && params.get(on).is_none() {
        let message = format!("is not sent to the model, because `{}` is not set", on.name());
        let problem = ParamProblem::new(params.pointer(value), message);
        params.warn(problem.help(format!("set `{}` to true, or remove this", on.name())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Node;
    use serde_json::json;

    #[test]
    fn the_schema_is_found_in_three_places() {
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

    #[test]
    fn only_a_misspelled_key_of_a_prompt_is_reported() {
        let check = |entry: Json, expected: &[&str]| {
            let warnings = Node::new("LLM", json!({"prompts": [entry]})).build().shape().warnings;
            let told: Vec<&str> = warnings.iter().filter_map(|warning| warning.help.as_deref()).collect();
            assert_eq!(told, expected, "{entry}");
        };
        check(json!({"roel": "user", "content": "x"}), &["did you mean `role`?"]);
        check(json!({"role": "user", "Content": "x"}), &["did you mean `content`?"]);
        // Two edits in four letters turn many words into others.
        check(json!({"mode": "user", "content": "x"}), &[]);
        check(json!({"role": "user", "content": "x", "name": "a"}), &[]);
    }
}
