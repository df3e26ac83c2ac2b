//! The contract of every long-term memory.

use std::sync::Arc;

use serde_json::json;
use weft_agent::long_term::{
    LocalMemory, LongTermMemory, MEMORIES_MAX, MEMORY_BYTES_MAX, Mem0, Owner, Storing,
};
use weft_core::seam::Http;
use weft_core::seam::http::{HttpBody, HttpRequest, HttpResponse};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};

/// A service with Mem0's interface.
struct Service(LocalMemory);

#[async_trait]
impl Http for Service {
    async fn send(&self, _: &TenantId, request: HttpRequest) -> Result<HttpResponse> {
        let HttpBody::Json(body) = request.body else { return Err(Error::invalid("no JSON")) };
        let owner: Owner = serde_json::from_value(body.clone()).unwrap();
        let body = if request.url.ends_with("/memories") {
            let text = body["messages"][0]["content"].as_str().unwrap();
            let ids = self.0.add(&owner, text, Storing::Verbatim).await?;
            json!({"results": ids.iter().map(|id| json!({"id": id, "event": "ADD"})).collect::<Vec<_>>()})
        } else {
            let limit = usize::try_from(body["limit"].as_u64().unwrap()).unwrap();
            let found = self.0.search(&owner, body["query"].as_str().unwrap(), limit).await?;
            let found = found.iter().map(|one| json!({"id": one.id, "memory": one.text, "score": one.score}));
            json!({"results": found.collect::<Vec<_>>()})
        };
        Ok(HttpResponse { status: 200, headers: Vec::new(), body: body.to_string() })
    }

    async fn may_reach(&self, _: &TenantId, _: &str) -> Result<()> {
        Ok(())
    }
}

