//! Misspelled references, which are taken for plain text.

mod marks;

use serde_json::Map;
use weft_core::Json;
use weft_core::reference::{Names, Reference, is_name_char};
use weft_core::seam::secrets;

use self::marks::{WIDE, marked, quoted, wide};
use crate::globals;
use crate::suggest::Suggester;

/// What a text may refer to.
#[derive(Clone, Copy)]
pub(crate) struct KnownNames<'a> {
    /// The components.
    pub names: Names<'a>,
    /// The globals of a new session.
    pub globals: &'a Map<String, Json>,
    /// The outputs of the components.
    pub outputs: &'a dyn MeantOutputs,
}

/// Determines which output of a component an author means.
pub(crate) trait MeantOutputs {
    /// Returns the main output of a component, if it has outputs at all.
    fn main(&self, component: &str) -> Option<&str>;

    /// Whether a component has what this path leads to, as far as is known.
    fn has(&self, component: &str, path: &str) -> bool;
}

impl KnownNames<'_> {
    /// Returns the reference that is meant by a component and an author's name for its output.
    fn meant(self, id: &str, path: &str) -> String {
        let main = self.outputs.main(id).filter(|_| !self.outputs.has(id, path));
        format!("{id}@{}", main.unwrap_or(path))
    }
}

/// Text that looks like a reference but is not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slip {
    /// The code of the problem.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

impl Slip {
    fn new(code: &'static str, message: String, meant: &str) -> Self {
        Self { code, message, help: format!("write `{{{meant}}}`") }
    }

    /// A component in braces, without the name of an output.
    fn whole(written: &str, id: &str, known: KnownNames<'_>) -> Self {
        let message = format!("`{written}` names a component but no output: it is treated as literal text");
        match known.outputs.main(id) {
            Some(main) => Self::new(MALFORMED, message, &format!("{id}@{main}")),
            None => {
                let help = format!("write `{{{id}@` and the name of an output, then `}}`");
                Self { code: MALFORMED, message, help }
            }
        }
    }
}

const MALFORMED: &str = "malformed-reference";

/// The short names that an Iteration provides to its body.
const OF_AN_ITEM: [&str; 3] = ["item", "index", "result"];

/// A longer text in braces is not a reference as a whole.
const INSIDE_MAX: usize = 512;

/// What a text may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextLanguage {
    /// References.
    References,
    /// References, and between double braces Jinja.
    Jinja,
}

/// Finds the first misspelled reference in a text. Looks at each character only a few times.
pub(super) fn first(
    text: &str,
    language: TextLanguage,
    known: KnownNames<'_>,
    suggester: &mut Suggester,
) -> Option<Slip> {
    // Some parameters read a text that is nothing but a reference as one, with or without braces.
    let bare = text.trim_matches(|c: char| c == '{' || c == '}' || c.is_whitespace());
    let taken = |reference: &str| if reference == bare { "" } else { ": it is treated as literal text" };
    // Before the others: the part before the mark would look like an unclosed reference.
    if let Some(slip) = marked(text, known).or_else(|| quoted(text, language, known)) {
        return Some(slip);
    }
    if let Some(slip) =
        spaced(text, known, &taken).or_else(|| parted(text, known)).or_else(|| filtered(text, known))
    {
        return Some(slip);
    }
    if let Some(slip) = unnamed(text, known, &taken).or_else(|| trailed(text, known)) {
        return Some(slip);
    }
    if let Some(reference) = unclosed(text, known) {
        let message = format!("`{{{reference}` is not closed{}", taken(reference));
        return Some(Slip::new("unclosed-reference", message, reference));
    }
    if let Some(reference) = unopened(text, known) {
        let message = format!("`{reference}}}` is not opened{}", taken(reference));
        return Some(Slip::new("unopened-reference", message, reference));
    }
    uneven(text, known)
        .or_else(|| misspelled(text, known, suggester))
        .or_else(|| doubled(text, language, known, suggester))
        .or_else(|| unknown(text, known, suggester))
        .or_else(|| wide(text, known))
}

