//! Queries of datasets and databases outside of any run.

use std::time::Duration;

use weft_core::seam::databases::{Database, SqlAnswer, SqlPart, SqlRequest};
use weft_core::{Error, Result, TenantId};
use weft_knowledge::ask::Direct;
use weft_knowledge::retrieve::{Retrieval, Retrieved, retrieve};

use crate::app::App;

/// Time limit for a database to respond to a connection test.
const DATABASE_TIME_LIMIT: Duration = Duration::from_secs(10);

impl App {
    /// Finds passages in a tenant's datasets. The default model is used where the search requires one.
    ///
    /// # Errors
    /// As [`retrieve`].
    pub async fn retrieve(&self, tenant: &TenantId, asked: &Retrieval) -> Result<Retrieved> {
        let now_ms = self.clock.now_ms();
        let model = Direct { models: &*self.models, tenant, llm_id: "", now_ms };
        retrieve(&*self.knowledge, &model, tenant, asked).await
    }

    /// Tests the connection to an external database in the same way as canvases use it.
    ///
    /// # Errors
    /// As [`weft_core::seam::Databases::ask`]; `Invalid` when it executes no statement.
    pub async fn try_database(&self, tenant: &TenantId, database: Database) -> Result<()> {
        let request = SqlRequest {
            database,
            sql: vec![SqlPart::Text("SELECT 1".to_owned())],
            rows_max: 1,
            bytes_max: 4_096,
            time_limit: DATABASE_TIME_LIMIT,
        };
        match self.databases.ask(tenant, request).await?.into_iter().next() {
            Some(SqlAnswer::Rows(_)) => Ok(()),
            Some(SqlAnswer::Failed(why)) => {
                Err(Error::invalid(format!("the database cannot execute a statement: {why}")))
            }
            None => Err(Error::invalid("the database returned no result")),
        }
    }
}
