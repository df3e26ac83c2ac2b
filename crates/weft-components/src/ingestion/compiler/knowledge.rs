//! Combines what models have found in the parts of a document: the same thing is one entry, wherever it was found.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Map, json};
use weft_core::Json;

use super::kind::TemplateKind;
use super::templates::CompilationTemplate;

/// Maximum number of entries of one template, and of relations between them.
// A list should not rewrite the document; this also stops a model that loops.
const ENTRIES_MAX: usize = 4_000;
/// Maximum number of characters in a name.
const NAME_MAX: usize = 200;
/// Maximum number of characters in a description: one that is longer than a paragraph comes from a model that does not
/// stop.
const DESCRIPTION_MAX: usize = 4_000;
/// Maximum number of characters in combined descriptions.
const JOINED_MAX: usize = 1_200;
/// Maximum number of statements about one subject, and of names of related ones.
// Each new one is compared with all that are known.
const FACTS_MAX: usize = 100;
/// Maximum level of sections.
const LEVEL_MAX: u64 = 9;

/// One entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct CompiledItem {
    /// Its name.
    pub name: String,
    /// Its type, in a graph or a wiki.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// When it happened.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub time: String,
    /// The name of its parent entry.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parent: String,
    /// Its description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Statements about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
    /// The names of related entries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<String>,
    /// The values of its fields.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Json>,
    /// The chunks that mention it, counted from 1.
    pub sources: BTreeSet<usize>,
    /// Its unique key.
    #[serde(skip)]
    pub key: String,
    /// The key of its parent entry.
    #[serde(skip)]
    pub under: String,
}

/// A relation between two entries.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct CompiledRelation {
    /// The name of the first entry.
    pub from: String,
    /// The type of the relation.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name of the second entry.
    pub to: String,
    /// The description of the relation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The chunks that mention it, counted from 1.
    pub sources: BTreeSet<usize>,
}

/// Everything that was found for one template.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Knowledge {
    /// The entries.
    pub items: Vec<CompiledItem>,
    /// Their relations.
    pub relations: Vec<CompiledRelation>,
}

impl Knowledge {
    /// Returns it as an output of the component.
    pub(super) fn as_json(&self, template: &CompilationTemplate) -> Json {
        json!({"kind": template.kind.name(), "name": template.name, "items": self.items, "relations": self.relations})
    }
}

/// Knowledge that is collected answer by answer.
#[derive(Debug)]
pub(super) struct Collected {
    kind: TemplateKind,
    items: IndexMap<String, CompiledItem>,
    relations: IndexMap<String, CompiledRelation>,
    /// The sections that are open, outermost first: their levels and keys.
    open: Vec<OpenSection>,
    left_out: usize,
}

#[derive(Debug)]
struct OpenSection {
    level: u64,
    name: String,
    key: String,
}

impl Collected {
    /// Creates an empty collection.
    pub(super) fn new(kind: TemplateKind) -> Self {
        Self { kind, items: IndexMap::new(), relations: IndexMap::new(), open: Vec::new(), left_out: 0 }
    }

    /// Returns how many entries were dropped because of the limit.
    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Adds what was found in the chunks at these positions.
    pub(super) fn add(&mut self, answer: &Json, places: &BTreeSet<usize>) {
        // Each summary adds to the questions of the level above: several from one answer would exceed the allowed
        // number.
        let entries_max = if self.kind == TemplateKind::Tree { 1 } else { usize::MAX };
        let entries = list(answer, "items").iter().filter_map(|entry| Some((entry, item(entry, places)?)));
        for (entry, mut item) in entries.take(entries_max) {
            self.place(&mut item, entry);
            let full = self.items.len() >= ENTRIES_MAX;
            match self.items.get_mut(&item.key) {
                Some(known) => known.merge(item),
                None if full => self.left_out += 1,
                None => drop(self.items.insert(item.key.clone(), item)),
            }
        }
        for entry in list(answer, "relations") {
            let Some(relation) = relation(entry, places) else { continue };
            let key = [&relation.from, &relation.kind, &relation.to].map(|name| same(name)).join("\n");
            let full = self.relations.len() >= ENTRIES_MAX;
            match self.relations.get_mut(&key) {
                Some(known) => {
                    join(&mut known.description, &relation.description);
                    known.sources.extend(relation.sources);
                }
                None if full => self.left_out += 1,
                None => drop(self.relations.insert(key, relation)),
            }
        }
    }

