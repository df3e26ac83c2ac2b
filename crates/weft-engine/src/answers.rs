//! Matches a caller's answers to the open forms.
//!
//! Answers can be addressed to a form by its address, which is the id of the asking node followed by the
//! numbers of the rounds around it (`Agent:A[2]`); by the node's id alone, in which case the first round that
//! asks gets them; or they can be unaddressed, with the fields' keys at the top level.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Map;
use weft_core::component::{Form, Role};
use weft_core::form::{problem, takes_files};
use weft_core::journal::WaitingForm;
use weft_core::reference::Inputs;
use weft_core::seam::task_store::TaskStatus;
use weft_core::value::listed;
use weft_core::{ComponentId, Error, Json, Result, TurnInput};
use weft_dsl::plan::{NodeIx, Plan};

use crate::form::{left_out, only_field, unwrap, unwrapped};
use crate::machine::{Machine, MachineLimits};
use crate::pause::Paused;
use crate::scope::ScopeId;
use crate::session::{QUERY, SessionState};
use crate::start_run::StartRun;
use crate::tasks;

type Given = Map<String, Json>;
/// The names of fields, in a fixed order.
type Fields<'a> = BTreeSet<&'a String>;

/// Whether the answers that a run begins with are new.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerStatus {
    /// The caller has just given them.
    New,
    /// An earlier run has already begun with them.
    Taken,
    /// There are none: the run only stops the one that waits for them.
    Withheld,
}

/// Returns the run that a turn resumes: the one that its session waits for, unless the turn is a new question. A text
/// is one if the only field that is open cannot take it: otherwise a session could not go on until somebody answers.
pub(crate) fn resumed(state: &SessionState, request: &StartRun, limits: MachineLimits) -> Option<Paused> {
    let TurnInput { inputs, query, .. } = &request.input;
    let paused = state.paused.as_deref().filter(|paused| paused.is_answered_by(&request.input))?;
    let bare = inputs.is_empty() && !query.is_empty();
    if !bare || paused.fields != 1 || paused.waits_within() {
        return Some(paused.clone());
    }
    let text = Json::String(query.clone());
    match paused.clone().restore(Arc::clone(&request.plan), state.globals.clone(), limits) {
        Ok(machine) => suits(&machine, &text).then(|| paused.clone()),
        // Whoever resumes it reports that it cannot be.
        Err(_) => Some(paused.clone()),
    }
}

/// Whether the fields of all open forms can take a value.
fn suits(machine: &Machine, value: &Json) -> bool {
    let forms = machine.waiting_nodes().into_iter().map(|(scope, ix)| machine.form(scope, ix).form);
    forms.flat_map(|form| form.fields).all(|(_, field)| problem(&field, value).is_none())
}

/// Ends the waits whose time is up when a turn begins that resumes a run, and gives its answers to the forms that they
/// are for. `query` is the text of its answer.
///
/// # Errors
/// `Conflict` when the task that it answers has timed out; `Invalid` for new answers that do not fit. Nothing has begun.
pub(crate) fn take(
    machine: &mut Machine,
    request: &StartRun,
    query: &str,
    status: AnswerStatus,
    now_ms: i64,
) -> Result<()> {
    if status == AnswerStatus::Withheld {
        // Every wait stays as it is: a form without fields would count as answered by a turn without values.
        return Ok(());
    }
    machine.time_out(now_ms);
    tasks::must_be_in_time(request, machine)?;
    if status == AnswerStatus::New {
        check(machine, &request.input.inputs, query)?;
    }
    give(machine, &request.input.inputs, query);
    Ok(())
}

