//! Sessions.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, Func};
use sea_orm::{
    Condition, DbBackend, FromQueryResult, IntoActiveModel, Order, QueryOrder, QuerySelect, Statement,
};
use weft_core::id::{SessionKey, TenantId};
use weft_core::seam::SessionStore;
use weft_core::seam::session_store::{
    Feedback, MessagePosition, Session, SessionCommit, SessionFilter, SessionMessage, SessionOrder,
};
use weft_core::{CanvasId, Error, ErrorKind, Result, RunId, async_trait};

use crate::Store;
use crate::batch::{Batch, BatchOutcome};
use crate::failure::is_duplicate;
use crate::ids::{self, bounded, containing, containing_as_written, text};
use crate::lane::{NumberedColumn, RowId, row_with};
use crate::open::repeated;
use crate::pieces::{self, Cut};
use crate::rows::{behind, run, session_message, task};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "session")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub canvas_id: String,
    pub canvas_version: String,
    pub user_id: String,
    pub name: String,
    /// JSON.
    /// Empty when it is split into pieces.
    pub state: String,
    /// The list of its pieces, when it is large.
    pub state_list: Option<Vec<u8>>,
    pub revision: i64,
    pub created_ms: i64,
    pub updated_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

pub(crate) fn of(key: &SessionKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::Id.eq(text(key.id.as_str())))
}

/// Selects a row if a session is at this revision, and locks it: no other writer changes it before the transaction
/// ends.
pub(crate) fn at(backend: DbBackend, key: &SessionKey, revision: i64) -> Statement {
    let column = NumberedColumn { table: "session", column: "revision" };
    row_with(backend, column, RowId { tenant: key.tenant.as_str(), id: key.id.as_str() }, revision)
}

fn checked(session: &Session, messages: &[SessionMessage]) -> Result<()> {
    ids::check("tenant", session.key.tenant.as_str())?;
    ids::check("session", session.key.id.as_str())?;
    ids::check("canvas", session.canvas.as_str())?;
    ids::fits("canvas version", &session.canvas_version)?;
    ids::fits("user", &session.user_id)?;
    checked_messages(messages)
}

fn checked_messages(messages: &[SessionMessage]) -> Result<()> {
    for message in messages {
        ids::fits("role", &message.role)?;
        if let Some(run) = &message.run {
            ids::fits("run", run.as_str())?;
        }
    }
    Ok(())
}

fn missing(key: &SessionKey) -> Error {
    Error::not_found(format!("there is no session `{}`", key.id))
}

fn missing_message(run: &RunId) -> Error {
    Error::not_found(format!("the session has no message of the run `{run}`"))
}

fn garbled(key_id: &str, cause: serde_json::Error) -> Error {
    Error::new(ErrorKind::Garbled, format!("what is stored of the session `{key_id}` is not JSON"))
        .because(cause)
}

impl Model {
    fn new(session: &Session, state: String, state_list: Option<Vec<u8>>) -> Self {
        Self {
            tenant_id: session.key.tenant.as_str().to_owned(),
            id: session.key.id.as_str().to_owned(),
            canvas_id: session.canvas.as_str().to_owned(),
            canvas_version: session.canvas_version.to_string(),
            user_id: session.user_id.clone(),
            name: text(&session.name),
            state,
            state_list,
            revision: session.revision,
            created_ms: session.created_ms,
            updated_ms: session.updated_ms,
        }
    }

    fn into_session(self) -> Result<Session> {
        let state = serde_json::from_str(&self.state).map_err(|cause| garbled(&self.id, cause))?;
        Ok(Session {
            key: SessionKey::new(&TenantId::from(self.tenant_id), self.id),
            canvas: CanvasId::from(self.canvas_id),
            canvas_version: self.canvas_version.into(),
            user_id: self.user_id,
            name: self.name,
            state,
            revision: self.revision,
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
        })
    }
}

/// A session as it is listed: without its state, because the states of many sessions would not fit into memory.
#[derive(Debug, FromQueryResult)]
struct ListedSession {
    tenant_id: String,
    id: String,
    canvas_id: String,
    canvas_version: String,
    user_id: String,
    name: String,
    revision: i64,
    created_ms: i64,
    updated_ms: i64,
}

impl ListedSession {
    fn into_session(self) -> Session {
        Session {
            key: SessionKey::new(&TenantId::from(self.tenant_id), self.id),
            canvas: CanvasId::from(self.canvas_id),
            canvas_version: self.canvas_version.into(),
            user_id: self.user_id,
            name: self.name,
            state: Json::Null,
            revision: self.revision,
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
        }
    }
}

