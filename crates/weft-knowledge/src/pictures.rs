//! Pictures that are shown beside chunks: documents that are pictures, and pictures in documents.
//!
//! A picture's name is made of its dataset's and its document's, and of its own where the document is none, so that it can be
//! found by itself, and tells whose it is. Pictures in documents are called by what they are: equal ones are kept once, and one
//! that is there after its document was read again has the name that it had.

use weft_core::TenantId;
use weft_core::id::{DatasetKey, DocumentKey};
use weft_core::seam::dataset_store::StoredChunk;

/// Kinds of pictures that browsers show: the ending of a name, what a file of the kind begins with, and its media type.
// No SVG: a browser that shows one runs the programs in it.
const KINDS: [(&str, &[u8], &str); 5] = [
    ("png", b"\x89PNG\r\n\x1a\n", "image/png"),
    ("jpg", b"\xff\xd8\xff", "image/jpeg"),
    ("jpeg", b"\xff\xd8\xff", "image/jpeg"),
    ("gif", b"GIF8", "image/gif"),
    ("webp", b"RIFF", "image/webp"),
];

/// Letters and digits of the name of a picture in a document.
const NAME_CHARS: usize = 32;

/// What `image_id` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageId {
    /// A document.
    pub document: DocumentKey,
    /// A picture in it; absent: the document itself.
    pub picture: Option<String>,
}

impl ImageId {
    /// The one of this name, if a picture of the tenant could have it.
    pub fn read(tenant: &TenantId, image: &str) -> Option<Self> {
        let (dataset, rest) = image.rsplit_once('-')?;
        let dataset = DatasetKey::new(tenant, dataset);
        let (document, picture) = match rest.rsplit_once('.').filter(|(_, picture)| is_name(picture)) {
            Some((document, picture)) => (document, Some(picture.to_owned())),
            None => (rest, None),
        };
        Some(Self { document: DocumentKey::new(&dataset, document), picture })
    }
}

/// What the picture is called that a document is; nothing for one that is none, going by its name.
pub fn image_id(document: &DocumentKey, name: &str) -> Option<String> {
    let (_, ending) = name.rsplit_once('.')?;
    let is_shown = KINDS.iter().any(|(known, ..)| ending.eq_ignore_ascii_case(known));
    is_shown.then(|| format!("{}-{}", document.dataset.id, document.id))
}

/// What the picture is called that a chunk is shown with: the one that its text was read in, else its document, where that is
/// one, going by the document's name.
pub fn image_id_of(chunk: &StoredChunk, name: &str) -> Option<String> {
    let DocumentKey { dataset, id } = &chunk.document;
    match &chunk.picture {
        Some(picture) => Some(format!("{}-{id}.{picture}", dataset.id)),
        None => image_id(&chunk.document, name),
    }
}

/// What kind of picture a file is, by its content; nothing for what browsers do not show as one.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    // Names are what somebody has typed: a page that is called a picture must not be handed out as anything.
    let (_, _, media_type) = KINDS.iter().find(|(_, begins, _)| bytes.starts_with(begins))?;
    // Other files begin like this, too.
    let is_riff = *media_type == "image/webp";
    (!is_riff || bytes.get(8..12) == Some(b"WEBP")).then_some(*media_type)
}

/// The name of a picture in a document.
pub(crate) fn name(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..NAME_CHARS].to_owned()
}

fn is_name(text: &str) -> bool {
    text.len() == NAME_CHARS
        && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The folder beside a document's file that its pictures are in.
pub(crate) fn folder(blob: &str) -> String {
    format!("{blob}.pictures")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> DocumentKey {
        DocumentKey::new(&DatasetKey::new(&TenantId::from("t"), "d0"), "f1")
    }

    #[test]
    fn a_picture_is_named_by_its_document_and_told_by_its_content() {
        let tenant = TenantId::from("t");
        let key = key();
        assert_eq!(image_id(&key, "a.PNG").as_deref(), Some("d0-f1"));
        assert_eq!((image_id(&key, "a.pdf"), image_id(&key, "png")), (None, None));
        assert_eq!(ImageId::read(&tenant, "d0-f1"), Some(ImageId { document: key, picture: None }));
        assert_eq!(ImageId::read(&tenant, "d0"), None);
        assert_eq!(media_type(b"\x89PNG\r\n\x1a\nrest"), Some("image/png"));
        assert_eq!(media_type(b"RIFF....WEBPVP8 "), Some("image/webp"));
        assert_eq!(
            (media_type(b"RIFF....WAVEfmt "), media_type(b"<svg/>"), media_type(b"")),
            (None, None, None)
        );
    }

    #[test]
    fn a_picture_in_a_document_is_named_by_what_it_is() {
        let tenant = TenantId::from("t");
        let picture = name(b"GIF89a");
        assert!(is_name(&picture) && picture != name(b"GIF89b"));
        let id = format!("d0-f1.{picture}");
        let read = ImageId::read(&tenant, &id).unwrap();
        assert_eq!((read.document, read.picture), (key(), Some(picture)));
        for other in ["d0-f1.x", "d0-f1.../etc", &id.to_uppercase()] {
            assert_eq!(ImageId::read(&tenant, other).unwrap().picture, None, "{other}");
        }
        assert_eq!(folder("documents/f1"), "documents/f1.pictures");
    }
}
