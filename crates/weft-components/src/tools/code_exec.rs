//! The CodeExec component: runs a program of the canvas or of a model in the sandbox.
//!
//! The program defines `main`, which is called with the arguments. Its result fills the declared outputs: an object by
//! its members, a list by position, anything else the first one; a single output takes the whole result unless that has
//! a member of its name. What it prints becomes `stdout` and `stderr`, and is never a failure by itself.

mod outputs;
mod unclosed;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Map;
use weft_core::component::WrittenProgram;
use weft_core::effect::Delivery;
use weft_core::seam::file_store::StoredFile;
use weft_core::seam::sandbox::{Language, Program, Ran, unfenced};
use weft_core::{
    Component, ComponentSpec, Error, ErrorKind, Finished, Json, NodeContext, NodeOutputs, Outputs,
    ParamProblem, Reads, Reference, Result, Role, Shape, Template, ToolSpec, async_trait,
};

use crate::artifact;
use crate::params::{Field, Kind, Params, Widget, choice, described, fields, is_empty, pointer};
use outputs::DeclaredOutputs;

/// Number of bytes, from the end, of what a program printed before it failed that are included in the error.
const TAIL_MAX: usize = 1_000;

static LANG: Field<String> = Field::text("lang", "the language of the program")
    .one_of(&[choice("javascript", ""), choice("python", "with the standard library")])
    .knows(&["js", "node", "nodejs", "py", "python3"])
    .by_model("the language of the program");
static SCRIPT: Field<String> =
    Field::text("script", "the program, which defines `main`; references in it are not resolved")
        .widget(Widget::Code)
        .by_model("the whole program; it defines a function `main` and does not call it");
static ARGUMENTS: Field =
    Field::raw("arguments", Kind::Object(&[]), "the arguments of `main` by name: values or references")
        .widget(Widget::Pairs);
/// The outputs of the program.
static OUTPUTS: Field = Field::raw(
    "outputs",
    Kind::Named(&[Field::raw(
        "type",
        Kind::Text,
        "`String`, `Number`, `Boolean`, `Object`, `Array<T>` or `Any`",
    )]),
    "the outputs, by name",
);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "CodeExec",
    role: Role::Step,
    summary: "Runs a program without network or packages and gives what it returns and prints, and the files that one in \
              Python writes. It defines a function `main`: JavaScript `function main(args) { return ... }`, Python `def main(**args): return ...`, \
              both also async. One in Python may also end in an expression, which is what it gives.",
    fields: &[fields(&[&LANG, &SCRIPT, &ARGUMENTS, &OUTPUTS])],
    outputs: &[
        weft_core::OutputSpec::new("stdout", "string", "the standard output of the program"),
        weft_core::OutputSpec::new("stderr", "string", "its standard error output"),
        weft_core::OutputSpec::new("truncated", "boolean", "whether its output was truncated"),
        weft_core::OutputSpec::new("attachments", "string", "links to the files it has written, in Markdown"),
        weft_core::OutputSpec::new(
            "artifacts",
            "array",
            "the same files: `doc_id`, `filename`, `mime_type`, `size`, `url`",
        ),
    ],
    time_limit: Some(Duration::from_secs(600)),
    measuring_only: false,
    tool: Some(ToolSpec {
        function: "execute_code",
        // A program has no access to anything it could change.
        idempotent: true,
        sources: false,
    }),
    build: |source| {
        let mut params = Params::of(source);
        let language = language(&mut params);
        let script = script(&mut params);
        let arguments = arguments(&mut params);
        let outputs = DeclaredOutputs::read(&params);
        DeclaredOutputs::misspelled(&params).into_iter().for_each(|problem| params.warn(problem));
        let doubted = match &script {
            ProgramSource::Written(text) => doubt(language, text),
            ProgramSource::From(_) => None,
        };
        let is_doubted = doubted.is_some();
        doubted.into_iter().for_each(|problem| params.warn(problem));
        let warnings = params.warnings();
        params.finish(CodeExec { language, script, arguments, outputs, warnings, is_doubted })
    },
};

