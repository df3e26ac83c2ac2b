//! Converts journal entries into the frames that clients expect. Frames are written directly from the entry:
//! streaming a long answer is the hot path.

pub mod ag_ui;
pub mod agent;
mod asked;
mod asks;
pub mod openai;
pub mod ragflow;
pub mod responses;
mod text;

pub(crate) use text::write_json;

/// The frame format that a caller may choose, on routes that allow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// The format of the route.
    #[default]
    Ragflow,
    /// The format of a single agent at work ([`agent`]).
    Agent,
}

impl Dialect {
    /// The names of the formats.
    pub const NAMES: [&str; 2] = ["ragflow", "agent"];

    /// Returns the format with this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "ragflow" => Some(Self::Ragflow),
            "agent" => Some(Self::Agent),
            _ => None,
        }
    }
}

/// Returns the first activation of an agent, for tests.
#[cfg(test)]
fn activation() -> weft_core::journal::ActivationRef {
    weft_core::journal::ActivationRef {
        activation: 1,
        node: "Agent:A".into(),
        name: "A".into(),
        kind: "Agent".into(),
        frame: [].into(),
    }
}
