//! Callers that disconnect before the response: what was created only for it is removed.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Request;
use futures::{StreamExt as _, stream};
use serde_json::{Value as Json, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use weft_app::Auth;
use weft_app::config::{RetentionConfig, ServerConfig, WorkerConfig};
use weft_core::seam::DocumentReader;
use weft_core::seam::dataset_store::DocumentFilter;
use weft_core::seam::document_reader::{ReadDocument, ReadRequest};
use weft_core::seam::folder_store::EntryFilter;
use weft_core::seam::run_store::RunFilter;
use weft_core::seam::session_store::SessionFilter;
use weft_core::{DatasetKey, Result, TenantId, async_trait};
use weft_server::router::router;
use weft_server::state::ServerState;
use weft_server::{ServeOptions, bind, serve};
use weft_testkit::Script;

use crate::support::{Bench, bench, chat_canvas, default_tenant, endless};

/// Waits until a condition holds.
async fn until(is_so: impl AsyncFn() -> bool) {
    for _ in 0..2_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the condition never held");
}

impl Bench {
    /// Sends a request and disconnects as soon as a condition holds.
    async fn given_up_when(&self, request: Request<Body>, is_so: impl AsyncFn() -> bool) {
        let mut asked = Box::pin(self.router.clone().oneshot(request));
        tokio::select! {
            answer = &mut asked => panic!("the request was answered: {:?}", answer.unwrap().status()),
            () = until(is_so) => {}
        }
    }

    /// Number of sessions and of runs.
    async fn kept(&self) -> (u64, usize) {
        let all = SessionFilter { limit: 99, ..SessionFilter::default() };
        let (_, sessions) = self.app.sessions.list(&default_tenant(), &all).await.unwrap();
        let all = RunFilter { limit: 99, ..RunFilter::default() };
        (sessions, self.app.runs.list(&default_tenant(), &all).await.unwrap().len())
    }

    /// A form whose last part never arrives.
    fn endless_form(&self, path: &str) -> Request<Body> {
        let part = |name: &str| {
            let head = format!("Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"");
            Ok::<_, std::io::Error>(Bytes::from(format!("--frontier\r\n{head}\r\n\r\ntext\r\n")))
        };
        let sent = stream::iter([part("a.txt"), part("b.txt")]).chain(stream::pending());
        Request::builder()
            .method("POST")
            .uri(path)
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "multipart/form-data; boundary=frontier")
            .body(Body::from_stream(sent))
            .unwrap()
    }
}

/// A reader that does not come to the end of any file.
struct Endless;

#[async_trait]
impl DocumentReader for Endless {
    async fn read(&self, _: &TenantId, _: &ReadRequest, _: Bytes) -> Result<ReadDocument> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_question_whose_files_are_still_read_leaves_no_conversation_behind() {
    let mut bench = bench(Script::new()).await;
    let agent = bench.store("A", chat_canvas()).await;
    bench.app = bench.app.with_parts(|parts| parts.reader = Arc::new(Endless));
    bench.router = router(ServerState::new(bench.app.clone(), Auth::On).unwrap());
    let question = json!({"question": "What is in it?", "files": ["data:text/plain;name=a.txt;base64,eA=="]});
    let ask =
        |question: &Json| bench.request("POST", &format!("/api/v1/agents/{agent}/completions"), question);
    bench.given_up_when(ask(&question), async || bench.kept().await == (1, 0)).await;
    until(async || bench.kept().await == (0, 0)).await;
    // A conversation that there was before stays.
    let begun = bench.post(&format!("/api/v1/agents/{agent}/sessions"), json!({})).await.data();
    let mut again = question.clone();
    again["session_id"] = begun["id"].clone();
    let files = async || bench.app.files.older_than(i64::MAX, 9).await.unwrap().len();
    let before = files().await;
    bench.given_up_when(ask(&again), async || files().await > before).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(bench.kept().await, (1, 0));
}

#[tokio::test]
async fn an_abandoned_single_question_leaves_no_session() {
    let bench = bench(Script::new().reply(endless(&["1. Wh"]).always())).await;
    let question = json!({"question": "What is a parrot?"});
    let request = bench.request("POST", "/api/v1/chat/recommendation", &question);
    bench.given_up_when(request, async || bench.model.requests().len() == 1).await;
    until(async || bench.kept().await == (0, 0)).await;
}

#[tokio::test]
async fn an_abandoned_component_trial_leaves_no_session() {
    let bench = bench(Script::new().reply(endless(&["well"]).always())).await;
    let agent = bench.store("A", chat_canvas()).await;
    let path = format!("/api/v1/agents/{agent}/components/Agent:A/debug");
    let request = bench.request("POST", &path, &json!({"params": {"sys.query": "Who?"}}));
    bench.given_up_when(request, async || bench.model.requests().len() == 1).await;
    until(async || bench.kept().await == (0, 0)).await;
}

#[tokio::test]
async fn documents_of_an_interrupted_form_are_removed() {
    let bench = bench(Script::new()).await;
    let path = bench.dataset("Laws").await;
    let key = DatasetKey::new(&default_tenant(), path.rsplit('/').next().unwrap());
    let count = async || {
        let all = DocumentFilter { limit: 9, ..DocumentFilter::default() };
        bench.app.datasets.documents(&key, &all).await.unwrap().1
    };
    let request = bench.endless_form(&format!("{path}/documents"));
    bench.given_up_when(request, async || count().await == 1).await;
    until(async || count().await == 0).await;
}

#[tokio::test]
async fn files_of_an_interrupted_form_are_removed() {
    let bench = bench(Script::new()).await;
    let (tenant, manager) = (default_tenant(), &bench.app.file_manager);
    let root = manager.root(&tenant).await.unwrap();
    let count = async || {
        let all = EntryFilter { folder: root.id.clone(), limit: 9, ..EntryFilter::default() };
        manager.tree().list(&tenant, &all).await.unwrap().1
    };
    bench.given_up_when(bench.endless_form("/api/v1/files"), async || count().await == 1).await;
    until(async || count().await == 0).await;
    let none: Json = bench.get("/api/v1/files").await.data();
    assert_eq!(none["total"], 0, "{none}");
}

/// The sender neither goes on nor goes away.
#[tokio::test]
async fn files_of_a_form_that_the_end_of_the_server_cuts_off_are_taken_back() {
    let bench = bench(Script::new()).await;
    let (tenant, manager) = (default_tenant(), &bench.app.file_manager);
    let root = manager.root(&tenant).await.unwrap();
    let count = async || {
        let all = EntryFilter { folder: root.id.clone(), limit: 9, ..EntryFilter::default() };
        manager.tree().list(&tenant, &all).await.unwrap().1
    };
    let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let part = |name: &str| {
        let head = format!("Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"");
        format!("--frontier\r\n{head}\r\n\r\ntext\r\n")
    };
    let head = format!(
        "POST /api/v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 100000\r\n\
         Content-Type: multipart/form-data; boundary=frontier\r\n\r\n",
        bench.token
    );
    sender.write_all((head + &part("a.txt") + &part("b.txt")).as_bytes()).await.unwrap();
    let worker = WorkerConfig { enabled: false, ..WorkerConfig::default() };
    let (server, retention) = (ServerConfig::default(), RetentionConfig::default());
    let options = ServeOptions { server, grace: Duration::ZERO, worker, retention };
    let stop = CancellationToken::new();
    let serving = Box::pin(serve(bench.app.clone(), listener, options, stop.clone().cancelled_owned()));
    let stopped = async {
        until(async || count().await == 1).await;
        // What follows is waiting for times that the server allows.
        tokio::time::pause();
        stop.cancel();
    };
    let (served, ()) = futures::join!(serving, stopped);
    served.unwrap();
    assert_eq!(count().await, 0);
}