/// The outcome of a commit.
enum Committed {
    Yes,
    /// Another writer has changed the session since it was read.
    Changed,
    /// Another process has taken over the run that changes it.
    Overtaken,
    /// It has a run under way, which is not the one that changes it.
    Busy,
}

impl Store {
    /// The stored form of a state: as it is, or split into pieces.
    async fn state_text(&self, key: &SessionKey, state: &Json) -> Result<(String, Option<Cut>), DbErr> {
        let state = state.to_string();
        if state.len() < pieces::CUT_FROM {
            return Ok((state, None));
        }
        let cut = Cut::new(state.into_bytes()).prepare(&self.inner.read, key).await?;
        Ok((String::new(), Some(cut)))
    }

    async fn session(&self, mut row: Model) -> Result<Session> {
        if let Some(list) = row.state_list.take() {
            let key = SessionKey::new(&TenantId::from(row.tenant_id.as_str()), row.id.as_str());
            let state = pieces::whole(&self.inner.read, &key, &list).await;
            let state = state.map_err(|error| self.fail("read the session", error))??;
            row.state = String::from_utf8_lossy(&state).into_owned();
        }
        row.into_session()
    }

    async fn create_session(&self, session: &Session, opening: &[SessionMessage]) -> Result<(), DbErr> {
        let (state, cut) = self.state_text(&session.key, &session.state).await?;
        let mut batch = self.batch();
        let row = Model::new(session, state, cut.as_ref().map(Cut::list)).into_active_model();
        batch.then(&Entity::insert(row));
        session_message::add(&mut batch, &session.key, session.revision, opening);
        self.execute_with(batch, cut, &session.key).await.map(drop)
    }

    /// Nothing is changed unless it is committed.
    async fn commit_session(
        &self,
        key: &SessionKey,
        SessionCommit { revision, state, messages, tasks, lease }: SessionCommit<'_>,
    ) -> Result<Committed, DbErr> {
        let now = self.inner.clock.now_ms();
        let (state, cut) = self.state_text(key, state).await?;
        let mut batch = self.batch();
        // Runs before sessions, as everywhere, so that two writers do not deadlock.
        if let Some(lease) = lease {
            batch.check(run::held(batch.backend, lease));
        }
        let change = Entity::update_many()
            .col_expr(Column::State, Expr::value(state))
            .col_expr(Column::StateList, Expr::value(cut.as_ref().map(Cut::list)))
            .col_expr(Column::Revision, Expr::value(revision.wrapping_add(1)))
            .col_expr(Column::UpdatedMs, Expr::value(now))
            .filter(of(key))
            .filter(Column::Revision.eq(revision));
        batch.must(&change);
        if lease.is_none() {
            // After the session is locked: a run that is announced at the same time is seen here, or comes too late.
            batch.check(run::none_at_work(batch.backend, key));
        }
        session_message::add(&mut batch, key, revision.wrapping_add(1), messages);
        if let Some(change) = tasks {
            task::change(&mut batch, key, change)?;
        }
        Ok(match self.execute_with(batch, cut, key).await? {
            BatchOutcome::Committed => Committed::Yes,
            BatchOutcome::Refused(0) if lease.is_some() => Committed::Overtaken,
            BatchOutcome::Refused(1) if lease.is_none() => Committed::Busy,
            BatchOutcome::Refused(_) => Committed::Changed,
        })
    }

    /// Executes a batch and stores the pieces of a state in the same transaction.
    async fn execute_with(
        &self,
        batch: Batch,
        cut: Option<Cut>,
        key: &SessionKey,
    ) -> Result<BatchOutcome, DbErr> {
        let Some(cut) = cut else { return self.execute(&batch).await };
        let transaction = self.begin().await?;
        // The session's row first: the lock on it keeps a sweep from the pieces until the end of the transaction.
        let ran = batch.run_in(&*transaction).await?;
        match ran {
            BatchOutcome::Committed => {
                cut.store(&transaction, key).await?;
                transaction.commit().await?;
            }
            BatchOutcome::Refused(_) => transaction.rollback().await?,
        }
        Ok(ran)
    }