    /// Determines the key of an entry, and its parent.
    fn place(&mut self, item: &mut CompiledItem, entry: &Json) {
        match self.kind {
            TemplateKind::Timeline => item.key = format!("{}\n{}", same(&item.time), same(&item.name)),
            // Each part of the document has its own summary.
            TemplateKind::Tree => item.key = self.items.len().to_string(),
            TemplateKind::PageIndex => {
                let level = entry.get("level").and_then(Json::as_u64).unwrap_or(1).clamp(1, LEVEL_MAX);
                self.open.retain(|section| section.level < level);
                if let Some(above) = self.open.last() {
                    item.parent.clone_from(&above.name);
                    item.under.clone_from(&above.key);
                }
                // Chapters may have sections of the same name.
                item.key = format!("{}\n{}", item.under, same(&item.name));
                let (name, key) = (item.name.clone(), item.key.clone());
                self.open.push(OpenSection { level, name, key });
            }
            TemplateKind::KnowledgeGraph
            | TemplateKind::List
            | TemplateKind::MindMap
            | TemplateKind::Wiki => {
                item.key = same(&item.name);
                item.under = same(&item.parent);
            }
        }
    }

    /// Returns everything in the order in which it was found; a timeline is sorted by date.
    pub(super) fn finish(self) -> Knowledge {
        let mut items: Vec<CompiledItem> = self.items.into_values().collect();
        if self.kind == TemplateKind::Timeline {
            // Entries without a date that can be parsed come last.
            items.sort_by_key(|item| {
                let moment = moment(&item.time);
                (moment.is_none(), moment)
            });
        }
        Knowledge { items, relations: self.relations.into_values().collect() }
    }
}

impl CompiledItem {
    /// Merges what another part of the document says about the same thing.
    fn merge(&mut self, other: Self) {
        join(&mut self.description, &other.description);
        for (mine, others) in
            [(&mut self.kind, other.kind), (&mut self.parent, other.parent), (&mut self.under, other.under)]
        {
            if mine.is_empty() {
                *mine = others;
            }
        }
        for (mine, others) in [(&mut self.facts, other.facts), (&mut self.related, other.related)] {
            for text in others {
                if mine.len() < FACTS_MAX && !mine.iter().any(|known| same(known) == same(&text)) {
                    mine.push(text);
                }
            }
        }
        for (name, value) in other.values {
            self.values.entry(name).or_insert(value);
        }
        self.sources.extend(other.sources);
    }
}

fn list<'a>(value: &'a Json, key: &str) -> &'a [Json] {
    value.get(key).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// Returns a text of an answer on one line. Templates from elsewhere have models write `-1` for an empty value.
fn text(value: &Json, key: &str, max: usize) -> String {
    let text = value.get(key).and_then(Json::as_str).unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.as_str() {
        "-1" => String::new(),
        text => text.chars().take(max).collect(),
    }
}

