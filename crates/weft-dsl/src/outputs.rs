//! Checks that the outputs to which the texts of a canvas refer exist.

mod assignments;
mod expected;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use serde_json::Map;
use weft_core::component::{OutputSpec, Role};
use weft_core::suggest::misspelled;
use weft_core::value::listed;
use weft_core::{ComponentId, Json, NodeOutput, Reference};

use crate::assigned::{ASSIGNER, Assigned};
use crate::build::Built;
use crate::canvas::{Canvas, CanvasNode};
use crate::paths::prefixes;
use crate::problem::{Problem, ProblemList};
use crate::references::{NodeText, ReferencesWritten};
use crate::suggest::Suggester;
use crate::texts::MeantOutputs;

/// Names that begin with this are reserved for the engine; canvases read one of them.
const RESERVED: char = '_';
const ERROR: &str = "_ERROR";

/// The outputs of all nodes of a canvas.
pub(crate) struct CanvasOutputs<'a> {
    canvas: &'a Canvas,
    /// The globals of a new session.
    globals: &'a Map<String, Json>,
    nodes: HashMap<&'a ComponentId, &'a Built>,
    /// Outputs that follow from parameters, by name. There may be thousands, and as many references.
    named: HashMap<&'a ComponentId, HashMap<&'a str, KnownOutput<'a>>>,
    /// Outputs that other nodes write: an assigner may create an output in another component. Those that such a node
    /// also reads are in `assigned` only.
    written: HashMap<&'a ComponentId, HashSet<&'a str>>,
    /// The globals that nodes change.
    changed: HashSet<&'a str>,
    assigned: &'a Assigned<'a>,
    /// Number of names written by others that may still be compared with existing ones.
    looks_left: Cell<usize>,
}

/// An existing output.
struct KnownOutput<'a> {
    output: &'a NodeOutput,
    /// Its members, as far as they are known.
    members: Option<HashSet<&'a str>>,
}

impl<'a> KnownOutput<'a> {
    fn new(output: &'a NodeOutput) -> Self {
        let members = output.members.as_ref();
        Self { output, members: members.map(|members| members.iter().map(String::as_str).collect()) }
    }
}

/// Why a reference reads nothing.
enum Missing<'a> {
    Output(&'a str),
    /// A missing member of an output whose members are known.
    Member {
        output: &'a NodeOutput,
        member: &'a str,
    },
    /// A step into an output whose value cannot have such a member.
    Step {
        output: &'a str,
        kind: &'static str,
        step: &'a str,
    },
}

