//! Parses Markdown into blocks of styled runs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// A run of text in one style.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TextRun {
    /// The text; `\n` is a hard line break.
    pub text: String,
    /// Its style.
    pub style: RunStyle,
    /// The address it links to.
    pub link: Option<String>,
}

/// Style of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RunStyle {
    /// Bold.
    pub bold: bool,
    /// Italic.
    pub italic: bool,
    /// Monospaced.
    pub code: bool,
    /// Struck through.
    pub strike: bool,
}

/// A block of the document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TextBlock {
    /// A heading, with its level.
    Heading(u8, Vec<TextRun>),
    /// A paragraph, with the nesting depth of its quotation.
    Paragraph(usize, Vec<TextRun>),
    /// An item of a list, or a continuation of one: its depth, its marker, and its text.
    Item(usize, String, Vec<TextRun>),
    /// Program text.
    Code(String),
    /// A table; the first row is its header.
    Table(Vec<Vec<Vec<TextRun>>>),
    /// A picture in PNG format, and its description.
    Picture(Vec<u8>, String),
    /// A horizontal rule.
    Rule,
}

impl TextBlock {
    /// The runs of a block; empty for a table.
    pub(super) fn spans(&self) -> &[TextRun] {
        match self {
            Self::Heading(_, spans) | Self::Paragraph(_, spans) | Self::Item(_, _, spans) => spans,
            Self::Code(_) | Self::Table(_) | Self::Picture(..) | Self::Rule => &[],
        }
    }
}

/// Text of the block itself, for formats without markup.
pub(super) fn text_of(block: &TextBlock) -> String {
    block.spans().iter().map(|span| span.text.as_str()).collect()
}

/// Markdown extensions that texts may use.
pub(super) fn options() -> Options {
    Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
}

/// Whether a character is allowed in a document.
// XML cannot represent the others, and Word refuses a file that contains them.
pub(super) fn may_stand(letter: char) -> bool {
    letter == '\n' || !(letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}'))
}

