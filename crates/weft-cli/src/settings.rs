//! Settings, merged from the defaults, the user's own file, `weft.toml` in the current folder or a named file, the
//! environment, and flags, in increasing precedence. The only place that reads the environment.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::error::Kind;
use figment::providers::Serialized;
use figment::value::Value;
use weft_app::config::trust::{self, Untrusted};
use weft_app::config::{DEFAULTS, sections};
use weft_app::{Auth, Config, Secret};
use weft_core::Json;

use crate::failure::{Failure, Outcome};
use crate::screen::Notes;
use crate::settings_line::{line_of, no_table};
use crate::settings_parts::Parts;
use crate::settings_removal::RemovedItems;
use crate::trust::{is_trusted, told};
use crate::wrong_value;

/// The file that is read if no other is named. It may have come with the folder.
const FILE: &str = "weft.toml";
/// Remedy for an untrusted file.
const TRUST_HELP: &str = "review ./weft.toml, which may have come with this folder; then run `weft trust`, name it \
                          with --config, or put the setting into your own settings (~/.config/weft/weft.toml)";
/// The reason for an unknown setting.
const UNKNOWN: &str = "there is no such setting";
/// Maximum number of invalid settings that are reported.
// Each of them takes one more attempt to read all settings.
const WRONG_MAX: usize = 100;
/// Maximum size of a settings file, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Prefix of all environment variables of this program.
const PREFIX: &str = "WEFT_";
/// Variables that are not settings of the server; those that read them document them.
const OWN: [&str; 8] = [
    ONE_SERVER,
    ONE_SERVER_KEY,
    DEFAULT_MODEL,
    DEFAULT_EMBEDDING,
    DEFAULT_RERANK,
    crate::logging::VARIABLE,
    FAULT_POINT,
    // Names the folder with additional test data of the workspace.
    "WEFT_SHARED",
];
const ONE_SERVER: &str = "WEFT_OPENAI_BASE_URL";
const ONE_SERVER_KEY: &str = "WEFT_OPENAI_API_KEY";
const DEFAULT_MODEL: &str = "WEFT_DEFAULT_MODEL";
const DEFAULT_EMBEDDING: &str = "WEFT_DEFAULT_EMBEDDING";
const DEFAULT_RERANK: &str = "WEFT_DEFAULT_RERANK";
/// Where the process is killed, in builds that support it: `before:N` or `after:N`.
const FAULT_POINT: &str = "WEFT_FAULT_POINT";
/// The base URL of the model server in benchmarks.
const MEASURING_SERVER: &str = "LLM";
/// The argument that makes the program a worker of the sandbox. Not for people.
pub(crate) const SANDBOX_WORKER: &str = "sandbox-worker";
/// The same for parsing a document.
pub(crate) const DOCUMENT_WORKER: &str = "document-worker";
/// API key for servers that need none; some refuse a request without any.
const NO_KEY: &str = "x";

/// Makes the process end at the journal entry that the environment names.
///
/// # Errors
/// When the value is not valid, or this build does not support it.
pub(crate) fn set_fault_point(environment: &Environment) -> Outcome<()> {
    let Some(point) = environment.text(FAULT_POINT) else { return Ok(()) };
    #[cfg(feature = "fault-points")]
    let set = weft_app::fault_points::FaultPoint::parse(point).map(|point| point.set());
    #[cfg(not(feature = "fault-points"))]
    let set = Err(weft_core::Error::invalid(format!(
        "{FAULT_POINT} is {point}, and this build has no fault points"
    ))
    .help("unset it; `cargo xtask kills` makes a build that has them"));
    set.map_err(|error| Failure::before_running(&error))
}

/// The environment at the start of the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment(Vec<(String, OsString)>);

impl Environment {
    /// Returns the environment of the process. Names that are not text are ignored.
    pub(crate) fn of_process() -> Self {
        Self(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect(),
        )
    }