impl<'a> CanvasOutputs<'a> {
    /// Indexes the nodes.
    pub(crate) fn new(
        canvas: &'a Canvas,
        globals: &'a Map<String, Json>,
        built: &'a [Built],
        assigned: &'a Assigned<'a>,
    ) -> Self {
        let mut written: HashMap<_, HashSet<&str>> = HashMap::new();
        let mut changed = HashSet::new();
        for reference in built.iter().flat_map(|built| &built.shape().changes) {
            match reference {
                Reference::Output { component, path } => {
                    written.entry(component).or_default().insert(path);
                }
                Reference::Global(name) => {
                    changed.insert(&**name);
                }
            }
        }
        let named = |built: &'a Built| {
            let outputs = built.shape().outputs.named.iter();
            (
                &built.draft.id,
                outputs.map(|output| (output.name.as_str(), KnownOutput::new(output))).collect(),
            )
        };
        let nodes = built.iter().map(|built| (&built.draft.id, built)).collect();
        let named = built.iter().map(named).collect();
        let looks_left = Cell::new(LOOKS_MAX);
        Self { canvas, globals, nodes, named, written, changed, assigned, looks_left }
    }

    /// Reports a node's references to outputs that the components they name do not have.
    pub(crate) fn check(&self, text: NodeText<'_>, suggester: &mut Suggester, problems: &mut ProblemList) {
        let node = text.node;
        let Some(built) = self.nodes.get(&node.id) else { return };
        let shape = &built.draft.shape;
        self.check_retries(built, node, suggester, problems);
        self.check_expected(built, text, problems);
        if built.sound && node.is_a(ASSIGNER) {
            self.check_assignments(text, problems);
        }
        let collected = shape.collects.iter().map(|(_, reference)| reference);
        let read: Vec<&Reference> = shape.reads.all().chain(collected).collect();
        // Most nodes end here: finding the places parses all of their texts again.
        if built.sound && !read.iter().any(|reference| self.missing(reference).is_some()) {
            return;
        }
        // The error that it could not be built is reported already; guessing references from its texts would
        // only add to that.
        if !built.sound && problems.is_full() {
            return;
        }
        let written = ReferencesWritten::of(self.canvas, text);
        let mut references: Vec<Reference> = read.into_iter().cloned().collect();
        if !built.sound {
            // For a node that could not be built, the references are those found in its texts.
            references.extend(written.all().map(Reference::of_name));
        }
        // The places come in hash map order; the findings should be the same every time.
        references.sort_by_cached_key(ToString::to_string);
        references.dedup();
        for reference in &references {
            let Some((of, missing)) = self.missing(reference) else { continue };
            let name = reference.to_string();
            let pointer = if problems.is_full() { "" } else { written.place(&name) };
            let problem = describe(reference, of, &missing, pointer, suggester);
            let owner = if problems.is_full() { node } else { written.owner(&name) };
            problems.add(problem.about(&owner.id, &owner.name));
        }
    }

    /// Reports outputs named in a node's `retry_if` that the node does not have. They are looked up by their
    /// full names.
    fn check_retries(
        &self,
        built: &Built,
        node: &CanvasNode,
        suggester: &mut Suggester,
        problems: &mut ProblemList,
    ) {
        let Some(shape) = built.whole_shape() else { return };
        let by_type = |name: &str| always(built).any(|output| output.name == name);
        let known = |name: &str| {
            by_type(name) || self.named.get(&node.id).is_some_and(|named| named.contains_key(name))
        };
        for (pointer, name) in
            shape.retry_outputs.iter().filter(|(_, name)| !shape.outputs.open && !known(name))
        {
            let reference = Reference::Output { component: node.id.clone(), path: name.as_str().into() };
            let pointer = format!("{}{pointer}", node.place.params);
            let problem = describe(&reference, built, &Missing::Output(name), &pointer, suggester);
            problems.add(problem.about(&node.id, &node.name));
        }
    }

    /// Whether the value may come from something other than the component itself: a default value after a
    /// failure, or an assigner.
    fn may_be_other(&self, of: &Built, path: &str) -> bool {
        of.draft.exception.default.is_some() || self.is_written(&of.draft.id, path)
    }

    /// Whether another node writes an output that a path leads to or into.
    fn is_written(&self, component: &ComponentId, path: &str) -> bool {
        let by_built = self.written.get(component);
        let is_by = |way: &str| {
            by_built.is_some_and(|paths| paths.contains(way)) || self.assigned.writes(component.as_str(), way)
        };
        beginnings(path).any(is_by)
    }

    /// Returns the step of a path that leads nowhere in an output of this type.
    fn step<'r>(
        &self,
        of: &Built,
        path: &'r str,
        output: &'r str,
        kind: &'static str,
    ) -> Option<Missing<'r>> {
        let step = path.get(output.len() + 1..)?.split('.').next()?;
        let nothing = match kind {
            "number" | "integer" | "boolean" => true,
            "array" => step.parse::<i64>().is_err(),
            // A text may contain JSON, into which a path may lead.
            _ => false,
        };
        (nothing && !self.may_be_other(of, path)).then_some(Missing::Step { output, kind, step })
    }

    fn missing<'r>(&self, reference: &'r Reference) -> Option<(&'a Built, Missing<'r>)>
    where
        'a: 'r,
    {
        let Reference::Output { component, path } = reference else { return None };
        let of = *self.nodes.get(component)?;
        let draft = &of.draft;
        // Nothing is known about a node that could not be built.
        if of.whole_shape().is_none_or(|shape| shape.outputs.open) {
            return None;
        }
        if path.starts_with(RESERVED) {
            let slip = **path != *ERROR && misspelled(path, [ERROR]).is_some();
            return slip.then_some((of, Missing::Output(path)));
        }
        let leads_to =
            |name: &str| path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let named = self.named.get(component);
        let known = named.and_then(|named| beginnings(path).find_map(|name| named.get(name)));
        if let Some(KnownOutput { output, members }) = known {
            if let Some(step) = self.step(of, path, &output.name, output.kind) {
                return Some((of, step));
            }
            let member = path.get(output.name.len() + 1..)?.split('.').next()?;
            let known = members.as_ref()?.contains(member);
            return (!known).then_some((of, Missing::Member { output, member }));
        }
        let by_type = always(of).find(|output| leads_to(output.name));
        if let Some(output) = by_type {
            return self.step(of, path, output.name, output.kind).map(|step| (of, step));
        }
        // The engine stores a default value there when the node fails, whatever the node's type.
        let by_default = draft.exception.default.is_some() && leads_to("result");
        let name = path.split('.').next().unwrap_or(path);
        // A Loop declares its variables: writing to another one changes nothing in it.
        let is_loop = draft.spec.role == Role::Repeat;
        let by_others = !is_loop && self.is_written(component, path) && !self.is_slip(of, name);
        let known = by_default || by_others;
        (!known).then_some((of, Missing::Output(name)))
    }

    /// Whether a name that another component writes to looks like a misspelled existing one.
    fn is_slip(&self, of: &Built, name: &str) -> bool {
        let Some(left) = self.looks_left.get().checked_sub(1) else { return false };
        self.looks_left.set(left);
        let by_type = of.draft.spec.outputs.iter().map(|output| output.name);
        let named = of.shape().outputs.named.iter().map(|output| output.name.as_str());
        misspelled(name, by_type.chain(named).take(COMPARED_MAX)).is_some()
    }
}

