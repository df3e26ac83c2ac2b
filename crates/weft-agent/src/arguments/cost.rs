//! What a JSON schema may refer to and what following it may cost. Schemas come from servers that nobody
//! has checked: a few lines of them can mean more steps than there is time for, or a descent without end.

use std::borrow::Cow;

use serde_json::Map;
use weft_core::Json;

/// Values in a schema, at most.
// Definitions of tools have some hundred values; those of whole APIs written into one schema some thousand.
const VALUES_MAX: usize = 20_000;
/// Schemas inside schemas, at most.
// Half of what serde_json reads, as each level of a schema costs the validator several calls on the stack.
const SCHEMA_DEPTH_MAX: usize = 64;
/// Steps that checking one set of arguments may take.
// Some tens of milliseconds of checking: a call waits for it, and so does whoever shares the thread.
const STEPS_MAX: usize = 200_000;
/// Schemas that may be entered one from the other while checking.
// The validator goes down by recursion; this is far from the end of a worker's stack and beyond any real
// schema.
const DEPTH_MAX: usize = 150;

/// What is wrong with a schema.
pub(super) type Fault = String;

/// Whether a schema can be used at all: not too large, and with references to places within itself only.
pub(super) fn inspect(root: &Json) -> Result<(), Fault> {
    let mut left = VALUES_MAX;
    measure(root, 0, &mut left)?;
    references(root, root)
}

fn measure(value: &Json, depth: usize, left: &mut usize) -> Result<(), Fault> {
    *left = left.checked_sub(1).ok_or_else(|| format!("it has more than {VALUES_MAX} values"))?;
    if depth > SCHEMA_DEPTH_MAX {
        return Err(format!("it is more than {SCHEMA_DEPTH_MAX} levels deep"));
    }
    match value {
        Json::Array(items) => items.iter().try_for_each(|item| measure(item, depth + 1, left)),
        Json::Object(map) => map.values().try_for_each(|value| measure(value, depth + 1, left)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Ok(()),
    }
}

/// Checks the references of a schema and of those inside it. The depth is known to be limited.
fn references(root: &Json, schema: &Json) -> Result<(), Fault> {
    let Some(map) = schema.as_object() else { return Ok(()) };
    // Where these lead depends on the way that led to them, so what following them costs cannot be told
    // beforehand.
    for keyword in ["$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor"] {
        if map.contains_key(keyword) {
            return Err(format!("`{keyword}` is not supported; use `$ref` with `#/$defs/name`"));
        }
    }
    if !std::ptr::eq(root, schema) && ["$id", "id"].iter().any(|id| map.get(*id).is_some_and(Json::is_string))
    {
        return Err(
            "a schema inside it has an `$id` of its own, which changes what references mean".to_owned()
        );
    }
    if let Some(reference) = map.get("$ref") {
        let found = reference.as_str().and_then(|reference| resolve(root, reference));
        if found.is_none() {
            return Err(format!("the reference {reference} leads to nothing within it"));
        }
    }
    inner(map).try_for_each(|(_, schema)| references(root, schema))
}

/// The place that a reference such as `#/$defs/name` leads to.
pub(super) fn resolve<'r>(root: &'r Json, reference: &str) -> Option<&'r Json> {
    // Only within the document: an address would make the validator fetch something for a stranger.
    let pointer = reference.strip_prefix('#')?;
    root.pointer(&decoded(pointer)?)
}

