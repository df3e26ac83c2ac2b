//! Checks that the changes of a VariableAssigner suit the types of the variables.

use weft_core::value::{described, number};
use weft_core::{Json, Reference, Template};

use super::CanvasOutputs;
use super::expected::{kind_of_value, named};
use crate::paths::prefixes;
use crate::pointer::join;
use crate::problem::{Problem, ProblemList};
use crate::references::NodeText;
use crate::variables::item_kind;

/// The operators that fail on anything but a list.
const OF_LISTS: [&str; 4] = ["append", "extend", "remove_first", "remove_last"];
/// The operators that fail on anything but a number.
const OF_NUMBERS: [&str; 4] = ["+=", "-=", "*=", "/="];

/// The texts of a session that are no numbers.
const SYSTEM_TEXTS: [&str; 2] = ["sys.date", "sys.run_id"];

/// Maximum number of changes that replace a variable and are compared with its type.
// They are compared again for each of its other changes, and a canvas may have a hundred thousand of both.
const REPLACING_MAX: usize = 64;

/// One change as written.
struct Change<'c> {
    target: Reference,
    operator: &'c str,
    parameter: &'c Json,
}

impl CanvasOutputs<'_> {
    /// Reports the changes of a node that fail because of the type of the variable or of the operand, and items that do
    /// not suit the declared type of a list.
    pub(super) fn check_assignments(&self, text: NodeText<'_>, problems: &mut ProblemList) {
        if self.assigned.is_by_model() {
            return;
        }
        let rows = text.node.params.get("variables").and_then(Json::as_array).into_iter().flatten();
        for (place, row) in rows.enumerate() {
            let word = |key: &str| row.get(key).and_then(Json::as_str);
            let target = word("variable").and_then(|name| Reference::whole(name, text.names));
            let (Some(target), Some(operator)) = (target, word("operator")) else { continue };
            let change = Change { target, operator, parameter: row.get("parameter").unwrap_or(&Json::Null) };
            let at = join(&join(&text.node.place.params, "variables"), place);
            let found =
                self.wrong_target(&change).map(|(message, help)| ("variable", message, help)).or_else(|| {
                    let (message, help) = self.wrong_operand(&change, text)?;
                    Some(("parameter", message, help))
                });
            let Some((key, message, help)) = found else { continue };
            let problem = Problem::warning("wrong-type", join(&at, key), message).help(help);
            problems.add(problem.about(&text.node.id, &text.node.name));
        }
    }

    /// Returns why a variable cannot be changed in this way, whatever the operand is.
    fn wrong_target(&self, change: &Change<'_>) -> Option<(String, &'static str)> {
        let Change { target, operator, .. } = change;
        if let Some(wrong) = self.wrong_way(target) {
            return Some(wrong);
        }
        let needed = match *operator {
            operator if OF_LISTS.contains(&operator) => ["array", "a list"],
            operator if OF_NUMBERS.contains(&operator) => ["number", "a number"],
            _ => return None,
        };
        let kind = self.kept_kind(target).filter(|kind| *kind != needed[0])?;
        let (is, must) = (named(kind)?, needed[1]);
        let message = format!("`{target}` is {is}, but `{operator}` needs {must}: the change fails");
        Some((message, "use another operator, or a variable of another type"))
    }

    /// Returns why a path leads into a variable that has no members.
    fn wrong_way(&self, target: &Reference) -> Option<(String, &'static str)> {
        let Reference::Global(name) = target else { return None };
        if self.globals.contains_key(&**name) {
            return None;
        }
        let variable = prefixes(name).filter(|prefix| self.globals.contains_key(*prefix)).last()?;
        let step = name[variable.len() + 1..].split('.').next()?;
        let kind = self.kept_kind(&Reference::Global(variable.into()))?;
        let has_none = match kind {
            "number" | "boolean" => true,
            "array" => step.parse::<i64>().is_err(),
            _ => false,
        };
        let message =
            format!("`{variable}` is {} and has no member `{step}`: the change fails", named(kind)?);
        has_none.then_some((message, "change the whole variable, or use a variable of type `object`"))
    }

    /// Returns why the operand does not suit the operator or the items of the list.
    fn wrong_operand(&self, change: &Change<'_>, text: NodeText<'_>) -> Option<(String, &'static str)> {
        let Change { target, operator, parameter } = change;
        let reference = parameter.as_str().and_then(|written| Reference::whole(written, text.names));
        let kind = match &reference {
            Some(reference) => self.kind(reference)?,
            None => literal_kind(parameter, text)?,
        };
        let shown = || match &reference {
            Some(reference) => format!("`{reference}` is {}", named(kind).unwrap_or("of another type")),
            None => format!("is {}", described(parameter)),
        };
        match *operator {
            // Other values are judged by the component itself. A text may contain a number.
            "extend" if reference.is_some() && kind != "array" => {
                let is = named(kind)?;
                let help = "refer to a list, or use `append`";
                Some((format!("`{}` is {is}, not a list: the change fails", reference.as_ref()?), help))
            }
            operator
                if OF_NUMBERS.contains(&operator)
                    && reference.is_some()
                    && matches!(kind, "boolean" | "array" | "object") =>
            {
                let is = named(kind)?;
                Some((
                    format!("`{}` is {is}, not a number: the change fails", reference.as_ref()?),
                    "refer to a number",
                ))
            }
            operator if OF_NUMBERS.contains(&operator) && kind == "string" => {
                self.unlikely_number(reference.as_ref()?)
            }
            "append" => {
                let declared = self.item_type(target)?;
                let wanted = item_kind(&declared)?;
                (named(kind).is_some() && number_too(kind) != wanted).then(|| {
                    let message = format!("{}, but `{target}` is declared as `{declared}`", shown());
                    (message, "append a value of the declared type, or change the type")
                })
            }
            _ => None,
        }
    }

    /// Returns why a text is no number, or only by chance. Of other texts nothing is known.
    fn unlikely_number(&self, reference: &Reference) -> Option<(String, &'static str)> {
        let Reference::Global(name) = reference else { return None };
        let is_question = &**name == "sys.query";
        let never = SYSTEM_TEXTS.contains(&&**name)
            || self.constant(reference).is_some_and(|value| number(value).is_none());
        let why = if is_question {
            "a text: the change fails unless it is a number"
        } else {
            "a text, not a number: the change fails"
        };
        let help = "refer to a number, such as the field of a form that takes one";
        (is_question || never).then(|| (format!("`{reference}` is {why}"), help))
    }

    /// Returns the type that a variable has all the time: that of its initial value, if whatever replaces it is a
    /// literal of the same type. The other operators keep the type or fail.
    fn kept_kind(&self, target: &Reference) -> Option<&'static str> {
        let kind = match target {
            Reference::Global(name) => {
                let declared = self.canvas.variables.get(name.strip_prefix("env.")?)?;
                let value = self.globals.get(&**name).filter(|_| !declared.is_secret())?;
                // Assigning to a member of an empty text makes it an object.
                kind_of_value(value).filter(|_| value.as_str() != Some(""))?
            }
            Reference::Output { component, path } => {
                let of = self.nodes.get(component)?;
                let kind = self.declared_kind(component, path)?;
                // A default value after a failure may be of any type.
                number_too(of.draft.exception.default.is_none().then_some(kind)?)
            }
        };
        let replacing = self.assigned.replacing(&target.to_string());
        // A text may be a reference, whose value may have any type.
        let keeps = |value: &&Json| !value.is_string() && kind_of_value(value) == Some(kind);
        (replacing.len() <= REPLACING_MAX && replacing.iter().all(keeps)).then_some(kind)
    }

    /// Returns the declared type of a list variable, such as `array<string>`.
    fn item_type(&self, target: &Reference) -> Option<String> {
        let Reference::Global(name) = target else { return None };
        let declared = self.canvas.variables.get(name.strip_prefix("env.")?)?;
        (!declared.is_secret()).then(|| declared.type_name())
    }
}

/// Returns the type of a value that is no reference; a missing value and a mistyped reference are reported elsewhere.
fn literal_kind(value: &Json, text: NodeText<'_>) -> Option<&'static str> {
    let Json::String(written) = value else { return kind_of_value(value) };
    let is_text = Template::parse(written, text.names).references().next().is_some();
    let is_slip = written.trim().is_empty() || written.contains(['{', '}']);
    (is_text || !is_slip).then_some("string")
}

fn number_too(kind: &'static str) -> &'static str {
    if kind == "integer" { "number" } else { kind }
}
