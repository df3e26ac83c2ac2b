//! Styles and lists of a document: heading levels and paragraph numbers.

use std::collections::HashMap;

use super::super::numeral::numeral;
use crate::markup::{Tag, Xml, XmlNode};
use crate::unreadable::Unreadable;
use crate::words::beginning;

/// Maximum length of a chain of styles based on one another.
const CHAIN_MAX: usize = 20;
/// Maximum number of characters in a name, a number or an id. They are stored once and looked up often.
const VALUE_CHARS_MAX: usize = 255;
/// Number of list levels.
const LEVELS: usize = 9;

/// A paragraph style, whose absent properties come from the style it is based on.
#[derive(Clone, Debug, Default)]
struct ParagraphStyle {
    name: String,
    based_on: Option<String>,
    outline: Option<u8>,
    list: Option<ListPlace>,
}

/// The styles of a document.
#[derive(Debug, Default)]
pub(super) struct Styles(HashMap<String, ParagraphStyle>);

/// A list and a level in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListPlace {
    /// Id of the list; empty if only the level is given.
    pub list: String,
    /// Level, starting at 0.
    pub level: usize,
}

fn value(tag: &Tag<'_>) -> String {
    let value = tag.attribute("val").unwrap_or_default();
    beginning(&value, VALUE_CHARS_MAX).to_owned()
}

impl Styles {
    /// Reads `styles.xml`.
    pub(super) fn read(text: &str) -> Result<Self, Unreadable> {
        let mut styles = HashMap::new();
        let mut xml = Xml::new(text);
        let (mut id, mut style) = (String::new(), ParagraphStyle::default());
        while let Some(node) = xml.next()? {
            match node {
                XmlNode::Open(tag) => match tag.name() {
                    "style" => {
                        (id, style) =
                            (tag.attribute("styleId").unwrap_or_default(), ParagraphStyle::default());
                    }
                    "name" => style.name = value(&tag).to_lowercase(),
                    "basedOn" => style.based_on = Some(value(&tag)),
                    "outlineLvl" => style.outline = value(&tag).parse().ok(),
                    "numId" => style.list.get_or_insert_default().list = value(&tag),
                    "ilvl" => {
                        style.list.get_or_insert_default().level = value(&tag).parse().unwrap_or_default();
                    }
                    _ => {}
                },
                XmlNode::Close(name) if name == "style" => {
                    styles.insert(std::mem::take(&mut id), std::mem::take(&mut style));
                }
                _ => {}
            }
        }
        Ok(Self(styles))
    }

    /// A style and those that it is based on, in order.
    fn chain(&self, id: &str) -> impl Iterator<Item = &ParagraphStyle> {
        // Limited, because styles may be based on each other in a cycle.
        let mut next = self.0.get(id);
        std::iter::from_fn(move || {
            let this = next?;
            next = this.based_on.as_ref().and_then(|id| self.0.get(id));
            Some(this)
        })
        .take(CHAIN_MAX)
    }

    /// The heading level of paragraphs of this style, if they are headings.
    pub(super) fn heading(&self, id: &str) -> Option<u8> {
        if let Some(outline) = self.chain(id).find_map(|style| style.outline) {
            return outline_level(outline);
        }
        // Names are English whatever the language of Word; only the ids are translated.
        self.chain(id).find_map(|style| match style.name.as_str() {
            "title" => Some(1),
            name => name.strip_prefix("heading ").and_then(|level| level.trim().parse().ok()),
        })
    }

    /// The list that paragraphs of this style belong to.
    pub(super) fn list(&self, id: &str) -> Option<ListPlace> {
        self.chain(id).find_map(|style| style.list.clone()).filter(|place| !place.list.is_empty())
    }

    /// Whether this is the style of a heading, or of the title above a table of contents.
    pub(super) fn is_title(&self, id: &str) -> bool {
        self.heading(id).is_some() || self.chain(id).any(|style| style.name == "toc heading")
    }

    /// Whether this is the style of an entry in a table of contents, which repeats a heading.
    pub(super) fn is_contents(&self, id: &str) -> bool {
        self.chain(id).any(|style| style.name.starts_with("toc ") && style.name != "toc heading")
    }
}

