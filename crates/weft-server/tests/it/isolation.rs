//! Data of one tenant does not exist for another, and a role is refused what it may not do: on every route, with
//! every id. The cases are generated from the OpenAPI document, so a new route cannot be forgotten; one with a path
//! parameter that is not mapped here fails by name.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Map, Value as Json, json};
use weft_core::access::{MemberRole, Permission};
use weft_core::seam::tool_server_store::StoredToolServer;
use weft_testkit::{Reply, Script};

use crate::openapi::DOCUMENT;
use crate::shelf::form;
use crate::support::{Bench, Reading, bench, echo_canvas, form_canvas};

/// A word in all data of the first tenant.
const CANARY: &str = "canary4711";
/// The tenant that owns the data.
const FIRST: &str = "default";
/// The other tenant.
const SECOND: &str = "another";

/// An operation of the OpenAPI document.
struct Operation {
    method: String,
    path: String,
    said: &'static Json,
}

fn operations() -> Vec<Operation> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(move |(method, said)| Operation {
            method: method.to_uppercase(),
            path: path.clone(),
            said,
        })
    });
    all.collect()
}

impl Operation {
    /// The permission it needs; none if it is open to everyone.
    fn permission(&self) -> Option<Permission> {
        let name = self.said.get("x-permission")?.as_str().unwrap();
        Permission::ALL.into_iter().find(|one| one.as_str() == name)
    }

    fn parts(&self) -> impl Iterator<Item = &str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    fn takes_files(&self) -> bool {
        self.said["requestBody"]["content"].get("multipart/form-data").is_some()
    }
}

/// POST operations that are known to be read-only: a caller who may only read changes nothing with them.
const LOOKS_BY_POST: [&str; 23] = [
    "POST /v1/mcp_server/list",
    "POST /v1/mcp_server/export",
    "POST /api/v1/retrieval",
    "POST /api/v1/datasets/search",
    "POST /api/v1/datasets/{id}/search",
    "POST /api/v1/searchbots/retrieval_test",
    "POST /api/v1/dify/retrieval",
    "POST /api/v1/runs/{id}/replay",
    // Each MCP tool checks its own permission.
    "POST /mcp",
    "DELETE /mcp",
    // These affect only the caller's own account.
    "POST /api/v1/auth/logout",
    "PATCH /api/v1/users/me",
    "DELETE /api/v1/users/me",
    "DELETE /api/v1/users/me/logins",
    "DELETE /api/v1/users/me/logins/{login}",
    "POST /api/v1/users/me/identities",
    "DELETE /api/v1/users/me/identities/{identity}",
    "PUT /api/v1/users/me/tenant",
    "DELETE /api/v1/users/me/tenants/{tenant}",
    "PATCH /api/v1/tenants/{tenant}",
    "PUT /v1/tenant/agree/{tenant}",
    "POST /v1/user/setting",
    "GET /v1/user/logout",
];

#[test]
fn every_operation_has_a_permission_and_changes_are_not_for_viewers() {
    for operation in operations() {
        let Some(permission) = operation.permission() else {
            assert_eq!(operation.said["security"], json!([]), "{}", operation.name());
            continue;
        };
        let looks = operation.method == "GET" || LOOKS_BY_POST.contains(&operation.name().as_str());
        let fits = looks || permission >= Permission::Run;
        assert!(fits, "{} changes something and needs only `{}`", operation.name(), permission.as_str());
    }
}

/// The role table in docs/accounts.md is read by people.
#[test]
fn the_docs_page_has_the_current_role_table() {
    let mut table = format!("| role | {} |", Permission::ALL.map(Permission::as_str).join(" | "));
    table.push_str("\n|---|---|---|---|---|\n");
    for role in MemberRole::ALL {
        let may = Permission::ALL.map(|permission| if role.may(permission) { "yes" } else { "no" });
        table.push_str(&format!("| {role} | {} |\n", may.join(" | ")));
    }
    let page = include_str!("../../../../docs/accounts.md");
    assert!(page.contains(&table), "docs/accounts.md must have\n{table}");
}

