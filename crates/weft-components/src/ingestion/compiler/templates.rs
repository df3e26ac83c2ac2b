//! The templates by which a document is compiled: built-in ones, and those that a node defines.

use serde_json::Map;
use weft_core::suggest::{did_you_mean, nearest};
use weft_core::{Json, ParamProblem};

use super::kind::{KINDS, OTHER_NAMES, TemplateKind};
use crate::params::{Field, Kind, Params, Widget, asks_for_something, described, pointer};

/// Maximum number of templates of a node.
// Each reads the whole document once more.
const TEMPLATES_MAX: usize = 16;
/// Maximum number of types or fields in a template.
// All of them are in every question about the document.
const ROWS_MAX: usize = 64;

/// Remedy for an unknown group of templates.
pub(super) const REMEDY: &str = "its templates are kept at the service that it comes from; name a group that is built in \
                          (`knowledge_graph`, `list`, `mind_map`, `page_index`, `timeline`, `tree`, `wiki`), or write them into `templates`";

/// The group of templates that a node names.
pub(super) static GROUP: Field<String> = Field::text(
    "compilation_template_group_id",
    "the built-in group of templates, which determines what the document is compiled into",
)
.one_of(&KINDS)
.knows(&OTHER_NAMES);
/// The groups that older nodes name.
pub(super) static GROUPS: Field<Vec<String>> =
    Field::texts("compilation_template_group_ids", "an older parameter for several groups").not_offered();

const TYPE: [Field; 3] = [
    Field::raw("type", Kind::Text, "its name"),
    Field::raw("description", Kind::Text, "what it is"),
    Field::raw("rule", Kind::Text, "the rule to follow"),
];
const PART: [Field; 2] = [
    Field::raw("description", Kind::Text, "what to look for"),
    Field::raw("fields", Kind::Objects(&TYPE), "the types"),
];
const LIST_FIELD: [Field; 2] =
    [Field::raw("name", Kind::Text, "its name"), Field::raw("description", Kind::Text, "what it contains")];
const TEMPLATE: [Field; 8] = [
    Field::raw("kind", Kind::Choice(&KINDS), "what the document is compiled into").knows(&OTHER_NAMES),
    Field::raw("name", Kind::Text, "its name, which is the heading of the results"),
    Field::raw("instruction", Kind::Text, "further instructions to the model, such as what a list contains")
        .widget(Widget::Lines),
    Field::raw("fields", Kind::Objects(&LIST_FIELD), "the fields of each entry of a `list`"),
    Field::raw("entity", Kind::Object(&PART), "the entities to look for, by type"),
    Field::raw("relation", Kind::Object(&PART), "the relations to look for, by type"),
    Field::raw("global_rules", Kind::Text, "rules for all of the above").widget(Widget::Lines),
    Field::raw(
        "config",
        Kind::Any,
        "the same members, as in a stored template; used where the template itself has none",
    ),
];
/// Templates that the node defines itself.
pub(super) static TEMPLATES: Field =
    Field::raw("templates", Kind::Objects(&TEMPLATE), "custom templates, all of which are applied");

/// A template by which a document is compiled.
#[derive(Debug, PartialEq)]
pub(super) struct CompilationTemplate {
    /// The kind of its result.
    pub kind: TemplateKind,
    /// Its display name.
    pub name: String,
    /// The author's instructions to the model.
    pub words: String,
    /// The fields of list entries.
    pub fields: Vec<ListField>,
}

/// A field of list entries.
#[derive(Debug, PartialEq)]
pub(super) struct ListField {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
}

/// The templates that a node selects.
#[derive(Debug)]
pub(super) struct ChosenTemplates {
    /// The templates.
    pub templates: Vec<CompilationTemplate>,
    /// Why the node cannot run, if there are none.
    pub missing: Option<String>,
}

impl CompilationTemplate {
    /// Returns the built-in template of a kind.
    pub(super) fn built_in(kind: TemplateKind) -> Self {
        Self { kind, name: kind.title().to_owned(), words: usual_words(kind), fields: Vec::new() }
    }
}

/// Returns the default instructions to the model.
fn usual_words(kind: TemplateKind) -> String {
    match kind {
        TemplateKind::List => include_str!("prompts/list_usual.md").trim_end().to_owned(),
        _ => String::new(),
    }
}

fn is_missing(id: &str) -> String {
    format!("there is no built-in group of compilation templates `{id}`")
}

/// Reads what a node selects, and reports problems.
pub(super) fn chosen(params: &mut Params<'_>) -> ChosenTemplates {
    let named = params.take(&GROUP);
    let mut ids = params.take(&GROUPS);
    ids.insert(0, named);
    let mut templates: Vec<CompilationTemplate> = Vec::new();
    let mut unknown = Vec::new();
    for id in ids.iter().map(|id| id.trim()).filter(|id| !id.is_empty()) {
        match TemplateKind::of(id) {
            Some(kind) if templates.iter().any(|known| known.kind == kind) => {}
            Some(kind) => templates.push(CompilationTemplate::built_in(kind)),
            None => unknown.push(id),
        }
    }
    let rows = params.rows(&TEMPLATES, &["kind", "name", "instruction", "config"]);
    let count = rows.len();
    if count > TEMPLATES_MAX {
        let problem = ParamProblem::new("/templates", format!("has more than {TEMPLATES_MAX} templates"));
        params.problem(problem.help("use a second Compiler"));
    }
    for (place, row) in rows.into_iter().take(TEMPLATES_MAX) {
        templates.extend(TemplateReader { params: &mut *params, place: place.to_string(), row }.read());
    }
    let place = params.pointer(&GROUP);
    if templates.is_empty() && unknown.is_empty() && count == 0 {
        let problem = ParamProblem::new(place, "no template is given");
        params.problem(problem.help("name a built-in group, such as `timeline`, or enter `templates`"));
        return ChosenTemplates { templates, missing: None };
    }
    if templates.is_empty() {
        return ChosenTemplates { templates, missing: unknown.first().map(|id| is_missing(id)) };
    }
    for id in unknown {
        let meant = nearest(id, KINDS.iter().map(|kind| kind.value));
        let help = meant.map_or_else(|| "remove it: the other templates are used".to_owned(), did_you_mean);
        let problem = ParamProblem::new(place.as_str(), format!("has no effect: {}", is_missing(id)));
        params.warn(problem.help(help));
    }
    ChosenTemplates { templates, missing: None }
}