fn language(params: &mut Params<'_>) -> Language {
    let name = params.take(&LANG);
    // Canvases that name no language come from editors whose default is this one.
    if name.trim().is_empty() {
        return Language::Python;
    }
    Language::named(&name).unwrap_or_else(|| {
        let message = format!("must be a language, and is {}", described(&Json::from(name)));
        params.problem(ParamProblem::new("/lang", message).help("write `javascript` or `python`"));
        Language::Python
    })
}

fn script(params: &mut Params<'_>) -> ProgramSource {
    let text = params.take(&SCRIPT);
    if text.trim().is_empty() {
        let problem = ParamProblem::new("/script", "is missing");
        params.problem(problem.help("write a program that defines a function `main`"));
    }
    match Reference::whole(&text, params.source.names()) {
        Some(reference) => ProgramSource::From(reference),
        None => ProgramSource::Written(text),
    }
}

/// Returns why a program cannot work: it is written in the other language, defines nothing that could be called, or
/// leaves something unclosed.
fn doubt(language: Language, text: &str) -> Option<ParamProblem> {
    let begins =
        |words: &[&str]| text.lines().any(|line| words.iter().any(|word| line.trim_end().starts_with(word)));
    let gives = ["main", "console", "print"].iter().any(|word| text.contains(word));
    let (message, help) = match language {
        Language::JavaScript if begins(&["def main(", "async def main("]) => {
            ("looks like Python, and `lang` is JavaScript: the program fails", "write `python` in `lang`")
        }
        Language::Python if begins(&["function main(", "async function main("]) => {
            ("looks like JavaScript, and `lang` is Python: the program fails", "write `javascript` in `lang`")
        }
        Language::JavaScript if !gives && !text.trim().is_empty() => (
            "defines no function `main` and prints nothing: the program fails",
            "write `function main(args) { return … }`",
        ),
        Language::JavaScript | Language::Python => {
            let what = unclosed::first(language, &unfenced(text))?;
            let problem = ParamProblem::new("/script", format!("{what}: the program fails"));
            return Some(problem.help("look for a missing or superfluous bracket or quote there"));
        }
    };
    Some(ParamProblem::new("/script", message).help(help))
}

fn arguments(params: &mut Params<'_>) -> Vec<(String, ProgramArgument)> {
    let names = params.source.names();
    let read = |(name, value): (&String, &Json)| {
        let value = match value {
            Json::String(text) => ProgramArgument::From(Template::parse_value(text, names)),
            plain => ProgramArgument::Given(plain.clone()),
        };
        (name.clone(), value)
    };
    match params.get(&ARGUMENTS) {
        None => Vec::new(),
        // Some editors write a list when there are none.
        Some(value) if is_empty(value) => Vec::new(),
        Some(Json::Object(given)) => given.iter().map(read).collect(),
        Some(other) => {
            let message = format!("must be an object, and is {}", described(other));
            params.problem(ParamProblem::new(pointer(&["arguments"]), message));
            Vec::new()
        }
    }
}

/// Where the program text comes from. References within it are never filled in.
enum ProgramSource {
    Written(String),
    From(Reference),
}

enum ProgramArgument {
    Given(Json),
    From(Template),
}

struct CodeExec {
    language: Language,
    script: ProgramSource,
    arguments: Vec<(String, ProgramArgument)>,
    outputs: DeclaredOutputs,
    warnings: Vec<ParamProblem>,
    /// Whether a warning says that the program fails.
    is_doubted: bool,
}

impl CodeExec {
    /// Returns the program as it is passed on, if it is literal and no warning was issued about it.
    fn written(&self) -> Option<WrittenProgram> {
        let ProgramSource::Written(text) = &self.script else { return None };
        let arguments = self.arguments.iter().map(|(name, _)| name.clone()).collect();
        let (pointer, text) = ("/script".to_owned(), unfenced(text).into_owned());
        (!self.is_doubted).then_some(WrittenProgram { pointer, language: self.language, text, arguments })
    }