/// There are nine heading levels; the tenth outline level is body text.
pub(super) fn outline_level(outline: u8) -> Option<u8> {
    (outline < 9).then_some(outline + 1)
}

/// One level of a list.
#[derive(Clone, Debug, Default)]
struct ListLevel {
    format: String,
    /// Pattern of the displayed number: `%1.%2`.
    shown: String,
    start: u32,
    /// The level, starting at 1, below which the numbering restarts; 0 for none; if absent, it restarts below any
    /// higher level.
    restart: Option<usize>,
    /// Whether the numbers of all levels are shown in decimal digits.
    is_legal: bool,
}

impl ListLevel {
    fn read(&mut self, tag: &Tag<'_>) {
        match tag.name() {
            "numFmt" => self.format = value(tag),
            "lvlText" => self.shown = value(tag),
            "start" => self.start = value(tag).parse().unwrap_or(1),
            "lvlRestart" => self.restart = tag.number("val"),
            _ => self.is_legal = true,
        }
    }
}

/// The lists of a document, and their current numbers.
#[derive(Debug, Default)]
pub(super) struct DocxLists {
    /// The abstract list of each list.
    kinds: HashMap<String, String>,
    levels: HashMap<String, Vec<ListLevel>>,
    /// Levels in which a list differs from its abstract list.
    own: HashMap<String, HashMap<usize, ListLevel>>,
    /// Numbers at which a list restarts.
    starts: HashMap<(String, usize), u32>,
    /// Current numbers of each abstract list.
    counts: HashMap<String, [u32; LEVELS]>,
    /// Lists that have begun.
    begun: std::collections::HashSet<(String, usize)>,
}

impl DocxLists {
    /// Reads `numbering.xml`.
    pub(super) fn read(text: &str) -> Result<Self, Unreadable> {
        let mut lists = Self::default();
        let mut xml = Xml::new(text);
        let (mut kind, mut list, mut level) = (String::new(), String::new(), 0_usize);
        // Abstract lists by the styles that they define, and abstract lists that refer to such a style.
        let (mut styled, mut links) = (HashMap::new(), HashMap::new());
        while let Some(node) = xml.next()? {
            let XmlNode::Open(tag) = node else { continue };
            match tag.name() {
                "abstractNum" => {
                    kind = tag.attribute("abstractNumId").unwrap_or_default();
                    list.clear();
                    lists.levels.insert(kind.clone(), vec![ListLevel::default(); LEVELS]);
                }
                "styleLink" => drop(styled.insert(value(&tag), kind.clone())),
                "numStyleLink" => drop(links.insert(kind.clone(), value(&tag))),
                "num" => list = tag.attribute("numId").unwrap_or_default(),
                "abstractNumId" => drop(lists.kinds.insert(list.clone(), value(&tag))),
                "lvl" | "lvlOverride" => {
                    level = tag.number("ilvl").unwrap_or_default();
                }
                "startOverride" => {
                    lists.starts.insert((list.clone(), level), value(&tag).parse().unwrap_or(1));
                }
                "numFmt" | "lvlText" | "start" | "lvlRestart" | "isLgl" => {
                    let found = if list.is_empty() {
                        lists.levels.get_mut(&kind).and_then(|levels| levels.get_mut(level))
                    } else {
                        Some(lists.own.entry(list.clone()).or_default().entry(level).or_default())
                    };
                    found.into_iter().for_each(|level| level.read(&tag));
                }
                _ => {}
            }
        }
        for kind in lists.kinds.values_mut() {
            if let Some(linked) = links.get(&*kind).and_then(|style| styled.get(style)) {
                kind.clone_from(linked);
            }
        }
        Ok(lists)
    }

