//! Import of the servers of other programs, in the usual `mcpServers` JSON. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use weft_core::{Error, ErrorKind, Json, Result, Secret};

use crate::config::{McpConfig, ServerConfig, TransportKind};

/// Who imports the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importer {
    /// The operator of this program, who may name programs to start.
    Operator,
    /// A user, who may only name URLs.
    User,
}

/// Maximum number of servers in one import.
const SERVERS_MAX: usize = 200;

/// One server. Unknown keys belong to other programs.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct ImportedServer {
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, Secret>,
    cwd: Option<std::path::PathBuf>,
    #[serde(alias = "serverUrl", alias = "httpUrl")]
    url: Option<String>,
    #[serde(rename = "type", alias = "transport")]
    kind: Option<TransportKind>,
    headers: BTreeMap<String, Secret>,
    authorization_token: Option<Secret>,
    tool_configuration: ToolConfiguration,
    disabled: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolConfiguration {
    enabled: Option<bool>,
    allowed_tools: Option<std::collections::BTreeSet<String>>,
}

/// Parses the servers in
/// `{"mcpServers": {name: {url | command, type, headers, authorization_token, tool_configuration, …}}}`, or in the
/// inner object alone. Disabled servers are left out.
///
/// # Errors
/// `Invalid` naming every server that is not valid, `Denied` for a user's server that is a process.
pub fn import(json: &Json, importer: Importer) -> Result<BTreeMap<String, ServerConfig>> {
    let listed = json.get("mcpServers").unwrap_or(json).as_object().ok_or_else(|| {
        Error::invalid("there are no servers").help("write {\"mcpServers\": {\"name\": {\"url\": \"…\"}}}")
    })?;
    if listed.len() > SERVERS_MAX {
        return Err(Error::invalid(format!("there are more than {SERVERS_MAX} servers")));
    }
    let (mut config, mut wrong) = (McpConfig::default(), Vec::new());
    for (name, json) in listed {
        match ImportedServer::deserialize(json) {
            // Checked first: a disabled server need not be valid.
            Ok(entry) if entry.disabled || entry.tool_configuration.enabled == Some(false) => {}
            // The whole import is refused: a user who may name a program could run anything on this machine.
            Ok(entry) if entry.command.is_some() && importer == Importer::User => {
                let message = format!("the server `{name}` is a program to start");
                return Err(Error::new(ErrorKind::Denied, message)
                    .help("only the operator's configuration may start programs; use a `url`"));
            }
            Ok(entry) => {
                config.servers.insert(name.clone(), entry.server());
            }
            // The message would contain the value, which may be a misplaced secret.
            Err(error) if error.is_data() => wrong.push(format!("`{name}` has a setting of the wrong type")),
            Err(error) => wrong.push(format!("`{name}`: {error}")),
        }
    }
    wrong.extend(config.problems());
    if wrong.is_empty() { Ok(config.servers) } else { Err(Error::invalid(wrong.join("; "))) }
}

impl ImportedServer {
    fn server(self) -> ServerConfig {
        let mut headers = self.headers;
        if let Some(token) = self.authorization_token {
            headers
                .entry("Authorization".to_owned())
                // An explicit header takes precedence: it may use another scheme.
                .or_insert_with(|| Secret::new(format!("Bearer {}", token.reveal())));
        }
        // Some programs also give a transport for a command.
        let transport = self.kind.filter(|_| self.command.is_none());
        ServerConfig {
            command: self.command,
            args: self.args,
            env: self.env,
            cwd: self.cwd,
            url: self.url,
            transport,
            headers,
            enable: self.tool_configuration.allowed_tools,
            ..ServerConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_usual_format_is_read() {
        let json = json!({"mcpServers": {
            "files": {"command": "npx", "args": ["-y", "files"], "env": {"KEY": "s3cret"}, "type": "stdio"},
            "web": {"url": "https://a.example/mcp", "type": "http", "authorization_token": "s3cret",
                    "tool_configuration": {"allowed_tools": ["find"]}, "icon": "x"},
            "old": {"url": "https://a.example/sse", "type": "sse", "headers": {"X-Key": "k"}},
            "off": {"url": "nowhere", "disabled": true},
        }});
        let servers = import(&json, Importer::Operator).unwrap();
        assert_eq!(servers.keys().collect::<Vec<_>>(), ["files", "old", "web"]);
        assert_eq!(servers["web"].kind(), TransportKind::StreamableHttp);
        assert_eq!(servers["web"].headers["Authorization"].reveal(), "Bearer s3cret");
        assert!(servers["web"].is_enabled("find") && !servers["web"].is_enabled("drop"));
        assert_eq!(
            (servers["old"].kind(), servers["files"].kind()),
            (TransportKind::Sse, TransportKind::Stdio)
        );
        assert!(!format!("{servers:?}").contains("s3cret"));
    }

    #[test]
    fn a_user_may_not_name_a_program_and_errors_show_no_secrets() {
        let program = json!({"mcpServers": {"x": {"command": "sh"}}});
        assert_eq!(import(&program, Importer::User).unwrap_err().kind, ErrorKind::Denied);
        let wrong =
            json!({"a": {"url": "ftp://x"}, "b": {}, "c": {"url": "http://x", "headers": ["s3cret"]}});
        let error = import(&wrong, Importer::User).unwrap_err().full();
        for part in ["mcp.servers.a", "mcp.servers.b", "`c`"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!error.contains("s3cret"));
        assert_eq!(import(&json!([]), Importer::User).unwrap_err().kind, ErrorKind::Invalid);
    }
}