/// Returns the texts between single braces, each with the position of its opening brace.
fn in_braces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices('{').filter_map(|(open, _)| {
        let inside = &text[open + 1..];
        let close = inside.find(['{', '}', '\n']).filter(|close| inside[*close..].starts_with('}'))?;
        let inside = inside[..close].trim_matches(' ');
        (inside.len() <= INSIDE_MAX).then_some((open, inside))
    })
}

/// Finds a reference with a space in the id or in the name of the output.
fn spaced(text: &str, known: KnownNames<'_>, taken: &dyn Fn(&str) -> &'static str) -> Option<Slip> {
    in_braces(text).find_map(|(_, inside)| {
        let (id, path) = inside.split_once('@')?;
        let is_name = |c: char| is_name_char(c) || matches!(c, '_' | '.' | '-' | ' ');
        let lost = known.names.components.contains(id)
            && path.chars().all(is_name)
            && Reference::parse(inside, known.names).is_none();
        let end = taken(inside);
        let (what, name) = if id.contains(' ') { ("the id of a component", id) } else { ("an output", path) };
        let message = format!("`{{{inside}}}` has a space in {what}, which references do not allow{end}");
        let help = format!("call it `{}`, or another name without spaces", name.replace(' ', "_"));
        (lost && inside.contains(' ')).then_some(Slip { code: MALFORMED, message, help })
    })
}

/// Finds a reference to a component whose id has a sign that ids in references cannot have: `{A.b@content}`.
fn unnamed(text: &str, known: KnownNames<'_>, taken: &dyn Fn(&str) -> &'static str) -> Option<Slip> {
    in_braces(text).find_map(|(_, inside)| {
        let (id, path) = inside.split_once('@')?;
        let sign = id.chars().find(|c| !is_name_char(*c) && !matches!(c, ':' | '-' | ' '))?;
        if path.is_empty() || !known.names.components.contains(id) {
            return None;
        }
        let message = format!(
            "`{{{inside}}}` has `{sign}` in the id of a component, which references do not allow{}",
            taken(inside)
        );
        let help = "give the component an id of letters, digits, `_`, `:` and `-`".to_owned();
        Some(Slip { code: MALFORMED, message, help })
    })
}

/// Finds a reference with a sign before its closing brace that names cannot have, such as an emoji.
fn trailed(text: &str, known: KnownNames<'_>) -> Option<Slip> {
    in_braces(text).find_map(|(_, inside)| {
        let reference = reference_at(inside, known)?;
        let behind = &inside[reference.len()..];
        // A full-width brace is a matter of its own, and ASCII may be the text after a missing brace.
        let is_sign = |c: char| !c.is_ascii() && !WIDE.contains(&c);
        let is_lost = behind.starts_with(|c: char| is_sign(c) && !is_name_char(c))
            && behind.chars().all(|c| is_sign(c) || is_name_char(c));
        let message = format!("`{{{inside}}}` is not a reference: it is treated as literal text");
        is_lost.then(|| Slip::new(MALFORMED, message, reference))
    })
}

/// Maximum number of arguments of a TeX command that are examined.
const TEX_ARGUMENTS_MAX: usize = 4;

/// Whether the brace at `open` belongs to TeX: to an argument of a command, as in `\text{item}` or
/// `\frac{a}{b}`, or to a superscript or subscript, as in `x_{index}`.
pub(super) fn is_of_tex(text: &str, open: usize) -> bool {
    let mut before = &text[..open];
    for _ in 0..TEX_ARGUMENTS_MAX {
        let Some(argument) = before.strip_suffix('}').or_else(|| before.strip_suffix(']')) else { break };
        let Some(start) = argument.rfind(['{', '[']) else { return false };
        before = &argument[..start];
    }
    let shifted = before.strip_suffix('_').or_else(|| before.strip_suffix('^'));
    let base = shifted.unwrap_or(before);
    let command = base.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let letters = base.len() - command.len();
    // A longer word followed by such a mark is part of a name, such as that of a file.
    letters > 0 && command.ends_with('\\') || shifted.is_some() && letters == 1
}

