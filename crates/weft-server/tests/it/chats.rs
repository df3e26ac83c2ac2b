//! Chat assistants: created, changed, asked; their sessions; isolation between tenants.

use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::ChatRequest;
use weft_testkit::{Reply, Script, Step};

use crate::support::{Bench, Frame, bench};

const CHATS: &str = "/api/v1/chats";

/// Creates a dataset with a document about animals and returns its id.
async fn animals(bench: &Bench) -> String {
    let dataset = bench.dataset("Docs").await;
    let text = "The quick brown fox.\nA lazy dog sleeps.\nFoxes are quick, too.";
    let document = bench.document(&dataset, "animals.txt", text).await;
    bench.read(&dataset, &[&document]).await;
    id_of(&dataset)
}

fn id_of(path: &str) -> String {
    path.rsplit('/').next().unwrap().to_owned()
}

async fn chat(bench: &Bench, body: Json) -> String {
    bench.post(CHATS, body).await.data()["id"].as_str().unwrap().to_owned()
}

/// An assistant that calls its model once per question.
async fn plain_chat(bench: &Bench, name: &str) -> String {
    chat(bench, json!({"name": name, "prompt_config": {"system": "Be brief.", "prologue": "Hello!"}})).await
}

fn answers(frames: &[Frame]) -> String {
    frames.iter().filter_map(|frame| frame.json()["data"]["answer"].as_str().map(str::to_owned)).collect()
}

/// The messages of a request, one per line.
fn lines(request: &ChatRequest) -> Vec<String> {
    request.messages.iter().map(|message| format!("{:?}: {}", message.author, message.text)).collect()
}

