//! A canvas file, and the data folder in which it is run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weft_app::App;
use weft_core::seam::canvas_store::CanvasHead;
use weft_core::seam::session_store::Session;
use weft_core::{CanvasId, CanvasKey, ErrorKind, Record, SessionId, SessionKey, TurnInput};
use weft_core::{Entry, RunKey, journal::WaitingForm};
use weft_dsl::{Compiled, Plan};
use weft_engine::{RunHandle, SessionState};

use crate::check;
use crate::chosen_tenant::tenant;
use crate::document::Document;
use crate::documents;
use crate::failure::{Failure, Outcome};
use crate::screen::Notes;
use crate::setup::Setup;
use crate::words::{must_be_no_step, plural, quoted};

/// How long runs may continue after the command is done; it has waited for its own.
const GRACE: Duration = Duration::from_millis(200);
/// Number of journal entries read in one batch.
pub(crate) const PAGE: u64 = 256;
/// Number of characters of a file's name that the id of its canvas contains.
const NAME_CHARS_MAX: usize = 60;

/// A canvas that was checked and stored, ready for turns.
pub(crate) struct Opened {
    /// The application.
    pub app: App,
    /// The key of the stored canvas.
    pub canvas: CanvasKey,
    file: PathBuf,
}

/// Checks a canvas and stores it in the data folder.
///
/// # Errors
/// When the file cannot be read, the canvas has errors (they are shown), or the data folder cannot
/// be used.
pub(crate) async fn open(setup: &Setup, file: &Path) -> Outcome<Opened> {
    let document = Document::read(file)?;
    let app = weft_app::assemble(&setup.config).await.map_err(|error| Failure::before_running(&error))?;
    let opened = match documents::add_beside(&app, &tenant(), file).await {
        Ok(()) => store(app.clone(), setup, &document).await,
        Err(failure) => Err(failure),
    };
    // Otherwise nothing closes the app.
    if opened.is_err() {
        app.shut_down(Duration::ZERO).await?;
    }
    opened
}

/// Checks a canvas and stores it in the store of `app`.
///
/// # Errors
/// As [`open`].
pub(crate) async fn store(app: App, setup: &Setup, document: &Document) -> Outcome<Opened> {
    let Compiled { plan, warnings } = check::must_run(document, &app, setup).await?;
    let warnings = warnings.len();
    // The canvas of the demo is usually no file that could be checked.
    if warnings > 0 && document.path.is_file() {
        let file = quoted(&document.path.to_string_lossy());
        let count = plural(warnings as u64, "warning");
        Notes::line(format!("note: {count} in this canvas; `weft check {file}` shows them"));
    }
    let id = canvas_id(&document.path);
    let head = CanvasHead {
        // Titles are unique, and so is the id.
        title: id.to_string(),
        source: source(&document.path),
        permission: "me".to_owned(),
        ..CanvasHead::default()
    };
    let canvas = CanvasKey::new(&tenant(), id);
    // With the plan of the check, so that the canvas is not compiled a second time.
    app.put_checked(&canvas, head, document.text().unwrap_or_default(), plan).await?;
    Ok(Opened { app, canvas, file: document.path.clone() })
}

/// Returns the path of a file that is stored with its canvas: independent of the folder in which a later command is
/// started.
pub(crate) fn source(file: &Path) -> String {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).to_string_lossy().into_owned()
}

/// Returns an id from the file's name and a hash that distinguishes files with the same name.
pub(crate) fn canvas_id(file: &Path) -> CanvasId {
    let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    // The canonical path, so that a link to the file leads to the same sessions.
    let whole = whole.canonicalize().unwrap_or(whole);
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    // Most are called `canvas.json`, and their folders distinguish them.
    let name =
        stem(&whole).filter(|name| name != "canvas").or_else(|| stem(whole.parent()?)).unwrap_or_default();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(NAME_CHARS_MAX).collect();
    CanvasId::new(format!("{name}-{:016x}", fnv(whole.as_os_str().as_encoded_bytes())))
}

