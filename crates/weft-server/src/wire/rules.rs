//! Validation of the fields of a request. All errors are reported together, one line per field, with the messages
//! that clients of the compatible API know.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::Value as Json;
use weft_core::seam::document_reader::PAGE_RANGES_MAX;

use super::python;
use crate::error::ApiError;

type Object = serde_json::Map<String, Json>;

/// Maximum number of characters of an invalid value that an error repeats.
const VALUE_SHOWN_MAX: usize = 128;

/// Maximum number of errors that are reported.
const PROBLEMS_MAX: usize = 100;

/// Constraint on the value of a field.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// A string with a length in this range, in characters.
    Text(usize, usize),
    /// A string whose length in characters, without surrounding space, is in this range.
    Trimmed(usize, usize),
    /// An integer in this range.
    Integer(i64, i64),
    /// A number in this range.
    Number(f64, f64),
    /// True or false.
    Flag,
    /// Exactly one of these strings; never null.
    OneOf(&'static [&'static str]),
    /// A list of strings.
    Texts,
    /// A list of pairs of page numbers.
    Pages,
    /// An object with any members.
    Object,
    /// An object with these fields and no others; null counts as absent.
    Fields(&'static [(&'static str, Rule)]),
    /// Anything.
    Any,
}

/// All errors in a request.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<String>);

impl Problems {
    /// Adds an error.
    pub(crate) fn add(&mut self, field: &str, message: &str, value: &Json) {
        // Further errors are dropped, so that the answer to a body full of invalid fields is not larger than the
        // body.
        if self.0.len() < PROBLEMS_MAX {
            self.0.push(line(field, message, value));
        }
    }

    /// Returns whether there are no errors.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails with all errors.
    ///
    /// # Errors
    /// When there is any.
    pub(crate) fn refuse(self, code: u16) -> Result<(), ApiError> {
        if self.0.is_empty() { Ok(()) } else { Err(ApiError::new(code, self.0.join("\n"))) }
    }

    /// Checks the fields of an object, and that it has no others. A field that is null counts as absent, unless it is
    /// a choice.
    pub(crate) fn fields(&mut self, path: &str, object: &Object, rules: &[(&str, Rule)]) {
        for (key, rule) in rules {
            let never_null = matches!(rule, Rule::OneOf(_));
            if let Some(value) = object.get(*key).filter(|value| never_null || !value.is_null()) {
                self.value(&within(path, key), value, *rule);
            }
        }
        for (key, value) in object.iter().filter(|(key, _)| rules.iter().all(|(known, _)| known != key)) {
            self.add(&within(path, key), "Extra inputs are not permitted", value);
        }
    }

    /// Checks a value.
    pub(crate) fn value(&mut self, field: &str, value: &Json, rule: Rule) {
        match rule {
            Rule::Any => {}
            Rule::Text(min, max) => self.text(field, value, min..=max, str::to_owned),
            Rule::Trimmed(min, max) => self.text(field, value, min..=max, |text| text.trim().to_owned()),
            Rule::Integer(min, max) => self.number(field, value, ("integer", value.as_i64()), min..=max),
            Rule::Number(min, max) => self.number(field, value, ("number", value.as_f64()), min..=max),
            Rule::Flag if value.is_boolean() => {}
            Rule::Flag => self.add(field, "Input should be a valid boolean", value),
            Rule::OneOf(words) => {
                if value.as_str().is_none_or(|word| !words.contains(&word)) {
                    self.add(field, &one_of(words), value);
                }
            }
            Rule::Texts => self.texts(field, value),
            Rule::Pages => self.pages(field, value),
            Rule::Object if value.is_object() => {}
            Rule::Object => self.add(field, "Input should be a valid dictionary", value),
            Rule::Fields(rules) => match value {
                Json::Object(object) => self.fields(field, object, rules),
                other => self.add(field, "Input should be a valid dictionary", other),
            },
        }
    }

    fn text(&mut self, field: &str, value: &Json, lengths: RangeInclusive<usize>, read: fn(&str) -> String) {
        let Json::String(text) = value else {
            return self.add(field, "Input should be a valid string", value);
        };
        let length = read(text).chars().count();
        let (min, max) = lengths.into_inner();
        if length < min {
            self.add(field, &format!("String should have at least {}", characters(min)), value);
        } else if length > max {
            self.add(field, &format!("String should have at most {}", characters(max)), value);
        }
    }

