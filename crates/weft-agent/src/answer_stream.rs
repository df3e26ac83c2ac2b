//! The visible answer of an agent: streamed piece by piece with its citation marks corrected, and accumulated.

use std::sync::Arc;

use weft_core::Piece;
use weft_core::citation::Citations;
use weft_core::stream::TextWriter;

use crate::driver::Job;
use crate::marks::MarkFilter;
use crate::research::tags::TagFilter;

/// Separates the texts of two rounds.
// A blank line: in Markdown a single line break would run two rounds into one paragraph. Also separates the reasoning
// of two rounds.
const BETWEEN: &str = "\n\n";

/// The visible text of an agent while it is being written.
pub struct AnswerStream<'a> {
    writer: Option<&'a TextWriter>,
    /// How often the writer's text had been taken back when it was last checked.
    taken_back: u32,
    citations: Option<Citations>,
    filter: Option<MarkFilter>,
    /// Removes the tags with which a model asks for searches, for models that may write them out of habit.
    tags: Option<TagFilter>,
    told_to_cite: bool,
    said: String,
    /// Whether the next text has to be separated from what was said before.
    apart: bool,
    /// The whitespace at the start of a message; written once other text follows it.
    blanks: String,
    /// Whether the message has produced text.
    begun: bool,
    /// Whether an earlier message contained reasoning.
    thought: bool,
    /// Whether the current message contains reasoning.
    thinks: bool,
}

impl std::fmt::Debug for AnswerStream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerStream").field("said", &self.said).finish_non_exhaustive()
    }
}

impl<'a> AnswerStream<'a> {
    /// The stream of a job that had already said `said` before it waited for a person.
    pub fn of(job: &Job<'a>, said: &str) -> Self {
        let citations = job.options.citing.as_ref().map(|_| job.ctx.run.citations.clone());
        Self::new(job.writer, citations, said)
    }

    /// A stream that has already said `said`. A writer starts empty, so it is sent that text again. Pieces go to
    /// `writer`; with `citations`, citation marks are corrected.
    pub fn new(writer: Option<&'a TextWriter>, citations: Option<Citations>, said: &str) -> Self {
        let (said_before, said) = (said, String::with_capacity(said.len()));
        let mut voice = Self {
            writer,
            // The current count: what was taken back before this stream began is not part of its text.
            taken_back: writer.map_or(0, TextWriter::taken_back),
            citations,
            filter: None,
            tags: None,
            told_to_cite: false,
            said,
            apart: !said_before.is_empty(),
            blanks: String::new(),
            begun: false,
            thought: false,
            thinks: false,
        };
        if voice.apart {
            voice.push(said_before);
        }
        voice
    }

    /// Marks that the model has been asked for citation marks; see [`MarkFilter::told_to_cite`].
    #[must_use]
    pub fn told_to_cite(self) -> Self {
        Self { told_to_cite: true, ..self }
    }

    /// Drops search tags: the model may write them out of habit although they are no longer carried out.
    #[must_use]
    pub fn without_search_tags(self) -> Self {
        Self { tags: Some(TagFilter::default()), ..self }
    }

    /// Takes a piece of the model's output.
    pub fn piece(&mut self, piece: Piece) {
        self.forget_what_was_taken_back();
        match (piece, &mut self.tags) {
            (Piece::Text(text), Some(tags)) => {
                let text = tags.push(&text);
                self.text(&text);
            }
            (Piece::Text(text), None) => self.text(&text),
            (Piece::Thinking(text), _) => self.thinking(text),
        }
    }

    /// Takes a piece of reasoning.
    fn thinking(&mut self, text: Arc<str>) {
        let Some(writer) = self.writer.filter(|_| !text.is_empty()) else { return };
        let begins = !std::mem::replace(&mut self.thinks, true);
        // Between rounds there may be nothing but calls, and some clients show all reasoning as one text.
        let text: Arc<str> = if begins && self.thought { format!("{BETWEEN}{text}").into() } else { text };
        // Not added to `said`: reasoning is shown as it comes, but is not part of the answer.
        writer.push(Piece::Thinking(text));
    }

