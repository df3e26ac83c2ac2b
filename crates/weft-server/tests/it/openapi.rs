//! The API as a document: it has every route, and every answer that a test gets is as it says.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Value as Json, json};
use weft_server::openapi::{Access, document, page};
use weft_server::router::documented;

use weft_testkit::Script;

use crate::support::{Reading, bench};

pub(crate) static DOCUMENT: LazyLock<Json> = LazyLock::new(|| document(&documented()));

/// The path of the document that a request is for: of several that fit the one with the fewest open places.
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

/// Insists that an answer is as the document says.
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
    // Of two ways an answer can be, the one that it means is told.
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
fn the_document_has_every_route_once_and_names_them_differently() {
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
async fn every_route_of_the_document_is_there() {
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
        // Without a token only those answer that say so.
        let asked = axum::http::Request::builder().method(route.method).uri(&path);
        let asked = asked.header("content-type", "application/json").body("{}".into()).unwrap();
        // Dify's clients know another status.
        let refused = matches!(bench.send(asked).await.status.as_u16(), 401 | 403);
        assert_eq!(refused, route.operation.access != Access::Open, "{} {path}", route.method);
    }
}

#[tokio::test]
async fn document_and_page_are_served_to_everybody() {
    let bench = bench(Script::new()).await;
    let served = bench.get("/api/openapi.json").await;
    assert_eq!(served.json(), *DOCUMENT);
    assert_eq!(DOCUMENT["openapi"], "3.1.0");
    let page = bench.get("/api/docs").await.text;
    assert!(page.starts_with("<!doctype html>") && page.contains("<h3 id=\"getapiv1runs\">"), "{page}");
    // It loads nothing from anywhere.
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script"));
    assert_eq!(page.matches("<table>").count(), page.matches("</table>").count());
}

#[tokio::test]
async fn the_address_itself_says_what_answers_and_where_it_is_described() {
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
fn the_page_names_every_route_and_object() {
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
