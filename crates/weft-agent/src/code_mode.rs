//! Code mode: the agent's tools are functions of a script that the model writes. Results of calls stay in the script;
//! the model sees only what the script returns.
//!
//! A script runs in the sandbox, which has no access to anything outside. It runs until it waits for calls; these are
//! made like any other calls (policy, budget, approval, journal), and the script runs again from its start with their
//! results, until it ends. Each run sees the same time and the same random numbers, so it reaches the same point.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use weft_core::component::Suspension;
use weft_core::effect::Delivery;
use weft_core::seam::chat_model::{ChatModel, ToolCall};
use weft_core::seam::sandbox::{Failure, Language, Limits, Program, Ran, unfenced};
use weft_core::tool::{
    Invocation, Origin, Purpose, Tool, ToolBody, ToolData, ToolOutput, ToolSession as _, ToolStep,
    ToolStream, failure_text,
};
use weft_core::value::weight;
use weft_core::{Error, Json, NodeContext, Result};

use crate::ask::Ending;
use crate::calls::{self, CallState, OpenCall};
use crate::driver::{Job, Options};
use crate::toolkit::{Toolkit, WeakToolkit};
use crate::window::tokens;

/// The name of the tool that runs scripts.
pub const SCRIPT_FUNCTION: &str = "run_script";

/// Maximum number of calls of one script.
// Each round of calls runs the script again with all answers, so the cost grows with the square of this.
const CALLS_MAX: usize = 200;
/// Maximum bytes of all results of a script's calls: each run is given all of them.
// They are also part of the state of a run that waits for a person, which is a row in the store.
const ANSWERS_BYTES_MAX: usize = 8 << 20;
/// Maximum tokens of tool signatures in the description.
// The description is part of every request; the other tools are found by searching.
const SIGNATURES_TOKENS_MAX: usize = 4_000;
/// Maximum characters of a tool's description after its signature.
// The signatures share one limit: a longer text here would leave other tools out.
const SUMMARY_LETTERS_MAX: usize = 160;
/// Maximum characters of the description of a tool's result.
const RETURNS_LETTERS_MAX: usize = 120;
/// Maximum digits of a text that is read as a number.
// With more digits a script would get a different number, and keys of records are written like that.
const DIGITS_MAX: usize = 15;
/// Time limit of a script, including all its calls.
// Far above the limit of a single call, because a script waits for many of them.
const TIME_LIMIT: Duration = Duration::from_secs(20 * 60);
/// Limits of one run of a script.
// Short, because a script only computes between two rounds of calls: the calls take the time, and that is counted
// elsewhere.
const LIMITS: Limits = Limits {
    time: Duration::from_secs(10),
    memory_bytes: 128 << 20,
    output_bytes: 8 << 20,
    printed_bytes: 64 << 10,
};

/// The programs that run a script. Arguments: `source`, `names`, `answers` and `now`; result: `{asked}` or
/// `{result}`.
const JAVASCRIPT: &str = include_str!("code_mode/script.js");
const PYTHON: &str = include_str!("code_mode/script.py");

/// Adds the tool that runs scripts to a toolkit that has other tools. Their definitions are then no longer shown
/// individually.
///
/// # Errors
/// The errors of registering it.
pub fn add_scripts(tools: &Toolkit, model: Arc<dyn ChatModel>, options: &Options) -> Result<()> {
    let work: Vec<Arc<Tool>> = of_work(tools);
    // Without tools, a script could do nothing that the model could not write itself.
    if work.is_empty() {
        return Ok(());
    }
    let parameters = json!({
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": "the body of an async function (JavaScript) or a program (Python); \
                what it returns, or in Python a variable `result`, the last expression, or what `main()` returns, is the result"},
            "language": {"type": "string", "enum": ["javascript", "python"], "default": "javascript"},
        },
        "required": ["code"],
    });
    // The results of calls go to the script and not into the conversation.
    let options = Options { result_tokens: usize::MAX, ..options.clone() };
    let body = Arc::new(Scripts { tools: tools.downgrade(), model, options });
    let mut tool = Tool::new(SCRIPT_FUNCTION, description(&work), parameters, Origin::Function, body);
    tool.traits.purpose = Purpose::RunsScripts;
    tool.traits.time_limit = TIME_LIMIT;
    tools.register_own(tool)?;
    Ok(())
}

fn of_work(tools: &Toolkit) -> Vec<Arc<Tool>> {
    tools.tools().into_iter().filter(|tool| tool.traits.purpose == Purpose::Work).collect()
}

