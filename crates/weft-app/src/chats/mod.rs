//! Chat assistants: builds a turn of the engine from the stored settings and a question.

mod drawing;

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};
use weft_core::seam::canvas_store::{CHAT_TYPE, CanvasHead};
use weft_core::seam::chat_store::{Chat, ChatKind, ChatSettings};
use weft_core::seam::dataset_store::{Counting, DatasetFilter};
use weft_core::seam::session_store::Session;
use weft_core::{CanvasId, CanvasKey, DatasetId, Error, Result, TenantId, TurnInput};
use weft_dsl::{Plan, Problem};
use weft_engine::SessionState;

use crate::app::App;
use crate::checking::Purpose;
use crate::new_session::{NewSession, Said, messages};
use crate::plans::compact;

/// Id of the default assistant for questions to a model. It is not stored and has no datasets.
pub const PLAIN: &str = "chat";

/// Id of the default search app for single questions about datasets. It is not stored either.
pub const SINGLE: &str = "search";

/// How long a version of a canvas is in use before it is saved again. Those that nobody has saved for a day may be
/// removed.
const SAVED_AGAIN_MS: i64 = 43_200_000;

/// Prompt for the answer to a single question.
const SINGLE_SYSTEM: &str = "You answer one question from the passages below, for somebody who searches a collection of \
documents. Sum up what they say about it in a few sentences, in the language of the question. Use only what the passages \
say, keep numbers and names as they are, and say so when they do not answer it.\n\n## Passages\n\n{knowledge}";

/// Answer if nothing is found.
const SINGLE_NOTHING: &str = "Nothing in the documents answers this question.";

/// Sampling parameters that a caller may set, and the switches that enable them in the component.
pub const SAMPLING: [(&str, &str); 5] = [
    ("temperature", "temperatureEnabled"),
    ("top_p", "topPEnabled"),
    ("presence_penalty", "presencePenaltyEnabled"),
    ("frequency_penalty", "frequencyPenaltyEnabled"),
    ("max_tokens", "maxTokensEnabled"),
];

/// The input of an assistant's turn in addition to its question: the inputs of the canvas, and what makes the canvas
/// of this turn differ from that of others. A turn without it does not belong to an assistant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatTurn {
    /// The values of the prompt's variables, in the order of the assistant's parameters.
    pub variables: Vec<String>,
    /// The datasets to search, by id.
    pub datasets: Vec<String>,
    /// Only these documents.
    pub documents: Option<Vec<String>>,
    /// Answer if nothing is found.
    pub empty_response: String,
    /// Whether there were datasets to search, but none of them exists any more.
    pub datasets_gone: bool,
    /// Whether to cite sources.
    pub quote: bool,
    /// Whether the caller has set the variable `date`.
    pub date_given: bool,
    /// The strategy of deep research; absent for a single search.
    pub reasoning: Option<String>,
    /// A model other than the assistant's.
    pub llm_id: Option<String>,
    /// Sampling parameters that differ from the assistant's.
    pub llm_setting: Map<String, Json>,
    /// Instructions that replace the assistant's.
    pub system: Option<String>,
}

/// A variable of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Whether it may be omitted.
    pub optional: bool,
}

/// Returns the variables of a prompt: those that it lists, and those that every prompt may use.
pub fn parameters(prompt: &Map<String, Json>) -> Vec<Parameter> {
    let mut all = listed(prompt);
    for (name, optional) in [("knowledge", false), ("date", true)] {
        if all.iter().all(|parameter| parameter.name != name) {
            all.push(Parameter { name: name.to_owned(), optional });
        }
    }
    all
}

/// Returns the variables that a prompt lists.
pub fn listed(prompt: &Map<String, Json>) -> Vec<Parameter> {
    let listed = prompt.get("parameters").and_then(Json::as_array).into_iter().flatten();
    let parameter = |one: &Json| {
        let name = one.get("key")?.as_str()?.to_owned();
        Some(Parameter { name, optional: flag(one.get("optional")) })
    };
    listed.filter_map(parameter).collect()
}

/// Returns a string of the prompt settings; empty if there is none.
pub fn text<'a>(prompt: &'a Map<String, Json>, key: &str) -> &'a str {
    prompt.get(key).and_then(Json::as_str).unwrap_or_default()
}

