//! The editor's drawing → components, by the editor's rules, for files that contain only the drawing.

pub(crate) mod only;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;
use serde_json::{Map, json};
use weft_core::{ComponentId, Json};

use crate::canvas::{CanvasNode, NodePlace, WrittenEdge};
use crate::pointer::unescape;

/// Nodes that are only decoration.
const DECORATION: [&str; 3] = ["Note", "Tool", "Placeholder"];

/// Maximum nesting depth of sub-agents.
const SUB_AGENT_DEPTH_MAX: usize = 8;

/// Maximum number of agents that may share one sub-agent: each gets a copy of its parameters.
const SUB_AGENT_COPIES_MAX: usize = 8;

/// Maximum number of edge targets copied into the parameters of all nodes together.
// Each category of a node may name the same handle and so get all of its edges. Targets beyond this limit are
// dropped only for a canvas that exceeds the limit on edges anyway.
const TARGETS_MAX: usize = crate::limits::EDGES_MAX + 1;

/// Returns the components that a drawing stands for. `pointer` is the position of the drawing in the document.
pub(crate) fn components(dsl: &Json, pointer: &str) -> IndexMap<ComponentId, CanvasNode> {
    let Some(graph) = dsl.get("graph") else { return IndexMap::new() };
    let drawing = DrawnCanvas::of(graph, pointer);
    let mut copies = HashMap::new();
    drawing
        .nodes
        .values()
        .filter(|node| drawing.is_component(node.id))
        .map(|node| drawing.component(node, pointer, &mut copies))
        .map(|node| (node.id.clone(), node))
        .collect()
}

/// Number of copies made of each sub-agent.
type Copies<'a> = HashMap<&'a str, usize>;

struct DrawnCanvas<'a> {
    nodes: IndexMap<&'a str, DrawnNode<'a>>,
    edges: HashMap<&'a str, Vec<DrawnEdge<'a>>>,
    /// Targets of a node's edges, by the handle where they start.
    by_handle: HashMap<(&'a str, &'a str), Vec<&'a str>>,
    /// Number of targets that may still be copied into parameters.
    targets_left: Cell<usize>,
    sub_agents: HashSet<&'a str>,
}

#[derive(Clone, Copy)]
struct DrawnNode<'a> {
    index: usize,
    id: &'a str,
    label: &'a str,
    name: &'a str,
    form: Option<&'a Map<String, Json>>,
    parent: Option<&'a str>,
}

struct DrawnEdge<'a> {
    pointer: String,
    target: &'a str,
    from: &'a str,
    into: &'a str,
}

impl<'a> DrawnCanvas<'a> {
    fn of(graph: &'a Json, pointer: &str) -> Self {
        let list = |key: &str| graph.get(key).and_then(Json::as_array).into_iter().flatten().enumerate();
        let text = |json: &'a Json, at: &str| json.pointer(at).and_then(Json::as_str);
        let node = |(index, node): (usize, &'a Json)| {
            let id = text(node, "/id")?;
            let label = text(node, "/data/label").unwrap_or_default();
            let name = text(node, "/data/name").filter(|name| !name.is_empty()).unwrap_or(id);
            let form = node.pointer("/data/form").and_then(Json::as_object);
            let parent = text(node, "/parentId").filter(|parent| !parent.is_empty());
            Some((id, DrawnNode { index, id, label, name, form, parent }))
        };
        let mut edges: HashMap<&str, Vec<DrawnEdge<'_>>> = HashMap::new();
        let mut by_handle: HashMap<(&str, &str), Vec<&str>> = HashMap::new();
        let mut sub_agents = HashSet::new();
        for (index, edge) in list("edges") {
            let (Some(source), Some(target)) = (text(edge, "/source"), text(edge, "/target")) else {
                continue;
            };
            let from = text(edge, "/sourceHandle").unwrap_or("start");
            let into = text(edge, "/targetHandle").unwrap_or("end");
            if into == "agentTop" {
                sub_agents.insert(target);
            }
            by_handle.entry((source, from)).or_default().push(target);
            let pointer = format!("{pointer}/edges/{index}/target");
            edges.entry(source).or_default().push(DrawnEdge { pointer, target, from, into });
        }
        let nodes = list("nodes").filter_map(node).collect();
        Self { nodes, edges, by_handle, targets_left: Cell::new(TARGETS_MAX), sub_agents }
    }

    fn is_component(&self, id: &str) -> bool {
        let decorates = |node: &DrawnNode<'_>| DECORATION.contains(&node.label);
        !self.nodes.get(id).is_some_and(decorates) && !self.sub_agents.contains(id)
    }