    /// Returns a variable that is set, not empty, and valid text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.raw(name)?.to_str().filter(|value| !value.trim().is_empty())
    }

    /// Returns the user's own settings folder.
    pub(crate) fn settings_folder(&self) -> Option<PathBuf> {
        match (self.folder("XDG_CONFIG_HOME"), self.folder("HOME")) {
            (Some(settings), _) => Some(settings.join("weft")),
            (None, Some(home)) => Some(home.join(".config/weft")),
            (None, None) => None,
        }
    }

    /// Returns a folder that a variable names. A relative path is ignored, because it would depend on the current
    /// folder.
    fn folder(&self, name: &str) -> Option<PathBuf> {
        self.raw(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    fn raw(&self, name: &str) -> Option<&OsString> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    #[cfg(test)]
    fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect())
    }
}

/// Values of flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--data`.
    pub data: Option<PathBuf>,
    /// `--model`.
    pub model: Option<String>,
    /// `--llm-base-url`.
    pub one_server: Option<String>,
    /// `--listen`.
    pub listen: Option<std::net::SocketAddr>,
    /// `--no-auth`.
    pub no_auth: bool,
    /// Whether the command needs a store that exists.
    pub needs_store: bool,
    /// The parts of the settings that the command needs.
    pub parts: Parts,
}

/// A setting from the environment.
#[derive(Debug)]
struct EnvSetting {
    name: String,
    path: String,
    value: Value,
}

/// All settings by source, in increasing precedence.
#[derive(Debug, Default)]
struct Sources {
    files: Vec<File>,
    variables: Vec<EnvSetting>,
}

/// Reads all settings.
///
/// # Errors
/// One failure that names every invalid setting and its source.
pub(crate) fn read(environment: &Environment, flags: &Flags) -> Outcome<Config> {
    let mut wrong = Vec::new();
    let files = files(environment, flags, &mut wrong);
    // Before the wrong settings are taken out of the files.
    let untrusted = files.iter().filter(|file| flags.config.is_none() && file.path == Path::new(FILE));
    let untrusted: Vec<Untrusted> = untrusted.flat_map(|file| not_trusted(file, environment)).collect();
    let mut sources = Sources { files, variables: variables(environment, &mut wrong) };
    let mut config = sources.extract(&mut wrong);
    let refused = refused(&untrusted, &wrong);
    wrong.extend(refused);
    // The data folder first: the plugins folder, whose servers are read below, is in it by default.
    config.data = flags.data.clone().unwrap_or_else(|| data_folder(&sources, &config, environment));
    apply(&mut config, environment, flags);
    let mut config = flags.parts.complete(config, environment, &mut wrong);
    if config.sandbox.worker.is_empty() {
        config.sandbox.worker = own_worker(SANDBOX_WORKER).unwrap_or_default();
    }
    if config.documents.worker.is_empty() {
        config.documents.worker = own_worker(DOCUMENT_WORKER).unwrap_or_default();
    }
    // Checked once everything is merged, and reported with all other errors, so that one start shows every mistake.
    if let Err(error) = config.check() {
        wrong.push(error.full());
    }
    if wrong.is_empty() { Ok(config) } else { Err(refusal(&wrong)) }
}

/// Returns this program as the command that runs programs of canvases, or parses documents.
fn own_worker(argument: &str) -> Option<Vec<String>> {
    let program = std::env::current_exe().ok()?.into_os_string().into_string().ok()?;
    Some(vec![program, argument.to_owned()])
}

fn refusal(wrong: &[String]) -> Failure {
    match wrong {
        [one] => Failure::usage(format!("cannot use the settings: {one}")),
        several => {
            let mut text = format!("cannot use the settings, for {} reasons:", several.len());
            for one in several {
                // Writing to a String cannot fail.
                let _ = write!(text, "\n  - {one}");
            }
            Failure::usage(text)
        }
    }
}

