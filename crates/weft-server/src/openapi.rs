//! The HTTP API as a document: OpenAPI 3.1, and a page for people. Generated from what each line of the router
//! declares about its route.

pub mod accounts;
pub mod agents;
pub mod chats;
pub mod common;
pub mod datasets;
pub mod editing;
pub mod files;
pub mod mcp;
pub mod memories;
pub mod offers;
pub mod page;
pub mod readings;
pub mod responses;
pub mod runs;
pub mod schedules;
pub mod searches;
pub mod shape;
pub mod tags;
pub mod tool_servers;
pub mod versions;
pub mod webhooks;

use axum::handler::Handler;
use axum::routing::MethodRouter;
use axum::{Extension, Router};
use serde_json::{Map, Value as Json, json};
use weft_core::access::Permission;

pub use axum::routing::MethodFilter;

use self::shape::{Member, Shapes, Type, object, schema};
use crate::handler::{ResponseFuture, on};
use crate::state::ServerState;

/// Description of a route.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Parameters of the query string.
    pub query: &'static [Member],
    /// The request body.
    pub body: Body,
    /// The answer.
    pub answer: Answer,
    /// Who may call it.
    pub access: Access,
}

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anyone who can reach the server.
    Open,
    /// Members whose role has this permission.
    Needs(Permission),
    /// The same, and holders of a share token for what the path names as `{id}`.
    Shared(Permission, Shared),
}

/// What a share token may give access to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// An agent.
    Agent,
    /// A chat assistant.
    Chat,
    /// A file of a conversation, which the path names instead of an agent: the handler decides whether a visitor may
    /// read it.
    File,
}

impl Access {
    /// Returns the permission that callers with a role need; `None` if anyone may call the route.
    pub fn permission(self) -> Option<Permission> {
        match self {
            Self::Open => None,
            Self::Needs(permission) | Self::Shared(permission, _) => Some(permission),
        }
    }
}

/// The body of a request.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// Nothing.
    Nothing,
    /// A JSON object.
    Json(Type),
    /// Files in a form, each in a part with the name `file`.
    Files,
    /// The same, or a JSON object.
    FilesOrJson(Type),
}

/// The answer to a request.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// `{code, message, data}`.
    Data(Type),
    /// The same with the total number of entries next to the data.
    Counted(Type, &'static str),
    /// JSON without an envelope.
    Whole(Type),
    /// Events.
    Events,
    /// Events, or `{code, message, data}` when the caller wants a single answer.
    EventsOrData(Type),
    /// Events, or JSON without an envelope when the caller wants a single answer.
    EventsOrWhole(Type),
    /// A JSON-RPC message, or events with such messages; the same for failures.
    JsonRpc,
    /// A text.
    Text,
    /// A file.
    File,
}

impl Operation {
    /// A route without input whose answer is not described. Private, so that a route cannot be described without
    /// saying who may call it.
    const fn new(summary: &'static str, access: Access) -> Self {
        let answer = Answer::Data(Type::Any);
        Self { summary, query: &[], body: Body::Nothing, answer, access }
    }

    /// A route for anyone who can reach the server.
    pub const fn open(summary: &'static str) -> Self {
        Self::new(summary, Access::Open)
    }

    /// A route that reads something.
    pub const fn reads(summary: &'static str) -> Self {
        Self::new(summary, Access::Needs(Permission::Read))
    }

    /// A route that runs agents, or is part of conversations with them.
    pub const fn runs(summary: &'static str) -> Self {
        Self::new(summary, Access::Needs(Permission::Run))
    }

    /// A route that changes agents, datasets, or what belongs to them.
    pub const fn edits(summary: &'static str) -> Self {
        Self::new(summary, Access::Needs(Permission::Edit))
    }

    /// A route that manages access rights.
    pub const fn administers(summary: &'static str) -> Self {
        Self::new(summary, Access::Needs(Permission::Administer))
    }

    /// Adds query parameters.
    #[must_use]
    pub const fn query(self, query: &'static [Member]) -> Self {
        Self { query, ..self }
    }

    /// Sets a JSON body with these members.
    #[must_use]
    pub const fn body(self, members: &'static [Member]) -> Self {
        Self { body: Body::Json(Type::Object(members)), ..self }
    }

    /// Sets the body.
    #[must_use]
    pub const fn takes(self, body: Body) -> Self {
        Self { body, ..self }
    }

    /// Sets the data of the answer.
    #[must_use]
    pub const fn data(self, kind: Type) -> Self {
        Self { answer: Answer::Data(kind), ..self }
    }

    /// Sets the answer.
    #[must_use]
    pub const fn answer(self, answer: Answer) -> Self {
        Self { answer, ..self }
    }

