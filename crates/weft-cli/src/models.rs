//! Selects the model if none is configured, and the sentence that names it.

use weft_app::assemble::discover_models;
use weft_app::{Config, ModelEntry, ModelsConfig};
use weft_core::seam::chat_model::ModelKind;
use weft_core::value::listed;

use crate::failure::{Failure, Outcome};
use crate::settings::Environment;
use crate::words::quoted;

/// Adds the models that the environment and this machine offer, unless some are configured. Returns the sentence that
/// names the one in use.
///
/// # Errors
/// When the discovery cannot be set up.
pub(crate) async fn find(config: &mut Config, environment: &Environment) -> Outcome<String> {
    if let Some(server) = &config.models.one_server {
        let model =
            server.model.as_deref().map(|model| format!("the model `{model}` of ")).unwrap_or_default();
        return Ok(format!("Using {model}the server at {}.", server.base_url));
    }
    // Models that are only for searches do not answer questions.
    let (answering, searching): (Vec<ModelEntry>, Vec<ModelEntry>) =
        std::mem::take(&mut config.models.entries).into_iter().partition(|entry| !searches(entry));
    let only = (answering.len() == 1).then(|| answering[0].name.clone());
    let is_configured = !answering.is_empty();
    config.models.entries = answering;
    let sentence = if is_configured {
        Ok(configured(&config.models, only.as_deref()))
    } else {
        discover(config, environment).await
    };
    config.models.entries.extend(searching);
    sentence
}

/// Refuses a `--model` that is not among the available models, as an error of the flag and not of a setting.
///
/// # Errors
/// When no model has a similar name. Names are compared exactly where models are set up.
pub(crate) fn check_flag(models: &ModelsConfig, flag: Option<&str>) -> Outcome<()> {
    let Some(flag) = flag.filter(|flag| !flag.trim().is_empty() && models.one_server.is_none()) else {
        return Ok(());
    };
    // A provider may follow the name after an `@`.
    let wanted = flag.split('@').next().unwrap_or_default().trim().to_lowercase();
    let like = |name: &str| {
        let name = name.to_lowercase();
        name.contains(&wanted) || wanted.contains(&name)
    };
    let is_like = |entry: &ModelEntry| like(&entry.name) || entry.model.as_deref().is_some_and(like);
    let mut answering = models.entries.iter().filter(|entry| !searches(entry)).peekable();
    if answering.peek().is_none() || models.entries.iter().any(is_like) {
        return Ok(());
    }
    let names = listed(answering.take(NAMED_MAX).map(|entry| &entry.name));
    let message = format!("there is no model {}, which `--model` names", quoted(flag));
    Err(Failure::usage(message).help(format!("use {names}, or add it to `models.entries`")))
}

/// Maximum number of models that are listed.
const NAMED_MAX: usize = 8;

fn searches(entry: &ModelEntry) -> bool {
    matches!(entry.kind, ModelKind::Embedding | ModelKind::Rerank)
}

fn configured(models: &ModelsConfig, only: Option<&str>) -> String {
    match models.replace_all.as_deref().or(models.default.as_deref()).or(only) {
        Some(name) => format!("Using the model `{name}`."),
        None => "Using the models named in the canvas.".to_owned(),
    }
}

async fn discover(config: &mut Config, environment: &Environment) -> Outcome<String> {
    let key = |name: &str| environment.text(name).map(|key| weft_app::Secret::new(key.trim()));
    let found = weft_app::FoundKeys {
        openai: key("OPENAI_API_KEY"),
        anthropic: key("ANTHROPIC_API_KEY"),
        gemini: key("GEMINI_API_KEY"),
        deepseek: key("DEEPSEEK_API_KEY"),
    };
    let discovered = discover_models(&found).await.map_err(|error| Failure::before_running(&error))?;
    let models = &mut config.models;
    models.entries = discovered.config.entries;
    models.default = models.default.take().or(discovered.config.default);
    let wanted = models.replace_all.clone().or_else(|| models.default.clone());
    let Some(wanted) = wanted.filter(|wanted| models.entries.iter().all(|entry| entry.name != *wanted))
    else {
        return Ok(match &models.replace_all {
            Some(name) => format!("Using the model `{name}`."),
            None => discovered.sentence,
        });
    };
    // A provider has more models than the default one.
    let Some(first) = models.entries.first().filter(|entry| entry.wire().as_str() != "extractive") else {
        return Err(Failure::usage(format!("there is no model `{wanted}`: no model is configured and none was found"))
            .help("set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or DEEPSEEK_API_KEY, start Ollama, or add it to `models.entries` in weft.toml"));
    };
    let mut entry = first.clone();
    entry.name.clone_from(&wanted);
    entry.model = None;
    models.entries.push(entry);
    Ok(format!("Using the model `{wanted}`."))
}
