//! A call of a model, as it is reported when it ends.

use crate::budget::micros;
use crate::counts::Label;
use crate::error::ErrorKind;
use crate::seam::chat_model::ModelKind;
use crate::tokens::{Prices, Usage};
use crate::usage::UsedModel;

/// How a call of a model ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// With an answer.
    Succeeded,
    /// The caller dropped it before its end.
    Abandoned,
    /// With a failure of this kind.
    Failed(ErrorKind),
}

impl Label for CallOutcome {
    const ALL: &'static [Self] = &[
        Self::Succeeded,
        Self::Abandoned,
        Self::Failed(ErrorKind::Invalid),
        Self::Failed(ErrorKind::NotFound),
        Self::Failed(ErrorKind::Conflict),
        Self::Failed(ErrorKind::Denied),
        Self::Failed(ErrorKind::Unauthenticated),
        Self::Failed(ErrorKind::RateLimited),
        Self::Failed(ErrorKind::QuotaExceeded),
        Self::Failed(ErrorKind::Filtered),
        Self::Failed(ErrorKind::Timeout),
        Self::Failed(ErrorKind::Unavailable),
        Self::Failed(ErrorKind::Garbled),
        Self::Failed(ErrorKind::Cancelled),
        Self::Failed(ErrorKind::Interrupted),
        Self::Failed(ErrorKind::Unsupported),
        Self::Failed(ErrorKind::Internal),
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Abandoned => "abandoned",
            Self::Failed(kind) => kind.word(),
        }
    }
}

/// A model call that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall<'a> {
    /// The kind of model that was called.
    pub kind: ModelKind,
    /// The name, in the settings, of the model that answered; if none did, of the model that was asked.
    pub model: &'a str,
    /// Its prices, if known.
    pub prices: Option<Prices>,
    /// The tokens it read and wrote, as far as it reports them.
    pub usage: Usage,
    /// How it ended.
    pub outcome: CallOutcome,
}

impl ModelCall<'_> {
    /// Returns whether the call counts as used. A failed call does not: as far as is known, it is not charged.
    /// Neither does a call of an OCR or speech model without a token count: that may be a local program, or a service
    /// that does not report tokens.
    pub fn counts(&self) -> bool {
        let untold =
            matches!(self.kind, ModelKind::Ocr | ModelKind::Speech) && self.usage.total_tokens() == 0;
        self.outcome == CallOutcome::Succeeded && !untold
    }

    /// Returns what was used, with its cost.
    pub fn used(&self) -> UsedModel {
        let micros = self.prices.map_or(0, |prices| micros(self.usage, prices));
        UsedModel { model: self.model.into(), usage: self.usage, micros }
    }
}

/// Receives a report of every model call that ends.
pub trait ModelWatcher: Send + Sync {
    /// Called when a call has ended.
    fn ended(&self, call: &ModelCall<'_>);
}
