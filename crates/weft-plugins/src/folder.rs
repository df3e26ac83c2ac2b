//! Reads the folder of plugins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use weft_core::seam::Sandbox;
use weft_core::{Error, ErrorKind, Json, Result};

use crate::bounded::read_at_most;
use crate::openapi::Plugin;
use crate::skill::{self, SKILL_FILE};
use crate::wasm;

/// Maximum number of files in a folder.
pub const FILES_MAX: usize = 1_000;
/// Maximum number of bytes in a file.
pub const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reads the plugins in a folder, by name; none if the folder does not exist.
///
/// # Errors
/// `Invalid` naming every file that is not valid and why; `Unavailable` when the folder cannot be read.
pub(crate) async fn read(folder: &Path, sandbox: &dyn Sandbox) -> Result<BTreeMap<String, Plugin>> {
    let mut problems = Vec::new();
    let mut plugins = BTreeMap::new();
    // In the order of names rather than of the folder, so that problems are always reported in the same order.
    for (name, kind) in files(folder, &mut problems)? {
        let place = folder.join(kind.file(&name));
        if plugins.contains_key(&name) {
            let message =
                format!("{}: another plugin is also called {name}; rename one of them", place.display());
            problems.push(message);
            continue;
        }
        let read = match kind {
            PluginKind::Document(ending) => plugin(folder, &name, ending),
            PluginKind::Component => component(folder, &name, sandbox).await,
            PluginKind::Skill => skill::read(folder, &name).map_err(|error| named(&place, &error.full())),
        };
        // An invalid plugin does not stop the others from being checked: the operator sees all problems together.
        match read {
            Ok(plugin) => drop(plugins.insert(name, plugin)),
            Err(error) => problems.push(error.full()),
        }
    }
    if problems.is_empty() {
        return Ok(plugins);
    }
    Err(Error::invalid(problems.join("; ")).help(
        "correct these files, or remove them from the plugin folder: nothing runs with only some of its tools",
    ))
}

/// The kind of a plugin's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PluginKind {
    /// `NAME.json`, or with another of these extensions.
    Document(&'static str),
    /// `NAME.wasm`.
    Component,
    /// `NAME/SKILL.md`.
    Skill,
}

impl PluginKind {
    /// Returns its file, relative to the folder of plugins.
    fn file(self, name: &str) -> PathBuf {
        match self {
            Self::Document(ending) => PathBuf::from(format!("{name}.{ending}")),
            Self::Component => PathBuf::from(format!("{name}.wasm")),
            Self::Skill => Path::new(name).join(SKILL_FILE),
        }
    }
}

/// Returns the plugins in a folder, ordered by name. Settings without a plugin are a problem, because they are meant
/// for one.
fn files(folder: &Path, problems: &mut Vec<String>) -> Result<BTreeSet<(String, PluginKind)>> {
    // A folder that exists but cannot be read is an error: its plugins would be missing silently.
    let unreadable = |cause| {
        let message = format!("cannot read the plugin folder {}", folder.display());
        Error::new(ErrorKind::Unavailable, message).because(cause)
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(cause) => return Err(unreadable(cause)),
    };
    let (mut files, mut settings) = (BTreeSet::new(), BTreeSet::new());
    for (place, entry) in entries.enumerate() {
        if place == FILES_MAX {
            // The file system determines the order, so that different plugins would be missing each time.
            problems.push(format!(
                "{}: it contains more than {FILES_MAX} files: remove some of them",
                folder.display()
            ));
            break;
        }
        // Determined by the path rather than by the directory entry, so that a link to a skill's folder counts, too.
        let path = entry.map_err(unreadable)?.path();
        if path.join(SKILL_FILE).is_file() {
            let name = path.file_name().and_then(|name| name.to_str());
            files.extend(name.map(|name| (name.to_owned(), PluginKind::Skill)));
            continue;
        }
        let (Some(stem), Some(ending)) = (path.file_stem(), path.extension()) else { continue };
        // Editors leave such files behind, and they would count as invalid plugins.
        let Some(name) = stem.to_str().filter(|name| !name.starts_with('.')) else { continue };
        match ending.to_str() {
            Some("json") => drop(files.insert((name.to_owned(), PluginKind::Document("json")))),
            Some("yaml") => drop(files.insert((name.to_owned(), PluginKind::Document("yaml")))),
            Some("yml") => drop(files.insert((name.to_owned(), PluginKind::Document("yml")))),
            Some("wasm") => drop(files.insert((name.to_owned(), PluginKind::Component))),
            // An MCP server, which is read with the settings.
            Some("toml") if name.ends_with(".mcp") => {}
            Some("toml") => drop(settings.insert(name.to_owned())),
            _ => {}
        }
    }
    let has_settings = |kind: &PluginKind| matches!(kind, PluginKind::Document(_) | PluginKind::Component);
    let with_settings: BTreeSet<&String> =
        files.iter().filter(|(_, kind)| has_settings(kind)).map(|(name, _)| name).collect();
    for name in settings.iter().filter(|name| !with_settings.contains(name)) {
        problems.push(format!(
            "{}: there is no {name}.json and no {name}.wasm next to it",
            folder.join(format!("{name}.toml")).display()
        ));
    }
    Ok(files)
}