/// Gives the caller's answers to the forms they are for and lets every node that now has all it needs
/// continue. Answers that match no form, and fields left out, are noted so that the forms which are asked
/// again can mention them.
fn give(machine: &mut Machine, given: &Given, query: &str) {
    // A turn that only ends waits whose time is up answers nothing, not even a form that needs no values.
    if given.is_empty() && query.is_empty() && machine.has_timeouts() {
        return;
    }
    let waiting = machine.waiting_nodes().into_iter();
    let mut open: Vec<_> = waiting.map(|(scope, ix)| ((scope, ix), machine.form(scope, ix))).collect();
    // Which of several rounds is first must not depend on which of them was faster.
    open.sort_by(|(_, one), (_, other)| rounds(one).cmp(rounds(other)));
    // Answers addressed to a node go to one of its rounds; the others keep asking.
    let mut used = HashSet::new();
    // A bare question names no field, so it is an answer only where exactly one field is open in the whole run.
    let bare = given.is_empty() && !query.is_empty();
    let fields: usize = open.iter().map(|(_, waiting)| waiting.form.fields.len()).sum();
    let mut left_out = None;
    for (place, waiting) in &open {
        let mut answers = if machine.suspended_node(place.0, place.1).is_some() {
            decisions(machine, waiting, &open, given, &mut used)
        } else {
            answers(waiting, given)
        };
        if let (true, Some(field)) = (bare && fields == 1, only_field(&waiting.form)) {
            answers.insert(field.to_owned(), Json::String(query.to_owned()));
        }
        // An answer meant for another form is not one to this form, even if it needs none.
        let implied = if given.is_empty() {
            !bare || fields == 0
        } else {
            waiting.form.fields.is_empty() && open.len() == 1
        };
        if !implied && answers.is_empty() && own(waiting, given).is_none() {
            continue;
        }
        if machine.suspended_node(place.0, place.1).is_some() {
            machine.decide(*place, answers, TaskStatus::Answered);
        } else {
            left_out = left_out.or_else(|| incomplete(waiting, &answers));
            // A form without fields has no other place for the text of the reply.
            if bare && fields == 0 && open.len() == 1 {
                machine.globals.insert(QUERY.to_owned(), Json::String(query.to_owned()));
            }
            machine.answer(*place, &waiting.form, &source(waiting, given), answers);
        }
    }
    machine.unused = left_out;
    // An ignored answer is a loss only where a call waits in the middle of its work: a plain form is simply
    // asked again.
    let within = open.iter().find(|((scope, ix), _)| machine.suspended_node(*scope, *ix).is_some());
    let Some(node) = within.map(|(_, waiting)| waiting.node.clone()) else { return };
    let forms: Vec<_> = open.into_iter().map(|(_, waiting)| waiting).collect();
    let strangers = if bare && fields > 1 {
        vec![format!("`{}`", clipped(query))]
    } else {
        strangers(machine, &forms, given)
    };
    if let Some(message) = told(&strangers, &forms) {
        machine.unused = Some((node, message));
    }
}

/// Maximum number of fields that one message names.
const NAMED_MAX: usize = 5;

/// Returns a message when a form received some of its answers but not all that it needs.
fn incomplete(waiting: &WaitingForm, answers: &Given) -> Option<(ComponentId, String)> {
    if answers.values().all(Json::is_null) {
        return None;
    }
    let left_out: Vec<String> = left_out(&waiting.form, answers)
        .take(NAMED_MAX)
        .map(|field| format!("`{}`", clipped(field)))
        .collect();
    let message = format!(
        "nothing was filled in for {}: the form is asked again, with all of its fields",
        left_out.join(", ")
    );
    (!left_out.is_empty()).then(|| (waiting.node.clone(), message))
}

/// Returns the numbers of the rounds that a form is in, outermost first.
fn rounds(waiting: &WaitingForm) -> impl Iterator<Item = usize> {
    waiting.frame.iter().map(|step| step.round)
}

/// Whether the files among the values of a turn have been read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileValues {
    /// They have.
    Read,
    /// They are read when the run begins.
    Unread,
}

/// Checks the inputs that a run will begin with, as they are checked when it begins. Files are not checked: they are
/// read only then.
///
/// # Errors
/// `Invalid`, with every field that does not fit.
pub fn check_inputs(plan: &Plan, inputs: &Map<String, Json>) -> Result<()> {
    refuse(wrong_at_start(plan, inputs, FileValues::Unread)).map_err(|error| error.help("give other values"))
}

/// Checks the inputs of a turn that resumes nothing against the form of its entry node, and against forms
/// that are addressed before they come up.
///
/// # Errors
/// `Invalid`, with every field that does not fit; nothing has begun.
pub(crate) fn check_beginning(plan: &Plan, given: &Given) -> Result<()> {
    refuse(wrong_at_start(plan, given, FileValues::Read))
        .map_err(|error| error.help("send other values: nothing was started"))
}

