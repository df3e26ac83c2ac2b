//! Files of sessions: attached files are read, and files made by runs can be downloaded.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value as Json, json};
use tower::ServiceExt as _;
use weft_testkit::Script;

use crate::shelf::form;
use crate::support::{Bench, FILE_BYTES_MAX, Reading, begin, bench, chat_canvas, component, said};

pub(crate) fn with_files() -> Json {
    let fields = json!({"doc": {"name": "Document", "type": "file", "optional": true}});
    let begin = json!({"downstream": ["Message:M"], "upstream": [], "obj": {"component_name": "Begin",
        "params": {"mode": "conversational", "prologue": "", "inputs": fields}}});
    json!({"components": {
        "begin": begin,
        "Message:M": component("Message", &json!({"content": ["files {sys.files} doc {begin@doc}"]}), &[]),
    }})
}

pub(crate) fn upload(bench: &Bench, path: &str, files: &[(&str, &str)]) -> Request<Body> {
    let (body, kind) = form(files);
    Request::builder()
        .method("POST")
        .uri(path)
        .header("authorization", format!("Bearer {}", bench.token))
        .header("content-type", kind)
        .body(Body::from(body))
        .unwrap()
}

pub(crate) async fn uploaded(bench: &Bench, agent: &str, name: &str, text: &str) -> Json {
    let path = format!("/api/v1/agents/{agent}/upload");
    bench.send(upload(bench, &path, &[(name, text)])).await.data()
}

async fn asked(bench: &Bench, agent: &str, body: Json) -> Reading {
    bench.post(&format!("/api/v1/agents/{agent}/completions"), body).await
}

#[tokio::test]
async fn a_file_is_uploaded_read_and_downloaded() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Files", with_files()).await;
    let file = uploaded(&bench, &id, "../notes é.csv", "name,n\nAda,1\n").await;
    assert_eq!(
        (&file["name"], &file["extension"], &file["size"]),
        (&json!("notes é.csv"), &json!("csv"), &json!(13))
    );
    let answer = asked(&bench, &id, json!({"question": "q", "files": [file]})).await;
    let told = said(&answer.frames());
    assert!(told.contains(&format!("File: notes é.csv ({})", file["id"].as_str().unwrap())), "{told}");
    assert!(told.contains("Ada"), "{told}");
    let field = json!({"doc": {"type": "file", "value": [file]}});
    let told = said(&asked(&bench, &id, json!({"question": "q", "inputs": field})).await.frames());
    assert!(told.contains("doc [\"File: notes é.csv"), "{told}");
    for path in [
        file["url"].as_str().unwrap().to_owned(),
        format!("/api/v1/agents/download?id={}", file["id"].as_str().unwrap()),
        format!("/api/v1/file/download/{}", file["id"].as_str().unwrap()),
    ] {
        let got = bench.get(&path).await;
        assert_eq!(got.text, "name,n\nAda,1\n", "{path}");
        assert!(got.headers["content-disposition"].to_str().unwrap().starts_with("attachment;"));
        assert_eq!(got.headers["x-content-type-options"], "nosniff");
    }
}

