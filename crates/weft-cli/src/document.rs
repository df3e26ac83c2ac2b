//! Canvas files.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use weft_dsl::DOCUMENT_BYTES_MAX;

use crate::failure::{Failure, Outcome};

/// A file that was read.
#[derive(Debug)]
pub(crate) struct Document {
    /// The path as the caller named it.
    pub path: PathBuf,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl Document {
    /// Reads a file, up to one byte beyond the limit of a canvas.
    ///
    /// # Errors
    /// When it does not exist, is a folder, or cannot be read.
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        let shown = path.display();
        let refuse = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Failure::usage(format!("there is no file {shown}")).help("give the path of a canvas in JSON")
            }
            std::io::ErrorKind::PermissionDenied => {
                Failure::usage(format!("cannot read {shown}: permission denied"))
                    .help("grant read access to it")
            }
            _ => Failure::usage(format!("cannot read {shown}: {error}")),
        };
        let file = File::open(path).map_err(refuse)?;
        // A folder can be opened, and reading it would give an error message of the system.
        if file.metadata().map_err(refuse)?.is_dir() {
            let usual = path.join("canvas.json");
            let named =
                if usual.is_file() { format!(", such as {}", usual.display()) } else { String::new() };
            return Err(Failure::usage(format!("{shown} is a folder, not a canvas"))
                .help(format!("name a file in it{named}")));
        }
        let mut bytes = Vec::new();
        // One byte more than is allowed, so that the check of the canvas notices a longer file.
        file.take(DOCUMENT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(refuse)?;
        Ok(Self { path: path.to_owned(), bytes })
    }

    /// Returns the content as text, if it is valid.
    pub(crate) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }
}
