//! Documents: uploaded, read, listed, changed, downloaded, removed.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use futures::{FutureExt as _, StreamExt as _, stream};
use serde_json::{Value as Json, json};
use weft_app::Auth;
use weft_app::config::LimitsConfig;
use weft_testkit::Script;

use crate::shelf::form;
use crate::support::{Bench, bench, bench_with, chat_canvas};

async fn names(bench: &Bench, path: &str) -> Vec<String> {
    let docs = bench.get(path).await.data()["docs"].take();
    docs.as_array().unwrap().iter().map(|doc| doc["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn files_are_uploaded_read_and_listed() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let kept =
        bench.upload(&dataset, &[("a.txt", "one\ntwo"), ("b.txt", "broken"), ("a.txt", "x")]).await.data();
    assert_eq!(
        (&kept[0]["run"], &kept[0]["type"], &kept[0]["size"]),
        (&json!("UNSTART"), &json!("doc"), &json!(7))
    );
    assert_eq!(kept[2]["name"], "a(1).txt");
    assert_eq!(kept[0]["dataset_id"], dataset.rsplit('/').next().unwrap());
    let ids: Vec<_> =
        kept.as_array().unwrap().iter().map(|doc| doc["id"].as_str().unwrap().to_owned()).collect();

    let read = bench.read(&dataset, &[&ids[0], &ids[1]]).await;
    assert_eq!(read["total"], 3);
    let of = |id: &str| read["docs"].as_array().unwrap().iter().find(|doc| doc["id"] == id).unwrap();
    let (good, bad, unread) = (of(&ids[0]), of(&ids[1]), of(&ids[2]));
    assert_eq!(
        (&good["run"], &good["progress"], &good["chunk_count"]),
        (&json!("DONE"), &json!(1.0), &json!(2))
    );
    assert!(good["progress_msg"].as_str().unwrap().contains("Task done"), "{good}");
    assert!(good["process_begin_at"].as_str().unwrap().ends_with("GMT"), "{good}");
    assert_eq!((&bad["run"], &bad["progress"]), (&json!("FAIL"), &json!(-1.0)));
    assert!(bad["progress_msg"].as_str().unwrap().contains("`b.txt` is broken"), "{bad}");
    assert_eq!(unread["run"], "UNSTART");
    let counts = bench.get(&dataset).await.data();
    assert_eq!((&counts["document_count"], &counts["chunk_count"]), (&json!(3), &json!(2)));

    let list = |query: &str| format!("{dataset}/documents?desc=False&{query}");
    assert_eq!(names(&bench, &list("keywords=A")).await, ["a.txt", "a(1).txt"]);
    assert_eq!(names(&bench, &list("run=FAIL&run=0")).await, ["b.txt", "a(1).txt"]);
    assert_eq!(names(&bench, &list("page=2&page_size=2")).await, ["a(1).txt"]);
    assert_eq!(names(&bench, &list(&format!("id={}", ids[1]))).await, ["b.txt"]);
    assert_eq!(names(&bench, &list("name=a.txt")).await, ["a.txt"]);
    assert_eq!(names(&bench, &list("suffix=pdf")).await, [""; 0]);
    assert_eq!(names(&bench, &list("create_time_from=1&create_time_to=2")).await, [""; 0]);
    let refusal = bench.get(&list("id=nope")).await.refusal();
    assert_eq!(refusal, (102, "you don't own the document nope.".to_owned()));
    assert_eq!(
        bench.get(&list("name=nope")).await.refusal(),
        (102, "you don't own the document nope.".to_owned())
    );
}

#[tokio::test]
async fn an_empty_file_can_be_uploaded_but_not_downloaded() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let kept = bench.upload(&dataset, &[("a.txt", "one"), ("b.txt", ""), ("c.txt", "three")]).await.data();
    let sizes: Vec<_> = kept.as_array().unwrap().iter().map(|one| one["size"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [3, 0, 5]);
    let file = format!("{dataset}/documents/{}", kept[1]["id"].as_str().unwrap());
    assert_eq!(bench.get(&file).await.refusal(), (102, "This file is empty.".into()));
    let told = bench.upload(&dataset, &[("d.unknown", "")]).await.refusal();
    assert_eq!(told, (500, "d.unknown: This type of file has not been supported yet!".into()));
    bench.upload(&dataset, &[("d.unknown", "what is text is read")]).await.data();
}

#[tokio::test]
async fn a_document_can_be_created_from_a_name_alone() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let path = format!("{dataset}/documents?type=empty");
    let made = bench.post(&path, json!({"name": " notes.txt "})).await.data();
    assert_eq!(
        (&made["name"], &made["size"], &made["run"]),
        (&json!("notes.txt"), &json!(0), &json!("UNSTART"))
    );
    let chunks = format!("{dataset}/documents/{}/chunks", made["id"].as_str().unwrap());
    bench.post(&chunks, json!({"content": "A red boat."})).await.data();
    let found = json!({"question": "boat", "dataset_ids": [dataset.rsplit('/').next().unwrap()]});
    assert_eq!(bench.post("/api/v1/retrieval", found).await.data()["chunks"][0]["content"], "A red boat.");
    let long = "x".repeat(256);
    for (body, refusal) in [
        (json!({}), (101, "File name can't be empty.")),
        (json!({"name": "  "}), (101, "File name can't be empty.")),
        (json!({"name": long}), (101, "File name must be 255 bytes or less.")),
        (json!({"name": "notes.txt"}), (102, "Duplicated document name in the same dataset.")),
        (json!({"name": "a.exe"}), (500, "a.exe: This type of file has not been supported yet!")),
    ] {
        assert_eq!(
            bench.post(&path, body.clone()).await.refusal(),
            (refusal.0, refusal.1.to_owned()),
            "{body}"
        );
    }
    assert_eq!(names(&bench, &format!("{dataset}/documents")).await, ["notes.txt"]);
}

#[tokio::test]
async fn documents_are_counted_by_filter_values() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let mut ids = Vec::new();
    for name in ["one.txt", "two.txt", "three.md"] {
        ids.push(bench.document(&dataset, name, "text").await);
    }
    for id in &ids[..2] {
        let author = json!({"meta_fields": {"author": ["Ada", "Grace"], "pages": 3}});
        bench.ask("PATCH", &format!("{dataset}/documents/{id}"), author).await.data();
    }
    bench.read(&dataset, &[&ids[0]]).await;
    let told = bench.get(&format!("{dataset}/documents?type=filter")).await.data();
    let metadata =
        json!({"author": {"Ada": 2, "Grace": 2}, "pages": {"3": 2}, "empty_metadata": {"true": 1}});
    let filter = json!({"suffix": {"md": 1, "txt": 2}, "run_status": {"0": 2, "3": 1}, "metadata": metadata});
    assert_eq!(told, json!({"total": 3, "filter": filter}));
    let told = bench.get(&format!("{dataset}/documents?type=filter&keywords=THREE")).await.data();
    assert_eq!((&told["total"], &told["filter"]["suffix"]), (&json!(1), &json!({"md": 1})));
    assert_eq!(names(&bench, &format!("{dataset}/documents?run_status=3")).await, ["one.txt"]);
    let words = (102, "Invalid filter run status conditions: nope".to_owned());
    assert_eq!(bench.get(&format!("{dataset}/documents?run_status=nope")).await.refusal(), words);
}

