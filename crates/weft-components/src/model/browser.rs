//! The Browser component: works on a task in a web browser.

mod tools;

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use weft_agent::driver::{Answer, Driver as _, End, Job, Options, Start};
use weft_agent::native::Native;
use weft_agent::window::Line;
use weft_core::context::{Limited, Signal};
use weft_core::effect::Delivery;
use weft_core::id::FileId;
use weft_core::seam::chat_model::{Author, ChatMessage};
use weft_core::stream::TextWriter;
use weft_core::value::to_text;
use weft_core::{
    Component, ComponentSpec, Error, ErrorKind, Finished, Json, NodeContext, OutputSpec, Outputs,
    ParamProblem, Reads, Reference, Result, Role, Shape, Template, ToolSpec, Value, async_trait,
};

use crate::artifact;
use crate::model::caller::{begin_aloud, end_aloud, warn_of_prices};
use crate::model::settings::{self, Asking};
use crate::params::{Field, Kind, Params, Widget, fields};
use tools::{Desk, toolkit};

const WORDS: &str = include_str!("prompts/browser.md");
/// Maximum number of tokens in one view of a page.
// Never reached, because a view is cut into parts first; a file in its place would hide the page from the model.
const VIEW_TOKENS: usize = 1_000_000;
/// Number of bytes in the name of a profile.
// Enough that another conversation's name cannot be guessed, and short enough for the name of a folder on every system.
const PROFILE_BYTES: usize = 16;
/// Maximum number of files that pages can be given.
// Their names are in the schema of a tool, which every request carries.
const UPLOADS_MAX: usize = 20;

static PROMPTS: Field<Template> = Field::template("prompts", "the task")
    .or("sys.query")
    .by_model("the task, in words that can be understood by themselves, with addresses where you know them")
    .widget(Widget::Lines);
static SYS_PROMPT: Field<Template> =
    Field::template("sys_prompt", "the instructions; built-in ones if empty").widget(Widget::Lines);
static MAX_STEPS: Field<usize> = Field::count(
    "max_steps",
    30,
    &(1..=200),
    "the maximum number of steps; then it answers from what it has seen",
);
static PERSIST_SESSION: Field<bool> = Field::flag(
    "persist_session",
    "whether data that pages store, such as a sign-in, is kept for the next turn of the conversation",
)
.on_by_default();
static UPLOAD_SOURCES: Field = Field::raw(
    "upload_sources",
    Kind::Texts,
    "references to files that may be uploaded to pages: `sys.files`, fields of the type `file`, `download`s",
);
static HEADLESS: Field = Field::raw("headless", Kind::Any, "has no effect").not_offered();
static EXTENSIONS: Field = Field::raw("enable_default_extensions", Kind::Any, "has no effect").not_offered();
static CHROMIUM_SANDBOX: Field = Field::raw("chromium_sandbox", Kind::Any, "has no effect").not_offered();

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Browser",
    role: Role::Step,
    summary: "Works on a task in a web browser: opens pages, follows links, fills in forms, and answers from what it has \
              seen.",
    fields: &[
        fields(&[
            &PROMPTS,
            &SYS_PROMPT,
            &MAX_STEPS,
            &PERSIST_SESSION,
            &UPLOAD_SOURCES,
            &HEADLESS,
            &EXTENSIONS,
            &CHROMIUM_SANDBOX,
        ]),
        settings::MODEL,
        settings::SAMPLING,
    ],
    outputs: &[
        OutputSpec::new("content", "string", "the answer"),
        OutputSpec::new(
            "downloaded_files",
            "array",
            "files downloaded from pages: `file_id`, `name`, `size`, `url`",
        ),
        OutputSpec::new("stop_reason", "string", "`completed`, or the limit that ended the work"),
        OutputSpec::new("use_tools", "array", "the steps: `name`, `arguments`, `results`"),
    ],
    time_limit: Some(Duration::from_mins(20)),
    measuring_only: false,
    tool: Some(ToolSpec { function: "browse_web", idempotent: false, sources: false }),
    build: |source| {
        let mut params = Params::of(source);
        let names = source.names();
        let uploads = match params.get(&UPLOAD_SOURCES) {
            Some(Json::Array(items)) => items.clone(),
            Some(Json::String(text)) if !text.trim().is_empty() => vec![text.clone().into()],
            _ => Vec::new(),
        };
        let found = |item: &Json| Reference::whole(&to_text(item), names).ok_or_else(|| to_text(item));
        let (known, unknown): (Vec<_>, Vec<_>) = uploads.iter().map(found).partition(|item| item.is_ok());
        for text in unknown.into_iter().filter_map(std::result::Result::err) {
            let problem =
                ParamProblem::new("/upload_sources", format!("`{text}` is not a reference to files"));
            params.problem(problem.help("refer to `sys.files` or to a field of the type `file`"));
        }
        params.ignored(&HEADLESS, "browser windows are never shown");
        params.ignored(&EXTENSIONS, "browser extensions are not supported");
        params.ignored(&CHROMIUM_SANDBOX, "the operator sets it as `browser.sandbox`");
        let exception = params.exception();
        let browser = Browser {
            task: params.take(&PROMPTS),
            system: params.take(&SYS_PROMPT),
            steps: params.take(&MAX_STEPS),
            persists: params.take(&PERSIST_SESSION),
            uploads: known.into_iter().filter_map(std::result::Result::ok).collect(),
            asking: Asking::read(&mut params),
            // An answer that may go to another branch must not have been shown before.
            streams: exception.goto.is_empty(),
            default: exception.covering(),
            warnings: params.warnings(),
        };
        params.finish(browser)
    },
};

