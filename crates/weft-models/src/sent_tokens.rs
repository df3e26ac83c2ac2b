//! Parses token counts sent by servers.

use serde::{Deserialize as _, Deserializer};
use serde_json::Value as Json;

/// A token count; `None` for anything that is not a count.
///
/// An answer is accepted regardless of its reported cost: some servers send `12.0`, some `"12"` and some -1, and a
/// missing count is estimated.
///
/// # Errors
/// For invalid JSON.
pub(crate) fn read<'de, D: Deserializer<'de>>(sent: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Json>::deserialize(sent)?.as_ref().and_then(count))
}

fn count(sent: &Json) -> Option<u64> {
    match sent {
        Json::Number(number) if number.is_u64() => number.as_u64(),
        // Saturates: a number that is too large becomes the maximum.
        other => weft_core::value::number(other).filter(|tokens| *tokens >= 0.0).map(|tokens| tokens as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn token_counts_are_read_in_every_form() {
        let check = |sent: Json, expected: Option<u64>| assert_eq!(read(&sent).unwrap(), expected, "{sent}");
        check(json!(12), Some(12));
        check(json!(u64::MAX), Some(u64::MAX));
        check(json!(12.0), Some(12));
        check(json!(12.7), Some(12));
        check(json!("12"), Some(12));
        check(json!(1e300), Some(u64::MAX));
        for none in [json!(null), json!(-1), json!(-0.5), json!("many"), json!([1]), json!({}), json!(true)] {
            check(none, None);
        }
    }
}
