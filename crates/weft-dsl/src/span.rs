//! JSON pointer → the bytes of the source text to underline. Used only when there is something to report.
//!
//! A text, number, boolean or null is underlined itself. For an object or list it is the key that leads to it
//! or, without a key (a list element, the root), the opening bracket. If the pointer leads further than the
//! document does, the deepest existing value on its path is used.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use weft_core::exact;

use crate::pointer::unescape;

/// Maximum depth to which the scanner follows a pointer. The parser allows less.
const DEPTH_MAX: usize = 256;

/// Maximum number of places reported of each kind.
const UNSEEN_MAX: usize = 100;

/// Returns the spans of `pointers` in `source`, one for each pointer, in their order. `source` must be JSON
/// that `serde_json` accepts; for other input the result is best effort.
pub(crate) fn locate<'p>(
    source: &str,
    pointers: impl IntoIterator<Item = &'p str>,
) -> Vec<Option<Range<usize>>> {
    let mut root = PointerTree::default();
    let asked: Vec<_> = pointers.into_iter().map(|pointer| root.want(pointer)).collect();
    let mut scan = JsonScanner { bytes: source.as_bytes(), at: 0 };
    scan.skip_bom();
    let mut found = HashMap::new();
    if !asked.is_empty() {
        scan.value(&mut SpanWalk { wanted: &root, found: &mut found }, 0, None, 0);
    }
    asked.iter().map(|path| nearest(path, &found)).collect()
}

/// Returns the span of the deepest node on the path that the document has.
fn nearest(path: &[usize], found: &HashMap<usize, PointerSpan>) -> Option<Range<usize>> {
    let (last, before) = path.split_last()?;
    if let Some(place) = found.get(last) {
        return Some(place.exact.clone());
    }
    before.iter().rev().find_map(|node| found.get(node)).map(|place| place.leading.clone())
}

/// The pointers as a tree of steps; node 0 is the root.
struct PointerTree {
    nodes: Vec<HashMap<String, usize>>,
}

impl Default for PointerTree {
    fn default() -> Self {
        Self { nodes: vec![HashMap::new()] }
    }
}

impl PointerTree {
    /// Adds a pointer and returns the nodes on its path, root first.
    fn want(&mut self, pointer: &str) -> Vec<usize> {
        let mut path = vec![0];
        for step in pointer.split('/').skip(1).take(DEPTH_MAX) {
            let step = unescape(step);
            let last = path[path.len() - 1];
            let next = self.nodes.len();
            let node = *self.nodes[last].entry(step).or_insert(next);
            if node == next {
                self.nodes.push(HashMap::new());
            }
            path.push(node);
        }
        path
    }
}

#[derive(Clone, Debug)]
struct PointerSpan {
    exact: Range<usize>,
    leading: Range<usize>,
}

struct SpanWalk<'w> {
    wanted: &'w PointerTree,
    found: &'w mut HashMap<usize, PointerSpan>,
}

impl SpanWalk<'_> {
    /// Forgets what was found below a key that occurs again: the last value counts.
    fn forget(&mut self, node: usize) {
        self.found.remove(&node);
        let wanted = self.wanted;
        wanted.nodes[node].values().for_each(|&below| self.forget(below));
    }
}

