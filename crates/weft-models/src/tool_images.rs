//! Moves images of tool results, for wire formats whose tool results are plain text.

use std::borrow::Cow;

use weft_core::seam::chat_model::{Author, ChatMessage};

/// The text before the images.
const INTRODUCTION: &str = "Images from the results above:";

/// The messages, with the images of each round's results moved to a user message after the round.
pub(crate) fn after_results(messages: &[ChatMessage]) -> Cow<'_, [ChatMessage]> {
    let holds = |message: &ChatMessage| message.author == Author::Tool && !message.images.is_empty();
    if !messages.iter().any(holds) {
        return Cow::Borrowed(messages);
    }
    let mut placed = Vec::with_capacity(messages.len() + 1);
    let mut images = Vec::new();
    for message in messages {
        if message.author != Author::Tool {
            placed.extend(images_message(&mut images));
            placed.push(message.clone());
            continue;
        }
        images.extend(message.images.iter().cloned());
        placed.push(ChatMessage { images: Vec::new(), ..message.clone() });
    }
    placed.extend(images_message(&mut images));
    Cow::Owned(placed)
}

fn images_message(images: &mut Vec<String>) -> Option<ChatMessage> {
    let images = std::mem::take(images);
    (!images.is_empty()).then(|| ChatMessage { images, ..ChatMessage::new(Author::User, INTRODUCTION) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_follow_the_results_of_their_round() {
        let result = |id: &str, images: &[&str]| ChatMessage {
            images: images.iter().map(|image| (*image).to_owned()).collect(),
            ..ChatMessage::tool(id, id)
        };
        let said = |text: &str| ChatMessage::new(Author::Assistant, text);
        let with = |images: &[&str]| ChatMessage {
            images: images.iter().map(|image| (*image).to_owned()).collect(),
            ..ChatMessage::new(Author::User, INTRODUCTION)
        };
        let messages =
            [said("1"), result("a", &["x"]), result("b", &["y", "z"]), said("2"), result("c", &["w"])];
        let expected = [
            said("1"),
            result("a", &[]),
            result("b", &[]),
            with(&["x", "y", "z"]),
            said("2"),
            result("c", &[]),
            with(&["w"]),
        ];
        assert_eq!(after_results(&messages).as_ref(), expected);
        let plain = [said("1"), result("a", &[])];
        assert!(matches!(after_results(&plain), Cow::Borrowed(_)));
    }
}
