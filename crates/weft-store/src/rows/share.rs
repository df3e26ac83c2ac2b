//! Share tokens.

use sea_orm::entity::prelude::*;
use sea_orm::{Condition, IntoActiveModel, QueryOrder, QuerySelect};
use weft_core::id::{CanvasId, TenantId};
use weft_core::seam::ShareStore;
use weft_core::seam::share_store::{SHARES_MAX, ShareTarget, ShareToken};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, bounded, text};
use crate::open::repeated;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "share")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: String,
    pub tenant_id: String,
    /// `agent`, `chat` or `key`.
    pub kind: String,
    pub target_id: String,
    pub name: String,
    pub created_ms: i64,
    pub expires_ms: Option<i64>,
    /// 0 until its first use.
    pub last_used_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl From<&ShareToken> for Model {
    fn from(share: &ShareToken) -> Self {
        Self {
            hash: share.hash.clone(),
            tenant_id: text(share.tenant.as_str()),
            kind: share.target.kind().to_owned(),
            target_id: text(share.target.id().as_str()),
            name: text(&share.name),
            created_ms: share.created_ms,
            expires_ms: share.expires_ms,
            last_used_ms: share.last_used_ms.unwrap_or(0),
        }
    }
}

impl Model {
    fn into_share(self) -> Result<ShareToken> {
        let id = CanvasId::from(self.target_id);
        let target = match self.kind.as_str() {
            "agent" => ShareTarget::Agent(id),
            "chat" => ShareTarget::Chat(id),
            "key" => ShareTarget::OfKey(id),
            _ => return Err(Error::new(ErrorKind::Garbled, "what is stored of the share token is damaged")),
        };
        Ok(ShareToken {
            target,
            tenant: TenantId::from(self.tenant_id),
            hash: self.hash,
            name: self.name,
            created_ms: self.created_ms,
            expires_ms: self.expires_ms,
            last_used_ms: (self.last_used_ms > 0).then_some(self.last_used_ms),
        })
    }
}

fn of(tenant: &TenantId, target: &ShareTarget) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(tenant.as_str())))
        .add(Column::Kind.eq(target.kind()))
        .add(Column::TargetId.eq(text(target.id().as_str())))
}

fn missing() -> Error {
    Error::not_found("there is no such share token")
}

#[async_trait]
impl ShareStore for Store {
    async fn add_share(&self, share: &ShareToken) -> Result<()> {
        ids::check("tenant", share.tenant.as_str())?;
        ids::check(share.target.kind(), share.target.id().as_str())?;
        ids::check("share token", &share.hash)?;
        let row = Model::from(share);
        let others = Entity::find().filter(of(&share.tenant, &share.target));
        let insert = || {
            self.insert_within(&row.tenant_id, row.clone().into_active_model(), others.clone(), SHARES_MAX)
        };
        match repeated(insert).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let message = format!("it has {SHARES_MAX} share tokens already");
                Err(Error::new(ErrorKind::QuotaExceeded, message).help("remove those that nobody uses"))
            }
            Err(error) if is_duplicate(&error) => {
                Err(Error::new(ErrorKind::Conflict, "this share token is stored already"))
            }
            Err(error) => Err(self.fail("store the share token", error)),
        }
    }

    async fn share(&self, hash: &str) -> Result<ShareToken> {
        let found = Entity::find_by_id(text(hash)).one(&self.inner.read).await;
        found.map_err(|error| self.fail("read the share token", error))?.ok_or_else(missing)?.into_share()
    }

    async fn share_used(&self, hash: &str, at_ms: i64) -> Result<()> {
        let note = Entity::update_many()
            .col_expr(Column::LastUsedMs, Expr::value(at_ms))
            .filter(Column::Hash.eq(text(hash)))
            // Uses are recorded concurrently, in any order: an earlier one must not replace a later one.
            .filter(Column::LastUsedMs.lt(at_ms));
        let _permit = self.inner.gate.permit().await;
        let noted = repeated(|| note.clone().exec(&self.inner.write)).await;
        noted.map(drop).map_err(|error| self.fail("record the use of the share token", error))
    }

    async fn shares(
        &self,
        tenant: &TenantId,
        target: &ShareTarget,
        count_max: u64,
    ) -> Result<Vec<ShareToken>> {
        let rows = Entity::find()
            .filter(of(tenant, target))
            .order_by_asc(Column::CreatedMs)
            .order_by_asc(Column::Hash)
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("list the share tokens", error))?;
        rows.into_iter().map(Model::into_share).collect()
    }

    async fn remove_share(&self, tenant: &TenantId, target: &ShareTarget, hash: &str) -> Result<()> {
        let removal = Entity::delete_many().filter(of(tenant, target)).filter(Column::Hash.eq(text(hash)));
        let _permit = self.inner.gate.permit().await;
        let removed = repeated(|| removal.clone().exec(&self.inner.write)).await;
        let removed = removed.map_err(|error| self.fail("remove the share token", error))?;
        if removed.rows_affected == 0 { Err(missing()) } else { Ok(()) }
    }

    async fn remove_shares(&self, tenant: &TenantId, target: &ShareTarget) -> Result<u64> {
        let removal = Entity::delete_many().filter(of(tenant, target));
        let _permit = self.inner.gate.permit().await;
        let removed = repeated(|| removal.clone().exec(&self.inner.write)).await;
        Ok(removed.map_err(|error| self.fail("remove the share tokens", error))?.rows_affected)
    }
}
