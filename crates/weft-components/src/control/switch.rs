//! The Switch component: continues with the first case whose conditions hold.

use serde_json::Map;
use weft_core::value::listed;
use weft_core::{
    Component, ComponentId, ComponentSpec, Finished, Json, NodeContext, Outputs, ParamProblem, Reads,
    Reference, Result, Role, Route, Shape, Template, async_trait,
};

use crate::params::{Field, Kind, Params, choice, fields, is_empty, pointer};
use weft_core::operators::{Operator, holds};

static CONDITIONS: Field = Field::raw(
    "conditions",
    Kind::Objects(&[
        Field::raw(
            "logical_operator",
            Kind::Choice(&[choice("and", ""), choice("or", "")]),
            "how its items are combined",
        ),
        Field::raw(
            "items",
            Kind::Objects(&[
                Field::raw("cpn_id", Kind::Reference, "what to check"),
                Field::raw("operator", Kind::Text, "the operator, such as `contains` or `=`"),
                Field::raw("value", Kind::Template, "the value to compare with"),
            ]),
            "what has to hold",
        )
        .elsewhere(&["cpn_id", "clauses", "expression"]),
        Field::raw("to", Kind::Targets, "what runs next").elsewhere(&["goto"]),
    ]),
    "the cases, of which the first match applies",
)
.elsewhere(&["cases", "condition"]);
static END_CPN_IDS: Field = Field::raw("end_cpn_ids", Kind::Targets, "what runs next when no case matches")
    .elsewhere(&["default", "default_goto", "else"]);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Switch",
    role: Role::Step,
    summary: "Compares values and continues with the first case that matches.",
    fields: &[fields(&[&CONDITIONS, &END_CPN_IDS])],
    outputs: &[
        weft_core::OutputSpec::new("_next", "array", "the ids of the components that run next"),
        weft_core::OutputSpec::new("next", "array", "the same as `_next`"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let cases = params.objects(&CONDITIONS);
        // If there is another problem, it has been reported already.
        if cases.is_empty() && params.problems().is_empty() {
            params.problem(ParamProblem::new("/conditions", "there is no case").help("add a case"));
        }
        let cases = cases.into_iter().map(|(place, object)| case(&mut params, place, object)).collect();
        let end = params.get(&END_CPN_IDS);
        let otherwise = params.targets("/end_cpn_ids", end);
        let warnings = params.warnings();
        params.finish(Switch { cases, otherwise, warnings })
    },
};

struct Switch {
    cases: Vec<SwitchCase>,
    otherwise: Vec<ComponentId>,
    warnings: Vec<ParamProblem>,
}

struct SwitchCase {
    any: bool,
    items: Vec<Item>,
    to: Vec<ComponentId>,
}

struct Item {
    left: Reference,
    operator: Operator,
    right: CaseOperand,
}

enum CaseOperand {
    Constant(Json),
    Template(Template),
}

fn case(params: &mut Params<'_>, place: usize, object: &Map<String, Json>) -> SwitchCase {
    let place = place.to_string();
    let any = match object.get("logical_operator").and_then(Json::as_str).map(str::trim) {
        None => false,
        Some(word) if word.eq_ignore_ascii_case("and") => false,
        // The editor's other choice; an empty value has always meant it, too.
        Some(word) if word.is_empty() || word.eq_ignore_ascii_case("or") => true,
        Some(other) => {
            let at = pointer(&["conditions", &place, "logical_operator"]);
            let problem = ParamProblem::new(at, format!("conditions cannot be joined by `{other}`"));
            params.problem(problem.help("use `and` or `or`"));
            true
        }
    };
    let items = object.get("items").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let items: Vec<Item> = items
        .iter()
        .enumerate()
        .filter_map(|(number, value)| {
            item(params, &["conditions", &place, "items", &number.to_string()], value)
        })
        .collect();
    let written = object.get("items").filter(|items| !items.is_null());
    if items.is_empty() && written.is_none_or(Json::is_array) {
        let at = pointer(&["conditions", &place, "items"]);
        let problem = ParamProblem::new(at, "the case has no condition, so it never holds");
        params.warn(problem.help("add a condition, or remove the case"));
    }
    let to = params.targets(&pointer(&["conditions", &place, "to"]), object.get("to"));
    SwitchCase { any, items, to }
}

