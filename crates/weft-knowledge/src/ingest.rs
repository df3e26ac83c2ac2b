//! From an uploaded file to searchable chunks.
//!
//! The store ([`DatasetStore`](weft_core::seam::DatasetStore)) is the source of truth; the index is derived
//! from it. A document goes through stages, each of which starts from what the stages before it have stored:
//!
//! 1. *Reading*: the file is parsed and split, or goes through a custom pipeline ([`PipelineRunner`]); its
//!    new chunks are stored beside the existing ones.
//! 2. *Enriching*: a model adds keywords, questions, metadata, and whatever else is derived from a document.
//! 3. *Embedding*: chunks get their vectors, batch by batch; chunks that have one are skipped.
//! 4. *Summarizing*: a model summarizes related chunks, if the document's settings ask for it
//!    ([`raptor`](crate::raptor)). Summaries over all documents are the chunks of one additional document of
//!    the dataset, see [`summaries`].
//! 5. *Indexing*: the new chunks are added to the index; then they replace the old ones in the store, in one
//!    transaction; then what is no longer needed is removed from the index.
//!
//! A passage is shown only if the store has it. With this order, the old chunks are found until the moment
//! when the new ones are, and neither half a document nor a removed one is ever seen: surplus entries of the
//! index find nothing. A document of which nothing can be shown yet is hidden in the index until then, so
//! that its chunks do not take the places of others.
//!
//! Index and store can differ only between the first and the last of these steps. Before the first, the store
//! records that they may ([`IngestQueue::unindexed`](weft_core::seam::IngestQueue::unindexed)); every change
//! of what can be found records it, too, together with the change. These notes are numbered: after the last
//! step a note is removed only if no other has followed, so that processes working on the same document
//! concurrently never remove each other's. Whatever happens in between, be it a crash or a failing index,
//! [`Library::repair`] finds the note and indexes the document again. Manual changes do the same; the library
//! completes them even if the caller has gone away. The index writes a change to a document or chunk together
//! with others that arrive within half a second, or when a question is asked; until then the note stays
//! ([`behind`]). An index that has lost its folder holds another number of chunks than the store;
//! [`Library::check`] detects that when a worker starts, and adds a note for every document of it.
//!
//! Vectors of another model are built beside the current ones ([`Reembedder`]), in a second index, and
//! replace them in one transaction.
//!
//! Pictures in which text was recognised are stored beside the file, in a folder named after it, before the
//! chunks that refer to them. They are named by their content. When the new chunks have replaced the old
//! ones, pictures that none of them refers to are removed; whatever a crash or a failed reading has left
//! there is removed then, or with the document. When chunks are removed by hand, the pictures that no other
//! chunk is shown with are removed too. Before pictures are stored they are counted towards the tenant's
//! bytes ([`IngestQueue::count_pictures`](weft_core::seam::IngestQueue::count_pictures)); those for which
//! there is no room are left out.
//!
//! Things are removed from the store first, then from the index, and files last: after the first step they
//! can no longer be referred to. The first step records what was removed, and `repair` clears away what a crash
//! has left.

mod behind;
mod compare;
mod counts;
mod edit;
mod embed;
mod enrich;
mod gather;
pub(crate) mod ids;
pub(crate) mod indexing;
mod library;
mod locks;
mod naming;
mod pages;
mod pictured;
mod pipeline;
mod plan;
mod reembed;
mod removal;
mod retag;
mod summaries;
mod upload;
mod work;
mod worker;

pub use compare::ComparedChunk;
pub use counts::{IngestCounts, IngestEnding};
pub use edit::{Availability, ChunkEdit, NewChunk};
pub use enrich::{Addition, Listing, MadeAddition, filled_in, form_instructions};
pub use library::{Library, LibraryLimits, LibraryParts, Naming};
pub use naming::{NAME_BYTES_MAX, WantedName, numbered, under_free_name};
pub use pages::ChunkPages;
pub use pipeline::{NoPipelines, PIPELINE, PipelineRunner, pipeline_of};
pub use plan::{WORDS_ALONE, wanted_metadata};
pub use reembed::{Reembedder, ReembedderPace};
pub use retag::TagChange;
pub use worker::{IngestWorker, WorkerPace};
