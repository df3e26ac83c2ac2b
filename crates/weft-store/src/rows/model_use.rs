//! Model usage, by node and model: rows written at the end of a run, and rows of work outside of runs.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Alias, Expr, ExprTrait as _, Func, Query, SelectStatement};
use sea_orm::{DbBackend, FromQueryResult, QueryOrder, QuerySelect, QueryTrait as _};
use weft_core::id::{RunKey, TenantId, generate};
use weft_core::seam::UsageStore;
use weft_core::seam::chat_model::Usage;
use weft_core::seam::run_store::FinishedRun;
use weft_core::seam::usage_store::{UsageBy, UsageFilter, UsageLine};
use weft_core::usage::{ModelUse, UsageOwner};
use weft_core::{Result, async_trait};

use crate::Store;
use crate::batch::{Batch, BatchStep, ExpectedEffect};
use crate::ids::{bounded, count, number, text};
use crate::open::repeated;
use crate::rows::{dataset, memory, run, session};

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// Maximum number of nodes and models of one run that are recorded separately; the rest is added to the last one.
// Each is a row for every run.
const PLACES_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "model_use")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub run_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub place: i64,
    pub day: i64,
    pub canvas_id: String,
    pub session_id: String,
    pub user_id: String,
    pub node: String,
    pub model: String,
    pub calls: i64,
    pub prompt_tokens: i64,
    pub completion_tokens: i64,
    pub cache_read_tokens: i64,
    pub cache_write_tokens: i64,
    pub reasoning_tokens: i64,
    pub micros: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The columns that are summed, in the order of [`Sums`].
const SUMMED: [Column; 7] = [
    Column::Calls,
    Column::PromptTokens,
    Column::CompletionTokens,
    Column::CacheReadTokens,
    Column::CacheWriteTokens,
    Column::ReasoningTokens,
    Column::Micros,
];

fn numbers(one: &ModelUse) -> [i64; 7] {
    let Usage {
        calls,
        prompt_tokens,
        completion_tokens,
        cache_read_tokens,
        cache_write_tokens,
        reasoning_tokens,
    } = one.usage;
    [
        calls,
        prompt_tokens,
        completion_tokens,
        cache_read_tokens,
        cache_write_tokens,
        reasoning_tokens,
        one.micros,
    ]
    .map(number)
}

/// The same usage in at most [`PLACES_MAX`] entries.
fn bounded_uses(uses: &[ModelUse]) -> Vec<ModelUse> {
    let mut kept: Vec<ModelUse> = uses.iter().take(PLACES_MAX).cloned().collect();
    for beyond in uses.iter().skip(PLACES_MAX) {
        if let Some(last) = kept.last_mut() {
            last.usage += beyond.usage;
            last.micros = last.micros.saturating_add(beyond.micros);
        }
    }
    kept
}

/// Writes the usage of a run, replacing what an earlier call whose outcome is unknown may have written.
pub(crate) fn note(key: &RunKey, finished: &FinishedRun, batch: &mut Batch) {
    if finished.uses.is_empty() {
        return;
    }
    let (tenant, id) = (text(key.tenant.as_str()), text(key.id.as_str()));
    let before = Entity::delete_many().filter(Column::TenantId.eq(&tenant)).filter(Column::RunId.eq(&id));
    batch.then(&before);
    for (place, one) in bounded_uses(&finished.uses).iter().enumerate() {
        let day = finished.at_ms.div_euclid(DAY_MS);
        // Canvas and session are taken from the run's row, and the user from the session's, without a separate query.
        let mut row = Query::select();
        row.column((run::Entity, run::Column::TenantId))
            .column((run::Entity, run::Column::Id))
            .expr(Expr::value(number(place as u64)))
            .expr(Expr::value(day))
            .column((run::Entity, run::Column::CanvasId))
            .column((run::Entity, run::Column::SessionId))
            .expr(Func::coalesce([Expr::col((session::Entity, session::Column::UserId)), Expr::value("")]))
            .expr(Expr::value(text(one.node.as_str())))
            .expr(Expr::value(text(&one.model)))
            .exprs(numbers(one).map(Expr::value))
            .from(run::Entity)
            .left_join(
                session::Entity,
                Expr::col((session::Entity, session::Column::TenantId))
                    .equals((run::Entity, run::Column::TenantId))
                    .and(
                        Expr::col((session::Entity, session::Column::Id))
                            .equals((run::Entity, run::Column::SessionId)),
                    ),
            )
            .and_where(Expr::col((run::Entity, run::Column::TenantId)).eq(tenant.as_str()))
            .and_where(Expr::col((run::Entity, run::Column::Id)).eq(id.as_str()));
        insert(row, batch);
    }
}

