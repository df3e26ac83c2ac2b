//! Splits text into the words by which it is found. Documents and questions follow the same rules.
//!
//! Each stretch of a text is processed according to its own script, regardless of what surrounds it:
//!
//! - *Letters and digits* are folded (lower case, half width, without diacritics) and stemmed: Latin letters
//!   by the language of the line ([`language`]), Cyrillic, Greek, Arabic and Tamil by the stemmer of their
//!   script. Words of Latin-script languages other than English are prefixed with a tag, and each word of a
//!   question is looked up in every language, so the language of the question need not be known. Parts joined
//!   by a sign (`KX-200`, `4.2.1`, `ada@example.com`, `src/main.rs`) are found both as a whole and
//!   individually; hyphenated words are also found written as one. The words of a name such as `getUserName`
//!   or `RFC7231` are found too, and `RFC 7231` as if it were written as one word.
//! - *Chinese* is converted to simplified characters and segmented by a dictionary; a long word also yields
//!   the shorter words in it, and characters that belong to no known word also yield pairs.
//! - *Scripts without spaces for which there is no dictionary here* (kana, hangul, Thai …) yield pairs of
//!   neighbouring characters, and so do Chinese characters in a Japanese line.
//!
//! The most common words are kept but marked, so that a question consisting only of these still finds something.

mod common_words;
mod fold;
mod han;
mod identifiers;
mod language;
mod letters;
mod pairs;
mod words;

use std::ops::Range;

use letters::CharTreatment;

pub(crate) use language::StemmedLanguage;

/// Maximum number of characters without a break that are processed together.
const RUN_MAX: usize = 1_000;

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordToken {
    /// The word in the form used for look-ups.
    pub term: String,
    /// Its byte range in the text. Tokens may overlap.
    pub range: Range<usize>,
    /// Whether it is among the most common words, which say nothing about the topic of a text.
    pub common: bool,
}

/// Returns the words of a text, in the order in which they end.
pub fn analyze(text: &str) -> Vec<WordToken> {
    let mut tokens = Vec::new();
    each_word(text, &mut |term, range, common| {
        tokens.push(WordToken { term: term.to_owned(), range, common });
    });
    tokens
}

/// Calls `found` for every word of a text, with its term, its range, and whether it is a common word.
pub(crate) fn each_word(text: &str, found: &mut dyn FnMut(&str, Range<usize>, bool)) {
    each_word_of(text, language_of(text), found);
}

/// Returns the language of most of a text.
pub(crate) fn language_of(text: &str) -> StemmedLanguage {
    language::of_text(text)
}

/// Like [`each_word`], for a part of a longer text: `usual` is the language of that text, used for lines that
/// do not reveal their own.
pub(crate) fn each_word_of(
    text: &str,
    usual: StemmedLanguage,
    found: &mut dyn FnMut(&str, Range<usize>, bool),
) {
    let mut words = words::WordCutter::default();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        // A text of one line has been examined as a whole.
        words.language =
            if line.len() == text.len() { usual } else { language::of_line(line).unwrap_or(usual) };
        cut(line, at, &mut words, found);
        at += line.len();
    }
}

/// Calls `found` for every word of a question in each of its forms, with the number of the word, a term, and
/// whether it is a common word. The forms of a word follow each other.
pub(crate) fn each_form(text: &str, found: &mut dyn FnMut(usize, &str, bool)) {
    let mut words = words::WordCutter::default();
    (words.is_question, words.language) = (true, language::of_question(text));
    let mut number = 0;
    let mut last: Option<Range<usize>> = None;
    cut(text, 0, &mut words, &mut |term, range, common| {
        // All forms of a word have the same range, which no other word has.
        if last.as_ref() != Some(&range) {
            number += 1;
            last = Some(range);
        }
        found(number, term, common);
    });
}

fn cut(
    text: &str,
    begin: usize,
    words: &mut words::WordCutter,
    found: &mut dyn FnMut(&str, Range<usize>, bool),
) {
    // For the whole line: next to kana, characters that are also Chinese are segmented differently.
    let is_japanese = !text.is_ascii() && pairs::is_japanese(text);
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let from = begin + at;
        at += match CharTreatment::of(c) {
            CharTreatment::Gap => c.len_utf8(),
            CharTreatment::Word => words.take(rest, from, found),
            script @ (CharTreatment::Han | CharTreatment::Pairs) => {
                let run = run(rest, script);
                match script {
                    CharTreatment::Han if is_japanese => han::pairs(run, from, found),
                    CharTreatment::Han => han::cut(run, from, found),
                    _ => pairs::cut(run, from, found),
                }
                run.len()
            }
        };
    }
}

/// Returns the leading characters of a text that belong to one script.
fn run(text: &str, script: CharTreatment) -> &str {
    let end = text.char_indices().take(RUN_MAX).find(|(_, c)| CharTreatment::of(*c) != script);
    let most = || text.char_indices().nth(RUN_MAX).map_or(text.len(), |(at, _)| at);
    &text[..end.map_or_else(most, |(at, _)| at)]
}

