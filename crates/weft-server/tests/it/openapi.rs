//! The OpenAPI document: it lists every route, and every response in these tests matches it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Value as Json, json};
use weft_server::openapi::{Access, document, page};
use weft_server::router::documented;

use weft_testkit::Script;

use crate::support::{Reading, bench};

pub(crate) static DOCUMENT: LazyLock<Json> = LazyLock::new(|| document(&documented()));

/// The documented path for a request: of several that match, the one with the fewest parameters.
fn documented_path(path: &str) -> Option<&'static str> {
    let path = path.split('?').next().unwrap_or_default().trim_end_matches('/');
    let path = if path.is_empty() { "/" } else { path };
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |known: &&String| {
        let known: Vec<&str> = known.split('/').collect();
        known.len() == parts.len()
            && known.iter().zip(&parts).all(|(known, part)| known.starts_with('{') || known == part)
    };
    let fitting = DOCUMENT["paths"].as_object().unwrap().keys().filter(fits);
    fitting.min_by_key(|known| known.matches('{').count()).map(String::as_str)
}

/// Asserts that a response matches the document.
#[track_caller]
pub(crate) fn check(method: &str, path: &str, reading: &Reading) {
    let Some(known) = documented_path(path) else { return };
    let Some(operation) = DOCUMENT["paths"][known].get(method.to_lowercase()) else { return };
    let status = if reading.status == 200 { "200" } else { "default" };
    let content = &operation["responses"][status]["content"];
    let kind = reading.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let said = content.get(kind).or_else(|| content.get("*/*"));
    let Some(said) = said else {
        panic!("{method} {known} answers with {kind}, and its document has {content}")
    };
    if kind != "application/json" || content.get("*/*").is_some() {
        return;
    }
    let mut schema = said["schema"].clone();
    schema["components"] = DOCUMENT["components"].clone();
    let answer: Json = serde_json::from_str(&reading.text).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> =
        validator.iter_errors(&answer).map(|error| format!("{}: {error}", error.instance_path())).collect();
    // Of two possible schemas, errors are shown for the one that the response is meant to have.
    let meant = if answer["code"] == 0 { schema["anyOf"][0].clone() } else { Json::Null };
    let mut meant = if meant.is_null() { schema } else { meant };
    meant["components"] = DOCUMENT["components"].clone();
    let nearer: Vec<String> = jsonschema::validator_for(&meant)
        .unwrap()
        .iter_errors(&answer)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{method} {known}: {nearer:#?} in {answer:#}");
}

#[test]
fn the_document_has_every_route_once_with_unique_names() {
    let routes = documented();
    assert!(routes.len() > 80, "{}", routes.len());
    let known: BTreeSet<(&str, &str)> =
        routes.iter().map(|route| (route.method, route.path.as_str())).collect();
    assert_eq!(known.len(), routes.len());
    let operations =
        DOCUMENT["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap());
    let ids: Vec<&str> =
        operations.map(|(_, operation)| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), routes.len(), "{ids:?}");
    for route in &routes {
        let summary = route.operation.summary;
        assert!(summary.ends_with('.') && summary.len() > 5, "{} {}: {summary}", route.method, route.path);
    }
}

#[tokio::test]
async fn every_documented_route_exists() {
    let bench = bench(Script::new()).await;
    for route in documented() {
        let path = route.path.replace('{', "no-").replace('}', "");
        let answer = bench.ask(route.method, &path, json!({})).await;
        assert!(
            answer.status != 404 || answer.text.contains("\"code\":1"),
            "{} {path}: {}",
            route.method,
            answer.text
        );
        assert!(!answer.text.contains("Method Not Allowed"), "{} {path}", route.method);
        // Without a token only open routes respond.
        let asked = axum::http::Request::builder().method(route.method).uri(&path);
        let asked = asked.header("content-type", "application/json").body("{}".into()).unwrap();
        // Dify's clients expect another status.
        let refused = matches!(bench.send(asked).await.status.as_u16(), 401 | 403);
        assert_eq!(refused, route.operation.access != Access::Open, "{} {path}", route.method);
    }
}

#[tokio::test]
async fn the_document_and_its_page_are_public() {
    let bench = bench(Script::new()).await;
    let served = bench.get("/api/openapi.json").await;
    assert_eq!(served.json(), *DOCUMENT);
    assert_eq!(DOCUMENT["openapi"], "3.1.0");
    let page = bench.get("/api/docs").await.text;
    assert!(page.starts_with("<!doctype html>") && page.contains("<h3 id=\"getapiv1runs\">"), "{page}");
    // The page loads nothing from other servers.
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script"));
    assert_eq!(page.matches("<table>").count(), page.matches("</table>").count());
}

#[tokio::test]
async fn the_root_path_describes_the_server_and_links_its_documentation() {
    let bench = bench(Script::new()).await;
    let about = bench.get("/").await.json();
    for named in ["docs", "openapi", "ready"] {
        let path = about[named].as_str().unwrap();
        assert_eq!(bench.get(path).await.status, 200, "{path}");
    }
    let first = about["first_call"].as_str().unwrap();
    assert!(documented().iter().any(|route| first.starts_with(&format!("{} {} ", route.method, route.path))));
}

#[test]
fn the_page_lists_every_route_and_object() {
    let markdown = page::markdown(&documented());
    for route in documented() {
        assert!(markdown.contains(&format!("### `{} {}`", route.method, route.path)));
    }
    for shape in
        DOCUMENT["components"]["schemas"].as_object().unwrap().keys().filter(|name| *name != "Failure")
    {
        assert!(markdown.contains(&format!("\n### {shape}\n")), "{shape}");
    }
}
