//! The TokenChunker component: splits a document into chunks of up to a given number of tokens.

use serde_json::Map;
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{
    Component, ComponentSpec, Finished, Json, NodeContext, ParamProblem, Result, Role, Shape, async_trait,
};

use crate::ingestion::passed::{CHUNKS_OUTPUT, DOCUMENT_OUTPUT, Passed};
use crate::params::{Field, Params, choice, fields};

/// Maximum number of tokens in a chunk.
const TOKENS_MAX: usize = 2_048;
/// Maximum percentage of a chunk that the next one repeats.
// At a hundred, each chunk would equal the one before, and there would be no end.
const OVERLAP_MAX: f64 = 90.0;

static CHUNK_TOKEN_SIZE: Field<usize> =
    Field::count("chunk_token_size", 512, &(1..=TOKENS_MAX), "the maximum size of a chunk").unit("tokens");
static DELIMITER_MODE: Field<&str> = Field::choice(
    "delimiter_mode",
    "delimiter",
    &[
        choice("delimiter", "at delimiters"),
        choice("token_size", "at the maximum size"),
        choice("one", "nowhere: a single chunk"),
    ],
    "where the document is split",
);
static DELIMITERS: Field<Vec<String>> = Field::texts(
    "delimiters",
    "where a chunk may end; a delimiter of several characters always ends a chunk. If empty, a line break",
);
static CHILDREN_DELIMITERS: Field<Vec<String>> = Field::texts(
    "children_delimiters",
    "where chunks are split into the parts that are searched; results show the whole chunk",
);
static OVERLAPPED_PERCENT: Field<Option<f64>> = Field::number(
    "overlapped_percent",
    &(0.0..=OVERLAP_MAX),
    "how much of a chunk the next one repeats: a percentage, or a fraction below 1",
);
static TABLE_CONTEXT_SIZE: Field<usize> = Field::count(
    "table_context_size",
    0,
    &(0..=TOKENS_MAX),
    "how much of the text around a table is included in its chunk",
)
.unit("tokens");
static IMAGE_CONTEXT_SIZE: Field<usize> =
    Field::count("image_context_size", 0, &(0..=TOKENS_MAX), "has no effect").unit("tokens");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "TokenChunker",
    role: Role::Step,
    summary: "Splits a document into chunks by size and delimiters, in an ingestion pipeline.",
    fields: &[fields(&[
        &CHUNK_TOKEN_SIZE,
        &DELIMITER_MODE,
        &DELIMITERS,
        &CHILDREN_DELIMITERS,
        &OVERLAPPED_PERCENT,
        &TABLE_CONTEXT_SIZE,
        &IMAGE_CONTEXT_SIZE,
    ])],
    outputs: &[DOCUMENT_OUTPUT, CHUNKS_OUTPUT],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let passed = Passed::of(&mut params);
        let mode = params.take(&DELIMITER_MODE);
        let mut settings = Map::new();
        let mut set = |name: &str, value: Json| drop(settings.insert(name.to_owned(), value));
        set("chunk_token_num", params.take(&CHUNK_TOKEN_SIZE).into());
        let delimiters = joined(&params.take(&DELIMITERS));
        if !delimiters.is_empty() && mode == "delimiter" {
            set("delimiter", delimiters.into());
        }
        set("children_delimiter", joined(&params.take(&CHILDREN_DELIMITERS)).into());
        set("overlapped_percent", percent(params.take(&OVERLAPPED_PERCENT).unwrap_or(0.0)).into());
        set("table_context_size", params.take(&TABLE_CONTEXT_SIZE).into());
        if params.take(&IMAGE_CONTEXT_SIZE) > 0 {
            params.ignored(&IMAGE_CONTEXT_SIZE, "pictures do not become separate chunks");
        }
        let method = if mode == "one" { ChunkMethod::One } else { ChunkMethod::Naive };
        let warnings = params.warnings();
        params.finish(TokenChunker { passed, method, settings, warnings })
    },
};

struct TokenChunker {
    passed: Passed,
    method: ChunkMethod,
    settings: Map<String, Json>,
    warnings: Vec<ParamProblem>,
}

/// Joins delimiters into one text, in the syntax of document readers: those of several characters between backticks.
pub(crate) fn joined(delimiters: &[String]) -> String {
    let one = |delimiter: &String| match delimiter.chars().count() {
        0 => String::new(),
        1 => delimiter.clone(),
        // As an editor writes the content of a field: a backslash and a letter.
        2 if delimiter.starts_with('\\') => delimiter.clone(),
        _ if delimiter.starts_with('`') => delimiter.clone(),
        _ => format!("`{delimiter}`"),
    };
    delimiters.iter().map(one).collect()
}

/// Converts percents, or a fraction below 1, to whole percents.
fn percent(given: f64) -> u32 {
    let percent = if given < 1.0 { given * 100.0 } else { given };
    percent.round().clamp(0.0, OVERLAP_MAX) as u32
}

#[async_trait]
impl Component for TokenChunker {
    fn shape(&self) -> Shape {
        self.passed.shape("chunks", &self.warnings)
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        self.passed.cut(ctx, self.method, &self.settings).await
    }
}
