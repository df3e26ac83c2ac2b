//! The LLM component: asks a language model once.

use std::time::Duration;

use weft_core::{Component, ComponentSpec, Finished, NodeContext, Result, Role, Shape, async_trait};

use crate::model::caller::Caller;
use crate::model::prompt::Asker;
use crate::model::settings::{self, Settings};
use crate::params::Params;

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "LLM",
    role: Role::Step,
    summary: "Queries a language model.",
    fields: &[settings::MODEL, settings::WORDS, settings::SAMPLING],
    outputs: &[
        weft_core::OutputSpec::new("content", "string", "the answer"),
        weft_core::OutputSpec::new("structured", "object", "the answer, in the form that `outputs` requires")
            .when_asked_for(),
    ],
    time_limit: Some(Duration::from_secs(600)),
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let settings = Settings::read(&mut params);
        params.finish(Llm(Caller { settings }))
    },
};

struct Llm(Caller);

#[async_trait]
impl Component for Llm {
    fn shape(&self) -> Shape {
        self.0.shape()
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        self.0.run(ctx, Asker::Canvas).await
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, Stage, ended};
    use serde_json::{Value as Json, json};
    use weft_core::citation::Chunk;
    use weft_core::context::Signal;
    use weft_core::seam::chat_model::{Audience, Author, ChatDelta, ChatRequest, StopReason};
    use weft_core::{Error, ErrorKind, Piece, Result};

    /// The request to the model.
    async fn asked(params: Json, setting: Setting) -> ChatRequest {
        asked_by(&Node::new("LLM", params), setting).await
    }

    async fn asked_by(node: &Node, setting: Setting) -> ChatRequest {
        let component = node.build();
        let stage = Stage::new(node, &*component, setting);
        stage.answer_text("ok");
        component.run(&stage.ctx).await.unwrap();
        stage.asked().remove(0)
    }

    fn lines(request: &ChatRequest) -> Vec<String> {
        request.messages.iter().map(|m| format!("{:?}: {}", m.author, m.text)).collect()
    }

    #[tokio::test]
    async fn an_answer_that_fails_its_conditions_is_retried() {
        use weft_core::context::Signal;

        let retry = json!([{"operator": "not json"}, {"output": "content", "operator": "matches", "value": r"^\[\s*\]$"}]);
        let node = Node::new("LLM", json!({"prompts": "Q", "retry_if": retry, "retry_max": "2"}));
        let component = node.build();
        assert!(!component.shape().streams);
        let stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
        stage.answer_text("sorry").answer_text("[ ]").answer_text("[1]");
        let finished = component.run(&stage.ctx).await.unwrap();
        assert_eq!((json!(finished.outputs)["content"].clone(), stage.asked().len()), (json!("[1]"), 3));
        let mut stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
        stage.answer_text("one").answer_text("two").answer_text("three");
        let finished = component.run(&stage.ctx).await.unwrap();
        assert_eq!((json!(finished.outputs)["content"].clone(), stage.asked().len()), (json!("three"), 3));
        let told =
            |signal: &Signal| matches!(signal, Signal::Warn(text) if text.starts_with("after 3 tries"));
        assert!(stage.signals().iter().any(told));
        let message = Node::new("Message", json!({"content": "x", "retry_if": [{"operator": "empty"}]}));
        assert_eq!(message.problems(), ["/retry_if"]);
        let wrong =
            Node::new("LLM", json!({"prompts": "Q", "retry_if": [{"operator": "odd"}], "retry_max": 11}));
        assert_eq!(wrong.problems(), ["/retry_max", "/retry_if/0/operator"]);
    }

    #[tokio::test]
    async fn a_call_without_offered_tools_is_reported_by_name() {
        let node = Node::new("LLM", json!({"prompts": "Q"}));
        let component = node.build();
        let stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
        let (name, arguments) = (Some("look".to_owned()), "{}".to_owned());
        stage.answer([ChatDelta::ToolCall { index: 0, id: None, name, arguments }]);
        let error = component.run(&stage.ctx).await.unwrap_err();
        assert_eq!((error.kind, stage.asked().len()), (ErrorKind::Garbled, 1));
        assert!(error.message.contains("calls the tool `look`") && error.help.is_some(), "{}", error.full());
    }

    /// Returns the same each time, and records whether a person's answer came with it.
    #[derive(Default)]
    struct Answered(std::sync::Mutex<Vec<bool>>);

    #[weft_core::async_trait]
    impl weft_core::Component for Answered {
        fn shape(&self) -> weft_core::Shape {
            weft_core::Shape { main_output: "content", ..weft_core::Shape::default() }
        }

