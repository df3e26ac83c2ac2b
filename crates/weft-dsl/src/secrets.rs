//! Finds secrets written into a canvas. Its messages never contain the secret.

use std::ops::Range;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Map;
use weft_core::reference::Names;
use weft_core::seam::secrets::PREFIX;
use weft_core::{Json, Reference, Template};

use crate::globals::EnvVariable;
use crate::plan::PlanNode;
use crate::pointer::join;

/// What an author can do about it.
pub(crate) const HELP: &str = "an exported canvas shows it to everyone who gets the file: \
                        store it with `weft secret set NAME` \
                        and write `{secret.NAME}` here, or set it where Weft runs";

/// Prefixes of the keys of well-known services.
// Recognized by their form alone, wherever they stand: no parameter needs to be named like a secret.
const PREFIXES: [&str; 12] = [
    "sk-",
    "tvly-",
    "Bearer ",
    "ghp_",
    "github_pat_",
    "gho_",
    "glpat-",
    "AKIA",
    "AIza",
    "xoxb-",
    "xoxp-",
    "hf_",
];

/// Minimum number of characters of a key after its prefix.
// The keys of all these services are at least this long; words of prose after such a prefix are shorter.
const KEY_LENGTH_MIN: usize = 16;

/// A secret in plain text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExposedSecret {
    /// JSON pointer within the parameters.
    pub pointer: String,
    /// What is wrong, without the secret.
    pub message: String,
}

/// Returns every secret in the parameters of a component.
pub(crate) fn find(params: &Map<String, Json>, names: Names<'_>) -> Vec<ExposedSecret> {
    let mut found = Vec::new();
    object(params, "", names, &mut found);
    found
}

/// Returns a message if a declared variable contains a secret.
pub(crate) fn in_variable(name: &str, value: &Json, names: Names<'_>) -> Option<String> {
    value.as_str().and_then(|text| judge(name, text, names))
}

/// Returns the names of all secret globals: variables declared as secret, variables whose values go into
/// headers and the like, and the tenant's secrets.
pub(crate) fn globals(variables: &IndexMap<String, EnvVariable>, nodes: &[PlanNode]) -> Vec<Arc<str>> {
    let declared = variables.iter().filter(|(_, variable)| variable.is_secret());
    let declared = declared.map(|(name, _)| Arc::from(format!("env.{name}")));
    let used = nodes.iter().flat_map(|node| &node.shape.secrets).filter_map(|reference| match reference {
        Reference::Global(name) if name.starts_with("env.") => Some(Arc::clone(name)),
        Reference::Global(_) | Reference::Output { .. } => None,
    });
    let reads =
        nodes.iter().flat_map(|node| node.reads.iter().chain(node.alternative_reads.iter().flatten()));
    let named = reads.filter(|read| read.reference.secret().is_some()).map(|read| Arc::clone(&read.key));
    let mut names: Vec<Arc<str>> = declared.chain(used).chain(named).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn object(map: &Map<String, Json>, pointer: &str, names: Names<'_>, found: &mut Vec<ExposedSecret>) {
    for (key, value) in map {
        look(key, value, &join(pointer, key), names, found);
    }
}

fn look(key: &str, value: &Json, pointer: &str, names: Names<'_>, found: &mut Vec<ExposedSecret>) {
    match value {
        Json::String(text) => {
            let message = judge(key, text, names);
            found.extend(message.map(|message| ExposedSecret { pointer: pointer.to_owned(), message }));
        }
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                // A list inherits the name of its parameter: several keys may be listed under one name.
                look(key, item, &join(pointer, index), names, found);
            }
        }
        Json::Object(map) => object(map, pointer, names, found),
        _ => {}
    }
}

fn judge(key: &str, text: &str, names: Names<'_>) -> Option<String> {
    // A misspelled reference to a secret is reported as such.
    let meant = text.contains(PREFIX) && text.contains(['{', '}']);
    if !meant && names_a_secret(key) && is_literal(text, names) {
        return Some(format!(
            "`{key}` contains a secret in plain text ({} characters, not shown)",
            text.chars().count()
        ));
    }
    if !private_keys(text).is_empty() {
        return Some(format!("`{key}` contains a private key in plain text (not shown)"));
    }
    if passwords(text).next().is_some() {
        return Some(format!("`{key}` contains a URL with a password in plain text (not shown)"));
    }
    if !address_keys(text).is_empty() {
        return Some(format!("`{key}` contains a URL with a key in plain text (not shown)"));
    }
    let prefix = key_in(text)?;
    Some(format!(
        "`{key}` contains what looks like a key in plain text (`{}…`, the rest is not shown)",
        prefix.trim_end()
    ))
}

