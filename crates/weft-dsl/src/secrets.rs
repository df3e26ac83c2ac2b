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
use crate::problem::join;

/// What an author can do about it.
pub(crate) const HELP: &str = "an exported canvas shows it to everyone who gets the file: \
                        store it with `weft secret set NAME` \
                        and write `{secret.NAME}` here, or set it where Weft runs";

/// Prefixes of the keys of well-known services.
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
    if text.contains(PEM_END) {
        return Some(format!("`{key}` contains a private key in plain text (not shown)"));
    }
    if passwords(text).next().is_some() {
        return Some(format!("`{key}` contains a URL with a password in plain text (not shown)"));
    }
    if has_key_in_address(text) {
        return Some(format!("`{key}` contains a URL with a key in plain text (not shown)"));
    }
    let prefix = key_in(text)?;
    Some(format!(
        "`{key}` contains what looks like a key in plain text (`{}…`, the rest is not shown)",
        prefix.trim_end()
    ))
}

/// The end of the first line of a private key file.
const PEM_END: &str = "PRIVATE KEY-----";
/// Maximum number of addresses examined per text.
const ADDRESSES_MAX: usize = 64;
/// Minimum length of a key in an address: anything shorter is just as likely a word.
const ADDRESS_KEY_MIN: usize = 8;

/// Whether an address in a text has a key in its query.
fn has_key_in_address(text: &str) -> bool {
    text.match_indices("://").take(ADDRESSES_MAX).any(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>');
        let address = rest.split(ends).next().unwrap_or_default();
        let query = address.split_once('?').map_or("", |(_, query)| query);
        let mut pairs = query.split(['&', '#']).filter_map(|pair| pair.split_once('='));
        pairs.any(|(name, value)| {
            names_a_secret(name)
                && value.len() >= ADDRESS_KEY_MIN
                && value.contains(|c: char| c.is_ascii_digit())
                && !is_example(value)
        })
    })
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
        let (who, _) = host.rsplit_once('@')?;
        let (user, password) = who.split_once(':')?;
        if [who, password].into_iter().any(is_example) {
            return None;
        }
        let start = from + user.len() + 1;
        Some(start..start + password.len())
    })
}

/// Replaces the keys of well-known services and the passwords in addresses by `by`; `None` if the text contains none.
pub(crate) fn without_keys(text: &str, by: &str) -> Option<String> {
    let keyless = without_known_keys(text, by);
    let done = without_passwords(keyless.as_deref().unwrap_or(text), by);
    done.or(keyless)
}

fn without_passwords(text: &str, by: &str) -> Option<String> {
    let mut cleaned = String::new();
    let mut from = 0;
    for place in passwords(text) {
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
