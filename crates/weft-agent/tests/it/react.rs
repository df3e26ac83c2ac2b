//! The agent for programs: its replies.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use weft_agent::message::Role;
use weft_agent::react::{
    FINISH_FUNCTION, FinishStyle, Hints, Output, Preset, ReActAgent, ReplyOptions, Settings,
    StructuredOutput, ToolCalls,
};
use weft_agent::toolkit::Toolkit;
use weft_core::budget::BudgetLimits;
use weft_core::seam::chat_model::{Author, ToolChoice};
use weft_core::{Error, ErrorKind, Tool};
use weft_models::{Reply, ScriptedModel};

use crate::react_kit::{ada, call, finish, is_tidy, look, printed, remembered, script, session, shown, slow};

#[tokio::test]
async fn the_finish_function_is_always_offered_and_ends_the_reply() {
    let model = script([call("x"), finish("It is x.")]);
    let mut session = session(&model);
    let reply = session.reply("Q").await.unwrap();
    assert_eq!(
        (reply.text().as_str(), reply.role, reply.name.as_str()),
        ("It is x.", Role::Assistant, "Ada")
    );
    let asked = model.requests();
    assert_eq!(asked.len(), 2, "a finished reply sends no more requests");
    for request in &asked {
        let finish = request.tools.iter().find(|tool| tool.name == FINISH_FUNCTION).unwrap();
        assert_eq!(finish.parameters["properties"]["response"]["type"], "string");
        assert_eq!(finish.parameters["required"], json!(["response"]));
        assert!(request.tools.iter().any(|tool| tool.name == "look"));
    }
    let alone = ReActAgent::builder("Bo", Arc::new(script([finish("hi")]))).build().unwrap();
    assert_eq!(alone.session().reply("Q").await.unwrap().text(), "hi", "without tools, too");
}

#[tokio::test]
async fn memory_keeps_records_in_order() {
    let mut session = session(&script([call("x"), finish("It is x.")]));
    session.reply("Q").await.unwrap();
    let expected = [
        "user:Q",
        "assistant:ask look{\"q\":\"x\"}",
        "system:=found x",
        "assistant:ask generate_response{\"response\":\"It is x.\"}",
        "system:=The response has been given.",
        "assistant:It is x.",
    ];
    assert_eq!(remembered(session.memory()), expected);
}

#[tokio::test]
async fn plain_text_counts_as_a_call_of_the_finish_function() {
    let model = script([Reply::text("Hello there.").thinking("hm")]);
    let mut session = session(&model);
    assert_eq!(session.reply("Q").await.unwrap().text(), "Hello there.");
    let expected = [
        "user:Q",
        "assistant:(hm)+ask generate_response{\"response\":\"Hello there.\"}",
        "system:=The response has been given.",
        "assistant:Hello there.",
    ];
    assert_eq!(remembered(session.memory()), expected);
    assert!(is_tidy(session.memory()));
}

