//! An OCR service over HTTP with the API of PaddleOCR serving (`POST {base_url}/ocr`): it gets a picture in base64
//! and returns texts with boxes in pixels.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use weft_core::seam::PictureReader;
use weft_core::seam::picture_reader::{Picture, PictureLine, PicturePlace, TEXT_CHARS_MAX};
use weft_core::{Error, Result, TenantId, async_trait};

use super::check;
use crate::config::ModelEntry;
use crate::factories::Provider;
use crate::remote::RemoteModel;

/// The service's file type of a picture; other numbers are other kinds of files.
const PICTURE: u8 = 1;

/// An OCR service at an address.
pub(crate) struct HttpPictureReader {
    remote: RemoteModel,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OcrAnswer {
    #[serde(default)]
    error_code: i64,
    #[serde(default)]
    error_msg: String,
    result: Option<OcrResult>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OcrResult {
    ocr_results: Vec<OcrPage>,
    #[serde(default)]
    data_info: Json,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OcrPage {
    pruned_result: OcrTexts,
}

#[derive(Deserialize)]
struct OcrTexts {
    #[serde(default)]
    rec_texts: Vec<String>,
    /// Left, top, right and bottom of each, in pixels.
    #[serde(default)]
    rec_boxes: Vec<[f32; 4]>,
}

impl HttpPictureReader {
    /// The service of an entry.
    ///
    /// # Errors
    /// `Invalid` when its provider has no such service, or for an address that is not valid.
    pub(crate) fn new(entry: &ModelEntry, client: &reqwest::Client) -> Result<Self> {
        if entry.wire() != Provider::OpenAi || entry.base_url.is_none() {
            let what = format!("the model `{}` of the kind `ocr` has no service address", entry.name);
            return Err(Error::invalid(what).help(
                "set `base_url` to a PaddleOCR server, and omit `provider`; a vision model has the kind `vision`",
            ));
        }
        let url = format!("{}/ocr", entry.address()?.trim_end_matches('/'));
        Ok(Self { remote: RemoteModel::new(entry, &url, client)? })
    }

    fn lines(&self, body: &[u8], picture: &Picture) -> Result<Vec<PictureLine>> {
        let answer: OcrAnswer = serde_json::from_slice(body).map_err(|cause| self.remote.garbled(cause))?;
        // It answers with status 200 in both cases, so the code decides.
        let Some(found) = answer.result.filter(|_| answer.error_code == 0) else {
            let why = format!("error {}: {}", answer.error_code, answer.error_msg);
            return Err(
                Error::invalid(format!("`{}` did not read the picture", self.remote.name)).because(why)
            );
        };
        #[expect(clippy::cast_possible_truncation, reason = "pixels of a picture")]
        let size = |key: &str| found.data_info.get(key).and_then(Json::as_f64).map(|size| size as f32);
        #[expect(clippy::cast_precision_loss, reason = "pixels of a picture need no more than 24 bits")]
        let own = (picture.width as f32, picture.height as f32);
        let (width, height) = (size("width").unwrap_or(own.0), size("height").unwrap_or(own.1));
        let share = |part: f32, whole: f32| if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
        let mut left = TEXT_CHARS_MAX;
        let mut lines = Vec::new();
        for OcrTexts { rec_texts, rec_boxes } in found.ocr_results.into_iter().map(|page| page.pruned_result)
        {
            // Boxes that do not match the texts are ignored.
            let boxes = if rec_boxes.len() == rec_texts.len() { rec_boxes } else { Vec::new() };
            for (at, text) in rec_texts.into_iter().enumerate() {
                left = match left.checked_sub(text.chars().count()) {
                    Some(left) => left,
                    None => return Ok(lines),
                };
                let place = boxes.get(at).filter(|numbers| numbers.iter().all(|number| number.is_finite()));
                let place = place.filter(|_| width > 0.0 && height > 0.0);
                let place = place.map(|[x, y, right, bottom]| PicturePlace {
                    left: share(*x, width),
                    right: share(*right, width),
                    top: share(*y, height),
                    bottom: share(*bottom, height),
                });
                lines.push(PictureLine { text, place });
            }
        }
        Ok(lines)
    }
}

#[async_trait]
impl PictureReader for HttpPictureReader {
    fn name(&self) -> &str {
        &self.remote.name
    }

    async fn read(&self, _: &TenantId, picture: &Picture) -> Result<Vec<PictureLine>> {
        check(picture)?;
        // Otherwise it returns the picture with boxes drawn into it.
        let body = json!({"file": STANDARD.encode(&picture.bytes), "fileType": PICTURE, "visualize": false});
        let answer = self.remote.ask(&body).await?;
        self.lines(&answer, picture)
    }
}
