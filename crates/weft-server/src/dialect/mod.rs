//! Journal entries as the frames that clients know. Frames are written straight from the entry: a
//! stream of a long answer is the hot path.

mod asks;
pub mod openai;
pub mod ragflow;
mod text;

pub(crate) use text::write_json;
