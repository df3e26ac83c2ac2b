//! Plugins as a source of tools.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use weft_core::seam::tool_source::{Offered, RefusedTool};
use weft_core::seam::{Sandbox, ToolSource};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};

use crate::folder;
use crate::openapi::Plugin;

/// The plugins that existed when the folder was read.
#[derive(Clone, Debug, Default)]
pub struct Plugins(Arc<BTreeMap<String, Plugin>>);

impl Plugins {
    /// Reads a folder; if it does not exist, there are no plugins. Components are run in `sandbox` to describe
    /// themselves.
    ///
    /// # Errors
    /// `Invalid` naming every file that is not valid and why, `Unavailable` when the folder cannot be read.
    pub async fn open(folder: impl AsRef<Path>, sandbox: &dyn Sandbox) -> Result<Self> {
        Ok(Self(Arc::new(folder::read(folder.as_ref(), sandbox).await?)))
    }

    /// Iterates over all plugins, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = &Plugin> {
        self.0.values()
    }

    /// Returns the plugin of this name.
    pub fn get(&self, name: &str) -> Option<&Plugin> {
        self.0.get(name)
    }

    /// Returns their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[async_trait]
impl ToolSource for Plugins {
    async fn tools(&self, _: &TenantId, server: &str) -> Result<Offered> {
        let Some(plugin) = self.0.get(server) else {
            return Err(Error::not_found(format!("there is no plugin `{server}`"))
                .help("put its OpenAPI document, its component or its folder with a SKILL.md into the plugin folder"));
        };
        let left_out = plugin.left_out().iter();
        let refused = left_out.map(|one| RefusedTool { name: one.tool.clone(), reason: one.reason.clone() });
        Ok(Offered { tools: plugin.tools().to_vec(), refused: refused.collect(), ..Offered::default() })
    }
}

/// Plugins, and another source for all other names.
#[derive(Clone)]
pub struct Combined {
    plugins: Plugins,
    others: Arc<dyn ToolSource>,
}

impl std::fmt::Debug for Combined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Combined").field("plugins", &self.plugins).finish_non_exhaustive()
    }
}

impl Combined {
    /// Combines both. `taken` are the names of the other source.
    ///
    /// # Errors
    /// `Conflict` when a plugin has a name that is taken: a canvas could mean either.
    pub fn new(plugins: Plugins, others: Arc<dyn ToolSource>, taken: &[String]) -> Result<Self> {
        // Refused when the program starts: one of the two would be hidden, and canvases would get the wrong tools.
        if let Some(name) = taken.iter().find(|name| plugins.get(name).is_some()) {
            let message = format!("`{name}` is both a plugin and an MCP server");
            return Err(Error::new(ErrorKind::Conflict, message).help("rename one of them"));
        }
        Ok(Self { plugins, others })
    }
}

#[async_trait]
impl ToolSource for Combined {
    async fn tools(&self, tenant: &TenantId, server: &str) -> Result<Offered> {
        match self.plugins.get(server) {
            Some(_) => self.plugins.tools(tenant, server).await,
            None => self.others.tools(tenant, server).await,
        }
    }
}
