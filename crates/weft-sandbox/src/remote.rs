//! Runs programs at a service elsewhere, using the protocol of RAGFlow's executor: `POST /run`, also known as `POST
//! /execute`.
//!
//! ```text
//! {"code_b64", "language": "python" | "nodejs", "arguments"}
//! {"status", "stdout", "stderr", "exit_code", "detail", "resource_limit_type", "result": {"present", "value"}}
//! ```

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use url::Url;
use weft_core::fair::FairSlots;
use weft_core::literal::literal;
use weft_core::seam::Sandbox;
use weft_core::seam::file_store::plain_name;
use weft_core::seam::sandbox::{
    FILES_BYTES_MAX, FILES_MAX, Failure, Language, Limits, Program, Ran, WrittenFile,
};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};
use weft_net::{StreamRequest, StreamingHttp};

use crate::printed::{Printed, Stream};
use crate::result::{read_around, shortened};

/// How much longer than the time limit of a program the service is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of bytes in an answer besides the program's output.
const REST: usize = 1 << 20;
/// Maximum number of bytes that one byte of a text takes in JSON.
// As in `\u0000`.
const ESCAPED: usize = 6;
/// Prefix of the result in the last line of the output, for services that have no other place for it.
const MARKER: &str = "__RAGFLOW_RESULT__:";
/// The path to which programs are sent if the address has none.
const PATH: &str = "/run";
/// Exit codes that services reserve.
const OUT_OF_TIME: i64 = -124;
const OUT_OF_MEMORY: i64 = -137;
const ALL_TAKEN: i64 = -10;
const TOO_OFTEN: i64 = -429;

/// Runs JavaScript and Python at a service. The security boundary is the service's; its limits apply in addition to
/// these.
pub struct RemoteSandbox {
    http: Arc<dyn StreamingHttp>,
    url: Url,
    limits: Limits,
    slots: FairSlots,
    patience: Duration,
}

impl std::fmt::Debug for RemoteSandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteSandbox").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl RemoteSandbox {
    /// Creates a sandbox that uses the service at this address, such as `http://127.0.0.1:9385` or
    /// `http://executor:8080/execute`. At most `at_once` programs are sent concurrently; slots are shared fairly among
    /// tenants.
    ///
    /// # Errors
    /// `Invalid` when the address is not valid.
    pub fn new(http: Arc<dyn StreamingHttp>, address: &str, limits: Limits, at_once: usize) -> Result<Self> {
        let url = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let mut url = url.ok_or_else(|| {
            Error::invalid("the address of the sandbox is not valid")
                .help("set `sandbox.remote` to an address such as `http://127.0.0.1:9385`")
        })?;
        if url.path() == "/" {
            url.set_path(PATH);
        }
        // The limit is not sent to the service: the memory of a program is the service's own setting, and an error must
        // name that.
        let limits = Limits { memory_bytes: usize::MAX, ..limits };
        Ok(Self { http, url, limits, slots: FairSlots::new(at_once), patience: PATIENCE })
    }

    /// Sets how much longer than the time limit of a program an answer is waited for. The default is 20 seconds.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    async fn answer(&self, program: &Program) -> Result<(u16, Vec<u8>)> {
        let request = StreamRequest {
            method: "POST".to_owned(),
            url: self.url.to_string(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: asked(program).to_string().into_bytes(),
        };
        let Limits { time, output_bytes, printed_bytes, .. } = program.limits;
        let answer_max =
            output_bytes.saturating_add(printed_bytes).saturating_mul(ESCAPED).saturating_add(REST);
        let exchange = async {
            let response = self.http.open(request).await?;
            Ok((response.status, response.read(answer_max).await?))
        };
        tokio::time::timeout(time.saturating_add(self.patience), exchange)
            .await
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::Timeout, "the sandbox does not answer")))
    }
}

#[async_trait]
impl Sandbox for RemoteSandbox {
    fn limits(&self) -> Limits {
        self.limits
    }

    async fn run(&self, tenant: &TenantId, mut program: Program) -> Result<Ran> {
        program.limits = program.limits.within(self.limits);
        // A service has many users: one tenant must not take all of its slots.
        let _slot = self.slots.acquire(tenant).await?;
        let (status, body) = self.answer(&program).await?;
        told(status, &body, program.language, program.limits)
    }
}

/// Returns the request to the service.
fn asked(program: &Program) -> Json {
    let language = match program.language {
        Language::Python => "python",
        Language::JavaScript => "nodejs",
    };
    json!({"code_b64": STANDARD.encode(&program.source), "language": language, "arguments": program.arguments})
}

