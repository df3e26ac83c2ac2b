//! Documents that runs make, and tables that they read from files.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;
use crate::value::Json;

/// What kind of file a document becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DocumentFormat {
    /// Pages.
    Pdf,
    /// A document of Word.
    Docx,
    /// A spreadsheet of Excel.
    Xlsx,
    /// A page of the web.
    Html,
    /// Markdown.
    Markdown,
    /// Text without markup.
    Txt,
    /// Rows with commas between their values.
    Csv,
}

impl DocumentFormat {
    /// Every one.
    pub const ALL: [Self; 7] =
        [Self::Pdf, Self::Docx, Self::Xlsx, Self::Html, Self::Markdown, Self::Txt, Self::Csv];

    /// By the name that canvases use.
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

    /// The name that canvases use.
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

    /// What the names of its files end in, without the dot.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            other => other.name(),
        }
    }

    /// Its media type.
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

/// What stands around the text of a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PageSettings {
    /// The title that the file itself has; not a part of the text.
    #[serde(default)]
    pub title: String,
    /// At the top of every page.
    #[serde(default)]
    pub header: String,
    /// At the foot of every page.
    #[serde(default)]
    pub footer: String,
    /// Large and pale across every page.
    #[serde(default)]
    pub watermark: String,
    /// Whether pages are numbered.
    #[serde(default)]
    pub page_numbers: bool,
    /// A line that says when it was made.
    #[serde(default)]
    pub timestamp: String,
    /// The size of the text, in points; 0 for that of the format.
    #[serde(default)]
    pub font_size: u32,
    /// Whether pages lie on their long side.
    #[serde(default)]
    pub landscape: bool,
}

/// A sheet of a spreadsheet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sheet {
    /// Its name.
    pub name: String,
    /// Its rows; the first one names the columns. Values are texts, numbers, truth values or null.
    pub rows: Vec<Vec<Json>>,
}

/// What a document holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentContent {
    /// A text in Markdown.
    Markdown(String),
    /// Tables.
    Sheets(Vec<Sheet>),
}

/// A document to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WriteRequest {
    /// What kind of file.
    pub format: DocumentFormat,
    /// What it holds.
    pub content: DocumentContent,
    /// What stands around it.
    #[serde(default)]
    pub page: PageSettings,
}

/// A document that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadeDocument {
    /// The file.
    pub bytes: Bytes,
    /// Letters for which it has another sign, since it cannot hold them; each of them once.
    pub unwritable: String,
}

impl From<Vec<u8>> for MadeDocument {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.into(), unwritable: String::new() }
    }
}

/// Makes documents, and reads tables.
///
/// An implementation works on any input without harm to its process, within limits of time and memory. Where it works on
/// only a few files at the same time, tenants take turns.
#[async_trait]
pub trait DocumentWriter: Send + Sync + fmt::Debug {
    /// Makes a file.
    ///
    /// # Errors
    /// `Invalid` for what the format cannot hold, with a reason that a person understands; `Timeout`; `Unavailable`
    /// when no process can be started; `RateLimited` when as many files of the tenant wait already as may.
    async fn write(&self, tenant: &TenantId, request: &WriteRequest) -> Result<MadeDocument>;

    /// The sheets of a spreadsheet or of a file of separated values, as its name's ending says.
    ///
    /// # Errors
    /// As [`DocumentReader::read`](super::DocumentReader::read).
    async fn sheets(&self, tenant: &TenantId, name: &str, bytes: Bytes) -> Result<Vec<Sheet>>;
}

/// Where no document can be made.
#[derive(Clone, Copy, Debug)]
pub struct NoWriter;

fn none() -> Error {
    Error::new(ErrorKind::Unavailable, "nothing here makes or reads documents")
        .help("name a program that does in the configuration: `documents.worker`")
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