    /// Checks a number, which is absent if `value` is none of this kind.
    fn number<T: PartialOrd + Display>(
        &mut self,
        field: &str,
        value: &Json,
        (kind, number): (&str, Option<T>),
        range: RangeInclusive<T>,
    ) {
        let (min, max) = range.into_inner();
        match number {
            None => self.add(field, &format!("Input should be a valid {kind}"), value),
            Some(number) if number < min => {
                self.add(field, &format!("Input should be greater than or equal to {min}"), value);
            }
            Some(number) if number > max => {
                self.add(field, &format!("Input should be less than or equal to {max}"), value);
            }
            Some(_) => {}
        }
    }

    fn texts(&mut self, field: &str, value: &Json) {
        let Json::Array(list) = value else {
            return self.add(field, "Input should be a valid list", value);
        };
        for (place, member) in list.iter().enumerate().filter(|(_, member)| !member.is_string()) {
            self.add(&within(field, &place.to_string()), "Input should be a valid string", member);
        }
    }

    fn pages(&mut self, field: &str, value: &Json) {
        let Json::Array(list) = value else {
            return self.add(field, "Input should be a valid list", value);
        };
        if list.len() > PAGE_RANGES_MAX {
            let message = format!("List should have at most {PAGE_RANGES_MAX} items, not {}", list.len());
            return self.add(field, &message, value);
        }
        for (place, member) in list.iter().enumerate() {
            let field = within(field, &place.to_string());
            match member {
                Json::Array(pair) if pair.len() == 2 && pair.iter().all(Json::is_i64) => {
                    if pair[0].as_i64() < Some(1) || pair[1].as_i64() < pair[0].as_i64() {
                        self.add(
                            &field,
                            "Input should be a first page from 1 on and a last page not before it",
                            member,
                        );
                    }
                }
                Json::Array(pair) if pair.len() == 2 => {
                    self.add(&field, "Input should be a valid integer", member);
                }
                Json::Array(_) => self.add(&field, "List should have 2 items", member),
                other => self.add(&field, "Input should be a valid list", other),
            }
        }
    }
}

/// Formats an error as one line.
pub(crate) fn line(field: &str, message: &str, value: &Json) -> String {
    let mut shown = python::shown(value);
    if shown.chars().count() > VALUE_SHOWN_MAX {
        shown = shown.chars().take(VALUE_SHOWN_MAX - 3).chain("...".chars()).collect();
    }
    format!("Field: <{field}> - Message: <{message}> - Value: <{shown}>")
}

/// `Input should be 'me' or 'team'`.
pub(crate) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    match quoted.split_last() {
        Some((last, [])) => format!("Input should be {last}"),
        Some((last, before)) => format!("Input should be {} or {last}", before.join(", ")),
        None => "Input should be absent".to_owned(),
    }
}