    /// Also allows holders of a share token for what its path names.
    #[must_use]
    pub const fn shared(self, what: Shared) -> Self {
        match self.access {
            Access::Needs(permission) => Self { access: Access::Shared(permission, what), ..self },
            Access::Open | Access::Shared(..) => self,
        }
    }
}

/// A route with its description.
#[derive(Clone, Debug)]
pub struct Documented {
    /// `GET`, `POST` …
    pub method: &'static str,
    /// Its path, with `{name}` for the variable parts.
    pub path: String,
    /// The heading under which it is listed.
    pub group: &'static str,
    /// Its description.
    pub operation: &'static Operation,
}

/// Routes under one heading, each with its description.
#[derive(Debug)]
pub struct Routes {
    router: Router<ServerState>,
    group: &'static str,
    documented: Vec<Documented>,
}

fn name(method: MethodFilter) -> &'static str {
    const NAMES: [(MethodFilter, &str); 4] = [
        (MethodFilter::POST, "POST"),
        (MethodFilter::PUT, "PUT"),
        (MethodFilter::PATCH, "PATCH"),
        (MethodFilter::DELETE, "DELETE"),
    ];
    NAMES.iter().find(|(filter, _)| *filter == method).map_or("GET", |(_, name)| name)
}

impl Routes {
    /// No routes yet, under this heading.
    pub fn new(group: &'static str) -> Self {
        Self { router: Router::new(), group, documented: Vec::new() }
    }

    /// Adds a route.
    #[must_use]
    pub fn on<H, T>(
        self,
        method: MethodFilter,
        path: &'static str,
        handler: H,
        operation: &'static Operation,
    ) -> Self
    where
        H: Handler<T, ServerState, Future = ResponseFuture>,
    {
        self.with(method, path, on(method, handler), operation)
    }

    /// Adds a route that also answers other methods.
    #[must_use]
    pub fn with(
        mut self,
        method: MethodFilter,
        path: &'static str,
        handler: MethodRouter<ServerState>,
        operation: &'static Operation,
    ) -> Self {
        let group = self.group;
        self.documented.push(Documented { method: name(method), path: path.to_owned(), group, operation });
        // The extractor that identifies the caller finds here what the caller needs.
        let handler = handler.route_layer(Extension(operation.access));
        Self { router: self.router.route(path, handler), ..self }
    }

    /// Adds the routes under another heading.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.documented.extend(other.documented);
        Self { router: self.router.merge(other.router), ..self }
    }

    /// Adds other routes below a path.
    #[must_use]
    pub fn nest(mut self, path: &str, other: Self) -> Self {
        let below = other.documented.into_iter().map(|route| {
            let path = format!("{path}{}", route.path.trim_end_matches('/'));
            Documented { path, ..route }
        });
        self.documented.extend(below);
        Self { router: self.router.nest(path, other.router), ..self }
    }

    /// Returns the router and the descriptions of its routes.
    pub fn into_parts(self) -> (Router<ServerState>, Vec<Documented>) {
        (self.router, self.documented)
    }
}

/// The operation id without the number that makes it unique.
fn id(route: &Documented) -> String {
    let words = route.path.split(['/', '-', '_']).map(|word| word.trim_matches(['{', '}']));
    let words: String = words.filter(|word| !word.is_empty()).map(|word| format!("_{word}")).collect();
    format!("{}{words}", route.method.to_lowercase())
}

/// Builds the OpenAPI document.
pub fn document(routes: &[Documented]) -> Json {
    let (mut paths, mut shapes) = (Map::new(), Shapes::new());
    let mut groups: Vec<&str> = Vec::new();
    for route in routes {
        if !groups.contains(&route.group) {
            groups.push(route.group);
        }
        let operation = operation(route, &mut shapes);
        let path = paths.entry(route.path.clone()).or_insert_with(|| json!({}));
        path[route.method.to_lowercase()] = operation;
    }
    shapes.insert("Failure".to_owned(), failure());
    let tags: Vec<Json> = groups.into_iter().map(|group| json!({"name": group})).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weft",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Runs agent canvases. Responses are `{code, message, data}` with HTTP status 200, even \
                for most errors: `code` is 0 on success.",
            "license": {"name": env!("CARGO_PKG_LICENSE")},
        },
        "servers": [{"url": "/"}],
        "tags": tags,
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": shapes,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer",
                "description": "an API key, or the value of the Authorization header in the response to a \
                sign-in; not needed when `auth` is off"},
                "share": {"type": "http", "scheme": "bearer",
                "description": "a share token of the agent or assistant named in the path"}},
        },
    })
}

fn failure() -> Json {
    json!({"type": "object", "required": ["code", "message"], "description": "what went wrong", "properties": {
        "code": {"type": "integer", "not": {"const": 0},
            "description": "100 internal error, 101 invalid argument, 102 not found or not possible with the \
                data, 103 not permitted to the caller, 105 another service unavailable, 106 busy, 401 \
                no valid token, 404 no such route, 409 conflict, 413 too large, 429 too many \
                requests, 500 a run failed"},
        "message": {"type": "string"}, "data": {}, "error": {"description": "the same in the format of the OpenAI API, on its routes"},
    }})
}

