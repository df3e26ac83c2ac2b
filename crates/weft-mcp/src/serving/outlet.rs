//! Messages to the client while its request is processed: progress and logs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tokio::sync::mpsc;
use weft_core::Json;

use super::message::{is_id, notification};

/// Maximum number of messages that wait to be sent. A sender that exceeds it waits until the client has read some.
pub(super) const WAITING_MAX: usize = 64;

/// Severity of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Details for finding a defect.
    Debug,
    /// Normal operation.
    Info,
    /// Normal but significant.
    Notice,
    /// It may lead to an error.
    Warning,
    /// An operation failed.
    Error,
    /// A component has failed.
    Critical,
    /// Immediate action is required.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl LogLevel {
    const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// Returns its name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// Returns the level with this name in the protocol.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// Sends messages to a client while its request is processed. Messages to a client that has left are dropped.
#[derive(Debug)]
pub struct Outlet {
    sender: mpsc::Sender<Json>,
    /// The client's token for the progress of this request; absent if it does not want to be notified.
    token: Option<Json>,
    /// The lowest level of log messages that the client wants; absent for none.
    level: Option<LogLevel>,
    /// Number of steps so far. It continues when a call is repeated with answers.
    steps: Arc<AtomicU64>,
}

impl Outlet {
    pub(super) fn new(sender: mpsc::Sender<Json>, token: Option<Json>, level: Option<LogLevel>) -> Self {
        // It is repeated in every notification, many of which may wait to be sent, so its size is limited.
        let token = token.filter(is_id);
        Self { sender, token, level, steps: Arc::default() }
    }

    /// Returns another sender to the same client.
    pub(super) fn again(&self) -> Self {
        let (sender, token, level) = (self.sender.clone(), self.token.clone(), self.level);
        Self { sender, token, level, steps: Arc::clone(&self.steps) }
    }

    /// Returns whether the client wants to be notified of progress.
    pub fn wants_progress(&self) -> bool {
        self.token.is_some()
    }

    /// Reports the progress, out of a total if that is known.
    pub async fn progress(&self, done: f64, total: Option<f64>) {
        let Some(token) = &self.token else { return };
        let mut params = json!({"progressToken": token, "progress": done});
        if let Some(total) = total {
            params["total"] = json!(total);
        }
        self.send(notification("notifications/progress", &params)).await;
    }

    /// Reports the next step, with its number as the progress.
    pub async fn step(&self, message: &str) {
        let Some(token) = &self.token else { return };
        let step = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        let params = json!({"progressToken": token, "progress": step, "message": message});
        self.send(notification("notifications/progress", &params)).await;
    }

    /// Sends a log message, if the client wants messages of this level.
    pub async fn log(&self, level: LogLevel, data: Json) {
        if self.level.is_some_and(|least| level >= least) {
            let params = json!({"level": level.as_str(), "data": data});
            self.send(notification("notifications/message", &params)).await;
        }
    }

    pub(super) async fn send(&self, message: Json) {
        // An error means that the client has left.
        drop(self.sender.send(message).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_requested_notifications_are_sent() {
        let (sender, mut told) = mpsc::channel(WAITING_MAX);
        let silent = Outlet::new(sender.clone(), None, None);
        silent.step("a").await;
        silent.progress(1.0, None).await;
        silent.log(LogLevel::Emergency, json!("x")).await;
        let listening = Outlet::new(sender, Some(json!(7)), Some(LogLevel::Warning));
        listening.log(LogLevel::Info, json!("x")).await;
        listening.step("b").await;
        listening.step("c").await;
        listening.log(LogLevel::Error, json!("y")).await;
        drop((silent, listening));
        let mut all = Vec::new();
        while let Some(message) = told.recv().await {
            all.push(message["params"].clone());
        }
        let step = |n: u64, text: &str| json!({"progressToken": 7, "progress": n, "message": text});
        assert_eq!(all, [step(1, "b"), step(2, "c"), json!({"level": "error", "data": "y"})]);
    }

    #[test]
    fn the_progress_token_is_a_short_string_or_a_number() {
        let wants =
            |token: Json| Outlet::new(mpsc::channel(WAITING_MAX).0, Some(token), None).wants_progress();
        assert!(wants(json!(7)) && wants(json!("a")));
        assert!(!wants(json!("x".repeat(2_000))) && !wants(json!([[7]])) && !wants(Json::Null));
    }

    #[test]
    fn log_levels_are_ordered_and_named() {
        assert!(LogLevel::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(LogLevel::parse("alert"), Some(LogLevel::Alert));
        assert_eq!(LogLevel::parse("loud"), None);
    }
}
