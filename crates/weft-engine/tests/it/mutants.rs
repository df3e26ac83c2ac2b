//! Every sample with one generated mistake in it: `check` reports it, or it makes no difference.
//!
//! A mutant for which `check` reports nothing new is run as the sample is. Everything that it shows and every
//! request to models and the web is compared. `cargo xtask mutants` goes through all of them.

mod declared;
mod mistakes;
mod subjects;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use weft_core::{Catalog, Json};
use weft_dsl::{CompileOptions, Plan, Problem, compile, load};

use self::mistakes::{Mutant, Sort, mutants};
use self::subjects::Subject;

/// A normal test run checks one in this many mutants.
const EVERY: usize = 16;

/// The outcome of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// `check` reports something that it does not report for the sample.
    Named,
    /// It behaves the same.
    Same,
    /// It behaves differently, and nobody could know that this was not intended.
    Meant(&'static str),
    /// It behaves differently, and nothing was reported.
    Missed,
}

/// The diagnostics of a canvas, and its plan.
fn checked(catalog: &Catalog, canvas: &Json) -> (HashSet<String>, Option<Arc<Plan>>) {
    let told = |problem: Problem| format!("{} {}", problem.code, problem.message);
    let found = load(canvas.to_string().as_bytes())
        .and_then(|canvas| compile(&canvas, catalog, &CompileOptions::default()));
    match found {
        Ok(found) => (found.warnings.into_iter().map(told).collect(), Some(Arc::new(found.plan))),
        Err(problems) => (problems.into_iter().map(told).collect(), None),
    }
}

/// A sample, its diagnostics, and its behaviour.
struct Original<'a> {
    subject: &'a Subject,
    catalog: &'a Catalog,
    told: HashSet<String>,
    does: String,
}

impl<'a> Original<'a> {
    fn new(subject: &'a Subject, catalog: &'a Catalog) -> Self {
        let (told, plan) = checked(catalog, &subject.canvas);
        assert!(told.is_empty() || subject.is_drawn_by_others(), "{}: {told:?}", subject.name);
        let does = subject.run(&plan.unwrap_or_else(|| panic!("{} does not run", subject.name)));
        Self { subject, catalog, told, does }
    }

    fn judge(&self, mutant: &Mutant) -> Verdict {
        let canvas = mutant.of(&self.subject.canvas);
        let (told, plan) = checked(self.catalog, &canvas);
        if told.iter().any(|problem| !self.told.contains(problem)) {
            return Verdict::Named;
        }
        let does = catch_unwind(AssertUnwindSafe(|| plan.map(|plan| self.subject.run(&plan))));
        match (does.ok().flatten(), mutant.reason) {
            (Some(does), _) if does == self.does => Verdict::Same,
            (_, Some(reason)) => Verdict::Meant(reason),
            (_, None) => Verdict::Missed,
        }
    }
}

/// Counts by kind of mistake and outcome.
#[derive(Default)]
struct Count {
    made: usize,
    by: BTreeMap<(Sort, &'static str), usize>,
    meant: BTreeMap<&'static str, usize>,
    missed: Vec<String>,
}

impl Count {
    fn add(&mut self, subject: &Subject, mutant: &Mutant, verdict: Verdict) {
        self.made += 1;
        let word = match verdict {
            Verdict::Named => "named",
            Verdict::Same => "same",
            Verdict::Meant(reason) => {
                *self.meant.entry(reason).or_default() += 1;
                "meant"
            }
            Verdict::Missed => {
                self.missed.push(format!("{} {}: {}", mutant.sort.name(), subject.name, mutant.what));
                "missed"
            }
        };
        *self.by.entry((mutant.sort, word)).or_default() += 1;
    }

    fn table(&self) -> String {
        let mut table =
            "| what is wrong | mutants | named | the same | a choice | missed |\n|---|---|---|---|---|---|\n"
                .to_owned();
        for sort in Sort::ALL {
            let of = |word: &'static str| self.by.get(&(sort, word)).copied().unwrap_or_default();
            let counts = ["named", "same", "meant", "missed"].map(of);
            let sum: usize = counts.iter().sum();
            let [named, same, meant, missed] = counts;
            writeln!(table, "| {} | {sum} | {named} | {same} | {meant} | {missed} |", sort.name()).unwrap();
        }
        for (reason, count) in &self.meant {
            writeln!(table, "{count:6} {reason}").unwrap();
        }
        table
    }
}

/// Checks one in this many mutants of these canvases.
fn look(subjects: &[Subject], every: usize) -> Count {
    let catalog = weft_components::catalog();
    let mut count = Count::default();
    let mut turn = 0;
    for subject in subjects {
        let original = Original::new(subject, &catalog);
        for mutant in mutants(&catalog, &subject.canvas) {
            turn += 1;
            if turn % every == 0 {
                count.add(subject, &mutant, original.judge(&mutant));
            }
        }
    }
    count
}

#[test]
fn a_mistake_in_a_sample_is_reported_or_has_no_effect() {
    let count = look(&subjects::samples(), EVERY);
    println!("{}", count.table());
    assert!(count.made * EVERY >= 20_000, "{} mutants", count.made);
    assert!(count.missed.is_empty(), "{}", count.missed.join("\n"));
}

/// For `cargo xtask mutants`.
#[test]
#[ignore = "goes through all of them"]
fn all() {
    let wanted = std::env::var("WEFT_MUTANTS_CANVAS").ok();
    let every = std::env::var("WEFT_MUTANTS_EVERY").map_or(1, |every| every.parse().unwrap());
    let (begun, mut all) = (Instant::now(), subjects::samples());
    all.extend(subjects::shared());
    all.retain(|subject| wanted.as_ref().is_none_or(|wanted| subject.name == *wanted));
    let count = look(&all, every);
    println!("{}", count.table());
    println!("{} mutants of {} canvases in {} s", count.made, all.len(), begun.elapsed().as_secs());
    assert!(count.missed.is_empty(), "{} are not found:\n{}", count.missed.len(), count.missed.join("\n"));
}
