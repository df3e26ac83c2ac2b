//! Values that models write in the wrong type, where the right one is beyond doubt; defaults.

use serde_json::{Map, Number};
use weft_core::Json;
use weft_core::exact::kept;

use super::cost::resolve;

/// Schemas that are looked at for one set of arguments, at most; beyond that values stay as they are.
// As many as a check may take (`cost.rs`): who reaches it here is refused there.
const STEPS_MAX: usize = 200_000;
/// Schemas that may be entered one from the other.
const DEPTH_MAX: usize = 100;
/// Digits that a decimal number keeps exactly.
// A double tells 15 decimal digits apart, always; from the 16th on two texts may be the same number, and an
// id that was written as text would come out as another one.
const DIGITS_MAX: usize = 15;

/// Changes a value to fit a schema where nothing is lost by it: texts to the numbers and booleans that they
/// name, whole floating-point numbers to integers, JSON written as text to what it holds, a single value to a
/// list of it. A null for a member that may be left out and may not be null counts as left out. Members that
/// are left out get their default.
pub(super) fn fit(root: &Json, value: &mut Json) {
    Fitting { root, left: STEPS_MAX }.fit(root, value, 0);
}

struct Fitting<'s> {
    root: &'s Json,
    left: usize,
}

impl<'s> Fitting<'s> {
    /// Counts a step. None when there is none left.
    fn step(&mut self, depth: usize) -> Option<()> {
        // Both limits give up quietly: what is not fitted is checked as it was written, and the model is told
        // what does not fit.
        self.left = self.left.checked_sub(1).filter(|_| depth <= DEPTH_MAX)?;
        Some(())
    }

    fn fit(&mut self, schema: &'s Json, value: &mut Json, depth: usize) {
        let Some(map) = schema.as_object() else { return };
        if self.step(depth).is_none() {
            return;
        }
        // The value itself first: what it becomes decides which of the schemas below are about it.
        if let Some(types) = self.types(schema, depth) {
            convert(value, types);
        }
        if let Some(target) = target(self.root, map) {
            self.fit(target, value, depth + 1);
        }
        for part in listed(map, "allOf") {
            self.fit(part, value, depth + 1);
        }
        for alternatives in ["anyOf", "oneOf"] {
            let mut suitable = Vec::new();
            for one in listed(map, alternatives) {
                if self.types(one, depth).is_some_and(|types| types.admit(value)) {
                    suitable.push(one);
                }
            }
            // Only an alternative that is the only one for this type of value is meant without doubt.
            if let [only] = suitable[..] {
                self.fit(only, value, depth + 1);
            }
        }
        match value {
            Json::Object(members) => self.members(map, members, depth),
            Json::Array(items) => self.items(map, items, depth),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
    }

    fn members(&mut self, schema: &'s Map<String, Json>, members: &mut Map<String, Json>, depth: usize) {
        let properties = schema.get("properties").and_then(Json::as_object);
        let required =
            |name: &str| listed(schema, "required").any(|required| required.as_str() == Some(name));
        for (name, property) in properties.into_iter().flatten() {
            let types = self.types(property, depth);
            let admits = |value: &Json| types.is_none_or(|types| types.admit(value));
            if members.get(name).is_some_and(|value| value.is_null() && !admits(value)) && !required(name) {
                // Models write null for "nothing"; a member that is absent gets its default below, one that
                // is null would be refused.
                members.shift_remove(name);
            }
            match (members.get_mut(name), property.get("default")) {
                (Some(value), _) => self.fit(property, value, depth + 1),
                // A default that does not fit would be a fault that no model can put right.
                (None, Some(default)) if admits(default) => {
                    members.insert(name.clone(), default.clone());
                }
                (None, _) => {}
            }
        }
        if let Some(additional) = schema.get("additionalProperties").filter(|schema| schema.is_object()) {
            let known = |name: &str| properties.is_some_and(|properties| properties.contains_key(name));
            for (_, value) in members.iter_mut().filter(|(name, _)| !known(name)) {
                self.fit(additional, value, depth + 1);
            }
        }
    }

    fn items(&mut self, schema: &'s Map<String, Json>, items: &mut [Json], depth: usize) {
        // Older dialects say `items` for a list of schemas, the newest one `prefixItems`; tools of servers
        // come with either.
        let listed_at = if schema.contains_key("prefixItems") { "prefixItems" } else { "items" };
        let mut first = 0;
        for (schema, item) in listed(schema, listed_at).zip(items.iter_mut()) {
            self.fit(schema, item, depth + 1);
            first += 1;
        }
        if let Some(rest) = schema.get("items").filter(|schema| schema.is_object()) {
            for item in items.iter_mut().skip(first) {
                self.fit(rest, item, depth + 1);
            }
        }
    }

    /// The types that a schema admits, if it says anything about them.
    fn types(&mut self, schema: &'s Json, depth: usize) -> Option<Types> {
        self.step(depth)?;
        let map = schema.as_object()?;
        match map.get("type") {
            Some(Json::String(name)) => return Types::named(name),
            Some(Json::Array(names)) => {
                return Types::all(names.iter().map(|name| Types::named(name.as_str()?)));
            }
            _ => {}
        }
        if let Some(target) = target(self.root, map) {
            return self.types(target, depth + 1);
        }
        for alternatives in ["anyOf", "oneOf"] {
            if map.contains_key(alternatives) {
                return Types::all(listed(map, alternatives).map(|one| self.types(one, depth + 1)));
            }
        }
        if map.contains_key("enum") {
            return Types::all(listed(map, "enum").map(|value| Some(Types::of_value(value))));
        }
        map.get("const").map(Types::of_value)
    }
}

fn listed<'s>(schema: &'s Map<String, Json>, keyword: &str) -> impl Iterator<Item = &'s Json> + use<'s> {
    schema.get(keyword).and_then(Json::as_array).into_iter().flatten()
}

