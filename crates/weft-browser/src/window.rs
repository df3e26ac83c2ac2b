//! A window: the actions in it, and its views.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};
use url::Url;
use weft_core::seam::Http as _;
use weft_core::seam::browser::{BrowserAction, BrowserWindow, Download, PageView};
use weft_core::seam::file_store::plain_name;
use weft_core::{Error, ErrorKind, Json, Result, TenantId, async_trait};
use weft_net::{GuardProxy, Outbound};

use crate::process::{Started, WindowFolders};

const LOOK: &str = include_str!("look.js");
/// Returns where an element is after scrolling to it; null if it has no place or is covered.
const PLACE: &str = "function () {
  this.scrollIntoView({ block: 'center', inline: 'center' });
  const rect = this.getClientRects()[0];
  if (!rect) return null;
  let x = rect.x + rect.width / 2, y = rect.y + rect.height / 2;
  const top = this.getRootNode().elementFromPoint(x, y);
  if (!top || !(this.contains(top) || top.contains(this))) return null;
  for (let frame = this.ownerDocument.defaultView.frameElement; frame; frame = frame.ownerDocument.defaultView.frameElement) {
    const outer = frame.getBoundingClientRect();
    x += outer.x + frame.clientLeft; y += outer.y + frame.clientTop;
  }
  return [x, y];
}";
/// Clears a field into which letters are typed, or sets one with a picker; returns true if it is to be typed into,
/// `choose` if it is a list of options.
const FILL: &str = "function (text) {
  this.focus();
  if (this.tagName === 'SELECT') return 'choose';
  const tell = () => ['input', 'change'].forEach((name) => this.dispatchEvent(new Event(name, { bubbles: true })));
  const chosen = ['date', 'time', 'month', 'week', 'datetime-local', 'color', 'range'];
  if ('value' in this && (text === '' || chosen.includes(this.type))) {
    const kind = this.tagName === 'TEXTAREA' ? HTMLTextAreaElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(kind.prototype, 'value').set.call(this, text);
    tell();
    return false;
  }
  if (this.select) this.select(); else this.ownerDocument.execCommand('selectAll');
  return true;
}";
/// Selects an option of a list; returns false if there is none such.
const CHOOSE: &str = "function (wanted) {
  const options = Array.from(this.options || []);
  const same = (text) => text.trim().toLowerCase() === wanted.trim().toLowerCase();
  const option = options.find((o) => same(o.text)) || options.find((o) => same(o.value));
  if (!option) return false;
  option.selected = true;
  ['input', 'change'].forEach((name) => this.dispatchEvent(new Event(name, { bubbles: true })));
  return true;
}";
/// Interval at which it is checked whether a page has settled.
const PAUSE: Duration = Duration::from_millis(150);
/// Maximum time until a page has settled; after that, it is read regardless.
const REST_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for downloads.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(60);
/// Time limit for a browser to write what pages have stored; after that, it is killed.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of open pages in a window.
const PAGES_MAX: usize = 8;
/// Maximum number of milliseconds of one wait.
const WAIT_MAX: u64 = 10_000;

/// A page of the window.
struct BrowserPage {
    target: String,
    session: String,
}

pub(crate) struct Window {
    started: Started,
    tenant: TenantId,
    outbound: Arc<Outbound>,
    pages: Vec<BrowserPage>,
    /// The isolated world of our scripts in the page that was last read.
    world: Option<i64>,
    download_bytes: u64,
    held: WindowResources,
}

/// What a window holds for as long as it is open.
pub(crate) struct WindowResources {
    /// Its profile and its downloads.
    pub(crate) place: WindowFolders,
    /// The proxy for all of its connections.
    pub(crate) _proxy: GuardProxy,
    /// Its slot among the windows that may be open.
    pub(crate) _turn: OwnedSemaphorePermit,
}