fn wrong_at_start(plan: &Plan, given: &Given, files: FileValues) -> Vec<String> {
    let entry = plan.scopes.first().and_then(|top| plan.nodes.get(top.start));
    let mut wrong = Vec::new();
    if let Some(entry) = entry.filter(|node| node.role == Role::Entry) {
        let form = entry.component.form(&Inputs::default());
        wrong.extend(problems(entry.id.as_str(), &form, &unwrap(given), files));
    }
    wrong.extend(wrong_ahead(plan, &[], given, files));
    wrong
}

/// Checks a caller's answers against the forms that they are for: the open ones, and those addressed before
/// they come up. Decisions in the middle of a node's work are checked by that node.
///
/// # Errors
/// `Invalid`, with every field that does not fit; nothing has begun.
fn check(machine: &Machine, given: &Given, query: &str) -> Result<()> {
    let (mut open, mut fields, mut waits_within) = (Vec::new(), 0, false);
    for (scope, ix) in machine.waiting_nodes() {
        let waiting = machine.form(scope, ix);
        fields += waiting.form.fields.len();
        if machine.suspended_node(scope, ix).is_none() {
            open.push(waiting);
        } else {
            waits_within = true;
        }
    }
    // Where several fields are open, a bare question is given to none of them, so it cannot be wrong for one.
    let bare = given.is_empty() && !query.is_empty() && fields == 1;
    let mut wrong = Vec::new();
    for waiting in &open {
        let mut answers = answers(waiting, given);
        if let (true, Some(field)) = (bare, only_field(&waiting.form)) {
            answers.insert(field.to_owned(), Json::String(query.to_owned()));
        }
        wrong.extend(problems(&waiting.address(), &waiting.form, &answers, FileValues::Read));
    }
    wrong.extend(misaddressed(&open, given));
    // A decision that nobody asks for is mentioned when the work that waits midway is asked about again.
    if !waits_within {
        wrong.extend(unaddressed(&machine.plan, &open, given));
    }
    wrong.extend(wrong_ahead(&machine.plan, &open, given, FileValues::Read));
    refuse(wrong).map_err(|error| error.help("send other values: the form is still open"))
}

/// Returns what is wrong with answers to forms that have not come up yet.
fn wrong_ahead(plan: &Plan, open: &[WaitingForm], given: &Given, files: FileValues) -> Vec<String> {
    let mut wrong = Vec::new();
    for node in plan.nodes.iter().filter(|node| node.role == Role::Pause) {
        let ahead = given.iter().filter(|(address, _)| {
            id_of(address) == node.id.as_str() && !open.iter().any(|waiting| waiting.node == node.id)
        });
        for (address, own) in ahead.filter_map(|(address, own)| Some((address, own.as_object()?))) {
            let form = node.component.form(&Inputs::default());
            wrong.extend(problems(address, &form, &unwrap(own), files));
            wrong.extend(unknown(address, &form.fields.keys().collect(), own));
        }
    }
    wrong
}

fn refuse(mut wrong: Vec<String>) -> Result<()> {
    if wrong.is_empty() {
        return Ok(());
    }
    wrong.truncate(WRONG_MAX);
    Err(Error::invalid(wrong.join("; ")))
}

/// Maximum number of invalid fields that one error names.
// A form may have hundreds of fields, and a caller may have sent all of them wrong.
const WRONG_MAX: usize = 20;

fn problems(address: &str, form: &Form, answers: &Given, files: FileValues) -> Vec<String> {
    let is_checked = |description: &Json| files == FileValues::Read || !takes_files(description);
    let fields = form.fields.iter().filter(|(_, description)| is_checked(description));
    let fields = fields.filter_map(|(field, description)| {
        let problem = problem(description, answers.get(field)?)?;
        Some(format!("field `{field}` of {address} {problem}"))
    });
    fields.collect()
}

/// Returns what is wrong with answers that are addressed to open forms but name none of their fields.
fn misaddressed(open: &[WaitingForm], given: &Given) -> Vec<String> {
    // Answers under a node's id are for any of its rounds.
    let mut asked: HashMap<String, Fields<'_>> = HashMap::new();
    for waiting in open {
        for address in [waiting.address(), waiting.node.to_string()] {
            asked.entry(address).or_default().extend(waiting.form.fields.keys());
        }
    }
    let wrong = given.iter().flat_map(|(address, own)| {
        let of_form = asked.get(address).zip(own.as_object());
        of_form.map_or_else(Vec::new, |(fields, own)| unknown(address, fields, own))
    });
    wrong.take(WRONG_MAX).collect()
}

