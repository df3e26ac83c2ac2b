//! Notifications of a server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation, ProgressNotificationParam,
    ProgressToken, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::Notify;
use weft_core::ToolOutput;

use crate::asked_back::by_defaults;
use crate::config::ElicitationMode;

/// Maximum size of the text of a call's progress that is kept, in bytes; the oldest is dropped first.
const PROGRESS_BYTES_MAX: usize = 16 << 10;

/// Handles progress and changes of lists. Clones share the same state.
#[derive(Clone, Debug)]
pub(crate) struct NotificationHandler {
    version: ProtocolVersion,
    elicitation: ElicitationMode,
    growing: Arc<Mutex<HashMap<ProgressToken, Arc<CallProgress>>>>,
    changes: Arc<AtomicU64>,
}

impl NotificationHandler {
    /// Creates a handler; `changes` counts how often the server announced changes of its tools.
    pub(crate) fn new(
        version: ProtocolVersion,
        elicitation: ElicitationMode,
        changes: Arc<AtomicU64>,
    ) -> Self {
        Self { version, elicitation, growing: Arc::default(), changes }
    }

    /// Listens for the progress of one call, until the returned value is dropped.
    pub(crate) fn listen(&self, token: ProgressToken) -> Listening {
        let progress = Arc::new(CallProgress::default());
        self.lock().insert(token.clone(), Arc::clone(&progress));
        Listening { handler: self.clone(), token, progress }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ProgressToken, Arc<CallProgress>>> {
        self.growing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientHandler for NotificationHandler {
    async fn on_progress(&self, told: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let progress = self.lock().get(&told.progress_token).cloned();
        if let Some(progress) = progress {
            progress.grow(&told);
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        // A count instead of a flag: each reader compares it with the number that it has seen.
        self.changes.fetch_add(1, Ordering::Release);
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let form = match (request, self.elicitation) {
            (
                ElicitRequestParams::FormElicitationParams { requested_schema, .. },
                ElicitationMode::Defaults,
            ) => serde_json::to_value(requested_schema).ok(),
            _ => None,
        };
        Ok(match form.as_ref().and_then(by_defaults) {
            Some(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content.into()),
            None => ElicitResult::new(ElicitationAction::Decline),
        })
    }

    fn get_info(&self) -> ClientConfig {
        let ourselves = Implementation::new("weft", env!("CARGO_PKG_VERSION"));
        // Mostly none: there is neither a person nor a model that a server could ask.
        let mut capabilities = ClientCapabilities::default();
        if self.elicitation == ElicitationMode::Defaults {
            let forms = ElicitationCapability::new().with_form(FormElicitationCapability::new());
            capabilities.elicitation = Some(forms);
        }
        ClientConfig::new(capabilities, ourselves).with_protocol_version(self.version.clone())
    }
}

/// The progress of a call so far.
#[derive(Debug, Default)]
pub(crate) struct CallProgress {
    said: Mutex<ProgressState>,
    grown: Notify,
}

#[derive(Debug, Default)]
struct ProgressState {
    text: String,
    latest: Option<(f64, Option<f64>)>,
    is_new: bool,
}

impl CallProgress {
    fn grow(&self, told: &ProgressNotificationParam) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        // Each notification is handled by its own task, so an earlier one may arrive late.
        if said.latest.is_some_and(|(latest, _)| told.progress <= latest) {
            return;
        }
        said.latest = Some((told.progress, told.total));
        if !said.text.is_empty() {
            said.text.push('\n');
        }
        said.text.push_str(&line(told));
        let over = said.text.len().saturating_sub(PROGRESS_BYTES_MAX);
        if over > 0 {
            // Cut at the start of a character: the limit may be within one.
            let from = said.text.char_indices().map(|(at, _)| at).find(|at| *at >= over);
            said.text = said.text.split_off(from.unwrap_or(0));
        }
        said.is_new = true;
        // Stored for a later listener: between two polls nothing waits.
        self.grown.notify_one();
    }

    fn take(&self) -> Option<ToolOutput> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::take(&mut said.is_new) {
            return None;
        }
        let (progress, total) = said.latest?;
        let value = serde_json::json!({"progress": progress, "total": total});
        Some(ToolOutput { value: Some(value), ..ToolOutput::text(said.text.clone()) })
    }
}

fn line(told: &ProgressNotificationParam) -> String {
    let far = match told.total {
        Some(total) => format!("{} of {total}", told.progress),
        None => told.progress.to_string(),
    };
    match told.message.as_deref().map(str::trim).filter(|message| !message.is_empty()) {
        Some(message) => format!("{far}: {message}"),
        None => far,
    }
}

/// Listens for the progress of one call.
pub(crate) struct Listening {
    handler: NotificationHandler,
    token: ProgressToken,
    progress: Arc<CallProgress>,
}

impl Listening {
    /// Waits for new progress and returns all of it so far. Cancel-safe.
    pub(crate) async fn more(&self) -> ToolOutput {
        loop {
            if let Some(output) = self.progress.take() {
                return output;
            }
            self.progress.grown.notified().await;
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Later progress of a finished call is then dropped.
        self.handler.lock().remove(&self.token);
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    #[tokio::test]
    async fn progress_only_increases_and_is_limited() {
        let handler =
            NotificationHandler::new(ProtocolVersion::V_2025_11_25, ElicitationMode::Decline, Arc::default());
        let token = ProgressToken(NumberOrString::Number(1));
        let listening = handler.listen(token.clone());
        let tell = |progress: f64, message: &str| {
            let told = ProgressNotificationParam::new(token.clone(), progress).with_message(message);
            listening.progress.grow(&told);
        };
        tell(1.0, "one");
        tell(3.0, "three");
        tell(2.0, "late");
        let told = listening.more().await;
        assert_eq!(told.to_text(), "1: one\n3: three");
        assert_eq!(told.to_json(), serde_json::json!({"progress": 3.0, "total": null}));
        assert!(listening.progress.take().is_none());
        for at in 4..100 {
            tell(f64::from(at), &"汉".repeat(1_000));
        }
        let told = listening.more().await.to_text();
        assert!(told.len() <= PROGRESS_BYTES_MAX && told.ends_with('汉'));
        drop(listening);
        assert!(handler.lock().is_empty());
    }
}