#[tokio::test]
async fn documents_are_listed_by_kind_and_metadata() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    for (name, metadata) in [
        ("a.txt", json!({"author": ["Ada", "Grace"], "year": 1843})),
        ("b.md", json!({"author": "Grace", "year": 1952})),
        ("c.pdf", json!({"author": "Ada"})),
        ("d.png", json!({})),
        ("e", json!({})),
    ] {
        let id = bench.document(&dataset, name, "text").await;
        let given = json!({"meta_fields": metadata});
        bench.ask("PATCH", &format!("{dataset}/documents/{id}"), given).await.data();
    }
    let path = |query: &str| format!("{dataset}/documents?orderby=name&desc=false&{query}");
    for (query, expected) in [
        ("types=doc", vec!["a.txt", "b.md"]),
        ("types=pdf&types=visual", vec!["c.pdf", "d.png"]),
        ("types=doc,other", vec!["a.txt", "b.md", "e"]),
        ("types=doc&suffix=md&suffix=png", vec!["b.md"]),
        ("types=visual&suffix=md", vec![]),
        ("types=folder", vec![]),
        // {"author": "ada"}, {"author": ["Ada", "Grace"], "year": "1952"}, {"author": [], "year": 1843}
        ("metadata=%7B%22author%22:%22ada%22%7D", vec!["a.txt", "c.pdf"]),
        ("metadata=%7B%22author%22:%5B%22Ada%22,%22Grace%22%5D,%22year%22:%221952%22%7D", vec!["b.md"]),
        ("metadata=%7B%22author%22:%5B%5D,%22year%22:1843%7D", vec!["a.txt"]),
        ("metadata=%7B%22empty_metadata%22:%5B%22true%22%5D%7D", vec!["d.png", "e"]),
        ("return_empty_metadata=true&types=other", vec!["e"]),
    ] {
        assert_eq!(names(&bench, &path(query)).await, expected, "{query}");
    }
    for (query, words) in [
        ("types=txt", "Invalid filter conditions: txt type"),
        ("types=txt,doc,md", "Invalid filter conditions: txt, md types"),
        ("metadata=%7B", "metadata must be valid JSON."),
        ("metadata=%5B1%5D", "metadata must be an object."),
    ] {
        assert_eq!(bench.get(&path(query)).await.refusal(), (102, words.to_owned()), "{query}");
    }
}