#[tokio::test]
async fn a_failed_upload_leaves_no_file() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Files", with_files()).await;
    let large = "x".repeat(usize::try_from(FILE_BYTES_MAX).unwrap() + 1);
    let files = [("a.txt", "fits"), ("b.txt", large.as_str())];
    let refused = bench.send(upload(&bench, &format!("/api/v1/agents/{id}/upload"), &files)).await;
    assert_eq!(refused.status, 413, "{}", refused.text);
    assert!(bench.app.files.older_than(i64::MAX, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn model_usage_for_files_of_a_session_is_recorded() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Files", with_files()).await;
    // A 64 by 64 bitmap; its pixels do not matter here.
    let bitmap = "BMaaaa\0\0\0\u{0}6\0\0\0(\0\0\0@\0\0\0@\0\0\0\u{1}\0\u{18}\0";
    let file = uploaded(&bench, &id, "sign.bmp", bitmap).await;
    let body = json!({"question": "q", "files": [file], "user_id": "ann"});
    let told = said(&asked(&bench, &id, body).await.frames());
    assert!(told.contains("Moor here."), "{told}");
    let usage = bench.get("/api/v1/usage?by=node,model,agent,user").await.data();
    assert_eq!(usage["usage"].as_array().unwrap().len(), 1, "{usage}");
    let line = &usage["usage"][0];
    let of = ["node", "model", "agent_id", "user_id"].map(|side| line[side].as_str().unwrap());
    assert_eq!(of, ["files", "eyes", id.as_str(), "ann"]);
    assert_eq!((&line["model_calls"], &line["total_tokens"]), (&json!(1), &json!(55)));
}

#[tokio::test]
async fn a_form_in_the_middle_of_a_run_takes_files_too() {
    let bench = bench(Script::new()).await;
    let fill = json!({"enable_tips": true, "tips": "Your file?", "inputs": {"doc": {"name": "Document", "type": "file", "optional": false}}});
    let canvas = json!({"components": {
        "begin": begin("", "UserFillUp:F"),
        "UserFillUp:F": component("UserFillUp", &fill, &["Message:M"]),
        "Message:M": component("Message", &json!({"content": ["got {UserFillUp:F@doc}"]}), &[]),
    }});
    let id = bench.store("Form", canvas).await;
    let file = uploaded(&bench, &id, "a.txt", "the text").await;
    let waiting = asked(&bench, &id, json!({"question": "q"})).await.frames();
    let session = waiting[0].json()["session_id"].clone();
    for inputs in [json!({"UserFillUp:F": {"doc": {"value": file}}}), json!({"doc": [file]})] {
        let body = json!({"session_id": session, "inputs": inputs});
        let told = said(&asked(&bench, &id, body).await.frames());
        assert!(told.contains("got [\"File: a.txt") && told.contains("the text"), "{told}");
        asked(&bench, &id, json!({"session_id": session, "question": "again"})).await;
    }
}

#[tokio::test]
async fn a_form_cannot_attach_a_document_of_a_dataset() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Files", with_files()).await;
    let made = bench.post(&format!("/api/v1/agents/{id}/shares"), json!({"name": "our page"})).await.data();
    let visitor = bench.with(made["token"].as_str().unwrap());
    let ask = format!("/api/v1/agentbots/{id}/completions");
    let document = json!({"id": "DATASET/DOCUMENT", "name": "a.txt", "size": 1});
    for value in [json!([document]), json!({"type": "file", "value": document}), document] {
        let body = json!({"question": "q", "stream": false, "inputs": {"doc": value}});
        let refused = visitor.post(&ask, body).await.refusal();
        assert!(refused.0 == 103 && refused.1.contains("document of a dataset"), "{value}: {refused:?}");
    }
}

