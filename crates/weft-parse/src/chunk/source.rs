//! What a method is given to cut.

use super::flow::Placed;
use super::settings::ChunkSettings;
use crate::element::Parsed;

/// Maximum number of tokens in a chunk that should stay whole: a file, an abstract, a question with its answer, a row.
pub const WHOLE_TOKENS_MAX: u32 = 32_768;

/// A document to be cut.
pub(crate) struct ChunkSource<'a> {
    /// The parsed file.
    pub(crate) parsed: &'a Parsed,
    /// Its elements without page breaks, restricted to the selected pages.
    pub(crate) placed: Vec<Placed<'a>>,
    /// Extension of the file name, in lower case.
    pub(crate) ending: String,
    /// How it is cut.
    pub(crate) settings: ChunkSettings,
}
