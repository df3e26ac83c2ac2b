//! Skills in a folder become tools.

use std::path::Path;
use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::{Value as Json, json};
use weft_core::context::RunContext;
use weft_core::seam::Seams;
use weft_core::seam::sandbox::{Language, NoSandbox, Ran};
use weft_core::tool::{Invocation, ToolStep};
use weft_core::{ErrorKind, Result, ToolOutput};
use weft_plugins::Plugins;
use weft_testkit::ScriptedSandbox;
use weft_testkit::around::{no_seams, node_context, run_context};

const SCRIPT: &str = "def main(n): return n + 1";

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn invoices() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let start = "---\nname: invoice-check\ndescription: Checks invoices\nallowed-tools: Bash(*) Write\n---\n# Steps\n1. Add up.\n";
    write(
        folder.path(),
        &[
            ("invoice-check/SKILL.md", start),
            ("invoice-check/references/rates.md", "19 %"),
            ("invoice-check/scripts/sum.py", SCRIPT),
            ("invoice-check/.git/config", "secret"),
            ("notes/readme.txt", "no skill"),
            ("secret.txt", "not of the skill"),
        ],
    );
    #[cfg(unix)]
    std::os::unix::fs::symlink(
        folder.path().join("secret.txt"),
        folder.path().join("invoice-check/link.txt"),
    )
    .unwrap();
    folder
}

async fn called(folder: &Path, arguments: Json) -> Result<ToolOutput> {
    let plugins = Plugins::open(folder, &NoSandbox).await.unwrap();
    let tool = Arc::clone(&plugins.get("invoice-check").unwrap().tools()[0]);
    let sandbox = ScriptedSandbox::new(&[Language::Python]).with(SCRIPT, |program| Ran {
        stdout: "added".to_owned(),
        ..Ran::silent(Ok(json!(program.arguments["n"].as_i64().unwrap() + 1)))
    });
    let seams = Seams { sandbox: Arc::new(sandbox), ..no_seams() };
    let (agent, _signals) = node_context(RunContext { seams: Arc::new(seams), ..run_context() });
    let arguments = arguments.as_object().unwrap().clone();
    let invocation = Invocation { id: "1".to_owned(), arguments, agent: Arc::new(agent), resumed: None };
    match tool.body.call(invocation).next().await.unwrap()? {
        ToolStep::Done(output) => Ok(output),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_skill_is_disclosed_progressively() {
    let folder = invoices();
    let plugins = Plugins::open(folder.path(), &NoSandbox).await.unwrap();
    let tool = &plugins.get("invoice-check").unwrap().tools()[0];
    // What every request contains: the purpose and the list of skills, none of the instructions.
    assert!(tool.description.contains("Checks invoices."), "{}", tool.description);
    assert!(!tool.description.contains("Add up"));
    assert_eq!(
        tool.parameters["properties"]["file"]["enum"],
        json!(["references/rates.md", "scripts/sum.py"])
    );
    assert_eq!(tool.parameters["properties"]["script"]["enum"], json!(["scripts/sum.py"]));
    assert!(!tool.traits.approval && tool.traits.idempotent);
    let told = called(folder.path(), json!({})).await.unwrap().to_text();
    assert!(told.starts_with("# Steps\n1. Add up.\n\nFiles of the skill"), "{told}");
    assert_eq!(
        called(folder.path(), json!({"file": "references/rates.md"})).await.unwrap().to_text(),
        "19 %"
    );
    let ran =
        called(folder.path(), json!({"script": "scripts/sum.py", "arguments": {"n": 1}})).await.unwrap();
    assert_eq!(ran.to_json(), json!({"result": 2, "stdout": "added"}));
}

#[tokio::test]
async fn nothing_outside_the_skill_is_read_or_run() {
    let folder = invoices();
    for path in [
        "../secret.txt",
        "/etc/hostname",
        "link.txt",
        ".git/config",
        "SKILL.md",
        "references/../../secret.txt",
        "nosuch.py",
        "scripts/../SKILL.md",
        "./scripts/sum.py",
        "scripts//sum.py",
        "scripts\\sum.py",
        "scripts/sum.py\0",
        "scripts/sum.py/",
        "SCRIPTS/SUM.PY",
        "scripts",
        "file:///etc/hostname",
        "~/.profile",
        "../../invoice-check/scripts/sum.py",
        "%2e%2e/secret.txt",
    ] {
        for key in ["file", "script"] {
            let error = called(folder.path(), json!({key: path})).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::NotFound, "{key} {path}");
        }
    }
    let error = called(folder.path(), json!({"script": "references/rates.md"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    write(folder.path(), &[("invoice-check/references/rates.md", &"x".repeat(2 << 20))]);
    let error = called(folder.path(), json!({"file": "references/rates.md"})).await.unwrap_err();
    assert!(!error.full().contains(&*folder.path().to_string_lossy()), "{}", error.full());
}

#[tokio::test]
async fn an_invalid_skill_is_named() {
    let refused = async |files: &[(&str, &str)]| {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), files);
        Plugins::open(folder.path(), &NoSandbox).await.unwrap_err().full()
    };
    let error =
        refused(&[("a/SKILL.md", "# No start"), ("b/SKILL.md", "---\nname: c\ndescription: x\n---\n")]).await;
    assert!(error.contains("a/SKILL.md: its front matter is missing"), "{error}");
    assert!(error.contains("b/SKILL.md: the skill is called `c`"), "{error}");
    let whole = "---\nname: weather\ndescription: x\n---\n";
    let document = crate::documents::weather().to_string();
    let error = refused(&[("weather/SKILL.md", whole), ("weather.json", &document)]).await;
    assert!(error.contains("another plugin is also called weather"), "{error}");
}
