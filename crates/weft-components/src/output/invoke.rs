//! The Invoke component: sends an HTTP request.
//!
//! An answer with a status from 400 on is an error, unless `fail_on_status` is false; so is a redirect, which is not
//! followed. Only GET is retried, up to `max_retries` times, when there is no answer or the server fails: repeating any
//! other method could do its work twice. With `idempotent`, every request carries a key that is the same when the
//! request is repeated, even by another process after a crash, and that no other call uses; the server must process
//! requests with the same key only once.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Map;
use weft_core::context::Signal;
use weft_core::exact::kept;
use weft_core::seam::http::{HttpBody, HttpRequest, HttpResponse};
use weft_core::value::to_text;
use weft_core::{
    Component, ComponentSpec, Error, Finished, Json, NodeContext, Outputs, ParamProblem, Reads, Reference,
    Result, Role, Shape, Template, ToolSpec, Value, async_trait,
};

use crate::params::{self, Field, FieldGroup, Kind, Params, choice, described, pointer};
use crate::web::fetch::{is_page, redirected};
use crate::web::{
    DELAY_AFTER_ERROR, HEADERS, MAX_RETRIES, Retries, address, address_problem, has_backslash, headers,
    page_text, proxy_problem, refused, rendered, secrets, shown, with_scheme,
};

/// Maximum number of bytes in an answer.
// The response is one value in memory, and one record of the journal.
pub(crate) const BODY_MAX: usize = 10 * 1024 * 1024;
/// Maximum number of seconds for one request.
// The default time limit of the node itself.
const SECONDS_MAX: usize = 600;

static URL: Field<Template> =
    Field::template("url", "the address; `http://` is added when no scheme is given");
static METHOD: Field<&str> = Field::choice(
    "method",
    "get",
    &[choice("get", ""), choice("post", ""), choice("put", "")],
    "the HTTP method",
);
static VARIABLES: Field = Field::raw(
    "variables",
    Kind::Objects(&[
        Field::raw("key", Kind::Text, "its name"),
        Field::raw("ref", Kind::Reference, "the reference to its value"),
        Field::raw("value", Kind::Template, "its value if the reference has none"),
    ]),
    "the values to send",
);
static FIELDS: Field = Field::raw(
    "fields",
    Kind::Values,
    "further names and values to send; a variable of the same name takes precedence",
)
.by_model_if_wanted("names and values to send with the request; write lists and objects as JSON text");
static DATATYPE: Field<String> = Field::text("datatype", "the format of a post or put")
    .or("json")
    .one_of(&[choice("json", "a JSON object"), choice("formdata", "a form")])
    .shown_when("method", &["post", "put"]);
static TIMEOUT: Field<usize> =
    Field::count("timeout", 60, &(1..=SECONDS_MAX), "the time limit for the response").unit("seconds");
static PROXY: Field<String> = Field::text("proxy", "the proxy to use");
static CLEAN_HTML: Field<bool> =
    Field::flag("clean_html", "whether to return the text of a web page without its markup");
static FAIL_ON_STATUS: Field<bool> =
    Field::flag("fail_on_status", "whether a redirect or a status of 400 or above is an error")
        .on_by_default();
