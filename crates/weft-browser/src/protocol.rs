//! The connection to a browser: the Chrome DevTools Protocol, as JSON over two pipes, each message ended by a zero
//! byte.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use weft_core::{Error, ErrorKind, Json, Result};

/// Maximum size of a message, in bytes.
const MESSAGE_MAX: u64 = 64 << 20;
/// Maximum number of messages that wait to be written.
const WAITING: usize = 64;
/// Time limit for a response of the browser.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(15);
/// Maximum number of notes that are stored until they are read.
const NOTES_MAX: usize = 20;
/// Maximum length of a note, in characters.
const NOTE_LETTERS: usize = 300;
/// Maximum number of concurrent downloads; further ones are cancelled.
const DOWNLOADS_MAX: usize = 16;

/// The progress of a download.
#[derive(Clone, Debug)]
pub(crate) struct DownloadProgress {
    /// The name of its file in the folder of downloads.
    pub guid: String,
    /// The name that the page gives it.
    pub name: String,
    /// Bytes so far.
    pub received: u64,
    /// `inProgress`, `completed` or `canceled`.
    pub state: String,
}

/// Events in the browser that no command has caused directly.
#[derive(Debug, Default)]
pub(crate) struct BrowserEvents {
    /// Notes for the model, such as the text of dialogs.
    pub notes: Vec<String>,
    /// Downloads.
    pub downloads: Vec<DownloadProgress>,
    /// Windows that pages have opened, oldest first.
    pub opened: Vec<String>,
    /// Pages that have been started, with the sessions in which their dialogs are answered.
    attached: Vec<(String, String)>,
}

type Answer = std::result::Result<Json, String>;

#[derive(Default)]
struct ConnectionState {
    /// Callers that wait for a response, by its id; absent once the browser has ended.
    waiting: Mutex<Option<HashMap<u64, oneshot::Sender<Answer>>>>,
    happened: Mutex<BrowserEvents>,
}

/// A connection to a browser. Dropping it closes the connection.
pub(crate) struct Connection {
    to: mpsc::Sender<String>,
    shared: Arc<ConnectionState>,
    next: AtomicU64,
    _work: JoinSet<()>,
}

impl Connection {
    pub(crate) fn new(to_browser: Sender, from_browser: Receiver) -> Self {
        // A map from the start, because `None` means that the browser has ended.
        let shared = Arc::new(ConnectionState {
            waiting: Mutex::new(Some(HashMap::new())),
            ..ConnectionState::default()
        });
        let (to, outgoing) = mpsc::channel(WAITING);
        let mut work = JoinSet::new();
        work.spawn(write(to_browser, outgoing));
        work.spawn(read(from_browser, Arc::clone(&shared), to.clone()));
        Self { to, shared, next: AtomicU64::new(1), _work: work }
    }

    /// Sends a command and returns its result; `session` is that of the page it concerns.
    ///
    /// # Errors
    /// `Unavailable` when the browser has ended; `Timeout` when it does not respond; `Invalid` with its message when
    /// the command fails.
    pub(crate) async fn ask(&self, session: Option<&str>, method: &str, params: Json) -> Result<Json> {
        // Relaxed: only the number itself is shared through it.
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let (sender, answer) = oneshot::channel();
        // Before the command is sent, so that its response always finds a receiver.
        match &mut *lock(&self.shared.waiting) {
            Some(waiting) => waiting.insert(id, sender),
            None => return Err(ended()),
        };
        let exchange = async {
            self.to.send(message.to_string()).await.map_err(|_| ended())?;
            answer.await.map_err(|_| ended())
        };
        let answer = tokio::time::timeout(ANSWER_LIMIT, exchange).await;
        // Also after a timeout or the end of the browser, when no response has removed it.
        if let Some(waiting) = &mut *lock(&self.shared.waiting) {
            waiting.remove(&id);
        }
        let Ok(answer) = answer else {
            let seconds = ANSWER_LIMIT.as_secs();
            return Err(Error::new(
                ErrorKind::Timeout,
                format!("the page gives no answer within {seconds} s"),
            ));
        };
        answer?.map_err(|words| Error::invalid(format!("the browser cannot do it: {words}")))
    }

