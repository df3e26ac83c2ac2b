//! Arguments in documents: their schemas, names and placement in a request, and the server URL.
#![expect(clippy::needless_pass_by_value, reason = "documents are written where they are used")]

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::{Value as Json, json};
use weft_agent::arguments::ArgumentSchema;
use weft_core::context::RunContext;
use weft_core::seam::Seams;
use weft_core::seam::http::{HttpBody, HttpRequest};
use weft_core::tool::Invocation;
use weft_core::{ErrorKind, Result, Tool};
use weft_plugins::{Plugin, PluginSettings};
use weft_testkit::FakeHttp;
use weft_testkit::around::{no_seams, node_context, run_context};

fn plugin(servers: Json, paths: Json, components: Json) -> Result<Plugin> {
    let document = json!({"openapi": "3.0.3", "servers": servers, "paths": paths, "components": components});
    Plugin::new("pets", &document, PluginSettings::default())
}

fn pets(paths: Json, components: Json) -> Plugin {
    plugin(json!([{"url": "http://pets.test"}]), paths, components).unwrap()
}

fn only(plugin: &Plugin) -> &Arc<Tool> {
    assert_eq!((plugin.tools().len(), plugin.left_out().len()), (1, 0), "{:?}", plugin.left_out());
    &plugin.tools()[0]
}

/// The request for these arguments, once they fit the schema.
async fn sent(tool: &Tool, arguments: Json) -> Result<HttpRequest> {
    let arguments = arguments.as_object().unwrap().clone();
    let arguments = ArgumentSchema::new(&tool.parameters).unwrap().check(arguments).unwrap();
    called(tool, arguments).await
}

async fn called(tool: &Tool, arguments: serde_json::Map<String, Json>) -> Result<HttpRequest> {
    let http = FakeHttp::new().on("", 200, "");
    let seams = Seams { http: Arc::new(http.clone()), ..no_seams() };
    let (agent, _signals) = node_context(RunContext { seams: Arc::new(seams), ..run_context() });
    let invocation = Invocation { id: "1".to_owned(), arguments, agent: Arc::new(agent), resumed: None };
    tool.body.call(invocation).next().await.unwrap()?;
    Ok(http.requests().remove(0))
}

fn with_body(schema: Json) -> Json {
    json!({"/pets": {"post": {"operationId": "make_pet", "requestBody": {"required": true,
        "content": {"application/json": {"schema": schema}}}}}})
}

/// The path of a pet's `name` below this many parents.
fn name_below(tool: &Tool, parents: usize) -> Option<&Json> {
    tool.parameters
        .pointer(&format!("/properties/body{}/properties/name", "/properties/parent".repeat(parents)))
}

#[tokio::test]
async fn a_recursive_body_is_unconstrained_at_its_deepest_level() {
    let pet = json!({"Pet": {"type": "object", "additionalProperties": false, "properties": {
        "name": {"type": "string"}, "parent": {"$ref": "#/components/schemas/Pet"}}}});
    let plugin = pets(with_body(json!({"$ref": "#/components/schemas/Pet"})), json!({"schemas": pet}));
    let tool = only(&plugin);
    assert_eq!(name_below(tool, 0).unwrap(), &json!({"type": "string"}));
    assert_eq!(name_below(tool, 1).unwrap(), &json!({"type": "string"}));
    assert_eq!(name_below(tool, 2), None);
    let body =
        json!({"name": "a", "parent": {"name": "b", "parent": {"name": "c", "parent": {"name": "d"}}}});
    assert_eq!(sent(tool, json!({"body": body.clone()})).await.unwrap().body, HttpBody::Json(body));
}

#[test]
fn bodies_may_have_many_levels() {
    let mut schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    for _ in 0..40 {
        schema = json!({"type": "object", "properties": {"name": {"type": "string"}, "parent": schema}});
    }
    let plugin = pets(with_body(schema), json!({}));
    let tool = only(&plugin);
    assert_eq!(name_below(tool, 11).unwrap(), &json!({"type": "string"}));
    assert_eq!(name_below(tool, 20), None);
    assert!(ArgumentSchema::new(&tool.parameters).is_ok());
}