#[tokio::test]
async fn plain_text_may_end_a_reply() {
    let model = script([call("x"), Reply::text("It is x."), city(7, "Tiber")]);
    let settings = Settings { finish: FinishStyle::Text, ..Settings::default() };
    let mut session = ada(&model).settings(settings).build().unwrap().session();
    session.hooks().post_reply.add("sign", |_, mut reply| async move {
        reply.metadata.insert("signed".to_owned(), json!(true));
        Ok(Some(reply))
    });
    let reply = session.reply("Q").await.unwrap();
    assert_eq!(reply.text(), "It is x.");
    let expected = ["user:Q", "assistant:ask look{\"q\":\"x\"}", "system:=found x", "assistant:It is x."];
    assert_eq!(remembered(session.memory()), expected);
    assert_eq!(session.memory().messages().last(), Some(&reply), "as changed by the hook");
    assert_eq!(model.requests()[0].tools.len(), 1, "no function to finish with");
    session.hooks().clear();
    let (_, value) = session.reply_as::<City>("Q").await.unwrap();
    assert_eq!(value.unwrap().people, Some(7), "a value still comes through the function");
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct City {
    /// Its name.
    name: String,
    /// How many live there.
    people: Option<u32>,
    river: River,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
struct River(String);

impl TryFrom<String> for River {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name == "Styx" { Err("there is no such river".to_owned()) } else { Ok(Self(name)) }
    }
}

fn city(people: impl Into<Json>, river: &str) -> Reply {
    let people: Json = people.into();
    let arguments = json!({"response": "Here.", "name": "Rome", "people": people, "river": river});
    Reply::call(FINISH_FUNCTION, arguments)
}

#[tokio::test]
async fn a_reply_returns_a_typed_value() {
    let model = script([city(7, "Tiber"), finish("plain")]);
    let mut session = session(&model);
    let (reply, value) = session.reply_as::<City>("Q").await.unwrap();
    assert_eq!(reply.text(), "Here.");
    assert_eq!(Json::Object(reply.metadata), json!({"name": "Rome", "people": 7, "river": "Tiber"}));
    let river = River("Tiber".to_owned());
    assert_eq!(value, Some(City { name: "Rome".to_owned(), people: Some(7), river }));
    assert!(session.reply("and now?").await.unwrap().metadata.is_empty());
    let fields = |request: usize| {
        let requests = model.requests();
        let finish = requests[request].tools.iter().find(|tool| tool.name == FINISH_FUNCTION).unwrap();
        let properties = finish.parameters["properties"].as_object().unwrap().clone();
        (properties.keys().cloned().collect::<Vec<_>>(), finish.parameters["required"].clone())
    };
    let names = ["response", "name", "people", "river"].map(str::to_owned).to_vec();
    assert_eq!(fields(0), (names, json!(["response", "name", "river"])));
    assert_eq!(fields(1), (vec!["response".to_owned()], json!(["response"])), "no field stays behind");
}

#[tokio::test]
async fn a_value_may_not_have_a_response_field() {
    #[derive(Deserialize, JsonSchema)]
    struct Clash {
        #[expect(dead_code, reason = "only its name counts")]
        response: String,
    }
    let model = script([]);
    let mut session = session(&model);
    let refused = session.reply_as::<Clash>("Q").await.err().unwrap();
    assert_eq!(refused.kind, ErrorKind::Invalid);
    assert!(refused.message.contains("a field `response`"), "{}", refused.message);
    assert!(session.memory().is_empty() && model.requests().is_empty(), "nothing has happened");
    assert!(StructuredOutput::with_schema(json!({"type": "string"})).is_err());
}

#[tokio::test]
async fn a_finish_is_shown_as_text_and_a_failed_one_shows_its_error_and_continues() {
    let model = script([city("many", "Tiber"), city(7, "Styx"), city(7, "Tiber")]);
    let mut session = session(&model);
    let (queue, messages) = weft_agent::react::message_queue();
    session.print_to(Some(queue));
    let stream = messages.during(async { session.reply_as::<City>("Q").await });
    let items: Vec<_> = futures::StreamExt::collect(stream).await;
    let items: Vec<_> = items.into_iter().map(weft_core::Result::unwrap).collect();
    let shown = shown(&items);
    assert_eq!(shown.len(), 5, "{shown:?}");
    assert_eq!((shown[0].as_str(), shown[2].as_str()), ("assistant:Here.!", "assistant:Here.!"));
    assert!(shown[1].starts_with("system:=") && shown[1].contains("/people"), "{shown:?}");
    assert!(shown[3].contains("there is no such river"), "{shown:?}");
    assert_eq!(shown[4], "assistant:Here.!", "no result of the finish that succeeded");
    assert_eq!(model.requests().len(), 3);
    let success = items[1].message.metadata["success"].clone();
    assert_eq!(success, json!(false));
    assert!(is_tidy(session.memory()));
}

/// A model that never finishes by itself.
fn restless() -> ScriptedModel {
    ScriptedModel::from_fn(|request, nth| match request.tool_choice {
        ToolChoice::None => Reply::text("What I know."),
        _ => call(&nth.to_string()),
    })
}

#[tokio::test]
async fn iterations_are_limited_with_a_summary_at_the_end() {
    let model = restless();
    let settings = Settings { max_iters: 3, ..Settings::default() };
    let mut session = ada(&model).settings(settings).build().unwrap().session();
    assert_eq!(session.reply("Q").await.unwrap().text(), "What I know.");
    let choices: Vec<_> = model.requests().into_iter().map(|request| request.tool_choice).collect();
    assert_eq!(choices, [ToolChoice::Auto, ToolChoice::Auto, ToolChoice::Auto, ToolChoice::None]);
    let last = model.requests().pop().unwrap().messages.pop().unwrap();
    assert!(last.author == Author::User && last.text.contains("all the steps"), "{last:?}");
    let kept = remembered(session.memory());
    assert_eq!(kept.len(), 1 + 3 * 2 + 1, "the request for a summary is not stored: {kept:?}");
    assert_eq!(session.memory().count_tool_uses(Some("look")), 3);
}

#[tokio::test]
async fn a_summary_makes_no_calls() {
    let model = script([call("x"), Reply::text("So far: x.").and_call("look", json!({"q": "y"}))]);
    let settings = Settings { max_iters: 1, ..Settings::default() };
    let mut session = ada(&model).settings(settings).build().unwrap().session();
    assert_eq!(session.reply("Q").await.unwrap().text(), "So far: x.");
    assert_eq!(session.memory().count_tool_uses(None), 1);
}

#[tokio::test]
async fn messages_have_a_timestamp() {
    let mut session = session(&script([call("x"), finish("done")]));
    let early = weft_agent::Message { timestamp_ms: 7, ..weft_agent::Message::user("Q") };
    session.observe(early).await.unwrap();
    session.reply("Q").await.unwrap();
    let times: Vec<_> = session.memory().messages().iter().map(|message| message.timestamp_ms).collect();
    assert_eq!(times[0], 7);
    assert!(
        times[1..].windows(2).all(|pair| pair[0] <= pair[1]) && times[1] > 1_700_000_000_000,
        "{times:?}"
    );
}

#[tokio::test]
async fn a_value_is_requested_at_the_round_limit_too() {
    let model = ScriptedModel::from_fn(|request, nth| match (&request.tool_choice, nth) {
        (ToolChoice::Named(_), 1) => city("many", "Tiber"),
        (ToolChoice::Named(name), _) if name == FINISH_FUNCTION => city(7, "Tiber"),
        _ => call("x"),
    });
    let settings = Settings { max_iters: 1, ..Settings::default() };
    let mut session = ada(&model).settings(settings.clone()).build().unwrap().session();
    let (_, value) = session.reply_as::<City>("Q").await.unwrap();
    assert_eq!(value.unwrap().people, Some(7));
    assert_eq!(model.requests().len(), 3);
    let forced = &model.requests()[1];
    assert_eq!(forced.tools.len(), 1, "nothing else is offered");
    assert!(forced.messages.last().unwrap().text.contains("Call the function"), "{forced:?}");
    let never = ScriptedModel::from_fn(|_, _| city("many", "Tiber"));
    let mut session = ada(&never).settings(settings).build().unwrap().session();
    assert_eq!(session.reply_as::<City>("Q").await.err().unwrap().kind, ErrorKind::Garbled);
    assert_eq!(never.requests().len(), 5);
    assert!(is_tidy(session.memory()));
}

fn three() -> Reply {
    Reply::call("a", json!({})).and_call("b", json!({})).and_call("c", json!({}))
}

#[tokio::test(start_paused = true)]
async fn tools_run_sequentially_or_in_parallel() {
    for (tool_calls, expected) in [(ToolCalls::Sequential, 900), (ToolCalls::Parallel, 300)] {
        let tools = Toolkit::new();
        for name in ["a", "b", "c"] {
            tools.register(slow(name, if name == "a" { 300 } else { 299 })).unwrap();
        }
        let settings = Settings { tool_calls, ..Settings::default() };
        let builder = ada(&script([three(), finish("done")])).toolkit(tools).settings(settings);
        let mut session = builder.build().unwrap().session();
        let begun = tokio::time::Instant::now();
        session.reply("Q").await.unwrap();
        let took = begun.elapsed();
        assert!(took.abs_diff(Duration::from_millis(expected)) < Duration::from_millis(5), "{took:?}");
        let kept = remembered(session.memory());
        assert_eq!(kept[2..5], ["system:=a done", "system:=b done", "system:=c done"]);
    }
}

#[tokio::test]
async fn a_finish_among_other_calls_runs_last_and_once() {
    let mixed = finish("first")
        .and_call("look", json!({"q": "x"}))
        .and_call(FINISH_FUNCTION, json!({"response": "second"}));
    let mut session = session(&script([mixed]));
    let order = Arc::new(Mutex::new(Vec::new()));
    let begun = Arc::clone(&order);
    session.hooks().pre_acting.add("order", move |_, call| {
        begun.lock().unwrap().push(call.name);
        async { Ok(None) }
    });
    assert_eq!(session.reply("Q").await.unwrap().text(), "first");
    assert_eq!(*order.lock().unwrap(), ["look", FINISH_FUNCTION, FINISH_FUNCTION]);
    let kept = remembered(session.memory());
    assert_eq!(kept[2..4], ["system:=The response has been given.", "system:=found x"]);
    assert!(kept[4].contains("already"), "{kept:?}");
    assert!(is_tidy(session.memory()));
}

#[test]
fn presets_bundle_settings() {
    let of = |preset| {
        let agent = ada(&script([])).preset(preset).build().unwrap();
        let Settings { max_iters, tool_calls, output, hints, .. } = agent.settings().clone();
        (max_iters, tool_calls, output, hints)
    };
    assert_eq!(of(Preset::Basic), (10, ToolCalls::Sequential, Output::Whole, Hints::Hidden));
    assert_eq!(of(Preset::Fast), (20, ToolCalls::Parallel, Output::Streamed, Hints::Hidden));
    assert_eq!(of(Preset::Debug), (3, ToolCalls::Sequential, Output::Whole, Hints::Printed));
    assert_eq!(ada(&script([])).build().unwrap().settings(), &Settings::of(Preset::Basic));
}

#[tokio::test]
async fn presets_change_how_an_agent_works() {
    let run = async |preset| {
        let model = restless();
        let mut session = ada(&model).preset(preset).build().unwrap().session();
        let (reply, items) = printed(&mut session, "Q").await;
        reply.unwrap();
        let hints = items.iter().filter(|item| item.message.name == "hint").count();
        (model.requests().len(), items.iter().filter(|item| !item.last).count() > 0, hints)
    };
    assert_eq!(run(Preset::Basic).await, (11, false, 0));
    assert_eq!(run(Preset::Fast).await, (21, true, 0));
    assert_eq!(run(Preset::Debug).await, (4, false, 1));
}

#[tokio::test]
async fn a_tool_can_be_forced_and_an_unknown_one_is_an_error() {
    let model = script([call("x"), finish("done"), finish("again")]);
    let mut session = session(&model);
    let choose = |tool_choice| ReplyOptions { tool_choice, ..ReplyOptions::default() };
    let forced = ToolChoice::Named("look".to_owned());
    session.reply_with("Q", choose(forced.clone())).await.unwrap();
    session.reply_with("Q", choose(ToolChoice::Required)).await.unwrap();
    let choices: Vec<_> = model.requests().into_iter().map(|request| request.tool_choice).collect();
    assert_eq!(choices, [forced, ToolChoice::Auto, ToolChoice::Required]);
    let before = session.memory().len();
    let unknown = session.reply_with("Q", choose(ToolChoice::Named("fly".to_owned()))).await.unwrap_err();
    assert_eq!(unknown.kind, ErrorKind::Invalid);
    assert!(unknown.full().contains("`fly`") && unknown.full().contains("look"), "{}", unknown.full());
    assert_eq!((model.requests().len(), session.memory().len()), (3, before));
}

#[tokio::test]
async fn a_tool_failure_is_text_for_the_model_which_retries() {
    let tools = Toolkit::new();
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]});
    let fails = Tool::function("look", "Looks.", schema, |arguments| async move {
        match arguments["q"].as_str() {
            Some("good") => Ok(json!("found it")),
            Some("panic") => panic!("broken"),
            _ => Err(Error::new(ErrorKind::Unavailable, "the index is away")),
        }
    });
    tools.register(fails).unwrap();
    let wrong = Reply::call("look", json!({"w": 1}));
    let model = script([
        call("bad"),
        wrong,
        Reply::call("nothing", json!({})),
        call("panic"),
        Reply::default().and_call_text("look", "{{{"),
        call("good"),
        finish("It is there."),
    ]);
    let mut session = ada(&model).toolkit(tools).build().unwrap().session();
    assert_eq!(session.reply("Q").await.unwrap().text(), "It is there.");
    let last = |request: usize| model.requests()[request].messages.last().unwrap().text.clone();
    assert!(last(1).contains("the index is away") && last(1).contains("SERVER_ERROR"), "{}", last(1));
    assert!(last(2).contains("/q"), "{}", last(2));
    assert!(last(3).contains("there is no tool `nothing`"), "{}", last(3));
    assert!(last(4).contains("the tool broke"), "{}", last(4));
    assert!(last(5).contains("not JSON"), "{}", last(5));
    assert_eq!(last(6), "found it");
    assert!(is_tidy(session.memory()));
}

