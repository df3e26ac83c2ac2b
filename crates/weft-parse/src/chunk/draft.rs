//! Draft chunks, and assembling them into a document.

use std::ops::Range;

use weft_core::error::{Error, Result};
use weft_core::filter::Metadata;
use weft_core::seam::document_reader::{DocumentPiece, Heading, PieceKind, ReadDocument};

use super::delimiter::Delimiters;
use super::pack::{HeadingBreaks, Packing, pack_string};
use super::source::ChunkSource;
use crate::element::ElementBody;
use crate::tokens::tokens;

/// Maximum number of chunks in a document.
pub(crate) const PIECES_MAX: usize = 50_000;

/// A chunk and its origin.
#[derive(Clone, Debug)]
pub(crate) struct PieceDraft {
    /// The chunk.
    pub(crate) piece: DocumentPiece,
    /// The elements that this chunk is the first to contain.
    pub(crate) elements: Range<usize>,
    /// Whether it may be cut into child chunks.
    pub(crate) children: Children,
}

/// Whether a chunk may be cut into child chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Children {
    /// It may be cut.
    Allowed,
    /// It is a single unit, such as a question with its answer, a row or a table.
    None,
}

/// The result of a chunking method.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cutting {
    /// The chunks, in order.
    pub(crate) drafts: Vec<PieceDraft>,
    /// Metadata that the method found in the document.
    pub(crate) metadata: Metadata,
    /// Warnings for the user.
    pub(crate) warnings: Vec<String>,
}

impl PieceDraft {
    /// Creates a chunk of one element that is not running text.
    pub(crate) fn of(source: &ChunkSource<'_>, element: usize, content: String) -> Self {
        let mut positions = Vec::new();
        if let Some(placed) = source.placed.get(element) {
            super::place::add(&mut positions, &placed.positions());
        }
        let piece =
            DocumentPiece { tokens: tokens(&content), content, positions, ..DocumentPiece::default() };
        Self { piece, elements: element..element + 1, children: Children::None }
    }
}

/// Assembles the document: child chunks, table of contents and metadata.
pub(crate) fn finish(source: &ChunkSource<'_>, cutting: Cutting) -> Result<ReadDocument> {
    let Cutting { drafts, metadata, mut warnings } = cutting;
    let mut document = ReadDocument { metadata: source.parsed.metadata.clone(), ..ReadDocument::default() };
    document.pages = source.parsed.pages;
    document.metadata.extend(metadata);
    document.warnings.clone_from(&source.parsed.warnings);
    document.warnings.append(&mut warnings);
    // For each draft, the index of its first chunk and the end of its elements.
    let mut firsts: Vec<(usize, usize)> = Vec::with_capacity(drafts.len());
    for mut draft in drafts {
        draft.piece.picture = picture(source, draft.elements.clone());
        firsts.push((document.pieces.len(), draft.elements.end));
        match &source.settings.children {
            Some(delimiters) if draft.children == Children::Allowed => {
                add_children(&mut document, draft.piece, delimiters, source.settings.limit);
            }
            _ => document.pieces.push(draft.piece),
        }
        // Checked after each draft, because one draft may have had a huge number of children.
        if document.pieces.len() > PIECES_MAX {
            return Err(Error::invalid(format!("the document has more than {PIECES_MAX} pieces"))
                .help("set a larger `chunk_token_num`, or split the file"));
        }
    }
    document.headings = contents(source, &document, &firsts);
    Ok(document)
}

/// The first picture in which text of these elements was read.
fn picture(source: &ChunkSource<'_>, elements: Range<usize>) -> Option<u32> {
    let elements = source.placed.get(elements).unwrap_or_default();
    elements.iter().find_map(|placed| placed.element.picture)
}

/// Stores a chunk as a parent and cuts it into the child chunks that are searched.
fn add_children(document: &mut ReadDocument, parent: DocumentPiece, delimiters: &Delimiters, limit: u32) {
    let whole = Delimiters::default();
    let packing = Packing { limit, overlap: 0, delimiters: &whole, headings: HeadingBreaks::Never };
    let at = document.parents.len();
    for part in delimiters.parts(&parent.content) {
        // Between two consecutive delimiters there is nothing to search.
        if delimiters.are_all_of(part) {
            continue;
        }
        for (content, tokens) in pack_string(part.trim(), &packing) {
            let (headings, positions) = (parent.headings.clone(), parent.positions.clone());
            let child =
                DocumentPiece { content, tokens, headings, positions, parent: Some(at), ..child(&parent) };
            document.pieces.push(child);
        }
    }
    document.parents.push(parent);
}

fn child(parent: &DocumentPiece) -> DocumentPiece {
    let (keywords, picture) = (parent.keywords.clone(), parent.picture);
    DocumentPiece { kind: PieceKind::Text, keywords, picture, ..DocumentPiece::default() }
}

/// Headings of the file, each with the first chunk that contains it or the text below it.
fn contents(source: &ChunkSource<'_>, document: &ReadDocument, firsts: &[(usize, usize)]) -> Vec<Heading> {
    let mut headings = Vec::new();
    let mut draft = 0;
    let mut inside = 0;
    for (at, placed) in source.placed.iter().enumerate() {
        let ElementBody::Heading { level, text } = &placed.element.body else { continue };
        let title = text.split_whitespace().collect::<Vec<_>>().join(" ");
        while firsts.get(draft).is_some_and(|(_, end)| *end <= at) {
            draft += 1;
            inside = 0;
        }
        let Some((first, _)) = firsts.get(draft) else { break };
        if title.is_empty() {
            continue;
        }
        // The heading is in one of the draft's remaining chunks, if these are the children of a chunk.
        let next = firsts.get(draft + 1).map_or(document.pieces.len(), |(first, _)| *first);
        let mut pieces = document.pieces.get(first + inside..next).unwrap_or_default().iter();
        inside += pieces.position(|piece| piece.content.contains(text.trim())).unwrap_or(0);
        headings.push(Heading { level: (*level).max(1), title, piece: first + inside });
    }
    headings
}
