//! Secrets are used where a canvas uses them, and written nowhere else.
//!
//! Everything that a run stores, shows or sends to a model has `***` in place of a secret. The stored journal holds a
//! mark with the secret's name instead, because a resumed run needs the value itself; code that reads the journal for
//! people replaces marks with `***`.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Map;

use crate::seam::chat_model::{ChatMessage, ChatRequest, ToolSchema};
use crate::seam::secrets;
use crate::value::Json;
use crate::{Error, Result};

pub use crate::secret::{LENGTH_MIN, MASK};

/// Maximum number of secrets of one run.
// Every secret is searched for in every text that a run writes, so the cost grows with their number.
const SECRETS_MAX: usize = 1_000;
/// Start and end of a mark. They use private-use characters, so that no text contains them by chance.
const OPEN: &str = "\u{f8fe}weft-secret:";
const CLOSE: char = '\u{f8ff}';
/// The first character of a mark.
const OPENS: char = '\u{f8fe}';

/// The secrets of one run. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Masks(Arc<RwLock<Hiding>>);

/// The secrets to hide.
#[derive(Default)]
struct Hiding {
    hidden: Vec<Hidden>,
    /// The values in `hidden`. Each node that starts checks here whether its secrets are known.
    known: HashSet<Arc<str>>,
    /// Whether secrets may be added later or may turn out not to exist: no text may then look like a mark.
    expects: bool,
}

#[derive(Clone)]
struct Hidden {
    /// For an encoded form instead of the value itself, the name is preceded by [`ENCODED`] and the number of the
    /// encoding.
    name: Arc<str>,
    value: Arc<str>,
}

/// Prefix of the names of encoded forms. No variable name starts with it.
const ENCODED: char = '%';
/// The URL encodings in which a value may appear. Each entry lists the characters besides letters and digits that are
/// left unescaped: almost none, those of `encodeURIComponent`, those of a query as browsers write it, and those of
/// forms, which write a space as `+`.
const KEPT: [&str; 4] = ["-._~", "-_.!~*'()", "!$%&()*+,-./:;=?@[\\]^_`{|}~", "*-._+"];

/// The ways in which a text may be escaped within JSON, and where it may be in data in base64.
const WITHIN: [fn(&str) -> Option<String>; 6] = [
    in_json,
    |value| Some(ascii(&in_json(value)?)),
    // JSON nested in a JSON string, as in answers that quote the request.
    |value| in_json(&in_json(value)?),
    |value| Some(in_base64(value, 0)),
    // As in `user:password`, which Basic authentication sends in base64: users differ in length.
    |value| Some(in_base64(value, 1)),
    |value| Some(in_base64(value, 2)),
];

/// The characters of base64 (RFC 4648 §4).
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the part of data in base64 that depends on nothing but this value, when the number of bytes before it has
/// the remainder `before` modulo 3. The characters at its edges also depend on its neighbours and are left out.
fn in_base64(value: &str, before: usize) -> String {
    // Of the first byte, 4 or 2 bits are in a character that it shares with what is before it.
    let shared = [0, 4, 2].get(before).copied().unwrap_or(0);
    let (mut bits, mut count) = (0_usize, 0_usize);
    let mut text = String::with_capacity(value.len().saturating_mul(4) / 3);
    for (place, byte) in value.bytes().enumerate() {
        bits = ((bits << 8) | usize::from(byte)) & 0xffff;
        count += if place == 0 { 8 - shared } else { 8 };
        while count >= 6 {
            count -= 6;
            text.push(char::from(BASE64[(bits >> count) & 63]));
        }
    }
    text
}

fn in_json(value: &str) -> Option<String> {
    let text = serde_json::to_string(value).ok()?;
    Some(text.get(1..text.len() - 1)?.to_owned())
}

/// Escapes every non-ASCII character by its code units, as many programs write JSON.
fn ascii(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        if c.is_ascii() {
            written.push(c);
        } else {
            c.encode_utf16(&mut units).iter().for_each(|unit| written += &format!("\\u{unit:04x}"));
        }
    }
    written
}

/// Number of ways in which a value may be encoded. The name of a form has one digit for it, so there are 10 at most.
const WAYS: usize = KEPT.len() + WITHIN.len();

