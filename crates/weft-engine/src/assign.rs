//! Works out the values that assignments produce: all of a node's assignments apply, or none.

use std::sync::Arc;

use weft_core::assign::{check_depth, place};
use weft_core::reference::Inputs;
use weft_core::value::walk;
use weft_core::{Assignment, Error, Json, Operand, Outputs, Reference, Result};
use weft_dsl::plan::{NodeIx, PlannedRead};

use crate::machine::{Machine, RunningNode};
use crate::perform::too_much;
use crate::scope::{ScopeId, ScopeRun};
use crate::values::{encloses, settled};
use crate::weight::{outputs_weight, weight_of};

/// New values of globals and outputs, computed but not yet committed.
#[derive(Debug, Default)]
pub struct VariableChanges(Vec<(Root, Json)>);

/// A global, or an output of a node as seen from a scope.
#[derive(Clone, Debug, PartialEq)]
enum Root {
    Global(Arc<str>),
    /// The scope is the node's own, or an enclosing scope when the node ran in an inner round that is over.
    Output {
        scope: ScopeId,
        node: NodeIx,
        name: Arc<str>,
    },
}

/// The assignments of one activation while they are being applied.
struct AssignmentPass<'a> {
    machine: &'a Machine,
    scope: ScopeId,
    reads: &'a [PlannedRead],
    /// Used only for its limit on the size of the texts that the assignments build.
    texts: Inputs,
    changes: VariableChanges,
    /// Approximate size in bytes of each change, and the limit for all of them together.
    weights: Vec<usize>,
    values_max: usize,
}

impl Machine {
    /// Computes the values that a running activation's assignments produce. Later assignments see the results
    /// of earlier ones. Nothing changes until the activation is [`Machine::finished`]. All texts built along
    /// the way take at most `text_max` bytes together, and the new values take at most about `values_max`
    /// bytes at any time.
    ///
    /// # Errors
    /// `Invalid` when an assignment cannot be applied; the error names the variable. `QuotaExceeded` when a
    /// limit is exceeded.
    pub fn changes(
        &self,
        activation: u32,
        assignments: &[Assignment],
        text_max: usize,
        values_max: usize,
    ) -> Result<VariableChanges> {
        let Some(&RunningNode { scope, node, .. }) = self.running.get(&activation) else {
            return Ok(VariableChanges::default());
        };
        let reads = &self.plan.nodes[node].reads;
        let texts = Inputs::bounded(Default::default(), text_max);
        let (changes, weights) = (VariableChanges::default(), Vec::new());
        let mut work = AssignmentPass { machine: self, scope, reads, texts, changes, weights, values_max };
        for assignment in assignments {
            work.apply(assignment).map_err(|cause| {
                // The cause's help is kept: it says how the assignment has to be written.
                let message = format!("cannot change `{}`", assignment.target);
                let help = cause.help.clone();
                Error { help, ..Error::new(cause.kind, message).because(cause) }
            })?;
        }
        Ok(work.changes)
    }

    /// Number of bytes by which these changes would grow the values of the run.
    pub fn growth(&self, changes: &VariableChanges) -> usize {
        let old = |root: &Root| match root {
            Root::Global(name) => weight_of(self.globals.get(&**name)),
            Root::Output { scope, node, name } => {
                let (run, local) = (self.scopes.get(scope), self.plan.nodes[*node].local);
                let own = run.filter(|run| run.plan_scope == self.plan.nodes[*node].scope);
                let outputs = own.and_then(|run| run.nodes[local].outputs.as_deref());
                outputs.and_then(|outputs| outputs.get(name)).map_or(0, |old| weight_of([&*old.snapshot()]))
            }
        };
        let new: usize = changes.0.iter().map(|(_, value)| weight_of([value])).sum();
        new.saturating_sub(changes.0.iter().map(|(root, _)| old(root)).sum())
    }

    /// Stores the new values.
    pub(crate) fn commit(&mut self, changes: VariableChanges) {
        for (root, value) in changes.0 {
            match root {
                Root::Global(name) => {
                    let new = weight_of([&value]);
                    let old = self.globals.insert(name.to_string(), value);
                    self.replace_bytes(weight_of(&old), new);
                }
                Root::Output { scope, node, name } => {
                    let (plan_scope, local) = (self.plan.nodes[node].scope, self.plan.nodes[node].local);
                    let Some(run) = self.scopes.get_mut(&scope) else { continue };
                    if run.plan_scope == plan_scope {
                        let outputs = run.nodes[local].outputs.get_or_insert_default();
                        Arc::make_mut(outputs).set(&name, value);
                        self.weigh_node(scope, local);
                    // The node is in a body whose round is over: from here its last outputs are what is read.
                    } else if let Some(past) = run.past.get_mut(&node) {
                        Arc::make_mut(&mut past.outputs).set(&name, value);
                        let new = outputs_weight(&past.outputs);
                        let old = std::mem::replace(&mut past.bytes, new);
                        self.replace_bytes(old, new);
                    }
                }
            }
        }
    }
}

