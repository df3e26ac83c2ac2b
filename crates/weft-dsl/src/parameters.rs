//! Compares the parameters of a node with what its component declares: reports names that look misspelled and
//! values of the wrong type, at any depth.
//!
//! Files from other editors contain many parameters that mean nothing here, so an undeclared name by itself
//! is not reported. A name that is nearly that of a missing parameter, or has its words, most likely means that
//! parameter.
//! Components read their declared parameters leniently and ignore what they cannot read; a problem that a
//! component has reported itself is not reported twice.

mod kinds;

use std::collections::HashSet;

use serde_json::Map;
use weft_core::field::{AnyField as _, Field, FieldGroup, FieldSpec, Kind, Widget, common, specs};
use weft_core::params::is_empty;
use weft_core::suggest::did_you_mean;
use weft_core::value::{described, kind_of};
use weft_core::{Catalog, ComponentSpec, Json};

use self::kinds::UnlistedWords;
use crate::canvas::CanvasNode;
use crate::pointer::join;
use crate::problem::{Problem, ProblemList};
use crate::suggest::Suggester;

/// Maximum depth to which parameters are examined: agents may be tools of other agents.
const DEEP_MAX: usize = 48;

/// Compares the parameters of one node.
pub(crate) struct ParameterComparison<'a> {
    /// The component types, for the tools of agents.
    pub catalog: &'a Catalog,
    /// The node.
    pub node: &'a CanvasNode,
    /// The places in its parameters for which its component has reported a problem.
    pub told: HashSet<String>,
}

impl ParameterComparison<'_> {
    /// Reports names that are probably misspelled and values of the wrong type.
    pub(crate) fn report(&self, spec: &ComponentSpec, suggester: &mut Suggester, problems: &mut ProblemList) {
        let mut look = ParameterWalk { comparison: self, deep: 0, suggester, problems };
        look.component(spec, &self.node.params, "", &[]);
    }
}

/// The owner of the members being examined.
#[derive(Clone, Copy)]
enum MemberOwner<'a> {
    /// A component of this type.
    Component(&'a str),
    /// The value of this parameter.
    Parameter(&'a str),
}

struct ParameterWalk<'a> {
    comparison: &'a ParameterComparison<'a>,
    /// Number of objects around the current one.
    deep: usize,
    suggester: &'a mut Suggester,
    problems: &'a mut ProblemList,
}

