//! Configuration of servers by the operator.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use rmcp::model::ProtocolVersion;
use serde::Deserialize;
use url::Url;
use weft_core::{Json, Secret};

use crate::headers;

/// Variables of this process's environment that are passed on to a server's process, if they are set.
// Programs such as `npx` use these to find themselves and their caches; none of them contains a key.
const INHERITED: [&str; 9] = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"];
/// Maximum length of a server's name, in bytes.
const NAME_MAX: usize = 255;
/// Minimum size limit of a message: a lower one would reject every list of tools.
const RESULT_BYTES_MIN: usize = 4 << 10;

/// The `mcp` part of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpConfig {
    /// The servers, by the ids that canvases use.
    pub servers: BTreeMap<String, ServerConfig>,
    /// Environment of every server's process; see [`McpConfig::with_environment`].
    #[serde(skip)]
    pub inherited: BTreeMap<String, String>,
}

/// One server: a local process, or a URL.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// The program to start. It communicates over its standard input and output.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, in addition to a few harmless variables of this process.
    pub env: BTreeMap<String, Secret>,
    /// Its environment, by the names of variables of this process that hold the values.
    pub env_from: BTreeMap<String, String>,
    /// Its working directory.
    pub cwd: Option<PathBuf>,
    /// The URL, in place of a program.
    pub url: Option<String>,
    /// The transport at the URL.
    #[serde(rename = "type")]
    pub transport: Option<TransportKind>,
    /// Sent with every request; `$name` and `${name}` stand for variables.
    pub headers: BTreeMap<String, Secret>,
    /// Values to which headers may refer.
    pub variables: BTreeMap<String, Secret>,
    /// The same, by the environment variables that hold the values.
    pub variables_from: BTreeMap<String, String>,
    /// How tokens are obtained.
    pub oauth: Option<OauthConfig>,
    /// Whether each call uses its own connection.
    pub stateless: bool,
    /// Time limit for connecting, in seconds.
    pub connect_seconds: u64,
    /// Time limit for listing the tools, in seconds.
    pub list_seconds: u64,
    /// Time limit of a call, in seconds.
    pub call_seconds: u64,
    /// Maximum size of a message from the server, in bytes.
    pub result_bytes_max: usize,
    /// The only tools to offer, by their names on the server; absent: all.
    pub enable: Option<BTreeSet<String>>,
    /// Tools not to offer.
    pub disable: BTreeSet<String>,
    /// Preset arguments, by tool.
    pub preset: BTreeMap<String, serde_json::Map<String, Json>>,
    /// Settings of individual tools.
    pub tools: BTreeMap<String, ToolConfig>,
    /// When a tool's definition counts as accepted.
    pub pin: PinMode,
    /// The answer to questions of the server.
    pub elicitation: ElicitationMode,
    /// The protocol revision to try first, such as "2026-07-28"; absent: the newest that older servers support as
    /// well.
    pub revision: Option<String>,
}

/// Transport of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransportKind {
    /// Standard input and output of a process.
    Stdio,
    /// A single URL, with answers as JSON or as streams.
    #[serde(alias = "streamable_http", alias = "streamableHttp", alias = "http")]
    StreamableHttp,
    /// A stream of events, and a separate URL for requests; the protocol of 2024.
    Sse,
}

/// Settings of a tool. Absent values are those of the server, or the general ones.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolConfig {
    /// Time limit of a call, in seconds.
    pub call_seconds: Option<u64>,
    /// Whether a person has to approve each call.
    pub approval: bool,
    /// Whether an interrupted call may be repeated.
    pub idempotent: Option<bool>,
    /// Whether identical calls are not a sign of a loop.
    pub poll: bool,
    /// Whether it must not run concurrently with other calls.
    pub alone: bool,
}

/// When a tool's definition counts as accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PinMode {
    /// On first use; a change has to be accepted explicitly.
    #[default]
    FirstUse,
    /// Only when an operator has accepted it.
    Strict,
    /// Always.
    Off,
}

/// The answer when a server asks a question before it returns the result of a tool: no person sees such questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ElicitationMode {
    /// None: servers are informed that they cannot ask.
    #[default]
    Decline,
    /// The default values of a form, if every required field has one.
    Defaults,
}

