//! Files of conversations: one row for each, and its bytes in a blob store.
//!
//! The row is written before the bytes, so that what a crash leaves behind is found by its age and removed; a file
//! without bytes does not count as a file.

use std::sync::Arc;

use bytes::Bytes;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{IntoActiveModel, Order, QueryOrder, QuerySelect};
use weft_core::id::{FileId, SessionId, TenantId, UserId};
use weft_core::seam::file_store::StoredFile;
use weft_core::seam::{BlobStore, FileStore};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::Store;
use crate::ids::{self, bounded, count, number, text};
use crate::open::repeated;
use crate::rows::{behind, sum, tenant_lock};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "file")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub name: String,
    pub mime_type: String,
    pub size: i64,
    /// Empty for files that people attach.
    pub session_id: String,
    pub created_ms: i64,
    /// Only of files that people attach.
    pub user_id: Option<String>,
}

impl From<Model> for StoredFile {
    fn from(row: Model) -> Self {
        Self {
            id: row.id.into(),
            name: row.name,
            mime_type: row.mime_type,
            size: count(row.size),
            session: (!row.session_id.is_empty()).then(|| row.session_id.into()),
            user: row.user_id.map(UserId::from),
            created_ms: row.created_ms,
        }
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Limits for files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimits {
    /// Maximum size of one file in bytes.
    pub file_bytes_max: u64,
    /// Maximum total size of a tenant's files in bytes.
    pub tenant_bytes_max: u64,
}

/// Files of conversations.
#[derive(Clone)]
pub struct Files {
    store: Store,
    blobs: Arc<dyn BlobStore>,
    limits: FileLimits,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Files {
    /// Files with their metadata in `store` and their bytes in `blobs`.
    pub fn new(store: &Store, blobs: Arc<dyn BlobStore>, limits: FileLimits) -> Self {
        Self { store: store.clone(), blobs, limits }
    }

    fn check_size(&self, file: &StoredFile) -> Result<()> {
        let file_bytes_max = self.limits.file_bytes_max;
        if file.size > file_bytes_max {
            return Err(Error::invalid(format!("`{}` has more than {file_bytes_max} bytes", file.name))
                .help("make it smaller, or let an operator raise `attachments.file_bytes_max`"));
        }
        Ok(())
    }

    /// Returns the size of the tenant's other files if there is no room for this one; the file is not written then.
    async fn write(&self, row: &Model) -> Result<Option<u64>, DbErr> {
        let transaction = self.store.begin().await?;
        tenant_lock::hold(&transaction, &row.tenant_id, "file").await?;
        let sum = sum(transaction.get_database_backend(), Column::Size);
        let used: Option<Option<i64>> = Entity::find()
            .select_only()
            .column_as(sum, "bytes")
            .filter(Column::TenantId.eq(&row.tenant_id))
            // The row that this one replaces takes no room beside it.
            .filter(Column::Id.ne(&row.id))
            .into_tuple()
            .one(&*transaction)
            .await?;
        let used = count(used.flatten().unwrap_or_default());
        if used.saturating_add(count(row.size)) > self.limits.tenant_bytes_max {
            transaction.rollback().await?;
            return Ok(Some(used));
        }
        // The id of a file created by a run is derived from the work, so that repeated work stores one file.
        let replaced = OnConflict::columns([Column::TenantId, Column::Id])
            .update_columns([Column::Name, Column::MimeType, Column::Size, Column::SessionId, Column::UserId])
            .to_owned();
        Entity::insert(row.clone().into_active_model())
            .on_conflict(replaced)
            .exec_without_returning(&*transaction)
            .await?;
        transaction.commit().await?;
        Ok(None)
    }
}

fn blob(id: &FileId) -> String {
    format!("files/{id}")
}

fn missing(id: &FileId) -> Error {
    Error::not_found(format!("there is no file `{id}`"))
}

#[async_trait]
impl FileStore for Files {
    async fn put(&self, tenant: &TenantId, file: &StoredFile, bytes: Bytes) -> Result<()> {
        ids::check("tenant", tenant.as_str())?;
        ids::check("file", file.id.as_str())?;
        let session = file.session.as_ref().map(SessionId::as_str).unwrap_or_default();
        ids::fits("session", session)?;
        let user = file.user.as_ref().map(UserId::as_str);
        ids::fits("user", user.unwrap_or_default())?;
        // Before the row is written: bytes that cannot be stored must not reserve space.
        weft_core::seam::blob_store::checked(&blob(&file.id))?;
        let row = Model {
            tenant_id: tenant.as_str().to_owned(),
            id: file.id.as_str().to_owned(),
            name: text(&file.name),
            mime_type: text(&file.mime_type),
            size: number(file.size),
            session_id: session.to_owned(),
            created_ms: file.created_ms,
            user_id: user.map(str::to_owned),
        };
        self.check_size(file)?;
        let full = repeated(|| self.write(&row)).await;
        if let Some(used) = full.map_err(|error| self.store.fail("store the details of a file", error))? {
            let tenant_bytes_max = self.limits.tenant_bytes_max;
            let message =
                format!("the files of conversations take {used} bytes of at most {tenant_bytes_max}");
            return Err(Error::new(ErrorKind::QuotaExceeded, message)
                .help("remove sessions or wait until old files are removed, or let an operator raise `attachments.tenant_bytes_max`"));
        }
        // After the row, which reserves the space: bytes without a row would not be counted and could never be found.
        self.blobs.put(tenant, &blob(&file.id), bytes).await
    }

    async fn find(&self, tenant: &TenantId, id: &FileId) -> Result<StoredFile> {
        let key = (text(tenant.as_str()), text(id.as_str()));
        let row = Entity::find_by_id(key)
            .one(&self.store.inner.read)
            .await
            .map_err(|error| self.store.fail("read the details of a file", error))?;
        row.map(StoredFile::from).ok_or_else(|| missing(id))
    }

    async fn read(&self, tenant: &TenantId, id: &FileId) -> Result<(StoredFile, Bytes)> {
        let file = self.find(tenant, id).await?;
        let bytes = self.blobs.get(tenant, &blob(&file.id)).await;
        match bytes {
            Ok(bytes) => Ok((file, bytes)),
            Err(error) if error.kind == ErrorKind::NotFound => Err(missing(id)),
            Err(error) => Err(error),
        }
    }

    async fn remove(&self, tenant: &TenantId, ids: &[FileId]) -> Result<u64> {
        let mut removed = 0;
        for id in ids {
            if self.find(tenant, id).await.is_err_and(|error| error.kind == ErrorKind::NotFound) {
                continue;
            }
            // The bytes first: without the row, what is left of them could never be found.
            self.blobs.remove(tenant, &blob(id)).await?;
            let _permit = self.store.inner.gate.permit().await;
            let remove = async || {
                Entity::delete_by_id((text(tenant.as_str()), text(id.as_str())))
                    .exec(&self.store.inner.write)
                    .await
            };
            let gone = repeated(remove).await.map_err(|error| self.store.fail("remove a file", error))?;
            removed += gone.rows_affected;
        }
        Ok(removed)
    }

    async fn older_than(&self, before_ms: i64, count_max: u64) -> Result<Vec<(TenantId, FileId)>> {
        let rows: Vec<(String, String)> = Entity::find()
            .select_only()
            .columns([Column::TenantId, Column::Id])
            .filter(Column::CreatedMs.lt(before_ms))
            .order_by_asc(Column::CreatedMs)
            .order_by_asc(Column::Id)
            .limit(bounded(count_max))
            .into_tuple()
            .all(&self.store.inner.read)
            .await
            .map_err(|error| self.store.fail("list old files", error))?;
        Ok(rows.into_iter().map(|(tenant, id)| (tenant.into(), id.into())).collect())
    }

    async fn of_session(&self, tenant: &TenantId, session: &SessionId) -> Result<Vec<StoredFile>> {
        let rows = Entity::find()
            .filter(Column::TenantId.eq(text(tenant.as_str())))
            .filter(Column::SessionId.eq(text(session.as_str())))
            .order_by_asc(Column::CreatedMs)
            .order_by_asc(Column::Id)
            .all(&self.store.inner.read)
            .await
            .map_err(|error| self.store.fail("list the files of a session", error))?;
        Ok(rows.into_iter().map(StoredFile::from).collect())
    }

    async fn of_user(
        &self,
        tenant: &TenantId,
        user: &UserId,
        after: Option<(i64, &FileId)>,
        count_max: u64,
    ) -> Result<Vec<StoredFile>> {
        let mut found = Entity::find()
            .filter(Column::TenantId.eq(text(tenant.as_str())))
            .filter(Column::UserId.eq(text(user.as_str())));
        if let Some((created_ms, id)) = after {
            let time = (Column::CreatedMs, Order::Asc, created_ms);
            found = found.filter(behind(time, (Column::Id, Order::Asc, text(id.as_str()))));
        }
        let rows = found
            .order_by_asc(Column::CreatedMs)
            .order_by_asc(Column::Id)
            .limit(bounded(count_max))
            .all(&self.store.inner.read)
            .await
            .map_err(|error| self.store.fail("list the files of a user", error))?;
        Ok(rows.into_iter().map(StoredFile::from).collect())
    }
}
