//! Removes a tenant with all its rows in all tables.

use sea_orm::entity::prelude::*;
use sea_orm::{ConnectionTrait, Statement, Value};
use weft_core::access::MemberRole;
use weft_core::id::TenantId;
use weft_core::{Error, ErrorKind, Result};

use crate::Store;
use crate::ids::text;
use crate::lane::Placeholder;
use crate::open::repeated;
use crate::rows::{run, tenant};

/// All tables with rows of tenants, with referring tables first. The notes about removed documents stay: a worker
/// still has to clean up after them.
const TABLES: &[&str] = &[
    "run_message",
    "journal",
    "piece",
    "task",
    "session_message",
    "run",
    "session",
    "work",
    "schedule",
    "canvas_label",
    "canvas_version",
    "canvas",
    "chat",
    "chunk",
    "reading",
    "reembedding",
    "document_extra",
    "kept_picture",
    "document",
    "dataset",
    "file",
    "folder_entry",
    "memory_message",
    "memory",
    "secret",
    "tool_credential",
    "tool_server",
    "share",
    "invitation",
    "login",
    "token",
    "membership",
    "notice",
    "spending",
    "model_use",
    "audit",
    "tenant_lock",
    // Last: it is the part that people see.
    "tenant",
];

/// Everything that grants access. None of it is needed to remove the tenant.
const DOORS: [&str; 5] = ["schedule", "work", "share", "invitation", "token"];

/// The name of the column with the tenant's id.
fn column(table: &str) -> &'static str {
    if table == "tenant" { "id" } else { "tenant_id" }
}

/// The outcome of a removal.
enum Erased {
    Gone,
    /// One of its runs has not ended.
    Busy,
    /// The tenant does not exist.
    Unknown,
}

impl Store {
    async fn erase_tenant(&self, id: &str) -> Result<Erased, DbErr> {
        let transaction = self.begin().await?;
        if !tenant::lock(&*transaction, id).await? {
            transaction.rollback().await?;
            return Ok(Erased::Unknown);
        }
        let of_tenant = run::Entity::find().filter(run::Column::TenantId.eq(id));
        // A process may be working on it, and would go on to write files and indexes without an owner.
        if of_tenant.filter(run::Column::Ending.is_null()).one(&*transaction).await?.is_some() {
            transaction.rollback().await?;
            return Ok(Erased::Busy);
        }
        let backend = transaction.get_database_backend();
        for table in TABLES {
            let sql = format!("DELETE FROM {table} WHERE {} = {}", column(table), Placeholder(backend, 1));
            let statement = Statement::from_sql_and_values(backend, sql, [Value::from(id)]);
            transaction.execute_raw(statement).await?;
        }
        transaction.commit().await?;
        Ok(Erased::Gone)
    }

    /// Returns whether the tenant exists.
    async fn close_doors(&self, id: &str) -> Result<bool, DbErr> {
        let transaction = self.begin().await?;
        if !tenant::lock(&*transaction, id).await? {
            transaction.rollback().await?;
            return Ok(false);
        }
        let backend = transaction.get_database_backend();
        let at = |n| Placeholder(backend, n);
        for table in DOORS {
            let sql = format!("DELETE FROM {table} WHERE tenant_id = {}", at(1));
            let statement = Statement::from_sql_and_values(backend, sql, [Value::from(id)]);
            transaction.execute_raw(statement).await?;
        }
        // Sign-ins first: the memberships determine which ones are removed.
        let owner = MemberRole::Owner.as_str();
        let logins = format!(
            "DELETE FROM login WHERE tenant_id = {} AND user_id NOT IN \
             (SELECT user_id FROM membership WHERE tenant_id = {} AND role = {})",
            at(1),
            at(2),
            at(3)
        );
        let values = [Value::from(id), Value::from(id), Value::from(owner)];
        transaction.execute_raw(Statement::from_sql_and_values(backend, logins, values)).await?;
        let members = format!("DELETE FROM membership WHERE tenant_id = {} AND role <> {}", at(1), at(2));
        let values = [Value::from(id), Value::from(owner)];
        transaction.execute_raw(Statement::from_sql_and_values(backend, members, values)).await?;
        transaction.commit().await?;
        Ok(true)
    }

    pub(super) async fn close_whole_tenant(&self, id: &TenantId) -> Result<()> {
        let name = text(id.as_str());
        let closed = repeated(|| self.close_doors(&name)).await;
        if closed.map_err(|error| self.fail("close the tenant", error))? {
            Ok(())
        } else {
            Err(tenant::no_tenant())
        }
    }

    pub(super) async fn remove_whole_tenant(&self, id: &TenantId) -> Result<()> {
        let name = text(id.as_str());
        let erased = repeated(|| self.erase_tenant(&name)).await;
        self.inner.journal.removed();
        match erased.map_err(|error| self.fail("remove the tenant", error))? {
            Erased::Gone => Ok(()),
            Erased::Unknown => Err(tenant::no_tenant()),
            Erased::Busy => {
                let error = Error::new(ErrorKind::Conflict, "a run of the tenant is under way");
                Err(error.help("wait for its end, or cancel it, and try again"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new table has to be listed here or to have a reason not to be.
    #[tokio::test]
    async fn every_table_with_tenant_data_is_listed() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let sql = "SELECT DISTINCT t.name AS name FROM sqlite_master t JOIN pragma_table_info(t.name) c \
                   WHERE t.type = 'table' AND c.name = 'tenant_id'";
        let backend = store.inner.write.get_database_backend();
        let rows = store.inner.write.query_all_raw(Statement::from_string(backend, sql)).await.unwrap();
        let mut found: Vec<String> = rows.iter().map(|row| row.try_get("", "name").unwrap()).collect();
        found.retain(|name| name != "removed");
        let mut known: Vec<String> = TABLES.iter().map(|name| (*name).to_owned()).collect();
        known.retain(|name| name != "tenant");
        found.sort_unstable();
        known.sort_unstable();
        assert_eq!(found, known);
        store.close().await.unwrap();
    }
}
