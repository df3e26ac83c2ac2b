//! The TitleChunker component: splits a document at its headings.

use serde_json::{Map, json};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{
    Component, ComponentSpec, Finished, Json, NodeContext, ParamProblem, Result, Role, Shape, async_trait,
    pattern,
};

use crate::ingestion::passed::{CHUNKS_OUTPUT, DOCUMENT_OUTPUT, Passed};
use crate::params::{Field, Kind, Params, choice, described, fields, is_empty, number, pointer, whole};

/// Maximum number of heading levels.
// Each has patterns that are matched against every line of every document.
const LEVELS_MAX: usize = 32;
/// Maximum number of tokens in a chunk.
const TOKENS_MAX: usize = 2_048;

static LEVELS: Field = Field::raw(
    "levels",
    Kind::List,
    "lists of regular expressions that match headings; `levels_are` defines what the lists mean. If empty, the file's own headings are used",
);
static LEVELS_ARE: Field<&str> = Field::choice(
    "levels_are",
    "auto",
    &[
        choice(
            "auto",
            "`levels` if no list has more than one pattern and `method` is absent, otherwise `families`",
        ),
        choice(
            "families",
            "each list is a family of patterns, one per level, outermost first. The family that matches the beginnings of most lines is used",
        ),
        choice("levels", "each list contains the patterns of one level, which match anywhere in a line"),
    ],
    "what the lists in `levels` mean",
);
static HIERARCHY: Field = Field::raw(
    "hierarchy",
    Kind::Any,
    "the deepest level whose headings begin a chunk; deeper ones stay inside. For families, the number of the levels that occur in the document. With `group`, 0 means down to the most frequent level. If empty, all levels",
);
static METHOD: Field<&str> = Field::choice(
    "method",
    "hierarchy",
    &[
        choice("hierarchy", "all headings above the chunk"),
        choice("group", "only its own heading; small chunks are merged"),
    ],
    "what a chunk begins with",
);
static CHUNK_TOKEN_CAP: Field<usize> =
    Field::count("chunk_token_cap", 512, &(8..=8_000), "the maximum size of a chunk").unit("tokens");
static INCLUDE_HEADING_CONTENT: Field = Field::raw(
    "include_heading_content",
    Kind::Flag,
    "has no effect: text between one heading and the next is a chunk of its own",
);
static ROOT_CHUNK_AS_HEADING: Field<bool> = Field::flag(
    "root_chunk_as_heading",
    "whether a short text before the first heading, such as a name and an address, is put above each chunk instead of being a chunk of its own",
);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "TitleChunker",
    role: Role::Step,
    summary: "Splits a document at its headings, in an ingestion pipeline.",
    fields: &[fields(&[
        &LEVELS,
        &LEVELS_ARE,
        &HIERARCHY,
        &METHOD,
        &CHUNK_TOKEN_CAP,
        &INCLUDE_HEADING_CONTENT,
        &ROOT_CHUNK_AS_HEADING,
    ])],
    outputs: &[DOCUMENT_OUTPUT, CHUNKS_OUTPUT],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let passed = Passed::of(&mut params);
        let mut settings = Map::new();
        let lists = levels(&mut params);
        // Canvases without a method predate families. If there is a method, a family may well have only one level.
        let is_older = params.get(&METHOD).is_none_or(is_empty);
        let meant = match params.take(&LEVELS_ARE) {
            "auto" if is_older && lists.iter().all(|list| list.len() < 2) => "levels",
            "auto" => "families",
            said => said,
        };
        settings.insert(format!("title_{meant}"), json!(lists));
        let groups = params.take(&METHOD) == "group";
        if let Some(depth) = hierarchy(&mut params, if groups { 0 } else { 1 }) {
            settings.insert("hierarchy".to_owned(), depth.into());
        }
        settings.insert("title_paths".to_owned(), (!groups).into());
        let cap = params.take(&CHUNK_TOKEN_CAP);
        if cap > TOKENS_MAX {
            let problem =
                ParamProblem::new("/chunk_token_cap", format!("chunks have at most {TOKENS_MAX} tokens"));
            params.warn(problem.help("a longer section is split into several chunks"));
        }
        settings.insert("chunk_token_num".to_owned(), cap.min(TOKENS_MAX).into());
        if params.take(&ROOT_CHUNK_AS_HEADING) {
            settings.insert("title_opening".to_owned(), true.into());
        }
        // Editors write it at every node.
        let _ = params.get(&INCLUDE_HEADING_CONTENT);
        let warnings = params.warnings();
        params.finish(TitleChunker { passed, settings, warnings })
    },
};

struct TitleChunker {
    passed: Passed,
    settings: Map<String, Json>,
    warnings: Vec<ParamProblem>,
}

fn levels(params: &mut Params<'_>) -> Vec<Vec<String>> {
    let mut levels: Vec<Vec<String>> = Vec::new();
    let given = match params.get(&LEVELS) {
        Some(Json::Array(given)) => given.as_slice(),
        _ => &[],
    };
    for (place, level) in given.iter().enumerate() {
        let patterns = match level {
            Json::Array(patterns) => patterns.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut found = Vec::new();
        for (number, value) in patterns.iter().enumerate() {
            // Newer editors write each pattern as an object.
            let text = value.as_str().or_else(|| value.get("expression").and_then(Json::as_str));
            let at = pointer(&["levels", &place.to_string(), &number.to_string()]);
            if text.is_none() && !value.is_null() {
                let message = format!("must be a regular expression, and is {}", described(value));
                params.problem(ParamProblem::new(&at, message).help("write it as a text"));
            }
            let Some(text) = text.filter(|text| !text.trim().is_empty()) else { continue };
            // Compiled here, so that errors are reported for the canvas before a document arrives.
            match pattern::compile(text) {
                Ok(_) => found.push(text.to_owned()),
                Err(cause) => {
                    let message = format!("`{text}` is not a valid regular expression: {cause}");
                    let help = "correct it; look-around such as `(?=…)` is not supported";
                    params.problem(ParamProblem::new(at, message).help(help));
                }
            }
        }
        levels.push(found);
    }
    if levels.len() > LEVELS_MAX {
        params.problem(ParamProblem::new("/levels", format!("there are more than {LEVELS_MAX} levels")));
    }
    levels
}

fn hierarchy(params: &mut Params<'_>, least: u64) -> Option<u64> {
    let value = params.get(&HIERARCHY)?;
    if value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty()) {
        return None;
    }
    let depth = number(value).and_then(whole).and_then(|depth| u64::try_from(depth).ok());
    match depth.filter(|depth| (least..=LEVELS_MAX as u64).contains(depth)) {
        Some(depth) => Some(depth),
        None => {
            let message = format!("must be a level from {least} to {LEVELS_MAX}");
            params.problem(ParamProblem::new("/hierarchy", message));
            None
        }
    }
}

#[async_trait]
impl Component for TitleChunker {
    fn shape(&self) -> Shape {
        self.passed.shape("chunks", &self.warnings)
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        self.passed.cut(ctx, ChunkMethod::Titles, &self.settings).await
    }
}