    fn edges(&self, id: &str) -> &[DrawnEdge<'a>] {
        self.edges.get(id).map_or(&[], Vec::as_slice)
    }

    fn component(&self, node: &DrawnNode<'a>, pointer: &str, copies: &mut Copies<'a>) -> CanvasNode {
        let at = format!("{pointer}/nodes/{}", node.index);
        let onward = |edge: &&DrawnEdge<'_>| {
            // An agent's tools, sub-agents and failure path are parameters of it, and no ordinary successors.
            let besides =
                node.label == "Agent" && matches!(edge.from, "agentException" | "tool" | "agentBottom");
            !besides && edge.into != "agentTop" && self.is_component(edge.target)
        };
        let links = self.edges(node.id).iter().filter(onward);
        CanvasNode {
            id: node.id.into(),
            kind: node.label.to_owned(),
            name: node.name.into(),
            params: self.params(node, 0, copies),
            downstream: links
                .map(|edge| WrittenEdge { to: edge.target.into(), pointer: edge.pointer.clone() })
                .collect(),
            parent: node.parent.map(Into::into),
            place: NodePlace {
                kind: format!("{at}/data/label"),
                params: format!("{at}/data/form"),
                parent: format!("{at}/parentId"),
                node: at,
            },
        }
    }

    fn params(&self, node: &DrawnNode<'a>, depth: usize, copies: &mut Copies<'a>) -> Map<String, Json> {
        let mut params = node.form.cloned().unwrap_or_default();
        match node.label {
            "Agent" => self.agent(node, &mut params, depth, copies),
            "Categorize" => self.categorize(node, &mut params),
            "Switch" => self.switch(node, &mut params),
            "DataOperations" => data_operations(&mut params),
            "Begin" => webhook(&mut params),
            "Parser" => parser(&mut params),
            "TokenChunker" => token_chunker(&mut params),
            "TitleChunker" => title_chunker(&mut params),
            _ => {}
        }
        params
    }

    fn targets(&self, id: &str, handle: &str) -> Vec<Json> {
        let drawn = self.by_handle.get(&(id, handle)).map_or(&[][..], Vec::as_slice);
        let left = self.targets_left.get();
        let copied = &drawn[..drawn.len().min(left)];
        self.targets_left.set(left - copied.len());
        copied.iter().copied().map(Json::from).collect()
    }

    /// Turns sub-agents into tools and the error branch into `exception_goto`.
    fn agent(
        &self,
        node: &DrawnNode<'a>,
        params: &mut Map<String, Json>,
        depth: usize,
        copies: &mut Copies<'a>,
    ) {
        let goto = self.targets(node.id, "agentException");
        if !goto.is_empty() {
            params.insert("exception_goto".to_owned(), Json::Array(goto));
        }
        let mut tools = match params.remove("tools") {
            Some(Json::Array(tools)) => tools,
            _ => Vec::new(),
        };
        for edge in self.edges(node.id).iter().filter(|edge| edge.into == "agentTop") {
            // A drawing may have agents that contain each other, or one sub-agent below many agents: only
            // these two limits end the recursion.
            let Some(agent) = self.nodes.get(edge.target) else { continue };
            let made = copies.entry(agent.id).or_default();
            if depth >= SUB_AGENT_DEPTH_MAX || *made >= SUB_AGENT_COPIES_MAX {
                continue;
            }
            *made += 1;
            let params = self.params(agent, depth + 1, copies);
            tools.push(
                json!({"component_name": agent.label, "id": agent.id, "name": agent.name, "params": params}),
            );
        }
        params.insert("tools".to_owned(), Json::Array(tools));
    }

    /// Converts `items`, with the uuids that edges start from, to `category_description`.
    fn categorize(&self, node: &DrawnNode<'a>, params: &mut Map<String, Json>) {
        let Some(Json::Array(items)) = params.remove("items") else { return };
        let mut categories = Map::new();
        for item in &items {
            let Some(name) = item.get("name").and_then(Json::as_str) else { continue };
            let uuid = item.get("uuid").and_then(Json::as_str).unwrap_or_default();
            let mut category = Map::new();
            for key in ["description", "index", "uuid"] {
                if let Some(value) = item.get(key) {
                    category.insert(key.to_owned(), value.clone());
                }
            }
            let examples = item.get("examples").map(|examples| members(examples, "value"));
            category.insert("examples".to_owned(), examples.unwrap_or_else(|| json!([])));
            // The edge is what the author sees; `to` in the form may be left over from an earlier drawing.
            let drawn = self.targets(node.id, uuid);
            let to = if drawn.is_empty() {
                item.get("to").cloned().unwrap_or(json!([]))
            } else {
                Json::Array(drawn)
            };
            category.insert("to".to_owned(), to);
            categories.insert(name.to_owned(), Json::Object(category));
        }
        params.insert("category_description".to_owned(), Json::Object(categories));
    }

    /// Adds the targets of `Case N` and of the default branch, where edges are drawn for them.
    fn switch(&self, node: &DrawnNode<'a>, params: &mut Map<String, Json>) {
        let conditions = params.get_mut("conditions").and_then(Json::as_array_mut);
        for (index, condition) in conditions.into_iter().flatten().enumerate() {
            let drawn = self.targets(node.id, &format!("Case {}", index + 1));
            // Without a drawn edge the form's value is kept: files written by programs may have no edges.
            if let (Some(condition), false) = (condition.as_object_mut(), drawn.is_empty()) {
                condition.insert("to".to_owned(), Json::Array(drawn));
            }
        }
        let drawn = self.targets(node.id, "end_cpn_ids");
        if !drawn.is_empty() {
            params.insert("end_cpn_ids".to_owned(), Json::Array(drawn));
        }
    }
}

