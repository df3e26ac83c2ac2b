//! How other programs call a canvas, as declared by its Begin.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Map;
use weft_core::webhook::{
    BODY_BYTES_MAX, HmacAlgorithm, Network, PayloadType, Rate, SecretText, Section, SectionField, Webhook,
    WebhookAnswer, WebhookAuth,
};
use weft_core::{Json, ParamProblem};

use crate::params::{Field, FieldGroup, Kind, Params, choice, fields};
use crate::web::header_problem;

const WEBHOOK: &[&str] = &["webhook"];
/// The methods that a call may use.
const KNOWN_METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];
/// Claims that cannot be listed as required, as in the compatible API.
const RESERVED_CLAIMS: [&str; 6] = ["exp", "sub", "aud", "iss", "nbf", "iat"];
const RESERVED_HELP: &str =
    "remove it: `exp`, `nbf` and `iat` are checked if present, `aud` and `iss` by `audience` and `issuer`";
/// Default maximum age of a signature with a timestamp.
const TOLERANCE: Duration = Duration::from_secs(300);
/// Headers that carry credentials: the part of `security`, and its member that names the header.
const HEADERS: [(&str, &str); 3] =
    [("token", "token_header"), ("signature", "header"), ("signature", "timestamp_header")];
// A signature that is valid for longer could be replayed by anyone who has seen it.
const TOLERANCE_SECONDS_MAX: u64 = 86_400;

static METHODS: Field<Vec<String>> =
    Field::texts("methods", "the accepted HTTP methods; all if empty").shown_when("mode", WEBHOOK);
static CONTENT_TYPES: Field<String> =
    Field::text("content_types", "the accepted media type of requests with a body; any if empty")
        .shown_when("mode", WEBHOOK);
static EXECUTION_MODE: Field<&str> = Field::choice(
    "execution_mode",
    "Immediately",
    &[
        choice("Immediately", "a fixed response, before the run starts"),
        choice("Streaming", "what the run says; as events for clients that accept them"),
        choice("Deferred", "the run and session ids"),
    ],
    "the response to the caller",
)
.shown_when("mode", WEBHOOK);
static RESPONSE: Field = Field::raw(
    "response",
    Kind::Object(&[
        Field::raw(
            "status",
            Kind::Whole { min: 200, max: 399 },
            "the HTTP status of the fixed response; 200 if absent",
        ),
        Field::raw("body_template", Kind::Text, "its body; as JSON if it is valid JSON"),
    ]),
    "the fixed response",
)
.shown_when("mode", WEBHOOK);
static SCHEMA: Field = Field::raw(
    "schema",
    Kind::Object(&[
        Field::raw("query", Kind::Object(&[]), "`properties` and `required`, as in a JSON Schema"),
        Field::raw("headers", Kind::Object(&[]), "the same for headers"),
        Field::raw("body", Kind::Object(&[]), "the same for the body"),
    ]),
    "the values of a request that are passed on, with their types: `string`, `number`, `boolean`, `object`, `array<…>`, `file`, `any`",
)
.shown_when("mode", WEBHOOK);
static SECURITY: Field = Field::raw(
    "security",
    Kind::Object(&[
        Field::raw("auth_type", Kind::Text, "`token`, `basic`, `jwt`, `signature`, or `none`"),
        Field::raw("allow_anonymous", Kind::Flag, "confirms that `none` is intended"),
        Field::raw(
            "token",
            Kind::Object(&[
                Field::raw("token_header", Kind::Text, "the header that contains it"),
                Field::raw("token_value", Kind::Text, "its value").secret(),
            ]),
            "for `token`",
        ),
        Field::raw(
            "basic_auth",
            Kind::Object(&[
                Field::raw("username", Kind::Text, "the user name"),
                Field::raw("password", Kind::Text, "the password").secret(),
            ]),
            "for `basic`",
        ),
        Field::raw(
            "jwt",
            Kind::Object(&[
                Field::raw("secret", Kind::Text, "the key that tokens are signed with").secret(),
                Field::raw("algorithm", Kind::Text, "`HS256`, `HS384` or `HS512`; the first when absent"),
                Field::raw("audience", Kind::Text, "the required audience"),
                Field::raw("issuer", Kind::Text, "the required issuer"),
                Field::raw("required_claims", Kind::Texts, "further required claims"),
            ]),
            "for `jwt`",
        ),
        Field::raw(
            "signature",
            Kind::Object(&[
                Field::raw("secret", Kind::Text, "the key that bodies are signed with").secret(),
                Field::raw(
                    "header",
                    Kind::Text,
                    "the header with the signature; `X-Signature-256` if absent",
                ),
                Field::raw(
                    "timestamp_header",
                    Kind::Text,
                    "the header with the timestamp that is signed before the body",
                ),
                Field::raw(
                    "tolerance_seconds",
                    Kind::Whole { min: 1, max: 86_400 },
                    "the maximum age of the timestamp; 300 if absent",
                ),
            ]),
            "for `signature`: HMAC with SHA-256",
        ),
        Field::raw("ip_whitelist", Kind::Texts, "addresses and networks that may call; any if empty"),
        Field::raw(
            "rate_limit",
            Kind::Object(&[
                Field::raw("limit", Kind::Whole { min: 1, max: 1_000_000 }, "how many calls; 60 if absent"),
                Field::raw("per", Kind::Text, "`second`, `minute`, `hour` or `day`"),
            ]),
            "the rate limit; 60 calls per minute if absent",
        ),
        Field::raw("max_body_size", Kind::Text, "such as `512kb` or `2mb`; 10mb if absent, the maximum"),
    ]),
    "who may call; if absent, nobody",
)
.shown_when("mode", WEBHOOK);

