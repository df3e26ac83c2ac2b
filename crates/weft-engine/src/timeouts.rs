//! Waits that end without an answer. Performs no I/O: the time used is the one at which the run begins, so a
//! replay comes to the same result.

use serde_json::{Map, json};
use weft_core::seam::task_store::TaskStatus;
use weft_core::{Json, TaskId};
use weft_dsl::plan::NodeIx;

use crate::machine::Machine;
use crate::scope::{Filled, ScopeId};
use crate::tasks::timeout;

/// The member of a mid-work field that holds the answer it gets after a timeout; without it, the answer is a refusal.
const OTHERWISE: &str = "otherwise";

impl Machine {
    /// Times out the waits that are over. An answer addressed to such a node is not used for any other.
    pub fn time_out(&mut self, now_ms: i64) {
        // By the time at which the run itself began, and before its answers are read: a replay or a resumed
        // run has to decide the same.
        for place in self.waiting_nodes() {
            match self.suspended_node(place.0, place.1) {
                None => self.time_out_form(place, now_ms),
                Some(_) => self.time_out_fields(place, now_ms),
            }
        }
    }

    fn time_out_form(&mut self, place: (ScopeId, NodeIx), now_ms: i64) {
        let waiting = self.waiting_form(place);
        if waiting.due_ms.is_none_or(|due| due > now_ms) {
            return;
        }
        self.end_task(place, None, TaskStatus::TimedOut);
        // Answers of this turn that came too late must not fill the same form when it comes up again.
        self.answered.insert(waiting.address());
        self.answered.insert(waiting.node.to_string());
        self.go_on(place, Filled { values: Map::new(), timed_out: true });
    }

    fn time_out_fields(&mut self, place: (ScopeId, NodeIx), now_ms: i64) {
        let Some((asked, suspended)) = self.asked(place).zip(self.suspended_node(place.0, place.1)) else {
            return;
        };
        let late = suspended
            .open_fields()
            .filter(|(_, _, field)| asked.due(timeout(field)).is_some_and(|due| due <= now_ms));
        let decisions: Map<String, Json> =
            late.map(|(_, key, field)| (key.clone(), otherwise(field))).collect();
        if !decisions.is_empty() {
            self.decide(place, decisions, TaskStatus::TimedOut);
        }
    }

    /// Whether any wait has timed out in this run.
    pub(crate) fn has_timeouts(&self) -> bool {
        self.ended.iter().any(|(_, status)| *status == TaskStatus::TimedOut)
    }

    /// Returns the tasks that have timed out in this run.
    pub(crate) fn timed_out_tasks(&self) -> Vec<TaskId> {
        let over = self.ended.iter().filter(|(_, status)| *status == TaskStatus::TimedOut);
        over.map(|(task, _)| task.clone()).collect()
    }

    /// Whether a task has timed out in this run.
    pub fn has_timed_out(&self, task: &TaskId) -> bool {
        self.ended.iter().any(|(id, status)| id == task && *status == TaskStatus::TimedOut)
    }
}

fn otherwise(field: &Json) -> Json {
    field.get(OTHERWISE).cloned().unwrap_or_else(|| {
        let seconds = timeout(field).unwrap_or_default();
        json!({"decision": "deny", "reason": format!("nobody answered within {seconds} s")})
    })
}
