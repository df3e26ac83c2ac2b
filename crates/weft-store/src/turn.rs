//! Who writes next.

use std::ops::Deref;
use std::sync::Arc;

use sea_orm::{DatabaseTransaction, DbErr};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Writers of one SQLite file take turns here, first come first served: SQLite itself would let the
/// losers sleep and try again. Other processes still meet in the file. Servers need no turns.
#[derive(Clone, Default)]
pub(crate) struct Turns(Option<Arc<Mutex<()>>>);

/// The right to write, until it is dropped.
pub(crate) struct Turn(#[expect(dead_code, reason = "held, not read")] Option<OwnedMutexGuard<()>>);

impl Turns {
    pub(crate) fn one_by_one() -> Self {
        Self(Some(Arc::default()))
    }

    pub(crate) async fn next(&self) -> Turn {
        match &self.0 {
            Some(turns) => Turn(Some(Arc::clone(turns).lock_owned().await)),
            None => Turn(None),
        }
    }
}

/// A transaction that has its turn. Dropped without [`Writing::commit`], it changes nothing.
pub(crate) struct Writing {
    pub(crate) transaction: DatabaseTransaction,
    pub(crate) turn: Turn,
}

impl Writing {
    pub(crate) async fn commit(self) -> Result<(), DbErr> {
        let Self { transaction, turn } = self;
        transaction.commit().await?;
        drop(turn);
        Ok(())
    }

    pub(crate) async fn rollback(self) -> Result<(), DbErr> {
        let Self { transaction, turn } = self;
        transaction.rollback().await?;
        drop(turn);
        Ok(())
    }
}

impl Deref for Writing {
    type Target = DatabaseTransaction;

    fn deref(&self) -> &DatabaseTransaction {
        &self.transaction
    }
}
