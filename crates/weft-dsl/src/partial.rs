//! What is known about a component of which some parameters are wrong: it is built again without these, so that
//! its author sees at once what is wrong with the others.

use std::collections::HashSet;

use serde_json::Map;
use weft_core::Json;
use weft_core::component::{ParamProblem, Shape};

use crate::build::Read;
use crate::suggest::Suggester;

/// Maximum number of times a component is built again.
const ATTEMPTS_MAX: usize = 4;
/// Maximum number of parameters that are replaced at a time.
// Each is compared with all others.
const WRONG_MAX: usize = 64;

/// What is known about such a component.
pub(crate) struct Partial {
    /// What its other parameters ask for.
    pub shape: Shape,
    /// Whether only misspelled words were replaced, with the words that are meant. Otherwise outputs may be missing
    /// that the author has declared.
    pub exact: bool,
}

/// Builds a component again without the parameters that are wrong; `None` if that is not possible.
pub(crate) fn read(
    params: &Map<String, Json>,
    wrong: &[ParamProblem],
    suggester: &mut Suggester,
    build: impl Fn(&Map<String, Json>) -> Read,
) -> Option<Partial> {
    let mut params = Json::Object(params.clone());
    let mut wrong = wrong.to_vec();
    let mut replaced = HashSet::new();
    let mut exact = true;
    for _ in 0..ATTEMPTS_MAX {
        exact &= replace(&mut params, &mut wrong, &mut replaced, suggester)?;
        match build(params.as_object()?) {
            Ok(component) => return Some(Partial { shape: component.shape(), exact }),
            Err(still) => wrong = still,
        }
    }
    None
}

/// Replaces what is wrong. Returns whether a word that is meant was known for all of it.
fn replace(
    params: &mut Json,
    wrong: &mut Vec<ParamProblem>,
    replaced: &mut HashSet<String>,
    suggester: &mut Suggester,
) -> Option<bool> {
    if wrong.len() > WRONG_MAX {
        return None;
    }
    // What surrounds a place comes before the place.
    wrong.sort_by(|a, b| a.pointer.cmp(&b.pointer));
    wrong.dedup_by(|a, b| a.pointer == b.pointer);
    let mut exact = true;
    let mut gone: Vec<&str> = Vec::new();
    for problem in wrong.iter() {
        let is_within =
            |around: &&str| problem.pointer.strip_prefix(*around).is_some_and(|rest| rest.starts_with('/'));
        if gone.iter().any(is_within) {
            continue;
        }
        let place = replaceable(params, &problem.pointer, replaced)?;
        let value = params.pointer_mut(place)?;
        let word = meant(value, problem, suggester);
        exact &= word.is_some();
        let instead = word.unwrap_or_else(|| neutral(value));
        *value = instead;
        replaced.insert(place.to_owned());
        gone.push(place);
    }
    Some(exact)
}

/// Returns the place to replace: that of the problem, or what it is in if it is missing there or the problem persists.
fn replaceable<'p>(params: &Json, pointer: &'p str, replaced: &HashSet<String>) -> Option<&'p str> {
    let mut place = pointer;
    while replaced.contains(place) || params.pointer(place).is_none() {
        place = place.rsplit_once('/')?.0;
    }
    (!place.is_empty()).then_some(place)
}

/// Returns the word that is meant, if the help for the problem names it.
fn meant(value: &Json, problem: &ParamProblem, suggester: &mut Suggester) -> Option<Json> {
    let word = value.as_str().filter(|word| !word.contains('@'))?;
    let named = problem.help.as_deref()?.split('`').skip(1).step_by(2);
    suggester.misspelled(word, named).map(Json::from)
}

/// Returns a value that is accepted in most places.
fn neutral(value: &Json) -> Json {
    // In place of a reference that names no component, one that always exists.
    if value.as_str().is_some_and(|text| text.contains('@')) { "sys.query".into() } else { Json::Null }
}
