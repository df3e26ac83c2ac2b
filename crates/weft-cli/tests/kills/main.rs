//! The program, killed with SIGKILL at every journal entry of every turn of every sample canvas, before and after the
//! entry is written, and started again. Run by `cargo xtask kills`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "tests fail by panicking, and are told what to do by their environment"
)]
#![allow(missing_docs, reason = "tests")]

mod journal;
mod outside;
mod stage;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Instant;

use self::stage::{Cut, Healer, Side, Stage, stages};

/// One in this many kills is recovered by a server.
const SERVED_ONE_IN: usize = 25;
/// How many processes are killed before the first run is resumed.
const BATCH: usize = 64;

/// The default step between tested points.
const EVERY: usize = 23;

fn each<T: Send, R: Send>(work: Vec<T>, at_once: usize, act: impl Fn(usize, T) -> R + Sync) -> Vec<R> {
    let queue: Mutex<VecDeque<_>> = Mutex::new(work.into_iter().enumerate().collect());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let Some((n, item)) = queue.lock().unwrap().pop_front() else { break };
                    let result = act(n, item);
                    done.lock().unwrap().push((n, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, result)| result).collect()
}

type Point<'a> = (&'a Stage, usize, Side, u64);

/// Every point of a conversation: before and after each entry of each turn.
fn points(stage: &Stage) -> Vec<Point<'_>> {
    let of_turn = |turn| (1..=stage.entries(turn)).map(move |entry| (turn, entry));
    let sides = |(turn, entry)| [Side::Before, Side::After].map(|side| (stage, turn, side, entry));
    (0..stage.turns()).flat_map(of_turn).flat_map(sides).collect()
}

/// One point in `every`, at least one, alternating between both sides; each conversation starts at another offset.
fn some<'a>(all: &[Point<'a>], every: usize, conversation: usize) -> Vec<Point<'a>> {
    let first = conversation * 7 % every.min(all.len());
    // An even step would always hit the same side.
    let even = every.is_multiple_of(2);
    let first = if even { first - first % 2 } else { first };
    let sides = |n: usize| if even { n % 2 } else { 0 };
    let places = (first..all.len()).step_by(every).enumerate().map(|(n, at)| at + sides(n));
    places.filter_map(|at| all.get(at).copied()).collect()
}

/// One point of each conversation in turn, because points of the same conversation wait for each other.
fn in_turn<T>(all: Vec<Vec<T>>) -> Vec<T> {
    let mut placed: Vec<_> = all.into_iter().flat_map(|some| some.into_iter().enumerate()).collect();
    placed.sort_by_key(|(n, _)| *n);
    placed.into_iter().map(|(_, point)| point).collect()
}

fn healer(n: usize) -> Healer {
    if n % SERVED_ONE_IN == SERVED_ONE_IN / 2 { Healer::Server } else { Healer::Command }
}

#[test]
fn a_process_may_be_killed_at_any_entry_of_any_journal() {
    let every = std::env::var("WEFT_KILLS_EVERY").map_or(EVERY, |text| text.parse().unwrap());
    let only = std::env::var("WEFT_KILLS_CANVAS").ok();
    let began = Instant::now();
    // A process spends most of its time waiting for the disk.
    let at_once = 2 * std::thread::available_parallelism().map_or(1, usize::from);
    let stages = stages(only.as_deref());
    assert!(!stages.is_empty(), "there is no sample canvas {only:?}");
    // A stage has one model, whose script is played in order, so its turns are rehearsed one after the other.
    let rehearsed = each(stages, at_once, |_, stage: Stage| stage.rehearsed());
    let all: Vec<_> = rehearsed.iter().map(points).collect();
    let count: usize = all.iter().map(Vec::len).sum();
    let points = in_turn(all.iter().enumerate().map(|(n, all)| some(all, every, n)).collect());
    println!("{} of {count} points, {} s", points.len(), began.elapsed().as_secs());
    let (mut healed, mut killed) = (Vec::with_capacity(points.len()), 0);
    let mut points = points.into_iter();
    loop {
        // Not all points are killed before the first run is resumed, or runs with a time limit would exceed it.
        let batch: Vec<_> = points.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        let cuts = each(batch, at_once, |_, (stage, turn, side, entry)| stage.cut(turn, side, entry));
        killed += cuts.iter().filter(|cut| cut.was_killed).count();
        let before = healed.len();
        healed.extend(each(cuts, at_once, |n, cut: Cut<'_>| cut.heal(healer(before + n))));
    }
    assert!(killed * 10 > healed.len() * 8, "{killed} of {} were killed", healed.len());
    let broken: Vec<_> = healed.iter().filter_map(|healed| healed.as_ref().err()).collect();
    let of = |what: fn(&stage::Healed) -> bool| healed.iter().flatten().filter(|healed| what(healed)).count();
    println!(
        "{} points, {killed} killed: {} went on to the end they would have had, {} ended with `interrupted` (the call may have been \
         made), {} had not begun; {} by a server; {} s",
        healed.len(),
        of(|healed| healed.is_whole),
        of(|healed| healed.is_interrupted),
        of(|healed| !healed.has_begun),
        of(|healed| healed.healer == Healer::Server),
        began.elapsed().as_secs()
    );
    assert!(broken.is_empty(), "{} broke a promise:\n{broken:#?}", broken.len());
}
