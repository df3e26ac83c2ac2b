//! The address of a service.

use url::Url;
use weft_core::{Error, Json, Result};

use super::described::{DescribedOperation, text};
use super::style::plain;

/// Returns the address of a service: the operator's, or else the first of the document's `servers`.
///
/// # Errors
/// `Invalid` for an invalid address, or for a variable in it without a value.
pub(super) fn base(document: &Json, said: Option<&str>) -> Result<Url> {
    match said {
        Some(said) => absolute(said),
        None => of_servers(document),
    }
}

/// Returns what defines `servers` for a single operation: the operation itself, or else its path.
pub(super) fn own<'a>(described: &DescribedOperation<'a>) -> Option<&'a Json> {
    let has_servers = |part: &&Json| part.pointer("/servers/0").is_some();
    [described.operation, described.item].into_iter().find(has_servers)
}

/// Returns the address of one operation. `base` is the operator's, or the document's; `None` if every operation has its
/// own.
///
/// # Errors
/// As [`base`].
pub(super) fn of_operation(
    described: &DescribedOperation<'_>,
    base: Option<&Url>,
    said: Option<&str>,
) -> Result<Url> {
    let own = own(described).filter(|_| said.is_none());
    match (own, base) {
        (Some(own), _) => of_servers(own),
        (None, Some(base)) => Ok(base.clone()),
        (None, None) => Err(refused("", "is not given")),
    }
}

/// Returns the first of the `servers` of a document, a path or an operation.
///
/// # Errors
/// As [`base`].
pub(super) fn of_servers(part: &Json) -> Result<Url> {
    absolute(&filled(part)?)
}

fn absolute(written: &str) -> Result<Url> {
    let url = Url::parse(written).map_err(|_| refused(written, "is not an absolute URL"))?;
    let plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if matches!(url.scheme(), "http" | "https") && plain && url.password().is_none() && url.has_host() {
        Ok(url)
    } else {
        Err(refused(written, "must be http or https, without a user, a query or a fragment"))
    }
}

fn refused(written: &str, why: &str) -> Error {
    Error::invalid(format!("its address `{written}` {why}"))
        .help("set `base_url` in its settings file, such as \"https://api.example\"")
}

/// Returns the address with the defaults of its variables filled in.
fn filled(part: &Json) -> Result<String> {
    let written = text(part, "/servers/0/url");
    let variables = part.pointer("/servers/0/variables");
    let mut filled = String::new();
    // Values that are filled in are not scanned again: they are not templates.
    let mut rest = written.as_str();
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((name, after)) = behind.split_once('}') else {
            return Err(refused(&written, "has a `{` without a `}`"));
        };
        let default = variables
            .and_then(|variables| variables.get(name)?.get("default"))
            .filter(|default| !(default.is_null() || default.is_object() || default.is_array()));
        let Some(default) = default else {
            return Err(refused(&written, &format!("has the variable `{name}`, which has no default")));
        };
        filled.push_str(before);
        filled.push_str(&plain(default));
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}
