//! Parts of a path, as handlers get them.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// The named parts of a path. One that is not valid is answered as every other mistake of a caller is.
#[derive(Debug)]
pub(crate) struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(named)) => Ok(Self(named)),
            Err(rejection) => {
                let message = format!("the path of the request is not valid: {}", rejection.body_text());
                // The framework's own answer would be plain text, and clients read an envelope.
                Err(ApiError::argument(message).with_status(StatusCode::BAD_REQUEST))
            }
        }
    }
}
