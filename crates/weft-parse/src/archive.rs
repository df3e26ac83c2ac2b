//! Files that hold other files, opened with care.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{Cursor, Read as _};

use zip::ZipArchive;

use crate::format::Unreadable;

/// Files in one archive, at most.
const ENTRIES_MAX: usize = 20_000;
/// Bytes of one file in an archive when unpacked, at most.
const ENTRY_BYTES_MAX: u64 = 256 << 20;
/// Bytes of all files together that are unpacked, at most.
const UNPACKED_BYTES_MAX: u64 = 512 << 20;

/// What an archive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArchiveKind {
    /// A document of Word.
    Docx,
    /// A presentation of PowerPoint.
    Pptx,
    /// A spreadsheet, in any of the forms that are read.
    Spreadsheet,
    /// A book.
    Epub,
    /// A mail of Outlook.
    Outlook,
    /// A document of Word before 2007.
    Word97,
    /// A presentation of PowerPoint before 2007.
    PowerPoint97,
    /// A document of the OpenDocument family that is no spreadsheet.
    OpenDocument,
    /// A document behind a password.
    Locked,
    /// A document of some other program, in the container that those of Office before 2007 have.
    OtherDocument,
    /// Any other archive.
    Zip,
    /// An archive that cannot be opened.
    Broken,
}

impl ArchiveKind {
    /// What these bytes are, if they are an archive.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        // The second one is an archive without files, which has the record at its end only.
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

/// A zip archive, which unpacks no more than its limits.
pub(crate) struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    left: Cell<u64>,
}

impl<'a> Archive<'a> {
    /// Opens it.
    ///
    /// # Errors
    /// When it is broken or has too many files.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, Unreadable> {
        let zip = ZipArchive::new(Cursor::new(bytes))
            .map_err(|cause| Unreadable::because("its list of files cannot be read", cause))?;
        if zip.len() > ENTRIES_MAX {
            return Err(Unreadable::new(format!("it holds {} files, {ENTRIES_MAX} are the most", zip.len())));
        }
        Ok(Self { zip, left: Cell::new(UNPACKED_BYTES_MAX) })
    }

    fn kind(&self) -> ArchiveKind {
        let has = |start: &str| self.names().any(|name| name.starts_with(start));
        // With a password the whole document is one of its files, or each of them is locked by itself.
        if self.zip.index_for_name("mimetype").is_some() && self.is_locked() {
            return ArchiveKind::Locked;
        }
        // Two names, because books have a `mimetype` as well.
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
        // A copy with a room of its own: a look at what it is takes nothing from what may be unpacked.
        let mut copy = Archive { zip: self.zip.clone(), left: Cell::new(ENTRY_BYTES_MAX) };
        copy.read(name).ok().flatten()
    }

    /// The names of the files in it.
    pub(crate) fn names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.zip.file_names().flatten()
    }

    /// A file in it; none of that name is `None`.
    ///
    /// # Errors
    /// When it is broken, locked, or larger than the limits.
    pub(crate) fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, Unreadable> {
        let Some(index) = self.index(name) else { return Ok(None) };
        let file = self
            .zip
            .by_index(index)
            .map_err(|cause| Unreadable::because(&format!("`{name}` in it cannot be opened"), cause))?;
        let most = self.left.get().min(ENTRY_BYTES_MAX);
        // What an archive says of its files may be wrong, so it only saves the work.
        if file.size() > most {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        // One byte more tells a file that is too long from one that just fits.
        let unpacked = file.take(most + 1).read_to_end(&mut bytes);
        // What turns out to be broken at its end has been unpacked, too.
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.left.set(self.left.get().saturating_sub(size));
        unpacked
            .map_err(|cause| Unreadable::because(&format!("`{name}` in it cannot be unpacked"), cause))?;
        if size > most {
            return Err(too_large());
        }
        Ok(Some(bytes))
    }

    /// A file in it that the format cannot do without.
    ///
    /// # Errors
    /// As [`Archive::read`], and when there is none.
    pub(crate) fn need(&mut self, name: &str) -> Result<Vec<u8>, Unreadable> {
        self.read(name)?.ok_or_else(|| Unreadable::new(format!("`{name}` is missing in it")))
    }

    /// Unpacks everything to see that it stays within the limits, for libraries that have none.
    ///
    /// # Errors
    /// When it does not.
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
            self.left.set(self.left.get() - size);
        }
        Ok(())
    }

    /// Names are compared without regard to case, as the programs that write them do.
    fn index(&self, name: &str) -> Option<usize> {
        let name = name.trim_start_matches('/');
        self.zip.index_for_name(name).or_else(|| {
            let found = self.names().find(|one| one.eq_ignore_ascii_case(name))?;
            self.zip.index_for_name(&found)
        })
    }
}

/// Whether a file of this name makes an archive a book; it may be in one folder more.
fn is_book(name: &str) -> bool {
    name.strip_suffix("META-INF/container.xml").is_some_and(|folder| folder.matches('/').count() <= 1)
}

/// How many bytes there are, up to where it is broken. Whoever needs the rest will say so.
fn unpacked(mut file: impl std::io::Read) -> u64 {
    let mut buffer = [0; 16 << 10];
    let mut size = 0;
    while let Ok(count @ 1..) = file.read(&mut buffer) {
        size += u64::try_from(count).unwrap_or_default();
    }
    size
}

fn too_large() -> Unreadable {
    Unreadable::new(format!("unpacked it is larger than {} MiB", UNPACKED_BYTES_MAX >> 20))
}

/// The path of a file that another one names, both within the same archive.
pub(crate) fn beside(base: &str, target: &str) -> String {
    if let Some(path) = target.strip_prefix('/') {
        return path.to_owned();
    }
    let mut path: Vec<&str> = base.split('/').collect();
    path.pop();
    for part in target.split('/') {
        match part {
            // Above the root there is nothing, so a path cannot lead out of the archive.
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
    fn no_more_is_unpacked_than_the_limit() {
        let mut honest = zeros(10_000);
        for (limit, expected) in [(10_000, true), (9_999, false)] {
            let mut archive = Archive::open(&honest).unwrap();
            archive.left.set(limit);
            assert_eq!(archive.check().is_ok(), expected);
            archive.left.set(limit);
            assert_eq!(archive.read("zeros").is_ok(), expected);
        }
        // The size that the list of files gives, which is a lie now.
        let list = honest.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
        honest[list + 24..list + 28].copy_from_slice(&10_u32.to_le_bytes());
        let mut archive = Archive::open(&honest).unwrap();
        archive.left.set(9_999);
        assert!(archive.read("zeros").is_err());
        assert!(Archive::open(&honest).unwrap().read("none").unwrap().is_none());
    }

    #[test]
    fn what_breaks_off_counts_as_well() {
        let mut broken = zeros(10_000);
        // The checksum, behind which nothing is found wrong before the end.
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
