//! Numbers of tokens as servers send them.

use serde::{Deserialize as _, Deserializer};
use serde_json::Value as Json;

/// A number of tokens; nothing for what is none.
///
/// An answer is read whatever is said of its cost: some servers write `12.0`, some `"12"` and some -1, and without a number
/// there is an estimate.
///
/// # Errors
/// For what is no JSON.
pub(crate) fn read<'de, D: Deserializer<'de>>(sent: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Json>::deserialize(sent)?.as_ref().and_then(count))
}

fn count(sent: &Json) -> Option<u64> {
    match sent {
        Json::Number(number) if number.is_u64() => number.as_u64(),
        // Nothing is lost: a number that is too large for it is the largest.
        other => weft_core::value::number(other).filter(|tokens| *tokens >= 0.0).map(|tokens| tokens as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_come_in_many_ways() {
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
