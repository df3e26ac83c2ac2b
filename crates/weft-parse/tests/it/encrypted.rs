//! PDFs that are encrypted with AES-256.

use crate::build::{read, reason, shown};

// Made for these tests by qpdf, with a password for the owner. Three have an empty password for everybody else.
const REVISION_5: &[u8] = include_bytes!("files/encrypted/revision-5.pdf");
const REVISION_5_WITH_A_TABLE: &[u8] = include_bytes!("files/encrypted/revision-5-table.pdf");
const REVISION_6: &[u8] = include_bytes!("files/encrypted/revision-6.pdf");
const LOCKED: [&[u8]; 2] =
    [include_bytes!("files/encrypted/password-5.pdf"), include_bytes!("files/encrypted/password-6.pdf")];

#[test]
fn what_anybody_may_open_is_read() {
    for bytes in [REVISION_5, REVISION_5_WITH_A_TABLE, REVISION_6] {
        let parsed = read("a.pdf", bytes);
        let text = shown(&parsed).join(" ");
        assert!(text.contains("The quay is closed on Mondays."), "{text}");
        assert!(text.contains("Ships moor by the light."), "{text}");
        assert_eq!(parsed.metadata["title"], "Harbour rules");
    }
}

#[test]
fn what_needs_a_password_is_refused_with_the_remedy() {
    for bytes in LOCKED {
        assert!(reason("a.pdf", bytes).contains("it is locked with a password; save it without one"));
    }
}

#[test]
fn a_lock_without_the_key_is_told_of() {
    // The entry with the key has another name.
    let place = REVISION_5_WITH_A_TABLE.windows(4).position(|bytes| bytes == b"/UE ").unwrap();
    let mut bytes = REVISION_5_WITH_A_TABLE.to_vec();
    bytes[place + 1] = b'X';
    assert!(!reason("a.pdf", &bytes).is_empty());
}