/// Applies flags and variables with short names.
fn apply(config: &mut Config, environment: &Environment, flags: &Flags) {
    let one_server = flags
        .one_server
        .as_deref()
        .or_else(|| environment.text(ONE_SERVER))
        // Other programs may use this name, too, so it only counts without authentication, as in benchmarks.
        .or_else(|| environment.text(MEASURING_SERVER).filter(|_| flags.no_auth));
    if let Some(base_url) = one_server {
        let mut server = config.models.one_server.take().unwrap_or_default();
        // Paths that begin with a slash are appended to it.
        base_url.trim().trim_end_matches('/').clone_into(&mut server.base_url);
        server.api_key = Secret::new(environment.text(ONE_SERVER_KEY).unwrap_or(NO_KEY).trim());
        config.models.one_server = Some(server);
    }
    let default = |variable: &str| environment.text(variable).map(|name| name.trim().to_owned());
    let model = flags.model.clone();
    let (embedding, rerank) = (default(DEFAULT_EMBEDDING), default(DEFAULT_RERANK));
    match &mut config.models.one_server {
        Some(server) => {
            server.model = model.or(default(DEFAULT_MODEL)).or(server.model.take());
            server.embedding = embedding.or(server.embedding.take());
            server.rerank = rerank.or(server.rerank.take());
        }
        None => {
            let models = &mut config.models;
            models.replace_all = model.or(models.replace_all.take());
            models.default = default(DEFAULT_MODEL).or(models.default.take());
            models.default_embedding = embedding.or(models.default_embedding.take());
            models.default_rerank = rerank.or(models.default_rerank.take());
        }
    }
    config.listen = flags.listen.unwrap_or(config.listen);
    if flags.no_auth {
        config.server.auth = Auth::Off;
    }
}

/// Returns `data` if it is set, else the user's own data folder. An empty value does not count: it would mean the
/// current folder.
fn data_folder(sources: &Sources, config: &Config, environment: &Environment) -> PathBuf {
    if sources.figment().contains("data") && !config.data.as_os_str().is_empty() {
        return config.data.clone();
    }
    match (environment.folder("XDG_DATA_HOME"), environment.folder("HOME")) {
        (Some(data), _) => data.join("weft"),
        (None, Some(home)) => home.join(".local/share/weft"),
        (None, None) => PathBuf::from(".weft"),
    }
}

/// A settings file.
#[derive(Debug)]
pub(crate) struct File {
    /// Its path.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
    table: toml::Table,
    /// What was invalid in it.
    removed: RemovedItems,
}

/// Returns the settings files in increasing precedence: the user's own, and the named one or the one in the current
/// folder.
fn files(environment: &Environment, flags: &Flags, wrong: &mut Vec<String>) -> Vec<File> {
    let own = environment.settings_folder().map(|folder| folder.join(FILE)).filter(|path| path.exists());
    let here = Some(Path::new(FILE)).filter(|path| flags.config.is_none() && path.exists());
    let mut files = Vec::new();
    for path in own.as_deref().into_iter().chain(flags.config.as_deref()).chain(here) {
        match file(path) {
            Ok(file) => files.push(file),
            Err(message) => wrong.push(message),
        }
    }
    files
}

/// Returns the settings that require trust in the file of the current folder, unless it is trusted.
fn not_trusted(file: &File, environment: &Environment) -> Vec<Untrusted> {
    let mut untrusted = untrusted(file, environment);
    if !untrusted.is_empty() && is_trusted(&file.path, &file.text, environment) {
        untrusted.clear();
    }
    untrusted
}

/// Returns the error for settings of the current folder that require trust. An unknown one among the wrong settings is
/// not reported again.
fn refused(untrusted: &[Untrusted], wrong: &[String]) -> Option<String> {
    let is_unknown = |one: &Untrusted| {
        let start = format!("`{}` in {FILE}", one.name);
        wrong.iter().any(|wrong| wrong.starts_with(&start) && wrong.contains(UNKNOWN))
    };
    let told: Vec<String> = untrusted.iter().filter(|one| !is_unknown(one)).map(told).collect();
    if told.is_empty() {
        return None;
    }
    Some(format!("{FILE} is not trusted to set {} ({TRUST_HELP})", told.join("; ")))
}

