//! Admits one writer at a time.

use std::ops::Deref;
use std::sync::Arc;

use sea_orm::{DatabaseTransaction, DbErr};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Writers to one SQLite file wait here in order of arrival: SQLite itself would let the losers sleep and retry.
/// Other processes still compete for the file's lock. Servers need no gate.
#[derive(Clone, Default)]
pub(crate) struct WriteGate(Option<Arc<Mutex<()>>>);

/// The permission to write, until it is dropped.
pub(crate) struct WritePermit(#[expect(dead_code, reason = "held, not read")] Option<OwnedMutexGuard<()>>);

impl WriteGate {
    pub(crate) fn one_by_one() -> Self {
        Self(Some(Arc::default()))
    }

    pub(crate) async fn permit(&self) -> WritePermit {
        match &self.0 {
            Some(gate) => WritePermit(Some(Arc::clone(gate).lock_owned().await)),
            None => WritePermit(None),
        }
    }
}

/// A transaction with permission to write. If it is dropped without [`WriteTransaction::commit`], it changes nothing.
pub(crate) struct WriteTransaction {
    pub(crate) transaction: DatabaseTransaction,
    pub(crate) permit: WritePermit,
}

impl WriteTransaction {
    pub(crate) async fn commit(self) -> Result<(), DbErr> {
        let Self { transaction, permit } = self;
        transaction.commit().await?;
        drop(permit);
        Ok(())
    }

    pub(crate) async fn rollback(self) -> Result<(), DbErr> {
        let Self { transaction, permit } = self;
        transaction.rollback().await?;
        drop(permit);
        Ok(())
    }
}

impl Deref for WriteTransaction {
    type Target = DatabaseTransaction;

    fn deref(&self) -> &DatabaseTransaction {
        &self.transaction
    }
}
