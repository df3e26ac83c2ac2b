//! The TableChunker component: creates a chunk for each row of a table.

use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{ComponentSpec, Role};

use crate::ingestion::by_method;
use crate::ingestion::passed::{CHUNKS_OUTPUT, DOCUMENT_OUTPUT};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "TableChunker",
    role: Role::Step,
    summary: "Creates a chunk for each row of a table, in an ingestion pipeline.",
    fields: &[],
    outputs: &[DOCUMENT_OUTPUT, CHUNKS_OUTPUT],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| by_method::build(source, ChunkMethod::Table),
};