fn description(work: &[Arc<Tool>]) -> String {
    let mut text = "Runs a script that calls tools and works with what they give; only what the script returns or \
        prints comes back. Use it for several calls, loops, filters and sums. In JavaScript `await tools.name({argument: \
        value})`, several at once with `Promise.all`; in Python `tools.name(argument=value)`. A call gives data (objects, lists, \
        numbers; what stands behind `->` where that is known), and a text only where the tool has nothing else; texts that are \
        JSON are parsed already. A call that fails throws. There is no network and there are no files. The tools:"
        .to_owned();
    let mut left = work.len();
    for tool in work {
        let line = format!("\n- {}", signature(tool));
        // Stops at the first one that does not fit, so that the list is a prefix of a fixed order and the same in
        // every request, as providers' prompt caches require.
        if tokens(&text) + tokens(&line) > SIGNATURES_TOKENS_MAX {
            break;
        }
        text.push_str(&line);
        left -= 1;
    }
    if left > 0 {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\n- and {left} more, which a search for tools finds");
    }
    text
}

/// Describes a tool in one line: `name(city: string, days?: integer) -> its result: what it does`.
pub(crate) fn signature(tool: &Tool) -> String {
    let required: Vec<&str> =
        tool.parameters["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let empty = Map::new();
    let parameters = tool.parameters["properties"].as_object().unwrap_or(&empty);
    let parameter = |(name, schema): (&String, &Json)| {
        let optional = if required.contains(&name.as_str()) { "" } else { "?" };
        let choices = schema["enum"]
            .as_array()
            .map(|choices| choices.iter().map(Json::to_string).collect::<Vec<_>>().join(" | "));
        let kind = choices.unwrap_or_else(|| schema["type"].as_str().unwrap_or("any").to_owned());
        format!("{name}{optional}: {kind}")
    };
    let parameters: Vec<String> = parameters.iter().map(parameter).collect();
    let summary = shortened(&tool.description, SUMMARY_LETTERS_MAX);
    let returns = tool.returns.as_deref().map(|returns| shortened(returns, RETURNS_LETTERS_MAX));
    let returns = returns.map(|returns| format!(" -> {returns}")).unwrap_or_default();
    format!("{}({}){returns}: {summary}", tool.name, parameters.join(", "))
}

/// The beginning of a text, on one line.
fn shortened(text: &str, letters_max: usize) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(letters_max).collect()
}

/// The result of a call in the form in which a script gets it.
fn data(name: &str, result: Json, data: ToolData) -> Result<Json> {
    match data {
        ToolData::Value(value) => Ok(value),
        // The script would take a part for the whole.
        ToolData::TooLarge(bytes) => {
            Err(Error::invalid(format!("`{name}` gave {bytes} bytes, which is too much for a script"))
                .help("ask it for less at once"))
        }
        ToolData::Same => Ok(match result {
            Json::String(text) => parsed(text),
            value => value,
        }),
    }
}

/// The JSON value of a text that is an object, a list, a number, or true, false or null as a whole.
fn parsed(text: String) -> Json {
    let trimmed = text.trim();
    let exact = trimmed.bytes().filter(u8::is_ascii_digit).count() <= DIGITS_MAX;
    match serde_json::from_str::<Json>(trimmed) {
        Ok(Json::Number(_)) if !exact => Json::String(text),
        Ok(Json::String(_)) | Err(_) => Json::String(text),
        // A value nested more deeply could not be read back from the state of the script.
        Ok(value) if weight(&value).is_none() => Json::String(text),
        Ok(value) => value,
    }
}

struct Scripts {
    tools: WeakToolkit,
    model: Arc<dyn ChatModel>,
    options: Options,
}

impl ToolBody for Scripts {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let (tools, model, options) = (self.tools.clone(), Arc::clone(&self.model), self.options.clone());
        Box::pin(futures::stream::once(async move {
            // Weak, because this tool is in the toolkit itself: a strong reference would keep both alive forever.
            let tools = tools.upgrade().ok_or_else(|| Error::internal("the tools are not there any more"))?;
            // Its calls are reported as calls of the script.
            let name = format!("{}-->{SCRIPT_FUNCTION}", invocation.agent.name).into();
            let ctx = Arc::new(NodeContext { name, keeps_data: true, ..(*invocation.agent).clone() });
            ScriptState::begin(&invocation)?.work(&tools, &*model, &options, &ctx).await
        }))
    }
}

