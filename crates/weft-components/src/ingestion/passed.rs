//! What the components of a pipeline pass to each other.

use std::collections::HashSet;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use weft_core::context::Signal;
use weft_core::pipeline::{CHUNKS, CHUNKS_MAX, DOCUMENT, PipelineChunk, PipelineDocument, chunks_of};
use weft_core::seam::document_reader::{ChunkMethod, ReadDocument, ReadRequest};
use weft_core::usage::UsedModel;
use weft_core::watched_models::{CallSum, CallSums};
use weft_core::{
    Error, Finished, Json, NodeContext, OutputSpec, Outputs, ParamProblem, Reads, Reference, Result, Shape,
};

use crate::catalog;
use crate::params::Params;

/// Components before the document is split into chunks.
const BEFORE_CUTTING: [&str; 2] = ["File", "Parser"];
/// Components from there on.
const AFTER_CUTTING: [&str; 10] = [
    "TokenChunker",
    "TitleChunker",
    "OneChunker",
    "PresentationChunker",
    "QAChunker",
    "TableChunker",
    "TagChunker",
    "Compiler",
    "Extractor",
    "Tokenizer",
];

/// The member of a chunk that a Compiler has added: the template that created it.
pub(super) const COMPILED: &str = "compiled";

/// The output that all of them have.
pub(super) const DOCUMENT_OUTPUT: OutputSpec =
    OutputSpec::new(DOCUMENT, "object", "data about the document, for the next component");
/// The output of those that have chunks.
pub(super) const CHUNKS_OUTPUT: OutputSpec =
    OutputSpec::new(CHUNKS, "array", "the chunks, each with its `text` and what was extracted from it");

/// What the components before this one pass on.
#[derive(Debug)]
pub(super) struct Passed {
    documents: Vec<Reference>,
    chunks: Vec<Reference>,
    /// The warning that the node will fail, because none of them outputs a document.
    without_document: Option<ParamProblem>,
}