#[tokio::test]
async fn a_failing_model_fails_the_reply_and_the_next_one_works() {
    let model = script([call("x"), Reply::error(ErrorKind::Invalid, "no"), finish("well")]);
    let mut session = session(&model);
    assert_eq!(session.reply("Q").await.unwrap_err().kind, ErrorKind::Invalid);
    assert!(is_tidy(session.memory()));
    assert_eq!(session.reply("again").await.unwrap().text(), "well");
    assert_eq!(session.usage().calls, 2);
}

#[tokio::test]
async fn an_empty_answer_is_retried_once() {
    let model = script([Reply::empty(), finish("hi"), Reply::empty(), Reply::empty()]);
    let mut session = session(&model);
    assert_eq!(session.reply("Q").await.unwrap().text(), "hi");
    assert_eq!(remembered(session.memory()).len(), 4, "the notice is not stored");
    assert_eq!(session.reply("Q").await.unwrap_err().kind, ErrorKind::Garbled);
}

#[tokio::test]
async fn sessions_of_one_agent_are_isolated() {
    let model = ScriptedModel::from_fn(|request, _| finish(&format!("{} messages", request.messages.len())));
    let agent = ada(&model).build().unwrap();
    let (mut one, mut two) = (agent.session(), agent.session());
    let (first, second) = tokio::join!(one.reply("one"), two.reply("two"));
    assert_eq!((first.unwrap().text(), second.unwrap().text()), ("2 messages".into(), "2 messages".into()));
    one.toolkit().register(slow("extra", 1)).unwrap();
    one.reply("more").await.unwrap();
    two.reply("more").await.unwrap();
    let asked = model.requests();
    let tools = |request: usize| asked[request].tools.len();
    assert_eq!((tools(2), tools(3)), (3, 2));
    let said = |request: usize| asked[request].messages.iter().map(|m| m.text.clone()).collect::<String>();
    assert!(!said(2).contains("two") && !said(3).contains("one"));
    assert_ne!(one.id(), two.id());
}

