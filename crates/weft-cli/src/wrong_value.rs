//! Describes invalid values of settings for people who do not know the program's types.

use figment::error::{Actual, Kind};

/// Describes an expected value, in place of a type of the program.
fn asked_for(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not below 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "yes or no (true or false)",
        "a string" => "a text",
        "a sequence" => "a list",
        "a map" => "a table",
        expected if expected.starts_with("struct ") => "a table",
        expected => expected,
    }
}

/// Describes what is wrong with a value, without repeating it: it may be a misplaced key.
pub(crate) fn in_words(kind: &Kind) -> String {
    let found = |actual: &Actual| match actual {
        Actual::Bool(_) => "yes or no",
        Actual::Unsigned(_) | Actual::Signed(_) | Actual::Float(_) => "a number",
        Actual::Char(_) | Actual::Str(_) => "a text",
        Actual::Seq => "a list",
        Actual::Map => "a table",
        _ => "something else",
    };
    match kind {
        Kind::InvalidType(actual, expected) => {
            format!("it is {} and must be {}", found(actual), asked_for(expected))
        }
        Kind::InvalidValue(actual, expected) => {
            format!("{} of this value is not possible; it must be {}", found(actual), asked_for(expected))
        }
        Kind::UnknownVariant(_, known) => {
            format!("there is no such choice; choose one of {}", known.join(", "))
        }
        kind => kind.to_string(),
    }
}