/// A member with a role is refused exactly what the role table does not permit.
#[tokio::test]
async fn roles_are_enforced_on_every_route() {
    let bench = bench(Script::new().reply(Reply::text("A").always())).await;
    let mut refused = BTreeMap::<&str, usize>::new();
    for operation in operations() {
        let Some(permission) = operation.permission() else { continue };
        for role in MemberRole::ALL {
            // A new member each time, because some operations remove what the member has.
            let (member, _) = bench.as_member(FIRST, role).await;
            let path = operation.path.replace('{', "no-").replace('}', "");
            let body = if operation.takes_files() { Json::Null } else { json!({}) };
            let answer = member.ask(&operation.method, &path, body).await;
            let denied = answer.status == 403 && answer.text.contains("this needs the role");
            let name = operation.name();
            assert_eq!(denied, !role.may(permission), "{role} {name}: {} {}", answer.status, answer.text);
            if denied {
                assert_eq!(answer.refusal().0, 103, "{name}");
                *refused.entry(role.as_str()).or_default() += 1;
            }
        }
    }
    assert!(refused["viewer"] > refused["user"] && refused["user"] > refused["editor"], "{refused:?}");
    assert!(!refused.contains_key("owner"), "{refused:?}");
}

/// What the first tenant has, by type.
struct World {
    ids: BTreeMap<&'static str, String>,
}

fn text(json: &Json, pointer: &str) -> String {
    let found = json.pointer(pointer).unwrap_or_else(|| panic!("no {pointer} in {json}"));
    found.as_str().map_or_else(|| found.to_string(), str::to_owned)
}

async fn upload(bench: &Bench, path: &str) -> Json {
    let (body, kind) = form(&[("canary4711.txt", "canary4711 in a file")]);
    let request = Request::builder()
        .method("POST")
        .uri(path)
        .header("authorization", format!("Bearer {}", bench.token))
        .header("content-type", kind)
        .body(Body::from(body))
        .unwrap();
    bench.send(request).await.data()
}

impl World {
    async fn of(bench: &Bench) -> Self {
        let mut world = Self { ids: BTreeMap::new() };
        world.agents(bench).await;
        world.knowledge(bench).await;
        world.people(bench).await;
        world
    }

    fn keep(&mut self, what: &'static str, id: String) -> String {
        assert!(!id.is_empty(), "{what}");
        self.ids.insert(what, id.clone());
        id
    }

    async fn agents(&mut self, bench: &Bench) {
        let agent = bench.store(&format!("{CANARY} agent"), echo_canvas()).await;
        let agent = self.keep("agent", agent);
        let path = format!("/api/v1/agents/{agent}");
        let versions = bench.get(&format!("{path}/versions")).await.data();
        let version = self.keep("version", text(&versions, "/0/id"));
        bench.ask("PUT", &format!("{path}/labels/{CANARY}"), json!({"version": version})).await.data();
        self.keep("label", CANARY.to_owned());
        bench.ask("PUT", &format!("{path}/versions/{version}"), json!({"release": true})).await.data();
        let session = bench.post(&format!("{path}/sessions"), json!({"name": CANARY})).await.data();
        let session = self.keep("session", text(&session, "/id"));
        let asked = json!({"session_id": session, "query": format!("{CANARY} question"), "stream": false});
        let answer = bench.post(&format!("{path}/completions"), asked).await.data();
        let run = self.keep("run", text(&answer, "/message_id"));
        self.keep("response", format!("resp_{run}"));
        let schedule = json!({"name": CANARY, "every": "1h", "enabled": false});
        let schedule = bench.post(&format!("{path}/schedules"), schedule).await.data();
        self.keep("schedule", text(&schedule, "/id"));
        let file = upload(bench, &format!("{path}/upload")).await;
        self.keep("file", text(&file, "/id"));
        let file = upload(bench, "/api/v1/files").await;
        self.keep("managed file", text(&file, "/0/id"));
        let folder = bench.post("/api/v1/files", json!({"name": CANARY})).await.data();
        self.keep("folder", text(&folder, "/id"));
        let share = bench.post(&format!("{path}/shares"), json!({"name": CANARY})).await.data();
        self.keep("share", text(&share, "/id"));
        let form = bench.store(&format!("{CANARY} form"), form_canvas()).await;
        let asked = json!({"query": CANARY, "stream": false});
        bench.post(&format!("/api/v1/agents/{form}/completions"), asked).await.data();
        let tasks = bench.get("/api/v1/tasks").await.data();
        self.keep("task", text(&tasks, "/tasks/0/id"));
    }