/// Returns a value encoded for a URL, for JSON or in base64.
fn encoded(value: &str, way: usize) -> Option<String> {
    let Some(kept) = KEPT.get(way) else { return WITHIN.get(way - KEPT.len())?(value) };
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b' ' if way == KEPT.len() - 1 => text.push('+'),
            b'+' if way == KEPT.len() - 1 => text.push_str("%2B"),
            _ if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    Some(text)
}

/// Resolves the name in a mark to the secret's value, or to an encoded form of it.
fn named(name: &str, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    let Some(form) = name.strip_prefix(ENCODED) else { return value(name) };
    let way = form.chars().next()?;
    let value = value(form.get(way.len_utf8()..)?)?;
    encoded(&value, usize::try_from(way.to_digit(10)?).ok()?)
}

impl std::fmt::Debug for Hiding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.hidden).finish()
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={MASK}", self.name)
    }
}

impl Masks {
    /// Hides every text in a value from now on. The name leads back to the value: `env.token`, or `env.login.key` for
    /// a member.
    ///
    /// # Errors
    /// `Invalid` when the run has more secrets than can be searched for in every text; some of them are then not
    /// hidden.
    pub fn add(&self, name: &str, value: &Json) -> Result<()> {
        let mut found = Vec::new();
        texts(name, value, &mut found);
        if found.is_empty() {
            return Ok(());
        }
        let mut hiding = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Hiding { hidden, known, .. } = &mut *hiding;
        let forms = found.into_iter().flat_map(|(name, value)| {
            let form = |way| Some((format!("{ENCODED}{way}{name}"), encoded(&value, way)?));
            let forms: Vec<_> = (0..WAYS).filter_map(form).collect();
            std::iter::once((name, value)).chain(forms)
        });
        let (before, mut outcome) = (hidden.len(), Ok(()));
        for (name, value) in forms {
            // The URL-encoded and JSON-escaped forms of most values equal the value itself.
            if known.contains(value.as_str()) {
                continue;
            }
            if hidden.len() >= SECRETS_MAX * (1 + WAYS) {
                // The ones before it are hidden nevertheless: a caller that carries on despite the error reveals
                // fewer secrets.
                outcome = Err(too_many(&name));
                break;
            }
            let value: Arc<str> = value.into();
            known.insert(Arc::clone(&value));
            hidden.push(Hidden { name: name.into(), value });
        }
        if hidden.len() > before {
            // Longest first: a secret contained in a longer one must not break up the longer one.
            hidden.sort_by_key(|one| std::cmp::Reverse(one.value.len()));
        }
        outcome
    }

