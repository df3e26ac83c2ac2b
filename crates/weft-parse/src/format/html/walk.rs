//! Converts the tree of a page into the elements of a document.

use super::super::epub::unescaped;
use super::super::numeral::numeral;
use super::data_uri;
use super::dom::{Dom, DomNodeKind, Id};
use super::formula;
use crate::archive::beside;
use crate::grid::{Grid, Header};
use crate::parts::PartCollector;

/// Adds the elements below a node.
pub(super) fn walk(dom: &Dom, root: Id, parts: &mut PartCollector) {
    walk_from(dom, root, None, parts);
}

/// Adds a whole chapter, which is at this path of a book.
pub(super) fn walk_chapter(dom: &Dom, path: &str, parts: &mut PartCollector) {
    walk_from(dom, Dom::ROOT, Some(path), parts);
}

fn walk_from(dom: &Dom, root: Id, path: Option<&str>, parts: &mut PartCollector) {
    let mut walk = HtmlWalk {
        dom,
        path,
        parts,
        inline: String::new(),
        heading: None,
        lists: Vec::new(),
        tables: Vec::new(),
        layouts: 0,
        code: None,
        item: None,
    };
    // A stack of nodes to enter and, once their children are done, to leave.
    let mut open = vec![WalkStep::Enter(root)];
    while let Some(step) = open.pop() {
        match step {
            WalkStep::Enter(id) => {
                if walk.enter(id) {
                    open.push(WalkStep::Leave(id));
                    open.extend(dom.children(id).iter().rev().map(|child| WalkStep::Enter(*child)));
                }
            }
            WalkStep::Leave(id) => walk.leave(id),
        }
        if walk.parts.is_full() {
            return;
        }
    }
    walk.flush();
}

/// Whether a node is skipped: scripts, forms, menus, and hidden content.
pub(super) fn is_passed_over(dom: &Dom, id: Id) -> bool {
    let is_hidden = || {
        dom.attribute(id, "hidden").is_some()
            || dom.attribute(id, "aria-hidden") == Some("true")
            || dom.attribute(id, "role") == Some("navigation")
            || dom.attribute(id, "style").is_some_and(|style| {
                style.split(';').any(|rule| {
                    rule.split_once(':')
                        .is_some_and(|(key, value)| key.trim() == "display" && value.trim() == "none")
                })
            })
    };
    match dom.name(id) {
        "" => false,
        "head" | "script" | "style" | "noscript" | "template" | "iframe" | "object" | "svg" | "canvas"
        | "select" | "button" | "input" | "textarea" | "nav" | "footer" | "audio" | "video" => true,
        // Pronunciations, which would appear in the middle of the word.
        "rt" | "rp" | "rtc" => true,
        // Links to the page in other languages.
        "a" if dom.attribute(id, "hreflang").is_some() => true,
        _ => is_hidden(),
    }
}

/// Maximum nesting depth of tables that are examined as possible layout tables: each one is searched.
const LAYOUTS_MAX: usize = 20;
/// Maximum number of nodes that are searched for the first character of a superscript.
const RAISED_MAX: usize = 20;

/// Whether a table only arranges the parts of a page: it contains headings and tables. Its `role` attribute does not
/// count, since mails also set it on tables of data.
fn serves_layout(dom: &Dom, id: Id) -> bool {
    let holds = |names: &[&str]| dom.below(id).skip(1).any(|below| names.contains(&dom.name(below)));
    holds(&["table"]) && holds(&["h1", "h2", "h3", "h4", "h5", "h6"])
}

enum WalkStep {
    Enter(Id),
    Leave(Id),
}

struct List {
    /// For a numbered list, the number of the next item and its format.
    number: Option<(u32, &'static str)>,
}

struct OpenTable {
    grid: Grid,
    caption: Option<String>,
    /// Text around the table, which continues after it.
    outside: String,
}

struct HtmlWalk<'a> {
    dom: &'a Dom,
    /// Path of the page in an archive.
    path: Option<&'a str>,
    parts: &'a mut PartCollector,
    /// Text since the start of the current block.
    inline: String,
    heading: Option<u8>,
    lists: Vec<List>,
    /// Marker of the item that has just begun.
    item: Option<String>,
    tables: Vec<OpenTable>,
    /// Number of open layout tables.
    layouts: usize,
    /// The element whose text is taken verbatim.
    code: Option<Id>,
}

