//! Models in folders below Weft's data folder, which run in this process: finds installed ones and adds new ones.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weft_core::seam::chat_model::ModelKind;
use weft_core::{Error, Result};

/// The files in the folder of a local model.
pub(crate) const MODEL_FILES: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];
/// Maximum number of installed models that are considered.
// The configured folder may be the wrong one, such as one with thousands of entries.
const INSTALLED_MAX: usize = 64;
/// The file in which `weft models add` records its settings beside the model's files.
const NOTE_FILE: &str = "weft.json";
/// Optional files with further settings, copied if they exist.
const MORE_FILES: [&str; 2] = ["sentence_bert_config.json", "1_Pooling/config.json"];
/// Longer files are not valid settings.
const SETTINGS_BYTES_MAX: u64 = 1 << 20;
/// Longer headers are not valid.
// The length is the first number of the file, and in a file of another format it can be any number.
const HEADER_BYTES_MAX: u64 = 32 << 20;
/// Maximum length of a name in characters.
const NAME_MAX: usize = 100;

/// The settings with which a model is added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledNote {
    /// The task of the model.
    pub kind: ModelKind,
    /// Whether it is used when no model is named.
    #[serde(default)]
    pub default: bool,
    /// A prefix of every question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_prefix: Option<String>,
    /// A prefix of every passage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passage_prefix: Option<String>,
}

/// A model in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledModel {
    /// The name of its folder.
    pub name: String,
    /// The path of the folder.
    pub folder: PathBuf,
    /// The task of the model.
    pub kind: ModelKind,
    /// Its settings, if it was added by a command and not copied by hand.
    pub note: Option<InstalledNote>,
}

/// The models in a folder of models, by name. Other entries are skipped.
pub fn installed(folder: &Path) -> Vec<InstalledModel> {
    let paths = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|found| found.path());
    // Names with a leading dot are being copied, or are left over from an interrupted copy.
    let is_whole =
        |path: &Path| path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."));
    let is_model =
        |path: &PathBuf| is_whole(path) && MODEL_FILES.iter().all(|file| path.join(file).is_file());
    let mut paths: Vec<PathBuf> = paths.filter(is_model).collect();
    // Folders are listed in any order; which of two defaults counts must not change from start to start.
    paths.sort();
    paths.truncate(INSTALLED_MAX);
    let model = |folder: PathBuf| {
        let name = folder.file_name()?.to_str()?.to_owned();
        let note: Option<InstalledNote> = read(&folder.join(NOTE_FILE)).ok();
        let kind = match &note {
            Some(note) => note.kind,
            None => read::<ModelConfigFile>(&folder.join(MODEL_FILES[0]))
                .map(|config| config.kind())
                .unwrap_or_default(),
        };
        matches!(kind, ModelKind::Embedding | ModelKind::Rerank).then_some(InstalledModel {
            name,
            folder,
            kind,
            note,
        })
    };
    paths.into_iter().filter_map(model).collect()
}

/// The parts of `config.json` that determine the task of a model.
#[derive(Default, Deserialize)]
struct ModelConfigFile {
    #[serde(default)]
    model_type: String,
    #[serde(default)]
    architectures: Vec<String>,
    id2label: Option<BTreeMap<String, String>>,
}

impl ModelConfigFile {
    fn kind(&self) -> ModelKind {
        let scores = |name: &String| name.ends_with("ForSequenceClassification");
        if self.architectures.iter().any(scores) { ModelKind::Rerank } else { ModelKind::Embedding }
    }
}

/// Copies the files of a model into the folder of models under a name, so that it is found from the next start on.
///
/// # Errors
/// `Invalid` with what is missing or unsupported, and what to do; `Conflict` when a model with this name exists.
pub fn install(models: &Path, source: &Path, name: &str, note: &InstalledNote) -> Result<InstalledModel> {
    check_name(name)?;
    let kind = inspect(source)?;
    if kind != note.kind {
        let (is, wanted) = (words(kind), words(note.kind));
        return Err(Error::invalid(format!("the model in {} is {is}, not {wanted}", source.display())));
    }
    let folder = models.join(name);
    if folder.exists() {
        let message = format!("a model `{name}` already exists in {}", models.display());
        return Err(
            Error::new(weft_core::ErrorKind::Conflict, message).help("choose another name with --name")
        );
    }
    let failed = |cause: std::io::Error| {
        Error::invalid(format!("cannot copy the model to {}", folder.display())).because(cause)
    };
    // Under a temporary name until it is complete.
    let part = models.join(format!(".{name}.part"));
    let copied = (|| {
        // May be left over from an interrupted attempt.
        let _ = std::fs::remove_dir_all(&part);
        std::fs::create_dir_all(&part)?;
        for file in MODEL_FILES.iter().chain(MORE_FILES.iter().filter(|file| source.join(file).is_file())) {
            let target = part.join(file);
            // One of the optional files is in a folder of its own.
            target.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::copy(source.join(file), target)?;
        }
        write_note(&part, note)?;
        // In one step: a process that starts during the copy finds the complete model or none.
        std::fs::rename(&part, &folder)
    })();
    if let Err(cause) = copied {
        let _ = std::fs::remove_dir_all(&part);
        return Err(failed(cause));
    }
    if note.default {
        // Last, so that there is always a default; an interruption before this leaves two, and the first by name
        // counts.
        make_default(models, name, note.kind)?;
    }
    Ok(InstalledModel { name: name.to_owned(), folder, kind, note: Some(note.clone()) })
}

