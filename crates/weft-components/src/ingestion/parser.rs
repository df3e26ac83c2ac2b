//! The Parser component: reads the file of a document.

use serde_json::Map;
use weft_core::pipeline::chunks_of;
use weft_core::seam::document_reader::{ChunkMethod, Heading, ReadDocument};
use weft_core::suggest::{did_you_mean, nearest};
use weft_core::{
    Component, ComponentSpec, Error, Finished, Json, NodeContext, OutputSpec, ParamProblem, Result, Role,
    Shape, Value, async_trait,
};

use crate::ingestion::passed::{self, DOCUMENT_OUTPUT, Passed};
use crate::params::{Field, FieldGroup, Kind, Params, asks_for_something, choice, pointer, truth};

/// Settings of a family that have no effect here, and why.
const IGNORED: [(&str, &str); 8] = [
    ("lang", "languages and scripts are detected automatically"),
    ("llm_id", NO_MODEL),
    ("system_prompt", NO_MODEL),
    ("prompt", NO_MODEL),
    ("vlm", NO_MODEL),
    ("enable_multi_column", "columns are detected automatically"),
    ("remove_header_footer", "lines that are repeated on every page are always left out"),
    ("flatten_media_to_text", "pictures and tables become separate chunks"),
];
/// The parts of a mail, all of which are read.
const MAIL_PARTS: [&str; 8] = ["from", "to", "cc", "bcc", "date", "subject", "body", "attachments"];
const NO_MODEL: &str = "files are read without a model";

/// Number of tokens in a block of the output `json`.
// About a paragraph: a later chunker can join blocks, but cannot split them.
const BLOCK_TOKENS: u32 = 128;

const FAMILY: [Field; 15] = [
    Field::raw(
        "output_format",
        Kind::Choice(&[
            choice("json", "a list of blocks, each with its position"),
            choice("markdown", "Markdown with headings"),
            choice("html", "text with tables as HTML"),
            choice("text", "plain text"),
        ]),
        "the output that receives the text",
    ),
    Field::raw("suffix", Kind::Texts, "the file extensions of the family"),
    Field::raw("parse_method", Kind::Text, "has no effect: there is only one way to read files"),
    Field::raw("fields", Kind::Texts, "has no effect: all parts of an e-mail are read"),
    Field::raw("pages", Kind::List, "the pages to read, as pairs of first and last page; all if empty"),
    Field::raw("lang", Kind::Text, "has no effect"),
    Field::raw("llm_id", Kind::Text, "has no effect"),
    Field::raw("system_prompt", Kind::Text, "has no effect"),
    Field::raw("prompt", Kind::Text, "has no effect"),
    Field::raw("vlm", Kind::Any, "has no effect"),
    Field::raw("preprocess", Kind::Any, "has no effect"),
    Field::raw("enable_multi_column", Kind::Any, "has no effect"),
    Field::raw("remove_toc", Kind::Flag, "whether to leave out a printed table of contents"),
    Field::raw("remove_header_footer", Kind::Any, "has no effect"),
    Field::raw("flatten_media_to_text", Kind::Any, "has no effect"),
];

static SETUPS: Field = Field::raw("setups", Kind::Named(&FAMILY), "how the files of each family are read");

/// The families of files, and the default extensions of each. Newer editors write each as a separate parameter.
static FAMILIES: [(Field, &[&str]); 15] = [
    family("pdf", &["pdf"]),
    family("spreadsheet", &["xls", "xlsx", "csv"]),
    family("word", &["doc", "docx"]),
    family("doc", &["doc"]),
    family("docx", &["docx"]),
    family("slides", &["ppt", "pptx"]),
    family("image", &["jpg", "jpeg", "png", "gif", "webp", "bmp", "tiff"]),
    family("email", &["eml", "msg"]),
    family("text&markdown", &["md", "markdown", "mdx", "txt"]),
    family("markdown", &["md", "markdown", "mdx"]),
    family(
        "text&code",
        &["txt", "py", "js", "java", "c", "cpp", "h", "php", "go", "ts", "sh", "cs", "kt", "sql", "json"],
    ),
    family("html", &["htm", "html"]),
    family("epub", &["epub"]),
    family("audio", &["mp3", "wav", "flac", "ogg", "aac", "m4a"]),
    family("video", &["mp4", "avi", "mkv", "mov"]),
];