/// Returns who may call a route, as a sentence; empty if anyone may.
pub fn needs(access: Access) -> String {
    let Some(permission) = access.permission() else { return String::new() };
    let role = permission.least_role();
    match access {
        Access::Shared(..) => format!("Requires the role `{role}` or a share token."),
        Access::Open | Access::Needs(_) => format!("Requires the role `{role}`."),
    }
}

fn operation(route: &Documented, shapes: &mut Shapes) -> Json {
    let Operation { summary, query, body, answer, access } = route.operation;
    let mut parameters: Vec<Json> = route
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    for member in *query {
        let schema = schema(member.kind, shapes);
        parameters.push(json!({"name": member.name, "in": "query", "required": member.required,
            "description": member.summary, "schema": schema}));
    }
    let mut operation = json!({"operationId": id(route), "tags": [route.group], "summary": summary,
        "responses": {"200": {"description": "the result, or an error", "content": content(*answer, shapes)},
            "default": {"description": "what went wrong",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}}}});
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    match body {
        Body::Nothing => {}
        Body::Json(kind) => {
            let schema = schema(*kind, shapes);
            operation["requestBody"] = json!({"content": {"application/json": {"schema": schema}}});
        }
        Body::Files => {
            operation["requestBody"] = json!({"content": {"multipart/form-data": {"schema": files()}}});
        }
        Body::FilesOrJson(kind) => {
            let schema = schema(*kind, shapes);
            operation["requestBody"] = json!({"content": {"multipart/form-data": {"schema": files()},
                "application/json": {"schema": schema}}});
        }
    }
    match access.permission() {
        None => operation["security"] = json!([]),
        Some(permission) => {
            operation["x-permission"] = permission.as_str().into();
            operation["description"] = needs(*access).into();
        }
    }
    if matches!(access, Access::Shared(..)) {
        operation["security"] = json!([{"token": []}, {"share": []}]);
    }
    if *access == Access::Open || matches!(answer, Answer::JsonRpc) {
        // These routes report failures in their own format.
        let answer = operation["responses"]["200"].clone();
        operation["responses"]["default"] = answer;
    }
    operation
}

/// A form with files.
fn files() -> Json {
    json!({"type": "object", "properties": {"file": {"type": "array",
        "items": {"type": "string", "contentMediaType": "application/octet-stream"}}}})
}

fn content(answer: Answer, shapes: &mut Shapes) -> Json {
    let failure = || json!({"$ref": "#/components/schemas/Failure"});
    let or_failure = |schema: Json| json!({"schema": {"anyOf": [schema, failure()]}});
    let envelope = |kind: Type, count: Option<&'static str>, shapes: &mut Shapes| {
        let mut success = object(&[], shapes);
        success["properties"] =
            json!({"code": {"const": 0}, "message": {"type": "string"}, "data": schema(kind, shapes)});
        success["required"] = json!(["code", "message", "data"]);
        if let Some(count) = count {
            success["properties"][count] = json!({"type": "integer", "description": "total number"});
            success["required"] = json!(["code", "message", "data", count]);
        }
        success
    };
    // The specification leaves open whether the schema of a stream describes the whole text or each event.
    let events = || json!({"schema": {"description": "server-sent events with JSON data"}});
    match answer {
        Answer::Data(kind) => json!({"application/json": or_failure(envelope(kind, None, shapes))}),
        Answer::Counted(kind, count) => {
            json!({"application/json": or_failure(envelope(kind, Some(count), shapes))})
        }
        Answer::Whole(kind) => json!({"application/json": or_failure(schema(kind, shapes))}),
        Answer::Events => {
            json!({"text/event-stream": events(), "application/json": {"schema": failure()}})
        }
        Answer::EventsOrData(kind) => json!({"text/event-stream": events(),
            "application/json": or_failure(envelope(kind, None, shapes))}),
        Answer::EventsOrWhole(kind) => {
            json!({"text/event-stream": events(), "application/json": or_failure(schema(kind, shapes))})
        }
        Answer::JsonRpc => {
            let mut message = object(&[], shapes);
            message["properties"] = json!({"jsonrpc": {"const": "2.0"}});
            message["required"] = json!(["jsonrpc"]);
            json!({"text/event-stream": events(), "application/json": or_failure(message)})
        }
        Answer::Text => json!({"text/plain": {"schema": {"type": "string"}}}),
        Answer::File => {
            json!({"*/*": {"schema": {"type": "string", "contentMediaType": "application/octet-stream"}},
            "application/json": {"schema": failure()}})
        }
    }
}
