//! The tools by which a model works in a browser.

use std::sync::Arc;

use serde_json::{Map, json};
use tokio::sync::Mutex;
use weft_agent::run_files;
use weft_agent::toolkit::Toolkit;
use weft_core::id::FileId;
use weft_core::seam::browser::{BrowserAction, BrowserWindow, PageView};
use weft_core::seam::file_store::download_path;
use weft_core::tool::{Invocation, Origin, Tool, ToolBody, ToolOutput, ToolStream, once};
use weft_core::{Error, Json, NodeContext, Result};

/// Number of letters of a page that are shown at a time.
// About 3,000 tokens. A shop's page has ten times as many, and each step shows all of it again, so that a few clicks
// would fill the context window.
const PART_LETTERS: usize = 12_000;

/// The browser window of one task, opened at the first step, and its state.
pub(super) struct Desk {
    profile: Option<String>,
    /// Files that pages may be given.
    uploads: Vec<(String, FileId)>,
    state: Mutex<DeskState>,
}

#[derive(Default)]
struct DeskState {
    window: Option<Box<dyn BrowserWindow>>,
    /// What the window showed last, for reading its other parts.
    view: PageView,
}

impl Desk {
    pub(super) fn new(profile: Option<String>, uploads: Vec<(String, FileId)>) -> Self {
        Self { profile, uploads, state: Mutex::default() }
    }

    /// Closes the window, if one is open.
    pub(super) async fn close(&self) {
        let window = self.state.lock().await.window.take();
        if let Some(mut window) = window {
            window.close().await;
        }
    }

    async fn act(&self, ctx: &NodeContext, action: BrowserAction) -> Result<ToolOutput> {
        // Held for the whole step, because there is only one window.
        let mut state = self.state.lock().await;
        if state.window.is_none() {
            if !matches!(action, BrowserAction::Open(_)) {
                // At the beginning, and when the process was stopped in the middle of the work.
                return Err(Error::invalid("no page is open").help("open a page by its address first"));
            }
            let opened = ctx.run.seams.browser.open(&ctx.run.tenant, self.profile.as_deref()).await?;
            state.window = Some(opened);
        }
        let Some(window) = &mut state.window else { return Err(Error::internal("no window is open")) };
        let done = window.act(action).await;
        if done.as_ref().is_err_and(|error| error.kind == weft_core::ErrorKind::Unavailable) {
            // A browser that has exited is useless; if only an address did not answer, this costs a restart at most.
            state.window = None;
        }
        state.view = done?;
        told(ctx, &mut state.view).await
    }

    /// Returns a part of what the page shows.
    async fn read(&self, ctx: &NodeContext, number: usize) -> Result<ToolOutput> {
        if number <= 1 {
            return self.act(ctx, BrowserAction::Look).await;
        }
        let state = self.state.lock().await;
        Ok(ToolOutput::text(part(&state.view.text, number)))
    }

    async fn upload(&self, ctx: &NodeContext, element: usize, name: &str) -> Result<ToolOutput> {
        let Some((name, id)) = self.uploads.iter().find(|(known, _)| known == name) else {
            let names: Vec<_> = self.uploads.iter().map(|(name, _)| name.as_str()).collect();
            return Err(Error::not_found(format!("there is no file `{name}`"))
                .help(format!("the files are {}", names.join(", "))));
        };
        let (_, bytes) = ctx.run.seams.files.read(&ctx.run.tenant, id).await?;
        let name = name.clone();
        self.act(ctx, BrowserAction::Upload { element, name, bytes }).await
    }
}

/// Returns a part of a text, with the number of parts.
fn part(text: &str, number: usize) -> String {
    let count = text.chars().count().div_ceil(PART_LETTERS).max(1);
    let skipped = number.saturating_sub(1).saturating_mul(PART_LETTERS);
    let shown: String = text.chars().skip(skipped).take(PART_LETTERS).collect();
    match count {
        1 if number > 1 => "[the page has one part only]".to_owned(),
        1 => shown,
        _ if number > count => format!("[the page has {count} parts only]"),
        _ => format!("{shown}\n[part {number} of {count} of the page]"),
    }
}

/// Describes a view to the model; downloaded files are stored.
async fn told(ctx: &NodeContext, view: &mut PageView) -> Result<ToolOutput> {
    let mut lines = vec![format!("Address: {}", view.url), format!("Title: {}", view.title)];
    let mut files = Vec::new();
    for download in view.downloads.drain(..) {
        let media_type = weft_core::media_type::of_name(&download.name);
        let file = run_files::keep(ctx, &download.name, media_type, download.bytes).await?;
        lines.push(format!("Downloaded: {} ({} bytes)", file.name, file.size));
        files.push(json!({
            "file_id": file.id, "name": file.name, "size": file.size, "url": download_path(&file.id),
            "parent_id": Json::Null,
        }));
    }
    lines.extend(view.notes.iter().map(|note| format!("Note: {note}")));
    lines.push(String::new());
    lines.push(part(&view.text, 1));
    let mut output = ToolOutput::text(lines.join("\n"));
    let mut value = json!({"url": view.url, "title": view.title});
    if !files.is_empty() {
        value["downloaded_files"] = Json::Array(files);
    }
    output.value = Some(value);
    Ok(output)
}

