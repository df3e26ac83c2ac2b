//! A task that waits for a person.

use weft_core::component::Form;
use weft_core::seam::task_store::{Task, TaskKind, TaskStatus};
use weft_core::{Json, TaskKey, TenantId};

/// An open task with these fields.
pub fn open_task(kind: TaskKind, fields: &Json) -> Task {
    Task {
        key: TaskKey::new(&TenantId::from("t"), "run-1"),
        session: "s".into(),
        canvas: "c".into(),
        run: "run".into(),
        node: "N".into(),
        address: "N".into(),
        kind,
        title: "N".into(),
        form: Form { fields: fields.as_object().cloned().unwrap_or_default(), ..Form::default() },
        created_ms: 0,
        due_ms: None,
        status: TaskStatus::Open,
        ended_by: None,
        ended_ms: None,
    }
}
