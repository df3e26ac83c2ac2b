//! Values entered in form fields. They are annotations on the page and not part of its content.

use std::collections::HashMap;

use pdf_oxide::PdfDocument;
use pdf_oxide::geometry::Rect;
use pdf_oxide::object::Object;
use weft_core::seam::document_reader::Position;

use super::frame::PageFrame;
use super::line::PageLine;
use super::outline::text_string;

/// Maximum number of fields of one page that are read.
const FIELDS_MAX: usize = 10_000;
/// Maximum size of the text in the fields of one page, in bytes: fields may share a value.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Maximum number of ancestors of a field.
const DEPTH_MAX: usize = 10;
/// Annotation flags `Hidden` (bit 2) and `NoView` (bit 6): it is not displayed.
const HIDDEN: i64 = (1 << 1) | (1 << 5);
/// Field flag: the value is a password and is not displayed.
const PASSWORD: i64 = 1 << 13;
/// Line height, as a multiple of the type size.
const LINE_HEIGHT: f32 = 1.2;
/// Minimum height of a multi-line field, as a multiple of the type size.
const LINES_MIN: f32 = 3.0;

/// Dictionary of a field.
type FormField = HashMap<String, Object>;

/// Lines of text in the fields of a page as displayed, in type of this size.
pub(super) fn lines(document: &PdfDocument, index: usize, frame: PageFrame, size: f32) -> Vec<PageLine> {
    let Some(all) = annotations(document, index) else { return Vec::new() };
    let turn = document.get_page_rotation(index).unwrap_or_default();
    let (mut lines, mut bytes) = (Vec::new(), 0_usize);
    for one in all.iter().take(FIELDS_MAX) {
        let Ok(object) = document.resolve_object(one) else { continue };
        let Some(field) = object.as_dict().filter(|field| is_shown(field)) else { continue };
        let (Some(text), Some(place)) = (entered(document, field), rectangle(document, field)) else {
            continue;
        };
        bytes = bytes.saturating_add(text.len());
        if bytes > TEXT_BYTES_MAX {
            break;
        }
        lines.extend(placed(&text, frame.turned(frame.rectangle(place), turn), size));
    }
    lines
}

/// Annotations of a page, if the document has a form.
fn annotations(document: &PdfDocument, index: usize) -> Option<Vec<Object>> {
    let catalog = document.catalog().ok()?;
    if !catalog.as_dict()?.contains_key("AcroForm") {
        return None;
    }
    let page = document.get_page(index).ok()?;
    let all = document.resolve_object(page.as_dict()?.get("Annots")?).ok()?;
    all.as_array().cloned()
}

fn is_shown(field: &FormField) -> bool {
    let flags = field.get("F").and_then(Object::as_integer).unwrap_or_default();
    field.get("Subtype").and_then(Object::as_name) == Some("Widget") && flags & HIDDEN == 0
}

/// Attribute of a field, possibly inherited from one of its ancestors.
fn said(document: &PdfDocument, field: &FormField, name: &str) -> Option<Object> {
    if let Some(value) = field.get(name) {
        return document.resolve_object(value).ok();
    }
    let mut parent = field.get("Parent").cloned();
    for _ in 0..DEPTH_MAX {
        let object = document.resolve_object(parent.as_ref()?).ok()?;
        let above = object.as_dict()?;
        if let Some(value) = above.get(name) {
            return document.resolve_object(value).ok();
        }
        parent = above.get("Parent").cloned();
    }
    None
}

/// Text of a field, or the mark of a ticked box.
fn entered(document: &PdfDocument, field: &FormField) -> Option<String> {
    let flags = said(document, field, "Ff").and_then(|flags| flags.as_integer()).unwrap_or_default();
    match said(document, field, "FT")?.as_name()? {
        // A ticked box has a state of any name but this.
        "Btn" => field
            .get("AS")
            .and_then(Object::as_name)
            .filter(|state| *state != "Off")
            .map(|_| "[x]".to_owned()),
        "Tx" if flags & PASSWORD != 0 => None,
        "Tx" | "Ch" => {
            let value = said(document, field, "V")?;
            let options = said(document, field, "Opt");
            let values = match &value {
                Object::Array(all) => all.as_slice(),
                one => std::slice::from_ref(one),
            };
            let texts: Vec<String> = values.iter().filter_map(|one| shown(one, options.as_ref())).collect();
            Some(texts.join(", ")).filter(|text| !text.trim().is_empty())
        }
        _ => None,
    }
}

/// Displayed form of a value: in a choice field it may be a code for the text that users see.
fn shown(value: &Object, options: Option<&Object>) -> Option<String> {
    let value = value.as_string()?;
    let chosen = options.and_then(Object::as_array).into_iter().flatten().find_map(|option| {
        let pair = option.as_array()?;
        (pair.first()?.as_string()? == value).then_some(pair.get(1)?.as_string()?)
    });
    Some(text_string(chosen.unwrap_or(value)))
}

fn rectangle(document: &PdfDocument, field: &FormField) -> Option<Rect> {
    let rect = document.resolve_object(field.get("Rect")?).ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "places on a page are small numbers"
    )]
    let number = |value: &Object| match value {
        Object::Integer(number) => Some(*number as f32),
        Object::Real(number) => Some(*number as f32),
        _ => None,
    };
    let numbers: Vec<f32> = rect.as_array()?.iter().filter_map(number).collect();
    let &[left, bottom, right, top] = numbers.as_slice() else { return None };
    Some(Rect::new(left.min(right), bottom.min(top), (right - left).abs(), (top - bottom).abs()))
}

/// Lays out the lines of a text in the rectangle of its field: a single line in the middle, several from the upper edge
/// down.
fn placed(text: &str, field: Position, size: f32) -> Vec<PageLine> {
    let texts: Vec<&str> = text.split(['\r', '\n']).map(str::trim).filter(|text| !text.is_empty()).collect();
    let height = field.bottom - field.top;
    let is_high = texts.len() > 1 || height > LINES_MIN * size;
    let mut top = if is_high { field.top } else { field.top + (height - size) / 2.0 };
    let mut lines = Vec::new();
    for text in texts {
        let place = Position { top, bottom: top + size, ..field };
        top += size * LINE_HEIGHT;
        let text = text.to_owned();
        lines.push(PageLine { text, place, size, is_bold: false, is_mono: false, has_cells: false });
    }
    lines
}
