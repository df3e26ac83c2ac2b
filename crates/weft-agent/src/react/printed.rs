//! A message as it is shown.

use crate::message::Message;

/// A message as far as it has been written. A later one with the same id replaces it.
#[derive(Clone, Debug, PartialEq)]
pub struct PrintedMessage {
    /// The whole message so far.
    pub message: Message,
    /// Whether it is complete. A reply has several messages, each of which has a last chunk.
    pub last: bool,
}
