//! Documents become chunks that are found.

mod apart;
mod changes;
mod fakes;
mod kit;
mod recovery;
mod summaries;
mod work;
