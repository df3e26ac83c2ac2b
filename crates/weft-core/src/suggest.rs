//! “Did you mean …?”: finds the nearest of some names by edit distance.

/// Maximum length in bytes of a name that is compared: the time for comparing grows with the square of the length.
const NAME_LENGTH_MAX: usize = 64;

/// Maximum number of wrong letters in a name of any length.
const SLIPS_MAX: usize = 6;

/// Returns the nearest of `known`, unless all are too far away. Among equally near ones, the first.
///
/// For a name that is certainly wrong. Where an unknown name is allowed, use [`misspelled`].
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_LENGTH_MAX {
        return None;
    }
    let lower = |name: &str| -> Vec<char> { name.to_lowercase().chars().collect() };
    let written = lower(name);
    let most = tolerance(written.len());
    let slips = |candidate: &str| {
        // The lengths alone rule out most names.
        let near =
            candidate.len() <= NAME_LENGTH_MAX && written.len().abs_diff(candidate.chars().count()) <= most;
        near.then(|| distance(&written, &lower(candidate))).filter(|slips| *slips <= most)
    };
    closest(known, slips)
}

/// Returns the name in `known` that is almost certainly meant by `name`: the two differ only in case and in
/// separators, or by one edit (two in a long name); in a short name only by two swapped letters.
///
/// For a name that may be right although it is unknown. A name that is in `known` is returned as it is.
pub fn misspelled<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONG: usize = 8;
    const SHORT: usize = 3;
    if name.len() > NAME_LENGTH_MAX {
        return None;
    }
    let sorted = |letters: &[char]| {
        let mut letters = letters.to_vec();
        letters.sort_unstable();
        letters
    };
    let written = folded(name);
    let slips = |candidate: &str| {
        let meant = folded(candidate);
        let most = if meant.len() < LONG { 1 } else { 2 };
        let near = written.len().abs_diff(meant.len()) <= most;
        let slips = near.then(|| distance(&written, &meant)).filter(|slips| *slips <= most)?;
        (meant.len() > SHORT || sorted(&written) == sorted(&meant)).then_some(slips)
    };
    closest(known, slips)
}

/// Returns the name in `known` that has the words of `name` in another order, or one word more or less at its beginning
/// or its end. A single word is taken only for the beginning of a name: it ends too many.
///
/// For a name that may be right although it is unknown.
pub fn akin<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_LENGTH_MAX {
        return None;
    }
    let written = words(name);
    let sorted = |words: &[String]| {
        let mut words = words.to_vec();
        words.sort_unstable();
        words
    };
    let slips = |candidate: &str| {
        let meant = words(candidate);
        let (less, more) = if written.len() < meant.len() { (&written, &meant) } else { (&meant, &written) };
        match (less.len(), more.len() - less.len()) {
            (2.., 0) => (sorted(less) == sorted(more)).then_some(0),
            (2.., 1) => (more.starts_with(less) || more.ends_with(less)).then_some(1),
            (1, 1) => (written.len() == 1 && more.starts_with(less)).then_some(2),
            _ => None,
        }
    };
    closest(known, slips)
}

/// Returns the name in `known` that `name` is, but for one letter too many; the `s` of a plural is not one.
///
/// For a name that may be right although it is unknown.
pub fn one_letter_less<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const SHORT: usize = 3;
    if name.len() > NAME_LENGTH_MAX {
        return None;
    }
    let written = folded(name);
    let is_meant = |candidate: &&str| {
        let meant = folded(candidate);
        let is_numbered = written.last().is_some_and(|last| *last == 's' || last.is_numeric());
        meant.len() > SHORT
            && written.len() == meant.len() + 1
            && !(is_numbered && written.starts_with(&meant))
            && distance(&written, &meant) == 1
    };
    known.into_iter().find(is_meant)
}

/// Returns the letters and digits of a name in lower case.
fn folded(name: &str) -> Vec<char> {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns the words of a name such as `top_n` or `enablePrologue`, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (after_lower && c.is_uppercase()) {
            words.push(String::new());
        }
        after_lower = c.is_lowercase() || c.is_numeric();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the question with which a name is suggested.
#[must_use]
pub fn did_you_mean(meant: &str) -> String {
    format!("did you mean `{meant}`?")
}

/// Returns the first of the names with the fewest slips; a name without a number is too far away.
fn closest<'a>(
    known: impl IntoIterator<Item = &'a str>,
    slips: impl Fn(&str) -> Option<usize>,
) -> Option<&'a str> {
    let near = known.into_iter().filter_map(|candidate| Some((slips(candidate)?, candidate)));
    near.min_by_key(|(slips, _)| *slips).map(|(_, candidate)| candidate)
}