/// An open alternative matches everything, and another one then matches, too.
#[test]
fn open_alternatives_accept_everything() {
    let node = json!({"oneOf": [{"type": "string"}, {"$ref": "#/components/schemas/Node"}],
        "not": {"$ref": "#/components/schemas/Node"}});
    let plugin =
        pets(with_body(json!({"$ref": "#/components/schemas/Node"})), json!({"schemas": {"Node": node}}));
    let schema = ArgumentSchema::new(&only(&plugin).parameters).unwrap();
    assert!(schema.check(json!({"body": "leaf"}).as_object().unwrap().clone()).is_ok());
}

#[test]
fn an_unusable_schema_is_reported() {
    let plugin =
        pets(with_body(json!({"type": "object", "properties": {"a": {"type": "strin"}}})), json!({}));
    assert!(plugin.tools().is_empty());
    let told = &plugin.left_out()[0].to_string();
    assert!(told.starts_with("make_pet: the schema of the arguments is not valid"), "{told}");
}

#[test]
fn mutually_recursive_schemas_are_bounded() {
    // Each refers to all of them, so that there are millions of paths.
    let names: Vec<String> = (0..8).map(|n| format!("S{n}")).collect();
    let members = |of: &[String]| -> Json {
        of.iter()
            .map(|name| (name.clone(), json!({"$ref": format!("#/components/schemas/{name}")})))
            .collect()
    };
    let schemas: Json = names
        .iter()
        .map(|name| (name.clone(), json!({"type": "object", "properties": members(&names)})))
        .collect();
    let plugin = pets(with_body(json!({"$ref": "#/components/schemas/S0"})), json!({"schemas": schemas}));
    let text = only(&plugin).parameters.to_string();
    assert!(text.len() < 1 << 20, "{}", text.len());
}

#[tokio::test]
async fn server_variables_have_their_defaults() {
    let paths = json!({"/pets": {"get": {"operationId": "pets"}}});
    let server = |variables: Json| json!([{"url": "http://{host}:{port}/v1", "variables": variables}]);
    let variables = json!({"host": {"default": "127.0.0.1"}, "port": {"default": 18080}});
    let filled = plugin(server(variables.clone()), paths.clone(), json!({})).unwrap();
    assert_eq!(sent(only(&filled), json!({})).await.unwrap().url, "http://127.0.0.1:18080/v1/pets");
    let error = plugin(server(json!({"host": {"default": "a.test"}})), paths.clone(), json!({})).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.full().contains("the variable `port`, which has no default"), "{}", error.full());
    assert!(error.full().contains("base_url"), "{}", error.full());
    let document = json!({"openapi": "3.0.3", "servers": server(variables), "paths": paths});
    let settings =
        PluginSettings { base_url: Some("https://own.test".to_owned()), ..PluginSettings::default() };
    let own = Plugin::new("pets", &document, settings).unwrap();
    assert_eq!(sent(only(&own), json!({})).await.unwrap().url, "https://own.test/pets");
}

/// The request of an operation with the parameter `p`.
async fn written(place: &str, said: Json, value: Json) -> Result<HttpRequest> {
    let mut parameter = json!({"name": "p", "in": place, "required": place == "path", "schema": {}});
    for (name, value) in said.as_object().unwrap() {
        parameter[name] = value.clone();
    }
    let path = if place == "path" { "/x/{p}/y" } else { "/x" };
    let plugin = pets(json!({path: {"get": {"operationId": "x", "parameters": [parameter]}}}), json!({}));
    sent(only(&plugin), json!({"p": value})).await
}