/// A script in progress. It is plain data, so that it can wait for a person.
#[derive(Debug, Serialize, Deserialize)]
struct ScriptState {
    source: String,
    language: Language,
    /// The time that the script sees as the current one, in milliseconds since 1970.
    now_ms: i64,
    /// The finished calls with their results, in the order in which the script asked for them.
    answers: Vec<AnsweredCall>,
    /// The calls it waits for.
    open: Vec<OpenCall>,
    /// The answers of people.
    #[serde(skip)]
    said: Map<String, Json>,
}

/// A finished call in the form in which it is passed to the script.
#[derive(Debug, Serialize, Deserialize)]
struct AnsweredCall {
    name: String,
    arguments: Json,
    #[serde(flatten)]
    gave: CallResult,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CallResult {
    Value(Json),
    Error(String),
}

/// The outcome of one run of a script.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ScriptOutcome {
    Asked(Vec<AskedCall>),
    Result(Json),
}

#[derive(Debug, Deserialize)]
struct AskedCall {
    name: String,
    #[serde(default)]
    arguments: Json,
}

impl ScriptState {
    fn begin(invocation: &Invocation) -> Result<Self> {
        if let Some(resumed) = &invocation.resumed {
            let mut script: Self = serde_json::from_value(resumed["state"].clone())
                .map_err(|cause| Error::internal("cannot read what the script was doing").because(cause))?;
            script.said = resumed["answers"].as_object().cloned().unwrap_or_default();
            return Ok(script);
        }
        let text = |name: &str| invocation.arguments.get(name).and_then(Json::as_str).unwrap_or_default();
        // An unknown argument means that the model expects the script to be run differently, so the result would
        // mislead it.
        const KNOWN: [&str; 3] = ["code", "language", "lang"];
        if let Some(other) = invocation.arguments.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            return Err(Error::invalid(format!("a script has no argument `{other}`")).help(
                "give the script as `code` and its `language`; what it works on stands in the script",
            ));
        }
        // The tool that runs programs calls the language `lang`. It takes precedence: `language` has a default.
        let language = match [text("lang"), text("language")].into_iter().find(|name| !name.is_empty()) {
            None => Language::JavaScript,
            Some(name) => Language::named(name)
                .ok_or_else(|| Error::invalid(format!("there are no scripts in `{name}`")))?,
        };
        let now_ms = invocation.agent.run.seams.clock.now_ms();
        let source = unfenced(text("code")).into_owned();
        Ok(Self { source, language, now_ms, answers: Vec::new(), open: Vec::new(), said: Map::new() })
    }

    async fn work(
        mut self,
        tools: &Toolkit,
        model: &dyn ChatModel,
        options: &Options,
        ctx: &Arc<NodeContext>,
    ) -> Result<ToolStep> {
        // Without a writer: what a script's calls say is not part of the agent's text.
        let job = Job { ctx, model, tools, options, writer: None };
        // The script sees the time of its first run, even when that was in another process.
        (self.now_ms, _) = ctx.effect("time", Delivery::Idempotent, async { Ok(self.now_ms) }).await?;
        loop {
            if !self.open.is_empty() {
                let said = std::mem::take(&mut self.said);
                let end = calls::make(&job, &mut self.open, &said, Ending::Whole, None).await?;
                if let Some(form) = end.form {
                    let state = serde_json::to_value(&self).map_err(|cause| {
                        Error::internal("cannot write down what the script was doing").because(cause)
                    })?;
                    return Ok(ToolStep::Suspended(Suspension { form, state }));
                }
                // Before the budget is checked: results are then in the state even when the budget is used up.
                self.called()?;
                if let Some(limit) = end.limit {
                    return Err(ctx.budget.error(limit));
                }
            }
            let ran = self.run(tools, ctx).await?;
            match outcome(&ran, LIMITS.told_within(ctx.run.seams.sandbox.limits())) {
                Err(problem) => return Ok(ToolStep::Done(told(Err(problem), &ran, self.answers.len()))),
                Ok(ScriptOutcome::Result(result)) => {
                    return Ok(ToolStep::Done(told(Ok(result), &ran, self.answers.len())));
                }
                Ok(ScriptOutcome::Asked(asked)) => self.ask(asked, tools)?,
            }
        }
    }

    /// Runs it from its start with the answers so far.
    async fn run(&self, tools: &Toolkit, ctx: &NodeContext) -> Result<Ran> {
        let names: Vec<String> = of_work(tools).iter().map(|tool| tool.name.clone()).collect();
        let arguments =
            json!({"source": self.source, "names": names, "answers": self.answers, "now": self.now_ms});
        let program = Program {
            language: self.language,
            source: match self.language {
                Language::JavaScript => JAVASCRIPT.to_owned(),
                Language::Python => PYTHON.to_owned(),
            },
            arguments: arguments.as_object().cloned().unwrap_or_default(),
            limits: LIMITS,
        };
        let question = ctx.effects.question("code", &program);
        let run = async { ctx.run.seams.sandbox.run(&ctx.run.tenant, program).await };
        ctx.effect_asking("code", Delivery::Idempotent, question, run).await.map(|(ran, _)| ran)
    }

    /// Adds the calls that the script waits for now.
    fn ask(&mut self, asked: Vec<AskedCall>, tools: &Toolkit) -> Result<()> {
        let first = self.answers.len();
        if first + asked.len() > CALLS_MAX {
            return Err(Error::invalid(format!("the script makes more than {CALLS_MAX} calls"))
                .help("work on less at once, in several scripts"));
        }
        let work = of_work(tools);
        for (AskedCall { name, arguments }, place) in asked.into_iter().zip(first..) {
            // By exact name: a script must not run scripts.
            let known = work.iter().any(|tool| tool.name == name);
            let arguments = if arguments.is_null() { "{}".to_owned() } else { arguments.to_string() };
            let call = ToolCall { id: format!("call{place}"), name: name.clone(), arguments };
            self.open.push(if known {
                OpenCall::new(call)
            } else {
                OpenCall::left_out(call, format!("there is no tool `{name}`"))
            });
        }
        Ok(())
    }

    /// Adds the results of the calls.
    fn called(&mut self) -> Result<()> {
        for OpenCall { call, state, .. } in self.open.drain(..) {
            let CallState::Done(done) = state else { continue };
            let gave = match data(&call.name, done.result, done.data) {
                _ if done.failed => CallResult::Error(done.text),
                Ok(value) => CallResult::Value(value),
                Err(error) => CallResult::Error(failure_text(&error)),
            };
            // As the script wrote them: when it runs again, it compares them with those it asks for.
            let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
            self.answers.push(AnsweredCall { name: call.name, arguments, gave });
        }
        let bytes = serde_json::to_string(&self.answers).map_or(0, |text| text.len());
        if bytes > ANSWERS_BYTES_MAX {
            let message = format!(
                "what the calls of the script gave is {bytes} bytes, more than the {ANSWERS_BYTES_MAX} that it may be"
            );
            return Err(Error::invalid(message).help("ask the tools for less, or work in several scripts"));
        }
        Ok(())
    }
}

