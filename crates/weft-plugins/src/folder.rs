//! The folder of plugins.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use weft_core::{Error, ErrorKind, Result};

use crate::openapi::Plugin;
use crate::settings::PluginSettings;
use crate::skill::{self, SKILL_FILE};

/// Files of a folder that are looked at, at most.
pub const FILES_MAX: usize = 1_000;
/// Bytes of one file, at most.
pub const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The plugins in a folder, by name; none where there is no folder.
///
/// # Errors
/// `Invalid` naming every file that is not valid and why; `Unavailable` when the folder cannot be read.
pub(crate) fn read(folder: &Path) -> Result<BTreeMap<String, Plugin>> {
    let mut problems = Vec::new();
    let mut plugins = BTreeMap::new();
    let Names { documents, skills } = names(folder, &mut problems)?;
    for name in &documents {
        match plugin(folder, name) {
            Ok(plugin) => drop(plugins.insert(name.clone(), plugin)),
            Err(error) => problems.push(error.full()),
        }
    }
    for name in &skills {
        let place = folder.join(name).join(SKILL_FILE);
        match skill::read(folder, name) {
            Ok(_) if documents.contains(name) => {
                problems.push(format!("{}: there is a plugin {name}.json, too", place.display()));
            }
            Ok(skill) => drop(plugins.insert(name.clone(), skill)),
            Err(error) => problems.push(format!("{}: {}", place.display(), error.full())),
        }
    }
    if problems.is_empty() {
        return Ok(plugins);
    }
    Err(Error::invalid(problems.join("; ")))
}

/// What there is in a folder, by name.
#[derive(Default)]
struct Names {
    /// OpenAPI documents.
    documents: Vec<String>,
    /// Folders of skills.
    skills: Vec<String>,
}

/// The names of the documents and skills. Settings without a document are a problem: they are meant for something.
fn names(folder: &Path, problems: &mut Vec<String>) -> Result<Names> {
    let unreadable = |cause| {
        let message = format!("cannot read the folder of plugins {}", folder.display());
        Error::new(ErrorKind::Unavailable, message).because(cause)
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Names::default()),
        Err(cause) => return Err(unreadable(cause)),
    };
    let (mut names, mut skills, mut settings) = (Vec::new(), Vec::new(), Vec::new());
    for entry in entries.take(FILES_MAX) {
        let path = entry.map_err(unreadable)?.path();
        if path.join(SKILL_FILE).is_file() {
            skills.extend(path.file_name().and_then(|name| name.to_str()).map(str::to_owned));
            continue;
        }
        let (Some(stem), Some(kind)) = (path.file_stem(), path.extension()) else { continue };
        let Some(name) = stem.to_str().filter(|name| !name.starts_with('.')) else { continue };
        match kind.to_str() {
            Some("json") => names.push(name.to_owned()),
            // An MCP server, which the settings read.
            Some("toml") if name.ends_with(".mcp") => {}
            Some("toml") => settings.push(name.to_owned()),
            _ => {}
        }
    }
    names.sort_unstable();
    skills.sort_unstable();
    for name in settings.iter().filter(|name| !names.contains(name)) {
        problems.push(format!(
            "{}: there is no {name}.json beside it",
            folder.join(format!("{name}.toml")).display()
        ));
    }
    Ok(Names { documents: names, skills })
}

fn plugin(folder: &Path, name: &str) -> Result<Plugin> {
    let path = folder.join(format!("{name}.json"));
    let named = |path: &Path, problem: String| Error::invalid(format!("{}: {problem}", path.display()));
    let document = text(&path)?.ok_or_else(|| named(&path, "it is gone".to_owned()))?;
    let document =
        serde_json::from_str(&document).map_err(|cause| named(&path, format!("it is no JSON: {cause}")))?;
    let beside = folder.join(format!("{name}.toml"));
    let settings = match text(&beside)? {
        None => PluginSettings::default(),
        Some(text) => toml::from_str(&text).map_err(|cause| named(&beside, cause.message().to_owned()))?,
    };
    Plugin::new(name, &document, settings).map_err(|error| named(&path, error.full()))
}

/// The text of a file; nothing when it is not there.
fn text(path: &Path) -> Result<Option<String>> {
    let failed =
        |cause| Error::new(ErrorKind::Unavailable, format!("cannot read {}", path.display())).because(cause);
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed(cause)),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(Error::invalid(format!("{}: it is larger than {FILE_BYTES_MAX} bytes", path.display())));
    }
    Ok(Some(text))
}