/// How tokens are obtained. With a token URL: by a refresh token, else with the client's own secret. Without one: by
/// a sign-in, and the other settings identify this program as a client.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OauthConfig {
    /// URL of the token endpoint; empty: the one of the server's authorization server, after a sign-in.
    pub token_url: String,
    /// The client id; empty for a sign-in as a client that is registered dynamically.
    pub client_id: String,
    /// The https URL of a client metadata document that describes this program, for authorization servers that accept
    /// one in place of a registration.
    pub client_metadata_url: Option<String>,
    /// The issuer of the authorization server at which the client is registered: sign-ins at any other one that the
    /// server names are refused. Without it, the secret is bound to the first one at which a sign-in succeeded.
    pub issuer: Option<String>,
    /// The client secret.
    pub client_secret: Secret,
    /// The environment variable that holds the client secret.
    pub client_secret_env: Option<String>,
    /// The refresh token.
    pub refresh_token: Secret,
    /// The environment variable that holds the refresh token.
    pub refresh_token_env: Option<String>,
    /// The requested scope.
    pub scope: Option<String>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            env_from: BTreeMap::new(),
            cwd: None,
            url: None,
            transport: None,
            headers: BTreeMap::new(),
            variables: BTreeMap::new(),
            variables_from: BTreeMap::new(),
            oauth: None,
            stateless: false,
            connect_seconds: 10,
            list_seconds: 15,
            call_seconds: 60,
            result_bytes_max: 5 << 20,
            enable: None,
            disable: BTreeSet::new(),
            preset: BTreeMap::new(),
            tools: BTreeMap::new(),
            pin: PinMode::default(),
            elicitation: ElicitationMode::default(),
            revision: None,
        }
    }
}

impl McpConfig {
    /// Takes the values for servers from the environment, which is accessed through `read`.
    ///
    /// # Errors
    /// One sentence for each variable that is named and not set.
    pub fn with_environment(mut self, read: impl Fn(&str) -> Option<String>) -> Result<Self, Vec<String>> {
        self.inherited =
            INHERITED.iter().filter_map(|name| Some(((*name).to_owned(), read(name)?))).collect();
        let mut unset = Vec::new();
        for (id, server) in &mut self.servers {
            let mut value = |name: &str, asked: &str| {
                let found = read(name).map(Secret::new);
                if found.is_none() {
                    unset.push(format!("mcp.servers.{id}.{asked}: {name} in the environment is not set"));
                }
                found
            };
            for (variable, from) in &server.env_from {
                server.env.extend(value(from, "env_from").map(|secret| (variable.clone(), secret)));
            }
            for (variable, from) in &server.variables_from {
                let found = value(from, "variables_from").map(|secret| (variable.clone(), secret));
                server.variables.extend(found);
            }
            if let Some(oauth) = &mut server.oauth {
                // A missing variable empties the value: a literal value next to the name of a variable is not
                // intended.
                let fill = |secret: &mut Secret, found: Option<Secret>| *secret = found.unwrap_or_default();
                if let Some(name) = &oauth.client_secret_env {
                    fill(&mut oauth.client_secret, value(name, "oauth.client_secret_env"));
                }
                if let Some(name) = &oauth.refresh_token_env {
                    fill(&mut oauth.refresh_token, value(name, "oauth.refresh_token_env"));
                }
            }
        }
        if unset.is_empty() { Ok(self) } else { Err(unset) }
    }

    /// Returns one sentence per setting that is not valid.
    pub fn problems(&self) -> Vec<String> {
        let problems = self.servers.iter().flat_map(|(id, server)| {
            let named = (id.trim().is_empty() || id.len() > NAME_MAX)
                .then(|| format!("the name must have 1 to {NAME_MAX} bytes"));
            named.into_iter().chain(server.problems()).map(move |what| format!("mcp.servers.{id}: {what}"))
        });
        problems.collect()
    }
}

