//! What reads documents, their pictures and recordings, and what makes documents.

use std::sync::Arc;

use weft_core::seam::document_reader::NoReader;
use weft_core::seam::document_writer::NoWriter;
use weft_core::seam::{DocumentReader, DocumentWriter, PictureReader};
use weft_core::watched_models::watched_reader;
use weft_core::{Error, Result, TenantId};
use weft_parse::{ChildReader, MediaReader, Tesseract, Worker};

use super::models::Models;
use crate::config::{Config, DocumentsConfig, NO_OCR, TESSERACT};

/// What reads documents; nothing when the configuration names no worker or lets none run.
///
/// # Errors
/// `Invalid` when pictures are to be read by what is not there.
pub(super) fn document_reader(config: &Config, models: &Models) -> Result<Arc<dyn DocumentReader>> {
    let Some(documents) = document_worker(config) else { return Ok(Arc::new(NoReader)) };
    // Configured for all tenants alike; without a model recordings are refused by name.
    let speech = models.counted.transcription(&TenantId::new(""), "").ok();
    Ok(Arc::new(MediaReader::new(documents, picture_reader(config, models)?, speech)))
}

fn picture_reader(config: &Config, models: &Models) -> Result<Option<Arc<dyn PictureReader>>> {
    let DocumentsConfig { ocr, ocr_languages, at_once, confinement, .. } = &config.documents;
    Ok(match ocr.trim() {
        "" | NO_OCR => None,
        TESSERACT => {
            let limits = config.documents.picture_limits();
            let (Some(worker), Some(limits)) = (worker(config), limits) else {
                return Err(Error::invalid("`documents.ocr_seconds` is not a number of seconds above 0"));
            };
            let reader = Tesseract::open(worker, ocr_languages, limits, *at_once)?;
            Some(Arc::new(reader.with_confinement(*confinement)))
        }
        name => Some(watched_reader(models.plain.picture_reader(name)?, models.watcher())),
    })
}

/// What makes documents.
pub(super) fn document_writer(config: &Config) -> Arc<dyn DocumentWriter> {
    match document_worker(config) {
        Some(worker) => worker,
        None => Arc::new(NoWriter),
    }
}

fn document_worker(config: &Config) -> Option<Arc<ChildReader>> {
    let DocumentsConfig { at_once, confinement, .. } = &config.documents;
    let reader = ChildReader::new(worker(config)?, config.documents.limits()?, *at_once);
    Some(Arc::new(reader.with_confinement(*confinement).with_font(config.documents.font())))
}

fn worker(config: &Config) -> Option<Worker> {
    let DocumentsConfig { at_once, worker, .. } = &config.documents;
    let (program, arguments) = worker.split_first().filter(|_| *at_once > 0)?;
    Some(Worker { program: program.into(), arguments: arguments.iter().map(Into::into).collect() })
}

#[cfg(test)]
mod tests {
    use weft_models::Directory;

    use super::*;

    fn reader(config: &Config) -> Result<()> {
        let models = Directory::open(&config.models, &weft_net::operator_client().unwrap()).unwrap();
        document_reader(config, &Models::new(models)).map(drop)
    }

    #[test]
    fn documents_are_read_by_a_worker_or_not_at_all() {
        let mut config = Config::default();
        assert!(document_worker(&config).is_none());
        config.documents.worker = vec!["/no/such/worker".to_owned()];
        assert!(document_worker(&config).is_some());
        config.documents.at_once = 0;
        assert!(document_worker(&config).is_none());
        config.documents.seconds = 0.0;
        assert!(config.check().unwrap_err().full().contains("documents: seconds"));
    }

    #[test]
    fn pictures_are_read_by_what_is_there() {
        let mut config = Config::default();
        config.documents.worker = vec!["/no/such/worker".to_owned()];
        reader(&config).unwrap();
        config.documents.ocr = "no-such-model".to_owned();
        let error = reader(&config).unwrap_err();
        assert!(error.full().contains("kind = \"ocr\""), "{}", error.full());
        config.documents.ocr = TESSERACT.to_owned();
        config.documents.ocr_languages = vec!["../eng".to_owned()];
        let error = reader(&config).unwrap_err().full();
        assert!(error.contains("ocr_languages") || error.contains("not installed"), "{error}");
        config.documents.ocr_seconds = 0.0;
        assert!(config.check().unwrap_err().full().contains("ocr_seconds"));
    }
}
