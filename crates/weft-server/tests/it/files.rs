//! Files in folders, with the names of both API generations.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value as Json, json};
use weft_app::config::{Auth, LimitsConfig};
use weft_core::access::MemberRole;
use weft_testkit::Script;

use crate::shelf::{FILE_BYTES_MAX, form};
use crate::support::{Bench, Reading, bench, bench_with};

const FILES: &str = "/api/v1/files";

async fn sent(bench: &Bench, path: &str, (body, kind): (String, String)) -> Reading {
    let request = Request::builder()
        .method("POST")
        .uri(path)
        .header("authorization", format!("Bearer {}", bench.token))
        .header("content-type", kind)
        .body(Body::from(body))
        .unwrap();
    bench.send(request).await
}

/// A form with files and their folder, which comes after or before them.
fn form_into(folder: &str, files: &[(&str, &str)], comes: FolderComes) -> (String, String) {
    let (body, kind) = form(files);
    let part =
        format!("--frontier\r\nContent-Disposition: form-data; name=\"parent_id\"\r\n\r\n{folder}\r\n");
    let body = match comes {
        FolderComes::First => format!("{part}{body}"),
        FolderComes::Last => body.replace("--frontier--", &format!("{part}--frontier--")),
    };
    (body, kind)
}

#[derive(Clone, Copy)]
enum FolderComes {
    First,
    Last,
}

fn id(shown: &Json) -> String {
    shown["id"].as_str().unwrap().to_owned()
}

async fn folder(bench: &Bench, name: &str, parent: Option<&str>) -> String {
    let body = json!({"name": name, "parent_id": parent, "type": "folder"});
    id(&bench.post(FILES, body).await.data())
}

async fn file(bench: &Bench, folder: &str, name: &str, text: &str) -> String {
    let kept = sent(bench, FILES, form_into(folder, &[(name, text)], FolderComes::First)).await.data();
    id(&kept[0])
}

