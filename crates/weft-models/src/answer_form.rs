//! Retries a request without the schema of the answer when a server rejects requests that contain one.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use weft_core::seam::chat_model::{ChatDelta, ChatModel, ChatRequest, ChatStream, ModelInfo};
use weft_core::{ErrorKind, Result};

use crate::opening::opened;

/// A model whose server may not support the parameter for the form of an answer. After a rejection it is asked again
/// without the parameter, because the form is in the prompt as well and the answer is validated anyway; the rejection
/// is remembered while the process lives.
#[derive(Debug)]
pub(crate) struct AnswerForm<M> {
    model: M,
    refused: AtomicBool,
}

impl<M: ChatModel> AnswerForm<M> {
    pub(crate) fn new(model: M) -> Self {
        Self { model, refused: AtomicBool::new(false) }
    }

    fn warning(&self) -> ChatDelta {
        ChatDelta::Warning(format!(
            "the server of `{}` rejects requests with an answer format; they are sent without it (set \
             `structured_output = \"prompt\"` at its entry in `models` to omit it from the start)",
            self.info().name
        ))
    }
}

#[async_trait]
impl<M: ChatModel> ChatModel for AnswerForm<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
        if request.schema.is_none() {
            return self.model.chat(request).await;
        }
        let plain = ChatRequest { schema: None, ..request.clone() };
        if self.refused.load(Ordering::Relaxed) {
            return self.model.chat(plain).await;
        }
        let refusal = match opened(&self.model, request).await {
            // Servers reject an unknown parameter in the same way as any other mistake.
            Err(error) if error.kind == ErrorKind::Invalid => error,
            other => return other,
        };
        match opened(&self.model, plain).await {
            Ok(answer) => {
                // Only now is it known that the form was the reason.
                self.refused.store(true, Ordering::Relaxed);
                Ok(stream::iter([Ok(self.warning())]).chain(answer).boxed())
            }
            // The form was not the reason: the error of the original request is returned.
            Err(error) if error.kind == ErrorKind::Invalid => Err(refusal),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Reply, Script};
    use crate::scripted::ScriptedModel;
    use serde_json::json;

    fn asking() -> ChatRequest {
        ChatRequest { schema: Some(json!({"type": "object"})), ..ChatRequest::default() }
    }

    fn strict() -> ScriptedModel {
        ScriptedModel::from_fn(|request, _| match request.schema {
            Some(_) => Reply::error(ErrorKind::Invalid, "unknown parameter: response_format"),
            None => Reply::text("{}"),
        })
    }

    #[tokio::test]
    async fn a_refused_format_is_dropped_and_remembered() {
        let model = strict();
        let form = AnswerForm::new(model.clone());
        for (requests, warnings) in [(2, 1), (3, 0)] {
            let answer: Vec<_> = form.chat(asking()).await.unwrap().map(Result::unwrap).collect().await;
            let warned = answer.iter().filter(|delta| matches!(delta, ChatDelta::Warning(_))).count();
            assert!(answer.contains(&ChatDelta::Text("{}".to_owned())), "{answer:?}");
            assert_eq!((model.requests().len(), warned), (requests, warnings));
        }
    }

    #[tokio::test]
    async fn a_request_refused_without_the_format_says_nothing_about_it() {
        let model = ScriptedModel::new(
            Script::new()
                .reply(Reply::error(ErrorKind::Invalid, "too long").times(2))
                .reply(Reply::text("{}").always()),
        );
        let form = AnswerForm::new(model.clone());
        let error = form.chat(asking()).await.err().unwrap();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Invalid, "too long"));
        form.chat(asking()).await.unwrap().collect::<Vec<_>>().await;
        assert!(model.requests()[2].schema.is_some(), "the format is sent again");
        let model = ScriptedModel::new(Script::new().reply(Reply::error(ErrorKind::Unavailable, "busy")));
        let error = AnswerForm::new(model.clone()).chat(asking()).await.err().unwrap();
        assert_eq!((error.kind, model.requests().len()), (ErrorKind::Unavailable, 1));
    }
}
