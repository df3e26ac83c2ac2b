//! A model at an address: one request, one JSON response.

use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::Value as Json;
use weft_core::{Error, ErrorKind, Result};

use crate::config::ModelEntry;
use crate::failure;
use crate::retrying::RetryPolicy;
use crate::secret::Secret;

/// Longer responses are rejected: that would be more than a thousand vectors with four thousand numbers.
const BODY_BYTES_MAX: usize = 64 << 20;
/// How much of an error response is read.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// The address of a model and how it is asked.
#[derive(Debug)]
pub(crate) struct RemoteModel {
    /// The name given by the operator.
    pub name: String,
    url: reqwest::Url,
    key: Secret,
    client: reqwest::Client,
    policy: RetryPolicy,
    /// Time limit of one request.
    limit: Duration,
}

impl RemoteModel {
    /// The model of `entry` at `url`.
    ///
    /// # Errors
    /// `Invalid` for an address or a time limit that is not valid.
    pub(crate) fn new(entry: &ModelEntry, url: &str, client: &reqwest::Client) -> Result<Self> {
        let url = url.parse().map_err(|cause: url::ParseError| {
            Error::invalid(format!("the base URL of the model `{}` is not valid", entry.name)).because(cause)
        })?;
        let (name, key) = (entry.name.clone(), entry.api_key.clone());
        let (policy, limit) = (entry.retry_policy()?, entry.request_limit()?);
        Ok(Self { name, url, key, client: client.clone(), policy, limit })
    }

    /// Asks until there is an answer or retrying is pointless.
    ///
    /// # Errors
    /// The error of the provider or of the connection, by kind.
    pub(crate) async fn ask(&self, body: &Json) -> Result<Vec<u8>> {
        self.ask_with(|request| request.json(body)).await
    }

    /// Same as [`RemoteModel::ask`], for a request with any body, which is built again for each try.
    ///
    /// # Errors
    /// As for [`RemoteModel::ask`].
    pub(crate) async fn ask_with(&self, body: impl Fn(RequestBuilder) -> RequestBuilder) -> Result<Vec<u8>> {
        let mut tries = 1;
        loop {
            let error = match self.ask_once(&body).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            tokio::time::sleep(self.policy.again(error, tries, None, None)?).await;
            tries += 1;
        }
    }

    async fn ask_once(&self, body: impl Fn(RequestBuilder) -> RequestBuilder) -> Result<Vec<u8>> {
        let late = |_| {
            let seconds = self.limit.as_secs_f64();
            Error::new(
                ErrorKind::Timeout,
                format!("the model `{}` did not answer within {seconds} s", self.name),
            )
        };
        // For each try: a first one that is never answered must leave time for the next.
        tokio::time::timeout(self.limit, self.exchange(body)).await.map_err(late)?
    }

    async fn exchange(&self, body: impl Fn(RequestBuilder) -> RequestBuilder) -> Result<Vec<u8>> {
        let mut sending = body(self.client.post(self.url.clone()));
        // A local server without keys may reject an empty one.
        if !self.key.is_empty() {
            sending = sending.bearer_auth(self.key.reveal());
        }
        let no_answer = |cause| failure::no_answer(&self.name, cause, &self.key);
        let response = sending.send().await.map_err(no_answer)?;
        if response.status().is_success() {
            let (body, whole) = read(response, BODY_BYTES_MAX).await.map_err(no_answer)?;
            let too_long = || failure::too_long(&self.name, &self.url, "an answer", BODY_BYTES_MAX);
            return if whole { Ok(body) } else { Err(too_long()) };
        }
        let status = response.status().as_u16();
        let retry_after = failure::retry_after(response.headers());
        // The status matters most: a refusal whose body breaks off is still reported as a refusal.
        let (body, _) = read(response, REFUSAL_BYTES_MAX).await.unwrap_or_default();
        let body = String::from_utf8_lossy(&body);
        Err(failure::refused(
            &self.name,
            &failure::ProviderRefusal { status, body: &body, retry_after },
            &self.key,
        ))
    }

    /// The error for a response that cannot be understood.
    pub(crate) fn garbled(&self, cause: impl std::fmt::Display) -> Error {
        failure::garbled(&self.name, cause, &self.key)
    }
}

/// The body up to the limit, and whether that was all of it.
async fn read(mut response: reqwest::Response, bytes_max: usize) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        let room = bytes_max - body.len();
        body.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            return Ok((body, false));
        }
    }
    Ok((body, true))
}