impl ServerConfig {
    /// Returns the transport: stdio for a program, otherwise the configured one, by default streamable HTTP.
    pub fn kind(&self) -> TransportKind {
        match (&self.command, self.transport) {
            // A program uses its standard streams, whatever else is configured.
            (Some(_), _) => TransportKind::Stdio,
            (None, Some(kind)) => kind,
            (None, None) => TransportKind::StreamableHttp,
        }
    }

    /// Returns the version to try first, if a known one is configured.
    pub(crate) fn first_version(&self) -> Option<ProtocolVersion> {
        let wanted = self.revision.as_deref()?;
        ProtocolVersion::KNOWN_VERSIONS.iter().find(|known| known.as_str() == wanted).cloned()
    }

    /// Returns the time limit for connecting.
    pub fn connect_limit(&self) -> Duration {
        limit(self.connect_seconds)
    }

    /// Returns the time limit for listing the tools.
    pub fn list_limit(&self) -> Duration {
        limit(self.list_seconds)
    }

    /// Returns the time limit for a call of this tool.
    pub fn call_limit(&self, tool: &str) -> Duration {
        let own = self.tools.get(tool).and_then(|tool| tool.call_seconds);
        limit(own.unwrap_or(self.call_seconds))
    }

    /// Returns whether this tool is offered.
    pub fn is_enabled(&self, tool: &str) -> bool {
        self.enable.as_ref().is_none_or(|only| only.contains(tool)) && !self.disable.contains(tool)
    }

    /// Returns every tool named in the settings, with the setting that names it.
    pub(crate) fn named_tools(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let enabled = self.enable.iter().flatten().map(|tool| ("enable", tool.as_str()));
        let disabled = self.disable.iter().map(|tool| ("disable", tool.as_str()));
        let preset = self.preset.keys().map(|tool| ("preset", tool.as_str()));
        let said = self.tools.keys().map(|tool| ("tools", tool.as_str()));
        enabled.chain(disabled).chain(preset).chain(said)
    }

    /// Returns all texts that must not be shown.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let oauth = self.oauth.iter().flat_map(|oauth| [&oauth.client_secret, &oauth.refresh_token]);
        self.env.values().chain(self.headers.values()).chain(self.variables.values()).chain(oauth)
    }

    fn problems(&self) -> Vec<String> {
        let mut wrong = match (&self.command, &self.url) {
            (Some(_), Some(_)) => vec!["it has a `command` and a `url`; one is enough".to_owned()],
            (None, None) => vec!["it has neither a `command` nor a `url`".to_owned()],
            (Some(command), None) => self.process_problems(command),
            (None, Some(url)) => self.address_problems(url),
        };
        let both = self.enable.iter().flatten().filter(|tool| self.disable.contains(*tool));
        wrong.extend(both.map(|tool| format!("`{tool}` is in both `enable` and `disable`")));
        let seconds = [
            ("connect_seconds", self.connect_seconds),
            ("list_seconds", self.list_seconds),
            ("call_seconds", self.call_seconds),
        ];
        let zero = seconds.into_iter().filter(|(_, seconds)| *seconds == 0);
        wrong.extend(zero.map(|(name, _)| format!("{name} must be at least 1")));
        let zero = self.tools.iter().filter(|(_, tool)| tool.call_seconds == Some(0));
        wrong.extend(zero.map(|(name, _)| format!("tools.{name}.call_seconds must be at least 1")));
        if self.revision.is_some() && self.first_version().is_none() {
            wrong.push(format!("`revision` must be one of {}", spoken()));
        }
        if self.result_bytes_max < RESULT_BYTES_MIN {
            wrong.push(format!("result_bytes_max must be at least {RESULT_BYTES_MIN}"));
        }
        wrong
    }

    fn process_problems(&self, command: &str) -> Vec<String> {
        let of_addresses = [
            ("headers", !self.headers.is_empty()),
            ("oauth", self.oauth.is_some()),
            ("type", self.transport.is_some_and(|kind| kind != TransportKind::Stdio)),
        ];
        let set = of_addresses.into_iter().filter(|(_, set)| *set);
        let mut wrong: Vec<_> =
            set.map(|(name, _)| format!("`{name}` is for servers with a `url`")).collect();
        if command.trim().is_empty() {
            wrong.push("`command` is empty".to_owned());
        }
        wrong
    }

    fn address_problems(&self, url: &str) -> Vec<String> {
        let of_processes = [
            ("args", !self.args.is_empty()),
            ("env", !self.env.is_empty() || !self.env_from.is_empty()),
            ("cwd", self.cwd.is_some()),
            ("type = \"stdio\"", self.transport == Some(TransportKind::Stdio)),
        ];
        let set = of_processes.into_iter().filter(|(_, set)| *set);
        let mut wrong: Vec<_> =
            set.map(|(name, _)| format!("`{name}` is for servers with a `command`")).collect();
        wrong.extend(web_problem("url", url));
        if let Err(error) = headers::headers(self) {
            wrong.push(error.full());
        }
        wrong.extend(headers::unset(self));
        if let Some(oauth) = &self.oauth {
            wrong.extend(oauth.problems());
            if self.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
                wrong.push("`headers.authorization` and `oauth` exclude each other".to_owned());
            }
        }
        wrong
    }
}

