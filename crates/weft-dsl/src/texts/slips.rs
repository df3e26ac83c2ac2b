//! References with a slip of the pen, so that they are taken for text.

use serde_json::Map;
use weft_core::Json;
use weft_core::reference::{Names, Reference};

use crate::globals;
use crate::suggest::Suggester;

/// What a text may refer to.
#[derive(Clone, Copy)]
pub struct KnownNames<'a> {
    /// The components.
    pub names: Names<'a>,
    /// The globals of a new session.
    pub globals: &'a Map<String, Json>,
}

/// What looks like a reference and is none.
#[derive(Debug, PartialEq, Eq)]
pub struct Slip {
    /// The code of the problem.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to write.
    pub help: String,
}

impl Slip {
    fn new(code: &'static str, message: String, meant: &str) -> Self {
        Self { code, message, help: format!("write `{{{meant}}}`") }
    }
}

/// The short names of what an Iteration gives its body.
const OF_AN_ITEM: [&str; 3] = ["item", "index", "result"];

/// A longer text in braces is no reference in all its length.
const INSIDE_MAX: usize = 512;

/// The first slip in a text. Looks at each character a few times at most.
pub fn first(text: &str, known: KnownNames<'_>, suggester: &mut Suggester) -> Option<Slip> {
    // Some parameters read a text that is nothing but a reference as one, braces or not.
    let bare = text.trim_matches(|c: char| c == '{' || c == '}' || c.is_whitespace());
    let taken = |reference: &str| if reference == bare { "" } else { ": it is taken for text" };
    if let Some(reference) = unclosed(text, known) {
        let message = format!("`{{{reference}` is not closed{}", taken(reference));
        return Some(Slip::new("unclosed-reference", message, reference));
    }
    if let Some(reference) = unopened(text, known) {
        let message = format!("`{reference}}}` is not opened{}", taken(reference));
        return Some(Slip::new("unopened-reference", message, reference));
    }
    misspelled(text, known, suggester).or_else(|| unknown(text, known, suggester))
}

/// A text that is nothing but a reference without braces, to a component that is not there under this name.
fn unknown(text: &str, known: KnownNames<'_>, suggester: &mut Suggester) -> Option<Slip> {
    let text = text.trim();
    if text.len() > INSIDE_MAX {
        return None;
    }
    if let Some(meant) =
        separated(text, known).filter(|meant| meant.split('@').next().is_some_and(|id| id.contains(':')))
    {
        let message = format!("`{text}` is no reference: it is taken for text");
        return Some(Slip::new("malformed-reference", message, &meant));
    }
    let (id, path) = text.split_once('@').filter(|(id, _)| id.contains(':'))?;
    // Without names nothing is an output of anything.
    let nothing = Names { components: known.names.components, item: None };
    Reference::parse(text, nothing)?;
    if known.names.components.contains(id) {
        return None;
    }
    let ids = known.names.components.iter().map(|id| id.as_str());
    let meant = suggester.misspelled_among(id, ids)?;
    let message = format!("`{text}` is no reference, since there is no `{id}`: it is taken for text");
    Some(Slip::new("malformed-reference", message, &format!("{meant}@{path}")))
}

/// What of the beginning of a text is the name of a value of this canvas, and what kind of name.
fn reference_at<'t>(text: &'t str, known: KnownNames<'_>) -> Option<&'t str> {
    let of_id = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '-');
    let of_path = |c: char| of_id(c) && c != ':' || c == '.';
    let word = text.find(|c: char| !of_path(c)).unwrap_or(text.len());
    let global = text[..word].trim_end_matches('.');
    if global.contains('.') && globals::knows(known.globals, global) {
        return Some(global);
    }
    let id_end = text.find(|c: char| !of_id(c))?;
    let path = text[id_end..].strip_prefix('@')?;
    if !known.names.components.contains(&text[..id_end]) {
        return None;
    }
    let path_end = path.find(|c: char| !of_path(c)).unwrap_or(path.len());
    (path_end > 0).then(|| text[..id_end + 1 + path_end].trim_end_matches('.'))
}

/// The first reference whose brace is not closed.
fn unclosed<'t>(text: &'t str, known: KnownNames<'_>) -> Option<&'t str> {
    // What is between one brace and the next; behind two of them an expression may go on after the reference.
    let mut before = "x";
    text.split('{').skip(1).find_map(|rest| {
        let expression = std::mem::replace(&mut before, rest).is_empty() && rest.contains("}}");
        let rest = rest.trim_start_matches(' ');
        let reference = reference_at(rest, known)?;
        let behind = rest[reference.len()..].trim_start_matches(['.', ' ']);
        (!behind.starts_with('}') && !expression).then_some(reference)
    })
}

/// The first reference that a closing brace follows and no opening one precedes.
fn unopened<'t>(text: &'t str, known: KnownNames<'_>) -> Option<&'t str> {
    let of_reference = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '-' | '.' | '@');
    let mut open = 0_usize;
    let mut from = 0;
    for (at, brace) in text.match_indices(['{', '}']) {
        let before = text[from..at].trim_end_matches(' ');
        from = at + 1;
        if brace == "{" {
            open += 1;
            continue;
        }
        if open > 0 {
            open -= 1;
            continue;
        }
        let start = before
            .rfind(|c: char| !of_reference(c))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let word = before[start..].trim_start_matches(['.', '-', ':']);
        if reference_at(word, known) == Some(word) {
            return Some(word);
        }
    }
    None
}

