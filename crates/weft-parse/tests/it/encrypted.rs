//! Encrypted files: PDFs with AES-256, documents with a password, and books.

use crate::build::{archive, read, reason, shown};

// Made for these tests by qpdf, with an owner password. Three have an empty user password.
const REVISION_5: &[u8] = include_bytes!("files/encrypted/revision-5.pdf");
const REVISION_5_WITH_A_TABLE: &[u8] = include_bytes!("files/encrypted/revision-5-table.pdf");
const REVISION_6: &[u8] = include_bytes!("files/encrypted/revision-6.pdf");
const LOCKED: [&[u8]; 2] =
    [include_bytes!("files/encrypted/password-5.pdf"), include_bytes!("files/encrypted/password-6.pdf")];

#[test]
fn encrypted_files_without_a_password_are_read() {
    for bytes in [REVISION_5, REVISION_5_WITH_A_TABLE, REVISION_6] {
        let parsed = read("a.pdf", bytes);
        let text = shown(&parsed).join(" ");
        assert!(text.contains("The quay is closed on Mondays."), "{text}");
        assert!(text.contains("Ships moor by the light."), "{text}");
        assert_eq!(parsed.metadata["title"], "Harbour rules");
    }
}

#[test]
fn files_that_need_a_password_are_refused_with_the_remedy() {
    for bytes in LOCKED {
        assert!(reason("a.pdf", bytes).contains("it is locked with a password; save it without one"));
    }
}

#[test]
fn an_encryption_without_its_key_is_reported() {
    // The entry with the key has another name.
    let place = REVISION_5_WITH_A_TABLE.windows(4).position(|bytes| bytes == b"/UE ").unwrap();
    let mut bytes = REVISION_5_WITH_A_TABLE.to_vec();
    bytes[place + 1] = b'X';
    assert!(!reason("a.pdf", &bytes).is_empty());
}

#[test]
fn encrypted_documents_and_books_are_refused_with_the_remedy() {
    let manifest =
        "<manifest:manifest><manifest:file-entry manifest:full-path='content.xml'><manifest:encryption-data/>
        </manifest:file-entry></manifest:manifest>";
    for kind in ["text", "presentation", "spreadsheet"] {
        let kind = format!("application/vnd.oasis.opendocument.{kind}");
        let older =
            archive(&[("mimetype", &kind), ("content.xml", "x"), ("META-INF/manifest.xml", manifest)]);
        let newer =
            archive(&[("mimetype", &kind), ("encrypted-package", "x"), ("META-INF/manifest.xml", "")]);
        for bytes in [older, newer] {
            assert!(reason("a.odt", &bytes).contains("it is locked with a password; save it without one"));
        }
    }
}

/// A book of two chapters with encrypted files.
fn book(way: &str, files: &[&str]) -> Vec<u8> {
    let lock = |file: &&str| {
        format!(
            "<enc:EncryptedData><enc:EncryptionMethod Algorithm='{way}'/><enc:CipherReference URI='{file}'/></enc:EncryptedData>"
        )
    };
    let locks = format!("<encryption>{}</encryption>", files.iter().map(lock).collect::<Vec<_>>().concat());
    archive(&[
        ("mimetype", "application/epub+zip"),
        ("META-INF/container.xml", "<container><rootfile full-path='O/book.opf'/></container>"),
        ("META-INF/encryption.xml", &locks),
        (
            "O/book.opf",
            "<package><manifest><item id='a' href='a%201.xhtml'/><item id='b' href='b.xhtml'/></manifest>
             <spine><itemref idref='a'/><itemref idref='b'/></spine></package>",
        ),
        ("O/a 1.xhtml", "<html><body><p>First</p></body></html>"),
        ("O/b.xhtml", "<html><body><p>Second</p></body></html>"),
    ])
}

#[test]
fn encrypted_chapters_are_not_text() {
    const WAY: &str = "http://www.w3.org/2001/04/xmlenc#aes128-cbc";
    let parsed = read("a.epub", &book(WAY, &["O/a%201.xhtml"]));
    assert_eq!(shown(&parsed), ["--- 1 ", "Second"]);
    assert_eq!(parsed.warnings, ["chapters left out because they are protected against copying: 1"]);
    assert!(
        reason("a.epub", &book(WAY, &["O/a 1.xhtml", "O/b.xhtml"]))
            .contains("it is protected against copying")
    );
    let fonts = book("http://www.idpf.org/2008/embedding", &["O/b.xhtml"]);
    assert_eq!(shown(&read("a.epub", &fonts)), ["--- 1 ", "First", "--- 2 ", "Second"]);
}
