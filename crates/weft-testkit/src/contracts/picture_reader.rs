//! Contract of a [`PictureReader`].

use bytes::Bytes;
use weft_core::seam::PictureReader;
use weft_core::seam::picture_reader::Picture;
use weft_core::{ErrorKind, TenantId};

/// A picture of 600 by 300 pixels with text: `Invoice 4711`, and a sentence on two lines below it.
pub const WORDS: &[u8] = include_bytes!("pictures/words.png");
/// A white picture of 300 by 200 pixels.
pub const BLANK: &[u8] = include_bytes!("pictures/blank.png");
/// The text of [`WORDS`], line by line.
pub const LINES: [&str; 3] = ["Invoice 4711", "The pump needs oil", "every ninety days."];

/// A PNG picture.
pub fn picture(bytes: &'static [u8], width: u32, height: u32) -> Picture {
    Picture { media_type: "image/png".to_owned(), width, height, bytes: Bytes::from_static(bytes) }
}

fn tenant() -> TenantId {
    TenantId::new("t")
}

/// Checks the contract of a picture reader. The reader's backend must read [`WORDS`] correctly, find nothing in
/// [`BLANK`], and refuse anything that is not a picture.
///
/// # Panics
/// If the contract is violated.
pub async fn picture_reader_keeps_its_contract(reader: &dyn PictureReader) {
    assert!(!reader.name().trim().is_empty());
    let page = picture(WORDS, 600, 300);
    let (one, other) = tokio::join!(text(reader, &page), text(reader, &page));
    assert_eq!(one, LINES, "lines in reading order");
    assert_eq!(one, other, "two concurrent calls do not interfere");
    assert_eq!(text(reader, &picture(BLANK, 300, 200)).await, Vec::<String>::new());
    for broken in [&WORDS[..40], b"no picture at all", b""] {
        let error = reader.read(&tenant(), &picture(broken, 600, 300)).await;
        assert!(error.is_err_and(|error| error.kind == ErrorKind::Invalid), "{} bytes", broken.len());
    }
    // The declared size is checked before the picture is decoded.
    let huge = reader.read(&tenant(), &picture(WORDS, 60_000, 60_000)).await;
    assert!(huge.is_err_and(|error| error.kind == ErrorKind::Invalid), "too many pixels");
}

#[expect(clippy::panic, reason = "a contract fails by panicking")]
async fn text(reader: &dyn PictureReader, picture: &Picture) -> Vec<String> {
    let lines = match reader.read(&tenant(), picture).await {
        Ok(lines) => lines,
        Err(error) => panic!("{}", error.full()),
    };
    for place in lines.iter().filter_map(|line| line.place) {
        let inside = [place.left, place.right, place.top, place.bottom];
        assert!(inside.iter().all(|share| (0.0..=1.0).contains(share)), "inside the picture: {place:?}");
        assert!(place.left <= place.right && place.top <= place.bottom, "{place:?}");
    }
    lines.into_iter().map(|line| line.text).filter(|text| !text.is_empty()).collect()
}
