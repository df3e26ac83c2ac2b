//! Reads and writes the values that references name.

use weft_core::component::Role;
use weft_core::masking::Masks;
use weft_core::seam::secrets::PREFIX;
use weft_core::usage::{RUN_USAGE, is_run_usage, run_usage};
use weft_core::value::{to_text, walk};
use weft_core::{Json, Outputs, Reference, Result, Value};
use weft_dsl::plan::{NodeIx, Plan, PlannedRead};

use crate::machine::Machine;
use crate::scope::{NodeState, ScopeId, ScopeRun, Status};
use crate::secrets::SecretValues;

/// Returns the value of a reference, seen from a scope. A value that was never produced is null.
pub(crate) fn read(machine: &Machine, scope: ScopeId, read: &PlannedRead) -> Value {
    if let (Some(node), Reference::Output { path, .. }) = (read.node, &read.reference)
        && let Some(OutputSource::Here(state)) = find(machine, scope, node)
        && let Some(text) = state.published.as_ref().and_then(|published| published.texts.get(path))
    {
        return text.clone();
    }
    settled(machine, scope, read)
}

/// Returns the value without texts that are still being written, so that it depends on the journal alone.
pub(crate) fn settled(machine: &Machine, scope: ScopeId, read: &PlannedRead) -> Value {
    match &read.reference {
        Reference::Global(name) => global(machine, name),
        Reference::Output { path, .. } => {
            let Some(node) = read.node else { return Value::null() };
            match find(machine, scope, node) {
                Some(OutputSource::Here(state)) => from_state(state, path, read),
                Some(OutputSource::Past(outputs)) => outputs.at(path),
                None => Value::null(),
            }
        }
    }
}

/// Returns the value for a reader that may start early. An output that a running node provides only with its
/// end becomes a pending value; it never reads as the node's previous output.
pub(crate) fn read_early(machine: &Machine, scope: ScopeId, read: &PlannedRead) -> Value {
    let (Reference::Output { path, .. }, Some(node)) = (&read.reference, read.node) else {
        return self::read(machine, scope, read);
    };
    match find(machine, scope, node) {
        Some(OutputSource::Here(NodeState { published: Some(published), .. })) => {
            let text = published.texts.get(path).cloned();
            text.unwrap_or_else(|| Value::Pending(published.whole.at(path)))
        }
        _ => self::read(machine, scope, read),
    }
}

enum OutputSource<'a> {
    Here(&'a NodeState),
    Past(&'a Outputs),
}

/// Looks for a node in this scope and in the enclosing ones or, for a node in a nested body, among the
/// finished rounds of the innermost scope that contains both.
fn find(machine: &Machine, scope: ScopeId, node: NodeIx) -> Option<OutputSource<'_>> {
    let plan_node = &machine.plan.nodes[node];
    let mut at = Some(scope);
    while let Some(run) = at.and_then(|scope| machine.scopes.get(&scope)) {
        if run.plan_scope == plan_node.scope {
            let state = &run.nodes[plan_node.local];
            let before = if state.outputs.is_none() { round_before(machine, run, node) } else { None };
            return Some(before.map_or(OutputSource::Here(state), OutputSource::Past));
        }
        if encloses(&machine.plan, run.plan_scope, plan_node.scope) {
            return run.past.get(&node).map(|past| OutputSource::Past(&past.outputs));
        }
        at = run.round.as_ref().map(|round| round.parent);
    }
    None
}

/// Whether a scope of the plan lies within another one.
pub(crate) fn encloses(plan: &Plan, outer: usize, inner: usize) -> bool {
    let around = |&scope: &usize| plan.scopes[scope].owner.map(|owner| plan.nodes[owner].scope);
    std::iter::successors(Some(inner), around).take(plan.scopes.len()).any(|scope| scope == outer)
}

/// Returns the outputs that a node in a Loop had in the previous round, if its turn has not come in this round.
fn round_before<'a>(machine: &'a Machine, run: &'a ScopeRun, node: NodeIx) -> Option<&'a Outputs> {
    let round = run.round.as_ref()?;
    let loops = |ix: NodeIx| machine.plan.nodes[ix].role == Role::Repeat;
    let to_come = !matches!(run.nodes[machine.plan.nodes[node].local].status, Status::Done | Status::Skipped);
    // Only in a Loop, whose rounds build on each other; the rounds of an Iteration are independent.
    let in_loop = to_come && machine.plan.scopes[run.plan_scope].owner.is_some_and(loops);
    let past = machine.scopes.get(&round.parent)?.past.get(&node)?;
    (in_loop && past.frame == round.frame).then_some(&*past.outputs)
}

