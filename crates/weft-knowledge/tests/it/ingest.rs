//! Documents become searchable chunks.

mod apart;
mod changes;
mod dataset_names;
mod dataset_summaries;
mod fakes;
mod kit;
mod pictures;
mod recovery;
mod reembed;
mod summaries;
mod work;