#[tokio::test]
async fn invalid_uploads_are_refused_as_a_whole() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let check = async |files: &[(&str, &str)], code: u64, words: &str| {
        let (got, message) = bench.upload(&dataset, files).await.refusal();
        assert!(got == code && message.contains(words), "{files:?}: {got} {message}");
        assert_eq!(bench.get(&format!("{dataset}/documents")).await.data()["total"], 0, "{files:?}");
    };
    check(&[], 101, "No file part!").await;
    check(&[("", "x")], 101, "No file selected!").await;
    check(&[("a.txt", "x"), ("..", "x")], 101, "No file selected!").await;
    let long = format!("{}.txt", "x".repeat(252));
    check(&[("a.txt", "x"), (&long, "x")], 101, "File name must be 255 bytes or less.").await;
    let words = "a.exe: This type of file has not been supported yet!";
    check(&[("a.txt", "x"), ("a.exe", "x")], 500, words).await;

    // A form that ends in the middle of a file.
    let (body, kind) = form(&[("a.txt", "x"), ("b.txt", "yyyy")]);
    let half = body[..body.len() - 16].to_owned();
    let (code, message) = bench.send(bench.upload_of(&dataset, half, &kind)).await.refusal();
    assert!(code == 101 && message.contains("cannot be read"), "{message}");
    assert_eq!(bench.get(&format!("{dataset}/documents")).await.data()["total"], 0);
    // Files come only from the form, even if a body names a path.
    let text = json!({"file": "/etc/passwd", "files": [{"path": "/etc/passwd", "filepath": "/etc/passwd"}]});
    for kind in
        ["application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/mixed; boundary=x"]
    {
        let refused = bench.send(bench.upload_of(&dataset, text.to_string(), kind)).await.refusal();
        assert_eq!(refused, (101, "No file part!".to_owned()), "{kind}");
    }
    for (query, code, words) in [
        ("type=web", 102, "not fetched"),
        ("type=x", 101, "`type` must be one of \"local\", \"web\", or \"empty\"."),
    ] {
        let refused =
            bench.post(&format!("{dataset}/documents?{query}"), json!({"url": "http://127.0.0.1"})).await;
        let (got, message) = refused.refusal();
        assert!(got == code && message.contains(words), "{query}: {message}");
    }
    let unknown = bench.upload("/api/v1/datasets/0f0e0d0c0b0a11ee8000000000000001", &[("a.txt", "x")]).await;
    let words = "Can't find the dataset with ID 0f0e0d0c0b0a11ee8000000000000001!";
    assert_eq!(unknown.refusal(), (102, words.to_owned()));
}

#[tokio::test]
async fn uploads_have_their_own_limits() {
    let limits = LimitsConfig { body_bytes: 500, upload_bytes: 5_000, ..LimitsConfig::default() };
    let bench = bench_with(Script::new(), Auth::On, limits).await;
    let dataset = bench.dataset("Docs").await;
    // Uploads may be larger than other requests.
    bench.upload(&dataset, &[("a.txt", &"x".repeat(1_500))]).await.data();
    let large = bench.upload(&dataset, &[("b.txt", &"x".repeat(2_500))]).await;
    assert_eq!((large.status.as_u16(), large.refusal().0), (413, 413));
    assert!(large.refusal().1.contains("documents.file_bytes_max"), "{}", large.refusal().1);
    let each = "x".repeat(1_900);
    let many = bench.upload(&dataset, &[("c.txt", &each), ("d.txt", &each), ("e.txt", &each)]).await;
    assert_eq!((many.status.as_u16(), many.refusal().0), (413, 413), "{}", many.text);
    assert_eq!(names(&bench, &format!("{dataset}/documents")).await, ["a.txt"]);
    assert_eq!(bench.post("/api/v1/datasets", json!({"name": "x".repeat(600)})).await.status.as_u16(), 413);
}

#[tokio::test]
async fn the_documents_of_a_tenant_are_limited_in_number_and_size() {
    let limits = LimitsConfig { tenant_document_bytes: 1_000, ..LimitsConfig::default() };
    let bytes = bench_with(Script::new(), Auth::On, limits).await;
    let limits = LimitsConfig { tenant_documents: 1, ..LimitsConfig::default() };
    let count = bench_with(Script::new(), Auth::On, limits).await;
    for (bench, setting) in [(bytes, "limits.tenant_document_bytes"), (count, "limits.tenant_documents")] {
        let (one, other) = (bench.dataset("One").await, bench.dataset("Other").await);
        bench.upload(&one, &[("a.txt", &"x".repeat(600))]).await.data();
        let (_, message) = bench.upload(&other, &[("b.txt", &"x".repeat(401))]).await.refusal();
        assert!(message.contains(setting), "{message}");
        assert_eq!(names(&bench, &format!("{other}/documents")).await, <[&str; 0]>::default());
        // Removing a document makes room.
        let id = bench.get(&format!("{one}/documents")).await.data()["docs"][0]["id"].clone();
        bench.ask("DELETE", &format!("{one}/documents"), json!({"ids": [id]})).await.data();
        bench.upload(&other, &[("b.txt", &"x".repeat(401))]).await.data();
    }
}

