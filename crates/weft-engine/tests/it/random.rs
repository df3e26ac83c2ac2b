//! Random canvases against the invariants that hold for every run: every start has its finish,
//! joins run once, dependent nodes keep their order, the journal has no gap.

use proptest::prelude::*;
use weft_core::Record;
use weft_core::journal::Ending;
use weft_engine::EngineLimits;

use crate::kit::{Does, Node, Ran, asking, choose, node, run_with};

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

/// Where in the journal a node started.
fn start_of(ran: &Ran, id: &str) -> Option<usize> {
    let starts = |r: &Record| matches!(r, Record::NodeStarted { who } if who.node.as_str() == id);
    ran.records.iter().position(starts)
}

/// Where in the journal a node ended.
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

/// `PROPTEST_CASES` asks for more.
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

    /// With edges in any direction there may be endless cycles; the budget ends them, and the
    /// invariants that the kit checks for every run hold all the same.
    #[test]
    fn cyclic_canvases_end(
        mut drawing in drawing(),
        back in prop::collection::vec((0..NAMES.len(), 0..NAMES.len()), 1..4),
    ) {
        let n = drawing.sorts.len();
        drawing.edges.extend(back.into_iter().map(|(a, b)| (a % n, b % n)));
        drawing.edges.sort_unstable();
        drawing.edges.dedup();
        // Texts that read each other in a circle double with every pass.
        let limits = EngineLimits { activations: 60, output_bytes: 100_000, ..EngineLimits::default() };
        let ran = virtual_time().block_on(run_with(&drawing.nodes(), asking("q"), limits));
        let error = ran.report.error.as_ref().map(weft_core::Error::full).unwrap_or_default();
        prop_assert!(!error.contains("never became ready"), "{error}\n{drawing:?}\n{}", ran.log().join("\n"));
    }
}