        async fn run(&self, ctx: &weft_core::NodeContext) -> Result<weft_core::Finished> {
            self.0.lock().unwrap().push(ctx.resumed.is_some() || !ctx.filled.is_empty());
            Ok(weft_core::Outputs::of("content", weft_core::Value::text("sorry")).into())
        }
    }

    #[tokio::test]
    async fn approved_calls_are_not_repeated_on_retry() {
        let answered = std::sync::Arc::new(Answered::default());
        let node = Node::new("LLM", json!({"prompts": "Q"}));
        let retry = weft_core::retry::RetryIf::read(&json!([{"operator": "not json"}]), 2).unwrap().unwrap();
        let component = retry.around(answered.clone(), &node.source()).unwrap();
        let setting = Setting { filled: json!({"agreed": true}), ..Setting::default() };
        let mut stage = Stage::new(&node, &*component, setting);
        stage.ctx.resumed = Some(json!({"call": "call_1"}));
        component.run(&stage.ctx).await.unwrap();
        assert_eq!(*answered.0.lock().unwrap(), [true, false, false]);
    }

    #[tokio::test]
    async fn an_empty_answer_counts_as_empty_in_conditions() {
        for (kind, operator) in [("LLM", "empty"), ("LLM", "not json"), ("Agent", "empty")] {
            let retry = json!([{"operator": operator}]);
            let node = Node::new(kind, json!({"prompts": "Q", "retry_if": retry, "retry_max": 1}));
            let component = node.build();
            let stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
            stage.answer_text(" ").answer_text("[1]");
            let finished = component.run(&stage.ctx).await.unwrap();
            assert_eq!((json!(finished.outputs)["content"].clone(), stage.asked().len()), (json!("[1]"), 2));
            let stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
            stage.answer_text(" ").answer_text("");
            let error = component.run(&stage.ctx).await.unwrap_err();
            assert_eq!((error.message.as_str(), stage.asked().len()), ("the model's answer is empty", 2));
        }
        let node =
            Node::new("LLM", json!({"prompts": "Q", "retry_if": [{"operator": "contains", "value": "x"}]}));
        let component = node.build();
        let stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
        stage.answer_text("").answer_text("x");
        assert!(component.run(&stage.ctx).await.is_err());
        assert_eq!(stage.asked().len(), 1);
    }