    /// From now on, strips anything that looks like a mark from foreign texts, even while there is nothing to hide.
    pub fn expect(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).expects = true;
    }

    /// Returns whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        let hiding = self.0.read().unwrap_or_else(PoisonError::into_inner);
        hiding.hidden.is_empty() && !hiding.expects
    }

    /// Returns a text with secrets masked for display.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.replaced(text, |_| Some(Cow::Borrowed(MASK)))
    }

    /// Returns a value with secrets masked for display; `None` if there is nothing to mask.
    pub fn json(&self, value: &Json) -> Option<Json> {
        if self.is_empty() {
            return None;
        }
        let mut value = value.clone();
        change(&mut value, &|text| owned(self.text(text))).then_some(value)
    }

    /// Masks secrets in a request to a model: in its messages, its tools and the schema of the answer.
    pub fn request(&self, request: &mut ChatRequest) {
        if self.is_empty() {
            return;
        }
        for message in &mut request.messages {
            self.message(message);
        }
        if let Some(schema) = request.schema.as_ref().and_then(|schema| self.json(schema)) {
            request.schema = Some(schema);
        }
        // Requests share their tools, and hardly any of them contains a secret.
        let masked: Vec<Option<ToolSchema>> = request.tools.iter().map(|tool| self.tool(tool)).collect();
        if masked.iter().any(Option::is_some) {
            let tools = masked.into_iter().zip(&*request.tools);
            request.tools = tools.map(|(masked, tool)| masked.unwrap_or_else(|| tool.clone())).collect();
        }
    }

    fn message(&self, message: &mut ChatMessage) {
        if let Some(text) = owned(self.text(&message.text)) {
            message.text = text;
        }
        // Only pictures given by address: in base64 data a short secret can occur by chance.
        for image in message.images.iter_mut().filter(|image| !image.starts_with("data:")) {
            if let Some(text) = owned(self.text(image)) {
                *image = text;
            }
        }
        for call in &mut message.tool_calls {
            let Some(text) = owned(self.text(&call.arguments)) else { continue };
            // Arguments that are JSON are masked value by value: replacing a number with asterisks in the text would
            // make them invalid JSON.
            call.arguments = match serde_json::from_str::<Json>(&call.arguments) {
                Ok(arguments) => self.json(&arguments).unwrap_or(arguments).to_string(),
                Err(_) => text,
            };
        }
    }

    /// Returns a tool with secrets masked; `None` if there is nothing to mask.
    fn tool(&self, tool: &ToolSchema) -> Option<ToolSchema> {
        let (description, parameters) = (owned(self.text(&tool.description)), self.json(&tool.parameters));
        if description.is_none() && parameters.is_none() {
            return None;
        }
        let mut masked = tool.clone();
        masked.description = description.unwrap_or(masked.description);
        masked.parameters = parameters.unwrap_or(masked.parameters);
        Some(masked)
    }

    /// Returns an object in its stored form, with marks that lead back to the secrets, leaving out the members named
    /// in `outer`. `None` if nothing changes.
    pub fn sealed(&self, value: &Json, outer: &[&str]) -> Option<Json> {
        if self.is_empty() {
            return None;
        }
        let mut value = value.clone();
        let seal = |text: &str| self.marked(text, |_| true);
        let Json::Object(members) = &mut value else { return None };
        let mut changed = false;
        for (_, member) in members.iter_mut().filter(|(name, _)| !outer.contains(&name.as_str())) {
            changed |= change(member, &seal);
        }
        changed.then_some(value)
    }

    /// Replaces the values of `{secret.NAME}` with marks in something that is stored outside of a journal. Variables,
    /// which are stored there themselves, are left as they are. See [`open`].
    pub fn seal_named(&self, value: &mut Json) {
        let stored_elsewhere = |name: &str| {
            let form = name.strip_prefix(ENCODED);
            form.map_or(name, |form| form.trim_start_matches(|c: char| c.is_ascii_digit()))
                .starts_with(secrets::PREFIX)
        };
        change(value, &|text| self.marked(text, stored_elsewhere));
    }

    /// Returns a text in which some secrets are replaced with marks; `None` if nothing changes.
    fn marked(&self, text: &str, which: impl Fn(&str) -> bool) -> Option<String> {
        let mark = |name: &str| which(name).then(|| Cow::Owned(format!("{OPEN}{name}{CLOSE}")));
        // A foreign text must not contain anything that looks like a mark.
        let plain = without_foreign(text).map_or(Cow::Borrowed(text), Cow::Owned);
        match owned(self.replaced(&plain, mark)) {
            Some(marked) => Some(marked),
            None => owned(plain),
        }
    }

    fn replaced<'a>(&self, text: &'a str, by: impl Fn(&str) -> Option<Cow<'static, str>>) -> Cow<'a, str> {
        // Secrets have to stay hidden even after a panic elsewhere.
        let hiding = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut text = Cow::Borrowed(text);
        for Hidden { name, value } in &hiding.hidden {
            if text.contains(&**value)
                && let Some(by) = by(name)
                && let Some(masked) = replaced(&text, value, &by)
            {
                text = Cow::Owned(masked);
            }
        }
        text
    }
}

fn too_many(name: &str) -> Error {
    let name = name.trim_start_matches(|c: char| c == ENCODED || c.is_ascii_digit());
    Error::invalid(format!("`{name}` is one secret too many: a run masks at most {SECRETS_MAX} texts"))
        .help("make only real secrets secret, not a long list or a whole document")
}

/// Replaces a value in a text, if it occurs there. A number that is part of a longer number is not an occurrence.
fn replaced(text: &str, value: &str, by: &str) -> Option<String> {
    let digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    // A number of five digits occurs within longer ones by chance, and reveals nothing there.
    let number = value.bytes().all(|byte| byte.is_ascii_digit());
    let (mut shown, mut from) = (String::new(), 0);
    for (at, _) in text.match_indices(value) {
        let (before, after) = (&text.as_bytes()[..at], &text.as_bytes()[at + value.len()..]);
        if number && (digit(before.last()) || digit(after.first())) {
            continue;
        }
        shown.push_str(&text[from..at]);
        shown.push_str(by);
        from = at + value.len();
    }
    (from > 0).then(|| shown + &text[from..])
}

fn owned(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    }
}