/// Writes the usage of work for a dataset, a memory or a conversation, provided that it exists. The rows have a new
/// id in place of a run's, so they never replace one another.
fn note_outside(owner: &UsageOwner, at_ms: i64, uses: &[ModelUse], batch: &mut Batch) {
    let (id, day) = (generate(), at_ms.div_euclid(DAY_MS));
    for (place, one) in bounded_uses(uses).iter().enumerate() {
        let mut row = Query::select();
        let nobody = || [Expr::value(""), Expr::value(""), Expr::value("")];
        let whose = match owner {
            UsageOwner::Dataset(key) => {
                row.column((dataset::Entity, dataset::Column::TenantId))
                    .from(dataset::Entity)
                    .cond_where(dataset::of(key));
                nobody()
            }
            UsageOwner::Memory(key) => {
                row.column((memory::Entity, memory::Column::TenantId))
                    .from(memory::Entity)
                    .cond_where(memory::of(key));
                nobody()
            }
            UsageOwner::Conversation(key) => {
                row.column((session::Entity, session::Column::TenantId))
                    .from(session::Entity)
                    .cond_where(session::of(key));
                [session::Column::CanvasId, session::Column::Id, session::Column::UserId]
                    .map(|column| Expr::col((session::Entity, column)))
            }
        };
        // Locked, so that it is not removed concurrently with all data of its tenant.
        row.expr(Expr::value(id.as_str()))
            .expr(Expr::value(number(place as u64)))
            .expr(Expr::value(day))
            .exprs(whose)
            .expr(Expr::value(text(one.node.as_str())))
            .expr(Expr::value(text(&one.model)))
            .exprs(numbers(one).map(Expr::value))
            .lock_exclusive();
        insert(row, batch);
    }
}

/// The columns of a row before the summed ones.
const KEY: [Column; 9] = [
    Column::TenantId,
    Column::RunId,
    Column::Place,
    Column::Day,
    Column::CanvasId,
    Column::SessionId,
    Column::UserId,
    Column::Node,
    Column::Model,
];

/// Inserts the rows selected by this query.
fn insert(row: SelectStatement, batch: &mut Batch) {
    let mut insert = Query::insert();
    insert.into_table(Entity).columns(KEY.into_iter().chain(SUMMED));
    // It only fails when the numbers of columns differ, and both are fixed here.
    if insert.select_from(row).is_ok() {
        batch.steps.push(BatchStep { statement: batch.backend.build(&insert), kind: ExpectedEffect::Any });
    }
}

fn column(side: UsageBy) -> Column {
    match side {
        UsageBy::Day => Column::Day,
        UsageBy::Agent => Column::CanvasId,
        UsageBy::Node => Column::Node,
        UsageBy::Model => Column::Model,
        UsageBy::User => Column::UserId,
        UsageBy::Session => Column::SessionId,
    }
}

/// Casts to an integer: databases return sums of integers as other types otherwise.
fn whole(backend: DbBackend, expression: Expr) -> Expr {
    expression.cast_as(Alias::new(if backend == DbBackend::MySql { "SIGNED" } else { "BIGINT" }))
}

#[derive(FromQueryResult)]
struct Sums {
    calls: Option<i64>,
    prompt_tokens: Option<i64>,
    completion_tokens: Option<i64>,
    cache_read_tokens: Option<i64>,
    cache_write_tokens: Option<i64>,
    reasoning_tokens: Option<i64>,
    micros: Option<i64>,
}

