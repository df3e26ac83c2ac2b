//! Canvases.

use std::sync::Arc;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{Condition, DatabaseTransaction, DbBackend, IntoActiveModel, Order, QueryOrder, QuerySelect};
use weft_core::id::{CanvasId, CanvasKey, TenantId};
use weft_core::quota::LimitedKind;
use weft_core::seam::CanvasStore;
use weft_core::seam::canvas_store::{
    CHAT_TYPE, CanvasFilter, CanvasHead, CanvasOrder, PIPELINE_TYPE, StoredCanvas,
};
use weft_core::seam::version_store::checked_tags;
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, TITLE_CHARS_MAX, containing, fold, text};
use crate::open::repeated;
use crate::rows::{canvas_version, run, schedule, session, tenant_lock, work};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "canvas")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub title: String,
    /// The title in lower case: unique within the tenant, and searched for keywords.
    pub title_folded: String,
    pub description: String,
    pub avatar: String,
    pub permission: String,
    pub canvas_type: String,
    /// Absent for canvases that were stored before this column existed.
    pub source: Option<String>,
    /// The newest version.
    pub version: String,
    pub created_ms: i64,
    pub updated_ms: i64,
    /// A list, as JSON.
    pub tags: Option<String>,
    /// Each tag in lower case, on a line of its own.
    pub tags_folded: Option<String>,
    /// The published version.
    pub published: Option<String>,
    pub published_ms: Option<i64>,
    /// How often it has been stored.
    pub revision: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

fn of(key: &CanvasKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::Id.eq(text(key.id.as_str())))
}

fn checked(key: &CanvasKey, head: &CanvasHead, dsl: &str) -> Result<()> {
    ids::check("tenant", key.tenant.as_str())?;
    ids::check("canvas", key.id.as_str())?;
    ids::fits("permission", &head.permission)?;
    ids::fits("canvas type", &head.canvas_type)?;
    let folded = fold(&head.title);
    if folded.chars().count().max(head.title.chars().count()) > TITLE_CHARS_MAX {
        return Err(Error::invalid(format!("the title of the canvas `{}` is too long", key.id))
            .help(format!("use at most {TITLE_CHARS_MAX} characters")));
    }
    // Refused and not replaced: the version is the hash of exactly this text.
    if dsl.contains('\0') {
        return Err(Error::invalid(format!("the DSL of the canvas `{}` contains a NUL character", key.id)));
    }
    Ok(())
}

impl Model {
    fn new(key: &CanvasKey, head: &CanvasHead, version: &str, now_ms: i64) -> Self {
        Self {
            tenant_id: key.tenant.as_str().to_owned(),
            id: key.id.as_str().to_owned(),
            title: text(&head.title),
            title_folded: fold(&head.title),
            description: text(&head.description),
            avatar: text(&head.avatar),
            permission: head.permission.clone(),
            canvas_type: head.canvas_type.clone(),
            source: Some(text(&head.source)),
            version: version.to_owned(),
            created_ms: now_ms,
            updated_ms: now_ms,
            tags: None,
            tags_folded: None,
            published: None,
            published_ms: None,
            revision: 0,
        }
    }

    fn with(self, dsl: Arc<str>) -> StoredCanvas {
        let tenant = TenantId::from(self.tenant_id);
        StoredCanvas {
            key: CanvasKey::new(&tenant, self.id),
            head: CanvasHead {
                title: self.title,
                description: self.description,
                avatar: self.avatar,
                permission: self.permission,
                canvas_type: self.canvas_type,
                source: self.source.unwrap_or_default(),
            },
            version: self.version.into(),
            dsl,
            revision: self.revision,
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
            tags: read_tags(self.tags.as_deref()),
            published: self.published.map(Arc::from).zip(self.published_ms),
        }
    }
}

/// The values of the two columns for tags.
///
/// # Errors
/// As for [`checked_tags`].
pub(crate) fn tags_columns(tags: &[String]) -> Result<(String, String)> {
    let tags = checked_tags(tags.iter().map(|tag| text(tag)))?;
    let folded = tags.iter().fold("\n".to_owned(), |all, tag| all + &fold(tag) + "\n");
    Ok((ids::json(&tags)?, folded))
}

/// The tags of a row; none if they cannot be parsed.
pub(crate) fn read_tags(column: Option<&str>) -> Vec<String> {
    column.and_then(|tags| serde_json::from_str(tags).ok()).unwrap_or_default()
}

