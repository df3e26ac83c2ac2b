//! Opens archives within limits, and tells which kind of document they hold.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{Cursor, Read as _};

use zip::ZipArchive;

use crate::unreadable::Unreadable;

/// Maximum number of entries in one archive.
const ENTRIES_MAX: usize = 20_000;
/// Maximum unpacked size of one entry, in bytes.
const ENTRY_BYTES_MAX: u64 = 256 << 20;
/// Maximum unpacked size of all entries together, in bytes.
const UNPACKED_BYTES_MAX: u64 = 512 << 20;

/// The kind of document that an archive holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArchiveKind {
    /// A Word document.
    Docx,
    /// A PowerPoint presentation.
    Pptx,
    /// A spreadsheet, in any of the supported formats.
    Spreadsheet,
    /// An EPUB book.
    Epub,
    /// An Outlook message.
    Outlook,
    /// A Word document from before 2007.
    Word97,
    /// A PowerPoint presentation from before 2007.
    PowerPoint97,
    /// An OpenDocument file that is not a spreadsheet.
    OpenDocument,
    /// A password-protected document.
    Locked,
    /// A document of another program in the compound file format of Office before 2007.
    OtherDocument,
    /// Any other archive.
    Zip,
    /// An archive that cannot be opened.
    Broken,
}

impl ArchiveKind {
    /// Detects the kind of archive, or returns `None` if the bytes are not an archive.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        // The second signature is that of an empty archive, which consists of the end record only.
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
            return Some(Archive::open(bytes).map_or(Self::Broken, |archive| archive.kind()));
        }
        if bytes.starts_with(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") {
            return Some(compound(bytes));
        }
        None
    }
}

fn compound(bytes: &[u8]) -> ArchiveKind {
    let Ok(file) = cfb::CompoundFile::open(Cursor::new(bytes)) else {
        return ArchiveKind::Broken;
    };
    let known = [
        ("/Workbook", ArchiveKind::Spreadsheet),
        ("/Book", ArchiveKind::Spreadsheet),
        ("/__properties_version1.0", ArchiveKind::Outlook),
        ("/WordDocument", ArchiveKind::Word97),
        ("/PowerPoint Document", ArchiveKind::PowerPoint97),
        ("/EncryptedPackage", ArchiveKind::Locked),
    ];
    known.into_iter().find(|(path, _)| file.exists(path)).map_or(ArchiveKind::OtherDocument, |(_, kind)| kind)
}

/// A zip archive that unpacks no more than its limits allow.
pub(crate) struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    left: Cell<u64>,
}

impl<'a> Archive<'a> {
    /// Opens an archive.
    ///
    /// # Errors
    /// If it is broken or has too many entries.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, Unreadable> {
        let zip = ZipArchive::new(Cursor::new(bytes))
            .map_err(|cause| Unreadable::because("its list of files cannot be read", cause))?;
        if zip.len() > ENTRIES_MAX {
            return Err(Unreadable::new(format!(
                "it contains {} files, more than the maximum of {ENTRIES_MAX}",
                zip.len()
            )));
        }
        Ok(Self { zip, left: Cell::new(UNPACKED_BYTES_MAX) })
    }

    fn kind(&self) -> ArchiveKind {
        let has = |start: &str| self.names().any(|name| name.starts_with(start));
        // With a password, either the whole document is one entry of the archive, or each entry is encrypted by itself.
        if self.zip.index_for_name("mimetype").is_some() && self.is_locked() {
            return ArchiveKind::Locked;
        }
        // Both names are required, because EPUB books have a `mimetype` as well.
        if self.zip.index_for_name("mimetype").is_some() && self.zip.index_for_name("content.xml").is_some() {
            return match self.clone_read("mimetype").as_deref() {
                Some(kind) if kind.starts_with(b"application/vnd.oasis.opendocument.spreadsheet") => {
                    ArchiveKind::Spreadsheet
                }
                _ => ArchiveKind::OpenDocument,
            };
        }
        match () {
            () if has("word/") => ArchiveKind::Docx,
            () if has("ppt/") => ArchiveKind::Pptx,
            () if has("xl/") => ArchiveKind::Spreadsheet,
            () if self.names().any(|name| is_book(&name)) => ArchiveKind::Epub,
            () => ArchiveKind::Zip,
        }
    }

    fn is_locked(&self) -> bool {
        let is_told = |manifest: &Vec<u8>| {
            const LOCK: &[u8] = b"encryption-data";
            manifest.windows(LOCK.len()).any(|bytes| bytes == LOCK)
        };
        self.zip.index_for_name("encrypted-package").is_some()
            || self.clone_read("META-INF/manifest.xml").as_ref().is_some_and(is_told)
    }

    fn clone_read(&self, name: &str) -> Option<Vec<u8>> {
        // A clone with its own budget, so that detecting the format does not count against the unpacking limit.
        let mut copy = Archive { zip: self.zip.clone(), left: Cell::new(ENTRY_BYTES_MAX) };
        copy.read(name).ok().flatten()
    }

    /// Names of the entries.
    pub(crate) fn names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.zip.file_names().flatten()
    }

    /// Unpacks an entry; `None` if there is none of that name.
    ///
    /// # Errors
    /// If it is broken, encrypted, or exceeds the limits.
    pub(crate) fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, Unreadable> {
        let Some(index) = self.index(name) else { return Ok(None) };
        let file = self
            .zip
            .by_index(index)
            .map_err(|cause| Unreadable::because(&format!("`{name}` in it cannot be opened"), cause))?;
        let most = self.left.get().min(ENTRY_BYTES_MAX);
        // The size that an archive declares may be wrong, so this check only avoids needless work.
        if file.size() > most {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        // Reads one byte more than allowed, to tell an entry that is too long from one that just fits.
        let unpacked = file.take(most + 1).read_to_end(&mut bytes);
        // An entry that turns out to be broken at its end has been unpacked as well, so it counts.
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.left.set(self.left.get().saturating_sub(size));
        unpacked
            .map_err(|cause| Unreadable::because(&format!("`{name}` in it cannot be unpacked"), cause))?;
        if size > most {
            return Err(too_large());
        }
        Ok(Some(bytes))
    }

    /// Unpacks an entry that the format requires.
    ///
    /// # Errors
    /// As [`Archive::read`], and if there is no such entry.
    pub(crate) fn need(&mut self, name: &str) -> Result<Vec<u8>, Unreadable> {
        self.read(name)?.ok_or_else(|| Unreadable::new(format!("`{name}` is missing in it")))
    }

    /// Unpacks all entries to verify that they stay within the limits, for libraries that enforce none.
    ///
    /// # Errors
    /// If they exceed the limits.
    pub(crate) fn check(&mut self) -> Result<(), Unreadable> {
        for index in 0..self.zip.len() {
            let Ok(file) = self.zip.by_index(index) else { continue };
            let most = self.left.get().min(ENTRY_BYTES_MAX);
            if file.size() > most {
                return Err(too_large());
            }
            let size = unpacked(file.take(most + 1));
            if size > most {
                return Err(too_large());
            }
            // The size is at most `most`, which is no more than what is left.
            self.left.set(self.left.get() - size);
        }
        Ok(())
    }

    /// Finds an entry. Case is ignored, as the programs that write these files do.
    fn index(&self, name: &str) -> Option<usize> {
        let name = name.trim_start_matches('/');
        self.zip.index_for_name(name).or_else(|| {
            let found = self.names().find(|one| one.eq_ignore_ascii_case(name))?;
            self.zip.index_for_name(&found)
        })
    }
}

