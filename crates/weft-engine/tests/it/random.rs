//! Random canvases against the invariants of every run: every start has its finish, joins run once, dependent
//! nodes keep their order, one message is shown at a time, the journal has no gap.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use weft_core::journal::Ending;
use weft_core::seam::{RunStore as _, SessionStore as _};
use weft_core::{Entry, Record};
use weft_engine::EngineLimits;

use crate::kit::{
    Does, Node, Ran, asking, check_that_one_speaks_at_a_time, choose, node, plan, run_with, turn,
};
use crate::storage;

const NAMES: [&str; 12] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "n10", "n11"];

#[derive(Clone, Debug)]
enum Sort {
    Step(u64),
    Branch(u64),
    Stream(u64),
    Say,
}

#[derive(Clone, Debug)]
struct Drawing {
    sorts: Vec<Sort>,
    /// Forward edges, from a lower to a higher number; `usize::MAX` is the begin node.
    edges: Vec<(usize, usize)>,
    /// Reader and read, in any direction.
    reads: Vec<(usize, usize)>,
}

fn drawing() -> impl Strategy<Value = Drawing> {
    let sort = prop_oneof![
        4 => (0..40_u64).prop_map(Sort::Step),
        2 => any::<u64>().prop_map(Sort::Branch),
        1 => (0..20_u64).prop_map(Sort::Stream),
        1 => Just(Sort::Say),
    ];
    (3..NAMES.len()).prop_flat_map(move |n| {
        let sorts = prop::collection::vec(sort.clone(), n);
        let edges = prop::collection::vec((0..n, 0..n), n..3 * n);
        let reads = prop::collection::vec((0..n, 0..n), 0..2 * n);
        (sorts, edges, reads).prop_map(|(sorts, pairs, reads)| {
            let edges = pairs.into_iter().map(|(a, b)| (a.min(b), a.max(b)));
            let mut edges: Vec<_> =
                edges.map(|(a, b)| if a == b { (usize::MAX, b) } else { (a, b) }).collect();
            edges.push((usize::MAX, 0));
            edges.sort_unstable();
            edges.dedup();
            Drawing { sorts, edges, reads: reads.into_iter().filter(|(a, b)| a != b).collect() }
        })
    })
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

impl Drawing {
    fn nodes(&self) -> Vec<Node> {
        let targets = |from: usize| -> Vec<&'static str> {
            self.edges.iter().filter(|(f, _)| *f == from).map(|&(_, to)| NAMES[to]).collect()
        };
        let mut nodes = vec![node("begin", Does::Echo, &targets(usize::MAX))];
        for (i, sort) in self.sorts.iter().enumerate() {
            let to = targets(i);
            let does = match sort {
                Sort::Step(ms) => Does::Slow(*ms),
                Sort::Stream(ms) => Does::Stream(vec!["x", "y"], *ms),
                Sort::Say => Does::Say(true),
                Sort::Branch(_) if to.is_empty() => Does::Echo,
                Sort::Branch(bits) => {
                    let (bits, ways) = (*bits, to.clone());
                    choose(&to, move |_, _| {
                        let chosen = ways.iter().enumerate().filter(|(k, _)| bits >> (k % 64) & 1 == 1);
                        chosen.map(|(_, &way)| way).collect()
                    })
                }
            };
            let reads = self.reads.iter().filter(|(reader, _)| *reader == i);
            let text: String = reads.map(|(_, read)| format!("{{{}@out}} ", NAMES[*read])).collect();
            nodes.push(node(NAMES[i], does, &to).text(leak(text)));
        }
        nodes
    }
}

/// The journal position where a node started.
fn start_of(ran: &Ran, id: &str) -> Option<usize> {
    let starts = |r: &Record| matches!(r, Record::NodeStarted { who } if who.node.as_str() == id);
    ran.records.iter().position(starts)
}

/// The journal position where a node ended.
fn end_of(ran: &Ran, id: &str) -> Option<usize> {
    let ends = |r: &Record| matches!(r, Record::NodeFinished { who, .. } if who.node.as_str() == id);
    ran.records.iter().position(ends)
}