    /// Number of the next paragraph at this level; empty for a bullet.
    pub(super) fn next(&mut self, place: &ListPlace) -> String {
        let at = place.level.min(LEVELS - 1);
        let Some(kind) = self.kinds.get(&place.list).cloned() else { return String::new() };
        let Some(levels) = self.levels.get(&kind) else { return String::new() };
        let own = self.own.get(&place.list);
        let level = |number: usize| own.and_then(|own| own.get(&number)).unwrap_or(&levels[number]);
        let counts = self.counts.entry(kind).or_insert([0; LEVELS]);
        // Lists with the same abstract list continue its numbers; a list that restarts does so once.
        if self.begun.insert((place.list.clone(), at))
            && let Some(start) = self.starts.get(&(place.list.clone(), at))
        {
            counts[at] = start.saturating_sub(1);
        } else if counts[at] == 0 {
            // The count 0 means that the level has not begun, so a list that starts at 0 starts at 1.
            counts[at] = level(at).start.max(1) - 1;
        }
        counts[at] = counts[at].saturating_add(1);
        for (below, count) in counts.iter_mut().enumerate().skip(at + 1) {
            if level(below).restart.is_none_or(|after| at < after) {
                *count = 0;
            }
        }
        if matches!(level(at).format.as_str(), "bullet" | "none") {
            return String::new();
        }
        let mut shown = level(at).shown.clone();
        for (number, count) in counts.iter().enumerate().take(at + 1) {
            let ListLevel { start, format, .. } = level(number);
            // A level above may have had no paragraph yet; then it counts as its first one.
            let count = if *count == 0 { (*start).max(1) } else { *count };
            let format = if level(at).is_legal { "decimal" } else { format };
            shown = shown.replace(&format!("%{}", number + 1), &numeral(count, format));
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_count_per_level() {
        let mut lists = DocxLists::read(
            r#"<w:numbering><w:abstractNum w:abstractNumId="0">
                 <w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>
                 <w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/></w:lvl>
               </w:abstractNum><w:num w:numId="5"><w:abstractNumId w:val="0"/></w:num>
               <w:num w:numId="6"><w:abstractNumId w:val="0"/>
                 <w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride></w:num></w:numbering>"#,
        )
        .unwrap();
        let mut next = |list: &str, level: usize| lists.next(&ListPlace { list: list.to_owned(), level });
        assert_eq!([next("5", 0), next("5", 1), next("5", 1)], ["1.", "1.a)", "1.b)"]);
        assert_eq!([next("5", 0), next("5", 1)], ["2.", "2.a)"]);
        assert_eq!([next("6", 0), next("6", 0)], ["7.", "8."]);
        assert_eq!(next("9", 0), "");
    }

    #[test]
    fn lists_have_their_own_levels_and_those_of_styles() {
        let mut lists = DocxLists::read(
            r#"<w:numbering><w:abstractNum w:abstractNumId="0"><w:styleLink w:val="Clauses"/>
                 <w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="%1."/></w:lvl>
                 <w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlRestart w:val="0"/>
                   <w:isLgl/><w:lvlText w:val="%1.%2"/></w:lvl></w:abstractNum>
               <w:abstractNum w:abstractNumId="1"><w:numStyleLink w:val="Clauses"/></w:abstractNum>
               <w:num w:numId="5"><w:abstractNumId w:val="1"/></w:num>
               <w:num w:numId="6"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/>
                 <w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="(%1)"/></w:lvl>
                 </w:lvlOverride></w:num></w:numbering>"#,
        )
        .unwrap();
        let mut next = |list: &str, level: usize| lists.next(&ListPlace { list: list.to_owned(), level });
        assert_eq!([next("5", 0), next("5", 1), next("5", 0), next("5", 1)], ["I.", "1.1", "II.", "2.2"]);
        assert_eq!([next("6", 0), next("6", 0)], ["(a)", "(b)"]);
    }

    #[test]
    fn cyclic_styles_terminate() {
        let styles = Styles::read(
            r#"<w:styles><w:style w:styleId="a"><w:basedOn w:val="b"/></w:style>
               <w:style w:styleId="b"><w:basedOn w:val="a"/></w:style>
               <w:style w:styleId="h"><w:name w:val="heading 2"/></w:style>
               <w:style w:styleId="mine"><w:basedOn w:val="h"/></w:style></w:styles>"#,
        )
        .unwrap();
        assert_eq!(
            [styles.heading("a"), styles.heading("h"), styles.heading("mine")],
            [None, Some(2), Some(2)]
        );
    }
}