impl Passed {
    /// Examines the nodes that lead to a node.
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        let source = params.source;
        let mut passed = Self { documents: Vec::new(), chunks: Vec::new(), without_document: None };
        for id in source.upstream {
            let kind = source.others.get(id).map(|(kind, _)| kind).unwrap_or_default();
            let output = |name: &str| Reference::Output { component: id.clone(), path: name.into() };
            if BEFORE_CUTTING.contains(&kind) || AFTER_CUTTING.contains(&kind) {
                passed.documents.push(output(DOCUMENT));
            }
            // Any other component may output chunks, such as a program.
            if !BEFORE_CUTTING.contains(&kind) {
                passed.chunks.push(output(CHUNKS));
            }
        }
        if source.upstream.is_empty() {
            let problem = ParamProblem::new("", "no edge leads to this step of an ingestion pipeline");
            params.problem(problem.help(
                "connect it, in the order File, Parser, a chunker such as TokenChunker, Extractor, Tokenizer",
            ));
        }
        passed.without_document = passed.lacks_document(params);
        passed
    }

    /// Returns the problem of a node to which only components outside of the pipeline lead.
    fn lacks_document(&self, params: &Params<'_>) -> Option<ParamProblem> {
        let source = params.source;
        let kinds = source.upstream.iter().map(|id| source.others.get(id).map(|(kind, _)| kind));
        let kinds: Vec<&str> = kinds.collect::<Option<_>>()?;
        // What an unknown component outputs is not known.
        let known = kinds.iter().all(|kind| catalog::find(kind).is_some());
        if kinds.is_empty() || !known || !self.documents.is_empty() {
            return None;
        }
        let message = format!(
            "no document reaches this step of an ingestion pipeline: {} outputs none, so the step fails",
            kinds.join(" or ")
        );
        let help = "a pipeline starts with File and is chosen in the settings of a dataset; \
                    texts of a conversation go to other components";
        Some(ParamProblem::new("", message).help(help))
    }

    /// Returns the references it reads.
    pub(super) fn references(&self) -> impl Iterator<Item = Reference> {
        self.documents.iter().chain(&self.chunks).cloned()
    }

    /// Returns what the plan must know about a component that reads nothing else.
    pub(super) fn shape(&self, main_output: &'static str, warnings: &[ParamProblem]) -> Shape {
        Shape {
            reads: Reads::always(self.references()),
            main_output,
            warnings: self.without_document.iter().chain(warnings).cloned().collect(),
            ..Shape::default()
        }
    }

    /// Returns the document; what several components have found out about it is merged.
    ///
    /// # Errors
    /// `Invalid` when none reaches this component.
    pub(super) fn document(&self, ctx: &NodeContext) -> Result<PipelineDocument> {
        let mut documents = self.documents.iter().map(|from| given::<PipelineDocument>(ctx, from));
        let mut document = loop {
            match documents.next() {
                Some(Ok(Some(document))) => break document,
                Some(Ok(None)) => {}
                Some(Err(error)) => return Err(error),
                None => {
                    return Err(Error::invalid("no document reaches this component").help(
                        "an ingestion pipeline starts with File, and each component passes the document on",
                    ));
                }
            }
        };
        for other in documents {
            let Some(other) = other? else { continue };
            document.metadata.extend(other.metadata);
            document.contents |= other.contents;
        }
        Ok(document)
    }

    /// Returns the chunks; `None` before the document is split. Branches that have worked on the same chunks are
    /// merged, others are concatenated.
    ///
    /// # Errors
    /// `Invalid` for a value that is not a list of chunks.
    pub(super) fn chunks(&self, ctx: &NodeContext) -> Result<Option<Vec<PipelineChunk>>> {
        let mut all: Option<Vec<PipelineChunk>> = None;
        for from in &self.chunks {
            let Some(values) = given::<Vec<Json>>(ctx, from)? else { continue };
            let chunks = values.into_iter().map(|value| chunk(value, from)).collect::<Result<Vec<_>>>()?;
            match &mut all {
                None => all = Some(chunks),
                Some(all) if same_texts(all, &chunks) => {
                    // Parallel branches start from the same chunks, and each knows something different about them.
                    put_together(all, chunks);
                }
                Some(all) => all.extend(chunks),
            }
        }
        match &all {
            Some(all) if all.len() > CHUNKS_MAX => {
                Err(Error::invalid(format!("the document has more than {CHUNKS_MAX} chunks"))
                    .help("make larger chunks"))
            }
            _ => Ok(all),
        }
    }

    /// Splits the document's file into chunks.
    ///
    /// # Errors
    /// Errors of reading it.
    pub(super) async fn cut(
        &self,
        ctx: &NodeContext,
        method: ChunkMethod,
        settings: &serde_json::Map<String, Json>,
    ) -> Result<Finished> {
        let mut document = self.document(ctx)?;
        let chunks = cut(ctx, &mut document, method, settings).await?;
        finished(&document, Some(chunks))
    }
}

/// Reads the document's file and splits it; reports what could not be read.
///
/// # Errors
/// As [`read`].
pub(super) async fn cut(
    ctx: &NodeContext,
    document: &mut PipelineDocument,
    method: ChunkMethod,
    settings: &serde_json::Map<String, Json>,
) -> Result<Vec<PipelineChunk>> {
    let read = read(ctx, document, method, settings).await?;
    for warning in &read.warnings {
        ctx.signal(Signal::Warn(warning.clone())).await?;
    }
    learn(document, &read);
    Ok(chunks_of(read))
}

/// Records the length of a file, and what of it could not be read.
pub(super) fn learn(document: &mut PipelineDocument, read: &ReadDocument) {
    document.pages = read.pages;
    for warning in &read.warnings {
        if !document.warnings.contains(warning) {
            document.warnings.push(warning.clone());
        }
    }
}

/// Reads the document's file.
///
/// # Errors
/// `NotFound` when the file is gone; errors of reading it.
pub(super) async fn read(
    ctx: &NodeContext,
    document: &PipelineDocument,
    method: ChunkMethod,
    settings: &serde_json::Map<String, Json>,
) -> Result<ReadDocument> {
    let (_, bytes) = ctx.run.seams.files.read(&ctx.run.tenant, &document.file).await?;
    let mut all = document.settings.clone();
    // Settings of a pipeline step override those of the dataset.
    all.extend(settings.clone());
    let request = ReadRequest { name: document.name.clone(), method, settings: all };
    let sums = Arc::new(CallSums::default());
    let reader = sums.reader(&ctx.run.seams.reader);
    let read = reader.read(&ctx.run.tenant, &request, bytes).await;
    // Even after a failure: pictures may have been read before it.
    count(ctx, &sums).await?;
    read
}

