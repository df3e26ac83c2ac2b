//! Recognizes headings by their numbers: the style of numbering that a document uses, and the level of a line in it.

use crate::element::ElementBody;

use super::flow::{Placed, plain};

/// Maximum number of characters in a heading.
const HEADING_CHARS_MAX: usize = 100;
/// Minimum number of numbered lines that establish a style.
const VOTES_MIN: usize = 2;
/// Number of headings marked by the file from which on weak numbers in the text are taken for list items.
const MARKED_MIN: usize = 3;

/// A kind of number at the beginning of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberMarker {
    /// 第一编, Part I
    Part,
    /// 第一章, Chapter 1
    Chapter,
    /// 第一节, Section 1
    Section,
    /// 第一条, Article 1, § 1
    Article,
    /// 一、
    Cjk,
    /// （一）
    CjkInBrackets,
    /// (1), （1）
    InBrackets,
    /// 1., 1.1, 1.1.1
    Decimal(u8),
    /// IV.
    Roman,
    /// A.
    Letter,
}

impl NumberMarker {
    /// Whether the words of the number alone identify a heading, regardless of context.
    pub(crate) fn is_strong(self) -> bool {
        matches!(self, Self::Part | Self::Chapter | Self::Section | Self::Article)
    }
}

/// Styles of numbering, each from the outermost level to the innermost.
const STYLES: [&[NumberMarker]; 4] = {
    use NumberMarker::{
        Article, Chapter, Cjk, CjkInBrackets, Decimal, InBrackets, Letter, Part, Roman, Section,
    };
    [
        &[Part, Chapter, Section, Article, CjkInBrackets],
        &[Part, Chapter, Section, Cjk, CjkInBrackets, InBrackets],
        &[Part, Chapter, Section, Decimal(1), Decimal(2), Decimal(3), Decimal(4)],
        &[Part, Chapter, Roman, Letter, InBrackets],
    ]
};

/// Levels of the elements that are headings, by the most common style of numbering and by the marks of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    levels: Vec<Option<u8>>,
    /// The level of articles, if there are any.
    pub(crate) article: Option<u8>,
}

impl Levels {
    /// Finds the headings.
    pub(crate) fn find(elements: &[Placed<'_>]) -> Self {
        let lines: Vec<Option<NumberMarker>> =
            elements.iter().map(|placed| heading_marker(&placed.element.body)).collect();
        let marked = elements
            .iter()
            .filter(|placed| matches!(placed.element.body, ElementBody::Heading { .. }))
            .count();
        let style = style(&lines);
        let level = |at: usize| {
            let marker = lines[at].filter(|marker| {
                let is_marked = matches!(elements[at].element.body, ElementBody::Heading { .. });
                is_marked || marker.is_strong() || marked < MARKED_MIN
            });
            let place = style?.iter().position(|other| Some(*other) == marker)?;
            Some(place as u8 + 1)
        };
        let mut levels: Vec<Option<u8>> = (0..elements.len()).map(level).collect();
        // A heading without a number gets the level of the numbered headings with the same level in the file.
        let mut of_mark = [None; 256];
        for (at, placed) in elements.iter().enumerate() {
            if let (ElementBody::Heading { level, .. }, Some(found)) = (&placed.element.body, levels[at]) {
                let known = of_mark[usize::from(*level)].unwrap_or(found);
                of_mark[usize::from(*level)] = Some(known.min(found));
            }
        }
        for (at, placed) in elements.iter().enumerate() {
            if let (ElementBody::Heading { level, .. }, None) = (&placed.element.body, levels[at]) {
                levels[at] = Some(of_mark[usize::from(*level)].unwrap_or((*level).max(1)));
            }
        }
        let is_article = |at: &usize| lines[*at] == Some(NumberMarker::Article);
        let article = (0..levels.len()).filter(is_article).find_map(|at| levels[at]);
        Self { levels, article }
    }

    /// Level of an element, if it is a heading.
    pub(crate) fn of(&self, element: usize) -> Option<u8> {
        self.levels.get(element).copied().flatten()
    }

    /// The levels that occur, outermost first.
    pub(crate) fn distinct(&self) -> Vec<u8> {
        let mut distinct: Vec<u8> = self.levels.iter().copied().flatten().collect();
        distinct.sort_unstable();
        distinct.dedup();
        distinct
    }

    /// The most frequent level of headings; of equally frequent ones, the outermost.
    pub(crate) fn most_frequent(&self) -> Option<u8> {
        let count = |level: &u8| self.levels.iter().filter(|other| **other == Some(*level)).count();
        // Reversed, because `max_by_key` returns the last of equal elements.
        self.distinct().into_iter().rev().max_by_key(count)
    }
}

/// The style that the most lines match; of equals, the first.
fn style(lines: &[Option<NumberMarker>]) -> Option<&'static [NumberMarker]> {
    let votes =
        |style: &[NumberMarker]| lines.iter().flatten().filter(|marker| style.contains(marker)).count();
    // Reversed, because `max_by_key` returns the last of equal elements.
    let best = STYLES.into_iter().rev().max_by_key(|style| votes(style))?;
    (votes(best) >= VOTES_MIN).then_some(best)
}

