//! Where a service is.

use url::Url;
use weft_core::{Error, Json, Result};

use super::style::plain;
use super::text;

/// The address of a service: what the operator says, else the first of the document's `servers`.
///
/// # Errors
/// `Invalid` for what is no address, and for a part of it that nobody gives.
pub(super) fn base(document: &Json, said: Option<&str>) -> Result<Url> {
    let written = match said {
        Some(said) => said.to_owned(),
        None => of_document(document)?,
    };
    let url = Url::parse(&written).map_err(|_| refused(&written, "is no absolute URL"))?;
    let plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if matches!(url.scheme(), "http" | "https") && plain && url.password().is_none() && url.has_host() {
        Ok(url)
    } else {
        Err(refused(&written, "has to be http or https, without a user, a query and a fragment"))
    }
}

fn refused(written: &str, why: &str) -> Error {
    Error::invalid(format!("its address `{written}` {why}"))
        .help("set `base_url` in the file of its settings, such as \"https://api.example\"")
}

/// The address that the document gives, with the defaults of its variables.
fn of_document(document: &Json) -> Result<String> {
    let written = text(document, "/servers/0/url");
    let variables = document.pointer("/servers/0/variables");
    let mut filled = String::new();
    // What is filled in is not looked through again: it is a value and no template.
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