    #[tokio::test]
    async fn the_prompt_is_assembled() {
        let check = async |params: Json, history: &[(&'static str, &'static str)], expected: &[&str]| {
            let setting = Setting { query: "Q", history: history.to_vec(), ..Setting::default() };
            assert_eq!(lines(&asked(params.clone(), setting).await), expected, "{params}");
        };
        check(json!({}), &[], &["User: Q"]).await;
        check(
            json!({"sys_prompt": "S {{sys.query}}", "prompts": "P {sys.query}"}),
            &[],
            &["System: S Q", "User: P Q"],
        )
        .await;
        let turns = [("user", "1"), ("assistant", "2"), ("user", "3"), ("assistant", "4")];
        check(json!({"message_history_window_size": 1}), &turns, &["User: 3", "Assistant: 4", "User: Q"])
            .await;
        check(json!({"message_history_window_size": "0"}), &turns, &["User: Q"]).await;
        // A turn that was never answered, and prompts of one role, are merged and not dropped.
        check(json!({}), &[("user", "lost")], &["User: lost\n\nQ"]).await;
        let prompts = json!([{"role": "user", "content": "a"}, {"role": "user", "content": "{sys.query}"},
            {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]);
        check(json!({"prompts": prompts}), &[], &["User: a\n\nQ", "Assistant: b", "User: c"]).await;
        check(
            json!({"sys_prompt": "S<PLAN_GENERATION>x</plan_generation>T"}),
            &[],
            &["System: ST", "User: Q"],
        )
        .await;
    }

    #[tokio::test]
    async fn sampling_is_sent_if_enabled() {
        let sampling =
            async |params: Json| asked(params, Setting { query: "Q", ..Setting::default() }).await.sampling;
        let none = sampling(json!({"temperature": 0.2, "top_p": 0.3, "max_tokens": 9})).await;
        assert_eq!(none, Default::default());
        let some =
            sampling(json!({"temperature": "0", "temperatureEnabled": true, "top_p": 0, "topPEnabled": true,
            "max_tokens": "256", "maxTokensEnabled": "true", "thinking": "disabled",
            "frequency_penalty": 0.5, "frequencyPenaltyEnabled": true}))
            .await;
        assert_eq!((some.temperature, some.top_p, some.max_tokens), (Some(0.0), None, Some(256)));
        assert_eq!((some.frequency_penalty, some.thinking), (Some(0.5), Some(false)));
        let low = sampling(json!({"presence_penalty": -1.5, "presencePenaltyEnabled": true,
            "frequency_penalty": "-2", "frequencyPenaltyEnabled": true}))
        .await;
        assert_eq!((low.presence_penalty, low.frequency_penalty), (Some(-1.5), Some(-2.0)));
        let none = sampling(json!({"presence_penalty": 0, "presencePenaltyEnabled": true,
            "frequency_penalty": -1, "frequencyPenaltyEnabled": false}))
        .await;
        assert_eq!(none, Default::default());
    }

    /// The canvas's retries are used, and nothing is left to the model's own settings.
    #[tokio::test]
    async fn retries_come_from_the_canvas() {
        let check = async |params: Json, retries: Option<u32>, delay: Option<u64>| {
            let request = asked(params.clone(), Setting { query: "Q", ..Setting::default() }).await;
            let delay = delay.map(std::time::Duration::from_secs);
            assert_eq!((request.retries_max, request.retry_delay), (retries, delay), "{params}");
        };
        check(json!({}), None, None).await;
        check(json!({"max_retries": null}), None, None).await;
        check(json!({"max_retries": ""}), None, None).await;
        check(json!({"max_retries": 0}), Some(0), None).await;
        check(json!({"max_retries": 3}), Some(3), None).await;
        check(json!({"max_retries": "2", "delay_after_error": 1}), Some(2), Some(1)).await;
        check(json!({"delay_after_error": "4"}), None, Some(4)).await;
        assert_eq!(Node::new("LLM", json!({"max_retries": "x"})).problems(), ["/max_retries"]);
    }

    /// An answer that no message shows has no listener: it may be restarted.
    #[tokio::test]
    async fn a_request_states_whether_it_has_listeners() {
        for heard in [true, false] {
            let request = asked(json!({}), Setting { query: "Q", heard, ..Setting::default() }).await;
            assert_eq!(matches!(request.audience, Audience::Readers(_)), heard);
            assert_eq!(request.audience == Audience::Nobody, !heard);
        }
    }

    /// An image URL is fetched by the model's server: canvases may not send it to addresses they may not access
    /// themselves.
    #[tokio::test]
    async fn image_urls_are_subject_to_address_rules() {
        let node = Node::new("LLM", json!({"visual_files_var": "sys.files", "prompts": "{sys.query}"}));
        let check = async |files: Json, expected: Result<usize, ErrorKind>| {
            let mut setting = Setting { query: "Q", ..Setting::default() };
            setting.values.insert("sys.files", files.clone().into());
            let component = node.build();
            let stage = Stage::new(&node, &*component, setting);
            stage.answer_text("ok");
            let ran = component.run(&stage.ctx).await;
            let images = |_| stage.asked()[0].messages.last().unwrap().images.len();
            assert_eq!(ran.map(images).map_err(|error| error.kind), expected, "{files}");
        };
        check(json!(["https://img.example/a.png", "data:image/png;base64,AA"]), Ok(2)).await;
        check(json!(["http://127.0.0.1:8080/a.png"]), Err(ErrorKind::Denied)).await;
        check(json!(["data:image/png;base64,AA", "http://localhost/a.png"]), Err(ErrorKind::Denied)).await;
    }

    #[tokio::test]
    async fn citation_rules_are_added_when_there_are_sources() {
        let system = async |params: Json, cited: Vec<Chunk>| {
            let request = asked(params, Setting { query: "Q", cited, ..Setting::default() }).await;
            lines(&request)[0].clone()
        };
        let chunk = || vec![Chunk::default()];
        assert!(system(json!({"sys_prompt": "S"}), chunk()).await.contains("[ID:3]"));
        assert_eq!(system(json!({"sys_prompt": "S"}), Vec::new()).await, "System: S");
        assert_eq!(system(json!({"sys_prompt": "S", "cite": false}), chunk()).await, "System: S");
        let own = json!({"sys_prompt": "S<CITATION_GUIDELINES>mine</CITATION_GUIDELINES>"});
        assert_eq!(system(own, chunk()).await, "System: S\n\nmine");
    }

    #[tokio::test]
    async fn images_are_sent() {
        let files = vec![json!("data:image/png;base64,AA")];
        let setting = || Setting { query: "Q", files: files.clone(), ..Setting::default() };
        let request = asked(json!({"visual_files_var": ""}), setting()).await;
        assert_eq!(lines(&request), ["User: Q"]);
        assert_eq!(request.messages[0].images, ["data:image/png;base64,AA"]);
        let mut with_files = setting();
        with_files.values.insert("sys.files", json!(files).into());
        let request = asked(json!({"prompts": "{sys.files} {sys.query}"}), with_files).await;
        assert_eq!(lines(&request), ["User: [] Q"]);
        assert_eq!(request.messages[0].images.len(), 1);
    }

    #[tokio::test]
    async fn file_texts_are_sent_unless_iterated_one_by_one() {
        let setting =
            || Setting { query: "Q", files: vec![json!("one"), json!("two")], ..Setting::default() };
        let node = || Node::new("LLM", json!({"prompts": "{sys.query}"}));
        assert_eq!(lines(&asked_by(&node(), setting()).await), ["User: Q\n\none\n\ntwo"]);
        let over = |items: &str| node().inside("Iteration:I", json!({"items_ref": items}));
        for files in ["sys.files", "{sys.files}"] {
            assert_eq!(lines(&asked_by(&over(files), setting()).await), ["User: Q"], "{files}");
        }
        assert_eq!(lines(&asked_by(&over("Agent:A@list"), setting()).await), ["User: Q\n\none\n\ntwo"]);
    }

    #[tokio::test]
    async fn an_empty_prompt_is_an_error() {
        let node = Node::new("LLM", json!({}));
        let error = crate::testing::failure(&node, Setting::default()).await;
        assert_eq!(error.kind, ErrorKind::Invalid);
        let missing = Node::new("LLM", json!({"llm_id": "missing"}));
        assert_eq!(crate::testing::failure(&missing, Setting::default()).await.kind, ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn excess_history_is_dropped_and_the_question_kept() {
        let long: &'static str = Box::leak("x".repeat(4_000).into_boxed_str());
        let setting =
            Setting { query: "Q", history: vec![("user", long), ("assistant", "a")], ..Setting::default() };
        assert_eq!(lines(&asked(json!({"llm_id": "small"}), setting).await), ["User: Q"]);
    }

    /// Runs a node whose model answers with these deltas: returns the chunks that a listener sees, and the
    /// result.
    async fn heard(
        params: Json,
        answer: Result<Vec<ChatDelta>>,
    ) -> (Vec<String>, Result<Json>, Option<ErrorKind>) {
        let node = Node::new("LLM", params);
        let component = node.build();
        let mut stage =
            Stage::new(&node, &*component, Setting { query: "Q", heard: true, ..Setting::default() });
        stage.outside.answers.lock().unwrap().push(answer);
        let result = component.run(&stage.ctx).await.map(|finished| json!(finished.outputs));
        let mut pieces = Vec::new();
        let mut end = None;
        for signal in stage.signals() {
            let Signal::Publish(name, text) = signal else { continue };
            assert_eq!(&*name, "content");
            let mut reader = text.read();
            loop {
                match reader.next().await {
                    Ok(Some(Piece::Text(text))) => pieces.push(text.to_string()),
                    Ok(Some(Piece::Thinking(text))) => pieces.push(format!("({text})")),
                    Ok(None) => break,
                    Err(error) => {
                        end = Some(error.kind);
                        break;
                    }
                }
            }
        }
        (pieces, result, end)
    }

    fn text(text: &str) -> ChatDelta {
        ChatDelta::Text(text.to_owned())
    }

    #[tokio::test]
    async fn a_listener_gets_chunks_as_they_arrive() {
        let deltas =
            vec![ChatDelta::Thinking("hm".to_owned()), text("a"), text("b"), ended(StopReason::Stop)];
        let (pieces, result, end) = heard(json!({}), Ok(deltas)).await;
        assert_eq!(pieces, ["(hm)", "a", "b"]);
        assert_eq!((result.unwrap(), end), (json!({"content": "ab"}), None));
    }

    /// After a search without hits, no mark has a source.
    #[tokio::test]
    async fn after_a_search_marks_without_a_source_are_removed() {
        for (params, searched, expected) in [
            (json!({"cite": true}), true, "So it is."),
            (json!({"cite": false}), true, "So it is [ID:1]."),
            (json!({"cite": true}), false, "So it is [ID:1]."),
        ] {
            let node = Node::new("LLM", params);
            let component = node.build();
            let mut stage =
                Stage::new(&node, &*component, Setting { query: "Q", heard: true, ..Setting::default() });
            if searched {
                stage.ctx.run.citations.note_search();
            }
            stage.answer([text("So it is [I"), text("D:1].")]);
            let outputs = json!(component.run(&stage.ctx).await.unwrap().outputs);
            assert_eq!(outputs["content"], expected);
            for signal in stage.signals() {
                let Signal::Publish(_, shared) = signal else { continue };
                assert_eq!(shared.text().await.unwrap(), expected);
            }
        }
    }

    #[tokio::test]
    async fn a_failure_breaks_the_stream_unless_a_default_ends_it() {
        let broken = || Ok(vec![text("a"), ChatDelta::Warning("break".to_owned())]);
        let (pieces, result, end) = heard(json!({}), broken()).await;
        assert_eq!((pieces, end), (vec!["a".to_owned()], Some(ErrorKind::Unavailable)));
        assert_eq!(result.unwrap_err().kind, ErrorKind::Unavailable);

        let params = json!({"exception_method": "comment", "exception_default_value": "sorry"});
        let (pieces, result, end) = heard(params, broken()).await;
        assert_eq!((pieces, end), (vec!["a".to_owned(), "sorry".to_owned()], None));
        assert!(result.is_err());

        // With an exception branch nothing is shown early.
        let params = json!({"exception_method": "goto", "exception_goto": ["Agent:B"]});
        let (pieces, result, _) = heard(params, broken()).await;
        assert!(pieces.is_empty() && result.is_err());
    }

    #[tokio::test]
    async fn unusable_answers_are_failures() {
        let check = async |deltas: Vec<ChatDelta>, expected: ErrorKind| {
            let (_, result, _) = heard(json!({}), Ok(deltas)).await;
            assert_eq!(result.unwrap_err().kind, expected);
        };
        check(vec![ended(StopReason::Stop)], ErrorKind::Garbled).await;
        check(vec![ChatDelta::Thinking("hm".to_owned()), ended(StopReason::Length)], ErrorKind::Garbled)
            .await;
        check(vec![text("a"), ended(StopReason::Filtered)], ErrorKind::Filtered).await;
        check(vec![text("a")], ErrorKind::Garbled).await;
        let (_, result, _) = heard(json!({}), Err(Error::new(ErrorKind::RateLimited, "slow down"))).await;
        assert_eq!(result.unwrap_err().kind, ErrorKind::RateLimited);
    }

    #[tokio::test]
    async fn a_structured_answer_is_checked_and_repaired() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let node =
            Node::new("LLM", json!({"outputs": {"structured": schema}, "sys_prompt": "S", "max_retries": 1}));
        let component = node.build();
        assert!(!component.shape().streams);
        let setting = || Setting { query: "Q", heard: true, ..Setting::default() };

        let mut stage = Stage::new(&node, &*component, setting());
        stage.answer_text("{\"n\": \"x\"}").answer_text("```json\n{\"n\": 4}\n```");
        let finished = component.run(&stage.ctx).await.unwrap();
        assert_eq!(json!(finished.outputs), json!({"structured": {"n": 4}}));
        let asked = stage.asked();
        assert_eq!(asked[0].schema.as_ref(), Some(&schema));
        assert!(asked[0].messages[0].text.contains("JSON schema"));
        let complaint = asked[1].messages.last().unwrap();
        assert!(complaint.author == Author::User && complaint.text.contains("/n"), "{}", complaint.text);
        let used = stage.signals().iter().filter(|signal| matches!(signal, Signal::Used(_))).count();
        assert_eq!(used, 2);

        let stage = Stage::new(&node, &*component, setting());
        stage.answer_text("no").answer_text("no").answer_text("no");
        assert_eq!(component.run(&stage.ctx).await.unwrap_err().kind, ErrorKind::Garbled);
        assert_eq!(stage.asked().len(), 3);
    }

    #[test]
    fn problems_are_all_reported_and_a_missing_model_is_not_one() {
        let node = Node::new(
            "LLM",
            json!({"llm_id": "", "temperature": 9, "temperatureEnabled": true,
            "prompts": [{"role": "robot", "content": ""}], "visual_files_var": "nothing"}),
        );
        assert_eq!(node.problems(), ["/prompts/0/role", "/temperature", "/visual_files_var"]);
        let shape = Node::new("LLM", json!({"output_structure": ["a"]})).build().shape();
        assert_eq!(shape.warnings.len(), 1);
        assert_eq!(shape.models, [("/llm_id".to_owned(), String::new())]);
    }
}
