//! Edge cases of runs: long lists with forms, forms answered together, cancelling idle runs, budgets exceeded
//! in one of two branches, and failures that lead to nodes already reached.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use weft_core::budget::BudgetLimits;
use weft_core::journal::{Ending, Record};
use weft_core::seam::Seams;
use weft_core::{ErrorKind, TurnInput};
use weft_engine::{Engine, EngineLimits, SessionState};
use weft_models::retrying::{RetryPolicy, Retrying};
use weft_models::script::{Reply, Script};
use weft_models::scripted::ScriptedModel;
use weft_testkit::memory_store::MemoryStore;

use crate::branches::stored;
use crate::kit::{Does, Node, asking, choose, go_on, node, plan, run, run_with, seams, turn};
use crate::real::{OneModel, drawn};
use crate::storage::{ending, rest};

fn filled(inputs: Json) -> TurnInput {
    let Json::Object(inputs) = inputs else { panic!("{inputs}") };
    TurnInput { inputs, ..TurnInput::default() }
}

/// The state as another process reads it: through text.
fn elsewhere(state: &SessionState) -> SessionState {
    let text = state.to_json().unwrap().to_string();
    SessionState::from_json(&serde_json::from_str(&text).unwrap()).unwrap()
}

fn with_tool_calls(max: u64) -> EngineLimits {
    let budget = BudgetLimits { tool_calls: Some(max), ..BudgetLimits::default() };
    EngineLimits { budget, ..EngineLimits::default() }
}

// Forms.

/// A form for each of a thousand items, sequentially and 64 at a time: every answer reaches its item, and the
/// activation limit suffices for all of them.
#[tokio::test]
async fn a_form_for_each_of_a_thousand_items() {
    for at_once in [1, 64] {
        let plan = plan(&[
            node("begin", Does::Echo, &["each"]),
            node("each", Does::Each(at_once, "last@out"), &["m"]).text("{env.list}"),
            node("item", Does::Item, &["ask"]).within("each"),
            node("ask", Does::Ask(vec!["ok"]), &["last"]).within("each"),
            node("last", Does::Echo, &[]).within("each").text("{item@item}={ask@ok}"),
            node("m", Does::Say(false), &[]).text("{each@all}"),
        ]);
        let mut state = SessionState::new(&plan);
        state.globals.insert("env.list".to_owned(), json!((0..1_000).collect::<Vec<_>>()));
        let mut ran = go_on(&plan, state, asking("q"), EngineLimits::default()).await;
        let mut turns = 0;
        while ran.report.ending == Ending::Waiting {
            turns += 1;
            assert!(turns <= 1_000 && ran.report.forms.len() <= at_once, "{turns}");
            let answers = ran.report.forms.iter().map(|form| {
                let address = form.address();
                let answer = json!({"ok": address});
                (address, answer)
            });
            let input = TurnInput { inputs: answers.collect(), ..TurnInput::default() };
            let state = if turns % 100 == 1 { elsewhere(&ran.state) } else { ran.state };
            ran = go_on(&plan, state, input, EngineLimits::default()).await;
        }
        assert_eq!(ran.report.ending, Ending::Succeeded, "{:?}", ran.report.error);
        assert_eq!(turns, 1_000_usize.div_ceil(at_once));
        let expected: Vec<String> = (0..1_000).map(|n| format!("{n}=ask[{n}]")).collect();
        assert_eq!(ran.output("each", "all"), json!(expected));
    }
}

/// Two forms before a join; either may be answered first, or both at once.
fn two_forms() -> Vec<Node> {
    vec![
        node("begin", Does::Echo, &["p", "q"]),
        node("p", Does::Ask(vec!["ok"]), &["j"]),
        node("q", Does::Ask(vec!["ok"]), &["j"]),
        node("j", Does::Say(false), &[]).text("{p@ok}{q@ok}"),
    ]
}