struct JsonScanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl JsonScanner<'_> {
    fn skip_bom(&mut self) {
        if self.bytes.starts_with(b"\xEF\xBB\xBF") {
            self.at = 3;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let here = self.peek() == Some(byte);
        self.at += usize::from(here);
        here
    }

    /// Skips a string, including its quotes.
    fn string(&mut self) -> Range<usize> {
        let start = self.at;
        self.at += 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                // The next character cannot end the string, whatever it is.
                b'\\' => self.at += 1,
                b'"' => break,
                _ => {}
            }
        }
        // For a string that ends in a backslash, in text that is not JSON.
        self.at = self.at.min(self.bytes.len());
        start..self.at
    }

    /// Skips a number or a keyword.
    fn word(&mut self) -> Range<usize> {
        let start = self.at;
        let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
        let length = self.bytes[start..].iter().position(ends).unwrap_or(self.bytes.len() - start);
        self.at = start + length;
        start..self.at
    }

    /// Skips any value without looking into it.
    fn skip(&mut self) -> Option<Range<usize>> {
        let mut depth = 0_usize;
        self.peek()?;
        let start = self.at;
        loop {
            match self.peek()? {
                b'{' | b'[' => (depth, self.at) = (depth + 1, self.at + 1),
                b'}' | b']' => (depth, self.at) = (depth.saturating_sub(1), self.at + 1),
                b',' | b':' => self.at += 1,
                b'"' => {
                    self.string();
                }
                _ => {
                    self.word();
                }
            }
            if depth == 0 {
                return Some(start..self.at);
            }
        }
    }

    fn value(
        &mut self,
        walk: &mut SpanWalk<'_>,
        node: usize,
        key: Option<Range<usize>>,
        depth: usize,
    ) -> Option<()> {
        let first = self.peek()?;
        let start = self.at;
        let container = matches!(first, b'{' | b'[');
        let leading = key.unwrap_or(start..start + 1);
        // Values that no pointer asks for are skipped without recursion, so that even in a large document
        // each byte is read once.
        let looks_inside = container && depth < DEPTH_MAX && !walk.wanted.nodes[node].is_empty();
        if !looks_inside {
            let span = self.skip()?;
            let exact = if container { leading.clone() } else { span };
            walk.found.insert(node, PointerSpan { exact, leading });
            return Some(());
        }
        walk.found.insert(node, PointerSpan { exact: leading.clone(), leading });
        self.at += 1;
        if first == b'{' { self.members(walk, node, depth) } else { self.elements(walk, node, depth) }
    }

    fn members(&mut self, walk: &mut SpanWalk<'_>, node: usize, depth: usize) -> Option<()> {
        while self.peek()? == b'"' {
            let key = self.string();
            if !self.eat(b':') {
                return None;
            }
            match walk.wanted.nodes[node].get(&*text(&self.bytes[key.clone()])).copied() {
                Some(below) => {
                    walk.forget(below);
                    self.value(walk, below, Some(key), depth + 1)?;
                }
                None => {
                    self.skip()?;
                }
            }
            self.eat(b',');
        }
        self.eat(b'}').then_some(())
    }

    fn elements(&mut self, walk: &mut SpanWalk<'_>, node: usize, depth: usize) -> Option<()> {
        let mut index = 0_usize;
        while self.peek()? != b']' {
            match walk.wanted.nodes[node].get(&index.to_string()).copied() {
                Some(below) => self.value(walk, below, None, depth + 1)?,
                None => {
                    self.skip()?;
                }
            }
            self.eat(b',');
            index += 1;
        }
        self.eat(b']').then_some(())
    }
}

/// Returns the text of a string token.
fn text(token: &[u8]) -> Cow<'_, str> {
    let inner = token.get(1..token.len().saturating_sub(1)).unwrap_or_default();
    if inner.contains(&b'\\') {
        // Decoded as the parser does: a key written with escapes is the same key.
        return Cow::Owned(serde_json::from_slice(token).unwrap_or_default());
    }
    String::from_utf8_lossy(inner)
}

/// A place in a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spot {
    /// The pointer of the member or element.
    pub pointer: String,
    /// The bytes to underline.
    pub span: Range<usize>,
}

/// Details of a text that are lost when it is parsed, at most [`UNSEEN_MAX`] places of each kind.
#[derive(Debug, Default)]
pub(crate) struct Unseen {
    /// Keys that occurred before in the same object; the last value counts.
    pub duplicates: Vec<Spot>,
    /// Integers with more digits than a number can hold.
    pub lost: Vec<Spot>,
}

/// Finds the details of a text that are lost when it is parsed.
pub(crate) fn unseen(source: &str) -> Unseen {
    let mut scan = JsonScanner { bytes: source.as_bytes(), at: 0 };
    scan.skip_bom();
    let mut open: Vec<JsonLevel<'_>> = Vec::new();
    let mut found = Unseen::default();
    while let Some(byte) = scan.peek() {
        match byte {
            b'{' => open.push(JsonLevel::Object { keys: HashSet::new(), current: Cow::Borrowed("") }),
            b'[' => open.push(JsonLevel::List { index: 0 }),
            b'}' | b']' => drop(open.pop()),
            b'"' => {
                let span = scan.string();
                let is_key = scan.peek() == Some(b':');
                if let (true, Some(JsonLevel::Object { keys, current })) = (is_key, open.last_mut()) {
                    *current = text(&source.as_bytes()[span.clone()]);
                    if !keys.insert(current.clone()) {
                        found.duplicates.push(Spot { pointer: pointer(&open), span });
                    }
                }
                if found.duplicates.len() == UNSEEN_MAX {
                    return found;
                }
                continue;
            }
            b',' => {
                if let Some(JsonLevel::List { index }) = open.last_mut() {
                    *index += 1;
                }
            }
            b':' => {}
            _ => {
                let span = scan.word();
                let is_lost = source.get(span.clone()).is_some_and(exact::is_lost);
                if is_lost && found.lost.len() < UNSEEN_MAX {
                    found.lost.push(Spot { pointer: pointer(&open), span });
                }
                continue;
            }
        }
        scan.at += 1;
    }
    found
}

