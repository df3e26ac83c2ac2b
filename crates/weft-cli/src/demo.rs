//! `weft demo`: the sample customer service, asked about its documents. Everything stays in memory.

use std::future::ready;
use std::path::PathBuf;
use std::time::Duration;

use weft_app::templates::template;
use weft_core::TurnInput;
use weft_core::id::DatasetKey;
use weft_core::journal::Ending;

use crate::args::DemoArgs;
use crate::chosen_tenant;
use crate::document::Document;
use crate::documents;
use crate::failure::{Exit, Failure, Outcome};
use crate::follow::{Show, follow};
use crate::local::{self, Opened};
use crate::progress::Progress;
use crate::run::conclude;
use crate::screen::{Data, Notes};
use crate::setup::Setup;
use crate::sources;

/// The template that it uses, and the dataset that its canvas searches.
const TEMPLATE: &str = "customer_service";
/// Its path in the repository.
const CANVAS_PATH: &str = "canvases/customer_service/canvas.json";

/// Questions that are asked if none is given.
const QUESTIONS: [&str; 3] = [
    "Within how many days may I return a bicycle?",
    "When is the workshop open on Saturday?",
    "Can I pay in instalments?",
];

/// Asks the sample canvas.
///
/// # Errors
/// When it cannot start, or standard output is closed.
pub(crate) async fn run(args: &DemoArgs, setup: &Setup) -> Outcome {
    let app =
        weft_app::assemble_in_memory(&setup.config).await.map_err(|error| Failure::before_running(&error))?;
    let shown = template(TEMPLATE).ok_or_else(|| Failure::failed("the template of the demo is missing"))?;
    let shipped =
        shown.documents.iter().map(|(name, bytes)| ((*name).to_owned(), ready(Ok((*bytes).into()))));
    documents::add(&app, &DatasetKey::new(&chosen_tenant::tenant(), TEMPLATE), shipped).await?;
    let document = Document { path: PathBuf::from(CANVAS_PATH), bytes: shown.dsl.as_bytes().to_vec() };
    let opened = local::store(app, setup, &document).await?;
    Notes::line(format!(
        "A bicycle shop's customer service answers from {} documents. {}\n\
         Another model: --model NAME, with a key in the environment or an entry in weft.toml.",
        shown.documents.len(),
        setup.model
    ));
    let questions = match &args.question {
        Some(question) => vec![question.as_str()],
        None => QUESTIONS.to_vec(),
    };
    let mut worst = Exit::Done;
    for question in questions {
        let (exit, ending) = ask(&opened, question).await?;
        // The first failure determines the exit code.
        worst = if worst == Exit::Done { exit } else { worst };
        // Ctrl-C was pressed, so the others are not wanted either.
        if ending == Some(Ending::Cancelled) {
            break;
        }
    }
    Notes::line(format!(
        "\nAsk your own: weft demo \"QUESTION\". Copy the canvas: weft new FOLDER --template {TEMPLATE}\n\
         Run your own: weft run FILE --query QUESTION"
    ));
    opened.app.shut_down(Duration::ZERO).await?;
    Ok(worst)
}

/// Asks a question; returns the exit code and how the run ended.
async fn ask(opened: &Opened, question: &str) -> Outcome<(Exit, Option<Ending>)> {
    Notes::line(format!("\n? {question}"));
    let session = opened.session(None).await?;
    let handle =
        opened.turn(&session.key, TurnInput { query: question.to_owned(), ..TurnInput::default() }).await?;
    let mut data = Data::stdout();
    let answer = follow(handle, Show::Answer, &mut data, &mut Progress::for_people()).await?;
    data.text(&sources::lines(&answer.cited))?;
    let ending = answer.end.as_ref().map(|end| end.ending);
    Ok((conclude(&answer, String::new), ending))
}