fn texts(value: &Json, key: &str) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for entry in list(value, key).iter().filter_map(Json::as_str) {
        let text = entry.split_whitespace().collect::<Vec<_>>().join(" ");
        let text: String = text.chars().take(DESCRIPTION_MAX).collect();
        if !text.is_empty() && texts.len() < FACTS_MAX && !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// Returns the chunks that an entry names, restricted to those the model has seen; if it names none, all of these.
fn sources(entry: &Json, places: &BTreeSet<usize>) -> BTreeSet<usize> {
    let named = list(entry, "sources").iter().filter_map(Json::as_u64);
    let named = named.filter_map(|place| usize::try_from(place).ok());
    let known: BTreeSet<usize> = named.filter(|place| places.contains(place)).collect();
    if known.is_empty() { places.clone() } else { known }
}

/// Returns a value unless it is empty.
fn said(value: &Json) -> Option<Json> {
    match value {
        Json::Null => None,
        Json::String(text) if text.trim().is_empty() => None,
        Json::String(text) => Some(text.chars().take(DESCRIPTION_MAX).collect::<String>().into()),
        other => Some(other.clone()),
    }
}

fn item(entry: &Json, places: &BTreeSet<usize>) -> Option<CompiledItem> {
    let name = text(entry, "name", NAME_MAX);
    let values = entry.get("values").and_then(Json::as_object).into_iter().flatten();
    let values = values.filter_map(|(name, value)| Some((name.clone(), said(value)?)));
    (!name.is_empty()).then(|| CompiledItem {
        name,
        kind: text(entry, "type", NAME_MAX),
        time: text(entry, "time", NAME_MAX),
        parent: text(entry, "parent", NAME_MAX),
        description: text(entry, "description", DESCRIPTION_MAX),
        facts: texts(entry, "facts"),
        related: texts(entry, "related"),
        values: values.collect(),
        sources: sources(entry, places),
        ..CompiledItem::default()
    })
}

fn relation(entry: &Json, places: &BTreeSet<usize>) -> Option<CompiledRelation> {
    let [from, kind, to] = ["from", "type", "to"].map(|key| text(entry, key, NAME_MAX));
    (!from.is_empty() && !to.is_empty()).then(|| CompiledRelation {
        from,
        kind,
        to,
        description: text(entry, "description", DESCRIPTION_MAX),
        sources: sources(entry, places),
    })
}

/// Returns a name in the form in which it is compared: ignoring case.
fn same(name: &str) -> String {
    name.to_lowercase()
}

/// Adds a text to another one; if one contains the other, only the longer is kept.
fn join(one: &mut String, other: &str) {
    if one.contains(other) {
        return;
    }
    if other.contains(one.as_str()) {
        other.clone_into(one);
    } else if one.chars().count() + other.chars().count() < JOINED_MAX {
        one.push(' ');
        one.push_str(other);
    }
}

/// Parses year, month, day, hour and minute, as far as they are written as numbers in this order. For other formats,
/// only the year is used.
fn moment(time: &str) -> Option<[i64; 5]> {
    let numbers = || time.trim_start_matches('-').split(|c: char| !c.is_ascii_digit());
    let before_christ = time.starts_with('-');
    let first = numbers().next().unwrap_or_default();
    // "5 March 2024" does not begin with a year, but "476" is one.
    let is_year = first.len() == 4 || before_christ || first.len() == time.len();
    if !is_year {
        let year = numbers().find(|number| number.len() == 4)?.parse().ok()?;
        return Some([year, 0, 0, 0, 0]);
    }
    let year: i64 = first.parse().ok()?;
    let mut moment = [if before_christ { -year } else { year }, 0, 0, 0, 0];
    for (place, part) in moment.iter_mut().skip(1).zip(numbers().skip(1)) {
        match part.parse() {
            Ok(number) if part.len() <= 2 => *place = number,
            _ => break,
        }
    }
    Some(moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(kind: TemplateKind, answers: &[Json]) -> Knowledge {
        let mut collected = Collected::new(kind);
        for (place, answer) in answers.iter().enumerate() {
            collected.add(answer, &BTreeSet::from([place * 2 + 1, place * 2 + 2]));
        }
        collected.finish()
    }

    fn names(knowledge: &Knowledge) -> Vec<&str> {
        knowledge.items.iter().map(|item| item.name.as_str()).collect()
    }

    #[test]
    fn entries_of_several_parts_are_merged() {
        let found = collected(
            TemplateKind::KnowledgeGraph,
            &[
                json!({"items": [{"name": "Ada  Lovelace", "type": "person", "description": "Wrote programs.", "sources": [2]},
                    {"name": " "}, {"name": "-1"}],
                    "relations": [{"from": "Ada Lovelace", "type": "knew", "to": "Babbage"}, {"from": "Ada", "to": ""}]}),
                json!({"items": [{"name": "ada lovelace", "type": "", "description": "A countess.", "sources": [1, 3, 99]}],
                    "relations": [{"from": "ada lovelace", "type": "Knew", "to": "babbage", "description": "By letters."}]}),
            ],
        );
        let [ada] = &found.items[..] else { panic!("{found:?}") };
        assert_eq!((ada.name.as_str(), ada.kind.as_str()), ("Ada Lovelace", "person"));
        assert_eq!(ada.description, "Wrote programs. A countess.");
        assert_eq!(ada.sources, BTreeSet::from([2, 3]), "a part it was not shown is no source");
        let [knew] = &found.relations[..] else { panic!("{found:?}") };
        assert_eq!((knew.description.as_str(), knew.sources.len()), ("By letters.", 4));
        let wiki = collected(
            TemplateKind::Wiki,
            &[
                json!({"items": [{"name": "A", "facts": ["It is.", "It  is."], "related": ["B"]}]}),
                json!({"items": [{"name": "a", "facts": ["it is.", "It was."], "related": ["b", "C"]}]}),
            ],
        );
        assert_eq!(wiki.items[0].facts, ["It is.", "It was."]);
        assert_eq!(wiki.items[0].related, ["B", "C"]);
    }

    #[test]
    fn events_are_in_the_order_of_their_dates() {
        let event = |time: &str| json!({"name": format!("at {time}"), "time": time});
        let times = [
            "soon",
            "5 March 2024",
            "2020-11-02",
            "2020-02",
            "March 5, 1999",
            "2020",
            "-44-03-15",
            "2020-02-01 10:30",
            "2020-02-01T09:00",
        ];
        let answers: Vec<Json> = times.iter().map(|time| json!({"items": [event(time)]})).collect();
        let found = collected(TemplateKind::Timeline, &answers);
        let ordered: Vec<&str> = found.items.iter().map(|item| item.time.as_str()).collect();
        assert_eq!(
            ordered,
            [
                "-44-03-15",
                "March 5, 1999",
                "2020",
                "2020-02",
                "2020-02-01T09:00",
                "2020-02-01 10:30",
                "2020-11-02",
                "5 March 2024",
                "soon"
            ]
        );
        let twice = [json!({"items": [event("2020")]}), json!({"items": [event("2020"), event("2021")]})];
        assert_eq!(names(&collected(TemplateKind::Timeline, &twice)), ["at 2020", "at 2021"]);
    }

    #[test]
    fn sections_of_one_name_are_distinguished_by_their_chapters() {
        let section = |name: &str, level: u64| json!({"name": name, "level": level, "description": name});
        let found = collected(
            TemplateKind::PageIndex,
            &[
                json!({"items": [section("One", 1), section("Start", 2)]}),
                json!({"items": [section("One", 1), section("End", 2), section("Two", 1), section("Start", 2)]}),
            ],
        );
        let seen: Vec<_> =
            found.items.iter().map(|item| (item.name.as_str(), item.parent.as_str())).collect();
        assert_eq!(seen, [("One", ""), ("Start", "One"), ("End", "One"), ("Two", ""), ("Start", "Two")]);
        assert_eq!(found.items[0].sources.len(), 4);
    }

    #[test]
    fn a_part_has_one_summary() {
        let summary = |name: &str| json!({"name": name, "description": name});
        let answers = [
            json!({"items": [{"name": " "}, summary("one"), summary("more")]}),
            json!({"items": [summary("two")]}),
        ];
        assert_eq!(names(&collected(TemplateKind::Tree, &answers)), ["one", "two"]);
    }

    #[test]
    fn an_endless_model_does_not_fill_memory() {
        let items: Vec<Json> =
            (0..ENTRIES_MAX + 7).map(|number| json!({"name": number.to_string()})).collect();
        let mut collected = Collected::new(TemplateKind::List);
        let long = "x".repeat(NAME_MAX * 2);
        collected.add(
            &json!({"items": [{"name": long, "values": {"a": "b", "none": null, "blank": " "}}]}),
            &BTreeSet::from([1]),
        );
        collected.add(&json!({"items": items}), &BTreeSet::from([1]));
        assert_eq!(collected.left_out(), 8);
        let found = collected.finish();
        assert_eq!((found.items.len(), found.items[0].name.len()), (ENTRIES_MAX, NAME_MAX));
        assert_eq!(json!(found.items[0].values), json!({"a": "b"}));
    }
}
