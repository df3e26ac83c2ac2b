//! Single mistakes in every part of a canvas.

use serde_json::{Map, json};
use weft_core::field::Kind;
use weft_core::{Catalog, Json};

use super::declared::{self, Declared};

/// Where a mistake is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    Parameter,
    Key,
    Reference,
    Brace,
    Target,
    Id,
    Kind,
    Word,
    Value,
}

impl Sort {
    pub(super) const ALL: [Self; 9] = [
        Self::Parameter,
        Self::Key,
        Self::Reference,
        Self::Brace,
        Self::Target,
        Self::Id,
        Self::Kind,
        Self::Word,
        Self::Value,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Parameter => "a parameter's name, at any depth",
            Self::Key => "another key",
            Self::Reference => "a name in a reference",
            Self::Brace => "a brace or mark of a reference",
            Self::Target => "where an edge, a branch or a failure leads",
            Self::Id => "a component's id or its frame's",
            Self::Kind => "a component's type",
            Self::Word => "an operator, or one of several words",
            Self::Value => "a value of another type",
        }
    }
}

/// Former names of component types.
const RENAMED: [(&str, &str); 3] =
    [("Splitter", "TokenChunker"), ("HierarchicalMerger", "TitleChunker"), ("PDFGenerator", "DocGenerator")];

/// One mistake.
pub(super) struct Mutant {
    pub sort: Sort,
    /// What was changed, for display.
    pub what: String,
    /// Why it may not be a mistake.
    pub reason: Option<&'static str>,
    at: String,
    change: Change,
}

enum Change {
    Set(Json),
    Rename(String, String),
}

impl Mutant {
    /// The canvas with the mistake.
    pub(super) fn of(&self, canvas: &Json) -> Json {
        let mut canvas = canvas.clone();
        let place = canvas.pointer_mut(&self.at).unwrap();
        match &self.change {
            Change::Set(value) => *place = value.clone(),
            Change::Rename(from, to) => {
                let renamed = place.as_object().unwrap().iter();
                let renamed =
                    renamed.map(|(key, value)| (if key == from { to } else { key }.clone(), value.clone()));
                *place = renamed.collect::<Map<_, _>>().into();
            }
        }
        canvas
    }
}

const OWN_NAME: &str = "the author's own name, which nothing refers to";
const OWN_VALUE: &str = "a value that may be any";
const OTHER_WORD: &str = "a word that is not one of several";
const OTHER_TEXT: &str = "another text in the place of a list of texts";
const OLD_ID: &str = "an older id, which is renamed only where a reference is whole";
const PROSE: &str = "a sentence of the author's that is another one now";

/// How a name goes wrong: two letters swapped, early or late in it; one missing, one doubled, or one replaced.
pub(super) fn misspelled(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let swaps = |at: &usize| {
        let (one, other) = (letters[*at], letters[*at + 1]);
        one != other && one.is_alphabetic() && other.is_alphabetic()
    };
    let inner = || (1..letters.len().saturating_sub(1)).filter(swaps);
    let swapped = |at: usize| {
        let mut letters = letters.clone();
        letters.swap(at, at + 1);
        letters
    };
    let mut made: Vec<Vec<char>> =
        inner().next().into_iter().chain(inner().next_back()).map(swapped).collect();
    let middle = letters.len() / 2;
    if letters.len() > 4 && letters[middle].is_alphabetic() {
        let with = |more: &[char]| [&letters[..middle], more, &letters[middle + 1..]].concat();
        made.extend([with(&[]), with(&[letters[middle], letters[middle]]), with(&['q'])]);
    }
    let mut made: Vec<String> =
        made.into_iter().map(String::from_iter).filter(|other| other != name).collect();
    made.sort_unstable();
    made.dedup();
    made
}

fn join(at: &str, step: &str) -> String {
    format!("{at}/{}", step.replace('~', "~0").replace('/', "~1"))
}

/// All mutants of a canvas, always in the same order.
pub(super) fn mutants(catalog: &Catalog, canvas: &Json) -> Vec<Mutant> {
    let dsl = if canvas.get("dsl").is_some() { "/dsl" } else { "" };
    let Some(components) = canvas.pointer(&format!("{dsl}/components")).and_then(Json::as_object) else {
        return Vec::new();
    };
    let all = format!("{dsl}/components");
    let ids: Vec<&str> = components.keys().map(String::as_str).collect();
    let mut made = Maker { catalog, ids: &ids, mutants: Vec::new() };
    for (id, component) in components {
        let node = join(&all, id);
        made.renamed(Sort::Id, &all, id, Some("the id of a component, which nothing refers to"));
        for (key, sort) in [("downstream", Sort::Key), ("obj", Sort::Key), ("parent_id", Sort::Key)] {
            if component.get(key).is_some_and(|value| !value.is_null()) {
                made.renamed(sort, &node, key, None);
            }
        }
        made.renamed(Sort::Key, &format!("{node}/obj"), "component_name", None);
        made.renamed(Sort::Key, &format!("{node}/obj"), "params", None);
        let kind = component["obj"]["component_name"].as_str().unwrap_or_default();
        let is = RENAMED.iter().find(|(old, _)| *old == kind).map_or(kind, |(_, new)| new);
        made.spelled(Sort::Kind, &format!("{node}/obj/component_name"), kind, None);
        for (place, target) in component["downstream"].as_array().into_iter().flatten().enumerate() {
            made.spelled(Sort::Target, &format!("{node}/downstream/{place}"), target.as_str().unwrap(), None);
        }
        if let Some(parent) = component.get("parent_id").and_then(Json::as_str) {
            made.spelled(Sort::Id, &format!("{node}/parent_id"), parent, None);
        }
        let params = &component["obj"]["params"];
        let mut walk =
            Walk { made: &mut made, kind: is, params, path: Vec::new(), at: format!("{node}/obj/params") };
        walk.object(params);
    }
    made.variables(canvas, dsl);
    made.mutants
}

