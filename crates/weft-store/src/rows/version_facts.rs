//! Metadata of versions of canvases, from the tables of both.

use std::collections::BTreeMap;
use std::sync::Arc;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{Condition, DatabaseTransaction, FromQueryResult, IntoActiveModel, QueryOrder, QuerySelect};
use weft_core::id::{CanvasKey, TenantId};
use weft_core::seam::VersionStore;
use weft_core::seam::canvas_store::CHAT_TYPE;
use weft_core::seam::version_store::{CanvasVersion, LABELS_MAX, VersionChange, check_label};
use weft_core::{Error, Result, async_trait};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{bounded, fold, text};
use crate::open::repeated;
use crate::rows::canvas::{read_tags, tags_columns};
use crate::rows::{canvas, canvas_label, canvas_version, tenant_lock};

/// A version without its DSL.
#[derive(Debug, FromQueryResult)]
struct VersionFactsRow {
    version: String,
    title: Option<String>,
    note: Option<String>,
    created_ms: i64,
    updated_ms: Option<i64>,
}

fn of_version(key: &CanvasKey) -> Condition {
    Condition::all()
        .add(canvas_version::Column::TenantId.eq(text(key.tenant.as_str())))
        .add(canvas_version::Column::CanvasId.eq(text(key.id.as_str())))
}

fn of_label(key: &CanvasKey) -> Condition {
    Condition::all()
        .add(canvas_label::Column::TenantId.eq(text(key.tenant.as_str())))
        .add(canvas_label::Column::CanvasId.eq(text(key.id.as_str())))
}

fn of_canvas(key: &CanvasKey) -> Condition {
    Condition::all()
        .add(canvas::Column::TenantId.eq(text(key.tenant.as_str())))
        .add(canvas::Column::Id.eq(text(key.id.as_str())))
}

fn facts(key: &CanvasKey) -> Select<canvas_version::Entity> {
    use canvas_version::Column::{CreatedMs, Note, Title, UpdatedMs, Version};
    canvas_version::Entity::find()
        .select_only()
        .columns([Version, Title, Note, CreatedMs, UpdatedMs])
        .filter(of_version(key))
}

fn no_version(key: &CanvasKey, version: &str) -> Error {
    Error::not_found(format!("the canvas `{}` has no version `{version}`", key.id))
}

fn no_canvas(key: &CanvasKey) -> Error {
    Error::not_found(format!("there is no canvas `{}`", key.id))
}

/// Returns whether a canvas has a version, and keeps it from being removed until the transaction ends: whoever removes
/// versions has changed the row of the canvas, which is locked here.
async fn has_version(
    transaction: &DatabaseTransaction,
    tenant_and_canvas: [&str; 2],
    version: &str,
) -> Result<bool, DbErr> {
    let [tenant, canvas] = tenant_and_canvas;
    let locked: Option<String> = canvas::Entity::find()
        .select_only()
        .column(canvas::Column::Id)
        .filter(canvas::Column::TenantId.eq(tenant))
        .filter(canvas::Column::Id.eq(canvas))
        .lock_exclusive()
        .into_tuple()
        .one(transaction)
        .await?;
    // After the lock: MariaDB fixes the transaction's view at its first read.
    let found: Option<String> = canvas_version::Entity::find()
        .select_only()
        .column(canvas_version::Column::Version)
        .filter(canvas_version::Column::TenantId.eq(tenant))
        .filter(canvas_version::Column::CanvasId.eq(canvas))
        .filter(canvas_version::Column::Version.eq(version))
        .into_tuple()
        .one(transaction)
        .await?;
    Ok(locked.is_some() && found.is_some())
}

/// The outcome of storing a label.
enum Labelling {
    Stored,
    /// The canvas has as many labels as it may have.
    Full,
    /// There is no such version.
    NoVersion,
}

