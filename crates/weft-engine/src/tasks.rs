//! The human tasks of a run: which are open, and how others have ended. A form that is asked before the work
//! begins is one task; for questions in the middle of the work each field is one, because each is answered
//! separately.

use serde_json::Map;
use weft_core::component::Form;
use weft_core::context::RunContext;
use weft_core::journal::WaitingForm;
use weft_core::masking::Masks;
use weft_core::seam::task_store::{Task, TaskKind, TaskStatus};
use weft_core::{CanvasId, Error, ErrorKind, Json, Result, RunId, TaskId, TaskKey};
use weft_dsl::plan::NodeIx;

use crate::machine::Machine;
use crate::pause::Paused;
use crate::scope::{ScopeId, ScopedNode, SuspendedSince};
use crate::start_run::StartRun;

impl Machine {
    /// Notes the time for nodes that have just begun to wait.
    pub fn note_asked(&mut self, run: &RunId, at_ms: i64) {
        let mut number = 1;
        for (scope, ix) in self.waiting_nodes() {
            let local = self.plan.nodes[ix].local;
            let Some(node) = self.scopes.get_mut(&scope).map(|run| &mut run.nodes[local]) else { continue };
            // It was asked in an earlier run of the turn: its task keeps its id and its time.
            if node.asked.is_some() {
                continue;
            }
            node.asked = Some(SuspendedSince { run: run.clone(), number, at_ms });
            // One number per field, including fields already answered: the id of a task must not depend on
            // which answers came first.
            let tasks = node.suspended.as_ref().map_or(1, |suspended| suspended.form.fields.len());
            number = number.saturating_add(u32::try_from(tasks).unwrap_or(u32::MAX));
        }
    }

    /// Returns the form of a waiting node, with its tasks.
    pub fn waiting_form(&self, place: (ScopeId, NodeIx)) -> WaitingForm {
        let mut waiting = self.form(place.0, place.1);
        let Some(asked) = self.asked(place) else { return waiting };
        match self.suspended_node(place.0, place.1) {
            None => {
                waiting.tasks = vec![asked.task(0)];
                waiting.due_ms = asked.due(waiting.form.timeout_seconds);
            }
            Some(suspended) => {
                let open: Vec<_> = suspended.open_fields().collect();
                waiting.due_ms = open.iter().filter_map(|(_, _, field)| asked.due(timeout(field))).min();
                waiting.tasks = open.iter().map(|(place, ..)| asked.task(*place)).collect();
            }
        }
        waiting
    }

    pub(crate) fn asked(&self, place: ScopedNode) -> Option<&SuspendedSince> {
        let (scope, ix) = place;
        self.scopes.get(&scope)?.nodes[self.plan.nodes[ix].local].asked.as_ref()
    }

    /// Returns the tasks that are open now.
    pub fn tasks(&self, context: &RunContext, canvas: &CanvasId) -> Vec<Task> {
        let waiting = self.waiting_nodes().into_iter();
        waiting
            .flat_map(|place| self.tasks_of(place, context, canvas))
            .map(|task| masked(task, &context.masks))
            .collect()
    }

    fn tasks_of(&self, node: ScopedNode, context: &RunContext, canvas: &CanvasId) -> Vec<Task> {
        let (scope, ix) = node;
        let waiting = self.form(scope, ix);
        let Some(asked) = self.asked(node) else { return Vec::new() };
        let task = |place: usize, (kind, title): (TaskKind, String), form: Form| Task {
            key: TaskKey::new(&context.tenant, asked.task(place)),
            session: context.session.clone(),
            canvas: canvas.clone(),
            run: context.run.clone(),
            node: waiting.node.clone(),
            address: waiting.address(),
            kind,
            title,
            due_ms: asked.due(form.timeout_seconds),
            form,
            created_ms: asked.at_ms,
            status: TaskStatus::Open,
            ended_by: None,
            ended_ms: None,
        };
        let Some(suspended) = self.suspended_node(scope, ix) else {
            let title = self.plan.nodes[ix].name.to_string();
            return vec![task(0, (TaskKind::Form, title), waiting.form.clone())];
        };
        let of_field = |(place, field, description): (usize, &String, &Json)| {
            let title = description.get("name").and_then(Json::as_str).unwrap_or(field).to_owned();
            let fields = Map::from_iter([(field.clone(), description.clone())]);
            let (tips, timeout_seconds) = (suspended.form.tips.clone(), timeout(description));
            let form = Form { fields, tips, timeout_seconds };
            task(place, (TaskKind::of_field(description), title), form)
        };
        suspended.open_fields().map(of_field).collect()
    }

    /// Notes how a task of a waiting node ended: that of its form, or that of one field in the middle of its work.
    pub(crate) fn end_task(&mut self, place: ScopedNode, field: Option<&str>, status: TaskStatus) {
        let (scope, ix) = place;
        let Some(node) = self.scopes.get(&scope).map(|run| &run.nodes[self.plan.nodes[ix].local]) else {
            return;
        };
        let place = match (field, &node.suspended) {
            (None, _) => Some(0),
            (Some(field), Some(suspended)) => suspended.form.fields.keys().position(|key| key == field),
            (Some(_), None) => None,
        };
        if let (Some(asked), Some(place)) = (&node.asked, place) {
            let ended = (asked.task(place), status);
            self.ended.push(ended);
        }
    }
}

/// Returns a task with secrets masked.
fn masked(mut task: Task, masks: &Masks) -> Task {
    if masks.is_empty() {
        return task;
    }
    task.title = masks.text(&task.title).into_owned();
    task.form.tips = task.form.tips.map(|tips| masks.text(&tips).into_owned());
    if let Some(Json::Object(fields)) = masks.json(&Json::Object(task.form.fields.clone())) {
        task.form.fields = fields;
    }
    task
}

/// Returns the timeout of a field that has its own, in seconds.
pub(crate) fn timeout(description: &Json) -> Option<u64> {
    description.get("timeout_seconds").and_then(Json::as_u64)
}

/// Checks that the task which a turn answers is open.
///
/// # Errors
/// `Conflict` when it is not.
pub(crate) fn must_be_open(task: &TaskId, paused: Option<&Paused>) -> Result<()> {
    if paused.is_some_and(|paused| paused.waits_for(task)) {
        return Ok(());
    }
    let message = format!(
        "task {task} is no longer open: it was answered, stopped, or its session continued without it"
    );
    Err(Error::new(ErrorKind::Conflict, message).help("list the tasks that are open now"))
}

/// Checks that the answers of a turn arrive while its task still waits for them.
///
/// # Errors
/// `Conflict` when the task has timed out.
pub(crate) fn must_be_in_time(request: &StartRun, machine: &Machine) -> Result<()> {
    let Some(task) = request.task.as_ref().filter(|_| !request.input.inputs.is_empty()) else {
        return Ok(());
    };
    if machine.has_timed_out(task) {
        return Err(Error::new(ErrorKind::Conflict, format!("task {task} was not answered in time")));
    }
    Ok(())
}
