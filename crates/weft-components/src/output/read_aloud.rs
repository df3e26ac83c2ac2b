//! Reads a message aloud: while its text is being emitted, it is split into sentences, which a model reads, two at a
//! time, and which are played in their order.

use std::sync::Arc;

use futures::StreamExt as _;
use weft_agent::window::tokens;
use weft_core::context::Signal;
use weft_core::effect::Delivery;
use weft_core::seam::SpeechModel;
use weft_core::seam::chat_model::Usage;
use weft_core::seam::speech::Audio;
use weft_core::stream::TextReader;
use weft_core::usage::UsedModel;
use weft_core::{ErrorKind, NodeContext, Piece, Result};

use crate::text::without_thinking;

/// Number of sentences that a model reads concurrently.
// The next one is ready when the first has been played; more would be wasted when the listener stops.
const AT_ONCE: usize = 2;
/// A shorter sentence is joined to the next one: separate requests for single words would sound choppy.
const LETTERS_MIN: usize = 16;
/// Maximum number of base64 bytes in which one message is read: about half an hour.
// Every recording is a record of the run's journal.
const AUDIO_BYTES_MAX: usize = 32 << 20;
/// A longer sentence is split, at a space if there is one.
const LETTERS_MAX: usize = 500;

/// Reads aloud a text that may still be growing. A failing model or an exhausted budget is only a warning: the text
/// itself is shown. Each sentence counts as a model call.
///
/// # Errors
/// `Cancelled` when the run no longer listens.
pub(super) async fn read_aloud(
    ctx: &NodeContext,
    model: Arc<dyn SpeechModel>,
    text: TextReader,
) -> Result<()> {
    let sentences = futures::stream::unfold((text, Sentences::default()), |(mut text, mut cut)| async move {
        loop {
            if let Some(sentence) = cut.next() {
                return Some((sentence, (text, cut)));
            }
            match text.next().await {
                Ok(Some(Piece::Text(piece))) => cut.push(&piece),
                Ok(Some(Piece::Thinking(_))) => {}
                // The writer of the text reports why it broke off.
                Ok(None) | Err(_) if !cut.ended => cut.ended = true,
                Ok(None) | Err(_) => return None,
            }
        }
    });
    let read = |sentence: String| {
        let model = Arc::clone(&model);
        // The text is sent to the server of the model.
        let sentence = ctx.run.masks.text(&sentence).into_owned();
        async move {
            ctx.budget.take_model_call().map_err(|limit| ctx.budget.error(limit))?;
            let question = ctx.effects.question("speech", &(model.name(), &sentence));
            let work = async { model.speak(&sentence).await };
            let asked = ctx.effect_asking::<Audio>("speech", Delivery::Idempotent, question, work).await;
            let (audio, made_now) = asked?;
            let prompt_tokens = u64::try_from(tokens(&sentence)).unwrap_or(u64::MAX);
            let usage = Usage { prompt_tokens, calls: 1, ..Usage::default() };
            let micros = ctx.budget.used(usage, model.prices());
            // Usage that was reported before a crash was reported to this same run.
            if made_now || ctx.effects.are_recorded() {
                let used = UsedModel { model: model.name().into(), usage, micros };
                ctx.signal(Signal::Used(Box::new(used))).await?;
            }
            Ok::<_, weft_core::Error>(audio)
        }
    };
    // In the order of the text, whichever recording is ready first.
    let mut recordings = std::pin::pin!(sentences.map(read).buffered(AT_ONCE));
    let mut bytes = 0;
    while let Some(recording) = recordings.next().await {
        match recording {
            Ok(audio) if bytes + audio.base64.len() > AUDIO_BYTES_MAX => {
                let warning = "the text is not read aloud any further: it is too long".to_owned();
                return ctx.signal(Signal::Warn(warning)).await;
            }
            Ok(audio) => {
                bytes += audio.base64.len();
                ctx.signal(Signal::Play(audio)).await?;
            }
            // Not a failure of the model: the run is being cancelled.
            Err(error) if error.kind == ErrorKind::Cancelled => return Err(error),
            Err(error) => {
                let warning = format!("the text is not read aloud any further: {}", error.full());
                return ctx.signal(Signal::Warn(warning)).await;
            }
        }
    }
    Ok(())
}

/// Splits a growing text. The splits depend on the text alone and not on its pieces, so that repeated work reads the
/// same sentences.
#[derive(Debug, Default)]
struct Sentences {
    text: String,
    /// Number of bytes of it that have been split off.
    // Removed in large pieces: moving a long text for each sentence would take longer than reading it.
    done: usize,
    /// How far the end of reasoning has been searched for.
    searched: usize,
    /// No more text is coming.
    ended: bool,
}

impl Sentences {
    fn push(&mut self, text: &str) {
        if self.done >= self.text.len() / 2 {
            self.text.drain(..std::mem::take(&mut self.done));
        }
        self.text.push_str(text);
    }

    /// Returns the next sentence that contains something to read.
    fn next(&mut self) -> Option<String> {
        while let Some(end) = self.end() {
            let sentence = readable(&self.rest()[..end]);
            self.done += end;
            if !sentence.is_empty() {
                return Some(sentence);
            }
        }
        None
    }

    fn rest(&self) -> &str {
        &self.text[self.done..]
    }

