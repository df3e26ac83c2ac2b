//! Documents that runs create, and tables that they read from files.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;
use crate::value::Json;

/// The file format of a document to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DocumentFormat {
    /// Pages.
    Pdf,
    /// A Word document.
    Docx,
    /// An Excel spreadsheet.
    Xlsx,
    /// A web page.
    Html,
    /// Markdown.
    Markdown,
    /// Plain text.
    Txt,
    /// Comma-separated values.
    Csv,
}

impl DocumentFormat {
    /// Every format.
    pub const ALL: [Self; 7] =
        [Self::Pdf, Self::Docx, Self::Xlsx, Self::Html, Self::Markdown, Self::Txt, Self::Csv];

    /// Returns the format with this name, as canvases use it.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.trim().trim_start_matches('.').to_ascii_lowercase();
        match name.as_str() {
            "md" => Some(Self::Markdown),
            "text" => Some(Self::Txt),
            "excel" => Some(Self::Xlsx),
            "word" => Some(Self::Docx),
            name => Self::ALL.into_iter().find(|format| format.name() == name),
        }
    }

    /// Returns the name that canvases use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pdf => "pdf",
            Self::Docx => "docx",
            Self::Xlsx => "xlsx",
            Self::Html => "html",
            Self::Markdown => "markdown",
            Self::Txt => "txt",
            Self::Csv => "csv",
        }
    }

    /// Returns its file extension, without the dot.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            other => other.name(),
        }
    }

    /// Returns its media type.
    pub const fn mime_type(self) -> &'static str {
        match self {
            Self::Pdf => "application/pdf",
            Self::Docx => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            Self::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            Self::Html => "text/html",
            Self::Markdown => "text/markdown",
            Self::Txt => "text/plain",
            Self::Csv => "text/csv",
        }
    }
}

/// What surrounds the text of a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PageSettings {
    /// The title in the metadata of the file; not part of the text.
    #[serde(default)]
    pub title: String,
    /// At the top of every page.
    #[serde(default)]
    pub header: String,
    /// At the foot of every page.
    #[serde(default)]
    pub footer: String,
    /// Large, pale text across every page.
    #[serde(default)]
    pub watermark: String,
    /// Whether pages are numbered.
    #[serde(default)]
    pub page_numbers: bool,
    /// A line that says when the document was created.
    #[serde(default)]
    pub timestamp: String,
    /// The font size of the text, in points; 0 for the format's default.
    #[serde(default)]
    pub font_size: u32,
    /// Whether pages are in landscape orientation.
    #[serde(default)]
    pub landscape: bool,
}

/// A sheet of a spreadsheet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sheet {
    /// Its name.
    pub name: String,
    /// Its rows; the first one contains the column names. Values are texts, numbers, booleans or null.
    pub rows: Vec<Vec<Json>>,
}

/// The content of a document to create, independent of its format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentContent {
    /// A text in Markdown.
    Markdown(String),
    /// Tables.
    Sheets(Vec<Sheet>),
}

/// A request to create a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WriteRequest {
    /// Its format.
    pub format: DocumentFormat,
    /// Its content.
    pub content: DocumentContent,
    /// What surrounds its text.
    #[serde(default)]
    pub page: PageSettings,
}

/// A created document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadeDocument {
    /// The file.
    pub bytes: Bytes,
    /// Characters that the document cannot represent and shows a substitute for; each once.
    pub unwritable: String,
}

impl From<Vec<u8>> for MadeDocument {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.into(), unwritable: String::new() }
    }
}

/// Creates documents and reads tables.
///
/// An implementation processes any input without harm to its process, within limits of time and memory. If it
/// processes only a few files at a time, tenants take turns.
#[async_trait]
pub trait DocumentWriter: Send + Sync + fmt::Debug {
    /// Creates a file.
    ///
    /// # Errors
    /// `Invalid` for content that the format cannot represent, with a reason that people understand; `Timeout`;
    /// `Unavailable` when no process can be started; `RateLimited` when too many files of the tenant are waiting.
    async fn write(&self, tenant: &TenantId, request: &WriteRequest) -> Result<MadeDocument>;

    /// Returns the sheets of a spreadsheet or of a file of separated values, according to the extension of its name.
    ///
    /// # Errors
    /// As [`DocumentReader::read`](super::DocumentReader::read).
    async fn sheets(&self, tenant: &TenantId, name: &str, bytes: Bytes) -> Result<Vec<Sheet>>;
}

/// A writer that can create no documents.
#[derive(Clone, Copy, Debug)]
pub struct NoWriter;

fn none() -> Error {
    Error::new(ErrorKind::Unavailable, "no program that makes or reads documents is configured")
        .help("set `documents.worker` in the configuration")
}

#[async_trait]
impl DocumentWriter for NoWriter {
    async fn write(&self, _: &TenantId, _: &WriteRequest) -> Result<MadeDocument> {
        Err(none())
    }

    async fn sheets(&self, _: &TenantId, _: &str, _: Bytes) -> Result<Vec<Sheet>> {
        Err(none())
    }
}
