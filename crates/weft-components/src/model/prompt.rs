//! Puts together what a model is sent.

use std::collections::BTreeSet;

use weft_core::reference::Inputs;
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest, ModelInfo};
use weft_core::value::to_text;
use weft_core::{Error, Json, NodeContext, Reference, Result};

use crate::model::settings::Settings;
use crate::model::window::{self, Line};

/// How a model is told to cite.
pub const CITATION: &str = include_str!("prompts/citation.md");

/// Names of sections that older canvases put into their instructions for passes this engine does
/// not make. They are cut out; the last one replaces the citation rules.
const SECTIONS: [&str; 6] = [
    "TASK_ANALYSIS",
    "PLAN_GENERATION",
    "REFLECTION",
    "CONTEXT_SUMMARY",
    "CONTEXT_RANKING",
    "CITATION_GUIDELINES",
];

/// The share of a window that is filled, in percent.
const WINDOW_PERCENT: usize = 97;
/// Tokens kept free for an answer without a limit of its own, at most.
const ANSWER_TOKENS: usize = 1_024;

/// The request, and what was left out to make it fit.
///
/// # Errors
/// `Invalid` when there is nothing to ask or it cannot fit.
pub fn assemble(
    settings: &Settings,
    ctx: &NodeContext,
    model: &ModelInfo,
) -> Result<(ChatRequest, Option<String>)> {
    let (inputs, mut images) = without_images(&ctx.inputs);
    images.extend(
        ctx.run.input.files.iter().filter_map(Json::as_str).filter(|file| is_image(file)).map(str::to_owned),
    );
    if let Some(reference) = &settings.images {
        // Here any text is meant as an image, also an address.
        images.extend(texts(&inputs.json(reference)));
    }
    let mut lines = Vec::new();
    let system = instructions(settings, ctx, &inputs);
    if !system.trim().is_empty() {
        lines.push(Line { message: ChatMessage::new(Author::System, system), optional: false });
    }
    for message in ctx.history(settings.history_turns) {
        let author = if message.role == "user" { Author::User } else { Author::Assistant };
        add(&mut lines, Line { message: ChatMessage::new(author, message.content.clone()), optional: true });
    }
    for prompt in &settings.prompts {
        let message = ChatMessage::new(prompt.author, prompt.text.render(&inputs));
        add(&mut lines, Line { message, optional: false });
    }
    attach(&mut lines, ctx, settings, images)?;
    let answer = settings
        .sampling
        .max_tokens
        .map_or(ANSWER_TOKENS, |max| usize::try_from(max).unwrap_or(ANSWER_TOKENS));
    let answer = answer.min(model.window / 2);
    let budget = (model.window * WINDOW_PERCENT / 100).saturating_sub(answer);
    let (messages, note) = window::fit(lines, budget)?;
    let request = ChatRequest {
        messages,
        sampling: settings.sampling.clone(),
        schema: settings.schema.as_ref().map(|schema| schema.json.clone()),
        retries_max: (settings.retries > 0).then_some(settings.retries),
        ..ChatRequest::default()
    };
    Ok((request, note))
}

/// Adds a message; two of the same author in a row become one, so that nothing said is lost.
fn add(lines: &mut Vec<Line>, line: Line) {
    match lines.last_mut() {
        Some(last) if last.message.author == line.message.author && !last.message.text.is_empty() => {
            if !line.message.text.is_empty() {
                last.message.text.push_str("\n\n");
                last.message.text.push_str(&line.message.text);
            }
            last.optional &= line.optional;
        }
        Some(last) if last.message.author == line.message.author => *last = line,
        _ => lines.push(line),
    }
}

fn instructions(settings: &Settings, ctx: &NodeContext, inputs: &Inputs) -> String {
    let (mut text, guidelines) = without_sections(&settings.system.render(inputs));
    let mut section = |more: &str| {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(more);
    };
    if settings.cite && settings.schema.is_none() && !ctx.run.citations.all().is_empty() {
        section(guidelines.as_deref().unwrap_or(CITATION));
    }
    if let Some(schema) = &settings.schema {
        section(&schema.instructions());
    }
    text
}

/// The text without its sections, and what the section about citations says.
fn without_sections(text: &str) -> (String, Option<String>) {
    let mut text = text.to_owned();
    let mut guidelines = None;
    for name in SECTIONS {
        let folded = text.to_ascii_uppercase();
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let Some(from) = folded.find(&open) else { continue };
        let Some(to) = folded[from..].find(&close).map(|to| from + to) else { continue };
        if name == "CITATION_GUIDELINES" {
            guidelines = Some(text[from + open.len()..to].trim().to_owned());
        }
        text.replace_range(from..to + close.len(), "");
    }
    (text, guidelines)
}

/// Puts images and attached texts to the last thing the user says.
fn attach(lines: &mut Vec<Line>, ctx: &NodeContext, settings: &Settings, images: Vec<String>) -> Result<()> {
    let files = Reference::Global("sys.files".into());
    let mentioned = settings.references().contains(&files) && settings.images.as_ref() != Some(&files);
    let texts: Vec<String> = ctx.run.input.files.iter().map(to_text).filter(|file| !is_image(file)).collect();
    let mut seen = BTreeSet::new();
    let images: Vec<String> = images.into_iter().filter(|image| seen.insert(image.clone())).collect();
    let last = match lines.iter().rposition(|line| line.message.author == Author::User && !line.optional) {
        Some(place) => place,
        None => {
            lines.push(Line { message: ChatMessage::new(Author::User, ""), optional: false });
            lines.len() - 1
        }
    };
    let message = &mut lines[last].message;
    if !mentioned && settings.images.as_ref() != Some(&files) {
        for text in texts {
            message.text = format!("{}\n\n{text}", message.text);
        }
    }
    message.images = images;
    if message.text.trim().is_empty() && message.images.is_empty() {
        return Err(Error::invalid("there is nothing to ask the model: the user's message is empty")
            .help("ask a question, or refer to something that isn't empty in the prompt of this node"));
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

/// The values without the images in them, which go along on their own.
fn without_images(inputs: &Inputs) -> (Inputs, Vec<String>) {
    let mut images = Vec::new();
    let mut plain = inputs.clone();
    for value in plain.0.values_mut() {
        let json = value.snapshot();
        match &*json {
            Json::String(text) if is_image(text) => {
                images.push(text.clone());
                *value = Json::String(String::new()).into();
            }
            Json::Array(items) if items.iter().any(|item| item.as_str().is_some_and(is_image)) => {
                let (pictures, rest): (Vec<Json>, Vec<Json>) =
                    items.iter().cloned().partition(|item| item.as_str().is_some_and(is_image));
                images.extend(pictures.iter().map(to_text));
                *value = Json::Array(rest).into();
            }
            _ => {}
        }
    }
    (plain, images)
}
