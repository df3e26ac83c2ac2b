//! The requests, and the meaning of the answers.

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::{Value as Json, json};
use weft_core::context::RunContext;
use weft_core::seam::http::HttpBody;
use weft_core::seam::sandbox::NoSandbox;
use weft_core::seam::{Seams, ToolSource as _};
use weft_core::tool::{Invocation, ToolStep};
use weft_core::{ErrorKind, Result, ToolOutput};
use weft_plugins::{Combined, Plugin, PluginSettings, Plugins};
use weft_testkit::FakeHttp;
use weft_testkit::around::{no_seams, node_context, run_context};

use crate::documents::weather;

async fn called(http: &FakeHttp, settings: &str, tool: &str, arguments: Json) -> Result<ToolOutput> {
    let plugin =
        Plugin::new("weather", &weather(), toml::from_str::<PluginSettings>(settings).unwrap()).unwrap();
    let tool = plugin.tools().iter().find(|known| known.name == tool).unwrap();
    let seams = Seams { http: Arc::new(http.clone()), ..no_seams() };
    let (agent, _signals) = node_context(RunContext { seams: Arc::new(seams), ..run_context() });
    let Json::Object(arguments) = arguments else { panic!("an object") };
    let invocation = Invocation { id: "1".to_owned(), arguments, agent: Arc::new(agent), resumed: None };
    match tool.body.call(invocation).next().await.unwrap()? {
        ToolStep::Done(output) => Ok(output),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn arguments_are_placed_as_the_document_says() {
    let http = FakeHttp::new().on("weather.test", 200, r#"{"sky": "grey"}"#);
    let settings = "headers = { Authorization = \"Bearer k\", X-Trace = \"ours\" }";
    let arguments = json!({"city": "São Paulo/../x?", "units": "c", "days": 3, "X-Trace": "theirs"});
    let output = called(&http, settings, "forecast", arguments).await.unwrap();
    assert_eq!(output.to_json(), json!({"sky": "grey"}));
    let request = http.requests().remove(0);
    assert_eq!(
        request.url,
        "https://weather.test/v2/cities/S%C3%A3o%20Paulo%2F..%2Fx%3F/forecast?units=c&days=3"
    );
    assert_eq!((request.method.as_str(), &request.body), ("GET", &HttpBody::Empty));
    let mut headers = request.headers;
    headers.sort();
    let expected = [("Authorization", "Bearer k"), ("X-Trace", "ours")];
    assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));

    called(&http, "", "post_reports", json!({"body": {"place": "here"}})).await.unwrap();
    called(
        &http,
        "",
        "log_in",
        json!({"body": {"user": "eve", "times": 2, "tags": ["a", 1], "of": [{"b": 1}], "none": []}}),
    )
    .await
    .unwrap();
    let bodies: Vec<_> = http.requests().into_iter().skip(1).map(|request| request.body).collect();
    let form = [("user", "eve"), ("times", "2"), ("tags", "a"), ("tags", "1"), ("of", "[{\"b\":1}]")];
    let form = form.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(bodies, [HttpBody::Json(json!({"place": "here"})), HttpBody::Form(form.into())]);
}

#[tokio::test]
async fn arguments_cannot_change_the_destination() {
    let http = FakeHttp::new().on("", 200, "");
    for (arguments, part) in [
        (json!({"city": ".."}), "part of the path"),
        (json!({"city": ""}), "part of the path"),
        (json!({}), "is missing"),
        (json!({"city": "x", "X-Trace": "a\r\nHost: b"}), "control characters"),
    ] {
        let error = called(&http, "", "forecast", arguments.clone()).await.unwrap_err();
        assert!(
            error.kind == ErrorKind::Invalid && error.full().contains(part),
            "{arguments}: {}",
            error.full()
        );
    }
    called(&http, "", "forecast", json!({"city": "https://evil.test/", "units": "&x=1#y"})).await.unwrap();
    let requests = http.requests();
    assert_eq!(requests.len(), 1, "nothing else was sent");
    assert!(requests[0].url.starts_with(
        "https://weather.test/v2/cities/https%3A%2F%2Fevil.test%2F/forecast?units=%26x%3D1%23y"
    ));
}

#[tokio::test]
async fn a_refusal_is_a_failure_reported_to_the_model() {
    let http = FakeHttp::new()
        .once("forecast", 404, r#"{"detail": "no such city"}"#)
        .once("forecast", 204, "")
        .once("forecast", 200, "plain words")
        .fails_once("forecast", ErrorKind::Denied, "a private address");
    let ask = async || called(&http, "", "forecast", json!({"city": "x"})).await;
    let refused = ask().await.unwrap();
    assert!(
        refused.failed && refused.to_text().contains("404") && refused.to_text().contains("no such city")
    );
    assert_eq!(ask().await.unwrap().to_text(), "done (204)");
    assert_eq!(ask().await.unwrap().to_text(), "plain words");
    assert_eq!(ask().await.unwrap_err().kind, ErrorKind::Denied, "the network client is shared");
}

#[tokio::test]
async fn plugins_work_beside_other_tool_sources() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("weather.json"), weather().to_string()).unwrap();
    let plugins = Plugins::open(folder.path(), &NoSandbox).await.unwrap();
    let others = Arc::new(weft_core::seam::tool_source::NoTools);
    let both = Combined::new(plugins.clone(), others.clone(), &["files".to_owned()]).unwrap();
    assert_eq!(both.tools(&"t".into(), "weather").await.unwrap().tools.len(), 3);
    let error = both.tools(&"t".into(), "nosuch").await.unwrap_err();
    assert!(error.full().contains("MCP server"), "{}", error.full());
    let taken = Combined::new(plugins, others, &["weather".to_owned()]);
    assert_eq!(taken.unwrap_err().kind, ErrorKind::Conflict);
}