#[tokio::test]
async fn the_finish_function_keeps_its_name() {
    let model = script([finish("done")]);
    let mut session = session(&model);
    session.toolkit().register(slow(FINISH_FUNCTION, 1)).unwrap();
    assert_eq!(session.reply("Q").await.unwrap().text(), "done");
    let names: Vec<_> = model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["look", FINISH_FUNCTION]);
}

#[test]
fn an_invalid_agent_configuration_is_refused() {
    let model = script([]);
    let kind = |builder: weft_agent::react::ReActAgentBuilder| builder.build().err().unwrap().kind;
    assert_eq!(
        kind(ada(&model).settings(Settings { max_iters: 0, ..Settings::default() })),
        ErrorKind::Invalid
    );
    assert_eq!(kind(ada(&model.with_info(|info| info.tools = false))), ErrorKind::Invalid);
    assert_eq!(kind(ReActAgent::builder(" ", Arc::new(model.clone()))), ErrorKind::Invalid);
    let tools = Toolkit::new();
    let mut tool = look();
    tool.name = FINISH_FUNCTION.to_owned();
    tools.register(tool).unwrap();
    assert_eq!(kind(ada(&model).toolkit(tools)), ErrorKind::Conflict);
}

#[tokio::test]
async fn the_budget_of_a_reply_is_enforced() {
    let model = script([call("x"), call("y"), finish("again")]);
    let budget = BudgetLimits { model_calls: Some(2), ..BudgetLimits::default() };
    let settings = Settings { budget, ..Settings::default() };
    let mut session = ada(&model).settings(settings).build().unwrap().session();
    assert_eq!(session.reply("Q").await.unwrap_err().kind, ErrorKind::QuotaExceeded);
    assert_eq!(model.requests().len(), 2);
    assert!(is_tidy(session.memory()));
    assert_eq!(session.reply("Q").await.unwrap().text(), "again", "each reply has its own");
}

#[tokio::test]
async fn a_call_that_needs_approval_is_not_executed() {
    let tools = Toolkit::new();
    let mut tool = look();
    tool.traits.approval = true;
    tools.register(tool).unwrap();
    let mut session = ada(&script([call("x"), finish("well")])).toolkit(tools).build().unwrap().session();
    assert_eq!(session.reply("Q").await.unwrap().text(), "well");
    let kept = remembered(session.memory());
    assert!(kept[2].contains("waits for a person") && !kept[2].contains("found"), "{kept:?}");
}
