//! Separates reasoning that a model writes into its answer between `<think>` and `</think>`, while the answer streams
//! and regardless of how it is split into pieces.
//!
//! A tag inside a code fence or right after a backtick is text about tags and stays. A closing tag without an opening
//! one is dropped; after an opening tag without an end, everything is reasoning.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
/// Number of consecutive backticks that open or close a code fence.
const FENCE: usize = 3;

/// A part of an answer, separated by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaggedPart {
    /// Part of the answer.
    Text(String),
    /// Part of the reasoning.
    Thinking(String),
}

/// Separates the parts of one answer.
#[derive(Debug, Default)]
pub(crate) struct InlineTags {
    /// Text that may become a tag or a fence with the next piece.
    held: String,
    thinking: bool,
    fenced: bool,
    after_backtick: bool,
}

impl InlineTags {
    /// Adds a piece and outputs what is certain by now.
    pub(crate) fn push(&mut self, piece: String, out: &mut impl Extend<TaggedPart>) {
        // The common case: nothing to search for, nothing to copy.
        if self.held.is_empty() && !piece.contains(['<', '`']) {
            self.after_backtick &= piece.is_empty();
            out.extend(self.part(piece));
            return;
        }
        let mut text = std::mem::take(&mut self.held);
        text.push_str(&piece);
        self.split(&text, out);
    }

    /// Outputs what was held back.
    pub(crate) fn finish(&mut self, out: &mut impl Extend<TaggedPart>) {
        let held = std::mem::take(&mut self.held);
        out.extend(self.part(held));
    }

    fn part(&self, text: String) -> Option<TaggedPart> {
        (!text.is_empty()).then_some(if self.thinking {
            TaggedPart::Thinking(text)
        } else {
            TaggedPart::Text(text)
        })
    }

    fn split(&mut self, text: &str, out: &mut impl Extend<TaggedPart>) {
        let mut said = String::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            match c {
                '<' if rest.len() < CLOSE.len() && (OPEN.starts_with(rest) || CLOSE.starts_with(rest)) => {
                    break;
                }
                // One or two backticks at the end of a piece may start a fence.
                '`' if !self.thinking && rest.len() < FENCE && rest.bytes().all(|b| b == b'`') => break,
                '<' if self.is_tag(rest) => {
                    out.extend(self.part(std::mem::take(&mut said)));
                    self.thinking = rest.starts_with(OPEN);
                    rest = &rest[if self.thinking { OPEN.len() } else { CLOSE.len() }..];
                    self.after_backtick = false;
                    continue;
                }
                '`' if !self.thinking && rest.starts_with("```") => {
                    self.fenced = !self.fenced;
                    said.push_str("```");
                    rest = &rest[FENCE..];
                    self.after_backtick = true;
                    continue;
                }
                c => {
                    said.push(c);
                    self.after_backtick = c == '`';
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
        out.extend(self.part(said));
        // Possible beginnings of a tag or a fence are held back until the next piece decides.
        rest.clone_into(&mut self.held);
    }

    fn is_tag(&self, rest: &str) -> bool {
        let literal = !self.thinking && (self.fenced || self.after_backtick);
        !literal && (rest.starts_with(CLOSE) || (!self.thinking && rest.starts_with(OPEN)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(pieces: &[&str]) -> (String, String) {
        let (mut tags, mut parts) = (InlineTags::default(), Vec::new());
        for piece in pieces {
            tags.push((*piece).to_owned(), &mut parts);
        }
        tags.finish(&mut parts);
        let (mut text, mut thinking) = (String::new(), String::new());
        for part in parts {
            match part {
                TaggedPart::Text(piece) => text.push_str(&piece),
                TaggedPart::Thinking(piece) => thinking.push_str(&piece),
            }
        }
        (text, thinking)
    }

    #[test]
    fn reasoning_is_extracted_at_any_chunk_boundary() {
        let check = |pieces: &[&str], text: &str, thinking: &str| {
            assert_eq!(split(pieces), (text.to_owned(), thinking.to_owned()), "{pieces:?}");
        };
        check(&["<think>hm</think>42"], "42", "hm");
        check(&["<th", "ink>h", "m</", "think", ">4", "2"], "42", "hm");
        check(&["a < b <", "thin"], "a < b <thin", "");
        check(&["no open</think>42"], "no open42", "");
        check(&["<think>no close"], "", "no close");
        check(&["the `<think>` tag"], "the `<think>` tag", "");
        check(&["```\n<think>x</think>\n``", "`\n<think>y</think>z"], "```\n<think>x</think>\n```\nz", "y");
        check(&["<think>a ``` b</think>c<think>d</think>"], "c", "a ``` bd");
        check(&["<think>a <think> b</think>c"], "c", "a <think> b");
        check(&["汉<thi", "nk>字</think>"], "汉", "字");
    }

    proptest! {
        #[test]
        fn chunk_boundaries_make_no_difference_and_nothing_is_lost(
            words in proptest::collection::vec(
                prop::sample::select(vec!["<think>", "</think>", "```", "`", "<", "</th", "a", "汉", "\n", "ink>"]), 0..20),
            cuts in proptest::collection::vec(1..6_usize, 0..80),
        ) {
            let whole: String = words.concat();
            let chars: Vec<char> = whole.chars().collect();
            let mut pieces = Vec::new();
            let (mut at, mut cuts) = (0, cuts.into_iter().cycle());
            while at < chars.len() {
                let end = (at + cuts.next().unwrap_or(1)).min(chars.len());
                pieces.push(chars[at..end].iter().collect::<String>());
                at = end;
            }
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let (text, thinking) = split(&pieces);
            prop_assert_eq!((&text, &thinking), (&split(&[&whole]).0, &split(&[&whole]).1));
            let lost = whole.len() - text.len() - thinking.len();
            let tags = whole.matches(OPEN).count() * OPEN.len() + whole.matches(CLOSE).count() * CLOSE.len();
            prop_assert!(lost <= tags, "{} of at most {} tag bytes lost", lost, tags);
        }
    }
}
