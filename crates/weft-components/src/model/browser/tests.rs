use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};
use weft_core::context::Signal;
use weft_core::seam::FileStore as _;
use weft_core::seam::browser::{Browser, BrowserAction, BrowserWindow, Download, PageView};
use weft_core::seam::chat_model::{ChatDelta, StopReason};
use weft_core::seam::file_store::StoredFile;
use weft_core::{Error, ErrorKind, Result, TenantId};
use weft_testkit::MemoryFiles;

use crate::testing::{Node, Setting, Stage, ended, failure};

/// A browser that shows prepared views, and records the actions.
#[derive(Debug, Default)]
struct Prepared {
    views: Mutex<Vec<Result<PageView>>>,
    done: Arc<Mutex<Vec<BrowserAction>>>,
    /// How many windows were closed.
    closed: Arc<Mutex<usize>>,
    profiles: Mutex<Vec<Option<String>>>,
}

struct Shown {
    views: Vec<Result<PageView>>,
    done: Arc<Mutex<Vec<BrowserAction>>>,
    closed: Arc<Mutex<usize>>,
}

#[weft_core::async_trait]
impl Browser for Prepared {
    async fn open(&self, _: &TenantId, profile: Option<&str>) -> Result<Box<dyn BrowserWindow>> {
        self.profiles.lock().unwrap().push(profile.map(str::to_owned));
        let views = std::mem::take(&mut *self.views.lock().unwrap());
        Ok(Box::new(Shown { views, done: Arc::clone(&self.done), closed: Arc::clone(&self.closed) }))
    }
}

#[weft_core::async_trait]
impl BrowserWindow for Shown {
    async fn act(&mut self, action: BrowserAction) -> Result<PageView> {
        self.done.lock().unwrap().push(action);
        if self.views.is_empty() { Ok(PageView::default()) } else { self.views.remove(0) }
    }

    async fn close(&mut self) {
        *self.closed.lock().unwrap() += 1;
    }
}

fn view(text: &str) -> PageView {
    PageView {
        url: "https://a.example/".to_owned(),
        title: "A".to_owned(),
        text: text.to_owned(),
        ..PageView::default()
    }
}

fn stage(node: &Node, browser: &Arc<Prepared>, mut setting: Setting) -> Stage {
    let browser = Arc::clone(browser);
    let files = Arc::new(MemoryFiles::default());
    setting.seams = Some(Box::new(move |seams| {
        seams.browser = browser;
        seams.files = files;
    }));
    Stage::new(node, &*node.build(), setting)
}

fn call(stage: &Stage, calls: &[(&str, Json)]) {
    let deltas = calls.iter().enumerate().map(|(index, (name, arguments))| ChatDelta::ToolCall {
        index,
        id: Some(format!("{name}-{index}")),
        name: Some((*name).to_owned()),
        arguments: arguments.to_string(),
    });
    stage.answer(deltas.chain([ended(StopReason::ToolCalls)]));
}

