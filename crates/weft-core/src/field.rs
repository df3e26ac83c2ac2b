//! The parameters of components, as plain data: each parameter is described once.
//!
//! The description determines how the parameter is read ([`Params::take`]), its JSON Schema ([`schema`]), its line in
//! the reference, its place in a form, what a model may fill in when the component is a tool, and the known names
//! that a misspelled parameter is compared with.

pub mod common;
pub mod schema;
mod widget;

use std::fmt;
use std::ops::RangeInclusive;

pub use widget::Widget;

use crate::params::{Params, read};
use crate::reference::{Reference, Template};
use crate::value::Json;

/// One parameter, whose value is read as a `T`.
pub struct Field<T = Raw> {
    spec: FieldSpec,
    pub(crate) read: fn(&mut Params<'_>, &FieldSpec) -> T,
}

/// Marker for fields that a component reads itself, with [`Params::get`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw;

/// Everything that is known about a parameter.
#[derive(Clone, Copy, Debug)]
pub struct FieldSpec {
    /// Its name in the canvas.
    pub name: &'static str,
    /// What it means, as a sentence fragment for people.
    pub summary: &'static str,
    /// The values it accepts.
    pub kind: Kind,
    /// The unit of its value, such as `seconds`.
    pub unit: Option<&'static str>,
    /// Its value when it is absent.
    pub default: Preset,
    /// Its former names. One of them is read when the value under the current name is empty.
    pub older: &'static [&'static str],
    /// Its names in other products. They are never read; anyone who uses one is told the right name.
    pub elsewhere: &'static [&'static str],
    /// Values that its component accepts in addition to those offered.
    pub knows: &'static [&'static str],
    /// How a model fills it in when the component is a tool; `None` if models do not.
    pub by_model: Option<ByModel>,
    /// Whether its value must not be revealed.
    pub secret: bool,
    /// Whether forms and the reference show it. A parameter that is read only to report that it has no effect is not
    /// shown.
    pub offered: bool,
    /// The form widget, if it does not follow from the kind.
    pub widget: Option<Widget>,
    /// The field and the values of it for which this one has a meaning; `None` if it always has.
    pub shown_when: Option<(&'static str, &'static [&'static str])>,
}

/// What values a parameter accepts. Canvases are written by hand and by many editors, so reading is lenient: a number
/// may be given as a text, and a list of one item as that item.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Anything.
    Any,
    /// A text.
    Text,
    /// A text containing references, such as `{Agent:A@content}`.
    Template,
    /// A single reference.
    Reference,
    /// True or false.
    Flag,
    /// A whole number from `min` to `max`.
    Whole {
        /// The minimum.
        min: i64,
        /// The maximum.
        max: i64,
    },
    /// A number from `min` to `max`.
    Number {
        /// The minimum.
        min: f64,
        /// The maximum.
        max: f64,
    },
    /// One of these values, case-insensitively.
    Choice(&'static [Choice]),
    /// A list of texts.
    Texts,
    /// A list of anything.
    List,
    /// The ids of the components that run next.
    Targets,
    /// A list of objects with these members.
    Objects(&'static [Field]),
    /// An object with these members. An empty list means any object.
    Object(&'static [Field]),
    /// An object that maps names to objects with these members. An empty list means any values.
    Named(&'static [Field]),
    /// An object that maps names to simple values: texts, numbers, booleans.
    Values,
}

/// One of several allowed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The value.
    pub value: &'static str,
    /// What it means, as a sentence fragment for people; may be empty.
    pub summary: &'static str,
}

/// Creates a [`Choice`].
pub const fn choice(value: &'static str, summary: &'static str) -> Choice {
    Choice { value, summary }
}

/// The value of a parameter that is absent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Preset {
    /// None, or whatever the component derives.
    Nothing,
    /// On or off.
    Flag(bool),
    /// A whole number.
    Whole(i64),
    /// A number.
    Number(f64),
    /// A text.
    Text(&'static str),
}

impl Preset {
    /// Returns the value as it is written in a canvas; `None` for `Nothing`.
    pub fn json(self) -> Option<Json> {
        match self {
            Self::Nothing => None,
            Self::Flag(flag) => Some(flag.into()),
            Self::Whole(number) => Some(number.into()),
            Self::Number(number) => Some(number.into()),
            Self::Text(text) => Some(text.into()),
        }
    }
}

/// How a model fills in a parameter.
#[derive(Clone, Copy, Debug)]
pub struct ByModel {
    /// What to write, as an instruction to the model.
    pub summary: &'static str,
    /// The values it accepts from a model, if fewer than from a canvas.
    pub kind: Option<Kind>,
    /// Whether the model must fill it in.
    pub required: bool,
}

/// Fields that appear together in a form, optionally under a heading.
#[derive(Clone, Copy, Debug)]
pub struct FieldGroup {
    /// The heading; empty for the first group of fields.
    pub title: &'static str,
    /// The fields, in form order.
    pub fields: &'static [&'static dyn AnyField],
}

/// Groups the fields of a component that need no heading.
pub const fn fields(fields: &'static [&'static dyn AnyField]) -> FieldGroup {
    FieldGroup { title: "", fields }
}

/// A field, whatever type it is read as.
pub trait AnyField: fmt::Debug + Sync {
    /// Returns its description.
    fn spec(&self) -> &FieldSpec;
}

impl<T> AnyField for Field<T> {
    fn spec(&self) -> &FieldSpec {
        &self.spec
    }
}

impl<T> fmt::Debug for Field<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Field").field(&self.spec.name).finish()
    }
}

