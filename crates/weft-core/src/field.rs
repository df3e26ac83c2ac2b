//! What can be asked of a component, as plain data: each parameter is described once.
//!
//! From the description come how the parameter is read ([`Params::take`]), its JSON Schema ([`schema`]), its line in the
//! reference, its place in a form, what a model may fill in when the component is a tool, and the names that a misspelled
//! one is compared with.

pub mod common;
pub mod schema;
mod widget;

use std::fmt;
use std::ops::RangeInclusive;

pub use widget::Widget;

use crate::params::{Params, read};
use crate::reference::{Reference, Template};
use crate::value::Json;

/// One parameter and how its value is read: as a `T`.
pub struct Field<T = Raw> {
    spec: FieldSpec,
    pub(crate) read: fn(&mut Params<'_>, &FieldSpec) -> T,
}

/// The type of fields that a component reads by itself, with [`Params::get`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw;

/// All that is known of a parameter.
#[derive(Clone, Copy, Debug)]
pub struct FieldSpec {
    /// Its name in the canvas.
    pub name: &'static str,
    /// What it is, as a sentence fragment for people.
    pub summary: &'static str,
    /// What its value may be.
    pub kind: Kind,
    /// What its amount is counted in, such as `seconds`.
    pub unit: Option<&'static str>,
    /// What it is when it is absent.
    pub default: Preset,
    /// Names it had: one of them is read when the value under its own name says nothing.
    pub older: &'static [&'static str],
    /// What others call it: never read, and told to whoever writes it.
    pub elsewhere: &'static [&'static str],
    /// Words that its component knows besides those that are offered.
    pub knows: &'static [&'static str],
    /// Whether a model fills it in when the component is a tool.
    pub by_model: Option<ByModel>,
    /// Whether its value is nobody's business.
    pub secret: bool,
    /// Whether forms and the reference show it. What is read only to say that it has no effect is not shown.
    pub offered: bool,
    /// How a form asks for it, where that does not follow from its kind.
    pub widget: Option<Widget>,
    /// The field and its values with which this one means something; always when absent.
    pub shown_when: Option<(&'static str, &'static [&'static str])>,
}

/// What a value may be. Canvases are written by hand and by many editors, so that reading is lenient: a number may be a
/// text that holds one, and a single text a list of one.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Anything.
    Any,
    /// A text.
    Text,
    /// A text with references in it, such as `{Agent:A@content}`.
    Template,
    /// A reference and nothing else.
    Reference,
    /// True or false.
    Flag,
    /// A whole number from `min` to `max`.
    Whole {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// A number from `min` to `max`.
    Number {
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
    },
    /// One of these, whatever its case.
    Choice(&'static [Choice]),
    /// A list of texts.
    Texts,
    /// A list of anything.
    List,
    /// The ids of components that the run goes on with.
    Targets,
    /// A list of objects with these members.
    Objects(&'static [Field]),
    /// An object with these members; with none for any object.
    Object(&'static [Field]),
    /// An object of names, each with an object of these members; with none for any value.
    Named(&'static [Field]),
    /// An object of names and simple values: texts, numbers, true and false.
    Values,
}

/// One of several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The value.
    pub value: &'static str,
    /// What it means, as a sentence fragment for people; may be empty.
    pub summary: &'static str,
}

/// Shorthand for a [`Choice`].
pub const fn choice(value: &'static str, summary: &'static str) -> Choice {
    Choice { value, summary }
}

/// What a parameter is when it is absent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Preset {
    /// Nothing, or what the component makes of it.
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
    /// The value in a canvas; `None` for nothing.
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

/// What a model is told of a parameter that it fills in.
#[derive(Clone, Copy, Debug)]
pub struct ByModel {
    /// What to write, for the model.
    pub summary: &'static str,
    /// What it may be, where that is narrower than what a canvas may write.
    pub kind: Option<Kind>,
    /// Whether it must be filled in.
    pub required: bool,
}

/// Fields that stand together in a form, under a heading if there is one.
#[derive(Clone, Copy, Debug)]
pub struct FieldGroup {
    /// The heading; empty for the fields that come first.
    pub title: &'static str,
    /// The fields, in the order of the form.
    pub fields: &'static [&'static dyn AnyField],
}

/// The fields of a component that need no heading.
pub const fn fields(fields: &'static [&'static dyn AnyField]) -> FieldGroup {
    FieldGroup { title: "", fields }
}

/// A field, whatever it is read as.
pub trait AnyField: fmt::Debug + Sync {
    /// What is known of it.
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
    /// A field that its component reads by itself; also a member of the objects of another field.
    pub const fn raw(name: &'static str, kind: Kind, summary: &'static str) -> Self {
        Self { spec: spec(name, kind, summary), read: |_, _| Raw }
    }
}

impl Field<String> {
    /// A text; empty when it is absent. Numbers and truth values become their text form.
    pub const fn text(name: &'static str, summary: &'static str) -> Self {
        Self { spec: spec(name, Kind::Text, summary), read: read::text }
    }

    /// What it is when it is absent.
    #[must_use]
    pub const fn or(mut self, default: &'static str) -> Self {
        self.spec.default = Preset::Text(default);
        self
    }

    /// What is worth offering; another text is read all the same.
    #[must_use]
    pub const fn one_of(mut self, choices: &'static [Choice]) -> Self {
        self.spec.kind = Kind::Choice(choices);
        self
    }

    /// The same as a text that may hold references.
    #[must_use]
    pub const fn with_references(mut self) -> Self {
        self.spec.kind = Kind::Template;
        self
    }
}

impl Field<Template> {
    /// A text with references in it; empty when it is absent. A bare reference counts as one in braces.
    pub const fn template(name: &'static str, summary: &'static str) -> Self {
        Self { spec: spec(name, Kind::Template, summary), read: read::template }
    }

    /// What it is when it is absent or empty.
    #[must_use]
    pub const fn or(mut self, default: &'static str) -> Self {
        self.spec.default = Preset::Text(default);
        self
    }
}

impl Field<Option<Reference>> {
    /// A reference; an empty text counts as absent.
    pub const fn reference(name: &'static str, summary: &'static str) -> Self {
        Self { spec: spec(name, Kind::Reference, summary), read: read::reference }
    }

    /// A reference without which the component cannot work.
    pub const fn needed_reference(name: &'static str, summary: &'static str) -> Self {
        Self { spec: spec(name, Kind::Reference, summary), read: read::needed_reference }
    }
}

impl Field<bool> {
    /// Whether something is on; off when it is absent.
    pub const fn flag(name: &'static str, summary: &'static str) -> Self {
        let spec = FieldSpec { default: Preset::Flag(false), ..spec(name, Kind::Flag, summary) };
        Self { spec, read: read::flag }
    }

    /// On when it is absent.
    #[must_use]
    pub const fn on_by_default(mut self) -> Self {
        self.spec.default = Preset::Flag(true);
        self
    }
}

/// The bounds of a count. What is wider than a file format can hold is no bound.
const fn whole(bounds: &RangeInclusive<usize>) -> Kind {
    // Every bound in this program is far below 2⁶³.
    #[expect(clippy::cast_possible_wrap, reason = "there is no checked conversion in constants")]
    Kind::Whole { min: *bounds.start() as i64, max: *bounds.end() as i64 }
}

impl Field<usize> {
    /// A whole number within bounds.
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
    /// A whole number within bounds, or none.
    pub const fn optional_count(
        name: &'static str,
        bounds: &RangeInclusive<usize>,
        summary: &'static str,
    ) -> Self {
        Self { spec: spec(name, whole(bounds), summary), read: read::optional_count }
    }
}

impl Field<Option<i64>> {
    /// A whole number of any size; one with a fraction counts as absent.
    pub const fn whole(name: &'static str, summary: &'static str) -> Self {
        let kind = Kind::Whole { min: i64::MIN, max: i64::MAX };
        Self { spec: spec(name, kind, summary), read: read::any_whole }
    }
}

impl Field<Option<f64>> {
    /// A number within bounds, or none.
    pub const fn number(name: &'static str, bounds: &RangeInclusive<f64>, summary: &'static str) -> Self {
        let kind = Kind::Number { min: *bounds.start(), max: *bounds.end() };
        Self { spec: spec(name, kind, summary), read: read::number }
    }

    /// What it is when it is absent.
    #[must_use]
    pub const fn or(self, default: f64) -> Field<f64> {
        let spec = FieldSpec { default: Preset::Number(default), ..self.spec };
        Field { spec, read: read::number_or }
    }
}

impl Field<Option<u64>> {
    /// How long to wait for a person, in whole seconds up to ten years.
    pub const fn seconds(name: &'static str, summary: &'static str) -> Self {
        let kind = Kind::Number { min: 1.0, max: WAIT_SECONDS_MAX };
        Self { spec: FieldSpec { unit: Some("seconds"), ..spec(name, kind, summary) }, read: read::seconds }
    }
}

/// How long a wait for a person may be: ten years, in seconds.
const WAIT_SECONDS_MAX: f64 = 315_360_000.0;

impl Field<Vec<String>> {
    /// A list of texts; a single text is a list of one.
    pub const fn texts(name: &'static str, summary: &'static str) -> Self {
        Self { spec: spec(name, Kind::Texts, summary), read: read::texts }
    }
}

impl Field<&'static str> {
    /// One of several values, as it is spelled here whatever its case in the canvas.
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
    /// Its name in the canvas.
    pub const fn name(&self) -> &'static str {
        self.spec.name
    }

    /// What its amount is counted in.
    #[must_use]
    pub const fn unit(mut self, unit: &'static str) -> Self {
        self.spec.unit = Some(unit);
        self
    }

    /// Names it had.
    #[must_use]
    pub const fn older(mut self, names: &'static [&'static str]) -> Self {
        self.spec.older = names;
        self
    }

    /// What others call it.
    #[must_use]
    pub const fn elsewhere(mut self, names: &'static [&'static str]) -> Self {
        self.spec.elsewhere = names;
        self
    }

    /// Words that its component knows besides those that are offered.
    #[must_use]
    pub const fn knows(mut self, words: &'static [&'static str]) -> Self {
        self.spec.knows = words;
        self
    }

    /// A model must fill it in when the component is a tool; `summary` tells the model what to write.
    #[must_use]
    pub const fn by_model(mut self, summary: &'static str) -> Self {
        self.spec.by_model = Some(ByModel { summary, kind: None, required: true });
        self
    }

    /// A model may fill it in when the component is a tool.
    #[must_use]
    pub const fn by_model_if_wanted(mut self, summary: &'static str) -> Self {
        self.spec.by_model = Some(ByModel { summary, kind: None, required: false });
        self
    }

    /// A model fills in something narrower than a canvas may write.
    #[must_use]
    pub const fn as_model_kind(mut self, kind: Kind) -> Self {
        if let Some(by_model) = self.spec.by_model {
            self.spec.by_model = Some(ByModel { kind: Some(kind), ..by_model });
        }
        self
    }

    /// Its value is nobody's business.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.spec.secret = true;
        self
    }

    /// Known, and shown nowhere.
    #[must_use]
    pub const fn not_offered(mut self) -> Self {
        self.spec.offered = false;
        self
    }

    /// How a form asks for it.
    #[must_use]
    pub const fn widget(mut self, widget: Widget) -> Self {
        self.spec.widget = Some(widget);
        self
    }

    /// It means something only when another field has one of these values.
    #[must_use]
    pub const fn shown_when(mut self, field: &'static str, is: &'static [&'static str]) -> Self {
        self.spec.shown_when = Some((field, is));
        self
    }
}

/// The specs of all fields of these groups.
pub fn specs(
    groups: impl IntoIterator<Item = &'static FieldGroup>,
) -> impl Iterator<Item = &'static FieldSpec> {
    groups.into_iter().flat_map(|group| group.fields).map(|field| field.spec())
}

/// Whether a parameter is one of these, also by a name that it had.
pub fn is_declared(groups: &'static [FieldGroup], name: &str) -> bool {
    specs(groups).any(|spec| spec.name == name || spec.older.contains(&name))
}
