//! Contract suites: what every implementation of a seam must do. Each suite panics at the first violation.

pub mod accounts;
pub mod audit;
pub mod chats;
pub mod credentials;
pub mod datasets;
pub mod embedder;
pub mod files;
pub mod folders;
pub mod identities;
pub mod index;
pub mod memories;
pub mod picture_reader;
pub mod reranker;
pub mod sandbox;
pub mod secrets;
pub mod store;
pub mod tool_servers;
pub mod transcription;
pub mod workspace;

use weft_core::id::{TenantId, generate};
use weft_core::{ErrorKind, Result};

/// A new tenant, so that suites do not interfere in a shared backend.
fn tenant() -> TenantId {
    TenantId::new(generate())
}

/// Checks that a call was refused with this kind of error.
#[track_caller]
#[expect(clippy::panic, reason = "a contract fails by panicking")]
fn refused<T: std::fmt::Debug>(outcome: Result<T>, kind: ErrorKind) {
    match outcome {
        Ok(value) => panic!("expected {kind:?}, got {value:?}"),
        Err(error) => assert_eq!(error.kind, kind, "{}", error.full()),
    }
}

/// Returns the result of a call that must succeed.
#[track_caller]
#[expect(clippy::panic, reason = "a contract fails by panicking")]
fn fine<T>(outcome: Result<T>) -> T {
    outcome.unwrap_or_else(|error| panic!("{}", error.full()))
}