/// Finds a global that is separated from the path into it by the mark of an output: `{sys.files@name}`.
fn parted(text: &str, known: KnownNames<'_>) -> Option<Slip> {
    let whole = Some(text.trim()).filter(|text| text.len() <= INSIDE_MAX);
    let written = in_braces(text).map(|(_, inside)| (format!("{{{inside}}}"), inside));
    written.chain(whole.map(|text| (text.to_owned(), text))).find_map(|(written, inside)| {
        let (name, way) = inside.split_once('@')?;
        let is_way = !way.is_empty() && way.chars().all(|c| is_name_char(c) || matches!(c, '_' | '.' | '-'));
        if !is_way || !name.contains('.') || !globals::knows(known.globals, name) {
            return None;
        }
        let meant = match known.globals.get(name) {
            Some(Json::Array(_)) if way.parse::<i64>().is_err() => format!("{name}.0"),
            Some(Json::Number(_) | Json::Bool(_)) => name.to_owned(),
            Some(Json::String(text)) if !text.is_empty() => name.to_owned(),
            _ => format!("{name}.{way}"),
        };
        let message = format!(
            "`{written}` is not a reference, since `{name}` is not a component: it is treated as literal text"
        );
        Some(Slip::new(MALFORMED, message, &meant))
    })
}

/// Finds a reference with a filter, `{sys.query|upper}`, as templates allow within double braces.
fn filtered(text: &str, known: KnownNames<'_>) -> Option<Slip> {
    let single = in_braces(text).filter(|(open, _)| !text[..*open].ends_with('{'));
    single.into_iter().find_map(|(_, inside)| {
        let reference = reference_at(inside, known)?;
        let message = format!(
            "`{{{inside}}}` has a filter, which references do not support: it is treated as literal text"
        );
        let has_filter = inside[reference.len()..].trim_start_matches(' ').starts_with('|');
        has_filter.then(|| Slip::new(MALFORMED, message, reference))
    })
}

/// Words in templates that are values, not names.
const LITERALS: [&str; 6] = ["true", "false", "none", "True", "False", "None"];

/// Finds `{{ name.member }}` or `{{#name.member#}}`, as other engines write references.
fn doubled(
    text: &str,
    language: TextLanguage,
    known: KnownNames<'_>,
    suggester: &mut Suggester,
) -> Option<Slip> {
    // Statements define their own names, and only the components that read them know which.
    if text.contains("{%") {
        return None;
    }
    in_braces(text).filter(|(open, _)| text[..*open].ends_with('{')).find_map(|(open, inside)| {
        let after = text[open + 1..].split_once('}')?.1;
        let name = inside.trim_matches('#').trim_matches(' ');
        let is_path = name.chars().all(|c| is_name_char(c) || matches!(c, '_' | '.' | ':' | '-'));
        let lost = after.starts_with('}') && is_path && Reference::parse(name, known.names).is_none();
        if !lost || name.is_empty() || LITERALS.contains(&name) {
            return None;
        }
        let written = format!("{{{{ {name} }}}}");
        if known.names.components.contains(name) {
            return Some(Slip::whole(&written, name, known));
        }
        let message = format!("`{written}` is not a reference: it is treated as literal text");
        if let Some(meant) = into_item(name, known) {
            // In Jinja, `item` is a variable with members.
            return (language == TextLanguage::References).then(|| Slip::new(MALFORMED, message, &meant));
        }
        if let Some(meant) = separated(name, known).or_else(|| global(name, known, suggester)) {
            return Some(Slip::new(MALFORMED, message, &meant));
        }
        let starts = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let is_word = !name.contains([':', '-']) && name.split('.').all(|part| !part.is_empty());
        let help = "write a value of this canvas as `{Component@output}` or `{env.name}`, \
                    and one brace where braces are meant as they stand";
        (starts && is_word).then(|| Slip { code: MALFORMED, message, help: help.to_owned() })
    })
}

