//! Limits what a JSON schema may refer to and what validation may cost. Schemas come from untrusted servers: a few
//! lines can require more steps than there is time for, or endless recursion.

use std::borrow::Cow;

use serde_json::Map;
use weft_core::Json;

/// Maximum number of values in a schema.
// Definitions of tools have a few hundred values; schemas of whole APIs have a few thousand.
const VALUES_MAX: usize = 20_000;
/// Maximum nesting of schemas inside schemas.
// Half of what serde_json reads, because each level of a schema costs the validator several stack frames.
const SCHEMA_DEPTH_MAX: usize = 64;
/// Maximum number of steps for validating one set of arguments.
// Some tens of milliseconds of validation: the call waits for it, and so do other tasks on the same thread.
const STEPS_MAX: usize = 200_000;
/// Maximum nesting of schemas entered from one another during validation.
// The validator is recursive; this is far from exhausting a worker's stack and beyond any real schema.
const DEPTH_MAX: usize = 150;

/// What is wrong with a schema.
pub(super) type SchemaFault = String;

/// Checks whether a schema can be used at all: not too large, and with references only to places within itself.
pub(super) fn inspect(root: &Json) -> Result<(), SchemaFault> {
    let mut left = VALUES_MAX;
    measure(root, 0, &mut left)?;
    references(root, root)
}

fn measure(value: &Json, depth: usize, left: &mut usize) -> Result<(), SchemaFault> {
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

/// Checks the references of a schema and of those inside it. The depth has already been limited.
fn references(root: &Json, schema: &Json) -> Result<(), SchemaFault> {
    let Some(map) = schema.as_object() else { return Ok(()) };
    // The targets of these depend on the path that led to them, so the cost of following them cannot be computed in
    // advance.
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

/// Resolves a reference such as `#/$defs/name`.
pub(super) fn resolve<'r>(root: &'r Json, reference: &str) -> Option<&'r Json> {
    // Only within the document: a URL would make the validator fetch something on behalf of an untrusted party.
    let pointer = reference.strip_prefix('#')?;
    root.pointer(&decoded(pointer)?)
}

/// Decodes percent-encoding such as `%20`.
fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        // `get(..2)` and not a slice: the text after the sign may be shorter, or split a character.
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(part.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// The values to which a nested schema applies.
#[derive(Clone, Copy)]
pub(super) enum AppliesTo<'s> {
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
    /// None: the schema is only a target of references.
    Nothing,
}

/// The schemas directly inside a schema, not following references.
pub(super) fn inner(map: &Map<String, Json>) -> impl Iterator<Item = (AppliesTo<'_>, &Json)> {
    map.iter().flat_map(|(keyword, value)| -> Box<dyn Iterator<Item = (AppliesTo<'_>, &Json)> + '_> {
        let listed = |about: fn(usize) -> AppliesTo<'static>| {
            value
                .as_array()
                .into_iter()
                .flatten()
                .enumerate()
                .map(move |(index, schema)| (about(index), schema))
        };
        let named = |about: AppliesTo<'static>| {
            value.as_object().into_iter().flat_map(Map::values).map(move |schema| (about, schema))
        };
        let one = |about: AppliesTo<'static>| std::iter::once((about, value));
        match keyword.as_str() {
            "allOf" | "anyOf" | "oneOf" => Box::new(listed(|_| AppliesTo::Itself)),
            "not" | "if" | "then" | "else" => Box::new(one(AppliesTo::Itself)),
            "dependentSchemas" | "dependencies" => Box::new(named(AppliesTo::Itself)),
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                Box::new(properties.map(|(name, schema)| (AppliesTo::Member(name), schema)))
            }
            "patternProperties" => Box::new(named(AppliesTo::Members)),
            "additionalProperties" | "unevaluatedProperties" | "propertyNames" => {
                Box::new(one(AppliesTo::Members))
            }
            "prefixItems" => Box::new(listed(AppliesTo::Element)),
            "items" if value.is_array() => Box::new(listed(AppliesTo::Element)),
            "items" | "additionalItems" | "unevaluatedItems" | "contains" => {
                Box::new(one(AppliesTo::Elements))
            }
            "$defs" | "definitions" => Box::new(named(AppliesTo::Nothing)),
            _ => Box::new(std::iter::empty()),
        }
    })
}

/// Whether validating a value against a schema stays within the limits, determined by following the schema as a
/// validator does but without checking anything.
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
        // Also ends references that lead to themselves without descending into the value.
        if depth > DEPTH_MAX {
            return None;
        }
        let Some(map) = schema.as_object() else { return Some(()) };
        // To find unevaluated members, a validator visits the adjacent schemas a second time.
        let unevaluated = map.keys().any(|keyword| keyword.starts_with("unevaluated"));
        for _ in 0..=usize::from(unevaluated) {
            if let Some(target) = map.get("$ref").and_then(Json::as_str).and_then(|r| resolve(self.root, r)) {
                self.follow(target, value, depth + 1)?;
            }
            if let Some(options) = map.get("enum").and_then(Json::as_array) {
                // Each option is compared as a whole, and a schema may list thousands.
                self.left = self.left.checked_sub(options.len())?;
            }
            for (about, inside) in inner(map) {
                match (about, value) {
                    (AppliesTo::Itself, _) => self.follow(inside, value, depth + 1)?,
                    (AppliesTo::Member(name), Json::Object(members)) => {
                        if let Some(member) = members.get(name) {
                            self.follow(inside, member, depth + 1)?;
                        }
                    }
                    (AppliesTo::Members, Json::Object(members)) => {
                        members.values().try_for_each(|member| self.follow(inside, member, depth + 1))?;
                    }
                    (AppliesTo::Element(index), Json::Array(items)) => {
                        if let Some(item) = items.get(index) {
                            self.follow(inside, item, depth + 1)?;
                        }
                    }
                    (AppliesTo::Elements, Json::Array(items)) => {
                        items.iter().try_for_each(|item| self.follow(inside, item, depth + 1))?;
                    }
                    (
                        AppliesTo::Member(_)
                        | AppliesTo::Members
                        | AppliesTo::Element(_)
                        | AppliesTo::Elements
                        | AppliesTo::Nothing,
                        _,
                    ) => {}
                }
            }
        }
        Some(())
    }
}