/// The end of the first line of a private key file, and of its last line.
const PEM_END: &str = "PRIVATE KEY-----";
/// The beginning of the last line of such a file.
const PEM_LAST_LINE: &str = "-----END";
/// Minimum length of a key in an address: anything shorter is just as likely a word.
const ADDRESS_KEY_MIN: usize = 8;

/// Returns the ranges of private keys in a text, without the lines around them.
fn private_keys(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(PEM_END) {
        let start = from + at + PEM_END.len();
        // A key that is cut off is still most of a key.
        let end = text[start..].find(PEM_LAST_LINE).map_or(text.len(), |at| start + at);
        if !is_example(text[start..end].trim()) {
            found.push(start..end);
        }
        // The last line ends like the first, and begins no key.
        from = text[end..].find(PEM_END).map_or(text.len(), |at| end + at + PEM_END.len());
    }
    found
}

/// Returns the ranges of keys in the queries of addresses in a text.
fn address_keys(text: &str) -> Vec<Range<usize>> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>');
    let is_one = |name: &str, value: &str| {
        names_a_secret(name)
            && value.len() >= ADDRESS_KEY_MIN
            && value.contains(|c: char| c.is_ascii_digit())
            && !is_example(value)
    };
    let mut found = Vec::new();
    let mut read = 0;
    for (at, mark) in text.match_indices("://") {
        // An address within the query of another one has been read with that: otherwise a text of a hundred thousand
        // of them without a space would be read as often.
        if at < read {
            continue;
        }
        let from = at + mark.len();
        let address = text[from..].split(ends).next().unwrap_or_default();
        read = from + address.len();
        let Some((before, query)) = address.split_once('?') else { continue };
        let mut place = from + before.len() + 1;
        for pair in query.split(['?', '&', '#']) {
            let end = place + pair.len();
            if let Some((_, value)) = pair.split_once('=').filter(|(name, value)| is_one(name, value)) {
                found.push(end - value.len()..end);
            }
            place = end + 1;
        }
    }
    found
}

/// Whether a value of this name is a secret.
pub(crate) fn names_a_secret(key: &str) -> bool {
    const ENDINGS: [&str; 12] = [
        "apikey",
        "authkey",
        "password",
        "passwd",
        "secret",
        "accesskey",
        "secretkey",
        "privatekey",
        "accesstoken",
        "authtoken",
        "apitoken",
        "tokenvalue",
    ];
    // `api_key`, `apiKey` and `API-Key` are the same name.
    let plain: String = key.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    // Whole words: `max_tokens` and `token_header` are not secrets.
    matches!(plain.as_str(), "token" | "authorization" | "credentials")
        || ENDINGS.iter().any(|end| plain.ends_with(end))
}

/// Whether the text is a literal value and not a reference.
pub(crate) fn is_literal(text: &str, names: Names<'_>) -> bool {
    let trimmed = text.trim();
    !is_stand_in(trimmed) && Template::parse_value(trimmed, names).references().next().is_none()
}

/// Whether the text is a placeholder for a secret: nothing at all, characters that mask one, or something to
/// be filled in.
fn is_stand_in(text: &str) -> bool {
    text.chars().all(|c| matches!(c, '*' | 'x' | 'X' | '.' | '•' | '-'))
        || text.starts_with('<') && text.ends_with('>')
        || text.starts_with("${")
}

/// Whether the text is a placeholder in an address, which cannot contain such brackets itself: this also
/// includes references, shell variables, and words used in examples. As the value of a parameter such a word
/// may be meant literally.
fn is_example(text: &str) -> bool {
    const WORDS: [&str; 6] = ["password", "passwd", "pass", "pwd", "secret", "token"];
    is_stand_in(text)
        || text.contains(['{', '$', '['])
        || text.starts_with('%') && text.ends_with('%')
        || WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Returns the prefix of the first key in a text.
fn key_in(text: &str) -> Option<&'static str> {
    PREFIXES
        .into_iter()
        .find(|prefix| text.match_indices(prefix).any(|(at, _)| is_key(text, at, prefix.len())))
}

