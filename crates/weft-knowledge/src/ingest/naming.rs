//! Finds free names: a taken name gets a number, for documents, datasets and files of the file manager alike.

use weft_core::{Error, ErrorKind, Result};

/// Maximum size in bytes of the name of a document or file; for a path within a folder, of the whole path.
pub const NAME_BYTES_MAX: usize = 255;

/// Maximum size in bytes of an extension that is kept when a name gets a number.
// More than that is a sentence with a dot; kept as a whole, it would leave no room for the number.
const EXTENSION_BYTES_MAX: usize = 64;

/// The largest number that a taken name may get.
const NUMBERS_MAX: u32 = 10_000;

/// Returns a name with a number before its extension: `report(1).pdf`. It is truncated to leave room for both; a very
/// long extension counts as part of the name.
pub fn numbered(name: &str, number: u32) -> String {
    let (stem, ending) = match name.rsplit_once('.') {
        Some((stem, ending))
            if !stem.is_empty()
                && !stem.ends_with('/')
                && !ending.contains('/')
                && ending.len() <= EXTENSION_BYTES_MAX =>
        {
            (stem, format!("({number}).{ending}"))
        }
        _ => (name, format!("({number})")),
    };
    let room = NAME_BYTES_MAX.saturating_sub(ending.len()).min(stem.len());
    let cut = (0..=room).rev().find(|at| stem.is_char_boundary(*at)).unwrap_or_default();
    format!("{}{ending}", &stem[..cut])
}

/// Returns the first free number if the taken ones are contiguous, and otherwise some free number, if there
/// is any. Doubles the step and then bisects, so that using one name a thousand times does not take a
/// thousand look-ups each time.
async fn free_number<F>(is_taken: impl Fn(u32) -> F) -> Result<u32>
where
    F: Future<Output = Result<bool>>,
{
    let (mut taken, mut free) = (0, 1);
    while free < NUMBERS_MAX && is_taken(free).await? {
        (taken, free) = (free, free.saturating_mul(2).min(NUMBERS_MAX));
    }
    while free - taken > 1 {
        let between = taken + (free - taken) / 2;
        if is_taken(between).await? {
            taken = between;
        } else {
            free = between;
        }
    }
    Ok(free)
}

/// A desired name, and how it gets a number.
#[derive(Clone, Copy, Debug)]
pub struct WantedName<'n> {
    /// The name without a number.
    pub name: &'n str,
    /// Returns the name with a number.
    pub with_number: fn(&str, u32) -> String,
}

/// Stores something under a free name: the desired one, or that with a number. `store` stores it under a name
/// and fails with `Conflict` if that is taken; `is_taken` checks whether a name is.
///
/// # Errors
/// `Conflict` when every number is taken; errors of `store` and `is_taken`.
pub async fn under_free_name<T, S, L>(
    wanted: WantedName<'_>,
    store: impl Fn(String) -> S,
    is_taken: impl Fn(String) -> L,
) -> Result<T>
where
    S: Future<Output = Result<T>>,
    L: Future<Output = Result<bool>>,
{
    let WantedName { name, with_number } = wanted;
    // Only the store can decide whether a name is free: a check beforehand could be overtaken.
    let is_conflict =
        |outcome: &Result<T>| matches!(outcome, Err(error) if error.kind == ErrorKind::Conflict);
    let stored = store(name.to_owned()).await;
    if !is_conflict(&stored) {
        return stored;
    }
    let first = free_number(|number| is_taken(with_number(name, number))).await?;
    // More than the first only if another process was faster.
    for number in first..=NUMBERS_MAX {
        let stored = store(with_number(name, number)).await;
        if !is_conflict(&stored) {
            return stored;
        }
    }
    Err(every_number_taken(name))
}

/// Returns the error for a name with no number left.
fn every_number_taken(name: &str) -> Error {
    let message = format!("the name `{name}` is taken with every number up to {NUMBERS_MAX}");
    Error::new(ErrorKind::Conflict, message).help("choose another name")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_free_number_is_found_in_few_lookups() {
        let find = |taken: &dyn Fn(u32) -> bool| {
            let looks = std::cell::Cell::new(0);
            let look = |number| {
                looks.set(looks.get() + 1);
                std::future::ready(Ok(taken(number)))
            };
            let found = free_number(look).now_or_never().unwrap().unwrap();
            assert!(looks.get() < 30, "{} looks", looks.get());
            found
        };
        for last in [0, 1, 2, 3, 4, 7, 8, 1_000, NUMBERS_MAX - 1] {
            assert_eq!(find(&|number| number <= last), last + 1);
        }
        assert_eq!(find(&|_| true), NUMBERS_MAX);
        let found = find(&|number| number.is_multiple_of(2) || number == 1);
        assert!(found > 1 && !found.is_multiple_of(2), "{found}");
    }

    #[test]
    fn a_name_taken_a_thousand_times_needs_two_attempts() {
        let (taken, tried) = (RefCell::new(BTreeSet::from(["f.txt".to_owned()])), RefCell::new(0));
        let store = |name: String| {
            *tried.borrow_mut() += 1;
            let is_new = taken.borrow_mut().insert(name.clone());
            let outcome = if is_new { Ok(name) } else { Err(Error::new(ErrorKind::Conflict, "taken")) };
            std::future::ready(outcome)
        };
        let is_taken = |name: String| std::future::ready(Ok(taken.borrow().contains(&name)));
        let wanted = WantedName { name: "f.txt", with_number: numbered };
        let keep = || under_free_name(wanted, store, is_taken).now_or_never().unwrap();
        for number in 1..=1_000 {
            assert_eq!(keep().unwrap(), format!("f({number}).txt"));
        }
        assert_eq!(*tried.borrow(), 2_000);
        taken.borrow_mut().extend((1..=NUMBERS_MAX).map(|number| numbered("f.txt", number)));
        assert_eq!(keep().unwrap_err().kind, ErrorKind::Conflict);
        let failing = |_| std::future::ready(Err::<(), _>(Error::new(ErrorKind::Unavailable, "away")));
        let failed = under_free_name(wanted, failing, is_taken).now_or_never().unwrap();
        assert_eq!(failed.unwrap_err().kind, ErrorKind::Unavailable);
    }

    #[test]
    fn names_get_a_number_before_their_extension() {
        assert_eq!(numbered("report.pdf", 1), "report(1).pdf");
        assert_eq!(numbered("a.tar.gz", 12), "a.tar(12).gz");
        assert_eq!(numbered("README", 2), "README(2)");
        assert_eq!(numbered(".env", 3), ".env(3)");
        assert_eq!(numbered("a.b/README", 4), "a.b/README(4)");
        assert_eq!(numbered("a/.env", 5), "a/.env(5)");
        let long = numbered(&format!("{}.txt", "ä".repeat(125)), 10);
        assert!(long.len() <= NAME_BYTES_MAX && long.ends_with("ä(10).txt"), "{long}");
        let dotted = numbered(&format!("1.{}", "ä".repeat(126)), 10);
        assert!(dotted.len() <= NAME_BYTES_MAX && dotted.ends_with("ä(10)"), "{dotted}");
    }
}
