//! Reads and writes what references name.

use std::sync::Arc;

use weft_core::component::Role;
use weft_core::value::walk;
use weft_core::{Json, Outputs, Reference, Value};
use weft_dsl::plan::{NodeIx, Plan, Read};

use crate::machine::Machine;
use crate::scope::{NodeState, ScopeId, ScopeRun, Status};

/// The value of a reference, seen from a scope. What was never produced is null.
pub fn read(machine: &Machine, scope: ScopeId, read: &Read) -> Value {
    match &read.reference {
        Reference::Global(name) => global(machine, name),
        Reference::Output { path, .. } => {
            let Some(node) = read.node else { return Value::null() };
            match find(machine, scope, node) {
                Some(Found::Here(state)) => from_state(state, path, read),
                Some(Found::Past(outputs)) => from_outputs(outputs, path),
                None => Value::null(),
            }
        }
    }
}

enum Found<'a> {
    Here(&'a NodeState),
    Past(&'a Outputs),
}

/// Looks for a node in this scope and in those around it; or, for a node of a body further in, among
/// the rounds that are over of the innermost scope that holds both.
fn find(machine: &Machine, scope: ScopeId, node: NodeIx) -> Option<Found<'_>> {
    let plan_node = &machine.plan.nodes[node];
    let mut at = Some(scope);
    while let Some(run) = at.and_then(|scope| machine.scopes.get(&scope)) {
        if run.plan_scope == plan_node.scope {
            let state = &run.nodes[plan_node.local];
            let before = if state.outputs.is_none() { round_before(machine, run, node) } else { None };
            return Some(before.map_or(Found::Here(state), Found::Past));
        }
        if encloses(&machine.plan, run.plan_scope, plan_node.scope) {
            return run.past.get(&node).map(|past| Found::Past(&past.outputs));
        }
        at = run.round.as_ref().map(|round| round.parent);
    }
    None
}

/// Whether a scope of the plan lies inside another one.
fn encloses(plan: &Plan, outer: usize, inner: usize) -> bool {
    let around = |&scope: &usize| plan.scopes[scope].owner.map(|owner| plan.nodes[owner].scope);
    std::iter::successors(Some(inner), around).take(plan.scopes.len()).any(|scope| scope == outer)
}

/// In a Loop, a node whose turn has not come in this round is what it was in the round before.
fn round_before<'a>(machine: &'a Machine, run: &'a ScopeRun, node: NodeIx) -> Option<&'a Outputs> {
    let round = run.round.as_ref()?;
    let loops = |ix: NodeIx| machine.plan.nodes[ix].role == Role::Repeat;
    let to_come = !matches!(run.nodes[machine.plan.nodes[node].local].status, Status::Done | Status::Skipped);
    let in_loop = to_come && machine.plan.scopes[run.plan_scope].owner.is_some_and(loops);
    let past = machine.scopes.get(&round.parent)?.past.get(&node)?;
    (in_loop && past.frame == round.frame).then_some(&*past.outputs)
}

fn from_state(state: &NodeState, path: &str, read: &Read) -> Value {
    if let Some(value) = state.published.as_ref().and_then(|outputs| outputs.get(path)) {
        return value.clone();
    }
    match &state.outputs {
        // Inside a loop a node that this pass skipped reads as empty; from outside, a loop's node is
        // what it last said.
        Some(_) if read.same_pass && state.status == Status::Skipped => Value::null(),
        Some(outputs) => from_outputs(outputs, path),
        None => Value::null(),
    }
}

fn from_outputs(outputs: &Outputs, path: &str) -> Value {
    if let Some(value) = outputs.get(path) {
        return value.clone();
    }
    let Some((name, rest)) = path.split_once('.') else { return Value::null() };
    match outputs.get(name) {
        Some(value) => walk(&value.snapshot(), rest.split('.')).into(),
        None => Value::null(),
    }
}

fn global(machine: &Machine, name: &str) -> Value {
    if let Some(value) = machine.globals.get(name) {
        return value.clone().into();
    }
    // `env.o.a` is the member `a` of `env.o`; the longest name that exists wins.
    let mut end = name.len();
    while let Some(dot) = name[..end].rfind('.') {
        if let Some(value) = machine.globals.get(&name[..dot]) {
            return walk(value, name[dot + 1..].split('.')).into();
        }
        end = dot;
    }
    Value::null()
}

impl Machine {
    /// Gives a value to `sys.…`, `env.…` or `id@path`.
    pub(crate) fn assign(&mut self, scope: ScopeId, target: &str, value: Json) {
        let Some((id, path)) = target.split_once('@') else {
            set_global(&mut self.globals, target, value);
            return;
        };
        let Some(&node) = self.plan.by_id.get(id) else { return };
        let (plan_scope, local) = (self.plan.nodes[node].scope, self.plan.nodes[node].local);
        let mut at = Some(scope);
        while let Some(here) = at {
            let Some(run) = self.scopes.get_mut(&here) else { break };
            if run.plan_scope == plan_scope {
                let outputs = run.nodes[local].outputs.get_or_insert_default();
                set_output(Arc::make_mut(outputs), path, value);
                return;
            }
            if encloses(&self.plan, run.plan_scope, plan_scope) {
                if let Some(past) = run.past.get_mut(&node) {
                    set_output(Arc::make_mut(&mut past.outputs), path, value);
                }
                return;
            }
            at = run.round.as_ref().map(|round| round.parent);
        }
    }
}

fn set_global(globals: &mut serde_json::Map<String, Json>, target: &str, value: Json) {
    let mut end = target.len();
    while !globals.contains_key(target) {
        let Some(dot) = target[..end].rfind('.') else { break };
        if let Some(slot) = globals.get_mut(&target[..dot]) {
            *into_member(slot, &target[dot + 1..]) = value;
            return;
        }
        end = dot;
    }
    globals.insert(target.to_owned(), value);
}

fn set_output(outputs: &mut Outputs, path: &str, value: Json) {
    if let Some((name, rest)) = path.split_once('.').filter(|_| outputs.get(path).is_none()) {
        let mut whole = outputs.get(name).map(|v| (*v.snapshot()).clone()).unwrap_or_default();
        *into_member(&mut whole, rest) = value;
        outputs.set(name, whole);
    } else {
        outputs.set(path, value);
    }
}

/// The place that a dotted path names, making objects on the way.
fn into_member<'a>(start: &'a mut Json, path: &str) -> &'a mut Json {
    path.split('.').fold(start, |at, step| {
        if !at.is_object() {
            *at = Json::Object(serde_json::Map::new());
        }
        // Indexing an object by a text makes the member when it is missing.
        &mut at[step]
    })
}
