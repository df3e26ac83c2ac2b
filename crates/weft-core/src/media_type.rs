//! Determines the types of files by their extensions.

use crate::seam::document_writer::DocumentFormat;

/// The media type of files of unknown type.
pub const UNKNOWN: &str = "application/octet-stream";

/// Extensions and media types of files other than the documents that can be created ([`DocumentFormat`]). If several
/// extensions share a type, the usual one comes first.
const KNOWN: [(&str, &str); 23] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
    ("json", "application/json"),
    ("xml", "application/xml"),
    ("log", "text/plain"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("xls", "application/vnd.ms-excel"),
    ("epub", "application/epub+zip"),
    ("eml", "message/rfc822"),
    ("mp3", "audio/mpeg"),
    ("mpga", "audio/mpeg"),
    ("m4a", "audio/mp4"),
    ("wav", "audio/wav"),
    ("ogg", "audio/ogg"),
    ("oga", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("flac", "audio/flac"),
    ("aac", "audio/aac"),
    ("weba", "audio/webm"),
];

/// Returns the extension of a file name in lower case, without the dot; empty if it has no extension,
/// or if its only dot is the first character.
pub fn ending(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => ending.to_lowercase(),
        _ => String::new(),
    }
}

/// Returns the media type of a file with this name.
pub fn of_name(name: &str) -> &'static str {
    let ending = ending(name);
    let known = KNOWN.iter().find(|(known, _)| *known == ending).map(|(_, kind)| *kind);
    known.or_else(|| DocumentFormat::named(&ending).map(DocumentFormat::mime_type)).unwrap_or(UNKNOWN)
}

/// Returns the usual extension of files of a media type.
pub fn ending_of(kind: &str) -> Option<&'static str> {
    let document = DocumentFormat::ALL.into_iter().find(|format| format.mime_type() == kind);
    let known = || KNOWN.iter().find(|(_, known)| *known == kind).map(|(ending, _)| *ending);
    document.map(DocumentFormat::ending).or_else(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_media_types() {
        let check = |name: &str, kind: &str| assert_eq!(of_name(name), kind, "{name}");
        check("a.PNG", "image/png");
        check("b.tar.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document");
        check("speech.mp3", "audio/mpeg");
        check("notes.md", "text/markdown");
        check(".png", UNKNOWN);
        check("none", UNKNOWN);
        assert_eq!(ending_of("audio/ogg"), Some("ogg"));
        assert_eq!(ending_of("image/jpeg"), Some("jpg"));
        assert_eq!(ending_of("text/markdown"), Some("md"));
        assert_eq!(ending_of("text/plain"), Some("txt"));
        assert_eq!(ending_of("x/y"), None);
    }
}