#[tokio::test]
async fn a_query_is_written_in_the_style_of_the_document() {
    let list = || json!(["a", "b c&,"]);
    let object = || json!({"R": 100, "g h": "x,"});
    for (said, value, expected) in [
        (json!({}), json!("a b+"), "p=a%20b%2B"),
        (json!({}), list(), "p=a&p=b%20c%26%2C"),
        (json!({"style": "form", "explode": false}), list(), "p=a,b%20c%26%2C"),
        (json!({}), object(), "R=100&g%20h=x%2C"),
        (json!({"explode": false}), object(), "p=R,100,g%20h,x%2C"),
        (json!({"style": "spaceDelimited", "explode": false}), list(), "p=a%20b%20c%26%2C"),
        (json!({"style": "pipeDelimited", "explode": false}), list(), "p=a%7Cb%20c%26%2C"),
        (json!({"style": "pipeDelimited", "explode": true}), list(), "p=a&p=b%20c%26%2C"),
        (json!({"style": "deepObject", "explode": true}), json!({"a": "x", "b": 2}), "p[a]=x&p[b]=2"),
        (json!({"style": "deepObject"}), json!({"a": {"b]": [1, "&"]}}), "p[a][b%5D]=1&p[a][b%5D]=%26"),
        (json!({"content": {"application/json": {"schema": {}}}}), json!({"a": 1}), "p=%7B%22a%22%3A1%7D"),
    ] {
        let request = written("query", said.clone(), value).await.unwrap();
        assert_eq!(request.url, format!("http://pets.test/x?{expected}"), "{said}");
    }
    for nothing in [json!([]), json!({})] {
        let request = written("query", json!({"explode": false}), nothing).await.unwrap();
        assert_eq!(request.url, "http://pets.test/x");
    }
}

#[tokio::test]
async fn reserved_characters_are_kept_if_allowed() {
    let kept = |said: Json| {
        let mut said = said;
        said["allowReserved"] = json!(true);
        said
    };
    for (said, value, expected) in [
        (json!({}), json!("a/b:c,d?e=f&g+h#i[j] %2F%zz"), "p=a/b:c,d?e=f%26g%2Bh%23i%5Bj%5D%20%2F%25zz"),
        (json!({}), json!(["a/b", "c,d"]), "p=a/b&p=c,d"),
        (json!({"explode": false}), json!(["a/b", "c,d"]), "p=a/b,c%2Cd"),
        (json!({"style": "deepObject"}), json!({"a": "b/c"}), "p[a]=b/c"),
        (json!({"content": {"application/json": {}}}), json!("a/b"), "p=%22a%2Fb%22"),
    ] {
        let request = written("query", kept(said.clone()), value).await.unwrap();
        assert_eq!(request.url, format!("http://pets.test/x?{expected}"), "{said}");
    }
    let request = written("path", kept(json!({})), json!("a/b")).await.unwrap();
    assert_eq!(request.url, "http://pets.test/x/a%2Fb/y");
}

#[tokio::test]
async fn operations_and_paths_may_have_their_own_servers() {
    let server = |url: &str| json!([{"url": url}]);
    let operation = |id: &str| json!({"operationId": id});
    let with = |id: &str, url: &str| json!({"operationId": id, "servers": [{"url": url}]});
    let paths = json!({
        "/a": {"get": operation("of_document")},
        "/b": {"servers": server("http://path.test/v2"), "get": operation("of_path"),
            "put": with("own", "https://own.test"), "post": with("relative", "/v3"), "delete": {
                "operationId": "empty", "servers": []}},
    });
    let urls = async |plugin: &Plugin| {
        let mut urls = Vec::new();
        for tool in plugin.tools() {
            urls.push(sent(tool, json!({})).await.unwrap().url);
        }
        urls
    };
    let pets = pets(paths.clone(), json!({}));
    let expected =
        ["http://pets.test/a", "http://path.test/v2/b", "https://own.test/b", "http://path.test/v2/b"];
    let mut found = urls(&pets).await;
    found.sort();
    let mut expected: Vec<String> = expected.map(str::to_owned).into();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(pets.left_out().len(), 1);
    assert!(pets.left_out()[0].to_string().starts_with("relative: its address `/v3` is not an absolute URL"));
    // A document whose operations all have a server needs none itself.
    let alone = json!({"/b": paths["/b"]});
    assert_eq!(urls(&plugin(json!([]), alone, json!({})).unwrap()).await.len(), 3);
    assert_eq!(plugin(json!([]), paths.clone(), json!({})).unwrap_err().kind, ErrorKind::Invalid);
    // The operator's setting applies to all.
    let document = json!({"openapi": "3.0.3", "paths": paths});
    let settings =
        PluginSettings { base_url: Some("https://us.test".to_owned()), ..PluginSettings::default() };
    let ours = Plugin::new("pets", &document, settings).unwrap();
    assert!(urls(&ours).await.iter().all(|url| url.starts_with("https://us.test/")));
    assert_eq!(ours.tools().len(), 5);
}

