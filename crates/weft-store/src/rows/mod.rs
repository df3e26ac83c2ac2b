//! One file per table: its columns, and the seam that it implements.

pub(crate) mod audit;
pub(crate) mod authorization_request;
mod backlog;
pub(crate) mod canvas;
pub(crate) mod canvas_label;
pub(crate) mod canvas_version;
pub(crate) mod chat;
mod chat_version;
pub(crate) mod chunk;
pub(crate) mod chunk_vector;
pub(crate) mod dataset;
pub(crate) mod document;
pub(crate) mod document_extra;
pub(crate) mod file;
pub(crate) mod folder_entry;
mod folder_walk;
pub(crate) mod fresh;
pub(crate) mod heads;
pub(crate) mod identity;
pub(crate) mod index_note;
pub(crate) mod ingest;
pub(crate) mod invitation;
pub(crate) mod journal;
pub(crate) mod kept_picture;
pub(crate) mod login;
pub(crate) mod membership;
pub(crate) mod memory;
pub(crate) mod memory_message;
pub(crate) mod model_use;
mod new_document;
pub(crate) mod notice;
pub(crate) mod picture;
pub(crate) mod piece;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod reading;
pub(crate) mod reembedding;
pub(crate) mod removed;
pub(crate) mod retention;
pub(crate) mod run;
pub(crate) mod run_end;
mod run_message;
pub(crate) mod schedule;
pub(crate) mod secret;
pub(crate) mod session;
pub(crate) mod session_message;
pub(crate) mod share;
pub(crate) mod spending;
mod staging;
pub(crate) mod task;
pub(crate) mod tenant;
pub(crate) mod tenant_lock;
pub(crate) mod tenant_removal;
pub(crate) mod token;
pub(crate) mod tool_credential;
pub(crate) mod tool_pin;
pub(crate) mod tool_server;
pub(crate) mod user;
pub(crate) mod version_facts;
mod version_retention;
pub(crate) mod waiting;
pub(crate) mod work;

use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, DbBackend, DbErr, EntityTrait, Order, QueryFilter as _,
    UpdateMany, Value,
};
use weft_core::{Error, Result};

/// The sum of a column as an integer: PostgreSQL and MariaDB would return a decimal number.
pub(crate) fn sum(backend: DbBackend, column: impl ColumnTrait) -> Expr {
    let whole = if backend == DbBackend::MySql { "SIGNED" } else { "BIGINT" };
    Expr::expr(column.sum()).cast_as(whole)
}

/// The condition for the rows behind a place in a list, so that a page continues where the last one ended: a place and
/// not an offset, because rows are added and removed while a list is read, and because each page then costs the same.
///
/// The list is sorted by the first column and, where that is the same, by the second one, which no two rows share, such
/// as a time and an id. Each column comes with its direction in the list and its value at the place.
pub(crate) fn behind<C: ColumnTrait>(
    (first, first_order, first_at): (C, Order, impl Into<Value>),
    (second, second_order, second_at): (C, Order, impl Into<Value>),
) -> Condition {
    let past = |column: C, order: Order, at: Value| match order {
        Order::Desc => column.lt(at),
        _ => column.gt(at),
    };
    let first_at = first_at.into();
    let beside = past(second, second_order, second_at.into());
    let same = Condition::all().add(first.eq(first_at.clone())).add(beside);
    Condition::any().add(past(first, first_order, first_at)).add(same)
}

/// Columns with their new values.
pub(crate) type ColumnChanges<C> = Vec<(C, Expr)>;

/// The change of a column to a value.
pub(crate) fn to<C>(column: C, value: impl Into<Value>) -> (C, Expr) {
    (column, Expr::value(value))
}

/// Changes the rows of a table that meet a condition. Returns how many there were.
pub(crate) async fn change<C>(
    transaction: &DatabaseTransaction,
    condition: Condition,
    change: ColumnChanges<C>,
) -> Result<u64, DbErr>
where
    C: ColumnTrait,
    C::EntityName: EntityTrait,
{
    let with = |update: UpdateMany<C::EntityName>, (column, value): (C, Expr)| update.col_expr(column, value);
    let update = change.into_iter().fold(<C::EntityName as EntityTrait>::update_many(), with);
    Ok(update.filter(condition).exec(transaction).await?.rows_affected)
}

/// The rows that can be parsed. A row that is damaged or was written by a newer program is logged: it must not block
/// the processing of the others, which may belong to other tenants.
pub(crate) fn readable<T>(rows: impl IntoIterator<Item = Result<T>>) -> Vec<T> {
    let told =
        |error: &Error| tracing::warn!(error = error.detail(), "a stored row that cannot be read is skipped");
    rows.into_iter().filter_map(|row| row.inspect_err(told).ok()).collect()
}

/// Maximum number of rows in one statement: databases limit the number of values.
pub(crate) const ROWS_AT_ONCE_MAX: usize = 500;