    async fn knowledge(&mut self, bench: &Bench) {
        let path = bench.dataset(&format!("{CANARY} dataset")).await;
        self.keep("dataset", path.rsplit('/').next().unwrap().to_owned());
        let document = bench.document(&path, "canary4711.txt", "canary4711 in a document").await;
        let document = self.keep("document", document);
        bench.read(&path, &[&document]).await;
        let readings = bench.get(&format!("{path}/ingestions")).await.data();
        self.keep("reading", text(&readings, "/logs/0/id"));
        let chunks = bench.get(&format!("{path}/documents/{document}/chunks")).await.data();
        self.keep("chunk", text(&chunks, "/chunks/0/id"));
        let chat = json!({"name": format!("{CANARY} chat"), "prompt_config": {"system": CANARY}});
        let chat = self.keep("chat", text(&bench.post("/api/v1/chats", chat).await.data(), "/id"));
        let path = format!("/api/v1/chats/{chat}");
        let session = bench.post(&format!("{path}/sessions"), json!({"name": CANARY})).await.data();
        let session = self.keep("chat session", text(&session, "/id"));
        let asked = json!({"question": CANARY, "session_id": session, "stream": false});
        let answer = bench.post(&format!("{path}/completions"), asked).await.data();
        self.keep("chat message", text(&answer, "/id"));
        let share = bench.post(&format!("{path}/shares"), json!({"name": CANARY})).await.data();
        self.keep("chat share", text(&share, "/id"));
        let app = json!({"name": format!("{CANARY} search"), "description": CANARY});
        self.keep("search app", text(&bench.post("/api/v1/searches", app).await.data(), "/search_id"));
        let memory =
            json!({"name": format!("{CANARY} memory"), "memory_type": ["raw"], "embd_id": "", "llm_id": "m"});
        let memory = bench.post("/api/v1/memories", memory).await.data();
        let memory = self.keep("memory", text(&memory, "/id"));
        let turn = json!({"memory_id": [memory], "agent_id": "a", "session_id": "s", "user_input": CANARY,
            "agent_response": CANARY});
        bench.post("/api/v1/messages", turn).await.data();
        self.keep("memory message", format!("{memory}:1"));
        bench
            .ask("PUT", &format!("/api/v1/secrets/{CANARY}"), json!({"value": "the secret value"}))
            .await
            .data();
        self.keep("secret", CANARY.to_owned());
        // This server is added to the store directly, without a connection check.
        let server = StoredToolServer {
            id: weft_core::id::generate(),
            name: format!("{CANARY} server"),
            url: "http://127.0.0.1:1/mcp".to_owned(),
            transport: "sse".to_owned(),
            description: CANARY.to_owned(),
            sealed: weft_core::Secret::new(format!(r#"{{"variables": {{"token": "{CANARY}"}}}}"#)),
            tools: Map::new(),
            revision: 0,
            created_ms: 1,
            updated_ms: 1,
        };
        bench.app.tool_servers.store().add(&FIRST.into(), &server).await.unwrap();
        self.keep("tool server", server.id);
    }

    async fn people(&mut self, bench: &Bench) {
        self.keep("tenant", FIRST.to_owned());
        let (member, user) = bench.as_member(FIRST, MemberRole::Editor).await;
        self.keep("user", user.to_string());
        let logins = member.get("/api/v1/users/me/logins").await.data();
        self.keep("login", text(&logins, "/0/id"));
        let identity = weft_core::seam::identity_store::Identity {
            hash: weft_core::id::generate(),
            user,
            provider: CANARY.to_owned(),
            issuer: format!("https://{CANARY}.example"),
            subject: CANARY.to_owned(),
            email: String::new(),
            created_ms: 1,
            used_ms: None,
        };
        self.keep("identity", identity.id().to_owned());
        bench.app.accounts.stores.identities.add_identity(&identity).await.unwrap();
        let key = member.post("/api/v1/system/tokens", json!({"name": CANARY})).await.data();
        self.keep("key", text(&key, "/id"));
        let invited = json!({"email": format!("{CANARY}@example.com"), "role": "owner"});
        bench.post(&format!("/api/v1/tenants/{FIRST}/users"), invited).await.data();
    }

    fn id(&self, what: &str) -> String {
        self.ids.get(what).cloned().unwrap_or_else(|| panic!("the first tenant has no {what}"))
    }

    /// The type that a path parameter names.
    fn named(path: &str, part: &str) -> Option<&'static str> {
        let below = |prefixes: &[&str]| prefixes.iter().any(|prefix| path.contains(prefix));
        Some(match part {
            // These are shared by all tenants.
            "id" if below(&["/agents/templates/"]) => return None,
            "name" if below(&["/components/"]) => return None,
            "id" if below(&["/attachments/", "/file/download/", "/document/download/"]) => "file",
            "id" if below(&["/files/", "/file/get/"]) => "managed file",
            "log" => "reading",
            "server" => "tool server",
            "id" if below(&["/api/conversation/"]) => "session",
            "id" if below(&["/chats", "/chatbots/", "/openai/"]) => "chat",
            "id" if below(&["/searches/"]) => "search app",
            "id" if below(&["/agents", "/agentbots/", "/webhook", "/canvas/get", "/canvas/upload/"]) => {
                "agent"
            }
            "id" if below(&["/canvas/cancel/", "/runs/"]) => "run",
            "id" if below(&["/datasets/"]) => "dataset",
            "id" if below(&["/memories/"]) => "memory",
            "id" if below(&["/tasks/"]) => "task",
            "id" if below(&["/responses/"]) => "response",
            "id" if below(&["/canvas/getlistversion/"]) || path.ends_with("canvas/{id}/sessions") => "agent",
            // The path also names the agent or the dataset that these belong to. A picture belongs to its document,
            // which has its own test.
            "component" | "index" | "image" => return None,
            "file" if below(&["/artifact/"]) => "file",
            "session" if below(&["/chats/"]) => "chat session",
            "session" => "session",
            "message" if below(&["/chats/"]) => "chat message",
            "message" if below(&["/logs/"]) => "run",
            "message" => "memory message",
            "share" if below(&["/chats/"]) => "chat share",
            "name" if below(&["/secrets/"]) => "secret",
            "token" => "key",
            "version" => "version",
            "label" => "label",
            "schedule" => "schedule",
            "document" => "document",
            "chunk" => "chunk",
            "share" => "share",
            "tenant" => "tenant",
            "user" => "user",
            "login" => "login",
            "identity" => "identity",
            // These are shared by all tenants.
            "provider" | "instance" => return None,
            _ => panic!("say in `isolation.rs` which id of the other tenant `{{{part}}}` in {path} is"),
        })
    }

    /// The type that a parameter or a body member names, if any.
    fn meant(path: &str, member: &str) -> Option<&'static str> {
        let of_chats = path.contains("/chat");
        Some(match member {
            "agent_id" | "canvas_id" | "canvas_ids" | "model" => "agent",
            "dialog_id" => "chat",
            "id" | "ids" if path.contains("/agents/download") || path.contains("/canvas/download") => "file",
            "ids" if path.ends_with("/files") => "managed file",
            "file_id" | "file_ids" | "src_file_ids" => "managed file",
            "parent_id" | "dest_file_id" => "folder",
            "id" if path.ends_with("/rerun") => "reading",
            "id" | "ids" if path.ends_with("/sessions") && of_chats => "chat session",
            "id" | "ids" if path.ends_with("/sessions") => "session",
            "id" | "ids" if path.ends_with("/documents") => "document",
            "id" | "ids" if path.contains("/datasets") => "dataset",
            "id" | "ids" if path.contains("/chats") => "chat",
            "id" | "ids" => "agent",
            "session_id" | "conversation_id" | "session" if of_chats => "chat session",
            "session_id" | "conversation_id" | "session" | "threadId" => "session",
            "chat_id" => "chat",
            "search_id" => "search app",
            "dataset_ids" | "dataset_id" | "kb_ids" | "knowledge_id" => "dataset",
            "document_ids" | "doc_ids" | "documents" | "doc_id" => "document",
            "chunk_ids" => "chunk",
            "memory_id" | "memory_ids" => "memory",
            "message_id" | "task_id" | "with" | "runId" => "run",
            "previous_response_id" => "response",
            "version" => "version",
            "owner_ids" | "tenant_id" | "tenant" => "tenant",
            "files" => "file",
            "mcp_id" | "mcp_ids" => "tool server",
            "pipeline_id" => "agent",
            "component_id" => "agent",
            _ => return None,
        })
    }
}