fn from_state(state: &NodeState, path: &str, read: &PlannedRead) -> Value {
    match &state.outputs {
        // Within a loop, a node that this pass skipped reads as empty; from outside, a loop's node reads as
        // its last outputs.
        Some(_) if read.same_pass && state.status == Status::Skipped => Value::null(),
        Some(outputs) => outputs.at(path),
        None => Value::null(),
    }
}

/// Gives a machine the secrets that its plan names. Returns the masks for them and for the initial values of
/// secret globals. If there are too many, [`hide_secrets`] reports it when the first node starts.
pub(crate) fn take_secrets(machine: &mut Machine, secrets: SecretValues) -> Masks {
    machine.secrets = secrets;
    let masks = of_tenant(&machine.plan, &machine.secrets);
    drop(hide_secrets(machine, &masks));
    masks
}

/// Returns the masks for the secrets that a plan names and for the values that its secret globals have in a new session.
pub(crate) fn masks_at_first(plan: &Plan, secrets: &SecretValues) -> Masks {
    let masks = of_tenant(plan, secrets);
    for name in plan.secrets.iter().filter(|name| !name.starts_with(PREFIX)) {
        if let Some(value) = stored(&plan.globals, name) {
            drop(masks.add(name, &value));
        }
    }
    masks
}

/// Returns the masks for the tenant's secrets that a plan names.
fn of_tenant(plan: &Plan, secrets: &SecretValues) -> Masks {
    let masks = Masks::default();
    if !plan.secrets.is_empty() {
        masks.expect();
    }
    // The tenant's secrets first: a variable may have the value of one, and is stored where the secret is not.
    for name in plan.secret_names() {
        let name = format!("{PREFIX}{name}");
        if let Some(value) = secrets.global(&name) {
            drop(masks.add(&name, &Json::from(value)));
        }
    }
    masks
}

/// Masks the current values of secret globals.
///
/// # Errors
/// `Invalid` when there are more than can be masked.
pub(crate) fn hide_secrets(machine: &Machine, masks: &Masks) -> Result<()> {
    for name in machine.plan.secrets.iter().filter(|name| !name.starts_with(PREFIX)) {
        if let Some(value) = global(machine, name).as_json() {
            masks.add(name, value)?;
        }
    }
    Ok(())
}

/// Returns a secret by the name in its mark in the journal.
pub(crate) fn secret(globals: &serde_json::Map<String, Json>, name: &str) -> Option<String> {
    stored(globals, name).map(|value| to_text(&value))
}

/// Returns the value of a global, or of a member of one.
fn stored(globals: &serde_json::Map<String, Json>, name: &str) -> Option<Json> {
    let found = globals.get(name).cloned().or_else(|| {
        let known = weft_dsl::prefixes(name).filter_map(|known| Some((known.len(), globals.get(known)?)));
        let (dot, whole) = known.last()?;
        Some(walk(whole, name[dot + 1..].split('.')))
    });
    found.filter(|value| !value.is_null())
}

fn global(machine: &Machine, name: &str) -> Value {
    if name.starts_with(PREFIX) {
        return machine.secrets.global(name).map_or_else(Value::null, Value::text);
    }
    if is_run_usage(name) {
        let counts = run_usage(machine.spent);
        let member = name[RUN_USAGE.len()..].strip_prefix('.');
        return member.map(|member| walk(&counts, member.split('.'))).unwrap_or(counts).into();
    }
    // A name that exists as a whole comes before a member of a shorter one.
    if let Some(value) = machine.globals.get(name) {
        return value.clone().into();
    }
    // `env.o.a` is the member `a` of `env.o`; the longest name that exists wins.
    let known = weft_dsl::prefixes(name).filter_map(|known| Some((known.len(), machine.globals.get(known)?)));
    match known.last() {
        Some((dot, value)) => walk(value, name[dot + 1..].split('.')).into(),
        None => Value::null(),
    }
}
