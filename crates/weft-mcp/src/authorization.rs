//! What shows a server at an address who we are, beside the headers of its configuration.

use std::sync::Arc;

use weft_core::{Error, ErrorKind, Result, Secret};
use weft_net::StreamResponse;

use crate::http_peer::refusal;
use crate::oauth::Oauth;
use crate::sign_in::SignIn;

/// How tokens are had. Clones are the same.
#[derive(Clone)]
pub(crate) enum Authorization {
    /// Not at all: a header has what is needed.
    Headers,
    /// By a secret of ours, from a token endpoint that is configured.
    Client(Arc<Oauth>),
    /// By a person who signs in at the server.
    SignIn(Arc<SignIn>),
}

impl Authorization {
    /// The token to be sent; none where nothing is known of one.
    ///
    /// # Errors
    /// What keeps the token server from giving one.
    pub(crate) async fn token(&self) -> Result<Option<Secret>> {
        match self {
            Self::Headers => Ok(None),
            Self::Client(oauth) => oauth.token().await.map(Some),
            Self::SignIn(sign_in) => sign_in.token().await,
        }
    }

    /// What to send in place of a token that was refused, or of none; nothing when another request would be
    /// refused as well.
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

    /// Takes note of how the server asks for a token, or for more than the one that it got allows.
    pub(crate) fn hear(&self, response: &StreamResponse) {
        if let (Self::SignIn(sign_in), 401 | 403) = (self, response.status) {
            sign_in.hear(response);
        }
    }

    /// What a status that is no success means.
    pub(crate) fn refusal(&self, response: &StreamResponse) -> Error {
        let Self::SignIn(sign_in) = self else { return refusal(response) };
        match response.status {
            401 => self.unauthenticated(),
            403 => sign_in.denied(response).unwrap_or_else(|| refusal(response)),
            _ => refusal(response),
        }
    }

    /// The error that the server wants other credentials, with what can be done about it.
    pub(crate) fn unauthenticated(&self) -> Error {
        match self {
            Self::SignIn(sign_in) => {
                let error = Error::new(ErrorKind::Unauthenticated, "the server wants somebody to sign in");
                error.help(sign_in.remedy())
            }
            Self::Headers | Self::Client(_) => {
                Error::new(ErrorKind::Unauthenticated, "the server wants other credentials")
                    .help("check `headers`, `variables` and `oauth` of the server")
            }
        }
    }
}
