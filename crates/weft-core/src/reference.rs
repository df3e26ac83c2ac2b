//! `{node@output}`: references and the templates that contain them, parsed once.
//!
//! ```text
//! ref        = id "@" path | "sys." name | "env." name | "secret." name | alias
//! id         = 1*( letter | digit | ":" | "_" | "-" )
//! path       = 1*( letter | digit | "_" | "." | "-" )   (a letter with its marks)
//! alias      = "item" | "index" | "result"            (inside an Iteration only)
//! occurrence = *"{" *SP "{" *SP ref *SP "}" *SP *"}"  (as many closing braces as opening ones)
//! ```

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use crate::error::Result;
use crate::id::ComponentId;
use crate::rendering::{BoundedText, TextRoom};
use crate::seam::secrets;
use crate::value::{self, Json, OrderedMap, Value};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reference {
    /// A session value, `sys.…` or `env.…`, or a secret of the tenant, `secret.…`. Includes the prefix.
    Global(Arc<str>),
    /// An output of a component. `path` is the output's name, optionally followed by a dot and the path of a member.
    Output {
        /// The component.
        component: ComponentId,
        /// `name` or `name.member.0`.
        path: Arc<str>,
    },
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global(name) => f.write_str(name),
            Self::Output { component, path } => write!(f, "{component}@{path}"),
        }
    }
}

/// The names that a text may refer to: the components of the canvas, and the item node if the text belongs to the
/// body of an Iteration.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Every component id of the canvas.
    pub components: &'a HashSet<ComponentId>,
    /// The node that `{item}`, `{index}` and `{result}` refer to here.
    pub item: Option<&'a ComponentId>,
}

impl Reference {
    /// Parses the text between the braces. `None` if it is not a reference.
    pub fn parse(text: &str, names: Names<'_>) -> Option<Self> {
        if let (Some(item), "item" | "index" | "result") = (names.item, text) {
            return Some(Self::Output { component: item.clone(), path: text.into() });
        }
        if let Some(name) = GLOBALS.iter().find_map(|prefix| text.strip_prefix(prefix)) {
            let plain = !name.is_empty() && name.chars().all(|c| is_name_char(c) || c == '.' || c == '-');
            return plain.then(|| Self::Global(text.into()));
        }
        let (id, path) = text.split_once('@')?;
        let valid = !id.is_empty()
            && !path.is_empty()
            && id.chars().all(|c| is_name_char(c) || c == ':' || c == '-')
            && path.chars().all(|c| is_name_char(c) || c == '.' || c == '-');
        valid.then(|| Self::Output { component: id.into(), path: path.into() })
    }

    /// Parses a parameter whose entire value is a reference, with or without braces. A text counts only if it names a
    /// global or an existing component, so `a@b.c` remains an address.
    pub fn whole(text: &str, names: Names<'_>) -> Option<Self> {
        // Editors write references with one pair of braces, with two, or with none.
        let inner = text.trim_matches(|c: char| c == '{' || c == '}' || c.is_whitespace());
        // More lenient than within a text: since the whole value is the reference, its path may contain characters
        // that would end it there.
        if let Some((id, path)) = inner.split_once('@')
            && names.components.contains(id)
            && !path.is_empty()
            && !path.contains(['@', '{', '}'])
        {
            return Some(Self::Output { component: id.into(), path: path.into() });
        }
        if inner.contains('@') {
            return None;
        }
        match Self::parse(inner, names)? {
            // A bare word such as `item` is a reference only in braces. So is a secret: `secret.txt` is a file.
            found if matches!(found, Self::Output { .. }) || found.secret().is_some() => {
                (inner.len() < text.trim().len()).then_some(found)
            }
            found => Some(found),
        }
    }

    /// Creates a reference from the name produced by its [`fmt::Display`] implementation.
    pub fn of_name(name: &str) -> Self {
        match name.split_once('@') {
            Some((component, path)) => Self::Output { component: component.into(), path: path.into() },
            None => Self::Global(name.into()),
        }
    }

    /// Returns the name of the secret that it refers to, if any.
    pub fn secret(&self) -> Option<&str> {
        match self {
            Self::Global(name) => name.strip_prefix(secrets::PREFIX),
            Self::Output { .. } => None,
        }
    }

