//! Tokens as the API shows them.

use serde::Serialize;
use weft_core::seam::token_store::StoredToken;

use super::time::http_date;
use weft_app::tokens::NewToken;

/// A row of the list of tokens. Fields of other kinds of tokens are there for clients that read them.
#[derive(Debug, Serialize)]
pub struct TokenRow {
    id: String,
    name: String,
    tenant_id: String,
    /// The token in the answer that made it; after that only what tells it from others.
    token: String,
    beta: Option<String>,
    dialog_id: Option<String>,
    source: Option<String>,
    create_time: i64,
    create_date: String,
    update_time: Option<i64>,
    update_date: Option<String>,
    last_used_time: Option<i64>,
}

impl TokenRow {
    /// One that was just made.
    pub fn made(token: &NewToken) -> Self {
        Self { token: token.reveal().to_owned(), ..Self::stored(&token.stored) }
    }

    /// One that is stored.
    pub fn stored(token: &StoredToken) -> Self {
        Self {
            id: token.id().to_owned(),
            name: token.name.clone(),
            tenant_id: token.tenant.to_string(),
            token: format!("weft-***{}", token.id()),
            beta: None,
            dialog_id: None,
            source: None,
            create_time: token.created_ms,
            create_date: http_date(token.created_ms),
            update_time: None,
            update_date: None,
            last_used_time: token.last_used_ms,
        }
    }
}
