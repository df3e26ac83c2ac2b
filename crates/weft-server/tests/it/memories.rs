//! Memories over HTTP, in canvases, and the facts that a model extracts from turns.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;
use weft_app::config::{Auth, LimitsConfig};
use weft_core::id::{MemoryId, MemoryKey, TenantId};
use weft_core::seam::chat_model::ModelInfo;
use weft_core::seam::memories::{MemoryQuery, Turn};
use weft_core::seam::memory_store::{
    Extraction, Memory, MemoryMessage, MemorySettings, MessageFilter, MessageStatus, MessageType,
};
use weft_core::seam::usage_store::{UsageBy, UsageFilter};
use weft_core::seam::{ChatModel, Embedder, Memories as _, ModelDirectory, UsageStore as _};
use weft_core::{Error, ErrorKind, Result};
use weft_knowledge::memories::{ConversationMemories, MemoryWorker};
use weft_testkit::hash_embedder::HashEmbedder;
use weft_testkit::memory_store::MemoryStore;
use weft_testkit::{Reply, Script, ScriptedModel};

use crate::support::{Bench, HandClock, begin, bench, bench_with, component, default_tenant};

/// A scripted model, and an embedder unless its name is `gone`.
struct Models(ScriptedModel);

impl ModelDirectory for Models {
    fn resolve(&self, tenant: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        self.0.resolve(tenant, llm_id)
    }

    fn list(&self, tenant: &TenantId) -> Vec<ModelInfo> {
        self.0.list(tenant)
    }

    fn embedder(&self, _: &TenantId, id: &str) -> Result<Arc<dyn Embedder>> {
        match id {
            "gone" => Err(Error::not_found("there is no embedder `gone`")),
            name => Ok(Arc::new(HashEmbedder::named(name))),
        }
    }
}

/// Memories with a clock that the test sets.
struct Kept {
    memories: ConversationMemories,
    clock: Arc<HandClock>,
    model: ScriptedModel,
    uses: Arc<MemoryStore>,
}

impl Kept {
    fn new(script: Script) -> Self {
        let (clock, model) = (HandClock::at(86_400_000), ScriptedModel::new(script));
        let uses = Arc::new(MemoryStore::new());
        let memories =
            ConversationMemories::new(uses.clone(), Arc::new(Models(model.clone())), clock.clone(), || {
                Arc::new(weft_search::MemoryChunkIndex::new())
            });
        let memories = memories.noting_usage(uses.clone());
        Self { memories, clock, model, uses }
    }

    async fn memory(&self, name: &str, embedder: &str, types: &[MessageType]) -> MemoryKey {
        let settings = MemorySettings {
            name: name.to_owned(),
            avatar: String::new(),
            description: String::new(),
            types: types.to_vec(),
            embedder: embedder.to_owned(),
            llm_id: "m".to_owned(),
            team: false,
            owner: String::new(),
            size_max: 1 << 20,
            temperature: 0.25,
            system_prompt: String::new(),
            user_prompt: String::new(),
        };
        let key = MemoryKey::new(&default_tenant(), MemoryId::generate());
        let memory = Memory { key, settings, created_ms: 1, updated_ms: 1 };
        self.memories.store.create(&memory).await.unwrap().key
    }

    async fn remember(&self, key: &MemoryKey, origin: &str, (user, query, response): (&str, &str, &str)) {
        let turn = Turn {
            user: user.to_owned(),
            agent: "a".to_owned(),
            session: "s".to_owned(),
            query: query.to_owned(),
            response: response.to_owned(),
        };
        self.memories.remember(key, origin, &turn).await.unwrap();
    }

