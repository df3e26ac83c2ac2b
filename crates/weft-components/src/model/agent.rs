//! The Agent component: works on a question with a language model and tools, and can itself be a tool of other agents.

mod arguments;
mod called;
mod component_tool;
mod entries;
mod extras;
mod made_files;
mod mcp_tools;
mod needs;
mod sub_agent;
mod tool_shape;
mod toolbox;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use weft_agent::code_mode::add_scripts;
use weft_agent::driver::{Answer, Driver, End, Job, Options, PlannerOptions, RESULT_TOKENS, Start};
use weft_agent::long_results::add_reader;
use weft_agent::native::Native;
use weft_agent::planner::Planner;
use weft_agent::tool_search::{Seeker, ToolSearch, add_search};
use weft_core::budget::{BudgetLimits, Spent};
use weft_core::component::Suspension;
use weft_core::context::{Limited, Signal};
use weft_core::past_calls::ToolHistory;
use weft_core::seam::chat_model::ChatModel;
use weft_core::stream::TextWriter;
use weft_core::tool::ToolSession as _;
use weft_core::{
    Component, ComponentSpec, Error, Finished, Json, NodeContext, NodeSource, Outputs, ParamProblem, Reads,
    Result, Role, Shape, Value, async_trait,
};

use self::toolbox::{Nesting, Toolbox, ToolsLeft};
use crate::model::caller::{Caller, begin_aloud, end_aloud, warn_of_prices};
use crate::model::prompt::{Asker, citing_rules, conversation};
use crate::model::settings::{self, Settings};
use crate::params::{Field, FieldGroup, Kind, Params, Widget, choice};

/// Divisor for the share of the context window that one result may take.
// A third leaves room for the question, one long result and the answer.
const RESULT_SHARE: usize = 3;
/// Default number of rounds of tool calls after the first.
// The default of other engines for such canvases, so that a canvas made there costs no more here.
const ROUNDS: usize = 5;
/// Maximum number of rounds of tool calls after the first.
// Guards against a mistyped number; what limits the work in practice is its budget.
const ROUNDS_MAX: usize = 1_000;
/// Default number of concurrent calls in a round.
const PARALLEL: usize = 5;
/// Maximum number of concurrent calls in a round.
// Each call may hold a connection and a result of several megabytes.
const PARALLEL_MAX: usize = 64;

static DRIVER: Field<&str> = Field::choice(
    "driver",
    "auto",
    &[
        choice(
            "auto",
            "`planner` if the plan is reviewed or the model has no tool calls, otherwise `native`",
        ),
        choice("native", "tool calls of the model"),
        choice("planner", "steps in plain text"),
    ],
    "how the agent uses its tools",
);
static MAX_ROUNDS: Field<usize> = Field::count(
    "max_rounds",
    ROUNDS,
    &(0..=ROUNDS_MAX),
    "the maximum number of rounds of tool calls after the first; then one answer without tools follows",
);
static MAX_PARALLEL_TOOLS: Field<usize> = Field::count(
    "max_parallel_tools",
    PARALLEL,
    &(1..=PARALLEL_MAX),
    "the maximum number of concurrent calls per round; 1: sequential",
);
static TOOL_SEARCH: Field<&str> = Field::choice(
    "tool_search",
    "auto",
    &[
        choice("auto", "if the tool definitions would take up much of the model's context window"),
        choice("always", ""),
        choice("never", "every prompt contains all definitions"),
    ],
    "whether the agent searches for tools instead of being shown all of them",
);
static CODE_MODE: Field<bool> = Field::flag(
    "code_mode",
    "whether the agent calls its tools in scripts that run in the sandbox, so that their results stay out of the conversation",
);
static MAX_RESULT_TOKENS: Field<usize> = Field::count(
    "max_result_tokens",
    RESULT_TOKENS,
    &(500..=1_000_000),
    "the maximum size of a tool result in the conversation, in tokens; a longer one becomes a file that the model reads in parts",
);
static TOOL_HISTORY: Field<&str> = Field::choice(
    "tool_history",
    "summary",
    &[
        choice("none", "nothing"),
        choice("summary", "one line per call: tool, arguments, outcome"),
        choice("full", "calls and results as messages"),
    ],
    "what later turns see of its last 32 tool calls; long ones are truncated",
);
static VERBOSE_TOOL_USE: Field<bool> =
    Field::flag("verbose_tool_use", "whether tool calls and results are included in the text");
