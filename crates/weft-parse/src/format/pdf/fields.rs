//! What people have entered into the fields of a form. It lies upon the page and is no part of what the page draws.

use std::collections::HashMap;

use pdf_oxide::PdfDocument;
use pdf_oxide::geometry::Rect;
use pdf_oxide::object::Object;
use weft_core::seam::document_reader::Position;

use super::outline::text_string;
use super::page::{PageFrame, PageLine};

/// Fields of one page that are looked at, at most.
const FIELDS_MAX: usize = 10_000;
/// Bytes of text in the fields of one page, at most: fields may share a value.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Fields that one is part of, at most.
const DEPTH_MAX: usize = 10;
/// Flags of what lies upon a page: it is not shown.
const HIDDEN: i64 = (1 << 1) | (1 << 5);
/// Flag of a field: what is entered there is shown to nobody.
const PASSWORD: i64 = 1 << 13;
/// From line to line, in sizes of the type.
const LINE_HEIGHT: f32 = 1.2;
/// A field that is higher than this, in sizes of the type, takes several lines.
const LINES_MIN: f32 = 3.0;

/// What has been said of a field.
type FormField = HashMap<String, Object>;

/// The lines of text in the fields of a page as it is shown, with type of this size.
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

/// What lies upon a page of a document that has a form.
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

/// What is said of a field, or of one that it is part of.
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

/// The text of a field, or the mark of one that is ticked.
fn entered(document: &PdfDocument, field: &FormField) -> Option<String> {
    let flags = said(document, field, "Ff").and_then(|flags| flags.as_integer()).unwrap_or_default();
    match said(document, field, "FT")?.as_name()? {
        // A box that is ticked has a state of any name but this.
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

/// How a value is shown: of a list it may be a sign that stands for what people choose.
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

/// The lines of a text in the place of its field: one in the middle, several from the upper edge on.
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
