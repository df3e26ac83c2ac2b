//! Describes component types for people, editors and programs. Everything is derived from the [`ComponentSpec`].

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::component::{ComponentSpec, OutputSpec};
use crate::field::schema::{self, type_name};
use crate::field::{AnyField as _, Field, FieldGroup, FieldSpec, Kind, common, specs};
use crate::value::{Json, to_text};

/// Parameters of a component as used in a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Example {
    /// Where they are used: a folder or file of the samples.
    pub from: String,
    /// The parameters.
    pub params: Map<String, Json>,
}

/// Returns a component type as data: its name, what it does, its parameters as a form shows them and as a JSON
/// Schema, its outputs, how agents call it if it is a tool, and an example if there is one.
pub fn described(spec: &ComponentSpec, example: Option<&Example>) -> Json {
    let outputs: Vec<Json> = spec.outputs.iter().map(output).collect();
    let groups = || spec.fields.iter().chain(common::GROUPS);
    let mut described = json!({
        "name": spec.kind,
        "summary": spec.summary,
        "groups": groups().map(group).filter(|group| group["fields"] != json!([])).collect::<Vec<_>>(),
        "parameters": schema::of_parameters(groups()),
        "outputs": outputs,
    });
    if let (Some(tool), Some(arguments)) = (&spec.tool, spec.arguments()) {
        described["tool"] = json!({
            "function": tool.function, "arguments": arguments, "idempotent": tool.idempotent,
            "gives_sources": tool.sources,
        });
    }
    if let Some(Example { from, params }) = example {
        described["example"] = json!({"from": from, "params": params});
    }
    described
}

fn group(group: &FieldGroup) -> Json {
    let fields = group.fields.iter().map(|field| field.spec()).filter(|spec| spec.offered);
    json!({"title": group.title, "fields": fields.map(field).collect::<Vec<_>>()})
}

/// Returns a field in the form that a form editor needs.
fn field(spec: &FieldSpec) -> Json {
    let mut field = json!({"name": spec.name, "title": title(spec.name), "description": spec.summary,
        "type": type_name(spec.kind), "widget": widget(spec)});
    let mut set = |key: &str, value: Option<Json>| {
        if let Some(value) = value {
            field[key] = value;
        }
    };
    set("unit", spec.unit.map(Json::from));
    set("default", spec.default.json());
    set("older_names", (!spec.older.is_empty()).then(|| spec.older.into()));
    set("secret", spec.secret.then(|| true.into()));
    set("by_model", spec.by_model.is_some().then(|| true.into()));
    set("shown_when", spec.shown_when.map(|(field, is)| json!({"field": field, "is": is})));
    let members =
        |members: &[Field]| members.iter().map(|member| self::field(member.spec())).collect::<Json>();
    match spec.kind {
        Kind::Whole { min, max } => {
            set("minimum", (min != i64::MIN).then(|| min.into()));
            set("maximum", (max != i64::MAX).then(|| max.into()));
        }
        Kind::Number { min, max } => {
            set("minimum", min.is_finite().then(|| min.into()));
            set("maximum", max.is_finite().then(|| max.into()));
        }
        Kind::Choice(choices) => {
            let choices =
                choices.iter().map(|choice| json!({"value": choice.value, "description": choice.summary}));
            set("choices", Some(choices.collect()));
        }
        Kind::Objects(list) | Kind::Object(list) | Kind::Named(list) if !list.is_empty() => {
            set("members", Some(members(list)));
        }
        _ => {}
    }
    field
}

/// Turns a name into the label of a field: `max_rounds` and `maxRounds` become `Max rounds`.
fn title(name: &str) -> String {
    let mut title = String::new();
    for c in name.chars() {
        match c {
            '_' => title.push(' '),
            c if c.is_uppercase() => title.extend([' '].into_iter().chain(c.to_lowercase())),
            c if title.is_empty() => title.extend(c.to_uppercase()),
            c => title.push(c),
        }
    }
    title
}

fn widget(spec: &FieldSpec) -> &'static str {
    if let Some(widget) = spec.widget {
        return widget.name();
    }
    match spec.kind {
        Kind::Any | Kind::Object(_) => "json",
        Kind::Text => "line",
        Kind::Template => "template",
        Kind::Reference => "reference",
        Kind::Flag => "switch",
        Kind::Whole { .. } | Kind::Number { .. } => "number",
        Kind::Choice(_) => "select",
        Kind::Texts | Kind::List => "list",
        Kind::Targets => "targets",
        Kind::Objects(_) | Kind::Named(_) => "table",
        Kind::Values => "pairs",
    }
}

