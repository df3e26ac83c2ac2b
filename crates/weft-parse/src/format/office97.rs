//! Documents of Word and presentations of PowerPoint from before 2007.
//!
//! The library gives them as Markdown, which is read as any other.

mod bullets;
mod slide_texts;

use std::io::Cursor;

use office_oxide::cfb::oleps::SummaryProperties;
use office_oxide::doc::DocDocument;
use office_oxide::ppt::PptDocument;

use super::{FileContents, FileFormat, FileInput, ReadResult, Unreadable, markdown};
use crate::archive::ArchiveKind;
use crate::parts::PartCollector;

/// Documents of Word 97 to 2003.
pub(super) const WORD: FileFormat = FileFormat {
    name: "DOC",
    endings: &["doc", "dot"],
    is_binary: true,
    looks: |contents: &FileContents<'_>| contents.container == Some(ArchiveKind::Word97),
    read: read_word,
};

/// Presentations of PowerPoint 97 to 2003.
pub(super) const POWERPOINT: FileFormat = FileFormat {
    name: "PPT",
    endings: &["ppt", "pps", "pot"],
    is_binary: true,
    looks: |contents: &FileContents<'_>| contents.container == Some(ArchiveKind::PowerPoint97),
    read: read_powerpoint,
};

fn read_word(file: &FileInput<'_>) -> ReadResult {
    let with_bullets = bullets::known(file.bytes);
    let document = DocDocument::from_reader(Cursor::new(with_bullets.as_deref().unwrap_or(file.bytes)))
        .map_err(|cause| Unreadable::because("the document cannot be opened", cause))?;
    let mut parts = PartCollector::default();
    properties(document.summary_properties(), &mut parts);
    markdown::add(&plain_signs(&document.to_markdown()), &mut parts);
    warn(document.warnings(), &mut parts);
    Ok(parts.finish())
}

fn read_powerpoint(file: &FileInput<'_>) -> ReadResult {
    let deck = PptDocument::from_reader(Cursor::new(file.bytes))
        .map_err(|cause| Unreadable::because("the presentation cannot be opened", cause))?;
    let mut parts = PartCollector::default();
    properties(deck.summary_properties(), &mut parts);
    let markdown = deck.to_markdown();
    let told = slides(&markdown);
    let said = slide_texts::of(file.bytes);
    for (number, slide) in told.iter().enumerate() {
        parts.page(None);
        markdown::add(&plain_signs(slide), &mut parts);
        // With fewer or more of them nobody knows which is which.
        if let Some(said) = said.get(number).filter(|_| said.len() == told.len()) {
            for text in missing(slide, &said.outline).chain(missing(slide, &said.notes)) {
                parts.paragraph(text);
            }
        }
    }
    warn(deck.warnings(), &mut parts);
    Ok(parts.finish())
}

/// Markdown of the library, in which signs that it never means as marks, and does not escape, stand for themselves.
fn plain_signs(markdown: &str) -> String {
    let mut plain = String::with_capacity(markdown.len());
    for sign in markdown.chars() {
        match sign {
            '&' => plain.push_str("&amp;"),
            '_' => plain.push_str("&#95;"),
            '$' => plain.push_str("&#36;"),
            '{' => plain.push_str("&#123;"),
            sign => plain.push(sign),
        }
    }
    plain
}

/// The paragraphs that a slide, as the library writes it, lacks.
fn missing<'a>(slide: &str, paragraphs: &'a [String]) -> impl Iterator<Item = &'a str> {
    // In Markdown some signs stand behind others.
    let letters = |text: &str| text.chars().filter(|sign| sign.is_alphanumeric()).collect::<String>();
    let there = letters(slide);
    paragraphs.iter().map(String::as_str).filter(move |text| !there.contains(&letters(text)))
}

/// The slides of a deck as the library writes them: each below a line with its number.
fn slides(text: &str) -> Vec<&str> {
    let mut slides = Vec::new();
    let mut rest = text;
    loop {
        // Only the number that is due, so that a heading of this kind within a slide does not cut it.
        let next = format!("## Slide {}\n", slides.len() + 1);
        let Some(at) = rest.find(&next) else { break };
        if let Some(last) = slides.last_mut() {
            *last = &rest[..at];
        }
        rest = &rest[at + next.len()..];
        slides.push(rest);
    }
    if slides.is_empty() { vec![text] } else { slides }
}

fn properties(properties: Option<&SummaryProperties>, parts: &mut PartCollector) {
    let Some(properties) = properties else { return };
    let said = [
        ("title", &properties.title),
        ("author", &properties.author),
        ("date", &properties.modified),
        ("date", &properties.created),
    ];
    for (key, value) in said {
        parts.say(key, value.as_deref().unwrap_or_default());
    }
}

fn warn(warnings: &[String], parts: &mut PartCollector) {
    for warning in warnings {
        parts.warn(warning.chars().take(300).collect::<String>());
    }
}

#[cfg(test)]
mod tests {
    use super::{markdown, missing, plain_signs, slides};
    use crate::element::ElementBody;
    use crate::parts::PartCollector;

    #[test]
    fn signs_of_the_text_are_no_marks() {
        let said = "def __init__(self): R&amp;D, $x$ and $y$, _a_ [here](http://a.example/b_c_d?e=1&f=2)";
        let mut parts = PartCollector::default();
        markdown::add(&plain_signs(&format!("# Sets {{a b}}\n\n{said}\n")), &mut parts);
        let texts = parts.finish().elements.into_iter().map(|element| match element.body {
            ElementBody::Heading { text, .. } | ElementBody::Paragraph(text) => text,
            other => panic!("{other:?}"),
        });
        let texts: Vec<String> = texts.collect();
        let expected = "def __init__(self): R&amp;D, $x$ and $y$, _a_ here (http://a.example/b_c_d?e=1&f=2)";
        assert_eq!(texts, ["Sets {a b}", expected]);
    }

    #[test]
    fn what_a_slide_lacks_is_found() {
        let outline = ["Plan \\ costs: 5 %".to_owned(), "*".to_owned(), "What is new".to_owned()];
        let lacking: Vec<&str> = missing("### Title\n\nPlan \\\\ costs: 5 %\n", &outline).collect();
        assert_eq!(lacking, ["What is new"]);
    }

    #[test]
    fn slides_are_told_apart() {
        let text = "## Slide 1\n\na\n\n## Slide 2\n\n## Slide 1\n\nb\n";
        assert_eq!(slides(text), ["\na\n\n", "\n## Slide 1\n\nb\n"]);
        assert_eq!(slides("text"), ["text"]);
    }
}
