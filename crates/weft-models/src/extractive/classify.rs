//! Chooses one of several categories: the one whose name, description and examples have most in common
//! with what the user said.

use serde_json::Value as Json;
use weft_core::seam::chat_model::{Author, ChatRequest};

use super::last_words;
use super::material::last_paragraph;
use super::terms::DistinctTerms;

/// What a shared term of the name counts, next to one of the description.
const NAME_WEIGHT: usize = 3;

/// The category for a request whose schema lists them under `properties.category.enum`. The last one
/// when nothing fits, since that is where canvases put the rest; `None` for any other schema.
pub(super) fn category(schema: &Json, request: &ChatRequest) -> Option<String> {
    let names: Vec<&str> =
        schema.pointer("/properties/category/enum")?.as_array()?.iter().filter_map(Json::as_str).collect();
    let words = last_words(request);
    // A conversation may stand before the message to sort; it decides when the message says nothing.
    let (message, all) = (DistinctTerms::of(last_paragraph(words)), DistinctTerms::of(words));
    let system: String = request
        .messages
        .iter()
        .filter(|m| m.author == Author::System)
        .map(|m| format!("{}\n", m.text))
        .collect();
    let score = |name: &str| {
        let (name_terms, described) =
            (DistinctTerms::of(name), DistinctTerms::of(&section(&system, name, &names)));
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

/// The lines about one category: from each line that names it to the next that names another.
fn section(system: &str, name: &str, names: &[&str]) -> String {
    let mut lines = String::new();
    let mut inside = false;
    for line in system.lines() {
        let named = names.iter().filter(|other| names_it(line, other)).max_by_key(|other| other.len());
        // A line that lists several of them describes none.
        let count = names.iter().filter(|other| names_it(line, other)).count();
        inside = match named {
            Some(_) if count > 2 => false,
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

fn names_it(line: &str, name: &str) -> bool {
    line.to_lowercase().contains(&name.to_lowercase())
}

/// Whether the line is about `name`, and does not only mention it.
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
    fn the_category_with_most_in_common_is_chosen() {
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
    fn other_schemas_are_not_ours() {
        assert_eq!(category(&json!({"type": "object"}), &ChatRequest::default()), None);
        assert_eq!(
            category(&json!({"properties": {"category": {"enum": []}}}), &ChatRequest::default()),
            None
        );
    }
}
