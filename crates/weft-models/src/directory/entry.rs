//! Creates the model of a configured entry.

use std::sync::Arc;

use weft_core::seam::chat_model::{ChatModel, ModelInfo, ModelKind};
use weft_core::{Error, Result};

use super::task::Model;
use crate::answer_form::AnswerForm;
use crate::config::{ModelEntry, WINDOW};
use crate::deadlines::Deadlines;
use crate::extractive::Extractive;
use crate::factories::Provider;
use crate::openai::OpenAi;
use crate::pictures::HttpPictureReader;
use crate::retrieval;
use crate::retrying::{RetryPolicy, Retrying};
use crate::script::Script;
use crate::scripted::ScriptedModel;
use crate::speech::{HttpSpeech, HttpTranscription};
use crate::tool_search::deferred_tools_max;

/// A configured model, ready to be called.
pub(super) struct KnownModel {
    pub(super) entry: ModelEntry,
    pub(super) info: ModelInfo,
    pub(super) model: Model,
}

fn info(entry: &ModelEntry) -> ModelInfo {
    ModelInfo {
        deferred_tools_max: 0,
        name: entry.name.clone(),
        provider: entry.wire().as_str().to_owned(),
        model: entry.provider_name().to_owned(),
        window: entry.window,
        tools: entry.tools,
        kind: entry.kind,
        prices: entry.prices,
    }
}

/// The model of an entry, and its properties.
///
/// # Errors
/// `Invalid` for an inconsistent entry.
pub(super) fn known(entry: &ModelEntry, client: &reqwest::Client) -> Result<KnownModel> {
    let model = match entry.kind {
        ModelKind::Chat | ModelKind::Vision => Model::Answers(model(entry, client)?),
        ModelKind::Embedding => Model::Embeds(retrieval::embedder(entry, client)?),
        ModelKind::Rerank => Model::Reranks(retrieval::reranker(entry, client)?),
        ModelKind::Tts => Model::ReadsAloud(Arc::new(HttpSpeech::new(entry, client)?)),
        ModelKind::Speech => Model::Transcribes(Arc::new(HttpTranscription::new(entry, client)?)),
        ModelKind::Ocr => Model::ReadsPictures(Arc::new(HttpPictureReader::new(entry, client)?)),
    };
    let info = match &model {
        Model::Answers(model) => model.info().clone(),
        Model::Embeds(embedder) => ModelInfo { window: embedder.tokens_max(), tools: false, ..info(entry) },
        Model::Reranks(_) | Model::ReadsAloud(_) | Model::Transcribes(_) | Model::ReadsPictures(_) => {
            ModelInfo { tools: false, ..info(entry) }
        }
    };
    Ok(KnownModel { entry: entry.clone(), info, model })
}

/// The chat model of an entry.
///
/// # Errors
/// As for [`known`].
pub(super) fn model(entry: &ModelEntry, client: &reqwest::Client) -> Result<Arc<dyn ChatModel>> {
    let provider = entry.wire();
    let info = ModelInfo { deferred_tools_max: deferred_tools_max(entry)?, ..info(entry) };
    match provider {
        Provider::Extractive => Ok(Arc::new(Extractive::new(&entry.name))),
        Provider::Scripted => scripted(entry),
        Provider::OpenAi => {
            let wire = OpenAi::new(info, entry, client.clone())?;
            dependable(wire, entry)
        }
        Provider::Anthropic | Provider::Gemini | Provider::Ollama => {
            let wire = crate::native::NativeModel::new(info, provider, entry, client.clone())?;
            dependable(wire, entry)
        }
        Provider::Local
        | Provider::Cohere
        | Provider::Jina
        | Provider::Tei
        | Provider::DashScope
        | Provider::Voyage => {
            let error = Error::invalid(format!(
                "the provider `{}` of the model `{}` has no chat models",
                provider.as_str(),
                entry.name
            ));
            Err(error.help("set `kind` to `embedding` or `rerank`"))
        }
    }
}

fn dependable(wire: impl ChatModel + 'static, entry: &ModelEntry) -> Result<Arc<dyn ChatModel>> {
    // From the inside out: each try has its own deadline, and a request rejected for its schema is repeated without
    // it before it counts as a try.
    let held = AnswerForm::new(Deadlines::new(wire, entry.limits()?));
    Ok(Arc::new(Retrying::new(held, entry.retry_policy()?)))
}

fn scripted(entry: &ModelEntry) -> Result<Arc<dyn ChatModel>> {
    let Some(path) = &entry.script else {
        let error = Error::invalid(format!("the scripted model `{}` has no script", entry.name));
        return Err(error.help("set `script` to the file with its replies"));
    };
    let failed = || format!("cannot read the script {} of the model `{}`", path.display(), entry.name);
    let source = std::fs::read_to_string(path).map_err(|cause| Error::invalid(failed()).because(cause))?;
    let script = Script::parse(&source).map_err(|cause| Error::invalid(failed()).because(cause))?;
    let model = ScriptedModel::named(&entry.name, entry.provider_name(), script);
    let model = model.with_info(|info| {
        (info.tools, info.kind, info.prices) = (entry.tools, entry.kind, entry.prices);
        // Otherwise none was configured, and a script keeps its own.
        if entry.window != WINDOW {
            info.window = entry.window;
        }
    });
    // Only those that somebody has set: a retry takes the next reply of the script.
    let policy = RetryPolicy { retries_max: entry.retries.unwrap_or(0), ..entry.retry_policy()? };
    Ok(Arc::new(Retrying::new(model, policy)))
}
