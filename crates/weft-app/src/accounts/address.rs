//! Email addresses as names of accounts.

use weft_core::{Error, Result};

/// Maximum length of an address in RFC 5321, in bytes.
const BYTES_MAX: usize = 254;

/// Checks an address and returns it in lower case. Whether mail arrives there is unknown; it only has to look like an
/// address, so that a name is not entered by mistake.
pub(super) fn check(text: &str) -> Result<String> {
    let text = text.trim();
    let fits = text.len() <= BYTES_MAX
        && !text.chars().any(|c| c.is_control() || c.is_whitespace() || matches!(c, '<' | '>' | ',' | '|'))
        && text.rsplit_once('@').is_some_and(|(name, host)| {
            !name.is_empty()
                && host.split('.').all(|label| !label.is_empty())
                && !host.starts_with('-')
                && !name.contains('@')
        });
    if fits {
        // Accounts are looked up case-insensitively.
        Ok(text.to_lowercase())
    } else {
        Err(Error::invalid("this is not a valid e-mail address").help("such as ann@example.com"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn email_addresses_are_validated() {
        for fine in ["a@b", " Ann@Example.com ", "ann+tag@mail.example.com", "ü@münchen.example"] {
            assert_eq!(check(fine).unwrap(), fine.trim().to_lowercase());
        }
        let long = format!("{}@example.com", "x".repeat(BYTES_MAX));
        for wrong in
            ["", "ann", "@b", "a@", "a@b..c", "a@.c", "a b@c", "a@b@c", "a\n@b", "<a@b>", "a,b@c", &long]
        {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
