//! What the linker found out about the graph → problems with a place and words.

use std::collections::{HashMap, HashSet};

use weft_core::component::Role;
use weft_core::params::is_empty;
use weft_core::value::listed;
use weft_core::{ComponentId, ParamProblem, Reference};

use crate::apart;
use crate::assigned::Assigned;
use crate::build::Builder;
use crate::canvas::CanvasNode;
use crate::link::{Finding, Linked, Way};
use crate::lost::Lost;
use crate::plan::{NodeIx, PlanScope};
use crate::pointer::join;
use crate::problem::{PARAMETER_WARNING, Problem, ProblemList, WILL_FAIL};
use crate::references::{NodeText, ReferencesWritten};
use crate::targets::target_place;

/// How many nodes of a cycle are named.
const CYCLE_NAMES_MAX: usize = 8;

/// Reports the findings of a linked graph.
pub(crate) struct Reporter<'a> {
    /// Knows the canvas.
    pub builder: &'a Builder<'a>,
    /// The graph.
    pub linked: &'a Linked,
    /// Nodes whose component could not be built: nothing is said about what they do.
    pub unsound: &'a HashSet<NodeIx>,
    /// Further entries, which are reported as such.
    pub extra_entries: &'a HashSet<ComponentId>,
    /// What is said of the nodes that no way leads to.
    pub lost: &'a Lost,
    /// What the canvas may change while it runs.
    pub assigned: &'a Assigned<'a>,
}