/// The number of an element that may be a heading.
fn heading_marker(body: &ElementBody) -> Option<NumberMarker> {
    if !matches!(body, ElementBody::Heading { .. } | ElementBody::Paragraph(_) | ElementBody::Item { .. }) {
        return None;
    }
    let text = plain(body)?;
    let found = line_marker(text.trim().trim_start_matches("- ").lines().next()?)?;
    let is_list = matches!(body, ElementBody::Item { .. }) && !found.is_strong();
    (!is_list).then_some(found)
}

/// The number of a line that may itself be a heading.
pub(crate) fn line_marker(line: &str) -> Option<NumberMarker> {
    let line = line.trim();
    let found = marker(line)?;
    let is_short = line.chars().count() <= HEADING_CHARS_MAX && !line.ends_with(['。', '；', ';', ',', '，']);
    // The text of an article is often on the same line.
    (is_short || found == NumberMarker::Article).then_some(found)
}

/// The number that a line begins with.
pub(crate) fn marker(line: &str) -> Option<NumberMarker> {
    let line = line.trim_start();
    chinese(line)
        .or_else(|| english(line))
        .or_else(|| bracketed(line))
        .or_else(|| decimal(line))
        .or_else(|| lettered(line))
}

fn is_cjk_number(c: char) -> bool {
    "〇零一二三四五六七八九十百千两".contains(c)
}

fn chinese(line: &str) -> Option<NumberMarker> {
    if let Some(rest) = line.strip_prefix('第') {
        let number = rest.trim_start();
        let after = number.trim_start_matches(|c: char| is_cjk_number(c) || c.is_ascii_digit());
        if after.len() == number.len() {
            return None;
        }
        let after = after.trim_start();
        return match after.strip_prefix('分').unwrap_or(after).chars().next()? {
            '编' | '編' | '篇' => Some(NumberMarker::Part),
            '部' => after.starts_with("部分").then_some(NumberMarker::Part),
            '章' => Some(NumberMarker::Chapter),
            '节' | '節' => Some(NumberMarker::Section),
            '条' | '條' => Some(NumberMarker::Article),
            _ => None,
        };
    }
    let after = line.trim_start_matches(is_cjk_number);
    let is_numbered = after.len() < line.len() && after.starts_with(['、', '．']);
    is_numbered.then_some(NumberMarker::Cjk)
}

fn english(line: &str) -> Option<NumberMarker> {
    if let Some(rest) = line.strip_prefix('§') {
        return rest.trim_start().starts_with(|c: char| c.is_ascii_digit()).then_some(NumberMarker::Article);
    }
    let (word, rest) = line.split_once([' ', '\u{a0}'])?;
    let found = match word.to_ascii_lowercase().as_str() {
        "part" => NumberMarker::Part,
        "chapter" => NumberMarker::Chapter,
        "section" => NumberMarker::Section,
        "article" => NumberMarker::Article,
        _ => return None,
    };
    // "Section 3 applies" is a sentence, "Section 3" and "Section 3. Scope" are headings.
    let number: String = rest.trim_start().chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
    let after =
        rest.trim_start()[number.len()..].trim_start_matches(['.', ':', '-', '–', '—', ')']).trim_start();
    let begins_upper = after.chars().next().is_none_or(|c| !c.is_lowercase());
    (word.starts_with(char::is_uppercase) && is_ordinal(&number) && begins_upper).then_some(found)
}

fn is_ordinal(text: &str) -> bool {
    const WORDS: [&str; 12] =
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    let digits = text.starts_with(|c: char| c.is_ascii_digit()) && text.len() <= 4;
    digits || is_roman(text) || WORDS.contains(&text.to_ascii_lowercase().as_str())
}

fn is_roman(text: &str) -> bool {
    (1..=7).contains(&text.len()) && text.chars().all(|c| "IVXLC".contains(c))
}

fn bracketed(line: &str) -> Option<NumberMarker> {
    let inside = line.strip_prefix(['(', '（'])?;
    let (inside, _) = inside.split_once([')', '）'])?;
    // Twelve bytes are four Chinese characters; anything longer is a remark.
    let all = |fits: fn(char) -> bool| !inside.is_empty() && inside.len() <= 12 && inside.chars().all(fits);
    if all(is_cjk_number) {
        return Some(NumberMarker::CjkInBrackets);
    }
    all(|c| c.is_ascii_digit()).then_some(NumberMarker::InBrackets)
}

