//! Cuts the elements of a document into the chunks that are indexed and searched.
//!
//! A method decides what belongs together. Everything else (limits, overlap, positions, headings, child chunks, the
//! table of contents) is shared code that is the same for every method.

mod boundary;
mod delimited;
mod delimiter;
mod draft;
mod flow;
mod html;
mod lines;
mod method;
mod numbering;
mod pack;
mod place;
mod printed_contents;
#[cfg(test)]
mod properties;
mod sections;
mod settings;
mod sheet;
mod source;
#[cfg(test)]
mod testing;
mod typed;
mod writer;

use weft_core::error::{Error, Result};
use weft_core::seam::document_reader::{ReadDocument, ReadRequest};

use crate::element::{ElementBody, Parsed};
use flow::{Joint, Placed};
use settings::ChunkSettings;
use source::ChunkSource;

pub use source::WHOLE_TOKENS_MAX;

/// Cuts a document into chunks.
///
/// # Errors
/// `Invalid` if a setting is wrong, if there is no text, or if the method finds nothing that it can cut; `Unsupported`
/// if a picture without text would have to be described.
pub fn cut(parsed: &Parsed, request: &ReadRequest) -> Result<ReadDocument> {
    let settings = ChunkSettings::read(&request.settings)?;
    let ending = request.name.rsplit_once('.').map(|(_, ending)| ending.to_lowercase()).unwrap_or_default();
    let mut placed = placed(parsed, &settings);
    let mut warning = None;
    if settings.remove_toc {
        let contents = printed_contents::find(&placed);
        warning = (!contents.is_empty()).then(|| printed_contents::left_out(contents.len()));
        placed.drain(contents);
    }
    let source = ChunkSource { parsed, placed, ending, settings };
    let mut cutting = method::of(request.method)(&source)?;
    cutting.warnings.extend(warning);
    if cutting.drafts.is_empty() {
        return Err(no_text(&source));
    }
    draft::finish(&source, cutting)
}

fn placed<'a>(parsed: &'a Parsed, settings: &ChunkSettings) -> Vec<Placed<'a>> {
    let mut placed = Vec::with_capacity(parsed.elements.len());
    let (mut page, mut sheet) = (None, None);
    for element in &parsed.elements {
        if let ElementBody::Break { number, name } = &element.body {
            (page, sheet) = (Some(*number), name.as_deref());
            continue;
        }
        let page = element.positions.first().map(|position| position.page).or(page);
        if page.is_none_or(|page| settings.wants_page(page)) {
            placed.push(Placed { element, page, sheet, joint: Joint::Block });
        }
    }
    placed
}

fn no_text(source: &ChunkSource<'_>) -> Error {
    let error = Error::invalid("the file has no text");
    match (&source.settings.pages, source.parsed.pages) {
        (Some(_), pages @ 1..) => Error::invalid("the selected pages have no text").help(format!(
            "the file has {}: change the setting `pages`",
            weft_core::value::plural(pages, "page")
        )),
        _ => error.help("pictures of text, such as scanned pages, have to be converted into text first"),
    }
}