fn target<'s>(root: &'s Json, schema: &Map<String, Json>) -> Option<&'s Json> {
    resolve(root, schema.get("$ref")?.as_str()?)
}

/// The types that a schema admits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Types(u8);

impl Types {
    const NULL: Self = Self(1);
    const BOOLEAN: Self = Self(1 << 1);
    const INTEGER: Self = Self(1 << 2);
    const FRACTION: Self = Self(1 << 3);
    const TEXT: Self = Self(1 << 4);
    const LIST: Self = Self(1 << 5);
    const OBJECT: Self = Self(1 << 6);

    fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// All of these together, if there are any and each is known.
    fn all(mut types: impl Iterator<Item = Option<Self>>) -> Option<Self> {
        types.try_fold(Self::default(), |all, types| Some(all.with(types?))).filter(|all| all.0 != 0)
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::INTEGER.with(Self::FRACTION),
            "string" => Self::TEXT,
            "array" => Self::LIST,
            "object" => Self::OBJECT,
            _ => return None,
        })
    }

    fn of_value(value: &Json) -> Self {
        match value {
            Json::Null => Self::NULL,
            Json::Bool(_) => Self::BOOLEAN,
            Json::Number(number) if number.is_f64() => Self::FRACTION,
            Json::Number(_) => Self::INTEGER,
            Json::String(_) => Self::TEXT,
            Json::Array(_) => Self::LIST,
            Json::Object(_) => Self::OBJECT,
        }
    }

    fn admit(self, value: &Json) -> bool {
        self.has(Self::of_value(value))
    }
}

fn convert(value: &mut Json, types: Types) {
    if types.admit(value) {
        return;
    }
    let converted = match value {
        Json::String(text) => read(text.trim(), types),
        Json::Number(number) => whole(number).filter(|_| types.has(Types::INTEGER)).map(Json::Number),
        // A null is never made a value: who writes it means that there is none.
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    };
    if let Some(converted) = converted {
        *value = converted;
    } else if types.has(Types::LIST) && !value.is_null() {
        *value = Json::Array(vec![value.take()]);
    }
}

/// What a text says, if that is of one of these types.
fn read(text: &str, types: Types) -> Option<Json> {
    match text.to_ascii_lowercase().as_str() {
        "true" if types.has(Types::BOOLEAN) => return Some(Json::Bool(true)),
        "false" if types.has(Types::BOOLEAN) => return Some(Json::Bool(false)),
        _ => {}
    }
    let value: Json = serde_json::from_str(&kept(text)).ok()?;
    match &value {
        Json::Number(number) => {
            // An integer that fits is exact whatever its length; a fraction is only as long as a double keeps
            // it.
            let exact = !number.is_f64() || text.bytes().filter(u8::is_ascii_digit).count() <= DIGITS_MAX;
            let whole = whole(number).filter(|_| types.has(Types::INTEGER));
            let number = whole.or_else(|| types.has(Types::FRACTION).then(|| number.clone()));
            number.filter(|_| exact).map(Json::Number)
        }
        Json::Array(_) | Json::Object(_) => types.admit(&value).then_some(value),
        Json::Null | Json::Bool(_) | Json::String(_) => None,
    }
}

/// A number as an integer, if it is one.
fn whole(number: &Number) -> Option<Number> {
    /// Above it not every integer has a floating-point number of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !number.is_f64() {
        return Some(number.clone());
    }
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < EXACT)?;
    Some(Number::from(float as i64))
}
