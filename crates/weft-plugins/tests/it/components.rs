//! WebAssembly components in the folder of plugins. The sandbox is scripted here; weft-sandbox runs real ones.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value as Json, json};
use weft_core::context::RunContext;
use weft_core::seam::sandbox::{Failure, NoSandbox, WasmCall};
use weft_core::seam::{Sandbox, Seams};
use weft_core::tool::{Invocation, ToolStep};
use weft_core::{Result, ToolOutput};
use weft_plugins::Plugins;
use weft_testkit::around::{no_seams, node_context, run_context};
use weft_testkit::{ScriptedSandbox, WasmToolText};

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn sandbox(
    called: impl Fn(&str) -> std::result::Result<String, Failure> + Send + Sync + 'static,
) -> ScriptedSandbox {
    ScriptedSandbox::new(&[]).with_wasm(move |call| match call {
        WasmCall::Describe => Ok(WasmToolText::ECHO.to_owned()),
        WasmCall::Call(arguments) => called(arguments),
    })
}

async fn called(sandbox: ScriptedSandbox) -> Result<ToolOutput> {
    let folder = folder(&[("say.wasm", "")]);
    let plugins = Plugins::open(folder.path(), &sandbox).await.unwrap();
    let tool = Arc::clone(&plugins.get("say").unwrap().tools()[0]);
    let seams = Seams { sandbox: Arc::new(sandbox), ..no_seams() };
    let (agent, _signals) = node_context(RunContext { seams: Arc::new(seams), ..run_context() });
    let arguments = json!({"text": "hello"}).as_object().unwrap().clone();
    let invocation = Invocation { id: "1".to_owned(), arguments, agent: Arc::new(agent), resumed: None };
    match tool.body.call(invocation).next().await.unwrap()? {
        ToolStep::Done(output) => Ok(output),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_component_is_a_tool_that_runs_in_the_sandbox() {
    let folder = folder(&[("say.wasm", ""), ("say.toml", "approval = true\nseconds = 3")]);
    let plugins = Plugins::open(folder.path(), &sandbox(|_| Ok(String::new()))).await.unwrap();
    let tool = &plugins.get("say").unwrap().tools()[0];
    assert_eq!((tool.name.as_str(), tool.description.as_str()), ("echo", "Says what it is told."));
    assert_eq!(tool.parameters["properties"]["text"], json!({"type": "string"}));
    assert!(tool.traits.approval && tool.traits.time_limit >= Duration::from_secs(3));

    let output = called(sandbox(|arguments| Ok(format!("{arguments}!")))).await.unwrap();
    assert_eq!(output, ToolOutput::text("{\"text\":\"hello\"}!"));
}

#[tokio::test]
async fn a_failed_call_reports_why() {
    for (failure, words) in [
        (
            Failure::Program { message: "no such city".to_owned(), line: None },
            "the tool failed: no such city",
        ),
        (Failure::Time, "ran longer than 1 second"),
        (Failure::Memory, "more than 16 MiB"),
        (Failure::Broken, "crashed its interpreter"),
    ] {
        let error = called(sandbox(move |_| Err(failure.clone()))).await.unwrap_err().full();
        assert!(error.contains(words), "{error}");
    }
    let error = called(sandbox(|_| Ok("x".repeat(1 << 20)))).await.unwrap_err().full();
    assert!(error.contains("65536 bytes"), "{error}");
}

async fn refused(files: &[(&str, &str)], sandbox: &dyn Sandbox) -> String {
    Plugins::open(folder(files).path(), sandbox).await.unwrap_err().full()
}

#[tokio::test]
async fn a_component_that_is_not_a_tool_prevents_the_start_by_name() {
    let says = |said: Json| ScriptedSandbox::new(&[]).with_wasm(move |_| Ok(said.to_string()));
    let bad = says(json!({"name": "two words", "description": "d", "parameters": {"type": "object"}}));
    let error = refused(&[("a.wasm", ""), ("b.wasm", "")], &bad).await;
    for part in ["a.wasm: `two words` is not a valid tool name", "b.wasm: `two words`"] {
        assert!(error.contains(part), "{error}");
    }
    let endless = ScriptedSandbox::new(&[]).with_wasm(|_| Err(Failure::Time));
    assert!(
        refused(&[("a.wasm", "")], &endless)
            .await
            .contains("its description cannot be obtained: the program ran longer")
    );
    let error = refused(&[("a.wasm", "")], &NoSandbox).await;
    assert!(error.contains("a.wasm") && error.contains("sandbox"), "{error}");
    let error = refused(&[("a.wasm", ""), ("a.toml", "headers = {}")], &says(json!({}))).await;
    assert!(error.contains("a.toml: unknown field `headers`"), "{error}");
    let error = refused(&[("a.wasm", ""), ("a.toml", "seconds = 0")], &says(json!({}))).await;
    assert!(error.contains("from 1 to 3600"), "{error}");
}

#[tokio::test]
async fn two_plugins_of_one_name_prevent_the_start() {
    let skill = "---\nname: say\ndescription: x\n---\n";
    let sandbox = sandbox(|_| Ok(String::new()));
    let document = crate::documents::weather().to_string();
    for files in
        [[("say.wasm", ""), ("say.json", document.as_str())], [("say.wasm", ""), ("say/SKILL.md", skill)]]
    {
        let error = refused(&files, &sandbox).await;
        assert!(error.contains("another plugin is also called say"), "{error}");
    }
}
