//! The tenant of a server that has no others.

/// The tenant that owns everything unless others are created.
pub const DEFAULT_TENANT: &str = "default";
