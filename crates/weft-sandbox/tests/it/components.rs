//! Tools that are WebAssembly components.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};
use weft_core::seam::Sandbox as _;
use weft_core::seam::sandbox::{Failure, Limits, WasmCall, WasmTool};
use weft_core::{ErrorKind, Result, TenantId, hex};
use weft_sandbox::{LIMITS, ProcessSandbox};
use weft_testkit::WasmToolText;

use crate::kit::{sandbox, worker};

fn tool(bytes: Vec<u8>) -> WasmTool {
    let digest = hex(&Sha256::digest(&bytes));
    WasmTool { bytes: bytes.into(), digest }
}

/// All tests share the compiled code.
fn sandbox_of_components() -> ProcessSandbox {
    sandbox().with_components(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("wasm"))
}

async fn asked(bytes: Vec<u8>, call: WasmCall, limits: Limits) -> Result<std::result::Result<Json, Failure>> {
    let tenant = TenantId::new("t");
    Ok(sandbox_of_components().call_wasm(&tenant, &tool(bytes), call, limits).await?.result)
}

fn arguments() -> WasmCall {
    WasmCall::Call(r#"{"text": "汉 ✓"}"#.to_owned())
}

async fn called(text: &WasmToolText<'_>, limits: Limits) -> std::result::Result<Json, Failure> {
    asked(text.bytes(), arguments(), limits).await.unwrap()
}

const SHORT: Limits = Limits { time: Duration::from_millis(400), memory_bytes: 8 << 20, ..LIMITS };

#[tokio::test]
async fn a_component_describes_itself_and_is_called() {
    let text = WasmToolText::default();
    let said = asked(text.bytes(), WasmCall::Describe, LIMITS).await.unwrap();
    assert_eq!(said, Ok(json!(WasmToolText::ECHO)));
    assert_eq!(called(&text, LIMITS).await, Ok(json!(r#"{"text": "汉 ✓"}"#)));
    let refuses = WasmToolText { call: WasmToolText::ERR, ..text };
    let message = r#"{"text": "汉 ✓"}"#.to_owned();
    assert_eq!(called(&refuses, LIMITS).await, Err(Failure::Program { message, line: None }));
}

#[tokio::test]
async fn compiled_code_is_cached_and_rebuilt_when_missing_or_foreign() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = sandbox().with_components(folder.path().to_owned());
    let component = tool(WasmToolText::default().bytes());
    let code = folder.path().join(format!("{}.cwasm", component.digest));
    let ask = async || {
        let tenant = TenantId::new("t");
        sandbox.call_wasm(&tenant, &component, arguments(), LIMITS).await.unwrap().result.unwrap()
    };
    let both = futures::future::join(ask(), ask()).await;
    assert_eq!(both.0, both.1);
    let made = std::fs::metadata(&code).unwrap().modified().unwrap();
    ask().await;
    assert_eq!(std::fs::metadata(&code).unwrap().modified().unwrap(), made);
    std::fs::write(&code, "of another version").unwrap();
    ask().await;
    std::fs::remove_file(&code).unwrap();
    ask().await;
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names, [code]);
}

#[tokio::test]
async fn a_component_that_is_not_a_tool_is_named() {
    let refused = async |bytes: Vec<u8>, words: &str| {
        let error = asked(bytes, WasmCall::Describe, LIMITS).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.full().contains(words), "{}", error.full());
    };
    refused(Vec::new(), "not a WebAssembly component").await;
    refused(b"hello, world".to_vec(), "not a WebAssembly component").await;
    // A core module, and half of a component.
    refused(b"\0asm\x01\0\0\0".to_vec(), "wasm-tools component new").await;
    let mut half = WasmToolText::default().bytes();
    half.truncate(half.len() / 2);
    refused(half, "not a WebAssembly component").await;
    // A component that is no tool.
    let empty = b"\0asm\x0d\0\x01\0".to_vec();
    for (call, lacking) in [(WasmCall::Describe, "describe: func() -> string"), (arguments(), "call: func(")]
    {
        match asked(empty.clone(), call, LIMITS).await.unwrap() {
            Err(Failure::Program { message, .. }) => assert!(message.contains(lacking), "{message}"),
            other => panic!("{other:?}"),
        }
    }
}

/// The body of a component's call.
const FAILS: [(&str, &str); 12] = [
    ("unreachable", "unreachable"),
    ("(i32.div_u (i32.const 1) (i32.const 0))", "divide by zero"),
    ("(i32.load (i32.const -4))", "out of bounds"),
    ("(i32.store (i32.const -4) (i32.const 1)) (i32.const 16)", "out of bounds"),
    ("(memory.fill (i32.const 0) (i32.const 1) (i32.const -1)) (i32.const 16)", "out of bounds"),
    ("(i32.trunc_f32_u (f32.const nan))", "integer"),
    // Invalid results: an address out of bounds, a text out of bounds, invalid UTF-8, an unknown variant, a
    // misaligned address.
    ("(i32.const -8)", "out of bounds"),
    ("(call $result (i32.const 0) (i32.const 0) (i32.const -1))", "out of bounds"),
    (
        "(i32.store (i32.const 512) (i32.const -1)) (call $result (i32.const 0) (i32.const 512) (i32.const 4))",
        "utf-8",
    ),
    ("(call $result (i32.const 7) (i32.const 0) (i32.const 0))", "invalid"),
    ("(i32.const 17)", "aligned"),
    ("(call $deeper (i32.const 1))", "stack"),
];

#[tokio::test]
async fn a_trap_is_a_failure_with_a_reason() {
    let module =
        "(func $deeper (param i32) (result i32) (i32.add (call $deeper (local.get 0)) (i32.const 1)))";
    for (call, reason) in FAILS {
        let text = WasmToolText { call, module, ..WasmToolText::default() };
        match called(&text, LIMITS).await {
            Err(Failure::Program { message, .. }) => {
                assert!(message.to_lowercase().contains(reason), "{call}: {message}");
            }
            other => panic!("{call}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn endless_code_is_stopped() {
    let endless = "(loop $again (br $again)) (unreachable)";
    let at_its_start = WasmToolText {
        module: "(func $begin (loop $again (br $again))) (start $begin)",
        ..WasmToolText::default()
    };
    let slow =
        "(loop $again (memory.fill (i32.const 0) (i32.const 1) (i32.const 65536)) (br $again)) (unreachable)";
    let called_back = "(loop $again (drop (call $room (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))) (br $again)) (unreachable)";
    for call in [endless, slow, called_back] {
        let text = WasmToolText { call, ..WasmToolText::default() };
        assert_eq!(called(&text, SHORT).await, Err(Failure::Time), "{call}");
    }
    assert_eq!(called(&at_its_start, SHORT).await, Err(Failure::Time));
    let described = asked(at_its_start.bytes(), WasmCall::Describe, SHORT).await.unwrap();
    assert_eq!(described, Err(Failure::Time));
}

#[tokio::test]
async fn excessive_memory_is_refused() {
    let limits = Limits { memory_bytes: 8 << 20, ..LIMITS };
    let grows =
        "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (unreachable)";
    let text = WasmToolText { call: grows, ..WasmToolText::default() };
    assert_eq!(called(&text, limits).await, Err(Failure::Memory));
    // At once, in a second memory, at the start, and as table entries.
    let large = "(loop $again (drop (memory.grow (i32.const 65000))) (drop (call $room (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 99999999))) (br $again)) (unreachable)";
    let all = "(loop $again (br_if $again (i32.ne (table.grow $t (ref.null func) (i32.const 50000)) (i32.const -1)))) (unreachable)";
    for (module, call) in [
        ("", large),
        ("(memory $second 2000)", WasmToolText::OK),
        ("(table $t 1 funcref)", all),
        ("(table $t 900000 funcref)", WasmToolText::OK),
    ] {
        let text = WasmToolText { module, call, ..WasmToolText::default() };
        assert_eq!(called(&text, limits).await, Err(Failure::Memory), "{module} {call}");
    }
}

#[tokio::test]
async fn an_oversized_result_is_refused() {
    let long = "(call $result (i32.const 0) (i32.const 4096) (i32.const 2000))";
    let text = WasmToolText { call: long, ..WasmToolText::default() };
    assert_eq!(called(&text, Limits { output_bytes: 1_000, ..LIMITS }).await, Err(Failure::Output));
    assert!(called(&text, LIMITS).await.is_ok());
}

/// The outside interfaces of the standard worlds. None of them exists.
#[tokio::test]
async fn no_import_of_a_component_reaches_the_host() {
    for (interface, function, signature, core) in [
        ("wasi:cli/environment@0.2.9", "get-arguments-x", "(func)", "(param)"),
        ("wasi:sockets/instance-network@0.2.9", "leave", "(func)", "(param)"),
        ("wasi:filesystem/preopens@0.2.9", "open", "(func (param \"a\" u32))", "(param i32)"),
        ("wasi:http/outgoing-handler@0.2.9", "handle", "(func (param \"a\" u32))", "(param i32)"),
        ("host:secrets/all", "read", "(func)", "(param)"),
    ] {
        let imports = format!(
            r#"(import "{interface}" (instance $there (export "{function}" {signature})))
            (core func $lowered (canon lower (func $there "{function}")))
            (core instance $outside (export "out" (func $lowered)))"#
        );
        let module = format!("(import \"outside\" \"out\" (func $out {core}))");
        let given = if core.contains("i32") { "(i32.const 1)" } else { "" };
        let call = format!("(call $out {given}) {}", WasmToolText::OK);
        let text =
            WasmToolText { imports: &imports, module: &module, call: &call, ..WasmToolText::default() };
        match called(&text, LIMITS).await {
            Err(Failure::Program { message, .. }) => assert!(message.contains(function), "{message}"),
            other => panic!("{interface}: {other:?}"),
        }
        // A component that never calls it does not need it.
        let unused = WasmToolText { call: WasmToolText::OK, ..text };
        assert!(called(&unused, LIMITS).await.is_ok(), "{interface}");
    }
}

#[tokio::test]
async fn each_call_has_fresh_memory() {
    let counts = "(i32.store8 (i32.const 40) (i32.add (i32.load8_u (i32.const 40)) (i32.const 49)))
        (call $result (i32.const 0) (i32.const 40) (i32.const 1))";
    let text = WasmToolText { call: counts, ..WasmToolText::default() };
    for _ in 0..2 {
        assert_eq!(called(&text, LIMITS).await, Ok(json!("1")));
    }
}

#[tokio::test]
async fn components_need_a_folder_and_a_worker() {
    let tenant = TenantId::new("t");
    let component = tool(WasmToolText::default().bytes());
    let error = sandbox().call_wasm(&tenant, &component, WasmCall::Describe, LIMITS).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    let lost = weft_sandbox::Worker { program: PathBuf::from("/no/such/worker"), ..worker() };
    let sandbox = ProcessSandbox::new(lost, LIMITS, 1).with_components(PathBuf::from("/nowhere"));
    let error = sandbox.call_wasm(&tenant, &component, WasmCall::Describe, LIMITS).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
}