impl Window {
    pub(crate) fn new(
        started: Started,
        tenant: TenantId,
        outbound: Arc<Outbound>,
        held: WindowResources,
    ) -> Self {
        Self { started, tenant, outbound, pages: Vec::new(), world: None, download_bytes: 0, held }
    }

    /// Configures the browser before the first action.
    pub(crate) async fn begin(&mut self, download_bytes: u64, notes: Vec<String>) -> Result<()> {
        self.download_bytes = download_bytes;
        let folder = self.held.place.downloads();
        let downloads = json!({"behavior": "allowAndName", "downloadPath": folder, "eventsEnabled": true});
        let begun = async {
            // All before the first page, so that none of its downloads and windows is missed.
            self.browser("Browser.setDownloadBehavior", downloads).await?;
            self.browser("Target.setDiscoverTargets", json!({"discover": true})).await?;
            // A page that another one opens is paused until its dialogs are observed.
            let waiting = json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true});
            self.browser("Target.setAutoAttach", waiting).await
        };
        begun.await.map_err(|error| match error.kind {
            ErrorKind::Unavailable => {
                Error::new(ErrorKind::Unavailable, "the web browser exits immediately after its start")
                    .help("as root it requires `browser.sandbox = false`; better run Weft as another user")
            }
            _ => error,
        })?;
        self.restore_cookies().await;
        self.new_page().await?;
        self.started.connection.happened().notes.extend(notes);
        Ok(())
    }

    /// Restores the cookies that the browser has forgotten.
    async fn restore_cookies(&self) {
        let Some(path) = self.held.place.session_cookies() else { return };
        // No such file: no page has stored any cookies yet.
        let Ok(bytes) = tokio::fs::read(path).await else { return };
        let Ok(cookies) = serde_json::from_slice::<Json>(&bytes) else { return };
        // Without them, pages ask for a sign-in again, and say so themselves.
        drop(self.browser("Storage.setCookies", json!({"cookies": cookies})).await);
    }

    /// Stores session cookies: to pages, the turns of a conversation are one visit.
    async fn keep_cookies(&self) {
        let Some(path) = self.held.place.session_cookies() else { return };
        let Ok(mut answer) = self.browser("Storage.getCookies", json!({})).await else { return };
        let Json::Array(mut cookies) = answer["cookies"].take() else { return };
        cookies.retain(|cookie| cookie["session"] == true);
        drop(tokio::fs::write(path, Json::Array(cookies).to_string()).await);
    }

    async fn browser(&self, method: &str, params: Json) -> Result<Json> {
        self.started.connection.ask(None, method, params).await
    }

    async fn page(&self, method: &str, params: Json) -> Result<Json> {
        let page = self.pages.last().ok_or_else(|| Error::invalid("no page is open"))?;
        self.started.connection.ask(Some(&page.session), method, params).await
    }

    async fn new_page(&mut self) -> Result<()> {
        let target = self.browser("Target.createTarget", json!({"url": "about:blank"})).await?;
        self.attach(text(&target["targetId"])).await
    }

    async fn attach(&mut self, target: String) -> Result<()> {
        // Read before the await: the lock must not be held while waiting for the browser.
        let begun = self.started.connection.happened().session_of(&target);
        let session = match begun {
            Some(session) => session,
            None => {
                let params = json!({"targetId": target, "flatten": true});
                text(&self.browser("Target.attachToTarget", params).await?["sessionId"])
            }
        };
        self.pages.push(BrowserPage { target, session });
        self.world = None;
        // Otherwise a page that opens one window after another would use more and more memory.
        if self.pages.len() > PAGES_MAX {
            let oldest = self.pages.remove(0);
            self.browser("Target.closeTarget", json!({"targetId": oldest.target})).await?;
        }
        self.page("Page.enable", json!({})).await.map(drop)
    }

    /// Closes the front page; if it was the last, an empty one replaces it.
    async fn close_page(&mut self) -> Result<()> {
        if let Some(page) = self.pages.pop() {
            // It may have closed itself.
            drop(self.browser("Target.closeTarget", json!({"targetId": page.target})).await);
        }
        self.world = None;
        if self.pages.is_empty() { self.new_page().await } else { Ok(()) }
    }

    /// Evaluates one of our scripts in the page.
    async fn script(&mut self, script: &str) -> Result<Json> {
        // An isolated world: scripts of the page can neither see nor replace the values of ours.
        let world = match self.world {
            Some(world) => world,
            None => self.enter().await?,
        };
        let params = json!({"expression": script, "contextId": world, "returnByValue": true});
        self.page("Runtime.evaluate", params).await.map(|mut answer| answer["result"]["value"].take())
    }

    async fn enter(&mut self) -> Result<i64> {
        let frame = self.pages.last().map(|page| page.target.clone());
        let entered =
            self.page("Page.createIsolatedWorld", json!({"frameId": frame, "worldName": "weft"})).await?;
        let world = entered["executionContextId"].as_i64();
        let world = world.ok_or_else(|| Error::internal("the browser provides no context for scripts"))?;
        self.world = Some(world);
        Ok(world)
    }

    /// Returns the element with a number of the last view.
    async fn element(&self, number: usize) -> Result<Json> {
        let gone = || {
            Error::invalid(format!("there is no element [{number}] on the page"))
                .help("use a number that the page shows now; read it again if it has changed")
        };
        // Without a world, the page was not read since it changed, and a number would refer to another element.
        let world = self.world.ok_or_else(gone)?;
        let script = format!("globalThis.weft && weft[{number}]?.isConnected ? weft[{number}] : null");
        let found = self.page("Runtime.evaluate", json!({"expression": script, "contextId": world})).await;
        let found = found.map_err(|error| if error.kind == ErrorKind::Invalid { gone() } else { error })?;
        let object = &found["result"]["objectId"];
        if object.is_null() { Err(gone()) } else { Ok(object.clone()) }
    }

    /// Calls a function on an element and returns its result.
    async fn on(&self, element: &Json, function: &str, arguments: Json) -> Result<Json> {
        let params = json!({
            "objectId": element, "functionDeclaration": function, "arguments": arguments, "returnByValue": true,
            "userGesture": true,
        });
        self.page("Runtime.callFunctionOn", params).await.map(|mut answer| answer["result"]["value"].take())
    }

    async fn carry_out(&mut self, action: BrowserAction) -> Result<()> {
        match action {
            BrowserAction::Look => Ok(()),
            BrowserAction::Wait(millis) => {
                // The window and its slot are held meanwhile.
                sleep(Duration::from_millis(millis.min(WAIT_MAX))).await;
                Ok(())
            }
            BrowserAction::Open(url) => self.open(&url).await,
            BrowserAction::Back => self.back().await,
            BrowserAction::Scroll(screens) => {
                let screens = screens.clamp(-100, 100);
                self.script(&format!("scrollBy(0, {screens} * 0.9 * innerHeight)")).await.map(drop)
            }
            BrowserAction::Click(number) => {
                let element = self.element(number).await?;
                self.click(&element).await
            }
            BrowserAction::Write { element, text, submit } => {
                let element = self.element(element).await?;
                let filled = self.on(&element, FILL, json!([{"value": text}])).await?;
                if filled == "choose" {
                    self.choose(&element, &text).await?;
                } else if filled == true {
                    // As typed by a person: pages that ignore values set by a script handle this.
                    self.page("Input.insertText", json!({"text": text})).await?;
                }
                if submit { self.enter_key().await } else { Ok(()) }
            }
            BrowserAction::Choose { element, option } => {
                let element = self.element(element).await?;
                self.choose(&element, &option).await
            }
            BrowserAction::Upload { element, name, bytes } => {
                let element = self.element(element).await?;
                // The name comes from the model, and must not lead out of the folder.
                let path = self.held.place.uploads().join(plain_name(&name));
                tokio::fs::write(&path, bytes)
                    .await
                    .map_err(|cause| Error::internal("cannot pass a file to the browser").because(cause))?;
                self.page("DOM.setFileInputFiles", json!({"files": [path], "objectId": element}))
                    .await
                    .map(drop)
            }
        }
    }

    /// Selects an option of a list by its text or its value.
    async fn choose(&self, element: &Json, option: &str) -> Result<()> {
        if self.on(element, CHOOSE, json!([{"value": option}])).await? == true {
            return Ok(());
        }
        Err(Error::invalid(format!("the element is not a list with the option `{option}`")))
    }

    async fn open(&mut self, url: &str) -> Result<()> {
        let parsed = Url::parse(url.trim()).map_err(|cause| {
            Error::invalid(format!("`{url}` is not the address of a page")).because(cause)
        })?;
        // The proxy would refuse it as well, but the browser would only report that a tunnel failed.
        self.outbound.may_reach(&self.tenant, parsed.as_str()).await?;
        let opened = self.page("Page.navigate", json!({"url": parsed.as_str()})).await?;
        match opened["errorText"].as_str() {
            // Navigation to a download is aborted.
            None | Some("net::ERR_ABORTED") => Ok(()),
            Some(words) => {
                Err(Error::new(ErrorKind::Unavailable, format!("`{parsed}` cannot be opened: {words}")))
            }
        }
    }

    async fn back(&mut self) -> Result<()> {
        let history = self.page("Page.getNavigationHistory", json!({})).await?;
        let before = history["currentIndex"].as_u64().unwrap_or(0).checked_sub(1);
        let before =
            before.and_then(|place| usize::try_from(place).ok()).map(|place| &history["entries"][place]);
        match before {
            Some(entry) if entry["url"] != "about:blank" => {
                self.page("Page.navigateToHistoryEntry", json!({"entryId": entry["id"]})).await.map(drop)
            }
            _ if self.pages.len() > 1 => self.close_page().await,
            _ => Err(Error::invalid("there is no page to go back to")),
        }
    }

    async fn click(&self, element: &Json) -> Result<()> {
        // Clicks where a person would: some pages listen to the mouse and not to `click`.
        let place = self.on(element, PLACE, json!([])).await?;
        let Json::Array(place) = place else {
            // It is covered, or has no place of its own.
            return self.on(element, "function () { this.click(); }", json!([])).await.map(drop);
        };
        let [x, y] = [&place[0], &place[1]];
        // The movement first: pages show menus when the mouse is over them.
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let params = json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": 1});
            self.page("Input.dispatchMouseEvent", params).await?;
        }
        Ok(())
    }

    async fn enter_key(&self) -> Result<()> {
        for kind in ["keyDown", "keyUp"] {
            let mut params =
                json!({"type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13});
            if kind == "keyDown" {
                // Without the character, a form is not submitted.
                params["text"] = json!("\r");
            }
            self.page("Input.dispatchKeyEvent", params).await?;
        }
        Ok(())
    }

    /// Waits until the page is loaded and is unchanged between two checks.
    async fn rest(&mut self) -> Result<()> {
        const STATE: &str =
            "[document.readyState, location.href, document.body ? document.body.innerText.length : 0]";
        let until = Instant::now() + REST_LIMIT;
        let mut last = Json::Null;
        while Instant::now() < until {
            // A pause first: right after a click, the page that is being left still looks complete.
            sleep(PAUSE).await;
            // Taken before the await: the lock must not be held while waiting for the browser.
            let opened = std::mem::take(&mut self.started.connection.happened().opened);
            for target in opened {
                // A window that is already gone is ignored.
                drop(self.attach(target).await);
            }
            // Scripts of a page that was left are gone with it.
            self.world = None;
            let state = match self.script(STATE).await {
                // Between two documents, there is no page in which a script could run.
                Err(error) if error.kind == ErrorKind::Invalid => Json::Null,
                other => other?,
            };
            if state[0] == "complete" && state == last {
                return Ok(());
            }
            last = state;
        }
        Ok(())
    }

    /// Returns the files that were downloaded since the last call.
    async fn downloads(&mut self) -> Result<Vec<Download>> {
        let until = Instant::now() + DOWNLOAD_LIMIT;
        let ended = loop {
            // Bound before the awaits: the lock must not be held while waiting for the browser.
            let taken = self.started.connection.happened().take_downloads();
            let going = match taken {
                Ok(ended) => break ended,
                Err(going) => going,
            };
            for download in going {
                if download.received > self.download_bytes || Instant::now() > until {
                    // Its next progress is `canceled`, which ends the loop.
                    self.browser("Browser.cancelDownload", json!({"guid": download.guid})).await?;
                }
            }
            sleep(PAUSE).await;
        };
        let mut downloads = Vec::new();
        for download in ended {
            let path = self.held.place.downloads().join(plain_name(&download.guid));
            // Checked again: more may have been received between two checks.
            let fits = tokio::fs::metadata(&path).await.is_ok_and(|file| file.len() <= self.download_bytes);
            if download.state == "completed" && fits {
                let bytes = tokio::fs::read(&path).await;
                let bytes =
                    bytes.map_err(|cause| Error::internal("cannot read a downloaded file").because(cause))?;
                downloads.push(Download { name: plain_name(&download.name), bytes: Bytes::from(bytes) });
            } else {
                let note =
                    format!("`{}` was not downloaded: it is too large, or was broken off", download.name);
                self.started.connection.happened().say(&note);
            }
            // In each case: the folder lasts as long as the window, and its files count towards no quota.
            drop(tokio::fs::remove_file(&path).await);
        }
        Ok(downloads)
    }

    async fn view(&mut self) -> Result<PageView> {
        self.rest().await?;
        let downloads = self.downloads().await?;
        let seen = self.script(LOOK).await?;
        let url = text(&seen["url"]);
        // A page that is not on the web needs no connection, so that the proxy cannot refuse it.
        let of_the_web = ["http:", "https:", "about:blank", "about:srcdoc", "blob:http", "chrome-error:"];
        if !of_the_web.iter().any(|start| url.starts_with(start)) {
            self.close_page().await?;
            return Err(Error::new(ErrorKind::Denied, "the page is not on the web, and was closed"));
        }
        let mut notes = std::mem::take(&mut self.started.connection.happened().notes);
        if seen["cut"] == true {
            notes.push("the page is longer than what can be read of it".to_owned());
        }
        if seen["below"].as_i64().unwrap_or(0) > 0 {
            notes.push("the page continues below; some pages load more when they are scrolled".to_owned());
        }
        Ok(PageView { url, title: text(&seen["title"]), text: text(&seen["text"]), notes, downloads })
    }
}

fn text(value: &Json) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[async_trait]
impl BrowserWindow for Window {
    async fn act(&mut self, action: BrowserAction) -> Result<PageView> {
        let done = async {
            self.carry_out(action).await?;
            self.view().await
        };
        let done = done.await;
        match done {
            Err(error) if error.kind == ErrorKind::Timeout => {
                // A page with an endless computation will not answer any more.
                self.close_page().await?;
                Err(error.help("the page was closed; open another one"))
            }
            // It may have closed itself.
            Err(error) if error.kind == ErrorKind::Invalid && self.pages.len() > 1 => match self.view().await
            {
                Err(_) => self.close_page().await.and(Err(error)),
                Ok(_) => Err(error),
            },
            done => done,
        }
    }

    async fn close(&mut self) {
        let closed = async {
            self.keep_cookies().await;
            // What was stored in the last seconds is only written when the browser exits by itself.
            drop(self.browser("Browser.close", json!({})).await);
            self.started.ended().await;
        };
        let in_time = tokio::time::timeout(CLOSE_LIMIT, closed).await;
        self.held.place.is_ended = in_time.is_ok();
    }
}
