//! canvas JSON → plan → run → components → events → API: **the program**
//!
//! Reads the command line, the settings and the environment, which no other crate does, and passes their values on.
//! Data goes to standard output, messages for people to standard error.

mod args;
mod audit;
mod backup;
mod chat;
mod check;
mod chosen_tenant;
mod components;
mod dataset;
mod demo;
mod document;
mod documents;
mod eval;
mod failure;
mod follow;
mod form;
mod idle;
mod lines;
mod listed;
mod local;
mod logging;
mod made;
mod mcp;
mod measure;
mod model_files;
mod models;
mod pins;
mod plugins;
mod progress;
mod report;
mod run;
mod runs;
mod schedule;
mod screen;
mod secret;
mod serve;
mod settings;
mod settings_line;
mod settings_page;
mod settings_parts;
mod settings_removal;
mod setup;
mod sign_in;
mod signals;
mod sources;
mod spending;
mod store_place;
mod tasks;
mod tell;
mod templates;
mod tenant;
mod token;
mod trust;
mod unheard;
mod usage;
mod user;
mod words;
mod worker;
mod wrong_value;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command, RunArgs, RunsCommand, ScheduleCommand, TasksCommand};
use crate::failure::{Exit, Failure, Outcome};
use crate::report::Colour;
use crate::runs::Needs;
use crate::screen::{Data, Notes};
use crate::settings::{Environment, Flags};
use crate::setup::Setup;
use crate::tell::tell;

fn main() -> ExitCode {
    // Before anything is started or opened.
    match std::env::args_os().nth(1) {
        Some(word) if word == settings::SANDBOX_WORKER => return weft_app::sandbox_work(),
        Some(word) if word == settings::DOCUMENT_WORKER => return weft_app::document_work(),
        _ => {}
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            show(&error);
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8));
        }
    };
    idle::limit_heaps();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return ended(Err(Failure::failed(format!("cannot start: {error}")))),
    };
    let outcome = runtime.block_on(async {
        let _too_large = keep_from_ending();
        Box::pin(command(&cli)).await
    });
    // A thread may still wait for the terminal.
    runtime.shutdown_background();
    ended(outcome)
}

/// The signal for writing beyond the file size limit, which has the same number on Linux and macOS.
#[cfg(unix)]
const FILE_TOO_LARGE: i32 = 25;

/// Handles the signal, so that reaching the file size limit is a write error, as on a full disk, and does not end the
/// process.
#[cfg(unix)]
fn keep_from_ending() -> Option<tokio::signal::unix::Signal> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::from_raw(FILE_TOO_LARGE)).ok()
}

#[cfg(not(unix))]
fn keep_from_ending() {}

/// Prints help and version to standard output, everything else to standard error; a closed pipe is ignored.
fn show(error: &clap::Error) {
    let text = error.render();
    if !error.use_stderr() {
        let mut data = Data::stdout();
        // The exit code does not depend on whether anybody reads it.
        drop(data.text(&text.to_string()));
    } else if Colour::for_people(&Environment::of_process()) == Colour::On {
        Notes::coloured(&numbers_in_words(&text.ansi().to_string()));
    } else {
        Notes::text(&numbers_in_words(&text.to_string()));
    }
}

/// Replaces what the standard library says about an invalid number, which is about its types, in a message.
fn numbers_in_words(message: &str) -> String {
    message
        .replace("invalid digit found in string", "it must be a whole number")
        .replace("number too large to fit in target type", "the number is too large")
        .replace("number too small to fit in target type", "the number is too small")
        .replace("invalid float literal", "it must be a number")
}

fn ended(outcome: Outcome) -> ExitCode {
    let exit = outcome.unwrap_or_else(|failure| {
        tell(&failure);
        failure.exit()
    });
    ExitCode::from(exit as u8)
}

/// Log filter of commands that follow a run: they report its failure themselves.
const QUIET: &str = "error,weft_engine=off";