impl AssignmentPass<'_> {
    fn apply(&mut self, assignment: &Assignment) -> Result<()> {
        let operand = match &assignment.operand {
            Operand::Value(value) => value.clone(),
            Operand::Reference(reference) => self.read(reference),
            Operand::Text(template) => {
                let values = template.references().map(|name| (name.clone(), self.read(name).into()));
                Json::String(template.render(&self.texts.among(values))?)
            }
        };
        let (root, path) = self.root(&assignment.target)?;
        // Checks the depth first: otherwise values could nest too deep to be written as JSON again.
        check_depth(path, &operand)?;
        let at = self.changes.0.iter().position(|(known, _)| *known == root).unwrap_or_else(|| {
            // A copy: until all assignments of the node have succeeded, none of them may be visible.
            let whole = self.whole(&root);
            self.weights.push(weight_of([&whole]));
            self.changes.0.push((root, whole));
            self.changes.0.len() - 1
        });
        // A list that is appended to itself doubles each time, so its size is checked before it is built.
        let bytes = self.weights.iter().sum::<usize>().saturating_add(weight_of([&operand]));
        if bytes > self.values_max {
            return Err(too_much(self.values_max));
        }
        let (root, whole) = &mut self.changes.0[at];
        let slot = place(whole, &root.named(self.machine), path)?;
        // Moved, not cloned. On an error only this pass's copy has the
        // hole, and that is dropped with the pass.
        *slot = assignment.operator.apply(std::mem::take(slot), operand)?;
        self.weights[at] = weight_of([&*whole]);
        Ok(())
    }

    fn changed(&self, root: &Root) -> Option<&Json> {
        self.changes.0.iter().find(|(known, _)| known == root).map(|(_, value)| value)
    }

    /// Reads a value as the preceding assignments have left it.
    fn read(&self, reference: &Reference) -> Json {
        if let Ok((root, path)) = self.root(reference)
            && let Some(value) = self.changed(&root)
        {
            return if path.is_empty() { value.clone() } else { walk(value, path.split('.')) };
        }
        self.settled(reference)
    }

    fn settled(&self, reference: &Reference) -> Json {
        let known = self.reads.iter().find(|read| read.reference == *reference);
        let value = match known {
            Some(read) => settled(self.machine, self.scope, read),
            None => settled(self.machine, self.scope, &self.read_of(reference)),
        };
        (*value.snapshot()).clone()
    }

    fn read_of(&self, reference: &Reference) -> PlannedRead {
        let node = reference.component().and_then(|id| self.machine.plan.by_id.get(id)).copied();
        let same_pass =
            self.reads.iter().any(|read| read.node.is_some() && read.node == node && read.same_pass);
        PlannedRead { reference: reference.clone(), key: Arc::default(), node, same_pass }
    }

    /// Returns the value of a root that has not been changed yet.
    fn whole(&self, root: &Root) -> Json {
        match root {
            Root::Global(name) => self.machine.globals.get(&**name).cloned().unwrap_or_default(),
            Root::Output { node, name, .. } => {
                let component = self.machine.plan.nodes[*node].id.clone();
                self.settled(&Reference::Output { component, path: Arc::clone(name) })
            }
        }
    }

    /// Returns the whole value that a reference leads to or into, and the remaining path.
    fn root<'r>(&self, reference: &'r Reference) -> Result<(Root, &'r str)> {
        match reference {
            Reference::Global(_) if reference.secret().is_some() => {
                Err(Error::invalid("a canvas cannot change a secret"))
            }
            Reference::Global(name) => Ok(self.global(name)),
            Reference::Output { component, path } => {
                let Some(&node) = self.machine.plan.by_id.get(component) else {
                    return Err(Error::invalid(format!("there is no component `{component}`")));
                };
                let (scope, outputs) = self.holder(node).ok_or_else(|| {
                    Error::invalid(format!("`{component}` has not run: there is nothing to change"))
                })?;
                let known = |name: &str| {
                    let name = Root::Output { scope, node, name: name.into() };
                    self.changed(&name).is_some()
                };
                // The name of an output may contain dots: such an output takes precedence over a member of
                // one with a shorter name.
                let whole = outputs.is_some_and(|outputs| outputs.get(path).is_some()) || known(path);
                let (name, rest) = path.split_once('.').filter(|_| !whole).unwrap_or((path, ""));
                Ok((Root::Output { scope, node, name: name.into() }, rest))
            }
        }
    }

    /// `env.o.a` is the member `a` of `env.o`; the longest name that exists wins.
    fn global<'r>(&self, name: &'r str) -> (Root, &'r str) {
        let shorter: Vec<_> =
            weft_dsl::prefixes(name).map(|whole| (whole, &name[whole.len() + 1..])).collect();
        for (name, rest) in std::iter::once((name, "")).chain(shorter.into_iter().rev()) {
            let root = Root::Global(name.into());
            if self.machine.globals.contains_key(name) || self.changed(&root).is_some() {
                return (root, rest);
            }
        }
        (Root::Global(name.into()), "")
    }

    /// Returns the scope that holds a node's outputs, and those outputs if there are any.
    fn holder(&self, node: NodeIx) -> Option<(ScopeId, Option<&Outputs>)> {
        let plan = &self.machine.plan;
        let (plan_scope, local) = (plan.nodes[node].scope, plan.nodes[node].local);
        let up = |run: &ScopeRun| run.round.as_ref().map(|round| round.parent);
        let mut at = Some(self.scope);
        while let Some((scope, run)) = at.and_then(|id| Some((id, self.machine.scopes.get(&id)?))) {
            if run.plan_scope == plan_scope {
                return Some((scope, run.nodes[local].outputs.as_deref()));
            }
            if encloses(plan, run.plan_scope, plan_scope) {
                return run.past.get(&node).map(|past| (scope, Some(&*past.outputs)));
            }
            at = up(run);
        }
        None
    }
}

impl Root {
    fn named(&self, machine: &Machine) -> String {
        match self {
            Self::Global(name) => name.to_string(),
            Self::Output { node, name, .. } => format!("{}@{name}", machine.plan.nodes[*node].id),
        }
    }
}