#[tokio::test]
async fn a_file_is_downloaded_unchanged_and_never_displayed_inline() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let page = "<script>alert(1)</script>";
    for (name, saved) in
        [("../../evil.html", "evil.html"), ("C:\\x\\a.svg", "a.svg"), ("bericht ä.txt", "bericht ä.txt")]
    {
        let kept = bench.upload(&dataset, &[(name, page)]).await.data();
        assert_eq!(kept[0]["name"], saved);
        let file = bench.get(&format!("{dataset}/documents/{}", kept[0]["id"].as_str().unwrap())).await;
        assert_eq!(file.text, page);
        let header = |name: &str| file.headers[name].to_str().unwrap().to_owned();
        assert!(header("content-disposition").starts_with("attachment; filename=\""), "{name}");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert!(
            !header("content-type").contains("html") && !header("content-type").contains("svg"),
            "{name}"
        );
        assert!(!header("content-disposition").contains(".."), "{name}");
    }
}

#[tokio::test]
async fn a_failed_download_has_only_a_code_and_a_message() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let document = bench.document(&dataset, "a.txt", "secret").await;
    let other_dataset = bench.dataset("Other").await;
    let path = format!("{dataset}/documents/{document}");
    let check = async |bench: &Bench, path: &str, code: u64, message: &str| {
        let failure = bench.get(path).await.json();
        assert_eq!(failure, json!({"code": code, "message": message}), "{path}");
    };
    check(&bench, &format!("{dataset}/documents/x"), 102, "document not found").await;
    let elsewhere = format!("{other_dataset}/documents/{document}");
    check(&bench, &elsewhere, 102, "document not found").await;
    let other = bench.as_stranger().await;
    check(&other, &path, 102, "document not found").await;
    // Also not through a dataset of their own.
    let theirs = other.dataset("Theirs").await;
    let through = format!("{theirs}/documents/{document}");
    check(&other, &through, 102, "document not found").await;
    let mut nobody = bench.as_stranger().await;
    nobody.token = "nonsense".to_owned();
    let refused = nobody.get(&path).await;
    assert_eq!((refused.status.as_u16(), refused.json().as_object().unwrap().len()), (401, 2));
    // A path in place of an id finds nothing.
    for id in ["..%2F..%2Fweft.db", "%2e%2e", "documents%2F1"] {
        assert_eq!(bench.get(&format!("{dataset}/documents/{id}")).await.refusal().0, 102, "{id}");
    }
}

#[tokio::test]
async fn a_document_is_changed_and_removed() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let id = dataset.rsplit('/').next().unwrap().to_owned();
    let kept = bench.upload(&dataset, &[("a.txt", "one"), ("b.txt", "two")]).await.data();
    let (first, second) = (kept[0]["id"].as_str().unwrap(), kept[1]["id"].as_str().unwrap());
    bench.read(&dataset, &[first]).await;
    let path = format!("{dataset}/documents/{first}");
    let change = async |method: &str, body: Json| bench.ask(method, &path, body).await;

    let changed = change("PATCH", json!({"name": "A.TXT", "meta_fields": {"author": "Ada", "year": 1952}}))
        .await
        .data();
    assert_eq!((&changed["name"], &changed["meta_fields"]["year"]), (&json!("A.TXT"), &json!(1952)));
    assert_eq!(
        (&changed["run"], &changed["chunk_count"]),
        (&json!("DONE"), &json!(1)),
        "the document is unchanged"
    );
    assert_eq!(change("PUT", json!({"enabled": false})).await.data()["status"], "0");
    assert_eq!(change("PUT", json!({"enabled": 1})).await.data()["status"], "1");
    let refusal = change("PATCH", json!({"name": "B.txt"})).await.refusal();
    assert_eq!(refusal, (102, "Duplicated document name in the same dataset.".to_owned()));
    let refusal = change("PATCH", json!({"name": "a.md"})).await.refusal();
    assert_eq!(refusal, (101, "The extension of file can't be changed".to_owned()));
    // Another chunk method removes the chunks.
    let changed = change("PATCH", json!({"chunk_method": "qa"})).await.data();
    assert_eq!((&changed["run"], &changed["chunk_count"]), (&json!("UNSTART"), &json!(0)));
    assert_eq!(changed["chunk_method"], "qa");
    let unknown = format!("{dataset}/documents/x");
    let refusal = bench.ask("PATCH", &unknown, json!({})).await.refusal();
    assert_eq!(refusal, (102, "the dataset doesn't own the document".to_owned()));

    let documents = format!("{dataset}/documents");
    let delete = async |body: Json| bench.ask("DELETE", &documents, body).await;
    let words = format!("should either provide doc ids or set delete_all(true), dataset: {id}. ");
    assert_eq!(delete(json!({"ids": null, "delete_all": false})).await.refusal(), (102, words));
    let words = format!("These documents do not belong to dataset {id} or Document not found: x, y");
    assert_eq!(delete(json!({"ids": [first, "x", "y"]})).await.refusal(), (102, words));
    assert_eq!(bench.get(&documents).await.data()["total"], 2, "nothing was removed");
    assert_eq!(delete(json!({"ids": [first], "delete_all": false})).await.data(), json!({"deleted": 1}));
    assert_eq!(bench.get(&documents).await.data()["docs"][0]["id"], second);
    assert_eq!(delete(json!({"ids": null, "delete_all": true})).await.data(), json!({"deleted": 1}));
    assert_eq!(bench.get(&documents).await.data(), json!({"total": 0, "docs": []}));
}