/// Converts `[{key: x}, …]` to `[x, …]`; entries of another form are kept.
fn members(list: &Json, key: &str) -> Json {
    match list {
        Json::Array(items) => items.iter().map(|item| item.get(key).unwrap_or(item).clone()).collect(),
        other => other.clone(),
    }
}

fn data_operations(params: &mut Map<String, Json>) {
    for (list, key) in [("query", "input"), ("select_keys", "name"), ("remove_keys", "name")] {
        if let Some(value) = params.get_mut(list) {
            *value = members(value, key);
        }
    }
}

/// Converts `setups: [{fileFormat: x, …}, …]` to `setups: {x: {…}, …}`.
fn parser(params: &mut Map<String, Json>) {
    let Some(Json::Array(drawn)) = params.get_mut("setups") else { return };
    let mut setups = Map::new();
    for mut setup in std::mem::take(drawn) {
        let Some(setup) = setup.as_object_mut() else { continue };
        if let Some(Json::String(family)) = setup.remove("fileFormat") {
            setups.insert(family, Json::Object(std::mem::take(setup)));
        }
    }
    params.insert("setups".to_owned(), Json::Object(setups));
}

fn token_chunker(params: &mut Map<String, Json>) {
    for list in ["delimiters", "children_delimiters"] {
        if let Some(value) = params.get_mut(list) {
            *value = members(value, "value");
        }
    }
    // The editor has one setting where the component has two.
    if let Some(size) = params.remove("image_table_context_window") {
        for name in ["table_context_size", "image_context_size"] {
            params.entry(name).or_insert_with(|| size.clone());
        }
    }
}

/// Converts `rules: [{levels: [{expression: x}, …]}, …]` to `levels: [[x, …], …]`; an older form has `levels`
/// with `expressions`.
fn title_chunker(params: &mut Map<String, Json>) {
    let lists = |drawn: &Json, key: &str| {
        let list = |one: &Json| members(one.get(key).unwrap_or(one), "expression");
        drawn.as_array().into_iter().flatten().map(list).collect::<Json>()
    };
    if let Some(rules) = params.remove("rules") {
        // Existing `levels` were written in the current form and take precedence.
        params.entry("levels").or_insert_with(|| lists(&rules, "levels"));
    } else if let Some(levels) = params.get_mut("levels") {
        *levels = lists(levels, "expressions");
    }
}

fn webhook(params: &mut Map<String, Json>) {
    let mode = params.get("mode").and_then(Json::as_str).unwrap_or_default();
    if !mode.trim().eq_ignore_ascii_case("webhook") {
        return;
    }
    for part in
        params.get_mut("schema").and_then(Json::as_object_mut).into_iter().flat_map(|s| s.values_mut())
    {
        if let Json::Array(fields) = part {
            *part = object_schema(fields);
        }
    }
    let Some(security) = params.get_mut("security").and_then(Json::as_object_mut) else { return };
    if let Some(list) = security.get_mut("ip_whitelist") {
        *list = members(list, "value");
    }
    if let Some(list) = security.get_mut("jwt").and_then(|jwt| jwt.get_mut("required_claims")) {
        *list = members(list, "value");
    }
}