    /// Returns the component whose output it refers to, if any.
    pub fn component(&self) -> Option<&ComponentId> {
        match self {
            Self::Global(_) => None,
            Self::Output { component, .. } => Some(component),
        }
    }
}

/// Prefixes of references to globals.
const GLOBALS: [&str; 3] = ["sys.", "env.", secrets::PREFIX];

/// Whether a character may be part of a name in a reference: a letter, a digit, `_`, or what belongs to a letter.
pub fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || !c.is_ascii() && belongs_to_letter(c)
}

/// Whether a character is a mark on a letter, or joins letters: words of Thai, Hindi or Persian have them, and an `é`
/// may be written as two characters.
fn belongs_to_letter(c: char) -> bool {
    // `is_alphanumeric` accepts only those marks that stand for a vowel.
    static MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{M}\u{200C}\u{200D}]$").ok());
    let mut bytes = [0; 4];
    MARKS.as_ref().is_some_and(|marks| marks.is_match(c.encode_utf8(&mut bytes)))
}

/// A text with references in it, split into segments once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    source: Arc<str>,
    segments: Vec<Segment>,
}

/// A part of a [`Template`].
#[derive(Clone, Debug, PartialEq)]
pub enum Segment {
    /// Literal text.
    Literal(Arc<str>),
    /// A reference to be replaced by its value.
    Reference(Reference),
}

impl Template {
    /// Parses a text. Never fails: anything that is not a reference is literal text.
    pub fn parse(text: &str, names: Names<'_>) -> Self {
        let mut segments = Vec::new();
        let mut literal_from = 0;
        let mut at = 0;
        while let Some(open) = text[at..].find('{').map(|found| at + found) {
            match occurrence(text, open, names) {
                Some((end, reference)) => {
                    if open > literal_from {
                        segments.push(Segment::Literal(text[literal_from..open].into()));
                    }
                    segments.push(Segment::Reference(reference));
                    (at, literal_from) = (end, end);
                }
                // Advances by one character instead of skipping what was examined, because a reference may start
                // within it.
                None => at = open + 1,
            }
        }
        if literal_from < text.len() {
            segments.push(Segment::Literal(text[literal_from..].into()));
        }
        Self { source: text.into(), segments }
    }

    /// Creates a template from its segments.
    pub fn of(segments: Vec<Segment>) -> Self {
        let written = segments.iter().map(|segment| match segment {
            Segment::Literal(text) => text.to_string(),
            Segment::Reference(reference) => format!("{{{reference}}}"),
        });
        Self { source: written.collect::<String>().into(), segments }
    }

    /// Like [`Template::parse`], but a text that is a bare reference (`sys.query`) counts as a reference.
    pub fn parse_value(text: &str, names: Names<'_>) -> Self {
        match Reference::whole(text, names) {
            Some(reference) => Self { source: text.into(), segments: vec![Segment::Reference(reference)] },
            None => Self::parse(text, names),
        }
    }

    /// Returns the text as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the segments in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the references in order of appearance; duplicates are possible.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Literal(_) => None,
            Segment::Reference(reference) => Some(reference),
        })
    }

    /// Returns the reference if the template consists of nothing else.
    pub fn alone(&self) -> Option<&Reference> {
        match self.segments.as_slice() {
            [Segment::Reference(reference)] => Some(reference),
            _ => None,
        }
    }

    /// Returns the text with every reference replaced by its value, in a single pass.
    ///
    /// # Errors
    /// `Invalid` when the result exceeds the inputs' remaining room for text.
    pub fn render(&self, inputs: &Inputs) -> Result<String> {
        let mut text = BoundedText::new(&inputs.room);
        for segment in &self.segments {
            match segment {
                Segment::Literal(literal) => text.push(literal)?,
                Segment::Reference(reference) => text.push_value(&inputs.json(reference))?,
            }
        }
        Ok(text.finish())
    }

    /// Returns the value with its own type if the template is a single reference, otherwise the rendered text.
    ///
    /// # Errors
    /// As [`Template::render`].
    pub fn value(&self, inputs: &Inputs) -> Result<Arc<Json>> {
        match self.alone() {
            Some(reference) => Ok(inputs.json(reference)),
            None => Ok(Arc::new(Json::String(self.render(inputs)?))),
        }
    }

    /// Returns a copy of the value, for values that are assembled from several.
    ///
    /// # Errors
    /// `Invalid` when the copies exceed the inputs' remaining room for text.
    pub fn copied(&self, inputs: &Inputs) -> Result<Json> {
        match self.alone() {
            Some(reference) => inputs.copied(reference),
            None => Ok(Json::String(self.render(inputs)?)),
        }
    }
}

