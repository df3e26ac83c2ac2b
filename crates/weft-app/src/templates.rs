//! Templates: sample canvases of the repository that run without an API key, with the built-in model.

/// A sample canvas to start from, with its documents.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// Its id, and the name of the dataset that it searches, if it searches one.
    pub id: &'static str,
    /// Its title in lists.
    pub title: &'static str,
    /// What it shows.
    pub description: &'static str,
    /// The heading under which it is listed.
    pub canvas_type: &'static str,
    /// A question to try it with.
    pub question: &'static str,
    /// The canvas, as JSON.
    pub dsl: &'static str,
    /// Documents to search, as names and contents.
    pub documents: &'static [(&'static str, &'static [u8])],
}

/// A template from a folder below `canvases`.
macro_rules! sample {
    ($id:literal, $title:literal, $heading:literal, $question:literal, $description:literal $(, $document:literal)* $(,)?) => {
        Template {
            id: $id,
            title: $title,
            description: $description,
            canvas_type: $heading,
            question: $question,
            dsl: include_str!(concat!("../../../canvases/", $id, "/canvas.json")),
            documents: &[$((
                $document,
                include_bytes!(concat!("../../../canvases/", $id, "/documents/", $document)),
            )),*],
        }
    };
}

/// All templates.
pub static TEMPLATES: &[Template] = &[
    sample!(
        "greet",
        "A first greeting",
        "Start",
        "good morning",
        "A form and a question go into a message, without any model: the smallest agent.",
    ),
    sample!(
        "customer_service",
        "Customer service",
        "Answers from documents",
        "How long do I have to return a bicycle?",
        "Classifies what a customer writes: questions are answered from documents with citations, complaints and small talk take other branches.",
        "alder_manual.md",
        "finch_manual.md",
        "payment.md",
        "privacy.md",
        "returns.md",
        "shipping.md",
        "warranty.md",
        "workshop.md",
    ),
    sample!(
        "cited_pages",
        "Answers that name the page",
        "Answers from documents",
        "How long does the warranty last?",
        "Answers from a PDF and a text file; each citation points to the passage and the page that state the fact.",
        "manual.pdf",
        "service.md",
    ),
    sample!(
        "deep_research",
        "Deep research",
        "Answers from documents",
        "Who designed the bridge that the night tram crosses?",
        "Investigates a question in several searches that build on each other, shows its reasoning, and answers with citations.",
        "bridges.md",
        "people.md",
        "trams.md",
    ),
    sample!(
        "agent_tools",
        "An agent with tools",
        "Agents",
        "What day is it, and how much are 17 boxes at 12.50?",
        "An agent that calculates and reads the clock. The built-in answerer cannot call tools: configure a language model to see it work.",
    ),
    sample!(
        "run_code",
        "A program, and an agent that writes one",
        "Agents",
        "What is the median of 12, 3, 8.5 and 40?",
        "A program extracts figures from a text, and an agent may write another one; both run in a sandbox.",
    ),
    sample!(
        "remember_turns",
        "A conversation that remembers",
        "Conversations",
        "I like tea",
        "Counts the turns of a conversation and keeps what was said in a variable.",
    ),
    sample!(
        "stream_two_models",
        "Two models, one message",
        "Conversations",
        "rain",
        "Two models work concurrently and stream into one message, each in its place.",
    ),
    sample!(
        "form_pause",
        "Ask a person",
        "Conversations",
        "Plan a picnic",
        "Shows a plan with a form, waits for a person, and continues according to the answer, even after a restart.",
    ),
    sample!(
        "categorize_three_intents",
        "Sort by intent",
        "Decisions",
        "Can I come by on Saturday evening?",
        "A model classifies the question into one of three categories; each has a branch of its own.",
    ),
    sample!(
        "switch_any_of_join",
        "Branch on a condition",
        "Decisions",
        "I want my money back",
        "Conditions decide without a model, and the branches join in one message.",
    ),
    sample!(
        "nested_iteration",
        "Work through a list",
        "Lists and data",
        "a,b;c",
        "An iteration inside an iteration: lines of words, each word marked with its line.",
    ),
    sample!(
        "lists_and_data",
        "Lists and objects",
        "Lists and data",
        "pear apple pear fig",
        "Filters, changes, sorts and slices lists and objects without any model.",
    ),
    sample!(
        "jinja_message",
        "A message with a loop in it",
        "Lists and data",
        "Who comes?",
        "A message as a Jinja template that loops over values.",
    ),
    sample!(
        "http_call",
        "Ask a web service",
        "Connections",
        "bells",
        "Calls a web service and parses its JSON; if it does not respond, a predefined text is used. Enter the address of your service in the variable.",
    ),
    sample!(
        "files_and_sums",
        "Sums and files",
        "Connections",
        "100 + 0.1 + 0.2",
        "Calculates a sum, writes it to a file with the time, and reads the file back.",
    ),
    sample!(
        "report_files",
        "A report as a file",
        "Connections",
        "Week 12",
        "Reads a table, queries a database, creates a page from both and notifies somebody by mail. The database and the mail server are fictional: enter yours.",
    ),
    Template {
        id: "headings",
        title: "Chunks by heading",
        description: "An ingestion pipeline: a chunk for each section, with the headings above it.",
        canvas_type: "Ingestion",
        question: "",
        dsl: include_str!("../../../pipelines/headings.json"),
        documents: &[],
    },
];

/// Returns the template with this id.
pub fn template(id: &str) -> Option<&'static Template> {
    TEMPLATES.iter().find(|template| template.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_document_is_shipped_and_its_dataset_has_the_templates_name() {
        for template in TEMPLATES {
            let folder = format!("{}/../../canvases/{}/documents", env!("CARGO_MANIFEST_DIR"), template.id);
            let entries = std::fs::read_dir(folder).into_iter().flatten();
            let mut on_disk: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            on_disk.sort();
            let shipped: Vec<_> = template.documents.iter().map(|(name, _)| *name).collect();
            assert_eq!(on_disk, shipped, "{}", template.id);
            let named = template.dsl.contains(&format!("\"{}\"", template.id));
            assert!(
                shipped.is_empty() || named,
                "{} ships documents but does not search its own dataset",
                template.id
            );
        }
    }
}