impl Store {
    /// The metadata, completed with data of other tables.
    async fn with_labels(
        &self,
        key: &CanvasKey,
        found: Vec<VersionFactsRow>,
    ) -> Result<Vec<CanvasVersion>, DbErr> {
        let published: Option<(Option<String>, Option<i64>)> = canvas::Entity::find()
            .select_only()
            .columns([canvas::Column::Published, canvas::Column::PublishedMs])
            .filter(of_canvas(key))
            .into_tuple()
            .one(&self.inner.read)
            .await?;
        let published = published.and_then(|(version, at_ms)| Some((version?, at_ms?)));
        // All labels of the canvas: they are limited, and one query serves every version of a page.
        let labels = canvas_label::Entity::find()
            .filter(of_label(key))
            .order_by_asc(canvas_label::Column::Label)
            .all(&self.inner.read)
            .await?;
        let mut by_version: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for label in labels {
            by_version.entry(label.version).or_default().push(label.label);
        }
        let whole = |facts: VersionFactsRow| {
            let at_ms =
                published.as_ref().filter(|(version, _)| *version == facts.version).map(|(_, at)| *at);
            CanvasVersion {
                labels: by_version.get(&facts.version).cloned().unwrap_or_default(),
                version: facts.version.into(),
                title: facts.title.unwrap_or_default(),
                note: facts.note.unwrap_or_default(),
                created_ms: facts.created_ms,
                updated_ms: facts.updated_ms.unwrap_or(facts.created_ms),
                published_ms: at_ms,
            }
        };
        Ok(found.into_iter().map(whole).collect())
    }

