//! Files that are written into a value as a data URI.

use base64::Engine as _;
use bytes::Bytes;
use weft_core::{Error, Result, media_type};

/// Returns the name and the contents of a file that is written as `data:text/csv;name=a.csv;base64,…`. Without a name
/// it is called `attachment`, with the ending of its type.
///
/// # Errors
/// `Invalid` for a text that is no data URI in base64.
pub fn file(uri: &str) -> Result<(String, Bytes)> {
    let wrong = || {
        Error::invalid("the data URI cannot be read").help("write it as `data:text/csv;name=a.csv;base64,…`")
    };
    let (head, data) = uri.strip_prefix("data:").and_then(|rest| rest.split_once(',')).ok_or_else(wrong)?;
    let mut parts = head.split(';');
    let kind = parts.next().unwrap_or_default().trim().to_lowercase();
    let mut name = None;
    let mut is_base64 = false;
    for part in parts {
        match part.split_once('=') {
            Some((key, value)) if matches!(key.trim(), "name" | "filename") => {
                name = Some(value.trim().to_owned());
            }
            None if part.trim().eq_ignore_ascii_case("base64") => is_base64 = true,
            _ => {}
        }
    }
    if !is_base64 {
        return Err(wrong());
    }
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(data.trim())
        .map_err(|cause| wrong().because(cause))?;
    let name = name
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("attachment.{}", media_type::ending_of(&kind).unwrap_or("txt")));
    Ok((name, bytes.into()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn data_uris_become_named_files() {
        let check = |uri: &str, expected: Option<(&str, &[u8])>| {
            let found = super::file(uri).ok();
            let found = found.as_ref().map(|(name, bytes)| (name.as_str(), &bytes[..]));
            assert_eq!(found, expected, "{uri}");
        };
        check("data:text/csv;name=a.csv;base64,YSxi", Some(("a.csv", b"a,b")));
        check("data:application/pdf;base64,YQ==", Some(("attachment.pdf", b"a")));
        check("data:;base64,", Some(("attachment.txt", b"")));
        check("data:text/plain,abc", None);
        check("data:text/plain;base64,*", None);
        check("data:", None);
    }
}