/// Returns whether a switch is on.
pub fn flag(value: Option<&Json>) -> bool {
    match value {
        Some(Json::Bool(flag)) => *flag,
        // Settings written by other programs have switches as texts or numbers, too.
        Some(Json::String(text)) => text.eq_ignore_ascii_case("true") || text == "1",
        Some(Json::Number(number)) => number.as_f64().is_some_and(|number| number > 0.0),
        _ => false,
    }
}

/// Returns the strategy for a value of the deep-research setting. Clients send a boolean, or one of four depths.
pub fn strategy(value: Option<&Json>) -> Option<String> {
    let depth = value.and_then(|value| value.as_u64().or_else(|| value.as_str()?.trim().parse().ok()));
    let named = value.and_then(Json::as_str).map(str::trim);
    match (named, depth) {
        (Some(name @ ("iterative" | "tree" | "agentic")), _) => Some(name.to_owned()),
        (_, Some(0)) => None,
        (_, Some(1)) => Some("iterative".to_owned()),
        (_, Some(2)) => Some("tree".to_owned()),
        (_, Some(_)) => Some("agentic".to_owned()),
        (_, None) => flag(value).then(|| "iterative".to_owned()),
    }
}

impl ChatTurn {
    /// Returns the inputs of a run.
    ///
    /// # Errors
    /// `Internal` when it cannot be written as JSON.
    pub fn inputs(&self) -> Result<Map<String, Json>> {
        match serde_json::to_value(self) {
            Ok(Json::Object(inputs)) => Ok(inputs),
            Ok(_) => Ok(Map::new()),
            Err(cause) => Err(Error::internal("cannot write the inputs of a turn").because(cause)),
        }
    }
}

/// Component parameters that have different names in the settings of an assistant.
const CALLED: [(&str, &str); 3] =
    [("api_key", "tavily_api_key"), ("sys_prompt", "system"), ("strategy", "reasoning")];

/// Builds the error for an assistant that cannot answer. Its owner has never seen its canvas, so a problem names the
/// setting instead of the position in the canvas.
fn cannot_answer(problems: &[Problem]) -> Error {
    let mut told: Vec<String> = Vec::new();
    for problem in problems.iter().filter(|problem| problem.is_error()) {
        let setting = problem.pointer.split_once("/params/").map(|(_, setting)| setting.replace('/', "."));
        let called = CALLED.iter().find(|(parameter, _)| setting.as_deref() == Some(*parameter));
        let mut line = problem.message.clone();
        if let Some(help) = &problem.help {
            line.push_str(&format!(" ({help})"));
        }
        // The component's message names its own parameter.
        if let Some((parameter, name)) = called {
            line = line.replace(&format!("`{parameter}`"), &format!("`{name}`"));
        }
        if let Some(setting) = setting {
            line = format!("`{}`: {line}", called.map_or(setting.as_str(), |(_, name)| *name));
        }
        // Several components may report the same problem.
        if !told.contains(&line) {
            told.push(line);
        }
    }
    Error::invalid(format!("no question can be answered with these settings: {}", told.join("; ")))
}

/// Returns the head of an assistant's canvas, which is in no list.
fn head(key: &CanvasKey) -> CanvasHead {
    CanvasHead {
        title: format!("chat assistant {}", key.id),
        canvas_type: CHAT_TYPE.to_owned(),
        permission: "me".to_owned(),
        ..CanvasHead::default()
    }
}