/// Returns what is wrong with answers to a form with these fields. Whatever is said to one without fields is its
/// answer.
fn unknown(address: &str, fields: &Fields<'_>, own: &Given) -> Vec<String> {
    let unknown = own.keys().filter(|field| !fields.is_empty() && !fields.contains(field));
    let told = unknown.take(WRONG_MAX).map(|field| {
        let known = listed(fields.iter().take(NAMED_MAX));
        format!("{address} has no field `{}`: its fields are {known}", clipped(field))
    });
    told.collect()
}

/// Returns what is wrong with unaddressed answers that name no field of an open form, and with answers to nodes that
/// ask nothing. Values for the form that a run starts with may be repeated with each turn.
fn unaddressed(plan: &Plan, open: &[WaitingForm], given: &Given) -> Vec<String> {
    let fields: Fields<'_> = open.iter().flat_map(|waiting| waiting.form.fields.keys()).collect();
    if fields.is_empty() {
        return Vec::new();
    }
    let pauses = |key: &str| {
        let node = plan.by_id.get(id_of(key)).and_then(|&ix| plan.nodes.get(ix));
        node.is_some_and(|node| node.role == Role::Pause)
    };
    let strange =
        given.keys().filter(|key| !fields.contains(key) && !pauses(key) && !plan.takes_at_start(key));
    let told = strange.take(WRONG_MAX).map(|key| {
        let known = listed(fields.iter().take(NAMED_MAX));
        format!("no open form has a field `{}`: the fields are {known}", clipped(key))
    });
    told.collect()
}

/// Returns the id of the node in an address.
fn id_of(address: &str) -> &str {
    address.split_once('[').map_or(address, |(id, _)| id)
}

/// Returns the answers that match no open form.
fn strangers(machine: &Machine, open: &[WaitingForm], given: &Given) -> Vec<String> {
    let forms = machine.plan.nodes.iter().filter(|node| node.role == Role::Pause);
    let later: HashSet<&str> = forms.map(|node| node.id.as_str()).collect();
    let mut strangers: Vec<String> = Vec::new();
    for (key, value) in given {
        let addressed = |form: &&WaitingForm| form.address() == *key || form.node.as_str() == key;
        let mut here = open.iter().filter(addressed).peekable();
        match value {
            Json::Object(answers) if here.peek().is_some() => {
                let fields: HashSet<&str> =
                    here.flat_map(|form| form.form.fields.keys()).map(String::as_str).collect();
                let unknown = answers.keys().filter(|field| !fields.contains(field.as_str()));
                strangers.extend(unknown.map(|field| format!("`{}` ({key})", clipped(field))));
            }
            // A field that two forms share belongs to neither unless the answer is addressed.
            _ if open.iter().filter(|form| form.form.fields.contains_key(key)).count() == 1 => {}
            // A form that has not come up yet may find its answers here when it does.
            _ if later.contains(key.as_str()) => {}
            _ => strangers.push(format!("`{}`", clipped(key))),
        }
    }
    strangers
}

fn clipped(text: &str) -> &str {
    // Keys and texts come from a caller, have any length, and end up in the tips of a form.
    const SHOWN_MAX: usize = 100;
    &text[..text.floor_char_boundary(SHOWN_MAX)]
}

/// Returns the message that these answers have no effect.
fn told(strangers: &[String], open: &[WaitingForm]) -> Option<String> {
    let (first, more) = strangers.split_at(strangers.len().min(NAMED_MAX));
    if first.is_empty() {
        return None;
    }
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    let fields = |form: &WaitingForm| {
        let address = form.address();
        form.form.fields.keys().map(|field| format!("`{field}` ({address})")).collect::<Vec<_>>()
    };
    let asked: Vec<String> = open.iter().flat_map(fields).collect();
    let (first, asked) = (first.join(", "), asked.join(", "));
    Some(format!(
        "{first}{more} has no effect: no open form asks for it, or more than one does; open: {asked}"
    ))
}

/// Returns a warning for inputs that look like answers to work in progress although the turn resumes nothing.
pub(crate) fn unasked(plan: &Plan, given: &Given) -> Option<(ComponentId, String)> {
    let of_a_step = |id: &ComponentId| {
        let node = plan.nodes.iter().find(|node| node.id == *id)?;
        (node.role == Role::Step).then(|| id.clone())
    };
    let node = given
        .iter()
        .filter(|(_, value)| value.is_object())
        .find_map(|(key, _)| of_a_step(&ComponentId::from(id_of(key))))?;
    let message = format!("no node is waiting for an answer, so the values for `{node}` have no effect");
    Some((node, message))
}