/// The parameters of a Begin that concern calls.
pub(super) static FIELDS: FieldGroup =
    fields(&[&METHODS, &CONTENT_TYPES, &SECURITY, &SCHEMA, &EXECUTION_MODE, &RESPONSE]);

/// Reads how a canvas is called. Mistakes are problems with their pointer; settings that refuse every call are
/// warnings.
pub(super) fn read(params: &mut Params<'_>) -> Webhook {
    let mut webhook = Webhook {
        methods: Vec::new(),
        content_type: None,
        auth: WebhookAuth::Unsaid,
        body_bytes_max: BODY_BYTES_MAX,
        networks: Vec::new(),
        rate: Rate::default(),
        query: Section::default(),
        headers: Section::default(),
        body: Section::default(),
        answer: WebhookAnswer::Deferred,
    };
    methods(params, &mut webhook);
    let media = params.take(&CONTENT_TYPES).trim().to_ascii_lowercase();
    webhook.content_type = (!media.is_empty()).then_some(media);
    if let Some(security) = params.object(&SECURITY).filter(|security| !security.is_empty()) {
        let mut reading = SecurityReader { params, security };
        // If they contain a mistake, every call is refused.
        webhook.auth = reading.auth().unwrap_or(WebhookAuth::Unsaid);
        webhook.body_bytes_max = reading.body_bytes_max();
        webhook.networks = reading.networks();
        webhook.rate = reading.rate();
    } else {
        let warning = ParamProblem::new("/security", "is missing or empty, so every call is refused");
        params.warn(
            warning.help("set `security.auth_type`; `none` with `allow_anonymous` admits every caller"),
        );
    }
    let schema = params.object(&SCHEMA);
    for (name, section) in
        [("query", &mut webhook.query), ("headers", &mut webhook.headers), ("body", &mut webhook.body)]
    {
        *section = sections(params, name, schema.and_then(|schema| schema.get(name)));
    }
    webhook.answer = answer(params);
    webhook
}