impl App {
    /// Returns those of the datasets that exist, in their order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn there(&self, tenant: &TenantId, datasets: &[String]) -> Result<Vec<String>> {
        if datasets.is_empty() {
            return Ok(Vec::new());
        }
        let filter = DatasetFilter {
            ids: Some(datasets.iter().map(|id| DatasetId::from(id.as_str())).collect()),
            counting: Counting::Without,
            limit: datasets.len() as u64,
            ..DatasetFilter::default()
        };
        let (found, _) = self.datasets.datasets(tenant, &filter).await?;
        let found: HashSet<&str> = found.iter().map(|dataset| dataset.key.id.as_str()).collect();
        Ok(datasets.iter().filter(|id| found.contains(id.as_str())).cloned().collect())
    }

    /// Returns the plan for a turn of an assistant, built from its current settings.
    ///
    /// # Errors
    /// `NotFound` when the assistant does not exist, `Invalid` when its canvas cannot run, such as without its model.
    pub async fn plan_of_chat(&self, key: &CanvasKey, input: &TurnInput) -> Result<Arc<Plan>> {
        let turn = ChatTurn::deserialize(Json::Object(input.inputs.clone())).map_err(|cause| {
            let message = "this conversation belongs to a chat assistant, not to an agent";
            Error::invalid(message)
                .help(format!("ask it at /api/v1/chats/{}/completions", key.id))
                .because(cause)
        })?;
        let mut settings = match key.id.as_str() {
            PLAIN | SINGLE => unstored(&key.tenant, key.id.as_str()).settings,
            _ => self.chats.get(key).await?.settings,
        };
        let llm_id = turn.llm_id.as_deref().unwrap_or(&settings.llm_id);
        let quotes = self.models.resolve(&key.tenant, llm_id).is_ok_and(|model| !model.info().writes());
        if quotes {
            // A model that only quotes must not rewrite the question: its output would be searched for instead.
            settings.prompt_config.insert("refine_multiturn".to_owned(), false.into());
        }
        let dsl = compact(&drawing::draw(&settings, &turn).to_string())?;
        // The version is derived from the canvas, so a known plan needs neither the store nor the compiler.
        let version: Arc<str> = weft_core::hex(&Sha256::digest(dsl.as_bytes())).into();
        let now_ms = self.clock.now_ms();
        let cached = self.plans.get(key, &version);
        if let Some(plan) = &cached
            && self.plans.is_saved_since(key, &version, now_ms.saturating_sub(SAVED_AGAIN_MS))
        {
            return Ok(Arc::clone(plan));
        }
        // Stored before it runs: a process that resumes the run reads the canvas by its version.
        let stored = self.canvases.put(key, &head(key), &dsl).await?;
        self.canvas_stays_with_chat(key).await?;
        let plan = match cached {
            Some(plan) => plan,
            None => {
                let compiled = self.compiled(&key.tenant, stored.dsl, Purpose::Run).await?;
                let (plan, _) = compiled.map_err(|problems| cannot_answer(&problems))?;
                self.keep(key, &stored.version, plan)
            }
        };
        self.plans.saved(key, &stored.version, now_ms);
        Ok(plan)
    }

    /// Saves a version again if it is one of an assistant, so that it stays for a new run. Versions of other canvases
    /// stay for their sessions.
    pub(crate) async fn keep_version_of_chat(&self, key: &CanvasKey, version: &str) -> Result<()> {
        if self.canvases.get(key).await?.head.canvas_type != CHAT_TYPE {
            return Ok(());
        }
        let dsl = self.canvases.version(key, version).await?;
        self.canvases.put(key, &head(key), &dsl).await?;
        self.canvas_stays_with_chat(key).await
    }

    /// Creates a conversation with an assistant, which continues the given earlier messages.
    ///
    /// # Errors
    /// `Conflict` when the id is taken.
    pub async fn open_chat(&self, chat: &CanvasKey, new: NewSession<'_>) -> Result<Session> {
        let now_ms = self.clock.now_ms();
        // It has no version: each turn uses the settings at its time.
        let session = new.session(chat, &"".into(), SessionState::default(), now_ms)?;
        self.sessions.create(&session, &messages(new.before, now_ms)).await?;
        self.stays_with_chat(chat, &session.key).await?;
        Ok(session)
    }
}

/// Returns the first message of a conversation with an assistant.
pub fn opening(settings: &ChatSettings) -> Vec<Said> {
    let prologue = text(&settings.prompt_config, "prologue");
    if prologue.is_empty() { Vec::new() } else { vec![("assistant", prologue.to_owned())] }
}

/// Returns the default settings of a search app.
pub fn single_questions() -> ChatSettings {
    let prompt = [
        ("system", Json::from(SINGLE_SYSTEM)),
        ("prologue", Json::from("")),
        ("empty_response", Json::from(SINGLE_NOTHING)),
        ("refine_multiturn", Json::from(false)),
        ("quote", Json::from(true)),
    ];
    let prompt_config = prompt.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    ChatSettings { prompt_config, ..ChatSettings::default() }
}