#[tokio::test]
async fn an_assistant_is_not_an_agent() {
    let bench = bench(Script::new().reply(Reply::text("Hello.").always())).await;
    let chat = plain_chat(&bench, "Plain").await;
    // The first question creates the canvas that runs the assistant.
    let asked = json!({"question": "Hi", "stream": false});
    bench.post(&format!("{CHATS}/{chat}/completions"), asked.clone()).await.data();
    let agent = format!("/api/v1/agents/{chat}");
    for (path, body) in [
        ("completions", json!({"query": "q", "stream": false})),
        ("sessions", json!({})),
        ("schedules", json!({"every": "1h"})),
    ] {
        assert_eq!(bench.post(&format!("{agent}/{path}"), body).await.refusal().0, 102, "{path}");
    }
    let thread =
        json!({"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "q"}]});
    assert_eq!(bench.post(&format!("{agent}/ag-ui"), thread).await.status, 404);
    assert_eq!(bench.post("/v1/responses", json!({"model": chat, "input": "q"})).await.status, 404);
    bench.post(&format!("{CHATS}/{chat}/completions"), asked).await.data();
}

#[tokio::test]
async fn an_assistant_is_created_listed_changed_and_removed() {
    let bench = bench(Script::new()).await;
    let dataset = animals(&bench).await;
    // As the SDKs of both API generations create one.
    let newer = json!({"name": "Newer", "icon": "", "dataset_ids": [dataset], "llm_id": null, "llm_setting": null,
        "prompt_config": null});
    let newer = bench.post(CHATS, newer).await.data();
    let older = json!({"name": "Older", "avatar": "", "dataset_ids": [dataset],
        "llm": {"model_name": null, "temperature": 0.1, "top_p": 0.3, "max_tokens": 512},
        "prompt": {"similarity_threshold": 0.2, "keywords_similarity_weight": 0.7, "top_n": 8, "top_k": 1024,
            "variables": [{"key": "knowledge", "optional": true}], "rerank_model": "", "empty_response": null,
            "opener": null, "show_quote": true, "prompt": null}});
    let older = bench.post(CHATS, older).await.data();
    for made in [&newer, &older] {
        assert_eq!(made["datasets"], json!([{"id": dataset, "name": "Docs", "avatar": "", "chunk_num": 3}]));
        assert_eq!((&made["dataset_ids"], &made["kb_names"]), (&json!([dataset]), &json!(["Docs"])));
        assert_eq!(made["description"], "A helpful Assistant");
        let system = made["prompt_config"]["system"].as_str().unwrap();
        assert!(system.contains("{knowledge}") && made["prompt"]["prompt"] == system, "{made}");
    }
    assert_eq!((&newer["llm_setting"], &older["llm_setting"]["temperature"]), (&json!({}), &json!(0.1)));
    assert_eq!(newer["prompt_config"]["parameters"], json!([{"key": "knowledge", "optional": false}]));
    assert_eq!((&newer["similarity_threshold"], &newer["top_n"]), (&json!(0.1), &json!(6)));
    assert_eq!(
        (&older["vector_similarity_weight"], &older["top_n"]),
        (&json!(0.30000000000000004), &json!(8))
    );

    let path = format!("{CHATS}/{}", newer["id"].as_str().unwrap());
    assert_eq!(bench.get(&path).await.data(), newer);
    let listed = bench.get(&format!("{CHATS}?page=1&page_size=30&orderby=name&desc=False")).await.data();
    let names = |listed: &Json| {
        let chats = listed["chats"].as_array().unwrap().iter();
        chats.map(|chat| chat["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((names(&listed), &listed["total"]), (vec!["Newer".to_owned(), "Older".to_owned()], &json!(2)));
    assert_eq!(names(&bench.get(&format!("{CHATS}?keywords=OLD")).await.data()), ["Older"]);
    assert_eq!(names(&bench.get(&format!("{CHATS}?name=newer&keywords=old")).await.data()), ["Newer"]);
    assert_eq!(
        names(&bench.get(&format!("{CHATS}?page_size=1")).await.data()).len(),
        2,
        "without a page number the list is not paged"
    );
    assert_eq!(bench.get(&format!("{CHATS}?id=none")).await.data()["total"], 0);
    let refused = bench.get(&format!("{CHATS}?orderby=size")).await.refusal();
    assert_eq!(refused, (101, "invalid orderby field: size".to_owned()));
    assert_eq!(bench.get(&format!("{CHATS}?owner_ids=others")).await.refusal().0, 103);

    let change =
        json!({"name": "Renamed", "prompt_config": {"quote": false}, "llm_setting": {"temperature": 0.9}});
    let changed = bench.ask("PATCH", &path, change).await.data();
    assert_eq!((&changed["name"], &changed["prompt"]["show_quote"]), (&json!("Renamed"), &json!(false)));
    assert_eq!(changed["prompt_config"]["system"], newer["prompt_config"]["system"]);
    assert_eq!((&changed["llm"]["temperature"], &changed["llm"]["top_p"]), (&json!(0.9), &Json::Null));
    let changed = bench.ask("PUT", &path, json!({"avatar": "a"})).await.data();
    assert_eq!((&changed["icon"], &changed["name"]), (&json!("a"), &json!("Renamed")));

    // Nothing is removed without ids, and agent routes do not see assistants.
    assert_eq!(bench.ask("DELETE", CHATS, json!({"ids": null, "delete_all": false})).await.data(), json!({}));
    assert_eq!(bench.get("/api/v1/agents").await.data()["total"], 0);
    let (newer, older) = (newer["id"].as_str().unwrap(), older["id"].as_str().unwrap());
    let told = bench.ask("DELETE", CHATS, json!({"ids": [newer, "x", newer]})).await.data();
    let errors = json!(["Chat(x) not found.", format!("Duplicate chat ids: {newer}")]);
    assert_eq!(told, json!({"success_count": 1, "errors": errors}));
    let refused = bench.ask("DELETE", CHATS, json!({"ids": ["x", "y"]})).await.refusal();
    assert_eq!(refused, (102, "Chat(x) not found.; Chat(y) not found.".to_owned()));
    assert_eq!(bench.get(&path).await.refusal(), (109, "no authorization".to_owned()));
    assert_eq!(bench.ask("DELETE", &format!("{CHATS}/{older}"), Json::Null).await.data(), true);
    plain_chat(&bench, "last").await;
    let all = json!({"ids": null, "delete_all": true});
    assert_eq!(bench.ask("DELETE", CHATS, all).await.data()["success_count"], 1);
    assert_eq!(bench.get(CHATS).await.data()["total"], 0);
}

#[tokio::test]
async fn invalid_assistant_requests_are_refused_with_a_reason() {
    let bench = bench(Script::new()).await;
    let one = plain_chat(&bench, "One").await;
    plain_chat(&bench, "Two").await;
    let empty = id_of(&bench.dataset("Empty").await);
    let check = async |method: &str, path: &str, body: Json, expected: (u64, &str)| {
        let refused = bench.ask(method, path, body.clone()).await.refusal();
        assert_eq!((refused.0, refused.1.as_str()), expected, "{method} {path} {body}");
    };
    check("POST", CHATS, json!({}), (102, "`name` is required")).await;
    check("POST", CHATS, json!({"name": "oNE"}), (102, "duplicated chat name in creating chat")).await;
    check("POST", CHATS, json!({"name": 7}), (102, "chat name must be a string")).await;
    let foreign = json!({"name": "n", "dataset_ids": ["d"]});
    check("POST", CHATS, foreign, (102, "You don't own the dataset d")).await;
    let unread = json!({"name": "n", "dataset_ids": [empty]});
    let words = format!("The dataset {empty} doesn't own parsed file");
    check("POST", CHATS, unread, (102, &words)).await;
    let unranked = json!({"name": "n", "rerank_id": "no such"});
    check("POST", CHATS, unranked, (102, "`rerank_id` no such doesn't exist")).await;
    let older = json!({"name": "n", "prompt": {"rerank_model": "no such"}});
    check("POST", CHATS, older, (102, "`rerank_model` no such doesn't exist")).await;
    let path = format!("{CHATS}/{one}");
    check("PATCH", &path, json!({"name": "TWO"}), (102, "duplicated chat name")).await;
    check("PUT", &path, json!({"name": ""}), (102, "`name` cannot be empty")).await;
    check("PUT", &path, json!({"tenant_id": "t"}), (102, "`tenant_id` must not be provided")).await;
    check("PATCH", "/api/v1/chats/gone", json!({"name": "x"}), (109, "no authorization")).await;
    let ask = "/api/v1/chat/completions";
    check("POST", ask, json!({}), (101, "required argument are missing: messages")).await;
    check("POST", ask, json!({"messages": []}), (101, "`messages` must be a non-empty list.")).await;
    let without = json!({"session_id": "s", "question": "q"});
    check("POST", ask, without, (102, "`chat_id` is required when `session_id` is provided.")).await;
    let foreign = json!({"chat_id": one, "session_id": "s", "question": "q"});
    check("POST", ask, foreign, (102, "Session not found!")).await;
    let unkept = json!({"chat_id": one, "question": "q", "store_history_messages": false});
    let words = "`pass_all_history_messages` must be true when `store_history_messages` is false.";
    check("POST", ask, unkept, (102, words)).await;
    let wrong = json!({"chat_id": one, "question": "q", "metadata_condition": []});
    check("POST", ask, wrong, (102, "metadata_condition must be an object.")).await;
    let depths = "`reasoning` should be a boolean, a depth from 0 to 4, or `iterative`, `tree` or `agentic`.";
    let deep = json!({"chat_id": one, "question": "q", "reasoning": 9});
    check("POST", ask, deep, (101, depths)).await;
    check("POST", CHATS, json!({"name": "n", "prompt_config": {"reasoning": 9}}), (102, depths)).await;
    check("PATCH", &path, json!({"prompt": {"show_quote": 5}}), (102, "`show_quote` should be a boolean."))
        .await;
    let foreign = json!({"chat_id": one, "question": "q", "kb_ids": ["d"]});
    check("POST", ask, foreign, (102, "You don't own the dataset d")).await;
    // The canvas of an assistant can be changed only through the assistant.
    bench.post(ask, json!({"chat_id": one, "question": "q"})).await;
    let agent = format!("/api/v1/agents/{one}");
    check("GET", &agent, Json::Null, (102, "canvas not found.")).await;
    assert_eq!(bench.ask("PUT", &agent, json!({"title": "x"})).await.refusal().0, 103);
    assert_eq!(bench.ask("DELETE", &agent, Json::Null).await.refusal().0, 103);
}

#[tokio::test]
async fn sessions_are_created_renamed_rated_and_removed() {
    let bench = bench(Script::new().reply(Reply::text("A").always())).await;
    let id = plain_chat(&bench, "One").await;
    let sessions = format!("{CHATS}/{id}/sessions");
    let made = bench.post(&sessions, json!({"name": "Mine"})).await.data();
    assert_eq!((&made["chat_id"], &made["name"]), (&json!(id), &json!("Mine")));
    let opening = &made["messages"];
    assert_eq!((&opening[0]["role"], &opening[0]["content"]), (&json!("assistant"), &json!("Hello!")));
    let other = bench.post(&sessions, json!({})).await.data();
    assert_eq!(other["name"], "New session");
    assert_eq!(bench.post(&sessions, json!({"name": " "})).await.refusal().1, "`name` can not be empty");
    let listed =
        bench.get(&format!("{sessions}?page=1&page_size=30&orderby=create_time&desc=True")).await.json();
    assert_eq!((listed["data"].as_array().unwrap().len(), &listed["total"]), (2, &json!(2)));
    let named = bench.get(&format!("{sessions}?name=Mine")).await.data();
    assert_eq!((named.as_array().unwrap().len(), &named[0]["id"]), (1, &made["id"]));

    let path = format!("{sessions}/{}", made["id"].as_str().unwrap());
    assert_eq!(bench.ask("PATCH", &path, json!({"name": "Ours"})).await.data()["name"], "Ours");
    assert_eq!(bench.ask("PUT", &path, json!({"name": "Yours"})).await.data()["name"], "Yours");
    for (body, words) in [
        (json!({"messages": []}), "`messages` cannot be changed"),
        (json!({"reference": []}), "`reference` cannot be changed"),
        (json!({"name": ""}), "`name` can not be empty"),
    ] {
        assert_eq!(bench.ask("PATCH", &path, body).await.refusal(), (102, words.to_owned()));
    }
    let ask = json!({"question": "q", "session_id": made["id"], "stream": false});
    let answer = bench.post(&format!("{CHATS}/{id}/completions"), ask).await.data();
    let message = format!("{path}/messages/{}", answer["id"].as_str().unwrap());
    let judged =
        bench.ask("PUT", &format!("{message}/feedback"), json!({"thumbup": false, "feedback": "no"})).await;
    let last = &judged.data()["messages"][2];
    assert_eq!((&last["thumbup"], &last["feedback"]), (&json!(false), &json!("no")));
    assert_eq!(bench.ask("PUT", &format!("{message}/feedback"), json!({})).await.refusal().0, 101);
    let gone = bench.ask("DELETE", &message, Json::Null).await.data();
    assert_eq!(gone["messages"].as_array().unwrap().len(), 1);
    assert_eq!(bench.get(&path).await.data()["messages"], gone["messages"]);
    let again = bench.ask("DELETE", &message, Json::Null).await.refusal();
    assert_eq!(again, (102, "Message not found!".to_owned()));

    assert_eq!(
        bench.ask("DELETE", &sessions, json!({"ids": null, "delete_all": false})).await.data(),
        json!({})
    );
    let told = bench.ask("DELETE", &sessions, json!({"ids": [made["id"], "x"]})).await.data();
    assert_eq!(told, json!({"success_count": 1, "errors": ["The chat doesn't own the session x"]}));
    assert_eq!(bench.get(&path).await.refusal(), (102, "Session not found!".to_owned()));
    let none = bench.ask("DELETE", &sessions, json!({"ids": ["x"]})).await.refusal();
    assert_eq!(none, (102, "The chat doesn't own the session x".to_owned()));
    assert_eq!(bench.ask("DELETE", &sessions, json!({"delete_all": true})).await.data(), true);
    assert_eq!(bench.get(&sessions).await.json()["total"], 0);
}

#[tokio::test]
async fn a_question_is_answered_from_the_datasets_with_citations() {
    let script = Script::new()
        .reply(Reply::pieces(["Foxes ", "are quick [ID:0]."]).times(2))
        .reply(Reply::text("How quick is the fox?").times(1))
        .reply(Reply::text("Very [ID:0].").always());
    let bench = bench(script).await;
    let dataset = animals(&bench).await;
    let id = chat(
        &bench,
        json!({"name": "Zoo", "dataset_ids": [dataset],
        "prompt_config": {"system": "Know: {knowledge} Today: {date}", "prologue": "Hello!"}}),
    )
    .await;
    let path = format!("{CHATS}/{id}/completions");
    let frames = bench.post(&path, json!({"question": "quick fox"})).await.frames();
    assert_eq!(answers(&frames), "Foxes are quick [ID:0].");
    let first = frames[0].json()["data"].clone();
    let expected = json!({"answer": "Foxes", "reference": {}, "audio_binary": null, "final": false,
        "id": first["id"], "session_id": first["session_id"], "chat_id": id});
    assert_eq!(first, expected);
    let last = frames[frames.len() - 2].json()["data"].clone();
    let reference = &last["reference"];
    assert_eq!((&last["final"], &last["answer"], &reference["total"]), (&json!(true), &json!(""), &json!(2)));
    let chunk = &reference["chunks"][0];
    assert!(chunk["content"].as_str().unwrap().to_lowercase().contains("quick"), "{reference}");
    assert_eq!((&chunk["document_name"], &chunk["dataset_id"]), (&json!("animals.txt"), &json!(dataset)));
    assert_eq!(reference["doc_aggs"][0]["count"], 2);
    assert_eq!(frames.last().unwrap().json(), json!({"code": 0, "message": "", "data": true}));

    // Without streaming the answer is the same.
    let whole = bench.post(&path, json!({"question": "quick fox", "stream": false})).await.data();
    assert_eq!((&whole["answer"], &whole["reference"]), (&json!("Foxes are quick [ID:0]."), reference));
    let asked = lines(&bench.model.requests()[0]);
    assert!(asked[0].starts_with("System: Know: ID: 0\n") && asked[0].contains("Today: 2"), "{asked:?}");
    assert_eq!(asked[1..], ["User: quick fox"]);

    // A follow-up question is searched for separately, and the model sees the history.
    let next = json!({"question": "How much?", "session_id": first["session_id"], "stream": false});
    assert_eq!(bench.post(&path, next).await.data()["answer"], "Very [ID:0].");
    let requests = bench.model.requests();
    let (refining, answering) = (lines(&requests[2]), lines(&requests[3]));
    assert!(refining[0].contains("Rewrite the user's last question"), "{refining:?}");
    assert!(
        answering[0].contains("quick") && answering.contains(&"User: quick fox".to_owned()),
        "{answering:?}"
    );
    let session = format!("{CHATS}/{id}/sessions/{}", first["session_id"].as_str().unwrap());
    let messages = bench.get(&session).await.data()["messages"].clone();
    assert_eq!(messages.as_array().unwrap().len(), 5);
    assert_eq!(messages[2]["reference"][0]["id"], chunk["id"]);

    // Without citations; with a document that does not exist; and with no results.
    let unquoted = json!({"question": "quick fox", "quote": false, "stream": false});
    assert_eq!(bench.post(&path, unquoted).await.data()["reference"], json!({}));
    let asked_before = bench.model.requests().len();
    for narrowed in [
        json!({"question": "quick fox", "doc_ids": ["none"], "stream": false}),
        json!({"question": "zebra", "stream": false}),
        json!({"question": "quick fox", "stream": false,
            "metadata_condition": {"conditions": [{"name": "year", "comparison_operator": "=", "value": 1}]}}),
    ] {
        let nothing = bench.post(&path, narrowed).await.data();
        assert_eq!(nothing["answer"], "I found nothing about this in the documents.");
    }
    assert_eq!(bench.model.requests().len(), asked_before);
}

#[tokio::test]
async fn a_reopened_conversation_lists_each_source_at_its_number() {
    let script = Script::new()
        .reply(Reply::text("Foxes are quick [ID:1].").times(1))
        .reply(Reply::text("Foxes are quick.").always());
    let bench = bench(script).await;
    let dataset = animals(&bench).await;
    let id = chat(&bench, json!({"name": "Zoo", "dataset_ids": [dataset]})).await;
    let ids = |sources: &Json| -> Vec<Json> {
        sources.as_array().unwrap().iter().map(|source| source["id"].clone()).collect()
    };
    let reopened = async |answer: &Json| {
        let sessions = format!("{CHATS}/{id}/sessions");
        let session = answer["session_id"].as_str().unwrap();
        let one = bench.get(&format!("{sessions}/{session}")).await.data();
        let listed = bench.get(&format!("{sessions}?id={session}")).await.data();
        let [one, listed] = [&one, &listed[0]].map(|session| {
            let last = session["messages"].as_array().unwrap().last().unwrap();
            assert_eq!(last["role"], "assistant");
            ids(&last["reference"])
        });
        assert_eq!(one, listed);
        one
    };
    let path = format!("{CHATS}/{id}/completions");
    // The first answer cites only the second source, the second answer cites none.
    for text in ["Foxes are quick [ID:1].", "Foxes are quick."] {
        let answer = bench.post(&path, json!({"question": "quick fox", "stream": false})).await.data();
        assert_eq!(answer["answer"], text);
        let live = ids(&answer["reference"]["chunks"]);
        assert_eq!(live.len(), 2);
        assert_eq!(reopened(&answer).await, live);
    }
    let unquoted = json!({"question": "quick fox", "quote": false, "stream": false});
    let answer = bench.post(&path, unquoted).await.data();
    assert!(reopened(&answer).await.is_empty());
}

#[tokio::test]
async fn a_question_can_set_variables_model_and_settings() {
    let bench = bench(Script::new().reply(Reply::text("A").always())).await;
    let parameters = json!([{"key": "tone", "optional": false}, {"key": "name", "optional": true}]);
    let id = chat(
        &bench,
        json!({"name": "V", "prompt_config": {"system": "Be {tone}, {name}! {\"json\": {}}",
        "parameters": parameters, "prologue": ""}}),
    )
    .await;
    let path = format!("{CHATS}/{id}/completions");
    let missing = bench.post(&path, json!({"question": "q"})).await.refusal();
    assert_eq!(missing, (102, "Miss parameter: tone".to_owned()));
    let ask = json!({"question": "q", "tone": "{sys.query} {{ x }}", "llm_id": "other", "temperature": 0.7, "stream": false});
    assert_eq!(bench.post(&path, ask).await.data()["answer"], "A");
    let request = bench.model.requests().remove(0);
    // Values from the caller are never interpreted as references.
    assert_eq!(lines(&request)[0], "System: Be {sys.query} {{ x }}, ! {\"json\": {}}");
    assert_eq!((request.sampling.temperature, request.sampling.top_p), (Some(0.7), None));
}

#[tokio::test]
async fn deep_research_can_be_switched_on_and_its_reasoning_is_separate() {
    let script = Script::new().reply(Reply::text("The fox is quick.").always());
    let bench = bench(script).await;
    let dataset = animals(&bench).await;
    let id = chat(&bench, json!({"name": "Deep", "dataset_ids": [dataset]})).await;
    let path = format!("{CHATS}/{id}/completions");
    let frames = bench.post(&path, json!({"question": "quick fox", "reasoning": true})).await.frames();
    let has = |key: &str| frames.iter().any(|frame| frame.json()["data"][key] == true);
    assert!(
        has("start_to_think") && has("end_to_think"),
        "{:?}",
        frames.iter().map(Frame::json).collect::<Vec<_>>()
    );
    assert!(answers(&frames).ends_with("The fox is quick."));
    let legacy = json!({"question": "quick fox", "reasoning": true, "legacy": true});
    let frames = bench.post(&path, legacy).await.frames();
    let last = frames[frames.len() - 2].json()["data"]["answer"].as_str().unwrap().to_owned();
    assert!(last.starts_with("<think>") && last.ends_with("</think>The fox is quick."), "{last}");
    for stream in [true, false] {
        let wrong = json!({"question": "quick fox", "legacy": "maybe", "stream": stream});
        let (code, message) = bench.post(&path, wrong).await.refusal();
        assert!(code == 101 && message.contains("<legacy>"), "{code}: {message}");
    }
}

#[tokio::test]
async fn messages_form_the_history_and_a_model_can_be_called_directly() {
    let bench = bench(Script::new().reply(Reply::text("A").always())).await;
    let id = plain_chat(&bench, "One").await;
    let said = json!([{"role": "system", "content": "no"}, {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]);
    let ask = json!({"chat_id": id, "messages": said, "stream": false});
    let answer = bench.post("/api/v1/chat/completions", ask).await.data();
    assert_eq!((&answer["answer"], &answer["chat_id"]), (&json!("A"), &json!(id)));
    let asked = lines(&bench.model.requests()[0]);
    assert_eq!(asked, ["System: Be brief.", "User: a", "Assistant: b", "User: c"]);
    let alone =
        bench.post("/api/v1/chat/completions", json!({"messages": said, "stream": false})).await.data();
    assert_eq!(alone["answer"], "A");
    assert_eq!(lines(&bench.model.requests()[1]), ["User: a", "Assistant: b", "User: c"]);
    // Without a question the greeting is returned.
    let frames = bench.post(&format!("{CHATS}/{id}/completions"), json!({"question": ""})).await.frames();
    assert_eq!((answers(&frames).as_str(), frames.len()), ("Hello!", 2));
    assert!(frames[0].json()["data"]["id"].is_null() && frames[0].json()["data"]["session_id"].is_string());
}

async fn refuses_malformed_questions(bench: &Bench, path: &str, question: &Json) {
    let check = async |body: Json, words: &str| {
        let refused = bench.post(path, body).await;
        assert_eq!(refused.status, 400, "the request is invalid");
        let refused = refused.json();
        assert_eq!((&refused["code"], &refused["message"]), (&json!(102), &json!(words)));
        assert_eq!(refused["error"]["message"], words);
    };
    check(json!({"model": "m"}), "You have to provide messages.").await;
    check(json!({"model": "m", "messages": 1}), "messages must be an array.").await;
    check(json!({"model": "m", "messages": ["x"]}), "Each message must be an object.").await;
    let picture = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]);
    let unread = "Parts of the type `image_url` are not read: send the question as text.";
    check(json!({"model": "m", "messages": picture}), unread).await;
    check(json!({"model": "m", "messages": question, "extra_body": 1}), "extra_body must be an object.")
        .await;
    let metadata = json!({"model": "m", "messages": question, "reference_metadata": {"fields": 1}});
    check(metadata, "reference_metadata.fields must be an array.").await;
    let metadata = json!({"model": "m", "messages": question, "reference_metadata": {"fields": [1]}});
    check(metadata, "reference_metadata.fields must contain only strings.").await;
    let metadata = json!({"model": "m", "messages": question, "reference_metadata": {"include": "yes"}});
    check(metadata, "reference_metadata.include must be a boolean.").await;
    let condition = json!({"model": "m", "messages": question, "metadata_condition": 1});
    check(condition, "metadata_condition must be an object.").await;
    let answered = json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]);
    let words = "The last content of this conversation is not from user.";
    check(json!({"model": "m", "messages": answered}), words).await;
}

#[tokio::test]
async fn openai_clients_can_use_assistants() {
    let thinking = Reply::empty().thinking("hm").then(Step::Text("Foxes [ID:0]".into()));
    let bench = bench(Script::new().reply(thinking.always())).await;
    let dataset = animals(&bench).await;
    let id = chat(&bench, json!({"name": "Zoo", "dataset_ids": [dataset], "llm_id": "own"})).await;
    let question = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "quick fox"}]);
    for path in [
        format!("/api/v1/openai/{id}/chat/completions"),
        format!("/api/v1/chats_openai/{id}/chat/completions"),
    ] {
        let whole = bench
            .post(&path, json!({"model": "model", "messages": question, "reference": true}))
            .await
            .json();
        assert_eq!(whole["id"], format!("chatcmpl-{id}"));
        let message = &whole["choices"][0]["message"];
        assert_eq!(message["content"], "Foxes [ID:0]");
        assert_eq!(message["reference"].as_array().unwrap().len(), 2);
        let streamed =
            json!({"model": "own", "messages": question, "stream": true, "extra_body": {"reference": true}});
        let frames = bench.post(&path, streamed).await.frames();
        assert_eq!(frames.last().unwrap().data, "[DONE]");
        let deltas: Vec<Json> =
            frames[..frames.len() - 1].iter().map(|frame| frame.json()["choices"][0].clone()).collect();
        assert_eq!(
            deltas[0]["delta"],
            json!({"role": "assistant", "content": null, "reasoning_content": "hm"})
        );
        assert_eq!(
            deltas[1]["delta"],
            json!({"role": "assistant", "content": "Foxes [ID:0]", "reasoning_content": null})
        );
        let last = deltas.last().unwrap();
        assert_eq!(
            (&last["finish_reason"], &last["delta"]["final_content"]),
            (&json!("stop"), &json!("Foxes [ID:0]"))
        );
        assert_eq!(last["delta"]["reference"].as_array().unwrap().len(), 2);
        // Sources are included only on request.
        let untold = bench.post(&path, json!({"model": "model", "messages": question})).await.json();
        assert!(untold["choices"][0]["message"].get("reference").is_none());
        refuses_malformed_questions(&bench, &path, &question).await;
    }
    let unknown =
        bench.post("/api/v1/openai/none/chat/completions", json!({"model": "m", "messages": question})).await;
    assert_eq!(
        (unknown.status.as_u16(), &unknown.json()["message"]),
        (404, &json!("You don't own the chat none"))
    );
}

