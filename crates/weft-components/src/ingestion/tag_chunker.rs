//! The TagChunker component: creates a chunk for each text in a set of tags.

use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{ComponentSpec, Role};

use crate::ingestion::by_method;
use crate::ingestion::passed::{CHUNKS_OUTPUT, DOCUMENT_OUTPUT};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "TagChunker",
    role: Role::Step,
    summary: "Creates a chunk for each text of a tag set, with its tags as keywords, in an ingestion pipeline.",
    fields: &[],
    outputs: &[DOCUMENT_OUTPUT, CHUNKS_OUTPUT],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| by_method::build(source, ChunkMethod::Tag),
};
