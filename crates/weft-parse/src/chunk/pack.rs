//! Cuts a text into parts that are as long as the limit allows, at the best boundary available.

use std::ops::Range;

use super::boundary;
use super::delimiter::Delimiters;
use super::flow::{Flow, SpanRole};
use crate::tokens::{fitting, tokens, word_tokens, words};

/// Number of bytes per token that are scanned. Few texts have longer tokens; their parts come out somewhat shorter.
const BYTES_A_TOKEN: usize = 24;
/// Words longer than this many bytes may be cut where the room ends.
const LONG_WORD: usize = 24;

/// Maximum number of consecutive headings that are kept with the text below; more are treated as a list.
pub(crate) const HEADINGS_IN_A_ROW_MAX: usize = 8;

/// How a text is cut into parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing<'a> {
    /// Maximum number of tokens in a part.
    pub(crate) limit: u32,
    /// Maximum number of tokens that a part repeats from the one before.
    pub(crate) overlap: u32,
    /// Where the text may be cut, and where it must be.
    pub(crate) delimiters: &'a Delimiters,
    /// Whether parts end before headings.
    pub(crate) headings: HeadingBreaks,
}

/// How headings affect where parts end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadingBreaks {
    /// A part that is at least half full ends before a heading.
    WhenHalfFull,
    /// Headings have no effect.
    Never,
}

/// A part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackedText {
    /// Its range in the text.
    pub(crate) range: Range<usize>,
    /// Offset where the text begins that no earlier part contains.
    pub(crate) fresh: usize,
    /// Number of tokens in it.
    pub(crate) tokens: u32,
}

/// Cuts a range of a text into parts. Together they contain all of it except white space between parts.
pub(crate) fn pack(flow: &Flow<'_>, range: Range<usize>, packing: &Packing<'_>) -> Vec<PackedText> {
    let mut parts = Vec::new();
    let mut start = range.start;
    let ends = packing.delimiters.always_ends(&flow.text[range.clone()]);
    let cut = !ends.is_empty();
    for end in ends.into_iter().map(|end| range.start + end).chain([range.end]) {
        // A delimiter by itself is not a part.
        if !(cut && packing.delimiters.are_all_of(&flow.text[start..end])) {
            Packer { flow, packing, end, scan: PackScan::default() }.run(start, &mut parts);
        }
        start = end;
    }
    parts
}

/// Cuts a text that is not part of a flow.
pub(crate) fn pack_string(text: &str, packing: &Packing<'_>) -> Vec<(String, u32)> {
    let mut flow = Flow::default();
    flow.push(0, text, "", SpanRole::Text);
    let part = |part: PackedText| (flow.text[part.range].to_owned(), part.tokens);
    pack(&flow, 0..flow.text.len(), packing).into_iter().map(part).collect()
}

struct Packer<'a> {
    flow: &'a Flow<'a>,
    packing: &'a Packing<'a>,
    /// End of the range.
    end: usize,
    scan: PackScan,
}

/// What is known about the text from the start of a part on.
#[derive(Debug, Default)]
struct PackScan {
    start: usize,
    /// Offset of each word, and the number of tokens before it.
    words: Vec<(usize, u32)>,
    /// Offset up to which the text fits into the part.
    room: usize,
    /// Whether the whole rest of the range fits.
    all: bool,
}

impl PackScan {
    /// Counts the tokens of a range up to a limit.
    fn run(&mut self, text: &str, start: usize, end: usize, limit: u32) {
        // Looks only at text that can possibly fit: counting all the rest for each part would be quadratic.
        let window = (start + limit as usize * BYTES_A_TOKEN + 64).min(end);
        let window = (start..=window).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(start);
        self.start = start;
        self.words.clear();
        self.all = false;
        let (mut at, mut count) = (start, 0_u32);
        for word in words(&text[start..window]) {
            self.words.push((at, count));
            let more = word_tokens(word);
            if count + more > limit {
                // Words stay whole, except for long ones and for the first word of a part, which would otherwise be
                // empty.
                let is_long = at == start || word.len() > LONG_WORD || !word.is_ascii();
                self.room = at + if is_long { fitting(word, limit - count) } else { 0 };
                return;
            }
            count += more;
            at += word.len();
        }
        // The end is recorded as the start of a word, so that lookups find it.
        self.words.push((at, count));
        self.room = at;
        self.all = at == end;
    }

    /// Number of tokens before an offset, rounded down to a word boundary.
    fn count_at(&self, at: usize) -> u32 {
        let after = self.words.partition_point(|(word, _)| *word <= at);
        after.checked_sub(1).map_or(0, |last| self.words[last].1)
    }

