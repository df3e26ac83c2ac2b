//! XML: feeds are read as lists of articles, everything else as values labelled with the names of their elements.

mod values;

use super::{FileContents, FileFormat, FileInput, ReadResult, html};
use crate::markup::{Tag, Xml, XmlNode, escaped, written};
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;
use crate::words::line;

/// Any XML, with special support for RSS and Atom.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "XML",
    endings: &[
        "xml", "rss", "atom", "rdf", "xsd", "xsl", "xslt", "opml", "kml", "gpx", "dita", "fb2", "plist",
    ],
    is_binary: false,
    looks: |contents: &FileContents<'_>| contents.text().trim_start().starts_with("<?xml"),
    read,
};

fn read(file: &FileInput<'_>) -> ReadResult {
    let text = written(file.bytes);
    let mut parts = PartCollector::default();
    match root(&text)?.as_deref() {
        Some("rss" | "RDF" | "feed") => {
            let mut found = PartCollector::default();
            feed(&text, &mut found)?;
            let found = found.finish();
            // A document without anything that feeds contain is read as arbitrary XML: RDF has many other uses.
            if !found.elements.is_empty() {
                return Ok(found);
            }
            values::add(&text, &mut parts)?;
        }
        Some("html") => html::page(&text, &mut parts),
        Some(_) => values::add(&text, &mut parts)?,
        None => return Err(Unreadable::new("it has no element")),
    }
    Ok(parts.finish())
}

fn root(text: &str) -> Result<Option<String>, Unreadable> {
    let mut xml = Xml::new(text);
    while let Some(node) = xml.next()? {
        if let XmlNode::Open(tag) = node {
            return Ok(Some(tag.name().to_owned()));
        }
    }
    Ok(None)
}

/// Maximum number of categories of one article.
const CATEGORIES_MAX: usize = 100;

/// Whether an element of a feed may contain the text of an article.
fn is_text(name: &str) -> bool {
    matches!(name, "description" | "encoded" | "content" | "summary" | "subtitle" | "fullitem")
}

/// Whether the text of an article is given as child elements instead of escaped markup.
fn is_inline(tag: &Tag<'_>) -> bool {
    let kind = tag.attribute("type");
    is_text(tag.name()) && kind.is_some_and(|kind| kind == "xhtml" || kind == "application/xhtml+xml")
}

/// The markup up to the end of the element that has just begun.
fn inner_markup(xml: &mut Xml<'_>) -> Result<String, Unreadable> {
    let (mut markup, mut open) = (String::new(), 0_usize);
    while let Some(node) = xml.next()? {
        match node {
            XmlNode::Open(tag) => {
                open += 1;
                markup.extend(["<", tag.name(), ">"]);
            }
            XmlNode::Text(text) => markup.push_str(&escaped(&text)),
            XmlNode::Close(_) if open == 0 => break,
            XmlNode::Close(name) => {
                open -= 1;
                markup.extend(["</", name.as_str(), ">"]);
            }
        }
    }
    Ok(markup)
}

/// What a feed says about an article, or about itself.
#[derive(Default)]
struct FeedEntry {
    title: String,
    author: String,
    date: String,
    link: String,
    /// Categories of the article.
    categories: Vec<String>,
    /// The longest of the texts found.
    text: String,
}

impl FeedEntry {
    fn take(&mut self, name: &str, text: &str) {
        let field = match name {
            "title" => &mut self.title,
            "author" | "creator" | "name" | "managingEditor" => &mut self.author,
            "pubDate" | "date" | "published" | "updated" | "lastBuildDate" => &mut self.date,
            "link" => &mut self.link,
            "category" => {
                let text = line(text);
                let is_new = !text.is_empty() && !self.categories.contains(&text);
                if is_new && self.categories.len() < CATEGORIES_MAX {
                    self.categories.push(text);
                }
                return;
            }
            name if is_text(name) => {
                if text.len() > self.text.len() {
                    text.clone_into(&mut self.text);
                }
                return;
            }
            _ => return,
        };
        // The first one wins: a feed may repeat the same value in several elements.
        if field.is_empty() {
            *field = line(text);
        }
    }

    fn add(&self, level: u8, parts: &mut PartCollector) {
        parts.heading(level, &html_line(&self.title));
        let about: Vec<&str> =
            [&*self.author, &*self.date, &*self.link].into_iter().filter(|one| !one.is_empty()).collect();
        parts.paragraph(&about.join(" · "));
        html::fragment(&self.text, parts);
        parts.paragraph(&self.categories.join(", "));
    }
}

/// A title that may contain HTML.
fn html_line(text: &str) -> String {
    let mut parts = PartCollector::default();
    html::fragment(text, &mut parts);
    let texts = parts.finish().elements.into_iter().filter_map(|element| match element.body {
        crate::element::ElementBody::Paragraph(text) => Some(text),
        _ => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}

fn feed(text: &str, parts: &mut PartCollector) -> Result<(), Unreadable> {
    let mut xml = Xml::new(text);
    let (mut about, mut entry) = (FeedEntry::default(), None::<FeedEntry>);
    let mut shown = false;
    let mut inner = String::new();
    // Pictures of a feed have titles and links of their own.
    let mut image = false;
    while let Some(node) = xml.next()? {
        match node {
            XmlNode::Open(tag) => {
                inner.clear();
                match tag.name() {
                    "item" | "entry" => {
                        // Added before the first article, which ends the description of the feed itself.
                        show_feed(&about, &mut shown, parts);
                        entry = Some(FeedEntry::default());
                    }
                    "image" => image = true,
                    "link" => {
                        if let Some(address) = tag.attribute("href") {
                            entry.as_mut().unwrap_or(&mut about).take("link", &address);
                        }
                    }
                    "category" => {
                        if let Some(term) = tag.attribute("term") {
                            entry.as_mut().unwrap_or(&mut about).take("category", &term);
                        }
                    }
                    name if is_inline(&tag) => {
                        let markup = inner_markup(&mut xml)?;
                        entry.as_mut().unwrap_or(&mut about).take(name, &markup);
                    }
                    _ => {}
                }
            }
            XmlNode::Text(text) => inner.push_str(&text),
            XmlNode::Close(name) => match name.as_str() {
                "item" | "entry" => {
                    if let Some(entry) = entry.take() {
                        entry.add(2, parts);
                    }
                }
                "image" => image = false,
                name if !image => {
                    entry.as_mut().unwrap_or(&mut about).take(name, &inner);
                    inner.clear();
                }
                _ => inner.clear(),
            },
        }
    }
    show_feed(&about, &mut shown, parts);
    Ok(())
}

fn show_feed(about: &FeedEntry, shown: &mut bool, parts: &mut PartCollector) {
    if !std::mem::replace(shown, true) {
        parts.say("title", &about.title);
        parts.say("author", &about.author);
        parts.say("date", &about.date);
        about.add(1, parts);
    }
}
