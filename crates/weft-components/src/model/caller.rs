//! A node that asks a model once: LLM, and an Agent without tools.

use weft_core::context::Signal;
use weft_core::seam::chat_model::{Author, ChatMessage, ChatModel, ChatRequest};
use weft_core::value::to_text;
use weft_core::{
    Error, ErrorKind, Finished, Json, NodeContext, Outputs, Piece, Reads, Result, Shape, SharedText, Value,
};

use crate::model::ask::ask;
use crate::model::prompt::assemble;
use crate::model::settings::Settings;
use crate::model::structured::Schema;

/// Asks a model as its settings say.
#[derive(Debug)]
pub struct Caller {
    /// How.
    pub settings: Settings,
}

impl Caller {
    /// The facts for the plan.
    pub fn shape(&self) -> Shape {
        let settings = &self.settings;
        Shape {
            reads: Reads::always(settings.references()),
            streams: settings.streams,
            history_turns: settings.history_turns,
            models: vec![("/llm_id".to_owned(), settings.llm_id.clone())],
            main_output: if settings.schema.is_some() { "structured" } else { "content" },
            warnings: settings.warnings.clone(),
            ..Shape::default()
        }
    }

    /// Asks and answers.
    ///
    /// # Errors
    /// What the model fails with.
    pub async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let settings = &self.settings;
        let model = ctx.run.seams.models.resolve(&ctx.run.tenant, &settings.llm_id)?;
        let (request, note) = assemble(settings, ctx, model.info())?;
        if let Some(note) = note {
            ctx.signal(Signal::Warn(note)).await?;
        }
        if let Some(schema) = &settings.schema {
            let value = self.structured(ctx, &*model, request, schema).await?;
            return Ok(Outputs::of("structured", value).into());
        }
        let answer = match settings.streams && ctx.heard {
            true => self.streamed(ctx, &*model, request).await?,
            false => ask(ctx, &*model, request, None).await?,
        };
        Ok(Outputs::of("content", Value::text(answer)).into())
    }

    /// Hands the answer on while it is being written. A failure that a default value covers ends the
    /// text with that value, so that the reader sees it; the error is reported all the same.
    async fn streamed(
        &self,
        ctx: &NodeContext,
        model: &dyn ChatModel,
        request: ChatRequest,
    ) -> Result<String> {
        let (writer, text) = SharedText::new();
        ctx.publish("content", text).await?;
        let answer = ask(ctx, model, request, Some(&writer)).await;
        match (&answer, &self.settings.default) {
            (Ok(_), _) => writer.finish(),
            (Err(_), Some(default)) => {
                writer.push(Piece::Text(to_text(default).into()));
                writer.finish();
            }
            (Err(error), None) => writer.fail(error),
        }
        answer
    }

    async fn structured(
        &self,
        ctx: &NodeContext,
        model: &dyn ChatModel,
        mut request: ChatRequest,
        schema: &Schema,
    ) -> Result<Json> {
        let mut repairs_left = self.settings.retries + 1;
        loop {
            let answer = ask(ctx, model, request.clone(), None).await?;
            let problem = match schema.check(&answer) {
                Ok(value) => return Ok(value),
                Err(problem) => problem,
            };
            if repairs_left == 0 {
                return Err(Error::new(
                    ErrorKind::Garbled,
                    "the model's answer doesn't follow the schema of `outputs.structured`",
                )
                .because(problem)
                .help("simplify the schema, raise `max_retries` or try another model"));
            }
            repairs_left -= 1;
            request.messages.push(ChatMessage::new(Author::Assistant, answer));
            request.messages.push(ChatMessage::new(Author::User, Schema::complaint(&problem)));
        }
    }
}