#[tokio::test]
async fn json_media_types_with_a_suffix_are_accepted() {
    let content = |kind: &str| json!({kind: {"schema": {"type": "object"}}});
    let operation = |kind: &str, answers: &[&str]| {
        let answers: serde_json::Map<String, Json> =
            answers.iter().map(|kind| ((*kind).to_owned(), json!({}))).collect();
        json!({"/pets": {"post": {"operationId": "make_pet", "requestBody": {"content": content(kind)},
            "responses": {"201": {"content": answers}, "404": {"content": content("text/html")}}}}})
    };
    let headers = async |paths: Json| {
        let plugin = pets(paths, json!({}));
        let request = sent(only(&plugin), json!({"body": {"a": 1}})).await.unwrap();
        assert_eq!(request.body, HttpBody::Json(json!({"a": 1})));
        request.headers.into_iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>()
    };
    let (usual, api) = ("application/json", "application/vnd.api+json");
    assert_eq!(headers(operation(usual, &[usual])).await, [""; 0]);
    let named = [format!("Content-Type: {api}"), format!("Accept: {api}")];
    assert_eq!(headers(operation(api, &[api])).await, named);
    assert_eq!(headers(operation(api, &[usual, api])).await, [format!("Content-Type: {api}")]);
    assert_eq!(headers(operation("application/json; charset=utf-8", &["text/csv"])).await.len(), 1);
    // A client sends one concrete type of such a range.
    assert_eq!(headers(operation("application/*+json", &["application/*+json"])).await, [""; 0]);
    let broken = operation("application/json;\r\nHost: a", &[]);
    assert!(pets(broken, json!({})).left_out()[0].reason.contains("a media type that cannot be sent"));
}

#[tokio::test]
async fn references_may_contain_escaped_characters() {
    let page = json!({"type": "object", "properties": {"of": {"type": "string"}}});
    let body =
        json!({"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Page%3CPet%3E"}}}});
    let headers: Vec<Json> =
        ["Host", "cookie", "X-Of"].map(|name| json!({"name": name, "in": "header"})).into();
    let components = json!({"schemas": {"Page<Pet>": page, "100%": {"type": "integer"}},
        "pathItems": {"Pets": {"post": {"operationId": "put", "requestBody": body, "parameters": headers},
            "get": {"operationId": "count", "parameters": [{"name": "n", "in": "query",
                "schema": {"$ref": "#/components/schemas/100%"}}]}}}});
    let paths = json!({"/pets": {"$ref": "#/components/pathItems/Pets"}, "/more": {"$ref": "more.json#/x"},
        "/round": {"$ref": "#/paths/~1round"}});
    let plugin = pets(paths, components);
    let [count, put] = plugin.tools() else { panic!("{:?}", plugin.tools()) };
    assert_eq!(put.parameters["properties"]["body"]["properties"]["of"]["type"], "string");
    assert_eq!(put.parameters["properties"].as_object().unwrap().len(), 2, "{}", put.parameters);
    assert_eq!(count.parameters["properties"]["n"]["type"], "integer");
    assert_eq!(sent(count, json!({"n": 1})).await.unwrap().url, "http://pets.test/pets?n=1");
    let left_out: Vec<String> = plugin.left_out().iter().map(ToString::to_string).collect();
    assert_eq!(left_out.len(), 2);
    assert_eq!(left_out[0], "more: `more.json#/x` does not exist in the document");
}