/// Whether a link to this address is allowed.
pub(super) fn may_lead(address: &str) -> bool {
    let lower = address.trim().to_ascii_lowercase();
    // Others, such as `javascript:`, could act in the program that opens the document.
    ["http://", "https://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme))
}

/// Whether an HTML tag is a line break.
pub(super) fn ends_a_line(markup: &str) -> bool {
    let tag: String = markup.chars().filter(|c| !c.is_whitespace()).collect();
    tag.eq_ignore_ascii_case("<br>") || tag.eq_ignore_ascii_case("<br/>")
}

/// The type and the data of a picture embedded in its address as a data URI; only types that cannot contain scripts.
pub(super) fn held_in(address: &str) -> Option<(&str, &str)> {
    let (kind, data) = address.trim().strip_prefix("data:image/")?.split_once(";base64,")?;
    let is_data = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let is_picture = matches!(kind, "png" | "jpeg" | "jpg" | "gif" | "webp");
    (is_picture && !data.is_empty() && data.bytes().all(is_data)).then_some((kind, data))
}

fn png(address: &str) -> Option<Vec<u8>> {
    let (_, data) = held_in(address).filter(|(kind, _)| *kind == "png")?;
    STANDARD.decode(data).ok().filter(|bytes| bytes.starts_with(b"\x89PNG\r\n\x1a\n"))
}

/// Parses a text. HTML in it is treated as text.
pub(super) fn blocks(text: &str) -> Vec<TextBlock> {
    let mut reader = BlockReader::default();
    for event in Parser::new_ext(text, options()) {
        reader.read(event);
    }
    reader.end_block();
    reader.blocks
}

#[derive(Default)]
struct BlockReader {
    blocks: Vec<TextBlock>,
    spans: Vec<TextRun>,
    style: RunStyle,
    /// Open emphases, counted so that a nested one ends by itself.
    bold: usize,
    italic: usize,
    link: Option<String>,
    heading: Option<u8>,
    quotes: usize,
    /// Open lists, with the number of the next item for numbered ones.
    lists: Vec<Option<u64>>,
    /// Marker of the item that is beginning.
    marker: Option<String>,
    code: Option<String>,
    table: Option<Vec<Vec<Vec<TextRun>>>>,
    /// The picture whose description is being read.
    picture: Option<Vec<u8>>,
}

impl BlockReader {
    fn read(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(text) => {
                self.style.code = true;
                self.text(&text);
                self.style.code = false;
            }
            Event::Html(text) | Event::InlineHtml(text) => self.html(&text),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.text(&text),
            Event::FootnoteReference(name) => self.text(&note_mark(&name)),
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.text("\n"),
            Event::Rule => {
                self.end_block();
                self.blocks.push(TextBlock::Rule);
            }
            Event::TaskListMarker(done) => self.text(if done { "\u{2611} " } else { "\u{2610} " }),
        }
    }

    /// HTML is shown as text, except for line breaks.
    fn html(&mut self, text: &str) {
        if ends_a_line(text) {
            self.text("\n");
        } else {
            self.text(text.trim_end_matches('\n'));
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(code) = &mut self.code {
            code.extend(text.chars().filter(|letter| *letter == '\t' || may_stand(*letter)));
            return;
        }
        // A tab between words becomes a space.
        let spaced = text.chars().map(|letter| if letter == '\t' { ' ' } else { letter });
        let text: String = spaced.filter(|letter| may_stand(*letter)).collect();
        // The parser emits text in fragments; adjacent ones of the same style become one run.
        match self.spans.last_mut() {
            Some(last) if last.style == self.style && last.link == self.link => last.text.push_str(&text),
            _ => self.spans.push(TextRun { text, style: self.style, link: self.link.clone() }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.end_block();
                self.heading = Some(number(level));
            }
            Tag::BlockQuote(_) => {
                self.end_block();
                self.quotes += 1;
            }
            Tag::List(first) => {
                self.end_block();
                self.lists.push(first);
            }
            Tag::Item => {
                self.end_block();
                self.marker = Some(match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let marker = format!("{number}.");
                        *number = number.saturating_add(1);
                        marker
                    }
                    _ => "\u{2022}".to_owned(),
                });
            }
            Tag::CodeBlock(_) => {
                self.end_block();
                self.code = Some(String::new());
            }
            Tag::Table(_) => {
                self.end_block();
                self.table = Some(Vec::new());
            }
            // Placed where it is defined: a note that is never referenced would have no place at the foot of a page.
            Tag::FootnoteDefinition(name) => {
                self.end_block();
                self.text(&format!("{} ", note_mark(&name)));
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.push(Vec::new());
                }
            }
            Tag::Strong => self.emphasis(|reader| reader.bold += 1),
            Tag::Emphasis => self.emphasis(|reader| reader.italic += 1),
            Tag::Strikethrough => self.style.strike = true,
            Tag::Link { dest_url, .. } if may_lead(&dest_url) => self.link = Some(dest_url.into_string()),
            Tag::Image { dest_url, .. } if may_lead(&dest_url) => self.link = Some(dest_url.into_string()),
            Tag::Image { dest_url, .. } => self.start_picture(&dest_url),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_)
            | TagEnd::Paragraph
            | TagEnd::Item
            | TagEnd::HtmlBlock
            | TagEnd::FootnoteDefinition => self.end_block(),
            TagEnd::BlockQuote(_) => {
                self.end_block();
                self.quotes = self.quotes.saturating_sub(1);
            }
            TagEnd::List(_) => {
                self.end_block();
                self.lists.pop();
            }
            TagEnd::CodeBlock => {
                let code = self.code.take().unwrap_or_default();
                // The parser ends program text with a line end.
                self.blocks.push(TextBlock::Code(code.trim_end_matches('\n').to_owned()));
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(row) = self.table.as_mut().and_then(|table| table.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take().filter(|table| !table.is_empty()) {
                    self.blocks.push(TextBlock::Table(table));
                }
            }
            TagEnd::Strong => self.emphasis(|reader| reader.bold = reader.bold.saturating_sub(1)),
            TagEnd::Emphasis => self.emphasis(|reader| reader.italic = reader.italic.saturating_sub(1)),
            TagEnd::Strikethrough => self.style.strike = false,
            TagEnd::Link => self.link = None,
            TagEnd::Image => self.end_picture(),
            _ => {}
        }
    }

    /// Within a table or a description a picture is represented by its description only.
    fn start_picture(&mut self, address: &str) {
        if self.table.is_some() || self.picture.is_some() {
            return;
        }
        if let Some(bytes) = png(address) {
            self.end_block();
            self.picture = Some(bytes);
        }
    }

    fn end_picture(&mut self) {
        // A picture that is not embedded is a link to it.
        self.link = None;
        if let Some(bytes) = self.picture.take() {
            let words = std::mem::take(&mut self.spans).into_iter().map(|span| span.text).collect();
            self.blocks.push(TextBlock::Picture(bytes, words));
        }
    }

    fn emphasis(&mut self, change: impl FnOnce(&mut Self)) {
        change(self);
        (self.style.bold, self.style.italic) = (self.bold > 0, self.italic > 0);
    }

    fn end_block(&mut self) {
        // Within a table cells end, not blocks.
        if self.table.is_some() {
            return;
        }
        let spans = std::mem::take(&mut self.spans);
        let heading = self.heading.take();
        if spans.iter().all(|span| span.text.trim().is_empty()) {
            return;
        }
        let depth = self.lists.len();
        self.blocks.push(match heading {
            Some(level) => TextBlock::Heading(level, spans),
            None if depth > 0 => TextBlock::Item(depth - 1, self.marker.take().unwrap_or_default(), spans),
            None => TextBlock::Paragraph(self.quotes, spans),
        });
    }
}

