//! Evals that are ready to run: the file, the canvas and the data set are read and checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_app::App;
use weft_core::{CanvasId, SessionId, SessionKey};
use weft_dsl::{CompileOptions, Plan};
use weft_eval::dataset::{self, Format, Row};
use weft_eval::file::{Case, EvalFile, FILE_BYTES_MAX, Invalid, RecordedCase};
use weft_eval::{FileReport, Mode, Subject, judge, record};

use super::output;
use crate::check;
use crate::chosen_tenant::tenant;
use crate::document::Document;
use crate::failure::{Failure, Outcome};
use crate::setup::Setup;
use crate::{check::Measuring, documents};

/// An eval that is ready to run.
pub(super) struct Loaded {
    path: PathBuf,
    text: String,
    file: EvalFile,
    /// The canvas to run.
    pub subject: Subject,
    /// The cases to run.
    pub cases: Vec<Case>,
}

impl Loaded {
    /// Reads an eval and everything it refers to.
    ///
    /// # Errors
    /// What is wrong with any of it; problems of the canvas are printed.
    pub(super) async fn read(path: &Path, app: &App, setup: &Setup, mode: Mode) -> Outcome<Self> {
        let shown = path.display();
        let told = |invalid: Invalid| refused(&format!("the eval {shown}"), invalid);
        let text = read_text(path)?;
        let file = EvalFile::parse(&text).map_err(told)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let rows = file.dataset.as_ref().map(|of| rows(&folder.join(&of.file))).transpose()?;
        let cases = file.cases(rows.as_deref()).map_err(told)?;
        let canvas = folder.join(&file.canvas);
        if !canvas.is_file() {
            let message =
                format!("the eval {shown} names the canvas {}, which does not exist", canvas.display());
            return Err(Failure::usage(message).help("`canvas` is relative to the folder of the eval"));
        }
        let subject = subject(&canvas, app, setup, mode).await?;
        cases.iter().try_for_each(|case| subject.check(case)).map_err(told)?;
        Ok(Self { path: path.to_owned(), text, file, subject, cases })
    }

    /// Keeps the cases whose file or name contains a text.
    pub(super) fn keep(&mut self, text: &str) {
        let file = self.path.to_string_lossy().into_owned();
        self.cases.retain(|case| file.contains(text) || case.name.contains(text));
    }

    /// Returns a report without cases.
    pub(super) fn report(&self) -> FileReport {
        let (about, pass) = (self.file.about.clone(), self.file.pass);
        FileReport { file: self.path.to_string_lossy().into_owned(), about, pass, cases: Vec::new() }
    }

    /// Writes the recordings into the file. Recordings of cases that were not run stay if only some were selected,
    /// and are removed if their case no longer exists.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn update(&self, report: &FileReport, filter: Option<&str>) -> Outcome<()> {
        let new = |name: &str| report.cases.iter().find(|case| case.case == name)?.recorded.clone();
        let mut recorded: Vec<RecordedCase> = Vec::new();
        for old in &self.file.recorded {
            let runs = self.cases.iter().any(|case| case.name == old.case);
            match new(&old.case) {
                Some(new) => recorded.push(new),
                // If only some cases run, the others keep their recordings.
                None if runs || filter.is_some() => recorded.push(old.clone()),
                None => {}
            }
        }
        for case in report.cases.iter().filter_map(|case| case.recorded.as_ref()) {
            if !recorded.iter().any(|known| known.case == case.case) {
                recorded.push(case.clone());
            }
        }
        let text = record::with_recorded(&self.text, &recorded)
            .map_err(|invalid| refused(&format!("the eval {}", self.path.display()), invalid))?;
        output::write(&self.path, &text)
    }
}

/// Converts the error in a file into a failure.
pub(super) fn refused(what: &str, Invalid { message, help }: Invalid) -> Failure {
    let failure = Failure::usage(format!("{what}: {message}"));
    match help {
        Some(help) => failure.help(help),
        None => failure,
    }
}

fn read_text(path: &Path) -> Outcome<String> {
    let shown = path.display();
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::usage(format!("there is no file {shown}")).help("`weft eval record` writes an eval")
        }
        std::io::ErrorKind::InvalidData => Failure::usage(format!("{shown} is not valid UTF-8")),
        _ => Failure::usage(format!("cannot read {shown}: {error}")),
    };
    // Its size is checked first, so that a file that is too large is never in memory.
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > FILE_BYTES_MAX as u64 {
        return Err(Failure::usage(format!("{shown} is larger than {} MiB", FILE_BYTES_MAX >> 20)));
    }
    std::fs::read_to_string(path).map_err(failed)
}

fn rows(path: &Path) -> Outcome<Vec<Row>> {
    let what = format!("the data set {}", path.display());
    let Some(format) = Format::of(&path.to_string_lossy()) else {
        return Err(Failure::usage(format!("{what} is neither .csv nor .jsonl")));
    };
    dataset::rows(&read_text(path)?, format).map_err(|invalid| refused(&what, invalid))
}

/// Compiles a canvas to run.
///
/// # Errors
/// When it cannot run; the problems are printed.
pub(super) async fn subject(canvas: &Path, app: &App, setup: &Setup, mode: Mode) -> Outcome<Subject> {
    let document = Document::read(canvas)?;
    let plan = match mode {
        Mode::Live => {
            documents::add_beside(app, &tenant(), canvas).await?;
            check::compile(&document, app, setup, Measuring::No).map(|compiled| compiled.plan)
        }
        // Neither its models nor its MCP servers need to exist.
        Mode::Recorded => compiled(&document.bytes, app),
    };
    let plan = plan.map_err(|problems| check::refused(&document, problems, setup.colour))?;
    let judging = app.clone();
    Ok(Subject {
        engine: app.engine.clone(),
        plan: Arc::new(plan),
        canvas: CanvasId::new("eval"),
        // A constant id, so that values a canvas derives from its session are the same in each recording.
        session: SessionKey::new(&tenant(), SessionId::new("eval")),
        judge: Arc::new(move |llm_id| {
            let bytes = judge::canvas(llm_id).to_string().into_bytes();
            compiled(&bytes, &judging)
                .map(Arc::new)
                .map_err(|problems| weft_app::checking::refusal(&problems).full())
        }),
    })
}

fn compiled(bytes: &[u8], app: &App) -> Result<Plan, Vec<weft_dsl::Problem>> {
    let canvas = weft_dsl::load(bytes)?;
    let options = CompileOptions::default();
    weft_dsl::compile(&canvas, &app.catalog, &options).map(|compiled| compiled.plan)
}