#[tokio::test]
async fn sources_include_the_requested_metadata() {
    let bench = bench(Script::new().reply(Reply::text("Foxes [ID:0]").always())).await;
    let dataset = animals(&bench).await;
    let set = json!({"updates": [{"key": "kind", "value": "animals"}, {"key": "year", "value": 1}]});
    let path = format!("/api/v1/datasets/{dataset}/documents/metadatas");
    bench.ask("PATCH", &path, set).await.data();
    let id = chat(&bench, json!({"name": "Zoo", "dataset_ids": [dataset]})).await;
    let plain = plain_chat(&bench, "Plain").await;
    let ask = async |id: &str, metadata: Json| {
        let body = json!({"model": "model", "messages": [{"role": "user", "content": "quick fox"}],
            "reference": true, "reference_metadata": metadata});
        let path = format!("/api/v1/openai/{id}/chat/completions");
        bench.post(&path, body).await.json()["choices"][0]["message"]["reference"].take()
    };
    let all = ask(&id, json!({"include": true})).await;
    assert_eq!(all[0]["document_metadata"], json!({"kind": "animals", "year": 1}));
    let some = ask(&id, json!({"include": true, "fields": ["kind"]})).await;
    assert_eq!(some[1]["document_metadata"], json!({"kind": "animals"}));
    assert!(ask(&id, json!({"fields": ["kind"]})).await[0].get("document_metadata").is_none());
    assert_eq!(ask(&plain, json!({"include": true})).await, json!([]), "an empty list without sources");

    // The last frame of a stream contains the same.
    let streamed = async |id: &str, extra: Json| {
        let body = json!({"model": "model", "messages": [{"role": "user", "content": "quick fox"}], "stream": true,
            "extra_body": extra});
        let frames = bench.post(&format!("/api/v1/openai/{id}/chat/completions"), body).await.frames();
        frames[frames.len() - 2].json()["choices"][0]["delta"]["reference"].take()
    };
    let metadata = json!({"reference": true, "reference_metadata": {"include": true, "fields": ["kind"]}});
    let told = streamed(&id, metadata.clone()).await;
    assert_eq!(told.as_array().unwrap().len(), 2);
    assert!(
        told.as_array().unwrap().iter().all(|one| one["document_metadata"] == json!({"kind": "animals"})),
        "{told}"
    );
    assert_eq!(streamed(&plain, metadata).await, json!([]));
    assert!(streamed(&id, json!({"reference": true})).await[0].get("document_metadata").is_none());
    let untold = json!({"reference_metadata": {"include": true}});
    assert_eq!(streamed(&id, untold).await, Json::Null, "no sources were requested");
}