static IDEMPOTENT: Field<bool> = Field::flag(
    "idempotent",
    "whether the server recognizes repeated requests by the Idempotency-Key header, which is then sent; requests may be repeated after a failure or a crash",
);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Invoke",
    role: Role::Step,
    summary: "Sends an HTTP request and returns the response.",
    fields: &[
        params::fields(&[&URL, &METHOD, &HEADERS, &VARIABLES, &FIELDS, &DATATYPE, &CLEAN_HTML]),
        FieldGroup {
            title: "Timeouts and retries",
            fields: &[&TIMEOUT, &FAIL_ON_STATUS, &IDEMPOTENT, &MAX_RETRIES, &DELAY_AFTER_ERROR, &PROXY],
        },
    ],
    outputs: &[
        weft_core::OutputSpec::new("result", "string", "the body of the response"),
        weft_core::OutputSpec::new("status", "integer", "its HTTP status"),
    ],
    time_limit: None,
    measuring_only: false,
    // The address, the method and the headers are set by the canvas: headers often hold a credential, which must not be
    // sent to an address that a model chooses.
    tool: Some(ToolSpec { function: "invoke", idempotent: false, sources: false }),
    build: |source| {
        let mut params = Params::of(source);
        let url = params.take(&URL);
        if url.source().trim().is_empty() {
            params.problem(ParamProblem::new("/url", "is missing").help("name the address to call"));
        }
        let method = params.take(&METHOD);
        let form = params.take(&DATATYPE).eq_ignore_ascii_case("formdata");
        let headers = headers(&mut params);
        let variables = variables(&mut params);
        // An address or a form may repeat a name.
        if method != "get" && !form {
            repeated(&mut params);
        }
        let retries = Retries::of(&mut params);
        let idempotent = params.take(&IDEMPOTENT);
        let invoke = Invoke {
            url,
            method: method.to_uppercase(),
            headers,
            variables,
            form,
            proxy: Some(params.take(&PROXY)).filter(|text| !text.trim().is_empty()),
            time_limit: Duration::from_secs(u64::try_from(params.take(&TIMEOUT)).unwrap_or(60)),
            clean_html: params.take(&CLEAN_HTML),
            fail_on_status: params.take(&FAIL_ON_STATUS),
            idempotent,
            retries: match (idempotent, method == "get") {
                (true, _) => retries.idempotent(),
                (false, true) => retries,
                // Any other method could do its work twice.
                (false, false) => retries.none(),
            },
            warnings: params.warnings(),
        };
        params.finish(invoke)
    },
};

struct ArgumentVariable {
    key: String,
    reference: Option<Reference>,
    value: Fallback,
}

enum Fallback {
    Constant(Json),
    Text(Template),
}

struct Invoke {
    url: Template,
    method: String,
    headers: Vec<(String, Template)>,
    variables: Vec<ArgumentVariable>,
    form: bool,
    proxy: Option<String>,
    time_limit: Duration,
    clean_html: bool,
    fail_on_status: bool,
    idempotent: bool,
    retries: Retries,
    warnings: Vec<ParamProblem>,
}

/// The header that identifies a repeated request.
const KEY_HEADER: &str = "Idempotency-Key";

fn variables(params: &mut Params<'_>) -> Vec<ArgumentVariable> {
    let rows = params.rows(&VARIABLES, &["key", "ref", "value", "component_id"]);
    let mut variables: Vec<_> =
        rows.into_iter().map(|(place, object)| variable(params, place, object)).collect();
    // A canvas may make both lists arbitrarily long.
    let named: HashSet<String> = variables.iter().map(|variable| variable.key.clone()).collect();
    for (key, value) in fields(params).into_iter().filter(|(key, _)| !named.contains(key)) {
        variables.push(ArgumentVariable { key, reference: None, value });
    }
    variables
}

/// Warns about names that occur twice, of which an object has room for one.
fn repeated(params: &mut Params<'_>) {
    let rows = params.get(&VARIABLES).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let mut seen = HashSet::new();
    for (place, row) in rows.iter().enumerate() {
        let Some(key) = row.get("key").and_then(Json::as_str).filter(|key| !key.is_empty()) else { continue };
        if !seen.insert(key) {
            let at = pointer(&["variables", &place.to_string(), "key"]);
            let message = format!("an earlier variable is also called `{key}`: only this one is sent");
            params.warn(ParamProblem::new(at, message).help("rename or remove one of them"));
        }
    }
}

fn fields(params: &mut Params<'_>) -> Vec<(String, Fallback)> {
    let source = params.source;
    let names = source.names();
    let Some(value) = params.get(&FIELDS) else { return Vec::new() };
    let Json::Object(members) = value else {
        let problem = ParamProblem::new("/fields", format!("is {}", described(value)));
        params.problem(problem.help("write it as {\"name\": \"value\"}"));
        return Vec::new();
    };
    let mut fields = Vec::new();
    for (key, value) in members {
        let value = match value {
            Json::String(text) => Fallback::Text(Template::parse_value(text, names)),
            Json::Array(_) | Json::Object(_) => {
                let problem =
                    ParamProblem::new(pointer(&["fields", key]), format!("is {}", described(value)));
                params.problem(problem.help("write lists and objects as JSON text"));
                continue;
            }
            value => Fallback::Constant(value.clone()),
        };
        fields.push((key.clone(), value));
    }
    fields
}