fn check(drawing: &Drawing, ran: &Ran) {
    let log = ran.log().join("\n");
    assert_eq!(ran.report.ending, Ending::Succeeded, "{drawing:?}\n{log}");
    for (i, name) in NAMES.iter().enumerate().take(drawing.sorts.len()) {
        assert!(ran.times(name) <= 1, "{name} ran twice\n{log}");
        let skipped = ran.log().contains(&format!("skip {name}"));
        let reached = drawing.edges.iter().any(|&(_, to)| to == i);
        assert!(!reached || skipped != (ran.times(name) == 1) || !skipped, "{name}\n{log}");
    }
    for &(from, to) in &drawing.edges {
        let from_name = NAMES.get(from).copied().unwrap_or("begin");
        let (Some(end), Some(start)) = (end_of(ran, from_name), start_of(ran, NAMES[to])) else {
            continue;
        };
        let streams = matches!(drawing.sorts.get(from), Some(Sort::Stream(_)));
        let listens = streams && matches!(drawing.sorts[to], Sort::Say);
        assert!(end < start || listens, "{from_name} before {}\n{log}", NAMES[to]);
    }
}

fn virtual_time() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// `PROPTEST_CASES` sets a higher number.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(600), ..config }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn acyclic_canvases_keep_their_invariants(drawing in drawing(), at_once in 1..6_usize) {
        let limits = EngineLimits { nodes_at_once: at_once, ..EngineLimits::default() };
        let ran = virtual_time().block_on(run_with(&drawing.nodes(), asking("q"), limits));
        check(&drawing, &ran);
    }

    /// Edges in any direction may form endless cycles; the budget ends them, and the invariants that the kit
    /// checks for every run still hold.
    #[test]
    fn cyclic_canvases_end(
        mut drawing in drawing(),
        back in prop::collection::vec((0..NAMES.len(), 0..NAMES.len()), 1..4),
    ) {
        let n = drawing.sorts.len();
        drawing.edges.extend(back.into_iter().map(|(a, b)| (a % n, b % n)));
        drawing.edges.sort_unstable();
        drawing.edges.dedup();
        // Texts that read each other in a cycle double with every pass.
        let limits = EngineLimits { activations: 60, output_bytes: 100_000, ..EngineLimits::default() };
        let ran = virtual_time().block_on(run_with(&drawing.nodes(), asking("q"), limits));
        let error = ran.report.error.as_ref().map(weft_core::Error::full).unwrap_or_default();
        prop_assert!(!error.contains("never became ready"), "{error}\n{drawing:?}\n{}", ran.log().join("\n"));
    }
}

/// A part of a canvas that shows messages, parallel to the others.
#[derive(Clone, Debug)]
enum Talk {
    /// A model with this many milliseconds per chunk, and the messages that stream its text; the second one
    /// also reads the model of the previous part.
    Model(u64, usize),
    /// A text that is complete after this many milliseconds.
    Whole(u64),
    /// The same behind an assignment.
    Assigned(u64),
    /// A node that fails after this many milliseconds; its default value is shown.
    Failing(u64),
    /// A model that fails and has a default value.
    Broken,
    /// A model and a message in every round, with this many parallel rounds and milliseconds per chunk.
    Rounds(usize, u64),
}

fn talk() -> impl Strategy<Value = Vec<Talk>> {
    let part = prop_oneof![
        4 => (0..30_u64, 1..3_usize).prop_map(|(ms, readers)| Talk::Model(ms, readers)),
        1 => (0..60_u64).prop_map(Talk::Whole),
        1 => (0..60_u64).prop_map(Talk::Assigned),
        1 => (0..60_u64).prop_map(Talk::Failing),
        1 => Just(Talk::Broken),
        2 => (1..4_usize, 0..30_u64).prop_map(|(at_once, ms)| Talk::Rounds(at_once, ms)),
    ];
    prop::collection::vec(part, 2..5)
}

