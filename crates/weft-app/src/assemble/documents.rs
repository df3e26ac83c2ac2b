//! Assembly of the parts that parse documents, their pictures and recordings, and that create documents.

use std::sync::Arc;

use weft_core::seam::document_reader::NoReader;
use weft_core::seam::document_writer::NoWriter;
use weft_core::seam::{DocumentReader, DocumentWriter, PictureReader, TranscriptionModel};
use weft_core::watched_models::watched_reader;
use weft_core::{Error, Result, TenantId};
use weft_parse::{ChildReader, MediaReader, ProgramTranscription, Tesseract, Worker};

use super::models::Models;
use crate::config::{Config, DocumentsConfig, NO_OCR, TESSERACT};

/// Parses and creates files, with a common limit of processes from the settings.
pub(super) struct FileWork {
    pub(super) reader: Arc<dyn DocumentReader>,
    pub(super) writer: Arc<dyn DocumentWriter>,
}

/// Creates the reader and writer of files; placeholders if the configuration names no worker or allows no processes.
///
/// # Errors
/// `Invalid` when the configured text recognition is not available.
pub(super) fn file_work(config: &Config, models: &Models) -> Result<FileWork> {
    let Some(worker) = document_worker(config) else {
        return Ok(FileWork { reader: Arc::new(NoReader), writer: Arc::new(NoWriter) });
    };
    let documents: Arc<dyn DocumentReader> = Arc::<ChildReader>::clone(&worker);
    // Configured for all tenants alike; without a model recordings are refused with its name.
    let speech = models.counted.transcription(&TenantId::new(""), "").ok();
    let reader = MediaReader::new(documents, picture_reader(config, models)?, speech);
    Ok(FileWork { reader: Arc::new(reader), writer: worker })
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

/// Returns the program that transcribes speech; `None` if a model does.
///
/// # Errors
/// `Invalid` when it does not exist or cannot be run.
pub(super) fn transcription_program(config: &Config) -> Result<Option<Arc<dyn TranscriptionModel>>> {
    let Some(settings) = config.transcription.settings() else { return Ok(None) };
    let Some(limits) = config.transcription.limits() else {
        return Err(Error::invalid("a number in `transcription` is not valid").help("see docs/settings.md"));
    };
    let Some(worker) = named_worker(config) else {
        let message =
            "`transcription.engine` names a program, and `documents.worker`, in which it runs, is empty";
        return Err(Error::invalid(message).help("name one, or set the engine to \"model\""));
    };
    let program = ProgramTranscription::open(worker, settings, limits)?;
    Ok(Some(Arc::new(program.with_confinement(config.documents.confinement))))
}

fn document_worker(config: &Config) -> Option<Arc<ChildReader>> {
    let DocumentsConfig { at_once, confinement, .. } = &config.documents;
    let reader = ChildReader::new(worker(config)?, config.documents.limits()?, *at_once);
    Some(Arc::new(reader.with_confinement(*confinement).with_font(config.documents.font())))
}

fn worker(config: &Config) -> Option<Worker> {
    named_worker(config).filter(|_| config.documents.at_once > 0)
}

fn named_worker(config: &Config) -> Option<Worker> {
    let (program, arguments) = config.documents.worker.split_first()?;
    Some(Worker { program: program.into(), arguments: arguments.iter().map(Into::into).collect() })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use bytes::Bytes;
    use weft_core::async_trait;
    use weft_core::seam::chat_model::Usage;
    use weft_core::seam::document_reader::{ChunkMethod, ReadRequest};
    use weft_core::seam::speech::Recording;
    use weft_core::usage::Counted;
    use weft_core::watched_models::{ModelCall, ModelWatcher};
    use weft_models::Directory;

    use super::*;
    use crate::config::TranscriptionEngine;

    fn reader(config: &Config) -> Result<()> {
        let models = Directory::open(&config.models, &weft_net::operator_client().unwrap()).unwrap();
        file_work(config, &Models::new(models)).map(drop)
    }

    /// Transcribes every recording and reports 14 tokens.
    struct Hears;

    #[async_trait]
    impl TranscriptionModel for Hears {
        fn name(&self) -> &str {
            "ears"
        }

        async fn transcribe(&self, tenant: &TenantId, recording: &Recording) -> Result<String> {
            self.transcribe_counted(tenant, recording).await.map(|counted| counted.given)
        }

        async fn transcribe_counted(&self, _: &TenantId, _: &Recording) -> Result<Counted<String>> {
            let usage = Usage { prompt_tokens: 14, calls: 1, ..Usage::default() };
            Ok(Counted { given: "Hello".to_owned(), usage, prices: None })
        }
    }

    #[derive(Default)]
    struct Heard(Mutex<Vec<(String, u64)>>);

    impl ModelWatcher for Heard {
        fn ended(&self, call: &ModelCall<'_>) {
            self.0.lock().unwrap().push((call.model.to_owned(), call.usage.prompt_tokens));
        }
    }

    #[tokio::test]
    async fn the_watcher_of_a_document_is_told_the_tokens_of_its_transcriptions() {
        let reader = MediaReader::new(Arc::new(NoReader), None, Some(Arc::new(Hears)));
        let (heard, tenant) = (Arc::new(Heard::default()), TenantId::new("t"));
        let watched = reader.watched(Arc::clone(&heard) as Arc<dyn ModelWatcher>).unwrap();
        let request = ReadRequest {
            name: "a.mp3".to_owned(),
            method: ChunkMethod::Audio,
            settings: serde_json::Map::new(),
        };
        // The reader of the transcript fails here; the transcription is counted all the same.
        watched.read(&tenant, &request, Bytes::from_static(b"ID3 sound")).await.unwrap_err();
        assert_eq!(*heard.0.lock().unwrap(), [("ears".to_owned(), 14)]);
        reader.read(&tenant, &request, Bytes::from_static(b"ID3 sound")).await.unwrap_err();
        assert_eq!(heard.0.lock().unwrap().len(), 1, "a reading without this watcher is not reported to it");
    }

    #[test]
    fn documents_are_read_in_the_configured_worker_or_refused() {
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
    fn ocr_settings_are_checked_at_start() {
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

    #[test]
    fn transcription_settings_are_checked_at_start() {
        let mut config = Config::default();
        assert!(transcription_program(&config).unwrap().is_none());
        let refused = |config: &Config, part: &str| {
            let error = transcription_program(config).err().unwrap().full();
            assert!(error.contains(part), "{part}: {error}");
        };
        config.transcription.engine = TranscriptionEngine::Program;
        refused(&config, "documents.worker");
        config.documents.worker = vec!["/no/such/worker".to_owned()];
        refused(&config, "transcription.command");
        config.transcription.command = vec!["/no/such/program".to_owned(), "{file}".to_owned()];
        refused(&config, "/no/such/program");
        config.transcription.engine = TranscriptionEngine::Whisper;
        config.data = std::path::PathBuf::from("/no/such/folder");
        // The error comes when Weft starts, before anyone sends a recording.
        let error = Models::open(&config).err().unwrap().full();
        assert!(error.contains("/no/such/program"), "{error}");
        // Any program can stand in for whisper-cli here, since it is not started.
        config.transcription.command = vec![std::env::current_exe().unwrap().to_str().unwrap().to_owned()];
        refused(&config, "transcription.model");
        config.transcription.model = std::env::current_exe().unwrap();
        let model = transcription_program(&config).unwrap().unwrap();
        let models = Models::open(&config).unwrap();
        assert_eq!(models.counted.transcription(&TenantId::new("t"), "").unwrap().name(), model.name());
        config.transcription.threads = 0;
        assert!(config.check().unwrap_err().full().contains("threads"));
    }
}
