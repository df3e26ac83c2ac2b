//! From an uploaded file to chunks that are found.
//!
//! What is kept ([`DatasetStore`](weft_core::seam::DatasetStore)) is the truth; the index is made from it. A document goes through
//! stages, and each begins with what the stages before it have stored:
//!
//! 1. *Reading*: the file is read and cut, or goes through a pipeline of somebody's own ([`PipelineRunner`]); its new
//!    chunks are kept beside those that it had.
//! 2. *Enriching*: a model adds keywords, questions, metadata, and what else is made of a document.
//! 3. *Embedding*: chunks get their vectors, batch by batch; those that have one are passed over.
//! 4. *Summarizing*: a model sums up what belongs together, if the document asks for it ([`raptor`](crate::raptor)). Summaries
//!    over all documents are the chunks of one more document of the dataset, see [`summaries`].
//! 5. *Indexing*: the new chunks are added to the index; then they take the place of the old ones in the store, in
//!    one transaction; then what is of no more use is taken out of the index.
//!
//! A passage is shown only when the store has it, so in this order the old chunks are found up to the moment when
//! the new ones are, and neither half of a document nor a removed one is ever seen: what the index has too much
//! finds nothing. A document that nothing can be shown of yet is hidden in the index up to that moment, so that
//! what is going in does not take the places of others.
//!
//! Index and store can differ only between the first and the last of these steps. Before the first it is noted
//! in the store that they may ([`IngestQueue::unindexed`](weft_core::seam::IngestQueue::unindexed)); every
//! change of what is found notes it, too, together with the change. Notes are numbered: after the last step the note is
//! taken away only if no other has followed, so that processes which work on the same document at the same time never
//! take away each other's. Whatever happens in between, a crash or an index that fails, [`Library::mend`] finds
//! the note and puts the document into the index anew. Changes by hand do the same; the library makes them to their
//! end even when whoever asked has gone. The index writes what a document or a chunk brings together with what others
//! bring within half a second, or when somebody asks a question; until then the note stays ([`behind`]). An index that lost its folder holds another number of chunks than
//! the store; [`Library::check`] sees that when a worker starts, and notes every document of it.
//!
//! Vectors of another model are made beside those that are found ([`Reembedder`]), into a second index, and take their place in one
//! transaction.
//!
//! Pictures that text was read in are kept beside the file, in a folder that is called after it, before the chunks that name them.
//! They are called by what they are. When the new chunks have taken the place of the old ones, pictures that none of them
//! names are removed; what a crash or a reading that failed has left there goes then, or with the document. Whoever removes chunks
//! by hand removes those that no other chunk is shown with. Before they are stored they are counted among the bytes of the tenant
//! ([`IngestQueue::count_pictures`](weft_core::seam::IngestQueue::count_pictures)); those that have no room are left out.
//!
//! Things are removed from the store first, then from the index, and files at the end: from the first step
//! on nobody can name them. The first step notes what was removed, and `mend` clears away what a crash has left.

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