/// Returns the ranges of passwords in the addresses of a text, as in `https://ann:PASSWORD@erp.example`.
fn passwords(text: &str) -> impl Iterator<Item = Range<usize>> {
    const MARK: &str = "://";
    let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '\\' | '<' | '>');
    text.match_indices(MARK).filter_map(move |(at, _)| {
        let from = at + MARK.len();
        let host = text[from..].split(ends).next().unwrap_or_default();
        // The last `@` separates the host: a password may contain one, unescaped, and a host cannot.
        let (who, _) = host.rsplit_once('@')?;
        let (user, password) = who.split_once(':')?;
        if [who, password].into_iter().any(is_example) {
            return None;
        }
        let start = from + user.len() + 1;
        Some(start..start + password.len())
    })
}

/// Replaces private keys, the keys of well-known services, and passwords and keys in addresses by `by`; `None` if the text
/// contains none.
pub(crate) fn without_keys(text: &str, by: &str) -> Option<String> {
    let steps: [fn(&str, &str) -> Option<String>; 4] = [
        |text, by| replaced(text, private_keys(text), by),
        without_known_keys,
        |text, by| replaced(text, passwords(text), by),
        |text, by| replaced(text, address_keys(text), by),
    ];
    let mut cleaned: Option<String> = None;
    for step in steps {
        let next = step(cleaned.as_deref().unwrap_or(text), by);
        cleaned = next.or(cleaned);
    }
    cleaned
}

fn replaced(text: &str, places: impl IntoIterator<Item = Range<usize>>, by: &str) -> Option<String> {
    let mut cleaned = String::new();
    let mut from = 0;
    for place in places {
        cleaned += &text[from..place.start];
        cleaned += by;
        from = place.end;
    }
    (from > 0).then(|| cleaned + &text[from..])
}

fn without_known_keys(text: &str, by: &str) -> Option<String> {
    let places = PREFIXES
        .into_iter()
        .flat_map(|prefix| text.match_indices(prefix).map(move |(at, _)| (at, prefix.len())));
    // Collects all of them first, instead of searching again after each: a text may contain a hundred thousand keys.
    let mut keys: Vec<(usize, usize)> = places.filter(|&(at, prefix)| is_key(text, at, prefix)).collect();
    keys.sort_unstable();
    let mut cleaned = String::new();
    let mut from = 0;
    for (at, prefix) in keys {
        // It lies within the previous key.
        if at < from {
            continue;
        }
        cleaned += &text[from..at];
        cleaned += by;
        let body = &text[at + prefix..];
        from = at + prefix + body.find(|c: char| !of_a_key(c)).unwrap_or(body.len());
    }
    (from > 0).then(|| cleaned + &text[from..])
}