#[test]
fn siblings_of_a_reference_apply_in_3_1() {
    let reference = "#/components/schemas/Name";
    let body = json!({"type": "object", "properties": {
        "described": {"$ref": reference, "description": "Its nickname."},
        "shorter": {"$ref": reference, "maxLength": 3},
        "either": {"$ref": reference, "allOf": [{"minLength": 1}]},
        "$ref": {"type": "string"},
    }});
    let name = json!({"type": "string", "description": "A name."});
    let parameter = json!({"$ref": "#/components/parameters/Id", "description": "Which pet."});
    let id = json!({"name": "id", "in": "query", "description": "An id.", "schema": {}});
    let mut paths = with_body(body);
    paths["/pets"]["post"]["parameters"] = json!([parameter]);
    let read = |version: &str| {
        let document = json!({"openapi": version, "servers": [{"url": "http://pets.test"}], "paths": paths,
            "components": {"schemas": {"Name": name}, "parameters": {"Id": id}}});
        let plugin = Plugin::new("pets", &document, PluginSettings::default()).unwrap();
        only(&plugin).parameters["properties"].clone()
    };
    let ignored = read("3.0.3");
    for property in ["described", "shorter", "either"] {
        assert_eq!(ignored["body"]["properties"][property], name, "{property}");
    }
    assert_eq!(ignored["id"]["description"], "An id.");
    let held = read("3.1.0");
    assert_eq!(held["id"]["description"], "Which pet.");
    let expected = json!({
        "described": {"type": "string", "description": "Its nickname."},
        "shorter": {"maxLength": 3, "allOf": [name]},
        "either": {"allOf": [name, {"minLength": 1}]},
        "$ref": {"type": "string"},
    });
    assert_eq!(held["body"]["properties"], expected);
}

#[tokio::test]
async fn a_path_is_written_in_the_style_of_the_document() {
    let list = || json!(["a/", "{b}"]);
    let object = || json!({"R": 100, "G": "/"});
    let style = |style: &str, explode: Json| json!({"style": style, "explode": explode});
    for (said, value, expected) in [
        (json!({}), list(), "a%2F,%7Bb%7D"),
        (style("simple", json!(true)), object(), "R=100,G=%2F"),
        (style("simple", json!(false)), object(), "R,100,G,%2F"),
        (style("label", json!(false)), json!("a"), ".a"),
        (style("label", json!(true)), list(), ".a%2F.%7Bb%7D"),
        (style("label", json!(true)), object(), ".R=100.G=%2F"),
        (style("matrix", json!(false)), json!("a"), ";p=a"),
        (style("matrix", json!(false)), list(), ";p=a%2F,%7Bb%7D"),
        (style("matrix", json!(true)), list(), ";p=a%2F;p=%7Bb%7D"),
        (style("matrix", json!(true)), object(), ";R=100;G=%2F"),
    ] {
        let request = written("path", said.clone(), value).await.unwrap();
        assert_eq!(request.url, format!("http://pets.test/x/{expected}/y"), "{said}");
    }
    // None of the styles allows path traversal.
    for (style, value) in [("simple", json!([".."])), ("label", json!(".")), ("label", json!(""))] {
        let error = written("path", json!({"style": style}), value).await.unwrap_err();
        assert!(error.full().contains("part of the path"), "{}", error.full());
    }
}

#[tokio::test]
async fn a_header_is_written_in_the_style_of_the_document() {
    for (said, value, expected) in [
        (json!({}), json!(["a", "b c"]), "a,b c"),
        (json!({"explode": true}), json!({"R": 100, "G": 2}), "R=100,G=2"),
        (json!({}), json!({"R": 100, "G": 2}), "R,100,G,2"),
    ] {
        let request = written("header", said, value).await.unwrap();
        assert_eq!(request.headers, [("p".to_owned(), expected.to_owned())]);
    }
    let error = written("header", json!({}), json!(["a", "b\r\nHost: c"])).await.unwrap_err();
    assert!(error.full().contains("control characters"), "{}", error.full());
}