const fn spec(name: &'static str, kind: Kind, summary: &'static str) -> FieldSpec {
    FieldSpec {
        name,
        summary,
        kind,
        unit: None,
        default: Preset::Nothing,
        older: &[],
        elsewhere: &[],
        knows: &[],
        by_model: None,
        secret: false,
        offered: true,
        widget: None,
        shown_when: None,
    }
}

impl Field {
    /// Creates a field that its component reads itself. Also used for the members of objects in other fields.
    pub const fn raw(name: &'static str, kind: Kind, summary: &'static str) -> Self {
        Self { spec: spec(name, kind, summary), read: |_, _| Raw }
    }
}

impl Field<String> {
    /// Creates a text field; empty when absent. Numbers and booleans are converted to text.
    pub const fn text(name: &'static str, summary: &'static str) -> Self {
        Self { spec: spec(name, Kind::Text, summary), read: read::text }
    }

    /// Sets the value to use when it is absent.
    #[must_use]
    pub const fn or(mut self, default: &'static str) -> Self {
        self.spec.default = Preset::Text(default);
        self
    }

    /// Sets the values to offer; any other text is accepted as well.
    #[must_use]
    pub const fn one_of(mut self, choices: &'static [Choice]) -> Self {
        self.spec.kind = Kind::Choice(choices);
        self
    }

    /// Allows references in the text.
    #[must_use]
    pub const fn with_references(mut self) -> Self {
        self.spec.kind = Kind::Template;
        self
    }
}

impl Field<Template> {
    /// Creates a field whose text may contain references; empty when absent. A bare reference is treated as if it had
    /// braces.
    pub const fn template(name: &'static str, summary: &'static str) -> Self {
        Self { spec: spec(name, Kind::Template, summary), read: read::template }
    }

    /// Sets the value to use when it is absent or empty.
    #[must_use]
    pub const fn or(mut self, default: &'static str) -> Self {
        self.spec.default = Preset::Text(default);
        self
    }
}

impl Field<Option<Reference>> {
    /// Creates a reference field; an empty text counts as absent.
    pub const fn reference(name: &'static str, summary: &'static str) -> Self {
        Self { spec: spec(name, Kind::Reference, summary), read: read::reference }
    }

    /// Creates a field for a reference that the component requires.
    pub const fn needed_reference(name: &'static str, summary: &'static str) -> Self {
        Self { spec: spec(name, Kind::Reference, summary), read: read::needed_reference }
    }
}

impl Field<bool> {
    /// Creates a boolean field; false when absent.
    pub const fn flag(name: &'static str, summary: &'static str) -> Self {
        let spec = FieldSpec { default: Preset::Flag(false), ..spec(name, Kind::Flag, summary) };
        Self { spec, read: read::flag }
    }

    /// Makes it true when absent.
    #[must_use]
    pub const fn on_by_default(mut self) -> Self {
        self.spec.default = Preset::Flag(true);
        self
    }
}

/// Converts the bounds of a count.
const fn whole(bounds: &RangeInclusive<usize>) -> Kind {
    // Every bound in this program is far below 2⁶³.
    #[expect(clippy::cast_possible_wrap, reason = "there is no checked conversion in constants")]
    Kind::Whole { min: *bounds.start() as i64, max: *bounds.end() as i64 }
}

impl Field<usize> {
    /// Creates a field for an integer within bounds.
    pub const fn count(
        name: &'static str,
        default: usize,
        bounds: &RangeInclusive<usize>,
        summary: &'static str,
    ) -> Self {
        #[expect(clippy::cast_possible_wrap, reason = "there is no checked conversion in constants")]
        let default = Preset::Whole(default as i64);
        Self { spec: FieldSpec { default, ..spec(name, whole(bounds), summary) }, read: read::count }
    }
}

impl Field<Option<usize>> {
    /// Creates a field for an optional integer within bounds.
    pub const fn optional_count(
        name: &'static str,
        bounds: &RangeInclusive<usize>,
        summary: &'static str,
    ) -> Self {
        Self { spec: spec(name, whole(bounds), summary), read: read::optional_count }
    }
}

impl Field<Option<i64>> {
    /// Creates a field for an integer of any size; a number with a fraction counts as absent.
    pub const fn whole(name: &'static str, summary: &'static str) -> Self {
        let kind = Kind::Whole { min: i64::MIN, max: i64::MAX };
        Self { spec: spec(name, kind, summary), read: read::any_whole }
    }
}