fn variable(params: &mut Params<'_>, place: usize, object: &Map<String, Json>) -> ArgumentVariable {
    let at = |key: &str| pointer(&["variables", &place.to_string(), key]);
    let key = object.get("key").map(to_text).unwrap_or_default();
    if key.is_empty() {
        params.problem(ParamProblem::new(at("key"), "the variable has no name"));
    }
    let text = object.get("ref").and_then(Json::as_str).filter(|text| !text.trim().is_empty());
    let reference = text.and_then(|text| params.reference_at(at("ref"), text));
    if text.is_none() && object.get("value").is_none_or(Json::is_null) {
        let name = pointer(&["variables", &place.to_string()]);
        let problem =
            ParamProblem::new(name, format!("`{key}` has neither `ref` nor `value`, so it is sent as null"));
        params.warn(problem.help(match object.get("component_id") {
            Some(_) => "write the component's output as `ref`; `component_id` is obsolete",
            None => "write a reference as `ref`, or a text as `value`",
        }));
    }
    let value = match object.get("value") {
        Some(Json::String(text)) => Fallback::Text(Template::parse_value(text, params.source.names())),
        other => Fallback::Constant(other.cloned().unwrap_or_default()),
    };
    ArgumentVariable { key, reference, value }
}

impl Invoke {
    fn values(&self, ctx: &NodeContext) -> Result<Vec<(String, Json)>> {
        let value = |variable: &ArgumentVariable| {
            let referred = variable.reference.as_ref();
            let referred = referred.filter(|reference| !ctx.inputs.json(reference).is_null());
            match (referred, &variable.value) {
                (Some(reference), _) => ctx.inputs.copied(reference),
                (None, Fallback::Constant(value)) => Ok(value.clone()),
                (None, Fallback::Text(template)) => template.copied(&ctx.inputs),
            }
        };
        self.variables.iter().map(|variable| Ok((variable.key.clone(), value(variable)?))).collect()
    }

    fn request(&self, ctx: &NodeContext) -> Result<HttpRequest> {
        let text = address(&self.url, &ctx.inputs)?;
        let wrong = |why: &str| {
            Error::invalid(format!("`{}` {why}", self.url.source()))
                .help("enter a complete address, such as `https://service.example/path`")
        };
        if has_backslash(&text) {
            return Err(wrong("has a backslash"));
        }
        let mut url = url::Url::parse(&with_scheme(text.trim(), "http"))
            .map_err(|cause| wrong("is not an address").because(cause))?;
        let values = self.values(ctx)?;
        let body = match self.method.as_str() {
            "GET" => {
                // An empty list would leave a `?` at the end of the address.
                if !values.is_empty() {
                    url.query_pairs_mut()
                        .extend_pairs(values.iter().map(|(key, value)| (key, to_text(value))));
                }
                HttpBody::Empty
            }
            _ if self.form => {
                HttpBody::Form(values.into_iter().map(|(key, value)| (key, to_text(&value))).collect())
            }
            _ => HttpBody::Json(values.into_iter().map(|(key, value)| (key, parsed(value))).collect()),
        };
        let mut headers = rendered(&self.headers, &ctx.inputs)?;
        // A canvas may know a better key, such as an order number.
        if self.idempotent && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(KEY_HEADER)) {
            headers.push((KEY_HEADER.to_owned(), ctx.call_key()));
        }
        Ok(HttpRequest {
            method: self.method.clone(),
            url: url.into(),
            headers,
            body,
            time_limit: self.time_limit,
            body_max: BODY_MAX,
            proxy: self.proxy.clone(),
        })
    }
}

impl Invoke {
    /// Reports that an answer is elsewhere: a redirect is not followed, and its body is of no use.
    async fn answer_to_redirect(&self, ctx: &NodeContext, response: &HttpResponse) -> Result<()> {
        let Some(place) = redirected(response) else { return Ok(()) };
        let said =
            format!("the response has the status {} and redirects to `{}`", response.status, shown(place));
        // Many forms answer like this once their work is done.
        let is_done = matches!(response.status, 302 | 303) && self.method != "GET";
        if !self.fail_on_status || is_done {
            return ctx.signal(Signal::Warn(format!("{said}, which is not followed"))).await;
        }
        Err(Error::invalid(format!("{said}: redirects are not followed")).help(
            "write that address as `url`, use HttpGet, which follows them, or set `fail_on_status` to false",
        ))
    }
}