/// Answers forms whose answers came with the run and are addressed to them, so that they need not wait for a
/// person. Applies only to forms that come before a node's work: nobody can know beforehand what will be
/// asked in the middle of it. Returns whether any node continued.
pub(crate) fn give_ahead(machine: &mut Machine, given: &Given) -> bool {
    // The driver calls this after each start, and forms come up rarely.
    if !std::mem::take(&mut machine.newly_waiting) {
        return false;
    }
    let mut any = false;
    for (scope, ix) in machine.waiting_nodes() {
        if given.is_empty() || machine.suspended_node(scope, ix).is_some() {
            continue;
        }
        let waiting = machine.form(scope, ix);
        if own(&waiting, given).is_some() {
            let answers = answers(&waiting, given);
            any |= machine.answer((scope, ix), &waiting.form, &source(&waiting, given), answers);
        }
    }
    any
}

/// Returns the answers addressed to a form, and the address they were given under.
fn own<'a>(waiting: &WaitingForm, given: &'a Given) -> Option<(String, &'a Given)> {
    let below = |address: String| {
        let own = given.get(&address)?.as_object()?;
        Some((address, own))
    };
    below(waiting.address()).or_else(|| below(waiting.node.to_string()))
}

/// Returns the address that a form's answers come from. Unaddressed answers count as the node's.
fn source(waiting: &WaitingForm, given: &Given) -> String {
    own(waiting, given).map_or_else(|| waiting.node.to_string(), |(address, _)| address)
}

/// Returns the answers for a form that is asked before the work begins.
fn answers(waiting: &WaitingForm, given: &Given) -> Given {
    let own = own(waiting, given).map_or(given, |(_, own)| own);
    let keys = waiting.form.fields.keys();
    keys.filter_map(|field| Some((field.clone(), unwrapped(own.get(field)?)))).collect()
}

/// Returns the decisions for a form that is asked in the middle of the work. A decision that could be meant
/// for two forms goes to neither.
fn decisions<'a>(
    machine: &Machine,
    waiting: &'a WaitingForm,
    open: &'a [((ScopeId, NodeIx), WaitingForm)],
    given: &Given,
    used: &mut HashSet<(&'a ComponentId, &'a str)>,
) -> Given {
    let below = |address: &str| given.get(address).and_then(Json::as_object);
    let (exact, of_node) = (below(&waiting.address()), below(waiting.node.as_str()));
    let asks = |field: &str| {
        let suspended = open.iter().filter(|((scope, ix), _)| machine.suspended_node(*scope, *ix).is_some());
        suspended.filter(|(_, other)| other.form.fields.contains_key(field)).count()
    };
    let mut decisions = Given::new();
    for field in waiting.form.fields.keys() {
        let found = match (exact.and_then(|own| own.get(field)), of_node.and_then(|own| own.get(field))) {
            (Some(decision), _) => Some(decision),
            (None, Some(decision)) => used.insert((&waiting.node, field)).then_some(decision),
            (None, None) if exact.is_none() && of_node.is_none() && asks(field) == 1 => given.get(field),
            (None, None) => None,
        };
        if let Some(decision) = found {
            decisions.insert(field.clone(), unwrapped(decision));
        }
    }
    decisions
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    use crate::form::satisfied;

    #[test]
    fn answers_reach_the_right_form() {
        let map = |json: Json| json.as_object().unwrap().clone();
        // Some editors write switches as texts.
        let fields = map(json!({"ok": {}, "why": {"optional": true}, "how": {"optional": "true"}}));
        let form = Form { fields, tips: None, ..Form::default() };
        let waiting = WaitingForm::new("Fill:1".into(), [].into(), form);
        let check = |given: Json, expected: Json, complete: bool| {
            let got = answers(&waiting, &map(given));
            assert_eq!(got, map(expected));
            assert_eq!(satisfied(&waiting.form, &got), complete);
        };
        check(json!({"ok": {"value": true}, "other": 1}), json!({"ok": true}), true);
        check(json!({"Fill:1": {"ok": 1}, "ok": 2}), json!({"ok": 1}), true);
        check(json!({"why": "x"}), json!({"why": "x"}), false);
        check(json!({"ok": null}), json!({"ok": null}), false);
    }
}