async fn remembers(memory: &dyn LongTermMemory) {
    let (eve, bob) = (Owner::user("eve"), Owner::user("bob"));
    let texts = async |owner: &Owner, query: &str, limit: usize| -> Vec<String> {
        memory.search(owner, query, limit).await.unwrap().into_iter().map(|one| one.text).collect()
    };
    assert!(texts(&eve, "tea", 5).await.is_empty());
    let ids = memory.add(&eve, "Eve likes green tea.", Storing::Verbatim).await.unwrap();
    assert_eq!(ids.len(), 1);
    memory.add(&eve, "The office is in Bergen.", Storing::Verbatim).await.unwrap();
    memory.add(&eve, "我喜欢绿茶", Storing::Verbatim).await.unwrap();
    memory.add(&bob, "Bob likes black tea.", Storing::Verbatim).await.unwrap();
    let found = memory.search(&eve, "Which TEA?", 5).await.unwrap();
    assert_eq!((found.len(), &found[0].text, &found[0].id), (1, &"Eve likes green tea.".to_owned(), &ids[0]));
    assert!(found[0].score > 0.0);
    assert_eq!(texts(&eve, "office Bergen tea", 5).await[0], "The office is in Bergen.", "the best first");
    assert_eq!(texts(&eve, "绿茶", 5).await, ["我喜欢绿茶"]);
    assert_eq!(texts(&eve, "office tea", 1).await.len(), 1);
    assert_eq!(texts(&eve, "two teas", 5).await, ["Eve likes green tea."], "one or several");
    assert_eq!(texts(&bob, "tea", 5).await, ["Bob likes black tea."], "memories belong to one owner");
    for work in [
        memory.add(&Owner::default(), "x", Storing::Verbatim).await.map(drop),
        memory.search(&Owner::default(), "x", 1).await.map(drop),
    ] {
        assert_eq!(work.unwrap_err().kind, ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn in_process_memories_are_found() {
    remembers(&LocalMemory::new()).await;
}

#[tokio::test]
async fn memories_of_a_remote_service_are_found() {
    let http = Arc::new(Service(LocalMemory::new()));
    remembers(&Mem0::new(http, TenantId::from("t"), "http://mem0.test")).await;
}

#[tokio::test]
async fn memories_in_a_file_outlive_the_process() {
    use std::io::Write as _;
    let path = std::env::temp_dir().join(format!("weft-memories-{}", weft_core::id::generate()));
    let memory = LocalMemory::open(&path).unwrap();
    remembers(&memory).await;
    assert_eq!(LocalMemory::open(&path).unwrap_err().kind, ErrorKind::Conflict, "one process at a time");
    drop(memory);
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"id\":").unwrap();
    let memory = LocalMemory::open(&path).unwrap();
    // As left by a write that fails midway.
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"id\":").unwrap();
    memory.add(&Owner::user("eve"), "Eve has a cat.", Storing::Inferred).await.unwrap();
    drop(memory);
    let memory = LocalMemory::open(&path).unwrap();
    assert_eq!(memory.search(&Owner::user("eve"), "tea cat", 5).await.unwrap().len(), 2);
    drop(memory);
    std::fs::write(&path, "nonsense\n").unwrap();
    assert!(LocalMemory::open(&path).unwrap_err().full().contains("line 1 of"));
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn a_large_memory_file_opens_quickly_and_keeps_the_newest_of_each() {
    let path = std::env::temp_dir().join(format!("weft-memories-{}", weft_core::id::generate()));
    let line = |user: &str, n: usize| {
        format!("{{\"id\":\"{user}{n}\",\"owner\":{{\"user_id\":\"{user}\"}},\"text\":\"word{n}\"}}\n")
    };
    let of_eve = (0..MEMORIES_MAX + 10).map(|n| line("eve", n));
    let of_others = (0..60_000).map(|n| line(&format!("user{n}"), n));
    std::fs::write(&path, of_eve.chain(of_others).collect::<String>()).unwrap();
    let begun = std::time::Instant::now();
    let memory = LocalMemory::open(&path).unwrap();
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    let found = async |word: &str| memory.search(&Owner::user("eve"), word, 5).await.unwrap().len();
    assert_eq!((found("word9").await, found("word10").await), (0, 1));
    // One more, and the oldest of hers is evicted.
    memory.add(&Owner::user("eve"), "the last", Storing::Verbatim).await.unwrap();
    assert_eq!((found("word10").await, found("word11").await, found("last").await), (0, 1, 1));
    drop(memory);
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn a_memory_file_is_rewritten_when_half_of_it_belongs_to_dropped_memories() {
    let folder = std::env::temp_dir().join(format!("weft-memories-{}", weft_core::id::generate()));
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("memories");
    let eve = Owner::user("eve");
    let filler = "x".repeat(400);
    let line = |n: usize| {
        format!("{{\"id\":\"{n:05}\",\"owner\":{{\"user_id\":\"eve\"}},\"text\":\"word{n:05} {filler}\"}}\n")
    };
    // Only a little less than half of it.
    std::fs::write(&path, (0..2 * MEMORIES_MAX - 10).map(line).collect::<String>()).unwrap();
    let length = || std::fs::metadata(&path).unwrap().len();
    let before = length();
    let memory = LocalMemory::open(&path).unwrap();
    assert_eq!(length(), before);
    // As left by a process that ended in the middle.
    std::fs::write(folder.join("memories.rewritten"), "{\"id\":").unwrap();
    for n in 0..30 {
        memory.add(&eve, &format!("later{n}"), Storing::Verbatim).await.unwrap();
    }
    assert!(length() < before * 6 / 10, "{} of {before} bytes", length());
    assert_eq!(LocalMemory::open(&path).unwrap_err().kind, ErrorKind::Conflict, "one process at a time");
    drop(memory);
    let memory = LocalMemory::open(&path).unwrap();
    let found = async |word: &str| memory.search(&eve, word, 5).await.unwrap().len();
    // Of the 20,020 memories, the first 10,020 are gone.
    assert_eq!((found("word10019").await, found("word10020").await), (0, 1));
    assert_eq!((found("later0").await, found("later29").await), (1, 1));
    drop(memory);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    // When it is opened as well.
    std::fs::write(&path, (0..3 * MEMORIES_MAX).map(line).collect::<String>()).unwrap();
    let before = length();
    drop(LocalMemory::open(&path).unwrap());
    assert!(length() < before / 2, "{} of {before} bytes", length());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_memory_search_does_not_block_other_requests() {
    let (memory, eve) = (LocalMemory::new(), Owner::user("eve"));
    for nth in 0..20 {
        let text = format!("{nth} {}", "word ".repeat(10_000));
        memory.add(&eve, &text, Storing::Verbatim).await.unwrap();
    }
    let mut search = std::pin::pin!(memory.search(&eve, "word", 5));
    assert!(futures::poll!(search.as_mut()).is_pending());
    assert_eq!(search.await.unwrap().len(), 5);
}

#[tokio::test]
async fn memories_have_limits() {
    let (memory, eve) = (LocalMemory::new(), Owner::user("eve"));
    let long = memory.add(&eve, &"x".repeat(MEMORY_BYTES_MAX + 1), Storing::Verbatim).await;
    assert_eq!(long.unwrap_err().kind, ErrorKind::Invalid);
    assert!(memory.add(&eve, "  ", Storing::Verbatim).await.unwrap().is_empty());
    let first = memory.add(&eve, "the same", Storing::Verbatim).await.unwrap();
    assert_eq!(memory.add(&eve, "the same", Storing::Verbatim).await.unwrap(), first, "once");
    memory.add(&Owner::user("bob"), "the same", Storing::Verbatim).await.unwrap();
    for nth in 0..MEMORIES_MAX {
        memory.add(&eve, &format!("number{nth}"), Storing::Verbatim).await.unwrap();
    }
    assert!(memory.search(&eve, "same", 5).await.unwrap().is_empty(), "the oldest was removed");
    assert_eq!(memory.search(&Owner::user("bob"), "same", 5).await.unwrap().len(), 1, "of that owner only");
}