    /// Exact number of tokens in the text up to an offset.
    fn exact(&self, text: &str, end: usize) -> u32 {
        // White space at the end has been trimmed. It affects the tokenization of the last word only, so that word is
        // counted again.
        let last = text[self.start..end].chars().next_back().map_or(0, char::len_utf8);
        let after = self.words.partition_point(|(word, _)| *word <= end - last);
        let (word, count) = after.checked_sub(1).map_or((self.start, 0), |last| self.words[last]);
        count + tokens(&text[word..end])
    }

    /// The first word boundary from which there are at most `tokens` tokens up to `end`.
    fn tail(&self, end: usize, tokens: u32) -> usize {
        let total = self.count_at(end);
        let first = self.words.partition_point(|(_, count)| count + tokens < total);
        self.words.get(first).map_or(end, |(word, _)| (*word).min(end))
    }
}

impl Packer<'_> {
    fn run(&mut self, start: usize, parts: &mut Vec<PackedText>) {
        let mut fresh = self.begin(start);
        let mut start = fresh;
        while fresh < self.end {
            let mut found = self.part_end(start, fresh);
            // The repeated text may leave no room for anything new; then nothing is repeated.
            if found.is_none() && start < fresh {
                start = fresh;
                found = self.part_end(start, fresh);
            }
            let (end, tokens) = found.unwrap_or_else(|| self.first_character(start));
            let trimmed = start + self.flow.text[start..end].trim_end().len();
            parts.push(PackedText { range: start..trimmed, fresh, tokens });
            fresh = self.begin(end);
            start = match self.packing.overlap {
                0 => fresh,
                overlap => self.overlap_start(start, trimmed, overlap).unwrap_or(fresh),
            };
        }
    }

    /// Start of the next part: skips white space, but not the indentation of a block.
    fn begin(&self, at: usize) -> usize {
        let rest = &self.flow.text[at..self.end];
        let begin = at + (rest.len() - rest.trim_start().len());
        let before = self.flow.spans.partition_point(|span| span.start <= begin);
        let block = before.checked_sub(1).map(|last| self.flow.spans[last].start);
        match block.filter(|block| *block >= at && begin < self.end) {
            Some(block) => block,
            None => begin,
        }
    }

    /// The first character of a part, used when this character alone exceeds the limit.
    fn first_character(&self, start: usize) -> (usize, u32) {
        let rest = &self.flow.text[start..self.end];
        let end = start + rest.chars().next().map_or(0, char::len_utf8);
        (end, tokens(&self.flow.text[start..end]))
    }

    /// Finds the best end for a part that contains more than the text before `fresh`; `None` if there is no room for
    /// that.
    fn part_end(&mut self, start: usize, fresh: usize) -> Option<(usize, u32)> {
        // Moved out so that `self` can be borrowed, and put back so that its memory is reused.
        let mut scan = std::mem::take(&mut self.scan);
        scan.run(&self.flow.text, start, self.end, self.packing.limit);
        let mut end = self.heading_break(&scan, fresh);
        if end.is_none() && scan.all {
            end = Some(self.end);
        }
        let mut room = scan.room;
        let found = loop {
            let Some(at) = end.or_else(|| self.best_end(&scan, fresh, room)) else { break None };
            let trimmed = start + self.flow.text[start..at].trim_end().len();
            if trimmed > fresh {
                let count = scan.exact(&self.flow.text, trimmed);
                if count <= self.packing.limit {
                    break Some((at, count));
                }
            }
            // A fragment of a word can have more tokens than the whole word, so there is less room than expected.
            end = None;
            room = boundary::before(&self.flow.text, at.min(room));
            if room <= fresh {
                break None;
            }
        };
        self.scan = scan;
        found
    }

    /// The first heading at which the part is at least half full.
    fn heading_break(&self, scan: &PackScan, fresh: usize) -> Option<usize> {
        if self.packing.headings == HeadingBreaks::Never {
            return None;
        }
        let spans = &self.flow.spans;
        let first = spans.partition_point(|span| span.start <= fresh);
        let mut inside = spans[first..].iter().take_while(|span| span.start <= scan.room).enumerate();
        // Does not end a part between two consecutive headings: the upper one would stand alone.
        let found = inside.find(|(at, span)| {
            let previous = (first + at).checked_sub(1).map(|at| spans[at].role);
            span.role == SpanRole::Heading
                && span.start < self.end
                && previous != Some(SpanRole::Heading)
                && scan.count_at(span.start) >= self.packing.limit / 2
        });
        found.map(|(_, span)| span.start)
    }

    /// Picks the best end of a part, in this order: between blocks or after a delimiter, between sentences, between
    /// words, at any character. The first two leave the part at least a quarter full; if no block boundary does, it
    /// ends within a block.
    fn best_end(&self, scan: &PackScan, fresh: usize, room: usize) -> Option<usize> {
        if room <= fresh {
            return None;
        }
        let text = &self.flow.text;
        let quarter = self.packing.limit / 4;
        let good = |at: &usize| {
            *at > fresh && *at <= room && scan.count_at(*at) >= quarter && !self.is_after_heading(*at)
        };
        if let Some(at) = self.before_code(fresh, room) {
            return Some(at);
        }
        let units = std::iter::successors(self.unit_end(fresh, room), |at| {
            self.unit_end(fresh, boundary::before(text, *at)).filter(|at| scan.count_at(*at) >= quarter)
        });
        let mut between = None;
        for at in units.filter(|at| boundary::is_between(text, *at)) {
            if good(&at) {
                return Some(at);
            }
            if between.is_none() && self.is_before_heading(at) && scan.count_at(at) >= quarter {
                between = Some(at);
            }
        }
        // Whether a sentence ends at `room` can only be seen from the text after it.
        let beyond = (room + 64).min(self.end);
        let beyond = (room..=beyond).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(room);
        let start = scan.start;
        let sentences = || boundary::sentences(&text[start..beyond]).into_iter().map(|at| start + at);
        if let Some(at) = sentences().rfind(good) {
            return Some(at);
        }
        between
            .or_else(|| boundary::last_word(text, fresh..beyond, room))
            .or_else(|| boundary::last_grapheme(text, fresh, room))
    }

    /// Start of a block of program text that does not fit, if it fits into the next part.
    fn before_code(&self, fresh: usize, room: usize) -> Option<usize> {
        let before = self.flow.spans.partition_point(|span| span.start < room);
        let span = &self.flow.spans[before.checked_sub(1)?];
        let is_cut = span.role == SpanRole::Code && span.end > room && span.end <= self.end;
        // The cheap test comes first, as counting the tokens of a long text takes the most time.
        if !is_cut || span.end - span.start > self.packing.limit as usize * BYTES_A_TOKEN {
            return None;
        }
        let start = span.start - self.headings_before(span.start);
        let fits = tokens(&self.flow.text[start..span.end]) <= self.packing.limit;
        (start > fresh && fits).then_some(start)
    }

    /// Number of bytes of the headings directly before a block.
    fn headings_before(&self, at: usize) -> usize {
        let before = self.flow.spans.partition_point(|span| span.start < at);
        let run = self.flow.spans[..before].iter().rev().take_while(|span| span.role == SpanRole::Heading);
        run.take(HEADINGS_IN_A_ROW_MAX).last().map_or(0, |first| at - first.start)
    }

    fn is_before_heading(&self, at: usize) -> bool {
        let next = self.flow.spans.partition_point(|span| span.start < at);
        self.flow.spans.get(next).is_some_and(|span| span.start == at && span.role == SpanRole::Heading)
    }

    /// The last offset up to `room` where a block begins or a delimiter ends.
    fn unit_end(&self, fresh: usize, room: usize) -> Option<usize> {
        if room <= fresh {
            return None;
        }
        let before = self.flow.spans.partition_point(|span| span.start <= room);
        let block = before.checked_sub(1).map(|last| self.flow.spans[last].start);
        let delimiter =
            self.packing.delimiters.last_end(&self.flow.text[fresh..room], 0).map(|at| fresh + at);
        block.max(delimiter).filter(|at| *at > fresh)
    }

    /// Whether a part ending at this offset would separate a heading from the text below it.
    fn is_after_heading(&self, at: usize) -> bool {
        let before = self.flow.spans.partition_point(|span| span.start < at);
        let run = self.flow.spans[..before].iter().rev().take_while(|span| span.role == SpanRole::Heading);
        let is_at_end = before.checked_sub(1).is_some_and(|last| at >= self.flow.spans[last].end);
        // One more than the maximum is examined, to tell a list of headings from the headings above a text.
        is_at_end && (1..=HEADINGS_IN_A_ROW_MAX).contains(&run.take(HEADINGS_IN_A_ROW_MAX + 1).count())
    }

    /// Start of the text at the end of a part that the next one repeats.
    fn overlap_start(&self, start: usize, end: usize, overlap: u32) -> Option<usize> {
        let text = &self.flow.text;
        // It must be after the start of the last part, or the parts would make no progress.
        let first = self.scan.tail(end, overlap).max(boundary::after(text, start));
        let fits = |at: &usize| *at >= first && *at < end && tokens(&text[*at..end]) <= overlap;
        let sentences = boundary::sentences(&text[start..end]).into_iter().map(|at| start + at);
        let words = || boundary::words(&text[first.min(end)..end]).into_iter().map(|at| first + at);
        sentences.map(|at| self.begin(at)).find(fits).or_else(|| words().find(fits))
    }
}
