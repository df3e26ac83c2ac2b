//! Falls back to other models when one cannot answer.

use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _, stream};
use weft_core::seam::chat_model::{ChatDelta, ChatModel, ChatRequest, ChatStream, ModelInfo};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::estimate;
use crate::opening::{Opening, answered, opened};

/// A model with its fallbacks, in order. Their own fallbacks are not used, so two models may be each other's fallback
/// without requests going in a circle.
pub(crate) struct FallbackModel {
    info: ModelInfo,
    model: Arc<dyn ChatModel>,
    others: Arc<[Arc<dyn ChatModel>]>,
}

impl FallbackModel {
    pub(crate) fn new(model: Arc<dyn ChatModel>, others: Vec<Arc<dyn ChatModel>>) -> Self {
        let mut info = model.info().clone();
        // A higher number than that of any of the models would exclude that model.
        let most = others.iter().map(|other| other.info().deferred_tools_max);
        info.deferred_tools_max = most.fold(info.deferred_tools_max, usize::min);
        Self { info, model, others: others.into() }
    }
}

/// Whether another model may answer what this one could not. An invalid or filtered request is reported to the
/// caller: another provider must not be used to get around such rules.
fn is_the_models(error: &Error) -> bool {
    match error.kind {
        ErrorKind::RateLimited
        | ErrorKind::QuotaExceeded
        | ErrorKind::Unauthenticated
        | ErrorKind::Timeout
        | ErrorKind::Unavailable
        | ErrorKind::Garbled => true,
        ErrorKind::Invalid
        | ErrorKind::NotFound
        | ErrorKind::Conflict
        | ErrorKind::Denied
        | ErrorKind::Filtered
        | ErrorKind::Cancelled
        | ErrorKind::Interrupted
        | ErrorKind::Unsupported
        | ErrorKind::Internal => false,
    }
}

/// Whether a model supports this request at all.
fn takes(info: &ModelInfo, request: &ChatRequest) -> bool {
    let tokens = estimate::usage(request, "").prompt_tokens;
    let deferred = request.tools.iter().filter(|tool| tool.deferred).count();
    (info.tools || request.tools.is_empty())
        && deferred <= info.deferred_tools_max
        // A smaller model would reject a long conversation, and its error would hide why the first one failed.
        && usize::try_from(tokens).is_ok_and(|tokens| tokens < info.window)
}

/// The notice that `other` is asked instead of the model called `asked`.
fn notice(other: &dyn ChatModel, asked: &str, why: &Error) -> ChatDelta {
    let (why, name) = (why.full(), &other.info().name);
    ChatDelta::Warning(format!("the model `{asked}` could not answer: {why}; `{name}` is used instead"))
}

/// Asks `other`, preceded by the notices about all models that were asked before it and did not start to answer.
fn asking(other: Arc<dyn ChatModel>, request: ChatRequest, told: Vec<ChatDelta>) -> Opening {
    let answered_by = ChatDelta::AnsweredBy(Arc::new(other.info().clone()));
    let first = told.into_iter().chain([answered_by]);
    async move {
        let answer = opened(&*other, request).await?;
        Ok(stream::iter(first.map(Ok)).chain(answer).boxed())
    }
    .boxed()
}

#[async_trait]
impl ChatModel for FallbackModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
        let (model, audience) = (Arc::clone(&self.model), request.audience.clone());
        // Copies, because the answer is requested after this call has returned.
        let others: Vec<_> = self.others.iter().cloned().collect();
        let mut others = others.into_iter();
        let mut asked = model.info().name.clone();
        let again = request.clone();
        let first = async move { opened(&*model, request).await }.boxed();
        let mut failure: Option<Error> = None;
        let mut told = Vec::new();
        let another = move |error: Error| {
            let mut next = || others.find(|other| takes(other.info(), &again));
            let next = if is_the_models(&error) { next() } else { None };
            let Some(other) = next else { return Err(together(failure.take(), error)) };
            told.push(notice(&*other, &asked, &error));
            asked.clone_from(&other.info().name);
            let opening = asking(other, again.clone(), told.clone());
            // The first error is reported: it is that of the requested model.
            failure.get_or_insert(error);
            Ok(opening)
        };
        answered(first, audience, another).await
    }
}