/// The outcome of a run, or the error of a script that failed.
fn outcome(ran: &Ran, limits: Limits) -> Result<ScriptOutcome> {
    let value = match &ran.result {
        Ok(value) => value.clone(),
        // The position is dropped: it refers to the program that runs the script.
        Err(Failure::Program { message, .. }) => {
            let error = Error::invalid(format!("the script failed: {message}"));
            return Err(error.help("mend the script and run it again"));
        }
        Err(failure) => return Err(failure.error(limits)),
    };
    match serde_json::from_value(value) {
        // A script may change the program that runs it. One that waits for no calls would be run again forever.
        Ok(ScriptOutcome::Asked(asked)) if !asked.is_empty() => Ok(ScriptOutcome::Asked(asked)),
        Ok(ScriptOutcome::Result(result)) => Ok(ScriptOutcome::Result(result)),
        Ok(ScriptOutcome::Asked(_)) | Err(_) => Err(Error::invalid("the script did not end as it should")
            .help("let it return a value that is JSON, and leave built-in objects as they are")),
    }
}

/// The output that the model gets for a script.
fn told(result: Result<Json>, ran: &Ran, calls: usize) -> ToolOutput {
    let mut value = json!({"calls": calls});
    let failed = result.is_err();
    match result {
        Ok(result) => value["result"] = result,
        Err(error) => {
            // In the form of every failure, but beside the printed output, which usually says why.
            let told: Json = serde_json::from_str(&failure_text(&error)).unwrap_or_default();
            value["error"] = told["error"].clone();
        }
    }
    for (name, printed) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
        if !printed.is_empty() {
            value[name] = printed.as_str().into();
        }
    }
    ToolOutput { failed, ..ToolOutput::value(value) }
}
