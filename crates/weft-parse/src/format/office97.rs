//! Word documents and PowerPoint presentations from before 2007.
//!
//! The library returns documents as Markdown, which is read like any other, and presentations slide by slide.

mod bullets;
mod slide_texts;
mod tables;

use std::io::Cursor;

use office_oxide::cfb::oleps::SummaryProperties;
use office_oxide::doc::DocDocument;
use office_oxide::ppt::{OleObjectInfo, PptDocument, SlideText, TableBlock, TextRun, TextType};
use office_oxide::pptx::layout::MASTER_TEXT_SECTION_TITLE;

use super::{FileContents, FileFormat, FileInput, ReadResult, markdown};
use crate::archive::ArchiveKind;
use crate::element::TableElement;
use crate::grid::header_rows;
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;
use slide_texts::paragraphs;
use tables::SlideTable;

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
    let stream = slide_texts::stream(file.bytes).unwrap_or_default();
    let (said, mut tables) = (slide_texts::of(&stream), tables::of(&stream));
    for (number, slide) in deck.slides.iter().enumerate() {
        parts.page(None);
        add_slide(slide, &mut tables, &mut parts);
        // If the numbers differ, the texts cannot be assigned to slides.
        if let Some(said) = said.get(number).filter(|_| said.len() == deck.slides.len()) {
            let told = text_of(slide);
            for text in missing(&told, &said.outline).chain(missing(&told, &said.notes)) {
                parts.paragraph(text);
            }
        }
        for object in &slide.ole_object_refs {
            parts.warn(format!("on slide {}, {} was not read", number + 1, name(object)));
        }
    }
    if !deck.master_text.is_empty() {
        parts.heading(2, MASTER_TEXT_SECTION_TITLE);
        deck.master_text.iter().for_each(|run| add_run(run, &mut parts));
    }
    warn(deck.warnings(), &mut parts);
    Ok(parts.finish())
}

/// Adds the texts of a slide, with its tables in place.
fn add_slide(slide: &SlideText, tables: &mut Vec<SlideTable>, parts: &mut PartCollector) {
    // Notes are added after the slide.
    let runs: Vec<&TextRun> = slide.text_runs.iter().filter(|run| run.text_type != TextType::Notes).collect();
    let mut rest = runs.as_slice();
    while let Some((run, behind)) = rest.split_first() {
        let texts = || rest.iter().map(|run| run.text.as_str());
        match tables.iter().position(|table| table.begins(texts())) {
            Some(place) => {
                let table = tables.remove(place);
                rest = rest.get(table.texts.len()..).unwrap_or_default();
                parts.table(table.shown());
            }
            None => {
                add_run(run, parts);
                rest = behind;
            }
        }
    }
    // Tables made of separate shapes, which the library detects and removes from the texts.
    for table in &slide.tables {
        let rows = rows(table);
        parts.table(TableElement { caption: None, header_rows: header_rows(&rows), rows });
    }
}

fn add_run(run: &TextRun, parts: &mut PartCollector) {
    match run.text_type {
        TextType::Title | TextType::CenterTitle => parts.heading(3, &run.text),
        _ => paragraphs(&run.text).for_each(|text| parts.paragraph(&text)),
    }
}

fn rows(table: &TableBlock) -> Vec<Vec<String>> {
    let cell = |runs: &Vec<TextRun>| {
        let texts: Vec<String> = runs.iter().flat_map(|run| paragraphs(&run.text)).collect();
        texts.join("\n")
    };
    table.rows.iter().map(|row| row.iter().map(cell).collect()).collect()
}

/// All text of a slide that the library returns.
fn text_of(slide: &SlideText) -> String {
    let texts = slide.text_runs.iter().filter(|run| run.text_type != TextType::Notes).map(|run| &run.text);
    let in_tables = slide.tables.iter().flat_map(|table| table.rows.iter().flatten().flatten());
    texts.chain(in_tables.map(|run| &run.text)).map(String::as_str).collect::<Vec<_>>().join("\n")
}

/// Describes an object on a slide.
fn name(object: &OleObjectInfo) -> &'static str {
    // The subtypes are those of `ExOleObjSubTypeEnum` in [MS-PPT].
    match (object.kind, object.subtype) {
        (OleObjectInfo::KIND_MEDIA_VIDEO, _) => "a video",
        (OleObjectInfo::KIND_MEDIA_AUDIO, _) | (_, 8) => "a recording",
        (_, 2) => "a document of Word",
        (_, 3) => "a sheet of Excel",
        (_, 4 | 14) => "a chart",
        (_, 5) => "an organization chart",
        (_, 6) => "a formula",
        (_, 10 | 11) => "a presentation",
        _ => "an embedded object",
    }
}

/// Escapes characters in the library's Markdown that it emits literally and never uses as markup.
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

/// Paragraphs that are missing in a slide as the library returns it.
fn missing<'a>(slide: &str, paragraphs: &'a [String]) -> impl Iterator<Item = &'a str> {
    // Compares letters and digits only, because other characters may be written differently.
    let letters = |text: &str| text.chars().filter(|sign| sign.is_alphanumeric()).collect::<String>();
    let there = letters(slide);
    paragraphs.iter().map(String::as_str).filter(move |text| !there.contains(&letters(text)))
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
    use super::*;
    use crate::element::ElementBody;

    #[test]
    fn literal_symbols_are_not_markup() {
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
    fn missing_slide_texts_are_recovered() {
        let outline = ["Plan \\ costs: 5 %".to_owned(), "*".to_owned(), "What is new".to_owned()];
        let lacking: Vec<&str> = missing("### Title\n\nPlan \\\\ costs: 5 %\n", &outline).collect();
        assert_eq!(lacking, ["What is new"]);
    }

    #[test]
    fn tables_are_placed_at_their_cells() {
        let run = |text: &str| TextRun { text: text.to_owned(), ..TextRun::default() };
        let title = TextRun { text_type: TextType::Title, ..run("The\u{b}title") };
        let slide = SlideText {
            text_runs: vec![
                title,
                run("Name"),
                run("Name"),
                run("Age"),
                run("Ada\rLovelace"),
                run("36"),
                run("End"),
            ],
            tables: vec![TableBlock { rows: vec![vec![vec![run("a")], vec![run("b")]]; 2] }],
            ..SlideText::default()
        };
        let rows =
            [["Name", "Age", ""], ["Ada\rLovelace", "", "36"]].map(|row| row.map(str::to_owned).to_vec());
        let texts = ["Name", "Age", "Ada\rLovelace", "36"].map(str::to_owned).to_vec();
        let table = TableElement { caption: None, header_rows: 1, rows: rows.to_vec() };
        let mut tables = vec![SlideTable { texts, table }];
        let mut parts = PartCollector::default();
        add_slide(&slide, &mut tables, &mut parts);
        let shown = parts.finish().elements.into_iter().map(|element| match element.body {
            ElementBody::Heading { text, .. } | ElementBody::Paragraph(text) => text,
            ElementBody::Table(table) => {
                table.rows.iter().map(|row| row.join("|")).collect::<Vec<_>>().join(" / ")
            }
            other => panic!("{other:?}"),
        });
        let shown: Vec<String> = shown.collect();
        assert_eq!(shown, ["The title", "Name", "Name|Age / Ada Lovelace||36", "End", "a|b / a|b"]);
        assert!(tables.is_empty());
    }
}