fn texts(name: &str, value: &Json, found: &mut Vec<(String, String)>) {
    match value {
        Json::String(text) if text.len() >= LENGTH_MIN => found.push((name.to_owned(), text.clone())),
        Json::Number(number) if number.to_string().len() >= LENGTH_MIN => {
            found.push((name.to_owned(), number.to_string()));
        }
        Json::Array(items) => {
            items.iter().enumerate().for_each(|(place, item)| texts(&format!("{name}.{place}"), item, found));
        }
        Json::Object(map) => map.iter().for_each(|(key, item)| texts(&format!("{name}.{key}"), item, found)),
        _ => {}
    }
}

/// Changes every text in a value, including keys. Returns whether any text changed.
fn change(value: &mut Json, by: &dyn Fn(&str) -> Option<String>) -> bool {
    match value {
        Json::String(text) => match by(text) {
            Some(new) => {
                *text = new;
                true
            }
            None => false,
        },
        Json::Array(items) => items.iter_mut().fold(false, |changed, item| change(item, by) | changed),
        Json::Object(map) => {
            let mut changed = map.values_mut().fold(false, |changed, item| change(item, by) | changed);
            // Rebuilt only when a key changes, because an object keeps the order of its members.
            if map.keys().any(|key| by(key).is_some()) {
                changed = true;
                let renamed = std::mem::take(map).into_iter();
                *map = renamed.map(|(key, item)| (by(&key).unwrap_or(key), item)).collect::<Map<_, _>>();
            }
            changed
        }
        _ => false,
    }
}

/// Removes anything that looks like a mark from stored data that contains no secret. Otherwise its author could
/// obtain the secret later, once the canvas names it.
pub fn strip_marks(value: &mut Json) {
    change(value, &without_foreign);
}

/// Removes marks that an author wrote into a text, along with fragments of marks; `None` if there are none.
fn without_foreign(text: &str) -> Option<String> {
    // Hardly any text contains the character, and searching for it is much faster than searching for the mark.
    let suspect = text.contains(OPENS) && text.contains(OPEN);
    suspect.then(|| text.replace(OPEN, "").replace(OPENS, ""))
}

/// Returns whether a stored text contains marks.
pub fn is_sealed(stored: &str) -> bool {
    stored.contains(OPEN)
}

/// Returns a stored text as people may read it.
pub fn shown(stored: &str) -> Cow<'_, str> {
    if is_sealed(stored) { Cow::Owned(without_marks(stored, |_| None)) } else { Cow::Borrowed(stored) }
}

/// Replaces marks with their secrets, in every text of a stored value. Names that `value` does not know stay masked.
pub fn open(stored: &mut Json, value: impl Fn(&str) -> Option<String>) {
    change(stored, &|text| is_sealed(text).then(|| without_marks(text, |name| named(name, &value))));
}

/// Returns a stored JSON text with its secrets, for a run to resume with. `value` looks up a secret by its name;
/// names that it does not know stay masked.
pub fn opened<'a>(stored: &'a str, value: impl Fn(&str) -> Option<String>) -> Cow<'a, str> {
    if is_sealed(stored) {
        Cow::Owned(without_marks(stored, |name| {
            let text = serde_json::to_string(&named(name, &value)?).ok()?;
            text.get(1..text.len() - 1).map(str::to_owned)
        }))
    } else {
        Cow::Borrowed(stored)
    }
}

