//! Opening connections to servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_core::{Result, async_trait};
use weft_net::StreamingHttp;

use crate::authorization::Authorization;
use crate::child;
use crate::config::{ServerConfig, TransportKind};
use crate::faults::{Faults, Redactor};
use crate::http_peer::HttpPeer;
use crate::legacy::Legacy;
use crate::wire::ServerWire;

/// Opens connections to one server.
#[async_trait]
pub trait Dial: Send + Sync {
    /// Opens a new connection, before any message is sent.
    ///
    /// # Errors
    /// The failure to open it.
    async fn dial(&self) -> Result<ServerWire>;
}

/// Opens connections from the configuration.
pub(crate) struct Configured {
    config: Arc<ServerConfig>,
    inherited: BTreeMap<String, String>,
    http: Arc<dyn StreamingHttp>,
    authorization: Authorization,
    redactor: Redactor,
}

impl Configured {
    pub(crate) fn new(
        config: Arc<ServerConfig>,
        inherited: BTreeMap<String, String>,
        http: Arc<dyn StreamingHttp>,
        authorization: Authorization,
        redactor: Redactor,
    ) -> Self {
        Self { config, inherited, http, authorization, redactor }
    }

    fn peer(&self) -> Result<HttpPeer> {
        let (http, authorization) = (Arc::clone(&self.http), self.authorization.clone());
        HttpPeer::new(&self.config, http, authorization, self.redactor.clone())
    }
}

#[async_trait]
impl Dial for Configured {
    async fn dial(&self) -> Result<ServerWire> {
        let url = self.config.url.as_deref().unwrap_or_default();
        // One per connection: the reason why the previous one broke does not apply.
        let faults = Faults::default();
        match self.config.kind() {
            TransportKind::Stdio => {
                let (lines, child) = child::start(&self.config, &self.inherited, &faults)?;
                Ok(ServerWire::process(lines, child, faults))
            }
            TransportKind::StreamableHttp => Ok(ServerWire::streamable(self.peer()?, url)),
            TransportKind::Sse => {
                Ok(ServerWire::legacy(Legacy::open(self.peer()?, url, faults.clone()).await?, faults))
            }
        }
    }
}
