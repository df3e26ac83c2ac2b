//! The queries made so far: no query is repeated, and nearly equal ones share their results.

use std::collections::BTreeSet;

use super::SourceKind;

/// The share of common words from which on the results of one query also answer another. One word in three or four is
/// often the one that matters (the height of which tower?), so it is high.
const ALIKE: f64 = 0.8;

/// A query, its words, and the sources it was made to.
#[derive(Debug)]
struct PastQuery {
    query: String,
    words: BTreeSet<String>,
    sources: Vec<SourceKind>,
    /// Its results, as text for a model.
    text: String,
}

/// The queries of a research so far.
#[derive(Debug, Default)]
pub(super) struct PastQueries(Vec<PastQuery>);

impl PastQueries {
    /// Records a query with its results.
    pub(super) fn note(&mut self, query: &str, sources: &[SourceKind], text: &str) {
        self.0.push(PastQuery {
            query: query.to_owned(),
            words: words(query),
            sources: sources.to_vec(),
            text: text.to_owned(),
        });
    }

    /// The results of a query with nearly the same words in at least these sources, except the queries in `own`,
    /// whose passages the caller already has.
    pub(super) fn like(&self, query: &str, sources: &[SourceKind], own: &[String]) -> Option<&str> {
        let asked = words(query);
        let serves = |made: &&PastQuery| {
            sources.iter().all(|source| made.sources.contains(source)) && !own.contains(&made.query)
        };
        let made = self.0.iter().filter(serves);
        let alike =
            made.map(|made| (overlap(&asked, &made.words), made)).filter(|(share, _)| *share >= ALIKE);
        alike.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, made)| made.text.as_str())
    }
}

/// A query in normalized form.
pub(super) fn plain(query: &str) -> String {
    let words = query.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// The words of a query in lower case; in scripts without spaces, each character is a word.
fn words(query: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for word in plain(query).split_whitespace().map(str::to_owned) {
        if word.chars().any(|c| matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')) {
            words.extend(word.chars().map(String::from));
        } else {
            words.insert(word);
        }
    }
    words
}

/// The share of common words among all words of both.
#[expect(clippy::cast_precision_loss, reason = "there are few words")]
fn overlap(one: &BTreeSet<String>, other: &BTreeSet<String>) -> f64 {
    let all = one.union(other).count();
    if all == 0 { 0.0 } else { one.intersection(other).count() as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_duplicates_are_recognised() {
        use SourceKind::{Dataset, Web};
        let mut known = PastQueries::default();
        known.note("height of the tower in metres", &[Dataset], "A");
        known.note("塔的高度是多少", &[Dataset, Web], "B");
        let like = |query: &str, sources: &[SourceKind]| known.like(query, sources, &[]).map(str::to_owned);
        assert_eq!(like("Height of the tower, in metres?", &[Dataset]).as_deref(), Some("A"));
        assert_eq!(like("what height of the tower in metres", &[Dataset]).as_deref(), Some("A"));
        assert_eq!(
            known.like(
                "height of tower in metres",
                &[Dataset],
                &["height of the tower in metres".to_owned()]
            ),
            None
        );
        // Other words, and a source that was not searched.
        assert_eq!(like("age of the tower", &[Dataset]), None);
        assert_eq!(like("height of the tower in metres", &[Web]), None);
        assert_eq!(like("塔的高度多少", &[Web]).as_deref(), Some("B"));
        assert_eq!(like("塔的年龄", &[Dataset]), None);
        assert_eq!(like("", &[Dataset]), None);
    }
}
