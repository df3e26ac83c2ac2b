//! Describes invalid values of settings for people who do not know the program's types.

use figment::error::{Actual, Kind};

/// The reason for an integer beyond the range of all settings.
pub(crate) const TOO_LARGE: &str = "the number is too large: it must fit into 64 bits";

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
        // Serde's words for one, for which it has no kind of its own.
        Kind::InvalidType(Actual::Other(what), _) if what.starts_with("integer `") => TOO_LARGE.to_owned(),
        // A list or a table of the environment that cannot be parsed is a text.
        Kind::InvalidType(Actual::Str(text), expected)
            if text.trim_start().starts_with(['[', '{'])
                && matches!(asked_for(expected), "a list" | "a table") =>
        {
            let must = asked_for(expected);
            format!("it must be {must}, and this text is not one: check its brackets, commas and quotes")
        }
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
