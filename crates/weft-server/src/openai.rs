//! Input of the routes for OpenAI's clients, which need every failure in the format of that API.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;

use crate::error::ApiError;

/// An extractor whose refusals are errors for OpenAI's clients, as [`ApiError::for_openai`] makes them.
#[derive(Debug)]
pub(crate) struct OpenAi<T>(pub T);

impl<S, T> FromRequest<S> for OpenAi<T>
where
    S: Send + Sync,
    T: FromRequest<S, Rejection = ApiError>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        T::from_request(request, state).await.map(Self).map_err(ApiError::for_openai)
    }
}

impl<S, T> FromRequestParts<S> for OpenAi<T>
where
    S: Send + Sync,
    T: FromRequestParts<S, Rejection = ApiError>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        T::from_request_parts(parts, state).await.map(Self).map_err(ApiError::for_openai)
    }
}
