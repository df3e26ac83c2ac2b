//! Converts values from the servers' text format to JSON.

use serde_json::{Number, Value as Json};

/// Number of digits that every JSON number preserves.
// A double preserves at least 15 significant decimal digits (`f64::DIGITS`).
const DIGITS_KEPT: usize = 15;

/// How the text of a column's values is interpreted, according to the column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    /// A number.
    Number,
    /// A boolean: `t` or `f`; or 1 or 0 in MySQL, where it is a number.
    Truth,
    /// JSON.
    Json,
    /// Any other text.
    Text,
}

impl CellKind {
    /// The kind for a type name.
    pub(crate) fn named(name: &str) -> Self {
        match name.to_ascii_uppercase().trim_end_matches(" UNSIGNED") {
            "INT2" | "INT4" | "INT8" | "FLOAT4" | "FLOAT8" | "NUMERIC" | "TINYINT" | "SMALLINT"
            | "MEDIUMINT" | "INT" | "BIGINT" | "FLOAT" | "DOUBLE" | "DECIMAL" | "YEAR" => Self::Number,
            "BOOL" | "BOOLEAN" => Self::Truth,
            "JSON" | "JSONB" => Self::Json,
            _ => Self::Text,
        }
    }
}

/// Converts a text. A number that JSON would round stays a string, and one that JSON cannot represent (`NaN`) becomes
/// null.
pub(crate) fn value(kind: CellKind, text: String) -> Json {
    match kind {
        CellKind::Number => number(text),
        CellKind::Truth => match text.as_str() {
            "t" | "true" | "1" => Json::Bool(true),
            "f" | "false" | "0" => Json::Bool(false),
            // MySQL's BOOLEAN is a TINYINT(1), which may hold any number up to 127.
            _ => number(text),
        },
        // A document that is nested deeper than the parser allows stays a text.
        CellKind::Json => serde_json::from_str(&text).unwrap_or(Json::String(text)),
        CellKind::Text => Json::String(text),
    }
}

/// Maximum number of dimensions of a PostgreSQL array.
// `MAXDIM` of the server.
const LISTS_MAX: usize = 6;

/// Converts an array that PostgreSQL writes as `{1,2}`; a text that is not one stays a string.
pub(crate) fn list(kind: CellKind, text: String) -> Json {
    // Arrays that do not begin at 1 declare their bounds: `[0:1]={1,2}`.
    let members =
        if text.starts_with('[') { text.split_once('=').map_or("", |(_, list)| list) } else { &text };
    match members_of(kind, members, 1) {
        Some((list, "")) => list,
        _ => Json::String(text),
    }
}

/// Parses an array and returns it with the text after it.
fn members_of(kind: CellKind, text: &str, depth: usize) -> Option<(Json, &str)> {
    let mut rest = text.strip_prefix('{').filter(|_| depth <= LISTS_MAX)?;
    let mut members = Vec::new();
    if let Some(behind) = rest.strip_prefix('}') {
        return Some((Json::Array(members), behind));
    }
    loop {
        let (member, behind) = if rest.starts_with('{') {
            members_of(kind, rest, depth + 1)?
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let (text, behind) = unquoted(quoted)?;
            (value(kind, text), behind)
        } else {
            let (bare, behind) = rest.split_at(rest.find([',', '}'])?);
            // Only without quotes: `"NULL"` is a text.
            (if bare == "NULL" { Json::Null } else { value(kind, bare.to_owned()) }, behind)
        };
        members.push(member);
        if let Some(behind) = behind.strip_prefix('}') {
            return Some((Json::Array(members), behind));
        }
        rest = behind.strip_prefix(',')?;
    }
}

/// Reads a text up to its closing quote and returns it with the text after it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut unquoted = String::new();
    let mut letters = text.char_indices();
    loop {
        match letters.next()? {
            (at, '"') => return Some((unquoted, &text[at + 1..])),
            (_, '\\') => unquoted.push(letters.next()?.1),
            (_, letter) => unquoted.push(letter),
        }
    }
}

/// Binary data, in hexadecimal digits.
pub(crate) fn binary(bytes: &[u8]) -> Json {
    format!("0x{}", weft_core::hex(bytes)).into()
}