#[cfg(test)]
mod tests {
    use super::letters::LETTERS_MAX;
    use super::*;

    fn terms(text: &str) -> Vec<String> {
        analyze(text).into_iter().map(|token| token.term).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(terms(text).join(" "), expected, "{text}");
    }

    #[test]
    fn english_words_lose_case_and_endings() {
        check("Searching the Libraries, quickly!", "search the librari quick");
        check("The runner's dogs don't bark", "the runner dog don t dont bark");
        check("  \n…—", "");
    }

    #[test]
    fn diacritics_and_character_widths_are_ignored() {
        check("Résumé naïve Ångström", "resum naiv angstrom");
        check("ＫＸ２００", "kx200");
        assert_eq!(terms("e\u{301}tude"), terms("étude"));
        assert_eq!(terms("Straße Łódź"), terms("strasse lodz"));
        check("Ёлка ΑΘΉΝΑ", "елк αθην");
        assert_eq!(terms("Ёлка тётя чёрная лёд"), terms("елка тетя черная лед"));
        assert_eq!(terms("чёрный"), terms("черная"));
    }

    #[test]
    fn identifiers_are_indexed_whole_and_in_parts() {
        check("KX-200", "kx 200 kx200");
        check("version 4.2.1.", "version 4 2 1 4.2.1");
        check("ada.l@example.com", "ada l exampl com ada.l@example.com");
        check("src/main.rs", "src main rs src/main.rs");
        check("max_token_count", "max token count maxtokencount");
        check("1,234,567 1,2", "1234567 1 2 1,2");
        check("C++ C# F#", "c c++ c c# f f#");
        check("2024-05-01", "2024 05 01 2024-05-01");
        check("low-fat", "low fat lowfat");
        check("getUserName()", "get user name getusernam");
        check("get_user_name", "get user name getusernam");
        check("getusername", "getusernam");
        check("RFC7231", "rfc 7231 rfc7231");
        check("RFC 7231, ISO 9001:2015", "rfc 7231 rfc7231 iso 9001 2015 9001:2015");
        check("rfc 7231, KX 2 A 1234", "rfc 7231 kx 2 a 1234");
    }

    #[test]
    fn arabic_words_are_indexed_with_and_without_prefixes() {
        // `And the student`, `a student`; `the minister`, `a minister`, whose first letter is that of `and`.
        let meet = |one: &str, other: &str| {
            let others = terms(other);
            assert!(terms(one).iter().any(|term| others.contains(term)), "{one} {other}");
        };
        meet("والطالب", "طالب");
        meet("والطالب", "الطالب");
        meet("والأسواق", "الأسواق");
        meet("الوزير", "وزير");
        meet("والوزير", "وزير");
        // `Father` and `parents` start with the same letters, and stay as they are.
        meet("والد", "الوالد");
        assert!(terms("والدين").iter().any(|term| term.starts_with("والد")));
    }

    #[test]
    fn chinese_is_segmented_into_words() {
        check("退货期限是三十天", "退货 期限 是 三十 十天 三十天");
        check("中华人民共和国", "中华 华人 人民 共和 共和国 中华人民共和国");
        check("買東西", "买 东西");
        check("使用KX-200打印机", "使用 kx 200 kx200 打印 印机 打印机");
    }

    #[test]
    fn unknown_chinese_words_give_bigrams() {
        check("鑫垚", "鑫 垚 鑫垚");
    }

    #[test]
    fn kana_hangul_and_thai_give_bigrams() {
        check("カタカナ", "カタ タカ カナ");
        check("ｶﾀ", "カタ");
        check("한국어 나", "한국 국어 나");
        assert_eq!(terms("ภาษา").len(), 3);
        check("日本のラーメン", "日本 の ラー ーメ メン");
    }

    #[test]
    fn common_words_are_marked_and_kept() {
        let common = |text: &str| -> Vec<String> {
            analyze(text).into_iter().filter(|token| token.common).map(|token| token.term).collect()
        };
        assert_eq!(common("To be or not to be, Hamlet"), ["to", "be", "or", "not", "to", "be"]);
        assert_eq!(common("苹果的颜色是什么"), ["的", "是", "什么"]);
    }

    #[test]
    fn tokens_have_positions() {
        let text = "Die Größe: KX-200，退貨期限。ﾃｽﾄ";
        for token in analyze(text) {
            let source = &text[token.range.clone()];
            assert!(!source.is_empty() && !source.contains(['：', '，', ' ']), "{token:?} {source}");
        }
        let whole = analyze("no KX-200 here").into_iter().find(|token| token.term == "kx200").unwrap();
        assert_eq!(whole.range, 3..9);
    }

    #[test]
    fn no_token_is_too_long() {
        for text in ["a".repeat(100_000), "汉".repeat(100_000), "a-".repeat(50_000), "カ".repeat(5_000)] {
            assert!(analyze(&text).iter().all(|token| token.term.chars().count() <= LETTERS_MAX + 1));
        }
    }
}
