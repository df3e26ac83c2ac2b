//! `weft runs replay|fork|diff`: replaying, forking and comparing past runs.

use weft_app::{App, DEFAULT_TENANT};
use weft_core::context::Pin;
use weft_core::{ComponentId, ErrorKind, Json, Outputs, RunId, RunKey, SessionId, SessionKey};
use weft_engine::compare::{Comparison, NodeComparison, Verdict};
use weft_engine::engine::{ForkPoint, PickedUp};
use weft_engine::recording::Where;
use weft_engine::replay::Difference;
use weft_server::answer::Answer;
use weft_server::dialect::ragflow::{self, RunView};

use super::stored::{found, short};
use crate::args::{RunsDiffArgs, RunsForkArgs, RunsReplayArgs};
use crate::chosen_tenant::{same_tenant, tenant};
use crate::documents;
use crate::failure::{Exit, Failure, Outcome};
use crate::follow::{Show, follow_shown};
use crate::form;
use crate::progress::duration;
use crate::run::{conclude, inputs};
use crate::screen::{Data, Notes};
use crate::setup::Setup;
use crate::words::{must_be_no_step, plural, quoted};

fn key(id: &str) -> RunKey {
    RunKey::new(&tenant(), RunId::from(id))
}

/// Replays a run from its journal. Its events go to standard output, and the differences to standard error.
pub(super) async fn replay(args: &RunsReplayArgs, app: &App) -> Outcome {
    let key = key(&args.id);
    found(&key, app).await?;
    let replayed = app.replay(&key).await?;
    let mut data = Data::stdout();
    // The first entry names the session.
    let mut view = RunView::new(&key.id, &"".into());
    let mut events = 0;
    for entry in &replayed.entries {
        view.learn(entry);
        if let Some(frame) = ragflow::frame(entry, &view) {
            events += 1;
            if !args.quiet {
                data.text(&(frame + "\n"))?;
            }
        }
    }
    data.flush()?;
    if replayed.differences.is_empty() {
        Notes::line(format!("the replay matches the run: {}", plural(events, "event")));
        return Ok(Exit::Done);
    }
    for difference in &replayed.differences {
        Notes::line(told(difference));
    }
    let count = plural(replayed.differences.len(), "difference");
    Notes::line(format!("the replay differs from the run: {count}"));
    Ok(Exit::Failed)
}

fn told(difference: &Difference) -> String {
    let Difference { seq, node, what, recorded, now } = difference;
    let (recorded, now) = (short(&recorded.to_string()), short(&now.to_string()));
    format!("entry {seq}, {node}: {what} was {recorded}\n  and is now {now}")
}

/// Starts a run that shares the beginning of another one, and waits for its end.
pub(super) async fn fork(args: &RunsForkArgs, app: &App, setup: &Setup) -> Outcome {
    let outputs: Outputs = inputs("--set", &args.set)?.into_iter().collect();
    let to = (!args.to.is_empty()).then(|| args.to.iter().map(|id| ComponentId::from(id.as_str())).collect());
    let edit = Pin { outputs, to };
    let point = ForkPoint { node: args.at.as_str().into(), activation: args.activation, edit };
    if let Some(id) = &args.session {
        must_be_free(id, app).await?;
    }
    let session = args.session.as_deref().map(SessionId::from);
    // Before the fork starts, which is to find what the first run found.
    documents::add_beside_runs(app, &[found(&key(&args.id), app).await?]).await?;
    let (session, run, forked) = app.fork(&key(&args.id), session, &point).await?;
    Notes::line(format!("run {} in session {}, forked from {}", run.id, session.id, args.id));
    let PickedUp::Running(handle) = forked else {
        return Err(Failure::failed("the forked run could not continue"));
    };
    let show = if args.events { Show::Events } else { Show::Answer };
    let answer = follow_shown(handle, show).await?;
    Ok(conclude(&answer, || going_on(&session.id, &answer, setup)))
}