/// Reads the settings file of the current folder.
///
/// # Errors
/// When there is none, or it is not valid.
pub(crate) fn folder_file() -> Outcome<File> {
    let path = Path::new(FILE);
    if !path.exists() {
        return Err(Failure::usage(format!("there is no {FILE} in this folder"))
            .help("only a settings file in the current folder needs to be trusted: change to its folder"));
    }
    file(path).map_err(Failure::usage)
}

/// Returns the settings in a file that only the operator may make.
pub(crate) fn untrusted(file: &File, environment: &Environment) -> Vec<Untrusted> {
    let own = environment.settings_folder().and_then(|folder| self::file(&folder.join(FILE)).ok());
    // A setting that is lower than without this file needs no trust.
    let mut without = Figment::new();
    if let Ok(defaults) = DEFAULTS.parse::<toml::Table>() {
        without = without.merge(Serialized::defaults(defaults));
    }
    if let Some(own) = own {
        without = without.merge(Serialized::defaults(own.table));
    }
    // Other variables take precedence over the file, but budgets of single canvases in it would replace this one. It may
    // also be set by one variable for the whole table.
    let mut variables = Figment::new();
    for (name, value) in &environment.0 {
        let path = path_of(name).filter(|path| path == "limits" || path.starts_with("limits."));
        if let (Some(path), Some(value)) = (path, value.to_str()) {
            variables = variables.merge((path.as_str(), parse(value)));
        }
    }
    if let Ok(budget) = variables.find_value("limits.canvas_budget") {
        without = without.merge(("limits.canvas_budget", budget));
    }
    let without = without.extract::<Json>().unwrap_or_default();
    trust::untrusted(&serde_json::to_value(&file.table).unwrap_or_default(), &without)
}

fn file(path: &Path) -> Result<File, String> {
    use std::io::Read as _;
    let shown = path.display();
    let read = || {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path)?;
        // One byte more than the limit: half of a file would be different settings.
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    let bytes = read().map_err(|error| format!("cannot read {shown}: {error}"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!(
            "{shown} is larger than {} MiB, too large for a settings file",
            FILE_BYTES_MAX >> 20
        ));
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("{shown} is not valid UTF-8"))?;
    match text.parse::<toml::Table>() {
        Ok(table) => Ok(File { path: path.to_owned(), text, table, removed: RemovedItems::default() }),
        Err(error) => Err(no_table(&text, &shown.to_string(), &error)),
    }
}

/// Returns the path of the setting that a variable makes, such as `store.url` for `WEFT_STORE__URL`.
fn path_of(variable: &str) -> Option<String> {
    // A single underscore is part of a name.
    Some(variable.strip_prefix(PREFIX)?.to_lowercase().replace("__", "."))
}

/// Reads the variables that make settings.
fn variables(environment: &Environment, wrong: &mut Vec<String>) -> Vec<EnvSetting> {
    let mut variables = Vec::new();
    for (name, value) in &environment.0 {
        let Some(path) = path_of(name).filter(|_| !OWN.contains(&name.as_str())) else {
            continue;
        };
        let Some(value) = value.to_str() else {
            wrong.push(format!("{name} in the environment is not valid UTF-8"));
            continue;
        };
        let section = path.split('.').next().unwrap_or_default();
        // Schedulers such as Kubernetes add variables named after the service.
        if sections().contains(&section) {
            variables.push(EnvSetting { name: name.clone(), path, value: parse(value) });
        } else {
            Notes::line(format!("note: {name} in the environment is not a setting and is ignored"));
        }
    }
    // A table comes before its members, so that the more specific variable takes precedence.
    variables.sort_by(|a, b| a.path.cmp(&b.path));
    variables
}

/// Parses lists and tables in figment's syntax; everything else is a string, which is converted to a number or a
/// boolean where needed.
fn parse(text: &str) -> Value {
    if text.trim_start().starts_with(['[', '{']) {
        text.parse().unwrap_or_else(|never| match never {})
    } else {
        Value::from(text)
    }
}

