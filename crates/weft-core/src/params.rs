//! Reads the parameters of one node by their fields, collecting every problem instead of stopping at the first.

pub(crate) mod read;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Map;

use crate::component::{Component, NodeSource, ParamProblem};
use crate::exception::Handling;
use crate::field::{AnyField, Field, FieldSpec, common};
use crate::id::ComponentId;
use crate::reference::Reference;
use crate::retry::RetryIf;
use crate::value::{Json, described};

/// The parameters of one node, and the problems found in them so far.
#[derive(Debug)]
pub struct Params<'a> {
    /// The node.
    pub source: NodeSource<'a>,
    problems: Vec<ParamProblem>,
    warnings: Vec<ParamProblem>,
}

impl<'a> Params<'a> {
    /// Starts reading the parameters of a node.
    pub fn of(source: &NodeSource<'a>) -> Self {
        Self { source: *source, problems: Vec::new(), warnings: Vec::new() }
    }

    /// Returns what was read, or every problem.
    ///
    /// # Errors
    /// The problems noted so far, if there are any.
    pub fn done<T>(self, read: T) -> Result<T, Vec<ParamProblem>> {
        if self.problems.is_empty() { Ok(read) } else { Err(self.problems) }
    }

    /// Returns the component, or every problem.
    ///
    /// # Errors
    /// The problems noted so far, if there are any.
    pub fn finish(
        mut self,
        component: impl Component + 'static,
    ) -> Result<Arc<dyn Component>, Vec<ParamProblem>> {
        let mut component: Arc<dyn Component> = Arc::new(component);
        // Read here so that no component can forget a parameter that all of them share.
        let retries = self.take(&common::RETRY_MAX);
        let retry = RetryIf::read(self.get(&common::RETRY_IF).unwrap_or(&Json::Null), retries);
        match retry.and_then(|retry| {
            retry.map(|retry| retry.around(Arc::clone(&component), &self.source)).transpose()
        }) {
            Ok(Some(retrying)) => component = retrying,
            Ok(None) => {}
            Err(problem) => self.problem(problem),
        }
        self.done(component)
    }

    /// Records a problem.
    pub fn problem(&mut self, problem: ParamProblem) {
        self.problems.push(problem);
    }

    /// Returns the problems recorded so far.
    pub fn problems(&self) -> &[ParamProblem] {
        &self.problems
    }

    /// Records something that is probably not intended but does no harm.
    pub fn warn(&mut self, problem: ParamProblem) {
        self.warnings.push(problem);
    }

    /// Takes the warnings recorded so far.
    pub fn warnings(&mut self) -> Vec<ParamProblem> {
        std::mem::take(&mut self.warnings)
    }

    /// Warns when a parameter requests something that this build does not support.
    pub fn without_effect(&mut self, field: &dyn AnyField, what: &str) {
        self.warn_if_set(field, |set| {
            set.message = format!("has no effect: {what} isn't part of this build");
        });
    }

    /// Warns when a parameter is set that has no effect here, and says why.
    pub fn ignored(&mut self, field: &dyn AnyField, why: &str) {
        self.warn_if_set(field, |set| {
            set.message = format!("has no effect: {why}");
            set.help = Some("remove it".to_owned());
        });
    }

    fn warn_if_set(&mut self, field: &dyn AnyField, say: impl FnOnce(&mut ParamProblem)) {
        let set = self.found(field.spec()).filter(|(_, value)| asks_for_something(value));
        if let Some((pointer, _)) = set {
            let mut warning = ParamProblem::new(pointer, "");
            say(&mut warning);
            self.warnings.push(warning);
        }
    }

    /// Reads the value of a field as its type; problems with it are recorded.
    pub fn take<T>(&mut self, field: &Field<T>) -> T {
        (field.read)(self, field.spec())
    }

