//! Writes chunks from ranges of a flow: text is packed, tables are separate chunks.

use std::ops::Range;

use weft_core::seam::document_reader::{DocumentPiece, PieceKind, Position};

use super::delimiter::Delimiters;
use super::draft::{Children, PIECES_MAX, PieceDraft};
use super::flow::{Flow, FlowSpan, SpanRole};
use super::pack::{HEADINGS_IN_A_ROW_MAX, HeadingBreaks, Packing, pack, pack_string};
use super::settings::ChunkSettings;
use super::{boundary, html, place};
use crate::element::TableElement;
use crate::tokens::tokens;

/// Writes chunks.
pub(crate) struct PieceWriter<'a> {
    flow: &'a Flow<'a>,
    packing: Packing<'a>,
    table_context: u32,
    /// Text that every chunk begins with.
    opening: Lead,
    /// The chunks written so far.
    pub(crate) drafts: Vec<PieceDraft>,
}

/// Text in front of a part that does not belong to it, such as the headings above.
#[derive(Clone, Debug, Default)]
struct Lead {
    text: String,
    tokens: u32,
}

impl<'a> PieceWriter<'a> {
    /// Creates a writer with the limits of the settings.
    pub(crate) fn new(flow: &'a Flow<'a>, settings: &'a ChunkSettings) -> Self {
        let packing = Packing {
            limit: settings.limit,
            overlap: settings.overlap(settings.limit),
            delimiters: &settings.delimiters,
            headings: HeadingBreaks::Never,
        };
        let table_context = settings.table_context;
        Self { flow, packing, table_context, opening: Lead::default(), drafts: Vec::new() }
    }

    /// Sets another limit.
    #[must_use]
    pub(crate) fn limit(mut self, limit: u32, settings: &ChunkSettings) -> Self {
        self.packing.limit = limit;
        self.packing.overlap = settings.overlap(limit);
        self
    }

    /// Makes parts end before headings when they are half full.
    #[must_use]
    pub(crate) fn breaking_at_headings(mut self) -> Self {
        self.packing.headings = HeadingBreaks::WhenHalfFull;
        self
    }

    /// Disables cutting at delimiters, and the overlap.
    #[must_use]
    pub(crate) fn uncut(mut self, none: &'a Delimiters) -> Self {
        self.packing.delimiters = none;
        self.packing.overlap = 0;
        self
    }

    /// Makes every chunk begin with a text, if that takes at most a quarter of the limit. Returns whether it does.
    pub(crate) fn open_with(&mut self, text: &str) -> bool {
        let text = format!("{text}\n");
        let tokens = tokens(&text);
        let fits = tokens <= self.packing.limit / 4;
        if fits {
            self.opening = Lead { text, tokens };
        }
        fits
    }

    /// Number of tokens left in a chunk that begins with these headings.
    pub(crate) fn room(&self, above: &[usize]) -> u32 {
        self.packing.limit - self.lead(above).tokens
    }

    /// Writes the whole flow.
    pub(crate) fn all(&mut self) {
        self.spans(0..self.flow.spans.len(), &[]);
    }

    /// Writes some spans. Every chunk begins with the headings `above`, as far as there is room for them.
    pub(crate) fn spans(&mut self, spans: Range<usize>, above: &[usize]) {
        let lead = self.lead(above);
        let all = &self.flow.spans;
        let mut from = spans.start;
        for at in spans.clone() {
            if all[at].role != SpanRole::Table {
                continue;
            }
            // Headings directly above a table go into its chunk, instead of forming a chunk by themselves.
            let run = all[from..at].iter().rev().take_while(|span| span.role == SpanRole::Heading);
            let run = run.take(HEADINGS_IN_A_ROW_MAX).count();
            let titles = &all[at - run..at];
            let fits = titles.last().is_none_or(|last| {
                let first = titles.first().unwrap_or(last).start;
                tokens(&self.flow.text[first..last.end]) <= self.packing.limit / 4
            });
            let run = if fits { run } else { 0 };
            self.text(from..at - run, &lead);
            self.table(at, at - run..at, &lead);
            from = at + 1;
        }
        self.text(from..spans.end, &lead);
    }