impl Sources {
    fn figment(&self) -> Figment {
        let mut figment = Figment::new();
        for file in &self.files {
            figment = figment.merge(Serialized::defaults(&file.table));
        }
        for EnvSetting { path, value, .. } in &self.variables {
            figment = figment.merge((path.as_str(), value.clone()));
        }
        figment
    }

    /// Extracts the settings; each invalid one is reported and removed before the rest is tried again.
    fn extract(&mut self, wrong: &mut Vec<String>) -> Config {
        for _ in 0..WRONG_MAX {
            // Values from the environment are texts, which this method converts.
            let error = match self.figment().extract_lossy::<Config>() {
                Ok(config) => return config,
                Err(error) => error,
            };
            let mut path = error.path.clone();
            let what = match &error.kind {
                Kind::UnknownField(name, known) => {
                    // The path of some errors ends at the table that contains the field.
                    if path.last() != Some(name) {
                        path.push(name.clone());
                    }
                    format!("{UNKNOWN}; it must be one of {}", known.join(", "))
                }
                kind => wrong_value::in_words(kind),
            };
            match self.take_out(&mut path) {
                Some(place) => wrong.push(format!("{place}: {what}")),
                None => {
                    // No source has set it, so another attempt would give the same error.
                    wrong.push(what);
                    break;
                }
            }
        }
        Config::default()
    }