impl ParameterWalk<'_> {
    fn component(
        &mut self,
        spec: &ComponentSpec,
        params: &Map<String, Json>,
        at: &str,
        more: &'static [FieldGroup],
    ) {
        // Nothing is known about a component that this build knows by name only.
        if spec.fields.is_empty() && spec.outputs.is_empty() {
            return;
        }
        let known: Vec<_> = specs(spec.fields).chain(specs(common::GROUPS)).chain(specs(more)).collect();
        self.members(MemberOwner::Component(spec.kind), &known, params, at);
    }

    fn members(
        &mut self,
        owner: MemberOwner<'_>,
        known: &[&FieldSpec],
        members: &Map<String, Json>,
        at: &str,
    ) {
        // This recurses, and no one draws anything that is nested deeper.
        if self.deep == DEEP_MAX {
            return;
        }
        self.deep += 1;
        let is = |spec: &&&FieldSpec, key: &str| spec.name == key || spec.older.contains(&key);
        for (key, value) in members {
            // An editor's empty field means nothing.
            if matches!(owner, MemberOwner::Component(_)) && is_empty(value) {
                continue;
            }
            let at = join(at, key);
            match known.iter().find(|spec| is(spec, key)) {
                Some(spec) => self.field(owner, spec, value, &at),
                None => {
                    // A parameter that is present under its own name is hardly the one that is meant.
                    let not_given = known.iter().filter(|spec| !members.contains_key(spec.name));
                    let elsewhere = not_given.clone().find(|spec| spec.elsewhere.contains(&key.as_str()));
                    let near = || {
                        let absent = not_given.map(|spec| spec.name);
                        let given = known.iter().filter(|spec| members.contains_key(spec.name));
                        match owner {
                            MemberOwner::Component(_) => {
                                self.suggester.parameter(key, absent, given.map(|spec| spec.name))
                            }
                            // The names of members are short, and editors have more of their own among them.
                            MemberOwner::Parameter(_) => self.suggester.misspelled(key, absent),
                        }
                    };
                    if let Some(meant) = elsewhere.map(|spec| spec.name).or_else(near) {
                        let message = match owner {
                            MemberOwner::Component(kind) => {
                                format!("{kind} has no parameter `{key}`: it has no effect")
                            }
                            MemberOwner::Parameter(name) => {
                                format!("`{name}` has no member `{key}`: it has no effect")
                            }
                        };
                        self.warn("unknown-parameter", &at, message, did_you_mean(meant));
                    }
                }
            }
        }
        self.deep -= 1;
    }

    fn field(&mut self, owner: MemberOwner<'_>, spec: &FieldSpec, value: &Json, at: &str) {
        if spec.offered {
            self.kind(owner, spec, value, at);
        }
        if spec.widget == Some(Widget::Tools) {
            self.tools(value, at);
            // An agent's tools are components with declarations of their own, not entries of a common form.
            return;
        }
        match (spec.kind, value) {
            (Kind::Objects(members), Json::Array(items)) => {
                for (place, item) in items.iter().enumerate() {
                    self.object(spec, members, item, &join(at, place));
                }
            }
            // Older editors write the fields of a form as a list.
            (Kind::Named(members), Json::Array(items)) if spec.widget == Some(Widget::Form) => {
                for (place, item) in items.iter().enumerate() {
                    self.object(spec, members, item, &join(at, place));
                }
            }
            (Kind::Object(members), Json::Object(_)) => self.object(spec, members, value, at),
            (Kind::Named(members), Json::Object(named)) if !members.is_empty() => {
                for (name, item) in named {
                    self.object(spec, members, item, &join(at, name));
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, of: &FieldSpec, members: &'static [Field], value: &Json, at: &str) {
        match value {
            Json::Object(object) => {
                let known: Vec<_> = members.iter().map(Field::spec).collect();
                self.members(MemberOwner::Parameter(of.name), &known, object, at);
            }
            Json::Null => {}
            other => self.wrong(of, &kinds::of_members(members), other, at),
        }
    }

    /// Examines the components that an agent has as its tools.
    fn tools(&mut self, value: &Json, at: &str) {
        for (place, tool) in value.as_array().into_iter().flatten().enumerate() {
            let kind = tool.get("component_name").and_then(Json::as_str);
            let spec = kind.and_then(|kind| self.comparison.catalog.get(kind));
            let params = tool.get("params");
            let at = join(&join(at, place), "params");
            match (spec, params) {
                (Some(spec), Some(Json::Object(params))) => {
                    self.component(spec, params, &at, common::OF_A_TOOL);
                }
                (Some(_), Some(Json::Null) | None) | (None, _) => {}
                (Some(_), Some(other)) => {
                    let message = format!("the parameters must be an object, and are {}", kind_of(other));
                    self.warn("wrong-type", &at, message, "write {\"name\": value, …}".to_owned());
                }
            }
        }
    }

    fn kind(&mut self, owner: MemberOwner<'_>, spec: &FieldSpec, value: &Json, at: &str) {
        // A component itself reports words that it does not understand, and some accept more than the offered ones.
        let others = match owner {
            MemberOwner::Component(_) => UnlistedWords::MayBeRead,
            MemberOwner::Parameter(_) => UnlistedWords::AreWrong,
        };
        if spec.widget == Some(Widget::Form) && value.is_array() {
            return;
        }
        if let Some(must) = kinds::mismatch(spec.kind, value, others) {
            self.wrong(spec, &must, value, at);
        } else if let Some(problem) = kinds::no_choice(spec, value, others) {
            let message = format!("`{}` is not a valid value of `{}`", problem.value, spec.name);
            self.warn("unknown-choice", at, message, problem.help);
        }
    }

    fn wrong(&mut self, spec: &FieldSpec, must: &str, value: &Json, at: &str) {
        // The value of a secret is not repeated.
        let is = if spec.secret { kind_of(value).to_owned() } else { described(value) };
        let message = format!("`{}` must be {must}, and is {is}", spec.name);
        self.warn("wrong-type", at, message, format!("it is {}", spec.summary));
    }

    fn warn(&mut self, code: &'static str, at: &str, message: String, help: String) {
        let ParameterComparison { node, told, .. } = self.comparison;
        // One finding per place: the component knows better what it needs.
        if told.contains(at) {
            return;
        }
        let problem = Problem::warning(code, format!("{}{at}", node.place.params), message).help(help);
        self.problems.add(problem.about(&node.id, &node.name));
    }
}