#[tokio::test]
async fn two_forms_are_answered_in_any_order_or_together() {
    let plan = plan(&two_forms());
    let (p, q) = (json!({"p": {"ok": "P"}}), json!({"q": {"ok": "Q"}}));
    for (one, other, first) in [(&p, &q, "p"), (&q, &p, "q")] {
        let asked = go_on(&plan, SessionState::new(&plan), asking(""), EngineLimits::default()).await;
        let half = go_on(&plan, elsewhere(&asked.state), filled(one.clone()), EngineLimits::default()).await;
        assert_eq!((half.report.ending, half.started()), (Ending::Waiting, vec![first]));
        let whole =
            go_on(&plan, elsewhere(&half.state), filled(other.clone()), EngineLimits::default()).await;
        assert_eq!((whole.report.ending, whole.report.said.as_str()), (Ending::Succeeded, "PQ"));
        assert_eq!(whole.times("j"), 1);
    }
    let asked = go_on(&plan, SessionState::new(&plan), asking(""), EngineLimits::default()).await;
    let both = json!({"q": {"ok": "Q"}, "p": {"ok": "P"}});
    let whole = go_on(&plan, asked.state, filled(both), EngineLimits::default()).await;
    assert_eq!((whole.report.said.as_str(), whole.times("j")), ("PQ", 1));
}

/// Answers of two people to two forms of one run, at the same time: the refused turn may be sent again, and
/// neither answer is lost.
#[tokio::test(start_paused = true)]
async fn two_forms_may_be_answered_at_the_same_time() {
    let plan = plan(&two_forms());
    let store = Arc::new(MemoryStore::default());
    let stores = stored(&store, &plan).await;
    let engine = Engine::new(seams(), Some(stores), EngineLimits::default());
    let mut asked = engine.start(turn(&plan, asking("go"))).await.unwrap();
    assert_eq!(ending(&rest(&mut asked).await), Ending::Waiting);

    let p = || turn(&plan, filled(json!({"p": {"ok": "P"}})));
    let q = || turn(&plan, filled(json!({"q": {"ok": "Q"}})));
    let (of_p, of_q) = tokio::join!(engine.start(p()), engine.start(q()));
    let (mut records, mut refused) = (Vec::new(), Vec::new());
    for (started, again) in [(of_p, p()), (of_q, q())] {
        match started {
            Ok(mut handle) => records.extend(rest(&mut handle).await),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Conflict, "{}", error.full());
                refused.push(again);
            }
        }
    }
    assert!(refused.len() <= 1, "one of the two continues");
    for again in refused {
        records.extend(rest(&mut engine.start(again).await.unwrap()).await);
    }
    assert_eq!(ending(&records), Ending::Succeeded);
    let said: String = records
        .iter()
        .filter_map(|record| match record {
            Record::Said { text, .. } => Some(&**text),
            _ => None,
        })
        .collect();
    assert_eq!(said, "PQ");
}

// Cancelling idle runs.

/// While one branch waits for a person and another is running, a run can be cancelled together with its form.
/// Once all of it waits there is no work to cancel: the form stays open, and `Engine::stop_waiting` stops the run.
#[tokio::test(start_paused = true)]
async fn a_run_can_be_cancelled_while_a_branch_works_but_not_while_all_of_it_waits() {
    let plan = plan(&[
        node("begin", Does::Echo, &["ask", "slow"]),
        node("ask", Does::Ask(vec!["ok"]), &["j"]),
        node("slow", Does::Slow(10_000), &["j"]),
        node("j", Does::Say(false), &[]).text("{ask@ok}"),
    ]);
    let store = Arc::new(MemoryStore::default());
    let stores = stored(&store, &plan).await;
    let engine = Engine::new(seams(), Some(stores), EngineLimits::default());
    let started = |records: &[Record]| {
        let starts = records.iter().filter_map(|record| match record {
            Record::NodeStarted { who } => Some(who.node.as_str()),
            _ => None,
        });
        starts.collect::<Vec<_>>().join(" ")
    };

    let mut first = engine.start(turn(&plan, asking("go"))).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(engine.cancel(&first.key).await.unwrap());
    let records = rest(&mut first).await;
    assert_eq!(ending(&records), Ending::Cancelled);
    assert!(!records.iter().any(|record| matches!(record, Record::Waiting { .. })), "{records:?}");

    // Nothing of it remains: the next turn starts from the beginning.
    let mut second = engine.start(turn(&plan, asking("go"))).await.unwrap();
    let records = rest(&mut second).await;
    assert_eq!((ending(&records), started(&records).as_str()), (Ending::Waiting, "begin slow"));
    assert!(!engine.cancel(&second.key).await.unwrap(), "no worker is active");
    let mut third = engine.start(turn(&plan, filled(json!({"ok": "yes"})))).await.unwrap();
    let records = rest(&mut third).await;
    assert_eq!((ending(&records), started(&records).as_str()), (Ending::Succeeded, "ask j"));
}

