//! Pictures of a page that the PDF library does not decode or does not draw through their masks: finds their streams,
//! and the data needed to decode them.

use std::collections::HashSet;

use pdf_oxide::extractors::{ColorSpace, PdfImage, extract_image_from_xobject};
use pdf_oxide::object::Object;
use pdf_oxide::{PdfDocument, PdfFilter, PdfImageHandle};
use weft_core::seam::picture_reader::PIXELS_MAX;

use super::codecs;
use super::masks::{Mask, MaskKind};

/// Maximum number of objects of one page that are searched for such pictures.
const OBJECTS_MAX: usize = 10_000;

/// The pictures of a page that have to be decoded here.
pub(super) struct PackedImages<'doc> {
    document: &'doc PdfDocument,
    index: usize,
    /// Their streams, loaded when first needed.
    streams: Option<Vec<Object>>,
}

/// A decoded picture.
pub(super) struct Unpacked {
    pub(super) image: PdfImage,
    /// Why it is incomplete, if it is.
    pub(super) lack: Option<String>,
}

/// Compression of a picture.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ImageCodec {
    Jbig2,
    Jpeg2000,
}

impl<'doc> PackedImages<'doc> {
    /// Creates a decoder for the page with this index.
    pub(super) fn new(document: &'doc PdfDocument, index: usize) -> Self {
        Self { document, index, streams: None }
    }

    /// Decodes a picture of the page.
    pub(super) fn unpacked(&mut self, image: &PdfImageHandle<'_>) -> Result<Unpacked, String> {
        let packing = match image.filter_chain.last() {
            Some(PdfFilter::JBIG2Decode) => ImageCodec::Jbig2,
            Some(PdfFilter::JPXDecode) => ImageCodec::Jpeg2000,
            _ => {
                return match image.decode() {
                    Ok(image) => Ok(Unpacked { image, lack: None }),
                    Err(cause) => self.stencil(image).ok_or_else(|| short(&cause)),
                };
            }
        };
        // Only the library has the key of the file.
        if self.document.is_encrypted() {
            return Err("as JBIG2 or JPEG 2000 in a file that is encrypted".to_owned());
        }
        // Its samples are indices, and the palette is elsewhere in the document.
        if packing == ImageCodec::Jpeg2000 && image.color_space == ColorSpace::Indexed {
            return Err("as JPEG 2000 with a color palette".to_owned());
        }
        let raw = image.raw_compressed_bytes().map_err(|cause| short(&cause))?;
        let document = self.document;
        let stream = self.stream(&raw).ok_or("its stream is not among the pictures of the page")?;
        match packing {
            ImageCodec::Jbig2 => jbig2(document, stream),
            ImageCodec::Jpeg2000 => {
                let bytes = stream.decode_stream_data().map_err(|cause| short(&cause))?;
                let image = codecs::jpeg2000(&bytes).map_err(|reason| format!("JPEG 2000: {reason}"))?;
                Ok(Unpacked { image, lack: None })
            }
        }
    }

    /// A stencil, which paints the current colour where its pixels are black, rendered in black. It has no colours of
    /// its own, so the library refuses it.
    fn stencil(&mut self, image: &PdfImageHandle<'_>) -> Option<Unpacked> {
        let raw = image.raw_compressed_bytes().ok()?;
        let document = self.document;
        let stream = self.stream(&raw).filter(|stream| is_stencil(stream))?;
        Some(Unpacked { image: black_and_white(document, stream)?, lack: None })
    }

    /// The black and white mask through which a picture of the page is drawn.
    pub(super) fn mask(&mut self, image: &PdfImageHandle<'_>) -> Option<Mask> {
        let document = self.document;
        let has_mask = |stream: &Object| {
            stream.as_dict().is_some_and(|dict| dict.contains_key("SMask") || dict.contains_key("Mask"))
        };
        if document.is_encrypted() || !self.streams().iter().any(has_mask) {
            return None;
        }
        let raw = image.raw_compressed_bytes().ok()?;
        let stream = self.stream(&raw).filter(|stream| has_mask(stream))?;
        let is_stream = |object: &Object| matches!(object, Object::Stream { .. });
        let (mask, kind) = match member(document, stream, "SMask").filter(is_stream) {
            Some(soft) => (soft, MaskKind::Soft),
            None => (member(document, stream, "Mask").filter(is_stream)?, MaskKind::Stencil),
        };
        // Masks with grey levels are shadows and soft edges, not letters.
        let bits = member(document, &mask, "BitsPerComponent").and_then(|bits| bits.as_integer());
        let side = |key: &str| u64::try_from(member(document, &mask, key)?.as_integer()?).ok();
        let has_no_shades = is_stencil(&mask) || bits == Some(1);
        let pixels = side("Width")?.checked_mul(side("Height")?)?;
        if !has_no_shades || pixels > PIXELS_MAX {
            return None;
        }
        Mask::new(&black_and_white(document, &mask)?, kind)
    }