    /// Returns the number of removed messages.
    async fn remove_turn(&self, key: &SessionKey, run: &RunId) -> Result<u64, DbErr> {
        let transaction = self.begin().await?;
        // Runs before sessions, as everywhere. The journal is removed with its run, by foreign key.
        run::Entity::delete_many()
            .filter(run::Column::TenantId.eq(text(key.tenant.as_str())))
            .filter(run::Column::SessionId.eq(text(key.id.as_str())))
            .filter(run::Column::Id.eq(text(run.as_str())))
            .filter(run::Column::Ending.is_not_null())
            .exec(&*transaction)
            .await?;
        let gone = session_message::Entity::delete_many()
            .filter(session_message::of_run(key, run))
            .exec(&*transaction)
            .await?;
        if gone.rows_affected == 0 {
            transaction.rollback().await?;
        } else {
            transaction.commit().await?;
        }
        Ok(gone.rows_affected)
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<u64, DbErr> {
        let transaction = self.begin().await?;
        // Journals and messages are removed with their runs and sessions, by foreign key.
        let runs = || {
            run::Entity::delete_many()
                .filter(run::Column::TenantId.eq(text(key.tenant.as_str())))
                .filter(run::Column::SessionId.eq(text(key.id.as_str())))
        };
        runs().exec(&*transaction).await?;
        let removed = Entity::delete_many().filter(of(key)).exec(&*transaction).await?;
        // A run that was announced meanwhile has locked the session until its row was stored.
        runs().exec(&*transaction).await?;
        transaction.commit().await?;
        Ok(removed.rows_affected)
    }
}

#[async_trait]
impl SessionStore for Store {
    async fn create(&self, session: &Session, opening: &[SessionMessage]) -> Result<()> {
        const DOING: &str = "store the session";
        checked(session, opening)?;
        self.check_room_for_session(&session.key).await?;
        repeated(|| self.create_session(session, opening)).await.map_err(|error| {
            if is_duplicate(&error) {
                let taken = format!("cannot {DOING}: there is a session `{}` already", session.key.id);
                return Error::new(ErrorKind::Conflict, taken).help("choose another id");
            }
            self.fail(DOING, error)
        })
    }

    async fn load(&self, key: &SessionKey) -> Result<Session> {
        let found = Entity::find().filter(of(key)).one(&self.inner.read).await;
        let row = found.map_err(|error| self.fail("read the session", error))?;
        self.session(row.ok_or_else(|| missing(key))?).await
    }

    async fn revision(&self, key: &SessionKey) -> Result<i64> {
        let revision = Entity::find()
            .select_only()
            .column(Column::Revision)
            .filter(of(key))
            .into_tuple()
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the session", error))?;
        revision.ok_or_else(|| missing(key))
    }

    async fn messages(&self, key: &SessionKey, revision: i64, count_max: u64) -> Result<Vec<SessionMessage>> {
        let rows = session_message::last(&self.inner.read, key, (revision, count_max)).await;
        rows.map_err(|error| self.fail("read the messages", error))?
            .into_iter()
            .rev()
            .map(session_message::Model::into_message)
            .collect::<Result<_, _>>()
            .map_err(|cause| garbled(key.id.as_str(), cause))
    }

    async fn history(&self, key: &SessionKey, revision: i64, count_max: u64) -> Result<Vec<SessionMessage>> {
        let said = session_message::history(&self.inner.read, key, (revision, count_max)).await;
        said.map_err(|error| self.fail("read the messages", error))
    }

    async fn message_sizes(&self, key: &SessionKey, count_max: u64) -> Result<Vec<u64>> {
        let sizes = session_message::sizes(&self.inner.read, key, count_max).await;
        sizes.map_err(|error| self.fail("read the sizes of the messages", error))
    }

    async fn messages_after(
        &self,
        key: &SessionKey,
        after: Option<MessagePosition>,
        count_max: u64,
    ) -> Result<Vec<(MessagePosition, SessionMessage)>> {
        let mut found = session_message::Entity::find()
            .filter(session_message::Column::TenantId.eq(text(key.tenant.as_str())))
            .filter(session_message::Column::SessionId.eq(text(key.id.as_str())));
        if let Some(after) = after {
            found = found.filter(session_message::after(after));
        }
        let rows = found
            .order_by(session_message::Column::Revision, Order::Asc)
            .order_by(session_message::Column::Position, Order::Asc)
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the messages", error))?;
        rows.into_iter()
            .map(|row| {
                let at = row.at();
                row.into_message().map(|message| (at, message))
            })
            .collect::<Result<_, _>>()
            .map_err(|cause| garbled(key.id.as_str(), cause))
    }