    fn program(&self, ctx: &NodeContext) -> Result<Program> {
        let source = match &self.script {
            ProgramSource::Written(text) => text.clone(),
            ProgramSource::From(reference) => weft_core::value::to_text(&ctx.inputs.json(reference)),
        };
        let source = unfenced(&source).into_owned();
        let value = |argument: &ProgramArgument| match argument {
            ProgramArgument::Given(value) => Ok(value.clone()),
            ProgramArgument::From(template) => template.copied(&ctx.inputs),
        };
        let arguments = self.arguments.iter().map(|(name, argument)| Ok((name.clone(), value(argument)?)));
        let arguments = arguments.collect::<Result<Map<String, Json>>>()?;
        Ok(Program { language: self.language, source, arguments, limits: ctx.run.seams.sandbox.limits() })
    }
}

#[async_trait]
impl Component for CodeExec {
    fn shape(&self) -> Shape {
        let script = match &self.script {
            ProgramSource::Written(_) => None,
            ProgramSource::From(reference) => Some(reference),
        };
        let arguments = self.arguments.iter().filter_map(|(_, argument)| match argument {
            ProgramArgument::Given(_) => None,
            ProgramArgument::From(template) => Some(template),
        });
        let reads = script.into_iter().chain(arguments.flat_map(Template::references)).cloned();
        // The canvas declares the outputs; a model is given all of them, so none is the main one.
        Shape {
            reads: Reads::always(reads),
            main_output: "",
            outputs: NodeOutputs::typed(self.outputs.kinds()),
            programs: self.written().into_iter().collect(),
            warnings: self.warnings.clone(),
            ..Shape::default()
        }
    }

    fn default_outputs(&self, default: &Json) -> Option<Outputs> {
        let mut outputs: Outputs = self.outputs.fill_with(default).into_iter().collect();
        if outputs.get("result").is_none() {
            // Canvases made elsewhere read the value here.
            outputs.set("result", default.clone());
        }
        Some(outputs)
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let program = self.program(ctx)?;
        let limits = program.limits;
        let (Ran { result, stdout, stderr, truncated, files: _ }, files): (Ran, Vec<StoredFile>) = {
            // Without the limits: a program returns the same under different ones.
            let question = ctx.effects.question("program", &(&program.source, &program.arguments));
            ctx.effect_asking("program", Delivery::Idempotent, question, ran(ctx, program)).await?.0
        };
        let told = |error: Error| with_printed(error, &stdout, &stderr);
        let value = result.map_err(|failure| told(failure.error(limits)))?;
        let mut outputs: Outputs = self.outputs.fill(&value).map_err(told)?.into_iter().collect();
        for (name, printed) in [("stdout", stdout), ("stderr", stderr)] {
            if !printed.is_empty() {
                outputs.set(name, Json::from(printed));
            }
        }
        if truncated {
            outputs.set("truncated", Json::from(true));
        }
        if !files.is_empty() {
            outputs.set("attachments", Json::from(links(&files)));
            outputs.set("artifacts", files.iter().map(artifact::download).collect::<Json>());
        }
        Ok(outputs.into())
    }
}

/// Runs a program and stores the files it wrote with the conversation; the journal holds the ids of the files rather
/// than their bytes.
async fn ran(ctx: &NodeContext, program: Program) -> Result<(Ran, Vec<StoredFile>)> {
    let mut ran = ctx.run.seams.sandbox.run(&ctx.run.tenant, program).await?;
    let mut kept = Vec::new();
    for file in std::mem::take(&mut ran.files) {
        let bytes = STANDARD.decode(&file.base64).map_err(|cause| {
            Error::new(ErrorKind::Garbled, format!("the file `{}` cannot be read", file.name)).because(cause)
        })?;
        kept.push(
            weft_agent::run_files::keep(
                ctx,
                &file.name,
                weft_core::media_type::of_name(&file.name),
                bytes.into(),
            )
            .await?,
        );
    }
    Ok((ran, kept))
}

/// Returns files as links; pictures are embedded.
fn links(files: &[StoredFile]) -> String {
    let link = |file: &StoredFile| artifact::link(&file.name, &file.mime_type, &file.id);
    files.iter().map(link).collect::<Vec<_>>().join("\n")
}

