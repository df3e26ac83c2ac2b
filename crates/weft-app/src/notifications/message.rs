//! Content of notifications.

use serde_json::{Map, json};
use weft_core::seam::notice_store::{Notice, NoticeKind};
use weft_core::seam::run_store::StoredRun;
use weft_core::{CanvasId, CanvasKey, Json, Record, RunKey, TaskKey};

use crate::app::App;
use crate::tokens;

/// Maximum length of a reason, in characters; the run has the rest.
const REASON_CHARS_MAX: usize = 2_000;
/// Maximum length of a title, in characters.
const TITLE_CHARS_MAX: usize = 200;
/// Number of journal entries read in one batch.
const ENTRIES_AT_ONCE: u64 = 500;
/// Number of digits of a message id.
const ID_DIGITS: usize = 32;

/// A message for people and programs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NotificationMessage {
    /// Identifies the message everywhere; the same for each delivery.
    pub id: String,
    /// A title of one line.
    pub title: String,
    /// Details, by name.
    pub data: Map<String, Json>,
}

/// Derives the id of a message from the notification.
pub(super) fn id(notice: &Notice) -> String {
    let key = &notice.key;
    let mut id = tokens::hash(&format!("{}\n{}\n{}", key.tenant, key.kind.as_str(), key.subject));
    id.truncate(ID_DIGITS);
    id
}

/// Converts a text into a single line of limited length.
fn line(text: &str, max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(max).collect()
}

fn object(json: Json) -> Map<String, Json> {
    match json {
        Json::Object(members) => members,
        _ => Map::new(),
    }
}

impl App {
    /// Builds the message of a notification from the current state of the store. Objects that no longer exist are
    /// left out.
    pub(super) async fn message(&self, notice: &Notice) -> NotificationMessage {
        let (title, data) = match notice.key.kind {
            NoticeKind::RunFailed => self.of_failed_run(notice).await,
            NoticeKind::TaskOverdue => self.of_overdue_task(notice).await,
            NoticeKind::Budget => self.of_budget(notice).await,
        };
        NotificationMessage { id: id(notice), title, data }
    }

    async fn of_failed_run(&self, notice: &Notice) -> (String, Map<String, Json>) {
        let mut data = object(notice.said.clone());
        data.insert("run_id".into(), notice.key.subject.clone().into());
        // A notification without these details is better than none.
        let run = self.runs.get(&RunKey::new(&notice.key.tenant, notice.key.subject.as_str())).await.ok();
        if let Some(run) = &run {
            data.extend(object(json!({
                "agent_id": run.canvas, "session_id": run.session,
                "started_ms": run.started_ms, "finished_ms": run.finished_ms,
            })));
            if let Some(reason) = self.reason_of(run).await {
                data.insert("error".into(), line(&reason, REASON_CHARS_MAX).into());
            }
        }
        let agent = data.get("agent_id").and_then(Json::as_str).map(CanvasId::from);
        let title = self.title_of(notice, agent).await;
        (format!("A run of {title} has failed"), data)
    }

    /// Returns the reason for the ending of a run, from its last record.
    async fn reason_of(&self, run: &StoredRun) -> Option<String> {
        let (mut after, mut reason) = (0, None);
        loop {
            let entries = self.runs.entries(&run.key, after, ENTRIES_AT_ONCE).await.ok()?;
            let Some(last) = entries.last() else { return reason };
            after = last.seq;
            // Only the last record of a page can be the last of the run.
            if let Ok(Record::RunFinished { error: Some(error), .. }) = serde_json::from_str(&last.record) {
                reason = Some(error.to_string());
            }
        }
    }

    async fn of_overdue_task(&self, notice: &Notice) -> (String, Map<String, Json>) {
        let mut data = object(json!({"task_id": notice.key.subject}));
        let key = TaskKey::new(&notice.key.tenant, notice.key.subject.as_str());
        let Ok(task) = self.tasks.get(&key).await else { return ("A task is overdue".to_owned(), data) };
        data.extend(object(json!({
            "agent_id": task.canvas, "session_id": task.session, "run_id": task.run, "kind": task.kind,
            "title": line(&task.title, TITLE_CHARS_MAX), "created_ms": task.created_ms, "due_ms": task.due_ms,
            "status": task.status,
        })));
        let agent = self.title_of(notice, Some(task.canvas)).await;
        (format!("Nobody has answered a task of {agent} in time"), data)
    }

    async fn of_budget(&self, notice: &Notice) -> (String, Map<String, Json>) {
        let data = object(notice.said.clone());
        let whose = match data.get("agent_id").and_then(Json::as_str).map(CanvasId::from) {
            Some(agent) => self.title_of(notice, Some(agent)).await,
            None => "the tenant".to_owned(),
        };
        let limit = data.get("limit").and_then(Json::as_str).unwrap_or("this kind");
        let percent = data.get("percent").and_then(Json::as_f64).unwrap_or_default();
        (format!("{percent} % of the budget of {limit} of {whose} are used up"), data)
    }

    async fn title_of(&self, notice: &Notice, canvas: Option<CanvasId>) -> String {
        let Some(canvas) = canvas else { return "an agent".to_owned() };
        let found = self.canvases.get(&CanvasKey::new(&notice.key.tenant, canvas.clone())).await;
        let title = found.map(|found| line(&found.head.title, TITLE_CHARS_MAX)).unwrap_or_default();
        if title.is_empty() { format!("`{canvas}`") } else { format!("`{title}`") }
    }
}

impl NotificationMessage {
    /// The same for people, with one line per detail.
    pub(super) fn text(&self) -> String {
        let shown = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let known = self.data.iter().filter(|(_, value)| !value.is_null());
        let lines: String = known.map(|(name, value)| format!("{name}: {}\n", shown(value))).collect();
        format!("{}.\n\n{lines}", self.title)
    }

    /// The same as HTML.
    pub(super) fn html(&self) -> String {
        format!("<pre>{}</pre>", weft_parse::escaped(&self.text()))
    }
}

#[cfg(test)]
mod tests {
    use weft_core::seam::notice_store::NoticeKey;

    use super::*;

    #[test]
    fn the_message_id_depends_only_on_the_notice() {
        let notice = |subject: &str, at_ms| {
            let key = NoticeKey { tenant: "t".into(), kind: NoticeKind::Budget, subject: subject.into() };
            Notice { key, said: Json::Null, at_ms }
        };
        assert_eq!(id(&notice("a", 1)), id(&notice("a", 2)));
        assert_ne!(id(&notice("a", 1)), id(&notice("b", 1)));
        assert_eq!(id(&notice("a", 1)).len(), ID_DIGITS);
    }

    #[test]
    fn a_message_has_one_line_per_field_and_escapes_markup() {
        let data = object(json!({"error": "<b> & more", "run_id": "r", "due_ms": null, "n": 3}));
        let message = NotificationMessage { id: "x".into(), title: line("a\r\n run ", 3), data };
        assert_eq!(message.text(), "a r.\n\nerror: <b> & more\nrun_id: r\nn: 3\n");
        assert!(message.html().contains("&lt;b&gt; &amp; more"));
    }
}
