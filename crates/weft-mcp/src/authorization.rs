//! Authentication at a server at a URL, in addition to the configured headers.

use std::sync::Arc;

use weft_core::{Error, ErrorKind, Result, Secret};
use weft_net::StreamResponse;

use crate::oauth::Oauth;
use crate::refusal::refusal;
use crate::sign_in::SignIn;

/// How tokens are obtained. Clones share the same state.
#[derive(Clone)]
pub(crate) enum Authorization {
    /// No tokens: the headers are sufficient.
    Headers,
    /// With client credentials, from a configured token endpoint.
    Client(Arc<Oauth>),
    /// From the sign-in of a person at the server.
    SignIn(Arc<SignIn>),
}

impl Authorization {
    /// Returns the token to send; `None` if there is none.
    ///
    /// # Errors
    /// The failure of the token server.
    pub(crate) async fn token(&self) -> Result<Option<Secret>> {
        match self {
            Self::Headers => Ok(None),
            Self::Client(oauth) => oauth.token().await.map(Some),
            Self::SignIn(sign_in) => sign_in.token().await,
        }
    }

    /// Returns a token in place of a refused or a missing one; `None` if another request would be refused as well.
    ///
    /// # Errors
    /// As [`Authorization::token`].
    pub(crate) async fn token_instead_of(&self, refused: Option<&Secret>) -> Result<Option<Secret>> {
        match (self, refused) {
            (Self::Client(oauth), Some(refused)) => oauth.token_instead_of(refused).await.map(Some),
            (Self::Headers, _) | (Self::Client(_), None) => Ok(None),
            (Self::SignIn(sign_in), refused) => sign_in.token_instead_of(refused).await,
        }
    }

    /// Records the authentication challenge of a response, or its demand for more scopes.
    pub(crate) fn hear(&self, response: &StreamResponse) {
        if let (Self::SignIn(sign_in), 401 | 403) = (self, response.status) {
            sign_in.hear(response);
        }
    }

    /// Converts an error status.
    pub(crate) fn refusal(&self, response: &StreamResponse) -> Error {
        let Self::SignIn(sign_in) = self else { return refusal(response) };
        match response.status {
            401 => self.unauthenticated(),
            403 => sign_in.denied(response).unwrap_or_else(|| refusal(response)),
            _ => refusal(response),
        }
    }

    /// Returns the error for missing or wrong credentials, with a remedy.
    pub(crate) fn unauthenticated(&self) -> Error {
        match self {
            Self::SignIn(sign_in) => {
                let error = Error::new(ErrorKind::Unauthenticated, "the server requires somebody to sign in");
                error.help(sign_in.remedy())
            }
            Self::Headers | Self::Client(_) => {
                Error::new(ErrorKind::Unauthenticated, "the server requires other credentials")
                    .help("check `headers`, `variables` and `oauth` of the server")
            }
        }
    }
}