    async fn write_label(&self, row: &canvas_label::Model) -> Result<Labelling, DbErr> {
        let transaction = self.begin().await?;
        // Two writers that count at the same time would exceed the maximum together.
        tenant_lock::hold(&transaction, &row.tenant_id, "canvas_label").await?;
        if !has_version(&transaction, [&row.tenant_id, &row.canvas_id], &row.version).await? {
            transaction.rollback().await?;
            return Ok(Labelling::NoVersion);
        }
        let changed = canvas_label::Entity::update_many()
            .col_expr(canvas_label::Column::Version, Expr::value(row.version.as_str()))
            .filter(canvas_label::Column::TenantId.eq(&row.tenant_id))
            .filter(canvas_label::Column::CanvasId.eq(&row.canvas_id))
            .filter(canvas_label::Column::Label.eq(&row.label))
            .exec(&*transaction)
            .await?;
        if changed.rows_affected == 0 {
            let of_canvas = canvas_label::Entity::find()
                .filter(canvas_label::Column::TenantId.eq(&row.tenant_id))
                .filter(canvas_label::Column::CanvasId.eq(&row.canvas_id));
            if of_canvas.count(&*transaction).await? >= LABELS_MAX as u64 {
                transaction.rollback().await?;
                return Ok(Labelling::Full);
            }
            canvas_label::Entity::insert(row.clone().into_active_model())
                .exec_without_returning(&*transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(Labelling::Stored)
    }

    /// Returns whether the version was there to be published.
    async fn write_published(&self, key: &CanvasKey, version: &str, now_ms: i64) -> Result<bool, DbErr> {
        let transaction = self.begin().await?;
        let (tenant, canvas) = (text(key.tenant.as_str()), text(key.id.as_str()));
        let is_there = has_version(&transaction, [&tenant, &canvas], version).await?;
        if is_there {
            canvas::Entity::update_many()
                .col_expr(canvas::Column::Published, Expr::value(version))
                .col_expr(canvas::Column::PublishedMs, Expr::value(now_ms))
                .filter(of_canvas(key))
                .exec(&*transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(is_there)
    }

    async fn remove_label(&self, canvas: &CanvasKey, label: &str) -> Result<()> {
        let _permit = self.inner.gate.permit().await;
        let remove = async || {
            canvas_label::Entity::delete_many()
                .filter(of_label(canvas))
                .filter(canvas_label::Column::Label.eq(text(label)))
                .exec(&self.inner.write)
                .await
        };
        let removed = repeated(remove).await.map_err(|error| self.fail("remove the label", error))?;
        match removed.rows_affected {
            0 => Err(no_label(canvas, label)),
            _ => Ok(()),
        }
    }
}

fn no_label(canvas: &CanvasKey, label: &str) -> Error {
    Error::not_found(format!("no version of the canvas `{}` has the label `{label}`", canvas.id))
}

#[async_trait]
impl VersionStore for Store {
    async fn versions(&self, key: &CanvasKey, offset: u64, limit: u64) -> Result<(Vec<CanvasVersion>, u64)> {
        let fail = |error| self.fail("list the versions", error);
        let total = canvas_version::Entity::find()
            .filter(of_version(key))
            .count(&self.inner.read)
            .await
            .map_err(fail)?;
        let found = facts(key)
            .order_by_desc(canvas_version::Column::UpdatedMs)
            .order_by_asc(canvas_version::Column::Version)
            .offset(bounded(offset))
            .limit(bounded(limit))
            .into_model()
            .all(&self.inner.read)
            .await
            .map_err(fail)?;
        Ok((self.with_labels(key, found).await.map_err(fail)?, total))
    }

    async fn get_version(&self, key: &CanvasKey, version: &str) -> Result<CanvasVersion> {
        let fail = |error| self.fail("read the version", error);
        let found = facts(key)
            .filter(canvas_version::Column::Version.eq(text(version)))
            .into_model()
            .one(&self.inner.read)
            .await
            .map_err(fail)?;
        let found = found.ok_or_else(|| no_version(key, version))?;
        let mut whole = self.with_labels(key, vec![found]).await.map_err(fail)?;
        whole.pop().ok_or_else(|| no_version(key, version))
    }

    async fn describe(
        &self,
        key: &CanvasKey,
        version: &str,
        VersionChange { title, note }: &VersionChange,
    ) -> Result<CanvasVersion> {
        let (title, note) = (title.as_deref().map(text), note.as_deref().map(text));
        if title.is_some() || note.is_some() {
            let _permit = self.inner.gate.permit().await;
            let write = async || {
                let mut change = canvas_version::Entity::update_many()
                    .filter(of_version(key))
                    .filter(canvas_version::Column::Version.eq(text(version)));
                if let Some(title) = &title {
                    change = change.col_expr(canvas_version::Column::Title, Expr::value(title.as_str()));
                }
                if let Some(note) = &note {
                    change = change.col_expr(canvas_version::Column::Note, Expr::value(note.as_str()));
                }
                change.exec(&self.inner.write).await
            };
            repeated(write).await.map_err(|error| self.fail("describe the version", error))?;
        }
        self.get_version(key, version).await
    }

    async fn publish(&self, key: &CanvasKey, version: &str) -> Result<()> {
        let (version, now_ms) = (text(version), self.inner.clock.now_ms());
        let published = repeated(|| self.write_published(key, &version, now_ms)).await;
        let published = published.map_err(|error| self.fail("publish the version", error))?;
        if published { Ok(()) } else { Err(no_version(key, &version)) }
    }

    async fn unpublish(&self, key: &CanvasKey, version: &str) -> Result<()> {
        let _permit = self.inner.gate.permit().await;
        let write = async || {
            canvas::Entity::update_many()
                .col_expr(canvas::Column::Published, Expr::value(None::<String>))
                .col_expr(canvas::Column::PublishedMs, Expr::value(None::<i64>))
                .filter(of_canvas(key))
                .filter(canvas::Column::Published.eq(text(version)))
                .exec(&self.inner.write)
                .await
        };
        let taken_back = repeated(write).await;
        taken_back.map(drop).map_err(|error| self.fail("unpublish the version", error))
    }

    async fn published(&self, key: &CanvasKey) -> Result<Option<Arc<str>>> {
        let found: Option<Option<String>> = canvas::Entity::find()
            .select_only()
            .column(canvas::Column::Published)
            .filter(of_canvas(key))
            .into_tuple()
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the canvas", error))?;
        Ok(found.ok_or_else(|| no_canvas(key))?.map(Arc::from))
    }

    async fn label(&self, key: &CanvasKey, label: &str, version: Option<&str>) -> Result<()> {
        const DOING: &str = "store the label";
        let Some(version) = version else { return self.remove_label(key, label).await };
        check_label(label)?;
        let row = canvas_label::Model {
            tenant_id: text(key.tenant.as_str()),
            canvas_id: text(key.id.as_str()),
            label: text(label),
            version: text(version),
        };
        let written = match repeated(|| self.write_label(&row)).await {
            // Another writer has just created it, so now there is a row to change.
            Err(error) if is_duplicate(&error) => repeated(|| self.write_label(&row)).await,
            outcome => outcome,
        };
        match written.map_err(|error| self.fail(DOING, error))? {
            Labelling::Stored => Ok(()),
            Labelling::NoVersion => Err(no_version(key, version)),
            Labelling::Full => {
                Err(Error::invalid(format!("the canvas `{}` has {LABELS_MAX} labels already", key.id)))
            }
        }
    }

    async fn labelled(&self, key: &CanvasKey, label: &str) -> Result<Arc<str>> {
        let found = canvas_label::Entity::find()
            .filter(of_label(key))
            .filter(canvas_label::Column::Label.eq(text(label)))
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the label", error))?;
        found.map(|row| row.version.into()).ok_or_else(|| no_label(key, label))
    }

    async fn canvas_of(&self, tenant: &TenantId, version: &str) -> Result<CanvasKey> {
        let found: Option<String> = canvas_version::Entity::find()
            .select_only()
            .column(canvas_version::Column::CanvasId)
            .filter(canvas_version::Column::TenantId.eq(text(tenant.as_str())))
            .filter(canvas_version::Column::Version.eq(text(version)))
            .order_by_desc(canvas_version::Column::UpdatedMs)
            .order_by_asc(canvas_version::Column::CanvasId)
            .into_tuple()
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the version", error))?;
        let id = found.ok_or_else(|| Error::not_found(format!("there is no version `{version}`")))?;
        Ok(CanvasKey::new(tenant, id))
    }

    async fn remove_unused_versions(&self, tenant: &TenantId, saved_before_ms: i64) -> Result<u64> {
        let removed = self.remove_versions_of_chats(&text(tenant.as_str()), saved_before_ms).await;
        removed.map_err(|error| self.fail("remove old versions", error))
    }

    async fn set_tags(&self, key: &CanvasKey, tags: &[String]) -> Result<()> {
        let (tags, folded) = tags_columns(tags)?;
        let _permit = self.inner.gate.permit().await;
        let write = async || {
            canvas::Entity::update_many()
                .col_expr(canvas::Column::Tags, Expr::value(tags.as_str()))
                .col_expr(canvas::Column::TagsFolded, Expr::value(folded.as_str()))
                .filter(of_canvas(key))
                .exec(&self.inner.write)
                .await
        };
        let changed = repeated(write).await.map_err(|error| self.fail("store the tags", error))?;
        if changed.rows_affected == 0 { Err(no_canvas(key)) } else { Ok(()) }
    }

    async fn tags(&self, tenant: &TenantId) -> Result<Vec<String>> {
        let found: Vec<Option<String>> = canvas::Entity::find()
            .select_only()
            .column(canvas::Column::Tags)
            .filter(canvas::Column::TenantId.eq(text(tenant.as_str())))
            .filter(canvas::Column::CanvasType.ne(CHAT_TYPE))
            .filter(canvas::Column::Tags.is_not_null())
            .into_tuple()
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("list the tags", error))?;
        let mut tags = BTreeMap::new();
        for tag in found.iter().flat_map(|tags| read_tags(tags.as_deref())) {
            tags.entry(fold(&tag)).or_insert(tag);
        }
        Ok(tags.into_values().collect())
    }
}