const fn family(name: &'static str, endings: &'static [&'static str]) -> (Field, &'static [&'static str]) {
    (Field::raw(name, Kind::Object(&FAMILY), "how files of this family are read").not_offered(), endings)
}

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Parser",
    role: Role::Step,
    summary: "Reads the text of a document in an ingestion pipeline.",
    fields: &[FieldGroup {
        title: "",
        fields: &[
            &SETUPS,
            &FAMILIES[0].0,
            &FAMILIES[1].0,
            &FAMILIES[2].0,
            &FAMILIES[3].0,
            &FAMILIES[4].0,
            &FAMILIES[5].0,
            &FAMILIES[6].0,
            &FAMILIES[7].0,
            &FAMILIES[8].0,
            &FAMILIES[9].0,
            &FAMILIES[10].0,
            &FAMILIES[11].0,
            &FAMILIES[12].0,
            &FAMILIES[13].0,
            &FAMILIES[14].0,
        ],
    }],
    outputs: &[
        DOCUMENT_OUTPUT,
        OutputSpec::new("name", "string", "the name of the file"),
        OutputSpec::new("json", "array", "the blocks of text, if the family's format is `json`"),
        OutputSpec::new("markdown", "string", "the text, if the format is `markdown`"),
        OutputSpec::new("html", "string", "the text, if the format is `html`"),
        OutputSpec::new("text", "string", "the text, if the format is `text`"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let passed = Passed::of(&mut params);
        let families = read_families(&mut params);
        let warnings = params.warnings();
        params.finish(Parser { passed, families, warnings })
    },
};

/// How the files of a family are read.
struct Family {
    endings: Vec<String>,
    format: &'static str,
    pages: Json,
    /// Whether a table of contents that is printed in a file is left out.
    remove_toc: bool,
}

struct Parser {
    passed: Passed,
    /// If empty, every readable file is read.
    families: Vec<Family>,
    warnings: Vec<ParamProblem>,
}

fn read_families(params: &mut Params<'_>) -> Vec<Family> {
    let mut found: Vec<(String, &str, &Map<String, Json>)> = Vec::new();
    if let Some(Json::Object(setups)) = params.get(&SETUPS) {
        for (name, setup) in setups {
            match setup {
                Json::Object(setup) => found.push((pointer(&["setups", name]), name, setup)),
                _ => params.problem(ParamProblem::new(pointer(&["setups", name]), "must be an object")),
            }
        }
    }
    for (field, _) in &FAMILIES {
        if let Some(Json::Object(setup)) = params.get(field) {
            found.push((params.pointer(field), field.name(), setup));
        }
    }
    let mut families = Vec::new();
    for (at, name, setup) in found {
        if let Some(family) = read_family(params, &at, name, setup) {
            families.push(family);
        }
    }
    families
}

fn read_family(params: &mut Params<'_>, at: &str, name: &str, setup: &Map<String, Json>) -> Option<Family> {
    let usual = FAMILIES.iter().find(|(field, _)| field.name() == name).map(|(_, endings)| *endings);
    let given = setup.get("suffix").and_then(Json::as_array);
    let given = given.into_iter().flatten().filter_map(Json::as_str);
    let mut endings: Vec<String> =
        given.map(|ending| ending.trim().trim_start_matches('.').to_lowercase()).collect();
    if endings.is_empty() {
        let Some(usual) = usual else {
            let problem = ParamProblem::new(at, format!("`{name}` is not a known file family"));
            let meant = nearest(name, FAMILIES.iter().map(|(field, _)| field.name()));
            let help = "list its file extensions in `suffix`";
            params.problem(problem.help(meant.map_or_else(|| help.to_owned(), did_you_mean)));
            return None;
        };
        endings = usual.iter().map(|ending| (*ending).to_owned()).collect();
    }
    let format = match setup.get("output_format").and_then(Json::as_str).unwrap_or_default().trim() {
        "" | "json" => "json",
        "markdown" => "markdown",
        "html" => "html",
        "text" => "text",
        other => {
            let problem =
                ParamProblem::new(format!("{at}/output_format"), format!("`{other}` is not a text format"));
            params.problem(problem.help("use json, markdown, html or text"));
            "json"
        }
    };
    let method = setup.get("parse_method").and_then(Json::as_str).unwrap_or_default();
    if !["", "deepdoc", "plain text", "plain_text", "naive", "ocr"].contains(&method.to_lowercase().as_str())
    {
        let problem = ParamProblem::new(format!("{at}/parse_method"), format!("`{method}` has no effect"));
        params.warn(problem.help("files are read by the built-in reader, without a model"));
    }
    let mut ignored = |name: &str, why: &str| {
        let problem = ParamProblem::new(format!("{at}/{name}"), format!("has no effect: {why}"));
        params.warn(problem.help("remove it"));
    };
    for (name, why) in IGNORED {
        if setup.get(name).is_some_and(asks_for_something) {
            ignored(name, why);
        }
    }
    let said = |name: &str| texts(setup.get(name));
    // Editors write all parts for each family of mails, and plain reading for every family.
    let parts = said("fields");
    if !parts.is_empty() && !MAIL_PARTS.iter().all(|part| parts.contains(part)) {
        ignored("fields", "all parts of an e-mail are read");
    }
    if said("preprocess").iter().any(|step| *step != "main_content") {
        ignored("preprocess", "files are read without preprocessing");
    }
    let pages =
        setup.get("pages").cloned().filter(|pages| pages.as_array().is_some_and(|all| !all.is_empty()));
    let remove_toc = setup.get("remove_toc").and_then(truth).unwrap_or_default();
    Some(Family { endings, format, pages: pages.unwrap_or_default(), remove_toc })
}

/// Returns a text, or the texts of a list.
fn texts(value: Option<&Json>) -> Vec<&str> {
    let all = match value {
        Some(Json::Array(all)) => all.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    all.iter().filter_map(Json::as_str).filter(|text| !text.trim().is_empty()).collect()
}

impl Parser {
    fn family(&self, name: &str) -> Result<Option<&Family>> {
        let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_lowercase()).unwrap_or_default();
        if self.families.is_empty() {
            return Ok(None);
        }
        let of = self.families.iter().find(|family| family.endings.contains(&ending));
        of.map(Some).ok_or_else(|| {
            Error::invalid(format!("the pipeline does not read files with the extension `.{ending}`"))
                .help("add their file family to `setups` of Parser")
        })
    }
}

#[async_trait]
impl Component for Parser {
    fn shape(&self) -> Shape {
        self.passed.shape("text", &self.warnings)
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let mut document = self.passed.document(ctx)?;
        let family = self.family(&document.name)?;
        let format = family.map_or("json", |family| family.format);
        // In this format, rows of spreadsheets are tables, too.
        if format == "html" {
            document.settings.insert("html4excel".to_owned(), true.into());
        }
        if let Some(pages) = family.map(|family| &family.pages).filter(|pages| !pages.is_null()) {
            document.settings.insert("pages".to_owned(), pages.clone());
        }
        if family.is_some_and(|family| family.remove_toc) {
            document.settings.insert("remove_toc".to_owned(), true.into());
        }
        let mut settings = Map::new();
        let method = match format {
            "json" => {
                settings.insert("chunk_token_num".to_owned(), BLOCK_TOKENS.into());
                ChunkMethod::Naive
            }
            _ => ChunkMethod::One,
        };
        let read = passed::read(ctx, &document, method, &settings).await?;
        passed::learn(&mut document, &read);
        let mut finished = passed::finished(&document, None)?;
        finished.outputs.set("name", Value::text(document.name.clone()));
        match format {
            "json" => {
                let blocks = serde_json::to_value(chunks_of(read));
                let blocks = blocks
                    .map_err(|cause| Error::internal("cannot pass on the blocks of a text").because(cause))?;
                finished.outputs.set("json", blocks);
            }
            "markdown" => finished.outputs.set("markdown", Value::text(marked(&read))),
            other => finished.outputs.set(other, Value::text(text(&read))),
        }
        Ok(finished)
    }
}

fn text(read: &ReadDocument) -> String {
    read.pieces.iter().map(|piece| piece.content.as_str()).collect::<Vec<_>>().join("\n\n")
}

/// Returns the text with Markdown marks for its headings.
fn marked(read: &ReadDocument) -> String {
    let text = text(read);
    let mut headings = read.headings.iter().peekable();
    let lines = text.lines().map(|line| {
        // In order: a line that matches a later heading is text.
        let is_next =
            |heading: &&Heading| heading.title == line.split_whitespace().collect::<Vec<_>>().join(" ");
        match headings.next_if(is_next) {
            Some(heading) => format!("{} {line}", "#".repeat(usize::from(heading.level.clamp(1, 6)))),
            None => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}