/// A step that a model can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BrowserStep {
    Open,
    Click,
    Write,
    Choose,
    Scroll,
    Back,
    Wait,
    Read,
    Upload,
}

struct BrowserTool {
    step: BrowserStep,
    desk: Arc<Desk>,
}

impl ToolBody for BrowserTool {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let (step, desk) = (self.step, Arc::clone(&self.desk));
        once(async move { take(step, &desk, &invocation.agent, &invocation.arguments).await })
    }
}

async fn take(
    step: BrowserStep,
    desk: &Desk,
    ctx: &NodeContext,
    arguments: &Map<String, Json>,
) -> Result<ToolOutput> {
    let text = |name: &str| arguments.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
    let whole = |name: &str| arguments.get(name).and_then(Json::as_i64);
    let element = usize::try_from(whole("element").unwrap_or(0)).unwrap_or(usize::MAX);
    let action = match step {
        BrowserStep::Read => {
            return desk.read(ctx, usize::try_from(whole("part").unwrap_or(1)).unwrap_or(1)).await;
        }
        BrowserStep::Upload => return desk.upload(ctx, element, &text("file")).await,
        BrowserStep::Open => BrowserAction::Open(text("url")),
        BrowserStep::Click => BrowserAction::Click(element),
        BrowserStep::Write => {
            let submit = arguments.get("submit").and_then(Json::as_bool).unwrap_or(false);
            BrowserAction::Write { element, text: text("text"), submit }
        }
        BrowserStep::Choose => BrowserAction::Choose { element, option: text("option") },
        BrowserStep::Scroll => {
            let screens = whole("screens").unwrap_or(1).clamp(-100, 100);
            BrowserAction::Scroll(i32::try_from(screens).unwrap_or(1))
        }
        BrowserStep::Back => BrowserAction::Back,
        BrowserStep::Wait => BrowserAction::Wait(
            u64::try_from(whole("seconds").unwrap_or(1)).unwrap_or(1).saturating_mul(1_000),
        ),
    };
    desk.act(ctx, action).await
}

/// Returns the tools of a desk.
pub(super) fn toolkit(desk: &Arc<Desk>) -> Result<Toolkit> {
    let tools = Toolkit::new();
    let element =
        json!({"type": "integer", "minimum": 0, "description": "the number before it, without brackets"});
    let add = |step: BrowserStep, name: &str, description: &str, properties: Json, required: &[&str]| {
        let parameters = json!({"type": "object", "properties": properties, "required": required});
        let body = Arc::new(BrowserTool { step, desk: Arc::clone(desk) });
        let mut tool = Tool::new(name, description, parameters, Origin::Function, body);
        // A newly opened window knows nothing of the steps before a crash. Repeating a step does no harm by itself,
        // except for steps that use elements, and those are refused.
        tool.traits.alone = true;
        tool.traits.poll = matches!(step, BrowserStep::Scroll | BrowserStep::Wait | BrowserStep::Read);
        tool.traits.idempotent = matches!(step, BrowserStep::Open | BrowserStep::Read | BrowserStep::Wait);
        // More than a tool's usual minute: a page may take long to load, and then wait for what its scripts fetch.
        tool.traits.time_limit = std::time::Duration::from_secs(180);
        tools.register(tool).map(drop)
    };
    let url = json!({"url": {"type": "string", "description": "the whole address, with https://"}});
    add(BrowserStep::Open, "open_page", "Opens a page by its address.", url, &["url"])?;
    let click = json!({"element": element});
    add(BrowserStep::Click, "click", "Clicks on a link, a button or another element.", click, &["element"])?;
    let write = json!({
        "element": element,
        "text": {"type": "string", "description": "what the field holds from then on"},
        "submit": {"type": "boolean", "default": false, "description": "press the enter key afterwards"},
    });
    add(BrowserStep::Write, "write", "Replaces what a field holds.", write, &["element", "text"])?;
    let choose = json!({
        "element": element, "option": {"type": "string", "description": "the option's text"},
    });
    add(BrowserStep::Choose, "choose", "Chooses an option of a list.", choose, &["element", "option"])?;
    let scroll = json!({
        "screens": {"type": "integer", "default": 1, "description": "how far, in screens; upwards when negative"},
    });
    let about = "Scrolls, for pages that load more then. What a page shows is given whole without it.";
    add(BrowserStep::Scroll, "scroll", about, scroll, &[])?;
    add(BrowserStep::Back, "go_back", "Goes back to the page before.", json!({}), &[])?;
    let wait = json!({"seconds": {"type": "integer", "minimum": 1, "maximum": 10, "default": 1}});
    add(BrowserStep::Wait, "wait", "Waits, for pages that are not ready yet.", wait, &[])?;
    let read =
        json!({"part": {"type": "integer", "minimum": 1, "default": 1, "description": "which part of it"}});
    add(BrowserStep::Read, "read_page", "Gives the page again, or another part of a long one.", read, &[])?;
    if !desk.uploads.is_empty() {
        let names: Vec<_> = desk.uploads.iter().map(|(name, _)| name.as_str()).collect();
        let upload = json!({"element": element, "file": {"type": "string", "enum": names}});
        add(
            BrowserStep::Upload,
            "upload_file",
            "Puts a file into a field for files.",
            upload,
            &["element", "file"],
        )?;
    }
    Ok(tools)
}