/// Converts `[{key, type, required}, …]` to a JSON schema.
fn object_schema(fields: &[Json]) -> Json {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in fields {
        let Some(key) = field.get("key").and_then(Json::as_str).filter(|key| !key.is_empty()) else {
            continue;
        };
        properties
            .insert(key.to_owned(), json!({"type": field.get("type").cloned().unwrap_or(json!("string"))}));
        if field.get("required") == Some(&Json::Bool(true)) {
            required.push(Json::from(key));
        }
    }
    json!({"type": "object", "properties": properties, "required": required})
}

/// Lists in a form that become objects in the parameters: the path to such an object, the list, and the
/// member of an entry that becomes its name.
const LISTS: [(&str, &str, &str); 3] = [
    ("/setups/", "/setups", "fileFormat"),
    ("/category_description/", "/items", "name"),
    ("/properties/", "", "key"),
];

/// Returns the place in the document for a place in a component's parameters, where it lies within an entry
/// of a list.
pub(crate) fn written_place(document: &Json, pointer: &str) -> Option<String> {
    const FORM: &str = "/data/form";
    let form = pointer.find(FORM)? + FORM.len();
    LISTS.iter().find_map(|(made, drawn, key)| {
        let at = form + pointer[form..].find(made)?;
        let behind = &pointer[at + made.len()..];
        let (name, rest) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
        let name = unescape(name);
        let list = format!("{}{drawn}", &pointer[..at]);
        let entries = document.pointer(&list)?.as_array()?;
        let is_it = |entry: &Json| entry.get(key).and_then(Json::as_str) == Some(name.as_str());
        // Of several entries with the same name the last one counts.
        let place = entries.iter().rposition(is_it)?;
        Some(format!("{list}/{place}{rest}"))
    })
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "literals read better by value")]
mod tests {
    use super::*;

    fn node(id: &str, label: &str, form: Json) -> Json {
        json!({"id": id, "data": {"label": label, "name": format!("{label}!"), "form": form}})
    }

    fn edge(source: &str, from: &str, target: &str, into: &str) -> Json {
        json!({"source": source, "sourceHandle": from, "target": target, "targetHandle": into})
    }

    fn check(nodes: &[Json], edges: &[Json], id: &str, params: Json, downstream: &[&str]) {
        let dsl = json!({"graph": {"nodes": nodes, "edges": edges}});
        let components = components(&dsl, "/graph");
        let found = &components[id];
        assert_eq!(Json::Object(found.params.clone()), params);
        assert_eq!(found.downstream.iter().map(|link| link.to.as_str()).collect::<Vec<_>>(), downstream);
    }

    #[test]
    fn sub_agents_become_tools_and_error_branches_a_goto() {
        let nodes = [
            node("A", "Agent", json!({"tools": [{"component_name": "TavilySearch"}]})),
            node("B", "Agent", json!({"tools": []})),
            node("C", "Agent", json!({})),
            node("T", "Tool", json!({})),
            node("M", "Message", json!({})),
            node("E", "Message", json!({})),
        ];
        let edges = [
            edge("A", "agentBottom", "B", "agentTop"),
            edge("B", "agentBottom", "C", "agentTop"),
            edge("A", "tool", "T", "end"),
            edge("A", "start", "M", "end"),
            edge("A", "agentException", "E", "end"),
        ];
        let c = json!({"component_name": "Agent", "id": "C", "name": "Agent!", "params": {"tools": []}});
        let b = json!({"component_name": "Agent", "id": "B", "name": "Agent!", "params": {"tools": [c]}});
        let params = json!({"exception_goto": ["E"], "tools": [{"component_name": "TavilySearch"}, b]});
        check(&nodes, &edges, "A", params, &["M"]);
        let all = components(&json!({"graph": {"nodes": nodes, "edges": edges}}), "/graph");
        assert_eq!(all.keys().map(ComponentId::as_str).collect::<Vec<_>>(), ["A", "M", "E"]);
    }

    #[test]
    fn forms_of_a_pipeline_become_component_parameters() {
        let form =
            |label: &str, form: Json, params: Json| check(&[node("P", label, form)], &[], "P", params, &[]);
        form(
            "Parser",
            json!({"setups": [{"fileFormat": "pdf", "output_format": "json"}, {"fileFormat": "email", "fields": ["from"]}]}),
            json!({"setups": {"pdf": {"output_format": "json"}, "email": {"fields": ["from"]}}}),
        );
        form(
            "TokenChunker",
            json!({"delimiters": [{"value": "a"}], "children_delimiters": [], "image_table_context_window": 8}),
            json!({"delimiters": ["a"], "children_delimiters": [], "table_context_size": 8, "image_context_size": 8}),
        );
        let rules = json!([{"levels": [{"expression": "^a"}, {"expression": "^b"}]}, {"levels": [{"expression": "^c"}]}]);
        let levels = json!([["^a", "^b"], ["^c"]]);
        form("TitleChunker", json!({"rules": rules}), json!({"levels": levels}));
        let older = json!([{"expressions": [{"expression": "^a"}, {"expression": "^b"}]}, {"expressions": [{"expression": "^c"}]}]);
        form("TitleChunker", json!({"levels": older}), json!({"levels": levels}));
        form("TitleChunker", json!({"levels": levels}), json!({"levels": levels}));
    }