static APPROVAL_TIMEOUT_SECONDS: Field<Option<u64>> =
    Field::seconds("approval_timeout_seconds", "the time limit for approval; no answer means rejection");
static FUNCTION_NAME: Field<String> = Field::text("function_name", "its name");
static DESCRIPTION: Field<String> =
    Field::text("description", "what it does, for the agents that may call it").widget(Widget::Lines);
static USER_PROMPT: Field =
    Field::raw("user_prompt", Kind::Any, "the JSON Schema of its task, or a description of the task");
static CUSTOM_HEADER: Field = Field::raw("custom_header", Kind::Any, "headers for MCP servers").not_offered();

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Agent",
    role: Role::Step,
    summary: "Works on a task with a language model and tools.",
    fields: &[
        settings::MODEL,
        settings::WORDS,
        FieldGroup {
            title: "Tools",
            fields: &[
                &entries::TOOLS,
                &entries::MCP,
                &MAX_ROUNDS,
                &MAX_PARALLEL_TOOLS,
                &TOOL_SEARCH,
                &CODE_MODE,
                &MAX_RESULT_TOKENS,
                &TOOL_HISTORY,
                &VERBOSE_TOOL_USE,
                &CUSTOM_HEADER,
            ],
        },
        FieldGroup {
            title: "Execution",
            fields: &[
                &DRIVER,
                &extras::PLANNER,
                &extras::REVIEW_PLAN,
                &APPROVAL_TIMEOUT_SECONDS,
                &extras::BUDGET,
            ],
        },
        FieldGroup {
            title: "Use as a tool of another agent",
            fields: &[&FUNCTION_NAME, &DESCRIPTION, &USER_PROMPT],
        },
        settings::SAMPLING,
    ],
    outputs: &[
        weft_core::OutputSpec::new("content", "string", "the answer"),
        weft_core::OutputSpec::new("structured", "object", "the answer, in the form that `outputs` requires")
            .when_asked_for(),
        weft_core::OutputSpec::new("use_tools", "array", "the tool calls: `name`, `arguments`, `results`"),
        weft_core::OutputSpec::new("stop_reason", "string", "`completed`, or the limit that ended the work"),
    ],
    time_limit: Some(Duration::from_secs(1200)),
    measuring_only: false,
    tool: None,
    build: |source| {
        let left = ToolsLeft::default();
        Agent::build(source, Nesting::outermost(&left)).and_then(|agent| Params::of(source).finish(agent))
    },
};

/// Which driver runs the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drive {
    Auto,
    Native,
    Planner,
}

/// A built agent.
pub(crate) struct Agent {
    caller: Caller,
    toolbox: Toolbox,
    drive: Drive,
    rounds_max: u32,
    parallel: usize,
    search: ToolSearch,
    scripts: bool,
    result_tokens: usize,
    tool_history: ToolHistory,
    verbose: bool,
    approval_timeout: Option<u64>,
    review: bool,
    budget: BudgetLimits,
    analyse: bool,
    reflect: bool,
    language: Option<String>,
}

/// State of an agent that waits for a person.
#[derive(Serialize, Deserialize)]
struct WaitingAgent {
    planned: bool,
    spent: Spent,
    state: Json,
}

impl Agent {
    /// Reads the parameters of an agent.
    fn build(source: &NodeSource<'_>, nesting: Nesting<'_>) -> Result<Self, Vec<ParamProblem>> {
        let mut params = Params::of(source);
        let toolbox = Toolbox::read(&mut params, nesting);
        let drive = match params.take(&DRIVER) {
            "native" => Drive::Native,
            "planner" => Drive::Planner,
            _ => Drive::Auto,
        };
        let planner = extras::planner(&mut params);
        let budget = extras::budget(&mut params);
        params.ignored(&CUSTOM_HEADER, "the operator sets the headers for MCP servers in `mcp.servers`");
        let rounds_max = u32::try_from(params.take(&MAX_ROUNDS)).unwrap_or(u32::MAX);
        let parallel = params.take(&MAX_PARALLEL_TOOLS);
        let search = match params.take(&TOOL_SEARCH) {
            "always" => ToolSearch::Always,
            "never" => ToolSearch::Never,
            _ => ToolSearch::Auto,
        };
        let scripts = params.take(&CODE_MODE);
        let result_tokens = params.take(&MAX_RESULT_TOKENS);
        let tool_history = match params.take(&TOOL_HISTORY) {
            "none" => ToolHistory::None,
            "full" => ToolHistory::Full,
            _ => ToolHistory::Summary,
        };
        let verbose = params.take(&VERBOSE_TOOL_USE);
        let approval_timeout = params.take(&APPROVAL_TIMEOUT_SECONDS);
        let review = extras::review(&mut params, drive);
        let settings = Settings::read(&mut params);
        let agent = Self {
            caller: Caller { settings },
            toolbox,
            drive,
            rounds_max,
            parallel,
            search,
            scripts,
            result_tokens,
            tool_history,
            verbose,
            approval_timeout,
            review,
            budget,
            analyse: planner.analyse,
            reflect: planner.reflect,
            language: planner.language,
        };
        params.done(agent)
    }

