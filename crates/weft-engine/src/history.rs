//! Decides which messages of the conversation the models of a turn see before its question.

use weft_core::RunId;
use weft_core::context::HistoryMessage;

use crate::pause::Paused;

/// Returns the messages before a turn. The opening message is shown to users but not sent to models, a turn
/// that resumes after a wait does not see itself, and a question that was repeated because it got no answer
/// appears once.
pub(crate) fn before(
    mut messages: Vec<HistoryMessage>,
    question: &str,
    waiting: Option<&Paused>,
) -> Vec<HistoryMessage> {
    if let Some(waiting) = waiting {
        messages.truncate(beginning(&messages, waiting.turn(), question));
    }
    let opening = messages.iter().take_while(|message| message.role != USER && message.run.is_none()).count();
    messages.drain(..opening);
    // If there is no answer between a question and its repetition, the question was not answered; to a model
    // the repetition would look like impatience.
    messages.dedup_by(|later, earlier| {
        later.role == USER && earlier.role == USER && later.content == earlier.content
    });
    if messages.last().is_some_and(|last| last.role == USER && last.content == question) {
        messages.pop();
    }
    messages
}

const USER: &str = "user";

/// Returns the position where the messages of a waiting turn begin. Messages that name no run are attributed
/// by the turn's question: the runs that resume after a wait ask none of their own.
fn beginning(messages: &[HistoryMessage], turn: &RunId, question: &str) -> usize {
    let of_turn = messages.iter().position(|message| message.run.as_ref() == Some(turn));
    let asked = || messages.iter().rposition(|message| message.role == USER);
    let found = of_turn.or_else(|| asked().filter(|&place| messages[place].content == question));
    found.unwrap_or(messages.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: &str, content: &str, run: &str) -> HistoryMessage {
        let run = (!run.is_empty()).then(|| run.into());
        HistoryMessage { role: role.to_owned(), content: content.to_owned(), run }
    }

    fn check(messages: Vec<HistoryMessage>, question: &str, expected: &[&str]) {
        let found: Vec<_> =
            before(messages, question, None).into_iter().map(|message| message.content).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_prologue_is_not_sent_to_the_model() {
        let opening = || said("assistant", "Hello!", "");
        check(vec![opening()], "q", &[]);
        check(vec![opening(), said("user", "a", "1"), said("assistant", "b", "1")], "q", &["a", "b"]);
        // A turn without a question may have been the first.
        check(vec![opening(), said("assistant", "b", "1")], "q", &["b"]);
    }

    #[test]
    fn a_question_without_an_answer_is_sent_once() {
        let (q, again) = (said("user", "q", "1"), said("user", "q", "2"));
        check(vec![q.clone(), again.clone()], "q", &[]);
        check(vec![q.clone(), again.clone()], "other", &["q"]);
        check(vec![q.clone(), again, said("assistant", "a", "2")], "q", &["q", "a"]);
        check(vec![q.clone(), said("user", "r", "2")], "q", &["q", "r"]);
        check(vec![q, said("assistant", "a", "1"), said("assistant", "a", "2")], "q", &["q", "a", "a"]);
    }

    #[test]
    fn a_turn_starts_with_its_first_run_or_its_question() {
        let known = [said("user", "a", "1"), said("user", "q", "2"), said("assistant", "b", "3")];
        assert_eq!(beginning(&known, &"2".into(), "q"), 1);
        let unknown = [said("user", "q", ""), said("user", "q", ""), said("assistant", "b", "")];
        assert_eq!(beginning(&unknown, &"2".into(), "q"), 1);
        assert_eq!(beginning(&unknown, &"2".into(), "else"), 3);
    }
}
