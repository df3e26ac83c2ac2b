//! Accounts, and where they are kept.

use weft_store::Store;

use crate::accounts::{AccountStores, Accounts};
use crate::config::Config;

/// Accounts as the settings have them.
pub(super) fn accounts(config: &Config, store: &Store) -> Accounts {
    let stores = AccountStores {
        users: store.users(),
        tenants: store.tenants(),
        shares: store.shares(),
        audit: store.audit_log(),
    };
    Accounts::new(stores, config.accounts)
}