/// Reads one entry of `templates`.
struct TemplateReader<'p, 'a> {
    params: &'p mut Params<'a>,
    place: String,
    row: &'a Map<String, Json>,
}

impl<'a> TemplateReader<'_, 'a> {
    fn read(mut self) -> Option<CompilationTemplate> {
        let kind = self.kind()?;
        for key in ["rechunk", "dataset_merge"] {
            if self.get(key).is_some_and(asks_for_something) {
                let problem = ParamProblem::new(self.at(key), "has no effect: a document keeps its chunks");
                self.params.warn(problem.help("remove it"));
            }
        }
        let mut words = Vec::new();
        words.extend(self.text("instruction"));
        words.extend(self.part("entity", "What is looked for"));
        words.extend(self.part("relation", "How it belongs together"));
        words.extend(self.text("global_rules"));
        let fields = self.fields();
        if kind != TemplateKind::List && !fields.is_empty() {
            let problem = ParamProblem::new(self.at("fields"), "has no effect: only a `list` has fields");
            self.params.warn(problem.help("say in `instruction` what to record"));
        }
        let name = self.text("name").unwrap_or_else(|| kind.title().to_owned());
        let words = if words.is_empty() { usual_words(kind) } else { words.join("\n\n") };
        Some(CompilationTemplate { kind, name, words, fields })
    }

    fn at(&self, key: &str) -> String {
        pointer(&["templates", &self.place, key])
    }

    /// Returns a member, also from `config`.
    fn get(&self, key: &str) -> Option<&'a Json> {
        let row = self.row;
        match row.get(key) {
            Some(value) if !value.is_null() => Some(value),
            _ => row.get("config")?.as_object()?.get(key),
        }
    }

    fn kind(&mut self) -> Option<TemplateKind> {
        let name = self.get("kind").and_then(Json::as_str).unwrap_or_default();
        let kind = TemplateKind::of(name);
        if kind.is_none() {
            let names = || KINDS.iter().map(|kind| kind.value);
            let listed = || format!("use one of {}", names().collect::<Vec<_>>().join(", "));
            let message = match name.trim() {
                "" => "is missing".to_owned(),
                name => format!("`{name}` is not a kind of template"),
            };
            let problem = ParamProblem::new(self.at("kind"), message);
            self.params.problem(problem.help(nearest(name, names()).map_or_else(listed, did_you_mean)));
        }
        kind
    }

    /// Returns a non-empty text.
    fn text(&mut self, key: &str) -> Option<String> {
        match self.get(key)? {
            Json::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            Json::Null => None,
            other => {
                let message = format!("must be a text, and is {}", described(other));
                self.params.problem(ParamProblem::new(self.at(key), message));
                None
            }
        }
    }

    /// Returns the objects of a list, at most `ROWS_MAX`.
    fn rows(&mut self, key: &str, value: Option<&'a Json>) -> Vec<&'a Map<String, Json>> {
        let rows: &[Json] = match value {
            None | Some(Json::Null) => &[],
            Some(Json::Array(rows)) => rows,
            Some(other) => {
                let message = format!("must be a list of objects, and is {}", described(other));
                self.params.problem(ParamProblem::new(self.at(key), message));
                &[]
            }
        };
        if rows.len() > ROWS_MAX {
            let problem = ParamProblem::new(self.at(key), format!("has more than {ROWS_MAX} entries"));
            self.params.problem(problem.help("remove the least important ones"));
        }
        rows.iter().take(ROWS_MAX).filter_map(Json::as_object).collect()
    }

    /// Formats what the author says about types.
    fn part(&mut self, key: &str, title: &str) -> Option<String> {
        let part = match self.get(key)? {
            Json::Object(part) => part,
            Json::Null => return None,
            other => {
                let message = format!("must be an object, and is {}", described(other));
                self.params.problem(ParamProblem::new(self.at(key), message));
                return None;
            }
        };
        let description = word(part, "description");
        let mut lines = vec![format!("{title}: {description}")];
        for row in self.rows(key, part.get("fields")) {
            let (name, description, rule) = (word(row, "type"), word(row, "description"), word(row, "rule"));
            if !name.is_empty() {
                lines.push(format!("- `{name}`: {description} {rule}").trim_end().to_owned());
            }
        }
        // An object that another editor wrote and that was not filled in is left out.
        (lines.len() > 1 || !description.is_empty()).then(|| lines.join("\n"))
    }

    fn fields(&mut self) -> Vec<ListField> {
        let value = self.get("fields");
        let rows = self.rows("fields", value).into_iter();
        let field = |row: &Map<String, Json>| ListField {
            name: word(row, "name").to_owned(),
            description: word(row, "description").to_owned(),
        };
        rows.map(field).filter(|field| !field.name.is_empty()).collect()
    }
}

fn word<'a>(object: &'a Map<String, Json>, key: &str) -> &'a str {
    object.get(key).and_then(Json::as_str).unwrap_or_default().trim()
}