/// Limits a timeout to a year: the largest number stands for no limit, and is beyond the range of clocks.
fn limit(seconds: u64) -> Duration {
    const YEAR: u64 = 365 * 24 * 60 * 60;
    Duration::from_secs(seconds.min(YEAR))
}

impl OauthConfig {
    fn problems(&self) -> Vec<String> {
        if self.token_url.is_empty() {
            return self.sign_in_problems();
        }
        let mut wrong: Vec<_> = web_problem("oauth.token_url", &self.token_url).into_iter().collect();
        if self.client_metadata_url.is_some() {
            wrong.push(
                "`oauth.client_metadata_url` is for sign-ins and cannot be used with a `token_url`"
                    .to_owned(),
            );
        }
        if self.issuer.is_some() {
            wrong.push("`oauth.issuer` is for sign-ins and cannot be used with a `token_url`".to_owned());
        }
        if self.client_id.is_empty() {
            wrong.push("`oauth.client_id` is empty".to_owned());
        }
        // Also checked before the environment is read: variables named there are assumed to be set.
        let comes_later = self.client_secret_env.is_some() || self.refresh_token_env.is_some();
        if self.client_secret.is_empty() && self.refresh_token.is_empty() && !comes_later {
            wrong.push("`oauth` needs a `refresh_token` or a `client_secret`".to_owned());
        }
        wrong
    }

    fn sign_in_problems(&self) -> Vec<String> {
        let issuer = self.issuer.as_deref();
        let mut wrong: Vec<_> =
            issuer.and_then(|issuer| web_problem("oauth.issuer", issuer)).into_iter().collect();
        if !self.refresh_token.is_empty() || self.refresh_token_env.is_some() {
            wrong.push("`oauth.refresh_token` needs the `token_url` that accepts it".to_owned());
        }
        let has_secret = !self.client_secret.is_empty() || self.client_secret_env.is_some();
        if has_secret && self.client_id.is_empty() {
            wrong.push("`oauth.client_secret` needs the `client_id` that it belongs to".to_owned());
        }
        if let Some(url) = &self.client_metadata_url
            && !Url::parse(url).is_ok_and(|url| url.scheme() == "https" && url.path() != "/")
        {
            wrong.push("`oauth.client_metadata_url` is not the https address of a document".to_owned());
        }
        wrong
    }
}

fn web_problem(name: &str, url: &str) -> Option<String> {
    match Url::parse(url) {
        // A URL such as `http:path` has no host, so there is nothing to connect to.
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => None,
        _ => Some(format!("`{name}` is not an http or https address")),
    }
}

