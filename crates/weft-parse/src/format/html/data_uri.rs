//! Pictures embedded in a page as data URIs.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::super::epub::unescaped;

/// Maximum number of characters of one picture; they encode three quarters as many bytes.
const CHARACTERS_MAX: usize = 90 << 20;

/// Accepts data that was truncated at the end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Name for an embedded picture; `None` if the address is not a data URI.
pub(super) fn part(source: &str) -> Option<String> {
    let source = source.trim();
    if !source.get(..11)?.eq_ignore_ascii_case("data:image/") {
        return None;
    }
    // A hash, as the address can be megabytes long and the name appears in readings and in warnings.
    let mut hasher = DefaultHasher::new();
    source.hash(&mut hasher);
    Some(format!("picture {:016x} of {} characters", hasher.finish(), source.len()))
}

/// Decodes the bytes of an embedded picture.
pub(super) fn decoded(source: &str) -> Option<Vec<u8>> {
    let (kind, data) = source.trim().split_once(',')?;
    if data.len() > CHARACTERS_MAX || !kind.to_ascii_lowercase().ends_with(";base64") {
        return None;
    }
    let mut data = unescaped(data).into_bytes();
    // Long data is broken into lines.
    data.retain(|byte| !byte.is_ascii_whitespace());
    BASE64.decode(data).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_in_data_uris_are_recognised() {
        assert!(part("https://example.com/a.png").is_none() && part("data:text/plain,x").is_none());
        assert!(part("é").is_none() && part("").is_none());
        let source = " data:image/png;base64,aGVs\n bG8%3D ";
        assert_eq!(part(source), part(source.trim()));
        assert_eq!(decoded(source).unwrap(), b"hello");
        assert_eq!(decoded("DATA:image/png;BASE64,aGVsbG8"), Some(b"hello".to_vec()));
        assert!(
            decoded("data:image/svg+xml,%3Csvg/%3E").is_none()
                && decoded("data:image/png;base64,???").is_none()
        );
    }
}