    /// Returns the events so far. Callers remove what they have processed.
    pub(crate) fn happened(&self) -> MutexGuard<'_, BrowserEvents> {
        lock(&self.shared.happened)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ended() -> Error {
    Error::new(ErrorKind::Unavailable, "the browser has ended").help(
        "a page may have used more memory than `browser.memory_bytes` allows, or stored more than \
         `browser.stored_bytes` allows",
    )
}

async fn write(mut to_browser: Sender, mut outgoing: mpsc::Receiver<String>) {
    while let Some(message) = outgoing.recv().await {
        let mut bytes = message.into_bytes();
        bytes.push(0);
        if to_browser.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn read(from_browser: Receiver, shared: Arc<ConnectionState>, to: mpsc::Sender<String>) {
    let mut from_browser = BufReader::new(from_browser);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let said = (&mut from_browser).take(MESSAGE_MAX).read_until(0, &mut bytes).await;
        // Without the zero byte it is the end of the stream, or a message that is too long, whose rest cannot be told
        // from the next message.
        if !said.is_ok_and(|count| count > 0) || bytes.pop() != Some(0) {
            break;
        }
        let Ok(message) = serde_json::from_slice::<Json>(&bytes) else { break };
        if let Some(id) = message["id"].as_u64() {
            let waiting = lock(&shared.waiting).as_mut().and_then(|waiting| waiting.remove(&id));
            if let Some(waiting) = waiting {
                // The caller may have been dropped.
                drop(waiting.send(answer(message)));
            }
        } else {
            let replies = lock(&shared.happened).note(&message);
            for reply in replies {
                // Not waited for: the browser may not read on before this side has read what it writes.
                // If the queue is full, the dialog of the page stays open, or a download too many goes on: what is stored
                // has a limit of its own.
                drop(to.try_send(reply.to_string()));
            }
        }
    }
    // Drops all senders, so that callers do not wait for a response that cannot arrive.
    *lock(&shared.waiting) = None;
}

fn answer(mut message: Json) -> Answer {
    match message.get("error") {
        Some(error) => Err(error["message"].as_str().unwrap_or("it says no more").to_owned()),
        None => Ok(message["result"].take()),
    }
}

impl BrowserEvents {
    /// Records an event, and returns the commands that it requires.
    fn note(&mut self, event: &Json) -> Vec<Json> {
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Target.attachedToTarget") => self.let_begin(params),
            Some("Target.detachedFromTarget") => {
                self.attached.retain(|(_, session)| params["sessionId"] != session.as_str());
                Vec::new()
            }
            Some(_) => self.answered(event).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Starts a page that waits for the debugger, after enabling its events: a dialog shown before would not be
    /// reported, and the page would wait for its answer forever.
    fn let_begin(&mut self, params: &Json) -> Vec<Json> {
        if params["waitingForDebugger"] != true {
            return Vec::new();
        }
        let (info, session) = (&params["targetInfo"], &params["sessionId"]);
        if let (Some(target), Some(session)) = (info["targetId"].as_str(), session.as_str())
            && info["type"] == "page"
            && self.attached.len() < NOTES_MAX
        {
            self.attached.push((target.to_owned(), session.to_owned()));
        }
        ["Page.enable", "Runtime.runIfWaitingForDebugger"]
            .map(|method| json!({"id": 0, "sessionId": session, "method": method, "params": {}}))
            .into()
    }

    /// Takes the session in which a page was started.
    pub(crate) fn session_of(&mut self, target: &str) -> Option<String> {
        let place = self.attached.iter().position(|(known, _)| known == target)?;
        Some(self.attached.swap_remove(place).1)
    }

    fn answered(&mut self, event: &Json) -> Option<Json> {
        let params = &event["params"];
        let text = |name: &str| params[name].as_str().unwrap_or_default().to_owned();
        match event["method"].as_str()? {
            "Page.javascriptDialogOpening" => {
                let (kind, message) = (text("type"), text("message"));
                // An alert needs no decision, and a page that asks for confirmation before it is left is left.
                let accept = matches!(kind.as_str(), "alert" | "beforeunload");
                let became = if accept { "accepted" } else { "declined" };
                self.say(&format!("a dialog ({kind}) was {became}: {message}"));
                let params = json!({"accept": accept});
                // Ids of commands start at 1; nobody waits for the response to this one.
                Some(json!({
                    "id": 0, "sessionId": event["sessionId"], "method": "Page.handleJavaScriptDialog", "params": params
                }))
            }
            "Target.targetCreated" => {
                let info = &params["targetInfo"];
                // Only pages opened by another page: those opened from here are attached to by their opener.
                if info["type"] == "page" && info.get("openerId").is_some() && self.opened.len() < NOTES_MAX {
                    self.opened.extend(info["targetId"].as_str().map(str::to_owned));
                }
                None
            }
            "Browser.downloadWillBegin" => {
                let guid = text("guid");
                // A page may start any number of downloads, and each is stored until it is taken.
                if self.downloads.len() >= DOWNLOADS_MAX {
                    // Nobody would limit its size, nor remove its file.
                    let params = json!({"guid": guid});
                    return Some(json!({"id": 0, "method": "Browser.cancelDownload", "params": params}));
                }
                let (name, state) = (text("suggestedFilename"), "inProgress".to_owned());
                self.downloads.push(DownloadProgress { guid, name, received: 0, state });
                None
            }
            "Browser.downloadProgress" => {
                let guid = text("guid");
                let download = self.downloads.iter_mut().find(|download| download.guid == guid)?;
                let received = params["receivedBytes"].as_f64().unwrap_or(0.0);
                // A count of bytes in a JSON number.
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a count of bytes"
                )]
                let received = received.max(0.0) as u64;
                (download.received, download.state) = (received, text("state"));
                None
            }
            _ => None,
        }
    }

    /// Takes the downloads if all have ended.
    ///
    /// # Errors
    /// Those in progress, while there are any; nothing is taken then.
    pub(crate) fn take_downloads(
        &mut self,
    ) -> std::result::Result<Vec<DownloadProgress>, Vec<DownloadProgress>> {
        // Under one lock, so that none that begins meanwhile is removed unseen.
        let going = self.downloads.iter().filter(|download| download.state == "inProgress");
        let going: Vec<_> = going.cloned().collect();
        if going.is_empty() { Ok(std::mem::take(&mut self.downloads)) } else { Err(going) }
    }

    /// Stores a note, truncated to its maximum length, if there is room.
    pub(crate) fn say(&mut self, note: &str) {
        // Further ones are dropped: a page can produce any number of them, and a model reads them all.
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note.chars().take(NOTE_LETTERS).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unprompted_page_actions_are_recorded_within_limits() {
        let mut happened = BrowserEvents::default();
        let dialog = |kind: &str| {
            json!({"method": "Page.javascriptDialogOpening", "sessionId": "S",
                "params": {"type": kind, "message": "x".repeat(1_000)}})
        };
        let reply = happened.note(&dialog("confirm")).remove(0);
        assert_eq!((&reply["sessionId"], &reply["params"]["accept"]), (&json!("S"), &json!(false)));
        assert_eq!(happened.note(&dialog("alert"))[0]["params"]["accept"], true);
        let kinds = ["a dialog (confirm) was declined: x", "a dialog (alert) was accepted: x"];
        assert!(happened.notes.iter().zip(kinds).all(|(note, kind)| note.starts_with(kind)));
        for place in 0..1_000 {
            drop(happened.note(&dialog("alert")));
            let begun = json!({"method": "Browser.downloadWillBegin",
                "params": {"guid": place.to_string(), "suggestedFilename": "f"}});
            drop(happened.note(&begun));
            let opened = json!({"method": "Target.targetCreated",
                "params": {"targetInfo": {"type": "page", "openerId": "a", "targetId": "b"}}});
            drop(happened.note(&opened));
        }
        assert_eq!((happened.notes.len(), happened.downloads.len(), happened.opened.len()), (20, 16, 20));
        assert!(happened.notes.iter().all(|note| note.chars().count() <= NOTE_LETTERS));
        let done = json!({"method": "Browser.downloadProgress",
            "params": {"guid": "3", "receivedBytes": 12.0, "state": "completed"}});
        drop(happened.note(&done));
        assert_eq!((happened.downloads[3].received, happened.downloads[3].state.as_str()), (12, "completed"));
    }

    #[test]
    fn downloads_are_taken_when_all_have_ended() {
        let mut happened = BrowserEvents::default();
        let mut event = |method: &str, guid: usize, state: &str| {
            let params = json!({"guid": guid.to_string(), "suggestedFilename": "f", "state": state});
            happened.note(&json!({"method": method, "params": params}))
        };
        for guid in 0..DOWNLOADS_MAX {
            assert!(event("Browser.downloadWillBegin", guid, "").is_empty());
        }
        let refused = event("Browser.downloadWillBegin", DOWNLOADS_MAX, "");
        let expected = (&json!("Browser.cancelDownload"), &json!(DOWNLOADS_MAX.to_string()));
        assert_eq!((&refused[0]["method"], &refused[0]["params"]["guid"]), expected);
        for guid in 1..DOWNLOADS_MAX {
            drop(event("Browser.downloadProgress", guid, "completed"));
        }
        let going = happened.take_downloads().unwrap_err();
        assert_eq!((going.len(), going[0].guid.as_str(), happened.downloads.len()), (1, "0", DOWNLOADS_MAX));
        let ended =
            json!({"method": "Browser.downloadProgress", "params": {"guid": "0", "state": "canceled"}});
        drop(happened.note(&ended));
        assert_eq!((happened.take_downloads().unwrap().len(), happened.downloads.len()), (DOWNLOADS_MAX, 0));
    }

    #[test]
    fn a_page_starts_after_its_dialogs_are_reported() {
        let mut happened = BrowserEvents::default();
        let attached = |target: &str, waiting: bool| {
            json!({"method": "Target.attachedToTarget", "params": {"sessionId": format!("of {target}"),
                "targetInfo": {"type": "page", "targetId": target}, "waitingForDebugger": waiting}})
        };
        let replies = happened.note(&attached("a", true));
        let told: Vec<_> = replies.iter().map(|reply| (&reply["method"], &reply["sessionId"])).collect();
        let (enable, run, session) =
            (json!("Page.enable"), json!("Runtime.runIfWaitingForDebugger"), json!("of a"));
        assert_eq!(told, [(&enable, &session), (&run, &session)]);
        // A page attached by this side has started already.
        assert!(happened.note(&attached("b", false)).is_empty());
        assert_eq!(happened.session_of("b"), None);
        assert_eq!(happened.session_of("a").as_deref(), Some("of a"));
        assert_eq!(happened.session_of("a"), None);
        // Pages without a number are allowed to start but not kept, and a closed one is forgotten.
        for place in 0..1_000 {
            assert_eq!(happened.note(&attached(&place.to_string(), true)).len(), 2);
        }
        assert_eq!(happened.attached.len(), NOTES_MAX);
        let gone = json!({"method": "Target.detachedFromTarget", "params": {"sessionId": "of 3"}});
        assert!(happened.note(&gone).is_empty());
        assert_eq!(happened.session_of("3"), None);
    }
}