fn methods(params: &mut Params<'_>, webhook: &mut Webhook) {
    for (place, method) in params.take(&METHODS).into_iter().enumerate() {
        let method = method.trim().to_ascii_uppercase();
        if KNOWN_METHODS.contains(&method.as_str()) {
            webhook.methods.push(method);
        } else {
            let problem = ParamProblem::new(
                format!("/methods/{place}"),
                format!("`{method}` is not an accepted method"),
            );
            params.problem(problem.help(format!("use {}", KNOWN_METHODS.join(", "))));
        }
    }
}

fn answer(params: &mut Params<'_>) -> WebhookAnswer {
    let mode = params.take(&EXECUTION_MODE);
    let response = params.object(&RESPONSE);
    let member =
        |name: &str| response.and_then(|response| response.get(name)).filter(|value| !value.is_null());
    let status = match member("status") {
        None => Some(200),
        Some(value) => weft_core::value::number(value)
            .and_then(weft_core::value::whole)
            .and_then(|status| u16::try_from(status).ok())
            .filter(|status| (200..=399).contains(status)),
    };
    let status = status.unwrap_or_else(|| {
        let told = member("status").map(weft_core::value::to_text).unwrap_or_default();
        // In the wording that is familiar to authors of such canvases elsewhere.
        let message = format!("Invalid response status code: {told}, must be between 200 and 399");
        params.problem(ParamProblem::new("/response/status", message));
        200
    });
    let body = member("body_template").map(weft_core::value::to_text).unwrap_or_default();
    match mode {
        "Streaming" => WebhookAnswer::Streaming,
        "Deferred" => WebhookAnswer::Deferred,
        _ => WebhookAnswer::Immediate { status, body },
    }
}

/// The settings in `security`, and where problems with them are reported.
struct SecurityReader<'r, 'a> {
    params: &'r mut Params<'a>,
    security: &'a Map<String, Json>,
}

impl SecurityReader<'_, '_> {
    fn problem(&mut self, place: &str, message: impl Into<String>, help: &str) {
        self.params.problem(ParamProblem::new(format!("/security/{place}"), message).help(help));
    }

    /// Returns a member of a part; empty if it is missing.
    fn text(&self, part: &str, name: &str) -> String {
        let value = self.security.get(part).and_then(|part| part.get(name));
        value.map(weft_core::value::to_text).map(|text| text.trim().to_owned()).unwrap_or_default()
    }

    /// Returns a required member of a part.
    fn needed(&mut self, part: &str, name: &str, message: &str) -> Option<String> {
        let text = self.text(part, name);
        if text.is_empty() {
            let help = "enter it here, preferably as a reference `{secret.NAME}`";
            self.problem(&format!("{part}/{name}"), message, help);
            return None;
        }
        Some(text)
    }

    fn secret(&mut self, part: &str, name: &str, message: &str) -> Option<SecretText> {
        SecretText::new(&self.needed(part, name, message)?)
    }

    fn auth(&mut self) -> Option<WebhookAuth> {
        let kind = self.security.get("auth_type").map(weft_core::value::to_text).unwrap_or_default();
        let kind_name = kind.trim().to_ascii_lowercase();
        for (part, name) in HEADERS.into_iter().filter(|(part, _)| *part == kind_name) {
            let place = format!("/security/{part}/{name}");
            if let Some(problem) = header_problem(place, &self.text(part, name), "every call is refused") {
                self.params.warn(problem);
            }
        }
        match kind_name.as_str() {
            "token" => Some(WebhookAuth::Token {
                header: self.needed("token", "token_header", "names no header")?,
                value: self.secret("token", "token_value", "is empty, and would let everybody in")?,
            }),
            "basic" => Some(WebhookAuth::Basic {
                username: self.needed("basic_auth", "username", "is empty")?,
                password: self.secret("basic_auth", "password", "is empty, and would let everybody in")?,
            }),
            "jwt" => self.jwt(),
            "signature" => self.signature(),
            "none" if self.allows_anonymous() => Some(WebhookAuth::Anonymous),
            "none" | "" => {
                let warning =
                    ParamProblem::new("/security/auth_type", "admits no caller, so every call is refused");
                let help = "choose `token`, `basic`, `jwt` or `signature`; with `none`, also set `allow_anonymous` to \
                            true";
                self.params.warn(warning.help(help));
                Some(if kind.trim().is_empty() { WebhookAuth::Unsaid } else { WebhookAuth::Unconfirmed })
            }
            other => {
                let message = format!("Unsupported auth_type: {other}");
                self.problem("auth_type", message, "choose `token`, `basic`, `jwt`, `signature` or `none`");
                None
            }
        }
    }

