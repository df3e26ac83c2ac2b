//! Assembles the messages that a model is sent.

use std::collections::BTreeSet;

use weft_agent::window::{self, Keep, Line, add_to_system};
use weft_core::effect::Delivery;
use weft_core::past_calls::ToolHistory;
use weft_core::reference::Inputs;
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest, ModelInfo};
use weft_core::value::to_text;
use weft_core::{Error, Json, NodeContext, Reference, Result, Value};

use crate::model::earlier_calls::add_history;
use crate::model::prompt_lines::add;
use crate::model::settings::Settings;

/// Instructions for citing.
pub(crate) const CITATION: &str = include_str!("prompts/citation.md");

/// Who asks the model.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asker<'a> {
    /// The canvas, with its prompts after the history.
    Canvas,
    /// Another agent, with this question and without the history.
    Agent(&'a str),
}

/// Returns the conversation that a model is to continue, with as much of the node's earlier calls as `calls` says.
///
/// # Errors
/// `Invalid` when there is nothing to ask, `Denied` for an image at an address that canvases may not reach.
pub(crate) async fn conversation(
    settings: &Settings,
    ctx: &NodeContext,
    asker: Asker<'_>,
    calls: ToolHistory,
) -> Result<Vec<Line>> {
    let (inputs, mut images) = without_images(&ctx.inputs);
    let system = settings.system.render(&inputs)?;
    let mut lines = Vec::new();
    if !system.trim().is_empty() {
        lines.push(Line::pinned(ChatMessage::new(Author::System, system)));
    }
    match asker {
        // An agent that another one calls knows its task, and nothing of the conversation.
        Asker::Agent(question) => lines.push(Line::pinned(ChatMessage::new(Author::User, question))),
        Asker::Canvas => {
            let files = ctx.run.input.files.iter().filter_map(Json::as_str);
            images.extend(files.filter(|file| is_image(file)).map(str::to_owned));
            if let Some(reference) = &settings.images {
                // Any text is an image here, even an address.
                let given = texts(&inputs.json(reference));
                within_reach(ctx, &given).await?;
                images.extend(given);
            }
            add_history(&mut lines, ctx, settings.history_turns, calls);
            for prompt in &settings.prompts {
                let message = ChatMessage::new(prompt.author, prompt.text.render(&inputs)?);
                add(&mut lines, Line::pinned(message));
            }
            attach_texts(&mut lines, settings, ctx);
            attach(&mut lines, images)?;
        }
    }
    Ok(lines)
}

/// Returns the rules by which this agent or model is to cite.
///
/// # Errors
/// `Invalid` when they grow too large.
pub(crate) fn citing_rules(settings: &Settings, ctx: &NodeContext) -> Result<String> {
    let own = settings.sections.render(&ctx.inputs)?.citation_guidelines;
    Ok(own.unwrap_or_else(|| CITATION.to_owned()))
}

/// Returns a single request without tools, and a note on what was left out to make it fit.
///
/// # Errors
/// As [`conversation`]; `Invalid` also when it cannot fit.
pub(crate) async fn request(
    settings: &Settings,
    ctx: &NodeContext,
    model: &ModelInfo,
    asker: Asker<'_>,
) -> Result<(ChatRequest, Option<String>)> {
    let mut lines = conversation(settings, ctx, asker, ToolHistory::None).await?;
    if let Some(schema) = &settings.schema {
        add_to_system(&mut lines, &schema.instructions());
    }
    if settings.cites() && matches!(asker, Asker::Canvas) && !ctx.run.citations.all().is_empty() {
        add_to_system(&mut lines, &citing_rules(settings, ctx)?);
    }
    let room = window::room(model.window, settings.asking.sampling.max_tokens, 0);
    let (messages, note) = window::fit(lines, room)?;
    let schema = settings.schema.as_ref().map(|schema| schema.json.clone());
    let request = ChatRequest { schema, ..settings.asking.request(messages) };
    Ok((request, note))
}

/// Adds the texts of attached files to the last user message, unless a prompt says where they go or they come one by
/// one.
fn attach_texts(lines: &mut Vec<Line>, settings: &Settings, ctx: &NodeContext) {
    let files: Vec<&str> =
        ctx.run.input.files.iter().filter_map(Json::as_str).filter(|file| !is_image(file)).collect();
    let prompts = settings.prompts.iter().flat_map(|prompt| prompt.text.references());
    let named = prompts
        .chain(settings.system.references())
        .any(|name| *name == Reference::Global("sys.files".into()));
    if files.is_empty() || named || !settings.attaches_texts {
        return;
    }
    add(lines, Line::pinned(ChatMessage::new(Author::User, files.join("\n\n"))));
}

/// Adds images to the last user message.
fn attach(lines: &mut Vec<Line>, images: Vec<String>) -> Result<()> {
    // An image occurs twice if a prompt refers to `sys.files`, and so to what is attached.
    let mut seen = BTreeSet::new();
    let images: Vec<String> = images.into_iter().filter(|image| seen.insert(image.clone())).collect();
    // Not to a message of the history: in a small window, it is dropped together with its images.
    let asks = |line: &Line| line.message.author == Author::User && line.keep == Keep::Pinned;
    let last = match lines.iter().rposition(asks) {
        Some(place) => place,
        None => {
            lines.push(Line::pinned(ChatMessage::new(Author::User, "")));
            lines.len() - 1
        }
    };
    let message = &mut lines[last].message;
    message.images = images;
    if message.text.trim().is_empty() && message.images.is_empty() {
        return Err(Error::invalid("there is nothing to ask the model: the user's message is empty")
            .help("ask a question, or refer to a non-empty value in the prompt of this node"));
    }
    Ok(())
}

/// Checks the addresses of images. The model's server fetches them from its own network: a canvas must not have another
/// server request what it may not request itself.
async fn within_reach(ctx: &NodeContext, images: &[String]) -> Result<()> {
    for address in images.iter().filter(|image| !is_image(image)) {
        // The result is stored with the run: work that is repeated queries no resolver.
        let looked_up = ctx.run.seams.http.may_reach(&ctx.run.tenant, address);
        ctx.effect("address", Delivery::Idempotent, looked_up).await.map_err(|error| {
            let message = "the model's server may not be sent to the address of an image";
            Error::new(error.kind, message).because(error.full()).help("attach the image itself")
        })?;
    }
    Ok(())
}

fn is_image(text: &str) -> bool {
    text.starts_with("data:image/")
}

fn texts(value: &Json) -> Vec<String> {
    match value {
        Json::String(text) if text.starts_with("http") || is_image(text) => vec![text.clone()],
        Json::Array(items) => items.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// Returns the values without the images in them, and the images, which are sent separately.
fn without_images(inputs: &Inputs) -> (Inputs, Vec<String>) {
    let mut images = Vec::new();
    let mut without = |value: &Value| {
        let json = value.snapshot();
        match &*json {
            Json::String(text) if is_image(text) => {
                images.push(text.clone());
                Json::String(String::new()).into()
            }
            Json::Array(items) if items.iter().any(|item| item.as_str().is_some_and(is_image)) => {
                let (pictures, rest): (Vec<Json>, Vec<Json>) =
                    items.iter().cloned().partition(|item| item.as_str().is_some_and(is_image));
                images.extend(pictures.iter().map(to_text));
                Json::Array(rest).into()
            }
            _ => value.clone(),
        }
    };
    let plain: Vec<_> = inputs.iter().map(|(name, value)| (name.clone(), without(value))).collect();
    (inputs.among(plain), images)
}
