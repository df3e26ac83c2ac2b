//! The Tokenizer component: determines how the chunks of a document are found.

use weft_core::pipeline::{SearchedBy, SearchedField};
use weft_core::{
    Component, ComponentSpec, Error, Finished, NodeContext, ParamProblem, Result, Role, Shape, async_trait,
};

use crate::ingestion::passed::{self, CHUNKS_OUTPUT, DOCUMENT_OUTPUT, Passed};
use crate::params::{Field, Params, choice, fields};

/// Default weight of the file's name in a vector.
const NAME_SHARE: f64 = 0.1;

static SEARCH_METHOD: Field<Vec<String>> =
    Field::texts("search_method", "`full_text` for words, `embedding` for vectors; both if empty");
static FILENAME_EMBD_WEIGHT: Field<Option<f64>> = Field::number(
    "filename_embd_weight",
    &(0.0..=1.0),
    "has no effect: the settings of the dataset define the weight of the file name",
);
static FIELDS: Field<&str> = Field::choice(
    "fields",
    "text",
    &[
        choice("text", "the text of the chunk"),
        choice("summary", "its summary, if an Extractor has written one"),
        choice("questions", "the questions that it answers, if an Extractor has written any"),
    ],
    "which part of a chunk is searched",
);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Tokenizer",
    role: Role::Step,
    summary: "Defines how the chunks of a document are searched, at the end of an ingestion pipeline.",
    fields: &[fields(&[&SEARCH_METHOD, &FIELDS, &FILENAME_EMBD_WEIGHT])],
    outputs: &[DOCUMENT_OUTPUT, CHUNKS_OUTPUT],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let passed = Passed::of(&mut params);
        let methods = params.take(&SEARCH_METHOD);
        for method in &methods {
            if !["full_text", "embedding"].contains(&method.as_str()) {
                let problem =
                    ParamProblem::new("/search_method", format!("`{method}` is not a search method"));
                params.problem(problem.help("use `full_text`, `embedding` or both"));
            }
        }
        let has = |name: &str| methods.is_empty() || methods.iter().any(|method| method == name);
        let (words, vectors) = (has("full_text"), has("embedding"));
        if !words && vectors {
            let problem = ParamProblem::new("/search_method", "full-text search cannot be switched off");
            params.warn(problem.help("set the weight of vectors and words in the search instead"));
        }
        let share = params.take(&FILENAME_EMBD_WEIGHT).unwrap_or(NAME_SHARE);
        // Editors write the default whether or not it is meant.
        if (share - NAME_SHARE).abs() > f64::EPSILON {
            params.ignored(&FILENAME_EMBD_WEIGHT, "the settings of the dataset determine it");
        }
        let field = match params.take(&FIELDS) {
            "summary" => SearchedField::Summary,
            "questions" => SearchedField::Questions,
            _ => SearchedField::Text,
        };
        let warnings = params.warnings();
        params.finish(Tokenizer { passed, search: SearchedBy { vectors, field }, warnings })
    },
};

struct Tokenizer {
    passed: Passed,
    search: SearchedBy,
    warnings: Vec<ParamProblem>,
}

#[async_trait]
impl Component for Tokenizer {
    fn shape(&self) -> Shape {
        self.passed.shape("chunks", &self.warnings)
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let mut document = self.passed.document(ctx)?;
        let Some(chunks) = self.passed.chunks(ctx)? else {
            return Err(Error::invalid("the document has not been split into chunks")
                .help("put a chunker, such as TokenChunker, before Tokenizer"));
        };
        document.search = Some(self.search.clone());
        passed::finished(&document, Some(chunks))
    }
}