/// A page with a token uploads for its own agent, and so does one with the token that comes with a key for any agent.
#[tokio::test]
async fn a_visitor_uploads_files_for_questions_and_reads_those_and_no_others() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Files", with_files()).await;
    let other = bench.store("Others", with_files()).await;
    let made = bench.post(&format!("/api/v1/agents/{id}/shares"), json!({"name": "our page"})).await.data();
    let of_agent = bench.with(made["token"].as_str().unwrap());
    let made = bench.post("/api/v1/system/tokens", json!({"name": "pages"})).await.data();
    let of_key = bench.with(made["beta"].as_str().unwrap());
    for visitor in [&of_agent, &of_key] {
        let file = uploaded(visitor, &id, "a.txt", "the text").await;
        assert!(file["created_by"].as_str().unwrap().starts_with("share-"), "{file}");
        assert_eq!(visitor.get(file["url"].as_str().unwrap()).await.text, "the text");
        let ask = format!("/api/v1/agentbots/{id}/completions");
        let told = visitor.post(&ask, json!({"question": "q", "files": [file]})).await.frames();
        assert!(said(&told).contains("the text"), "{told:?}");
        let document = json!({"id": "DATASET/DOCUMENT", "name": "a.txt", "size": 1});
        let refused = visitor.post(&ask, json!({"question": "q", "files": [document]})).await.refusal();
        assert!(refused.0 == 103 && refused.1.contains("`files`"), "{refused:?}");
        let document = visitor.get("/api/v1/agents/attachments/DATASET%2FDOCUMENT/download").await.refusal();
        assert_eq!(document, (102, "Artifact not found.".into()));
    }
    let to_other = format!("/api/v1/agents/{other}/upload");
    let refused = of_agent.send(upload(&of_agent, &to_other, &[("a.txt", "x")])).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert_eq!(of_key.send(upload(&of_key, &to_other, &[("a.txt", "x")])).await.data()["name"], "a.txt");
    let stranger = bench.as_stranger().await;
    let theirs = stranger.store("Theirs", with_files()).await;
    let to_theirs = format!("/api/v1/agents/{theirs}/upload");
    let refused = of_key.send(upload(&of_key, &to_theirs, &[("a.txt", "x")])).await.refusal();
    assert_eq!(refused, (102, "canvas not found.".into()));
    let their_file = uploaded(&stranger, &theirs, "a.txt", "secret").await;
    assert_eq!(of_key.get(their_file["url"].as_str().unwrap()).await.refusal().0, 102);
}

/// Answers show the ids of files, so knowing one opens nothing to the visitors of a page.
#[tokio::test]
async fn a_visitor_neither_reads_nor_attaches_files_of_others() {
    let bench = bench(Script::new()).await;
    let (id, other) = (bench.store("Files", with_files()).await, bench.store("Others", with_files()).await);
    let page = async |agent: &str| {
        let made = bench.post(&format!("/api/v1/agents/{agent}/shares"), json!({"name": "p"})).await.data();
        bench.with(made["token"].as_str().unwrap())
    };
    let (one, another, of_other) = (page(&id).await, page(&id).await, page(&other).await);
    let files = [
        uploaded(&another, &id, "a.txt", "their words").await,
        uploaded(&of_other, &other, "a.txt", "their words").await,
        uploaded(&bench, &id, "a.txt", "their words").await,
    ];
    let ask = format!("/api/v1/agentbots/{id}/completions");
    for file in &files {
        let of_file = format!("/api/v1/agents/attachments/{}", file["id"].as_str().unwrap());
        for path in [format!("{of_file}/download"), format!("{of_file}/preview")] {
            assert_eq!(one.get(&path).await.refusal(), (102, "Artifact not found.".into()), "{path}");
            assert_eq!(
                bench.get(&path).await.text,
                "their words",
                "a member of the tenant reads all of them"
            );
        }
        for body in [
            json!({"question": "q", "stream": false, "files": [file]}),
            json!({"question": "q", "stream": false, "inputs": {"doc": file}}),
            json!({"question": "q", "stream": false, "inputs": {"doc": {"type": "file", "value": [file]}}}),
        ] {
            let refused = one.post(&ask, body.clone()).await.refusal();
            assert!(refused.1.contains("there is no file"), "{body}: {refused:?}");
        }
    }
    // A file in the question itself belongs to the token, too.
    let inline = json!({"question": "q", "files": ["data:text/plain;name=c.txt;base64,dGhyZWU="]});
    let frames = one.post(&ask, inline).await.frames();
    let told = said(&frames);
    let kept = told.split("File: c.txt (").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
    let path = format!("/api/v1/agents/attachments/{kept}/download");
    assert_eq!(one.get(&path).await.text, "three");
    assert_eq!(another.get(&path).await.refusal(), (102, "Artifact not found.".into()));
    // Whoever asks counts, not whose conversation it is.
    let session = frames[0].json()["session_id"].clone();
    let body = json!({"question": "q", "session_id": session, "files": [files[2]]});
    let told = said(&asked(&bench, &id, body).await.frames());
    assert!(told.contains("their words"), "{told}");
}