    /// The text that a chunk begins with: the opening, and as many of the innermost headings as fit into a quarter of
    /// the limit.
    fn lead(&self, above: &[usize]) -> Lead {
        let mut lead = Lead::default();
        for title in above.iter().rev() {
            let text = format!("{}\n{}", self.flow.titles[*title].text, lead.text);
            let tokens = tokens(&text);
            if tokens > self.packing.limit / 4 {
                break;
            }
            lead = Lead { text, tokens };
        }
        if self.opening.text.is_empty() {
            return lead;
        }
        let text = format!("{}{}", self.opening.text, lead.text);
        Lead { tokens: self.opening.tokens + lead.tokens, text }
    }

    fn text(&mut self, spans: Range<usize>, lead: &Lead) {
        let all = &self.flow.spans;
        let (Some(first), Some(last)) = (all.get(spans.start), spans.end.checked_sub(1)) else { return };
        if spans.is_empty() {
            return;
        }
        // The lead takes at most half of the limit.
        let packing = Packing { limit: self.packing.limit - lead.tokens, ..self.packing };
        for part in pack(self.flow, first.start..all[last].end, &packing) {
            if self.is_full() {
                return;
            }
            let content = format!("{}{}", lead.text, &self.flow.text[part.range.clone()]);
            let tokens = if lead.text.is_empty() { part.tokens } else { tokens(&content) };
            let inside = self.flow.spans_in(&part.range);
            // At least one byte, because an empty range overlaps no span.
            let new = self.flow.spans_in(&(part.fresh..part.range.end.max(part.fresh + 1)));
            let headings = self.flow.path(self.flow.title_at(part.fresh));
            let positions = self.positions(&self.flow.spans[inside.clone()]);
            let elements = elements(&self.flow.spans[new]);
            let piece = DocumentPiece { content, headings, positions, tokens, ..DocumentPiece::default() };
            self.drafts.push(PieceDraft { piece, elements, children: Children::Allowed });
        }
    }

    /// Whether the document exceeds the maximum number of chunks and will be refused; further chunks would only use
    /// memory.
    fn is_full(&self) -> bool {
        self.drafts.len() > PIECES_MAX
    }

    fn positions(&self, spans: &[FlowSpan]) -> Vec<Position> {
        let mut positions = Vec::new();
        let mut last = None;
        for span in spans.iter().filter(|span| span.role != SpanRole::Table) {
            // Consecutive rows of a table belong to the same element.
            if last != Some(span.element) {
                place::add(&mut positions, &self.flow.positions(span.element));
                last = Some(span.element);
            }
        }
        positions
    }

    fn table(&mut self, at: usize, titles: Range<usize>, lead: &Lead) {
        let span = &self.flow.spans[at];
        let Some(table) = self.flow.table(span) else { return };
        let mut before = lead.text.clone();
        for title in &self.flow.spans[titles.clone()] {
            before.push_str(&self.flow.text[title.start..title.end]);
            before.push('\n');
        }
        let (above, below) = self.context(at, titles.start, tokens(&before));
        if !above.is_empty() {
            before = format!("{above}\n{before}");
        }
        let after = if below.is_empty() { String::new() } else { format!("\n{below}") };
        let used = tokens(&before) + tokens(&after);
        let room = self.packing.limit.saturating_sub(used).max(1);
        let contents = split(table, room, &self.packing);
        let count = contents.len();
        for (number, (kind, html)) in contents.into_iter().enumerate() {
            if self.is_full() {
                return;
            }
            let mut content = if number == 0 { format!("{before}{html}") } else { html };
            if number + 1 == count {
                content.push_str(&after);
            }
            let mut positions = Vec::new();
            place::add(&mut positions, &self.flow.positions(span.element));
            let headings = self.flow.path(span.title);
            let tokens = tokens(&content);
            let piece =
                DocumentPiece { kind, content, headings, positions, tokens, ..DocumentPiece::default() };
            let elements = self.flow.spans[titles.start].element..span.element + 1;
            self.drafts.push(PieceDraft { piece, elements, children: Children::None });
        }
    }

