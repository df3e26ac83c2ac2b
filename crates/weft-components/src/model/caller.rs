//! A node that asks a model once: LLM, or an Agent without tools.

use weft_agent::answer_stream::AnswerStream;
use weft_agent::ask::{ask_structured, ask_text};
use weft_agent::structured::Schema;
use weft_core::context::Signal;
use weft_core::seam::chat_model::{Audience, ChatModel, ChatRequest};
use weft_core::stream::TextWriter;
use weft_core::value::to_text;
use weft_core::{
    Finished, Json, NodeContext, NodeOutput, NodeOutputs, Outputs, Piece, Reads, Result, Shape, SharedText,
    Value,
};

use crate::model::prompt::{Asker, request};
use crate::model::settings::Settings;

/// Asks a model according to its settings.
#[derive(Debug)]
pub(crate) struct Caller {
    /// The settings.
    pub settings: Settings,
}

/// Returns the outputs of an answer with this schema.
fn structured(schema: &Schema) -> NodeOutputs {
    let json = &schema.json;
    // A list, a choice of schemas, or a schema that allows other members leaves the names of members open.
    let closed = json.get("additionalProperties").is_none_or(|more| *more == Json::Bool(false))
        && !["anyOf", "oneOf", "allOf", "$ref", "patternProperties"]
            .iter()
            .any(|key| json.get(key).is_some());
    let members = json.get("properties").and_then(Json::as_object).filter(|_| closed);
    let members = members.map(|members| members.keys().cloned().collect());
    NodeOutputs {
        named: vec![NodeOutput { name: "structured".to_owned(), kind: "any", members }],
        open: false,
        // The answer is in one of the two, never in both.
        without: &["content"],
    }
}

impl Caller {
    /// Returns the facts for the plan.
    pub(crate) fn shape(&self) -> Shape {
        let settings = &self.settings;
        Shape {
            reads: Reads::always(settings.references()),
            streams: settings.streams,
            history_turns: settings.history_turns,
            models: vec![("/llm_id".to_owned(), settings.asking.llm_id.clone())],
            main_output: if settings.schema.is_some() { "structured" } else { "content" },
            outputs: settings.schema.as_deref().map(structured).unwrap_or_default(),
            warnings: settings.warnings.clone(),
            ..Shape::default()
        }
    }

    /// Asks the model and returns its answer.
    ///
    /// # Errors
    /// Errors of the model.
    pub(crate) async fn run(&self, ctx: &NodeContext, asker: Asker<'_>) -> Result<Finished> {
        let settings = &self.settings;
        let model = ctx.run.seams.models.resolve(&ctx.run.tenant, &settings.asking.llm_id)?;
        warn_of_prices(ctx, &*model).await?;
        let (request, note) = request(settings, ctx, model.info(), asker).await?;
        if let Some(note) = note {
            ctx.signal(Signal::Warn(note)).await?;
        }
        // A value is valid only as a whole, so nothing of it is shown while it is written.
        if let Some(schema) = &settings.schema {
            let repairs = settings.asking.repairs();
            let value = ask_structured(ctx, &*model, request, schema, repairs).await?;
            return Ok(Outputs::of("structured", value).into());
        }
        let answer = if settings.streams && ctx.heard {
            let writer = begin_aloud(ctx).await?;
            let request = ChatRequest { audience: Audience::of(Some(&writer)), ..request };
            // Kept until the text has been ended: otherwise listeners would wait for more forever.
            let answer = self.answer(ctx, &*model, request, Some(&writer)).await;
            end_aloud(writer, &answer, settings.default.as_ref());
            answer?
        } else {
            self.answer(ctx, &*model, request, None).await?
        };
        Ok(Outputs::of("content", Value::text(answer)).into())
    }

    async fn answer(
        &self,
        ctx: &NodeContext,
        model: &dyn ChatModel,
        request: ChatRequest,
        writer: Option<&TextWriter>,
    ) -> Result<String> {
        // Marks that a model invents when it was told of no sources are left as they are.
        let citations = self.settings.cites().then(|| ctx.run.citations.clone());
        let mut voice = AnswerStream::new(writer, citations, "");
        ask_text(ctx, model, request, &mut |piece| voice.piece(piece)).await?;
        Ok(voice.finish())
    }
}

/// Warns the run when a limit on money cannot be enforced.
///
/// # Errors
/// `Cancelled` when the run no longer listens.
pub(crate) async fn warn_of_prices(ctx: &NodeContext, model: &dyn ChatModel) -> Result<()> {
    weft_agent::ask::warn_of_prices(ctx, model.info()).await
}

/// Starts to stream the output `content`. [`end_aloud`] ends it.
///
/// # Errors
/// `Cancelled` when the run no longer listens.
pub(crate) async fn begin_aloud(ctx: &NodeContext) -> Result<TextWriter> {
    let (writer, text) = SharedText::new();
    ctx.publish("content", text).await?;
    Ok(writer)
}

/// Ends a text that was streamed. A failure that a default value covers ends it with that value, so that the reader
/// sees it; the error is reported all the same.
pub(crate) fn end_aloud<T>(writer: TextWriter, result: &Result<T>, default: Option<&Json>) {
    match (result, default) {
        (Ok(_), _) => writer.finish(),
        (Err(_), Some(default)) => {
            writer.push(Piece::Text(to_text(default).into()));
            writer.finish();
        }
        (Err(error), None) => writer.fail(error),
    }
}
