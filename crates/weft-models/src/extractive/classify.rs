//! Selects one of several categories: the one whose name, description and examples have the most in common with the
//! user's message.

use serde_json::Value as Json;
use weft_core::seam::chat_model::{Author, ChatRequest};

use super::material::{last_paragraph, last_words};
use super::terms::DistinctTerms;

/// The weight of a shared term in the name, relative to one in the description.
// A description is long and shares something with most messages.
const NAME_WEIGHT: usize = 3;

/// The category for a request whose schema lists the categories under `properties.category.enum`. The last one when
/// nothing matches, because that is where canvases put the rest; `None` for any other schema.
pub(super) fn category(schema: &Json, request: &ChatRequest) -> Option<String> {
    let names: Vec<&str> =
        schema.pointer("/properties/category/enum")?.as_array()?.iter().filter_map(Json::as_str).collect();
    let words = last_words(request);
    // A conversation may precede the message to classify; it decides when the message itself is inconclusive.
    let (message, all) = (DistinctTerms::of(last_paragraph(words)), DistinctTerms::of(words));
    let system: String = request
        .messages
        .iter()
        .filter(|m| m.author == Author::System)
        .map(|m| format!("{}\n", m.text))
        .collect();
    let lines = named_lines(&system, &names);
    let score = |name: &str| {
        let (name_terms, described) = (DistinctTerms::of(name), DistinctTerms::of(&section(&lines, name)));
        let of = |said: &DistinctTerms| said.shared(&name_terms) * NAME_WEIGHT + said.shared(&described);
        (of(&message), of(&all))
    };
    let mut best = (*names.last()?, (0, 0));
    for name in &names {
        let score = score(name);
        if score > best.1 {
            best = (name, score);
        }
    }
    Some(best.0.to_owned())
}

/// A line of the instructions, the longest category name in it, and the number of names in it.
struct NamedLine<'a> {
    line: &'a str,
    longest: Option<&'a str>,
    count: usize,
}

/// The lines of the instructions.
// Computed once for all categories: with a thousand categories in a thousand lines, each would otherwise search all
// lines for all others.
fn named_lines<'a>(system: &'a str, names: &[&'a str]) -> Vec<NamedLine<'a>> {
    let folded: Vec<(String, &'a str)> = names.iter().map(|name| (name.to_lowercase(), *name)).collect();
    let named_line = |line: &'a str| {
        let lower = line.to_lowercase();
        let named: Vec<&'a str> =
            folded.iter().filter(|(name, _)| lower.contains(name.as_str())).map(|(_, name)| *name).collect();
        let longest = named.iter().copied().max_by_key(|name| name.len());
        NamedLine { line, longest, count: named.len() }
    };
    system.lines().map(named_line).collect()
}

/// The lines about one category: from each line that names it to the next line that names another.
fn section(instructions: &[NamedLine<'_>], name: &str) -> String {
    let mut lines = String::new();
    let mut inside = false;
    for NamedLine { line, longest, count } in instructions {
        inside = match longest {
            // A line that lists several categories describes none of them.
            Some(_) if *count > 2 => false,
            Some(found) => *found == name || (inside && !begins(line, found)),
            None => inside,
        };
        if inside {
            lines.push_str(line);
            lines.push('\n');
        }
    }
    lines
}

/// Whether the line is about `name`, rather than only mentioning it.
fn begins(line: &str, name: &str) -> bool {
    let start: String = line.to_lowercase().chars().skip_while(|c| !c.is_alphanumeric()).collect();
    ["", "category: ", "name: ", "category ", "name "].iter().any(|word| {
        start.strip_prefix(word).is_some_and(|rest| {
            rest.trim_start_matches(|c: char| !c.is_alphanumeric()).starts_with(&name.to_lowercase())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weft_core::seam::chat_model::ChatMessage;

    const SYSTEM: &str = "Choose one category: Billing, Technical problem, 售后, Other.\n\n\
        - Billing: questions about invoices and payments\n  Examples: Why was I charged twice?\n\
        - Technical problem: the product does not work\n  Examples: The app crashes at start. I see a blank screen.\n\
        - 售后: 退货、换货和维修\n  Examples: 我想退货\n- Other: anything else";

    fn chosen(user: &str) -> String {
        let schema = json!({"type": "object", "properties": {"category": {"enum": ["Billing", "Technical problem", "售后", "Other"]}}});
        let messages = vec![ChatMessage::new(Author::System, SYSTEM), ChatMessage::new(Author::User, user)];
        category(&schema, &ChatRequest { messages, ..ChatRequest::default() }).unwrap()
    }

    #[test]
    fn the_most_similar_category_is_chosen() {
        assert_eq!(chosen("My invoice shows that I was charged two times"), "Billing");
        assert_eq!(chosen("After the update the screen stays blank and it crashed"), "Technical problem");
        assert_eq!(chosen("这个商品怎么退货？"), "售后");
        assert_eq!(chosen("Do you like cheese?"), "Other");
        let conversation =
            "The conversation so far:\nuser: My invoice is wrong, the payment too\n\nThe message to sort:\n";
        assert_eq!(chosen(&format!("{conversation}The app crashes")), "Technical problem");
        assert_eq!(chosen(&format!("{conversation}It is still wrong")), "Billing");
    }

    #[test]
    fn other_schemas_are_not_classified() {
        assert_eq!(category(&json!({"type": "object"}), &ChatRequest::default()), None);
        assert_eq!(
            category(&json!({"properties": {"category": {"enum": []}}}), &ChatRequest::default()),
            None
        );
    }

    #[test]
    fn a_thousand_categories_are_classified_quickly() {
        let names: Vec<String> = (0..1_000).map(|number| format!("category number {number}")).collect();
        let lines: Vec<String> = names.iter().map(|name| format!("- {name}: about {name}")).collect();
        let request = ChatRequest {
            messages: vec![
                ChatMessage::new(Author::System, lines.join("\n")),
                ChatMessage::new(Author::User, "the category with the number 777"),
            ],
            ..ChatRequest::default()
        };
        let schema = json!({"properties": {"category": {"enum": names}}});
        let begun = std::time::Instant::now();
        assert_eq!(category(&schema, &request).as_deref(), Some("category number 777"));
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}