/// What a run has created belongs to its conversation, and is shown to whoever has it.
#[tokio::test]
async fn a_visitor_reads_what_runs_of_own_conversations_made() {
    let bench = bench(Script::new()).await;
    let message = json!({"content": ["{sys.query}"], "output_format": "html"});
    let canvas = json!({"components": {
        "begin": begin("", "Message:M"), "Message:M": component("Message", &message, &[]),
    }});
    let id = bench.store("Report", canvas).await;
    let page = async || {
        let made = bench.post(&format!("/api/v1/agents/{id}/shares"), json!({"name": "p"})).await.data();
        bench.with(made["token"].as_str().unwrap())
    };
    let (one, another) = (page().await, page().await);
    let frames = one.post(&format!("/api/v1/agentbots/{id}/completions"), json!({"question": "mine"})).await;
    let frames: Vec<Json> = frames.frames().iter().map(crate::support::Frame::json).collect();
    let end = frames.iter().find(|frame| frame["event"] == "message_end").unwrap();
    let file = end["data"]["attachment"]["doc_id"].as_str().unwrap();
    let path = format!("/api/v1/agents/attachments/{file}/download");
    assert!(one.get(&path).await.text.contains("mine"));
    assert_eq!(another.get(&path).await.refusal(), (102, "Artifact not found.".into()));
    assert!(bench.get(&path).await.text.contains("mine"), "a member of the tenant reads all of them");
    let attached = json!({"question": "q", "stream": false, "files": [{"id": file, "name": "x.html"}]});
    let refused = another.post(&format!("/api/v1/agentbots/{id}/completions"), attached).await.refusal();
    assert!(refused.1.contains("there is no file"), "{refused:?}");
}

#[tokio::test]
async fn several_files_and_data_uris() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Files", with_files()).await;
    let path = format!("/v1/canvas/upload/{id}");
    let files = bench.send(upload(&bench, &path, &[("a.txt", "one"), ("b.md", "# two")])).await.data();
    assert_eq!(files.as_array().unwrap().len(), 2);
    let inline = "data:text/plain;name=c.txt;base64,dGhyZWU=";
    let picture = "data:image/png;base64,AA==";
    let answer =
        asked(&bench, &id, json!({"question": "q", "files": [files[0], files[1], inline, picture]})).await;
    let told = said(&answer.frames());
    for part in ["one", "two", "File: c.txt", "three", picture] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[tokio::test]
async fn invalid_files_are_refused_with_a_reason() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Files", with_files()).await;
    let check = async |files: Json, part: &str| {
        let (_, message) = asked(&bench, &id, json!({"question": "q", "files": files})).await.refusal();
        assert!(message.contains(part), "{part}: {message}");
    };
    check(json!(["some text"]), "`files[0]`: it is not a file").await;
    check(json!([{"id": "unknown", "name": "x"}]), "the file `x`: there is no file `unknown`").await;
    check(json!(["data:text/plain,x"]), "data URI").await;
    check(json!(vec!["data:image/png;base64,AA=="; 21]), "21 files").await;
    let broken = uploaded(&bench, &id, "x.pdf", "%PDF-1.7\nnothing").await;
    check(json!([broken]), "x.pdf").await;
    let nothing = bench.send(upload(&bench, &format!("/api/v1/agents/{id}/upload"), &[])).await;
    assert_eq!(nothing.refusal().0, 101);
    let unknown = bench.send(upload(&bench, "/api/v1/agents/none/upload", &[("a.txt", "x")])).await;
    assert_eq!(unknown.refusal().0, 102);
    let large = "x".repeat(usize::try_from(FILE_BYTES_MAX).unwrap() + 1);
    let large =
        bench.send(upload(&bench, &format!("/api/v1/agents/{id}/upload"), &[("a.txt", &large)])).await;
    assert_eq!(large.status, 413);
    assert_eq!(bench.get("/api/v1/agents/attachments/none/download").await.refusal().0, 102);
    assert_eq!(bench.get("/api/v1/agents/download").await.refusal().0, 101);
}

