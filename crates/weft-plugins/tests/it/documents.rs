//! What documents and settings define.

use serde_json::{Value as Json, json};
use weft_core::seam::ToolSource as _;
use weft_core::seam::sandbox::NoSandbox;
use weft_core::{ErrorKind, Tool};
use weft_plugins::{FILE_BYTES_MAX, FILES_MAX, OPERATIONS_MAX, Plugin, PluginSettings, Plugins};

pub(crate) fn weather() -> Json {
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Weather"},
        "servers": [{"url": "https://weather.test/v2/"}],
        "components": {
            "schemas": {
                "Report": {"type": "object", "required": ["place"], "properties": {
                    "place": {"type": "string"}, "next": {"$ref": "#/components/schemas/Report"}
                }},
            },
            "parameters": {"Units": {"name": "units", "in": "query", "schema": {"type": "string", "enum": ["c", "f"]}}},
        },
        "paths": {
            "/cities/{city}/forecast": {
                "parameters": [{"name": "city", "in": "path", "required": true, "description": "Its name.", "schema": {"type": "string"}}],
                "get": {
                    "operationId": "forecast", "summary": "Tells the weather.", "description": "For some days.",
                    "parameters": [
                        {"$ref": "#/components/parameters/Units"},
                        {"name": "days", "in": "query", "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": true, "nullable": true}},
                        {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                        {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                    ],
                },
            },
            "/reports": {
                "post": {"requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Report"}}}}},
                "put": {"operationId": "upload", "requestBody": {"content": {"image/png": {"schema": {"type": "string"}}}}},
            },
            "/login": {"post": {"operationId": "log in!", "requestBody": {"content": {
                "application/x-www-form-urlencoded": {"schema": {"type": "object"}}}}}},
        },
    })
}

fn named<'a>(plugin: &'a Plugin, name: &str) -> &'a Tool {
    plugin.tools().iter().find(|tool| tool.name == name).unwrap()
}

#[test]
fn operations_become_tools() {
    let plugin = Plugin::new("weather", &weather(), PluginSettings::default()).unwrap();
    let names: Vec<&str> = plugin.tools().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["forecast", "post_reports", "log_in"]);
    let left_out: Vec<String> = plugin.left_out().iter().map(ToString::to_string).collect();
    assert_eq!(left_out, ["upload: its body is neither JSON nor a form"]);
    let forecast = named(&plugin, "forecast");
    assert_eq!(forecast.description, "Tells the weather.\nFor some days.");
    let expected = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Its name."},
            "units": {"type": "string", "enum": ["c", "f"]},
            "days": {"type": ["integer", "null"], "exclusiveMinimum": 0},
            "X-Trace": {"type": "string"},
        },
        "required": ["city"],
        "additionalProperties": false,
    });
    assert_eq!(forecast.parameters, expected);
    assert!(forecast.traits.idempotent && !forecast.traits.approval);
    let report = named(&plugin, "post_reports");
    assert!(!report.traits.idempotent, "the same report twice is two");
    assert_eq!(report.description, "POST /reports");
    assert_eq!(report.parameters["required"], json!(["body"]));
    let body = &report.parameters["properties"]["body"];
    assert_eq!(
        body["properties"]["next"]["properties"]["place"]["type"], "string",
        "references are filled in"
    );
    assert!(body.to_string().len() < 10_000, "even recursive ones");
}

#[test]
fn an_operator_selects_the_operations() {
    let read = |text: &str| {
        let settings: PluginSettings = toml::from_str(text).unwrap();
        Plugin::new("weather", &weather(), settings)
    };
    let plugin =
        read("enable = [\"forecast\", \"post_reports\"]\napproval = [\"post_reports\"]\nseconds = 5")
            .unwrap();
    let names: Vec<&str> = plugin.tools().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["forecast", "post_reports"]);
    assert!(named(&plugin, "post_reports").traits.approval);
    assert_eq!(named(&plugin, "forecast").traits.time_limit.as_secs(), 5);
    assert_eq!(read("disable = [\"forecast\"]").unwrap().tools().len(), 2);
    let refused = |text: &str, part: &str| {
        let error = read(text).expect_err(text);
        assert!(error.kind == ErrorKind::Invalid && error.full().contains(part), "{text}: {}", error.full());
    };
    refused("enable = [\"forcast\"]", "an operation `forcast`");
    refused("approval = [\"delete\"]", "an operation `delete`");
    refused("disable = [\"forcast\"]", "an operation `forcast`");
    refused("seconds = 0", "from 1 to 3600");
    refused("base_url = \"weather.test\"", "not an absolute URL");
    refused("base_url = \"file:///etc\"", "http or https");
    refused("base_url = \"https://user:key@weather.test\"", "without a user");
    assert!(toml::from_str::<PluginSettings>("headerz = {}").is_err());
}