struct Browser {
    task: Template,
    system: Template,
    steps: usize,
    persists: bool,
    uploads: Vec<Reference>,
    asking: Asking,
    streams: bool,
    default: Option<Json>,
    warnings: Vec<ParamProblem>,
}

/// Name of the browser profile: what pages store for this node in this conversation, and for no other.
fn profile(ctx: &NodeContext) -> String {
    let mut hash = Sha256::new();
    for part in [ctx.run.session.as_str(), ctx.node.as_str()] {
        // Prefixed with its length, so that no two pairs hash the same bytes.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    weft_core::hex(&hash.finalize()[..PROFILE_BYTES])
}

impl Browser {
    async fn work(&self, ctx: &NodeContext, writer: Option<&TextWriter>) -> Result<Outputs> {
        let task = self.task.render(&ctx.inputs)?.trim().to_owned();
        if task.is_empty() {
            return Err(Error::invalid("there is no task").help("say in `prompts` what to do"));
        }
        let model = ctx.run.seams.models.resolve(&ctx.run.tenant, &self.asking.llm_id)?;
        // It works only by tool calls.
        if !model.info().tools {
            let message = format!("the model `{}` cannot call tools", model.info().name);
            return Err(Error::new(ErrorKind::Unsupported, message).help("choose another one in `llm_id`"));
        }
        warn_of_prices(ctx, &*model).await?;
        let desk = Arc::new(Desk::new(self.persists.then(|| profile(ctx)), self.files(ctx).await?));
        let tools = toolkit(&desk)?;
        let own = self.system.render(&ctx.inputs)?;
        let words = if own.trim().is_empty() { WORDS.trim_end() } else { own.trim_end() };
        let lines = vec![
            Line::pinned(ChatMessage::new(Author::System, words)),
            Line::pinned(ChatMessage::new(Author::User, task)),
        ];
        let options = Options {
            rounds_max: u32::try_from(self.steps).unwrap_or(u32::MAX),
            // There is only one page.
            parallel: 1,
            sampling: self.asking.sampling.clone(),
            retries: self.asking.retries,
            retry_delay: self.asking.retry_delay,
            cached: self.asking.cached,
            result_tokens: VIEW_TOKENS,
            ..Options::default()
        };
        let ctx = Arc::new(ctx.clone());
        let job = Job { ctx: &ctx, model: &*model, tools: &tools, options: &options, writer };
        let end = Native.run(&job, Start::Conversation(lines)).await;
        // Also after a failure, so that the next turn finds what pages have stored.
        desk.close().await;
        match end? {
            End::Answered(answer) => Ok(outputs(answer)),
            End::Suspended(_) => Err(Error::internal("a step of a browser waits for a person")),
        }
    }

    /// Returns the files that pages may be given, by name.
    async fn files(&self, ctx: &NodeContext) -> Result<Vec<(String, FileId)>> {
        let mut ids = Vec::new();
        for reference in &self.uploads {
            ids.extend(artifact::readable(ctx, &ctx.inputs.json(reference))?);
        }
        if ids.len() > UPLOADS_MAX {
            let message = format!("pages can only use the first {UPLOADS_MAX} of {} files", ids.len());
            ctx.signal(Signal::Warn(message)).await?;
            ids.truncate(UPLOADS_MAX);
        }
        let mut files = Vec::new();
        for id in ids {
            // Only its name: the bytes are read when a page is given the file.
            let about = async {
                let file = ctx.run.seams.files.find(&ctx.run.tenant, &id).await?;
                artifact::check_readable(ctx, &file)?;
                Ok(file.name)
            };
            let (name, _) = ctx.effect("upload", Delivery::Idempotent, about).await?;
            files.push((name, id));
        }
        Ok(files)
    }
}

fn outputs(answer: Answer) -> Outputs {
    let files = answer.used.iter().filter_map(|used| used.results["downloaded_files"].as_array());
    let files: Vec<Json> = files.flatten().cloned().collect();
    let mut outputs = Outputs::of("content", Value::text(answer.text));
    outputs.set("downloaded_files", Json::Array(files));
    outputs.set("stop_reason", Value::text(answer.limited.map_or("completed", Limited::as_str)));
    outputs.set("use_tools", serde_json::json!(answer.used));
    outputs
}

#[async_trait]
impl Component for Browser {
    fn shape(&self) -> Shape {
        let texts = [&self.task, &self.system].into_iter().flat_map(Template::references);
        Shape {
            reads: Reads::always(texts.chain(&self.uploads).cloned()),
            streams: self.streams,
            models: vec![("/llm_id".to_owned(), self.asking.llm_id.clone())],
            main_output: "content",
            warnings: self.warnings.clone(),
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        if !(self.streams && ctx.heard) {
            return self.work(ctx, None).await.map(Finished::from);
        }
        let writer = begin_aloud(ctx).await?;
        let outputs = self.work(ctx, Some(&writer)).await;
        end_aloud(writer, &outputs, self.default.as_ref());
        outputs.map(Finished::from)
    }
}

#[cfg(test)]
mod tests;