/// Returns the default assistant or search app: [`PLAIN`] or [`SINGLE`].
pub fn unstored(tenant: &TenantId, id: &str) -> Chat {
    let (kind, settings) = match id {
        SINGLE => (ChatKind::Search, single_questions()),
        _ => (ChatKind::Assistant, ChatSettings::default()),
    };
    let chat = new(tenant, String::new(), settings, 0);
    Chat { kind, key: CanvasKey::new(tenant, id), ..chat }
}

/// Creates a chat assistant with a new id, without storing it.
pub fn new(tenant: &TenantId, name: String, settings: ChatSettings, now_ms: i64) -> Chat {
    let key = CanvasKey::new(tenant, CanvasId::generate());
    let kind = ChatKind::Assistant;
    Chat { key, kind, name, settings, revision: 1, created_ms: now_ms, updated_ms: now_ms }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::ErrorKind;

    use super::*;
    use crate::{Config, assemble_in_memory};

    #[tokio::test]
    async fn a_version_that_a_new_run_needs_stays_when_unused_ones_are_removed() {
        let app = assemble_in_memory(&Config::default()).await.unwrap();
        let tenant = TenantId::new("t");
        let chat = CanvasKey::new(&tenant, PLAIN);
        let needed = app.canvases.put(&chat, &head(&chat), "1").await.unwrap().version;
        let unused = app.canvases.put(&chat, &head(&chat), "2").await.unwrap().version;
        app.keep_version_of_chat(&chat, &needed).await.unwrap();
        assert_eq!(app.versions.remove_unused_versions(&tenant, i64::MAX).await.unwrap(), 1);
        assert_eq!(&*app.canvases.version(&chat, &needed).await.unwrap(), "1");
        assert_eq!(app.canvases.version(&chat, &unused).await.unwrap_err().kind, ErrorKind::NotFound);

        let agent = CanvasKey::new(&tenant, "agent");
        let older = app.canvases.put(&agent, &CanvasHead::default(), "3").await.unwrap().version;
        let newest = app.canvases.put(&agent, &CanvasHead::default(), "4").await.unwrap().version;
        app.keep_version_of_chat(&agent, &older).await.unwrap();
        assert_eq!(app.canvases.newest(&agent).await.unwrap(), newest, "it is not saved again");
        assert_eq!(app.versions.remove_unused_versions(&tenant, i64::MAX).await.unwrap(), 0);
    }

    #[test]
    fn a_diagnostic_names_the_setting_as_the_client_wrote_it() {
        let told = |parameter: &str| {
            let pointer = format!("/components/DeepResearch:R/params/{parameter}");
            let problem = Problem::error("invalid-parameter", pointer, format!("`{parameter}` is no text"));
            cannot_answer(&[problem.help(format!("write `{parameter}` as a text"))]).full()
        };
        let expected = "`tavily_api_key`: `tavily_api_key` is no text (write `tavily_api_key` as a text)";
        assert!(told("api_key").ends_with(&format!("settings: {expected}")), "{}", told("api_key"));
        let expected = "settings: `top_n`: `top_n` is no text (write `top_n` as a text)";
        assert!(told("top_n").ends_with(expected), "{}", told("top_n"));
    }

    #[test]
    fn the_switch_for_deep_research_has_several_forms() {
        let check = |value: Json, expected: Option<&str>| {
            assert_eq!(strategy(Some(&value)).as_deref(), expected, "{value}");
        };
        for off in [json!(null), json!(false), json!("false"), json!(0), json!("0"), json!(""), json!([])] {
            check(off, None);
        }
        for (value, name) in [
            (json!(true), "iterative"),
            (json!("true"), "iterative"),
            (json!(1), "iterative"),
            (json!("2"), "tree"),
            (json!(3), "agentic"),
            (json!(99), "agentic"),
            (json!("tree"), "tree"),
        ] {
            check(value, Some(name));
        }
        assert_eq!(strategy(None), None);
    }

    #[test]
    fn a_turn_round_trips_through_inputs() {
        let turn =
            ChatTurn { variables: vec!["a".to_owned()], documents: Some(Vec::new()), ..ChatTurn::default() };
        let inputs = turn.inputs().unwrap();
        assert_eq!(ChatTurn::deserialize(Json::Object(inputs)).unwrap(), turn);
        assert!(ChatTurn::deserialize(json!({})).is_err());
    }
}