/// The nodes of all parts in order; each part has its own names.
fn speaking(parts: &[Talk]) -> Vec<Node> {
    let name = |what: &str, part: usize| leak(format!("{what}{part}"));
    let mut first = Vec::new();
    let mut nodes = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        let (a, m, n) = (name("a", i), name("m", i), name("n", i));
        first.push(a);
        match part {
            Talk::Model(ms, readers) => {
                let to = &[m, n][..*readers];
                nodes.push(node(a, Does::Stream(vec!["~hm", "x", "y", "z"], *ms), to));
                nodes.push(
                    node(m, Does::Say(true), &[]).text(leak(format!("<{m} {{{a}@out}}{{{a}@count}}>"))),
                );
                let other =
                    if i > 0 && matches!(parts[i - 1], Talk::Model(..)) { name("a", i - 1) } else { a };
                let text = leak(format!("{{{other}@out}}|{{{a}@out}}<{n}>"));
                nodes.extend((*readers == 2).then(|| node(n, Does::Say(true), &[]).text(text)));
            }
            Talk::Whole(ms) => {
                nodes.push(node(a, Does::Slow(*ms), &[m]).text("w"));
                nodes.push(node(m, Does::Say(false), &[]).text(leak(format!("<{m} {{{a}@out}}>"))));
            }
            Talk::Assigned(ms) => {
                nodes.push(node(a, Does::Slow(*ms), &[n]));
                nodes.push(node(n, Does::Count("env.n"), &[m]));
                nodes.push(node(m, Does::Say(true), &[]).text(leak(format!("<{m} done>"))));
            }
            Talk::Failing(ms) => {
                let default = Some(json!(format!("<{a} sorry>")));
                nodes.push(node(a, Does::FailAfter(*ms), &[]).on_error(&[], default));
            }
            Talk::Broken => {
                let default = Some(json!("sorry"));
                nodes.push(node(a, Does::StreamThenFail(vec!["x"]), &[m]).on_error(&[], default));
                nodes.push(node(m, Does::Say(true), &[]).text(leak(format!("<{m} {{{a}@out}}>"))));
            }
            Talk::Rounds(at_once, ms) => {
                let (item, model) = (name("i", i), name("r", i));
                let text = leak(format!("<{m} {{{item}@index}} {{{model}@out}}>"));
                nodes.push(
                    node(a, Does::Each(*at_once, leak(format!("{m}@content"))), &[n]).text("{env.list}"),
                );
                nodes.push(node(item, Does::Item, &[model]).within(a));
                nodes.push(node(model, Does::Stream(vec!["u", "v"], *ms), &[m]).within(a));
                nodes.push(node(m, Does::Say(true), &[]).within(a).text(text));
                nodes.push(node(n, Does::Say(false), &[]).text(leak(format!("<{n} {{{a}@all}}>"))));
            }
        }
    }
    nodes.insert(0, node("begin", Does::Echo, &first));
    nodes
}

/// What each activation showed, and the whole, in journal order.
fn texts(entries: &[Entry]) -> (BTreeMap<u32, String>, String) {
    let (mut each, mut whole, mut thinking) = (BTreeMap::<u32, String>::new(), String::new(), None);
    for entry in entries {
        match &entry.record {
            Record::ThinkingStarted { activation, .. } => thinking = Some(*activation),
            Record::ThinkingEnded { .. } => thinking = None,
            Record::Said { activation, text, .. } if thinking != Some(*activation) => {
                each.entry(*activation).or_default().push_str(text);
                whole.push_str(text);
            }
            _ => {}
        }
    }
    (each, whole)
}

async fn one_text_everywhere(parts: &[Talk], at_once: usize) {
    let plan = plan(&speaking(parts));
    let limits = EngineLimits { nodes_at_once: at_once, ..EngineLimits::default() };
    let globals = [("env.list".to_owned(), json!([1, 2, 3]))];
    let b = storage::bench_with(&plan, limits, globals).await;
    let mut handle = b.engine.start(turn(&plan, asking("q"))).await.unwrap();
    let seen = storage::rest(&mut handle).await;
    let entries = b.engine.journal(&handle.key).await.unwrap();
    let log = format!("{parts:?}\n{}", seen.iter().map(|r| format!("{r:?}")).collect::<Vec<_>>().join("\n"));
    assert_eq!(storage::ending(&seen), Ending::Succeeded, "{log}");
    check_that_one_speaks_at_a_time(&seen, &log);
    let (each, whole) = texts(&entries);
    // A message that ended was shown completely.
    for record in &seen {
        if let Record::NodeFinished { who, outputs, error: None, .. } = record
            && &*who.kind == "Message"
        {
            let content = outputs.get("content").and_then(|value| value.as_json().cloned());
            assert_eq!(content, each.get(&who.activation).map(|text| json!(text)), "{log}");
        }
    }
    let messages = b.store.messages(&b.key, i64::MAX, 10).await.unwrap();
    assert_eq!(messages.last().map(|message| message.content.as_str()), Some(whole.as_str()), "{log}");
    let run = b.store.get(&handle.key).await.unwrap();
    let again = b.engine.replay(&run, plan).await.unwrap();
    assert_eq!(again.differences, [], "{log}");
    assert!(again.entries == entries, "{log}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(250), ..ProptestConfig::default() })]

    /// The stream, the history and a replay have the same text, in which no message is inside another.
    #[test]
    fn messages_are_streamed_whole_and_one_after_the_other(parts in talk(), at_once in 1..6_usize) {
        virtual_time().block_on(one_text_everywhere(&parts, at_once));
    }
}
