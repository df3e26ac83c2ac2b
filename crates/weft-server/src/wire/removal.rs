//! What a request asks to be removed.

/// Selection of the items to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// None.
    Nothing,
    /// All items.
    Everything,
    /// The items with these ids.
    These(Vec<String>),
}
