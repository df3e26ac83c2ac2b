//! Arguments of filters, bound as in Jinja on Python: each by position or by name.

use minijinja::value::{Kwargs, Rest, Value, ValueOrKwargs};
use minijinja::{Error as JinjaError, ErrorKind as JinjaKind};
use weft_core::value::listed;

use super::charges::refused;

/// The arguments of a filter besides the value it is applied to.
pub(super) struct Arguments(Vec<(&'static str, Value)>);

impl Arguments {
    /// Binds the arguments to these names, in their order.
    ///
    /// # Errors
    /// For more arguments than names, for an unknown name, and for one that is given twice.
    pub(super) fn of(
        filter: &str,
        names: &'static [&'static str],
        given: Rest<ValueOrKwargs>,
    ) -> Result<Self, JinjaError> {
        Self::bound(filter, names, &given.into_values())
    }

    /// Binds arguments that were already unpacked.
    pub(super) fn bound(
        filter: &str,
        names: &'static [&'static str],
        given: &[Value],
    ) -> Result<Self, JinjaError> {
        let takes = |what: String| {
            let listed = listed(names);
            JinjaError::new(
                JinjaKind::InvalidOperation,
                format!("`{filter}` {what}: it takes {listed}, in this order or by name"),
            )
        };
        let (by_place, by_name) = match given.split_last() {
            Some((last, before)) if last.is_kwargs() => (before, Some(Kwargs::try_from(last.clone())?)),
            _ => (given, None),
        };
        if by_place.len() > names.len() {
            return Err(takes("has too many arguments".to_owned()));
        }
        let mut bound: Vec<_> = names.iter().copied().zip(by_place.iter().cloned()).collect();
        for name in by_name.iter().flat_map(Kwargs::args) {
            let Some(known) = names.iter().find(|known| **known == name) else {
                return Err(takes(format!("has no argument `{name}`")));
            };
            if bound.iter().any(|(there, _)| there == known) {
                return Err(takes(format!("has the argument `{name}` twice")));
            }
            let value = by_name.as_ref().map(|all| all.get::<Value>(name)).transpose()?;
            bound.push((known, value.unwrap_or_default()));
        }
        Ok(Self(bound))
    }

    /// Returns the value of an argument that was given.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Returns the value of an argument that is neither none nor undefined.
    pub(super) fn set(&self, name: &str) -> Option<&Value> {
        self.get(name).filter(|value| !value.is_none() && !value.is_undefined())
    }

    /// Whether an argument was given and is true.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(Value::is_true)
    }

    /// Returns an argument as a whole number.
    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, JinjaError> {
        self.set(name).map(|value| i64::try_from(value.clone())).transpose()
    }

    /// Returns the text form of an argument.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.set(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }

    /// Returns the text form of a required argument.
    pub(super) fn needed_text(&self, name: &str) -> Result<String, JinjaError> {
        self.text(name).ok_or_else(|| refused("a filter argument is missing"))
    }

    /// Returns all arguments by name, as the library's own filters take them.
    pub(super) fn by_name(self) -> Value {
        Kwargs::from_iter(self.0.into_iter().map(|(name, value)| (name.to_owned(), value))).into()
    }
}
