//! `weft serve`: the HTTP API.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use weft_app::{App, Auth};
use weft_core::seam::canvas_store::CanvasHead;
use weft_core::{CanvasId, CanvasKey};
use weft_server::ServeOptions;

use crate::args::ServeArgs;
use crate::check;
use crate::chosen_tenant;
use crate::document::Document;
use crate::documents;
use crate::failure::{Exit, Failure, Outcome};
use crate::idle;
use crate::local;
use crate::screen::Notes;
use crate::setup::Setup;
use crate::signals::stopped;
use crate::words::{plural, quoted};

/// Serves until it is stopped.
///
/// # Errors
/// When the address is in use, the data folder cannot be used, or a canvas has errors.
pub(crate) async fn run(args: &ServeArgs, setup: &Setup) -> Outcome {
    let agents = agents(&args.agents)?;
    let before = |error| Failure::before_running(&error);
    let listener = weft_server::bind(setup.config.listen).await.map_err(before)?;
    let app = weft_app::assemble(&setup.config).await.map_err(before)?;
    // Without tokens the server is for trials and benchmarks, so the components for benchmarks are available.
    let app = if setup.config.server.auth == Auth::Off { app.for_measuring() } else { app };
    if let Err(failure) = prepare(&app, &agents, setup).await {
        app.shut_down(Duration::ZERO).await?;
        return Err(failure);
    }
    // Before anybody learns that the server is there, and may stop it.
    let stopped = stopped();
    if let Ok(address) = listener.local_addr() {
        Notes::line(format!("The API is described at http://{address}/api/docs."));
        Notes::line(format!("Weft listens on http://{address}; Ctrl-C stops it."));
    }
    let options = ServeOptions::from(&setup.config);
    idle::between(Box::pin(weft_server::serve(app, listener, options, stopped))).await?;
    Notes::line("Stopped.");
    Ok(Exit::Done)
}

/// Stores the agents, and prints what callers need to know.
async fn prepare(app: &App, agents: &[(String, PathBuf)], setup: &Setup) -> Outcome<()> {
    store_all(app, agents, setup).await?;
    match setup.config.server.auth {
        Auth::Off => Notes::line("Authentication is off: everyone on this machine has full access."),
        Auth::On => tell_access(app, &setup.same_place).await?,
    }
    Notes::line(&setup.model);
    tell_unreadable_secrets(app).await
}

/// Reports secrets that no run can read. Otherwise this would be noticed only by the runs that need them.
async fn tell_unreadable_secrets(app: &App) -> Outcome<()> {
    let unreadable = app.secrets.unreadable(None).await?;
    if !unreadable.is_empty() {
        let secrets = plural(unreadable.len() as u64, "secret");
        Notes::line(format!(
            "{secrets} cannot be read, because the key is missing that encrypted them (`weft secret list` marks them): \
             restore the file `secrets.key`, or configure the key as `secrets.key`"
        ));
    }
    Ok(())
}

/// Prints how to get access: the first key of a new store, and the commands that create others. Keys are not stored, so
/// those that exist cannot be shown.
async fn tell_access(app: &App, place: &str) -> Outcome<()> {
    if let Some(token) = app.first_token().await? {
        Notes::line(format!("Token, shown this once: {}", token.reveal()));
    }
    Notes::line("Requests need an API key, sent as `Authorization: Bearer KEY`, or the sign-in of a user:");
    Notes::line(format!("  `weft token create NAME{place}` prints a new key;"));
    Notes::line(format!(
        "  `weft user create EMAIL --role owner{place}` creates a user, who signs in with a password."
    ));
    Ok(())
}

/// Stores and publishes agents, and loads the documents next to them.
///
/// # Errors
/// When a canvas has errors, or something cannot be read or stored.
pub(crate) async fn store_all(app: &App, agents: &[(String, PathBuf)], setup: &Setup) -> Outcome<()> {
    for (id, file) in agents {
        store(app, id, file, setup).await?;
    }
    Ok(())
}

/// Parses the flags `--agent ID=FILE`.
///
/// # Errors
/// When one does not name an agent and a file, or two name the same agent.
pub(crate) fn agents(pairs: &[OsString]) -> Outcome<Vec<(String, PathBuf)>> {
    let agents = pairs.iter().map(|pair| agent(pair)).collect::<Outcome<Vec<_>>>()?;
    for (at, (id, file)) in agents.iter().enumerate() {
        if agents[..at].iter().all(|(other, _)| other != id) {
            continue;
        }
        // Otherwise only the last of them would exist.
        let message = format!("--agent {} is given twice, again for {}", quoted(id), file.display());
        return Err(Failure::usage(message).help("give each agent an id of its own"));
    }
    Ok(agents)
}

/// Parses `ID=FILE`; the file's name need not be valid text.
fn agent(pair: &OsStr) -> Outcome<(String, PathBuf)> {
    let shown = pair.to_string_lossy();
    let refuse = || {
        Failure::usage(format!("--agent {} does not name an agent and a file", quoted(&shown)))
            .help("write --agent ID=FILE, such as --agent shop=canvases/customer_service/canvas.json")
    };
    let text = pair.to_str().ok_or_else(|| refuse().help("use names that are UTF-8"))?;
    let (id, file) =
        text.split_once('=').filter(|(id, file)| !id.is_empty() && !file.is_empty()).ok_or_else(refuse)?;
    Ok((id.to_owned(), PathBuf::from(file)))
}

/// Checks a canvas, stores it under an id and publishes it.
async fn store(app: &App, id: &str, file: &std::path::Path, setup: &Setup) -> Outcome<()> {
    let document = Document::read(file)?;
    let plan = check::must_run(&document, app, setup).await?.plan;
    let head = CanvasHead {
        title: id.to_owned(),
        source: local::source(file),
        permission: "me".to_owned(),
        ..CanvasHead::default()
    };
    documents::add_beside(app, &chosen_tenant::tenant(), file).await?;
    // The check above refuses what is not text.
    let text = document.text().unwrap_or_default();
    let key = CanvasKey::new(&chosen_tenant::tenant(), CanvasId::new(id));
    let before = |error| Failure::before_running(&error);
    let canvas = app.put_checked(&key, head, text, plan).await.map_err(before)?;
    // Agents named on the command line are to be offered to MCP clients as well.
    app.versions.publish(&canvas.key, &canvas.version).await.map_err(before)?;
    Ok(())
}