/// Ensures that no other model of a kind is the default.
fn make_default(models: &Path, name: &str, kind: ModelKind) -> Result<()> {
    for other in installed(models).into_iter().filter(|other| other.kind == kind && other.name != name) {
        if let Some(note) = other.note.filter(|note| note.default) {
            write_note(&other.folder, &InstalledNote { default: false, ..note }).map_err(|cause| {
                Error::invalid(format!("cannot update the settings of `{}`", other.name)).because(cause)
            })?;
        }
    }
    Ok(())
}

fn write_note(folder: &Path, note: &InstalledNote) -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(note).map_err(std::io::Error::other)?;
    std::fs::write(folder.join(NOTE_FILE), text)
}

fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    // The name becomes a folder name: a leading dot would hide it, and a slash would lead elsewhere.
    if name.is_empty() || name.len() > NAME_MAX || name.starts_with('.') || !name.chars().all(plain) {
        let message = format!("`{name}` cannot be the name of a model");
        return Err(
            Error::invalid(message).help("choose a name of letters, digits, `-`, `_` and `.` with --name")
        );
    }
    Ok(())
}

fn words(kind: ModelKind) -> &'static str {
    match kind {
        ModelKind::Rerank => "a reranker",
        _ => "an embedding model",
    }
}

/// Determines the task of a model in a folder and checks that all required files exist.
///
/// # Errors
/// `Invalid` with what is missing or unsupported, and what to do.
pub fn inspect(folder: &Path) -> Result<ModelKind> {
    if !folder.is_dir() {
        return Err(Error::invalid(format!("there is no folder {}", folder.display())));
    }
    if let Some(file) = MODEL_FILES.iter().find(|file| !folder.join(file).is_file()) {
        return Err(missing(folder, file));
    }
    let config: ModelConfigFile = read(&folder.join(MODEL_FILES[0]))?;
    let kind = config.kind();
    let tensors = tensors(&folder.join(MODEL_FILES[2]))?;
    let other = |why: String| {
        Error::invalid(format!("the model in {} cannot be used", folder.display())).because(why).help(
            "models of the types bert, roberta and xlm-roberta are supported; others need a server (docs/models.md)",
        )
    };
    if !matches!(config.model_type.as_str(), "bert" | "roberta" | "xlm-roberta") {
        return Err(other(format!("it is of the type `{}`", config.model_type)));
    }
    if !tensors.keys().any(|name| name.ends_with("embeddings.word_embeddings.weight")) {
        return Err(other("its weights do not belong to such a model".to_owned()));
    }
    if kind == ModelKind::Rerank {
        let head = ["classifier.weight", "classifier.out_proj.weight"]
            .into_iter()
            .find_map(|name| tensors.get(name));
        let scores = head.and_then(|shape| shape.first()).copied();
        let named = config.id2label.map_or(1, |labels| labels.len());
        if scores != Some(1) || named > 1 {
            let count = scores.map_or_else(|| "no".to_owned(), |count| count.to_string());
            return Err(other(format!(
                "it returns {count} scores for a passage, but a reranker returns one"
            )));
        }
    }
    Ok(kind)
}

/// The error for a missing file, with the remedy.
fn missing(folder: &Path, file: &str) -> Error {
    let has = |name: &str| folder.join(name).exists();
    let help = if has("model.safetensors.index.json") {
        "its weights are in several files: merge them into one model.safetensors"
    } else if has("pytorch_model.bin") {
        "its weights are in PyTorch format: save them as model.safetensors (for example with save_pretrained)"
    } else if has("model.onnx") || has("onnx") {
        "its weights are in ONNX format: use the model.safetensors of the same model"
    } else {
        "name a folder with config.json, tokenizer.json and model.safetensors; scripts/local-embedder fetches one"
    };
    Error::invalid(format!("there is no {file} in {}", folder.display())).help(help)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let failed = || Error::invalid(format!("cannot read {}", path.display()));
    let file = std::fs::File::open(path).map_err(|cause| failed().because(cause))?;
    let mut bytes = Vec::new();
    // A longer one is cut off, and is then not valid JSON.
    file.take(SETTINGS_BYTES_MAX).read_to_end(&mut bytes).map_err(|cause| failed().because(cause))?;
    serde_json::from_slice(&bytes).map_err(|cause| failed().because(cause))
}

