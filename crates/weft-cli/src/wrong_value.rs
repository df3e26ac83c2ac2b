//! What is wrong with the value of a setting, for people who do not know the program's types.

use figment::error::{Actual, Kind};

/// What a value must be, where the type of the program is told.
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

/// What is wrong with a value, without the value: it may be a key in the wrong place.
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
        Kind::UnknownVariant(_, known) => format!("there is no such choice; there are {}", known.join(", ")),
        kind => kind.to_string(),
    }
}
