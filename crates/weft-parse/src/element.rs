//! The elements of a file, in reading order.

use weft_core::filter::Metadata;
use weft_core::seam::document_reader::Position;

/// An element of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    /// What it is.
    pub body: ElementBody,
    /// Where it is, for formats that have pages. It has several positions when it continues in another column or on
    /// another page.
    pub positions: Vec<Position>,
    /// The picture in which its text, or some of it, was read: an index into
    /// [pictures](weft_core::seam::document_reader::FoundPictures::pictures).
    pub picture: Option<u32>,
}

impl Element {
    /// Creates an element whose text was not read in a picture.
    pub fn new(body: ElementBody, positions: Vec<Position>) -> Self {
        Self { body, positions, picture: None }
    }
}

/// The content of an element.
#[derive(Clone, Debug, PartialEq)]
pub enum ElementBody {
    /// A heading.
    Heading {
        /// Level, starting at 1 for the outermost.
        level: u8,
        /// Its text.
        text: String,
    },
    /// A paragraph. Lines within it are separated by `\n` only where the file intends a line break.
    Paragraph(String),
    /// One item of a list.
    Item {
        /// Nesting depth of its list; 0 for an outermost one.
        depth: u8,
        /// Its text.
        text: String,
    },
    /// Program text, verbatim.
    Code {
        /// Its language, if the file gives one.
        language: Option<String>,
        /// The text.
        text: String,
    },
    /// A table.
    Table(TableElement),
    /// A picture, with the description that the file gives.
    Image {
        /// Its description; empty when there is none.
        caption: String,
    },
    /// Start of a new page, slide, sheet or chapter.
    Break {
        /// Its number, starting at 1.
        number: u32,
        /// Its name, for a sheet.
        name: Option<String>,
    },
}

/// A table, row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableElement {
    /// Text above the table.
    pub caption: Option<String>,
    /// Number of header rows at the top.
    pub header_rows: usize,
    /// The cells; rows may have different lengths.
    pub rows: Vec<Vec<String>>,
}

/// A parsed file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// Its elements, in reading order.
    pub elements: Vec<Element>,
    /// Metadata that the file contains: `title`, `author`, `date`.
    pub metadata: Metadata,
    /// Number of pages, slides or sheets; 0 if it has none.
    pub pages: u32,
    /// Human-readable warnings about what could not be read.
    pub warnings: Vec<String>,
}
