//! What the components declare about a place in their parameters.

use weft_core::field::{AnyField as _, Field, FieldSpec, Kind, Widget, common, specs};
use weft_core::{Catalog, Json};

/// What is known about a value or a name.
#[derive(Clone, Copy)]
pub(super) enum Declared {
    /// A parameter, or a member of one.
    Field(&'static FieldSpec),
    /// A text in a list of texts.
    Text,
    /// Free: a name that the author chooses, or a value without restrictions.
    Own,
    /// Nothing: a leftover of another editor.
    Nothing,
}

/// What a component of this type declares about a place in its parameters.
pub(super) fn at(catalog: &Catalog, kind: &str, params: &Json, path: &[String]) -> Declared {
    let (Some(spec), Some((name, rest))) = (catalog.get(kind), path.split_first()) else {
        return Declared::Nothing;
    };
    let known = || specs(spec.fields).chain(specs(common::GROUPS));
    match known().find(|field| field.name == name || field.older.contains(&name.as_str())) {
        None => Declared::Nothing,
        Some(field) if field.widget == Some(Widget::Tools) => tool(catalog, field, &params[name], rest),
        Some(field) => inside(field, rest),
    }
}

fn tool(catalog: &Catalog, field: &'static FieldSpec, tools: &Json, path: &[String]) -> Declared {
    match path {
        [] => Declared::Field(field),
        [place, params, rest @ ..] if params == "params" && !rest.is_empty() => {
            let tool = place.parse::<usize>().map(|place| &tools[place]).unwrap_or(&Json::Null);
            at(catalog, tool["component_name"].as_str().unwrap_or_default(), &tool["params"], rest)
        }
        _ => Declared::Own,
    }
}

fn inside(field: &'static FieldSpec, path: &[String]) -> Declared {
    let Some((step, rest)) = path.split_first() else { return Declared::Field(field) };
    match field.kind {
        Kind::Object(members) if !members.is_empty() => member(members, step, rest),
        Kind::Objects(members) | Kind::Named(members) if !members.is_empty() => match rest.split_first() {
            Some((name, rest)) => member(members, name, rest),
            None if step.parse::<usize>().is_ok() => Declared::Field(field),
            None => Declared::Own,
        },
        Kind::Texts => Declared::Text,
        Kind::Targets => Declared::Text,
        _ => Declared::Own,
    }
}

fn member(members: &'static [Field], name: &str, rest: &[String]) -> Declared {
    match members.iter().map(|member| member.spec()).find(|member| member.name == name) {
        Some(member) => inside(member, rest),
        None => Declared::Nothing,
    }
}