/// Ids to use in place of those of the first tenant.
type Ids<'a> = &'a dyn Fn(&str) -> String;

/// The type of a member that is present.
fn type_of(schema: &Json) -> Option<&str> {
    match &schema["type"] {
        Json::Array(types) => types.iter().filter_map(Json::as_str).find(|one| *one != "null"),
        one => one.as_str(),
    }
}

/// A value for a body member that names something.
fn naming(path: &str, name: &str, schema: &Json, ids: Ids<'_>) -> Option<Json> {
    let id = ids(World::meant(path, name)?);
    let types = type_of(schema);
    let list = types == Some("array") || (name.ends_with("ids") && types != Some("string"));
    Some(match name {
        "files" => json!([{"id": id, "name": "x"}]),
        _ if list => json!([id]),
        _ => id.into(),
    })
}

/// The simplest value that a schema allows, or a valid one for members with a special format.
fn simplest(name: &str, schema: &Json) -> Json {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match type_of(schema) {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(false),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ if name == "dsl" => echo_canvas(),
        _ if name == "messages" => json!([{"role": "user", "content": "x"}]),
        _ => json!("x"),
    }
}

fn body(operation: &Operation, ids: Ids<'_>) -> Json {
    let schema = &operation.said["requestBody"]["content"]["application/json"]["schema"];
    let Some(properties) = schema["properties"].as_object() else { return json!({}) };
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    // Members that must be present before the ids are checked.
    let asked = ["question", "query", "name", "messages", "stream", "title"];
    let mut members = Map::new();
    for (name, schema) in properties {
        let needed = required.contains(&name.as_str()) || asked.contains(&name.as_str());
        let named = naming(&operation.path, name, schema, ids);
        if let Some(value) = named.or_else(|| needed.then(|| simplest(name, schema))) {
            members.insert(name.clone(), value);
        }
    }
    members.into()
}