    /// Removes the effective setting at a path, or the nearest one that contains it; returns where it was set.
    fn take_out(&mut self, path: &mut Vec<String>) -> Option<String> {
        while !path.is_empty() {
            let dotted = path.join(".");
            let inside = |variable: &EnvSetting| {
                variable.path == dotted
                    || dotted.strip_prefix(&variable.path).is_some_and(|rest| rest.starts_with('.'))
            };
            // Variables come before files, which they override.
            if let Some(at) = self.variables.iter().rposition(inside) {
                let name = self.variables.remove(at).name;
                return Some(format!("{name} in the environment"));
            }
            for file in self.files.iter_mut().rev() {
                if let Some(written) = file.removed.remove(&mut file.table, path) {
                    let line = line_of(&file.text, &written).map(|line| format!(", line {line}"));
                    return Some(format!(
                        "`{}` in {}{}",
                        written.join("."),
                        file.path.display(),
                        line.unwrap_or_default()
                    ));
                }
            }
            path.pop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pairs: &[(&str, &str)], flags: &Flags) -> Config {
        read(&Environment::of(pairs), flags).unwrap()
    }

    #[test]
    fn the_data_folder_defaults_to_one_of_the_user() {
        let check = |pairs: &[(&str, &str)], expected: &str| {
            assert_eq!(config(pairs, &Flags::default()).data, Path::new(expected), "{pairs:?}");
        };
        check(&[], ".weft");
        check(&[("HOME", "/h")], "/h/.local/share/weft");
        check(&[("HOME", "relative")], ".weft");
        check(&[("HOME", "/h"), ("XDG_DATA_HOME", "/x")], "/x/weft");
        check(&[("HOME", "/h"), ("WEFT_DATA", "here")], "here");
        check(&[("HOME", "/h"), ("WEFT_DATA", "")], "/h/.local/share/weft");
    }

    #[test]
    fn one_server_can_serve_every_model() {
        let flags = |one_server: Option<&str>| Flags {
            one_server: one_server.map(str::to_owned),
            ..Flags::default()
        };
        let check = |pairs: &[(&str, &str)], flags: &Flags, expected: Option<(&str, &str, Option<&str>)>| {
            let models = config(pairs, flags).models;
            let server = models.one_server.as_ref();
            let found = server.map(|s| (s.base_url.as_str(), s.api_key.reveal(), s.model.as_deref()));
            assert_eq!(found, expected, "{pairs:?} {flags:?}");
        };
        let url = ("WEFT_OPENAI_BASE_URL", "http://a/v1/");
        check(&[url], &flags(None), Some(("http://a/v1", "x", None)));
        check(&[url], &flags(Some("http://b/v1")), Some(("http://b/v1", "x", None)));
        check(
            &[url, ("WEFT_DEFAULT_MODEL", "m"), ("WEFT_OPENAI_API_KEY", "k")],
            &flags(None),
            Some(("http://a/v1", "k", Some("m"))),
        );
        check(&[("LLM", "http://c/v1")], &flags(None), None);
        let measuring = Flags { no_auth: true, ..Flags::default() };
        check(&[("LLM", "http://c/v1")], &measuring, Some(("http://c/v1", "x", None)));
    }

    #[test]
    fn embedding_and_rerank_models_have_their_own_variables() {
        let named = [("WEFT_DEFAULT_EMBEDDING", "e"), ("WEFT_DEFAULT_RERANK", " r ")];
        let models = config(&named, &Flags::default()).models;
        assert_eq!(
            (models.default_embedding.as_deref(), models.default_rerank.as_deref()),
            (Some("e"), Some("r"))
        );
        let of_server = [("WEFT_OPENAI_BASE_URL", "http://a/v1"), ("WEFT_DEFAULT_EMBEDDING", "e")];
        let models = config(&of_server, &Flags::default()).models;
        let server = models.one_server.unwrap();
        assert_eq!(
            (server.embedding.as_deref(), server.rerank, models.default_embedding),
            (Some("e"), None, None)
        );
    }

    #[test]
    fn a_file_of_the_folder_does_not_replace_a_budget_of_the_environment() {
        let text = "limits.canvas_budgets.shop.day.tokens = 1\n".to_owned();
        let table = text.parse().unwrap();
        let file = File { path: PathBuf::from(FILE), text, table, removed: RemovedItems::default() };
        let names = |pairs: &[(&str, &str)]| {
            let found = untrusted(&file, &Environment::of(pairs));
            found.into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), [""; 0]);
        let money = ("WEFT_LIMITS__CANVAS_BUDGET__DAY__MONEY", "2");
        let whole = ("WEFT_LIMITS__CANVAS_BUDGET", "{ day = { money = 2 } }");
        let section = ("WEFT_LIMITS", "{ run_seconds = 7, canvas_budget = { day = { money = 2 } } }");
        for variables in [&[money][..], &[whole], &[section], &[section, money]] {
            assert_eq!(names(variables), ["limits.canvas_budgets.shop"], "{variables:?}");
        }
        assert_eq!(names(&[("WEFT_LIMITS", "{ run_seconds = 7 }")]), [""; 0]);
        assert_eq!(names(&[("WEFT_LIMITS__CANVAS_BUDGETS__OTHER__DAY__MONEY", "2")]), [""; 0]);
    }

    #[test]
    fn variables_are_converted_to_the_type_of_the_setting() {
        let pairs = [
            ("WEFT_STORE__URL", "sqlite:a.db"),
            ("WEFT_LIMITS__RUN_SECONDS", "7"),
            ("WEFT_NET__ALLOW", "[\"10.0.0.0/8\", \"localhost\"]"),
            ("WEFT_SERVER__AUTH", "off"),
        ];
        let config = config(&pairs, &Flags::default());
        assert_eq!((config.store.url.as_str(), config.limits.run_seconds), ("sqlite:a.db", 7));
        assert_eq!(config.net.allow, ["10.0.0.0/8", "localhost"]);
        assert_eq!(config.server.auth, Auth::Off);
    }

