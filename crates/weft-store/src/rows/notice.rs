//! Notices to people.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{Condition, InsertMany, IntoActiveModel, QueryOrder, QuerySelect};
use weft_core::id::TenantId;
use weft_core::seam::NoticeStore;
use weft_core::seam::notice_store::{
    Notice, NoticeKey, NoticeKind, NoticeLease, NoticeOutcome, NoticeState, StoredNotice,
};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::Store;
use crate::batch::Batch;
use crate::ids::{self, bounded, text};
use crate::open::repeated;
use crate::rows::{ROWS_AT_ONCE_MAX, readable};

/// Not taken; `state_ms` is the earliest time at which it may be taken.
const WAITING: &str = "waiting";
/// A process is delivering it; `state_ms` is until when.
const TAKEN: &str = "taken";
/// Delivered to all recipients; `state_ms` is when.
const DELIVERED: &str = "delivered";
/// Some recipient will not be notified; `state_ms` is when that was decided.
const GIVEN_UP: &str = "given_up";

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "notice")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub kind: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub subject: String,
    /// JSON.
    pub said: String,
    pub at_ms: i64,
    pub state: String,
    pub state_ms: i64,
    pub fence: i64,
    pub attempts: i64,
    /// A list of words, as JSON.
    pub done: String,
    pub reason: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

fn of(key: &NoticeKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::Kind.eq(key.kind.as_str()))
        .add(Column::Subject.eq(text(&key.subject)))
}

fn columns_of(state: NoticeState) -> (&'static str, i64) {
    match state {
        NoticeState::Waiting { from_ms } => (WAITING, from_ms),
        NoticeState::Taken { until_ms } => (TAKEN, until_ms),
        NoticeState::Delivered { at_ms } => (DELIVERED, at_ms),
        NoticeState::GivenUp { at_ms } => (GIVEN_UP, at_ms),
    }
}

impl Model {
    fn new(notice: &Notice) -> Result<Self> {
        let Notice { key, said, at_ms } = notice;
        ids::check("tenant", key.tenant.as_str())?;
        ids::check("subject of a notice", &key.subject)?;
        let (state, state_ms) = columns_of(NoticeState::Waiting { from_ms: *at_ms });
        Ok(Self {
            tenant_id: key.tenant.as_str().to_owned(),
            kind: key.kind.as_str().to_owned(),
            subject: key.subject.clone(),
            said: ids::json(said)?,
            at_ms: *at_ms,
            state: state.to_owned(),
            state_ms,
            fence: 0,
            attempts: 0,
            done: "[]".to_owned(),
            reason: String::new(),
        })
    }

    fn into_stored(self) -> Result<StoredNotice> {
        let subject = self.subject.clone();
        let garbled = |what: &str| {
            Error::new(ErrorKind::Garbled, format!("the stored notice of `{subject}` has {what}"))
        };
        let unknown = |what: &str, word: &str| garbled(&format!("the unknown {what} `{word}`"));
        let kind = NoticeKind::parse(&self.kind).ok_or_else(|| unknown("kind", &self.kind))?;
        let at = self.state_ms;
        let state = match self.state.as_str() {
            WAITING => NoticeState::Waiting { from_ms: at },
            TAKEN => NoticeState::Taken { until_ms: at },
            DELIVERED => NoticeState::Delivered { at_ms: at },
            GIVEN_UP => NoticeState::GivenUp { at_ms: at },
            other => return Err(unknown("state", other)),
        };
        let what = || format!("the notice of `{}`", self.subject);
        let (said, done) = (ids::read_json(&self.said, what)?, ids::read_json(&self.done, what)?);
        let key = NoticeKey { tenant: TenantId::from(self.tenant_id), kind, subject: self.subject };
        let attempts = u32::try_from(self.attempts).unwrap_or_default();
        let notice = Notice { key, said, at_ms: self.at_ms };
        Ok(StoredNotice { notice, state, done, attempts, reason: self.reason })
    }
}

fn inserted(rows: Vec<Model>) -> InsertMany<ActiveModel> {
    let key = [Column::TenantId, Column::Kind, Column::Subject];
    Entity::insert_many(rows.into_iter().map(IntoActiveModel::into_active_model))
        .on_conflict(OnConflict::columns(key).do_nothing_on(key).to_owned())
}

/// Records a notice together with the change that caused it.
///
/// # Errors
/// As for [`NoticeStore::push_notices`].
pub(crate) fn note(notice: &Notice, batch: &mut Batch) -> Result<()> {
    batch.then(&inserted(vec![Model::new(notice)?]));
    Ok(())
}

