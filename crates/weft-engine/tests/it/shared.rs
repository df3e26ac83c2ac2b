//! Existing canvases: every agent runs to its end on a scripted model, or up to the node that lacks something,
//! and names it; pipelines report that they need a file.

use std::path::{Path, PathBuf};

use weft_core::ErrorKind;
use weft_core::journal::Ending;
use weft_models::script::{Reply, Script};
use weft_testkit::fake_http::FakeHttp;

use crate::kit::asking;
use crate::real::{World, compiled};

/// Agents that need neither a tool nor a dataset and must finish.
const WHOLE: [&str; 3] =
    ["categorize_and_agent_with_tavily", "image_lingo", "retrieval_categorize_and_generate"];

pub(crate) fn folder() -> Option<PathBuf> {
    let near = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/canvases/ragflow");
    let given = std::env::var_os("WEFT_SHARED").map(|shared| PathBuf::from(shared).join("canvases/ragflow"));
    given.into_iter().chain([near]).find(|path| path.is_dir())
}

#[tokio::test(start_paused = true)]
async fn existing_agents_finish_or_report_what_is_missing() {
    let Some(folder) = folder() else {
        weft_testkit::skipped("there is no folder of existing canvases (WEFT_SHARED)");
        return;
    };
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let mut summary = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let plan = match compiled(&std::fs::read_to_string(&file).unwrap()) {
            Ok(plan) => plan,
            Err(problems) => panic!("{name}: {problems:#?}"),
        };
        let world = World::new(Script::new().reply(Reply::text("an answer").always()), FakeHttp::new());
        let ran = world.hold(&plan, [asking("a question")]).await.remove(0);
        let error = ran.report.error.as_ref();
        match (ran.report.ending, error) {
            (Ending::Succeeded, _) => assert!(!ran.report.said.is_empty(), "{name}: {:#?}", ran.log()),
            (Ending::Failed, Some(error)) => {
                assert!(!WHOLE.contains(&name.as_str()), "{name}: {}", error.full());
                let expected = [
                    ErrorKind::Unsupported,
                    ErrorKind::NotFound,
                    ErrorKind::Invalid,
                    ErrorKind::Unauthenticated,
                ];
                assert!(expected.contains(&error.kind), "{name}: {}", error.full());
                let told = |id: &str| {
                    error.message.contains(&format!("({id}) failed"))
                        || error.message.starts_with(&format!("{id} failed"))
                };
                let named = ran.started().iter().any(|id| told(id));
                assert!(named, "{name} says where: {}", error.full());
            }
            (other, _) => panic!("{name}: {other:?}"),
        }
        summary.push(format!(
            "{name}: {} {}",
            ran.report.ending.as_str(),
            error.map(|e| e.full()).unwrap_or_default()
        ));
    }
    println!("{}", summary.join("\n"));
    assert!(summary.len() >= 21);
}
