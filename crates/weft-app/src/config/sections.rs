//! The names of top-level settings, derived from their type.

use serde::Deserialize as _;
use serde::de::value::Error;
use serde::de::{Deserializer, Error as _, Visitor};

use super::Config;

/// Returns all top-level settings and sections.
pub fn sections() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // It requests a struct with the names of its fields, which is all that is needed.
    let _ = Config::deserialize(FieldNames(&mut names));
    names
}

struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("the settings are no struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("only their names are wanted"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_names_match_the_defaults_file() {
        let file: toml::Table = super::super::DEFAULTS.parse().unwrap();
        let mut written: Vec<&str> = file.keys().map(String::as_str).collect();
        let mut names = sections().to_vec();
        written.sort_unstable();
        names.sort_unstable();
        assert_eq!(names, written);
    }
}