/// Returns how many letters of a name may be wrong: a third of them, at least one, and never all.
fn tolerance(length: usize) -> usize {
    (length / 3).clamp(1, SLIPS_MAX).min(length.saturating_sub(1))
}

/// Returns the number of edits that turn one name into the other; swapping two neighbours is one edit.
// Written here because this crate keeps its dependencies few (`cargo xtask layers`).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                // Swapped neighbours are the most frequent typing error.
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        let known = ["Agent", "Message", "StringTransform", "Switch", "poll"];
        let check = |name: &str, expected: Option<&str>| assert_eq!(nearest(name, known), expected, "{name}");
        check("Agnet", Some("Agent"));
        check("mesage", Some("Message"));
        check("SWITCH", Some("Switch"));
        check("Stringtransformer", Some("StringTransform"));
        check("Swich", Some("Switch"));
        check("pol", Some("poll"));
        check("Browser", None);
        check("name", None);
        check("", None);
        check(&"x".repeat(1_000), None);
    }

    #[test]
    fn of_equally_near_names_the_first_is_suggested() {
        assert_eq!(nearest("Agent:C", ["Agent:A", "Agent:B"]), Some("Agent:A"));
        assert_eq!(nearest("Agent:B", ["Agent:A", "agent:b"]), Some("agent:b"));
    }

    #[test]
    fn a_name_with_no_right_letter_is_not_near() {
        assert_eq!(nearest("a", ["b"]), None);
        assert_eq!(nearest("", ["b"]), None);
        assert_eq!(nearest("A", ["b", "a"]), Some("a"));
        assert_eq!(nearest("ot", ["to"]), Some("to"));
    }

    #[test]
    fn only_a_name_that_is_almost_certainly_meant_is_taken_for_a_misspelling() {
        let known = ["approval", "poll", "top_n", "ref"];
        let check =
            |name: &str, expected: Option<&str>| assert_eq!(misspelled(name, known), expected, "{name}");
        check("aproval", Some("approval"));
        check("aprovl", Some("approval"));
        check("Approval", Some("approval"));
        check("topN", Some("top_n"));
        check("pol", Some("poll"));
        check("rfe", Some("ref"));
        // Two edits in four letters, and one in three, turn many words into others.
        check("pal", None);
        check("red", None);
        check("inputSchema", None);
        check("", None);
        check(&"x".repeat(1_000), None);
    }

    #[test]
    fn names_of_the_same_words_are_akin() {
        let known = ["approval", "timeout_seconds", "timeout_goto", "max_loop_count", "enablePrologue"];
        let check = |name: &str, expected: Option<&str>| assert_eq!(akin(name, known), expected, "{name}");
        check("timeout", Some("timeout_seconds"));
        check("loop_count_max", Some("max_loop_count"));
        check("loopCount", Some("max_loop_count"));
        check("max_loop_count_total", Some("max_loop_count"));
        check("prologue_enable", Some("enablePrologue"));
        check("seconds", None);
        check("max", None);
        check("node_approval", None);
        check("loop", None);
        check("", None);
        check("_", None);
        check(&"x_".repeat(1_000), None);
    }

    #[test]
    fn one_letter_too_many_is_noticed() {
        let known = ["top_n", "prompt", "ref"];
        let check =
            |name: &str, expected: Option<&str>| assert_eq!(one_letter_less(name, known), expected, "{name}");
        check("top_nn", Some("top_n"));
        check("ttop_n", Some("top_n"));
        check("prompts", None);
        check("prompt2", None);
        check("reff", None);
        check("top_n", None);
        check("top_k", None);
        check("", None);
        check(&"x".repeat(1_000), None);
    }

    #[test]
    fn the_distance_counts_edits() {
        let check = |a: &str, b: &str, expected: usize| {
            let chars = |name: &str| name.chars().collect::<Vec<_>>();
            assert_eq!(distance(&chars(a), &chars(b)), expected, "{a} {b}");
            assert_eq!(distance(&chars(b), &chars(a)), expected, "{b} {a}");
        };
        check("", "", 0);
        check("", "abc", 3);
        check("agent", "agent", 0);
        check("agent", "agnet", 1);
        check("agent", "agen", 1);
        check("kitten", "sitting", 3);
    }

    #[test]
    fn letters_are_counted_not_bytes() {
        assert_eq!(nearest("größe", ["große"]), Some("große"));
        assert_eq!(misspelled("数据集合", ["数据集台"]), Some("数据集台"));
    }
}