impl Sums {
    fn line(&self, of: Vec<String>) -> UsageLine {
        let sum = |number: Option<i64>| count(number.unwrap_or_default());
        let usage = Usage {
            calls: sum(self.calls),
            prompt_tokens: sum(self.prompt_tokens),
            completion_tokens: sum(self.completion_tokens),
            cache_read_tokens: sum(self.cache_read_tokens),
            cache_write_tokens: sum(self.cache_write_tokens),
            reasoning_tokens: sum(self.reasoning_tokens),
        };
        UsageLine { of, usage, micros: sum(self.micros) }
    }
}

#[async_trait]
impl UsageStore for Store {
    async fn note_usage(&self, owner: &UsageOwner, at_ms: i64, uses: &[ModelUse]) -> Result<()> {
        if uses.is_empty() {
            return Ok(());
        }
        let mut batch = self.batch();
        note_outside(owner, at_ms, uses, &mut batch);
        let noted = self.execute(&batch).await;
        noted.map(drop).map_err(|error| self.fail("record the usage", error))
    }

    async fn usage(&self, tenant: &TenantId, filter: &UsageFilter) -> Result<Vec<UsageLine>> {
        let fail = |error| self.fail("read the usage", error);
        let backend = self.inner.write.get_database_backend();
        let mut found = Entity::find()
            .select_only()
            .filter(Column::TenantId.eq(text(tenant.as_str())))
            .filter(Column::Day.gte(filter.since_day));
        for (side, value) in &filter.only {
            found = match (side, value.parse::<i64>()) {
                (UsageBy::Day, Ok(day)) => found.filter(Column::Day.eq(day)),
                // No row has a day that is not a number.
                (UsageBy::Day, Err(_)) => return Ok(Vec::new()),
                (side, _) => found.filter(column(*side).eq(text(value))),
            };
        }
        for (at, side) in filter.by.iter().enumerate() {
            found = found.column_as(column(*side), format!("of_{at}")).group_by(column(*side));
        }
        for summed in SUMMED {
            found = found.column_as(whole(backend, Expr::expr(summed.sum())), summed.as_str());
        }
        let tokens = Expr::expr(Column::PromptTokens.sum()).add(Expr::expr(Column::CompletionTokens.sum()));
        found = found.order_by_desc(Expr::expr(Column::Micros.sum())).order_by_desc(tokens);
        for side in &filter.by {
            found = found.order_by_asc(column(*side));
        }
        let statement = found.limit(bounded(filter.limit)).build(backend);
        let rows = self.inner.read.query_all_raw(statement).await.map_err(fail)?;
        let mut lines = Vec::with_capacity(rows.len());
        for row in rows {
            let mut of = Vec::with_capacity(filter.by.len());
            for (at, side) in filter.by.iter().enumerate() {
                let name = format!("of_{at}");
                of.push(match side {
                    UsageBy::Day => row.try_get::<i64>("", &name).map_err(fail)?.to_string(),
                    _ => row.try_get::<String>("", &name).map_err(fail)?,
                });
            }
            let sums = Sums::from_query_result(&row, "").map_err(fail)?;
            // Without any rows, there is a single row of nulls.
            if sums.calls.is_some() {
                lines.push(sums.line(of));
            }
        }
        Ok(lines)
    }

    async fn prune_usage(&self, tenant: &TenantId, before_day: i64) -> Result<u64> {
        let of_tenant = Entity::delete_many().filter(Column::TenantId.eq(text(tenant.as_str())));
        let removal = of_tenant.filter(Column::Day.lt(before_day));
        let _permit = self.inner.gate.permit().await;
        let removed = repeated(|| removal.clone().exec(&self.inner.write)).await;
        Ok(removed.map_err(|error| self.fail("remove old usage", error))?.rows_affected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_a_run_are_limited() {
        let one = |n: usize| ModelUse {
            node: format!("n{n}").into(),
            model: "m".into(),
            usage: Usage { calls: 1, ..Usage::default() },
            micros: 1,
        };
        let many: Vec<ModelUse> = (0..PLACES_MAX + 5).map(one).collect();
        let kept = bounded_uses(&many);
        assert_eq!((kept.len(), kept.last().map(|last| last.micros)), (PLACES_MAX, Some(6)));
        assert_eq!(bounded_uses(&many[..3]), many[..3]);
    }
}