/// Parses a text that is JSON, so that its value is sent; an integer with more digits than a number can hold is sent as
/// text.
fn parsed(value: Json) -> Json {
    match &value {
        Json::String(text) => serde_json::from_str(&kept(text)).unwrap_or(value),
        _ => value,
    }
}

#[async_trait]
impl Component for Invoke {
    fn shape(&self) -> Shape {
        let headers = self.headers.iter().flat_map(|(_, value)| value.references().cloned());
        let variables = self.variables.iter().flat_map(|variable| {
            let texts: Vec<Reference> = match &variable.value {
                Fallback::Constant(_) => Vec::new(),
                Fallback::Text(template) => template.references().cloned().collect(),
            };
            variable.reference.clone().into_iter().chain(texts)
        });
        let reads = Reads::always(self.url.references().cloned().chain(headers).chain(variables));
        let wrong = address_problem(URL.name(), &self.url);
        let proxy = proxy_problem(PROXY.name(), self.proxy.as_deref());
        let warnings = self.warnings.iter().cloned().chain(wrong).chain(proxy).collect();
        let secrets = secrets(&self.headers);
        Shape { reads, main_output: "result", warnings, secrets, ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let response = self.retries.send(ctx, self.request(ctx)?).await?;
        // Otherwise a canvas would take the page of an error for an answer.
        if self.fail_on_status && response.status >= 400 {
            return Err(refused(&response).help("correct the request, or set `fail_on_status` to false"));
        }
        self.answer_to_redirect(ctx, &response).await?;
        let status = response.status;
        // In anything but a page, `<` is an ordinary character.
        let body = if self.clean_html && is_page(&response) {
            page_text(response.body).await?
        } else {
            response.body
        };
        let mut outputs = Outputs::of("result", Value::text(body));
        outputs.set("status", Json::from(status));
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, Stage};
    use serde_json::{Value as Json, json};
    use weft_core::seam::http::{HttpBody, HttpRequest, HttpResponse};
    use weft_core::{Error, ErrorKind, Result};

    fn page(status: u16, body: &str) -> Result<HttpResponse> {
        Ok(HttpResponse { status, headers: Vec::new(), body: body.to_owned() })
    }

    /// The requests, and the result of these answers.
    async fn invoked(params: Json, pages: Vec<Result<HttpResponse>>) -> (Vec<HttpRequest>, Result<Json>) {
        let node = Node::new("Invoke", params);
        let component = node.build();
        let values =
            [("Agent:A@id", json!("a b")), ("Agent:A@o", json!({"x": [1]})), ("sys.query", json!("q&q"))];
        let stage = Stage::new(&node, &*component, Setting::values(values));
        *stage.outside.pages.lock().unwrap() = pages;
        let result = component.run(&stage.ctx).await.map(|finished| json!(finished.outputs));
        let sent = stage.outside.sent.lock().unwrap().clone();
        (sent, result)
    }

    #[tokio::test]
    async fn get_sends_its_variables_in_the_url() {
        let variables = json!([{"key": "q", "ref": "sys.query", "value": "no"}, {"key": "n", "ref": "Agent:A@none", "value": "5"}]);
        let params = json!({"url": "example.org/{Agent:A@id}?k=1", "variables": variables, "proxy": "",
            "headers": "{\"X-Id\": \"<{Agent:A@id}>\"}", "timeout": "5"});
        let (sent, result) = invoked(params, vec![page(200, "ok")]).await;
        assert_eq!(sent[0].url, "http://example.org/a%20b?k=1&q=q%26q&n=5");
        assert_eq!(sent[0].headers, [("X-Id".to_owned(), "<a b>".to_owned())]);
        assert_eq!(
            (sent[0].time_limit.as_secs(), &sent[0].proxy, &sent[0].body),
            (5, &None, &HttpBody::Empty)
        );
        assert_eq!(result.unwrap(), json!({"result": "ok", "status": 200}));
    }

    #[tokio::test]
    async fn a_backslash_is_no_slash() {
        for url in ["http:\\\\host/x", "https://example.org\\x", "example.org\\@host"] {
            let (sent, result) = invoked(json!({"url": url}), Vec::new()).await;
            let error = result.unwrap_err();
            assert!(sent.is_empty() && error.full().contains("has a backslash"), "{url}: {}", error.full());
        }
        let url = "https://example.org/?file=C:\\x";
        let (sent, _) = invoked(json!({"url": url}), vec![page(200, "ok")]).await;
        assert_eq!(sent[0].url, url);
    }

    #[tokio::test]
    async fn an_idempotent_request_has_a_key_and_is_retried() {
        let params = |more: Json| {
            let mut params = json!({"url": "https://example.org", "method": "post", "idempotent": true, "max_retries": 1,
                "delay_after_error": 0});
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            params
        };
        let key = |sent: &HttpRequest| {
            let named = sent.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("idempotency-key"));
            named.map(|(_, key)| key.clone()).collect::<Vec<_>>()
        };
        let (sent, result) = invoked(params(json!({})), vec![page(503, "later"), page(200, "ok")]).await;
        assert_eq!((sent.len(), result.unwrap()["status"].clone()), (2, json!(200)));
        assert!(key(&sent[0]).len() == 1 && !key(&sent[0])[0].is_empty() && key(&sent[0]) == key(&sent[1]));
        for status in [408, 425, 429] {
            let (sent, result) =
                invoked(params(json!({})), vec![page(status, "later"), page(200, "ok")]).await;
            assert_eq!((sent.len(), result.is_ok()), (2, true), "{status}");
        }
        let own = json!({"headers": {"idempotency-key": "order {Agent:A@id}"}});
        let (sent, _) = invoked(params(own), vec![page(200, "ok")]).await;
        assert_eq!(key(&sent[0]), ["order a b"]);
        let plain = json!({"idempotent": false});
        let (sent, result) = invoked(params(plain), vec![page(503, "later")]).await;
        assert!(sent.len() == 1 && key(&sent[0]).is_empty() && result.is_err(), "it could do its work twice");
    }

