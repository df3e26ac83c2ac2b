//! Path parameters of handlers.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// The named parameters of a path. An invalid one is reported like every other error of a caller.
#[derive(Debug)]
pub(crate) struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(named)) => Ok(Self(named)),
            Err(rejection) => {
                let message = format!("the path of the request is not valid: {}", rejection.body_text());
                // The framework's own response would be plain text, but clients expect an envelope.
                Err(ApiError::argument(message).with_status(StatusCode::BAD_REQUEST))
            }
        }
    }
}
