//! What an operator says about a plugin.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use weft_core::Secret;

/// `NAME.toml` beside `NAME.json`.
///
/// ```toml
/// base_url = "https://api.weather.example/v2"
/// headers = { Authorization = "Bearer …" }
/// enable = ["forecast", "stations"]
/// approval = ["orderReport"]
/// seconds = 20
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PluginSettings {
    /// Where the service is, for every operation; absent: the first of the `servers` of an operation, of its path, or of the document.
    pub base_url: Option<String>,
    /// Sent with every request. No model sees them.
    pub headers: BTreeMap<String, Secret>,
    /// The only operations that become tools, by their tools' names; absent: all.
    pub enable: Option<BTreeSet<String>>,
    /// Operations that do not.
    pub disable: BTreeSet<String>,
    /// Operations that a person has to agree to before each call.
    pub approval: BTreeSet<String>,
    /// How long a call may take, in seconds: 1 to 3600.
    pub seconds: u64,
}

impl Default for PluginSettings {
    fn default() -> Self {
        Self {
            base_url: None,
            headers: BTreeMap::new(),
            enable: None,
            disable: BTreeSet::new(),
            approval: BTreeSet::new(),
            seconds: 60,
        }
    }
}