    /// Takes text of the answer, whose marks may have to be corrected.
    fn text(&mut self, text: &str) {
        let Some(citations) = &self.citations else { return self.put(text) };
        // Created with the first text and not earlier: the sources of this message may arrive while it is being
        // written, and half a mark at the end of the last message must not be combined with this one.
        let told = self.told_to_cite;
        let filter = self.filter.get_or_insert_with(|| {
            let filter = MarkFilter::new(citations.clone());
            if told { filter.told_to_cite() } else { filter }
        });
        let text = filter.push(text);
        self.put(&text);
    }

    /// Says something that does not come from the model; it is set apart from the text around it.
    pub fn say(&mut self, text: &str) {
        self.pause();
        self.put(text);
        self.pause();
    }

    /// Drops the text of a broken-off answer. When an answer breaks off before any of it was shown to a reader, the
    /// model is asked again, and the text of the first attempt is taken back.
    fn forget_what_was_taken_back(&mut self) {
        let Some(writer) = self.writer else { return };
        let taken_back = writer.taken_back();
        if std::mem::replace(&mut self.taken_back, taken_back) == taken_back {
            return;
        }
        // The writer has only what was said before that answer; the filter may hold half a mark of it.
        self.said = writer.so_far();
        self.filter = None;
        self.tags = self.tags.take().map(|_| TagFilter::default());
        self.blanks.clear();
        self.begun = false;
        self.thinks = false;
        self.apart = !self.said.is_empty();
    }

    /// Ends a message of the model; what comes next is set apart from it.
    pub fn pause(&mut self) {
        self.forget_what_was_taken_back();
        if let Some(tags) = self.tags.take() {
            let (rest, _) = tags.finish();
            self.text(&rest);
            self.tags = Some(TagFilter::default());
        }
        if let Some(filter) = self.filter.take() {
            let rest = filter.finish();
            self.put(&rest);
        }
        self.thought |= std::mem::take(&mut self.thinks);
        // Whitespace at the end of a message was held back and is dropped here, so that the distance between two
        // rounds is always the same.
        self.blanks.clear();
        self.begun = false;
        self.apart = !self.said.is_empty();
    }

    /// Ends the stream and returns everything that was said.
    pub fn finish(mut self) -> String {
        self.pause();
        self.said
    }

    /// Everything that was said up to the last pause.
    pub fn said(&self) -> &str {
        &self.said
    }

    fn put(&mut self, text: &str) {
        if !self.begun {
            let rest = text.trim_start();
            self.blanks.push_str(&text[..text.len() - rest.len()]);
            if rest.is_empty() {
                return;
            }
            self.begun = true;
            let blanks = std::mem::take(&mut self.blanks);
            if !std::mem::take(&mut self.apart) {
                // Nothing was said before: the whitespace is the model's own and stays (an indented code block begins
                // with it).
                return self.push(&format!("{blanks}{rest}"));
            }
            // A text that ends with a line break, such as a list or a call that was shown, needs no second blank
            // line.
            if !self.said.ends_with('\n') {
                self.push(BETWEEN);
            }
            return self.push(rest);
        }
        self.push(text);
    }

    fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.said.push_str(text);
        if let Some(writer) = self.writer {
            writer.push(Piece::Text(text.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::citation::Chunk;

    fn text(text: &str) -> Piece {
        Piece::Text(text.into())
    }

    #[test]
    fn texts_of_rounds_are_separated() {
        let mut voice = AnswerStream::new(None, None, "");
        for piece in ["I look", " it up."] {
            voice.piece(text(piece));
        }
        voice.pause();
        voice.pause();
        voice.piece(Piece::Thinking("hm".into()));
        voice.piece(text("It is 4."));
        assert_eq!(voice.finish(), "I look it up.\n\nIt is 4.");
        let mut resumed = AnswerStream::new(None, None, "before");
        resumed.piece(text("after"));
        assert_eq!(resumed.finish(), "before\n\nafter");
    }

    #[tokio::test]
    async fn reasoning_of_rounds_is_separated() {
        let thinking = |text: &str| Piece::Thinking(text.into());
        let (writer, heard) = weft_core::SharedText::new();
        let mut voice = AnswerStream::new(Some(&writer), None, "");
        for message in [&["I look", " it up."][..], &[""], &["It is"]] {
            message.iter().for_each(|piece| voice.piece(thinking(piece)));
            voice.pause();
        }
        let mark = writer.mark();
        voice.piece(thinking("So"));
        assert!(mark.take_back());
        for piece in [thinking("So it"), thinking(" is."), text("It is 4.")] {
            voice.piece(piece);
        }
        assert_eq!(voice.finish(), "It is 4.");
        writer.finish();
        let (mut reader, mut thought) = (heard.read(), String::new());
        while let Some(piece) = reader.next().await.unwrap() {
            if let Piece::Thinking(text) = piece {
                thought.push_str(&text);
            }
        }
        assert_eq!(thought, "I look it up.\n\nIt is\n\nSo it is.");
        assert_eq!(heard.text().await.unwrap(), "It is 4.");
    }

    #[test]
    fn retracted_text_is_not_part_of_the_answer() {
        let (writer, heard) = weft_core::SharedText::new();
        let mut voice = AnswerStream::new(Some(&writer), Some(Citations::default()), "");
        voice.piece(text("I look it up."));
        voice.pause();
        let mark = writer.mark();
        // The beginning of a mark is held back.
        voice.piece(text("It is 3 [ID:"));
        assert!(mark.take_back());
        voice.piece(text("It is 4."));
        let said = voice.finish();
        assert_eq!((said.as_str(), heard.so_far().as_str()), ("I look it up.\n\nIt is 4.", said.as_str()));
        let mut voice = AnswerStream::new(Some(&writer), None, "");
        let mark = writer.mark();
        voice.piece(text(" and 5"));
        assert!(mark.take_back());
        assert_eq!(voice.finish(), said, "no more text is written");
    }

    #[test]
    fn whitespace_around_round_texts_is_trimmed() {
        let mut voice = AnswerStream::new(None, None, "");
        for message in [&["\n", "\n"][..], &[" ", "\n x"], &["\n\n"], &["\n", "y "], &["z"]] {
            message.iter().for_each(|piece| voice.piece(text(piece)));
            voice.pause();
        }
        assert_eq!(voice.finish(), " \n x\n\ny \n\nz");
    }

    #[tokio::test]
    async fn the_stream_equals_the_kept_text() {
        let (writer, heard) = weft_core::SharedText::new();
        let mut voice = AnswerStream::new(Some(&writer), None, "before");
        for piece in ["\n", "after", "", " all"] {
            voice.piece(text(piece));
        }
        voice.say("<block>");
        let said = voice.finish();
        writer.finish();
        assert_eq!(said, "before\n\nafter all\n\n<block>");
        assert_eq!(heard.text().await.unwrap(), said);
    }

    #[test]
    fn stray_search_tags_are_not_shown() {
        let citations = Citations::default();
        citations.number([Chunk { id: "a".to_owned(), ..Chunk::default() }]);
        let (writer, heard) = weft_core::SharedText::new();
        let mut voice = AnswerStream::new(Some(&writer), Some(citations), "").without_search_tags();
        let mark = writer.mark();
        for piece in ["It is 3 ", "<|begin_search_query|>what"] {
            voice.piece(text(piece));
        }
        assert!(mark.take_back());
        for piece in
            ["It is 4 [ID:", "0]. <|begin_sea", "rch_query|>rain<|end_search", "_query|>So it is <|be"]
        {
            voice.piece(text(piece));
        }
        let said = voice.finish();
        assert_eq!(
            (said.as_str(), heard.so_far().as_str()),
            ("It is 4 [ID:0]. So it is <|be", said.as_str())
        );
    }

    #[test]
    fn marks_are_normalized_at_any_chunk_boundary() {
        let citations = Citations::default();
        citations.number([Chunk { id: "a".to_owned(), ..Chunk::default() }]);
        let mut voice = AnswerStream::new(None, Some(citations), "");
        for piece in ["It is so (I", "D: 0). And", " so [ID:", "7]."] {
            voice.piece(text(piece));
        }
        assert_eq!(voice.finish(), "It is so [ID:0]. And so.");
    }
}
