//! Documents become chunks that are found.

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