fn within(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn characters(count: usize) -> String {
    if count == 1 { "1 character".to_owned() } else { format!("{count} characters") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(value: &Json, rule: Rule) -> String {
        let mut problems = Problems::default();
        problems.value("f", value, rule);
        problems.0.join("\n")
    }

    #[test]
    fn every_rule_has_its_error_message() {
        let check = |value: Json, rule: Rule, expected: &str| {
            let told = told(&value, rule);
            let expected = match expected {
                "" => String::new(),
                message => line("f", message, &value),
            };
            assert_eq!(told, expected, "{value}");
        };
        check(json!("x"), Rule::Text(1, 3), "");
        check(json!(1), Rule::Text(1, 3), "Input should be a valid string");
        check(json!(""), Rule::Text(1, 3), "String should have at least 1 character");
        check(json!(" "), Rule::Text(1, 3), "");
        check(json!(" "), Rule::Trimmed(1, 3), "String should have at least 1 character");
        check(json!("语言文字"), Rule::Trimmed(1, 3), "String should have at most 3 characters");
        check(json!(1), Rule::Integer(1, 5), "");
        check(json!(0), Rule::Integer(1, 5), "Input should be greater than or equal to 1");
        check(json!(6), Rule::Integer(1, 5), "Input should be less than or equal to 5");
        check(json!("1"), Rule::Integer(1, 5), "Input should be a valid integer");
        check(json!(1.5), Rule::Integer(1, 5), "Input should be a valid integer");
        check(json!(true), Rule::Integer(1, 5), "Input should be a valid integer");
        check(json!(1), Rule::Number(0.0, 1.0), "");
        check(json!(1.1), Rule::Number(0.0, 1.0), "Input should be less than or equal to 1");
        check(json!(-1), Rule::Number(0.0, 1.0), "Input should be greater than or equal to 0");
        check(json!("1"), Rule::Number(0.0, 1.0), "Input should be a valid number");
        check(json!("true"), Rule::Flag, "Input should be a valid boolean");
        check(json!("me"), Rule::OneOf(&["me", "team"]), "");
        for other in [json!("we"), json!("ME"), json!(" me "), json!(null), json!([])] {
            check(other, Rule::OneOf(&["me", "team"]), "Input should be 'me' or 'team'");
        }
        check(json!(3), Rule::OneOf(&["me"]), "Input should be 'me'");
        check(json!({}), Rule::Texts, "Input should be a valid list");
        check(json!([[1, 2], [3, 3]]), Rule::Pages, "");
        for wrong in [json!([[2, 1]]), json!([[0, 1]])] {
            let mut problems = Problems::default();
            problems.value("f", &wrong, Rule::Pages);
            assert!(problems.0[0].contains("a last page not before it"), "{wrong}");
        }
        check(json!(vec![[1, 2]; PAGE_RANGES_MAX]), Rule::Pages, "");
        check(json!(vec![[1, 2]; 1_001]), Rule::Pages, "List should have at most 1000 items, not 1001");
        check(json!(1), Rule::Pages, "Input should be a valid list");
        check(json!([]), Rule::Object, "Input should be a valid dictionary");
    }

    #[test]
    fn nested_fields_are_named_by_their_path() {
        const RULES: &[(&str, Rule)] = &[
            ("a", Rule::Fields(&[("b", Rule::Flag)])),
            ("c", Rule::Texts),
            ("e", Rule::Flag),
            ("f", Rule::OneOf(&["one"])),
        ];
        let mut problems = Problems::default();
        let object =
            json!({"a": {"b": 1, "x": null}, "c": ["y", 2], "z": 3, "d": null, "e": null, "f": null});
        problems.fields("", object.as_object().unwrap(), RULES);
        assert_eq!(
            problems.0,
            [
                "Field: <a.b> - Message: <Input should be a valid boolean> - Value: <1>",
                "Field: <a.x> - Message: <Extra inputs are not permitted> - Value: <None>",
                "Field: <c.1> - Message: <Input should be a valid string> - Value: <2>",
                "Field: <f> - Message: <Input should be 'one'> - Value: <None>",
                "Field: <z> - Message: <Extra inputs are not permitted> - Value: <3>",
                "Field: <d> - Message: <Extra inputs are not permitted> - Value: <None>",
            ]
        );
        let error = format!("{:?}", problems.refuse(102).unwrap_err());
        assert!(error.contains("102") && error.contains("Field: <a.b>"), "{error}");
        Problems::default().refuse(101).unwrap();
        assert_eq!(
            told(&json!([[1], ["a", 1]]), Rule::Pages).lines().collect::<Vec<_>>(),
            [
                "Field: <f.0> - Message: <List should have 2 items> - Value: <[1]>",
                "Field: <f.1> - Message: <Input should be a valid integer> - Value: <['a', 1]>",
            ]
        );
    }

    #[test]
    fn long_values_are_cut_and_long_lists_of_problems_end() {
        let line = line("f", "m", &json!("x".repeat(1_000)));
        assert!(line.ends_with(&format!("<{}...>", "x".repeat(125))), "{line}");
        let mut problems = Problems::default();
        problems.value("f", &json!(vec![1; 10_000]), Rule::Texts);
        assert_eq!(problems.0.len(), PROBLEMS_MAX);
    }
}