enum JsonLevel<'a> {
    Object { keys: HashSet<Cow<'a, str>>, current: Cow<'a, str> },
    List { index: usize },
}

fn pointer(open: &[JsonLevel<'_>]) -> String {
    open.iter().fold(String::new(), |pointer, level| match level {
        JsonLevel::Object { current, .. } => crate::pointer::join(&pointer, current),
        JsonLevel::List { index } => crate::pointer::join(&pointer, index),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"{"a": {"b/c": [1, {"d": "x\"y"}, [true]], "é\n": null}, "a2": -1.5e3 }"#;

    fn check(pointer: &str, expected: &str) {
        let span = locate(SOURCE, [pointer]).remove(0).unwrap();
        assert_eq!(&SOURCE[span], expected, "{pointer}");
    }

    #[test]
    fn the_right_text_is_underlined() {
        check("/a/b~1c/0", "1");
        check("/a/b~1c/1/d", r#""x\"y""#);
        check("/a/b~1c/1", "{");
        check("/a/b~1c/2/0", "true");
        check("/a/b~1c", r#""b/c""#);
        check("/a/é\n", "null");
        check("/a", r#""a""#);
        check("/a2", "-1.5e3");
        check("", "{");
    }

    #[test]
    fn a_missing_value_has_the_span_of_its_nearest_parent() {
        check("/a/nope/deeper", r#""a""#);
        check("/a/b~1c/7", r#""b/c""#);
        check("/a2/x", r#""a2""#);
        check("/zzz", "{");
    }

    #[test]
    fn many_spans_are_located_at_once() {
        assert_eq!(locate("\u{feff}[7, 8]", ["/1", "/0", "/1"]), [Some(7..8), Some(4..5), Some(7..8)]);
        assert_eq!(locate("", ["/a"]), [None]);
        assert_eq!(locate("", []), []);
    }

    #[test]
    fn the_last_of_duplicate_keys_counts() {
        let source = r#"{"a": {"x": 1}, "a": {"y": 2}}"#;
        assert_eq!(locate(source, ["/a/x", "/a/y"]), [Some(16..19), Some(27..28)]);
    }

    #[test]
    fn duplicate_keys_are_found_at_every_depth() {
        let source = r#"{"a": [{"x": "x", "y": "x"}, {"x": 1, "\u0078": 2}], "b": {"x": 1}, "a": 3}"#;
        let found: Vec<_> =
            unseen(source).duplicates.into_iter().map(|d| (d.pointer, source[d.span].to_owned())).collect();
        let expected = [("/a/1/x", r#""\u0078""#), ("/a", r#""a""#)];
        assert_eq!(found, expected.map(|(p, s)| (p.to_owned(), s.to_owned())));
    }

    #[test]
    fn integers_that_lose_digits_are_found_at_every_depth() {
        let source = r#"{"a": [1, {"x": 12345678901234567890123}, "12345678901234567890123"], "b": -98765432109876543210 }"#;
        let found: Vec<_> = unseen(source)
            .lost
            .into_iter()
            .map(|lost| (lost.pointer, source[lost.span].to_owned()))
            .collect();
        let expected = [("/a/1/x", "12345678901234567890123"), ("/b", "-98765432109876543210")];
        assert_eq!(found, expected.map(|(p, s)| (p.to_owned(), s.to_owned())));
        let many = format!("[{}1]", "12345678901234567890123,".repeat(1_000));
        assert_eq!(unseen(&many).lost.len(), UNSEEN_MAX);
    }
}