    #[test]
    fn an_error_describes_the_expected_type_in_words() {
        let check = |variable: &str, value: &str, expected: &str| {
            let mut sources = Sources {
                files: Vec::new(),
                variables: variables(&Environment::of(&[(variable, value)]), &mut Vec::new()),
            };
            let mut wrong = Vec::new();
            drop(sources.extract(&mut wrong));
            assert_eq!(wrong, [format!("{variable} in the environment: {expected}")]);
        };
        check("WEFT_LIMITS__RUN_SECONDS", "soon", "it is a text and must be a whole number, not below 0");
        check("WEFT_LIMITS", "soon", "it is a text and must be a table");
        check("WEFT_WORKER__ENABLED", "perhaps", "it is a text and must be yes or no (true or false)");
        check("WEFT_NET__ALLOW", "localhost", "it is a text and must be a list");
        let unclosed = "it must be a list, and this text is not one: check its brackets, commas and quotes";
        check("WEFT_MODELS__ENTRIES", "[{name=\"a\"", unclosed);
        check(
            "WEFT_LIMITS",
            "{run_seconds",
            "it must be a table, and this text is not one: check its brackets, commas and quotes",
        );
        for beyond in ["99999999999999999999", "-99999999999999999999"] {
            check("WEFT_LIMITS__RUN_SECONDS", beyond, "the number is too large: it must fit into 64 bits");
        }
    }

    #[test]
    fn a_number_that_is_too_large_for_a_file_is_reported_at_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.toml");
        std::fs::write(&path, "# limits\n[limits]\nrun_seconds = 99999999999999999999\n").unwrap();
        let error = file(&path).unwrap_err();
        assert!(error.starts_with("`limits.run_seconds` in ") && error.contains("line 3: "), "{error}");
        assert!(error.ends_with("the number is too large: it must fit into 64 bits"), "{error}");
    }

    #[test]
    fn a_settings_file_that_is_too_large_is_refused_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.toml");
        let long = "# nothing\n".repeat(500_000);
        std::fs::write(&path, format!("{long}[limits]\nrun_seconds = 1\n")).unwrap();
        assert!(file(&path).unwrap_err().contains("is larger than 4 MiB"));
        std::fs::write(&path, "# nothing\n[limits]\nrun_seconds = 1\n").unwrap();
        assert_eq!(file(&path).unwrap().table.len(), 1);
    }

    #[test]
    fn each_wrong_setting_is_reported_with_its_source() {
        let table =
            "[limits]\nrun_seconds = 1\n[[models.entries]]\nname = \"a\"\n[[models.entries]]\nnmae = \"b\"\n";
        let mut sources = Sources {
            files: vec![File {
                path: PathBuf::from("f.toml"),
                text: table.to_owned(),
                table: table.parse().unwrap(),
                removed: RemovedItems::default(),
            }],
            variables: variables(&Environment::of(&[("WEFT_LIMITS__RUN_SECONDS", "soon")]), &mut Vec::new()),
        };
        let mut wrong = Vec::new();
        let config = sources.extract(&mut wrong);
        assert_eq!(wrong.len(), 3, "{wrong:#?}");
        assert!(wrong.iter().any(|one| one.starts_with("WEFT_LIMITS__RUN_SECONDS in the environment: ")));
        assert!(
            wrong.iter().any(|one| one.starts_with("`models.entries.1.nmae` in f.toml, line 6: ")),
            "{wrong:#?}"
        );
        // The valid settings are still read.
        assert_eq!((config.limits.run_seconds, config.models.entries.len()), (1, 1));
    }

    #[test]
    fn a_wrong_item_is_reported_at_its_place_in_the_file() {
        let text = "[net]\nallow = [\n  1,\n  \"x\",\n  2,\n]\n".to_owned();
        let table = text.parse().unwrap();
        let file = File { path: PathBuf::from("f.toml"), text, table, removed: RemovedItems::default() };
        let mut sources = Sources { files: vec![file], variables: Vec::new() };
        let mut taken = |path: &str| sources.take_out(&mut path.split('.').map(str::to_owned).collect());
        assert_eq!(taken("net.allow.0").as_deref(), Some("`net.allow.0` in f.toml, line 3"));
        // The one that was at 2 before.
        assert_eq!(taken("net.allow.1").as_deref(), Some("`net.allow.2` in f.toml, line 5"));
    }
}
