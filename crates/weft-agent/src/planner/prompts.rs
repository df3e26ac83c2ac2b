//! The planner's messages to the model, by stage.

use weft_core::Json;
use weft_core::citation::Cited;
use weft_core::context::Limited;
use weft_core::seam::chat_model::{Author, ChatMessage, ToolSchema};

use crate::driver::PlannerOptions;
use crate::window::cut;

/// The pseudo tool with which the planner finishes.
pub(super) const COMPLETE: &str = "complete_task";

const REWRITE: &str = include_str!("../prompts/rewrite.md");
const ANALYSE: &str = include_str!("../prompts/analyse.md");
const NEXT_STEP: &str = include_str!("../prompts/next_step.md");
const NEXT_NUDGE: &str = include_str!("../prompts/next_nudge.md");
const MEANWHILE: &str = include_str!("../prompts/meanwhile.md");
const CORRECT: &str = include_str!("../prompts/correct.md");
const REFLECT: &str = include_str!("../prompts/reflect.md");
const ANSWER: &str = include_str!("../prompts/answer.md");
const SPENT: &str = include_str!("../prompts/spent.md");
const CITE_PASS: &str = include_str!("../prompts/cite_pass.md");

/// Maximum tokens of all sources together in the citation pass.
// What exceeds the model's window is cut from the request itself; this limits the text that is built for it.
const SOURCES_TOKENS: usize = 200_000;

fn system(text: String) -> ChatMessage {
    ChatMessage::new(Author::System, text)
}

fn user(text: impl Into<String>) -> ChatMessage {
    ChatMessage::new(Author::User, text)
}

/// Replaces `{name}` by its value; placeholders inside values are not replaced.
fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    // By hand in one pass: with `replace`, a value that contains `{plan}` would be replaced as well.
    while let Some(open) = rest.find('{') {
        let known = values.iter().find_map(|(name, value)| {
            let after = rest[open + 1..].strip_prefix(name)?.strip_prefix('}')?;
            Some((value, after))
        });
        match known {
            Some((value, after)) => {
                text.push_str(&rest[..open]);
                text.push_str(value);
                rest = after;
            }
            None => {
                text.push_str(&rest[..=open]);
                rest = &rest[open + 1..];
            }
        }
    }
    text.push_str(rest);
    text
}

/// Asks the model to rewrite the last question so that it can be understood on its own.
pub(super) fn rewrite(conversation: &[ChatMessage], options: &PlannerOptions) -> Vec<ChatMessage> {
    let [yesterday, today, tomorrow] = &options.days;
    let language = options.language.as_deref().map_or_else(
        || "Keep the language of the user.".to_owned(),
        |language| format!("Write it in {language}."),
    );
    let values = [
        ("yesterday", yesterday.as_str()),
        ("today", today),
        ("tomorrow", tomorrow),
        ("language", language.as_str()),
    ];
    let said = conversation.iter().filter_map(|message| match message.author {
        Author::User => Some(format!("USER: {}", message.text)),
        Author::Assistant if !message.text.is_empty() => Some(format!("ASSISTANT: {}", message.text)),
        // Results of tools are long and say little about the meaning of the question.
        Author::Assistant | Author::System | Author::Tool => None,
    });
    vec![system(filled(REWRITE, &values)), user(said.collect::<Vec<_>>().join("\n"))]
}

/// Asks for an analysis of the task.
pub(super) fn analyse(
    instructions: &str,
    request: &str,
    tools: &[ToolSchema],
    options: &PlannerOptions,
) -> Vec<ChatMessage> {
    let own = options.prompts.task_analysis.as_deref().unwrap_or(ANALYSE);
    let mut text = format!("{}\n\n# The tools\n\n{}", own.trim_end(), described(tools));
    if !instructions.is_empty() {
        text = format!("{text}\n# What the one who carries it out was told\n\n{instructions}\n");
    }
    vec![system(text), user(format!("The task:\n\n{request}\n\nAnalyse it."))]
}

/// Asks for another analysis, because a person has rejected this one.
pub(super) fn analyse_again(mut asked: Vec<ChatMessage>, plan: &str, reason: &str) -> Vec<ChatMessage> {
    asked.push(ChatMessage::new(Author::Assistant, plan));
    asked.push(user(format!("This was rejected: {reason}\n\nAnalyse the task again, with regard to that.")));
    asked
}

