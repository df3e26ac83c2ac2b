//! Infers the types of columns from the majority of their values.

use jiff::civil::{Date, Time};
use serde_json::json;
use weft_core::value::Json;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    /// Integers.
    Int,
    /// Numbers with fractions.
    Float,
    /// Booleans.
    Bool,
    /// Dates, with or without a time.
    DateTime,
    /// Any text.
    Text,
}

impl ColumnType {
    /// Type of most of the non-empty values. A column that mixes integers and other numbers is `Float`.
    pub(crate) fn of<'v>(values: impl Iterator<Item = &'v str>) -> Self {
        let (mut count, mut ints, mut floats, mut bools, mut dates) = (0, 0, 0, 0, 0);
        for value in values.map(str::trim).filter(|value| !value.is_empty()) {
            count += 1;
            ints += usize::from(int(value).is_some());
            floats += usize::from(float(value).is_some());
            bools += usize::from(boolean(value).is_some());
            dates += usize::from(datetime(value).is_some());
        }
        // Every integer is also a number, and 0 and 1 are not booleans.
        let most = |of: usize| of * 2 > count;
        match () {
            () if most(dates) => Self::DateTime,
            () if most(bools) => Self::Bool,
            () if most(floats) && ints == floats => Self::Int,
            () if most(floats) => Self::Float,
            () => Self::Text,
        }
    }

    /// Parses a value of the column; `None` if it does not have the column's type.
    pub(crate) fn read(self, value: &str) -> Option<Json> {
        let value = value.trim();
        match self {
            Self::Int => int(value).map(|number| json!(number)),
            Self::Float => float(value).map(|number| json!(number)),
            Self::Bool => boolean(value).map(Json::Bool),
            Self::DateTime => datetime(value).map(Json::String),
            Self::Text => Some(Json::String(value.to_owned())),
        }
    }

    /// Name of the type for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Int => "whole number",
            Self::Float => "number",
            Self::Bool => "yes or no",
            Self::DateTime => "date",
            Self::Text => "text",
        }
    }
}

/// Removes the thousands separators from a number; `None` for digits with leading zeros, which are a code.
fn digits(value: &str) -> Option<String> {
    let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
    let whole = unsigned.split(['.', 'e', 'E']).next().unwrap_or_default();
    let is_code = whole.len() > 1 && whole.starts_with('0');
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let grouped = whole.contains(',');
    let fits = !grouped || ((1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3));
    // There are no thousands separators after the decimal point.
    let fits = fits && !unsigned[whole.len()..].contains(',');
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') && fits && !is_code;
    is_number.then(|| value.replace(',', ""))
}

fn int(value: &str) -> Option<i64> {
    digits(value)?.parse().ok()
}

fn float(value: &str) -> Option<f64> {
    digits(value)?.parse().ok().filter(|number: &f64| number.is_finite())
}

fn boolean(value: &str) -> Option<bool> {
    match value.to_lowercase().as_str() {
        "true" | "yes" | "是" | "✓" | "✔" | "☑" | "✅" | "√" => Some(true),
        "false" | "no" | "否" | "✗" | "✘" | "❌" | "×" => Some(false),
        _ => None,
    }
}

/// Parses a date with the year first, such as `2024-03-01`, `2024/3/1`, `2024.3.1` or `2024年3月1日`, with an optional
/// time. Other orders mean different dates in different countries and are left as text.
fn datetime(value: &str) -> Option<String> {
    let value = value.trim_end_matches(['Z', '日']);
    let end = value.find(['T', ' ', '日']).unwrap_or(value.len());
    let (day, time) = value.split_at(end);
    let numbers = day.split(['-', '/', '.', '年', '月']).map(number).collect::<Option<Vec<i16>>>()?;
    // The year must have four digits: a shorter number is a day, a month or an ambiguous year.
    let [year @ 1000..=9999, month, day] = numbers[..] else { return None };
    let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    let time = time.trim_start_matches(['T', ' ', '日']);
    if time.is_empty() {
        return Some(date.to_string());
    }
    let whole_seconds = time.split('.').next()?;
    let mut parts = whole_seconds.split(':').map(number).collect::<Option<Vec<i16>>>()?;
    parts.resize(if parts.len() == 2 { 3 } else { parts.len() }, 0);
    let [hour, minute, second] = parts[..] else { return None };
    let part = |number: i16| i8::try_from(number).ok();
    let time = Time::new(part(hour)?, part(minute)?, part(second)?, 0).ok()?;
    Some(format!("{date}T{time}"))
}

fn number(text: &str) -> Option<i16> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_the_type_of_most_values() {
        let check = |values: &[&str], expected: ColumnType, read: &[Json]| {
            let found = ColumnType::of(values.iter().copied());
            assert_eq!(found, expected, "{values:?}");
            let values: Vec<Json> = values.iter().filter_map(|value| found.read(value)).collect();
            assert_eq!(values, read, "{values:?}");
        };
        check(&["1", "-20", "1,234"], ColumnType::Int, &[json!(1), json!(-20), json!(1234)]);
        check(&["1", "2.5", "", "n/a"], ColumnType::Float, &[json!(1.0), json!(2.5)]);
        check(&["007", "012"], ColumnType::Text, &[json!("007"), json!("012")]);
        check(&["yes", "No", "是"], ColumnType::Bool, &[json!(true), json!(false), json!(true)]);
        check(&["0", "1"], ColumnType::Int, &[json!(0), json!(1)]);
        check(
            &["2024-02-29", "2024/3/1 10:05", "2024年3月2日", "2024-01-02T03:04:05.5Z"],
            ColumnType::DateTime,
            &[
                json!("2024-02-29"),
                json!("2024-03-01T10:05:00"),
                json!("2024-03-02"),
                json!("2024-01-02T03:04:05"),
            ],
        );
        check(&["2023-02-29", "03/04/2024"], ColumnType::Text, &[json!("2023-02-29"), json!("03/04/2024")]);
        check(
            &["inf", "NaN", "1e999", "12,34", "1,234.5,678"],
            ColumnType::Text,
            &["inf", "NaN", "1e999", "12,34", "1,234.5,678"].map(|v| json!(v)),
        );
        check(&["", " "], ColumnType::Text, &[json!(""), json!("")]);
        check(&["9223372036854775808"], ColumnType::Float, &[json!(9.223_372_036_854_776e18)]);
    }
}