/// The response of the sandbox service. Fields that it omits are empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServiceAnswer {
    status: String,
    stdout: String,
    stderr: String,
    exit_code: i64,
    detail: Option<String>,
    resource_limit_type: Option<String>,
    unauthorized_access_type: Option<String>,
    result: Option<ReturnedValue>,
    artifacts: Vec<Artifact>,
}

/// A file; services use different names for its base64 content.
#[derive(Debug, Deserialize)]
struct Artifact {
    name: String,
    #[serde(alias = "content_b64", alias = "data")]
    content: String,
}

/// Returns the files from a service, within the limits of what a program may leave.
fn files(artifacts: Vec<Artifact>) -> Result<Vec<WrittenFile>> {
    // Base64 takes four bytes for three.
    let most = FILES_BYTES_MAX.div_ceil(3) * 4;
    let bytes: usize = artifacts.iter().map(|file| file.content.len()).sum();
    if artifacts.len() > FILES_MAX || bytes > most {
        let message = format!("the program writes more than {FILES_MAX} files or {FILES_BYTES_MAX} bytes");
        return Err(Error::invalid(message).help("write fewer or smaller files"));
    }
    let read = |file: Artifact| {
        // Validated here, where the service that sent it can be named.
        STANDARD.decode(&file.content).map_err(|cause| {
            Error::new(ErrorKind::Garbled, "cannot read a file from the sandbox").because(cause)
        })?;
        Ok(WrittenFile { name: plain_name(&file.name), base64: file.content })
    };
    artifacts.into_iter().map(read).collect()
}

#[derive(Debug, Deserialize)]
struct ReturnedValue {
    #[serde(default = "yes")]
    present: bool,
    #[serde(default)]
    value: Json,
}

fn yes() -> bool {
    true
}

/// Converts the outcome of a program.
fn told(status: u16, body: &[u8], language: Language, limits: Limits) -> Result<Ran> {
    if status == 429 {
        return Err(Error::new(ErrorKind::RateLimited, "the sandbox receives too many requests")
            .help("try again later"));
    }
    if !(200..300).contains(&status) {
        let message = format!("the sandbox responds with the status {status}");
        return Err(
            Error::new(ErrorKind::Unavailable, message).help("check that `sandbox.remote` is its address")
        );
    }
    let body = String::from_utf8_lossy(body);
    let mut answer: ServiceAnswer = read_around(&body, language).map_err(|cause| {
        Error::new(ErrorKind::Garbled, "cannot read the answer of the sandbox")
            .because(cause)
            .help("check that `sandbox.remote` is the address of an executor")
    })?;
    let outcome = outcome(&mut answer, language)?;
    let result = match failure(&answer) {
        Some(failure) => Err(failure?),
        None => within(value(outcome, &answer.stdout, language), limits),
    };
    let mut printed = Printed::new(limits.printed_bytes);
    printed.piece(Stream::Out, &answer.stdout);
    printed.piece(Stream::Error, &answer.stderr);
    // Files of a failed program are dropped, as in every other sandbox.
    let files = match &result {
        Ok(_) => files(std::mem::take(&mut answer.artifacts))?,
        Err(_) => Vec::new(),
    };
    Ok(Ran { result, stdout: printed.stdout, stderr: printed.stderr, truncated: printed.truncated, files })
}

/// Returns why there is no result: because of the program, or because of the service.
fn failure(answer: &ServiceAnswer) -> Option<Result<Failure>> {
    let detail = answer.detail.as_deref().filter(|text| !text.trim().is_empty());
    let said = detail.unwrap_or(answer.stderr.trim());
    let of_program = |message: &str| {
        let message = shortened(if message.is_empty() { "it failed".to_owned() } else { message.to_owned() });
        Some(Ok(Failure::Program { message, line: None }))
    };
    // The service's message may be as long as an answer.
    let of_service = |kind, message: String| Some(Err(Error::new(kind, shortened(message))));
    match (answer.exit_code, answer.resource_limit_type.as_deref(), answer.status.as_str()) {
        (OUT_OF_TIME, ..) | (_, Some("time"), _) => Some(Ok(Failure::Time)),
        (OUT_OF_MEMORY, ..) | (_, Some("memory"), _) => Some(Ok(Failure::Memory)),
        (_, Some("output"), _) => Some(Ok(Failure::Output)),
        (ALL_TAKEN, ..) => {
            of_service(ErrorKind::Unavailable, "the sandbox has no capacity for another program".to_owned())
        }
        (TOO_OFTEN, ..) => {
            of_service(ErrorKind::RateLimited, "the sandbox receives too many requests".to_owned())
        }
        (.., "success") => None,
        (.., "unauthorized_access") => {
            let what = answer.unauthorized_access_type.as_deref().unwrap_or("something");
            of_program(&format!("it requests forbidden access ({what}): {said}"))
        }
        (.., "program_runner_error") => {
            of_service(ErrorKind::Unavailable, format!("the sandbox failed: {said}"))
        }
        (.., "program_error" | "runtime_error" | "resource_limit_exceeded") => of_program(said),
        (.., other) => {
            of_service(ErrorKind::Garbled, format!("the sandbox reports the unknown status `{other}`"))
        }
    }
}

