//! Scans in PDFs compressed as JBIG2 and JPEG 2000.

use std::sync::Arc;

use bytes::Bytes;
use weft_core::seam::document_reader::{ChunkMethod, FoundPictures, ReadRequest};
use weft_core::seam::picture_reader::{Picture, PictureLine};
use weft_core::seam::{DocumentReader, PictureReader};
use weft_core::{Result, TenantId, async_trait};
use weft_parse::{ChildReader, InProcess, Limits, MediaReader, Worker};

use crate::build::pdf_with_scans;

// Made for these tests and checked with independent decoders: two letters in a symbol dictionary; a JBIG2 page
// with three of them in a text region, and a line in a generic region; the same page as lossless JPEG 2000; and
// two adjacent colours in a bare codestream.
const SYMBOLS: &[u8] = include_bytes!("files/scans/symbols.jb2");
const PAGE: &[u8] = include_bytes!("files/scans/page.jb2");
const GRAY: &[u8] = include_bytes!("files/scans/gray.jp2");
const COLOUR: &[u8] = include_bytes!("files/scans/colour.j2k");
/// Where the page information segment of a JBIG2 has the width and the height.
const SIZE: std::ops::Range<usize> = 11..19;

fn request() -> ReadRequest {
    ReadRequest { name: "scan.pdf".to_owned(), method: ChunkMethod::Naive, settings: serde_json::Map::new() }
}

fn jbig2(width: u32) -> String {
    format!(
        "/Subtype /Image /Width {width} /Height 32 /BitsPerComponent 1 /ColorSpace /DeviceGray /Filter /JBIG2Decode \
         /DecodeParms << /JBIG2Globals {{shared}} 0 R >>"
    )
}

fn jpeg2000(width: u32, filter: &str) -> String {
    format!("/Subtype /Image /Width {width} /Height 32 /Filter {filter}")
}

fn child() -> ChildReader {
    let program = env!("CARGO_BIN_EXE_weft-parse-worker").into();
    ChildReader::new(Worker { program, arguments: Vec::new() }, Limits::default(), 2)
}

/// The sizes of pictures, as found in the PDF and in the pictures themselves.
fn sizes(found: &FoundPictures) -> Vec<(u32, u32)> {
    let size = |picture: &Picture| {
        assert_eq!(picture.media_type, "image/png");
        let number = |from: usize| u32::from_be_bytes(picture.bytes[from..from + 4].try_into().unwrap());
        assert_eq!((number(16), number(20)), (picture.width, picture.height));
        (picture.width, picture.height)
    };
    found.pictures.iter().map(|one| size(&one.picture)).collect()
}

#[tokio::test]
async fn scans_in_jbig2_and_jpeg_2000_are_found() {
    let hex: String =
        GRAY.iter().map(|byte| format!("{byte:02x}")).chain(std::iter::once(">".to_owned())).collect();
    let scans = [
        (jbig2(52), PAGE),
        (jpeg2000(52, "/JPXDecode"), GRAY),
        (jpeg2000(40, "/JPXDecode /ColorSpace /DeviceRGB"), COLOUR),
        (jpeg2000(52, "[/ASCIIHexDecode /JPXDecode]"), hex.as_bytes()),
    ];
    let file = Bytes::from(pdf_with_scans(&scans, SYMBOLS));
    let readers: [&dyn DocumentReader; 2] = [&InProcess::default(), &child()];
    for reader in readers {
        let found = reader.pictures(&"t".into(), &request(), file.clone()).await.unwrap();
        assert_eq!(sizes(&found), [(52, 32), (52, 32), (40, 32), (52, 32)], "{:?}", found.warnings);
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
        // The same page in three encodings is the same picture, byte for byte.
        let [first, second, _, fourth] = [0, 1, 2, 3].map(|number| &found.pictures[number].picture.bytes);
        assert!(first == second && second == fourth);
    }
}

#[tokio::test]
async fn scans_that_cannot_be_decoded_are_reported_and_others_read() {
    let mut huge = PAGE.to_vec();
    huge[SIZE].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let scans = [
        (jbig2(52), huge.as_slice()),
        (jpeg2000(52, "/JPXDecode"), &GRAY[..90]),
        (jpeg2000(52, "/JPXDecode /ColorSpace [/Indexed /DeviceRGB 1 <000000ffffff>]"), GRAY),
        (jpeg2000(40, "/JPXDecode"), COLOUR),
        (jbig2(52), &PAGE[..60]),
    ];
    let file = Bytes::from(pdf_with_scans(&scans, SYMBOLS));
    let readers: [&dyn DocumentReader; 2] = [&InProcess::default(), &child()];
    for reader in readers {
        let found = reader.pictures(&"t".into(), &request(), file.clone()).await.unwrap();
        assert_eq!(sizes(&found), [(40, 32), (52, 32)]);
        let warnings = found.warnings.join("\n");
        let parts =
            ["page 1", "60000 × 60000 pixels", "page 2", "JPEG 2000: ", "page 3", "color palette", "page 5"];
        for part in parts.into_iter().chain(["JBIG2: it ends early"]) {
            assert!(warnings.contains(part), "{part}: {warnings}");
        }
    }
}

#[tokio::test]
async fn text_in_image_masks_is_rendered() {
    const INK: &[u8] = &[0];
    const STRIPES: &[u8] = &[0x0f; 256];
    let stencil = "/Subtype /Image /ImageMask true /BitsPerComponent 1 /Height 32";
    let packed = "/Filter /JBIG2Decode /DecodeParms << /JBIG2Globals {shared} 0 R >>";
    // The ink of the first page is one pixel, and its mask the picture of the second one.
    let ink = "/Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8 /ColorSpace /DeviceGray /Mask 9 0 R";
    let scans = [
        (ink.to_owned(), INK),
        (format!("{stencil} /Width 52 {packed}"), PAGE),
        (format!("{stencil} /Width 64"), STRIPES),
    ];
    let file = Bytes::from(pdf_with_scans(&scans, SYMBOLS));
    let found = InProcess::default().pictures(&"t".into(), &request(), file).await.unwrap();
    assert_eq!(sizes(&found), [(52, 32), (52, 32), (64, 32)], "{:?}", found.warnings);
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    // The mask alone shows black ink on white paper.
    assert!(found.pictures[0].picture.bytes == found.pictures[1].picture.bytes);
}

/// Reads the same text in every picture.
struct Says;

#[async_trait]
impl PictureReader for Says {
    fn name(&self) -> &str {
        "says"
    }

    async fn read(&self, _: &TenantId, _: &Picture) -> Result<Vec<PictureLine>> {
        Ok(vec![PictureLine { text: "The pump is broken.".to_owned(), place: None }])
    }
}

#[tokio::test]
async fn text_read_in_a_compressed_scan_is_the_text_of_its_page() {
    let file = Bytes::from(pdf_with_scans(&[(jbig2(52), PAGE)], SYMBOLS));
    let reader = MediaReader::new(Arc::new(child()), Some(Arc::new(Says)), None);
    let document = reader.read(&"t".into(), &request(), file).await.unwrap();
    assert!(document.pieces[0].content.contains("The pump is broken."), "{:?}", document.pieces);
    assert!(document.warnings.is_empty(), "{:?}", document.warnings);
}
