//! The parts of a request, as they are written to a server.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use weft_core::{Error, Result};

pub(crate) fn method(name: &str) -> Result<reqwest::Method> {
    match name.parse() {
        // Through a proxy, CONNECT leads to addresses that were not checked, and TRACE returns the headers it was sent,
        // including keys.
        Ok(reqwest::Method::CONNECT | reqwest::Method::TRACE) | Err(_) => {
            Err(Error::invalid(format!("`{name}` is not an HTTP method that can be used here")))
        }
        Ok(method) => Ok(method),
    }
}

pub(crate) fn headers(pairs: &[(String, String)]) -> Result<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(pairs.len());
    for (name, value) in pairs {
        let wrong = |part: &str| Error::invalid(format!("the {part} of the header `{name}` cannot be sent"));
        let value = HeaderValue::from_str(value.trim()).map_err(|_| wrong("value"))?;
        // Appended: a header may have several values.
        headers.append(name.trim().parse::<HeaderName>().map_err(|_| wrong("name"))?, value);
    }
    Ok(headers)
}
