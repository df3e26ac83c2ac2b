//! Numbers of lists and headings: what styles say of them, and how far they have come.

use std::collections::HashMap;

use crate::format::Unreadable;
use crate::format::numeral::numeral;
use crate::markup::{Tag, Xml, XmlNode};
use crate::words::beginning;

/// Levels of a list.
const LEVELS: usize = 10;
/// Characters of a name or of what stands around a number, at most. They stand in a file once and are told often.
const VALUE_CHARS_MAX: usize = 255;

/// A level that is numbered.
#[derive(Debug)]
struct NumberedLevel {
    /// By the names that Word has; empty for numbers that are not shown.
    format: &'static str,
    prefix: String,
    suffix: String,
    start: u32,
    /// How many levels are shown, this one and those above it.
    shown: usize,
}

/// The numbered levels of a style, the outermost one is 0.
type Levels = HashMap<usize, NumberedLevel>;

/// The numbers that a list has come to on its levels.
type Counts = [Option<u32>; LEVELS];

/// A list that has begun.
#[derive(Debug)]
struct OpenList {
    style: String,
    id: Option<String>,
    /// Whether an item has begun of which nothing has been read.
    is_new: bool,
    /// The number that this item says it has.
    start: Option<u32>,
}

/// The lists of a text.
#[derive(Debug, Default)]
pub(super) struct Lists {
    styles: HashMap<String, Levels>,
    outline: Levels,
    headings: Counts,
    /// Lists within one another, which count together.
    open: Vec<OpenList>,
    counts: Counts,
    /// How far lists had come when they ended: by their ids, and the last one of each style.
    by_id: HashMap<String, Counts>,
    by_style: HashMap<String, Counts>,
}

fn value(tag: &Tag<'_>, name: &str) -> Option<String> {
    tag.attribute(name).map(|value| beginning(&value, VALUE_CHARS_MAX).to_owned())
}

impl Lists {
    /// Adds the styles that stand in a part of a file.
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

    /// A list begins, perhaps within another one.
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

    /// An item of the innermost list begins.
    pub(super) fn begin_item(&mut self, tag: &Tag<'_>) {
        if let Some(list) = self.open.last_mut() {
            (list.is_new, list.start) = (true, tag.number("start-value"));
        }
    }

    /// The innermost list ends.
    pub(super) fn end_list(&mut self) {
        let Some(list) = self.open.pop() else { return };
        if self.open.is_empty() && self.counts[0].is_some() {
            if let Some(id) = list.id {
                self.by_id.insert(id, self.counts);
            }
            self.by_style.insert(list.style, self.counts);
        }
    }

    /// The number that stands before the next paragraph of a list; empty before all but the first one of an item.
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

    /// The number that stands before the next heading of a level, from 1 on.
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

/// Counts on, and gives what is shown.
fn next(levels: &Levels, counts: &mut Counts, at: usize, start: Option<u32>) -> String {
    let first = |level: usize| levels.get(&level).map_or(1, |level| level.start);
    counts[at] = start.or_else(|| counts[at].map(|count| count.saturating_add(1))).or(Some(first(at)));
    counts[at + 1..].fill(None);
    let Some(this) = levels.get(&at).filter(|level| !level.format.is_empty()) else { return String::new() };
    let outermost = (at + 1).saturating_sub(this.shown.max(1));
    let shown = (outermost..=at).filter_map(|number| {
        let level = levels.get(&number).filter(|level| !level.format.is_empty())?;
        // A level above may have had no paragraph yet: it counts as its first one.
        Some(numeral(counts[number].unwrap_or(level.start), level.format))
    });
    let shown: Vec<String> = shown.collect();
    format!("{}{}{}", this.prefix, shown.join("."), this.suffix)
}
