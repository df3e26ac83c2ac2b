//! Retries a request without the schema of the answer when a server rejects requests that contain one.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::{StreamExt as _, stream};
use hashlink::LruCache;
use weft_core::seam::chat_model::{ChatDelta, ChatModel, ChatRequest, ChatStream, ModelInfo};
use weft_core::{ErrorKind, Json, Result, async_trait};

use crate::opening::opened;

/// Maximum number of rejected schemas that are remembered; the ones used least recently are forgotten first.
const SCHEMAS_MAX: usize = 256;

/// A model whose server may not support the parameter for the form of an answer, or not every schema in it. After a
/// rejection it is asked again without the parameter, because the form is in the prompt as well and the answer is
/// validated anyway.
#[derive(Debug)]
pub(crate) struct AnswerForm<M> {
    model: M,
    /// Digests of the schemas that were rejected while this process lives. By schema: that of one canvas may be one
    /// that the server does not accept, and must not take the form away from all others.
    refused: Mutex<LruCache<u64, ()>>,
}

impl<M: ChatModel> AnswerForm<M> {
    pub(crate) fn new(model: M) -> Self {
        Self { model, refused: Mutex::new(LruCache::new(SCHEMAS_MAX)) }
    }

    fn refused(&self) -> MutexGuard<'_, LruCache<u64, ()>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_refused(&self, schema: u64) -> bool {
        self.refused().get(&schema).is_some()
    }

    fn warning(&self) -> ChatDelta {
        ChatDelta::Warning(format!(
            "the server of `{}` rejects requests with this answer format; they are sent without it (set \
             `structured_output = \"prompt\"` at its entry in `models` to omit answer formats from the start)",
            self.info().name
        ))
    }
}

fn digest(schema: &Json) -> u64 {
    let mut hasher = DefaultHasher::new();
    schema.to_string().hash(&mut hasher);
    hasher.finish()
}

#[async_trait]
impl<M: ChatModel> ChatModel for AnswerForm<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
        let Some(schema) = request.schema.as_ref().map(digest) else {
            return self.model.chat(request).await;
        };
        let plain = ChatRequest { schema: None, ..request.clone() };
        if self.is_refused(schema) {
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
                self.refused().insert(schema, ());
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
    async fn a_refused_schema_does_not_switch_the_format_off_for_others() {
        let model = ScriptedModel::from_fn(|request, _| match &request.schema {
            Some(schema) if schema["type"] != "object" => Reply::error(ErrorKind::Invalid, "not an object"),
            _ => Reply::text("{}"),
        });
        let form = AnswerForm::new(model.clone());
        let list = ChatRequest { schema: Some(json!({"type": "array"})), ..ChatRequest::default() };
        for request in [list.clone(), asking(), list] {
            form.chat(request).await.unwrap().collect::<Vec<_>>().await;
        }
        let named: Vec<bool> = model.requests().iter().map(|request| request.schema.is_some()).collect();
        assert_eq!(named, [true, false, true, false]);
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