/// What a canvas may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// Anything, including nothing.
    Any,
    /// Only this revision.
    At(i64),
}

/// Updates the row. Returns whether it was there: a revision other than the expected one is not overwritten.
async fn update(transaction: &DatabaseTransaction, row: &Model, before: Before) -> Result<bool, DbErr> {
    let mut change = Entity::update_many()
        .col_expr(Column::Title, Expr::value(row.title.as_str()))
        .col_expr(Column::TitleFolded, Expr::value(row.title_folded.as_str()))
        .col_expr(Column::Description, Expr::value(row.description.as_str()))
        .col_expr(Column::Avatar, Expr::value(row.avatar.as_str()))
        .col_expr(Column::Permission, Expr::value(row.permission.as_str()))
        .col_expr(Column::CanvasType, Expr::value(row.canvas_type.as_str()))
        .col_expr(Column::Source, Expr::value(row.source.as_deref()))
        .col_expr(Column::Version, Expr::value(row.version.as_str()))
        .col_expr(Column::UpdatedMs, Expr::value(row.updated_ms))
        .col_expr(Column::Revision, Expr::col(Column::Revision).add(1))
        .filter(Column::TenantId.eq(&row.tenant_id))
        .filter(Column::Id.eq(&row.id));
    if let Before::At(revision) = before {
        change = change.filter(Column::Revision.eq(revision));
    }
    Ok(change.exec(transaction).await?.rows_affected > 0)
}

impl Store {
    /// Returns the row as stored, `None` when it was not written, or why the tenant may not have another one.
    async fn put_canvas(
        &self,
        row: &Model,
        dsl: &str,
        before: Before,
    ) -> Result<Result<Option<Model>>, DbErr> {
        let transaction = self.begin().await?;
        let limited = self.quotas.limits.limit(LimitedKind::Canvases).is_some();
        if limited && before == Before::Any {
            // Before the update: on MariaDB, two that find no row to change would wait for each other to insert one.
            tenant_lock::hold(&transaction, &row.tenant_id, "canvas").await?;
        }
        if !update(&transaction, row, before).await? {
            // A canvas that was removed since it was read stays removed.
            if let Before::At(_) = before {
                transaction.rollback().await?;
                return Ok(Ok(None));
            }
            let all = Entity::find().filter(Column::TenantId.eq(&row.tenant_id));
            let room = self.room(&transaction, LimitedKind::Canvases, (row.tenant_id.as_str(), all)).await?;
            if let Err(full) = room {
                transaction.rollback().await?;
                return Ok(Err(full));
            }
            Entity::insert(row.clone().into_active_model()).exec_without_returning(&*transaction).await?;
        }
        let version = canvas_version::Model {
            tenant_id: row.tenant_id.clone(),
            canvas_id: row.id.clone(),
            version: row.version.clone(),
            dsl: dsl.to_owned(),
            created_ms: row.updated_ms,
            title: None,
            note: None,
            updated_ms: Some(row.updated_ms),
        };
        canvas_version::add(&transaction, version).await?;
        // Within the transaction: after it, another writer may have replaced the row.
        let named = Entity::find().filter(Column::TenantId.eq(&row.tenant_id)).filter(Column::Id.eq(&row.id));
        let stored = named.one(&*transaction).await?;
        if let Some(canvas) = &stored {
            self.remove_old_versions(&transaction, canvas).await?;
        }
        transaction.commit().await?;
        Ok(Ok(stored))
    }

    async fn store_canvas(
        &self,
        key: &CanvasKey,
        (head, dsl): (&CanvasHead, &str),
        before: Before,
    ) -> Result<Option<StoredCanvas>> {
        const DOING: &str = "store the canvas";
        checked(key, head, dsl)?;
        let row = Model::new(key, head, &canvas_version::hash(dsl), self.inner.clock.now_ms());
        let stored = match repeated(|| self.put_canvas(&row, dsl, before)).await {
            Err(error) if is_duplicate(&error) => {
                if self.title_taken(&row).await.map_err(|error| self.fail(DOING, error))? {
                    let taken = format!("cannot {DOING}: another one has the title `{}`", head.title);
                    return Err(Error::new(ErrorKind::Conflict, taken)
                        .help("choose another title; case makes no difference"));
                }
                // Another writer has just created it, so now there is a row to change.
                repeated(|| self.put_canvas(&row, dsl, before)).await
            }
            outcome => outcome,
        };
        let stored = stored.map_err(|error| self.fail(DOING, error))??;
        Ok(stored.map(|row| row.with(dsl.into())))
    }