#[tokio::test]
async fn parsing_is_started_and_cancelled() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let kept = bench.upload(&dataset, &[("a.txt", "one"), ("b.txt", "two"), ("c.txt", "three")]).await.data();
    let id = |place: usize| kept[place]["id"].as_str().unwrap();
    let chunks = format!("{dataset}/chunks");
    let start = async |body: Json| bench.post(&chunks, body).await;
    assert_eq!(start(json!({})).await.refusal(), (102, "`document_ids` is required".to_owned()));
    // Known documents are started even if others are unknown.
    let refusal = start(json!({"document_ids": [id(0), "x"]})).await.refusal();
    assert_eq!(refusal, (102, "Documents not found: ['x']".to_owned()));
    // A queued document may be started again.
    assert_eq!(start(json!({"document_ids": [id(0)]})).await.data(), Json::Null);
    let refusal = start(json!([id(0)])).await.refusal();
    assert!(refusal.0 == 100 && refusal.1.contains("'list' object has no attribute"), "{refusal:?}");
    let told = start(json!({"document_ids": [id(1), id(1)]})).await.data();
    assert_eq!(told, json!({"success_count": 1, "errors": [format!("Duplicate document ids: {}", id(1))]}));
    let parse = format!("{dataset}/documents/parse");
    assert_eq!(
        bench.post(&parse, json!({"document_ids": [id(2)]})).await.data(),
        json!({"success_count": 1})
    );

    let stop = async |body: Json| bench.ask("DELETE", &chunks, body).await;
    assert_eq!(stop(json!({"document_ids": [id(0)]})).await.data(), Json::Null);
    let again = stop(json!({"document_ids": [id(0)]})).await;
    let words = "Can't stop parsing document that has not started or already completed";
    assert_eq!(again.refusal(), (102, words.to_owned()));
    assert_eq!(again.json()["data"]["error_code"], "DOC_STOP_PARSING_INVALID_STATE");
    let refusal = stop(json!({"document_ids": ["x"]})).await.refusal();
    assert_eq!(refusal, (102, "you don't own the document x".to_owned()));
    let halt = format!("{dataset}/documents/stop");
    let told = bench.post(&halt, json!({"document_ids": [id(0), id(1)]})).await.data();
    assert_eq!(told, json!({"success_count": 1, "errors": [format!("{words}: {}", id(0))]}));
    let listed = bench.get(&format!("{dataset}/documents?run=CANCEL")).await.data();
    assert_eq!(listed["total"], 2);

    let other = bench.as_stranger().await;
    let own = format!("You don't own the dataset {}.", dataset.rsplit('/').next().unwrap());
    for (method, path) in [("POST", &chunks), ("DELETE", &chunks), ("POST", &parse), ("POST", &halt)] {
        let refusal = other.ask(method, path, json!({"document_ids": [id(2)]})).await.refusal();
        assert_eq!(refusal, (102, own.clone()), "{method} {path}");
    }
}

#[tokio::test]
async fn cancelling_is_complete_when_the_response_arrives() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let id = bench.document(&dataset, "a.txt", "endless").await;
    let (chunks, any) = (format!("{dataset}/chunks"), "/api/v1/documents/ingest".to_owned());
    let by_id = json!({"document_ids": [id]});
    for (method, path, body) in
        [("DELETE", &chunks, by_id.clone()), ("POST", &any, json!({"doc_ids": [id], "run": 2}))]
    {
        bench.post(&chunks, by_id.clone()).await.data();
        let stop = async {
            // By then a worker has taken the document.
            tokio::time::sleep(Duration::from_millis(100)).await;
            bench.ask(method, path, body).await.data();
            bench.get(&format!("{dataset}/documents")).await.data()["docs"][0]["run"].take()
        };
        let (_, run) = futures::join!(bench.work(&dataset), stop);
        assert_eq!(run, "CANCEL", "{path}");
    }
}