impl Store {
    /// Takes the notice that was just read, unless another process was faster.
    async fn take_notice(&self, row: &Model, until_ms: i64) -> Result<bool, DbErr> {
        let taken = Entity::update_many()
            .col_expr(Column::State, Expr::value(TAKEN))
            .col_expr(Column::StateMs, Expr::value(until_ms))
            .col_expr(Column::Fence, Expr::value(row.fence + 1))
            .col_expr(Column::Attempts, Expr::value(row.attempts + 1))
            .filter(Column::TenantId.eq(&row.tenant_id))
            .filter(Column::Kind.eq(&row.kind))
            .filter(Column::Subject.eq(&row.subject))
            .filter(Column::State.eq(&row.state))
            .filter(Column::StateMs.eq(row.state_ms))
            .filter(Column::Fence.eq(row.fence))
            .exec(&self.inner.write)
            .await?;
        Ok(taken.rows_affected > 0)
    }
}

#[async_trait]
impl NoticeStore for Store {
    async fn push_notices(&self, notices: &[Notice]) -> Result<()> {
        let rows: Vec<Model> = notices.iter().map(Model::new).collect::<Result<_>>()?;
        for some in rows.chunks(ROWS_AT_ONCE_MAX) {
            let _permit = self.inner.gate.permit().await;
            let insert = async || inserted(some.to_vec()).exec_without_returning(&self.inner.write).await;
            match repeated(insert).await {
                // All of them existed already; the library treats that as an error.
                Ok(_) | Err(DbErr::RecordNotInserted) => {}
                Err(error) => return Err(self.fail("store the notifications", error)),
            }
        }
        Ok(())
    }

    async fn take_notices(
        &self,
        now_ms: i64,
        until_ms: i64,
        count_max: u64,
    ) -> Result<Vec<(NoticeLease, StoredNotice)>> {
        const DOING: &str = "take the notifications";
        let ready = Entity::find()
            // Taken and past its deadline: the process that took it has become silent.
            .filter(Column::State.is_in([WAITING, TAKEN]))
            .filter(Column::StateMs.lte(now_ms))
            .order_by_asc(Column::StateMs)
            .order_by_asc(Column::Subject)
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail(DOING, error))?;
        let mut taken = Vec::new();
        for mut row in ready {
            let _permit = self.inner.gate.permit().await;
            let take = repeated(|| self.take_notice(&row, until_ms)).await;
            if !take.map_err(|error| self.fail(DOING, error))? {
                continue;
            }
            TAKEN.clone_into(&mut row.state);
            (row.state_ms, row.fence, row.attempts) = (until_ms, row.fence + 1, row.attempts + 1);
            let fence = row.fence;
            // Like the notice of a process that has ended, it becomes available again when its time has passed.
            let Some(stored) = readable([row.into_stored()]).pop() else { continue };
            taken.push((NoticeLease { key: stored.notice.key.clone(), fence }, stored));
        }
        Ok(taken)
    }

    async fn settle_notice(&self, lease: &NoticeLease, outcome: &NoticeOutcome) -> Result<()> {
        let (state, state_ms) = columns_of(outcome.state);
        let done = ids::json(&outcome.done)?;
        let _permit = self.inner.gate.permit().await;
        let change = async || {
            Entity::update_many()
                .col_expr(Column::State, Expr::value(state))
                .col_expr(Column::StateMs, Expr::value(state_ms))
                .col_expr(Column::Done, Expr::value(done.as_str()))
                .col_expr(Column::Reason, Expr::value(text(&outcome.reason)))
                .filter(of(&lease.key))
                .filter(Column::State.eq(TAKEN))
                .filter(Column::Fence.eq(lease.fence))
                .exec(&self.inner.write)
                .await
        };
        let changed = repeated(change)
            .await
            .map_err(|error| self.fail("store the outcome of the notification", error))?;
        if changed.rows_affected == 0 {
            let message = format!("the notice of `{}` belongs to another process now", lease.key.subject);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        Ok(())
    }

    async fn notices(&self, tenant: &TenantId, offset: u64, limit: u64) -> Result<(Vec<StoredNotice>, u64)> {
        let found = Entity::find()
            .filter(Column::TenantId.eq(text(tenant.as_str())))
            .order_by_desc(Column::AtMs)
            .order_by_desc(Column::Kind)
            .order_by_desc(Column::Subject);
        let page = self.inner.read.page(found, offset, limit).await;
        let (rows, total) = page.map_err(|error| self.fail("list the notifications", error))?;
        Ok((rows.into_iter().map(Model::into_stored).collect::<Result<_>>()?, total))
    }

    async fn prune_notices(&self, before_ms: i64) -> Result<u64> {
        // In any state: a notice that could not be delivered for so long is no longer news.
        let removal = Entity::delete_many().filter(Column::AtMs.lt(before_ms));
        let _permit = self.inner.gate.permit().await;
        let removed = repeated(|| removal.clone().exec(&self.inner.write)).await;
        Ok(removed.map_err(|error| self.fail("remove old notifications", error))?.rows_affected)
    }
}
