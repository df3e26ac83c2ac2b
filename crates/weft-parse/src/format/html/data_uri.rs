//! Pictures that a page holds itself.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::super::epub::unescaped;

/// Characters of one picture, at most: three quarters of them are bytes.
const CHARACTERS_MAX: usize = 90 << 20;

/// Takes what was cut off at the end for what it is.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What a picture is called that a page holds itself; nothing for the address of one that it does not.
pub(super) fn part(source: &str) -> Option<String> {
    let source = source.trim();
    if !source.get(..11)?.eq_ignore_ascii_case("data:image/") {
        return None;
    }
    // The address itself may have megabytes, and this name stands in what is read and in warnings.
    let mut hasher = DefaultHasher::new();
    source.hash(&mut hasher);
    Some(format!("picture {:016x} of {} characters", hasher.finish(), source.len()))
}

/// Its bytes.
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
    fn pictures_are_told_from_addresses() {
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