    async fn commit(&self, key: &SessionKey, commit: SessionCommit<'_>) -> Result<()> {
        const DOING: &str = "store the session";
        checked_messages(commit.messages)?;
        commit.tasks.map_or(Ok(()), task::checked)?;
        let revision = commit.revision;
        let committed = repeated(|| self.commit_session(key, commit)).await;
        match (committed.map_err(|error| self.fail(DOING, error))?, commit.lease) {
            (Committed::Yes, _) => return Ok(()),
            (Committed::Overtaken, Some(lease)) => return Err(self.overtaken(lease, DOING)),
            (Committed::Busy, _) => return Err(self.busy(key, DOING).await?),
            (Committed::Overtaken, None) | (Committed::Changed, _) => {}
        }
        let stored = self.load(key).await?;
        Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "cannot {DOING}: `{}` is at revision {}, not {revision}: another writer has changed it",
                key.id, stored.revision
            ),
        )
        .help("read the session again, then repeat the change"))
    }

    async fn list(&self, tenant: &TenantId, filter: &SessionFilter) -> Result<(Vec<Session>, u64)> {
        let fail = |error| self.fail("list the sessions", error);
        let mut found = Entity::find().filter(Column::TenantId.eq(text(tenant.as_str())));
        if let Some(canvas) = &filter.canvas {
            found = found.filter(Column::CanvasId.eq(text(canvas.as_str())));
        }
        if let Some(id) = &filter.id {
            found = found.filter(Column::Id.eq(text(id)));
        }
        if let Some(user) = &filter.user_id {
            found = found.filter(Column::UserId.eq(text(user)));
        }
        if let Some(name) = &filter.name {
            found = found.filter(Column::Name.eq(text(name)));
        }
        if !filter.keywords.is_empty() {
            // SQLite folds the case of English letters only. Names are not keys, so there is no folded copy of them.
            // A keyword in the case of the name is found in every script.
            let folded = Expr::from(Func::lower(Expr::col(Column::Name)));
            let either = Condition::any()
                .add(folded.like(containing(&filter.keywords)))
                .add(Column::Name.like(containing_as_written(&filter.keywords)));
            found = found.filter(either);
        }
        let total = found.clone().count(&self.inner.read).await.map_err(fail)?;
        if let Some((created_ms, id)) = &filter.after {
            let time = (Column::CreatedMs, Order::Asc, *created_ms);
            found = found.filter(behind(time, (Column::Id, Order::Asc, text(id.as_str()))));
        }
        let order = if filter.ascending { Order::Asc } else { Order::Desc };
        let by = match filter.order {
            SessionOrder::Updated => Column::UpdatedMs,
            SessionOrder::Created => Column::CreatedMs,
            SessionOrder::Name => Column::Name,
        };
        let rows = found
            .order_by(by, order.clone())
            .order_by(Column::Id, order)
            .offset(bounded(filter.offset))
            .limit(bounded(filter.limit))
            .select_only()
            .columns([
                Column::TenantId,
                Column::Id,
                Column::CanvasId,
                Column::CanvasVersion,
                Column::UserId,
                Column::Name,
                Column::Revision,
                Column::CreatedMs,
                Column::UpdatedMs,
            ])
            .into_model::<ListedSession>()
            .all(&self.inner.read)
            .await
            .map_err(fail)?;
        Ok((rows.into_iter().map(ListedSession::into_session).collect(), total))
    }

    async fn rename(&self, key: &SessionKey, name: &str) -> Result<()> {
        let change = Entity::update_many()
            .col_expr(Column::Name, Expr::value(text(name)))
            .col_expr(Column::UpdatedMs, Expr::value(self.inner.clock.now_ms()))
            .filter(of(key));
        let _permit = self.inner.gate.permit().await;
        let changed = repeated(|| change.clone().exec(&self.inner.write)).await;
        let changed = changed.map_err(|error| self.fail("rename the session", error))?;
        if changed.rows_affected == 0 { Err(missing(key)) } else { Ok(()) }
    }

    async fn judge(&self, key: &SessionKey, run: &RunId, feedback: &Feedback) -> Result<()> {
        let change = session_message::Entity::update_many()
            .col_expr(session_message::Column::Feedback, Expr::value(ids::json(feedback)?))
            .filter(session_message::of_run(key, run))
            .filter(session_message::Column::Role.eq("assistant"));
        let _permit = self.inner.gate.permit().await;
        let changed = repeated(|| change.clone().exec(&self.inner.write)).await;
        let changed = changed.map_err(|error| self.fail("store the feedback on an answer", error))?;
        if changed.rows_affected == 0 { Err(missing_message(run)) } else { Ok(()) }
    }

    async fn forget_run(&self, key: &SessionKey, run: &RunId) -> Result<()> {
        let gone = repeated(|| self.remove_turn(key, run)).await;
        let gone = gone.map_err(|error| self.fail("remove the messages of a run", error))?;
        self.inner.journal.removed();
        if gone == 0 { Err(missing_message(run)) } else { Ok(()) }
    }

    async fn delete(&self, key: &SessionKey) -> Result<()> {
        let removed = repeated(|| self.delete_session(key))
            .await
            .map_err(|error| self.fail("remove the session", error))?;
        self.inner.journal.removed();
        if removed == 0 { Err(missing(key)) } else { Ok(()) }
    }
}
