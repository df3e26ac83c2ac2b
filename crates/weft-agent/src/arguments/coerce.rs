//! Converts values that models write in the wrong type when the right one is beyond doubt, and fills in defaults.

use serde_json::{Map, Number};
use weft_core::Json;
use weft_core::exact::kept;

use super::cost::resolve;

/// Maximum number of schemas that are visited for one set of arguments; beyond that values stay as they are.
// The same limit as for validation (`cost.rs`): arguments that reach it here are rejected there.
const STEPS_MAX: usize = 200_000;
/// Maximum nesting of schemas that are entered from one another.
const DEPTH_MAX: usize = 100;
/// Digits that a decimal number keeps exactly.
// A double always distinguishes 15 decimal digits; from the 16th on, two texts may be the same number, and an id
// written as text would come out as a different one.
const DIGITS_MAX: usize = 15;

/// Changes a value to fit a schema where nothing is lost: strings to the numbers and booleans they name, integral
/// floating-point numbers to integers, JSON in a string to its value, a single value to a list of that value. A null
/// for an optional, non-nullable member counts as absent. Absent members get their defaults.
pub(super) fn fit(root: &Json, value: &mut Json) {
    Coercion { root, left: STEPS_MAX }.fit(root, value, 0);
}

struct Coercion<'s> {
    root: &'s Json,
    left: usize,
}

impl<'s> Coercion<'s> {
    /// Counts a step. Returns `None` when the limit is reached.
    fn step(&mut self, depth: usize) -> Option<()> {
        // Both limits give up silently: a value that is not converted is validated as it was written, and the model
        // is told what does not fit.
        self.left = self.left.checked_sub(1).filter(|_| depth <= DEPTH_MAX)?;
        Some(())
    }

    fn fit(&mut self, schema: &'s Json, value: &mut Json, depth: usize) {
        let Some(map) = schema.as_object() else { return };
        if self.step(depth).is_none() {
            return;
        }
        // The value itself first: its resulting type decides which of the nested schemas apply to it.
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
            // An alternative is certain only if it is the only one for this type of value.
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
                // Models write null for "nothing"; a member that is absent gets its default below, while null would
                // be rejected.
                members.shift_remove(name);
            }
            match (members.get_mut(name), property.get("default")) {
                (Some(value), _) => self.fit(property, value, depth + 1),
                // A default that does not fit would cause an error that no model can correct.
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
        // Older dialects use `items` for a list of schemas, the newest one `prefixItems`; tools of servers use
        // either.
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

    /// The union of these types, if there are any and all of them are known.
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
        // A null is never converted to a value: it means that there is none.
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    };
    if let Some(converted) = converted {
        *value = converted;
    } else if types.has(Types::LIST) && !value.is_null() {
        *value = Json::Array(vec![value.take()]);
    }
}

/// The value of a string, if it has one of these types.
fn read(text: &str, types: Types) -> Option<Json> {
    match text.to_ascii_lowercase().as_str() {
        "true" if types.has(Types::BOOLEAN) => return Some(Json::Bool(true)),
        "false" if types.has(Types::BOOLEAN) => return Some(Json::Bool(false)),
        _ => {}
    }
    let value: Json = serde_json::from_str(&kept(text)).ok()?;
    match &value {
        Json::Number(number) => {
            // An integer that fits is exact whatever its length; a fraction is exact only up to the digits that a
            // double keeps.
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
    /// From here on, not every integer has a floating-point number of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !number.is_f64() {
        return Some(number.clone());
    }
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < EXACT)?;
    Some(Number::from(float as i64))
}