impl Reporter<'_> {
    /// Reports everything.
    pub(crate) fn report(&self, problems: &mut ProblemList) {
        let findings = &self.linked.findings;
        let without_turn: HashMap<NodeIx, &str> = findings
            .iter()
            .filter_map(|finding| match finding {
                // What keeps those from running is named, and then they do run.
                Finding::Unreachable(node) if self.lost.by_broken_way.contains(node) => None,
                Finding::Unreachable(node) => Some((*node, "since nothing leads to its component")),
                Finding::OnlyCalled(node) => Some((*node, "since its component only runs as a tool")),
                _ => None,
            })
            .collect();
        self.unsupported(problems);
        self.unfilled(&without_turn, problems);
        self.leaves_at_once(problems);
        let mut places = ReferencePlaces { reporter: self, known: HashMap::new() };
        for finding in findings {
            let problem = match finding {
                Finding::Unreachable(node) => self.unreachable(*node),
                Finding::OnlyCalled(_) => None,
                Finding::EndlessCycle(nodes) => self.endless_cycle(nodes),
                Finding::NoStart(node) => self.no_start(*node),
                Finding::SeveralStarts(node) => Some(self.several_starts(*node)),
                Finding::LeavesNothing(node) => Some(self.leaves_nothing(*node)),
                Finding::CrossesFrame(from, to, way) => Some(self.crosses_frame(*from, *to, *way, problems)),
                Finding::ReadsLater(node, reference) => {
                    let message = format!(
                        "`{reference}` only has a value after this component has run: it reads as empty"
                    );
                    let source = reference.component().and_then(|id| self.linked.by_id.get(id)).copied();
                    let help = if source == Some(*node) {
                        "refer to another component: this is its own output"
                    } else if source
                        .is_some_and(|ix| self.linked.frames_around(ix).any(|frame| frame == *node))
                    {
                        "refer to a component before this one: its body runs after it has read this"
                    } else {
                        "connect that component so that it leads here, or refer to another one"
                    };
                    Some(self.read(&mut places, *node, reference, message).help(help))
                }
            };
            problems.extend(problem);
        }
        self.ways_back_to_the_start(problems);
        self.reads_of_what_never_runs(&without_turn, &mut places, problems);
        self.reads_of_the_last_round(&mut places, problems);
        self.collected_from_elsewhere(&mut places, problems);
        self.reads_of_other_branches(&mut places, problems);
        self.conditions_that_never_change(&mut places, problems);
    }

    fn node(&self, ix: NodeIx) -> Option<&CanvasNode> {
        self.builder.canvas.nodes.get(&self.linked.nodes[ix].id)
    }

    fn place(&self, ix: NodeIx, place: impl Fn(&CanvasNode) -> String) -> String {
        self.node(ix).map(place).unwrap_or_default()
    }

    fn about(&self, problem: Problem, ix: NodeIx) -> Problem {
        let node = &self.linked.nodes[ix];
        problem.about(&node.id, &node.name)
    }

    /// Reports what this build cannot run: a run stops there, and some stop in any case.
    fn unsupported(&self, problems: &mut ProblemList) {
        // The top level only: a body may not run a single round.
        let certain = self.linked.scopes.first().map(|top| self.certain(top)).unwrap_or_default();
        for (ix, node) in self.linked.nodes.iter().enumerate() {
            let Some(reason) = &node.shape.unsupported else { continue };
            let pointer = self.place(ix, |node| node.place.kind.clone());
            // Also then a warning and no error: a canvas is drawn and saved before all of it can run.
            let problem = if certain.contains(&ix) && !node.exception.catches() {
                Problem::warning(WILL_FAIL, pointer, format!("{reason}, and every run reaches it"))
                    .help("remove it, or set `exception_default_value` to a value that replaces its result")
            } else {
                Problem::warning("unsupported-component", pointer, reason)
                    .help("the run fails when it reaches this component")
            };
            problems.add(self.about(problem, ix));
        }
    }

    /// Reports what is not filled in of nodes that have a turn of their own.
    fn unfilled(&self, without_turn: &HashMap<NodeIx, &str>, problems: &mut ProblemList) {
        for (ix, node) in self.linked.nodes.iter().enumerate() {
            if without_turn.contains_key(&ix) {
                continue;
            }
            for ParamProblem { pointer, message, help, .. } in &node.shape.unfilled {
                let place = self.place(ix, |node| format!("{}{pointer}", node.place.params));
                let problem = Problem::warning(PARAMETER_WARNING, place, message).maybe_help(help.clone());
                problems.add(self.about(problem, ix));
            }
        }
    }

    /// Reports what ends a Loop in its first round.
    fn leaves_at_once(&self, problems: &mut ProblemList) {
        for scope in &self.linked.scopes {
            let owner = scope.owner.map(|owner| &self.linked.nodes[owner]);
            let Some(owner) = owner.filter(|owner| owner.role == Role::Repeat) else { continue };
            let mut certain: Vec<NodeIx> = self.certain(scope).into_iter().collect();
            // The order of a hash set is random; the findings should be the same every time.
            certain.sort_unstable();
            for ix in certain.into_iter().filter(|&ix| self.linked.nodes[ix].role == Role::Leave) {
                let message = format!("every round gets here, so `{}` ends in its first round", owner.id);
                let problem = Problem::warning(
                    "leaves-at-once",
                    self.place(ix, |node| node.place.node.clone()),
                    message,
                );
                let help = "lead to it from a branch of a Switch or Categorize";
                problems.add(self.about(problem.help(help), ix));
            }
        }
    }

    /// The nodes that every run, or every round of a body, gets to: what lies behind the start without a branch, a body
    /// or something that cannot run in between.
    fn certain(&self, scope: &PlanScope) -> HashSet<NodeIx> {
        let mut certain = HashSet::new();
        let mut open = vec![scope.start];
        while let Some(ix) = open.pop() {
            // A body without a start has none of its nodes there.
            let Some(node) = self.linked.nodes.get(ix) else { continue };
            let goes_on = node.shape.branches.is_none()
                && !self.unsound.contains(&ix)
                && (node.shape.unsupported.is_none() || node.exception.default.is_some());
            if !certain.insert(ix) || !goes_on {
                continue;
            }
            // An edge that is only taken after a failure makes nothing certain.
            let ordinary =
                node.outs.iter().filter_map(|out| scope.edges.get(*out)).filter(|edge| edge.ordinary);
            open.extend(ordinary.map(|edge| edge.to));
        }
        certain
    }

    fn unreachable(&self, ix: NodeIx) -> Option<Problem> {
        // It has been said of them that they never run.
        if self.extra_entries.contains(&self.linked.nodes[ix].id) {
            return None;
        }
        let behind = match *self.lost.heads.get(&ix)? {
            0 => String::new(),
            1 => ", and neither does the one after it".to_owned(),
            count => format!(", and neither do the {count} after it"),
        };
        let pointer = self.place(ix, |node| node.place.node.clone());
        let message = format!("nothing leads to this component: it never runs{behind}");
        let problem = Problem::warning("unreachable", pointer, message);
        let help = if self.is_led_to_by_upstream_only(ix) {
            "add it to the `downstream` of the component before it: `upstream` is not read"
        } else {
            "connect it or remove it"
        };
        Some(self.about(problem.help(help), ix))
    }

    fn is_led_to_by_upstream_only(&self, ix: NodeIx) -> bool {
        let components = self.builder.canvas.dsl().get("components");
        let written = components.and_then(|components| components.get(self.linked.nodes[ix].id.as_str()));
        written.and_then(|written| written.get("upstream")).is_some_and(|from| !is_empty(from))
    }

    fn endless_cycle(&self, cycle: &[NodeIx]) -> Option<Problem> {
        // An error keeps the canvas from running, so it is one only where there is no way out at all.
        if cycle.iter().any(|&ix| self.ends_a_cycle(ix)) {
            return None;
        }
        let first = *cycle.iter().min()?;
        let names = listed(cycle.iter().take(CYCLE_NAMES_MAX).map(|&ix| &self.linked.nodes[ix].id));
        let more = if cycle.len() > CYCLE_NAMES_MAX { ", …" } else { "" };
        let message = format!("this cycle never ends: no branch leads out of {names}{more}");
        let pointer = self.place(first, |node| match node.downstream.first() {
            Some(link) => link.pointer.clone(),
            None => node.place.node.clone(),
        });
        let help = "add a Switch or Categorize with a branch that leads out of the cycle, or use a Loop";
        Some(self.about(Problem::error("endless-cycle", pointer, message).help(help), first))
    }

    /// Reports what leads back to where a run has begun, unless it is a part of a cycle without an end, which is named. Such
    /// a way is taken like any other, but those who draw one often expect the next question at its end.
    fn ways_back_to_the_start(&self, problems: &mut ProblemList) {
        let Some(top) = self.linked.scopes.first() else { return };
        let Some(start) = self.linked.nodes.get(top.start).map(|start| &start.id) else { return };
        let cycles = self.linked.findings.iter().filter_map(|finding| match finding {
            Finding::EndlessCycle(cycle) => Some(cycle).filter(|cycle| self.endless_cycle(cycle).is_some()),
            _ => None,
        });
        let endless: HashSet<&NodeIx> = cycles.flatten().collect();
        let is_said = |ix: &NodeIx| endless.contains(ix) || self.unsound.contains(ix);
        for edge in top.edges.iter().filter(|edge| edge.to == top.start && !is_said(&edge.from)) {
            let way = if edge.ordinary { self.linked.ordinary_way(edge.from) } else { Way::Failure };
            let message = format!(
                "{} leads back to `{start}`, the start of the run: it returns the same values and asks for no new input",
                words(way)
            );
            let pointer = if problems.is_full() {
                String::new()
            } else {
                // Searches all branches of the node, in vain for a problem that is only counted.
                self.place(edge.from, |node| self.written(node, start, edge.from, way))
            };
            let help =
                format!("connect it to what follows `{start}`, or to a UserFillUp that asks for new input");
            let problem = Problem::warning("back-to-start", pointer, message).help(help);
            problems.add(self.about(problem, edge.from));
        }
    }

    /// Whether a run may end at this node although no edge leads out of its cycle.
    fn ends_a_cycle(&self, ix: NodeIx) -> bool {
        let node = &self.linked.nodes[ix];
        let branches = node.shape.branches.as_deref();
        let branch_to_nothing = branches.is_some_and(|all| all.iter().any(|(_, ids)| ids.is_empty()));
        let only_failure_goes_on =
            !node.exception.goto.is_empty() && self.node(ix).is_some_and(|node| node.downstream.is_empty());
        // A person who is asked can stay away, and the run stops at what this build cannot run.
        let stops =
            node.role == Role::Pause || node.shape.unsupported.is_some() || self.unsound.contains(&ix);
        stops || branch_to_nothing || only_failure_goes_on
    }

    fn no_start(&self, ix: NodeIx) -> Option<Problem> {
        if self.unsound.contains(&ix) && self.linked.nodes[ix].kind.is_empty() {
            return None;
        }
        let kind = &self.linked.nodes[ix].kind;
        let message = format!("the {kind} has no body: no {kind}Item names it as its parent");
        let pointer = self.place(ix, |node| node.place.node.clone());
        let help = format!("add one: {kind}Item with `\"parent_id\": \"{}\"`", self.linked.nodes[ix].id);
        Some(self.about(Problem::error("frame-without-start", pointer, message).help(help), ix))
    }

    fn several_starts(&self, ix: NodeIx) -> Problem {
        let kind = &self.linked.nodes[ix].kind;
        let message = format!("the {kind} has more than one {kind}Item: the first one counts");
        let pointer = self.place(ix, |node| node.place.node.clone());
        self.about(Problem::warning("several-starts", pointer, message), ix)
    }

    fn leaves_nothing(&self, ix: NodeIx) -> Problem {
        let pointer = self.place(ix, |node| node.place.node.clone());
        let problem = Problem::error(
            "leaves-nothing",
            pointer,
            "this component is not inside a Loop that it could leave",
        );
        self.about(problem.help("put it into the body of a Loop"), ix)
    }

    /// Of an edge that is always there only the drawing is wrong. A branch or the way after a failure
    /// would end in nothing, and the run would look as if all had gone well.
    fn crosses_frame(&self, from: NodeIx, to: NodeIx, way: Way, problems: &ProblemList) -> Problem {
        let target = &self.linked.nodes[to].id;
        let what = words(way);
        let message =
            format!("{what} to `{target}` leads into or out of the body of a frame: it is never taken");
        let pointer = if problems.is_full() {
            String::new()
        } else {
            self.place(from, |node| self.written(node, target, from, way))
        };
        let help = match way {
            Way::Always => "a body ends by itself; what comes after it follows the Iteration or Loop",
            Way::Branch => {
                "connect it to a component of the same body; what comes after that follows the Iteration or Loop"
            }
            Way::Failure => {
                "connect it to a component of the same body, or set at the Iteration or Loop what happens \
                 after a failure in it"
            }
        };
        let problem = match way {
            Way::Always => Problem::warning("crosses-frame", pointer, message),
            Way::Branch | Way::Failure => Problem::error("crosses-frame", pointer, message),
        };
        self.about(problem.help(help), from)
    }

    /// Where a way is written.
    fn written(&self, node: &CanvasNode, target: &ComponentId, from: NodeIx, way: Way) -> String {
        let branches = || self.linked.nodes[from].shape.branches.iter().flatten();
        let place = match way {
            Way::Always => None,
            Way::Branch => branches().find_map(|(pointer, ids)| {
                let index = ids.iter().position(|id| id == target)?;
                Some(target_place(node, pointer, index, target))
            }),
            Way::Failure => Some(target_place(node, "/exception_goto", 0, target)),
        };
        let link = || node.downstream.iter().find(|link| link.to == *target).map(|link| link.pointer.clone());
        place.or_else(link).unwrap_or_else(|| node.place.node.clone())
    }

    fn read(
        &self,
        places: &mut ReferencePlaces<'_>,
        ix: NodeIx,
        reference: &Reference,
        message: String,
    ) -> Problem {
        self.about(Problem::warning("reads-nothing", places.find(ix, reference), message), ix)
    }

    fn reads_of_what_never_runs(
        &self,
        never: &HashMap<NodeIx, &str>,
        places: &mut ReferencePlaces<'_>,
        problems: &mut ProblemList,
    ) {
        if never.is_empty() {
            return;
        }
        for (ix, node) in self.linked.nodes.iter().enumerate().filter(|(ix, _)| !never.contains_key(ix)) {
            for read in node.reads.iter().chain(node.alternative_reads.iter().flatten()) {
                if let Some(why) = read.node.and_then(|source| never.get(&source)) {
                    let message = format!("`{}` never has a value, {why}: it reads as empty", read.key);
                    let help = "connect that component, or refer to another one";
                    problems.add(self.read(places, ix, &read.reference, message).help(help));
                }
            }
        }
    }

    /// Outside of an Iteration there is one value of what its body gives in every round.
    fn reads_of_the_last_round(&self, places: &mut ReferencePlaces<'_>, problems: &mut ProblemList) {
        if !self.linked.nodes.iter().any(|node| node.role == Role::Each) {
            return;
        }
        for (ix, node) in self.linked.nodes.iter().enumerate() {
            for read in node.reads.iter().chain(node.alternative_reads.iter().flatten()) {
                let around = read.node.into_iter().flat_map(|source| self.linked.frames_around(source));
                let left = around
                    .filter(|&frame| self.linked.nodes[frame].role == Role::Each && frame != ix)
                    .find(|&frame| !self.linked.frames_around(ix).any(|around| around == frame));
                let Some(frame) = left.map(|frame| &self.linked.nodes[frame].id) else { continue };
                let message =
                    format!("outside of `{frame}`, `{}` is the value of the last round only", read.key);
                let help = format!("collect the values in the `outputs` of `{frame}`, and refer to these");
                let problem =
                    Problem::warning("outside-iteration", places.find(ix, &read.reference), message);
                problems.add(self.about(problem.help(help), ix));
            }
        }
    }

    /// What an Iteration collects changes from round to round only inside of it.
    fn collected_from_elsewhere(&self, places: &mut ReferencePlaces<'_>, problems: &mut ProblemList) {
        for (ix, node) in self.linked.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Each) {
            for (name, reference) in &node.shape.collects {
                let source = reference.component().and_then(|id| self.linked.by_id.get(id)).copied();
                let Some(source) = source.filter(|&source| source != ix) else { continue };
                if self.linked.frames_around(source).any(|frame| frame == ix) {
                    continue;
                }
                let message = format!(
                    "`{reference}` is not inside `{}`, so rounds produce no values of their own",
                    node.id
                );
                // The same reference may stand in other parameters as well, where nothing is wrong with it.
                let place = self.collected_at(ix, name).unwrap_or_else(|| places.find(ix, reference));
                let problem = Problem::warning("outside-iteration", place, message);
                let help = "collect an output of a component inside it";
                problems.add(self.about(problem.help(help), ix));
            }
        }
    }

    /// Where it is written what an Iteration collects as one of its outputs.
    fn collected_at(&self, ix: NodeIx, output: &str) -> Option<String> {
        let node = self.node(ix)?;
        node.params.get("outputs")?.get(output)?.get("ref")?;
        Some(join(&join(&join(&node.place.params, "outputs"), output), "ref"))
    }

    /// A condition of a Loop on its own variables gives the same result before every round if nothing changes them.
    fn conditions_that_never_change(&self, places: &mut ReferencePlaces<'_>, problems: &mut ProblemList) {
        let starts = self.linked.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::RoundStart);
        for (ix, node) in starts {
            let Some(frame) = self.linked.frames_around(ix).next() else { continue };
            let owner = &self.linked.nodes[frame];
            if owner.role != Role::Repeat || self.assigned.may_change_outputs_of(owner.id.as_str()) {
                continue;
            }
            for read in node.reads.iter().filter(|read| read.node == Some(frame)) {
                let message = format!(
                    "nothing changes `{}`, so this condition gives the same result before every round",
                    read.key
                );
                let place = places.find(ix, &read.reference);
                let problem = Problem::warning(PARAMETER_WARNING, place, message);
                let help = "change the variable in the loop, with a VariableAssigner";
                problems.add(self.about(problem.help(help), frame));
            }
        }
    }

    fn reads_of_other_branches(&self, places: &mut ReferencePlaces<'_>, problems: &mut ProblemList) {
        for apart in apart::reads(self.linked, self.assigned) {
            let fork = &self.linked.nodes[apart.fork].id;
            let message = format!(
                "`{}` never has a value here, since its component is on another branch of `{fork}`: it reads as empty",
                apart.read.key
            );
            let help = "refer to a component that comes before the branches or is on this one";
            problems.add(self.read(places, apart.reader, &apart.read.reference, message).help(help));
        }
    }
}

/// A way in the words of a message.
fn words(way: Way) -> &'static str {
    match way {
        Way::Always => "the edge",
        Way::Branch => "the branch",
        Way::Failure => "the failure path",
    }
}

/// Finds where references are written; each node is searched once.
struct ReferencePlaces<'a> {
    reporter: &'a Reporter<'a>,
    known: HashMap<NodeIx, ReferencesWritten<'a>>,
}

impl ReferencePlaces<'_> {
    fn find(&mut self, ix: NodeIx, reference: &Reference) -> String {
        let reporter = self.reporter;
        let Some(node) = reporter.node(ix) else { return String::new() };
        let (canvas, names) = (reporter.builder.canvas, reporter.builder.names(node));
        let written =
            self.known.entry(ix).or_insert_with(|| ReferencesWritten::of(canvas, NodeText { node, names }));
        written.place(&reference.to_string()).to_owned()
    }
}
