//! Pictures of a page that the library of PDFs leaves packed: their streams, and what these need to be unpacked.

use std::collections::HashSet;

use pdf_oxide::extractors::{ColorSpace, PdfImage};
use pdf_oxide::object::Object;
use pdf_oxide::{PdfDocument, PdfFilter, PdfImageHandle};

use super::codecs;

/// Objects of one page that are looked at for its packed pictures, at most.
const OBJECTS_MAX: usize = 10_000;

/// The packed pictures of a page.
pub(super) struct PackedImages<'doc> {
    document: &'doc PdfDocument,
    index: usize,
    /// Their streams, once one of them was wanted.
    streams: Option<Vec<Object>>,
}

/// How a picture is packed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Packing {
    Jbig2,
    Jpeg2000,
}

impl<'doc> PackedImages<'doc> {
    /// Those of the page with this index.
    pub(super) fn new(document: &'doc PdfDocument, index: usize) -> Self {
        Self { document, index, streams: None }
    }

    /// A picture of the page unpacked; nothing when the library does that itself.
    pub(super) fn unpacked(&mut self, image: &PdfImageHandle<'_>) -> Option<Result<PdfImage, String>> {
        let packing = match image.filter_chain.last()? {
            PdfFilter::JBIG2Decode => Packing::Jbig2,
            PdfFilter::JPXDecode => Packing::Jpeg2000,
            _ => return None,
        };
        Some(self.unpack(image, packing))
    }

    fn unpack(&mut self, image: &PdfImageHandle<'_>, packing: Packing) -> Result<PdfImage, String> {
        // Only the library has its key.
        if self.document.is_encrypted() {
            return Err("as JBIG2 or JPEG 2000 in a file that is encrypted".to_owned());
        }
        if packing == Packing::Jpeg2000 && image.color_space == ColorSpace::Indexed {
            return Err("as JPEG 2000 with a table of colours".to_owned());
        }
        let raw = image.raw_compressed_bytes().map_err(|cause| short(&cause))?;
        let document = self.document;
        let stream = self.stream(&raw).ok_or("its stream is not where the page has its pictures")?;
        let bytes = stream.decode_stream_data().map_err(|cause| short(&cause))?;
        let unpacked = match packing {
            Packing::Jpeg2000 => codecs::jpeg2000(&bytes),
            Packing::Jbig2 => {
                let globals = globals(document, stream)?;
                let black = if is_turned_round(document, stream) { u8::MAX } else { 0 };
                codecs::jbig2(&bytes, globals.as_deref(), black)
            }
        };
        unpacked.map_err(|reason| match packing {
            Packing::Jbig2 => format!("JBIG2: {reason}"),
            Packing::Jpeg2000 => format!("JPEG 2000: {reason}"),
        })
    }

    /// The stream that has these bytes. A handle does not say which object it is of, and equal bytes are an equal picture.
    fn stream(&mut self, raw: &[u8]) -> Option<&Object> {
        let streams = self.streams.get_or_insert_with(|| streams(self.document, self.index));
        streams.iter().find(|stream| matches!(stream, Object::Stream { data, .. } if data[..] == *raw))
    }
}

fn short(cause: &pdf_oxide::Error) -> String {
    cause.to_string().chars().take(200).collect()
}

/// The streams of packed pictures that a page, or what it draws, may show.
fn streams(document: &PdfDocument, index: usize) -> Vec<Object> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let resources = |object: &Object| object.as_dict().and_then(|dict| dict.get("Resources")).cloned();
    let mut open: Vec<Object> =
        document.get_page(index).ok().as_ref().and_then(resources).into_iter().collect();
    while let Some(next) = open.pop() {
        let Some(shown) = member(document, &next, "XObject") else { continue };
        for value in shown.as_dict().into_iter().flat_map(|shown| shown.values()) {
            if value.as_reference().is_some_and(|reference| !seen.insert(reference)) {
                continue;
            }
            if seen.len() > OBJECTS_MAX {
                return found;
            }
            let Ok(object) = document.resolve_object(value) else { continue };
            if is_packed(&object) {
                found.push(object);
            } else {
                open.extend(resources(&object));
            }
        }
    }
    found
}

/// What a dictionary, or a reference to one, has under a name.
fn member(document: &PdfDocument, of: &Object, name: &str) -> Option<Object> {
    let of = document.resolve_object(of).ok()?;
    document.resolve_object(of.as_dict()?.get(name)?).ok()
}

fn is_packed(object: &Object) -> bool {
    let filter = object.as_dict().and_then(|dict| dict.get("Filter"));
    let last = filter.and_then(|filter| filter.as_array().map_or(Some(filter), |filters| filters.last()));
    matches!(last.and_then(Object::as_name), Some("JBIG2Decode" | "JPXDecode"))
}

/// What a JBIG2 has in common with others of the document.
///
/// # Errors
/// When it is said to be there and cannot be read.
fn globals(document: &PdfDocument, stream: &Object) -> Result<Option<Vec<u8>>, String> {
    let Some(settings) = member(document, stream, "DecodeParms") else { return Ok(None) };
    // One for each filter where there are several.
    let settings = match settings {
        Object::Array(settings) => settings,
        one => vec![one],
    };
    let shared = settings.iter().find_map(|settings| member(document, settings, "JBIG2Globals"));
    shared.map(|shared| shared.decode_stream_data()).transpose().map_err(|cause| short(&cause))
}

/// Whether the document has black stand for white.
fn is_turned_round(document: &PdfDocument, stream: &Object) -> bool {
    let decode = member(document, stream, "Decode");
    let first = decode.as_ref().and_then(Object::as_array).and_then(|values| values.first());
    first.is_some_and(|first| {
        first.as_integer().is_some_and(|value| value > 0) || first.as_real().is_some_and(|value| value > 0.5)
    })
}