    async fn title_taken(&self, row: &Model) -> Result<bool, DbErr> {
        let others = Entity::find()
            .filter(Column::TenantId.eq(&row.tenant_id))
            .filter(Column::TitleFolded.eq(&row.title_folded))
            .filter(Column::Id.ne(&row.id))
            .count(&self.inner.write)
            .await?;
        Ok(others > 0)
    }

    async fn delete_canvas(&self, key: &CanvasKey) -> Result<u64, DbErr> {
        let transaction = self.begin().await?;
        delete_rows_of_canvas(&transaction, key).await?;
        let removed = Entity::delete_many().filter(of(key)).exec(&*transaction).await?;
        transaction.commit().await?;
        Ok(removed.rows_affected)
    }

    /// Removes what other writers have started while a canvas was removed, unless a canvas with its id exists again.
    async fn delete_rest_of_canvas(&self, key: &CanvasKey) -> Result<(), DbErr> {
        let transaction = self.begin().await?;
        if Entity::find().filter(of(key)).count(&*transaction).await? == 0 {
            delete_rows_of_canvas(&transaction, key).await?;
        }
        transaction.commit().await?;
        Ok(())
    }
}

/// Removes the rows that belong to a canvas.
async fn delete_rows_of_canvas(db: &DatabaseTransaction, key: &CanvasKey) -> Result<(), DbErr> {
    // Journals and messages are removed with their runs and sessions, by foreign key.
    delete::<run::Entity>(db, key, [run::Column::TenantId, run::Column::CanvasId]).await?;
    delete::<session::Entity>(db, key, [session::Column::TenantId, session::Column::CanvasId]).await?;
    delete::<schedule::Entity>(db, key, [schedule::Column::TenantId, schedule::Column::CanvasId]).await?;
    delete::<work::Entity>(db, key, [work::Column::TenantId, work::Column::CanvasId]).await
}

/// Removes the rows of one table that belong to a canvas.
async fn delete<E: EntityTrait>(
    db: &DatabaseTransaction,
    key: &CanvasKey,
    [tenant, canvas]: [E::Column; 2],
) -> Result<(), DbErr> {
    let of_canvas = E::delete_many()
        .filter(tenant.eq(text(key.tenant.as_str())))
        .filter(canvas.eq(text(key.id.as_str())));
    of_canvas.exec(db).await.map(drop)
}

fn missing(key: &CanvasKey) -> Error {
    Error::not_found(format!("there is no canvas `{}`", key.id))
}

#[async_trait]
impl CanvasStore for Store {
    async fn put(&self, key: &CanvasKey, head: &CanvasHead, dsl: &str) -> Result<StoredCanvas> {
        let stored = self.store_canvas(key, (head, dsl), Before::Any).await?;
        stored.ok_or_else(|| Error::internal("a canvas was stored and is not there"))
    }

    async fn change(
        &self,
        seen: &StoredCanvas,
        head: &CanvasHead,
        dsl: &str,
    ) -> Result<Option<StoredCanvas>> {
        self.store_canvas(&seen.key, (head, dsl), Before::At(seen.revision)).await
    }