/// Adds the end of what was printed to the error, because it often explains the cause.
fn with_printed(mut error: Error, stdout: &str, stderr: &str) -> Error {
    let printed = [stdout.trim(), stderr.trim()].join("\n");
    let printed = printed.trim();
    if !printed.is_empty() {
        let tail = &printed[printed.ceil_char_boundary(printed.len().saturating_sub(TAIL_MAX))..];
        error.message = format!("{}; before, it printed: {tail}", error.message);
    }
    error
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value as Json, json};
    use weft_core::ErrorKind;
    use weft_core::seam::sandbox::{Failure, Language, NoSandbox, Ran};
    use weft_testkit::ScriptedSandbox;

    use crate::testing::{Node, Setting, failure, outputs};

    fn node(script: &str, params: &Json) -> Node {
        let mut all = json!({"lang": "javascript", "script": script});
        all.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
        Node::new("CodeExec", all)
    }

    #[tokio::test]
    async fn a_program_gets_its_arguments_as_values() {
        let given = json!({"a": "{Agent:A@n}", "b": "Agent:A@list", "c": "{sys.query}!", "d": {"e": null}});
        let script = "async function main(args) { console.log(Object.keys(args)); return {a: 1, args} }";
        let setting = || Setting {
            query: "`${x}` {Agent:A@n}",
            ..Setting::values([("Agent:A@n", json!(true)), ("Agent:A@list", json!([1, {"x": "\"'"}]))])
        };
        let found = outputs(&node(script, &json!({"arguments": given})), setting()).await;
        let args = json!({"a": true, "b": [1, {"x": "\"'"}], "c": "`${x}` {Agent:A@n}!", "d": {"e": null}});
        let stdout = "[\"a\",\"b\",\"c\",\"d\"]\n";
        assert_eq!(found, json!({"result": {"a": 1, "args": args}, "stdout": stdout}));
    }

    #[tokio::test]
    async fn the_text_of_a_program_is_unchanged() {
        let script = "function main() { return '{sys.query} {{Agent:A@n}}' }";
        let found = outputs(&node(script, &json!({})), Setting { query: "x", ..Setting::default() }).await;
        assert_eq!(found, json!({"result": "{sys.query} {{Agent:A@n}}"}));
        let fenced = "```js\nfunction main() { return '{sys.query}' }\n```";
        assert_eq!(
            outputs(&node(fenced, &json!({})), Setting::default()).await,
            json!({"result": "{sys.query}"})
        );
        let written = Setting::values([("Agent:A@code", json!("const main = () => 60*60"))]);
        assert_eq!(outputs(&node("{Agent:A@code}", &json!({})), written).await, json!({"result": 3600}));
    }

    #[tokio::test]
    async fn output_on_stderr_is_not_a_failure() {
        let script = "function main() { console.error('careful'); return 1 }";
        let found = outputs(&node(script, &json!({})), Setting::default()).await;
        assert_eq!(found, json!({"result": 1, "stderr": "careful\n"}));
    }

    #[tokio::test]
    async fn a_failure_has_position_reason_and_output() {
        let check = async |script: &str, params: &Json, parts: &[&str]| {
            let error = failure(&node(script, params), Setting::default()).await;
            for part in parts {
                assert!(error.full().contains(part), "{part}: {}", error.full());
            }
            error.kind
        };
        let script = "function main() {\n  console.log('so far');\n  return missing }";
        let parts = ["line 3: ReferenceError: missing", "it printed: so far", "main(args)"];
        assert_eq!(check(script, &json!({}), &parts).await, ErrorKind::Invalid);
        check("let x = 1", &json!({}), &["no function `main`"]).await;
        let python = json!({"lang": "python3"});
        let kind = check("def main(): return 1", &python, &["no sandbox for Python", "JavaScript"]).await;
        assert_eq!(kind, ErrorKind::Unsupported);
        let typed = json!({"outputs": {"n": {"type": "Number"}}});
        let parts = ["the output `n` must be Number", "the text `x`", "it printed: so far"];
        check("function main() { console.log('so far'); return {n: 'x'} }", &typed, &parts).await;
    }

    #[tokio::test]
    async fn another_sandbox_may_support_other_languages() {
        let source = "def main(**given): return given";
        let echo = |program: &weft_core::seam::sandbox::Program| Ran::silent(Ok(json!(program.arguments)));
        let python = Arc::new(ScriptedSandbox::new(&[Language::Python]).with(source, echo));
        let setting = || Setting { sandbox: Some(python.clone()), ..Setting::default() };
        // Canvases that name no language mean Python.
        let node = Node::new("CodeExec", json!({"script": source, "arguments": {"a": 1}}));
        assert_eq!(outputs(&node, setting()).await, json!({"result": {"a": 1}}));
        assert_eq!(python.seen()[0].language, Language::Python);
        let error = failure(&self::node(source, &json!({})), setting()).await;
        assert_eq!(error.kind, Failure::Language(Language::JavaScript).error(python.seen()[0].limits).kind);
    }

    #[tokio::test]
    async fn files_of_a_program_are_downloadable() {
        use weft_core::seam::sandbox::WrittenFile;

        let source = "open('chart.png', 'wb').write(b'PNG')";
        let files = |_: &weft_core::seam::sandbox::Program| Ran {
            files: vec![WrittenFile { name: "chart.png".to_owned(), base64: "UE5H".to_owned() }],
            ..Ran::silent(Ok(json!(3)))
        };
        let python = Arc::new(ScriptedSandbox::new(&[Language::Python]).with(source, files));
        let kept = Arc::new(weft_testkit::MemoryFiles::default());
        let store = Arc::clone(&kept);
        let setting = Setting {
            sandbox: Some(python),
            seams: Some(Box::new(move |seams| seams.files = store)),
            ..Setting::default()
        };
        let found = outputs(&Node::new("CodeExec", json!({"script": source})), setting).await;
        let file = kept.all().pop().unwrap();
        let path = format!("/api/v1/agents/attachments/{}/download", file.id);
        assert_eq!(found["attachments"], format!("![chart.png]({path})"));
        assert_eq!(
            found["artifacts"][0],
            json!({"doc_id": file.id, "filename": "chart.png", "mime_type": "image/png", "size": 3, "url": path})
        );
    }

    #[tokio::test]
    async fn without_a_sandbox_nothing_runs() {
        let setting = Setting { sandbox: Some(Arc::new(NoSandbox)), ..Setting::default() };
        let error = failure(&node("function main() {}", &json!({})), setting).await;
        assert_eq!(error.kind, ErrorKind::Denied);
    }

    #[test]
    fn mistyped_types_are_named() {
        let check = |kind: &str, expected: &str| {
            let outputs = json!({"n": {"type": kind}});
            let warnings = node("function main() {}", &json!({"outputs": outputs})).build().shape().warnings;
            let told: Vec<&str> = warnings.iter().filter_map(|warning| warning.help.as_deref()).collect();
            assert_eq!(told.join(" "), expected, "{kind}: {warnings:?}");
            assert!(warnings.iter().all(|warning| warning.pointer == "/outputs/n/type"));
        };
        for right in ["", "String", "Array<Object>", "array<array<number>>", "list<int>", "Any", "Arrays"] {
            check(right, "");
        }
        let all = "use `String`, `Number`, `Boolean`, `Object`, `Array<T>` or `Any`";
        for other in ["file", "decimal"] {
            check(other, all);
        }
        check("interger", "did you mean `integer`?");
        check("Array<Sting>", "did you mean `string`?");
        check("Arry<String>", "did you mean `array`?");
    }

    #[test]
    fn a_literal_program_is_known_in_advance() {
        let programs = |params: Json| Node::new("CodeExec", params).build().shape().programs;
        let script = "```python\ndef main(a): return a\n```";
        let known = programs(json!({"script": script, "arguments": {"a": 1}}));
        let [program] = known.as_slice() else { panic!("{known:?}") };
        assert_eq!(
            (program.language, program.arguments.as_slice()),
            (Language::Python, ["a".to_owned()].as_slice())
        );
        assert_eq!(program.text, "\ndef main(a): return a\n");
        assert_eq!(programs(json!({"script": "{Agent:A@code}"})), []);
        assert_eq!(programs(json!({"script": "def main(: pass"})), [], "this is reported already");
    }

    #[test]
    fn parameters_are_checked() {
        let problems = |params: Json| Node::new("CodeExec", params).problems();
        assert_eq!(problems(json!({})), ["/script"]);
        assert_eq!(
            problems(json!({"lang": "bash", "script": " ", "arguments": [1]})),
            ["/lang", "/script", "/arguments"]
        );
    }
}