/// `1. Scope`, `1.1 Scope` and the like; not `3.5 million`, `10 apples` or a date.
fn decimal(line: &str) -> Option<NumberMarker> {
    let mut rest = line;
    let mut depth = 0_u8;
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        // Four digits are a year, and the numbers of headings do not begin with 0.
        if digits == 0 || digits > 3 || (depth == 0 && rest.starts_with('0')) {
            break;
        }
        depth += 1;
        rest = &rest[digits..];
        match rest.strip_prefix(['.', '．']) {
            Some(after) => rest = after,
            None if depth == 1 => {
                let after = rest.strip_prefix('、')?;
                return (!after.trim().is_empty()).then_some(NumberMarker::Decimal(1));
            }
            None => break,
        }
        if depth == 5 {
            return None;
        }
    }
    let after = rest.trim_start();
    let is_parted =
        depth == 1 || rest.len() > after.len() || after.chars().next().is_some_and(|c| c > '\u{2e80}');
    let first = after.chars().next()?;
    let is_title = first.is_alphabetic() && !first.is_lowercase();
    ((1..=4).contains(&depth) && is_parted && is_title).then_some(NumberMarker::Decimal(depth))
}

fn lettered(line: &str) -> Option<NumberMarker> {
    let (number, rest) = line.split_once('.')?;
    let is_parted = rest.starts_with(' ') && rest.trim_start().chars().next().is_some_and(char::is_uppercase);
    if !is_parted {
        return None;
    }
    let is_letter = number.len() == 1 && number.starts_with(|c: char| c.is_ascii_uppercase());
    // These letters are Roman numerals as well, and are treated as such.
    if is_letter && !matches!(number, "I" | "V" | "X") {
        Some(NumberMarker::Letter)
    } else {
        is_roman(number).then_some(NumberMarker::Roman)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{blocks, placed};
    use super::*;

    #[test]
    fn numbered_lines_are_recognised() {
        use NumberMarker::{
            Article, Chapter, Cjk, CjkInBrackets, Decimal, InBrackets, Letter, Part, Roman, Section,
        };
        let check = |line: &str, expected: Option<NumberMarker>| assert_eq!(marker(line), expected, "{line}");
        check("第一编 总则", Some(Part));
        check("第三部分 附录", Some(Part));
        check("第十二章 合同", Some(Chapter));
        check("第 3 节", Some(Section));
        check("第一百二十条　当事人", Some(Article));
        check("第一次会议", None);
        check("一、基本情况", Some(Cjk));
        check("（二）范围", Some(CjkInBrackets));
        check("（3）范围", Some(InBrackets));
        check("Chapter IV. Results", Some(Chapter));
        check("CHAPTER ONE", Some(Chapter));
        check("Section 3 applies to all", None);
        check("Article 12", Some(Article));
        check("§ 5 Scope", Some(Article));
        check("part of it", None);
        check("1. Scope", Some(Decimal(1)));
        check("2.3 Terms", Some(Decimal(2)));
        check("2.3.4. Terms", Some(Decimal(3)));
        check("3、范围", Some(Decimal(1)));
        check("3.5 million", None);
        check("2024.01.02", None);
        check("1 apple", None);
        check("1.", None);
        check("IV. RESULTS", Some(Roman));
        check("B. Data", Some(Letter));
        check("e.g. this", None);
    }

    #[test]
    fn the_style_of_most_lines_gives_the_levels() {
        let levels = |text: &str| {
            let elements = blocks(text);
            let levels = Levels::find(&placed(&elements));
            (0..elements.len()).map(|at| levels.of(at)).collect::<Vec<_>>()
        };
        let law = "第一章 总则\n\n第一条 为了规范。\n\n第二条 本法所称：\n\n（一）甲；\n\n第二章 其他";
        assert_eq!(levels(law), [Some(2), Some(4), Some(4), None, Some(2)]);
        assert_eq!(
            levels("1. One\n\ntext\n\n1.1 Two\n\nmore\n\n2. Three"),
            [Some(4), None, Some(5), None, Some(4)]
        );
        // If the file has headings, numbered paragraphs are lists.
        assert_eq!(
            levels("# A\n\n1. Do this\n\n2. Do that\n\n# B\n\n## C"),
            [Some(1), None, None, Some(1), Some(2)]
        );
        assert_eq!(levels("# 1. A\n\n## 1.1 B\n\n# Index"), [Some(4), Some(5), Some(4)]);
        assert_eq!(levels("nothing\n\nat all"), [None, None]);
    }
}
