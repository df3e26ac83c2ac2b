//! Memories in a service with Mem0's HTTP API.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, json};
use weft_core::seam::Http;
use weft_core::seam::http::{HttpBody, HttpRequest};
use weft_core::{Error, ErrorKind, Json, Result, TenantId, async_trait};

use super::{LongTermMemory, Owner, Remembered, Storing};

/// Maximum size of one response in bytes.
const ANSWER_MAX: usize = 4 * 1024 * 1024;
/// Time limit of one request.
// The service asks a model when it extracts facts.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A service at a base URL, such as `http://localhost:8000`.
#[derive(Clone)]
pub struct Mem0 {
    http: Arc<dyn Http>,
    tenant: TenantId,
    base: String,
    key: Option<String>,
}

impl std::fmt::Debug for Mem0 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mem0").field("base", &self.base).finish_non_exhaustive()
    }
}

/// Both forms of a response: a list, or a list under `results`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Mem0Response<T> {
    Wrapped { results: Vec<T> },
    Plain(Vec<T>),
}

impl<T> Mem0Response<T> {
    fn into_list(self) -> Vec<T> {
        match self {
            Self::Wrapped { results } | Self::Plain(results) => results,
        }
    }
}

#[derive(Deserialize)]
struct Added {
    id: String,
}

impl Mem0 {
    /// A service that is accessed over `http` on behalf of a tenant.
    pub fn new(http: Arc<dyn Http>, tenant: TenantId, base: impl Into<String>) -> Self {
        let base = base.into().trim_end_matches('/').to_owned();
        Self { http, tenant, base, key: None }
    }

    /// Sets the API key.
    #[must_use]
    pub fn with_key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    async fn ask<T: for<'de> Deserialize<'de>>(&self, path: &str, body: Map<String, Json>) -> Result<Vec<T>> {
        let headers =
            self.key.iter().map(|key| ("Authorization".to_owned(), format!("Token {key}"))).collect();
        let request = HttpRequest {
            method: "POST".to_owned(),
            url: format!("{}/{path}", self.base),
            headers,
            body: HttpBody::Json(body.into()),
            time_limit: TIME_LIMIT,
            body_max: ANSWER_MAX,
            proxy: None,
        };
        let response = self.http.send(&self.tenant, request).await?;
        if !(200..300).contains(&response.status) {
            let kind = match response.status {
                401 | 403 => ErrorKind::Unauthenticated,
                429 => ErrorKind::RateLimited,
                400..=499 => ErrorKind::Invalid,
                _ => ErrorKind::Unavailable,
            };
            // An error page may be long, and the message goes into logs and to the model.
            let said: String = response.body.chars().take(200).collect();
            let message = format!("the memory service answered {}: {said}", response.status);
            return Err(Error::new(kind, message).help("check its address and its key"));
        }
        let answer: Mem0Response<T> = serde_json::from_str(&response.body).map_err(|cause| {
            Error::new(ErrorKind::Garbled, "the memory service's answer cannot be read").because(cause)
        })?;
        Ok(answer.into_list())
    }
}

/// The ids of an owner as request fields.
fn owned(owner: &Owner) -> Result<Map<String, Json>> {
    owner.check()?;
    let ids = [("user_id", &owner.user_id), ("agent_id", &owner.agent_id), ("run_id", &owner.run_id)];
    let named = ids.into_iter().filter_map(|(name, id)| Some((name.to_owned(), json!(id.as_ref()?))));
    Ok(named.collect())
}

#[async_trait]
impl LongTermMemory for Mem0 {
    async fn add(&self, owner: &Owner, text: &str, storing: Storing) -> Result<Vec<String>> {
        let mut body = owned(owner)?;
        body.insert("messages".to_owned(), json!([{"role": "user", "content": text}]));
        body.insert("infer".to_owned(), json!(storing == Storing::Inferred));
        let added: Vec<Added> = self.ask("memories", body).await?;
        Ok(added.into_iter().map(|added| added.id).collect())
    }

    async fn search(&self, owner: &Owner, query: &str, limit: usize) -> Result<Vec<Remembered>> {
        let mut body = owned(owner)?;
        body.insert("query".to_owned(), json!(query));
        body.insert("limit".to_owned(), json!(limit));
        let mut found: Vec<Remembered> = self.ask("search", body).await?;
        // Not every version of the service supports `limit`.
        found.truncate(limit);
        Ok(found)
    }
}