/// The analysis without a model: all the known texts.
pub(super) fn concat(instructions: &str, request: &str, options: &PlannerOptions) -> String {
    let parts = [instructions, request, options.prompts.task_analysis.as_deref().unwrap_or_default()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// The instructions for the next step.
pub(super) fn next_step(plan: &str, tools: &[ToolSchema], options: &PlannerOptions) -> ChatMessage {
    let values = [("today", options.days[1].as_str()), ("plan", plan), ("tools", &described(tools))];
    let own = options.prompts.plan_generation.as_deref();
    let text = filled(NEXT_STEP, &values);
    system(own.map_or_else(|| text.clone(), |own| format!("{own}\n\n{text}")))
}

/// Asks for the next step.
pub(super) fn next_nudge() -> ChatMessage {
    user(NEXT_NUDGE.trim_end())
}

/// A message that the user sent while the planner was working.
pub(super) fn meanwhile(message: &str) -> String {
    filled(MEANWHILE.trim_end(), &[("message", message)])
}

/// Says why a reply is not a valid step.
pub(super) fn correct(problem: &str) -> String {
    filled(CORRECT.trim_end(), &[("problem", problem)])
}

/// Asks for a reflection on the results of tools.
pub(super) fn reflect(goal: &str, observation: &str, options: &PlannerOptions) -> Vec<ChatMessage> {
    let own = options.prompts.reflection.as_deref().unwrap_or(REFLECT);
    vec![
        system(own.trim_end().to_owned()),
        user(format!("# The goal\n\n{goal}\n\n# What the tools gave\n\n{observation}")),
    ]
}

/// The results of tools, for the next request.
pub(super) fn observation(results: &[(String, Json)], reflection: Option<&str>) -> String {
    let results =
        results.iter().map(|(name, result)| format!("## {name}\n{}\n", weft_core::value::to_text(result)));
    let results = results.collect::<String>();
    match reflection {
        Some(reflection) => format!("# What the tools gave\n\n{results}\n# Reflection\n\n{reflection}"),
        None => format!("# What the tools gave\n\n{results}"),
    }
}

/// Asks for the answer, in different words when the work was cut short.
pub(super) fn answer(request: &str, draft: Option<&str>, limited: Option<Limited>) -> String {
    let text = if limited.is_some() { filled(SPENT, &[("request", request)]) } else { ANSWER.to_owned() };
    match draft.filter(|draft| !draft.trim().is_empty()) {
        Some(draft) => format!("{}\n\nStart from this draft:\n\n{draft}", text.trim_end()),
        None => text.trim_end().to_owned(),
    }
}

/// Asks for a text with citation marks inserted.
pub(super) fn cite_pass(text: &str, sources: &[Cited], rules: &str) -> Vec<ChatMessage> {
    let sources: String =
        sources.iter().map(|source| format!("ID: {}\n{}\n\n", source.number, source.chunk.content)).collect();
    let values = [("rules", rules), ("sources", cut(&sources, SOURCES_TOKENS))];
    vec![system(filled(CITE_PASS, &values)), user(text)]
}

fn described(tools: &[ToolSchema]) -> String {
    let one = |tool: &ToolSchema| format!("## {}\n{}\n{}\n\n", tool.name, tool.description, tool.parameters);
    tools.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_inside_values_are_not_expanded() {
        assert_eq!(filled("{a} {b} {c}", &[("a", "{b}"), ("b", "x")]), "{b} x {c}");
    }

    #[test]
    fn no_prompt_keeps_an_unfilled_placeholder() {
        let options =
            PlannerOptions { days: ["1".into(), "2".into(), "3".into()], ..PlannerOptions::default() };
        let texts = [
            rewrite(&[], &options)[0].text.clone(),
            next_step("the plan", &[], &options).text,
            correct("it is prose"),
            answer("r", Some("d"), Some(Limited::MaxRounds)),
            cite_pass("t", &[], "rules")[0].text.clone(),
        ];
        for text in texts {
            for open in [
                "{today}",
                "{yesterday}",
                "{plan}",
                "{tools}",
                "{problem}",
                "{request}",
                "{rules}",
                "{sources}",
                "{language}",
            ] {
                assert!(!text.contains(open), "{open} in {text}");
            }
        }
        assert!(answer("r", Some("d"), Some(Limited::MaxRounds)).ends_with("\n\nd"));
    }
}