#[tokio::test]
async fn related_questions_store_nothing() {
    let bench = bench(Script::new().reply(Reply::text("Sure:\n1. Why?\n2. How?").always())).await;
    let older = ["/api/v1/sessions/related_questions", "/api/v1/searchbots/related_questions"];
    for path in ["/api/v1/chat/recommendation"].into_iter().chain(older) {
        assert_eq!(
            bench.post(path, json!({"question": "q", "industry": "law"})).await.data(),
            json!(["Why?", "How?"])
        );
        assert_eq!(bench.post(path, json!({})).await.refusal(), (101, "question is required.".to_owned()));
    }
    assert!(lines(&bench.model.requests()[0])[0].contains("in this field: law"));
    assert!(bench.get("/api/v1/runs").await.data()["runs"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn public_pages_show_an_assistant() {
    let bench = bench(Script::new().reply(Reply::text("A").always())).await;
    let id = plain_chat(&bench, "One").await;
    let info = bench.get(&format!("/api/v1/chatbots/{id}/info")).await.data();
    assert_eq!(
        (&info["title"], &info["prologue"], &info["has_tavily_key"]),
        (&json!("One"), &json!("Hello!"), &json!(false))
    );
    let asked = json!({"question": "q", "stream": false});
    assert_eq!(bench.post(&format!("/api/v1/chatbots/{id}/completions"), asked).await.data()["answer"], "A");
    let refused = bench.get("/api/v1/chatbots/none/info").await.refusal();
    assert_eq!(refused, (102, "Authentication error: no access to this chatbot!".to_owned()));
}

#[tokio::test]
async fn another_tenant_sees_no_assistants_or_sessions() {
    let bench = bench(Script::new().reply(Reply::text("A").always())).await;
    let id = plain_chat(&bench, "One").await;
    let made = bench.post(&format!("{CHATS}/{id}/sessions"), json!({})).await.data();
    let session = made["id"].as_str().unwrap().to_owned();
    let ask = json!({"question": "q", "session_id": session, "stream": false});
    let run =
        bench.post(&format!("{CHATS}/{id}/completions"), ask).await.data()["id"].as_str().unwrap().to_owned();
    let token = bench.stranger().await;
    let stranger = Bench { token, ..bench.restarted() };
    let own = plain_chat(&stranger, "One").await;
    let one = format!("{CHATS}/{id}");
    let sessions = format!("{one}/sessions");
    let message = format!("{sessions}/{session}/messages/{run}");
    let named = json!({"chat_id": id, "question": "q"});
    let openai = json!({"model": "m", "messages": [{"role": "user", "content": "q"}]});
    for (method, path, body, code) in [
        ("GET", one.clone(), Json::Null, 109),
        ("PUT", one.clone(), json!({"name": "x"}), 109),
        ("PATCH", one.clone(), json!({"name": "x"}), 109),
        ("DELETE", one.clone(), Json::Null, 109),
        ("DELETE", CHATS.to_owned(), json!({"ids": [id]}), 102),
        ("GET", sessions.clone(), Json::Null, 109),
        ("POST", sessions.clone(), json!({}), 109),
        ("DELETE", sessions.clone(), json!({"delete_all": true}), 109),
        ("GET", format!("{sessions}/{session}"), Json::Null, 109),
        ("PATCH", format!("{sessions}/{session}"), json!({"name": "x"}), 109),
        ("DELETE", message.clone(), Json::Null, 109),
        ("PUT", format!("{message}/feedback"), json!({"thumbup": true}), 109),
        ("POST", format!("{one}/completions"), json!({"question": "q"}), 109),
        ("POST", "/api/v1/chat/completions".to_owned(), named, 109),
        ("POST", format!("/api/v1/openai/{id}/chat/completions"), openai.clone(), 102),
        ("POST", format!("/api/v1/chats_openai/{id}/chat/completions"), openai, 102),
        ("GET", format!("/api/v1/chatbots/{id}/info"), Json::Null, 102),
        ("POST", format!("/api/v1/chatbots/{id}/completions"), json!({"question": "q"}), 102),
        // An assistant of their own gives no access to the session.
        ("GET", format!("{CHATS}/{own}/sessions/{session}"), Json::Null, 102),
        ("POST", format!("{CHATS}/{own}/completions"), json!({"question": "q", "session_id": session}), 102),
        ("DELETE", format!("{CHATS}/{own}/sessions"), json!({"ids": [session]}), 102),
    ] {
        assert_eq!(stranger.ask(method, &path, body).await.refusal().0, code, "{method} {path}");
    }
    assert_eq!(stranger.get(CHATS).await.data()["total"], 1);
    // Nothing has changed, and a session of one assistant is not found under another.
    assert_eq!(bench.get(&sessions).await.json()["data"][0]["messages"].as_array().unwrap().len(), 3);
    let second = plain_chat(&bench, "Two").await;
    let crossed = json!({"question": "q", "session_id": session});
    let refused = bench.post(&format!("{CHATS}/{second}/completions"), crossed).await.refusal();
    assert_eq!(refused, (102, "Session does not belong to this chat!".to_owned()));
    let nobody = Bench { token: "wrong".to_owned(), ..bench.restarted() };
    assert_eq!(nobody.get(CHATS).await.status, 401);
}

#[tokio::test]
async fn a_session_survives_a_restart_and_follows_changes_of_its_assistant() {
    let bench = bench(Script::new().reply(Reply::text("A").always())).await;
    let id = plain_chat(&bench, "One").await;
    let path = format!("{CHATS}/{id}/completions");
    let first = bench.post(&path, json!({"question": "one", "stream": false})).await.data();
    let bench = bench.restarted();
    let change = json!({"prompt_config": {"system": "Be long."}});
    bench.ask("PATCH", &format!("{CHATS}/{id}"), change).await.data();
    let next = json!({"question": "two", "session_id": first["session_id"], "stream": false});
    let second = bench.post(&path, next).await.data();
    let asked = lines(&bench.model.requests()[1]);
    assert_eq!(asked, ["System: Be long.", "User: one", "Assistant: A", "User: two"]);
    // Each run is replayed with the assistant as it was at the time.
    for answer in [&first, &second] {
        let path = format!("/api/v1/runs/{}/replay", answer["id"].as_str().unwrap());
        let replayed = bench.post(&path, json!({})).await.data();
        assert_eq!(replayed["same"], true, "{replayed}");
    }
}

#[tokio::test]
async fn concurrent_questions_are_answered_in_sequence() {
    let slow = Reply::pieces(["So "]).then(Step::Wait(50)).then(Step::Text("on".into()));
    let bench = bench(Script::new().reply(slow.always())).await;
    let id = plain_chat(&bench, "One").await;
    let session = bench.post(&format!("{CHATS}/{id}/sessions"), json!({})).await.data();
    let path = format!("{CHATS}/{id}/completions");
    let ask = |question: &str| json!({"question": question, "session_id": session["id"], "stream": false});
    let (first, second, refused) = futures::join!(
        bench.post(&path, ask("one")),
        bench.post(&path, ask("two")),
        bench.post(
            &path,
            json!({"question": "no", "session_id": session["id"], "multitask_strategy": "reject"})
        ),
    );
    assert_eq!((&first.data()["answer"], &second.data()["answer"]), (&json!("So on"), &json!("So on")));
    assert_eq!(refused.refusal().0, 106);
    let path = format!("{CHATS}/{id}/sessions/{}", session["id"].as_str().unwrap());
    let messages = bench.get(&path).await.data()["messages"].clone();
    let roles: Vec<&str> =
        messages.as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["assistant", "user", "assistant", "user", "assistant"]);
}

#[tokio::test]
async fn removed_datasets_are_left_out() {
    let bench = bench(Script::new().reply(Reply::text("A").always())).await;
    let dataset = animals(&bench).await;
    let id = chat(&bench, json!({"name": "Zoo", "dataset_ids": [dataset]})).await;
    bench.ask("DELETE", "/api/v1/datasets", json!({"ids": [dataset]})).await.data();
    let shown = bench.get(&format!("{CHATS}/{id}")).await.data();
    assert_eq!((&shown["dataset_ids"], &shown["datasets"]), (&json!([]), &json!([])));
    let path = format!("{CHATS}/{id}/completions");
    let ask = json!({"question": "quick fox", "stream": false});
    let nothing = bench.post(&path, ask.clone()).await.data();
    assert_eq!(nothing["answer"], "I found nothing about this in the documents.");
    // Without an empty response text the model answers on its own.
    bench
        .ask("PATCH", &format!("{CHATS}/{id}"), json!({"prompt_config": {"empty_response": ""}}))
        .await
        .data();
    assert_eq!(bench.post(&path, ask).await.data()["answer"], "A");
    // The list of datasets can be cleared as a whole.
    let changed = bench.ask("PATCH", &format!("{CHATS}/{id}"), json!({"dataset_ids": []})).await.data();
    assert_eq!(changed["dataset_ids"], json!([]));
}

#[tokio::test]
async fn a_question_with_an_idempotency_key_runs_once() {
    let bench =
        bench(Script::new().reply(Reply::text("one").times(1)).reply(Reply::text("two").always())).await;
    let id = plain_chat(&bench, "One").await;
    let path = format!("{CHATS}/{id}/completions");
    let ask = json!({"question": "q", "stream": false, "idempotency_key": "k"});
    let first = bench.post(&path, ask.clone()).await.data();
    assert_eq!(bench.post(&path, ask).await.data(), first);
    let other = json!({"question": "q", "stream": false, "idempotency_key": "l"});
    assert_eq!(bench.post(&path, other).await.data()["answer"], "two");
}

#[tokio::test]
async fn a_session_of_an_assistant_is_found_by_its_id_and_is_not_one_of_an_agent() {
    let bench = bench(Script::new().reply(Reply::text("A").always())).await;
    let id = plain_chat(&bench, "One").await;
    let session = bench.post(&format!("{CHATS}/{id}/sessions"), json!({})).await.data()["id"].clone();
    let messages = json!([{"role": "user", "content": "q"}]);
    let ask = json!({"conversation_id": session, "messages": messages, "stream": false});
    assert_eq!(bench.post("/api/v1/completion", ask).await.data()["answer"], "A");
    assert_eq!(lines(&bench.model.requests()[0])[0], "System: Be brief.");
    // Called as an agent it would not know which datasets to search.
    let ask = json!({"query": "q", "session_id": session, "stream": false});
    let refused = bench.post(&format!("/api/v1/agents/{id}/completions"), ask).await.refusal();
    assert!(refused.0 == 101 && refused.1.contains("chat assistant"), "{refused:?}");
}

#[tokio::test]
async fn a_failure_is_reported_where_clients_expect_the_answer() {
    let bench = bench(Script::new()).await;
    let id = plain_chat(&bench, "One").await;
    let path = format!("{CHATS}/{id}/completions");
    let failed = bench.post(&path, json!({"question": "q", "stream": false})).await.json();
    assert_eq!(failed["code"], 500);
    assert!(failed["data"]["answer"].as_str().unwrap().starts_with("**ERROR**: "), "{failed}");
    let frames = bench.post(&path, json!({"question": "q"})).await.frames();
    assert_eq!(
        (&frames[0].json()["code"], frames.last().unwrap().json()),
        (&json!(500), json!({"code": 0, "message": "", "data": true}))
    );
}

/// No known client creates one with such a filter, and no question could be answered with it.
#[tokio::test]
async fn an_unusable_metadata_filter_is_refused() {
    let bench = bench(Script::new()).await;
    let guess = json!({"name": "Guess", "meta_data_filter": {"method": "guess"}});
    let (code, message) = bench.post(CHATS, guess.clone()).await.refusal();
    assert_eq!(code, 102, "{message}");
    assert!(message.contains("`meta_data_filter/method` must be manual, auto or semi_auto"), "{message}");
    let id = plain_chat(&bench, "One").await;
    assert_eq!(bench.ask("PATCH", &format!("{CHATS}/{id}"), guess).await.refusal().0, 102);
    for method in ["", "disabled", "auto"] {
        let filter = json!({"meta_data_filter": {"method": method}});
        let kept = bench.ask("PATCH", &format!("{CHATS}/{id}"), filter).await.data();
        assert_eq!(kept["meta_data_filter"]["method"], method);
    }
}

/// Model settings are stored as given, and a question reports invalid ones by their own names, because users do not
/// see the generated canvas.
#[tokio::test]
async fn invalid_model_settings_are_reported_by_name() {
    let bench = bench(Script::new().reply(Reply::text("Never said."))).await;
    let dataset = animals(&bench).await;
    let body =
        json!({"name": "Hot", "dataset_ids": [dataset], "llm_setting": {"temperature": 9, "top_p": -1}});
    let id = chat(&bench, body).await;
    let asked = json!({"question": "Who?", "stream": false});
    let (code, message) = bench.post(&format!("{CHATS}/{id}/completions"), asked).await.refusal();
    assert_eq!(code, 101, "{message}");
    assert!(message.contains("`temperature`: must be from 0 to 2, and is 9"), "{message}");
    assert!(message.contains("`top_p`"), "{message}");
    let warm = json!({"llm_setting": {"temperature": "warm", "top_p": "0.5"}});
    bench.ask("PATCH", &format!("{CHATS}/{id}"), warm).await.data();
    let asked = json!({"question": "Who?", "stream": false});
    let (code, warm) = bench.post(&format!("{CHATS}/{id}/completions"), asked).await.refusal();
    assert_eq!(code, 101, "{warm}");
    assert!(warm.contains("`temperature`: must be a number from 0 to 2, and is the text `warm`"), "{warm}");
    assert!(!warm.contains("`top_p`"), "{warm}");
    assert!(!message.contains("canvas") && !message.contains("/components"), "{message}");
}