/// Charges to this run the usage of models that read pictures and recordings.
async fn count(ctx: &NodeContext, sums: &CallSums) -> Result<()> {
    for CallSum { model, usage, prices } in sums.take() {
        for _ in 0..usage.calls {
            // A file is read as a whole: the next model call encounters the limit.
            let _ = ctx.budget.take_model_call();
        }
        let micros = ctx.budget.used(usage, prices);
        ctx.signal(Signal::Used(Box::new(UsedModel { model, usage, micros }))).await?;
    }
    Ok(())
}

/// Returns the result of a pipeline component.
///
/// # Errors
/// `Internal` for a value that cannot be serialised as JSON.
pub(super) fn finished(document: &PipelineDocument, chunks: Option<Vec<PipelineChunk>>) -> Result<Finished> {
    let json = |value: serde_json::Result<Json>| {
        value.map_err(|cause| Error::internal("cannot pass on a document").because(cause))
    };
    let mut outputs = Outputs::of(DOCUMENT, json(serde_json::to_value(document))?);
    if let Some(chunks) = chunks {
        outputs.set(CHUNKS, json(serde_json::to_value(chunks))?);
    }
    Ok(outputs.into())
}

fn given<T: DeserializeOwned>(ctx: &NodeContext, from: &Reference) -> Result<Option<T>> {
    match &*ctx.inputs.json(from) {
        // A branch that was not taken outputs nothing, or an empty text.
        Json::Null => Ok(None),
        Json::String(text) if text.is_empty() => Ok(None),
        value => T::deserialize(value).map(Some).map_err(|cause| {
            Error::invalid(format!("`{from}` is not the output of a pipeline step")).because(cause)
        }),
    }
}

/// Reads a chunk from a pipeline component, or from a program that returns texts.
fn chunk(value: Json, from: &Reference) -> Result<PipelineChunk> {
    match value {
        Json::String(text) => Ok(PipelineChunk { text, ..PipelineChunk::default() }),
        value => serde_json::from_value(value).map_err(|cause| {
            Error::invalid(format!("`{from}` has an entry that is not a chunk"))
                .because(cause)
                .help("a chunk is an object with a `text`")
        }),
    }
}

/// Whether a chunk was compiled from others by a Compiler.
pub(super) fn is_compiled(chunk: &PipelineChunk) -> bool {
    chunk.rest.contains_key(COMPILED)
}

/// Returns the texts of the document itself: parallel branches may have compiled different chunks from it.
fn texts(chunks: &[PipelineChunk]) -> impl Iterator<Item = &str> {
    chunks.iter().filter(|chunk| !is_compiled(chunk)).map(|chunk| chunk.text.as_str())
}

fn same_texts(one: &[PipelineChunk], other: &[PipelineChunk]) -> bool {
    texts(one).eq(texts(other))
}

/// Merges what another branch knows about the same chunks, and what it has compiled.
fn put_together(all: &mut Vec<PipelineChunk>, others: Vec<PipelineChunk>) {
    let (compiled, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_compiled);
    let mine = all.iter_mut().filter(|chunk| !is_compiled(chunk));
    mine.zip(others).for_each(|(one, other)| complete(one, other));
    // What was compiled before the branches split arrives through each of them.
    let known: HashSet<String> =
        all.iter().filter(|chunk| is_compiled(chunk)).map(|chunk| chunk.text.clone()).collect();
    all.extend(compiled.into_iter().filter(|chunk| !known.contains(&chunk.text)));
}

/// Adds what another branch has found out about a chunk.
fn complete(one: &mut PipelineChunk, other: PipelineChunk) {
    one.summary = one.summary.take().or(other.summary);
    if one.keywords.is_null() {
        one.keywords = other.keywords;
    }
    if one.questions.is_null() {
        one.questions = other.questions;
    }
    for (key, value) in other.metadata {
        one.metadata.entry(key).or_insert(value);
    }
    for (key, value) in other.rest {
        one.rest.entry(key).or_insert(value);
    }
}