    /// Returns where the first sentence ends, if that is known.
    fn end(&mut self) -> Option<usize> {
        // Reasoning that a model writes into its text is treated as one unit, so that it can be left out.
        if self.rest().trim_start().starts_with("<think>") {
            const END: &str = "</think>";
            // Reasoning may be long and arrive letter by letter.
            let from = self.rest().floor_char_boundary(self.searched.saturating_sub(END.len()));
            let end = self.rest()[from..].find(END).map(|at| from + at + END.len());
            self.searched = if end.is_some() { 0 } else { self.rest().len() };
            return end.or_else(|| self.ended.then_some(self.rest().len()));
        }
        let (mut letters, mut blank) = (0, None);
        let mut following = self.rest().char_indices().peekable();
        while let Some((at, letter)) = following.next() {
            let after = at + letter.len_utf8();
            letters += 1;
            if letter.is_whitespace() {
                blank = Some(after);
            }
            let ends = match letter {
                '\n' | '。' | '！' | '？' | '；' => true,
                // Not within a number or a name: the next character decides.
                '.' | '!' | '?' | ';' => match following.peek() {
                    Some((_, next)) => next.is_whitespace(),
                    None => false,
                },
                _ => false,
            };
            if ends && letters >= LETTERS_MIN {
                return Some(after);
            }
            if letters == LETTERS_MAX {
                return Some(blank.unwrap_or(after));
            }
        }
        (self.ended && !self.rest().is_empty()).then_some(self.rest().len())
    }
}

/// Returns the readable part of a text: no reasoning, tags, citation marks, link addresses, Markdown syntax or
/// pictographs.
fn readable(text: &str) -> String {
    let text = without_thinking(text);
    // The line below a table's header, or between two parts, contains nothing to read.
    let drawn = |line: &str| {
        line.contains("--") && line.chars().all(|c| matches!(c, '-' | ':' | '|' | ' ' | '\t' | '\r'))
    };
    let text = text.split('\n').filter(|line| !drawn(line)).collect::<Vec<_>>().join("\n");
    let mut words = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(letter) = rest.chars().next() {
        let skipped = match letter {
            '<' => within(rest, '<', '>')
                .filter(|inner| inner.starts_with(|c: char| c.is_alphabetic() || c == '/')),
            '[' => within(rest, '[', ']').filter(|inner| inner.starts_with("ID:")),
            '(' if words.ends_with(']') => within(rest, '(', ')'),
            _ => None,
        };
        match skipped {
            Some(inner) => {
                // A citation mark follows its sentence after a space, which would be left in front of the full stop.
                if letter == '[' {
                    words.truncate(words.trim_end().len());
                }
                rest = &rest[inner.len() + 2..];
            }
            None => {
                words.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    let is_read = |letter: &char| {
        let pictograph =
            matches!(letter, '\u{1f000}'..='\u{1faff}' | '\u{2600}'..='\u{27bf}' | '\u{fe0f}' | '\u{200d}');
        !pictograph && (!letter.is_control() || letter.is_whitespace())
    };
    let words: String =
        words.chars().filter(is_read).filter(|c| !matches!(c, '*' | '#' | '`' | '[' | ']' | '|')).collect();
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    // Punctuation alone is not read.
    if words.chars().any(char::is_alphanumeric) { words } else { String::new() }
}

/// Returns what stands between two single-byte delimiters at the start of a text, on one line.
fn within(text: &str, open: char, close: char) -> Option<&str> {
    let inner = text.strip_prefix(open)?;
    let end = inner.find([close, '\n'])?;
    inner[end..].starts_with(close).then(|| &inner[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&str]) -> Vec<String> {
        let (mut sentences, mut cut) = (Sentences::default(), Vec::new());
        for piece in pieces {
            sentences.push(piece);
            cut.extend(std::iter::from_fn(|| sentences.next()));
        }
        sentences.ended = true;
        cut.extend(std::iter::from_fn(|| sentences.next()));
        cut
    }

    #[test]
    fn lines_of_tables_are_not_spoken() {
        assert_eq!(readable("| a | b |\n|:---|---:|\n| 1 | 2 |"), "a b 1 2");
        assert_eq!(readable("one\n\n---\n\ntwo -- three"), "one two -- three");
    }

    #[test]
    fn a_text_is_split_at_sentences_at_any_chunk_boundary() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(cut(&[text]), expected);
            let letters: Vec<String> = text.chars().map(String::from).collect();
            assert_eq!(cut(&letters.iter().map(String::as_str).collect::<Vec<_>>()), expected);
        };
        check("", &[]);
        check("Yes.", &["Yes."]);
        check("Yes. It is 3.5 metres long. Or so", &["Yes. It is 3.5 metres long.", "Or so"]);
        check(
            "这是一个很长很长的句子，它有十六个字以上。好",
            &["这是一个很长很长的句子，它有十六个字以上。", "好"],
        );
        check("<think>I wonder. About this. And that.</think>So it is.", &["So it is."]);
        check("<think>It never ends. Never, never.", &[]);
        check("---\n\n***\n", &[]);
        let thought = format!("<think>{}</think>So it is, and so it was.", "hm ".repeat(1_000));
        check(&thought, &["So it is, and so it was."]);
        let long = "word ".repeat(150);
        let parts = cut(&[&long]);
        assert_eq!(parts.len(), 2);
        assert_eq!(parts.concat().replace(' ', ""), long.replace(' ', ""));
        assert_eq!(cut(&[&"長".repeat(1_001)]).iter().map(|part| part.chars().count()).max(), Some(500));
    }

    #[test]
    fn a_text_without_a_word_is_read_quickly() {
        let begun = std::time::Instant::now();
        assert!(cut(&["* * * * * * * * *\n".repeat(200_000).as_str()]).is_empty());
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    #[test]
    fn symbols_are_not_spoken() {
        let check = |text: &str, expected: &str| assert_eq!(readable(text), expected);
        check("**Bold** and `code` [ID:0] 🎉 <b>x</b>\u{7}", "Bold and code x");
        check("# See [the page](https://a.example/b?c) now", "See the page now");
        check("a < b, (c) and [d", "a < b, (c) and d");
        check("| - | - |", "");
    }
}