/// Returns the command that answers what a fork waits for. `weft run` is for the default tenant only.
fn going_on(session: &SessionId, answer: &Answer, setup: &Setup) -> String {
    let (session, place) = (quoted(session.as_str()), &setup.same_place);
    if tenant().as_str() == DEFAULT_TENANT {
        let flags = form::flags(&answer.forms);
        return format!("weft run FILE --session {session}{}{place}{flags}", setup.same_model);
    }
    format!("weft tasks --session {session}{place}{}", same_tenant())
}

/// Checks that there is no session with this id yet.
async fn must_be_free(id: &str, app: &App) -> Outcome<()> {
    must_be_no_step("a session", id)?;
    match app.sessions.load(&SessionKey::new(&tenant(), id)).await {
        Ok(_) => Err(Failure::usage(format!("there is already a session {}", quoted(id)))
            .help("a fork begins a new session: give --session an id that is not taken, or omit it")),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Prints a comparison of two runs.
pub(super) async fn diff(args: &RunsDiffArgs, app: &App) -> Outcome {
    for id in [&args.first, &args.second] {
        found(&key(id), app).await?;
    }
    let (comparison, _) = app.compare(&key(&args.first), &key(&args.second)).await?;
    let mut data = Data::stdout();
    if args.json {
        let text = serde_json::to_string(&comparison).map_err(|error| Failure::failed(error.to_string()))?;
        data.line(&text)?;
    } else {
        for line in lines(&comparison, |node| args.all || node.verdict != Verdict::Same) {
            data.line(&line)?;
        }
    }
    data.flush()?;
    Ok(if comparison.is_same() { Exit::Done } else { Exit::Failed })
}

fn lines(comparison: &Comparison, shown: impl Fn(&NodeComparison) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    for node in comparison.nodes.iter().filter(|node| shown(node)) {
        lines.push(headline(node));
        for (what, [first, second]) in &node.changes {
            lines.push(format!("    {what}"));
            lines.extend(parts(first, second));
        }
    }
    let same = comparison.nodes.iter().filter(|node| node.verdict == Verdict::Same).count();
    let [first, second] = comparison.ending.map(|ending| ending.unwrap_or("unfinished"));
    let ending = if first == second { first.to_owned() } else { format!("{first} → {second}") };
    let [one, two] = comparison.usage;
    let tokens = [one, two].map(|usage| usage.total_tokens());
    let [took, took_then] = comparison.elapsed.map(duration);
    let all = plural(comparison.nodes.len(), "activation");
    lines.push(format!(
        "{ending}; {same} of {all} the same; {took} → {took_then}, model calls: {} → {}, tokens: {} → {}",
        one.calls, two.calls, tokens[0], tokens[1]
    ));
    lines
}

fn headline(node: &NodeComparison) -> String {
    let sign = match node.verdict {
        Verdict::Same => ' ',
        Verdict::Changed => '~',
        Verdict::OnlyFirst => '-',
        Verdict::OnlySecond => '+',
    };
    let Where { node: id, rounds } = &node.place;
    let rounds: String = rounds.iter().map(|round| format!("[{round}]")).collect();
    let nth = if node.nth > 1 { format!(", time {}", node.nth) } else { String::new() };
    let took = node.elapsed.iter().map(|took| took.map_or_else(|| "–".to_owned(), duration));
    format!("{sign} {} ({id}{rounds}){nth}  {}", node.name, took.collect::<Vec<_>>().join(" → "))
}

/// Describes how two values differ; for two objects only the members that do.
fn parts(first: &Json, second: &Json) -> Vec<String> {
    let pair = |name: &str, first: &Json, second: &Json| {
        let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
        vec![
            format!("      - {name}{}", short(&first.to_string())),
            format!("      + {name}{}", short(&second.to_string())),
        ]
    };
    let (Some(one), Some(two)) = (first.as_object(), second.as_object()) else {
        return pair("", first, second);
    };
    let new = two.keys().filter(|key| !one.contains_key(*key));
    let names = one.keys().chain(new);
    let value = |map: &serde_json::Map<String, Json>, name: &str| map.get(name).cloned().unwrap_or_default();
    names
        .filter(|name| one.get(*name) != two.get(*name))
        .flat_map(|name| pair(name, &value(one, name), &value(two, name)))
        .collect()
}