struct Maker<'a> {
    catalog: &'a Catalog,
    ids: &'a [&'a str],
    mutants: Vec<Mutant>,
}

impl Maker<'_> {
    fn add(&mut self, sort: Sort, at: &str, change: Change, reason: Option<&'static str>) {
        let what = match &change {
            Change::Set(value) => format!("{at} = {value}"),
            Change::Rename(from, to) => format!("{at}: {from} -> {to}"),
        };
        self.mutants.push(Mutant { sort, what, reason, at: at.to_owned(), change });
    }

    fn renamed(&mut self, sort: Sort, at: &str, key: &str, reason: Option<&'static str>) {
        for other in misspelled(key) {
            self.add(sort, at, Change::Rename(key.to_owned(), other), reason);
        }
    }

    fn spelled(&mut self, sort: Sort, at: &str, word: &str, reason: Option<&'static str>) {
        for other in misspelled(word) {
            self.add(sort, at, Change::Set(other.into()), reason);
        }
    }

    fn variables(&mut self, canvas: &Json, dsl: &str) {
        let at = format!("{dsl}/variables");
        let Some(variables) = canvas.pointer(&at).and_then(Json::as_object) else { return };
        for (name, variable) in variables {
            self.renamed(Sort::Parameter, &at, name, Some(OWN_NAME));
            let Some(members) = variable.as_object() else { continue };
            let at = join(&at, name);
            for key in ["type", "value"].into_iter().filter(|key| members.contains_key(*key)) {
                self.renamed(Sort::Key, &at, key, None);
            }
            let kind = variable["type"].as_str().unwrap_or_default();
            self.spelled(Sort::Word, &format!("{at}/type"), kind, None);
            // Any text is allowed.
            if !kind.is_empty() && kind != "string" {
                self.other_types(&format!("{at}/value"), &variable["value"], None);
            }
        }
    }

    /// The same as a value of another type.
    fn other_types(&mut self, at: &str, value: &Json, reason: Option<&'static str>) {
        let others = match value {
            Json::Null => return,
            Json::Bool(_) => vec![json!("perhaps"), json!([value])],
            Json::Number(_) => vec![json!("many"), json!([value]), json!({"value": value})],
            Json::String(text) if text.is_empty() => vec![json!({"value": 1})],
            Json::String(_) => vec![json!(7), json!(true), json!({"value": value})],
            Json::Array(_) => vec![json!("some text"), json!({"value": value}), json!(7)],
            Json::Object(_) => vec![json!("some text"), json!([value]), json!(7)],
        };
        for other in others {
            self.add(Sort::Value, at, Change::Set(other), reason);
        }
    }
}

struct Walk<'a, 'm> {
    made: &'m mut Maker<'a>,
    kind: &'a str,
    params: &'a Json,
    path: Vec<String>,
    at: String,
}

impl Walk<'_, '_> {
    fn declared(&self) -> Declared {
        declared::at(self.made.catalog, self.kind, self.params, &self.path)
    }

    fn object(&mut self, value: &Json) {
        for (key, member) in value.as_object().into_iter().flatten() {
            let outer = self.at.clone();
            self.path.push(key.clone());
            let reason = matches!(self.declared(), Declared::Own).then_some(OWN_NAME);
            self.made.renamed(Sort::Parameter, &outer, key, reason);
            self.at = join(&outer, key);
            self.value(member);
            self.path.pop();
            self.at = outer;
        }
    }