    fn allows_anonymous(&self) -> bool {
        // Only what plainly says yes counts: anything else that was read as it would let everybody in.
        match self.security.get("allow_anonymous") {
            Some(Json::Bool(flag)) => *flag,
            Some(Json::Number(number)) => number.as_f64() != Some(0.0),
            Some(Json::String(text)) => {
                matches!(text.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
            }
            _ => false,
        }
    }

    fn jwt(&mut self) -> Option<WebhookAuth> {
        // Everything is read before failing, so that the author sees all mistakes together.
        let secret = self.secret("jwt", "secret", "JWT secret not configured");
        let name = self.text("jwt", "algorithm");
        let algorithm =
            if name.is_empty() { Some(HmacAlgorithm::Hs256) } else { HmacAlgorithm::parse(&name) };
        if algorithm.is_none() {
            self.problem(
                "jwt/algorithm",
                format!("the algorithm `{name}` is not supported"),
                "use HS256, HS384 or HS512",
            );
        }
        let listed = self.security.get("jwt").and_then(|jwt| jwt.get("required_claims"));
        let claims: Vec<String> = match listed {
            Some(Json::String(claim)) if !claim.trim().is_empty() => vec![claim.trim().to_owned()],
            Some(Json::Array(claims)) => claims.iter().map(weft_core::value::to_text).collect(),
            _ => Vec::new(),
        };
        for claim in &claims {
            if RESERVED_CLAIMS.contains(&claim.as_str()) {
                let message = format!("Reserved JWT claim cannot be required: {claim}");
                self.problem("jwt/required_claims", message, RESERVED_HELP);
            }
        }
        let said = |text: String| (!text.is_empty()).then_some(text);
        Some(WebhookAuth::Jwt {
            secret: secret?,
            algorithm: algorithm?,
            audience: said(self.text("jwt", "audience")),
            issuer: said(self.text("jwt", "issuer")),
            required_claims: claims,
        })
    }

    fn signature(&mut self) -> Option<WebhookAuth> {
        let secret = self.secret("signature", "secret", "is empty, and would let everybody in");
        let (header, timestamp) =
            (self.text("signature", "header"), self.text("signature", "timestamp_header"));
        let tolerance = match self.text("signature", "tolerance_seconds").as_str() {
            "" => Some(TOLERANCE),
            text => text
                .parse()
                .ok()
                .filter(|seconds| (1..=TOLERANCE_SECONDS_MAX).contains(seconds))
                .map(Duration::from_secs),
        };
        if tolerance.is_none() {
            self.problem(
                "signature/tolerance_seconds",
                "must be a number from 1 to 86400",
                "enter the maximum age of a call in seconds",
            );
        }
        if timestamp.is_empty() {
            let message = "has no `timestamp_header`: whoever has seen a call can send it again at any time";
            let help = "set the header with the time, if callers sign one";
            self.params.warn(ParamProblem::new("/security/signature", message).help(help));
        }
        Some(WebhookAuth::Signature {
            secret: secret?,
            header: if header.is_empty() { "X-Signature-256".to_owned() } else { header },
            timestamp_header: (!timestamp.is_empty()).then_some(timestamp),
            tolerance: tolerance?,
        })
    }

    fn body_bytes_max(&mut self) -> u64 {
        let value = self.security.get("max_body_size").filter(|value| !value.is_null());
        let text = value.map(weft_core::value::to_text).unwrap_or_default().trim().to_ascii_lowercase();
        if text.is_empty() {
            return BODY_BYTES_MAX;
        }
        let parsed = [("kb", 1_u64 << 10), ("mb", 1 << 20)].into_iter().find_map(|(unit, bytes)| {
            text.strip_suffix(unit)?.trim().parse::<u64>().ok()?.checked_mul(bytes)
        });
        let (message, help) = match parsed {
            Some(bytes) if bytes <= BODY_BYTES_MAX => return bytes,
            Some(_) => ("max_body_size exceeds maximum allowed size (10MB)", "write 10mb or less"),
            None => ("Invalid max_body_size format", "write a number and `kb` or `mb`, such as `512kb`"),
        };
        self.problem("max_body_size", message, help);
        BODY_BYTES_MAX
    }

    fn networks(&mut self) -> Vec<Network> {
        let listed: Vec<String> = match self.security.get("ip_whitelist") {
            Some(Json::Array(list)) => list.iter().map(weft_core::value::to_text).collect(),
            Some(Json::String(text)) => text.split(',').map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let mut networks = Vec::new();
        for (place, text) in listed.iter().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            match Network::parse(text) {
                Some(network) => networks.push(network),
                None => {
                    let message = format!("`{text}` is neither an address nor a network");
                    self.problem(
                        &format!("ip_whitelist/{place}"),
                        message,
                        "use a form such as `203.0.113.7` or `10.0.0.0/8`",
                    );
                }
            }
        }
        networks
    }

    fn rate(&mut self) -> Rate {
        let rate = Rate::default();
        let limit = match self.text("rate_limit", "limit").as_str() {
            "" => Some(rate.limit),
            text => text.parse::<u32>().ok().filter(|limit| (1..=1_000_000).contains(limit)),
        };
        if limit.is_none() {
            self.problem(
                "rate_limit/limit",
                "rate_limit.limit must be > 0",
                "write how many calls, at most 1000000",
            );
        }
        let name = self.text("rate_limit", "per");
        let seconds = match name.to_ascii_lowercase().as_str() {
            "second" => Some(1),
            "" | "minute" => Some(60),
            "hour" => Some(3_600),
            "day" => Some(86_400),
            _ => None,
        };
        if seconds.is_none() {
            self.problem(
                "rate_limit/per",
                format!("Invalid rate_limit.per: {name}"),
                "use second, minute, hour or day",
            );
        }
        Rate { limit: limit.unwrap_or(rate.limit), per: seconds.map_or(rate.per, Duration::from_secs) }
    }
}

/// Reads the declared values of one part of a call.
fn sections(params: &mut Params<'_>, name: &str, schema: Option<&Json>) -> Section {
    let mut section = Section::default();
    let Some(schema) = schema else { return section };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect();
    // Header names are case-insensitive.
    let known_as = |field: &str| {
        if name == "headers" { field.to_ascii_lowercase() } else { field.to_owned() }
    };
    let properties = schema.get("properties").and_then(Json::as_object);
    // Looked up by hash: a canvas may make both lists arbitrarily long.
    let wanted: HashSet<String> = required.iter().map(|field| known_as(field)).collect();
    let declared: HashSet<String> =
        properties.into_iter().flat_map(Map::keys).map(|field| known_as(field)).collect();
    for (field, described) in properties.into_iter().flatten() {
        let place = weft_core::params::pointer(&["schema", name, "properties", field]);
        let unheard = header_problem(place, field, "no call can contain it").filter(|_| name == "headers");
        unheard.into_iter().for_each(|problem| params.warn(problem));
        let told = described.get("type").map(weft_core::value::to_text).unwrap_or_default();
        match PayloadType::parse(&told) {
            Some(kind) => {
                let required = wanted.contains(&known_as(field));
                section.fields.insert(field.clone(), SectionField { kind, required });
            }
            None => {
                let place = weft_core::params::pointer(&["schema", name, "properties", field, "type"]);
                let problem = ParamProblem::new(place, format!("`{told}` is not a value type"));
                params.problem(problem.help("use string, number, boolean, object, array<…>, file or any"));
            }
        }
    }
    for field in required.iter().filter(|field| !declared.contains(&known_as(field))) {
        // With a misspelled name, every call would be refused without a visible reason.
        let problem = ParamProblem::new(
            format!("/schema/{name}/required"),
            format!("`{field}` is required but not declared"),
        );
        params.problem(problem.help("declare it in `properties`, or remove it from `required`"));
    }
    section
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::Json;
    use weft_core::webhook::{Webhook, WebhookAnswer, WebhookAuth};

    use crate::testing::Node;

    fn node(more: Json) -> Node {
        let mut params = serde_json::Map::from_iter([("mode".to_owned(), json!("Webhook"))]);
        if let Json::Object(more) = more {
            params.extend(more);
        }
        Node::new("Begin", params.into())
    }

    fn webhook(more: Json) -> Webhook {
        (*node(more).build().shape().webhook.unwrap()).clone()
    }

    fn security(security: Json) -> Json {
        serde_json::Map::from_iter([("security".to_owned(), security)]).into()
    }

    #[test]
    fn by_default_nobody_may_call() {
        for silent in [
            json!({}),
            security(json!({})),
            security(json!({"auth_type": "none"})),
            security(json!({"max_body_size": "1kb"})),
        ] {
            let auth = webhook(silent.clone()).auth;
            assert!(matches!(auth, WebhookAuth::Unsaid | WebhookAuth::Unconfirmed), "{silent}: {auth:?}");
            let warned: Vec<String> =
                node(silent).build().shape().warnings.into_iter().map(|one| one.message).collect();
            assert!(warned.iter().any(|message| message.contains("every call is refused")), "{warned:?}");
        }
        for said in [json!(true), json!(1), json!("yes"), json!("ON")] {
            let allowed = security(json!({"auth_type": "none", "allow_anonymous": said}));
            assert_eq!(webhook(allowed).auth, WebhookAuth::Anonymous);
        }
        let denied = security(json!({"auth_type": "none", "allow_anonymous": "no"}));
        assert_eq!(webhook(denied).auth, WebhookAuth::Unconfirmed);
    }

    #[test]
    fn a_schema_of_many_values_is_read_quickly() {
        let names: Vec<String> = (0..50_000).map(|number| format!("X-Name-{number:06}")).collect();
        let properties: serde_json::Map<String, Json> =
            names.iter().map(|name| (name.to_lowercase(), json!({"type": "string"}))).collect();
        let begun = std::time::Instant::now();
        let read = webhook(json!({"schema": {"headers": {"properties": properties, "required": names}}}));
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
        assert!(
            read.headers.fields.len() == 50_000 && read.headers.fields.values().all(|field| field.required)
        );
    }

    #[test]
    fn errors_are_reported_with_their_place() {
        let check = |more: Json, place: &str| assert_eq!(node(more.clone()).problems(), [place], "{more}");
        check(security(json!({"auth_type": "magic"})), "/security/auth_type");
        check(
            security(json!({"auth_type": "token", "token": {"token_header": "X"}})),
            "/security/token/token_value",
        );
        check(
            security(json!({"auth_type": "basic", "basic_auth": {"username": "a"}})),
            "/security/basic_auth/password",
        );
        check(security(json!({"auth_type": "jwt"})), "/security/jwt/secret");
        let jwt = |more: Json| {
            let mut jwt = json!({"secret": "s"});
            jwt.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            security(json!({"auth_type": "jwt", "jwt": jwt}))
        };
        check(jwt(json!({"algorithm": "none"})), "/security/jwt/algorithm");
        check(jwt(json!({"algorithm": "RS256"})), "/security/jwt/algorithm");
        let reserved = jwt(json!({"required_claims": ["exp"]}));
        check(reserved.clone(), "/security/jwt/required_claims");
        // A token without `exp` is let in, so the help must not say that it is always checked.
        let problems = node(reserved).try_build().err().unwrap_or_default();
        assert!(problems[0].help.as_deref().is_some_and(|help| help.contains("checked if present")));
        let with = |name: &str, value: Json| {
            let mut open = json!({"auth_type": "none", "allow_anonymous": true});
            open[name] = value;
            security(open)
        };
        check(with("max_body_size", json!("11mb")), "/security/max_body_size");
        check(with("max_body_size", json!("2 GiB")), "/security/max_body_size");
        check(with("max_body_size", json!("99999999999999999999mb")), "/security/max_body_size");
        check(with("ip_whitelist", json!(["::1", "300.1.1.1"])), "/security/ip_whitelist/1");
        check(with("rate_limit", json!({"limit": 0})), "/security/rate_limit/limit");
        check(with("rate_limit", json!({"limit": 1, "per": "week"})), "/security/rate_limit/per");
        check(json!({"methods": ["POST", "TRACE"]}), "/methods/1");
        check(json!({"response": {"status": 500}}), "/response/status");
        check(json!({"execution_mode": "later"}), "/execution_mode");
        check(
            json!({"schema": {"body": {"properties": {"d": {"type": "date"}}}}}),
            "/schema/body/properties/d/type",
        );
        check(json!({"schema": {"query": {"required": ["q"]}}}), "/schema/query/required");
    }

    #[test]
    fn invalid_header_names_are_reported() {
        let warned = |more: Json| {
            let warnings = node(more).build().shape().warnings;
            warnings.into_iter().map(|warning| warning.pointer).collect::<Vec<_>>()
        };
        let token = |name: &str| {
            security(
                json!({"auth_type": "token", "token": {"token_header": name, "token_value": "{secret.K}"}}),
            )
        };
        assert_eq!(warned(token("X Key")), ["/security/token/token_header"]);
        assert_eq!(warned(token("X-Key")), [""; 0]);
        let signature = json!({"secret": "{secret.K}", "header": "X:Sig", "timestamp_header": "X-Tïme"});
        let places = ["/security/signature/header", "/security/signature/timestamp_header"];
        assert_eq!(warned(security(json!({"auth_type": "signature", "signature": signature}))), places);
        // A signature without a time never expires.
        let timeless = json!({"auth_type": "signature", "signature": {"secret": "{secret.K}"}});
        assert_eq!(warned(security(timeless)), ["/security/signature"]);
        // Nothing is reported for a mode that is not used.
        let open = json!({"auth_type": "none", "allow_anonymous": true, "signature": signature});
        assert_eq!(warned(security(open.clone())), [""; 0]);
        let schema =
            json!({"headers": {"properties": {"X-Trace": {"type": "string"}, "X Y": {"type": "string"}}}});
        let named = json!({"security": open, "schema": schema});
        assert_eq!(warned(named), ["/schema/headers/properties/X Y"]);
    }

    #[test]
    fn settings_are_read_and_have_no_effect_in_other_modes() {
        let read = webhook(json!({
            "methods": ["post"], "content_types": "Application/JSON", "execution_mode": "Streaming",
            "security": {"auth_type": "token", "token": {"token_header": "X-Key", "token_value": "{secret.K}"},
                "ip_whitelist": ["10.0.0.0/8"], "rate_limit": {"limit": "10", "per": "hour"}, "max_body_size": "2MB"},
            "schema": {"headers": {"properties": {"X-Trace": {"type": "string"}}, "required": ["X-Trace"]}},
        }));
        assert_eq!(
            (read.methods, read.content_type),
            (vec!["POST".to_owned()], Some("application/json".to_owned()))
        );
        assert_eq!((read.body_bytes_max, read.rate.limit, read.rate.per.as_secs()), (2 << 20, 10, 3_600));
        assert!(read.headers.fields["X-Trace"].required);
        assert_eq!(read.answer, WebhookAnswer::Streaming);
        let elsewhere = Node::new("Begin", json!({"mode": "task", "security": {"auth_type": "magic"}}));
        assert_eq!(elsewhere.build().shape().webhook, None);
    }
}
