//! Parameters that are lists of texts; they may also be a reference to a list, or one text with commas.

use weft_core::reference::Inputs;
use weft_core::value::to_text;
use weft_core::{Error, Json, ParamProblem, Result, Template};

use crate::params::{Field, Params};

/// Maximum number of texts in a parameter.
// All of them go into one request, whose size services limit without documenting it.
const TEXTS_MAX: usize = 100;

/// A list of texts that may hold references.
#[derive(Clone, Debug, Default)]
pub(crate) struct Several {
    name: &'static str,
    texts: Vec<Template>,
    /// Whether it is written as one text, to be split at commas and white space.
    one: bool,
}

impl Several {
    /// Reads a parameter that is a list of texts or a single text.
    pub(crate) fn of(params: &mut Params<'_>, field: &Field) -> Self {
        let (name, names) = (field.name(), params.source);
        let template = |value: &Json| Template::parse_value(&to_text(value), names.names());
        match params.get(field) {
            None => Self { name, ..Self::default() },
            Some(Json::Array(items)) => {
                Self { name, texts: items.iter().map(template).collect(), one: false }
            }
            Some(Json::Object(_)) => {
                let place = params.pointer(field);
                params.problem(ParamProblem::new(place, "must be a list of texts"));
                Self::default()
            }
            Some(value) => Self { name, texts: vec![template(value)], one: true },
        }
    }

    /// Returns the texts as written.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &Template> {
        self.texts.iter()
    }

    /// Returns the non-empty texts with their references filled in.
    ///
    /// # Errors
    /// `Invalid` when there are too many, or they grow too large.
    pub(crate) fn rendered(&self, inputs: &Inputs) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for text in &self.texts {
            // A reference to a list stays a list: its texts may contain commas.
            match text.alone().map(|reference| inputs.json(reference)).as_deref() {
                Some(Json::Array(items)) => found.extend(items.iter().map(to_text)),
                _ => found.push(text.render(inputs)?),
            }
        }
        let parting = |c: char| self.one && (c.is_whitespace() || matches!(c, ',' | ';' | '，'));
        let parts = found.iter().flat_map(|text| text.split(parting)).map(str::trim);
        let parts: Vec<String> = parts.filter(|text| !text.is_empty()).map(str::to_owned).collect();
        if parts.len() > TEXTS_MAX {
            let message = format!("`{}` has more than {TEXTS_MAX} texts", self.name);
            return Err(Error::invalid(message).help("use several steps"));
        }
        Ok(parts)
    }

    /// Returns the texts as addresses of pages, of which a service accepts up to `pages_max` per request.
    ///
    /// # Errors
    /// Those of [`Several::rendered`]; `Invalid` also when there are more.
    pub(crate) fn pages(&self, inputs: &Inputs, pages_max: usize) -> Result<Vec<String>> {
        let pages = self.rendered(inputs)?;
        if pages.len() > pages_max {
            let message = format!("{} pages are requested; at most {pages_max} are allowed", pages.len());
            return Err(Error::invalid(message).help("request fewer at a time"));
        }
        Ok(pages)
    }
}