/// The mark of a footnote, used for references and in front of its text.
fn note_mark(name: &str) -> String {
    format!("[{name}]")
}

fn number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let runs = |spans: &[TextRun]| {
            let run = |span: &TextRun| {
                let RunStyle { bold, italic, code, strike } = span.style;
                let mut text = span.text.replace('\n', "/");
                for (on, mark) in [(bold, "B"), (italic, "I"), (code, "C"), (strike, "S")] {
                    if on {
                        text = format!("{mark}({text})");
                    }
                }
                span.link.as_ref().map_or(text.clone(), |link| format!("{text}->{link}"))
            };
            spans.iter().map(run).collect::<Vec<_>>().join("")
        };
        let block = |block: &TextBlock| match block {
            TextBlock::Heading(level, spans) => format!("h{level} {}", runs(spans)),
            TextBlock::Paragraph(quotes, spans) => format!("{}{}", "> ".repeat(*quotes), runs(spans)),
            TextBlock::Item(depth, marker, spans) => {
                format!("{}{marker} {}", "  ".repeat(*depth), runs(spans))
            }
            TextBlock::Code(text) => format!("code {text:?}"),
            TextBlock::Table(rows) => {
                let row =
                    |row: &Vec<Vec<TextRun>>| row.iter().map(|cell| runs(cell)).collect::<Vec<_>>().join("|");
                rows.iter().map(row).collect::<Vec<_>>().join("//")
            }
            TextBlock::Picture(bytes, words) => format!("picture {} {words}", bytes.len()),
            TextBlock::Rule => "rule".to_owned(),
        };
        blocks(text).iter().map(block).collect()
    }

    #[test]
    fn texts_are_split_into_blocks() {
        let text = "# One *two*\n\nA **b *c* d** `e`\nf  \ng ~~h~~\n\n> q\n> > r\n\n3. x\n4. y\n   - z\n\n   more\n\n```rust\nlet a;\n\nb\n```\n\n---\n";
        assert_eq!(
            shown(text),
            [
                "h1 One I(two)",
                "A B(b )I(B(c))B( d) C(e) f/g S(h)",
                "> q",
                "> > r",
                "3. x",
                "4. y",
                "  \u{2022} z",
                " more",
                "code \"let a;\\n\\nb\"",
                "rule",
            ]
        );
    }

    #[test]
    fn tabs_become_spaces_and_control_characters_are_dropped() {
        let text = "Name:\tAda\u{7}\u{ffff}\n\n```\n\u{1b}[31mred\tblue\n```\n";
        assert_eq!(shown(text), ["Name: Ada", "code \"[31mred\\tblue\""]);
    }

    #[test]
    fn data_uri_pictures_are_blocks() {
        let text = "a ![one *two*](data:image/png;base64,iVBORw0KGgo=) b\n\n![x](data:image/png;base64,AAAA) \
            ![y](data:image/jpeg;base64,AAAA)\n\n| h |\n|---|\n| ![z](data:image/png;base64,iVBORw0KGgo=) |\n";
        assert_eq!(shown(text), ["a ", "picture 8 one two", " b", "x y", "h//z"]);
    }

    #[test]
    fn notes_are_kept_with_their_references() {
        let text = "It grew[^1] and fell[^b], see[^none].\n\n[^1]: https://e.example/report\n[^b]: Ada, *Looms*, 1843.\n\n    More.\n\nEnd";
        assert_eq!(
            shown(text),
            [
                "It grew[1] and fell[b], see[^none].",
                "[1] https://e.example/report",
                "[b] Ada, I(Looms), 1843.",
                "More.",
                "End",
            ]
        );
    }

    #[test]
    fn tables_links_and_markup() {
        let text = "| a | **b** |\n|---|---|\n| 1 | [x](https://e.example) |\n| <br> | |\n\n[js](javascript:alert(1)) <script>x</script> &amp;\n\n<div>\nraw</div>\n\n![pic](https://e.example/p.png)";
        assert_eq!(
            shown(text),
            [
                "a|B(b)//1|x->https://e.example///|",
                "js <script>x</script> &",
                "<div>raw</div>",
                "pic->https://e.example/p.png",
            ]
        );
    }
}