/// Returns the settings from the command line.
fn flags(cli: &Cli) -> Flags {
    let common = &cli.common;
    let mut flags = Flags {
        config: common.config.clone(),
        data: common.data.clone(),
        needs_store: store_place::is_needed(&cli.command),
        ..Flags::default()
    };
    match &cli.command {
        Command::Demo(args) => flags.model.clone_from(&args.model),
        Command::Run(args) => {
            flags.model.clone_from(&args.model);
            flags.one_server.clone_from(&args.measuring.llm_base_url);
        }
        Command::Chat(args) => flags.model.clone_from(&args.model),
        Command::Runs { command: RunsCommand::Resume(args) } => flags.model.clone_from(&args.model),
        Command::Runs { command: RunsCommand::Fork(args) } => flags.model.clone_from(&args.model),
        Command::Tasks(args) => {
            if let Some(TasksCommand::Answer(answer)) = &args.command {
                flags.model.clone_from(&answer.model);
            }
        }
        Command::Serve(args) => {
            flags.listen = args.listen;
            flags.no_auth = args.no_auth;
        }
        _ => {}
    }
    flags
}

async fn command(cli: &Cli) -> Outcome {
    let environment = Environment::of_process();
    let flags = flags(cli);
    let serves = matches!(cli.command, Command::Serve(_) | Command::Worker(_));
    let level = if serves { "warn,weft_app=info,weft_server=info,weft_engine=info" } else { QUIET };
    logging::start(&environment, level);
    settings::set_fault_point(&environment)?;
    let with_models = || Setup::read(&environment, &flags);
    let without = || Setup::without_models(&environment, &flags);
    let of_store = || Setup::of_store(&environment, &flags);
    match &cli.command {
        Command::Demo(args) => demo::run(args, &Setup::read(&environment, &flags).await?).await,
        Command::Components(args) => components::run(args),
        Command::Settings(args) => settings_page::run(args, &environment, &flags),
        Command::Schema(args) => components::schema(args),
        Command::Check(args) => check::run(args, &Setup::read(&environment, &flags).await?).await,
        Command::Run(args) => run_or_measure(args, &Setup::read(&environment, &flags).await?).await,
        Command::Chat(args) => chat::run(args, &Setup::read(&environment, &flags).await?).await,
        Command::Dataset { tenant, command } => {
            chosen_tenant::choose(tenant)?;
            let setup = if dataset::asks_models(command) { with_models().await? } else { without()? };
            // The large ones are boxed: this future has room for the largest of all.
            Box::pin(dataset::run(command, &setup)).await
        }
        Command::Runs { command } => {
            let setup = match runs::needs(command) {
                Needs::Models => with_models().await?,
                Needs::Settings => without()?,
                Needs::Store => of_store()?,
            };
            runs::run(command, &setup).await
        }
        Command::Spending(args) => spending::run(args, &of_store()?).await,
        Command::Usage(args) => usage::run(args, &of_store()?).await,
        Command::Eval(args) => Box::pin(eval::run(args, &environment, flags)).await,
        Command::Tasks(args) => {
            let setup = match &args.command {
                Some(TasksCommand::Answer(_)) => with_models().await?,
                _ => without()?,
            };
            tasks::run(args, &setup).await
        }
        Command::Plugins(args) => plugins::run(args, &Setup::without_models(&environment, &flags)?).await,
        Command::Mcp(args) => Box::pin(mcp::run(args, &environment, &flags)).await,
        Command::Schedule { tenant, command } => {
            chosen_tenant::choose(tenant)?;
            let setup = match command {
                // A canvas from a file is checked, for which the models must be known.
                ScheduleCommand::Add(_) => with_models().await?,
                ScheduleCommand::List(_) | ScheduleCommand::Show(_) => of_store()?,
                _ => without()?,
            };
            schedule::run(command, &setup).await
        }
        Command::Trust(args) => trust::run(args, &environment).await,
        Command::Backup(args) => backup::run(args, &of_store()?).await,
        Command::Templates(args) => templates::list(args),
        Command::New(args) => templates::new(args),
        Command::Secret { command } => secret::run(command, &of_store()?).await,
        Command::Models { command } => {
            model_files::run(command, &Setup::without_models(&environment, &flags)?)
        }
        Command::Token { command } => token::run(command, &of_store()?).await,
        Command::User { command } => user::run(command, &of_store()?).await,
        Command::Tenant { command } => tenant::run(command, &of_store()?).await,
        Command::Audit(args) => audit::run(args, &of_store()?).await,
        Command::Worker(args) => Box::pin(worker::run(args, &Setup::read(&environment, &flags).await?)).await,
        Command::Serve(args) => Box::pin(serve::run(args, &Setup::read(&environment, &flags).await?)).await,
    }
}

async fn run_or_measure(args: &RunArgs, setup: &Setup) -> Outcome {
    if args.measuring.bench_json { measure::run(args, setup).await } else { run::run(args, setup).await }
}
