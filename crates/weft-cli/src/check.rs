//! `weft check`: reports all problems of canvases, with their positions.

use std::path::Path;

use weft_app::{App, ProgramChecks};
use weft_core::Json;
use weft_core::component::WrittenProgram;
use weft_core::seam::knowledge::Knowledge as _;
use weft_dsl::{CompileOptions, Compiled, Problem, WILL_FAIL};

use crate::args::CheckArgs;
use crate::chosen_tenant;
use crate::document::Document;
use crate::documents;
use crate::failure::{Exit, Failure, Outcome};
use crate::report::{Colour, Report};
use crate::screen::{Data, Notes};
use crate::setup::Setup;

/// Checks every file, even after one with errors.
///
/// # Errors
/// When a file cannot be read; the others are still reported.
pub(crate) async fn run(args: &CheckArgs, setup: &Setup) -> Outcome {
    // In memory, because a check stores nothing.
    let app =
        weft_app::assemble_in_memory(&setup.config).await.map_err(|error| Failure::before_running(&error))?;
    let names = weft_app::stored_names(&setup.config, &chosen_tenant::tenant()).await;
    let stored = match noted("datasets, secrets and memories", names) {
        Some(names) => Stored {
            datasets: noted("datasets", names.datasets),
            secrets: noted("secrets", names.secrets),
            memories: noted("memories", names.memories),
            ..Stored::default()
        },
        None => Stored::default(),
    };
    let mut reports = Vec::with_capacity(args.files.len());
    let mut worst = Exit::Done;
    for path in &args.files {
        match check(path, &app, setup, &stored).await {
            Ok(checked) => {
                if checked.problems.iter().any(|problem| args.strict || problem.is_error()) {
                    worst = Exit::Usage;
                }
                if args.json {
                    reports.push(Report::new(&checked.document).json(&checked.problems));
                } else {
                    show(&checked.document, &checked.problems, setup.colour);
                }
            }
            Err(failure) => {
                worst = Exit::Usage;
                crate::tell::tell(&failure);
                if let Failure::New { message, help, .. } = &failure {
                    reports.push(Report::unread(path, message, help.as_deref()));
                }
            }
        }
    }
    if args.json {
        let mut data = Data::stdout();
        data.line(&Json::from(reports).to_string())?;
        data.flush()?;
    }
    Ok(worst)
}

struct CheckedDocument {
    document: Document,
    problems: Vec<Problem>,
}

/// Names that a run here would find; `None` if the store cannot be read.
#[derive(Default)]
struct Stored {
    datasets: Option<Vec<String>>,
    memories: Option<Vec<String>>,
    secrets: Option<Vec<String>>,
    programs: ProgramChecks,
}

/// Returns the names of what canvases refer to; `None`, with a note, if they cannot be read from the store.
fn noted<T>(what: &str, names: weft_core::Result<T>) -> Option<T> {
    // A failure of the store is not an error of the canvas: the rest of it is checked.
    names.inspect_err(|error| Notes::line(format!("note: {what} are not checked: {}", error.detail()))).ok()
}

async fn check(path: &Path, app: &App, setup: &Setup, stored: &Stored) -> Outcome<CheckedDocument> {
    let document = Document::read(path)?;
    let beside = documents::dataset_beside(path);
    let datasets = stored.datasets.clone();
    // Documents next to the file are a dataset when it runs.
    let datasets = datasets.map(|stored| stored.into_iter().chain(beside).collect());
    let (secrets, memories) = (stored.secrets.clone(), stored.memories.clone());
    let mut stored = Stored { datasets, secrets, memories, ..Stored::default() };
    let found = |stored: &Stored| match compile_with(&document, app, setup, Measuring::No, stored) {
        Ok(compiled) => compiled.warnings,
        Err(problems) => problems,
    };
    let mut problems = found(&stored);
    let programs = std::mem::take(&mut stored.programs);
    if let Some(programs) = programs.parsed(&*app.sandbox, &chosen_tenant::tenant()).await {
        stored.programs = programs;
        problems = found(&stored);
    }
    Ok(CheckedDocument { document, problems })
}

fn show(document: &Document, problems: &[Problem], colour: Colour) {
    print(&Report::new(document).hiding(problems), document, problems, colour);
}

fn print(report: &Report<'_>, document: &Document, problems: &[Problem], colour: Colour) {
    problems.iter().for_each(|problem| Notes::coloured(&(report.render(problem, colour) + "\n")));
    Notes::line(format!("{}: {}", document.path.display(), summary(problems)));
}

fn summary(problems: &[Problem]) -> String {
    let errors = problems.iter().filter(|problem| problem.is_error()).count();
    let warnings = problems.len() - errors;
    // Not an error, because the canvas can be edited and stored; but no run of it completes.
    let fails = problems.iter().any(|problem| problem.code == WILL_FAIL);
    let count = |count, word| match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    };
    match (errors, warnings) {
        (0, 0) => "nothing is wrong".to_owned(),
        (0, warnings) if fails => format!("every run of it fails; {}", count(warnings, "warning")),
        (0, warnings) => format!("it can run; {}", count(warnings, "warning")),
        (errors, 0) => format!("it cannot run; {}", count(errors, "error")),
        (errors, warnings) => {
            format!("it cannot run; {}, {}", count(errors, "error"), count(warnings, "warning"))
        }
    }
}

