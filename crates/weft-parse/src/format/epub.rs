//! EPUB: the chapters of a book in reading order.

use std::collections::{HashMap, HashSet};

use super::{FileContents, FileFormat, FileInput, ReadResult, html};
use crate::archive::{Archive, ArchiveKind, beside};
use crate::markup::{Xml, XmlNode, written};
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;

/// EPUB books.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "EPUB",
    endings: &["epub"],
    is_binary: true,
    looks: |contents: &FileContents<'_>| contents.container == Some(ArchiveKind::Epub),
    read,
};

/// Maximum number of chapters in one book.
const CHAPTERS_MAX: usize = 10_000;

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut archive = Archive::open(file.bytes)?;
    let mut parts = PartCollector::with_pictures(file.readings);
    let root = root(&archive);
    let package = package_path(&written(&archive.need(&format!("{root}META-INF/container.xml"))?))?;
    let package = format!("{root}{package}");
    let chapters = chapters(&written(&archive.need(&package)?), &mut parts)?;
    let locked = locked(&mut archive, &root)?;
    let (mut seen, mut left_out) = (HashSet::new(), 0);
    for chapter in chapters {
        let path = beside(&package, &unescaped(&chapter));
        // A spine can name the same file any number of times.
        if !seen.insert(path.clone()) {
            continue;
        }
        if locked.contains(&path) {
            left_out += 1;
            continue;
        }
        match archive.read(&path) {
            Ok(Some(bytes)) => {
                parts.page(None);
                html::chapter(&html::written(&bytes), &path, &mut parts);
            }
            Ok(None) => parts.warn(format!("the chapter `{path}` is missing")),
            // One damaged chapter does not make the book unreadable.
            Err(Unreadable(reason)) => parts.warn(format!("the chapter `{path}` was left out: {reason}")),
        }
        if parts.is_full() {
            break;
        }
    }
    let parsed = match left_out {
        0 => return Ok(parts.finish()),
        left_out => {
            parts.warn(format!("chapters left out because they are protected against copying: {left_out}"));
            parts.finish()
        }
    };
    // Every chapter that was read is a page.
    if parsed.pages == 0 {
        return Err(Unreadable::new("it is protected against copying (DRM); add a copy that is not"));
    }
    Ok(parsed)
}

/// Paths of encrypted files. Fonts obfuscated against extraction do not count.
fn locked(archive: &mut Archive<'_>, root: &str) -> Result<HashSet<String>, Unreadable> {
    const OF_FONTS: [&str; 2] = ["http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"];
    let mut locked = HashSet::new();
    let Some(bytes) = archive.read(&format!("{root}META-INF/encryption.xml"))? else { return Ok(locked) };
    let text = written(&bytes);
    let (mut xml, mut way) = (Xml::new(&text), None);
    while let Some(node) = xml.next()? {
        let XmlNode::Open(tag) = node else { continue };
        match tag.name() {
            "EncryptedData" => way = None,
            // The method of the file comes first; that of its key may follow.
            "EncryptionMethod" => way = way.or_else(|| tag.attribute("Algorithm")),
            "CipherReference" if way.as_deref().is_none_or(|way| !OF_FONTS.contains(&way)) => {
                let path = tag.attribute("URI").unwrap_or_default();
                locked.insert(format!("{root}{}", unescaped(&path)));
            }
            _ => {}
        }
    }
    Ok(locked)
}

/// Paths of the pictures in the book.
pub(super) fn picture_parts(bytes: &[u8]) -> Result<Vec<String>, Unreadable> {
    let archive = Archive::open(bytes)?;
    let is_picture = |name: &str| {
        let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_lowercase()).unwrap_or_default();
        super::picture::FORMAT.endings.contains(&ending.as_str())
    };
    let mut paths: Vec<String> =
        archive.names().filter(|name| is_picture(name)).map(std::borrow::Cow::into_owned).collect();
    super::office::in_order(&mut paths);
    Ok(paths)
}

/// The folder that contains the book: some programs include the folder itself in the archive.
fn root(archive: &Archive<'_>) -> String {
    let found =
        archive.names().find_map(|name| name.strip_suffix("META-INF/container.xml").map(str::to_owned));
    found.unwrap_or_default()
}

fn package_path(text: &str) -> Result<String, Unreadable> {
    let mut xml = Xml::new(text);
    while let Some(node) = xml.next()? {
        // The first one is the default rendition of the book.
        if let XmlNode::Open(tag) = node
            && tag.name() == "rootfile"
            && let Some(path) = tag.attribute("full-path")
        {
            return Ok(path);
        }
    }
    Err(Unreadable::new("it does not name its list of chapters"))
}

/// Returns the files of the chapters in reading order, and adds the metadata of the book.
fn chapters(text: &str, parts: &mut PartCollector) -> Result<Vec<String>, Unreadable> {
    let mut xml = Xml::new(text);
    let (mut files, mut order, mut said) = (HashMap::new(), Vec::new(), String::new());
    let mut pages = Vec::new();
    while let Some(node) = xml.next()? {
        match node {
            XmlNode::Open(tag) => {
                said.clear();
                let attribute = |name: &str| tag.attribute(name).unwrap_or_default();
                match tag.name() {
                    // Navigation documents repeat the headings.
                    "item" if !attribute("properties").split(' ').any(|one| one == "nav") => {
                        if is_page(&attribute("media-type"), &attribute("href")) {
                            pages.push(attribute("id"));
                        }
                        files.insert(attribute("id"), attribute("href"));
                    }
                    "itemref" => order.push(attribute("idref")),
                    _ => {}
                }
            }
            XmlNode::Text(text) => said.push_str(&text),
            XmlNode::Close(name) => match name.as_str() {
                "title" => parts.say("title", &said),
                "creator" => parts.say("author", &said),
                "date" => parts.say("date", &said),
                _ => {}
            },
        }
    }
    // A book that does not declare a reading order is read in the order of its manifest.
    if order.is_empty() {
        order = pages;
    }
    // Removed from the map, so that a file named twice is one chapter.
    Ok(order.into_iter().filter_map(|id| files.remove(&id)).take(CHAPTERS_MAX).collect())
}

/// Whether a file of a book is a page of text, by its media type or otherwise by its extension.
fn is_page(kind: &str, path: &str) -> bool {
    const ENDINGS: [&str; 3] = [".xhtml", ".html", ".htm"];
    let path = path.to_ascii_lowercase();
    matches!(kind, "application/xhtml+xml" | "text/html")
        || kind.is_empty() && ENDINGS.iter().any(|ending| path.ends_with(ending))
}

/// Decodes percent-encoding and removes the fragment.
pub(super) fn unescaped(address: &str) -> String {
    let address = address.split('#').next().unwrap_or_default();
    let mut bytes = Vec::with_capacity(address.len());
    let mut rest = address.as_bytes();
    while let [first, more @ ..] = rest {
        let code = match (first, more) {
            (b'%', [high, low, ..]) => {
                let digit =
                    |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit(high).zip(digit(low)).map(|(high, low)| high * 16 + low)
            }
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &more[2..] } else { more };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::unescaped;

    #[test]
    fn percent_encoding_is_decoded() {
        let check = |address: &str, expected: &str| assert_eq!(unescaped(address), expected);
        check("a%20b.xhtml#top", "a b.xhtml");
        check("100%", "100%");
        check("%zz%e6%95%b0", "%zz数");
    }
}
