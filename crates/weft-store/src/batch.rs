//! Statements that change the store together. All of them are built before the first is executed, so that none waits
//! for its caller: with a SQLite file, all are executed in one visit of its thread.

use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryTrait, Statement};

/// A transaction whose statements do not depend on the results of earlier ones.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) backend: DbBackend,
    pub(crate) steps: Vec<BatchStep>,
}

/// One statement.
#[derive(Clone)]
pub(crate) struct BatchStep {
    pub(crate) statement: Statement,
    pub(crate) kind: ExpectedEffect,
}

/// The expected effect of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedEffect {
    /// A query that must return a row.
    MustFind,
    /// It must change a row.
    MustChange,
    /// It may change any number of rows.
    Any,
}

/// The outcome of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchOutcome {
    /// All of it is stored.
    Committed,
    /// This step did not have its expected effect, and nothing is stored.
    Refused(usize),
}

impl Batch {
    pub(crate) fn new(backend: DbBackend) -> Self {
        Self { backend, steps: Vec::new() }
    }

    /// Adds a query that must return a row.
    pub(crate) fn check(&mut self, statement: Statement) {
        self.steps.push(BatchStep { statement, kind: ExpectedEffect::MustFind });
    }

    /// Adds a statement that must change a row.
    pub(crate) fn must(&mut self, change: &impl QueryTrait) {
        self.steps
            .push(BatchStep { statement: change.build(self.backend), kind: ExpectedEffect::MustChange });
    }

    /// Adds a statement without a required effect.
    pub(crate) fn then(&mut self, change: &impl QueryTrait) {
        self.steps.push(BatchStep { statement: change.build(self.backend), kind: ExpectedEffect::Any });
    }

    /// Whether it is a single statement, which is a transaction by itself.
    pub(crate) fn is_single(&self) -> bool {
        self.steps.len() == 1
    }

    /// Executes the steps in an open transaction. The caller ends the transaction.
    pub(crate) async fn run_in(self, transaction: &impl ConnectionTrait) -> Result<BatchOutcome, DbErr> {
        for (at, BatchStep { statement, kind }) in self.steps.into_iter().enumerate() {
            let as_expected = match kind {
                ExpectedEffect::MustFind => transaction.query_one_raw(statement).await?.is_some(),
                ExpectedEffect::MustChange => transaction.execute_raw(statement).await?.rows_affected() > 0,
                ExpectedEffect::Any => transaction.execute_raw(statement).await.map(|_| true)?,
            };
            if !as_expected {
                // The later steps are not tried: the caller rolls back, and the number tells it which condition was not
                // met.
                return Ok(BatchOutcome::Refused(at));
            }
        }
        Ok(BatchOutcome::Committed)
    }
}