/// Names belong to the document, including keywords of schemas and names that no model accepts.
#[test]
fn properties_and_operations_may_have_any_name() {
    let properties = json!({"example": {"type": "string", "example": "x"}, "xml": {"type": "object", "properties": {
        "examples": {"type": "integer"}}}});
    let schema = json!({"type": "object", "properties": properties, "example": {"xml": {}}});
    let body = json!({"content": {"application/json": {"schema": schema}}});
    let paths = json!({
        "/notes": {"post": {"operationId": "写笔记", "requestBody": body}},
        "/notes/{id}": {"get": {"operationId": "读", "parameters": [{"name": "id", "in": "path"}]}},
    });
    let document = json!({"openapi": "3.0.0", "servers": [{"url": "https://x.test"}], "paths": paths});
    let plugin = Plugin::new("p", &document, PluginSettings::default()).unwrap();
    let names: Vec<&str> = plugin.tools().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["post_notes", "get_notes_id"]);
    let expected = json!({"type": "object", "properties": {"example": {"type": "string"}, "xml": {"type": "object",
        "properties": {"examples": {"type": "integer"}}}}});
    assert_eq!(named(&plugin, "post_notes").parameters["properties"]["body"], expected);
}

#[tokio::test]
async fn a_folder_with_too_many_files_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..=FILES_MAX {
        std::fs::write(folder.path().join(format!("{n}.txt")), "").unwrap();
    }
    let error = Plugins::open(folder.path(), &NoSandbox).await.unwrap_err();
    assert!(error.full().contains("more than 1000 files"), "{}", error.full());
}

#[test]
fn invalid_documents_are_refused_with_a_reason() {
    let refused = |document: Json, part: &str| {
        let error = Plugin::new("p", &document, PluginSettings::default()).expect_err(part);
        assert!(error.kind == ErrorKind::Invalid && error.full().contains(part), "{part}: {}", error.full());
    };
    refused(json!({"swagger": "2.0"}), "not an OpenAPI document of version 3");
    refused(json!([]), "not an OpenAPI document of version 3");
    refused(json!({"openapi": "3.0.0", "paths": {}}), "base_url");
    let server = json!([{"url": "https://x.test"}]);
    let twice = json!({"/a": {"get": {"operationId": "x"}, "post": {"operationId": "x"}}});
    refused(json!({"openapi": "3.0.0", "servers": server, "paths": twice}), "two operations are called `x`");
    let many: serde_json::Map<String, Json> =
        (0..=OPERATIONS_MAX).map(|nth| (format!("/{nth}"), json!({"get": {}}))).collect();
    refused(json!({"openapi": "3.0.0", "servers": server, "paths": many}), "more than 1000");
    // Cycles and dead ends omit one operation and nothing else.
    let odd = json!({
        "/a": {"get": {"operationId": "circle", "parameters": [{"$ref": "#/components/parameters/A"}]}},
        "/b": {"get": {"operationId": "dead", "parameters": [{"$ref": "#/nowhere"}]}},
        "/c": {"get": {"operationId": "fine"}},
    });
    let circle = json!({"parameters": {"A": {"$ref": "#/components/parameters/A"}}});
    let document = json!({"openapi": "3.0.0", "servers": server, "paths": odd, "components": circle});
    let plugin = Plugin::new("p", &document, PluginSettings::default()).unwrap();
    assert_eq!((plugin.tools().len(), plugin.left_out().len()), (1, 2));
}

#[tokio::test]
async fn a_folder_is_read_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    assert_eq!(Plugins::open(folder.path().join("nowhere"), &NoSandbox).await.unwrap().names().count(), 0);
    put("weather.json", &weather().to_string());
    put("notes.txt", "nothing to do with it");
    put(".hidden.json", "nor this");
    let plugins = Plugins::open(folder.path(), &NoSandbox).await.unwrap();
    assert_eq!(plugins.names().collect::<Vec<_>>(), ["weather"]);
    let offered = plugins.tools(&"t".into(), "weather").await.unwrap();
    assert_eq!(offered.tools.len(), 3);
    assert_eq!((offered.refused.len(), offered.refused[0].name.as_str()), (1, "upload"));
    assert_eq!(plugins.tools(&"t".into(), "other").await.unwrap_err().kind, ErrorKind::NotFound);

    let yaml = "openapi: 3.0.3\nservers:\n  - url: https://tides.test\npaths:\n  /tides:\n    get:\n      operationId: tides\n      responses:\n        200: {description: ok}\n";
    put("tides.yaml", yaml);
    put("moon.yml", &yaml.replace("tides", "moon"));
    let plugins = Plugins::open(folder.path(), &NoSandbox).await.unwrap();
    assert_eq!(plugins.names().collect::<Vec<_>>(), ["moon", "tides", "weather"]);
    assert_eq!(named(plugins.get("moon").unwrap(), "moon").name, "moon");
    put("weather.toml", "enable = [\"forecast\"]");
    assert_eq!(
        Plugins::open(folder.path(), &NoSandbox).await.unwrap().get("weather").unwrap().tools().len(),
        1
    );
    put("weather.toml", "enabel = []");
    put("broken.json", "{");
    put("torn.yaml", "paths: [");
    put("moon.json", &weather().to_string());
    put("alone.toml", "");
    let large = usize::try_from(FILE_BYTES_MAX).unwrap() + 1;
    put("large.json", &" ".repeat(large));
    let error = Plugins::open(folder.path(), &NoSandbox).await.unwrap_err().full();
    for part in [
        "weather.toml: unknown field `enabel`",
        "broken.json: it is not valid JSON",
        "torn.yaml: it is not valid YAML",
        "moon.yml: another plugin is also called moon",
        "there is no alone.json",
        "larger than",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}
