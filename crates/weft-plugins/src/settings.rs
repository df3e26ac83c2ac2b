//! The operator's settings for a plugin.

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
    /// Address of the service, for every operation; if absent, the first of the `servers` of an operation, of its path,
    /// or of the document.
    pub base_url: Option<String>,
    /// Headers sent with every request. They are never shown to a model.
    pub headers: BTreeMap<String, Secret>,
    /// The only operations that become tools, by the names of their tools; all if absent.
    pub enable: Option<BTreeSet<String>>,
    /// Operations that do not become tools.
    pub disable: BTreeSet<String>,
    /// Operations for which a person has to approve each call.
    pub approval: BTreeSet<String>,
    /// Time limit for a call, in seconds: 1 to 3600.
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
