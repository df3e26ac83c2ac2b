//! MCP servers that are configured by separate files in the plugins folder.

use std::io::{ErrorKind as IoErrorKind, Read as _};
use std::path::Path;

use weft_core::{Error, Result};
use weft_mcp::ServerConfig;

use super::Config;

/// Suffix of the names of such files.
const ENDING: &str = ".mcp.toml";
/// Maximum number of files in the folder that are read.
const FILES_MAX: usize = 1_000;
/// Maximum size of a file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

impl Config {
    /// Adds the MCP servers of the plugins folder: `NAME.mcp.toml` has the fields of `[mcp.servers.NAME]`.
    ///
    /// # Errors
    /// `Invalid` naming every file that cannot be read or is not valid, or whose name is already used.
    pub fn with_plugin_servers(mut self) -> Result<Self> {
        let folder = self.plugins_folder();
        let failed = |cause: std::io::Error| {
            Error::invalid(format!("cannot read the plugin folder {}", folder.display())).because(cause)
        };
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            // A data folder that is not a folder is reported when it is created.
            Err(cause) if matches!(cause.kind(), IoErrorKind::NotFound | IoErrorKind::NotADirectory) => {
                return Ok(self);
            }
            Err(cause) => return Err(failed(cause)),
        };
        let mut problems = Vec::new();
        for entry in entries.take(FILES_MAX) {
            let path = entry.map_err(failed)?.path();
            let file = path.file_name().and_then(|name| name.to_str());
            let Some(name) = file.and_then(|file| file.strip_suffix(ENDING)) else { continue };
            // Temporary files of editors.
            if name.starts_with('.') {
                continue;
            }
            match server(&path) {
                Ok(_) if self.mcp.servers.contains_key(name) => {
                    problems.push(format!("{}: the settings have a server {name}, too", path.display()));
                }
                Ok(server) => drop(self.mcp.servers.insert(name.to_owned(), server)),
                Err(problem) => problems.push(format!("{}: {problem}", path.display())),
            }
        }
        // The entries of a folder come in no fixed order.
        problems.sort_unstable();
        if problems.is_empty() { Ok(self) } else { Err(Error::invalid(problems.join("; "))) }
    }
}

fn server(path: &Path) -> Result<ServerConfig, String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|cause| cause.to_string())?;
    // With one byte more, so that a file which is too large can be told from one that just fits.
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|cause| cause.to_string())?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
    }
    // Only the message: the whole error repeats the line, which may contain a key.
    toml::from_str(&text).map_err(|cause| cause.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_one_server_and_errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let config = || {
            let mut config = Config { data: folder.path().to_owned(), ..Config::default() };
            config.mcp.servers.insert("taken".to_owned(), ServerConfig::default());
            config.with_plugin_servers()
        };
        assert_eq!(config().unwrap().mcp.servers.len(), 1, "a missing folder adds no servers");
        let plugins = folder.path().join("plugins");
        std::fs::create_dir(&plugins).unwrap();
        let write = |name: &str, text: &str| std::fs::write(plugins.join(name), text).unwrap();
        write("files.mcp.toml", "command = \"mcp-server-files\"\nargs = [\"/srv\"]");
        write("other.toml", "base_url = \"x\"");
        write(".draft.mcp.toml", "nonsense");
        let servers = config().unwrap().mcp.servers;
        assert_eq!(servers["files"].args, ["/srv"]);
        assert_eq!(servers.len(), 2);
        write("a.mcp.toml", "comand = 1");
        write("taken.mcp.toml", "command = \"x\"");
        let error = config().unwrap_err().full();
        assert!(error.contains("a.mcp.toml: unknown field `comand`"), "{error}");
        assert!(error.contains("taken.mcp.toml: the settings have a server taken, too"), "{error}");
    }
}