fn item(params: &mut Params<'_>, place: &[&str; 4], value: &Json) -> Option<Item> {
    let at = |key: &str| pointer(&[place[0], place[1], place[2], place[3], key]);
    let text = |key: &str| value.get(key).and_then(Json::as_str).unwrap_or_default();
    // A condition without a left side is an empty row of the form, unless there is something to compare with.
    if text("cpn_id").trim().is_empty() {
        if value.get("value").is_some_and(|value| !is_empty(value)) {
            let problem = ParamProblem::new(at("cpn_id"), "is empty, so this condition is left out");
            params.warn(problem.help("name what is compared, such as `begin@city`, or remove the condition"));
        }
        return None;
    }
    let left = params.reference_at(at("cpn_id"), text("cpn_id"));
    let operator = Operator::parse(text("operator"));
    if operator.is_none() {
        let problem = ParamProblem::new(at("operator"), format!("`{}` is not an operator", text("operator")))
            .help(format!("use one of {}", Operator::listed()));
        params.problem(problem);
    }
    let right = match value.get("value") {
        Some(Json::String(text)) => CaseOperand::Template(Template::parse(text, params.source.names())),
        other => CaseOperand::Constant(other.cloned().unwrap_or_default()),
    };
    let item = Item { left: left?, operator: operator?, right };
    if let Some(problem) = no_option(params, at("value"), &item) {
        params.warn(problem);
    }
    Some(item)
}

/// Maximum number of options that are compared and listed.
// A form may have thousands of options, and a Switch as many conditions.
const OPTIONS_MAX: usize = 64;

/// Returns a warning about a comparison with a value that is not among the options of the form field it refers to.
fn no_option(params: &Params<'_>, at: String, item: &Item) -> Option<ParamProblem> {
    let so = match item.operator {
        Operator::Equal => "never",
        Operator::NotEqual => "always",
        _ => return None,
    };
    let (Reference::Output { component, path }, CaseOperand::Template(text)) = (&item.left, &item.right)
    else {
        return None;
    };
    let (kind, form) = params.source.others.get(component)?;
    let field = form.get("inputs")?.get(&**path)?;
    let options =
        field.get("options")?.as_array().filter(|options| (1..=OPTIONS_MAX).contains(&options.len()))?;
    let value = text.source();
    let is_form = ["Begin", "UserFillUp"].iter().any(|name| kind.eq_ignore_ascii_case(name));
    let chosen =
        field.get("type").and_then(Json::as_str).is_some_and(|kind| kind.eq_ignore_ascii_case("options"));
    // Braces are a reference, possibly a mistyped one; and an empty field may be compared with the empty text.
    if !is_form || !chosen || value.trim().is_empty() || value.contains(['{', '}']) {
        return None;
    }
    let texts: Vec<&str> = options.iter().map(Json::as_str).collect::<Option<_>>()?;
    let is_there = |option: &&str| holds(&Json::from(*option), Operator::Equal, &Json::from(value));
    if texts.iter().any(is_there) {
        return None;
    }
    let message = format!("`{value}` is not an option of `{}`: the condition {so} holds", item.left);
    Some(ParamProblem::new(at, message).help(format!("the options are {}", listed(texts))))
}

impl SwitchCase {
    /// Whether the case matches; one without usable conditions does not.
    fn matches(&self, ctx: &NodeContext) -> Result<bool> {
        let holds = |item: &Item| {
            let left = ctx.inputs.json(&item.left);
            match &item.right {
                CaseOperand::Constant(value) => Ok(holds(&left, item.operator, value)),
                CaseOperand::Template(template) => {
                    let right = template.value(&ctx.inputs)?;
                    Ok(holds(&left, item.operator, &right))
                }
            }
        };
        // Evaluated one by one: the first deciding condition ends the search.
        for item in &self.items {
            if holds(item)? == self.any {
                return Ok(self.any);
            }
        }
        // All of no conditions hold, but a case that was left empty is not meant to take every run.
        Ok(!self.any && !self.items.is_empty())
    }
}