    fn settings(&self) -> &Settings {
        &self.caller.settings
    }

    /// Answers the canvas or a calling agent.
    async fn work(&self, ctx: &NodeContext, asker: Asker<'_>) -> Result<Finished> {
        let earlier = earlier(ctx, &asker);
        // Reported when the work begins, and not again after each answer of a person.
        if ctx.resumed.is_none() {
            self.toolbox.tell_what_is_left_out(ctx).await?;
        }
        if self.toolbox.is_empty() {
            let budget = ctx.budget.within(self.budget, earlier);
            let mut done = self.caller.run(&NodeContext { budget, ..ctx.clone() }, asker).await?;
            done.outputs.set("stop_reason", Value::text(COMPLETED));
            return Ok(done);
        }
        let resumed = ctx.resumed.clone().map(waiting).transpose()?;
        let spent = resumed.as_ref().map(|waiting| waiting.spent).unwrap_or_default();
        let ctx =
            Arc::new(NodeContext { budget: ctx.budget.within(self.budget, spent + earlier), ..ctx.clone() });
        let settings = self.settings();
        let model = ctx.run.seams.models.resolve(&ctx.run.tenant, &settings.asking.llm_id)?;
        if resumed.is_none() {
            warn_of_prices(&ctx, &*model).await?;
        }
        let toolkit = self.toolbox.open(&ctx).await?;
        let planned = match &resumed {
            // As it began, even if the model has changed meanwhile: the state belongs to one driver.
            Some(waiting) => waiting.planned,
            None => self.plans(&ctx, &*model).await?,
        };
        let start = match resumed {
            Some(waiting) => Start::Resumed { state: waiting.state, answers: ctx.filled.clone() },
            None => {
                // Messages with tool calls are only for models that are shown tools.
                let untold = planned || toolkit.tools().is_empty();
                let most = if untold { ToolHistory::Summary } else { ToolHistory::Full };
                let sees = self.tool_history.min(most);
                Start::Conversation(conversation(settings, &ctx, asker, sees).await?)
            }
        };
        let window = model.info().window;
        let options = self.options(&ctx, asker, window)?;
        let seeker = Seeker::of(model.info());
        // A planner reads about its tools in the prompt; the author of a script reads it in the description of a tool.
        add_search(&toolkit, self.search, if planned || self.scripts { seeker.by_prompt() } else { seeker })?;
        add_reader(&toolkit)?;
        if self.scripts {
            add_scripts(&toolkit, Arc::clone(&model), &options)?;
        }
        let driver: &dyn Driver = if planned { &Planner } else { &Native };
        let drive = async |writer: Option<&TextWriter>| {
            let job = Job { ctx: &ctx, model: &*model, tools: &toolkit, options: &options, writer };
            made_files::shown(driver.run(&job, start).await, writer)
        };
        let end = if settings.streams && ctx.heard {
            let writer = begin_aloud(&ctx).await?;
            let end = drive(Some(&writer)).await;
            // A text that continues once a person has answered is not complete yet.
            if !matches!(end, Ok(End::Suspended(_))) {
                end_aloud(writer, &end, settings.default.as_ref());
            }
            end?
        } else {
            drive(None).await?
        };
        match end {
            End::Answered(answer) => Ok(outputs(answer).into()),
            End::Suspended(Suspension { form, state }) => {
                let waiting = WaitingAgent { planned, spent: ctx.budget.spent(), state };
                let state = serde_json::to_value(waiting)
                    .map_err(|cause| Error::internal("cannot store the state of the agent").because(cause))?;
                Ok(Finished::suspended(Suspension { form, state }))
            }
        }
    }