impl MeantOutputs for CanvasOutputs<'_> {
    fn main(&self, component: &str) -> Option<&str> {
        let of = *self.nodes.get(&ComponentId::from(component))?;
        if !of.shape().outputs.without.is_empty() {
            return Some(of.shape().main_output);
        }
        let by_type = always(of).map(|output| output.name).next();
        by_type.or_else(|| of.draft.shape.outputs.named.first().map(|output| output.name.as_str()))
    }

    fn has(&self, component: &str, path: &str) -> bool {
        let reference = Reference::Output { component: component.into(), path: path.into() };
        self.missing(&reference).is_none()
    }
}

/// Maximum number of names per canvas that are compared with the outputs of the component they name.
// Comparing two names takes thousands of steps, and a canvas has room for a hundred thousand references.
const LOOKS_MAX: usize = 1_000;
/// Maximum number of a component's outputs compared with a name.
const COMPARED_MAX: usize = 256;

/// Returns the outputs of a node's type that the node sets.
fn always(of: &Built) -> impl Iterator<Item = &OutputSpec> + Clone {
    let without = of.shape().outputs.without;
    of.draft.spec.outputs.iter().filter(move |output| !output.optional && !without.contains(&output.name))
}

/// Returns the prefixes of a path that end before a dot, and the whole path.
fn beginnings(path: &str) -> impl Iterator<Item = &str> {
    prefixes(path).chain(std::iter::once(path))
}

fn describe(
    reference: &Reference,
    of: &Built,
    missing: &Missing<'_>,
    pointer: &str,
    suggester: &mut Suggester,
) -> Problem {
    let draft = &of.draft;
    match missing {
        Missing::Step { output, kind, step } => {
            let is = match *kind {
                "array" => "a list",
                "boolean" => "true or false",
                _ => "a number",
            };
            let message =
                format!("`{reference}` is empty: the output `{output}` is {is} and has no member `{step}`");
            let place = if *kind == "array" { ".0" } else { "" };
            Problem::warning("unknown-output", pointer, message)
                .help(format!("write `{}@{output}{place}`", draft.id))
        }
        Missing::Member { output, member } => {
            let members = output.members.iter().flatten().map(String::as_str);
            let message =
                format!("`{reference}` is empty: the output `{}` has no member `{member}`", output.name);
            let listed = listed(members.clone().take(LISTED_MAX));
            Problem::warning("unknown-output", pointer, message)
                .help(format!("the members are {listed}"))
                .maybe_help(suggester.did_you_mean(member, members))
        }
        Missing::Output(name) => {
            let is_of_type =
                |named: &NodeOutput| draft.spec.outputs.iter().any(|output| *output.name == *named.name);
            let asked_for = |output: &&OutputSpec| output.optional && output.name == *name;
            let known = always(of)
                .map(|output| output.name)
                .chain(of.shape().outputs.named.iter().map(|output| output.name.as_str()));
            let guessed = known.clone().chain([ERROR]);
            let message = format!("`{reference}` is empty: `{}` has no output `{name}`", draft.id);
            let problem = Problem::warning("unknown-output", pointer, message);
            if let Some(output) = draft.spec.outputs.iter().find(asked_for) {
                return problem
                    .help(format!("it would hold {}, but the node does not request it", output.summary));
            }
            // A form: free text typed into it is in none of its outputs.
            let by_form = draft.spec.role == Role::Pause && of.shape().outputs.named.iter().all(is_of_type);
            match known.clone().next() {
                _ if by_form => problem.help(
                    "declare a field of this name in `inputs`; the answer to a form without fields is `{sys.query}`",
                ),
                None if draft.spec.role == Role::Repeat => {
                    problem.help("it has no variables: declare them in `loop_variables`")
                }
                None => problem.help("it has no outputs: refer to another component"),
                Some(_) => problem.help(format!("its outputs are {}", listed(known.take(LISTED_MAX)))),
            }
            .maybe_help(suggester.did_you_mean(name, guessed))
        }
    }
}

/// Maximum number of names listed.
const LISTED_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::NAMES_MAX;

    #[test]
    fn every_dotted_prefix_of_a_path_is_listed() {
        let of = |path| beginnings(path).collect::<Vec<_>>();
        assert_eq!(of("content"), ["content"]);
        assert_eq!(of("a.b.c"), ["a", "a.b", "a.b.c"]);
        assert_eq!(of(&".".repeat(1_000)).len(), NAMES_MAX + 1);
    }
}
