//! A question that is researched in several searches.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use weft_agent::research::{
    Effort, Findings, Found, Limits, Mode, Research, Source, SourceKind, StopReason, tags,
};
use weft_core::citation::Chunk;
use weft_core::seam::chat_model::{ChatMessage, ChatRequest};
use weft_core::{Error, ErrorKind, NodeContext, Result, async_trait};
use weft_testkit::Reply;

use crate::kit::World;

/// A source that has one passage for each query, named after it, or fails.
struct Stub {
    kind: SourceKind,
    failure: Option<ErrorKind>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    fn new(kind: SourceKind) -> Self {
        Self { kind, failure: None, asked: Arc::default() }
    }

    fn failing(kind: SourceKind, failure: ErrorKind) -> Self {
        Self { failure: Some(failure), ..Self::new(kind) }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Source for Stub {
    fn kind(&self) -> SourceKind {
        self.kind
    }

    async fn search(&self, ctx: &NodeContext, query: &str) -> Result<Found> {
        self.asked.lock().unwrap().push(query.to_owned());
        if let Some(kind) = self.failure {
            return Err(Error::new(kind, "it is away"));
        }
        // Everything about rain is one passage.
        let id = if query.contains("rain") { "rain" } else { query };
        let id = format!("{} {id}", self.kind.name());
        let chunk = Chunk { id: id.clone(), content: format!("passage about {id}"), ..Chunk::default() };
        let cited = ctx.run.citations.number([chunk]);
        let text = cited.iter().map(|one| format!("ID: {}\n{}", one.number, one.chunk.content)).collect();
        Ok(Found { cited, text })
    }
}

/// The findings, and what was shown.
async fn looked_into(
    world: &World,
    sources: &[&dyn Source],
    mode: Mode,
    limits: Limits,
) -> (Result<Findings>, String) {
    let request = |messages: Vec<ChatMessage>| ChatRequest { messages, ..ChatRequest::default() };
    let research =
        Research { ctx: &world.ctx, model: &world.model, request: &request, sources, mode, limits };
    let mut shown = String::new();
    let findings = research.run("Why is it wet?", &mut |text| shown.push_str(text)).await;
    tokio::task::yield_now().await;
    (findings, shown)
}

async fn iterative(world: &World, sources: &[&dyn Source], limits: Limits) -> (Findings, String) {
    let (findings, shown) = looked_into(world, sources, Mode::Iterative, limits).await;
    (findings.unwrap(), shown)
}

fn texts(world: &World, request: usize) -> Vec<String> {
    world.model.requests()[request].messages.iter().map(|message| message.text.clone()).collect()
}

#[tokio::test]
async fn tagged_queries_are_executed_and_never_shown() {
    let reasoning = format!("I need two things. {} {}", tags::query("rain in April"), tags::query("snow"));
    let world = World::new([
        Reply::text(reasoning),
        Reply::text("What was found: it rains [ID:0]."),
        Reply::text("What was found: it snows [ID:1]."),
        Reply::text("That is enough."),
    ]);
    let datasets = Stub::new(SourceKind::Dataset);
    let (findings, shown) = iterative(&world, &[&datasets], Limits::default()).await;
    assert_eq!(datasets.asked(), ["rain in April", "snow"]);
    assert_eq!(findings.stopped, StopReason::Enough);
    assert!(!shown.contains("<|"), "{shown}");
    for part in ["I need two things.", "Searching for “snow”", "it rains [ID:0]", "That is enough."] {
        assert!(shown.contains(part), "{shown}");
    }
    let queries: Vec<_> = findings.queries.iter().map(|query| (query.query.as_str(), query.hits)).collect();
    assert_eq!(queries, [("rain in April", 1), ("snow", 1)]);
    // Each is reported to the run, like a call.
    let told = &world.trace()[1];
    assert_eq!(*told.started.arguments, json!({"query": "snow"}));
    assert_eq!((&*told.result, told.failed), (&json!({"hits": 1, "failed": []}), false));
}

#[tokio::test]
async fn a_first_step_without_queries_searches_for_the_question() {
    let world = World::new([
        Reply::text("Let me think."),
        Reply::text("What was found: water."),
        Reply::text("Now I know."),
    ]);
    let datasets = Stub::new(SourceKind::Dataset);
    let (findings, _) = iterative(&world, &[&datasets], Limits::default()).await;
    assert_eq!(datasets.asked(), ["Why is it wet?"]);
    assert_eq!((findings.stopped, world.model.requests().len()), (StopReason::Enough, 3));
}

#[tokio::test]
async fn a_query_failure_that_ends_the_work_is_reported_with_its_reason() {
    let world = World::new([Reply::text(tags::query("snow"))]);
    let datasets = Stub::failing(SourceKind::Dataset, ErrorKind::QuotaExceeded);
    let web = Stub::new(SourceKind::Web);
    let (findings, _) = looked_into(&world, &[&datasets, &web], Mode::Iterative, Limits::default()).await;
    assert_eq!(findings.unwrap_err().kind, ErrorKind::QuotaExceeded);
    let told = &world.trace()[0];
    let result = json!({"hits": 1, "failed": ["the source `dataset` failed: it is away"]});
    assert_eq!((&*told.result, told.failed), (&result, true));
}

#[tokio::test]
async fn all_sources_are_searched_and_failures_reported() {
    let replies =
        || [Reply::text(tags::query("snow")), Reply::text("What was found."), Reply::text("Enough.")];
    let world = World::new(replies());
    let (graph, datasets) =
        (Stub::new(SourceKind::Graph), Stub::failing(SourceKind::Dataset, ErrorKind::NotFound));
    let web = Stub::new(SourceKind::Web);
    let (findings, _) = iterative(&world, &[&graph, &datasets, &web], Limits::default()).await;
    assert_eq!((graph.asked().len(), datasets.asked().len(), web.asked().len()), (1, 1, 1));
    assert_eq!(json!(findings.sources), json!({"graph": 1, "web": 1}));
    assert_eq!(findings.notes, ["the source `dataset` failed: it is away"]);
    assert_eq!(findings.queries[0].failed, findings.notes);
    let asked = texts(&world, 1).join("\n");
    assert!(
        asked.contains("passage about graph snow") && asked.contains("passage about web snow"),
        "{asked}"
    );
    // If none has answered, sufficiency cannot be judged.
    let world = World::new([Reply::text(tags::query("snow")), Reply::text("Enough.")]);
    let (findings, _) = iterative(&world, &[&datasets], Limits::default()).await;
    assert_eq!((findings.stopped, json!(findings.stopped)), (StopReason::Failed, json!("failed")));
    // An error that ends the work ends the research.
    let world = World::new(replies());
    let cancelled = Stub::failing(SourceKind::Web, ErrorKind::Cancelled);
    let (findings, _) = looked_into(&world, &[&graph, &cancelled], Mode::Iterative, Limits::default()).await;
    assert_eq!(findings.unwrap_err().kind, ErrorKind::Cancelled);
}

#[tokio::test]
async fn relevant_facts_are_extracted_using_the_reasoning() {
    let world = World::new([
        Reply::text(format!("It may be the weather. {}", tags::query("rain"))),
        Reply::text("What was found: <|end_search_result|> it rains [ID:0]."),
        Reply::text("Enough."),
    ]);
    let datasets = Stub::new(SourceKind::Dataset);
    iterative(&world, &[&datasets], Limits::default()).await;
    let extraction = texts(&world, 1);
    for part in ["It may be the weather.", "The query: rain", "ID: 0\npassage about dataset rain"] {
        assert!(extraction[1].contains(part), "{}", extraction[1]);
    }
    let next = texts(&world, 2);
    let told = "<|begin_search_result|>\nWhat was found:  it rains [ID:0].\n<|end_search_result|>\n\nGo on";
    assert!(next[3].starts_with(told), "{}", next[3]);
    assert!(next[2].contains(&tags::query("rain")), "the model sees its question");
}

#[tokio::test]
async fn rounds_are_limited_and_no_query_is_repeated() {
    let ask = |query: &str| Reply::text(tags::query(query));
    let world = World::new([
        ask("snow"),
        Reply::text("What was found."),
        ask("  SNOW! "),
        Reply::text(["a", "b", "c", "d"].map(tags::query).concat()),
        Reply::text("A."),
        Reply::text("B."),
    ]);
    let datasets = Stub::new(SourceKind::Dataset);
    let limits = Limits { steps: 3, queries: 2, ..Limits::default() };
    let (findings, shown) = iterative(&world, &[&datasets], limits).await;
    assert_eq!(datasets.asked(), ["snow", "a", "b"]);
    assert_eq!(findings.stopped, StopReason::Limit);
    assert!(shown.trim_end().ends_with("The searches are used up. What was found has to do."), "{shown}");
    assert!(texts(&world, 3).last().unwrap().contains("This was looked for before"));
    let world = World::new([]);
    let limits = Limits { time: Duration::ZERO, ..limits };
    let (findings, _) = iterative(&world, &[&datasets], limits).await;
    assert_eq!((findings.stopped, world.model.requests().len()), (StopReason::Time, 0));
}

#[tokio::test]
async fn long_reasoning_is_shortened_for_the_extraction() {
    let mut replies = Vec::new();
    for step in 0..8 {
        let thoughts: Vec<String> = (0..3).map(|thought| format!("thought {step}.{thought}")).collect();
        replies.push(Reply::text(format!(
            "{}\n\n{}",
            thoughts.join("\n\n"),
            tags::query(&format!("q{step}"))
        )));
        replies.push(Reply::text(format!("What was found: {step}.")));
    }
    let world = World::new(replies);
    let datasets = Stub::new(SourceKind::Dataset);
    let limits = Limits { steps: 8, ..Limits::default() };
    iterative(&world, &[&datasets], limits).await;
    let last = texts(&world, 15).pop().unwrap();
    let (reasoning, _) = last.split_once("\n\nThe query: q7").unwrap();
    let expected = "The reasoning so far:\nthought 0.0\n\n...\n\n<|begin_search_query|>q0<|end_search_query|>\n\n\
                    <|begin_search_result|>\nWhat was found: 0.\n<|end_search_result|>\n\n...\n\n<|begin_search_query|>q1";
    assert!(reasoning.starts_with(expected), "{reasoning}");
    let end = "thought 7.0\n\nthought 7.1\n\nthought 7.2\n\n<|begin_search_query|>q7<|end_search_query|>";
    assert!(reasoning.ends_with(end) && !reasoning.contains("thought 6."), "{reasoning}");
}

#[tokio::test]
async fn a_passage_found_twice_is_one_source() {
    let world = World::new([
        Reply::text(tags::query("rain in April")),
        Reply::text("A."),
        Reply::text(tags::query("rain in May")),
        Reply::text("B."),
        Reply::text(tags::query("snow")),
        Reply::text("C."),
        Reply::text("Enough."),
    ]);
    let datasets = Stub::new(SourceKind::Dataset);
    let (findings, _) = iterative(&world, &[&datasets], Limits::default()).await;
    let cited: Vec<_> = findings.cited.iter().map(|one| (one.number, one.chunk.id.as_str())).collect();
    assert_eq!(cited, [(0, "dataset rain"), (1, "dataset snow")]);
    assert_eq!(json!(findings.sources), json!({"dataset": 2}));
    assert_eq!(world.ctx.run.citations.all().len(), 2);
}

/// After a crash no recorded request is repeated.
#[tokio::test]
async fn a_research_resumes_where_it_stopped() {
    let replies = || {
        vec![
            Reply::text(tags::query("rain")),
            Reply::text("What was found."),
            Reply::text(tags::query("snow")),
            Reply::text("What was found."),
            Reply::text("Enough."),
        ]
    };
    let world = World::new(replies());
    let datasets = Stub::new(SourceKind::Dataset);
    let (whole, shown) = iterative(&world, &[&datasets], Limits::default()).await;
    let answered = |note: &&String| note.starts_with("gave ") && note.contains("model");
    for notes in 0..=world.notes().len() {
        let known = world.notes()[..notes].iter().filter(answered).count();
        let mut again = World::new(replies().split_off(known));
        let effects = weft_core::effect::Effects::known(world.known(notes));
        again.change(|ctx| ctx.effects = effects);
        let (findings, shown_again) = iterative(&again, &[&datasets], Limits::default()).await;
        assert_eq!((findings.queries, findings.stopped), (whole.queries.clone(), whole.stopped), "{notes}");
        assert_eq!((shown_again, again.model.requests().len()), (shown.clone(), 5 - known), "{notes}");
    }
}

fn verdict(missing: &[&str]) -> Reply {
    Reply::text(json!({"is_sufficient": missing.is_empty(), "missing_information": missing}).to_string())
}

fn further(queries: &[&str]) -> Reply {
    let questions: Vec<_> =
        queries.iter().map(|q| json!({"question": format!("{q}?"), "query": q})).collect();
    Reply::text(json!({"questions": questions}).to_string())
}

#[tokio::test]
async fn missing_information_becomes_sub_questions() {
    let world = World::new([
        verdict(&["when", "where"]),
        // An answer of the wrong form is sent back.
        Reply::text("I would ask when."),
        further(&["when snow falls", "where snow falls", "Why is it wet"]),
        verdict(&[]),
        verdict(&[]),
    ]);
    let datasets = Stub::new(SourceKind::Dataset);
    let (findings, shown) = looked_into(&world, &[&datasets], Mode::Tree, Limits::default()).await;
    let findings = findings.unwrap();
    // The last of the questions repeats the first one.
    assert_eq!(datasets.asked(), ["Why is it wet?", "when snow falls", "where snow falls"]);
    assert_eq!((findings.stopped, findings.gaps.len()), (StopReason::Enough, 0));
    assert!(shown.contains("Missing: when; where.") && shown.contains("That is enough."), "{shown}");
    assert_eq!(findings.queries[0].summary, "missing: when; where");
}

#[tokio::test]
async fn a_tree_is_limited_in_depth_and_searches() {
    let replies = || {
        let mut replies = vec![verdict(&["x"]), further(&["a", "b", "c"])];
        replies.extend((0..3).map(|_| verdict(&["still x"])));
        replies
    };
    for limits in
        [Limits { depth: 1, ..Limits::default() }, Limits { nodes: 4, depth: 1, ..Limits::default() }]
    {
        let world = World::new(replies());
        let datasets = Stub::new(SourceKind::Dataset);
        let (findings, _) = looked_into(&world, &[&datasets], Mode::Tree, limits).await;
        let findings = findings.unwrap();
        assert_eq!(datasets.asked().len(), 4);
        assert_eq!((findings.stopped, findings.gaps), (StopReason::Limit, vec!["still x".to_owned(); 3]));
    }
    let world = World::new(replies());
    let datasets = Stub::new(SourceKind::Dataset);
    let limits = Limits { nodes: 2, depth: 1, ..Limits::default() };
    let (findings, _) = looked_into(&world, &[&datasets], Mode::Tree, limits).await;
    assert_eq!((findings.unwrap().queries.len(), datasets.asked().len()), (2, 2));
}

/// A failing judge ends no research: it is reported, and the answer is written from what was found.
#[tokio::test]
async fn a_failed_judge_is_reported_as_a_note() {
    let world = World::new([Reply::text("no"), Reply::text("no")]);
    let datasets = Stub::new(SourceKind::Dataset);
    let (findings, _) = looked_into(&world, &[&datasets], Mode::Tree, Limits::default()).await;
    let findings = findings.unwrap();
    assert!(findings.notes[0].contains("could not be judged"), "{:?}", findings.notes);
    // The operator's remedy is not shown to readers of the missing points.
    assert_eq!(findings.gaps, ["what was found could not be judged"]);
    assert_eq!((findings.cited.len(), findings.stopped), (1, StopReason::Limit));
}

/// A model that plans two points, reports what it reads and judges it: snow is settled in the second round, and
/// the heights never.
fn investigator() -> weft_testkit::ScriptedModel {
    weft_testkit::ScriptedModel::from_fn(|request, _| {
        let text = |place: usize| request.messages.get(place).map(|one| one.text.clone()).unwrap_or_default();
        let (system, given) = (text(0), text(1));
        let answer = if system.starts_with("You plan") {
            json!({"claims": [
                {"question": "Does it snow?", "query": "snow"},
                {"question": "How high is it?", "query": "height"},
                {"question": "Too many?", "query": "more"},
            ]})
        } else if given.contains("Does it snow?") {
            let again = given.contains("deep snow");
            if system.starts_with("You report") {
                json!({"report": "It snows [ID:0].", "confidence": if again { 0.9 } else { 0.5 }, "next_query": "deep snow"})
            } else {
                json!({"is_sufficient": again, "confidence": 0.9})
            }
        } else {
            if system.starts_with("You report") {
                json!({"report": "It is 1234 m high.", "confidence": 0.9, "gaps": ["the height"]})
            } else {
                json!({"is_sufficient": true, "confidence": 0.9})
            }
        };
        Reply::text(answer.to_string())
    })
}

#[tokio::test]
async fn points_are_researched_until_settled_or_without_progress() {
    let world = World::with(investigator());
    let datasets = Stub::new(SourceKind::Dataset);
    let limits = Limits { queries: 2, ..Limits::default() };
    let (findings, shown) = looked_into(&world, &[&datasets], Mode::Agentic, limits).await;
    let findings = findings.unwrap();
    assert_eq!(datasets.asked()[..4], ["snow", "height", "deep snow", "How high is it? the height"]);
    let [snow, height] = findings.claims.as_slice() else { panic!("{:?}", findings.claims) };
    assert!(snow.verified && snow.evidence_ids == [0], "{snow:?}");
    // No source contains 1234.
    assert!(!height.verified && height.is_likely(), "{height:?}");
    assert!(height.gaps.contains(&"`1234` stands in no passage".to_owned()), "{height:?}");
    assert_eq!((findings.stopped, findings.gaps[0].as_str()), (StopReason::Limit, "the height"));
    assert!(shown.contains("Does it snow?: settled (0.90)"), "{shown}");
    assert!(findings.queries.len() <= limits.nodes);
}

#[tokio::test]
async fn without_planned_points_the_question_itself_is_researched() {
    let world = World::with(weft_testkit::ScriptedModel::from_fn(|request, _| {
        if request.messages[0].text.starts_with("You plan") {
            Reply::text("no list")
        } else {
            Reply::text(json!({"report": "Rain [ID:0].", "confidence": 1, "is_sufficient": true}).to_string())
        }
    }));
    let datasets = Stub::new(SourceKind::Dataset);
    let (findings, _) = looked_into(&world, &[&datasets], Mode::Agentic, Limits::default()).await;
    let findings = findings.unwrap();
    assert_eq!(datasets.asked(), ["Why is it wet?"]);
    assert_eq!((findings.stopped, findings.claims[0].verified), (StopReason::Enough, true));
    assert!(findings.notes[0].contains("could not be decomposed"), "{:?}", findings.notes);
    // Without a source that answers there is nothing to report, and no model is called.
    let world = World::with(investigator());
    let away = Stub::failing(SourceKind::Web, ErrorKind::NotFound);
    let (findings, _) = looked_into(&world, &[&away], Mode::Agentic, Limits::default()).await;
    let findings = findings.unwrap();
    assert!(findings.claims.iter().all(|claim| !claim.is_likely()), "{:?}", findings.claims);
    assert_eq!((world.asked().len(), findings.stopped), (1, StopReason::Failed));
}

#[tokio::test]
async fn an_interrupted_agentic_research_repeats_no_request() {
    let limits = Limits { queries: 2, ..Limits::default() };
    let first = World::with(investigator());
    let datasets = Stub::new(SourceKind::Dataset);
    let (findings, _) = looked_into(&first, &[&datasets], Mode::Agentic, limits).await;
    let mut second = World::with(investigator());
    let known = first.known(first.notes().len());
    second.change(|ctx| ctx.effects = weft_core::effect::Effects::known(known.into_iter().collect()));
    let (again, _) = looked_into(&second, &[&Stub::new(SourceKind::Dataset)], Mode::Agentic, limits).await;
    assert_eq!(again.unwrap().claims, findings.unwrap().claims);
    assert_eq!(second.asked().len(), 0);
}

/// A model that reports what it reads with the given confidence, and judges everything sufficient.
fn reporter(confidence: f64, report: serde_json::Value) -> weft_testkit::ScriptedModel {
    weft_testkit::ScriptedModel::from_fn(move |request, _| {
        let system = &request.messages[0].text;
        let answer = if system.starts_with("You plan") {
            json!({"claims": [
                {"question": "Does it rain in April?", "query": "rain amounts in April by region and year"},
                {"question": "Does it snow?", "query": "snow"},
            ]})
        } else if system.starts_with("You report") {
            let mut given = report.clone();
            given["confidence"] = json!(confidence);
            given
        } else {
            json!({"is_sufficient": true, "confidence": confidence})
        };
        Reply::text(answer.to_string())
    })
}

fn with_effort(effort: Effort) -> Limits {
    effort.limits(Limits::default())
}

#[tokio::test]
async fn low_effort_searches_once_without_a_judge() {
    let world = World::with(reporter(0.9, json!({"report": "It rains [ID:0]."})));
    let datasets = Stub::new(SourceKind::Dataset);
    let (findings, _) = looked_into(&world, &[&datasets], Mode::Agentic, with_effort(Effort::Low)).await;
    let findings = findings.unwrap();
    assert_eq!((datasets.asked().len(), findings.claims.len(), findings.claims[0].verified), (1, 1, true));
    // The plan and one report.
    assert_eq!(world.asked().len(), 2);
    // The same confidence suffices for one effort and not for another.
    for (effort, settled) in [(Effort::Low, false), (Effort::Medium, true)] {
        let world = World::with(reporter(0.8, json!({"report": "It rains [ID:0]."})));
        let (findings, _) = looked_into(&world, &[&datasets], Mode::Agentic, with_effort(effort)).await;
        assert_eq!(findings.unwrap().claims[0].verified, settled, "{effort:?}");
    }
}

#[tokio::test]
async fn the_web_is_searched_when_datasets_are_insufficient() {
    let graph = Stub::new(SourceKind::Graph);
    let datasets = Stub::new(SourceKind::Dataset);
    let web = Stub::new(SourceKind::Web);
    let sources: [&dyn Source; 3] = [&graph, &datasets, &web];
    let sure = World::with(reporter(0.9, json!({"report": "It rains [ID:0]."})));
    let limits = with_effort(Effort::High);
    looked_into(&sure, &sources, Mode::Agentic, limits).await.0.unwrap();
    assert_eq!((datasets.asked().len(), graph.asked().len(), web.asked().len()), (2, 0, 0));

    let unsure = World::with(reporter(0.3, json!({"report": "Perhaps [ID:0].", "gaps": ["the year"]})));
    let (findings, _) = looked_into(&unsure, &sources, Mode::Agentic, limits).await;
    let findings = findings.unwrap();
    // The same words are new to a source that was not searched yet.
    let expected = ["Does it snow? the year", "Does it rain in April? the year"];
    assert!(expected.iter().all(|query| web.asked().contains(&(*query).to_owned())), "{:?}", web.asked());
    assert_eq!(findings.queries.len(), 6, "{:?}", findings.queries);
    assert!(graph.asked().len() == 4 && web.asked().len() == 2, "{:?} {:?}", graph.asked(), web.asked());
}

#[tokio::test]
async fn near_duplicate_queries_are_not_repeated() {
    // The point about snow repeats the search of the one about rain.
    let report = json!({"report": "Perhaps.", "next_query": "rain amounts in April, by year and region"});
    let world = World::with(reporter(0.3, report));
    let datasets = Stub::new(SourceKind::Dataset);
    let limits = Limits { depth: 1, queries: 2, ..Limits::default() };
    let (findings, shown) = looked_into(&world, &[&datasets], Mode::Agentic, limits).await;
    findings.unwrap();
    let rain: Vec<_> = datasets.asked().into_iter().filter(|query| query.contains("rain")).collect();
    // Once for the point itself in its first round, and once more, since it has read that already.
    assert_eq!(rain.len(), 2, "{rain:?}");
    assert!(shown.contains("is nearly what was looked for before"), "{shown}");
}

#[tokio::test]
async fn ultra_effort_follows_up_new_findings() {
    let report = json!({"report": "It rains [ID:0].", "discovered": ["Since when?", "Does it snow?", " "]});
    for (effort, claims) in [(Effort::High, 2), (Effort::Ultra, 3)] {
        let world = World::with(reporter(0.9, report.clone()));
        let datasets = Stub::new(SourceKind::Dataset);
        let (findings, _) = looked_into(&world, &[&datasets], Mode::Agentic, with_effort(effort)).await;
        assert_eq!(findings.unwrap().claims.len(), claims, "{effort:?}");
    }
}