    #[tokio::test]
    async fn post_sends_json_or_a_form() {
        let variables = json!([{"key": "o", "ref": "Agent:A@o"}, {"key": "t", "value": "[1]"}, {"key": "s", "value": "<{sys.query}>"}]);
        let params = json!({"url": "https://example.org", "method": "POST", "variables": variables, "clean_html": true});
        let (sent, result) = invoked(params.clone(), vec![page(201, "<p>Hi <b>you</b></p>")]).await;
        assert_eq!(sent[0].body, HttpBody::Json(json!({"o": {"x": [1]}, "t": [1], "s": "<q&q>"})));
        assert_eq!(result.unwrap()["result"].as_str().unwrap().trim(), "Hi **you**");
        let mut form = params;
        form["datatype"] = json!("formdata");
        let (sent, _) = invoked(form, vec![page(200, "")]).await;
        let pairs =
            [("o", "{\"x\":[1]}"), ("t", "[1]"), ("s", "<q&q>")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(sent[0].body, HttpBody::Form(pairs.to_vec()));
    }

    #[tokio::test]
    async fn fields_are_sent_beside_variables_which_take_precedence() {
        let params = json!({"url": "https://example.org", "method": "post",
            "variables": [{"key": "key", "value": "the canvas's"}],
            "fields": {"key": "the model's", "q": "<{sys.query}>", "n": 2, "list": "[1]"}});
        let (sent, _) = invoked(params, vec![page(200, "")]).await;
        let expected = json!({"key": "the canvas's", "q": "<q&q>", "n": 2, "list": [1]});
        assert_eq!(sent[0].body, HttpBody::Json(expected));
        let long = json!({"url": "https://example.org", "method": "post",
            "fields": {"order": "{\"id\": 12345678901234567890123, \"n\": 1}"}});
        let (sent, _) = invoked(long, vec![page(200, "")]).await;
        let expected = json!({"order": {"id": "12345678901234567890123", "n": 1}});
        assert_eq!(sent[0].body, HttpBody::Json(expected), "no digit is lost");
        let nested = Node::new("Invoke", json!({"url": "x", "fields": {"a/b": [1]}}));
        assert_eq!(nested.problems(), ["/fields/a~1b"]);
    }

    /// Headers that frame or route a request follow from its URL, however a canvas spells them.
    #[tokio::test]
    async fn framing_headers_are_dropped_and_reported() {
        let headers = json!({"Host": "b.example", "connection": "close", " Content-Length ": "1",
            "TRANSFER-ENCODING": "chunked", "Upgrade": "x", "X-Kept": "a"});
        let params = json!({"url": "https://a.example", "headers": headers});
        let (sent, _) = invoked(params.clone(), vec![page(200, "ok")]).await;
        assert_eq!(sent[0].headers, [("X-Kept".to_owned(), "a".to_owned())]);
        for kind in ["Invoke", "HttpGet"] {
            let warnings = Node::new(kind, params.clone()).build().shape().warnings;
            let told = warnings.iter().filter(|warning| warning.message.contains("which has no effect"));
            assert_eq!(told.count(), 5, "{kind}");
        }
    }

    #[tokio::test]
    async fn a_bad_status_is_an_error_unless_it_is_allowed() {
        let (_, result) = invoked(json!({"url": "example.org"}), vec![page(404, "not here")]).await;
        let error = result.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert!(error.message.contains("404") && error.message.contains("not here"));
        let (_, result) =
            invoked(json!({"url": "example.org", "fail_on_status": false}), vec![page(404, "not here")])
                .await;
        assert_eq!(result.unwrap(), json!({"result": "not here", "status": 404}));
    }

    fn typed(status: u16, header: (&str, &str), body: &str) -> Result<HttpResponse> {
        let headers = vec![(header.0.to_owned(), header.1.to_owned())];
        Ok(HttpResponse { status, headers, body: body.to_owned() })
    }

    #[tokio::test]
    async fn content_that_is_not_html_is_unchanged() {
        let params = json!({"url": "example.org", "clean_html": true});
        let body =
            format!(r#"{{"text": "{}", "html": "<b>bold</b> & a<b", "list": [1,2]}}"#, "word ".repeat(40));
        for answer in [typed(200, ("content-type", "application/json"), &body), page(200, &body)] {
            let (_, result) = invoked(params.clone(), vec![answer]).await;
            assert_eq!(result.unwrap()["result"], json!(body));
        }
        let html = typed(200, ("content-type", "text/html; charset=utf-8"), "Hi <b>you</b>");
        let (_, result) = invoked(params, vec![html]).await;
        assert_eq!(result.unwrap()["result"].as_str().unwrap().trim(), "Hi **you**");
    }

    #[tokio::test]
    async fn a_redirect_is_an_error_that_names_its_target() {
        let redirect = |status: u16| vec![typed(status, ("location", "https://other.example/x?key=k"), "")];
        for (method, status) in [("get", 301), ("get", 302), ("get", 307), ("post", 307), ("post", 308)] {
            let (_, result) =
                invoked(json!({"url": "example.org", "method": method}), redirect(status)).await;
            let error = result.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid);
            assert!(error.message.contains("https://other.example/x?…"), "{error:?}");
        }
        let params = json!({"url": "example.org", "method": "post"});
        let (_, result) = invoked(params, redirect(303)).await;
        assert_eq!(result.unwrap(), json!({"result": "", "status": 303}));
        let allowed = json!({"url": "example.org", "fail_on_status": false});
        let (_, result) = invoked(allowed, redirect(301)).await;
        assert_eq!(result.unwrap()["status"], 301);
    }

    #[tokio::test(start_paused = true)]
    async fn only_get_is_retried() {
        let gone = || Err(Error::new(ErrorKind::Unavailable, "gone"));
        let params = |method: &str| json!({"url": "example.org", "method": method, "max_retries": 2, "delay_after_error": 1});
        let (sent, result) = invoked(params("get"), vec![gone(), page(503, ""), page(200, "ok")]).await;
        assert_eq!((sent.len(), result.unwrap()["result"].clone()), (3, json!("ok")));
        let (sent, result) = invoked(params("put"), vec![gone(), page(200, "ok")]).await;
        assert_eq!((sent.len(), result.unwrap_err().kind), (1, ErrorKind::Unavailable));
        let denied = || Err(Error::new(ErrorKind::Denied, "private address"));
        let (sent, _) = invoked(params("get"), vec![denied(), page(200, "ok")]).await;
        assert_eq!(sent.len(), 1);
    }

    #[tokio::test]
    async fn a_row_that_is_not_filled_in_is_passed_over() {
        let variables = json!([{"key": "", "ref": "", "value": ""}, {"key": "a", "value": "1"}]);
        let params = json!({"url": "https://a.example/", "variables": variables});
        let warnings = Node::new("Invoke", params.clone()).build().shape().warnings;
        let places: Vec<&str> = warnings.iter().map(|warning| warning.pointer.as_str()).collect();
        assert_eq!(places, ["/variables/0"]);
        let (sent, _) = invoked(params, vec![page(200, "ok")]).await;
        assert_eq!(sent[0].url, "https://a.example/?a=1");
    }

    #[test]
    fn a_variable_without_a_value_is_reported() {
        let variables = json!([{"key": "a", "component_id": "begin"}, {"key": "b", "value": ""}, {"key": "c", "ref": " "}]);
        let node = Node::new("Invoke", json!({"url": "https://example.org", "variables": variables}));
        let warnings = node.build().shape().warnings;
        let places: Vec<&str> = warnings.iter().map(|warning| warning.pointer.as_str()).collect();
        assert_eq!(places, ["/variables/0", "/variables/2"]);
    }

    #[test]
    fn problems_are_all_reported() {
        let node = Node::new(
            "Invoke",
            json!({"method": "TRACE", "headers": "{x", "timeout": 0, "variables": [{"ref": "?"}]}),
        );
        assert_eq!(
            node.problems(),
            ["/url", "/method", "/headers", "/variables/0/key", "/variables/0/ref", "/timeout"]
        );
    }

    #[test]
    fn invalid_urls_are_named() {
        let check = |url: &str, expected: &str| {
            for kind in ["Invoke", "HttpGet"] {
                let warnings = Node::new(kind, json!({"url": url})).build().shape().warnings;
                let told = warnings.first().map(|warning| warning.message.as_str()).unwrap_or_default();
                assert!(
                    told.contains(expected) && told.is_empty() == expected.is_empty(),
                    "{kind} {url}: {told}"
                );
            }
        };
        for right in [
            "https://a.example/x",
            "a.example:8080/x",
            "http://[::1]/",
            "{Agent:A@url}/x",
            "HTTP://a.example",
        ] {
            check(right, "");
        }
        check("ftp://a.example/x", "begins with `ftp:`");
        check("http:\\\\host", "has a backslash");
        check("http://", "is not an address");
        check("http://a.example:99999/", "is not an address");
        let headers = json!({"X-Right_1": "a", " Trimmed ": "b", "Bad Name": "c"});
        let node = Node::new("HttpGet", json!({"url": "https://a.example", "headers": headers}));
        let warnings = node.build().shape().warnings;
        assert!(warnings.len() == 1 && warnings[0].message.contains("`Bad Name`"), "{warnings:?}");
        for (headers, expected) in [
            (json!({"X-Key": "a", "x-key": "b"}), "are one header"),
            (json!({"X-Key": "a\nX-Other: b"}), "a line break"),
            (json!({"X-Key": "a {Agent:A@id}\r\n{Agent:A@id};"}), "a line break"),
            (json!({"X-Key": "{Agent:A@id}\r\n{Agent:A@id};"}), ""),
            (json!("{\"X-Key\": \"a\\u0000b\"}"), "a line break"),
            (json!({"X-Key": " a\tü\n", "X-Other": "{Agent:A@id}\n"}), ""),
        ] {
            let node = Node::new("Invoke", json!({"url": "https://a.example", "headers": headers}));
            let warnings = node.build().shape().warnings;
            let told = warnings.first().map(|warning| warning.message.as_str()).unwrap_or_default();
            assert!(told.contains(expected) && told.is_empty() == expected.is_empty(), "{headers}: {told}");
        }
        for (proxy, expected) in
            [("proxy.example:8080", 1), ("socks://proxy.example", 1), ("http://proxy.example", 0)]
        {
            let node = Node::new("Invoke", json!({"url": "https://a.example", "proxy": proxy}));
            assert_eq!(node.build().shape().warnings.len(), expected, "{proxy}");
        }
    }
}
