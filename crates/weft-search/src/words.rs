//! Cuts text into the words that are searched for.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Longer words are cut here; nothing that long is a word.
const LETTERS_MAX: usize = 64;

/// English words that say nothing about what a text is about.
const COMMON: &str = "a an and are as at be been but by can could did do does for from had has have how i if in into is \
it its me my no not of on or our should so than that the their them then there these they this to was we were what \
when where which who why will with would you your";

static COMMON_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| COMMON.split_whitespace().collect());

/// The words of a text, in order: lower case, without endings that English adds (`searches` and
/// `searching` are `search`), without the commonest English words. Chinese, Japanese and Korean text
/// gives every pair of neighbouring characters, and a character that stands alone gives itself.
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut wide: Vec<char> = Vec::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        if is_wide(c) {
            end_word(&mut word, &mut words);
            wide.push(c);
            continue;
        }
        end_wide(&mut wide, &mut words);
        if c.is_alphanumeric() {
            word.push(c);
        } else if c != '\'' && c != '’' {
            end_word(&mut word, &mut words);
        }
    }
    end_word(&mut word, &mut words);
    end_wide(&mut wide, &mut words);
    words
}

fn end_word(word: &mut String, words: &mut Vec<String>) {
    if !word.is_empty() && !COMMON_WORDS.contains(word.as_str()) {
        let cut: String = word.chars().take(LETTERS_MAX).collect();
        words.push(stem(&cut).to_owned());
    }
    word.clear();
}

fn end_wide(wide: &mut Vec<char>, words: &mut Vec<String>) {
    match wide.as_slice() {
        [] => {}
        [alone] => words.push(alone.to_string()),
        several => words.extend(several.windows(2).map(|pair| pair.iter().collect::<String>())),
    }
    wide.clear();
}

fn is_wide(c: char) -> bool {
    matches!(u32::from(c), 0x2e80..=0x2fdf | 0x3005..=0x3007 | 0x3040..=0x30ff | 0x3400..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x20000..=0x3134f)
}

/// Takes one English ending off, if enough of the word remains.
fn stem(word: &str) -> &str {
    const ENDINGS: [(&str, usize); 6] = [("ings", 4), ("ing", 4), ("ies", 3), ("ed", 4), ("es", 4), ("s", 3)];
    if !word.is_ascii() || word.ends_with("ss") || word.ends_with("us") || word.ends_with("is") {
        return word;
    }
    let stem = ENDINGS
        .iter()
        .find_map(|(ending, rest)| word.strip_suffix(ending).filter(|stem| stem.len() >= *rest))
        .unwrap_or(word);
    // `stopped` and `stop`, `policies` and `policy`, `cached` and `cache` meet at the same stem.
    let doubled = stem.len() < word.len()
        && stem.len() > 3
        && stem.as_bytes()[stem.len() - 1] == stem.as_bytes()[stem.len() - 2]
        && !stem.ends_with(['l', 's', 'z', 'e', 'o']);
    let stem = if doubled { &stem[..stem.len() - 1] } else { stem };
    match stem.strip_suffix(['e', 'y']) {
        Some(shorter) if shorter.len() >= 3 => shorter,
        _ => stem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_words() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text), expected, "{text}");
        check("The Quick brown-fox's 42!", &["quick", "brown", "fox", "42"]);
        check("全文检索 RAG 引擎", &["全文", "文检", "检索", "rag", "引擎"]);
        check("私 a b", &["私", "b"]);
        check("Über naïve", &["über", "naïve"]);
        check("", &[]);
    }

    #[test]
    fn forms_of_a_word_meet() {
        for forms in [
            ["search", "searches", "searching"],
            ["policy", "policies", "policy"],
            ["cache", "cached", "caches"],
            ["stop", "stopped", "stopping"],
            ["refund", "refunds", "refunded"],
            ["class", "class", "class"],
        ] {
            let stems: HashSet<&str> = forms.iter().map(|form| stem(form)).collect();
            assert_eq!(stems.len(), 1, "{stems:?}");
        }
        assert_eq!(stem("is"), "is");
        assert_eq!(stem("status"), "status");
    }
}
