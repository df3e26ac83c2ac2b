//! What happens when a node fails, as set by its parameters.

use crate::id::ComponentId;
use crate::value::Json;

/// The exception settings of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handling {
    /// Whether any handling is configured.
    pub armed: bool,
    /// The components that run instead of the node's successors. Used only with the method `goto`: editors leave the
    /// names of an earlier choice behind.
    pub goto: Vec<ComponentId>,
    /// The value that replaces the node's result. It may be any value, including 0, false and an empty list.
    pub default: Option<Json>,
}

impl Handling {
    /// Reads `exception_method` and the parameters that belong to it.
    pub fn of(params: &serde_json::Map<String, Json>) -> Self {
        let method = params.get("exception_method").and_then(Json::as_str).unwrap_or_default();
        let goto = match params.get("exception_goto") {
            _ if method != "goto" => Vec::new(),
            Some(Json::String(id)) if !id.is_empty() => vec![id.as_str().into()],
            Some(Json::Array(ids)) => {
                ids.iter().filter_map(Json::as_str).filter(|id| !id.is_empty()).map(Into::into).collect()
            }
            _ => Vec::new(),
        };
        // The editor writes an empty text where no value was filled in.
        let given = |value: &&Json| !value.is_null() && value.as_str() != Some("");
        let default = params.get("exception_default_value").filter(given).cloned();
        if method.is_empty() { Self::default() } else { Self { armed: true, goto, default } }
    }

    /// Returns the value that replaces the result when the node fails, unless the run continues elsewhere.
    pub fn covering(self) -> Option<Json> {
        self.default.filter(|_| self.goto.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_read_according_to_their_method() {
        let check = |params: Json, goto: &[&str], default: Option<Json>| {
            let handling = Handling::of(params.as_object().unwrap());
            let goto: Vec<ComponentId> = goto.iter().map(|&id| id.into()).collect();
            assert_eq!((&handling.goto, &handling.default), (&goto, &default), "{params}");
        };
        let of = |method: &str, value: Json| json!({"exception_method": method, "exception_goto": ["A"], "exception_default_value": value});
        check(of("goto", Json::Null), &["A"], None);
        check(of("comment", json!("sorry")), &[], Some(json!("sorry")));
        for value in [json!(0), json!(false), json!([]), json!({})] {
            check(of("comment", value.clone()), &[], Some(value));
        }
        check(of("comment", json!("")), &[], None);
        check(of("", json!("sorry")), &[], None);
        check(json!({"exception_method": "goto", "exception_goto": "A"}), &["A"], None);
        check(json!({"exception_method": "goto", "exception_goto": ["", "A"]}), &["A"], None);
        assert_eq!(Handling::of(of("goto", json!(1)).as_object().unwrap()).covering(), None);
        assert_eq!(Handling::of(of("comment", json!(0)).as_object().unwrap()).covering(), Some(json!(0)));
    }
}