/// Maximum number of braces around a reference that belong to it. Further ones are literal text; this also keeps
/// parsing linear in the length of the text.
const BRACES_MAX: usize = 8;

/// Returns the reference whose braces open at `open`, and the end of its occurrence.
fn occurrence(text: &str, open: usize, names: Names<'_>) -> Option<(usize, Reference)> {
    let bytes = text.as_bytes();
    let mut depth = 0;
    let mut at = open;
    // Opening braces, possibly with spaces between them; the last one holds the reference.
    while depth < BRACES_MAX && bytes.get(at) == Some(&b'{') {
        depth += 1;
        at += 1;
        at += spaces(&bytes[at..]);
    }
    let close = at + text[at..].find(['{', '}', '\n'])?;
    if bytes[close] != b'}' {
        return None;
    }
    let reference = Reference::parse(text[at..close].trim_end_matches(' '), names)?;
    let mut end = close + 1;
    for _ in 1..depth {
        let next = end + spaces(&bytes[end..]);
        if bytes.get(next) != Some(&b'}') {
            // Fewer closing braces than opening ones: the outer ones are literal text, and the caller finds the
            // reference again from an inner brace.
            return None;
        }
        end = next + 1;
    }
    Some((end, reference))
}

fn spaces(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| **b == b' ').count()
}

/// The values a component receives, by reference, and a limit on how much text may be built from them.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    values: OrderedMap<Reference, Value>,
    room: TextRoom,
}

impl From<OrderedMap<Reference, Value>> for Inputs {
    fn from(values: OrderedMap<Reference, Value>) -> Self {
        Self { values, room: TextRoom::default() }
    }
}

impl FromIterator<(Reference, Value)> for Inputs {
    fn from_iter<I: IntoIterator<Item = (Reference, Value)>>(values: I) -> Self {
        OrderedMap::from_iter(values).into()
    }
}

impl Inputs {
    /// Creates inputs with these values and this much room for text.
    pub fn bounded(values: OrderedMap<Reference, Value>, bytes_max: usize) -> Self {
        Self { values, room: TextRoom::of(bytes_max) }
    }

    /// Creates inputs with other values and the initial amount of room, for work that this work calls.
    #[must_use]
    pub fn afresh(&self, values: impl IntoIterator<Item = (Reference, Value)>) -> Self {
        Self { values: values.into_iter().collect(), room: self.room.afresh() }
    }

    /// Creates inputs with other values that share the remaining room, for a part of the same work.
    #[must_use]
    pub fn among(&self, values: impl IntoIterator<Item = (Reference, Value)>) -> Self {
        Self { values: values.into_iter().collect(), room: self.room.clone() }
    }

    /// Returns the room for text.
    pub fn room(&self) -> &TextRoom {
        &self.room
    }

    /// Returns every value with its reference.
    pub fn iter(&self) -> impl Iterator<Item = (&Reference, &Value)> {
        self.values.iter()
    }

    /// Returns the value; null if it was not declared in [`crate::component::Reads`].
    pub fn value(&self, reference: &Reference) -> Value {
        self.values.get(reference).cloned().unwrap_or_else(Value::null)
    }

    /// Returns a copy of a value.
    ///
    /// # Errors
    /// `Invalid` when the room for text does not suffice.
    pub fn copied(&self, reference: &Reference) -> Result<Json> {
        let value = self.json(reference);
        // Counted before it is copied: the limit exists to prevent a thousand copies of a large value.
        self.room.take(value::size(&value))?;
        Ok(Arc::unwrap_or_clone(value))
    }

    /// Returns the value as JSON; for a stream, what it holds so far.
    pub fn json(&self, reference: &Reference) -> Arc<Json> {
        self.value(reference).snapshot()
    }
}