/// A text with `%20` and the like replaced by what it stands for.
fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        // `get(..2)` and not a slice: the text behind the sign may be shorter, or cut a character in two.
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(part.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Which values a schema inside a schema is about.
#[derive(Clone, Copy)]
pub(super) enum About<'s> {
    /// The same value.
    Itself,
    /// One member of an object.
    Member(&'s str),
    /// Members of an object.
    Members,
    /// One element of a list.
    Element(usize),
    /// Elements of a list.
    Elements,
    /// None: it is only there to be referred to.
    Nothing,
}

/// The schemas directly inside a schema, references left out.
pub(super) fn inner(map: &Map<String, Json>) -> impl Iterator<Item = (About<'_>, &Json)> {
    map.iter().flat_map(|(keyword, value)| -> Box<dyn Iterator<Item = (About<'_>, &Json)> + '_> {
        let listed = |about: fn(usize) -> About<'static>| {
            value
                .as_array()
                .into_iter()
                .flatten()
                .enumerate()
                .map(move |(index, schema)| (about(index), schema))
        };
        let named = |about: About<'static>| {
            value.as_object().into_iter().flat_map(Map::values).map(move |schema| (about, schema))
        };
        let one = |about: About<'static>| std::iter::once((about, value));
        match keyword.as_str() {
            "allOf" | "anyOf" | "oneOf" => Box::new(listed(|_| About::Itself)),
            "not" | "if" | "then" | "else" => Box::new(one(About::Itself)),
            "dependentSchemas" | "dependencies" => Box::new(named(About::Itself)),
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                Box::new(properties.map(|(name, schema)| (About::Member(name), schema)))
            }
            "patternProperties" => Box::new(named(About::Members)),
            "additionalProperties" | "unevaluatedProperties" | "propertyNames" => {
                Box::new(one(About::Members))
            }
            "prefixItems" => Box::new(listed(About::Element)),
            "items" if value.is_array() => Box::new(listed(About::Element)),
            "items" | "additionalItems" | "unevaluatedItems" | "contains" => Box::new(one(About::Elements)),
            "$defs" | "definitions" => Box::new(named(About::Nothing)),
            _ => Box::new(std::iter::empty()),
        }
    })
}

/// Whether checking a value against a schema stays within bounds, judged by following the schema as a
/// validator does, only without checking anything.
pub(crate) fn affordable(root: &Json, value: &Json) -> bool {
    Meter { root, left: STEPS_MAX }.follow(root, value, 0).is_some()
}

struct Meter<'s> {
    root: &'s Json,
    left: usize,
}

impl Meter<'_> {
    fn follow(&mut self, schema: &Json, value: &Json, depth: usize) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        // Also ends references that lead to themselves without taking a step into the value.
        if depth > DEPTH_MAX {
            return None;
        }
        let Some(map) = schema.as_object() else { return Some(()) };
        // To know what is left over, a validator goes over the schemas beside it once more.
        let unevaluated = map.keys().any(|keyword| keyword.starts_with("unevaluated"));
        for _ in 0..=usize::from(unevaluated) {
            if let Some(target) = map.get("$ref").and_then(Json::as_str).and_then(|r| resolve(self.root, r)) {
                self.follow(target, value, depth + 1)?;
            }
            if let Some(options) = map.get("enum").and_then(Json::as_array) {
                // Each option is compared whole, and a schema may list thousands.
                self.left = self.left.checked_sub(options.len())?;
            }
            for (about, inside) in inner(map) {
                match (about, value) {
                    (About::Itself, _) => self.follow(inside, value, depth + 1)?,
                    (About::Member(name), Json::Object(members)) => {
                        if let Some(member) = members.get(name) {
                            self.follow(inside, member, depth + 1)?;
                        }
                    }
                    (About::Members, Json::Object(members)) => {
                        members.values().try_for_each(|member| self.follow(inside, member, depth + 1))?;
                    }
                    (About::Element(index), Json::Array(items)) => {
                        if let Some(item) = items.get(index) {
                            self.follow(inside, item, depth + 1)?;
                        }
                    }
                    (About::Elements, Json::Array(items)) => {
                        items.iter().try_for_each(|item| self.follow(inside, item, depth + 1))?;
                    }
                    (
                        About::Member(_)
                        | About::Members
                        | About::Element(_)
                        | About::Elements
                        | About::Nothing,
                        _,
                    ) => {}
                }
            }
        }
        Some(())
    }
}