fn named(path: &Path, problem: &str) -> Error {
    Error::invalid(format!("{}: {problem}", path.display()))
}

fn plugin(folder: &Path, name: &str, ending: &str) -> Result<Plugin> {
    let path = folder.join(format!("{name}.{ending}"));
    let document = text(&path)?.ok_or_else(|| named(&path, "it was removed"))?;
    let document = if ending == "json" {
        serde_json::from_str(&document)
            .map_err(|cause| named(&path, &format!("it is not valid JSON: {cause}")))?
    } else {
        yaml(&document).map_err(|cause| named(&path, &format!("it is not valid YAML: {cause}")))?
    };
    let settings = settings(folder, name)?.unwrap_or_default();
    Plugin::new(name, &document, settings).map_err(|error| named(&path, &error.full()))
}

/// Parses a YAML document. The size of the file bounds its content.
fn yaml(document: &str) -> Result<Json, String> {
    const MAX: usize = 16 * 1024 * 1024;
    let budget = serde_saphyr::budget! { max_events: MAX, max_nodes: MAX, max_total_scalar_bytes: MAX };
    let options = serde_saphyr::options! { budget: budget };
    serde_saphyr::from_str_with_options(document, options)
        // Without the excerpt of the file, which a message should not repeat.
        .map_err(|cause| cause.without_snippet().to_string())
}

async fn component(folder: &Path, name: &str, sandbox: &dyn Sandbox) -> Result<Plugin> {
    let path = folder.join(format!("{name}.wasm"));
    let bytes = bytes(&path)?.ok_or_else(|| named(&path, "it was removed"))?;
    let settings = settings(folder, name)?.unwrap_or_default();
    wasm::described(name, bytes, &settings, sandbox).await.map_err(|error| named(&path, &error.full()))
}

/// Reads `NAME.toml`, if it exists.
fn settings<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>> {
    let beside = folder.join(format!("{name}.toml"));
    // Only the message, without the excerpt of the file: headers are secret.
    let read = |text: String| toml::from_str(&text).map_err(|cause| named(&beside, cause.message()));
    text(&beside)?.map(read).transpose()
}

/// Reads a file as text; `None` if it does not exist.
fn text(path: &Path) -> Result<Option<String>> {
    let Some(bytes) = bytes(path)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|_| named(path, "it is not UTF-8 text"))
}

/// Reads a file; `None` if it does not exist.
fn bytes(path: &Path) -> Result<Option<Vec<u8>>> {
    match read_at_most(path, FILE_BYTES_MAX) {
        Ok(Some(bytes)) => Ok(Some(bytes)),
        Ok(None) => Err(named(path, &format!("it is larger than {FILE_BYTES_MAX} bytes"))),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(cause) => {
            Err(Error::new(ErrorKind::Unavailable, format!("cannot read {}", path.display())).because(cause))
        }
    }
}