/// A retry delay ends with the run: no request is repeated, and no default value is shown.
#[tokio::test(start_paused = true)]
async fn a_run_can_be_cancelled_during_a_retry_delay() {
    let params = json!({
        "llm_id": "m", "sys_prompt": "s", "prompts": [{"role": "user", "content": "{sys.query}"}],
        "cite": false, "max_retries": 5, "delay_after_error": 30,
        "exception_method": "comment", "exception_default_value": "sorry",
    });
    let plan = drawn(&[
        ("begin", "Begin", json!({}), &["LLM:l"], None),
        ("LLM:l", "LLM", params, &["Message:m"], None),
        ("Message:m", "Message", json!({"content": ["{LLM:l@content}"]}), &[], None),
    ]);
    let busy = Reply::error(ErrorKind::Unavailable, "busy").always();
    let model = ScriptedModel::new(Script::new().reply(busy));
    let front = Retrying::new(model.clone(), RetryPolicy::default());
    let seams = Seams { models: Arc::new(OneModel(Arc::new(front))), ..Arc::into_inner(seams()).unwrap() };
    let store = Arc::new(MemoryStore::default());
    let stores = stored(&store, &plan).await;
    let engine = Engine::new(Arc::new(seams), Some(stores), EngineLimits::default());
    let mut handle = engine.start(turn(&plan, asking("q"))).await.unwrap();
    // During the second delay.
    tokio::time::sleep(Duration::from_secs(45)).await;
    assert_eq!(model.requests().len(), 2);
    let began = tokio::time::Instant::now();
    assert!(engine.cancel(&handle.key).await.unwrap());
    let records = rest(&mut handle).await;
    assert_eq!(ending(&records), Ending::Cancelled);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(!records.iter().any(|record| matches!(record, Record::Said { .. })), "{records:?}");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(model.requests().len(), 2, "and no request follows");
}

/// An answer that is arriving when its run is cancelled was paid for as far as it came.
#[tokio::test(start_paused = true)]
async fn a_cancelled_run_counts_the_answer_that_was_arriving() {
    let params =
        json!({"llm_id": "m", "sys_prompt": "s", "prompts": [{"role": "user", "content": "{sys.query}"}]});
    let plan = drawn(&[
        ("begin", "Begin", json!({}), &["LLM:l"], None),
        ("LLM:l", "LLM", params, &["Message:m"], None),
        ("Message:m", "Message", json!({"content": ["{LLM:l@content}"]}), &[], None),
    ]);
    let endless = Reply::pieces(["one ", "two ", "three "]).delay_ms(10_000);
    let model = ScriptedModel::new(Script::new().reply(endless));
    let seams = Seams { models: Arc::new(OneModel(Arc::new(model))), ..Arc::into_inner(seams()).unwrap() };
    let store = Arc::new(MemoryStore::default());
    let stores = stored(&store, &plan).await;
    let engine = Engine::new(Arc::new(seams), Some(stores), EngineLimits::default());
    let mut handle = engine.start(turn(&plan, asking("q"))).await.unwrap();
    // After the second piece.
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert!(engine.cancel(&handle.key).await.unwrap());
    let records = rest(&mut handle).await;
    assert_eq!(ending(&records), Ending::Cancelled);
    let used = records.iter().filter_map(|record| match record {
        Record::ModelUsed { usage, .. } => Some(*usage),
        _ => None,
    });
    let used: Vec<_> = used.collect();
    assert_eq!((used.len(), used[0].calls), (1, 1));
    assert!(used[0].prompt_tokens > 0 && used[0].completion_tokens > 0, "{used:?}");
    let Some(Record::RunFinished { spent, .. }) = records.last() else { panic!("no end") };
    assert_eq!(spent.tokens, used[0].total_tokens());
}

