//! Lists with a maximum: the remaining entries are reported.

use crate::screen::Notes;

/// Returns the first `most` entries of a list that was requested with one more; a note is printed if there are more.
/// `help` tells how to see the others.
pub(crate) fn first<T>(mut listed: Vec<T>, most: u64, help: &str) -> Vec<T> {
    if let Some(note) = note(listed.len() as u64, most, help) {
        listed.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        Notes::line(note);
    }
    listed
}

fn note(count: u64, most: u64, help: &str) -> Option<String> {
    let others = || format!("note: there are more than {most}; {help}");
    (count > most).then(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_tells_that_a_list_is_incomplete() {
        assert_eq!((note(0, 2, "h"), note(2, 2, "h")), (None, None));
        assert_eq!(note(3, 2, "ask").unwrap(), "note: there are more than 2; ask");
        assert_eq!(first(vec![1, 2, 3], 2, "ask"), [1, 2]);
        assert_eq!(first(vec![1, 2], 2, "ask"), [1, 2]);
    }
}