    /// The whole sentences before and after a table that fit into its context. A quarter of the limit is kept for the
    /// table, whose chunk begins with headings of `used` tokens.
    fn context(&self, at: usize, titles: usize, used: u32) -> (String, String) {
        let quarter = self.packing.limit / 4;
        let left = (quarter * 3).saturating_sub(used) / 2;
        let room = self.table_context.min(quarter).min(left);
        if room == 0 {
            return (String::new(), String::new());
        }
        let spans = &self.flow.spans;
        let is_text = |span: Option<&'a FlowSpan>| span.filter(|span| span.role == SpanRole::Text);
        let above = is_text(titles.checked_sub(1).and_then(|above| spans.get(above)));
        let below = is_text(spans.get(at + 1));
        let above = above.map(|span| {
            let text = &self.flow.text[span.start..span.end];
            // From the end, so that no more is counted than fits: the sentence may be the last of very many.
            let starts = boundary::sentences(text).into_iter().rev().chain([0]);
            let fitting = starts.map(|start| &text[start..]).take_while(|text| tokens(text) <= room).last();
            fitting.unwrap_or_default()
        });
        let below = below.map(|span| {
            let text = &self.flow.text[span.start..span.end];
            let ends = boundary::sentences(text).into_iter().chain([text.len()]);
            let fitting = ends.map(|end| &text[..end]).take_while(|text| tokens(text) <= room).last();
            fitting.unwrap_or_default()
        });
        (above.unwrap_or_default().trim().to_owned(), below.unwrap_or_default().trim().to_owned())
    }
}

fn elements(spans: &[FlowSpan]) -> Range<usize> {
    match (spans.first(), spans.last()) {
        (Some(first), Some(last)) => first.element..last.element + 1,
        _ => 0..0,
    }
}

/// Cuts a table between its rows and repeats the header in each part. Rows that do not fit become text.
fn split(table: &TableElement, room: u32, packing: &Packing<'_>) -> Vec<(PieceKind, String)> {
    let whole = html::whole(table);
    if tokens(&whole) <= room {
        return vec![(PieceKind::Table, whole)];
    }
    let count = table.header_rows.min(table.rows.len());
    let (header, rows) = table.rows.split_at(count);
    let header = header.iter().map(|row| html::line(row, html::Cell::Header));
    let open = html::open(table) + &header.collect::<String>();
    let packing = Packing { limit: room, overlap: 0, ..*packing };
    let used = tokens(&open) + tokens(html::CLOSE);
    let mut splitter =
        Splitter { table, open, used, said: false, body: String::new(), size: 0, packing, parts: Vec::new() };
    if used > room / 2 {
        // A header that leaves too little room for rows is not repeated.
        splitter.say_header();
        "<table>\n".clone_into(&mut splitter.open);
        splitter.used = tokens(&splitter.open) + tokens(html::CLOSE);
    }
    for row in rows.iter().filter(|row| row.iter().any(|cell| !cell.trim().is_empty())) {
        splitter.row(row);
    }
    splitter.close();
    splitter.say_header();
    splitter.parts
}

/// State of cutting a table into parts.
struct Splitter<'a> {
    table: &'a TableElement,
    /// Text that each part begins with.
    open: String,
    /// Number of tokens at the beginning and the end of each part.
    used: u32,
    /// Whether a part contains the caption and the header already.
    said: bool,
    body: String,
    size: u32,
    packing: Packing<'a>,
    parts: Vec<(PieceKind, String)>,
}

impl Splitter<'_> {
    fn row(&mut self, row: &[String]) {
        let line = html::line(row, html::Cell::Data);
        let more = tokens(&line);
        if self.used + self.size + more > self.packing.limit {
            self.close();
        }
        if self.used + more > self.packing.limit {
            self.say_header();
            self.loose(row);
            return;
        }
        self.body.push_str(&line);
        self.size += more;
    }

    fn close(&mut self) {
        if !self.body.is_empty() {
            self.parts.push((PieceKind::Table, format!("{}{}{}", self.open, self.body, html::CLOSE)));
            self.said = true;
        }
        self.body.clear();
        self.size = 0;
    }

    /// Adds the caption and the header as text, unless a part contains them already.
    fn say_header(&mut self) {
        if !std::mem::replace(&mut self.said, true) {
            self.loose(self.table.caption.as_slice());
            self.table.rows[..self.table.header_rows.min(self.table.rows.len())]
                .iter()
                .for_each(|row| self.loose(row));
        }
    }

    fn loose(&mut self, cells: &[String]) {
        let cells: Vec<&str> = cells.iter().map(|cell| cell.trim()).filter(|cell| !cell.is_empty()).collect();
        let parts = pack_string(&cells.join("\n"), &self.packing);
        self.parts.extend(parts.into_iter().map(|(text, _)| (PieceKind::Text, text)));
    }
}