fn number(text: String) -> Json {
    if let Ok(whole) = text.parse::<i64>() {
        return whole.into();
    }
    if let Ok(whole) = text.parse::<u64>() {
        return whole.into();
    }
    let exact = without_zeros(&text);
    match exact.parse::<f64>() {
        // A number that is too large has digits and stays a text; only `NaN` and `Infinity` have none.
        Ok(number) if !number.is_finite() && !text.contains(|c: char| c.is_ascii_digit()) => Json::Null,
        Ok(number) if digits(exact) <= DIGITS_KEPT && number.is_finite() => {
            Number::from_f64(number).map_or(Json::String(text), Json::Number)
        }
        // Servers print a double in the shortest form that reads back as the same number; other numbers may have more
        // digits than that.
        Ok(number) if number.is_finite() && (exact.contains(['e', 'E']) || number.to_string() == exact) => {
            number.into()
        }
        _ => Json::String(text),
    }
}

/// Removes trailing zeros of the fraction: an average has as many of them as the server's scale.
fn without_zeros(text: &str) -> &str {
    match text.split_once('.') {
        Some((_, places)) if places.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.trim_end_matches('0').trim_end_matches('.')
        }
        _ => text,
    }
}

/// Number of significant digits.
fn digits(text: &str) -> usize {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_start_matches('0').len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_stay_numbers_unless_precision_would_be_lost() {
        let check =
            |text: &str, expected: Json| assert_eq!(value(CellKind::Number, text.to_owned()), expected);
        check("12", json!(12));
        check("-9223372036854775808", json!(i64::MIN));
        check("18446744073709551615", json!(u64::MAX));
        check("12.50", json!(12.5));
        check("1e300", json!(1e300));
        check("0.30000000000000004", json!(0.30000000000000004));
        check("12345678901234567890.12", json!("12345678901234567890.12"));
        check("12.5000000000000000", json!(12.5));
        check("100.0000000000000000", json!(100.0));
        check("1.6666666666666667", json!(1.6666666666666667));
        check("33.3333333333333333", json!("33.3333333333333333"));
        check("0.12345678901234567", json!("0.12345678901234567"));
        check("12345678901234567.000", json!("12345678901234567.000"));
        check("1e999", json!("1e999"));
        check("NaN", Json::Null);
        check("Infinity", Json::Null);
        check("-Infinity", Json::Null);
    }

    #[test]
    fn postgres_arrays_become_lists() {
        let check = |kind, text: &str, expected: Json| assert_eq!(list(kind, text.to_owned()), expected);
        check(CellKind::Number, "{1,-2.5,NULL}", json!([1, -2.5, null]));
        check(CellKind::Number, "[0:1]={{1},{2}}", json!([[1], [2]]));
        check(CellKind::Truth, "{t,f}", json!([true, false]));
        check(CellKind::Text, "{a,\"b, \\\"c\\\\\",\"NULL\",\"\"}", json!(["a", "b, \"c\\", "NULL", ""]));
        check(CellKind::Json, "{\"{\\\"a\\\": 1}\"}", json!([{"a": 1}]));
        check(CellKind::Text, "{}", json!([]));
        for odd in ["{1", "1", "{1}x", "{\"a}", "", "{{{{{{{1}}}}}}}"] {
            check(CellKind::Number, odd, json!(odd));
        }
    }

    #[test]
    fn types_are_recognized_by_name() {
        assert_eq!(CellKind::named("BIGINT UNSIGNED"), CellKind::Number);
        assert_eq!(CellKind::named("timestamptz"), CellKind::Text);
        assert_eq!(value(CellKind::named("bool"), "t".to_owned()), json!(true));
        assert_eq!(value(CellKind::named("BOOLEAN"), "0".to_owned()), json!(false));
        assert_eq!(value(CellKind::named("BOOLEAN"), "-2".to_owned()), json!(-2));
        assert_eq!(value(CellKind::named("BOOLEAN"), "maybe".to_owned()), json!("maybe"));
        assert_eq!(value(CellKind::named("JSONB"), "{\"a\": [1]}".to_owned()), json!({"a": [1]}));
        assert_eq!(value(CellKind::Json, "{".to_owned()), json!("{"));
    }
}