async fn names(bench: &Bench, query: &str) -> (Vec<String>, Json) {
    let listed = bench.get(&format!("{FILES}?{query}")).await.data();
    let names =
        listed["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap().to_owned());
    (names.collect(), listed["total"].clone())
}

#[tokio::test]
async fn the_folder_may_come_after_the_maximum_number_of_files() {
    let bench = bench(Script::new()).await;
    let docs = folder(&bench, "Docs", None).await;
    let names: Vec<String> = (0..101).map(|nth| format!("{nth}.txt")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    let kept = sent(&bench, FILES, form_into(&docs, &files[..100], FolderComes::Last)).await.data();
    assert_eq!((kept.as_array().unwrap().len(), &kept[99]["parent_id"]), (100, &json!(docs)));
    let refused = sent(&bench, FILES, form_into(&docs, &files, FolderComes::Last)).await.refusal();
    assert_eq!(refused, (101, "one request can contain at most 100 files".to_owned()));
}

#[tokio::test]
async fn files_are_uploaded_listed_renamed_moved_and_removed() {
    let bench = bench(Script::new()).await;
    let root = bench.get("/v1/file/root_folder").await.data()["root_folder"].clone();
    assert_eq!(
        (&root["name"], &root["type"], &root["parent_id"]),
        (&json!("/"), &json!("folder"), &root["id"])
    );
    let root = id(&root);
    let docs = folder(&bench, "Docs", None).await;
    let old = folder(&bench, "Old", Some(&docs)).await;
    let kept =
        sent(&bench, FILES, form_into(&docs, &[("a.txt", "one"), ("a.txt", "two")], FolderComes::First));
    let kept = kept.await.data();
    assert_eq!((&kept[0]["name"], &kept[1]["name"]), (&json!("a.txt"), &json!("a(1).txt")));
    assert_eq!(
        (&kept[0]["size"], &kept[0]["type"], &kept[0]["parent_id"]),
        (&json!(3), &json!("doc"), &json!(docs))
    );
    let late = sent(&bench, "/v1/file/upload", form_into(&docs, &[("a.txt", "three")], FolderComes::Last));
    let late = late.await.data()[0].clone();
    assert_eq!((&late["name"], &late["parent_id"]), (&json!("a(2).txt"), &json!(docs)));

    // The size of a folder includes everything below it.
    let top = bench.get(FILES).await.data();
    assert_eq!((&top["files"][0]["name"], &top["files"][0]["size"]), (&json!("Docs"), &json!(3 + 3 + 5)));
    let listed = names(&bench, &format!("parent_id={docs}&orderby=name&desc=false")).await;
    let all = ["a(1).txt", "a(2).txt", "a.txt", "Old"].map(str::to_owned).to_vec();
    assert_eq!(listed, (all, json!(4)));
    let found = names(&bench, &format!("parent_id={docs}&keywords=A.TXT")).await;
    assert_eq!(found, (vec!["a.txt".to_owned()], json!(1)));
    let page = names(&bench, &format!("parent_id={docs}&orderby=name&desc=false&page=2&page_size=3")).await;
    assert_eq!(page, (vec!["Old".to_owned()], json!(4)));
    let top = bench.get("/api/v1/file/list").await.data();
    assert_eq!(
        (&top["files"][0]["has_child_folder"], &top["parent_folder"]["id"]),
        (&json!(true), &json!(root))
    );

    let file = id(&kept[0]);
    for path in [format!("{FILES}/{file}"), format!("/v1/file/get/{file}")] {
        let got = bench.get(&path).await;
        assert_eq!(got.text, "one", "{path}");
        assert!(got.headers["content-disposition"].to_str().unwrap().starts_with("attachment;"));
        assert_eq!(got.headers["x-content-type-options"], "nosniff");
    }
    bench.ask("PATCH", &format!("{FILES}/{file}"), json!({"name": "b.txt"})).await.data();
    bench.post("/v1/file/rename", json!({"file_id": old, "name": "Older"})).await.data();
    bench.post(&format!("{FILES}/move"), json!({"src_file_ids": [file], "dest_file_id": old})).await.data();
    bench.post("/v1/file/mv", json!({"src_file_ids": [file], "new_name": "c.txt"})).await.data();
    let above = bench.get(&format!("{FILES}/{file}/ancestors")).await.data();
    let above: Vec<&str> =
        above["parent_folders"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(above, ["c.txt", "Older", "Docs", "/"]);
    let above = bench.get(&format!("/v1/file/all_parent_folder?file_id={file}")).await.data();
    assert_eq!(above["parent_folders"][1]["id"], json!(old));
    let parent = bench.get(&format!("{FILES}/{old}/parent")).await.data();
    assert_eq!(parent["parent_folder"]["id"], json!(docs));
    let parent = bench.get(&format!("/v1/file/parent_folder?file_id={docs}")).await.data();
    assert_eq!(parent["parent_folder"]["id"], json!(root));

    bench.ask("DELETE", FILES, json!({"ids": [id(&late)]})).await.data();
    bench.post("/v1/file/rm", json!({"file_ids": [docs]})).await.data();
    assert_eq!(names(&bench, "").await, (Vec::new(), json!(0)));
    assert_eq!(bench.get(&format!("{FILES}/{file}")).await.refusal().0, 102);
}

#[tokio::test]
async fn files_become_documents_that_are_parsed_like_uploaded_ones() {
    let bench = bench(Script::new()).await;
    let (first, second) = (bench.dataset("First").await, bench.dataset("Second").await);
    let dataset = |path: &str| path.rsplit('/').next().unwrap().to_owned();
    let docs = folder(&bench, "Docs", None).await;
    let fox = file(&bench, &docs, "fox.txt", "The quick brown fox.").await;
    let dog = file(&bench, &docs, "dog.txt", "A lazy dog sleeps.").await;
    let body = json!({"file_ids": [docs, fox], "kb_ids": [dataset(&first), dataset(&second)]});
    let made = bench.post(&format!("{FILES}/link-to-datasets"), body).await.data();
    assert_eq!(made.as_array().unwrap().len(), 4, "{made}");
    let of_first: Vec<&Json> =
        made.as_array().unwrap().iter().filter(|one| one["dataset_id"] == json!(dataset(&first))).collect();
    let ids: Vec<&str> = of_first.iter().map(|one| one["document_id"].as_str().unwrap()).collect();
    let read = bench.read(&first, &ids).await;
    assert_eq!((&read["total"], &read["docs"][0]["run"]), (&json!(2), &json!("DONE")));
    let asked = json!({"question": "brown fox", "dataset_ids": [dataset(&first)], "similarity_threshold": 0});
    let found = bench.post("/api/v1/retrieval", asked).await.data();
    assert_eq!(found["chunks"][0]["document_keyword"], "fox.txt", "{found}");

    // The documents are copies.
    bench.ask("DELETE", FILES, json!({"ids": [docs]})).await.data();
    let document = format!("{first}/documents/{}", ids[0]);
    assert_eq!(bench.get(&document).await.status, 200);
    assert!(bench.get(&document).await.text.contains(if of_first[0]["file_id"] == json!(dog) {
        "dog"
    } else {
        "fox"
    }));
}

#[tokio::test]
async fn a_failed_link_leaves_no_document() {
    let bench = bench(Script::new()).await;
    let set = bench.dataset("Set").await;
    let dataset = set.rsplit('/').next().unwrap();
    let docs = folder(&bench, "Docs", None).await;
    file(&bench, &docs, "fox.txt", "fox").await;
    file(&bench, &docs, "movie.mp4", "no text").await;
    let link = async |body: Json| bench.post("/v1/file/convert", body).await.refusal();
    assert_eq!(link(json!({"file_ids": [docs], "kb_ids": [dataset]})).await.0, 500);
    assert_eq!(link(json!({"file_ids": [docs], "kb_ids": [dataset, "unknown"]})).await.0, 102);
    assert_eq!(link(json!({"file_ids": [docs]})).await.0, 101);
    assert_eq!(link(json!({"file_ids": [], "kb_ids": [dataset]})).await.0, 101);
    assert_eq!(bench.get(&format!("{set}/documents")).await.data()["total"], 0);
}

#[tokio::test]
async fn invalid_file_requests_give_the_error_messages_of_the_api() {
    let bench = bench(Script::new()).await;
    let root = id(&bench.get("/v1/file/root_folder").await.data()["root_folder"]);
    let outer = folder(&bench, "Outer", None).await;
    let inner = folder(&bench, "Inner", Some(&outer)).await;
    let one = file(&bench, &outer, "one.txt", "1").await;
    file(&bench, &outer, "two.txt", "2").await;
    let refused = async |path: &str, body: Json| bench.post(path, body).await.refusal();
    let taken = refused(FILES, json!({"name": "OUTER"})).await;
    assert_eq!(taken, (102, "Duplicated folder name in the same folder.".to_owned()));
    let nowhere = refused(FILES, json!({"name": "x", "parent_id": "unknown"})).await;
    assert_eq!(nowhere, (102, "Can't find this folder!".to_owned()));
    assert_eq!(refused(FILES, json!({"name": "x", "parent_id": one})).await.0, 101);
    assert_eq!(refused(FILES, json!({"name": "x", "type": "pdf"})).await.0, 101);
    assert_eq!(refused(FILES, json!({})).await, (101, "required argument are missing: name; ".to_owned()));
    let rename = |name: &str| json!({"file_id": one, "name": name});
    let taken = refused("/v1/file/rename", rename("TWO.txt")).await;
    assert_eq!(taken, (102, "Duplicated file name in the same folder.".to_owned()));
    let ending = refused("/v1/file/rename", rename("one.pdf")).await;
    assert_eq!(ending, (101, "The extension of file can't be changed".to_owned()));
    bench.post("/v1/file/rename", rename("ONE.txt")).await.data();

    let moved = |from: &str, to: &str| json!({"src_file_ids": [from], "dest_file_id": to});
    for (from, to, code) in [
        (&outer, &outer, 101),
        (&outer, &inner, 101),
        (&root, &inner, 101),
        (&outer, &one, 101),
        (&one, &"unknown".to_owned(), 102),
        (&"unknown".to_owned(), &inner, 102),
    ] {
        assert_eq!(refused(&format!("{FILES}/move"), moved(from, to)).await.0, code, "{from} to {to}");
    }
    assert_eq!(refused(&format!("{FILES}/move"), json!({"src_file_ids": [one]})).await.0, 101);
    let several = json!({"src_file_ids": [one, inner], "dest_file_id": root, "new_name": "x"});
    assert_eq!(refused(&format!("{FILES}/move"), several).await.0, 101);
    let too_many: Vec<String> = (0..101).map(|nth| nth.to_string()).collect();
    for ids in [json!([]), json!([root]), json!(too_many), json!(null)] {
        assert_eq!(bench.ask("DELETE", FILES, json!({"ids": ids})).await.refusal().0, 101, "{ids}");
    }
    assert_eq!(bench.ask("DELETE", FILES, json!({"ids": [one, "unknown"]})).await.refusal().0, 102);
    assert_eq!(bench.get(&format!("{FILES}/{one}")).await.text, "1", "nothing of it was removed");
    assert_eq!(bench.get(&format!("{FILES}?orderby=colour")).await.refusal().0, 101);
    let nowhere = bench.get(&format!("{FILES}?parent_id=unknown")).await.refusal();
    assert_eq!(nowhere, (102, "Folder not found!".to_owned()));
    assert_eq!(
        bench.get(&format!("{FILES}/{outer}")).await.refusal().0,
        102,
        "a folder cannot be downloaded"
    );
    assert_eq!(bench.get("/v1/file/parent_folder").await.refusal().0, 101);
}

#[tokio::test]
async fn a_form_over_a_limit_is_refused_and_stores_nothing() {
    let bench = bench(Script::new()).await;
    let large = "x".repeat(usize::try_from(FILE_BYTES_MAX).unwrap() + 1);
    let both = form(&[("fits.txt", "x"), ("large.txt", &large)]);
    assert_eq!(sent(&bench, FILES, both).await.status, 413);
    let unknown = form_into("unknown", &[("fits.txt", "x")], FolderComes::Last);
    assert_eq!(sent(&bench, FILES, unknown).await.refusal().0, 102);
    let empty = ("--frontier--\r\n".to_owned(), "multipart/form-data; boundary=frontier".to_owned());
    assert_eq!(sent(&bench, FILES, empty).await.refusal(), (101, "No file part!".to_owned()));
    assert_eq!(names(&bench, "").await, (Vec::new(), json!(0)));
    let mut within = None;
    for depth in 0..5 {
        within = Some(folder(&bench, &format!("depth {depth}"), within.as_deref()).await);
    }
    let deeper = bench.post(FILES, json!({"name": "deeper", "parent_id": within})).await;
    assert_eq!((deeper.status.as_u16(), deeper.refusal().0), (429, 429));
    let most = "x".repeat(usize::try_from(FILE_BYTES_MAX).unwrap());
    for nth in 0..10 {
        sent(&bench, FILES, form(&[(&format!("{nth}.txt"), &most)])).await.data();
    }
    let full = sent(&bench, FILES, form(&[("full.txt", "x")])).await;
    assert!(full.status == 429 && full.text.contains("limits.tenant_document_bytes"), "{}", full.text);
}

/// Uploads may exceed the body limit, other requests may not, and uploads have their own limit.
#[tokio::test]
async fn only_uploads_may_exceed_the_body_limit() {
    let limits = LimitsConfig { body_bytes: 500, upload_bytes: 5_000, ..LimitsConfig::default() };
    let bench = bench_with(Script::new(), Auth::On, limits).await;
    let name = "x".repeat(600);
    let refused = bench.post(FILES, json!({"name": name})).await;
    assert!(refused.status == 413 && refused.refusal().1.contains("limits.body_bytes"), "{}", refused.text);
    sent(&bench, FILES, form(&[("a.txt", &name)])).await.data();
    let most =
        form(&[("a.txt", &"x".repeat(2_000)), ("b.txt", &"x".repeat(2_000)), ("c.txt", &"x".repeat(2_000))]);
    let refused = sent(&bench, FILES, most).await;
    assert!(refused.status == 413 && refused.refusal().1.contains("limits.upload_bytes"), "{}", refused.text);
    assert_eq!(names(&bench, "").await.1, json!(1));
}

#[tokio::test]
async fn files_cannot_be_put_into_a_folder_of_another_tenant() {
    let bench = bench(Script::new()).await;
    let ours = folder(&bench, "Ours", None).await;
    let (stranger, _) = bench.as_member("another", MemberRole::Owner).await;
    for order in [FolderComes::First, FolderComes::Last] {
        let refused = sent(&stranger, FILES, form_into(&ours, &[("a.txt", "x")], order)).await.refusal();
        assert_eq!(refused, (102, "Can't find this folder!".to_owned()));
    }
    let theirs = file(&stranger, "", "theirs.txt", "x").await;
    let moved = json!({"src_file_ids": [theirs], "dest_file_id": ours});
    assert_eq!(stranger.post(&format!("{FILES}/move"), moved).await.refusal().0, 102);
    let set = bench.dataset("Set").await;
    let linked = json!({"file_ids": [theirs], "kb_ids": [set.rsplit('/').next().unwrap()]});
    assert_eq!(stranger.post(&format!("{FILES}/link-to-datasets"), linked).await.refusal().0, 102);
    assert_eq!(names(&bench, &format!("parent_id={ours}")).await, (Vec::new(), json!(0)));
    let (viewer, _) = bench.as_member("default", MemberRole::Viewer).await;
    assert_eq!(viewer.get(FILES).await.data()["total"], 1);
    assert_eq!(viewer.post(FILES, json!({"name": "x"})).await.status, 403);
}

#[tokio::test]
async fn moving_the_root_folder_is_refused() {
    let bench = bench(Script::new()).await;
    let root = bench.get(FILES).await.data()["parent_folder"]["id"].clone();
    let folder = folder(&bench, "Outer", None).await;
    let moved = json!({"src_file_ids": [root], "dest_file_id": folder});
    let (code, message) = bench.post(&format!("{FILES}/move"), moved).await.refusal();
    assert!(code == 101 && message.contains("the root folder"), "{message}");
}