    /// Returns a parameter as written; null counts as absent.
    pub fn get(&self, field: &dyn AnyField) -> Option<&'a Json> {
        self.found(field.spec()).map(|(_, value)| value)
    }

    /// Returns the pointer to a field, by the name that the canvas uses for it.
    pub fn pointer(&self, field: &dyn AnyField) -> String {
        let spec = field.spec();
        self.found(spec).map_or_else(|| Self::pointer_of(spec), |(pointer, _)| pointer)
    }

    /// Returns the pointer to a field under its current name.
    pub(crate) fn pointer_of(spec: &FieldSpec) -> String {
        pointer(&[spec.name])
    }

    /// Returns the pointer and the value of a field; null counts as absent. If several of its names are used, the
    /// first with a non-empty value counts.
    pub(crate) fn found(&self, spec: &FieldSpec) -> Option<(String, &'a Json)> {
        let names = || std::iter::once(spec.name).chain(spec.older.iter().copied());
        #[cfg(debug_assertions)]
        names().for_each(asked_for::note);
        let given = |name: &&str| self.source.params.get(*name).is_some_and(|value| !value.is_null());
        let mut told = names().filter(given);
        let name = told.clone().find(|name| !self.source.params.get(*name).is_some_and(is_empty));
        // All of them are empty: the first still tells the user where to write.
        let name = name.or_else(|| told.next())?;
        Some((pointer(&[name]), self.source.params.get(name)?))
    }

    /// Returns a list of objects, each with its index in the list.
    pub fn objects(&mut self, field: &dyn AnyField) -> Vec<(usize, &'a Map<String, Json>)> {
        let Some((place, value)) = self.found(field.spec()) else { return Vec::new() };
        let Some(items) = value.as_array() else {
            self.problem(ParamProblem::new(place, "must be a list"));
            return Vec::new();
        };
        let mut objects = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match item.as_object() {
                Some(object) => objects.push((index, object)),
                None => self.problem(ParamProblem::new(
                    format!("{place}/{index}"),
                    format!("must be an object, and is {}", described(item)),
                )),
            }
        }
        objects
    }

    /// Like [`Params::objects`], without rows in which all of `members` are empty: editors leave such rows behind.
    pub fn rows(&mut self, field: &dyn AnyField, members: &[&str]) -> Vec<(usize, &'a Map<String, Json>)> {
        let place = self.pointer(field);
        let blank = |row: &Map<String, Json>| members.iter().all(|key| row.get(*key).is_none_or(is_empty));
        let (empty, rows): (Vec<_>, Vec<_>) =
            self.objects(field).into_iter().partition(|(_, row)| blank(row));
        for (index, _) in empty {
            self.passed_over(format!("{place}/{index}"));
        }
        rows
    }

    /// Warns about an empty row.
    pub fn passed_over(&mut self, pointer: String) {
        self.warn(ParamProblem::new(pointer, "nothing is filled in here: it is skipped").help("remove it"));
    }

    /// Returns an object; absent if the value is null or an empty text.
    pub fn object(&mut self, field: &dyn AnyField) -> Option<&'a Map<String, Json>> {
        let (place, value) = self.found(field.spec())?;
        match value {
            Json::Object(members) => Some(members),
            Json::String(text) if text.trim().is_empty() => None,
            other => {
                self.problem(ParamProblem::new(
                    place,
                    format!("must be an object, and is {}", described(other)),
                ));
                None
            }
        }
    }

    /// Parses a reference located deeper inside the parameters.
    pub fn reference_at(&mut self, pointer: String, text: &str) -> Option<Reference> {
        let reference = Reference::whole(text, self.source.names());
        if reference.is_none() {
            let message = match text.trim() {
                "" => "is empty".to_owned(),
                text => format!("`{text}` is not a reference to anything in this canvas"),
            };
            let problem = ParamProblem::new(pointer, message)
                .help("write the id of a component and the name of an output, such as `Agent:Writer@content`, or a global, such as `sys.query`");
            self.problem(problem);
        }
        reference
    }

    /// Parses component ids: a list, or a single text.
    pub fn targets(&mut self, pointer: &str, value: Option<&Json>) -> Vec<ComponentId> {
        // An editor in which two lines lead to the same component names it twice.
        let mut seen = HashSet::new();
        let ids: Vec<ComponentId> = match value {
            Some(Json::String(id)) if !id.is_empty() => vec![id.as_str().into()],
            Some(Json::Array(ids)) => {
                let named = ids.iter().filter_map(Json::as_str).filter(|id| !id.is_empty());
                named.filter(|id| seen.insert(*id)).map(Into::into).collect()
            }
            _ => Vec::new(),
        };
        if ids.is_empty() {
            let problem = ParamProblem::new(pointer, "names no component to continue with")
                .help("connect this branch to a component");
            self.problem(problem);
        }
        ids
    }

    /// Returns how failures of the node are handled.
    pub fn exception(&self) -> Handling {
        Handling::of(self.source.params)
    }
}