#[tokio::test]
async fn a_change_that_has_to_wait_for_the_end_of_a_reading_says_so() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let id = bench.document(&dataset, "a.txt", "one").await;
    bench.document(&dataset, "b.txt", "two").await;
    bench.post(&format!("{dataset}/chunks"), json!({"document_ids": [id]})).await.data();
    let path = format!("{dataset}/documents/{id}");
    let changed = async |body: Json| bench.ask("PATCH", &path, body).await.refusal();
    // Its new name is free: what cannot change now is how it is read.
    for how in [json!({"parser_config": {"chunk_token_num": 64}}), json!({"chunk_method": "qa"})] {
        let mut body = how;
        body["name"] = json!("c.txt");
        let (code, message) = changed(body).await;
        assert!(code == 102 && message.contains("`a.txt` is being read"), "{message}");
    }
    let taken = (102, "Duplicated document name in the same dataset.".to_owned());
    assert_eq!(changed(json!({"name": "b.txt"})).await, taken);
}

#[tokio::test]
async fn metadata_is_summarized_and_changed() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let mut ids = Vec::new();
    for (name, author) in [("a.txt", "Ada"), ("b.txt", "Ada"), ("c.txt", "Grace")] {
        let id = bench.document(&dataset, name, "x").await;
        let path = format!("{dataset}/documents/{id}");
        bench.ask("PATCH", &path, json!({"meta_fields": {"author": [author], "year": 1950}})).await.data();
        ids.push(id);
    }
    let summary = bench.get(&format!("{dataset}/metadata/summary")).await.data();
    assert_eq!(summary["summary"]["author"], json!({"type": "list", "values": [["Ada", 2], ["Grace", 1]]}));
    let some = bench.get(&format!("{dataset}/metadata/summary?doc_ids={},{}", ids[0], ids[2])).await.data();
    assert_eq!(some["summary"]["author"]["values"], json!([["Ada", 1], ["Grace", 1]]));
    let update = format!("{dataset}/metadata/update");
    let condition = json!({"conditions": [{"name": "author", "comparison_operator": "is", "value": "ada"}]});
    // The change applies to the matching documents.
    let body = json!({"selector": {"metadata_condition": condition}, "updates": [{"key": "author", "value": "Lovelace"}]});
    assert_eq!(bench.post(&update, body).await.data(), json!({"updated": 2, "matched_docs": 2}));
    let body = json!({"selector": {"document_ids": []}, "deletes": [{"key": "year"}]});
    assert_eq!(bench.post(&update, body).await.data(), json!({"updated": 0, "matched_docs": 0}));
    let body = json!({"deletes": [{"key": "year"}]});
    assert_eq!(
        bench.ask("PATCH", &format!("{dataset}/documents/metadatas"), body).await.data()["updated"],
        3
    );
    let summary = bench.get(&format!("{dataset}/metadata/summary")).await.data();
    assert_eq!(
        summary["summary"],
        json!({"author": {"type": "list", "values": [["Lovelace", 2], ["Grace", 1]]}})
    );
    let body = json!({"selector": {"document_ids": ["x"]}, "deletes": []});
    let id = dataset.rsplit('/').next().unwrap();
    let words = format!("These documents do not belong to dataset {id}: x");
    assert_eq!(bench.post(&update, body).await.refusal(), (102, words));
    let condition = "%7B%22conditions%22:%5B%7B%22name%22:%22author%22,%22value%22:%22grace%22%7D%5D%7D";
    assert_eq!(
        names(&bench, &format!("{dataset}/documents?metadata_condition={condition}")).await,
        ["c.txt"]
    );

    let config = format!("{dataset}/metadata/config");
    assert_eq!(bench.get(&config).await.data()["metadata"], json!([]));
    let put = bench.ask("PUT", &config, json!({"metadata": [{"key": "author"}]})).await.data();
    assert_eq!(put, json!({"metadata": [{"key": "author", "enum": null}], "built_in_metadata": []}));
    assert_eq!(bench.get(&config).await.data(), put);
    // Older clients change a part of it, and see whether it is enabled.
    let older = format!("{dataset}/auto_metadata");
    let put = bench.ask("PUT", &older, json!({"enabled": false})).await.data();
    assert_eq!((&put["metadata"][0]["key"], &put["enabled"]), (&json!("author"), &json!(false)));
    let whole = bench.ask("PUT", &config, json!({})).await.data();
    assert_eq!(whole, json!({"metadata": [], "built_in_metadata": []}));
    assert_eq!(bench.get(&older).await.data()["enabled"], false);
    let config = format!("{dataset}/documents/{}/metadata/config", ids[0]);
    assert_eq!(
        bench.ask("PUT", &config, json!({})).await.refusal(),
        (101, "metadata is required".to_owned())
    );
    let put = bench.ask("PUT", &config, json!({"metadata": [{"key": "kind"}]})).await.data();
    assert_eq!(put["parser_config"]["metadata"], json!([{"key": "kind"}]));

    let other = bench.as_stranger().await;
    let own = (102, format!("You don't own the dataset {id}."));
    let spaced = (102, format!("You don't own the dataset {id}. "));
    assert_eq!(other.get(&format!("{dataset}/metadata/summary")).await.refusal(), spaced);
    assert_eq!(other.post(&update, json!({"deletes": [{"key": "author"}]})).await.refusal(), own);
    let lacks = (102, format!("User 'another' lacks permission for dataset '{id}'"));
    assert_eq!(other.ask("PUT", &format!("{dataset}/metadata/config"), json!({})).await.refusal(), lacks);
    let refusal = other.ask("PUT", &config, json!({"metadata": []})).await.refusal();
    assert_eq!(refusal, (102, "you don't own the dataset".to_owned()));
}