#[tokio::test]
async fn a_task_is_performed_step_by_step() {
    let node = Node::new(
        "Browser",
        json!({"prompts": "Find {sys.query}", "sys_prompt": "Be quick.", "llm_id": "tools"}),
    );
    let report = Download { name: "r.csv".to_owned(), bytes: "a,b".into() };
    let long = "x".repeat(30_000);
    let views = vec![
        Ok(view("[0]<link Prices>")),
        Ok(PageView { downloads: vec![report], notes: vec!["careful".to_owned()], ..view(&long) }),
        Err(Error::invalid("there is no element [7] on the page")),
    ];
    let browser = Arc::new(Prepared { views: Mutex::new(views), ..Prepared::default() });
    let stage = stage(&node, &browser, Setting { query: "prices", ..Setting::default() });
    call(&stage, &[("click", json!({"element": 0}))]);
    call(&stage, &[("open_page", json!({"url": "https://a.example"})), ("click", json!({"element": 0}))]);
    call(
        &stage,
        &[("read_page", json!({"part": 3})), ("write", json!({"element": 7, "text": "t", "submit": true}))],
    );
    stage.answer_text("24 pence.");
    let outputs = json!(node.build().run(&stage.ctx).await.unwrap().outputs);
    assert_eq!((&outputs["content"], &outputs["stop_reason"]), (&json!("24 pence."), &json!("completed")));
    let file = &outputs["downloaded_files"][0];
    assert_eq!((&file["name"], &file["size"], file["url"].is_string()), (&json!("r.csv"), &json!(3), true));
    let write = BrowserAction::Write { element: 7, text: "t".to_owned(), submit: true };
    let open = BrowserAction::Open("https://a.example".to_owned());
    assert_eq!(*browser.done.lock().unwrap(), [open, BrowserAction::Click(0), write]);
    let asked = stage.asked();
    assert_eq!(
        (asked[0].messages[0].text.as_str(), asked[0].messages[1].text.as_str()),
        ("Be quick.", "Find prices")
    );
    let said: Vec<_> = asked.last().unwrap().messages.iter().map(|message| message.text.as_str()).collect();
    let said = said.join("\n---\n");
    for part in [
        "no page is open",
        "[0]<link Prices>",
        "Downloaded: r.csv (3 bytes)",
        "Note: careful",
        "[part 1 of 3 of the page]",
        "[part 3 of 3 of the page]",
        "no element [7]",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[tokio::test]
async fn steps_are_limited_and_profiles_belong_to_conversations() {
    for (params, kept) in [
        (json!({"max_steps": 1, "llm_id": "tools"}), true),
        (json!({"max_steps": 1, "persist_session": false, "llm_id": "tools"}), false),
    ] {
        let node = Node::new("Browser", params);
        let browser = Arc::new(Prepared::default());
        let stage = stage(&node, &browser, Setting { query: "q", ..Setting::default() });
        for place in 0..2 {
            call(&stage, &[("open_page", json!({"url": format!("https://a.example/{place}")}))]);
        }
        stage.answer_text("So far.");
        let outputs = json!(node.build().run(&stage.ctx).await.unwrap().outputs);
        assert_eq!((&outputs["content"], &outputs["stop_reason"]), (&json!("So far."), &json!("max_rounds")));
        let profiles = browser.profiles.lock().unwrap();
        assert!(matches!(&profiles[..], [profile] if profile.is_some() == kept), "{profiles:?}");
        assert_eq!(*browser.closed.lock().unwrap(), 1);
    }
}

#[tokio::test]
async fn excess_files_are_omitted_with_a_warning() {
    let node = Node::new("Browser", json!({"llm_id": "tools", "upload_sources": ["sys.files"]}));
    let files = Arc::new(MemoryFiles::default());
    for number in 0..21 {
        let file = StoredFile {
            id: format!("f{number}").into(),
            name: format!("{number}.txt"),
            mime_type: String::new(),
            size: 1,
            session: None,
            user: None,
            created_ms: 0,
        };
        files.put(&"t".into(), &file, "x".into()).await.unwrap();
    }
    let named: Vec<Json> = (0..21).map(|number| json!({"id": format!("f{number}")})).collect();
    let seams: crate::testing::Replace = Box::new(move |seams| seams.files = files);
    let setting =
        Setting { query: "q", seams: Some(seams), ..Setting::values([("sys.files", json!(named))]) };
    let mut stage = Stage::new(&node, &*node.build(), setting);
    stage.answer_text("Done.");
    node.build().run(&stage.ctx).await.unwrap();
    let asked = stage.asked().remove(0);
    let upload = asked.tools.iter().find(|tool| tool.name == "upload_file").unwrap();
    assert_eq!(upload.parameters["properties"]["file"]["enum"].as_array().unwrap().len(), 20);
    let signals = stage.signals();
    let warned = |signal: &Signal| matches!(signal, Signal::Warn(text) if text.contains("20 of 21 files"));
    assert!(signals.iter().any(warned), "{signals:?}");
}

#[tokio::test]
async fn invalid_settings_and_tasks_are_reported() {
    let node = Node::new("Browser", json!({"prompts": " "}));
    assert_eq!(failure(&node, Setting::default()).await.kind, ErrorKind::Invalid);
    assert_eq!(Node::new("Browser", json!({"max_steps": 0})).problems(), ["/max_steps"]);
    assert_eq!(
        Node::new("Browser", json!({"upload_sources": ["nothing here"]})).problems(),
        ["/upload_sources"]
    );
    let shape = Node::new("Browser", json!({"headless": true, "chromium_sandbox": true})).build().shape();
    assert_eq!(shape.warnings.len(), 2, "{:?}", shape.warnings);
}