/// Returns the result, from whichever place the service uses for it; it is removed from the output.
fn outcome(answer: &mut ServiceAnswer, language: Language) -> Result<Option<ReturnedValue>> {
    if let Some(outcome) = answer.result.take() {
        return Ok(Some(outcome));
    }
    let printed = answer.stdout.trim_end();
    let start = printed.rfind('\n').map_or(0, |at| at + 1);
    let Some(encoded) = printed[start..].strip_prefix(MARKER) else { return Ok(None) };
    let garbled = || Error::new(ErrorKind::Garbled, "cannot read the result from the sandbox");
    let decoded = STANDARD.decode(encoded.trim()).map_err(|cause| garbled().because(cause))?;
    let outcome = read_around(&String::from_utf8_lossy(&decoded), language);
    let outcome = outcome.map_err(|cause| garbled().because(cause))?;
    answer.stdout.truncate(start);
    Ok(Some(outcome))
}

fn value(outcome: Option<ReturnedValue>, stdout: &str, language: Language) -> Json {
    match outcome {
        Some(ReturnedValue { present: true, value }) => value,
        Some(_) => Json::Null,
        // The oldest services print the result and nothing else.
        None => match stdout.trim() {
            "" => Json::Null,
            // As JSON, or as Python prints it.
            printed => read_around(printed, language)
                .ok()
                .or_else(|| literal(printed))
                .unwrap_or_else(|| Json::from(printed)),
        },
    }
}