/// Finds a text that is nothing but a reference without braces, to a component that does not exist under this name.
fn unknown(text: &str, known: KnownNames<'_>, suggester: &mut Suggester) -> Option<Slip> {
    let text = text.trim();
    if text.len() > INSIDE_MAX {
        return None;
    }
    if let Some(meant) =
        separated(text, known).filter(|meant| meant.split('@').next().is_some_and(|id| id.contains(':')))
    {
        let message = format!("`{text}` is not a reference: it is treated as literal text");
        return Some(Slip::new(MALFORMED, message, &meant));
    }
    let (id, path) = text.split_once('@').filter(|(id, _)| id.contains(':'))?;
    // With only the component ids, no name is resolved as an output.
    let nothing = Names { components: known.names.components, item: None };
    Reference::parse(text, nothing)?;
    if known.names.components.contains(id) {
        return None;
    }
    let ids = known.names.components.iter().map(|id| id.as_str());
    let meant = suggester.misspelled_among(id, ids)?;
    let message =
        format!("`{text}` is not a reference, since there is no `{id}`: it is treated as literal text");
    Some(Slip::new(MALFORMED, message, &format!("{meant}@{path}")))
}

/// Returns the beginning of a text that is the name of a value of this canvas.
fn reference_at<'t>(text: &'t str, known: KnownNames<'_>) -> Option<&'t str> {
    let of_id = |c: char| is_name_char(c) || matches!(c, '_' | ':' | '-');
    let of_path = |c: char| of_id(c) && c != ':' || c == '.';
    let word = text.find(|c: char| !of_path(c)).unwrap_or(text.len());
    let global = text[..word].trim_end_matches('.');
    let is_secret = global.strip_prefix(secrets::PREFIX).is_some_and(secrets::is_name);
    if is_secret || global.contains('.') && globals::knows(known.globals, global) {
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

/// Finds the first reference whose brace is not closed.
fn unclosed<'t>(text: &'t str, known: KnownNames<'_>) -> Option<&'t str> {
    // The parts between one opening brace and the next; after two of them an expression may continue behind
    // the reference.
    let mut before = "x";
    text.split('{').skip(1).find_map(|rest| {
        let expression = std::mem::replace(&mut before, rest).is_empty() && rest.contains("}}");
        let rest = rest.trim_start_matches(' ');
        let reference = reference_at(rest, known)?;
        let behind = rest[reference.len()..].trim_start_matches(['.', ' ']);
        (!behind.starts_with('}') && !expression).then_some(reference)
    })
}

/// Finds the first reference that is followed by a closing brace and not preceded by an opening one.
fn unopened<'t>(text: &'t str, known: KnownNames<'_>) -> Option<&'t str> {
    let of_reference = |c: char| is_name_char(c) || matches!(c, '_' | ':' | '-' | '.' | '@');
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
        // An underscore before it may be the emphasis of Markdown.
        let mut read = [word, word.trim_start_matches('_')].into_iter();
        if let Some(word) = read.find(|word| reference_at(word, known) == Some(*word)) {
            return Some(word);
        }
    }
    None
}

/// Finds a reference with two braces on one side and one on the other, in a text whose braces are not
/// balanced: where they are, the second brace belongs to something else.
fn uneven(text: &str, known: KnownNames<'_>) -> Option<Slip> {
    let (opening, closing) = (text.matches('{').count(), text.matches('}').count());
    if opening == closing {
        return None;
    }
    in_braces(text).find_map(|(open, inside)| {
        let end = open + 1 + text[open + 1..].find('}')? + 1;
        let twice_before = text[..open].trim_end_matches(' ').ends_with('{');
        let twice_behind = text[end..].trim_start_matches(' ').starts_with('}');
        let (code, written, what) = match (twice_before, twice_behind) {
            (true, false) if opening > closing => ("unclosed-reference", format!("{{{{{inside}}}"), "before"),
            (false, true) if opening < closing => ("unopened-reference", format!("{{{inside}}}}}"), "after"),
            _ => return None,
        };
        Reference::parse(inside, known.names)?;
        let message = format!(
            "`{written}` has two braces {what} it and one on the other side: one is treated as literal text"
        );
        Some(Slip::new(code, message, inside))
    })
}

/// Finds the first text in single braces that is nearly a reference: a component alone, another mark in place
/// of the `@`, a misspelled global, or a global that texts cannot refer to.
fn misspelled(text: &str, known: KnownNames<'_>, suggester: &mut Suggester) -> Option<Slip> {
    // Double braces are templates of other engines, which `doubled` handles.
    let single = in_braces(text).filter(|(open, _)| !text[..*open].ends_with('{') && !is_of_tex(text, *open));
    single.into_iter().find_map(|(_, inside)| {
        let written = format!("{{{inside}}}");
        if known.names.components.contains(inside) {
            return Some(Slip::whole(&written, inside, known));
        }
        if known.globals.contains_key(inside) && Reference::parse(inside, known.names).is_none() {
            let message = format!(
                "`{written}` is treated as literal text: only names with `sys.`, `env.` or `secret.` are read"
            );
            let name = inside.rsplit('.').next().unwrap_or(inside);
            let help = format!("declare `{name}` under `variables`, and write `{{env.{name}}}`");
            return Some(Slip { code: MALFORMED, message, help });
        }
        let meant = into_item(inside, known)
            .or_else(|| separated(inside, known))
            .or_else(|| global(inside, known, suggester))?;
        let message = format!("`{written}` is not a reference: it is treated as literal text");
        Some(Slip::new(MALFORMED, message, &meant))
    })
}

/// Returns what is meant by a path into the item of an Iteration, `{item.name}`: the short names have no members.
fn into_item(inside: &str, known: KnownNames<'_>) -> Option<String> {
    let (name, path) = inside.split_once('.')?;
    let item = known.names.item?;
    let is_path = !path.is_empty() && path.chars().all(|c| is_name_char(c) || matches!(c, '.' | '-'));
    (matches!(name, "item" | "result") && is_path).then(|| format!("{item}@{name}.{path}"))
}

/// Returns what was probably meant by a text such as `{Agent:A.content}`.
fn separated(inside: &str, known: KnownNames<'_>) -> Option<String> {
    if inside.contains('@')
        || !inside.chars().all(|c| is_name_char(c) || matches!(c, '_' | ':' | '-' | '.' | ' '))
    {
        return None;
    }
    // The id ends at one of the first of these marks; a text of nothing but marks must not be split at each.
    let marks = inside.match_indices(['.', ':', '-', ' ']).take(8);
    let ids = marks.map(|(at, _)| (&inside[..at], &inside[at + 1..]));
    let (id, path) = ids
        .filter(|(_, path)| !path.is_empty() && !path.contains(' '))
        .find(|(id, _)| known.names.components.contains(*id))?;
    let whole = known.names.components.contains(inside);
    (!whole).then(|| known.meant(id, path))
}

/// Returns what was probably meant by `{sy.query}` or, in the body of an Iteration, `{itme}`.
fn global(inside: &str, known: KnownNames<'_>, suggester: &mut Suggester) -> Option<String> {
    let names = || known.globals.keys().map(String::as_str);
    let is_plain =
        !inside.is_empty() && inside.chars().all(|c| is_name_char(c) || matches!(c, '_' | '.' | ','));
    if !is_plain || Reference::parse(inside, known.names).is_some() {
        return None;
    }
    // A single word can only be a misspelled name within the body of an Iteration.
    if !inside.contains(['.', ',']) {
        let of_item = OF_AN_ITEM.into_iter().filter(|_| known.names.item.is_some());
        return suggester.misspelled(inside, of_item).map(str::to_owned);
    }
    // The first two names are the global; what follows is the path into its value.
    let ends = inside.match_indices(['.', ',']).map(|(at, _)| at).nth(1).unwrap_or(inside.len());
    let (name, way) = inside.split_at(ends);
    suggester.misspelled_among(name, names()).map(|meant| format!("{meant}{}", way.replace(',', ".")))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    struct Outputs;

    impl MeantOutputs for Outputs {
        fn main(&self, component: &str) -> Option<&str> {
            (component == "Agent:A").then_some("content")
        }

        fn has(&self, component: &str, path: &str) -> bool {
            component != "Agent:A" || path.starts_with("content")
        }
    }

    fn check(text: &str, expected: &str) {
        let components: HashSet<_> =
            ["Agent:A".into(), "b".into(), "c d".into(), "v1.2".into(), "T:🚲".into()].into();
        let item = "b".into();
        let globals = json!({"sys.query": "", "env.town": "", "my.town": "", "town": "",
            "env.list": [], "env.members": {}, "env.n": 1});
        let names = Names { components: &components, item: Some(&item) };
        let known = KnownNames { names, globals: globals.as_object().unwrap(), outputs: &Outputs };
        let slip = first(text, TextLanguage::References, known, &mut Suggester::default());
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
        check("Bearer {secret.K-1", "unclosed write `{secret.K-1}`");
        check("Bearer secret.K-1}", "unopened write `{secret.K-1}`");
        check("{secret.KEY} secret.txt {secret.}", "");
        check("in {{ b@x }", "unclosed write `{b@x}`");
        check("say {sys.query|upper}", "malformed write `{sys.query}`");
        check("{Agent:A@content | upper} {b@x}", "malformed write `{Agent:A@content}`");
        check("{somebody|upper} {{sys.query|upper}}", "");
        check("{sys.query|upper", "unclosed write `{sys.query}`");
        check("{\"a\": {b@x}}", "");
        check("{{b@x}: 1}", "");
        check("ask {env.town.size now", "unclosed write `{env.town.size}`");
        check("{somebody@example.org", "");
        check("{\"a\": \"b@x\"}", "");
        check("{Agent:A@", "");
        check("{{{", "");
    }

    #[test]
    fn a_path_into_the_item_names_its_component() {
        check("{item.name} {b@x}", "malformed write `{b@item.name}`");
        check("{result.a.0}", "malformed write `{b@result.a.0}`");
        check("{{ item.name }}", "malformed write `{b@item.name}`");
        check("{item} {item.} {items.x} {index.x}", "");
        let components = HashSet::new();
        let item = "b".into();
        let globals = Map::new();
        let names = Names { components: &components, item: Some(&item) };
        let known = KnownNames { names, globals: &globals, outputs: &Outputs };
        let found = |text: &str| first(text, TextLanguage::Jinja, known, &mut Suggester::default());
        assert_eq!(found("{{ item.name }}"), None);
        assert!(found("{{ items.name }}").is_some());
    }

    #[test]
    fn full_width_characters_are_named() {
        check("say ｛sys.query｝", "malformed write `{sys.query}`");
        check("{Agent:A＠content}", "malformed write `{Agent:A@content}`");
        check("{Agent：A@content．0} {b@x}", "malformed write `{Agent:A@content.0}`");
        check("{sys.query｝", "unclosed write `{sys.query}`");
        check("问：｛somebody＠example.org｝ {sys.query}", "");
        check("答：{sys.query}", "");
        check("{sys.query} 或 ｛sys.query｝", "malformed write `{sys.query}`");
        check("｛sys.query｝ 或 {sys.query}", "malformed write `{sys.query}`");
        check("答：{sys.query} 或 {sys.query}", "");
    }

    #[test]
    fn the_mark_of_an_output_stands_alone() {
        check("so {Agent:A@@content}", "malformed write `{Agent:A@content}`");
        check("so { Agent:A @ content }", "malformed write `{Agent:A@content}`");
        check("so {{ Agent:A @content }}", "malformed write `{Agent:A@content}`");
        check("{me @ example.org} { Agent:A@content } {b@@}", "");
    }

    #[test]
    fn a_reference_in_quotes_is_a_text_in_a_statement() {
        let known = |text: &str| {
            let components = HashSet::new();
            let globals = json!({"sys.query": ""});
            let names = Names { components: &components, item: None };
            let known = KnownNames { names, globals: globals.as_object().unwrap(), outputs: &Outputs };
            first(text, TextLanguage::Jinja, known, &mut Suggester::default()).map(|slip| slip.help)
        };
        let help = Some("write `sys.query` without quotes and braces".to_owned());
        assert_eq!(known("{% if '{sys.query}' == 'Q' %}y{% endif %}"), help);
        assert_eq!(known("{% if \"{sys.query}\" == 'Q' %}y{% endif %}"), help);
        assert_eq!(known("{% if {sys.query} == 'Q' %}'{sys.query}'{% endif %}{{ '{sys.query}' }}"), None);
    }

    #[test]
    fn braces_are_opened_or_not() {
        check("so Agent:A@content} and", "unopened write `{Agent:A@content}`");
        check("{b@x}, sys.query }", "unopened write `{sys.query}`");
        check("{b@x}.Agent:A@content}", "unopened write `{Agent:A@content}`");
        check("_sys.query} asks, {b@x}_", "unopened write `{sys.query}`");
        check("{\"q\": Agent:A@content}", "");
        check("{\"a\": {\"b\": 1}, \"q\": Agent:A@content}", "");
        check("}} a} ü} @}", "");
        check("in {b@x}}, {b@y}", "unopened write `{b@x}`");
        check("{{b@x}}", "");
    }

    #[test]
    fn near_references_are_detected() {
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
        check("{b of all}", "");
        check("{item} {index} {sys.query}", "");
        check("{query} {a.b} { \"item\": 1 }", "");
    }

    #[test]
    fn tex_markup_is_no_reference() {
        check(r"so \text{itme} and \frac{itme}{itme} and \sqrt[itme]{itme} and x_{itme}, e^{itme}", "");
        check(r"see \ref{b} and \sum_{b}", "");
        check(r"see a\b and {itme}", "malformed write `{item}`");
        check("file_{itme}.txt", "malformed write `{item}`");
        check("{sys.query}{itme}", "malformed write `{item}`");
    }

    #[test]
    fn globals_with_the_mark_of_an_output() {
        check("see {env.list@name}", "malformed write `{env.list.0}`");
        check("see {{ env.list@1 }}", "malformed write `{env.list.1}`");
        check("env.members@a.b", "malformed write `{env.members.a.b}`");
        check("{env.n@x}", "malformed write `{env.n}`");
        check("{sys.query@x}", "malformed write `{sys.query.x}`");
        check("{env.nobody@example.org}", "");
    }

    #[test]
    fn a_component_alone() {
        check("use {Agent:A}.", "malformed write `{Agent:A@content}`");
        check("use {{ Agent:A }}", "malformed write `{Agent:A@content}`");
        check("{ b }", "malformed write `{b@` and the name of an output, then `}`");
        check("{\"a\": {b}}", "malformed write `{b@` and the name of an output, then `}`");
    }

    #[test]
    fn names_with_spaces() {
        check("{b@x} {b@my key}", "malformed call it `my_key`, or another name without spaces");
        check("{c d@x}", "malformed call it `c_d`, or another name without spaces");
        check("{Agent:A@content and more", "unclosed write `{Agent:A@content}`");
    }

    #[test]
    fn signs_that_names_cannot_have() {
        let named = "malformed give the component an id of letters, digits, `_`, `:` and `-`";
        check("so {T:🚲@x}", named);
        check("so {v1.2@x}", named);
        check("so {v1.3@x} {U:🚲@x}", "");
        check("so {sys.query🚲}", "malformed write `{sys.query}`");
        check("so {Agent:A@content🚲} and", "malformed write `{Agent:A@content}`");
        check("{sys.query🚲 and {b@x}", "unclosed write `{sys.query}`");
    }

    #[test]
    fn globals_that_texts_cannot_refer_to() {
        check("{my.town}", "malformed declare `town` under `variables`, and write `{env.town}`");
        check("{town}", "malformed declare `town` under `variables`, and write `{env.town}`");
    }

    #[test]
    fn references_as_others_write_them() {
        let as_here = "malformed write a value of this canvas as `{Component@output}` or `{env.name}`, and one brace \
                       where braces are meant as they stand";
        check("so {{#Agent:A.text#}}", "malformed write `{Agent:A@content}`");
        check("so {{ b.text }}", "malformed write `{b@text}`");
        check("so {{ sy.query }}", "malformed write `{sys.query}`");
        check("so {{ user.name }}", as_here);
        check("so {{name}}", as_here);
        check("{{ true }} {{ 1 }} {{ a + b }} {{}} {{ a.b }", "");
        check("{{ item }} {{ sys.query }} {{ b@x }}", "");
        check("{% set a = 1 %}{{ a }}", "");
        check("{\"a\": {\"b\": {c}}}", "");
    }
}
