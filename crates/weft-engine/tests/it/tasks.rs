//! The inbox: the open tasks of a session, as the store lists them.

use serde_json::{Value as Json, json};
use weft_core::journal::{Ending, Record};
use weft_core::seam::TaskStore as _;
use weft_core::seam::task_store::{Task, TaskFilter, TaskKind, TaskStatus};
use weft_core::{TaskKey, TenantId, TurnInput};
use weft_engine::engine::ForkPoint;

use crate::kit::{Does, asking, choose, node, plan, turn};
use crate::storage::{Bench, bench, ending, rest};

impl Bench {
    pub(crate) async fn tasks(&self, status: TaskStatus) -> Vec<Task> {
        let filter = TaskFilter { status: Some(status), limit: 100, ..TaskFilter::default() };
        self.store.list(&TenantId::from("t"), &filter).await.unwrap().0
    }

    async fn names(&self, status: TaskStatus) -> Vec<String> {
        self.tasks(status).await.iter().map(|task| format!("{} {}", task.address, task.title)).collect()
    }
}

fn given(inputs: &Json) -> TurnInput {
    TurnInput { inputs: inputs.as_object().unwrap().clone(), ..TurnInput::default() }
}

#[tokio::test]
async fn forms_and_calls_are_tasks_with_stable_ids() {
    let plan = plan(&[
        node("begin", Does::Echo, &["fill", "a"]),
        node("fill", Does::Ask(vec!["x", "y"]), &[]),
        node("a", Does::Approve(vec![], vec!["c1", "c2"]), &[]),
    ]);
    let b = bench(&plan).await;
    let mut first = b.engine.start(turn(&plan, asking("q"))).await.unwrap();
    let records = rest(&mut first).await;
    let open = b.tasks(TaskStatus::Open).await;
    assert_eq!(b.names(TaskStatus::Open).await, ["fill fill", "a c1", "a c2"]);
    let kinds = [TaskKind::Form, TaskKind::ToolApproval, TaskKind::ToolApproval];
    assert_eq!(open.iter().map(|task| task.kind).collect::<Vec<_>>(), kinds);
    assert_eq!(open[0].form.fields.keys().collect::<Vec<_>>(), ["x", "y"]);
    assert_eq!(open[2].form.fields.keys().collect::<Vec<_>>(), ["c2"]);
    assert!(open.iter().all(|task| task.run == first.key.id && task.session == b.key.id));
    // A watcher of the run gets the same ids.
    let told = records.iter().find_map(|record| match record {
        Record::Waiting { forms } => {
            Some(forms.iter().flat_map(|form| form.tasks.clone()).collect::<Vec<_>>())
        }
        _ => None,
    });
    let ids: Vec<_> = open.iter().map(|task| task.key.id.clone()).collect();
    assert_eq!(told, Some(ids.clone()));

    let mut second = b.engine.start(turn(&plan, given(&json!({"a": {"c1": "approve"}})))).await.unwrap();
    assert_eq!(ending(&rest(&mut second).await), Ending::Waiting);
    let still: Vec<_> = b.tasks(TaskStatus::Open).await.into_iter().map(|task| task.key.id).collect();
    assert_eq!(still, [ids[0].clone(), ids[2].clone()]);
    let ended = b.store.get(&TaskKey::new(&"t".into(), ids[1].clone())).await.unwrap();
    assert_eq!((ended.status, ended.ended_by), (TaskStatus::Answered, Some(second.key.id.clone())));

    let both = json!({"a": {"c2": "deny"}, "fill": {"x": 1, "y": 2}});
    let mut third = b.engine.start(turn(&plan, given(&both))).await.unwrap();
    assert_eq!(ending(&rest(&mut third).await), Ending::Succeeded);
    assert_eq!(b.names(TaskStatus::Open).await, [""; 0]);
    assert_eq!(b.names(TaskStatus::Answered).await.len(), 3);
}

#[tokio::test]
async fn a_form_shown_again_is_a_new_task() {
    let plan = plan(&[
        node("begin", Does::Echo, &["ask"]),
        node("ask", Does::Ask(vec!["ok"]), &["again"]),
        node("again", choose(&["ask", "end"], |n, _| if n == 0 { vec!["ask"] } else { vec!["end"] }), &[]),
        node("end", Does::Echo, &[]),
    ]);
    let b = bench(&plan).await;
    let mut ids = Vec::new();
    for input in [asking("q"), given(&json!({"ok": 1}))] {
        let mut handle = b.engine.start(turn(&plan, input)).await.unwrap();
        assert_eq!(ending(&rest(&mut handle).await), Ending::Waiting);
        let open = b.tasks(TaskStatus::Open).await;
        assert_eq!(open.len(), 1);
        ids.push(open[0].key.id.clone());
    }
    assert_ne!(ids[0], ids[1]);
    assert_eq!(b.tasks(TaskStatus::Answered).await[0].key.id, ids[0]);
    // A new question leaves the form open.
    let plan_of_two =
        crate::kit::plan(&[node("begin", Does::Echo, &["ask"]), node("ask", Does::Ask(vec!["x", "y"]), &[])]);
    let b = bench(&plan_of_two).await;
    for query in ["one", "two"] {
        let mut handle = b.engine.start(turn(&plan_of_two, asking(query))).await.unwrap();
        rest(&mut handle).await;
    }
    let dropped = b.tasks(TaskStatus::Dropped).await;
    let open = b.tasks(TaskStatus::Open).await;
    assert_eq!((dropped.len(), open.len()), (1, 1));
    assert_eq!(dropped[0].ended_by.as_ref(), Some(&open[0].run));
}

#[tokio::test]
async fn a_fork_of_a_run_has_its_own_tasks() {
    let plan = plan(&[
        node("begin", Does::Echo, &["a", "b"]),
        node("a", Does::Ask(vec!["x"]), &["c"]),
        node("b", Does::Ask(vec!["y"]), &[]),
        node("c", Does::Echo, &[]),
    ]);
    let b = bench(&plan).await;
    let mut first = b.engine.start(turn(&plan, asking("q"))).await.unwrap();
    rest(&mut first).await;
    let mut second = b.engine.start(turn(&plan, given(&json!({"a": {"x": 1}})))).await.unwrap();
    rest(&mut second).await;
    let open = b.tasks(TaskStatus::Open).await;
    let run = weft_core::seam::RunStore::get(&*b.store, &second.key).await.unwrap();
    let point = ForkPoint { node: "c".into(), activation: None, edit: weft_core::context::Pin::default() };
    let session = weft_core::SessionKey::new(&"t".into(), "fork");
    let (key, picked) = b.engine.fork(&run, plan.clone(), session, &point).await.unwrap();
    if let weft_engine::engine::PickedUp::Running(mut handle) = picked {
        rest(&mut handle).await;
    }
    let both = b.tasks(TaskStatus::Open).await;
    assert_eq!(both.len(), 2);
    let forked = both.iter().find(|task| task.session.as_str() == "fork").unwrap();
    assert_eq!((&forked.run, forked.address.as_str()), (&key.id, "b"));
    assert!(both.contains(&open[0]), "the other session is unchanged");
}
