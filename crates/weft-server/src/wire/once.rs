//! Ids that are given more than once.

use std::collections::HashSet;

/// Returns the strings without repetitions, and those that were repeated.
pub(crate) fn once(texts: Vec<String>) -> (Vec<String>, Vec<String>) {
    let (mut seen, mut told) = (HashSet::new(), HashSet::new());
    let (mut first, mut twice) = (Vec::with_capacity(texts.len()), Vec::new());
    for text in texts {
        if seen.insert(text.clone()) {
            first.push(text);
        } else if told.insert(text.clone()) {
            twice.push(text);
        }
    }
    (first, twice)
}