    /// Runs a worker until nothing of a memory is due.
    async fn work(&self, key: &MemoryKey) {
        let stop = CancellationToken::new();
        let worker = MemoryWorker::new(self.memories.clone());
        let looking = async {
            loop {
                let busy = self.messages(key).await.iter().any(|message| {
                    matches!(&message.extraction, Extraction::Pending { problem } if problem.is_empty())
                });
                if !busy {
                    break stop.cancel();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        futures::join!(worker.run(&stop, Duration::from_secs(5)), looking);
    }

    async fn messages(&self, key: &MemoryKey) -> Vec<MemoryMessage> {
        let filter = MessageFilter { limit: 100, ..MessageFilter::default() };
        self.memories.store.messages(key, &filter).await.unwrap().0
    }

    async fn contents(&self, key: &MemoryKey) -> Vec<String> {
        self.messages(key).await.into_iter().map(|message| message.message.content).collect()
    }
}

fn query(keys: &[&MemoryKey], question: &str) -> MemoryQuery {
    MemoryQuery {
        memories: keys.iter().map(|key| key.id.clone()).collect(),
        question: question.to_owned(),
        agents: Vec::new(),
        session: None,
        user: None,
        similarity_min: 0.2,
        vector_weight: 0.5,
        limit: 5,
    }
}

const FACTS: [MessageType; 2] = [MessageType::Raw, MessageType::Semantic];

#[tokio::test]
async fn a_model_extracts_facts_from_turns_and_searches_find_both() {
    let facts = json!({"semantic": [{"content": "Ada is allergic to nuts."}], "episodic": ["not asked for"]});
    let kept = Kept::new(Script::new().reply(Reply::text(format!("```json\n{facts}\n```"))));
    let key = kept.memory("m", "e", &FACTS).await;
    kept.remember(&key, "o", ("ada", "I can't have nuts", "Noted!")).await;
    kept.remember(&key, "o", ("ada", "the same once more", "Noted!")).await;
    kept.work(&key).await;
    let raw = "User Input: I can't have nuts\nAgent Response: Noted!";
    assert_eq!(kept.contents(&key).await, ["Ada is allergic to nuts.", raw]);
    let messages = kept.messages(&key).await;
    assert!(messages.iter().all(|message| !message.message.vector.is_empty()));
    assert_eq!((messages[0].source, messages[0].message.user.as_str()), (Some(1), "ada"));
    let asked = kept.model.requests().remove(0);
    assert_eq!(asked.sampling.temperature, Some(0.25));
    let said = format!("{:?}", asked.messages);
    assert!(
        said.contains("I can't have nuts") && said.contains("`semantic`") && !said.contains("`episodic`")
    );
    let found = kept.memories.recall(&key.tenant, &query(&[&key], "allergic to what?")).await.unwrap();
    assert_eq!(found.messages[0].content, "Ada is allergic to nuts.");
    // A message that is disabled or forgotten is no longer found.
    kept.memories.store.set_status(&key, 2, MessageStatus::Disabled).await.unwrap();
    let found = kept.memories.recall(&key.tenant, &query(&[&key], "allergic nuts")).await.unwrap();
    assert_eq!(found.messages.iter().map(|one| one.number).collect::<Vec<_>>(), [1]);
    kept.memories.store.forget(&key, 1, 1).await.unwrap();
    let found = kept.memories.recall(&key.tenant, &query(&[&key], "allergic nuts")).await.unwrap();
    assert!(found.messages.is_empty() && found.notes.is_empty());
}

#[tokio::test]
async fn usage_for_extracting_facts_is_recorded() {
    let said = Reply::text("{\"semantic\": [\"It rained.\"]}").usage(700, 100);
    let kept = Kept::new(Script::new().reply(said));
    let key = kept.memory("m", "e", &FACTS).await;
    kept.remember(&key, "o", ("ada", "It rained", "Oh")).await;
    kept.work(&key).await;
    let filter = UsageFilter { by: vec![UsageBy::Node], limit: 9, ..UsageFilter::default() };
    let lines = kept.uses.usage(&key.tenant, &filter).await.unwrap();
    assert_eq!((lines.len(), lines[0].of.join("")), (1, format!("memory:{}", key.id)));
    // One call of the model, and one for the vectors of the turn and the fact.
    let usage = lines[0].usage;
    assert_eq!((usage.calls, usage.completion_tokens), (2, 100));
    assert!(usage.prompt_tokens >= 700);
}

#[tokio::test]
async fn a_failed_extraction_is_retried_and_then_abandoned() {
    let away = || Reply::error(ErrorKind::Unavailable, "busy");
    let script = Script::new().reply(away()).reply(Reply::text("{\"semantic\": [\"It rained.\"]}"));
    let kept = Kept::new(script);
    let key = kept.memory("m", "", &FACTS).await;
    kept.remember(&key, "o", ("ada", "It rained", "Oh")).await;
    kept.work(&key).await;
    let waiting = kept.messages(&key).await.remove(0);
    assert!(matches!(&waiting.extraction, Extraction::Pending { problem } if problem.contains("busy")));
    // Meanwhile the turn is found by its words.
    let found = kept.memories.recall(&key.tenant, &query(&[&key], "rained")).await.unwrap();
    assert_eq!(found.messages.len(), 1);
    assert!(
        kept.memories
            .store
            .take(kept.clock.0.load(std::sync::atomic::Ordering::Relaxed), 0, 9)
            .await
            .unwrap()
            .is_empty()
    );
    kept.clock.go_on(60_000);
    let stop = CancellationToken::new();
    let worker = MemoryWorker::new(kept.memories.clone());
    let looking = async {
        while kept.messages(&key).await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
    };
    futures::join!(worker.run(&stop, Duration::from_secs(5)), looking);
    assert_eq!(kept.contents(&key).await[0], "It rained.");
    // Permanent failures are not retried: a missing model, an invalid answer.
    for (script, embedder) in [
        (Script::new().reply(Reply::text("I see.")), ""),
        (Script::new().reply(Reply::text("{\"semantic\": []}")), "gone"),
    ] {
        let kept = Kept::new(script);
        let key = kept.memory("m", embedder, &FACTS).await;
        kept.remember(&key, "o", ("ada", "It rained", "Oh")).await;
        kept.work(&key).await;
        let failed = kept.messages(&key).await.remove(0);
        assert!(matches!(failed.extraction, Extraction::Failed(_)), "{failed:?}");
    }
}

#[tokio::test]
async fn searches_respect_memories_users_and_embedders() {
    let kept = Kept::new(Script::new());
    let (one, other) =
        (kept.memory("a", "e", &[MessageType::Raw]).await, kept.memory("b", "e", &[MessageType::Raw]).await);
    for (key, user, query) in
        [(&one, "ada", "the red house"), (&one, "bob", "the red boat"), (&other, "ada", "a red car")]
    {
        kept.remember(key, query, (user, query, "yes")).await;
        kept.work(key).await;
    }
    let numbers = async |query: &MemoryQuery| {
        let found = kept.memories.recall(&default_tenant(), query).await.unwrap();
        let mut found: Vec<String> = found.messages.into_iter().map(|one| one.content).collect();
        found.sort();
        found
            .iter()
            .map(|content| content.split_once('\n').unwrap().0.replace("User Input: ", ""))
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(&query(&[&one, &other], "red")).await, ["a red car", "the red boat", "the red house"]);
    let of_ada = MemoryQuery { user: Some("ada".to_owned()), ..query(&[&one, &other], "red") };
    assert_eq!(numbers(&of_ada).await, ["a red car", "the red house"]);
    let one_only = MemoryQuery { limit: 1, ..query(&[&one, &other], "red boat") };
    assert_eq!(numbers(&one_only).await, ["the red boat"]);
    assert!(numbers(&query(&[&one], "  ")).await.is_empty());
    let of_nobody = MemoryQuery { session: Some("another".to_owned()), ..query(&[&one], "red") };
    assert!(numbers(&of_nobody).await.is_empty());
    let strange = kept.memories.recall(&"another".into(), &query(&[&one], "red")).await.unwrap_err();
    assert_eq!(strange.kind, ErrorKind::NotFound);
    let third = kept.memory("c", "f", &[MessageType::Raw]).await;
    let mixed = kept.memories.recall(&default_tenant(), &query(&[&one, &third], "red")).await.unwrap_err();
    assert!(mixed.full().contains("`e` and `f`"), "{}", mixed.full());
    let many = MemoryQuery { memories: vec![one.id.clone(); 17], ..query(&[], "red") };
    assert_eq!(kept.memories.recall(&default_tenant(), &many).await.unwrap_err().kind, ErrorKind::Invalid);
    // Without its embedder a memory is searched by words, with a warning.
    let fourth = kept.memory("d", "gone", &[MessageType::Raw]).await;
    kept.remember(&fourth, "o", ("ada", "green", "yes")).await;
    let found = kept.memories.recall(&default_tenant(), &query(&[&fourth], "green")).await.unwrap();
    assert_eq!(found.messages.len(), 1);
    assert!(found.notes[0].contains("`gone` failed"), "{:?}", found.notes);
}

async fn made(bench: &Bench, body: Json) -> Json {
    bench.post("/api/v1/memories", body).await.data()
}

#[tokio::test]
async fn memories_are_created_changed_and_removed() {
    let bench = bench(Script::new()).await;
    let body =
        json!({"name": " Notes ", "memory_type": ["semantic", "RAW", "raw"], "llm_id": "m", "embd_id": ""});
    let memory = made(&bench, body.clone()).await;
    let id = memory["id"].as_str().unwrap().to_owned();
    let expected = json!({"name": "Notes", "memory_type": ["raw", "semantic"], "storage_type": "table",
        "memory_size": 5_242_880, "forgetting_policy": "FIFO", "temperature": 0.5, "permissions": "me"});
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(memory[key], *value, "{key}");
    }
    assert_eq!(made(&bench, body).await["name"], "Notes(1)");
    let refusal = async |method: &str, path: &str, body: Json| bench.ask(method, path, body).await.refusal();
    let check = async |body: Json, message: &str| {
        let refused = refusal("PUT", &format!("/api/v1/memories/{id}"), body).await;
        assert_eq!(refused, (101, message.to_owned()));
    };
    check(json!({"name": "  "}), "Memory name cannot be empty or whitespace.").await;
    let long = "x".repeat(129);
    check(json!({"name": long}), &format!("Memory name '{long}' exceeds limit of 128.")).await;
    let long = json!({"avatar": "x".repeat(65_536)});
    check(long, "`avatar` has more than 65535 characters").await;
    check(json!({"memory_type": "raw"}), "Memory type must be a list.").await;
    check(json!({"memory_type": ["odd"]}), "Memory type '{'odd'}' is not supported.").await;
    check(json!({"permissions": "all"}), "Unknown permission 'all'.").await;
    for size in [json!(0), json!(10_485_761), json!(-1), json!("1")] {
        check(json!({"memory_size": size}), "Memory size should be in range (0, 10485760] Bytes.").await;
    }
    check(json!({"forgetting_policy": "LRU"}), "Forgetting policy 'LRU' is not supported.").await;
    check(json!({"temperature": 1.1}), "Temperature should be in range [0, 1].").await;
    let half = refusal("POST", "/api/v1/memories", json!({"name": "x", "memory_type": ["raw"]})).await;
    assert_eq!(half, (101, "required argument are missing: embd_id,llm_id; ".to_owned()));
    let changes = json!({"name": "Facts", "temperature": 1, "permissions": "team", "memory_type": ["raw"]});
    let changed = bench.ask("PUT", &format!("/api/v1/memories/{id}"), changes).await.data();
    assert_eq!((&changed["name"], &changed["permissions"]), (&json!("Facts"), &json!("team")));
    assert_eq!(bench.get(&format!("/api/v1/memories/{id}/config")).await.data(), changed);
    let turn = json!({"memory_id": [id], "agent_id": "a", "session_id": "s", "user_input": "u", "agent_response": "r"});
    bench.post("/api/v1/messages", turn).await.data();
    let (types, words) =
        (json!({"memory_type": ["raw", "episodic"]}), "Can't update memory_type when memory isn't empty.");
    check(types.clone(), words).await;
    assert_eq!(bench.ask("DELETE", &format!("/api/v1/messages/{id}:1"), json!({})).await.data(), true);
    check(types, words).await;
    let listed = bench.get("/api/v1/memories?keywords=FACT&memory_type=raw,semantic").await.data();
    assert_eq!((listed["total_count"].as_u64(), &listed["memory_list"][0]["id"]), (Some(1), &json!(id)));
    for nothing in ["memory_type=episodic", "tenant_id=other", "storage_type=graph", "page=9"] {
        let listed = bench.get(&format!("/api/v1/memories?{nothing}")).await.data();
        assert_eq!(listed["memory_list"], json!([]), "{nothing}");
    }
    // Another tenant does not see it.
    let stranger = Bench { token: bench.stranger().await, ..bench.restarted() };
    let unknown = (404, format!("Memory '{id}' not found."));
    assert_eq!(stranger.get(&format!("/api/v1/memories/{id}/config")).await.refusal(), unknown);
    assert_eq!(stranger.ask("DELETE", &format!("/api/v1/memories/{id}"), json!({})).await.refusal(), unknown);
    assert_eq!(stranger.get("/api/v1/memories").await.data()["total_count"], 0);
    assert_eq!(bench.ask("DELETE", &format!("/api/v1/memories/{id}"), json!({})).await.data(), true);
    assert_eq!(refusal("DELETE", &format!("/api/v1/memories/{id}"), json!({})).await, unknown);
}

#[tokio::test]
async fn a_search_returns_at_most_the_maximum_page_size() {
    let limits = LimitsConfig { page_size: 2, ..LimitsConfig::default() };
    let bench = bench_with(Script::new(), Auth::On, limits).await;
    let memory =
        made(&bench, json!({"name": "m", "memory_type": ["raw"], "embd_id": "", "llm_id": ""})).await;
    let id = memory["id"].as_str().unwrap();
    for said in ["a red house", "a red boat", "a red door"] {
        let turn = json!({"memory_id": [id], "agent_id": "a", "session_id": "s", "user_input": said,
            "agent_response": "yes"});
        bench.post("/api/v1/messages", turn).await.data();
    }
    for (top_n, count) in [("1", 1), ("1000", 2), ("18446744073709551615", 2), ("-1", 2)] {
        let found =
            bench.get(&format!("/api/v1/messages/search?memory_id={id}&query=red&top_n={top_n}")).await;
        assert_eq!(found.data().as_array().unwrap().len(), count, "{top_n}");
    }
}

#[tokio::test]
async fn messages_are_added_found_disabled_and_forgotten() {
    let bench = bench(Script::new()).await;
    let memory =
        made(&bench, json!({"name": "m", "memory_type": ["raw"], "embd_id": "", "llm_id": ""})).await;
    let id = memory["id"].as_str().unwrap().to_owned();
    for (session, said) in [("s1", "the red house"), ("s2", "the blue boat")] {
        let turn = json!({"memory_id": [id], "agent_id": "a", "session_id": session, "user_id": "ada",
            "user_input": said, "agent_response": "yes"});
        let added = bench.post("/api/v1/messages", turn).await.json();
        assert_eq!((&added["code"], &added["message"]), (&json!(0), &json!("All add to task.")));
    }
    let page = bench.get(&format!("/api/v1/memories/{id}?keywords=S2&agent_id=a,b")).await.data();
    let listed = &page["messages"]["message_list"];
    assert_eq!(
        (page["messages"]["total_count"].as_u64(), listed[0]["message_id"].as_u64()),
        (Some(1), Some(2))
    );
    assert_eq!(listed[0]["content"], "User Input: the blue boat\nAgent Response: yes");
    let recent = bench.get(&format!("/api/v1/messages?memory_id={id}&limit=1")).await.data();
    assert_eq!((recent.as_array().unwrap().len(), &recent[0]["session_id"]), (1, &json!("s2")));
    let search = async |rest: &str| {
        let found = bench.get(&format!("/api/v1/messages/search?memory_id={id}{rest}")).await.data();
        found.as_array().unwrap().iter().map(|one| one["message_id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(search("&query=red").await, [1]);
    assert_eq!(search("&query=the+blue+house&top_n=1").await.len(), 1);
    assert!(search("&query=red&user_id=bob").await.is_empty());
    assert!(search("&query=").await.is_empty());
    let one = format!("/api/v1/messages/{id}:1");
    assert_eq!(
        bench.ask("PUT", &one, json!({"status": "true"})).await.refusal(),
        (101, "Status must be a boolean.".to_owned())
    );
    assert_eq!(bench.ask("PUT", &one, json!({"status": false})).await.data(), true);
    assert!(search("&query=red").await.is_empty());
    let content = bench.get(&format!("{one}/content")).await.data();
    assert_eq!((&content["status"], &content["content_embed"]), (&json!(false), &json!([])));
    assert_eq!(bench.ask("DELETE", &one, json!({})).await.data(), true);
    let gone = (404, format!("Message '1' in memory '{id}' not found."));
    assert_eq!(bench.ask("DELETE", &one, json!({})).await.refusal(), gone);
    assert_eq!(bench.get(&format!("{one}/content")).await.refusal(), gone);
    for (path, message) in [
        ("/api/v1/messages".to_owned(), "memory_ids is required".to_owned()),
        ("/api/v1/messages/search?query=x".to_owned(), "memory_ids is required".to_owned()),
        (
            format!("/api/v1/messages/search?query=x&memory_id={id}&similarity_threshold=2"),
            "`similarity_threshold` must be a number from 0 to 1".to_owned(),
        ),
    ] {
        assert_eq!(bench.get(&path).await.refusal(), (101, message), "{path}");
    }
    for path in [
        "/api/v1/messages?memory_id=no",
        "/api/v1/messages/search?query=x&memory_id=no",
        "/api/v1/messages/no:1/content",
        "/api/v1/messages/no/content",
    ] {
        assert_eq!(bench.get(path).await.refusal(), (404, "Memory 'no' not found.".to_owned()), "{path}");
    }
    let (code, message) = bench
        .post("/api/v1/messages", json!({"memory_id": ["no", id], "agent_id": "a", "session_id": "s", "user_input": "u", "agent_response": "r"}))
        .await
        .refusal();
    assert_eq!(
        (code, message.as_str()),
        (500, "Some messages failed to add. Detail: Memory 'no' not found.")
    );
}

#[tokio::test]
async fn a_message_component_stores_its_text_and_a_retrieval_finds_it() {
    let bench = bench(Script::new()).await;
    let id =
        made(&bench, json!({"name": "m", "memory_type": ["raw"], "embd_id": "", "llm_id": ""})).await["id"]
            .clone();
    for stream in [true, false] {
        let said = json!({"content": ["you said: {sys.query}"], "memory_ids": [id, "no"], "user_id": "sys.user_id",
            "stream": stream});
        let canvas = json!({"components": {
            "begin": begin("", "Message:M"), "Message:M": component("Message", &said, &[])}});
        let agent = bench.store(&format!("Echo {stream}"), canvas).await;
        let asked = json!({"question": format!("hello {stream}"), "stream": stream, "user_id": "ada"});
        let answer = bench.post(&format!("/api/v1/agents/{agent}/completions"), asked).await;
        assert!(format!("{:?}", answer.text).contains("you said: hello"));
        let kept = bench.get(&format!("/api/v1/memories/{}", id.as_str().unwrap())).await.data();
        let latest = &kept["messages"]["message_list"][0];
        let expected = format!("User Input: hello {stream}\nAgent Response: you said: hello {stream}");
        assert_eq!((&latest["content"], &latest["user_id"]), (&json!(expected), &json!("ada")));
        assert_eq!(
            (&latest["agent_id"], &latest["agent_name"]),
            (&json!(agent), &json!(format!("Echo {stream}")))
        );
        assert_eq!(kept["messages"]["total_count"], if stream { 1 } else { 2 });
    }
    let search = json!({"query": "sys.query", "retrieval_from": "memory", "memory_ids": id, "user_id": "{sys.user_id}",
        "top_n": 1, "empty_response": "Nothing."});
    let canvas = json!({"components": {
        "begin": begin("", "Retrieval:R"),
        "Retrieval:R": component("Retrieval", &search, &["Message:M"]),
        "Message:M": component("Message", &json!({"content": ["{Retrieval:R@formalized_content}"]}), &[])}});
    let agent = bench.store("Find", canvas).await;
    for (user, expected) in [("ada", "you said: hello true"), ("bob", "Nothing.")] {
        let asked = json!({"question": "hello true", "stream": false, "user_id": user});
        let answer = bench.post(&format!("/api/v1/agents/{agent}/completions"), asked).await;
        assert!(format!("{:?}", answer.text).contains(expected), "{user}: {:?}", answer.text);
    }
}