/// Whether components for benchmarks are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measuring {
    /// They are.
    Yes,
    /// They are unknown.
    No,
}

/// Compiles a document into a plan.
///
/// # Errors
/// All problems, when any of them keeps the canvas from running.
pub(crate) fn compile(
    document: &Document,
    app: &App,
    setup: &Setup,
    measuring: Measuring,
) -> Result<Compiled, Vec<Problem>> {
    compile_with(document, app, setup, measuring, &Stored::default())
}

fn compile_with(
    document: &Document,
    app: &App,
    setup: &Setup,
    measuring: Measuring,
    stored: &Stored,
) -> Result<Compiled, Vec<Problem>> {
    let canvas = weft_dsl::load(&document.bytes)?;
    let models = |llm_id: &str| can_be_asked(llm_id, app);
    let servers = setup.config.mcp.servers.keys().map(String::as_str);
    let servers: Vec<String> = servers.chain(app.plugins.names()).map(str::to_owned).collect();
    let (left_out_tools, plugin_tools) = (app.left_out_tools(), app.plugin_tools());
    let no_voice = app.models.speech(&chosen_tenant::tenant(), "").err().map(|error| error.full());
    let rank =
        |id: &str| app.models.reranker_notice(&chosen_tenant::tenant(), id).map_err(|error| error.full());
    let parses = |program: &WrittenProgram| stored.programs.of(program);
    let options = CompileOptions {
        models: Some(&models),
        rerankers: Some(&rank),
        sql: Some(&weft_app::sql_refusals),
        programs: Some(&parses),
        no_voice: no_voice.as_deref(),
        tool_servers: Some(&servers),
        left_out_tools: &left_out_tools,
        plugin_tools: &plugin_tools,
        datasets: stored.datasets.as_deref(),
        memories: stored.memories.as_deref(),
        secrets: stored.secrets.as_deref(),
        measuring: measuring == Measuring::Yes,
    };
    weft_dsl::compile(&canvas, &app.catalog, &options)
}

/// Returns whether a model can be used, with a message if another one replaces it.
fn can_be_asked(llm_id: &str, app: &App) -> Result<Option<String>, String> {
    let tenant = chosen_tenant::tenant();
    app.models.resolve(&tenant, llm_id).map_err(|error| error.full())?;
    Ok(app.models.substitution(&tenant, llm_id))
}

/// Compiles a canvas for running; returns its plan with the warnings, or prints the errors.
///
/// # Errors
/// When it cannot run.
pub(crate) async fn must_run(document: &Document, app: &App, setup: &Setup) -> Outcome<Compiled> {
    let datasets = app.dataset_names(&chosen_tenant::tenant()).await?;
    let beside = documents::dataset_beside(&document.path);
    // The documents of the demo belong to no file.
    let added = app.beside.datasets().datasets(&chosen_tenant::tenant(), &[]).await?;
    let added = added.into_iter().map(|dataset| dataset.name);
    let datasets = datasets.map(|stored| stored.into_iter().chain(beside).chain(added).collect());
    let memories = Some(app.memory_names(&chosen_tenant::tenant()).await?);
    let mut stored = Stored { datasets, memories, ..Stored::default() };
    let compiled = |stored: &Stored| {
        compile_with(document, app, setup, Measuring::No, stored)
            .map_err(|problems| refused(document, problems, setup.colour))
    };
    let first = compiled(&stored)?;
    let programs = std::mem::take(&mut stored.programs);
    // In a box, because running an interpreter takes much state.
    match Box::pin(programs.parsed(&*app.sandbox, &chosen_tenant::tenant())).await {
        Some(programs) => {
            stored.programs = programs;
            compiled(&stored)
        }
        None => Ok(first),
    }
}

/// Prints the errors of a canvas that cannot run.
pub(crate) fn refused(document: &Document, mut problems: Vec<Problem>, colour: Colour) -> Failure {
    // Secrets are found by warnings, which are not shown, and may be on the line of an error.
    let report = Report::new(document).hiding(&problems);
    problems.retain(Problem::is_error);
    print(&report, document, &problems, colour);
    Failure::Reported(Exit::Usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries() {
        let check = |problems: &[Problem], expected| assert_eq!(summary(problems), expected);
        let error = || Problem::error("e", "", "wrong");
        let warning = || Problem::warning("w", "", "strange");
        let fails = || Problem::warning(WILL_FAIL, "", "not there");
        check(&[], "nothing is wrong");
        check(&[warning(), warning()], "it can run; 2 warnings");
        check(&[warning(), fails()], "every run of it fails; 2 warnings");
        check(&[error()], "it cannot run; 1 error");
        check(&[error(), fails(), error()], "it cannot run; 2 errors, 1 warning");
    }
}