/// The parameters that have been read, for a test that compares them with the declared ones. In programs with debug
/// assertions, not behind a feature: a feature that only tests ask for has every crate above this one built twice.
#[cfg(debug_assertions)]
pub mod asked_for {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    thread_local! {
        static KEYS: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
    }

    pub(super) fn note(key: &'static str) {
        KEYS.with_borrow_mut(|keys| keys.insert(key));
    }

    /// Returns those that this thread has read since the last call.
    pub fn take() -> BTreeSet<&'static str> {
        KEYS.take()
    }
}

/// Returns whether a value is empty: null, or an empty text, list or object, as editors write for an empty field.
pub fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Bool(_) | Json::Number(_) => false,
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(members) => members.is_empty(),
    }
}

/// Returns whether a value is neither null, false, zero nor empty.
pub fn asks_for_something(value: &Json) -> bool {
    match value {
        Json::Bool(flag) => *flag,
        Json::Number(number) => number.as_f64() != Some(0.0),
        value => !is_empty(value),
    }
}

/// Builds a JSON pointer from its unescaped parts (RFC 6901).
pub fn pointer(parts: &[&str]) -> String {
    parts.iter().flat_map(|part| ["/".to_owned(), part.replace('~', "~0").replace('/', "~1")]).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::component::NoOthers;
    use crate::field::{choice, fields};

    /// The value a field reads from these parameters, and the places of errors.
    fn read<T>(field: &Field<T>, params: &Json) -> (T, Vec<(String, String)>) {
        let (value, problems) = taken(field, params);
        (value, problems.into_iter().map(|problem| (problem.pointer, problem.message)).collect())
    }

    fn taken<T>(field: &Field<T>, params: &Json) -> (T, Vec<ParamProblem>) {
        let (id, components) = ("X".into(), HashSet::new());
        let source = NodeSource {
            id: &id,
            kind: "X",
            params: params.as_object().unwrap(),
            parent: None,
            components: &components,
            item: None,
            downstream: &[],
            upstream: &[],
            others: &NoOthers,
            measuring: false,
        };
        let mut params = Params::of(&source);
        let value = params.take(field);
        (value, params.problems)
    }

    /// A value that is no text gets a remedy.
    #[test]
    fn a_list_in_place_of_a_text_has_help_that_fits() {
        static TEXT: Field<String> = Field::text("a", "");
        for (value, help) in [
            (json!(["text"]), "write the text alone, without the brackets of a list"),
            (json!(["one", "two"]), "write one text in place of the list"),
            (json!({"b": 1}), "`{begin@name}`"),
        ] {
            let (_, problems) = taken(&TEXT, &json!({"a": value}));
            assert!(problems[0].help.as_ref().unwrap().contains(help), "{problems:?}");
        }
    }

    #[test]
    fn values_are_coerced_and_problems_carry_their_place() {
        static COUNT: Field<usize> = Field::count("a", 7, &(1..=20), "");
        let check = |value: Json, expected: usize, wrong: &str| {
            let (count, problems) = read(&COUNT, &json!({"a": value}));
            assert_eq!(count, expected, "{value}");
            match problems.as_slice() {
                [] => assert_eq!(wrong, "", "{value}"),
                [(pointer, message)] => {
                    assert_eq!((pointer.as_str(), message.as_str()), ("/a", wrong), "{value}");
                }
                more => panic!("{value}: {more:?}"),
            }
        };
        check(json!("10"), 10, "");
        check(json!(null), 7, "");
        check(json!(" "), 7, "");
        check(json!(1.5), 7, "must be a whole number from 1 to 20, and is 1.5");
        check(json!(21), 7, "must be a whole number from 1 to 20, and is 21");
        check(json!(-1), 7, "must be a whole number from 1 to 20, and is -1");
        check(json!(1e300), 7, &format!("must be a whole number from 1 to 20, and is {}", 1e300));
        assert!(read(&COUNT, &json!({"a": "x"})).1[0].1.starts_with("must be a number"));
        assert!(read(&COUNT, &json!({"a": [1]})).1[0].1.starts_with("must be a number"));
    }

    #[test]
    fn fields_are_read_by_their_type() {
        static FLAG: Field<bool> = Field::flag("f", "").on_by_default();
        static TEXTS: Field<Vec<String>> = Field::texts("t", "");
        static NUMBER: Field<f64> = Field::number("n", &(0.0..=1.0), "").or(0.5);
        static SECONDS: Field<Option<u64>> = Field::seconds("s", "");
        static TEXT: Field<String> = Field::text("x", "").or("as it was");
        assert!(read(&FLAG, &json!({})).0 && !read(&FLAG, &json!({"f": "false"})).0);
        assert_eq!(read(&FLAG, &json!({"f": ""})), (true, Vec::new()));
        assert_eq!(
            read(&FLAG, &json!({"f": "so"})),
            (true, vec![("/f".into(), "must be true or false, and is the text `so`".into())])
        );
        assert_eq!(read(&TEXTS, &json!({"t": [1, "b"]})).0, ["1", "b"]);
        assert_eq!(read(&TEXTS, &json!({"t": "b"})).0, ["b"]);
        assert_eq!(read(&TEXTS, &json!({"t": {}})).1.len(), 1);
        assert_eq!(read(&NUMBER, &json!({"n": "0.25"})).0, 0.25);
        assert_eq!(
            read(&NUMBER, &json!({"n": 2})),
            (0.5, vec![("/n".into(), "must be from 0 to 1, and is 2".into())])
        );
        assert_eq!(read(&SECONDS, &json!({"s": 1.2})).0, Some(2));
        assert_eq!(read(&SECONDS, &json!({"s": 1e12})).0, None);
        assert_eq!(read(&TEXT, &json!({})).0, "as it was");
        assert_eq!(read(&TEXT, &json!({"x": ""})).0, "");
        assert_eq!(
            read(&TEXT, &json!({"x": []})),
            ("as it was".to_owned(), Vec::new()),
            "an empty editor field"
        );
        assert_eq!(read(&TEXT, &json!({"x": ["a"]})).1.len(), 1);
    }

    #[test]
    fn a_choice_is_matched_to_its_declared_spelling() {
        static FIELD: Field<&str> = Field::choice("c", "one", &[choice("one", ""), choice("topN", "")], "");
        assert_eq!(read(&FIELD, &json!({"c": " TOPN "})), ("topN", Vec::new()));
        assert_eq!(read(&FIELD, &json!({"c": ""})), ("one", Vec::new()));
        assert_eq!(
            read(&FIELD, &json!({"c": "two"})),
            ("one", vec![("/c".into(), "`two` is not a valid value".into())])
        );
    }

    #[test]
    fn an_old_name_is_used_if_the_new_one_is_absent() {
        static FIELD: Field<Vec<String>> = Field::texts("new", "").older(&["old", "oldest"]);
        let check =
            |params: Json, expected: &[&str]| assert_eq!(read(&FIELD, &params).0, expected, "{params}");
        check(json!({"new": ["a"], "old": ["b"]}), &["a"]);
        check(json!({"new": [], "old": ["b"]}), &["b"]);
        check(json!({"new": null, "old": "", "oldest": "c"}), &["c"]);
        check(json!({"new": []}), &[]);
        assert_eq!(read(&FIELD, &json!({"old": {"a": 1}})).1[0].0, "/old");
        static GROUPS: [crate::field::FieldGroup; 1] = [fields(&[&FIELD])];
        assert!(crate::field::is_declared(&GROUPS, "oldest"));
    }

    #[test]
    fn pointers_are_escaped() {
        assert_eq!(pointer(&["a/b", "~c", "0"]), "/a~1b/~0c/0");
    }
}
