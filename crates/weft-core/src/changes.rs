//! Optimistic concurrency control. Changing stored data means reading it, modifying it and writing it back, and
//! another writer may do the same in between. Stored data therefore has a `revision` that counts its changes. A store
//! overwrites data only if it has not changed since it was read; a change that comes too late is retried on the
//! current data.

use crate::error::{Error, ErrorKind, Result};

/// Maximum number of attempts at a change that conflicts with other writers. Of conflicting writers, one always
/// succeeds.
pub const CHANGES_TRIED_MAX: usize = 32;

/// Makes a change to `what`, which is named in messages. Each attempt reads, modifies and writes. It returns `None`
/// if another writer has changed or removed the data since it was read, and is then repeated.
///
/// # Errors
/// The errors of the attempts; `Conflict` when other writers keep changing the same data.
pub async fn made<T, E, F>(what: &str, attempt: impl Fn() -> F) -> Result<T, E>
where
    F: Future<Output = Result<Option<T>, E>>,
    E: From<Error>,
{
    for _ in 0..CHANGES_TRIED_MAX {
        if let Some(made) = attempt().await? {
            return Ok(made);
        }
    }
    Err(overtaken(what).into())
}

/// Returns the error for data that another writer has changed or removed since it was read.
pub fn overtaken(what: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("the {what} is being changed concurrently")).help("try again")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn tried(succeeds_at: usize) -> (Result<usize>, usize) {
        let tries = Cell::new(0);
        let attempt = || {
            tries.set(tries.get() + 1);
            std::future::ready(Ok((tries.get() == succeeds_at).then_some(succeeds_at)))
        };
        let made = futures::FutureExt::now_or_never(made("thing", attempt)).unwrap();
        (made, tries.get())
    }

    #[test]
    fn a_conflicting_change_is_retried_a_limited_number_of_times() {
        let (made, tries) = tried(3);
        assert_eq!((made.unwrap(), tries), (3, 3));
        let (made, tries) = tried(CHANGES_TRIED_MAX + 1);
        assert_eq!((made.unwrap_err().kind, tries), (ErrorKind::Conflict, CHANGES_TRIED_MAX));
    }
}
