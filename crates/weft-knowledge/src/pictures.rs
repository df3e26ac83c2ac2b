//! Pictures shown beside chunks: documents that are pictures, and pictures in documents.
//!
//! A picture's id is composed of the ids of its dataset and its document and, unless it is the document
//! itself, its own name. It can therefore be looked up by itself, and reveals its owner. Pictures in
//! documents are named by their content: equal ones are stored once, and a picture that is still there after
//! its document was processed again keeps its name.

use weft_core::TenantId;
use weft_core::id::{DatasetKey, DocumentKey};
use weft_core::seam::dataset_store::StoredChunk;

/// Formats that browsers display: the file extension, the first bytes of such a file, and its media type.
// No SVG: a browser that displays one runs the scripts in it.
const KINDS: [(&str, &[u8], &str); 5] = [
    ("png", b"\x89PNG\r\n\x1a\n", "image/png"),
    ("jpg", b"\xff\xd8\xff", "image/jpeg"),
    ("jpeg", b"\xff\xd8\xff", "image/jpeg"),
    ("gif", b"GIF8", "image/gif"),
    ("webp", b"RIFF", "image/webp"),
];

/// Number of characters in the name of a picture in a document.
const NAME_CHARS: usize = 32;

/// What an `image_id` refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageId {
    /// The document.
    pub document: DocumentKey,
    /// A picture in it; if absent, the document itself.
    pub picture: Option<String>,
}

impl ImageId {
    /// Parses an image id; `None` if no picture of the tenant can have it.
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

/// Returns the id of the picture that a document itself is; `None` if it is not a picture, judging by its name.
pub fn image_id(document: &DocumentKey, name: &str) -> Option<String> {
    let (_, ending) = name.rsplit_once('.')?;
    let is_shown = KINDS.iter().any(|(known, ..)| ending.eq_ignore_ascii_case(known));
    is_shown.then(|| format!("{}-{}", document.dataset.id, document.id))
}

/// Returns the id of the picture that a chunk is shown with: the one from which its text was recognised or
/// else, judging by the document's name, the document itself if it is a picture.
pub fn image_id_of(chunk: &StoredChunk, name: &str) -> Option<String> {
    let DocumentKey { dataset, id } = &chunk.document;
    match &chunk.picture {
        Some(picture) => Some(format!("{}-{id}.{picture}", dataset.id)),
        None => image_id(&chunk.document, name),
    }
}

/// Returns the media type of a picture, by its content; `None` for files that browsers do not display as pictures.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    // Names are typed by users: a page that is named like a picture must not be served as anything else.
    let (_, _, media_type) = KINDS.iter().find(|(_, begins, _)| bytes.starts_with(begins))?;
    // Other files start with these bytes, too.
    let is_riff = *media_type == "image/webp";
    (!is_riff || bytes.get(8..12) == Some(b"WEBP")).then_some(*media_type)
}

/// Returns the name of a picture in a document.
pub(crate) fn name(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..NAME_CHARS].to_owned()
}

fn is_name(text: &str) -> bool {
    text.len() == NAME_CHARS
        && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Returns the folder beside a document's file that holds its pictures.
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
    fn a_picture_is_named_by_its_document_and_typed_by_its_content() {
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
    fn a_picture_in_a_document_is_named_by_its_hash() {
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
