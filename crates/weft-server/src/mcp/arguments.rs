//! Arguments of tools. Errors name the argument.

use serde_json::{Map, Value as Json};
use weft_mcp::serving::RpcError;

/// Maximum number of characters of an id.
const ID_CHARS_MAX: usize = 128;

/// The arguments of a call.
pub(super) struct Arguments<'a>(pub(super) &'a Map<String, Json>);

impl<'a> Arguments<'a> {
    /// Returns a string; null and an empty one count as absent.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, RpcError> {
        match self.0.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(_) => Err(RpcError::params(format!("`{key}` must be a text"))),
        }
    }

    /// Returns a string that identifies something.
    pub(super) fn id(&self, key: &str) -> Result<Option<&'a str>, RpcError> {
        match self.text(key)? {
            Some(id) if id.chars().count() > ID_CHARS_MAX || id.chars().any(char::is_control) => {
                Err(RpcError::params(format!("`{key}` must be an id of at most {ID_CHARS_MAX} characters")))
            }
            id => Ok(id),
        }
    }

    /// Returns an id that is required.
    pub(super) fn required_id(&self, key: &str) -> Result<&'a str, RpcError> {
        self.id(key)?.ok_or_else(|| RpcError::params(format!("`{key}` is missing")))
    }

    /// Returns an object; null counts as an empty one.
    pub(super) fn object(&self, key: &str) -> Result<Map<String, Json>, RpcError> {
        match self.0.get(key) {
            None | Some(Json::Null) => Ok(Map::new()),
            Some(Json::Object(object)) => Ok(object.clone()),
            Some(_) => Err(RpcError::params(format!("`{key}` must be an object"))),
        }
    }

    /// Returns an integer from 1 to `max`.
    pub(super) fn count(&self, key: &str, absent: u64, max: u64) -> Result<u64, RpcError> {
        match self.0.get(key) {
            None | Some(Json::Null) => Ok(absent),
            Some(number) => match number.as_u64().filter(|number| (1..=max).contains(number)) {
                Some(number) => Ok(number),
                None => Err(RpcError::params(format!("`{key}` must be a whole number from 1 to {max}"))),
            },
        }
    }

    /// Returns a canvas: an object, or an object written as a string.
    pub(super) fn canvas(&self) -> Result<String, RpcError> {
        match self.0.get("canvas") {
            Some(Json::Object(canvas)) => serde_json::to_string(canvas)
                .map_err(|error| RpcError::params(format!("`canvas` cannot be written as JSON: {error}"))),
            Some(Json::String(text)) => Ok(text.clone()),
            _ => Err(RpcError::params("`canvas` must be an object: {\"components\": {…}}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrong_argument_is_named() {
        let json = json!({"a": 1, "b": "", "c": "x\ny", "n": 7, "o": [], "canvas": "{}"});
        let arguments = Arguments(json.as_object().unwrap());
        assert!(arguments.text("a").unwrap_err().message.contains("`a`"));
        assert_eq!((arguments.text("b").unwrap(), arguments.text("z").unwrap()), (None, None));
        assert!(arguments.id("c").is_err() && arguments.required_id("z").is_err());
        assert_eq!((arguments.count("n", 1, 7).unwrap(), arguments.count("z", 3, 7).unwrap()), (7, 3));
        assert!(arguments.count("n", 1, 6).is_err() && arguments.object("o").is_err());
        assert_eq!(arguments.canvas().unwrap(), "{}");
        assert!(Arguments(&Map::new()).canvas().is_err());
    }
}