    /// Returns the options of the loop for a model with a context window of this many tokens.
    fn options(&self, ctx: &NodeContext, asker: Asker<'_>, window: usize) -> Result<Options> {
        let settings = self.settings();
        let cites = settings.cites() && matches!(asker, Asker::Canvas);
        Ok(Options {
            rounds_max: self.rounds_max,
            parallel: self.parallel,
            sampling: settings.asking.sampling.clone(),
            retries: settings.asking.retries,
            retry_delay: settings.asking.retry_delay,
            cached: settings.asking.cached,
            schema: settings.schema.clone(),
            citing: cites.then(|| citing_rules(settings, ctx)).transpose()?,
            verbose: self.verbose,
            approval_timeout: self.approval_timeout,
            // In a small window, a result of the usual length would leave no room.
            result_tokens: self.result_tokens.min(window / RESULT_SHARE),
            planner: PlannerOptions {
                analyse: self.analyse,
                review: self.review,
                reflect: self.reflect,
                prompts: settings.sections.render(&ctx.inputs)?,
                language: self.language.clone(),
                days: days(ctx.run.seams.clock.now_ms()),
            },
        })
    }

    /// Whether the planner runs: because a parameter asks for it, or because the model cannot call tools.
    async fn plans(&self, ctx: &NodeContext, model: &dyn ChatModel) -> Result<bool> {
        let cannot = !model.info().tools;
        if cannot && self.drive != Drive::Planner && !self.review {
            let message =
                format!("the model `{}` doesn't support tool calls: the planner is used", model.info().name);
            ctx.signal(Signal::Warn(message)).await?;
        }
        Ok(cannot || self.drive == Drive::Planner || self.review)
    }
}

fn waiting(state: Json) -> Result<WaitingAgent> {
    serde_json::from_value(state).map_err(|cause| {
        Error::internal("cannot read the stored state of the agent").because(cause).help("start a new turn")
    })
}

/// The `stop_reason` of work that was not cut short by a limit.
const COMPLETED: &str = "completed";

fn outputs(answer: Answer) -> Outputs {
    let mut outputs = match answer.structured {
        Some(value) => Outputs::of("structured", value),
        None => Outputs::of("content", Value::text(answer.text)),
    };
    if !answer.used.is_empty() {
        outputs.set("use_tools", json!(answer.used));
    }
    outputs.set("stop_reason", Value::text(answer.limited.map_or(COMPLETED, Limited::as_str)));
    outputs
}

/// Yesterday, today and tomorrow.
fn days(now_ms: i64) -> [String; 3] {
    const DAY_MS: i64 = 24 * 3_600 * 1_000;
    [-1, 0, 1].map(|days| {
        let time = jiff::Timestamp::from_millisecond(now_ms.saturating_add(days * DAY_MS));
        time.map(|time| time.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
    })
}

/// The time spent before the process was stopped; for a called agent it is not recorded separately.
fn earlier(ctx: &NodeContext, asker: &Asker<'_>) -> Spent {
    match asker {
        Asker::Canvas => Spent { millis: ctx.budget.before().millis, ..Spent::default() },
        Asker::Agent(_) => Spent::default(),
    }
}

#[async_trait]
impl Component for Agent {
    fn shape(&self) -> Shape {
        let own = self.caller.shape();
        let inner = self.toolbox.shape();
        // Without these secrets, only a tool is missing.
        let of_tools = inner.reads.iter().filter(|reference| !own.reads.always.contains(reference));
        let dispensable = of_tools.filter(|reference| reference.secret().is_some()).cloned().collect();
        Shape {
            dispensable,
            reads: Reads::always(own.reads.always.into_iter().chain(inner.reads)),
            history_turns: own.history_turns.max(inner.history_turns),
            tool_history: self.tool_history,
            models: own.models.into_iter().chain(inner.models).collect(),
            rerankers: inner.rerankers,
            datasets: inner.datasets,
            memories: inner.memories,
            sql: inner.sql,
            programs: inner.programs,
            warnings: own.warnings.into_iter().chain(inner.warnings).collect(),
            calls: inner.calls,
            secrets: inner.secrets,
            ..own
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        self.work(ctx, Asker::Canvas).await
    }
}

#[cfg(test)]
mod tests;
