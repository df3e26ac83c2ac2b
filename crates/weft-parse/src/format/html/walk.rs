//! From the tree of a page to its parts.

use super::super::epub::unescaped;
use super::super::numeral::numeral;
use super::data_uri;
use super::dom::{Dom, DomNodeKind, Id};
use super::formula;
use crate::archive::beside;
use crate::grid::{Grid, Header};
use crate::parts::PartCollector;

/// Adds what is below a node.
pub(super) fn walk(dom: &Dom, root: Id, parts: &mut PartCollector) {
    walk_from(dom, root, None, parts);
}

/// Adds all of a chapter that is at this path of a book.
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
    // Nodes to enter and, once their children are done, to leave.
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

/// What nobody reads: programs, forms, menus, and what is hidden.
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
        // How a word is said, which would stand in the middle of it.
        "rt" | "rp" | "rtc" => true,
        // The page in other languages.
        "a" if dom.attribute(id, "hreflang").is_some() => true,
        _ => is_hidden(),
    }
}

/// Tables inside one another that are taken for the layout of a page, at most: each is looked through.
const LAYOUTS_MAX: usize = 20;
/// Nodes that are looked through for what a raised text begins with, at most.
const RAISED_MAX: usize = 20;

/// Whether a table only puts the parts of a page beside each other: it has titles and tables in it. That it says so is no
/// sign, since mails say so of tables with values as well.
fn serves_layout(dom: &Dom, id: Id) -> bool {
    let holds = |names: &[&str]| dom.below(id).skip(1).any(|below| names.contains(&dom.name(below)));
    holds(&["table"]) && holds(&["h1", "h2", "h3", "h4", "h5", "h6"])
}

enum WalkStep {
    Enter(Id),
    Leave(Id),
}

struct List {
    /// The number of the next item and how it is shown, where items are numbered.
    number: Option<(u32, &'static str)>,
}

struct OpenTable {
    grid: Grid,
    caption: Option<String>,
    /// Text around the table, which goes on after it.
    outside: String,
}

struct HtmlWalk<'a> {
    dom: &'a Dom,
    /// Where in an archive the page is.
    path: Option<&'a str>,
    parts: &'a mut PartCollector,
    /// Text since the last block began.
    inline: String,
    heading: Option<u8>,
    lists: Vec<List>,
    /// What stands before the item that has just begun.
    item: Option<String>,
    tables: Vec<OpenTable>,
    /// How many tables are open that serve the layout.
    layouts: usize,
    /// The element whose text is taken as it is.
    code: Option<Id>,
}

impl HtmlWalk<'_> {
    /// Whether what is in it is looked at.
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
            // In a table it is a part of its cell.
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
                // Blanks only: the parser moves text between rows in front of the table.
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
                // An item without text must not mark what comes after the list.
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
        // Ends of lines mean nothing here; `br` does.
        self.inline.extend(text.chars().map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c }));
    }

    /// Keeps a power, or the number of a note, from becoming a digit of the number that it stands behind.
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

    /// Whether what comes now stands by itself, in no text that has begun.
    fn is_between_blocks(&self) -> bool {
        self.tables.is_empty() && self.inline.trim().is_empty() && self.heading.is_none()
    }

    /// What was read in a picture: a paragraph of its own, or a part of the text that it stands in.
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
            // A table within a cell is part of its text.
            for row in table.rows {
                self.inline.push(' ');
                self.inline.push_str(&row.join(" "));
            }
        } else if table.rows.iter().all(|row| row.iter().filter(|cell| !cell.is_empty()).count() <= 1) {
            // With one cell a row it serves the layout.
            for text in table.rows.iter().flatten() {
                self.parts.paragraph(text);
            }
        } else {
            self.parts.table(table);
        }
    }

    /// The block ends: what has been gathered is a part.
    fn flush(&mut self) {
        if !self.tables.is_empty() {
            // The blocks in a cell are one text.
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

/// The language of a program, as highlighters write it into the class.
fn language(dom: &Dom, id: Id) -> Option<String> {
    dom.below(id).filter_map(|id| dom.attribute(id, "class")).flat_map(str::split_whitespace).find_map(
        |class| {
            let name = class.strip_prefix("language-").or_else(|| class.strip_prefix("lang-"))?;
            Some(name.to_owned()).filter(|name| !name.is_empty())
        },
    )
}
