//! Markdown: `CommonMark` with the usual extensions.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::{FileContents, FileFormat, FileInput, ReadResult, html};
use crate::grid::{Grid, Header};
use crate::parts::PartCollector;
use crate::words::{decode, join};

/// Markdown.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "Markdown",
    endings: &["md", "markdown", "mdx", "mkd", "mdown", "qmd", "rmd"],
    is_binary: false,
    looks: |contents: &FileContents<'_>| {
        let text = contents.text();
        let headings = text.lines().filter(|line| line.starts_with("# ") || line.starts_with("## ")).count();
        // Comments in a script look like headings.
        headings > 0 && !text.starts_with("#!")
    },
    read,
};

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut parts = PartCollector::default();
    let mut text = decode(file.bytes);
    if text.contains('\r') {
        // The parser does not recognize `\r` alone as a line end.
        text = text.replace("\r\n", "\n").replace('\r', "\n");
    }
    add(&text, &mut parts);
    Ok(parts.finish())
}

/// Adds the elements of a Markdown text.
pub(super) fn add(text: &str, parts: &mut PartCollector) {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_HEADING_ATTRIBUTES
        | Options::ENABLE_MATH
        | Options::ENABLE_GFM
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
        | Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS;
    let mut walk = MarkdownWalk {
        parts,
        inline: String::new(),
        raw: String::new(),
        lists: Vec::new(),
        item: None,
        label: None,
        grid: None,
        link: None,
        language: None,
        image: None,
        is_raised: false,
    };
    for event in Parser::new_ext(text, options) {
        walk.event(event);
        if walk.parts.is_full() {
            return;
        }
    }
    walk.flush();
}

struct MarkdownWalk<'a> {
    parts: &'a mut PartCollector,
    inline: String,
    /// HTML, which is read as a whole at its end.
    raw: String,
    /// For each open list the number of its next item, if it is numbered.
    lists: Vec<Option<u64>>,
    item: Option<String>,
    /// Label in front of the first paragraph of a footnote.
    label: Option<String>,
    grid: Option<Grid>,
    /// The address of the open link, and the offset where its text begins.
    link: Option<(String, usize)>,
    language: Option<String>,
    /// Offset where the description of the open picture begins, if one is open.
    image: Option<usize>,
    /// Whether the next text is a superscript.
    is_raised: bool,
}

