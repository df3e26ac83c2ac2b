//! Journal entries as the frames that clients know. Frames are written straight from the entry: a
//! stream of a long answer is the hot path.

pub mod ag_ui;
pub mod agent;
mod asked;
mod asks;
pub mod openai;
pub mod ragflow;
pub mod responses;
mod text;

pub(crate) use text::write_json;

/// The frames that a caller may choose where a route leaves the choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Those of the route.
    #[default]
    Ragflow,
    /// Those of one agent at work ([`agent`]).
    Agent,
}

impl Dialect {
    /// The names by which it is chosen.
    pub const NAMES: [&str; 2] = ["ragflow", "agent"];

    /// The one with a name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "ragflow" => Some(Self::Ragflow),
            "agent" => Some(Self::Agent),
            _ => None,
        }
    }
}