fn output(output: &OutputSpec) -> Json {
    let mut described = json!({"name": output.name, "description": output.summary});
    if output.kind != "any" {
        described["type"] = output.kind.into();
    }
    if output.optional {
        described["optional"] = true.into();
    }
    described
}

/// Returns the description of a component type as a section of a Markdown page.
pub fn in_markdown(spec: &ComponentSpec, example: Option<&Example>) -> String {
    let mut page = format!("## {}\n\n{}\n", spec.kind, spec.summary);
    page.push_str(&tables(spec.fields));
    if !spec.outputs.is_empty() {
        page.push_str("\n| output | type | |\n|---|---|---|\n");
        for OutputSpec { name, kind, summary, optional } in spec.outputs {
            let when = if *optional { "when asked for: " } else { "" };
            let _ = writeln!(page, "| `{name}` | {kind} | {when}{} |", in_cell(summary));
        }
    }
    if let Some(tool) = &spec.tool {
        let _ = writeln!(page, "\nAs a tool of an agent it is the function `{}`.", tool.function);
    }
    match example {
        None => page.push_str("\nNo sample uses it.\n"),
        Some(Example { from, params }) if params.is_empty() => {
            let _ = writeln!(page, "\n`{from}` uses it, without parameters.");
        }
        Some(Example { from, params }) => {
            let _ = writeln!(page, "\nIn `{from}`:\n\n```json\n{:#}\n```", Json::Object(params.clone()));
        }
    }
    page
}

/// Returns the parameters that every component has, as a section of the same page.
pub fn common_in_markdown() -> String {
    tables(common::GROUPS)
}

/// Returns one table per heading, in form order.
fn tables(groups: &'static [FieldGroup]) -> String {
    // Groups with the same heading share a table, placed where the first of them is.
    let mut titles: Vec<&str> = Vec::new();
    for group in groups {
        if !titles.contains(&group.title) {
            titles.push(group.title);
        }
    }
    let of = |title: &str| {
        // Parameters that are read only to report that they have no effect do not help authors of canvases.
        let offered = specs(groups.iter().filter(|group| group.title == title)).filter(|spec| spec.offered);
        table(title, &offered.collect::<Vec<_>>())
    };
    titles.into_iter().map(of).collect()
}

fn table(title: &str, offered: &[&FieldSpec]) -> String {
    if offered.is_empty() {
        return String::new();
    }
    let mut table = String::new();
    if !title.is_empty() {
        let _ = writeln!(table, "\n{title}:");
    }
    table.push_str("\n| parameter | type | default | |\n|---|---|---|---|\n");
    for spec in offered {
        // An empty text in a cell would look like a missing default.
        let default = spec.default.json().filter(|value| value.as_str() != Some(""));
        let default = default.map(|value| format!("`{}`", in_cell(&to_text(&value)))).unwrap_or_default();
        let (name, summary) = (spec.name, in_cell(&in_words(spec)));
        // Writing into a String cannot fail.
        let kind = match spec.kind {
            Kind::Template => "template",
            Kind::Reference => "reference",
            kind => type_name(kind),
        };
        let _ = writeln!(table, "| `{name}` | {kind} | {default} | {summary} |");
    }
    table
}

/// Describes a field with its choices, members, bounds, and when it applies.
fn in_words(spec: &FieldSpec) -> String {
    let mut words = spec.summary.to_owned();
    match spec.kind {
        Kind::Choice(choices) => {
            let told = choices.iter().map(|choice| match choice.summary {
                "" => format!("`{}`", choice.value),
                summary => format!("`{}` ({summary})", choice.value),
            });
            let _ = write!(words, ": {}", told.collect::<Vec<_>>().join(", "));
        }
        Kind::Objects(members) | Kind::Named(members) if !members.is_empty() => {
            let _ = write!(words, ", each with {}", listed(members));
        }
        Kind::Object(members) if !members.is_empty() => {
            let _ = write!(words, ": {}", listed(members));
        }
        // The bounds of the integer type itself are not shown, as they would read like real bounds.
        Kind::Whole { min, max } if max != i64::MAX => {
            let _ = write!(words, "; {min} to {max}");
        }
        Kind::Number { min, max } if max.is_finite() => {
            let _ = write!(words, "; {min} to {max}");
        }
        _ => {}
    }
    if let Some(unit) = spec.unit {
        let _ = write!(words, "; in {unit}");
    }
    if let Some((field, is)) = spec.shown_when {
        let _ = write!(words, "; with `{field}`: `{}`", is.join("`, `"));
    }
    if !spec.older.is_empty() {
        let _ = write!(words, "; also read as `{}`", spec.older.join("`, `"));
    }
    words
}