impl HtmlWalk<'_> {
    /// Enters a node and returns whether its children are visited.
    fn enter(&mut self, id: Id) -> bool {
        if let DomNodeKind::Text(text) = self.dom.kind(id) {
            self.text(text);
            return false;
        }
        if is_passed_over(self.dom, id) {
            return false;
        }
        match self.dom.name(id) {
            "br" => self.inline.push('\n'),
            "hr" => self.flush(),
            "img" => {
                self.image(self.dom.attribute(id, "alt").unwrap_or_default());
                self.picture_text(id);
            }
            "math" => {
                let text = formula::written(self.dom, id);
                self.text(&text);
            }
            _ if self.code.is_some() => return true,
            name => {
                self.enter_block(id, name);
                return true;
            }
        }
        false
    }

    fn enter_block(&mut self, id: Id, name: &str) {
        match name {
            // In a table it is part of its cell.
            "pre" if self.tables.is_empty() => {
                self.flush();
                self.code = Some(id);
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.flush();
                self.heading = name[1..].parse().ok();
            }
            "ul" | "menu" | "dl" => self.list(None),
            "ol" => {
                let start = self.dom.attribute(id, "start").and_then(|start| start.trim().parse().ok());
                let format = match self.dom.attribute(id, "type") {
                    Some("a") => "lowerLetter",
                    Some("A") => "upperLetter",
                    Some("i") => "lowerRoman",
                    Some("I") => "upperRoman",
                    _ => "decimal",
                };
                self.list(Some((start.unwrap_or(1), format)));
            }
            "li" | "dt" | "dd" => self.begin_item(id),
            "sup" => self.raise(id),
            "table"
                if self.tables.is_empty() && self.layouts < LAYOUTS_MAX && serves_layout(self.dom, id) =>
            {
                self.flush();
                self.layouts += 1;
            }
            "table" => {
                if self.tables.is_empty() {
                    self.flush();
                }
                let grid = if self.tables.is_empty() { Grid::default() } else { Grid::inner() };
                let outside = std::mem::take(&mut self.inline);
                self.tables.push(OpenTable { grid, caption: None, outside });
            }
            "tr" => {
                // This is white space only: the parser moves text between rows to before the table.
                self.inline.clear();
                if let Some(table) = self.tables.last_mut() {
                    table.grid.row();
                }
            }
            "td" | "th" | "caption" if !self.tables.is_empty() => self.inline.clear(),
            name if is_block(name) => self.flush(),
            _ => {}
        }
    }

    fn leave(&mut self, id: Id) {
        if self.code == Some(id) {
            self.code = None;
            let text = std::mem::take(&mut self.inline);
            self.parts.code(language(self.dom, id), &text);
            return;
        }
        if self.code.is_some() {
            return;
        }
        match self.dom.name(id) {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.flush();
                self.heading = None;
            }
            "ul" | "ol" | "menu" | "dl" => {
                self.flush();
                self.lists.pop();
                // An item without text must not mark the text after the list.
                self.item = None;
            }
            "td" | "th" if self.tables.is_empty() => self.flush(),
            name @ ("td" | "th") => self.cell(id, if name == "th" { Header::Yes } else { Header::No }),
            "caption" if !self.tables.is_empty() => {
                let text = std::mem::take(&mut self.inline);
                if let Some(table) = self.tables.last_mut() {
                    table.caption = Some(text);
                }
            }
            "table" if self.tables.is_empty() => {
                self.flush();
                self.layouts = self.layouts.saturating_sub(1);
            }
            "table" => self.end_table(),
            name if is_block(name) => self.flush(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.code.is_some() {
            self.inline.push_str(text);
            return;
        }
        // Line breaks in the source mean nothing here; `br` does.
        self.inline.extend(text.chars().map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c }));
    }

    /// Keeps a superscript digit, such as an exponent or the number of a note, apart from the number that it follows.
    fn raise(&mut self, id: Id) {
        let is_digit = |c: char| c.is_ascii_digit();
        if !self.inline.ends_with(is_digit) {
            return;
        }
        let first = self.dom.below(id).take(RAISED_MAX).find_map(|id| match self.dom.kind(id) {
            DomNodeKind::Text(text) => text.trim_start().chars().next(),
            _ => None,
        });
        if first.is_some_and(is_digit) {
            self.inline.push('^');
        }
    }

    fn image(&mut self, alt: &str) {
        if self.is_between_blocks() {
            self.parts.image(alt);
        } else {
            self.text(&format!(" {alt} "));
        }
    }

    /// Whether the next text is a block of its own, rather than part of a text that has begun.
    fn is_between_blocks(&self) -> bool {
        self.tables.is_empty() && self.inline.trim().is_empty() && self.heading.is_none()
    }

    /// Adds the text read in a picture: as a paragraph of its own, or as part of the surrounding text.
    fn picture_text(&mut self, id: Id) {
        let Some(source) = self.dom.attribute(id, "src") else { return };
        let in_book = || self.path.map(|path| beside(path, &unescaped(source)));
        let Some(part) = data_uri::part(source).or_else(in_book) else { return };
        let Some(read) = self.parts.picture_text(&part) else { return };
        if self.is_between_blocks() {
            self.parts.read_paragraph(&read);
        } else {
            self.parts.shows(read.picture);
            self.text(&format!(" {} ", read.text));
        }
    }

    fn list(&mut self, number: Option<(u32, &'static str)>) {
        self.flush();
        self.lists.push(List { number });
    }

    fn begin_item(&mut self, id: Id) {
        self.flush();
        let said = self.dom.attribute(id, "value").and_then(|value| value.trim().parse().ok());
        let marker = self.lists.last_mut().and_then(|list| {
            let (number, format) = list.number.as_mut()?;
            let this = said.unwrap_or(*number);
            *number = this.saturating_add(1);
            Some(format!("{}. ", numeral(this, format)))
        });
        self.item = Some(marker.unwrap_or_default());
    }

    fn cell(&mut self, id: Id, header: Header) {
        let text = std::mem::take(&mut self.inline);
        let span = |name| {
            let span = self.dom.attribute(id, name).and_then(|span| span.trim().parse().ok());
            span.unwrap_or(1)
        };
        let (columns, rows) = (span("colspan"), span("rowspan"));
        if let Some(table) = self.tables.last_mut() {
            table.grid.cell(&text, header, columns, rows);
        }
    }

    fn end_table(&mut self) {
        let Some(open) = self.tables.pop() else { return };
        let table = open.grid.finish(open.caption);
        self.inline = open.outside;
        if !self.tables.is_empty() {
            // A table within a cell is part of the cell's text.
            for row in table.rows {
                self.inline.push(' ');
                self.inline.push_str(&row.join(" "));
            }
        } else if table.rows.iter().all(|row| row.iter().filter(|cell| !cell.is_empty()).count() <= 1) {
            // A table with one cell in each row is a layout table.
            for text in table.rows.iter().flatten() {
                self.parts.paragraph(text);
            }
        } else {
            self.parts.table(table);
        }
    }

    /// Ends the block and adds the text collected for it.
    fn flush(&mut self) {
        if !self.tables.is_empty() {
            // The blocks in a cell form one text.
            self.inline.push(' ');
            return;
        }
        if self.inline.trim().is_empty() {
            self.inline.clear();
            return;
        }
        let text = std::mem::take(&mut self.inline);
        if let Some(level) = self.heading {
            self.parts.heading(level, &text);
        } else if let Some(marker) = self.item.take() {
            let depth = u8::try_from(self.lists.len().saturating_sub(1)).unwrap_or(u8::MAX);
            self.parts.item(depth, &format!("{marker}{}", text.trim_start()));
        } else {
            self.parts.paragraph(&text);
        }
    }
}

fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "body"
            | "center"
            | "dd"
            | "details"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "header"
            | "hgroup"
            | "html"
            | "li"
            | "main"
            | "p"
            | "pre"
            | "section"
            | "summary"
    )
}

/// Language of a code block, from the class names that syntax highlighters use.
fn language(dom: &Dom, id: Id) -> Option<String> {
    dom.below(id).filter_map(|id| dom.attribute(id, "class")).flat_map(str::split_whitespace).find_map(
        |class| {
            let name = class.strip_prefix("language-").or_else(|| class.strip_prefix("lang-"))?;
            Some(name.to_owned()).filter(|name| !name.is_empty())
        },
    )
}
