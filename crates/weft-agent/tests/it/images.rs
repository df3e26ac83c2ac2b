//! Images returned by tools, and models that accept none.

use std::sync::Arc;

use serde_json::json;
use weft_core::ErrorKind;
use weft_core::seam::chat_model::ChatRequest;
use weft_core::tool::{Block, ToolOutput};
use weft_testkit::Reply;

use crate::kit::World;

/// A model without image support refuses the request; the work continues with the texts, and the run is told.
#[tokio::test]
async fn images_that_a_model_refuses_are_left_out() {
    let refusal = || Reply::error(ErrorKind::Invalid, "image_url is not supported");
    let check = async |replies: Vec<Reply>, expected: &[usize], warnings: usize| {
        let world = World::new(replies);
        world.echo("draw", |tool| {
            tool.postprocess = Some(Arc::new(|_, _| {
                let url = "data:image/png;base64,AA".to_owned();
                Some(ToolOutput { blocks: vec![Block::Image { url }], ..ToolOutput::default() })
            }));
        });
        let answer = world.ask().await;
        let images =
            |request: &ChatRequest| request.messages.iter().map(|message| message.images.len()).sum();
        assert_eq!(world.asked().iter().map(images).collect::<Vec<usize>>(), expected);
        let told = world.signals().into_iter().filter(|signal| signal.contains("images returned by tools"));
        assert_eq!(told.count(), warnings);
        answer.map(|answer| answer.text).map_err(|error| error.kind)
    };
    let draw = || Reply::call("draw", json!({"q": "x"}));
    let seen = check(vec![draw(), Reply::text("seen")], &[0, 1], 0).await;
    assert_eq!(seen, Ok("seen".to_owned()));
    let unseen = check(vec![draw(), refusal(), Reply::text("unseen")], &[0, 1, 0], 1).await;
    assert_eq!(unseen, Ok("unseen".to_owned()));
    assert_eq!(check(vec![draw(), refusal(), refusal()], &[0, 1, 0], 1).await, Err(ErrorKind::Invalid));
}