impl MarkdownWalk<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Code(text) | Event::InlineMath(text) => {
                // Keeps an exponent or the number of a note apart from the number that it follows.
                let is_digit = |c: char| c.is_ascii_digit();
                if std::mem::take(&mut self.is_raised)
                    && text.starts_with(is_digit)
                    && self.inline.ends_with(is_digit)
                {
                    self.inline.push('^');
                }
                self.inline.push_str(&text);
            }
            Event::DisplayMath(text) => {
                self.inline.push(' ');
                self.inline.push_str(text.trim());
            }
            Event::Html(text) => self.raw.push_str(&text),
            Event::InlineHtml(tag) => {
                self.is_raised = tag.starts_with("<sup");
                if tag.starts_with("<br") {
                    self.inline.push('\n');
                }
            }
            // How lines are joined depends on their characters, so it is decided once all of them are there.
            Event::SoftBreak => self.inline.push('\u{1f}'),
            Event::HardBreak => self.inline.push('\n'),
            Event::FootnoteReference(name) => {
                self.inline.push_str(&format!("[{name}]"));
            }
            Event::TaskListMarker(done) => self.inline.push_str(if done { "[x] " } else { "[ ] " }),
            Event::Rule => self.flush(),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::Heading { .. } | Tag::BlockQuote(_) | Tag::DefinitionListTitle => {
                self.flush();
            }
            Tag::List(first) => {
                self.flush();
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                let number = self.lists.last_mut().and_then(Option::as_mut).map(|number| {
                    let this = *number;
                    *number = number.saturating_add(1);
                    format!("{this}. ")
                });
                self.item = Some(number.unwrap_or_default());
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                self.language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', ',', '{']).next().filter(|name| !name.is_empty()).map(str::to_owned)
                    }
                    CodeBlockKind::Indented => None,
                };
            }
            Tag::Table(_) => {
                self.flush();
                self.grid = Some(Grid::default());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(grid) = &mut self.grid {
                    grid.row();
                }
            }
            Tag::FootnoteDefinition(name) => {
                self.flush();
                self.label = Some(format!("[{name}] "));
            }
            Tag::Link { dest_url, .. } => self.link = Some((dest_url.to_string(), self.inline.len())),
            Tag::Image { .. } => self.image = Some(self.inline.len()),
            Tag::HtmlBlock | Tag::MetadataBlock(_) => {
                self.flush();
                self.raw.clear();
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => {
                let text = self.text();
                self.parts.heading(level as u8, &text);
            }
            TagEnd::CodeBlock => {
                let text = std::mem::take(&mut self.inline);
                self.parts.code(self.language.take(), &text);
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                // An item without text must not mark the text after the list.
                self.item = None;
            }
            TagEnd::TableCell => {
                let text = self.text();
                if let Some(grid) = &mut self.grid {
                    let header = if grid.is_first_row() { Header::Yes } else { Header::No };
                    grid.cell(&text, header, 1, 1);
                }
            }
            TagEnd::Table => {
                if let Some(grid) = self.grid.take() {
                    self.parts.table(grid.finish(None));
                }
            }
            TagEnd::Link => {
                if let Some((address, start)) = self.link.take() {
                    self.end_link(&address, start);
                }
            }
            TagEnd::Image => self.end_image(),
            TagEnd::HtmlBlock => html::fragment(&std::mem::take(&mut self.raw), self.parts),
            TagEnd::MetadataBlock(_) => {
                let text = self.text();
                front_matter(&text, self.parts);
            }
            TagEnd::Paragraph | TagEnd::Item | TagEnd::BlockQuote(_) | TagEnd::FootnoteDefinition => {
                self.flush();
            }
            _ => {}
        }
    }

    /// Keeps the address of a link if a reader would recognize it as an address.
    fn end_link(&mut self, address: &str, start: usize) {
        let shown = self.inline.get(start..).unwrap_or_default();
        if address.contains("://") && !shown.is_empty() && !shown.contains(address) && self.image.is_none() {
            self.inline.push_str(&format!(" ({address})"));
        }
    }

    fn end_image(&mut self) {
        let Some(start) = self.image.take() else { return };
        let alone =
            self.grid.is_none() && self.inline.get(..start).is_some_and(|before| before.trim().is_empty());
        if alone {
            let caption = self.inline.split_off(start);
            self.parts.image(&caption);
        }
    }

    fn text(&mut self) -> String {
        let text = std::mem::take(&mut self.inline);
        if !text.contains('\u{1f}') {
            return text;
        }
        text.split('\u{1f}').fold(String::new(), join)
    }

    fn flush(&mut self) {
        let text = self.text();
        if text.trim().is_empty() {
            return;
        }
        match self.item.take() {
            Some(marker) => {
                let depth = u8::try_from(self.lists.len().saturating_sub(1)).unwrap_or(u8::MAX);
                self.parts.item(depth, &format!("{marker}{text}"));
            }
            None => {
                let label = self.label.take().unwrap_or_default();
                self.parts.paragraph(&(label + &text));
            }
        }
    }
}

/// Reads the metadata above the document: `title: …` or `title = …`.
fn front_matter(text: &str, parts: &mut PartCollector) {
    for line in text.lines() {
        let Some((key, value)) = line.split_once([':', '=']) else { continue };
        let value = value.trim().trim_matches(['"', '\'', '[', ']']);
        match key.trim() {
            "title" => parts.say("title", value),
            "author" | "authors" => parts.say("author", value),
            "date" => parts.say("date", value),
            _ => {}
        }
    }
}