fn listed(members: &[Field]) -> String {
    let told = members.iter().map(|member| format!("`{}` ({})", member.name(), member.spec().summary));
    told.collect::<Vec<_>>().join(", ")
}

/// Escapes a text for a table cell.
fn in_cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::{Role, ToolSpec};
    use crate::field::{choice, fields};

    static NAME: Field<String> = Field::text("name", "a | b").by_model("whom to greet");
    static TIMES: Field<usize> =
        Field::count("maxTimes", 2, &(1..=9), "how often").unit("greetings").older(&["n"]);
    static HOW: Field<&str> =
        Field::choice("how_loud", "low", &[choice("low", "as usual"), choice("high", "")], "how loud");
    static OLD: Field = Field::raw("old", Kind::Any, "nothing").not_offered();

    static SPEC: ComponentSpec = ComponentSpec {
        kind: "Greeter",
        role: Role::Step,
        summary: "Greets.",
        fields: &[fields(&[&NAME, &OLD]), FieldGroup { title: "How", fields: &[&TIMES, &HOW] }],
        outputs: &[
            OutputSpec::new("content", "string", "the greeting"),
            OutputSpec::new("extra", "any", "more").when_asked_for(),
        ],
        time_limit: None,
        measuring_only: false,
        tool: Some(ToolSpec { function: "greet", idempotent: true, sources: false }),
        build: |_| Err(Vec::new()),
    };

    #[test]
    fn a_type_is_described_by_its_spec() {
        let described = described(&SPEC, None);
        assert_eq!(
            described["outputs"][0],
            json!({"name": "content", "type": "string", "description": "the greeting"})
        );
        assert_eq!(
            described["outputs"][1],
            json!({"name": "extra", "description": "more", "optional": true})
        );
        assert_eq!(
            described["tool"],
            json!({"function": "greet", "idempotent": true, "gives_sources": false, "arguments": {"type": "object",
                "additionalProperties": false, "required": ["name"],
                "properties": {"name": {"type": "string", "description": "whom to greet"}}}})
        );
        let names: Vec<_> =
            described["groups"].as_array().unwrap().iter().map(|group| &group["title"]).collect();
        assert_eq!(names, ["", "How", "When it fails"]);
        assert_eq!(described["groups"][0]["fields"].as_array().unwrap().len(), 1);
        assert_eq!(
            described["groups"][1]["fields"],
            json!([
                {"name": "maxTimes", "title": "Max times", "description": "how often", "type": "integer",
                    "widget": "number", "unit": "greetings", "default": 2, "older_names": ["n"], "minimum": 1, "maximum": 9},
                {"name": "how_loud", "title": "How loud", "description": "how loud", "type": "string", "widget": "select",
                    "default": "low", "choices": [{"value": "low", "description": "as usual"}, {"value": "high", "description": ""}]},
            ])
        );
        let parameters = described["parameters"]["properties"].as_object().unwrap();
        assert_eq!(
            parameters["maxTimes"],
            json!({"type": "integer", "minimum": 1, "maximum": 9, "default": 2, "description": "how often"})
        );
        assert!(parameters.contains_key("exception_method") && !parameters.contains_key("old"));
    }

    #[test]
    fn groups_with_the_same_heading_are_merged_into_one_table() {
        static GROUPS: &[FieldGroup] =
            &[fields(&[&NAME]), FieldGroup { title: "How", fields: &[&TIMES] }, fields(&[&HOW])];
        let page = tables(GROUPS);
        let at = |name: &str| page.match_indices(name).map(|(at, _)| at).collect::<Vec<_>>();
        let (name, how, times) = (at("| `name`"), at("| `how_loud`"), at("| `maxTimes`"));
        assert_eq!((name.len(), how.len(), times.len()), (1, 1, 1), "{page}");
        assert!(name < how && how < times, "{page}");
    }

    #[test]
    fn a_type_has_its_own_section() {
        let page = in_markdown(&SPEC, None);
        for line in [
            "| `name` | string |  | a \\| b |",
            "How:\n",
            "| `maxTimes` | integer | `2` | how often; 1 to 9; in greetings; also read as `n` |",
            "| `how_loud` | string | `low` | how loud: `low` (as usual), `high` |",
            "| `extra` | any | when asked for: more |",
            "it is the function `greet`",
        ] {
            assert!(page.contains(line), "{line} is not in {page}");
        }
        assert!(!page.contains("`old`") && common_in_markdown().contains("| `exception_goto` | array |"));
    }
}
