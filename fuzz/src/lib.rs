//! What the targets have in common.

use std::io::{Cursor, Write as _};

use weft_parse::Settings;
use zip::write::SimpleFileOptions;

/// Reads a file of this name. Whatever comes of it, something has to.
pub fn read(name: &str, bytes: &[u8]) {
    let _ = weft_parse::parse(name, bytes, &Settings::new());
}

/// Reads an archive with one changed part, since changes of the archive itself only break its checksums.
pub fn read_part(name: &str, path: &str, bytes: &[u8], others: &[(&str, &str)]) {
    read(name, &archive(path, bytes, others).unwrap_or_default());
}

fn archive(path: &str, bytes: &[u8], others: &[(&str, &str)]) -> std::io::Result<Vec<u8>> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file(path, SimpleFileOptions::default())?;
    writer.write_all(bytes)?;
    for (path, text) in others {
        writer.start_file(*path, SimpleFileOptions::default())?;
        writer.write_all(text.as_bytes())?;
    }
    Ok(writer.finish()?.into_inner())
}

/// What the kinds of relations between parts begin with.
pub const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