fn of_a_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn is_key(text: &str, at: usize, prefix: usize) -> bool {
    // `task-…` contains `sk-`: no key begins within a word.
    if text[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_') {
        return false;
    }
    // Only the beginning: otherwise a megabyte of text without a space would be scanned for each prefix.
    let body = text[at + prefix..].chars().take(KEY_LENGTH_MIN * 4).take_while(|c| of_a_key(*c));
    let body: Vec<char> = body.collect();
    // A key is long and contains digits; `sk-learn-compatible-estimators` is prose.
    body.len() >= KEY_LENGTH_MIN && body.iter().any(char::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pointers(params: &Json) -> Vec<String> {
        let components = ["begin".into()].into();
        let names = Names { components: &components, item: None };
        find(params.as_object().unwrap(), names).into_iter().map(|found| found.pointer).collect()
    }

    #[test]
    fn secrets_are_recognised_by_name_and_format() {
        let params = json!({
            "api_key": "whatever",
            "max_tokens": "4096",
            "token_header": "X-Token",
            "password": "",
            "tools": [{"params": {"apiKey": "k-1", "secret": "{env.secret}", "token": "begin@token"}}],
            "smtp_password": "***",
            "headers": "{\"Authorization\": \"Bearer abcdefghijklmnop1234\"}",
            "prompt": "use sk-learn-compatible-estimators, not task-abcdefghijklmnop1234",
            "notes": ["key: sk-abcdefghijklmnop1234"],
            "jwt": {"secret": "s3"},
        });
        let expected = ["/api_key", "/tools/0/params/apiKey", "/headers", "/notes/0", "/jwt/secret"];
        assert_eq!(pointers(&params), expected);
    }

    #[test]
    fn secrets_in_addresses_and_files() {
        let check = |text: &str, is_one: bool| {
            assert_eq!(!pointers(&json!({"url": text})).is_empty(), is_one, "{text}");
        };
        check("http://ann:hunter22@example.org/x", true);
        check("see http://example.org and postgres://ann:hunter22@{env.host}/x", true);
        check("https://example.org/?q=1&api_key=abcdef1234", true);
        check("-----BEGIN RSA PRIVATE KEY-----\nMIIE", true);
        for text in [
            "http://{begin@host}:8080/{begin@path}",
            "http://ann:{secret.PW}@example.org",
            "http://ann:password@example.org, http://user:<password>@example.org",
            "http://example.org:8080/@ann?a:b@c",
            "https://example.org/?api_key={secret.KEY}&token=YOUR_TOKEN&page_token=2",
            "mail ann@example.org: 12345678",
            "-----BEGIN PUBLIC KEY-----",
        ] {
            check(text, false);
        }
    }

    #[test]
    fn private_keys_and_keys_in_addresses_are_removed() {
        let check = |text: &str, cleaned: &str| {
            assert_eq!(without_keys(text, "***").as_deref(), Some(cleaned), "{text}");
            assert_eq!(without_keys(cleaned, "***"), None, "{cleaned}");
            assert!(pointers(&json!({"note": cleaned})).is_empty(), "{cleaned}");
        };
        check(
            "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b -----BEGIN PRIVATE KEY-----\nMII",
            "a -----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY----- b -----BEGIN PRIVATE KEY-----***",
        );
        check(
            "see https://example.org/?q=1&api_key=abcdef1234#a, then http://h?u=http://i?token=abcdef1234",
            "see https://example.org/?q=1&api_key=***#a, then http://h?u=http://i?token=***",
        );
        let kept = "-----BEGIN PRIVATE KEY-----\n{secret.KEY}\n-----END PRIVATE KEY-----";
        assert_eq!(without_keys(kept, "***"), None);
        assert!(pointers(&json!({"note": kept})).is_empty());
    }

    #[test]
    fn a_mistyped_reference_is_no_secret() {
        assert!(pointers(&json!({"token": "{secret.KEY", "authorization": "Bearer secret.KEY}"})).is_empty());
    }

    #[test]
    fn many_urls_are_scanned_quickly() {
        let began = std::time::Instant::now();
        assert!(pointers(&json!({"url": "://".repeat(100_000)})).is_empty());
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn a_text_of_many_keys_is_masked_quickly() {
        let began = std::time::Instant::now();
        let text = "sk-abcdefghijklmnop1234, ".repeat(40_000);
        let cleaned = without_keys(&text, "***").unwrap();
        assert_eq!(cleaned, "***, ".repeat(40_000));
        assert_eq!(without_keys("Bearer sk-abcdefghijklmnop1234 x", "***").unwrap(), "*** x");
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn passwords_in_urls_are_found_and_removed() {
        for plain in [
            "https://erp.example:8080/a@b:c",
            "https://ann@erp.example",
            "https://ann:{secret.ERP}@erp.example",
            "https://{begin@host}:80/x",
            "https://ann:***@h",
            "postgres://user:password@host/db",
            "a:b@c",
            "://",
            "https://ann:$PW@h",
            "https://ann:@h",
        ] {
            assert_eq!(without_keys(plain, "***"), None, "{plain}");
            assert_eq!(pointers(&json!({"url": plain})), Vec::<String>::new(), "{plain}");
        }
        let text =
            "ask https://ann:rose:bud@erp.example/x?y or 'mysql://a:0815@h', with sk-abcdefghijklmnop1234";
        let cleaned = "ask https://ann:***@erp.example/x?y or 'mysql://a:***@h', with ***";
        assert_eq!(without_keys(text, "***").unwrap(), cleaned);
        assert_eq!(pointers(&json!({"url": "https://ann:rosebud@erp.example/x"})), ["/url"]);
    }

    #[test]
    fn the_secret_is_never_shown() {
        let components = std::collections::HashSet::new();
        let names = Names { components: &components, item: None };
        let secret = "tvly-dev-0123456789abcdefghij";
        for key in ["api_key", "comment"] {
            let params = json!({key: secret});
            let found = find(params.as_object().unwrap(), names);
            assert_eq!(found.len(), 1);
            assert!(!found[0].message.contains("dev"), "{}", found[0].message);
        }
    }
}