/// Whether an entry of this name marks the archive as an EPUB book; it may be one folder deeper.
fn is_book(name: &str) -> bool {
    name.strip_suffix("META-INF/container.xml").is_some_and(|folder| folder.matches('/').count() <= 1)
}

/// Number of bytes that can be unpacked before any error. The code that needs the rest reports the error.
fn unpacked(mut file: impl std::io::Read) -> u64 {
    let mut buffer = [0; 16 << 10];
    let mut size = 0;
    while let Ok(count @ 1..) = file.read(&mut buffer) {
        size += u64::try_from(count).unwrap_or_default();
    }
    size
}

fn too_large() -> Unreadable {
    Unreadable::new(format!("it is larger than {} MiB when unpacked", UNPACKED_BYTES_MAX >> 20))
}

/// Resolves the path of an entry that another entry refers to.
pub(crate) fn beside(base: &str, target: &str) -> String {
    if let Some(path) = target.strip_prefix('/') {
        return path.to_owned();
    }
    let mut path: Vec<&str> = base.split('/').collect();
    path.pop();
    for part in target.split('/') {
        match part {
            // There is nothing above the root, so a path cannot escape from the archive.
            ".." => drop(path.pop()),
            "." | "" => {}
            part => path.push(part),
        }
    }
    path.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeros(count: usize) -> Vec<u8> {
        use std::io::Write as _;
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        writer.start_file("zeros", zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(&vec![0; count]).unwrap();
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn unpacking_stops_at_the_limit() {
        let mut honest = zeros(10_000);
        for (limit, expected) in [(10_000, true), (9_999, false)] {
            let mut archive = Archive::open(&honest).unwrap();
            archive.left.set(limit);
            assert_eq!(archive.check().is_ok(), expected);
            archive.left.set(limit);
            assert_eq!(archive.read("zeros").is_ok(), expected);
        }
        // The size in the central directory, which is false now.
        let list = honest.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
        honest[list + 24..list + 28].copy_from_slice(&10_u32.to_le_bytes());
        let mut archive = Archive::open(&honest).unwrap();
        archive.left.set(9_999);
        assert!(archive.read("zeros").is_err());
        assert!(Archive::open(&honest).unwrap().read("none").unwrap().is_none());
    }

    #[test]
    fn truncated_entries_count_towards_the_limit() {
        let mut broken = zeros(10_000);
        // The checksum, so that the error is found only at the end.
        let list = broken.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
        broken[list + 16] ^= 1;
        let mut archive = Archive::open(&broken).unwrap();
        archive.left.set(15_000);
        assert!(archive.read("zeros").is_err());
        assert_eq!(archive.left.get(), 5_000);
        assert!(archive.check().is_err());
        archive.left.set(15_000);
        assert!(archive.check().is_ok());
        assert_eq!(archive.left.get(), 5_000);
    }

    #[test]
    fn paths_are_relative_to_the_file_that_names_them() {
        let check = |base: &str, target: &str, expected: &str| assert_eq!(beside(base, target), expected);
        check("ppt/slides/slide1.xml", "../notes/n1.xml", "ppt/notes/n1.xml");
        check("word/document.xml", "media/a.png", "word/media/a.png");
        check("word/document.xml", "/word/x.xml", "word/x.xml");
        check("a.opf", "../../../x", "x");
    }
}