#[test]
fn a_style_that_is_not_supported_is_named() {
    let parameter = |said: Json| json!({"get": {"operationId": "x", "parameters": [said]}});
    let paths = json!({
        "/a": parameter(json!({"name": "p", "in": "query", "style": "matrix"})),
        "/b": parameter(json!({"name": "q", "in": "query", "content": {"text/csv": {}}})),
    });
    let told: Vec<String> = pets(paths, json!({})).left_out().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "x: its parameter `p` has the style `matrix`, which is not supported in the query",
            "x: its parameter `q` has a `content` that is not JSON",
        ]
    );
}

#[tokio::test]
async fn parameters_of_one_name_are_distinguished() {
    let parameter =
        |name: &str, place: &str| json!({"name": name, "in": place, "schema": {"type": "string"}});
    let own = json!([parameter("id", "query"), parameter("id_query", "query"), parameter("body", "header")]);
    let body = json!({"content": {"application/json": {"schema": {"type": "object"}}}});
    let paths = json!({"/pets/{id}": {
        "parameters": [parameter("id", "path")],
        "put": {"operationId": "put", "parameters": own, "requestBody": body}}});
    let plugin = pets(paths, json!({}));
    let tool = only(&plugin);
    let names: Vec<&String> = tool.parameters["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["id", "id_query_2", "id_query", "body_header", "body"]);
    assert_eq!(tool.parameters["required"], json!(["id"]));
    let arguments =
        json!({"id": "1", "id_query_2": "2", "id_query": "3", "body_header": "4", "body": {"a": 5}});
    let request = sent(tool, arguments).await.unwrap();
    assert_eq!(request.url, "http://pets.test/pets/1?id=2&id_query=3");
    assert_eq!(request.headers, [("body".to_owned(), "4".to_owned())]);
    assert_eq!(request.body, HttpBody::Json(json!({"a": 5})));

    // The plain case, and an operation that repeats a parameter of its path.
    let paths = json!({"/pets/{id}": {
        "parameters": [parameter("id", "path")],
        "get": {"operationId": "get", "parameters": [
            {"name": "id", "in": "path", "schema": {"type": "integer"}}, parameter("id", "query")]}}});
    let plugin = pets(paths, json!({}));
    let expected = json!({"id": {"type": "integer"}, "id_query": {"type": "string"}});
    assert_eq!(only(&plugin).parameters["properties"], expected);
    let request = sent(only(&plugin), json!({"id": 7, "id_query": "b"})).await.unwrap();
    assert_eq!(request.url, "http://pets.test/pets/7?id=b");
}

#[tokio::test]
async fn unknown_arguments_are_refused_with_the_known_ones() {
    let plugin = pets(with_body(json!({"type": "object", "properties": {"a": {}}})), json!({}));
    let tool = only(&plugin);
    let wrong = json!({"a": 1}).as_object().unwrap().clone();
    let problem =
        ArgumentSchema::new(&tool.parameters).unwrap().check(wrong.clone()).unwrap_err().to_string();
    assert!(problem.contains("there is no `a` in the schema; there is `body`"), "{problem}");
    // Also if nobody has validated them.
    let error = called(tool, wrong).await.unwrap_err();
    assert_eq!(
        (error.kind, error.full()),
        (ErrorKind::Invalid, "there is no argument `a`: it takes `body`".into())
    );
    let plugin = pets(json!({"/pets": {"get": {"operationId": "pets"}}}), json!({}));
    let body = json!({"body": {}}).as_object().unwrap().clone();
    let error = called(only(&plugin), body).await.unwrap_err();
    assert_eq!(error.full(), "there is no argument `body`: it takes none");
}
