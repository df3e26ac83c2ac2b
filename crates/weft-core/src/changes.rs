//! Changes of what is kept. Whoever changes something reads it, says what it is to be, and writes that, and somebody else may do
//! the same in between. So what is kept counts its changes (its `revision`), a store writes only over what has not changed
//! since it was read, and a change that came too late is made anew from what is there by then.

use crate::error::{Error, ErrorKind, Result};

/// How often a change is made anew that somebody else's change came before. Of those that meet one always succeeds.
pub const CHANGES_TRIED_MAX: usize = 32;

/// Makes a change of `what`, which is for people. Each attempt reads, changes and writes; it gives nothing when somebody else
/// has changed or removed in the meantime what it had read, and is then made again.
///
/// # Errors
/// Those of the attempts; `Conflict` when others do not stop to change the same.
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

/// The error that somebody else has changed something, or removed it, since it was read.
pub fn overtaken(what: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("others change the {what} at the same time")).help("try again")
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
    fn a_change_is_made_anew_until_nobody_comes_in_between_but_not_for_ever() {
        let (made, tries) = tried(3);
        assert_eq!((made.unwrap(), tries), (3, 3));
        let (made, tries) = tried(CHANGES_TRIED_MAX + 1);
        assert_eq!((made.unwrap_err().kind, tries), (ErrorKind::Conflict, CHANGES_TRIED_MAX));
    }
}
