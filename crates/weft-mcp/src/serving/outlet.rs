//! What is told while a request is being worked on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tokio::sync::mpsc;
use weft_core::Json;

use super::message::{is_id, notification};

/// Messages that wait to be sent. Who tells more waits for the client to read.
pub(super) const WAITING_MAX: usize = 64;

/// How much something in a log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Of use when one looks for a mistake.
    Debug,
    /// What happens in any case.
    Info,
    /// Out of the ordinary.
    Notice,
    /// It may go wrong.
    Warning,
    /// It went wrong.
    Error,
    /// A part does not work.
    Critical,
    /// Somebody has to do something now.
    Alert,
    /// Nothing works.
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

    /// Its word.
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

    /// From its word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// The way back to a client while its request is being worked on. What nobody reads any more is dropped.
#[derive(Debug)]
pub struct Outlet {
    sender: mpsc::Sender<Json>,
    /// What the client calls the progress of this request, if it wants to hear of it.
    token: Option<Json>,
    /// What the client wants to hear of at least, if anything.
    level: Option<LogLevel>,
    /// Counted on when a call comes again after questions.
    steps: Arc<AtomicU64>,
}

impl Outlet {
    pub(super) fn new(sender: mpsc::Sender<Json>, token: Option<Json>, level: Option<LogLevel>) -> Self {
        // It is sent back with each step, many of which may wait: a name and no document.
        let token = token.filter(is_id);
        Self { sender, token, level, steps: Arc::default() }
    }

    /// The same way once more.
    pub(super) fn again(&self) -> Self {
        let (sender, token, level) = (self.sender.clone(), self.token.clone(), self.level);
        Self { sender, token, level, steps: Arc::clone(&self.steps) }
    }

    /// Whether the client wants to hear of progress.
    pub fn wants_progress(&self) -> bool {
        self.token.is_some()
    }

    /// Tells how far it is, and perhaps out of how much.
    pub async fn progress(&self, done: f64, total: Option<f64>) {
        let Some(token) = &self.token else { return };
        let mut params = json!({"progressToken": token, "progress": done});
        if let Some(total) = total {
            params["total"] = json!(total);
        }
        self.send(notification("notifications/progress", &params)).await;
    }

    /// Tells what has come next; the steps are counted.
    pub async fn step(&self, message: &str) {
        let Some(token) = &self.token else { return };
        let step = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        let params = json!({"progressToken": token, "progress": step, "message": message});
        self.send(notification("notifications/progress", &params)).await;
    }

    /// Tells what is in the log.
    pub async fn log(&self, level: LogLevel, data: Json) {
        if self.level.is_some_and(|least| level >= least) {
            let params = json!({"level": level.as_str(), "data": data});
            self.send(notification("notifications/message", &params)).await;
        }
    }

    pub(super) async fn send(&self, message: Json) {
        // Who has gone away reads nothing more.
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