/// The error of the requested model, combined with that of the last fallback.
fn together(first: Option<Error>, last: Error) -> Error {
    match first {
        None => last,
        Some(mut first) => {
            first.message.push_str(&format!(", nor could its fallbacks: {}", last.full()));
            first
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Fault, Reply, Script, Step};
    use crate::scripted::ScriptedModel;
    use weft_core::seam::chat_model::Audience;

    fn named(name: &str, script: Script) -> ScriptedModel {
        ScriptedModel::named(name, name, script)
    }

    fn failing(kind: ErrorKind) -> Script {
        Script::new().reply(Reply::error(kind, "no").always())
    }

    async fn asked(models: &[&ScriptedModel], request: ChatRequest) -> (String, Result<()>) {
        let mut models = models.iter().map(|model| Arc::new((*model).clone()) as Arc<dyn ChatModel>);
        let first = models.next().unwrap();
        let mut answer = match FallbackModel::new(first, models.collect()).chat(request).await {
            Ok(answer) => answer,
            Err(error) => return (String::new(), Err(error)),
        };
        let mut seen = Vec::new();
        while let Some(delta) = answer.next().await {
            match delta {
                Ok(ChatDelta::Text(text)) => seen.push(text),
                Ok(ChatDelta::Restarted) => seen.push("!".to_owned()),
                Ok(ChatDelta::AnsweredBy(info)) => seen.push(format!("<{}>", info.name)),
                Ok(_) => {}
                Err(error) => return (seen.concat(), Err(error)),
            }
        }
        (seen.concat(), Ok(()))
    }

    #[tokio::test]
    async fn the_first_available_model_answers_and_is_named() {
        let yes = || named("c", Script::text("yes"));
        let check = async |kind: ErrorKind, expected: Option<&str>| {
            let (a, b, c) = (named("a", failing(kind)), named("b", failing(ErrorKind::Timeout)), yes());
            let (seen, end) = asked(&[&a, &b, &c], ChatRequest::default()).await;
            assert_eq!(end.is_ok().then_some(seen.as_str()), expected, "{kind:?}");
        };
        for kind in [ErrorKind::Unavailable, ErrorKind::Unauthenticated, ErrorKind::QuotaExceeded] {
            check(kind, Some("<c>yes")).await;
        }
        for kind in [ErrorKind::Invalid, ErrorKind::Filtered, ErrorKind::Cancelled] {
            check(kind, None).await;
        }
        let (a, b) =
            (named("a", failing(ErrorKind::RateLimited)), named("b", failing(ErrorKind::Unavailable)));
        let error = asked(&[&a, &b], ChatRequest::default()).await.1.unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ErrorKind::RateLimited, "no, nor could its fallbacks: no")
        );
    }

    #[tokio::test]
    async fn a_partly_streamed_answer_is_not_repeated_by_a_fallback() {
        let cut = || Script::new().reply(Reply::text("half").then(Step::Fault(Fault::Cut)));
        let ask = async |audience: Audience| {
            let (a, b) = (named("a", cut()), named("b", Script::text("whole")));
            asked(&[&a, &b], ChatRequest { audience, ..ChatRequest::default() }).await
        };
        let (seen, end) = ask(Audience::Nobody).await;
        assert_eq!((seen.as_str(), end.is_ok()), ("half!<b>whole", true));
        let (seen, end) = ask(Audience::Listening).await;
        assert_eq!((seen.as_str(), end.is_ok()), ("half", false));
    }

    #[tokio::test]
    async fn a_model_that_cannot_take_the_request_is_skipped() {
        use weft_core::seam::chat_model::{Author, ChatMessage, ToolSchema};
        let a = named("a", failing(ErrorKind::Unavailable));
        let small = named("b", Script::text("small")).with_info(|info| info.window = 10);
        let bare = named("c", Script::text("bare")).with_info(|info| info.tools = false);
        let last = named("d", Script::text("last"));
        let tool = ToolSchema {
            name: "t".into(),
            description: String::new(),
            parameters: serde_json::json!({}),
            deferred: false,
        };
        let request = ChatRequest {
            messages: vec![ChatMessage::new(Author::User, "x ".repeat(40))],
            tools: [tool].into(),
            ..ChatRequest::default()
        };
        assert_eq!(asked(&[&a, &small, &bare, &last], request).await.0, "<d>last");
    }
}
