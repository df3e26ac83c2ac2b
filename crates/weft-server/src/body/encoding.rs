//! The encoding of a body.

use axum::http::{HeaderMap, header};

use crate::error::ApiError;

/// The encodings that compress, including their older names.
const COMPRESSIONS: [&str; 7] = ["gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd"];

/// Checks that a body is not compressed: compressed bytes are neither JSON nor a form.
///
/// # Errors
/// 101 naming the encoding.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let given = headers.get_all(header::CONTENT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    // Other values change nothing: clients write `identity`, or the character set, which does not belong here.
    let compresses = |encoding: &&str| COMPRESSIONS.iter().any(|name| encoding.eq_ignore_ascii_case(name));
    match given.flat_map(|value| value.split(',')).map(str::trim).find(compresses) {
        None => Ok(()),
        Some(encoding) => Err(ApiError::argument(format!(
            "the body is compressed ({encoding}), which is not supported: send it as it is, without `Content-Encoding`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_compressed_bodies_are_refused() {
        let check = |encoding: &str, expected: Option<&str>| {
            let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, encoding.parse().unwrap())]);
            let told = check_encoding(&headers).err().map(|error| error.message().to_owned());
            let named = expected.map(|name| format!("the body is compressed ({name})"));
            match (told, named) {
                (None, None) => {}
                (Some(told), Some(named)) => assert!(told.starts_with(&named), "{told}"),
                other => panic!("{encoding}: {other:?}"),
            }
        };
        for encoding in ["", "identity", "UTF-8", "utf8", "aws-chunked"] {
            check(encoding, None);
        }
        check("GZIP", Some("GZIP"));
        check("identity, br", Some("br"));
    }
}
