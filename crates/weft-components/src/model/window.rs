//! Makes a conversation fit into a model's window.

use weft_core::seam::chat_model::{Author, ChatMessage};
use weft_core::{Error, ErrorKind, Result};

/// Tokens that every message costs besides its text.
const PER_MESSAGE: usize = 4;
/// Tokens that an image is taken to cost.
const PER_IMAGE: usize = 1_000;
/// A question is never cut below this many tokens.
pub const QUESTION_MIN: usize = 200;

/// A message, and whether it may be left out when there is no room.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The message.
    pub message: ChatMessage,
    /// It is part of the history and not of the prompt.
    pub optional: bool,
}

/// A rough count of tokens: one for every four characters, one for every character of Chinese,
/// Japanese or Korean. It needs no vocabulary, and errs on the high side for English prose.
pub fn tokens(text: &str) -> usize {
    let wide = text.chars().filter(|c| is_cjk(*c)).count();
    let narrow = text.chars().count() - wide;
    wide + narrow.div_ceil(4)
}

fn is_cjk(c: char) -> bool {
    matches!(u32::from(c), 0x1100..=0x11ff | 0x2e80..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x20000..=0x3134f)
}

fn cost(message: &ChatMessage) -> usize {
    PER_MESSAGE + tokens(&message.text) + PER_IMAGE * message.images.len()
}

fn total(lines: &[Line]) -> usize {
    lines.iter().map(|line| cost(&line.message)).sum()
}

/// The first part of a text that costs at most `max` tokens.
fn cut(text: &str, max: usize) -> &str {
    let mut quarters = 0;
    for (place, c) in text.char_indices() {
        quarters += if is_cjk(c) { 4 } else { 1 };
        if quarters > max * 4 {
            return &text[..place];
        }
    }
    text
}

/// Drops the oldest rounds of the history, then shortens the instructions or the question, whichever
/// takes more. The second value says what was done, if anything.
///
/// # Errors
/// `Invalid` when it cannot fit without cutting the question below [`QUESTION_MIN`] tokens.
pub fn fit(mut lines: Vec<Line>, budget: usize) -> Result<(Vec<ChatMessage>, Option<String>)> {
    let mut dropped = 0_usize;
    while total(&lines) > budget {
        let Some(oldest) = lines.iter().position(|line| line.optional) else { break };
        lines.remove(oldest);
        dropped += 1;
        // The rest of the round goes with it: everything up to the next thing the user said.
        while lines.get(oldest).is_some_and(|line| line.optional && line.message.author != Author::User) {
            lines.remove(oldest);
            dropped += 1;
        }
    }
    let over = total(&lines).saturating_sub(budget);
    let mut note = (dropped > 0)
        .then(|| format!("{dropped} older messages didn't fit the model's window and were left out"));
    if over > 0 {
        shorten(&mut lines, over)?;
        note = Some("the prompt didn't fit the model's window and was shortened".to_owned());
    }
    Ok((lines.into_iter().map(|line| line.message).collect(), note))
}

fn shorten(lines: &mut [Line], over: usize) -> Result<()> {
    let sizes: Vec<usize> = lines.iter().map(|line| tokens(&line.message.text)).collect();
    let longest = (0..lines.len()).max_by_key(|place| sizes[*place]);
    let Some((place, size)) = longest.map(|place| (place, sizes[place])) else { return Ok(()) };
    let keep = size.saturating_sub(over);
    let minimum = if lines[place].message.author == Author::System { 1 } else { QUESTION_MIN };
    if keep < minimum {
        return Err(Error::new(ErrorKind::Invalid, "the prompt is much longer than the model's window")
            .help("shorten the prompt or what it refers to, or choose a model with a larger window"));
    }
    let message = &mut lines[place].message;
    message.text = cut(&message.text, keep).to_owned();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(author: Author, text: &str) -> Line {
        Line { message: ChatMessage::new(author, text), optional: false }
    }

    fn said(author: Author, text: &str) -> Line {
        Line { optional: true, ..pinned(author, text) }
    }

    fn conversation() -> Vec<Line> {
        vec![
            pinned(Author::System, "sys"),
            said(Author::User, &"a".repeat(400)),
            said(Author::Assistant, &"b".repeat(400)),
            said(Author::User, &"c".repeat(400)),
            said(Author::Assistant, &"d".repeat(400)),
            pinned(Author::User, "question"),
        ]
    }

    #[test]
    fn tokens_are_estimated() {
        let check = |text: &str, expected| assert_eq!(tokens(text), expected, "{text}");
        check("", 0);
        check("abcde", 2);
        check("汉字", 2);
        check("汉字abcd", 3);
    }

    #[test]
    fn whole_rounds_are_dropped_oldest_first() {
        let kept = |budget| {
            fit(conversation(), budget).unwrap().0.iter().map(|m| m.text[..1].to_owned()).collect::<String>()
        };
        assert_eq!(kept(1_000), "sabcdq");
        assert_eq!(kept(300), "scdq");
        assert_eq!(kept(100), "sq");
        assert!(fit(conversation(), 100).unwrap().1.unwrap().contains("4 older messages"));
    }

    #[test]
    fn the_longest_part_is_shortened_and_the_question_never_below_its_minimum() {
        let long = |system: usize, question: usize| {
            vec![
                pinned(Author::System, &"s".repeat(system * 4)),
                pinned(Author::User, &"q".repeat(question * 4)),
            ]
        };
        let sizes =
            |lines, budget| fit(lines, budget).map(|(m, _)| (tokens(&m[0].text), tokens(&m[1].text))).ok();
        assert_eq!(sizes(long(500, 100), 308), Some((200, 100)));
        assert_eq!(sizes(long(100, 500), 408), Some((100, 300)));
        assert_eq!(sizes(long(100, 500), 250), None);
        assert_eq!(sizes(long(100, 200), 250), None);
    }
}