impl Field<Option<f64>> {
    /// Creates a field for an optional number within bounds.
    pub const fn number(name: &'static str, bounds: &RangeInclusive<f64>, summary: &'static str) -> Self {
        let kind = Kind::Number { min: *bounds.start(), max: *bounds.end() };
        Self { spec: spec(name, kind, summary), read: read::number }
    }

    /// Sets the value to use when it is absent.
    #[must_use]
    pub const fn or(self, default: f64) -> Field<f64> {
        let spec = FieldSpec { default: Preset::Number(default), ..self.spec };
        Field { spec, read: read::number_or }
    }
}

impl Field<Option<u64>> {
    /// Creates a field for how long to wait for a person, in whole seconds up to ten years.
    pub const fn seconds(name: &'static str, summary: &'static str) -> Self {
        let kind = Kind::Number { min: 1.0, max: WAIT_SECONDS_MAX };
        Self { spec: FieldSpec { unit: Some("seconds"), ..spec(name, kind, summary) }, read: read::seconds }
    }
}

/// Maximum time to wait for a person: ten years, in seconds.
const WAIT_SECONDS_MAX: f64 = 315_360_000.0;

impl Field<Vec<String>> {
    /// Creates a field for a list of texts; a single text counts as a list of one.
    pub const fn texts(name: &'static str, summary: &'static str) -> Self {
        Self { spec: spec(name, Kind::Texts, summary), read: read::texts }
    }
}

impl Field<&'static str> {
    /// Creates a field for one of several values. It is read case-insensitively and returned as spelled here.
    pub const fn choice(
        name: &'static str,
        default: &'static str,
        choices: &'static [Choice],
        summary: &'static str,
    ) -> Self {
        let spec = FieldSpec { default: Preset::Text(default), ..spec(name, Kind::Choice(choices), summary) };
        Self { spec, read: read::choice }
    }
}

impl<T> Field<T> {
    /// Returns its name in the canvas.
    pub const fn name(&self) -> &'static str {
        self.spec.name
    }

    /// Sets the unit of its value.
    #[must_use]
    pub const fn unit(mut self, unit: &'static str) -> Self {
        self.spec.unit = Some(unit);
        self
    }

    /// Sets its former names.
    #[must_use]
    pub const fn older(mut self, names: &'static [&'static str]) -> Self {
        self.spec.older = names;
        self
    }

    /// Sets its names in other products.
    #[must_use]
    pub const fn elsewhere(mut self, names: &'static [&'static str]) -> Self {
        self.spec.elsewhere = names;
        self
    }

    /// Sets values that its component accepts in addition to those offered.
    #[must_use]
    pub const fn knows(mut self, words: &'static [&'static str]) -> Self {
        self.spec.knows = words;
        self
    }

    /// A model must fill it in when the component is a tool; `summary` is the instruction to the model.
    #[must_use]
    pub const fn by_model(mut self, summary: &'static str) -> Self {
        self.spec.by_model = Some(ByModel { summary, kind: None, required: true });
        self
    }

    /// A model may fill it in when the component is a tool; `summary` is the instruction to the model.
    #[must_use]
    pub const fn by_model_if_wanted(mut self, summary: &'static str) -> Self {
        self.spec.by_model = Some(ByModel { summary, kind: None, required: false });
        self
    }

    /// Restricts what a model may fill in to a narrower kind than a canvas may write.
    #[must_use]
    pub const fn as_model_kind(mut self, kind: Kind) -> Self {
        if let Some(by_model) = self.spec.by_model {
            self.spec.by_model = Some(ByModel { kind: Some(kind), ..by_model });
        }
        self
    }

    /// Marks its value as one that must not be revealed.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.spec.secret = true;
        self
    }

    /// Accepts the parameter without showing it anywhere.
    #[must_use]
    pub const fn not_offered(mut self) -> Self {
        self.spec.offered = false;
        self
    }

    /// Sets the form widget.
    #[must_use]
    pub const fn widget(mut self, widget: Widget) -> Self {
        self.spec.widget = Some(widget);
        self
    }

    /// Limits its meaning to the case that another field has one of these values.
    #[must_use]
    pub const fn shown_when(mut self, field: &'static str, is: &'static [&'static str]) -> Self {
        self.spec.shown_when = Some((field, is));
        self
    }
}

/// Returns the descriptions of all fields of these groups.
pub fn specs(
    groups: impl IntoIterator<Item = &'static FieldGroup>,
) -> impl Iterator<Item = &'static FieldSpec> {
    groups.into_iter().flat_map(|group| group.fields).map(|field| field.spec())
}

/// Returns whether a parameter is one of these fields, under its current name or a former one.
pub fn is_declared(groups: &'static [FieldGroup], name: &str) -> bool {
    specs(groups).any(|spec| spec.name == name || spec.older.contains(&name))
}
