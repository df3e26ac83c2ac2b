//! The component catalog over HTTP.

use weft_testkit::Script;

use crate::support::bench;

#[tokio::test]
async fn components_are_listed_with_parameters_and_outputs() {
    let bench = bench(Script::new()).await;
    let all = bench.get("/api/v1/components").await.data();
    let names: Vec<_> = all.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"Agent") && names.contains(&"Retrieval"), "{names:?}");
    assert!(!names.contains(&"Lookup"), "components for benchmarks are not listed for editors");
    let one = bench.get("/api/v1/components/Retrieval").await.data();
    assert_eq!(one, all[names.iter().position(|name| *name == "Retrieval").unwrap()]);
    assert_eq!(one["parameters"]["properties"]["top_n"]["type"], "integer");
    assert_eq!(one["outputs"][0]["name"], "formalized_content");
    assert_eq!(bench.get("/api/v1/components/Agnet").await.refusal().0, 102);
    let request = bench.request("GET", "/api/v1/components", &serde_json::Value::Null);
    let (mut parts, body) = request.into_parts();
    parts.headers.remove("authorization");
    let stranger = bench.send(axum::http::Request::from_parts(parts, body)).await;
    assert_eq!(stranger.json()["code"], 401, "a token is required");
}

#[tokio::test]
async fn plugins_are_listed_with_their_tools() {
    let bench = bench(Script::new()).await;
    let plugins = bench.get("/api/v1/plugins").await.data();
    assert_eq!((&plugins[0]["name"], &plugins[0]["title"]), (&"weather".into(), &"Weather".into()));
    let tool = &plugins[0]["tools"][0];
    assert_eq!((&tool["name"], &tool["parameters"]["required"][0]), (&"forecast".into(), &"city".into()));
    assert!(plugins[0]["left_out"][0].as_str().unwrap().starts_with("paint: "), "{plugins}");
    let tools = bench.get("/api/v1/plugin/tools").await.data();
    let listed = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "forecast").unwrap();
    assert_eq!((&listed["displayName"], &listed["description"]), (&"forecast".into(), &tool["description"]));
    let city = &listed["parameters"]["city"];
    assert_eq!((&city["type"], &city["required"]), (&"string".into(), &true.into()), "{listed}");
}