/// A request with ids in every place that takes one.
fn request(operation: &Operation, ids: Ids<'_>) -> (String, Json) {
    let mut path = operation.path.clone();
    for part in operation.parts() {
        let id = World::named(&operation.path, part).map_or_else(|| "none".to_owned(), ids);
        path = path.replace(&format!("{{{part}}}"), &id);
    }
    let query = operation.said["parameters"].as_array().into_iter().flatten();
    let query = query.filter(|parameter| parameter["in"] == "query").filter_map(|parameter| {
        let name = parameter["name"].as_str()?;
        let required = parameter["required"] == true;
        let schema = &parameter["schema"];
        let named = naming(&operation.path, name, schema, ids);
        let value = named.or_else(|| required.then(|| simplest(name, schema)))?;
        let value = value.get(0).cloned().unwrap_or(value);
        Some(format!("{name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
    });
    let query: Vec<String> = query.collect();
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    (path, body(operation, ids))
}

async fn asked(bench: &Bench, operation: &Operation, ids: Ids<'_>) -> Reading {
    let (path, body) = request(operation, ids);
    if !operation.takes_files() {
        return bench.ask(&operation.method, &path, body).await;
    }
    let (body, kind) = form(&[("theirs.txt", "theirs")]);
    let request = Request::builder()
        .method(operation.method.as_str())
        .uri(path)
        .header("authorization", format!("Bearer {}", bench.token))
        .header("content-type", kind)
        .body(Body::from(body))
        .unwrap();
    bench.send(request).await
}

/// Operations that answer alike for every id: a request to stop gets the same response whether the id exists or not,
/// and the caller's own name is not an id of another tenant.
const SAME_FOR_ALL: [&str; 4] = [
    "PUT /api/v1/secrets/{name}",
    "PATCH /api/v1/tasks/{id}",
    "POST /api/v1/tasks/{id}/cancel",
    "PUT /v1/canvas/cancel/{id}",
];

/// Everything that a tenant sees of its own data, without what changes by being read.
async fn seen(bench: &Bench, world: &World) -> BTreeMap<String, String> {
    let volatile = [
        "last_used_time",
        "next_since_ts",
        "now",
        "time",
        "duration",
        "elapsed",
        "last_login_time",
        "process_duration",
    ];
    let mut seen = BTreeMap::new();
    for operation in operations() {
        // Counters change by being read.
        let counts = operation.path.contains("/audit") || operation.path == "/metrics";
        let quiet = !operation.path.contains("/events") && !counts;
        let looks = operation.method == "GET" && operation.permission().is_some() && quiet;
        if !looks || operation.path.contains("logout") || operation.parts().any(|part| part == "login") {
            continue;
        }
        let mut path = operation.path.clone();
        for part in operation.parts() {
            let id =
                World::named(&operation.path, part).map_or_else(|| "none".to_owned(), |what| world.id(what));
            path = path.replace(&format!("{{{part}}}"), &id);
        }
        let reading = bench.get(&path).await;
        let mut shown =
            serde_json::from_str(&reading.text).unwrap_or_else(|_| Json::String(reading.text.clone()));
        forget(&mut shown, &volatile);
        seen.insert(operation.name(), format!("{} {shown}", reading.status));
    }
    seen
}

fn forget(json: &mut Json, names: &[&str]) {
    match json {
        Json::Object(members) => {
            members.retain(|name, _| !names.contains(&name.as_str()));
            members.values_mut().for_each(|value| forget(value, names));
        }
        Json::Array(items) => items.iter_mut().for_each(|item| forget(item, names)),
        _ => {}
    }
}

#[tokio::test]
async fn data_of_another_tenant_does_not_exist() {
    let bench = bench(Script::new().reply(Reply::text("A").always())).await;
    let world = World::of(&bench).await;
    let before = seen(&bench, &world).await;
    let canaries = before.values().filter(|shown| shown.contains(CANARY)).count();
    assert!(canaries > 20, "only {canaries} responses contain the canary");
    let theirs = |what: &str| world.id(what);
    // Ids of the same form, so that only existence differs.
    let nobodys = |what: &str| match what {
        "tenant" => "nowhere".to_owned(),
        "secret" | "label" => "nothing0815".to_owned(),
        "response" => format!("resp_{}", "e".repeat(32)),
        "memory message" => format!("{}:1", "e".repeat(32)),
        "version" => "e".repeat(world.id("version").len()),
        "chunk" => "e".repeat(world.id("chunk").len()),
        _ => "e".repeat(32),
    };
    let mut compared = 0;
    for operation in operations() {
        // The audit log repeats to callers what they requested themselves.
        if operation.permission().is_none() || operation.path.contains("/audit") {
            continue;
        }
        let (name, mut answers) = (operation.name(), Vec::new());
        for ids in [&theirs as Ids<'_>, &nobodys] {
            // A new member each time, because some operations remove what the member has.
            let (stranger, _) = bench.as_member(SECOND, MemberRole::Owner).await;
            let reading = asked(&stranger, &operation, ids).await;
            let (path, sent) = request(&operation, ids);
            let sent = format!("{path} {sent}");
            // The name of the first tenant is a word that appears in many responses.
            for (what, id) in world.ids.iter().filter(|(what, _)| **what != "tenant") {
                let told = reading.text.contains(id.as_str()) && !sent.contains(id.as_str());
                assert!(!told, "{name} shows the {what} of another tenant: {}", reading.text);
            }
            let told = reading.text.contains(CANARY) && !sent.contains(CANARY);
            assert!(!told, "{name} shows data of another tenant: {}", reading.text);
            let code =
                serde_json::from_str::<Json>(&reading.text).map_or(Json::Null, |json| json["code"].clone());
            answers.push((reading.status, code, reading.text));
        }
        let ours = operation.parts().filter_map(|part| World::named(&operation.path, part)).count();
        if ours > 0 {
            compared += 1;
            let (a, b) = (&answers[0], &answers[1]);
            assert_eq!((a.0, &a.1), (b.0, &b.1), "{name} reveals that something exists:\n{}\n{}", a.2, b.2);
            let refused = a.0 != 200 || a.1 != json!(0);
            // A request to stop a run gets the same response for every id, on each of its routes.
            let stops = operation.path.contains("/cancel");
            let harmless = stops || SAME_FOR_ALL.contains(&name.as_str()) || empty(&a.2);
            assert!(refused || harmless, "{name} returns data of another tenant: {}", a.2);
        }
    }
    assert!(compared > 100, "only {compared} operations take ids");
    let after = seen(&bench, &world).await;
    for (name, shown) in &before {
        assert_eq!(shown, &after[name], "{name} of the first tenant has changed");
    }
}

/// Whether a response contains no data.
fn empty(answer: &str) -> bool {
    let Ok(json) = serde_json::from_str::<Json>(answer) else { return false };
    let nothing = |value: &Json| match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => true,
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(members) => members.is_empty(),
    };
    match &json["data"] {
        Json::Object(members) => members.values().all(nothing),
        data => *data != json!(true) && nothing(data),
    }
}
