//! Column types that mean the same in every database.

use sea_orm_migration::prelude::{ColumnDef, DbErr, IntoIden, SchemaManager, TableCreateStatement};
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend, Statement};

use crate::ids::ID_BYTES_MAX;

/// The column types of a database.
pub(super) struct Columns {
    backend: DbBackend,
    /// MariaDB and MySQL ignore case and trailing spaces when they compare text, unless told otherwise; each names
    /// the suitable collation differently.
    collation: Option<&'static str>,
}

impl Columns {
    pub(super) async fn of(manager: &SchemaManager<'_>) -> Result<Self, DbErr> {
        let backend = manager.get_database_backend();
        if backend != DbBackend::MySql {
            return Ok(Self { backend, collation: None });
        }
        let row = manager
            .get_connection()
            .query_one_raw(Statement::from_string(backend, "SELECT VERSION() AS version"))
            .await?;
        let version: String = row.map_or(Ok(String::new()), |row| row.try_get("", "version"))?;
        let collation = if version.contains("MariaDB") { "utf8mb4_nopad_bin" } else { "utf8mb4_0900_bin" };
        Ok(Self { backend, collation: Some(collation) })
    }

    /// Starts a table whose texts are compared byte by byte.
    pub(super) fn table(&self, name: &'static str) -> TableCreateStatement {
        let mut table = sea_orm_migration::prelude::Table::create();
        table.table(name).if_not_exists();
        if let Some(collation) = self.collation {
            table.character_set("utf8mb4").collate(collation);
        }
        table
    }

    /// An id, a name or another text that an index may hold.
    pub(super) fn id(&self, name: impl IntoIden) -> ColumnDef {
        ColumnDef::new(name).string_len(ID_BYTES_MAX as u32).not_null().take()
    }

    /// The type of [`Columns::id`] in the syntax of MariaDB and MySQL, for statements written as text.
    pub(super) fn id_type(&self) -> String {
        let collation = self.collation.unwrap_or("utf8mb4_bin");
        format!("VARCHAR({ID_BYTES_MAX}) CHARACTER SET utf8mb4 COLLATE {collation}")
    }

    /// A text of any length.
    pub(super) fn long_text(&self, name: impl IntoIden) -> ColumnDef {
        let mut column = ColumnDef::new(name);
        match self.backend {
            DbBackend::MySql => column.custom("longtext"),
            _ => column.text(),
        };
        column.not_null().take()
    }

    /// A few bytes that an index may hold.
    pub(super) fn short_bytes(&self, name: impl IntoIden) -> ColumnDef {
        ColumnDef::new(name).var_binary(32).not_null().take()
    }

    /// Bytes of any length.
    pub(super) fn long_bytes(&self, name: impl IntoIden) -> ColumnDef {
        let mut column = ColumnDef::new(name);
        match self.backend {
            DbBackend::MySql => column.custom("longblob"),
            _ => column.blob(),
        };
        column.not_null().take()
    }

    /// A number, or a time in milliseconds since 1970.
    pub(super) fn number(&self, name: impl IntoIden) -> ColumnDef {
        ColumnDef::new(name).big_integer().not_null().take()
    }

    /// A number with a fraction.
    pub(super) fn fraction(&self, name: impl IntoIden) -> ColumnDef {
        ColumnDef::new(name).double().not_null().take()
    }
}