impl serde::Serialize for Inputs {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.values.iter().map(|(reference, value)| (reference.to_string(), value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parts(text: &str) -> Vec<String> {
        let components = HashSet::from(["A:x".into(), "begin".into()]);
        let item = "Item:i".into();
        Template::parse(text, Names { components: &components, item: Some(&item) })
            .segments()
            .iter()
            .map(|segment| match segment {
                Segment::Literal(text) => text.to_string(),
                Segment::Reference(reference) => format!("<{reference}>"),
            })
            .collect()
    }

    #[test]
    fn occurrences() {
        let check = |text: &str, expected: &[&str]| assert_eq!(parts(text), expected, "{text}");
        check("Hi {sys.query} you", &["Hi ", "<sys.query>", " you"]);
        check("{{sys.query}}", &["<sys.query>"]);
        check("{{ sys.query }}", &["<sys.query>"]);
        check("{ {A:x@content} }!", &["<A:x@content>", "!"]);
        check("{\"a\": {A:x@out.b-c.0}}", &["{\"a\": ", "<A:x@out.b-c.0>", "}"]);
        check("{{A:x@b}", &["{", "<A:x@b>"]);
        check("{item}{index}", &["<Item:i@item>", "<Item:i@index>"]);
        check("{begin@问题}", &["<begin@问题>"]);
        for name in ["ที่อยู่", "हिन्दी", "می\u{200C}خواهم", "cafe\u{301}", "שָׁלוֹם"]
        {
            check(&format!("{{begin@{name}}}"), &[&format!("<begin@{name}>")]);
            check(&format!("{{env.{name}.a}}"), &[&format!("<env.{name}.a>")]);
        }
        check("{begin@a，b} {begin@🙂}", &["{begin@a，b} {begin@🙂}"]);
        check("{iteration:0@generate:1}", &["{iteration:0@generate:1}"]);
        check("{SYS.query} { x } {}", &["{SYS.query} { x } {}"]);
        check("a {\n sys.query}", &["a {\n sys.query}"]);
        check("Bearer {secret.K-1}", &["Bearer ", "<secret.K-1>"]);
        check("", &[]);
    }

    #[test]
    fn braces_beyond_the_usual_are_text_and_cost_no_time() {
        let check = |text: &str, expected: &[&str]| assert_eq!(parts(text), expected);
        check("{{{{{{{{{sys.query}}}}}}}}}", &["{", "<sys.query>", "}"]);
        let many = "{".repeat(1_000_000);
        check(&many, &[&many]);
    }

    #[test]
    fn whole_values() {
        let components = HashSet::from(["A:x".into()]);
        let names = Names { components: &components, item: None };
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(Reference::whole(text, names).map(|r| r.to_string()).as_deref(), expected, "{text}");
        };
        check("sys.query", Some("sys.query"));
        check("{sys.query}", Some("sys.query"));
        check("{{ A:x@y }}", Some("A:x@y"));
        check("A:x@naïve key", Some("A:x@naïve key"));
        check("me@example.org", None);
        check("plain", None);
        check("{secret.KEY}", Some("secret.KEY"));
        check("secret.txt", None);
        check("{A:x@a} and {A:x@b}", None);
    }

    #[test]
    fn rendering_is_a_single_pass_and_keeps_spaces() {
        let components = HashSet::from(["A:x".into()]);
        let names = Names { components: &components, item: None };
        let template = Template::parse("Hi {sys.query} you {A:x@n}", names);
        let inputs = Inputs::from_iter([
            (Reference::Global("sys.query".into()), Value::text("{A:x@n}")),
            (Reference::parse("A:x@n", names).unwrap(), json!([1, "汉"]).into()),
        ]);
        assert_eq!(template.render(&inputs).unwrap(), "Hi {A:x@n} you [1,\"汉\"]");
        assert_eq!(*Template::parse_value("A:x@n", names).value(&inputs).unwrap(), json!([1, "汉"]));
    }

    #[test]
    fn many_references_to_one_large_value_stop_at_the_limit() {
        let components = HashSet::new();
        let names = Names { components: &components, item: None };
        let template = Template::parse(&"{sys.query}".repeat(2_000), names);
        let query = Reference::Global("sys.query".into());
        let inputs =
            Inputs::bounded([(query.clone(), Value::text("x".repeat(1_000)))].into_iter().collect(), 5_500);
        assert!(template.render(&inputs).unwrap_err().full().contains("larger than 5500 bytes"));
        // Five of them were written, and the limit covers everything rendered from these values.
        assert_eq!(inputs.room().left(), 500);
        assert!(Template::parse_value("sys.query", names).copied(&inputs).is_err());
        assert!(inputs.afresh([(query.clone(), Value::text("x"))]).copied(&query).is_ok());
    }
}