fn within(value: Json, limits: Limits) -> std::result::Result<Json, Failure> {
    if value.to_string().len() > limits.output_bytes { Err(Failure::Output) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LIMITS;

    fn read(answer: &Json) -> Ran {
        told(200, answer.to_string().as_bytes(), Language::Python, LIMITS).unwrap()
    }

    #[test]
    fn files_are_returned_within_their_limits() {
        let file = json!({"name": "a/b.png", "content_b64": "iVBO"});
        let ran = read(&json!({"status": "success", "stdout": "1", "artifacts": [file]}));
        assert_eq!(ran.files, [WrittenFile { name: "b.png".to_owned(), base64: "iVBO".to_owned() }]);
        for artifacts in [json!(vec![file; 11]), json!([{"name": "x", "data": "*"}])] {
            let answer = json!({"status": "success", "stdout": "1", "artifacts": artifacts}).to_string();
            assert!(told(200, answer.as_bytes(), Language::Python, LIMITS).is_err());
        }
    }

    #[test]
    fn a_failed_program_returns_no_files() {
        for artifacts in [json!([{"name": "b.png", "data": "iVBO"}]), json!([{"name": "b.png", "data": "*"}])]
        {
            let ran =
                read(&json!({"status": "program_error", "stderr": "NameError: x", "artifacts": artifacts}));
            let failed = Failure::Program { message: "NameError: x".to_owned(), line: None };
            assert_eq!((ran.result, ran.files), (Err(failed), Vec::new()));
        }
    }

    #[test]
    fn a_memory_limit_belongs_to_the_service() {
        let http = Arc::new(weft_net::OperatorHttp::new().unwrap());
        let sandbox = RemoteSandbox::new(http, "http://127.0.0.1:9385", LIMITS, 1).unwrap();
        let error = Failure::Memory.error(sandbox.limits());
        assert!(error.full().contains("`sandbox.remote`"), "{}", error.full());
    }

    #[test]
    fn a_program_is_sent_as_data() {
        let arguments = json!({"a": [1, null]}).as_object().unwrap().clone();
        let program =
            Program { language: Language::JavaScript, source: "汉".to_owned(), arguments, limits: LIMITS };
        assert_eq!(
            asked(&program),
            json!({"code_b64": "5rGJ", "language": "nodejs", "arguments": {"a": [1, null]}})
        );
        let python = Program { language: Language::Python, ..program };
        assert_eq!(asked(&python)["language"], "python");
    }

    #[test]
    fn results_are_found_in_every_service_format() {
        let check = |answer: Json, result: Json, stdout: &str| {
            let ran = read(&answer);
            assert_eq!((ran.result, ran.stdout.as_str()), (Ok(result), stdout), "{answer}");
        };
        let value = json!({"present": true, "value": {"a": 1}, "type": "json"});
        check(json!({"status": "success", "stdout": "x\n", "result": value}), json!({"a": 1}), "x\n");
        let marked = format!("x\n{MARKER}{}\n", STANDARD.encode(value.to_string()));
        check(json!({"status": "success", "stdout": marked}), json!({"a": 1}), "x\n");
        check(json!({"status": "success", "stdout": "", "result": {"present": false}}), Json::Null, "");
        check(json!({"status": "success", "stdout": "[1, 2]\n"}), json!([1, 2]), "[1, 2]\n");
        check(
            json!({"status": "success", "stdout": "{'x': True, 'y': (1, None)}"}),
            json!({"x": true, "y": [1, null]}),
            "{'x': True, 'y': (1, None)}",
        );
        check(json!({"status": "success", "stdout": "it is so"}), json!("it is so"), "it is so");
        check(json!({"status": "success", "stdout": ""}), Json::Null, "");
    }

    #[test]
    fn remote_results_are_read_like_local_ones() {
        let value = r#"{"value": [18446744073709551616, "\ud83d"]}"#;
        let marked = format!("{MARKER}{}", STANDARD.encode(value));
        let answers = [
            format!(r#"{{"status": "success", "result": {value}}}"#),
            json!({"status": "success", "stdout": marked}).to_string(),
            json!({"status": "success", "stdout": r#"[18446744073709551616, "\ud83d"]"#}).to_string(),
        ];
        for answer in answers {
            let result = |language: Language| told(200, answer.as_bytes(), language, LIMITS).unwrap().result;
            assert_eq!(result(Language::Python), Ok(json!(["18446744073709551616", "\u{fffd}"])), "{answer}");
            // JavaScript has no other numbers than JSON.
            let expected = json!([18_446_744_073_709_551_616.0_f64, "\u{fffd}"]);
            assert_eq!(result(Language::JavaScript), Ok(expected), "{answer}");
        }
    }

    #[test]
    fn every_failure_has_a_code() {
        let check =
            |answer: Json, expected: Failure| assert_eq!(read(&answer).result, Err(expected), "{answer}");
        let program = |message: &str| Failure::Program { message: message.to_owned(), line: None };
        check(
            json!({"status": "program_error", "stderr": "NameError: x\n", "exit_code": 1}),
            program("NameError: x"),
        );
        check(json!({"status": "program_error", "stderr": "a", "detail": "no main"}), program("no main"));
        check(json!({"status": "resource_limit_exceeded", "resource_limit_type": "time"}), Failure::Time);
        check(json!({"status": "resource_limit_exceeded", "exit_code": -137}), Failure::Memory);
        check(json!({"status": "resource_limit_exceeded", "resource_limit_type": "output"}), Failure::Output);
        check(json!({"status": "resource_limit_exceeded", "exit_code": -124}), Failure::Time);
        check(
            json!({"status": "unauthorized_access", "unauthorized_access_type": "network", "detail": "connect"}),
            program("it requests forbidden access (network): connect"),
        );
        check(json!({"status": "runtime_error"}), program("it failed"));
        let large = json!({"status": "success", "result": {"value": "x".repeat(LIMITS.output_bytes)}});
        check(large, Failure::Output);
    }

    #[test]
    fn a_service_failure_is_not_a_program_failure() {
        let check = |status: u16, body: &str, expected: ErrorKind| {
            let error = told(status, body.as_bytes(), Language::Python, LIMITS).unwrap_err();
            assert_eq!(error.kind, expected, "{status} {body}");
        };
        check(429, "", ErrorKind::RateLimited);
        check(500, "oh", ErrorKind::Unavailable);
        check(200, "<html>", ErrorKind::Garbled);
        check(200, r#"{"status": "well"}"#, ErrorKind::Garbled);
        check(200, r#"{"status": "program_runner_error", "detail": "no docker"}"#, ErrorKind::Unavailable);
        check(200, r#"{"status": "program_runner_error", "exit_code": -10}"#, ErrorKind::Unavailable);
        check(200, r#"{"status": "program_runner_error", "exit_code": -429}"#, ErrorKind::RateLimited);
        check(200, &format!(r#"{{"status": "success", "stdout": "{MARKER}?"}}"#), ErrorKind::Garbled);
    }
}
