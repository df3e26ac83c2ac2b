//! What is known about a component of which some parameters are wrong or missing: it is built again with others in
//! their place, so that its author sees at once what is wrong with the rest.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Map;
use weft_core::component::{Component, ComponentSpec, ParamProblem, Shape};
use weft_core::params::is_empty;
use weft_core::{ComponentId, Json};

use crate::pointer::unescape;
use crate::stand_in;
use crate::suggest::Suggester;

/// Maximum number of times a component is built again.
// A missing list takes two or three: its entries are only asked for once there is one.
const ATTEMPTS_MAX: usize = 6;
/// Maximum number of parameters that are replaced at a time.
// Each is compared with all others.
const WRONG_MAX: usize = 64;
/// How often the value at one place is replaced before what is around it is.
const TRIES_MAX: u8 = 2;

/// A component, or what is wrong with its parameters.
pub(crate) type Read = Result<Arc<dyn Component>, Vec<ParamProblem>>;

/// What is known about such a component.
pub(crate) struct Partial {
    /// What its other parameters ask for, and warnings about them.
    pub shape: Shape,
    /// Whether its outputs are certain: what was replaced does not determine them. Otherwise outputs may be missing
    /// that the author has declared.
    pub exact: bool,
}

/// A component that refuses its parameters.
#[derive(Clone, Copy)]
pub(crate) struct Refused<'a> {
    /// Its id.
    pub id: &'a ComponentId,
    /// Its type.
    pub spec: &'static ComponentSpec,
    /// Its parameters.
    pub params: &'a Map<String, Json>,
    /// What is wrong with them.
    pub wrong: &'a [ParamProblem],
}

/// Builds a component again with other values for the parameters that are wrong; `None` if that is not possible.
pub(crate) fn read(
    refused: Refused<'_>,
    suggester: &mut Suggester,
    build: impl Fn(&Map<String, Json>) -> Read,
) -> Option<Partial> {
    let mut again = Again {
        refused,
        params: Json::Object(refused.params.clone()),
        tries: HashMap::new(),
        exact: true,
        suggester,
    };
    let mut wrong = refused.wrong.to_vec();
    for _ in 0..ATTEMPTS_MAX {
        again.replace(&mut wrong)?;
        match build(again.params.as_object()?) {
            Ok(component) => return Some(again.known(component.shape())),
            Err(still) => wrong = still,
        }
    }
    None
}

/// The parameters of a component, with replacements.
struct Again<'a, 's> {
    refused: Refused<'a>,
    params: Json,
    /// How often each place was replaced.
    tries: HashMap<String, u8>,
    exact: bool,
    suggester: &'s mut Suggester,
}

impl Again<'_, '_> {
    /// Replaces what is wrong.
    fn replace(&mut self, wrong: &mut Vec<ParamProblem>) -> Option<()> {
        if wrong.len() > WRONG_MAX {
            return None;
        }
        // What surrounds a place comes before the place.
        wrong.sort_by(|a, b| a.pointer.cmp(&b.pointer));
        wrong.dedup_by(|a, b| a.pointer == b.pointer);
        let mut gone: Vec<String> = Vec::new();
        for problem in wrong.iter() {
            if gone.iter().any(|around| is_within(&problem.pointer, around)) {
                continue;
            }
            // Replacing the same place for ever would not converge: after `TRIES_MAX` what surrounds it is replaced.
            let place = self.replaceable(&problem.pointer)?.to_owned();
            let value = self.params.pointer(&place).unwrap_or(&Json::Null);
            let instead = match meant(value, problem, self.suggester) {
                Some(word) => word,
                None => {
                    self.exact &= stand_in::leaves_outputs(self.refused.spec, &place);
                    self.stand_in(&place, problem)
                }
            };
            *self.tries.entry(place.clone()).or_default() += 1;
            self.put(&place, instead)?;
            gone.push(place);
        }
        Some(())
    }

    /// Returns the place to replace: that of the problem, or what it is in if nothing fits there.
    fn replaceable<'p>(&self, pointer: &'p str) -> Option<&'p str> {
        let mut place = pointer;
        while !self.may_replace(place) {
            place = place.rsplit_once('/')?.0;
        }
        (!place.is_empty()).then_some(place)
    }

    fn may_replace(&self, place: &str) -> bool {
        let tries = self.tries.get(place).copied().unwrap_or_default();
        let kind = stand_in::kind_at(self.refused.spec, place);
        let has_another = kind.is_some_and(stand_in::exists);
        match self.params.pointer(place) {
            // A value that is missing can only be one of its kind.
            None => {
                let around = place.rsplit_once('/').and_then(|(around, _)| self.params.pointer(around));
                tries == 0 && has_another && around.is_some_and(Json::is_object)
            }
            Some(_) => tries == 0 || (tries < TRIES_MAX && has_another),
        }
    }

    fn stand_in(&self, place: &str, problem: &ParamProblem) -> Json {
        let value = self.params.pointer(place).unwrap_or(&Json::Null);
        let kind = stand_in::kind_at(self.refused.spec, place);
        // Without the value, a parameter has its default, which may not exist.
        let is_needed = self.tries.contains_key(place) || is_blank(value);
        kind.filter(|kind| is_needed || stand_in::is_at_hand(*kind))
            .and_then(|kind| stand_in::of(kind, value, problem, self.refused.id))
            .unwrap_or_else(|| neutral(value))
    }

    fn put(&mut self, place: &str, value: Json) -> Option<()> {
        if let Some(old) = self.params.pointer_mut(place) {
            *old = value;
            return Some(());
        }
        let (around, key) = place.rsplit_once('/')?;
        let members = self.params.pointer_mut(around)?.as_object_mut()?;
        members.insert(unescape(key), value);
        Some(())
    }

    /// Returns what is known, without what is said about the replacements.
    fn known(self, mut shape: Shape) -> Partial {
        let Self { tries, exact, .. } = self;
        let is_own = |pointer: &str| {
            !tries
                .keys()
                .any(|place| place == pointer || is_within(place, pointer) || is_within(pointer, place))
        };
        // With guessed parameters even a warning about another one may be wrong.
        shape.warnings.retain(|warning| exact && is_own(&warning.pointer));
        shape.models.retain(|(pointer, _)| is_own(pointer));
        shape.rerankers.retain(|(pointer, _)| is_own(pointer));
        shape.datasets.retain(|(pointer, _)| is_own(pointer));
        shape.sql.retain(|sql| exact && is_own(&sql.pointer));
        shape.programs.retain(|program| exact && is_own(&program.pointer));
        shape.aloud = shape.aloud.filter(|pointer| is_own(pointer));
        Partial { shape, exact }
    }
}

/// Returns the word that is meant, if the help for the problem names it.
fn meant(value: &Json, problem: &ParamProblem, suggester: &mut Suggester) -> Option<Json> {
    let word = value.as_str().filter(|word| !word.contains('@') && !word.trim().is_empty())?;
    let named = problem.help.as_deref()?.split('`').skip(1).step_by(2);
    suggester.misspelled(word, named).map(Json::from)
}

fn is_within(pointer: &str, around: &str) -> bool {
    pointer.strip_prefix(around).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether nothing is filled in.
fn is_blank(value: &Json) -> bool {
    is_empty(value) || value.as_str().is_some_and(|text| text.trim().is_empty())
}

/// Returns a value that is accepted in most places.
fn neutral(value: &Json) -> Json {
    // In place of a reference that names no component, one that always exists.
    if value.as_str().is_some_and(|text| text.contains('@')) {
        stand_in::REFERENCE.into()
    } else {
        Json::Null
    }
}