    #[test]
    fn mutually_nested_agents_terminate() {
        let nodes: Vec<_> = ["R", "A", "B"].iter().map(|id| node(id, "Agent", json!({}))).collect();
        let edges = [("R", "A"), ("A", "B"), ("A", "A"), ("B", "A"), ("B", "B")]
            .map(|(a, b)| edge(a, "x", b, "agentTop"));
        let all = components(&json!({"graph": {"nodes": nodes, "edges": edges}}), "/graph");
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn branches_are_derived_from_edges() {
        let items = json!([{"name": "x", "description": "d", "uuid": "u1", "examples": [{"value": "1"}]}, {"name": "y", "uuid": "u2"}]);
        let nodes = [node("K", "Categorize", json!({"items": items})), node("M", "Message", json!({}))];
        let edges = [edge("K", "u1", "M", "end")];
        let params = json!({"category_description": {
            "x": {"description": "d", "uuid": "u1", "examples": ["1"], "to": ["M"]},
            "y": {"uuid": "u2", "examples": [], "to": []}
        }});
        check(&nodes, &edges, "K", params, &["M"]);

        let form = json!({"conditions": [{"items": []}, {"items": [], "to": ["old"]}]});
        let nodes =
            [node("S", "Switch", form), node("M", "Message", json!({})), node("N", "Message", json!({}))];
        let edges = [edge("S", "Case 2", "M", "end"), edge("S", "end_cpn_ids", "N", "end")];
        let params = json!({"conditions": [{"items": []}, {"items": [], "to": ["M"]}], "end_cpn_ids": ["N"]});
        check(&nodes, &edges, "S", params, &["M", "N"]);
    }

    #[test]
    fn entries_of_lists_are_found_where_they_are_written() {
        let form = json!({
            "setups": [{"fileFormat": "pdf"}, {"fileFormat": "a/b"}, {"fileFormat": "pdf"}],
            "items": [{"name": "x"}, {"name": "y"}],
            "schema": {"query": [{"key": "q"}], "body": {"properties": {"b": {}}}},
        });
        let document = json!({"graph": {"nodes": [node("P", "Parser", form)]}});
        let check = |place: &str, expected: Option<&str>| {
            let at = |place: &str| format!("/graph/nodes/0/data/form{place}");
            assert_eq!(written_place(&document, &at(place)), expected.map(at), "{place}");
        };
        check("/setups/pdf/suffix/0", Some("/setups/2/suffix/0"));
        check("/setups/a~1b", Some("/setups/1"));
        check("/setups/email", None);
        check("/category_description/y/to/0", Some("/items/1/to/0"));
        check("/schema/query/properties/q/type", Some("/schema/query/0/type"));
        check("/schema/body/properties/b/type", None);
        check("/setups", None);
        assert_eq!(written_place(&document, "/components/P/obj/params/setups/pdf"), None);
    }

    #[test]
    fn forms_become_parameters() {
        let form = json!({"query": [{"input": "a@b"}], "select_keys": [{"name": "k"}], "remove_keys": []});
        let params = json!({"query": ["a@b"], "select_keys": ["k"], "remove_keys": []});
        check(&[node("D", "DataOperations", form)], &[], "D", params, &[]);

        for mode in ["Webhook", "webhook"] {
            let form = json!({"mode": mode, "schema": {"query": [{"key": "q", "type": "number", "required": true}]},
                "security": {"ip_whitelist": [{"value": "::1"}], "jwt": {"required_claims": [{"value": "c"}]}}});
            let query = json!({"type": "object", "properties": {"q": {"type": "number"}}, "required": ["q"]});
            let params = json!({"mode": mode, "schema": {"query": query},
                "security": {"ip_whitelist": ["::1"], "jwt": {"required_claims": ["c"]}}});
            check(&[node("begin", "Begin", form)], &[], "begin", params, &[]);
        }
    }
}
