//! The names of files in forms.

use axum::http::{HeaderMap, HeaderValue, header};

use super::document::file_name;
use crate::error::ApiError;
use crate::webhook::payload::decoded;

/// Returns the name of a file in a form, from the headers of its part and the name parsed elsewhere. Some clients
/// encode a name beyond ASCII by RFC 5987, alone or next to a plain substitute.
///
/// # Errors
/// As [`file_name`]; 101 for a name that is not UTF-8.
pub(crate) fn form_name(headers: &HeaderMap, plain: Option<&str>) -> Result<String, ApiError> {
    let told = headers.get(header::CONTENT_DISPOSITION).map(HeaderValue::as_bytes).unwrap_or_default();
    let Ok(told) = std::str::from_utf8(told) else {
        return match plain {
            Some(name) => file_name(name),
            None => Err(ApiError::argument("File name must be written in UTF-8.")),
        };
    };
    let extended = extended(told);
    file_name(extended.as_deref().or(plain).unwrap_or_default())
}

/// Returns the name that a part gives to its file, as it is written; `None` for a part that is not a file.
pub(crate) fn written_name(headers: &HeaderMap, plain: Option<&str>) -> Option<String> {
    let told = headers.get(header::CONTENT_DISPOSITION).map(HeaderValue::as_bytes).unwrap_or_default();
    let extended = std::str::from_utf8(told).ok().and_then(extended);
    extended.or_else(|| plain.map(str::to_owned))
}

fn extended(told: &str) -> Option<String> {
    let value = told.split(';').find_map(|parameter| parameter.trim().strip_prefix("filename*="))?;
    let (charset, rest) = value.split_once('\'')?;
    let (_, name) = rest.split_once('\'')?;
    if !charset.eq_ignore_ascii_case("utf-8") {
        return None;
    }
    // `+` would be decoded as a space, as in a form, but stands for itself here.
    decoded(name.replace('+', "%2B").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(told: &[u8], plain: Option<&str>) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_bytes(told).unwrap());
        form_name(&headers, plain).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn a_non_ascii_file_name_may_be_encoded_in_two_ways() {
        let encoded = b"form-data; name=\"file\"; filename*=utf-8''%E8%AF%AD+%25.txt";
        assert_eq!(named(encoded, None).unwrap(), "语+%.txt");
        let both = b"form-data; filename=\"=?utf-8?B?6K8=?=\"; name=file; filename*=UTF-8'zh'%E8%AF%AD.txt";
        assert_eq!(named(both, Some("=?utf-8?B?6K8=?=")).unwrap(), "语.txt");
        for plain in [&b"form-data; filename=\"a.txt\""[..], b"form-data; filename=a.txt; filename*=x"] {
            assert_eq!(named(plain, Some("a.txt")).unwrap(), "a.txt");
        }
        // Path separators and forbidden characters are checked after decoding.
        let folders = b"form-data; filename*=utf-8''..%2F..%2Fetc%2Fpasswd";
        assert_eq!(named(folders, None).unwrap(), "passwd");
        assert!(
            named(b"form-data; filename*=utf-8''a%00b", None).unwrap_err().contains("control characters")
        );
    }

    #[test]
    fn a_file_name_that_cannot_be_decoded_is_an_error() {
        let gbk = b"form-data; name=\"file\"; filename=\"\xd3\xef.txt\"";
        assert!(named(gbk, None).unwrap_err().contains("File name must be written in UTF-8."));
        assert!(named(b"form-data; name=\"file\"", None).unwrap_err().contains("No file selected!"));
        let latin = b"form-data; filename*=iso-8859-1''%E9.txt";
        assert!(named(latin, None).unwrap_err().contains("No file selected!"));
    }
}