fn without_marks(stored: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut pieces = stored.split(OPEN);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once(CLOSE).unwrap_or((piece, ""));
        // Within JSON a name is escaped as JSON, too.
        let name = serde_json::from_str::<String>(&format!("\"{name}\"")).unwrap_or_else(|_| name.to_owned());
        text.push_str(value(&name).as_deref().unwrap_or(MASK));
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn masks() -> Masks {
        let masks = Masks::default();
        masks.add("env.token", &json!("s\"cret-1")).unwrap();
        masks.add("env.login", &json!({"user": "ada", "key": "s\"cret-12", "pin": 123_456})).unwrap();
        masks
    }

    #[test]
    fn a_secret_is_masked_everywhere() {
        let value = json!({"h": ["Bearer s\"cret-1", "s\"cret-12", "ada"], "s\"cret-1": 5, "pin": "x123456"});
        let expected = json!({"h": ["Bearer ***", "***", "ada"], "***": 5, "pin": "x***"});
        assert_eq!(masks().json(&value), Some(expected));
        assert_eq!(masks().json(&json!(["ada", 5])), None);
        assert!(!format!("{:?}", masks()).contains("cret"));
    }

    #[test]
    fn model_requests_contain_no_secrets() {
        use crate::seam::chat_model::{Author, ToolCall};
        let call = |arguments: Json| ToolCall {
            id: "c".to_owned(),
            name: "t".to_owned(),
            arguments: arguments.to_string(),
        };
        let message = ChatMessage {
            images: vec![
                "https://a.example/?k=s%22cret-1".to_owned(),
                "data:image/png;base64,123456".to_owned(),
            ],
            tool_calls: vec![call(json!({"key": "s\"cret-1", "pin": 123_456}))],
            ..ChatMessage::new(Author::User, "Use s\"cret-12")
        };
        let tool = |description: &str| ToolSchema {
            name: "t".to_owned(),
            description: description.to_owned(),
            parameters: json!({"properties": {"k": {"default": "s\"cret-1"}}}),
            deferred: false,
        };
        let mut request = ChatRequest {
            messages: vec![message],
            tools: vec![tool("plain"), tool("with s\"cret-1")].into(),
            schema: Some(json!({"enum": ["s\"cret-1"]})),
            ..ChatRequest::default()
        };
        masks().request(&mut request);
        let ChatMessage { text, images, tool_calls, .. } = &request.messages[0];
        assert_eq!((text.as_str(), images[0].as_str()), ("Use ***", "https://a.example/?k=***"));
        assert_eq!(images[1], "data:image/png;base64,123456");
        assert_eq!(tool_calls[0].arguments, r#"{"key":"***","pin":123456}"#);
        assert_eq!(
            (request.tools[0].description.as_str(), request.tools[1].description.as_str()),
            ("plain", "with ***")
        );
        assert_eq!(request.tools[0].parameters["properties"]["k"]["default"], "***");
        assert_eq!(request.schema, Some(json!({"enum": ["***"]})));
    }

    #[test]
    fn stored_marks_resolve_to_the_secret_and_reveal_nothing() {
        let forged = format!("{OPEN}env.token{CLOSE}");
        let record = json!({"type": "s\"cret-1", "outputs": {"a": "<s\"cret-1> s\"cret-12", "b": forged}});
        let sealed = masks().sealed(&record, &["type"]).unwrap().to_string();
        assert!(!sealed["{\"type\":\"s\\\"cret-1\"".len()..].contains("cret-1"), "{sealed}");
        let read = |text: Cow<'_, str>| serde_json::from_str::<Json>(&text).unwrap()["outputs"].clone();
        assert_eq!(read(shown(&sealed))["a"], "<***> ***");
        let value = |name: &str| match name {
            "env.token" => Some("s\"cret-1".to_owned()),
            "env.login.key" => Some("s\"cret-12".to_owned()),
            _ => None,
        };
        assert_eq!(read(opened(&sealed, value))["a"], "<s\"cret-1> s\"cret-12");
        // A mark written by a user is not a mark.
        assert!(!read(opened(&sealed, value))["b"].as_str().unwrap().contains("cret"));
        assert_eq!(opened("plain", |_| None), "plain");
    }

    #[test]
    fn session_marks_resolve_only_to_named_secrets() {
        let masks = Masks::default();
        masks.add("secret.key", &json!("s\"cret 1")).unwrap();
        masks.add("env.token", &json!("token-1")).unwrap();
        let forged = format!("{OPEN}secret.key{CLOSE}");
        let halves = format!("\u{f8fe}we{OPEN}ft-secret:secret.key{CLOSE}");
        let state = json!({"a": ["s\"cret 1", "s%22cret%201", r#"{"x":"s\"cret 1"}"#, r#""{\"x\":\"s\\\"cret 1\"}""#], "env.token": "token-1",
            "b": forged, "c": halves});
        let mut kept = state.clone();
        masks.seal_named(&mut kept);
        let text = kept.to_string();
        assert!(!text.contains("cret 1") && !text.contains("cret%") && text.contains("token-1"), "{text}");
        open(&mut kept, |name| (name == "secret.key").then(|| "s\"cret 1".to_owned()));
        assert_eq!((&kept["a"], &kept["env.token"]), (&state["a"], &state["env.token"]));
        assert!(
            !kept["b"].to_string().contains("cret 1") && !kept["c"].to_string().contains("cret 1"),
            "{kept}"
        );
    }

    #[test]
    fn user_text_cannot_contain_a_secret_mark() {
        let masks = Masks::default();
        let record = json!({"input": format!("{OPEN}secret.key{CLOSE}")});
        assert_eq!(masks.sealed(&record, &[]), None);
        masks.expect();
        assert!(!is_sealed(&masks.sealed(&record, &[]).unwrap().to_string()));
    }

    #[test]
    fn without_secrets_no_mark_can_be_planted() {
        let mut state = json!({"history": [format!("a{OPEN}secret.key{CLOSE}"), "\u{f8fe} alone"]});
        strip_marks(&mut state);
        assert!(!is_sealed(&state.to_string()));
        assert_eq!(state["history"][1], "\u{f8fe} alone");
    }

    #[test]
    fn a_secret_that_is_an_encoding_of_another_has_its_own_encodings() {
        let masks = Masks::default();
        masks.add("env.a", &json!("pa ss/word")).unwrap();
        masks.add("env.b", &json!("pa%20ss%2Fword")).unwrap();
        assert_eq!(masks.text("?key=pa%2520ss%252Fword"), "?key=***");
    }

    #[test]
    fn too_many_secrets_are_refused_but_known_ones_accepted() {
        let masks = Masks::default();
        let many = |count: usize| json!((0..count).map(|n| format!("secret-{n:05}")).collect::<Vec<_>>());
        for _ in 0..3 {
            masks.add("env.keys", &many(SECRETS_MAX)).unwrap();
        }
        let error = masks.add("env.keys", &many(SECRETS_MAX * (1 + WAYS) + 1)).unwrap_err();
        assert_eq!(error.kind, crate::ErrorKind::Invalid);
        assert!(error.full().contains("`env.keys."), "{}", error.full());
    }

    #[test]
    fn a_numeric_secret_is_not_matched_inside_longer_numbers() {
        let masks = Masks::default();
        masks.add("env.limit", &json!("10000")).unwrap();
        let check = |text: &str, expected: &str| assert_eq!(masks.text(text), expected);
        check("100000 and 210000", "100000 and 210000");
        check("10000, x10000y, 100000, 10000", "***, x***y, 100000, ***");
    }

    #[test]
    fn a_secret_in_base64_is_masked_and_restored_as_it_was() {
        let masks = Masks::default();
        masks.add("env.password", &json!("rosebud-17")).unwrap();
        let check = |encoded: &str, expected: &str| {
            let header = format!("Basic {encoded}");
            assert_eq!(masks.text(&header), format!("Basic {expected}"));
            let sealed = masks.sealed(&json!({"outputs": header}), &[]).unwrap().to_string();
            let value = |name: &str| (name == "env.password").then(|| "rosebud-17".to_owned());
            assert_eq!(opened(&sealed, value), json!({"outputs": header}).to_string());
        };
        // Alone, and behind `a:`, `ad:` and `ada:`.
        check("cm9zZWJ1ZC0xNw==", "***w==");
        check("YTpyb3NlYnVkLTE3", "YTp***");
        check("YWQ6cm9zZWJ1ZC0xNw==", "YWQ6***w==");
        check("YWRhOnJvc2VidWQtMTc=", "YWRhOn***c=");
    }

    #[test]
    fn a_url_encoded_secret_is_masked_and_restored_as_it_was() {
        let secret = "pa ss+w/ör&d!";
        let masks = Masks::default();
        masks.add("env.key", &json!(secret)).unwrap();
        let forms = [
            "pa%20ss%2Bw%2F%C3%B6r%26d%21",
            "pa%20ss%2Bw%2F%C3%B6r%26d!",
            "pa%20ss+w/%C3%B6r&d!",
            "pa+ss%2Bw%2F%C3%B6r%26d%21",
        ];
        for form in forms.into_iter().chain([secret]) {
            let url = format!("https://example.org/?key={form}#x");
            assert_eq!(masks.text(&url), "https://example.org/?key=***#x");
            let sealed = masks.sealed(&json!({"outputs": url}), &[]).unwrap().to_string();
            assert!(!sealed.contains("ss"), "{sealed}");
            let value = |name: &str| (name == "env.key").then(|| secret.to_owned());
            assert_eq!(opened(&sealed, value), json!({"outputs": url}).to_string());
        }
        let sealed = masks.sealed(&json!({"outputs": forms[0]}), &[]).unwrap().to_string();
        assert_eq!(shown(&sealed), r#"{"outputs":"***"}"#);
    }
}
