//! Programs at a remote service: an executor made of our own sandbox, behind a real HTTP server.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::routing::post;
use axum::{Json as Body, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;
use weft_core::seam::Sandbox as _;
use weft_core::seam::sandbox::{Failure, Language, Limits, Program};
use weft_core::{ErrorKind, TenantId};
use weft_net::OperatorHttp;
use weft_sandbox::{LIMITS, ProcessSandbox, RemoteSandbox};
use weft_testkit::contracts::sandbox::{JAVASCRIPT, PYTHON, Programs, sandbox_keeps_its_contract};

use crate::kit::{program, sandbox_of_python};

/// How an executor handles a request. It has its own limits: those of the test.
async fn execute(
    State((sandbox, limits)): State<(Arc<ProcessSandbox>, Limits)>,
    Body(asked): Body<Json>,
) -> Body<Json> {
    let source = STANDARD.decode(asked["code_b64"].as_str().unwrap()).unwrap();
    let language = Language::named(asked["language"].as_str().unwrap()).unwrap();
    let arguments = asked["arguments"].as_object().unwrap().clone();
    let program = Program { language, source: String::from_utf8(source).unwrap(), arguments, limits };
    let ran = sandbox.run(&TenantId::new("executor"), program).await.unwrap();
    let mut answer = json!({"status": "success", "stdout": ran.stdout, "stderr": ran.stderr, "exit_code": 0});
    let more = match ran.result {
        Ok(value) => json!({"result": {"present": true, "value": value, "type": "json"}}),
        Err(Failure::Program { message, .. }) => {
            json!({"status": "program_error", "exit_code": 1, "detail": message})
        }
        Err(Failure::Time) => {
            json!({"status": "resource_limit_exceeded", "exit_code": -124, "resource_limit_type": "time"})
        }
        Err(Failure::Memory) => {
            json!({"status": "resource_limit_exceeded", "exit_code": -137, "resource_limit_type": "memory"})
        }
        Err(Failure::Output) => json!({"status": "resource_limit_exceeded", "resource_limit_type": "output"}),
        Err(other) => json!({"status": "program_runner_error", "detail": format!("{other:?}")}),
    };
    answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Body(answer)
}

/// An executor with these limits, and its URL.
async fn executor(limits: Limits) -> (String, JoinSet<()>) {
    let router = Router::new()
        .route("/run", post(execute))
        .route("/execute", post(execute))
        .with_state((Arc::new(sandbox_of_python()), limits));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, server)
}

fn remote(address: &str, limits: Limits) -> RemoteSandbox {
    RemoteSandbox::new(Arc::new(OperatorHttp::new().unwrap()), address, limits, 4).unwrap()
}

/// The contract, at a service with the limits of the suite: they cannot be set by request.
#[tokio::test]
async fn remote_programs_give_the_same_results_as_local_ones() {
    let limits = Limits { time: Duration::from_millis(1_500), memory_bytes: 8 << 20, ..LIMITS };
    let (address, _server) = executor(limits).await;
    for programs in [JAVASCRIPT, PYTHON] {
        // The service runs both languages, and reports exceptions in its own words.
        let programs = Programs { foreign: None, line: None, ..programs };
        let sandbox = remote(&address, limits);
        sandbox_keeps_its_contract(&sandbox, &programs).await;
    }
}

#[tokio::test]
async fn both_names_of_the_route_are_supported() {
    let (address, _server) = executor(LIMITS).await;
    for path in ["", "/", "/run", "/execute"] {
        let sandbox = remote(&format!("{address}{path}"), LIMITS);
        let ran = sandbox
            .run(&TenantId::new("t"), program("function main() { return 6 * 7 }", LIMITS))
            .await
            .unwrap();
        assert_eq!(ran.result, Ok(json!(42)), "{path}");
    }
    let sandbox = remote(&format!("{address}/nowhere"), LIMITS);
    let error = sandbox.run(&TenantId::new("t"), program("1", LIMITS)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.full().contains("status 404 (check that `sandbox.remote`"), "{}", error.full());
}

#[tokio::test]
async fn an_unreachable_or_silent_service_is_reported() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = remote(&address, LIMITS).run(&TenantId::new("t"), program("1", LIMITS)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    for address in ["", "executor:9385", "ftp://executor"] {
        let refused = RemoteSandbox::new(Arc::new(OperatorHttp::new().unwrap()), address, LIMITS, 4);
        assert!(refused.unwrap_err().full().contains("sandbox.remote"), "{address}");
    }
}
