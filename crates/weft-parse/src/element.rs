//! What a file is made of, in reading order.

use weft_core::filter::Metadata;
use weft_core::seam::document_reader::Position;

/// A part of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    /// What it is.
    pub body: ElementBody,
    /// Where it is, for formats that have pages. Several when it goes on in another column or page.
    pub positions: Vec<Position>,
    /// The picture that its text, or some of it, was read in: an index into what is found of
    /// [pictures](weft_core::seam::document_reader::FoundPictures::pictures).
    pub picture: Option<u32>,
}

impl Element {
    /// An element whose text was read in no picture.
    pub fn new(body: ElementBody, positions: Vec<Position>) -> Self {
        Self { body, positions, picture: None }
    }
}

/// What an element is.
#[derive(Clone, Debug, PartialEq)]
pub enum ElementBody {
    /// A heading.
    Heading {
        /// From 1, the outermost, on.
        level: u8,
        /// Its text.
        text: String,
    },
    /// A paragraph; lines within it are separated by `\n` only where the file means it.
    Paragraph(String),
    /// One item of a list.
    Item {
        /// How many lists it is in, less one.
        depth: u8,
        /// Its text.
        text: String,
    },
    /// Program text, as it is.
    Code {
        /// In which language, if the file says so.
        language: Option<String>,
        /// The text.
        text: String,
    },
    /// A table.
    Table(TableElement),
    /// A picture, with what the file says about it.
    Image {
        /// Its description; empty when there is none.
        caption: String,
    },
    /// A new page, slide, sheet or chapter begins.
    Break {
        /// Its number, from 1 on.
        number: u32,
        /// Its name, of a sheet.
        name: Option<String>,
    },
}

/// A table, row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableElement {
    /// What stands above it.
    pub caption: Option<String>,
    /// How many of the first rows are headers.
    pub header_rows: usize,
    /// The cells; rows may have different lengths.
    pub rows: Vec<Vec<String>>,
}

/// A file that has been read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// Its parts, in reading order.
    pub elements: Vec<Element>,
    /// What the file says of itself: `title`, `author`, `date`.
    pub metadata: Metadata,
    /// How many pages, slides or sheets it has; 0 when it has none.
    pub pages: u32,
    /// What could not be read, for people.
    pub warnings: Vec<String>,
}
