//! Knowledge graphs in answers.

use serde_json::{Value as Json, json};
use weft_knowledge::graph::merge::Graph;

/// Maximum number of entities that are shown: the most important ones.
const NODES_MAX: usize = 256;

/// Maximum number of relations that are shown: those with the highest weight.
const EDGES_MAX: usize = 512;

/// The most important part of a graph.
pub fn view(graph: &Graph) -> Json {
    let mut nodes: Vec<usize> = (0..graph.entities.len()).collect();
    nodes.sort_by(|one, other| graph.entities[*other].1.total_cmp(&graph.entities[*one].1));
    nodes.truncate(NODES_MAX);
    let shown = |place: &usize| nodes.contains(place);
    let mut edges: Vec<_> =
        graph.relations.iter().filter(|(source, target, _)| shown(source) && shown(target)).collect();
    edges.sort_by(|one, other| other.2.weight.total_cmp(&one.2.weight));
    edges.truncate(EDGES_MAX);
    let edges: Vec<_> = edges
        .into_iter()
        .map(|(source, target, relation)| {
            json!({
                "source": graph.entities[*source].0.name,
                "target": graph.entities[*target].0.name,
                "description": relation.description,
                "weight": relation.weight,
                "source_id": relation.sources,
            })
        })
        .collect();
    let nodes: Vec<_> = nodes
        .iter()
        .map(|place| {
            let (entity, importance) = &graph.entities[*place];
            json!({
                "id": entity.name,
                "entity_type": entity.kind,
                "description": entity.description,
                "pagerank": importance,
                "source_id": entity.sources,
            })
        })
        .collect();
    json!({"directed": false, "multigraph": false, "nodes": nodes, "edges": edges})
}

#[cfg(test)]
mod tests {
    use weft_knowledge::graph::{Entity, Relation};

    use super::*;

    #[test]
    fn the_highest_ranked_part_of_the_graph_is_shown() {
        let entity = |name: usize| Entity { name: format!("e{name}"), ..Entity::default() };
        let entities: Vec<_> = (0..300_u32).map(|n| (entity(n as usize), f64::from(n))).collect();
        let relation = |source: usize, target: usize| (source, target, Relation::default());
        let relations = vec![relation(299, 298), relation(299, 0)];
        let shown = view(&Graph { entities, relations, ..Graph::default() });
        assert_eq!(shown["nodes"].as_array().unwrap().len(), NODES_MAX);
        assert_eq!(
            (&shown["nodes"][0]["id"], &shown["nodes"][0]["pagerank"]),
            (&json!("e299"), &json!(299.0))
        );
        let edges = shown["edges"].as_array().unwrap();
        assert_eq!((edges.len(), &edges[0]["target"]), (1, &json!("e298")));
    }
}