/// Returns the supported versions, for messages.
pub(crate) fn spoken() -> String {
    let known: Vec<_> = ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).collect();
    known.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> McpConfig {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn every_setting_is_read_and_no_secret_is_printed() {
        let config = parse(
            r#"
            [servers.files]
            command = "mcp-files"
            args = ["--root", "/srv"]
            env = { KEY = "s3cret" }
            pin = "strict"
            [servers.tickets]
            url = "https://tickets.example/mcp"
            type = "sse"
            headers = { Authorization = "Bearer ${token}" }
            variables = { token = "s3cret" }
            stateless = true
            call_seconds = 5
            enable = ["find"]
            disable = ["drop"]
            preset.find = { project = "weft", limit = 3 }
            tools.find = { approval = true, call_seconds = 2 }
            "#,
        );
        assert_eq!(config.problems(), [""; 0]);
        let (files, tickets) = (&config.servers["files"], &config.servers["tickets"]);
        assert_eq!((files.kind(), files.pin), (TransportKind::Stdio, PinMode::Strict));
        assert_eq!((tickets.kind(), tickets.stateless), (TransportKind::Sse, true));
        assert_eq!(tickets.call_limit("find"), Duration::from_secs(2));
        assert_eq!(tickets.call_limit("other"), Duration::from_secs(5));
        assert!(tickets.is_enabled("find") && !tickets.is_enabled("drop") && !tickets.is_enabled("new"));
        assert_eq!(tickets.preset["find"]["limit"], 3);
        assert!(!format!("{config:?}").contains("s3cret"));
    }

    #[test]
    fn all_invalid_settings_are_reported_at_once() {
        let check = |text: &str, parts: &[&str]| {
            let problems = parse(&format!("[servers.x]\n{text}")).problems();
            assert_eq!(problems.len(), parts.len(), "{text}: {problems:?}");
            for part in parts {
                assert!(problems.iter().any(|problem| problem.contains(part)), "{part}: {problems:?}");
            }
        };
        check("", &["neither"]);
        check("command = 'a'\nurl = 'http://b'", &["one is enough"]);
        check("command = ' '\nheaders = { a = 'b' }\ntype = 'sse'", &["empty", "`headers`", "`type`"]);
        check("url = 'ftp://b'\nargs = ['c']\ntype = 'stdio'", &["not an http", "`args`", "stdio"]);
        check("url = 'http://b'\nenable = ['t', 'u']\ndisable = ['t']", &["`t` is in both `enable`"]);
        check("url = 'http://b'\ncall_seconds = 0\nresult_bytes_max = 1", &["call_seconds", "result_bytes"]);
        check("url = 'http://b'\nheaders = { 'a b' = 'c' }", &["a b"]);
        check("url = 'http://b'\nheaders = { a = 'Bearer ${token}', b = '${k}' }", &["`${token}`", "`${k}`"]);
        check("url = 'http://b'\nheaders = { a = '${k}' }\nvariables_from = { k = 'K' }", &[]);
        check("url = 'http://b'\nheaders = { a = '$k', b = 'a ${k} b', c = 'x${k}' }", &[]);
        check("url = 'http://b'\noauth = { issuer = 'x' }", &["`oauth.issuer` is not an http"]);
        check(
            "url = 'http://b'\noauth = { token_url = 'http://t', client_id = 'c', client_secret = 's', issuer = 'http://i' }",
            &["`oauth.issuer` is for sign-ins"],
        );
        check("url = 'http://b'\noauth = { token_url = 'x' }", &["token_url", "client_id", "refresh_token"]);
        let error = toml::from_str::<McpConfig>("[servers.x]\ncomand = 'a'").unwrap_err().to_string();
        assert!(error.contains("comand"), "{error}");
    }

    #[test]
    fn secrets_come_from_the_environment() {
        let config = parse(
            "[servers.x]\nurl = 'http://b'\nvariables_from = { token = 'T' }\n\
             oauth = { token_url = 'http://t', client_id = 'c', refresh_token_env = 'R' }",
        );
        assert_eq!(config.problems(), [""; 0]);
        let read = |name: &str| matches!(name, "T" | "R" | "PATH").then(|| format!("value of {name}"));
        let filled = config.clone().with_environment(read).unwrap();
        let server = &filled.servers["x"];
        assert_eq!(server.variables["token"].reveal(), "value of T");
        assert_eq!(server.oauth.as_ref().unwrap().refresh_token.reveal(), "value of R");
        assert_eq!(filled.inherited, BTreeMap::from([("PATH".to_owned(), "value of PATH".to_owned())]));
        let unset = config.with_environment(|_| None).unwrap_err();
        assert_eq!(unset.len(), 2);
        assert!(unset[0].contains("variables_from: T in the environment is not set"), "{unset:?}");
    }
}