    async fn get(&self, key: &CanvasKey) -> Result<StoredCanvas> {
        const DOING: &str = "read the canvas";
        let row = Entity::find()
            .filter(of(key))
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail(DOING, error))?
            .ok_or_else(|| missing(key))?;
        let dsl = self.version(key, &row.version).await?;
        Ok(row.with(dsl))
    }

    async fn tenant_of(&self, id: &CanvasId) -> Result<Option<TenantId>> {
        let found = Entity::find()
            .select_only()
            .column(Column::TenantId)
            .filter(Column::Id.eq(text(id.as_str())))
            // An id may exist in several tenants: the answer is always the oldest of them.
            .order_by_asc(Column::CreatedMs)
            .order_by_asc(Column::TenantId)
            .into_tuple();
        let tenant: Option<String> =
            found.one(&self.inner.read).await.map_err(|error| self.fail("find the canvas", error))?;
        Ok(tenant.map(TenantId::from))
    }

    async fn newest(&self, key: &CanvasKey) -> Result<Arc<str>> {
        let found = Entity::find().select_only().column(Column::Version).filter(of(key));
        let found = found.filter(Column::CanvasType.ne(CHAT_TYPE)).into_tuple();
        let version: Option<String> =
            found.one(&self.inner.read).await.map_err(|error| self.fail("read the canvas", error))?;
        version.map(Into::into).ok_or_else(|| missing(key))
    }

    async fn version(&self, key: &CanvasKey, version: &str) -> Result<Arc<str>> {
        let row = canvas_version::Entity::find()
            .filter(canvas_version::Column::TenantId.eq(text(key.tenant.as_str())))
            .filter(canvas_version::Column::CanvasId.eq(text(key.id.as_str())))
            .filter(canvas_version::Column::Version.eq(text(version)))
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the canvas", error))?;
        row.map(|row| row.dsl.into())
            .ok_or_else(|| Error::not_found(format!("the canvas `{}` has no version `{version}`", key.id)))
    }

    async fn list(&self, tenant: &TenantId, filter: &CanvasFilter) -> Result<(Vec<StoredCanvas>, u64)> {
        let mut found = Entity::find()
            .filter(Column::TenantId.eq(text(tenant.as_str())))
            .filter(Column::CanvasType.ne(CHAT_TYPE));
        if let Some(id) = &filter.id {
            found = found.filter(Column::Id.eq(text(id.as_str())));
        }
        if let Some(title) = &filter.title {
            found = found.filter(Column::TitleFolded.eq(fold(title)));
        }
        if !filter.keywords.is_empty() {
            found = found.filter(Column::TitleFolded.like(containing(&filter.keywords)));
        }
        if !filter.tags.is_empty() {
            let one_of = filter.tags.iter().fold(Condition::any(), |any, tag| {
                // With the line breaks around it, a tag is matched as a whole and never as part of another.
                any.add(Column::TagsFolded.like(containing(&format!("\n{}\n", tag.trim()))))
            });
            found = found.filter(one_of);
        }
        found = match filter.pipelines {
            Some(true) => found.filter(Column::CanvasType.eq(PIPELINE_TYPE)),
            Some(false) => found.filter(Column::CanvasType.ne(PIPELINE_TYPE)),
            None => found,
        };
        let order = if filter.ascending { Order::Asc } else { Order::Desc };
        let by = match filter.order {
            CanvasOrder::Updated => Column::UpdatedMs,
            CanvasOrder::Created => Column::CreatedMs,
            CanvasOrder::Title => Column::TitleFolded,
        };
        let found = found.order_by(by, order.clone()).order_by(Column::Id, order);
        let page = self.inner.read.page(found, filter.offset, filter.limit).await;
        let (rows, total) = page.map_err(|error| self.fail("list the canvases", error))?;
        // Without the DSLs, which would make a page of large canvases large itself.
        Ok((rows.into_iter().map(|row| row.with("".into())).collect(), total))
    }

    async fn delete(&self, key: &CanvasKey) -> Result<()> {
        const DOING: &str = "remove the canvas";
        let removed = repeated(|| self.delete_canvas(key)).await;
        let removed = removed.map_err(|error| self.fail(DOING, error))?;
        // On databases with concurrent writers, rows written meanwhile may belong to it. Writers that start later
        // check for the canvas afterwards, and no longer find it. Each step is repeated separately: if the first one
        // were repeated, there would be nothing left to remove, and the canvas would be reported as not existing.
        if removed > 0 && self.inner.write.get_database_backend() != DbBackend::Sqlite {
            let rest = repeated(|| self.delete_rest_of_canvas(key)).await;
            rest.map_err(|error| self.fail(DOING, error))?;
        }
        // The remembered state of runs may be of those that were removed with it.
        self.inner.journal.removed();
        if removed == 0 { Err(missing(key)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_lowercased_before_its_length_is_limited() {
        let key = CanvasKey::new(&TenantId::from("t"), "c");
        // One letter that becomes two in lower case.
        let head = CanvasHead { title: "İ".repeat(200), ..CanvasHead::default() };
        assert_eq!(checked(&key, &head, "{}").unwrap_err().kind, ErrorKind::Invalid);
    }
}