#[tokio::test]
async fn files_of_other_tenants_are_not_found() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Files", with_files()).await;
    let file = uploaded(&bench, &id, "a.txt", "secret").await;
    let other =
        weft_app::tokens::create(&*bench.store, &"other".into(), "t", 0).await.unwrap().reveal().to_owned();
    let (app, router, model, store) =
        (bench.app.clone(), bench.router.clone(), bench.model.clone(), Arc::clone(&bench.store));
    let theirs = Bench { app, router, token: other, model, store };
    assert_eq!(theirs.get(file["url"].as_str().unwrap()).await.refusal().0, 102);
    let their_agent = theirs.store("Files", with_files()).await;
    let (_, message) =
        asked(&theirs, &their_agent, json!({"question": "q", "files": [file]})).await.refusal();
    assert!(message.contains("there is no file"), "{message}");
}

#[tokio::test]
async fn a_model_reads_attached_files() {
    let bench = bench(Script::text("fine")).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let file = uploaded(&bench, &id, "a.txt", "the sky is green").await;
    asked(&bench, &id, json!({"question": "what colour?", "files": [file]})).await;
    let seen = bench.model.requests();
    let last = seen[0].messages.last().unwrap();
    assert!(last.text.contains("what colour?") && last.text.contains("the sky is green"), "{}", last.text);
}

#[tokio::test]
async fn files_made_by_a_run_exist_until_the_session_is_removed() {
    let bench = bench(Script::new()).await;
    let generator =
        json!({"content": "# Report\n\n{sys.query}", "output_format": "docx", "filename": "report"});
    let message = json!({"content": ["Here: {DocGenerator:D@download}"], "output_format": "html"});
    let id = bench
        .store(
            "Report",
            json!({"components": {
                "begin": begin("", "DocGenerator:D"),
                "DocGenerator:D": component("DocGenerator", &generator, &["Message:M"]),
                "Message:M": component("Message", &message, &[]),
            }}),
        )
        .await;
    let frames = asked(&bench, &id, json!({"question": "all is well"})).await.frames();
    assert_eq!(said(&frames), "Here: ");
    let end =
        frames.iter().map(crate::support::Frame::json).find(|frame| frame["event"] == "message_end").unwrap();
    let download = &end["data"]["downloads"][0];
    assert_eq!(
        (&download["filename"], &end["data"]["attachment"]["format"]),
        (&json!("report.docx"), &json!("html"))
    );
    let path = download["url"].as_str().unwrap();
    let got = bench.router.clone().oneshot(bench.request("GET", path, &Json::Null)).await.unwrap();
    let got = axum::body::to_bytes(got.into_body(), 1 << 20).await.unwrap();
    assert!(got.starts_with(b"PK"));
    let page = format!(
        "/api/v1/agents/attachments/{}/download",
        end["data"]["attachment"]["doc_id"].as_str().unwrap()
    );
    assert!(bench.get(&page).await.text.contains("<!DOCTYPE html>"));
    let session = frames[0].json()["session_id"].as_str().unwrap().to_owned();
    let gone = bench.request("DELETE", &format!("/api/v1/agents/{id}/sessions/{session}"), &Json::Null);
    bench.send(gone).await.data();
    assert_eq!(bench.get(&page).await.refusal().0, 102);
}

#[tokio::test]
async fn old_files_are_removed() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Files", with_files()).await;
    let file = uploaded(&bench, &id, "a.txt", "x").await;
    assert_eq!(bench.app.remove_old_files(0).await.unwrap(), 0);
    assert_eq!(bench.app.remove_old_files(i64::MAX).await.unwrap(), 1);
    assert_eq!(bench.get(file["url"].as_str().unwrap()).await.refusal().0, 102);
}
