//! Documents that are pictures: what is shown beside what was read in them.
//!
//! A picture's name is made of its dataset's and its document's, so that it can be found by itself, and tells whose it is.

use weft_core::TenantId;
use weft_core::id::{DatasetKey, DocumentKey};

/// Kinds of pictures that browsers show: the ending of a name, what a file of the kind begins with, and its media type.
// No SVG: a browser that shows one runs the programs in it.
const KINDS: [(&str, &[u8], &str); 5] = [
    ("png", b"\x89PNG\r\n\x1a\n", "image/png"),
    ("jpg", b"\xff\xd8\xff", "image/jpeg"),
    ("jpeg", b"\xff\xd8\xff", "image/jpeg"),
    ("gif", b"GIF8", "image/gif"),
    ("webp", b"RIFF", "image/webp"),
];

/// What the picture is called that a document is; nothing for one that is none, going by its name.
pub fn image_id(document: &DocumentKey, name: &str) -> Option<String> {
    let (_, ending) = name.rsplit_once('.')?;
    let is_shown = KINDS.iter().any(|(known, ..)| ending.eq_ignore_ascii_case(known));
    is_shown.then(|| format!("{}-{}", document.dataset.id, document.id))
}

/// The document that a picture of this name would be.
pub fn document_of(tenant: &TenantId, image: &str) -> Option<DocumentKey> {
    let (dataset, document) = image.rsplit_once('-')?;
    Some(DocumentKey::new(&DatasetKey::new(tenant, dataset), document))
}

/// What kind of picture a file is, by its content; nothing for what browsers do not show as one.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    // Names are what somebody has typed: a page that is called a picture must not be handed out as anything.
    let (_, _, media_type) = KINDS.iter().find(|(_, begins, _)| bytes.starts_with(begins))?;
    // Other files begin like this, too.
    let is_riff = *media_type == "image/webp";
    (!is_riff || bytes.get(8..12) == Some(b"WEBP")).then_some(*media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_named_by_its_document_and_told_by_its_content() {
        let tenant = TenantId::from("t");
        let key = DocumentKey::new(&DatasetKey::new(&tenant, "d0"), "f1");
        assert_eq!(image_id(&key, "a.PNG").as_deref(), Some("d0-f1"));
        assert_eq!((image_id(&key, "a.pdf"), image_id(&key, "png")), (None, None));
        assert_eq!(document_of(&tenant, "d0-f1"), Some(key));
        assert_eq!(document_of(&tenant, "d0"), None);
        assert_eq!(media_type(b"\x89PNG\r\n\x1a\nrest"), Some("image/png"));
        assert_eq!(media_type(b"RIFF....WEBPVP8 "), Some("image/webp"));
        assert_eq!(
            (media_type(b"RIFF....WAVEfmt "), media_type(b"<svg/>"), media_type(b"")),
            (None, None, None)
        );
    }
}