    fn value(&mut self, value: &Json) {
        let declared = self.declared();
        // Inside objects, a compared or sent value may be a number as well as a text.
        let inside = self.path.len() > 1;
        let any = match declared {
            Declared::Own => true,
            Declared::Field(field) => match field.kind {
                Kind::Any => true,
                Kind::Template => inside && value.is_string(),
                _ => false,
            },
            Declared::Text | Declared::Nothing => false,
        };
        // A text in place of a list of one.
        let texts =
            matches!(declared, Declared::Field(field) if matches!(field.kind, Kind::Texts | Kind::List));
        let reason =
            if any { Some(OWN_VALUE) } else { Some(OTHER_TEXT).filter(|_| texts && value.is_array()) };
        self.made.other_types(&self.at, value, reason);
        match value {
            Json::String(text) => self.text(text, declared),
            Json::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    let outer = self.at.clone();
                    self.path.push(place.to_string());
                    self.at = join(&outer, &place.to_string());
                    self.value(item);
                    self.path.pop();
                    self.at = outer;
                }
            }
            Json::Object(_) => self.object(value),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    fn text(&mut self, text: &str, declared: Declared) {
        let at = self.at.clone();
        let is_program = self.kind == "CodeExec" && self.path == ["script"];
        if is_program {
            return;
        }
        let key =
            self.path.iter().rev().find(|step| step.parse::<usize>().is_err()).map_or("", String::as_str);
        if self.made.ids.contains(&text) {
            self.made.spelled(Sort::Target, &at, text, None);
            return;
        }
        match declared {
            Declared::Field(field) if matches!(field.kind, Kind::Choice(_)) => {
                self.made.spelled(Sort::Word, &at, text, None);
            }
            Declared::Field(_) if key == "operator" || key == "type" => self.word(&at, text),
            _ => {}
        }
        if let Some((id, path)) = text.split_once('@').filter(|(id, _)| self.made.ids.contains(id)) {
            let is_path = path.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'));
            if is_path {
                self.names(&at, ["", ""], id, path);
                self.made.add(Sort::Brace, &at, Change::Set(format!("{id}.{path}").into()), None);
            }
            return;
        }
        self.references(&at, text);
    }

    /// A word of a fixed list, or an operator.
    fn word(&mut self, at: &str, text: &str) {
        let signs = match text {
            "=" => "=>",
            "≥" => "=>",
            "≤" => "=<",
            "≠" => "=/=",
            ">" => ">>",
            "<" => "<<",
            "+=" => "=+",
            "-=" => "=-",
            _ => {
                return self.made.spelled(
                    Sort::Word,
                    at,
                    text,
                    Some(OTHER_WORD).filter(|_| !at.ends_with("/operator")),
                );
            }
        };
        self.made.add(Sort::Word, at, Change::Set(signs.into()), None);
    }

    /// Every reference in braces.
    fn references(&mut self, at: &str, text: &str) {
        let mut from = 0;
        while let Some(open) = text[from..].find('{').map(|found| from + found) {
            from = open + 1;
            let Some(close) = text[from..].find(['{', '}', '\n']).map(|found| from + found) else { return };
            let inside = text[from..close].trim();
            if !text[close..].starts_with('}') {
                continue;
            }
            let (before, after) = (&text[..open], &text[close + 1..]);
            let double = before.ends_with('{');
            let reference = inside.split_once('@').filter(|(id, _)| self.made.ids.contains(id));
            let global = inside.starts_with("sys.") || inside.starts_with("env.");
            match reference {
                Some((id, path)) => self.names(at, [&format!("{before}{{"), &format!("}}{after}")], id, path),
                None if global => {
                    let (head, tail) = inside.split_once('.').unwrap();
                    for tail in misspelled(tail) {
                        let other = format!("{before}{{{head}.{tail}}}{after}");
                        self.made.add(Sort::Reference, at, Change::Set(other.into()), None);
                    }
                    let comma = format!("{before}{{{head},{tail}}}{after}");
                    let swapped = if head == "env" { "evn" } else { "syss" };
                    let swapped = format!("{before}{{{swapped}.{tail}}}{after}");
                    let reason = double.then_some(PROSE);
                    self.made.add(Sort::Brace, at, Change::Set(comma.into()), reason);
                    self.made.add(Sort::Reference, at, Change::Set(swapped.into()), reason);
                }
                None => continue,
            }
            let is_old = |(id, _): (&str, &str)| RENAMED.iter().any(|(old, _)| id.starts_with(old));
            let reason = reference.is_some_and(is_old).then_some(OLD_ID);
            if before.is_empty() && after.is_empty() {
                self.made.add(Sort::Brace, at, Change::Set(inside.into()), None);
            }
            self.made.add(Sort::Brace, at, Change::Set(format!("{before}{{{inside}{after}").into()), reason);
            self.made.add(Sort::Brace, at, Change::Set(format!("{before}{inside}}}{after}").into()), reason);
            if let Some((id, path)) = reference {
                for mark in [".", ":", " "] {
                    let other = format!("{before}{{{id}{mark}{path}}}{after}");
                    self.made.add(Sort::Brace, at, Change::Set(other.into()), reason);
                }
            }
        }
    }

    fn names(&mut self, at: &str, [before, after]: [&str; 2], id: &str, path: &str) {
        for id in misspelled(id) {
            self.made.add(
                Sort::Reference,
                at,
                Change::Set(format!("{before}{id}@{path}{after}").into()),
                None,
            );
        }
        let (name, more) =
            path.split_once('.').map_or((path, String::new()), |(name, more)| (name, format!(".{more}")));
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        let (name, more) = (&name[..end], format!("{}{more}", &name[end..]));
        for name in misspelled(name) {
            self.made.add(
                Sort::Reference,
                at,
                Change::Set(format!("{before}{id}@{name}{more}{after}").into()),
                None,
            );
        }
    }
}
