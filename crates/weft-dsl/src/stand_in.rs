//! Values that stand in for parameters that are wrong or missing, by the kind of value that each has.

use serde_json::{Map, json};
use weft_core::component::{ComponentSpec, ParamProblem};
use weft_core::field::{AnyField as _, Field, FieldSpec, Kind, common, specs};
use weft_core::value::{number, whole};
use weft_core::{ComponentId, Json};

use crate::pointer::unescape;

/// A reference that every canvas can read.
pub(crate) const REFERENCE: &str = "sys.query";
/// A name that nobody gives, which is also an operator.
const WORD: &str = "=";
/// Maximum nesting depth of a stand-in: descriptions of parameters are not nested deeper.
const DEEP_MAX: u8 = 4;

/// Returns the kind of the parameter at a place, or of a member of it.
pub(crate) fn kind_at(spec: &'static ComponentSpec, pointer: &str) -> Option<Kind> {
    let mut steps = pointer.strip_prefix('/')?.split('/').map(unescape);
    let first = steps.next()?;
    let is_it = |field: &&'static FieldSpec| field.name == first || field.older.contains(&first.as_str());
    let mut kind = specs(spec.fields).chain(specs(common::GROUPS)).find(is_it)?.kind;
    for step in steps {
        kind = match kind {
            Kind::Objects(members) | Kind::Named(members) => Kind::Object(members),
            Kind::Object(members) => members.iter().map(Field::spec).find(|spec| spec.name == step)?.kind,
            Kind::Texts => Kind::Template,
            _ => return None,
        };
    }
    Some(kind)
}

/// Whether another value at this place leaves the outputs of the component as they are.
pub(crate) fn leaves_outputs(spec: &'static ComponentSpec, place: &str) -> bool {
    let around = std::iter::successors(Some(place), |place| Some(place.rsplit_once('/')?.0));
    let kind = around.filter(|place| !place.is_empty()).find_map(|place| kind_at(spec, place));
    kind.is_some_and(|kind| is_at_hand(kind) || matches!(kind, Kind::Template | Kind::Texts | Kind::List))
}

/// Whether the stand-in of a kind is better than no value: it changes nothing but what the parameter itself decides.
pub(crate) fn is_at_hand(kind: Kind) -> bool {
    matches!(kind, Kind::Reference | Kind::Targets | Kind::Whole { .. } | Kind::Number { .. })
}

/// Whether a kind has a stand-in.
pub(crate) fn exists(kind: Kind) -> bool {
    match kind {
        Kind::Any | Kind::Flag | Kind::Values => false,
        Kind::Object(members) | Kind::Named(members) => !members.is_empty(),
        Kind::Choice(choices) => !choices.is_empty(),
        _ => true,
    }
}

/// Returns a value of this kind in place of `value`, of which `problem` is reported; `id` is that of the component.
pub(crate) fn of(kind: Kind, value: &Json, problem: &ParamProblem, id: &ComponentId) -> Option<Json> {
    // The help for an unknown operation lists the known ones.
    let listed = || problem.help.as_deref()?.split('`').nth(1);
    match kind {
        Kind::Text => Some(listed().unwrap_or(WORD).into()),
        Kind::Whole { min, max } => {
            let wanted = number(value).and_then(whole).unwrap_or(1);
            Some(wanted.clamp(min, max).into())
        }
        Kind::Number { min, max } => Some(number(value).unwrap_or(1.0).clamp(min, max).into()),
        _ => made(kind, id, 0),
    }
}

fn made(kind: Kind, id: &ComponentId, deep: u8) -> Option<Json> {
    if deep > DEEP_MAX || !exists(kind) {
        return None;
    }
    let object = |members: &'static [Field]| {
        let member = |field: &Field| {
            let spec = field.spec();
            Some((spec.name.to_owned(), made(spec.kind, id, deep + 1)?))
        };
        Json::Object(members.iter().filter_map(member).collect::<Map<_, _>>())
    };
    match kind {
        Kind::Any | Kind::Flag | Kind::Values => None,
        Kind::Text => Some(WORD.into()),
        Kind::Template | Kind::Reference => Some(REFERENCE.into()),
        Kind::Whole { min, max } => Some(1_i64.clamp(min, max).into()),
        Kind::Number { min, max } => Some(1.0_f64.clamp(min, max).into()),
        Kind::Choice(choices) => choices.first().map(|choice| choice.value.into()),
        Kind::Texts | Kind::List => Some(json!([REFERENCE])),
        Kind::Targets => Some(json!([id.as_str()])),
        Kind::Objects(members) => Some(json!([object(members)])),
        Kind::Object(members) => Some(object(members)),
        Kind::Named(members) => Some(Json::Object(Map::from_iter([(WORD.to_owned(), object(members))]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::component::Role;
    use weft_core::field::{choice, fields};

    static ROWS: Field = Field::raw(
        "rows",
        Kind::Objects(&[
            Field::raw("key", Kind::Text, ""),
            Field::raw("how", Kind::Choice(&[choice("all", ""), choice("any", "")]), ""),
            Field::raw("value", Kind::Any, ""),
        ]),
        "",
    )
    .older(&["lines"]);
    static TEXTS: Field = Field::raw("texts", Kind::Texts, "");
    static COUNT: Field = Field::raw("count", Kind::Whole { min: 2, max: 9 }, "");

    static SPEC: ComponentSpec = ComponentSpec {
        kind: "Test",
        role: Role::Step,
        summary: "",
        fields: &[fields(&[&ROWS, &TEXTS, &COUNT])],
        outputs: &[],
        time_limit: None,
        measuring_only: false,
        tool: None,
        build: |_| Err(Vec::new()),
    };

    fn at(place: &str, value: &Json, help: &str) -> Option<Json> {
        let problem = ParamProblem::new(place, "").help(help);
        of(kind_at(&SPEC, place)?, value, &problem, &ComponentId::from("Test:0"))
    }

    #[test]
    fn a_stand_in_is_of_the_kind_that_is_declared_at_its_place() {
        let check = |place: &str, value: Json, expected: Json| {
            assert_eq!(at(place, &value, "").unwrap_or_default(), expected, "{place}");
        };
        check("/rows", json!(null), json!([{"key": "=", "how": "all"}]));
        check("/lines/0", json!("x"), json!({"key": "=", "how": "all"}));
        check("/rows/3/how", json!("some"), json!("all"));
        check("/rows/0/value", json!(1), json!(null));
        check("/texts", json!([]), json!(["sys.query"]));
        check("/texts/0", json!(""), json!("sys.query"));
        check("/count", json!("many"), json!(2));
        check("/count", json!(12), json!(9));
        check("/count", json!(3), json!(3));
        check("/retry_max", json!(-1), json!(0));
        check("/other", json!(1), json!(null));
        assert_eq!(at("/rows/0/key", &json!("x"), "use one of `set`, `clear`"), Some(json!("set")));
    }

    #[test]
    fn which_values_do_not_decide_what_outputs_there_are() {
        let check = |place: &str, expected: bool| {
            assert_eq!(leaves_outputs(&SPEC, place), expected, "{place}");
        };
        check("/count", true);
        check("/texts/0", true);
        check("/rows/0/key", false);
        check("/rows", false);
        check("/other/0", false);
    }
}
