//! Tokens in the format of the API.

use serde::Serialize;
use weft_core::Secret;
use weft_core::access::MemberRole;
use weft_core::id::UserId;
use weft_core::seam::token_store::StoredToken;

use super::time::http_date;
use weft_app::tokens::NewToken;

/// A row of the list of tokens. Contains fields of other kinds of tokens for clients that read them.
#[derive(Debug, Serialize)]
pub struct TokenRow {
    id: String,
    name: String,
    role: MemberRole,
    user_id: Option<UserId>,
    tenant_id: String,
    /// The token itself in the answer that creates it; afterwards only an identifying part.
    token: String,
    /// The share token in the answer that creates it; afterwards `None`.
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
    /// Builds the row of a new token, with the share token that was created with it.
    pub fn made(token: &NewToken, beta: Option<&Secret>) -> Self {
        let beta = beta.map(|beta| beta.reveal().to_owned());
        Self { token: token.reveal().to_owned(), beta, ..Self::stored(&token.stored) }
    }

    /// Builds the row of a stored token.
    pub fn stored(token: &StoredToken) -> Self {
        Self {
            id: token.id().to_owned(),
            name: token.name.clone(),
            role: token.role,
            user_id: token.user.clone(),
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