#[async_trait]
impl Component for Switch {
    fn shape(&self) -> Shape {
        let mut always = Vec::new();
        for item in self.cases.iter().flat_map(|case| &case.items) {
            always.push(item.left.clone());
            if let CaseOperand::Template(template) = &item.right {
                always.extend(template.references().cloned());
            }
        }
        let cases = self.cases.iter().enumerate();
        let mut branches: Vec<_> =
            cases.map(|(place, case)| (format!("/conditions/{place}/to"), case.to.clone())).collect();
        branches.push(("/end_cpn_ids".to_owned(), self.otherwise.clone()));
        Shape {
            reads: Reads::always(always),
            branches: Some(branches),
            main_output: "_next",
            warnings: self.warnings.clone(),
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let mut to = &self.otherwise;
        for case in &self.cases {
            if case.matches(ctx)? {
                to = &case.to;
                break;
            }
        }
        let ids: Vec<&str> = to.iter().map(ComponentId::as_str).collect();
        let mut outputs = Outputs::of("_next", Json::from(ids.clone()));
        outputs.set("next", Json::from(ids));
        Ok(Finished { outputs, route: Route::To(to.clone()), ..Finished::default() })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, run};
    use serde_json::{Value as Json, json};
    use weft_core::Route;

    fn switch(conditions: &Json) -> Node {
        Node::new("Switch", json!({"conditions": conditions, "end_cpn_ids": ["Agent:C"]}))
    }

    #[tokio::test]
    async fn the_first_matching_case_wins() {
        let check = async |conditions: Json, expected: &str| {
            let values = [
                ("Agent:A@n", json!(15)),
                ("Agent:A@t", json!("Refund please")),
                ("Agent:B@w", json!("REFUND")),
            ];
            let finished = run(&switch(&conditions), Setting::values(values)).await.unwrap();
            assert_eq!(finished.route, Route::To(vec![expected.into()]), "{conditions}");
            assert_eq!(json!(finished.outputs)["_next"], json!([expected]));
        };
        let item = |left: &str, operator: &str, right: Json| json!({"cpn_id": left, "operator": operator, "value": right});
        let case = |logic: &str, items: &[Json]| json!([{"logical_operator": logic, "items": items, "to": ["Agent:A"]}]);
        let yes = item("Agent:A@n", ">", json!("9"));
        let no = item("Agent:A@n", "empty", json!(""));
        check(case("and", std::slice::from_ref(&yes)), "Agent:A").await;
        check(case("and", &[yes.clone(), no.clone()]), "Agent:C").await;
        check(case("or", &[no, yes.clone()]), "Agent:A").await;
        check(case("and", &[]), "Agent:C").await;
        check(case("or", &[]), "Agent:C").await;
        check(case("and", &[item("", "=", json!("x"))]), "Agent:C").await;
        check(case("and", &[item("Agent:A@n", "contains", json!("5"))]), "Agent:A").await;
        check(case("and", &[item("Agent:A@t", "contains", json!("{Agent:B@w}"))]), "Agent:A").await;
        check(case("and", &[item("Agent:A@n", "in", json!("[1, 15]"))]), "Agent:A").await;
        check(case("and", &[item("Agent:A@t", "not in", json!(["x"]))]), "Agent:A").await;
        check(
            json!([{"items": [item("Agent:A@n", "<", json!(1))], "to": ["Agent:B"]},
            {"items": [yes.clone()], "to": "Agent:A"}]),
            "Agent:A",
        )
        .await;
        // Of several that hold, the first.
        check(
            json!([{"items": [yes.clone()], "to": ["Agent:A"]}, {"items": [yes], "to": ["Agent:B"]}]),
            "Agent:A",
        )
        .await;
    }

    #[tokio::test]
    async fn a_component_that_a_case_names_twice_is_output_once() {
        let item = json!({"cpn_id": "Agent:A@n", "operator": "=", "value": 1});
        let cases = json!([{"items": [item], "to": ["Agent:B", "Agent:C", "Agent:B"]}]);
        let values = Setting::values([("Agent:A@n", json!(1))]);
        let finished = run(&switch(&cases), values).await.unwrap();
        let outputs = json!(finished.outputs);
        assert_eq!(finished.route, Route::To(vec!["Agent:B".into(), "Agent:C".into()]));
        assert_eq!((&outputs["next"], &outputs["_next"]), (&json!(["Agent:B", "Agent:C"]), &outputs["next"]));
    }

    #[test]
    fn problems_are_all_reported_and_code_is_no_operator() {
        let node = Node::new(
            "Switch",
            json!({"conditions": [{"items": [{"cpn_id": "Agent:A@n", "operator": "__import__('os')", "value": 1},
                {"cpn_id": "1 + 1", "operator": "="}], "to": []}]}),
        );
        let places = [
            "/conditions/0/items/0/operator",
            "/conditions/0/items/1/cpn_id",
            "/conditions/0/to",
            "/end_cpn_ids",
        ];
        assert_eq!(node.problems(), places);
        let problems = node.try_build().err().unwrap();
        assert!(problems[0].help.as_deref().unwrap().contains("`contains`"));
        assert_eq!(Node::new("Switch", json!({})).problems(), ["/conditions", "/end_cpn_ids"]);
        // An unknown value is not taken for another one.
        let joined = |word: &str| {
            let cases = json!([{"logical_operator": word, "items": [], "to": ["Agent:A"]}]);
            switch(&cases).problems()
        };
        assert_eq!(joined("xor"), ["/conditions/0/logical_operator"]);
        for word in ["and", "AND", "or", "Or ", ""] {
            assert!(joined(word).is_empty(), "{word}");
        }
    }

    #[test]
    fn every_branch_is_known_in_advance() {
        let shape = switch(&json!([{"items": [], "to": ["Agent:A", "Agent:B"]}])).build().shape();
        let branches = shape.branches.unwrap();
        assert_eq!(branches[0], ("/conditions/0/to".to_owned(), vec!["Agent:A".into(), "Agent:B".into()]));
        assert_eq!(branches[1], ("/end_cpn_ids".to_owned(), vec!["Agent:C".into()]));
    }
}