#[tokio::test]
async fn older_clients_configure_automatic_metadata() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let (older, config) = (format!("{dataset}/auto_metadata"), format!("{dataset}/metadata/config"));
    let fields = json!([
        {"name": "year", "type": "number", "description": "of the print", "examples": [1952]},
        {"name": "kind", "type": "list", "examples": ["book", "letter"], "restrict_values": true},
    ]);
    let put = bench.ask("PUT", &older, json!({"enabled": true, "fields": fields})).await.data();
    assert_eq!(put["metadata"][1]["enum"], json!(["book", "letter"]));
    for told in [&put, &bench.get(&older).await.data()] {
        let mut shown = fields.clone();
        shown[0]["restrict_values"] = false.into();
        shown[1]["description"] = "".into();
        assert_eq!((&told["fields"], &told["enabled"]), (&shown, &json!(true)));
    }
    let wrong = json!({"fields": [{"name": "year", "type": "number"}, {"name": "kind", "type": "colour"}]});
    for path in [&older, &config] {
        let (code, words) = bench.ask("PUT", path, wrong.clone()).await.refusal();
        let expected =
            "Field: <fields.1.type> - Message: <Input should be 'string', 'list', 'time' or 'number'>";
        assert!(code == 101 && words.starts_with(expected), "{words}");
        assert_eq!(bench.ask("PUT", path, json!(null)).await.refusal().0, 101, "a request without a body");
    }
}

#[tokio::test]
async fn documents_are_isolated_by_tenant() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let id = dataset.rsplit('/').next().unwrap().to_owned();
    let document = bench.document(&dataset, "a.txt", "one").await;
    let other = bench.as_stranger().await;
    let owned = (102, format!("You don't own the dataset {id}. "));
    assert_eq!(other.get(&format!("{dataset}/documents")).await.refusal(), owned);
    let delete = json!({"delete_all": true});
    assert_eq!(other.ask("DELETE", &format!("{dataset}/documents"), delete).await.refusal(), owned);
    let refusal = other.upload(&dataset, &[("b.txt", "x")]).await.refusal();
    assert_eq!(refusal, (102, format!("Can't find the dataset with ID {id}!")));
    let path = format!("{dataset}/documents/{document}");
    let refusal = other.ask("PATCH", &path, json!({"name": "b.txt"})).await.refusal();
    assert_eq!(refusal, (102, "you don't own the dataset".to_owned()));
    // A document is found only under its own dataset.
    let theirs = other.dataset("Theirs").await;
    let through = format!("{theirs}/documents/{document}");
    assert_eq!(other.ask("PATCH", &through, json!({"enabled": false})).await.refusal().0, 102);
    let list = format!("{theirs}/documents?id={document}");
    assert_eq!(other.get(&list).await.refusal(), (102, format!("you don't own the document {document}.")));
    assert_eq!(bench.get(&format!("{dataset}/documents")).await.data()["docs"][0]["name"], "a.txt");
}

#[tokio::test]
async fn automatic_metadata_is_configured_by_a_list_or_a_schema() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let document = bench.document(&dataset, "a.txt", "a").await;
    let paths =
        ["metadata/config", "auto_metadata", format!("documents/{document}/metadata/config").as_str()]
            .map(|path| format!("{dataset}/{path}"));
    for path in &paths {
        for wrong in [json!("author"), json!(7), json!(true)] {
            let (code, message) = bench.ask("PUT", path, json!({"metadata": wrong})).await.refusal();
            assert!(
                code == 101 && message.starts_with("Field: <metadata> - Message: <Input should"),
                "{message}"
            );
        }
        let field = |name: &str, value: Json| {
            let mut field = json!({"name": "kind", "examples": ["a"]});
            field[name] = value;
            json!({"metadata": [], "fields": [field]})
        };
        for (wrong, place) in [
            (json!({"metadata": [], "enabled": "maybe"}), "enabled"),
            (json!({"metadata": [], "fields": "author"}), "fields"),
            (json!({"metadata": [], "fields": ["author"]}), "fields.0"),
            (field("restrict_values", json!("x")), "fields.0.restrict_values"),
            (field("examples", json!("a, b")), "fields.0.examples"),
        ] {
            let (code, message) = bench.ask("PUT", path, wrong.clone()).await.refusal();
            let place = format!("Field: <{place}> - Message: <Input should be");
            assert!(code == 101 && message.starts_with(&place), "{wrong}: {message}");
        }
        let schema = json!({"type": "object", "properties": {"author": {"type": "string"}}});
        bench.ask("PUT", path, json!({"metadata": schema})).await.data();
    }
}

