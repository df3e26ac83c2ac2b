//! How much work waits, over all tenants.

use sea_orm::entity::prelude::*;
use weft_core::Result;
use weft_core::counts::Backlog;
use weft_core::seam::task_store::TaskStatus;

use crate::Store;
use crate::rows::{document, ingest, reembedding, task, work};

impl Store {
    /// The amount of waiting work. It is for operators: tenants must not learn about each other.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn backlog(&self) -> Result<Backlog> {
        self.count_backlog().await.map_err(|error| self.fail("count what waits", error))
    }

    async fn count_backlog(&self) -> Result<Backlog, DbErr> {
        let read = &self.inner.read;
        let queued_runs =
            work::Entity::find().filter(work::Column::State.eq(work::WAITING)).count(read).await?;
        let documents = document::Entity::find()
            .filter(document::Column::State.eq(ingest::RUNNING))
            .filter(document::Column::Taken.eq(0))
            .count(read)
            .await?;
        let reembeddings = reembedding::Entity::find()
            .filter(reembedding::Column::State.eq(reembedding::RUNNING))
            .filter(reembedding::Column::Taken.eq(0))
            .count(read)
            .await?;
        let open = task::Column::Status.eq(TaskStatus::Open.as_str());
        let tasks = task::Entity::find().filter(open).count(read).await?;
        Ok(Backlog { queued_runs, documents, reembeddings, tasks })
    }
}
