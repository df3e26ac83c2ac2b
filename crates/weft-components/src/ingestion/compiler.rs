//! The Compiler component: has a model compile a document into knowledge of a fixed form, such as a timeline or a
//! graph, by templates.

mod asker;
mod kind;
mod knowledge;
mod material;
mod templates;
#[cfg(test)]
mod tests;
mod tree;
mod written;

use std::time::Duration;

use serde_json::Map;
use weft_core::context::Signal;
use weft_core::pipeline::{CHUNKS, CHUNKS_MAX, PipelineChunk, PipelineDocument};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{
    Component, ComponentSpec, Error, ErrorKind, Finished, Json, NodeContext, OutputSpec, ParamProblem,
    Result, Role, Shape, async_trait,
};

use self::asker::TemplateAsker;
use self::material::Material;
use self::templates::{ChosenTemplates, CompilationTemplate, GROUP, GROUPS, REMEDY, TEMPLATES};
use self::written::CompiledDocument;
use crate::ingestion::passed::{self, CHUNKS_OUTPUT, COMPILED, DOCUMENT_OUTPUT, Passed};
use crate::model::caller::warn_of_prices;
use crate::model::settings::{self, Asking};
use crate::params::{Field, Params, fields};

/// Time limit for the whole document.
// A book takes up to `CALLS_MAX` questions to a model.
const TIME_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Default number of questions about one document.
// Enough for a book of five hundred pages, by one template.
const CALLS_USUAL: usize = 200;
/// Maximum number of questions about one document.
const CALLS_MAX: usize = 5_000;

static MAX_CALLS: Field<usize> = Field::count(
    "max_calls",
    CALLS_USUAL,
    &(1..=CALLS_MAX),
    "the maximum number of parts of a document that are sent to the model, for all templates together; later parts are not compiled",
);

/// The results, for other components.
const COMPILED_OUTPUT: OutputSpec = OutputSpec::new(
    COMPILED,
    "array",
    "the results of each template: its `kind`, `name`, `items` and `relations`",
);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Compiler",
    role: Role::Step,
    summary: "Has a model compile a document into a timeline, a graph, a mind map and so on, in an ingestion pipeline.",
    fields: &[fields(&[&GROUP, &TEMPLATES, &MAX_CALLS, &GROUPS]), settings::MODEL, settings::SAMPLING],
    outputs: &[DOCUMENT_OUTPUT, CHUNKS_OUTPUT, COMPILED_OUTPUT],
    time_limit: Some(TIME_MAX),
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let passed = Passed::of(&mut params);
        let ChosenTemplates { templates, missing } = templates::chosen(&mut params);
        let calls_max = params.take(&MAX_CALLS);
        let asking = Asking::read(&mut params);
        let warnings = params.warnings();
        params.finish(Compiler { passed, templates, missing, calls_max, asking, warnings })
    },
};

struct Compiler {
    passed: Passed,
    templates: Vec<CompilationTemplate>,
    /// Why there are no templates.
    missing: Option<String>,
    calls_max: usize,
    asking: Asking,
    warnings: Vec<ParamProblem>,
}

impl Compiler {
    /// Applies all templates and appends their results to the chunks.
    async fn compile(
        &self,
        asker: &TemplateAsker<'_>,
        document: &mut PipelineDocument,
        chunks: &mut Vec<PipelineChunk>,
    ) -> Result<Vec<Json>> {
        let (mut found, mut made) = (Vec::new(), Vec::new());
        let mut calls_left = self.calls_max;
        for (number, template) in self.templates.iter().enumerate() {
            // Questions that earlier templates did not need are shared by this one and those that follow.
            let share = calls_left.div_ceil(self.templates.len() - number);
            let material = Material::of(chunks, asker.room(), template.kind.parts_max(share));
            calls_left = calls_left.saturating_sub(template.kind.questions(material.parts.len()));
            let part = format!("template-{number}");
            // Boxed to keep this future small: it holds the questions of a whole template.
            let outcome = Box::pin(asker.compiled(&part, template, material)).await?;
            for warning in outcome.warnings {
                warn(asker.ctx, document, warning).await?;
            }
            let compiled = CompiledDocument { document: &document.name, chunks: &*chunks, template };
            made.extend(compiled.chunks_of(&outcome.knowledge));
            found.push(outcome.knowledge.as_json(template));
        }
        let room = CHUNKS_MAX.saturating_sub(chunks.len());
        if made.len() > room {
            let left_out = made.len() - room;
            let warning = format!(
                "{} left out: a document has at most {CHUNKS_MAX} chunks",
                weft_core::value::plural_with(left_out, "compiled chunk", ["is", "are"])
            );
            warn(asker.ctx, document, warning).await?;
        }
        chunks.extend(made.into_iter().take(room));
        Ok(found)
    }
}

/// Warns that something is missing.
async fn warn(ctx: &NodeContext, document: &mut PipelineDocument, warning: String) -> Result<()> {
    ctx.signal(Signal::Warn(warning.clone())).await?;
    // The run has the warning in its journal; stored with the document, it is found by anyone who looks for what is
    // missing.
    document.warnings.push(warning);
    Ok(())
}

#[async_trait]
impl Component for Compiler {
    fn shape(&self) -> Shape {
        Shape {
            models: vec![("/llm_id".to_owned(), self.asking.llm_id.clone())],
            unsupported: self.missing.as_ref().map(|missing| format!("{missing} ({REMEDY})")),
            ..self.passed.shape(CHUNKS, &self.warnings)
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        if let Some(missing) = &self.missing {
            // Not skipped: otherwise the user would get documents without the requested timeline, and learn of it too
            // late.
            return Err(Error::new(ErrorKind::Unsupported, missing.as_str()).help(REMEDY));
        }
        let mut document = self.passed.document(ctx)?;
        let mut chunks = match self.passed.chunks(ctx)? {
            Some(chunks) => chunks,
            // Directly after a Parser.
            None => passed::cut(ctx, &mut document, ChunkMethod::Naive, &Map::new()).await?,
        };
        let model = ctx.run.seams.models.resolve(&ctx.run.tenant, &self.asking.llm_id)?;
        let mut found = Vec::new();
        if model.info().writes() {
            warn_of_prices(ctx, &*model).await?;
            let asker = TemplateAsker { ctx, model: &*model, asking: &self.asking };
            found = self.compile(&asker, &mut document, &mut chunks).await?;
        } else {
            // The document itself can still be found.
            let message = "nothing is compiled: no language model is configured";
            warn(ctx, &mut document, message.to_owned()).await?;
        }
        let mut finished = passed::finished(&document, Some(chunks))?;
        finished.outputs.set(COMPILED, Json::Array(found));
        Ok(finished)
    }
}