#[tokio::test]
async fn an_encoded_file_name_is_decoded() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let head = "Content-Disposition: form-data; name=\"file\"; filename=\"=?utf-8?B?6K8=?=\"; filename*=utf-8''%E8%AF%AD.txt";
    let body = format!("--frontier\r\n{head}\r\n\r\nx\r\n--frontier--\r\n");
    let upload = bench.upload_of(&dataset, body, "multipart/form-data; boundary=frontier");
    assert_eq!(bench.send(upload).await.data()[0]["name"], "语.txt");
}

/// The body of the form may arrive just after the server looks for it.
#[tokio::test]
async fn a_form_whose_body_arrives_late_is_read_completely() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let (body, kind) = form(&[("a.txt", "one")]);
    let agent = bench.store("A", chat_canvas()).await;
    let uploads =
        [dataset + "/documents", "/api/v1/files".to_owned(), format!("/api/v1/agents/{agent}/upload")];
    for path in uploads.iter().map(String::as_str).chain(["/api/v1/chat/audio/transcription"]) {
        let body = body.clone();
        let later = stream::once(tokio::task::yield_now().map(|()| Ok::<_, std::io::Error>(body)));
        let request = Request::builder()
            .method("POST")
            .uri(path)
            .header("authorization", format!("Bearer {}", bench.token))
            .header("content-type", &kind)
            .body(Body::from_stream(later))
            .unwrap();
        let answer = bench.send(request).await.json();
        let read =
            answer["code"] == 0 || answer["message"].as_str().unwrap().contains("Unsupported audio format");
        assert!(read, "{path}: {answer}");
    }
}

/// An upload whose form takes two minutes to arrive.
fn slow_upload(bench: &Bench, dataset: &str, name: &str) -> Request<Body> {
    let (body, kind) = form(&[(name, &"x".repeat(1_500))]);
    let pieces: Vec<Vec<u8>> = body.as_bytes().chunks(body.len().div_ceil(4)).map(<[u8]>::to_vec).collect();
    let slowly = stream::iter(pieces).then(|piece| async move {
        tokio::time::sleep(Duration::from_secs(30)).await;
        Ok::<_, std::io::Error>(piece)
    });
    bench.upload_of(dataset, String::new(), &kind).map(|_| Body::from_stream(slowly))
}

#[tokio::test(start_paused = true)]
async fn uploads_wait_for_memory_that_other_uploads_hold() {
    // Rounded up to what the first file takes. The second one may exceed it.
    let limits = LimitsConfig { upload_memory_bytes: 1, ..LimitsConfig::default() };
    let bench = bench_with(Script::new(), Auth::On, limits).await;
    let dataset = bench.dataset("Docs").await;
    let at = async |seconds: u64, name: &str| {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        bench.upload(&dataset, &[(name, "x")]).await
    };
    let (first, second, refused, waits) = tokio::join!(
        bench.send(slow_upload(&bench, &dataset, "a.txt")),
        bench.send(slow_upload(&bench, &dataset, "b.txt")),
        at(31, "c.txt"),
        at(90, "d.txt"),
    );
    for kept in [first, second, waits] {
        kept.data();
    }
    assert_eq!((refused.status.as_u16(), refused.refusal().0), (503, 429), "{}", refused.text);
    let mut names = names(&bench, &format!("{dataset}/documents")).await;
    names.sort();
    assert_eq!(names, ["a.txt", "b.txt", "d.txt"]);
}

#[tokio::test(start_paused = true)]
async fn large_bodies_wait_for_the_same_memory() {
    let limits = LimitsConfig { upload_memory_bytes: 1, ..LimitsConfig::default() };
    let bench = bench_with(Script::new(), Auth::On, limits).await;
    let dataset = bench.dataset("Docs").await;
    let create = async |bytes: usize| {
        let body = json!({"name": "Other", "unknown": "x".repeat(bytes)});
        bench.post("/api/v1/datasets", body).await
    };
    let during = async {
        tokio::time::sleep(Duration::from_secs(31)).await;
        (create(100 << 10).await, create(1_000).await)
    };
    let (first, second, (large, small)) = tokio::join!(
        bench.send(slow_upload(&bench, &dataset, "a.txt")),
        bench.send(slow_upload(&bench, &dataset, "b.txt")),
        during,
    );
    assert_eq!((large.status.as_u16(), large.refusal().0), (503, 429), "{}", large.text);
    assert_eq!(small.status.as_u16(), 200, "{}", small.text);
    for kept in [first, second] {
        kept.data();
    }
    assert_eq!(create(100 << 10).await.status.as_u16(), 200);
}