/// The tensors of a file of weights and their shapes, from its header alone.
fn tensors(path: &Path) -> Result<BTreeMap<String, Vec<usize>>> {
    #[derive(Deserialize)]
    struct Tensor {
        #[serde(default)]
        shape: Vec<usize>,
    }
    let failed = |cause: String| {
        Error::invalid(format!("cannot read {}", path.display()))
            .because(cause)
            .help("it is truncated or not a safetensors file; a Git LFS pointer has to be fetched first")
    };
    let mut file = std::fs::File::open(path).map_err(|cause| failed(cause.to_string()))?;
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|cause| failed(cause.to_string()))?;
    let length = u64::from_le_bytes(length);
    if length > HEADER_BYTES_MAX {
        return Err(failed("its header is too long".to_owned()));
    }
    let mut header = Vec::new();
    // Names and shapes are in the header; the data after it may be gigabytes and is not read.
    file.take(length).read_to_end(&mut header).map_err(|cause| failed(cause.to_string()))?;
    let tensors: BTreeMap<String, Tensor> =
        serde_json::from_slice(&header).map_err(|cause| failed(cause.to_string()))?;
    Ok(tensors.into_iter().map(|(name, tensor)| (name, tensor.shape)).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn folder(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weft-installed-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn model(name: &str, config: &serde_json::Value, tensors: &serde_json::Value) -> Folder {
        let folder = folder(name);
        std::fs::write(folder.0.join("config.json"), config.to_string()).unwrap();
        std::fs::write(folder.0.join("tokenizer.json"), "{}").unwrap();
        let header = tensors.to_string();
        let mut weights = (header.len() as u64).to_le_bytes().to_vec();
        weights.extend(header.bytes());
        std::fs::write(folder.0.join("model.safetensors"), weights).unwrap();
        folder
    }

    fn embedder(name: &str) -> Folder {
        let tensors =
            json!({"embeddings.word_embeddings.weight": {"shape": [9, 4]}, "__metadata__": {"format": "pt"}});
        model(name, &json!({"model_type": "bert", "architectures": ["BertModel"]}), &tensors)
    }

    fn reranker(name: &str, scores: usize) -> Folder {
        let tensors = json!({"bert.embeddings.word_embeddings.weight": {"shape": [9, 4]}, "classifier.weight": {"shape": [scores, 4]}});
        model(
            name,
            &json!({"model_type": "bert", "architectures": ["BertForSequenceClassification"]}),
            &tensors,
        )
    }

    #[test]
    fn a_model_is_recognised_by_its_files() {
        assert_eq!(inspect(&embedder("kind-e").0).unwrap(), ModelKind::Embedding);
        assert_eq!(inspect(&reranker("kind-r", 1).0).unwrap(), ModelKind::Rerank);
        let check = |folder: &Folder, words: &str| {
            let error = inspect(&folder.0).unwrap_err().full();
            assert!(error.contains(words), "{error}");
        };
        check(&reranker("kind-3", 3), "it returns 3 scores for a passage");
        check(&model("kind-gpt", &json!({"model_type": "gpt2"}), &json!({})), "it is of the type `gpt2`");
        check(&folder("kind-none"), "there is no config.json");
        let torch = folder("kind-torch");
        for file in ["config.json", "tokenizer.json", "pytorch_model.bin"] {
            std::fs::write(torch.0.join(file), "{}").unwrap();
        }
        check(&torch, "save them as model.safetensors");
        let pointer = embedder("kind-lfs");
        std::fs::write(pointer.0.join("model.safetensors"), "version https://git-lfs").unwrap();
        check(&pointer, "Git LFS");
    }

    #[test]
    fn models_are_added_by_name_and_one_per_kind_is_the_default() {
        let (models, source, other) = (folder("add-models"), embedder("add-e"), reranker("add-r", 1));
        let note = |kind, default| InstalledNote { kind, default, ..InstalledNote::default() };
        let embedding = note(ModelKind::Embedding, true);
        install(&models.0, &source.0, "one", &embedding).unwrap();
        install(&models.0, &source.0, "two", &embedding).unwrap();
        install(&models.0, &other.0, "judge", &note(ModelKind::Rerank, true)).unwrap();
        let found = installed(&models.0);
        let defaults: Vec<(&str, ModelKind, bool)> = found
            .iter()
            .map(|one| (one.name.as_str(), one.kind, one.note.as_ref().unwrap().default))
            .collect();
        assert_eq!(
            defaults,
            [
                ("judge", ModelKind::Rerank, true),
                ("one", ModelKind::Embedding, false),
                ("two", ModelKind::Embedding, true)
            ]
        );
        let again = install(&models.0, &source.0, "one", &embedding).unwrap_err();
        assert!(again.full().contains("--name"), "{}", again.full());
        for name in ["", "../x", ".hidden", "a b"] {
            assert!(install(&models.0, &source.0, name, &embedding).is_err(), "{name}");
        }
        let wrong = install(&models.0, &source.0, "x", &note(ModelKind::Rerank, false)).unwrap_err();
        assert!(wrong.full().contains("an embedding model, not a reranker"), "{}", wrong.full());
        assert_eq!(installed(&models.0).len(), 3, "nothing is left of the failed attempt");
        // A model that is still being copied gets its files one after the other.
        std::fs::rename(models.0.join("two"), models.0.join(".two.part")).unwrap();
        assert_eq!(installed(&models.0).len(), 2);
    }
}