/// Hashes with 64-bit FNV-1a, which is stable, unlike the standard library's hasher.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Opened {
    /// Returns the session with this id, creating it if necessary; without an id a new one.
    ///
    /// # Errors
    /// When the session belongs to another canvas, or the store cannot be used.
    pub(crate) async fn session(&self, id: Option<&str>) -> Outcome<Session> {
        let Some(id) = id else {
            return Ok(self.app.open_session(&self.canvas, "", None).await?);
        };
        let key = SessionKey::new(&self.canvas.tenant, id);
        let session = match self.app.sessions.load(&key).await {
            Ok(session) => session,
            Err(error) if error.kind == ErrorKind::NotFound => {
                must_be_no_step("a session", id)?;
                match self.app.open_session(&self.canvas, "", Some(SessionId::new(id))).await {
                    // Another command has just created it.
                    Err(error) if error.kind == ErrorKind::Conflict => self.app.sessions.load(&key).await?,
                    opened => return Ok(opened?),
                }
            }
            Err(error) => return Err(error.into()),
        };
        if session.canvas != self.canvas.id {
            let message = format!("session {id} belongs to another canvas, `{}`", session.canvas);
            return Err(Failure::usage(message).help("name that canvas's file, or another session"));
        }
        let newest = self.app.canvases.get(&self.canvas).await?.version;
        if session.canvas_version != newest {
            Notes::line(format!(
                "note: session {id} began with an earlier version of the canvas and continues with it"
            ));
        }
        Ok(session)
    }

    /// Returns the plan of the canvas version that the session uses.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn plan(&self, session: &Session) -> Outcome<Arc<Plan>> {
        Ok(self.app.plan(&self.canvas, &session.canvas_version).await?)
    }

    /// Starts a turn.
    ///
    /// # Errors
    /// When another turn of the session is under way, or the store cannot be used.
    pub(crate) async fn turn(&self, session: &SessionKey, input: TurnInput) -> Outcome<RunHandle> {
        Ok(self.app.start_turn(session, input).await?)
    }

    /// Returns the opening text of a session that has no other messages yet.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn prologue(&self, session: &Session) -> Outcome<String> {
        // Two messages suffice to tell whether the opening is the only one.
        let mut said = self.app.sessions.messages(&session.key, i64::MAX, 2).await?;
        Ok(match (said.pop(), said.is_empty()) {
            (Some(opening), true) if opening.run.is_none() => opening.content,
            _ => String::new(),
        })
    }

    /// Returns the forms for which a session waits.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn waiting(&self, session: &Session) -> Outcome<Vec<WaitingForm>> {
        let Some(paused) = SessionState::from_json(&session.state)?.paused else { return Ok(Vec::new()) };
        let key = RunKey::new(&session.key.tenant, paused.run.clone());
        let mut forms = Vec::new();
        each_entry(&self.app, &key, |entry| {
            if let Record::Waiting { forms: asked } = entry.record {
                forms = asked;
            }
            Ok(())
        })
        .await?;
        Ok(forms)
    }

    /// Returns the command that continues a session.
    pub(crate) fn command(&self, verb: &str, session: &SessionId, setup: &Setup) -> String {
        let file = quoted(&self.file.to_string_lossy());
        let session = quoted(session.as_str());
        format!("weft {verb} {file} --session {session}{}{}", setup.same_model, setup.same_place)
    }

    /// Closes the app, writing pending data.
    ///
    /// # Errors
    /// When the store cannot be closed.
    pub(crate) async fn close(&self) -> Outcome<()> {
        Ok(self.app.shut_down(GRACE).await?)
    }
}

/// Reads a run's journal from its beginning.
///
/// # Errors
/// When there is no such run, the store cannot be read, or `each` fails.
pub(crate) async fn each_entry(
    app: &App,
    run: &RunKey,
    mut each: impl FnMut(Entry) -> Outcome<()>,
) -> Outcome<()> {
    let mut after = 0;
    loop {
        let page = app.runs.entries(run, after, PAGE).await?;
        let Some(last) = page.last().map(|entry| entry.seq) else { return Ok(()) };
        for stored in page {
            let record =
                serde_json::from_str(&weft_core::masking::shown(&stored.record)).map_err(|error| {
                    Failure::failed(format!("cannot read entry {} of run {}: {error}", stored.seq, run.id))
                        .help("it was written by another version of Weft")
                })?;
            each(Entry { seq: stored.seq, event: stored.event, at_ms: stored.at_ms, record })?;
        }
        after = last;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    #[tokio::test]
    async fn two_simultaneous_starts_create_one_session() {
        let app = weft_app::assemble_in_memory(&weft_app::Config::default()).await.unwrap();
        let component = |kind: &str, params: Json, downstream: &[&str]| {
            let object = json!({"component_name": kind, "params": params});
            json!({"obj": object, "downstream": downstream, "upstream": []})
        };
        let dsl = json!({"components": {
            "begin": component("Begin", json!({}), &["Message:M"]),
            "Message:M": component("Message", json!({"content": ["hello"]}), &[]),
        }});
        let head = CanvasHead { title: "hello".to_owned(), ..CanvasHead::default() };
        let (stored, _) = app.put_canvas(&tenant(), None, head, &dsl.to_string()).await.unwrap();
        let opened = Opened { app, canvas: stored.key, file: PathBuf::from("hello.json") };
        let (one, other) = tokio::join!(opened.session(Some("s")), opened.session(Some("s")));
        assert_eq!(one.unwrap().key, other.unwrap().key);
        opened.close().await.unwrap();
    }

    #[test]
    fn the_canvas_id_of_a_file_is_readable_and_unique() {
        let id = |path: &str| canvas_id(Path::new(path)).to_string();
        assert!(id("/x/shop/canvas.json").starts_with("shop-"));
        assert!(id("/x/über uns.json").starts_with("_ber_uns-"));
        assert_ne!(id("/x/a.json"), id("/y/a.json"));
        assert_eq!(id("/x/a.json"), id("/x/a.json"));
        assert_eq!(fnv(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
