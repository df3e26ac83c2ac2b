//! Numbers of lists and headings: their styles, and the current counts.

use std::collections::HashMap;

use crate::format::numeral::numeral;
use crate::markup::{Tag, Xml, XmlNode};
use crate::unreadable::Unreadable;
use crate::words::beginning;

/// Number of list levels.
const LEVELS: usize = 10;
/// Maximum number of characters in a name, or in the text around a number. They are stored once and used often.
const VALUE_CHARS_MAX: usize = 255;

/// How one level of a list is numbered.
#[derive(Debug)]
struct NumberedLevel {
    /// Name of the number format, as in Word; empty for numbers that are not shown.
    format: &'static str,
    prefix: String,
    suffix: String,
    start: u32,
    /// Number of levels that are shown: this one and those above it.
    shown: usize,
}

/// The numbered levels of a style; the outermost is 0.
type Levels = HashMap<usize, NumberedLevel>;

/// Current numbers of a list, by level.
type Counts = [Option<u32>; LEVELS];

/// A list whose end has not been read yet.
#[derive(Debug)]
struct OpenList {
    style: String,
    id: Option<String>,
    /// Whether an item has begun whose first paragraph is still to come.
    is_new: bool,
    /// The number that this item sets.
    start: Option<u32>,
}

/// The lists of a text.
#[derive(Debug, Default)]
pub(super) struct OpenDocumentLists {
    styles: HashMap<String, Levels>,
    outline: Levels,
    headings: Counts,
    /// Open lists, from the outermost to the innermost, which share their counts.
    open: Vec<OpenList>,
    counts: Counts,
    /// The counts of lists that have ended: by id, and of the last list of each style.
    by_id: HashMap<String, Counts>,
    by_style: HashMap<String, Counts>,
}

fn value(tag: &Tag<'_>, name: &str) -> Option<String> {
    tag.attribute(name).map(|value| beginning(&value, VALUE_CHARS_MAX).to_owned())
}

impl OpenDocumentLists {
    /// Adds the styles in a part of a file.
    pub(super) fn read(&mut self, text: &str) -> Result<(), Unreadable> {
        let mut xml = Xml::new(text);
        let mut style: Option<String> = None;
        while let Some(node) = xml.next()? {
            let XmlNode::Open(tag) = node else { continue };
            let level = tag.number("level").and_then(|level: usize| level.checked_sub(1));
            let level = level.filter(|level| *level < LEVELS);
            match (tag.name(), level) {
                ("list-style", _) => style = value(&tag, "name"),
                ("list-level-style-number", Some(level)) => {
                    if let Some(style) = &style {
                        let levels = self.styles.entry(style.clone()).or_default();
                        levels.insert(level, NumberedLevel::read(&tag));
                    }
                }
                ("outline-level-style", Some(level)) => {
                    self.outline.insert(level, NumberedLevel::read(&tag));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Starts a list, which may be nested in another one.
    pub(super) fn begin_list(&mut self, tag: &Tag<'_>) {
        let around = self.open.last().map(|list| list.style.clone());
        let style = value(tag, "style-name").or(around).unwrap_or_default();
        if self.open.is_empty() {
            let goes_on = tag.attribute("continue-numbering").as_deref() == Some("true");
            let before = value(tag, "continue-list").and_then(|id| self.by_id.get(&id));
            let before = before.or_else(|| self.by_style.get(&style).filter(|_| goes_on));
            self.counts = before.copied().unwrap_or_default();
        }
        self.open.push(OpenList { style, id: value(tag, "id"), is_new: false, start: None });
    }

    /// Starts an item of the innermost list.
    pub(super) fn begin_item(&mut self, tag: &Tag<'_>) {
        if let Some(list) = self.open.last_mut() {
            (list.is_new, list.start) = (true, tag.number("start-value"));
        }
    }

    /// Ends the innermost list.
    pub(super) fn end_list(&mut self) {
        let Some(list) = self.open.pop() else { return };
        if self.open.is_empty() && self.counts[0].is_some() {
            if let Some(id) = list.id {
                self.by_id.insert(id, self.counts);
            }
            self.by_style.insert(list.style, self.counts);
        }
    }

    /// Number of the next paragraph of a list; empty for all but the first one of an item.
    pub(super) fn next(&mut self) -> String {
        let at = self.open.len().saturating_sub(1).min(LEVELS - 1);
        let Some(list) = self.open.last_mut() else { return String::new() };
        if !std::mem::take(&mut list.is_new) {
            return String::new();
        }
        let start = list.start.take();
        match self.styles.get(&list.style) {
            Some(levels) => next(levels, &mut self.counts, at, start),
            None => String::new(),
        }
    }

    /// Number of the next heading of a level, which starts at 1.
    pub(super) fn next_heading(&mut self, level: u8) -> String {
        let at = usize::from(level).saturating_sub(1).min(LEVELS - 1);
        next(&self.outline, &mut self.headings, at, None)
    }
}

impl NumberedLevel {
    fn read(tag: &Tag<'_>) -> Self {
        let format = match tag.attribute("num-format").unwrap_or_default().as_str() {
            "" => "",
            "a" => "lowerLetter",
            "A" => "upperLetter",
            "i" => "lowerRoman",
            "I" => "upperRoman",
            format if format.starts_with('一') => "chineseCounting",
            _ => "decimal",
        };
        Self {
            format,
            prefix: value(tag, "num-prefix").unwrap_or_default(),
            suffix: value(tag, "num-suffix").unwrap_or_default(),
            start: tag.number("start-value").unwrap_or(1),
            shown: tag.number("display-levels").unwrap_or(1),
        }
    }
}

/// Advances a count and returns the number as it is shown.
fn next(levels: &Levels, counts: &mut Counts, at: usize, start: Option<u32>) -> String {
    let first = |level: usize| levels.get(&level).map_or(1, |level| level.start);
    counts[at] = start.or_else(|| counts[at].map(|count| count.saturating_add(1))).or(Some(first(at)));
    counts[at + 1..].fill(None);
    let Some(this) = levels.get(&at).filter(|level| !level.format.is_empty()) else { return String::new() };
    let outermost = (at + 1).saturating_sub(this.shown.max(1));
    let shown = (outermost..=at).filter_map(|number| {
        let level = levels.get(&number).filter(|level| !level.format.is_empty())?;
        // A level above may have had no paragraph yet; then it counts as its first one.
        Some(numeral(counts[number].unwrap_or(level.start), level.format))
    });
    let shown: Vec<String> = shown.collect();
    format!("{}{}{}", this.prefix, shown.join("."), this.suffix)
}