    /// Finds the stream with these bytes. A handle does not identify its object, but equal bytes are an equal picture.
    fn stream(&mut self, raw: &[u8]) -> Option<&Object> {
        let has_them = |stream: &&Object| matches!(stream, Object::Stream { data, .. } if data[..] == *raw);
        self.streams().iter().find(has_them)
    }

    fn streams(&mut self) -> &[Object] {
        self.streams.get_or_insert_with(|| streams(self.document, self.index))
    }
}

fn short(cause: &pdf_oxide::Error) -> String {
    cause.to_string().chars().take(200).collect()
}

/// Decodes a JBIG2 picture.
fn jbig2(document: &PdfDocument, stream: &Object) -> Result<Unpacked, String> {
    let bytes = stream.decode_stream_data().map_err(|cause| short(&cause))?;
    let globals = globals(document, stream)?;
    let black = if is_turned_round(document, stream) { u8::MAX } else { 0 };
    let said = |reason: String| format!("JBIG2: {reason}");
    let image = codecs::jbig2(&bytes, globals.as_deref(), black).map_err(said)?;
    let lack = codecs::jbig2_lack(&bytes, globals.as_deref(), &image).map(said);
    Ok(Unpacked { image, lack })
}

/// A mask, or a stencil picture, in black and white.
fn black_and_white(document: &PdfDocument, stream: &Object) -> Option<PdfImage> {
    if last_filter(stream).as_deref() == Some("JBIG2Decode") {
        return jbig2(document, stream).ok().map(|unpacked| unpacked.image);
    }
    let Object::Stream { dict, data } = stream else { return None };
    let mut dict = dict.clone();
    // Stencils may leave out these entries, whose values are fixed.
    dict.entry("ColorSpace".to_owned()).or_insert_with(|| Object::Name("DeviceGray".to_owned()));
    dict.insert("BitsPerComponent".to_owned(), Object::Integer(1));
    let stream = Object::Stream { dict, data: data.clone() };
    extract_image_from_xobject(Some(document), &stream, None, None).ok()
}

fn is_stencil(stream: &Object) -> bool {
    let is_mask = stream.as_dict().and_then(|dict| dict.get("ImageMask")).and_then(Object::as_bool);
    is_mask == Some(true)
}

/// Streams of all pictures on a page, and in the forms that it draws, that are compressed in these ways, stencils, or
/// drawn through masks.
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
            if is_wanted(&object) {
                found.push(object);
            } else {
                open.extend(resources(&object));
            }
        }
    }
    found
}

/// Value of a dictionary, or of a reference to one, under a name.
fn member(document: &PdfDocument, of: &Object, name: &str) -> Option<Object> {
    let of = document.resolve_object(of).ok()?;
    document.resolve_object(of.as_dict()?.get(name)?).ok()
}

fn is_wanted(object: &Object) -> bool {
    let has = |key: &str| object.as_dict().is_some_and(|dict| dict.contains_key(key));
    matches!(last_filter(object).as_deref(), Some("JBIG2Decode" | "JPXDecode"))
        || is_stencil(object)
        || has("SMask")
        || has("Mask")
}

fn last_filter(object: &Object) -> Option<String> {
    let filter = object.as_dict()?.get("Filter")?;
    // Filters are listed in the order of decoding, so the compression of the picture is last.
    let last = filter.as_array().map_or(Some(filter), |filters| filters.last());
    last.and_then(Object::as_name).map(str::to_owned)
}

/// Data that a JBIG2 picture shares with others of the document.
///
/// # Errors
/// If the document refers to such data and it cannot be read.
fn globals(document: &PdfDocument, stream: &Object) -> Result<Option<Vec<u8>>, String> {
    let Some(settings) = member(document, stream, "DecodeParms") else { return Ok(None) };
    // An array if there are several filters, with one entry for each.
    let settings = match settings {
        Object::Array(settings) => settings,
        one => vec![one],
    };
    let shared = settings.iter().find_map(|settings| member(document, settings, "JBIG2Globals"));
    shared.map(|shared| shared.decode_stream_data()).transpose().map_err(|cause| short(&cause))
}

/// Whether the document inverts black and white.
fn is_turned_round(document: &PdfDocument, stream: &Object) -> bool {
    let decode = member(document, stream, "Decode");
    let first = decode.as_ref().and_then(Object::as_array).and_then(|values| values.first());
    first.is_some_and(|first| {
        first.as_integer().is_some_and(|value| value > 0) || first.as_real().is_some_and(|value| value > 0.5)
    })
}