/// Cancelled at any moment, an Iteration with exception settings takes neither its branch nor its default
/// value: cancellation is not a failure that a canvas catches.
#[tokio::test(start_paused = true)]
async fn a_cancelled_iteration_takes_no_exception_branch() {
    let ways: [(&[&'static str], Option<Json>); 2] = [(&["sorry"], None), (&[], Some(json!([])))];
    for (goto, default) in ways {
        let plan = plan(&[
            node("begin", Does::Echo, &["each"]),
            node("each", Does::Each(2, "last@out"), &["end"]).text("{sys.files}").on_error(goto, default),
            node("item", Does::Item, &["slow"]).within("each"),
            node("slow", Does::Slow(5), &["last"]).within("each"),
            node("last", Does::Echo, &[]).within("each").text("{item@item}"),
            node("end", Does::Say(false), &[]).text("{each@all}"),
            node("sorry", Does::Say(false), &[]).text("sorry"),
        ]);
        let mut whole = false;
        for moment in 1..200 {
            let store = Arc::new(MemoryStore::default());
            let stores = stored(&store, &plan).await;
            let engine = Engine::new(seams(), Some(stores), EngineLimits::default());
            let input = TurnInput { files: vec![json!(1), json!(2), json!(3)], ..asking("q") };
            let mut handle = engine.start(turn(&plan, input)).await.unwrap();
            let mut records = Vec::new();
            while let Some(entry) = handle.entries.next().await.unwrap() {
                records.push(entry.record.clone());
                if records.len() == moment {
                    handle.cancel.cancel();
                }
            }
            let started = |id: &str| {
                let starts = |r: &Record| matches!(r, Record::NodeStarted { who } if who.node.as_str() == id);
                records.iter().any(starts)
            };
            let broke = records.iter().any(|record| {
                matches!(record, Record::NodeFinished { who, error: Some(_), .. } if who.node.as_str() == "each")
            });
            assert!(!started("sorry"), "stopped at {moment}");
            if ending(&records) == Ending::Succeeded {
                whole = true;
                break;
            }
            assert_eq!(ending(&records), Ending::Cancelled, "stopped at {moment}");
            assert!(!(broke && started("end")), "stopped at {moment}");
        }
        assert!(whole, "it never came to its end");
    }
}

// Budgets.

/// A budget exceeded in one branch ends the run: the other branch is stopped, and no later node starts.
#[tokio::test(start_paused = true)]
async fn a_budget_that_one_branch_exceeds_stops_the_other() {
    let began = tokio::time::Instant::now();
    let nodes = [
        node("begin", Does::Echo, &["spend", "slow"]),
        node("spend", Does::Spend(3), &["j"]),
        node("slow", Does::Slow(10_000), &["after"]),
        node("after", Does::Echo, &["j"]),
        node("j", Does::Say(false), &[]).text("{spend@out}{after@out}"),
    ];
    let ran = run_with(&nodes, asking("q"), with_tool_calls(2)).await;
    assert_eq!(ran.report.ending, Ending::Failed);
    let error = ran.report.error.as_ref().unwrap();
    assert_eq!(error.kind, ErrorKind::QuotaExceeded);
    let told = error.full();
    assert!(told.starts_with("spend failed:") && told.contains("budget of tool_calls"), "{told}");
    assert_eq!(ran.report.spent.tool_calls, 2);
    assert_eq!((ran.times("after"), ran.times("j")), (0, 0));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// With default values, the branch that finds the budget spent gives its default, and the join has both; later
/// nodes that need the budget find it spent too.
#[tokio::test(start_paused = true)]
async fn a_default_value_replaces_the_branch_that_exceeds_a_budget() {
    let spend = |id, text| node(id, Does::Spend(2), &["j"]).text(text).on_error(&[], Some(json!("none")));
    let nodes = [
        node("begin", Does::Echo, &["one", "two"]),
        spend("one", "1"),
        spend("two", "2"),
        node("j", Does::Say(false), &["more"]).text("{one@out}+{two@out}"),
        node("more", Does::Spend(1), &[]),
    ];
    let ran = run_with(&nodes, asking("q"), with_tool_calls(3)).await;
    assert!(["1+none", "none+2"].contains(&ran.report.said.as_str()), "{}", ran.report.said);
    assert_eq!((ran.times("j"), ran.report.spent.tool_calls), (1, 3));
    assert_eq!(ran.report.ending, Ending::Failed);
    assert!(ran.report.error.as_ref().unwrap().full().starts_with("more failed:"));
}

// Failures that lead to nodes reached anyway.

/// A node reached by an ordinary edge and by a failure runs once, after both are known; also if it reads a
/// stream that is still being written.
#[tokio::test(start_paused = true)]
async fn an_exception_branch_to_a_reached_node_starts_it_once() {
    for fails in [true, false] {
        let bad = |ms, to: &[&'static str]| {
            let does = if fails { Does::FailAfter(ms) } else { Does::Slow(ms) };
            node("bad", does, &[]).on_error(to, None)
        };
        let ran = run(&[
            node("begin", Does::Echo, &["bad", "y"]),
            bad(10, &["y"]),
            node("y", Does::Slow(50), &["m"]).text("<{bad@_ERROR}>"),
            node("m", Does::Say(false), &[]).text("{y@out}"),
        ])
        .await;
        assert_eq!(ran.started(), ["begin", "bad", "y", "m"]);
        assert_eq!(ran.report.said, if fails { "<it broke>" } else { "<>" });

        let ran = run(&[
            node("begin", Does::Echo, &["model", "bad"]),
            node("model", Does::Stream(vec!["a", "b"], 20), &["m"]),
            bad(30, &["m"]),
            node("m", Does::Say(true), &[]).text("{model@out}!"),
        ])
        .await;
        assert_eq!((ran.report.ending, ran.report.said.as_str()), (Ending::Succeeded, "ab!"));
        assert_eq!(ran.times("m"), 1);
    }
}

/// A failure that leads back while a node of the previous pass is still running: that node continues, and runs
/// once more for the new pass.
#[tokio::test(start_paused = true)]
async fn an_exception_branch_that_leads_back_does_not_disturb_running_nodes() {
    let by_pass = choose(&["bad", "ok"], |pass, _| if pass == 0 { vec!["bad"] } else { vec!["ok"] });
    let ran = run(&[
        node("begin", Does::Echo, &["a"]),
        node("a", Does::Echo, &["y", "z"]),
        node("y", Does::Slow(50), &[]),
        node("z", by_pass, &[]),
        node("bad", Does::FailAfter(1), &[]).on_error(&["a"], None),
        node("ok", Does::Echo, &[]),
    ])
    .await;
    assert_eq!(ran.report.ending, Ending::Succeeded, "{:?}", ran.report.error);
    assert_eq!((ran.times("a"), ran.times("z"), ran.times("ok")), (2, 2, 1));
    assert_eq!(ran.times("y"), 2, "{:?}", ran.log());
    assert!(!ran.log().contains(&"error y".to_owned()), "{:?}", ran.log());
}