/// The first text in single braces that is nearly a reference: another mark where the `@` belongs, or a global with a
/// slip in its name.
fn misspelled(text: &str, known: KnownNames<'_>, suggester: &mut Suggester) -> Option<Slip> {
    let mut at = 0;
    while let Some(open) = text[at..].find('{').map(|found| at + found) {
        at = open + 1;
        let close = text[at..].find(['{', '}', '\n']).map(|found| at + found)?;
        let inside = text[at..close].trim_matches(' ');
        if !text[close..].starts_with('}') || text[..open].ends_with('{') || inside.len() > INSIDE_MAX {
            continue;
        }
        let meant = separated(inside, known).or_else(|| global(inside, known, suggester));
        if let Some(meant) = meant {
            let message = format!("`{{{inside}}}` is no reference: it is taken for text");
            return Some(Slip::new("malformed-reference", message, &meant));
        }
    }
    None
}

/// `{Agent:A.content}`: what was probably meant.
fn separated(inside: &str, known: KnownNames<'_>) -> Option<String> {
    if inside.contains('@')
        || !inside.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '-' | '.' | ' '))
    {
        return None;
    }
    let marks = inside.match_indices(['.', ':', '-', ' ']).take(8);
    let ids = marks.map(|(at, _)| (&inside[..at], &inside[at + 1..]));
    let (id, path) = ids
        .filter(|(_, path)| !path.is_empty() && !path.contains(' '))
        .find(|(id, _)| known.names.components.contains(*id))?;
    let whole = known.names.components.contains(inside);
    (!whole).then(|| format!("{id}@{path}"))
}

/// `{sy.query}` or, in the body of an Iteration, `{itme}`: what was probably meant.
fn global(inside: &str, known: KnownNames<'_>, suggester: &mut Suggester) -> Option<String> {
    let names = || known.globals.keys().map(String::as_str);
    let is_plain =
        !inside.is_empty() && inside.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | ','));
    if !is_plain || Reference::parse(inside, known.names).is_some() {
        return None;
    }
    // A word of its own is a slip of a name in the body of an Iteration only.
    if !inside.contains(['.', ',']) {
        let of_item = OF_AN_ITEM.into_iter().filter(|_| known.names.item.is_some());
        return suggester.misspelled(inside, of_item).map(str::to_owned);
    }
    // The first two names are the global, and what follows is the way into its value.
    let ends = inside.match_indices(['.', ',']).map(|(at, _)| at).nth(1).unwrap_or(inside.len());
    let (name, way) = inside.split_at(ends);
    suggester.misspelled_among(name, names()).map(|meant| format!("{meant}{}", way.replace(',', ".")))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: &str) {
        let components: HashSet<_> = ["Agent:A".into(), "b".into()].into();
        let item = "b".into();
        let globals = json!({"sys.query": "", "env.town": ""});
        let names = Names { components: &components, item: Some(&item) };
        let known = KnownNames { names, globals: globals.as_object().unwrap() };
        let slip = first(text, known, &mut Suggester::default());
        let told =
            slip.map(|slip| format!("{} {}", slip.code.split('-').next().unwrap_or_default(), slip.help));
        assert_eq!(told.unwrap_or_default(), expected, "{text}");
    }

    #[test]
    fn braces_are_closed_or_not() {
        check("{Agent:A@content}", "");
        check("{{ Agent:A@content }}", "");
        check("{{ Agent:A@content.upper() }} {{Agent:A@n|length}}", "");
        check("{{ Agent:A@content | upper", "unclosed write `{Agent:A@content}`");
        check("{Agent:A@content", "unclosed write `{Agent:A@content}`");
        check("so {Agent:A@content. And {b@x}", "unclosed write `{Agent:A@content}`");
        check("{b@x} {Agent:A@a.b.0 and more", "unclosed write `{Agent:A@a.b.0}`");
        check("ask {sys.query now", "unclosed write `{sys.query}`");
        check("ask {env.town.size now", "unclosed write `{env.town.size}`");
        check("{somebody@example.org", "");
        check("{\"a\": \"b@x\"}", "");
        check("{Agent:A@", "");
        check("{{{", "");
    }

    #[test]
    fn braces_are_opened_or_not() {
        check("so Agent:A@content} and", "unopened write `{Agent:A@content}`");
        check("{b@x}, sys.query }", "unopened write `{sys.query}`");
        check("{b@x}.Agent:A@content}", "unopened write `{Agent:A@content}`");
        check("{\"q\": Agent:A@content}", "");
        check("{\"a\": {\"b\": 1}, \"q\": Agent:A@content}", "");
        check("}} a} ü} @}", "");
    }

    #[test]
    fn nearly_a_reference() {
        check("see {Agent:A.content}", "malformed write `{Agent:A@content}`");
        check("{Agent:A:content.x}", "malformed write `{Agent:A@content.x}`");
        check("{sy.query}", "malformed write `{sys.query}`");
        check("{sys,query}", "malformed write `{sys.query}`");
        check("{evn.town}", "malformed write `{env.town}`");
        check("{env,town.size}", "malformed write `{env.town.size}`");
        check("Agent:A.content", "malformed write `{Agent:A@content}`");
        check("b.content", "");
        check("{itme}", "malformed write `{item}`");
        check("see {Agent:A content}", "malformed write `{Agent:A@content}`");
        check("Agnet:A@content", "malformed write `{Agent:A@content}`");
        check("Agent:A@content", "");
        check("me:you@example.org", "");
        check("{b of all} {b}", "");
        check("{item} {index} {sys.query}", "");
        check("{Agent:A} {query} {a.b} { \"item\": 1 }", "");
        check("{{ sy.query }}", "");
    }
}
