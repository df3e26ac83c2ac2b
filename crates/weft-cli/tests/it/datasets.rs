//! `weft dataset`: files in, cited passages out.

use serde_json::{Value as Json, json};

use crate::weft::Home;

/// A canvas that searches a stored dataset and answers with what it finds.
pub(crate) fn canvas(dataset: &str) -> Json {
    let node = |kind: &str, params: Json, up: &[&str], down: &[&str]| json!({"obj": {"component_name": kind, "params": params}, "upstream": up, "downstream": down});
    json!({
        "components": {
            "begin": node("Begin", json!({"mode": "conversational", "prologue": ""}), &[], &["Retrieval:R"]),
            "Retrieval:R": node("Retrieval", json!({"query": "{sys.query}", "kb_ids": [dataset], "top_n": 3}), &["begin"], &["LLM:A"]),
            "LLM:A": node("LLM", json!({
                "llm_id": "", "cite": true, "sys_prompt": "Answer from the passages.\n{Retrieval:R@formalized_content}",
                "prompts": [{"role": "user", "content": "{sys.query}"}],
            }), &["Retrieval:R"], &["Message:M"]),
            "Message:M": node("Message", json!({"content": ["{LLM:A@content}"]}), &["LLM:A"], &[]),
        },
        "globals": {"sys.query": "", "sys.user_id": "", "sys.conversation_turns": 0, "sys.files": []},
        "history": [], "path": [], "retrieval": [], "graph": {"nodes": [], "edges": []},
    })
}

#[test]
fn a_folder_becomes_a_dataset_for_commands_and_canvases() {
    let home = Home::quoting();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("bridge.md", "# The bridge\n\nThe stone bridge over the Alder was built in 1823.\n");
    write("ferry.html", "<h1>The ferry</h1><p>The ferry crosses the lake every twenty minutes.</p>");
    std::fs::write(folder.path().join("scan.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").unwrap();
    let path = folder.path().to_string_lossy().into_owned();

    // A file that cannot be read fails without affecting the others, and its reason is shown.
    home.weft(&["dataset", "ingest", "town", &path]).with(1).says(&[
        "The dataset `town` is new",
        "searched by words alone",
        "scan.png",
        "2 documents read, 1 failed",
    ]);
    let documents = home.weft(&["dataset", "show", "town", "--json"]).with(0).json_lines();
    let states: Vec<&Json> = documents.iter().map(|document| &document["state"]).collect();
    assert_eq!(states, [&json!("done"), &json!("done"), &json!("failed")]);

    let found = home.weft(&["dataset", "search", "when was the bridge built", "--in", "town", "--json"]);
    let found = found.with(0).json_lines();
    assert_eq!(found[0]["document_name"], "bridge.md");
    assert!(found[0]["content"].as_str().unwrap().contains("1823"), "{found:?}");
    home.weft(&["dataset", "search", "x", "--in", "none"]).with(2).says(&["`none`", "weft dataset list"]);
    home.weft(&["dataset", "search", " ", "--in", "town"]).with(2).says(&["the question is empty", "help: "]);

    let file = folder.path().join("canvas.json");
    std::fs::write(&file, canvas("town").to_string()).unwrap();
    let file = file.to_string_lossy();
    let answer = home.weft(&["run", &file, "--query", "When was the stone bridge built?"]).with(0).stdout;
    assert!(answer.contains("1823. [ID:0]"), "{answer}");
    // A run that shares its beginning lists its sources, too.
    let run = home.weft(&["runs", "list", "--json"]).json_lines()[0]["id"].as_str().unwrap().to_owned();
    home.weft(&["runs", "fork", &run, "--at", "Retrieval:R"]).with(0).says(&["[ID:0] bridge.md: "]);
}

#[test]
fn only_new_and_changed_files_are_read() {
    let home = Home::quoting();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("one.txt", "Herons nest in April.");
    write("two.txt", "Otters sleep at noon.");
    let path = folder.path().to_string_lossy().into_owned();
    home.weft(&["dataset", "ingest", "river", &path, "--meta", "year=2024"])
        .with(0)
        .says(&["2 documents read"]);
    home.weft(&["dataset", "ingest", "river", &path]).with(0).says(&["0 documents read, 2 unchanged"]);
    home.weft(&["dataset", "pause", "river"]).with(0).says(&["0 documents paused"]);
    for stop in ["pause", "cancel"] {
        home.weft(&["dataset", stop, "river", "one.txt"])
            .with(2)
            .says(&["error: one.txt is not being read", "`weft dataset show river`"]);
    }
    write("two.txt", "Otters sleep at midnight.");
    home.weft(&["dataset", "ingest", "river", &path])
        .with(0)
        .says(&["1 document read, 1 replaced, 1 unchanged"]);
    let search = |question: &str, more: &[&str]| {
        let asked = [&["dataset", "search", question, "--in", "river", "--json"], more].concat();
        home.weft(&asked).with(0).json_lines()
    };
    let contents = |found: Vec<Json>| {
        found.iter().map(|one| one["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(contents(search("when do otters sleep", &[])), ["Otters sleep at midnight."]);
    assert_eq!(contents(search("herons", &["--where", "year >= 2024"])), ["Herons nest in April."]);
    assert_eq!(contents(search("herons", &["--where", "year < 2024"])), Vec::<String>::new());
    // A file that is refused leaves the stored document in place.
    write("two.txt", "");
    home.weft(&["dataset", "ingest", "river", &path]).with(1).says(&["two.txt", "is empty"]);
    assert_eq!(contents(search("when do otters sleep", &[])), ["Otters sleep at midnight."]);
    home.weft(&["dataset", "remove", "river", "one.txt"]).with(0);
    assert_eq!(search("herons", &[]), Vec::<Json>::new());
    home.weft(&["dataset", "remove", "river", "--all"]).with(0);
    home.weft(&["dataset", "show", "river"]).with(2).says(&["there is no dataset"]);
}

/// The vectors are recomputed with the named model, or removed when none is named.
#[test]
fn the_vectors_of_a_dataset_can_be_replaced() {
    let home = Home::quoting();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("one.txt"), "Herons nest in April.").unwrap();
    let path = folder.path().to_string_lossy().into_owned();
    home.weft(&["dataset", "ingest", "river", &path]).with(0);
    home.weft(&["dataset", "embed", "river"]).with(2).says(&["name the new model with --embedder"]);
    home.weft(&["dataset", "embed", "river", "--embedder", "no-such"]).says(&["no-such"]);
    home.weft(&["dataset", "embed", "river", "--embedder", "none"])
        .with(0)
        .says(&["it is searched by words alone"]);
    home.weft(&["dataset", "embed", "river", "--embedder", "none"])
        .with(0)
        .says(&["`river` has no vectors to remove"]);
    let found = home.weft(&["dataset", "search", "herons", "--in", "river", "--json"]).with(0).json_lines();
    assert_eq!(found[0]["content"], "Herons nest in April.");
    home.weft(&["dataset", "embed", "lake"]).with(2).says(&["there is no dataset"]);
}

/// Files with one name in two folders are two documents, also when the folder is ingested again.
#[test]
fn options_about_files_need_files() {
    let home = Home::quoting();
    home.weft(&["dataset", "add", "birds", "--embedder", "none"]).with(0);
    let one = |flag: &str, more: &[&str]| {
        let ingest = [&["dataset", "ingest", "birds", flag], more].concat();
        home.weft(&ingest).with(2).says(&[&format!("{flag} has no effect without files"), "name files"]);
    };
    one("--set", &["chunk_token_num=64"]);
    one("--method", &["qa"]);
    one("--meta", &["year=2024"]);
    one("--again", &[]);
    home.weft(&["dataset", "ingest", "birds"]).with(0).says(&["0 documents read"]);
}

#[test]
fn settings_that_are_not_valid_are_told_in_words_of_the_command_line() {
    let home = Home::quoting();
    let refused = |set: &str, words: &[&str]| {
        let told = home.weft(&["dataset", "add", "birds", "--set", set]).with(2).says(words).stderr;
        assert!(!told.contains("Field:") && !told.contains("Input should"), "{told}");
    };
    refused(
        "chunk_token_num=0",
        &["--set", "`chunk_token_num` must be a whole number from 1 to 2048", "is 0"],
    );
    refused("chunk_tokn_num=64", &["no setting `chunk_tokn_num`", "did you mean `chunk_token_num`?"]);
    refused("toc_extraction=yes", &["`toc_extraction` must be true or false", "docs/datasets.md"]);
    home.weft(&["dataset", "list"]).with(0).says(&["there are no datasets"]);
}

#[test]
fn documents_of_a_folder_are_named_by_their_paths() {
    let home = Home::quoting();
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("north", "Herons nest in April."), ("south", "Otters sleep at noon.")] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("index.md"), text).unwrap();
    }
    let path = folder.path().to_string_lossy().into_owned();
    home.weft(&["dataset", "ingest", "river", &path]).with(0).says(&["2 documents read"]);
    home.weft(&["dataset", "ingest", "river", &path]).with(0).says(&["2 unchanged"]);
    let found = home.weft(&["dataset", "search", "otters", "--in", "river", "--json"]).with(0).json_lines();
    assert_eq!(found[0]["document_name"], "south/index.md");
    home.weft(&["dataset", "remove", "river", "south/index.md"]).with(0);
    let both = ["north/index.md", "south/index.md"].map(|name| format!("{path}/{name}"));
    home.weft(&["dataset", "ingest", "river", &both[0], &both[1]])
        .with(2)
        .says(&["would both be", "index.md"]);
}

/// The content of a dataset: document name and text of each chunk, in order; and the number of chunks that the index
/// finds.
fn everything(home: &Home, dataset: &str) -> (Vec<(String, String)>, usize) {
    let text = |json: &Json, key: &str| json[key].as_str().unwrap().to_owned();
    let mut chunks = Vec::new();
    for document in home.weft(&["dataset", "show", dataset, "--json"]).with(0).json_lines() {
        assert_eq!(document["state"], "done", "{document}");
        let name = text(&document, "name");
        let cut = home.weft(&["dataset", "chunks", dataset, &name, "--json"]).with(0).json_lines();
        chunks.extend(cut.iter().map(|chunk| (name.clone(), text(chunk, "content"))));
    }
    chunks.sort();
    let asked =
        ["dataset", "search", "heron", "--in", dataset, "--top", "1000", "--threshold", "0", "--json"];
    (chunks, home.weft(&asked).with(0).json_lines().len())
}

const HERONS: usize = 40;

/// Documents of one to five sections each.
fn herons() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..HERONS {
        let sections = (0..=number % 5).map(|section| {
            format!(
                "# Part {section}\n\nHeron {number} was seen at weir {section}. {}\n\n",
                "The heron fished. ".repeat(90)
            )
        });
        std::fs::write(folder.path().join(format!("{number:02}.md")), sections.collect::<String>()).unwrap();
    }
    folder
}

/// The process is killed several times while it reads documents. The result equals that of reading them once.
#[test]
fn a_crash_during_ingestion_loses_and_duplicates_nothing() {
    let folder = herons();
    let path = folder.path().to_string_lossy().into_owned();
    let (calm, rough) = (Home::quoting(), Home::quoting());
    let ingest = ["dataset", "ingest", "birds", &path, "--set", "chunk_token_num=128"];
    calm.weft(&ingest).with(0).says(&[&format!("{HERONS} documents read")]);
    let expected = everything(&calm, "birds");
    assert!(expected.0.len() > 2 * HERONS);
    assert_eq!(expected.1, expected.0.len(), "the index finds every chunk once");

    let mut under_way = rough.start(&ingest);
    for _ in 0..4 {
        // A fast machine may finish before the process was killed four times.
        if under_way.told("document").contains("100 %") {
            break;
        }
        under_way.signal("KILL");
        drop(under_way);
        under_way = rough.start(&["dataset", "ingest", "birds"]);
    }
    let ended = under_way.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(everything(&rough, "birds"), expected);
}

/// The process is killed when nearly everything is read, but not all of it is in the index: the next process has
/// little or nothing to read, and everything must still be found. This is repeated because the exact moment matters.
#[test]
fn chunks_read_just_before_a_crash_are_found() {
    let folder = herons();
    let path = folder.path().to_string_lossy().into_owned();
    let home = Home::quoting();
    for dataset in ["a", "b", "c", "d"] {
        let mut killed = home.start(&["dataset", "ingest", dataset, &path, "--set", "chunk_token_num=128"]);
        let is_early =
            |line: &str| line.trim().split(" %").next().unwrap().parse().is_ok_and(|share: u8| share < 80);
        while is_early(&killed.told("documents")) {}
        killed.signal("KILL");
        drop(killed);
        home.weft(&["dataset", "ingest", dataset]).with(0);
        let (stored, found) = everything(&home, dataset);
        assert_eq!(stored.len(), found, "{dataset}");
    }
}

/// Two commands ingest the same files at the same time, twice: each file still is one document.
#[test]
fn two_commands_with_the_same_files_create_no_duplicates() {
    let home = Home::quoting();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_string_lossy().into_owned();
    for round in ["first", "second"] {
        for number in 0..6 {
            std::fs::write(
                folder.path().join(format!("{number}.txt")),
                format!("The {round} heron {number}."),
            )
            .unwrap();
        }
        let both = [0, 1].map(|_| home.start(&["dataset", "ingest", "birds", &path]));
        for one in both {
            let ended = one.end();
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        }
        let expected: Vec<_> =
            (0..6).map(|n| (format!("{n}.txt"), format!("The {round} heron {n}."))).collect();
        assert_eq!(everything(&home, "birds"), (expected, 6));
    }
}

/// A model that only quotes cannot find keywords, and its refusal is not stored as one.
#[test]
fn without_a_language_model_no_keywords_are_added() {
    let home = Home::quoting();
    let file = home.write("one.txt", "Herons nest in April.");
    let file = file.to_string_lossy();
    let asked =
        ["dataset", "ingest", "birds", &file, "--set", "auto_keywords=3", "--set", "auto_questions=1"];
    home.weft(&asked).with(0).says(&["need a language model"]);
    let chunks = home.weft(&["dataset", "chunks", "birds", "one.txt", "--json"]).with(0).json_lines();
    assert_eq!((&chunks[0]["important_keywords"], &chunks[0]["questions"]), (&json!([]), &json!([])));
}

/// The manual beside the canvas `cited_pages`, four pages of a device that does not exist.
const MANUAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../canvases/cited_pages/documents/manual.pdf");

/// The text of one page of the manual, chunked only by page.
fn page_of_manual(home: &Home, page: u64) -> String {
    let name = format!("page {page}");
    let pages = format!("pages=[[{page}, {page}]]");
    home.weft(&["dataset", "ingest", &name, MANUAL, "--method", "one", "--set", &pages]).with(0);
    let chunks = home.weft(&["dataset", "chunks", &name, "manual.pdf", "--json"]).with(0).json_lines();
    chunks.iter().map(|chunk| words(chunk["content"].as_str().unwrap())).collect()
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Ingested, searched, cited: each citation number leads to a stored chunk and to the page of the file with the fact.
#[test]
fn every_citation_leads_to_a_stored_chunk_and_its_page() {
    let facts = [
        ("How often are the filters changed?", "changed every six months", 3),
        ("What does the code E8 mean?", "E8: the trap is blocked", 4),
    ];
    let reply = |(question, fact, _): &(&str, &str, u64)| json!({"when": {"user": question}, "text": format!("It says: {fact} [ID:0].")});
    let home = Home::scripted(&json!({"replies": facts.iter().map(reply).collect::<Vec<_>>()}));
    home.weft(&["dataset", "ingest", "devices", MANUAL, "--set", "chunk_token_num=128"]).with(0);
    let stored = home.weft(&["dataset", "chunks", "devices", "manual.pdf", "--json"]).with(0).json_lines();
    let file = home.write("canvas.json", canvas("devices").to_string());
    let file = file.to_string_lossy();
    for (question, fact, page) in facts {
        let run = ["run", &file, "--query", question];
        home.weft(&run).with(0).says(&[&format!("[ID:0] manual.pdf, page {page}: ")]);
        let events = home.weft(&[&run[..], &["--events"]].concat()).with(0).json_lines();
        let end = events.iter().find(|event| event["event"] == "message_end").unwrap();
        let source = &end["data"]["reference"]["chunks"]["0"];
        let chunk = stored.iter().find(|chunk| chunk["id"] == source["id"]).unwrap();
        assert_eq!((&source["content"], &source["positions"]), (&chunk["content"], &chunk["positions"]));
        assert!(words(source["content"].as_str().unwrap()).contains(fact), "{source}");
        let positions = source["positions"].as_array().unwrap();
        assert!(!positions.is_empty() && positions.iter().all(|position| position[0] == page), "{source}");
        assert!(page_of_manual(&home, page).contains(fact));
    }
}

#[test]
fn files_beside_a_canvas_are_searched_and_unreadable_ones_are_skipped() {
    let home = Home::quoting();
    let canvas_of = canvas("shed").to_string();
    std::fs::create_dir_all(home.path().join("shed/documents/old")).unwrap();
    let file = home.write("shed/canvas.json", canvas_of);
    std::fs::copy(MANUAL, home.path().join("shed/documents/manual.pdf")).unwrap();
    home.write("shed/documents/old/ferry.html", "<p>The ferry crosses the lake every twenty minutes.</p>");
    home.write("shed/documents/scan.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    home.write("shed/documents/.hidden.md", "# Nobody reads this\n");
    // A link made by the author of the canvas cannot read files of the user who runs it; a link within the folder
    // works.
    std::fs::create_dir_all(home.path().join("private")).unwrap();
    home.write("private/key.txt", "The key to the safe is quokka.\n");
    #[cfg(unix)]
    {
        let documents = home.path().join("shed/documents");
        std::os::unix::fs::symlink(home.path().join("private/key.txt"), documents.join("key.txt")).unwrap();
        std::os::unix::fs::symlink(home.path().join("private"), documents.join("more")).unwrap();
    }
    let file = file.to_string_lossy();
    let run = home.weft(&["run", &file, "--query", "What is the key to the safe?"]).with(0);
    assert!(!run.stdout.contains("quokka"), "{}", run.stdout);
    if cfg!(unix) {
        run.says(&[
            "documents/key.txt points outside the folder of the canvas",
            "documents/more/key.txt points outside",
        ]);
    }
    let run = home.weft(&["run", &file, "--query", "How long does the warranty last?"]).with(0);
    assert!(run.stdout.contains("five years"), "{}", run.stdout);
    run.says(&[
        "scan.png next to the canvas is not searched: ",
        "2 documents next to the canvas can be searched as the dataset `shed`",
        "manual.pdf, page 4: ",
    ]);
    let run = home.weft(&["run", &file, "--query", "How often does the ferry cross the lake?"]).with(0);
    run.says(&["[ID:0] old/ferry.html: "]);
}

#[test]
fn documents_can_be_chunked_by_a_custom_pipeline() {
    let home = Home::quoting();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    };
    let sample = |name: &str| format!("{}/../../pipelines/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let pipeline = sample("headings");
    for name in ["headings", "summaries"] {
        home.weft(&["check", &sample(name)]).with(0);
    }
    let guide =
        write("guide.md", "# Guide\n\nHello.\n\n## Filter\n\nTurn the lid.\n\n## Lamp\n\nPull the bulb.\n");

    let printed = home.weft(&["run", &pipeline, "--file", &guide]).with(0).stdout;
    let printed: Json = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed["chunks"][1]["text"], "Guide\nFilter\n\nTurn the lid.");

    let ingest = ["dataset", "ingest", "guides", &guide, "--pipeline", &pipeline];
    home.weft(&ingest).with(0).says(&["1 document read"]);
    let found = home.weft(&["dataset", "search", "lid", "--in", "guides", "--json"]).with(0).json_lines();
    assert_eq!(found[0]["content"], "Guide\nFilter\n\nTurn the lid.");
    home.weft(&ingest).with(0).says(&["1 unchanged"]);
    // A chunk method replaces the pipeline.
    home.weft(&["dataset", "ingest", "guides", &guide, "--method", "one"]).with(0).says(&["1 document read"]);
    let found = home.weft(&["dataset", "search", "lid", "--in", "guides", "--json"]).with(0).json_lines();
    assert!(found[0]["content"].as_str().unwrap().contains("Lamp"), "{found:?}");

    let agent = write("agent.json", &canvas("guides").to_string());
    let refused = ["dataset", "ingest", "others", &guide, "--pipeline", &agent];
    home.weft(&refused).with(2).says(&["not an ingestion pipeline"]);
}

/// A tag set is a file of texts with their tags; documents that use it get the tags of the most similar texts.
#[test]
fn tags_of_a_tag_set_are_assigned_to_documents_and_searchable() {
    let home = Home::quoting();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    write(
        "tags.csv",
        "oil pump with a leaking valve,\"maintenance, hydraulics\"\ncourt ruling on a tax form,law\n",
    );
    write("notes.md", "The pump lost its oil at the valve.\n\nNothing of the kind happened in spring.\n");
    let set = path("tags.csv");
    home.weft(&["dataset", "ingest", "tags", &set, "--method", "tag"]).with(0);
    let listed = home.weft(&["dataset", "list", "--json"]).with(0).json_lines();
    let id = listed.iter().find(|one| one["name"] == "tags").unwrap()["id"].as_str().unwrap().to_owned();
    let notes = path("notes.md");
    let named = format!("tag_kb_ids=[\"{id}\"]");
    let search = |question: &str, within: &str| {
        home.weft(&["dataset", "search", question, "--in", within, "--json"]).with(0).json_lines()
    };
    let cut = ["--set", "chunk_token_num=12"];
    home.weft(&[&["dataset", "ingest", "plain", &notes], &cut[..]].concat()).with(0);
    home.weft(&[&["dataset", "ingest", "tagged", &notes, "--set", &named], &cut[..]].concat()).with(0);
    // No word of the question is in the document: only the tag finds it, and it finds the chunk with that tag.
    assert_eq!(search("hydraulics", "plain"), Vec::<Json>::new());
    let found = search("hydraulics", "tagged");
    assert!(found.len() == 1 && found[0]["content"].as_str().unwrap().contains("pump"), "{found:?}");
    assert_eq!(search("law", "tagged"), Vec::<Json>::new());
    // A tag that matches in addition to a word of the document ranks it higher.
    let score = |within: &str| search("valve maintenance", within)[0]["similarity"].as_f64().unwrap();
    assert!(score("tagged") > score("plain"));
    // An empty tag set is reported.
    home.weft(&["dataset", "add", "empty"]).with(0);
    home.weft(&["dataset", "add", "Empty"]).with(2).says(&["another dataset has the name"]);
    let listed = home.weft(&["dataset", "list", "--json"]).with(0).json_lines();
    let id = listed.iter().find(|one| one["name"] == "empty").unwrap()["id"].as_str().unwrap().to_owned();
    let named = format!("tag_kb_ids=[\"{id}\"]");
    home.weft(&["dataset", "ingest", "untagged", &notes, "--set", &named]).with(0);
    let shown = home.weft(&["dataset", "show", "untagged", "--json"]).with(0).stdout;
    assert!(shown.contains("has no searchable texts"), "{shown}");
}

/// Without a model for speech, the program that the operator configures transcribes recordings.
#[test]
fn recordings_are_transcribed_by_a_program_and_searchable() {
    let home = Home::quoting();
    // It uses shell builtins only, since it can start no process. The shell reads it: to execute a file that was
    // just written fails while a process that another test has started still has it open.
    let program = home.write("hear.sh", "IFS= read -r line < \"$1\"\nprintf '%s\\n' \"${line#ID3}\"\n");
    let program = program.to_str().unwrap();
    home.settings(format!(
        "[transcription]\nengine = \"program\"\ncommand = [\"/bin/sh\", {program:?}, \"{{file}}\"]\nread = [{program:?}]\n"
    ));
    let recording = home.write("note.mp3", "ID3Good morning. The pump is broken.");
    let ingest = ["dataset", "ingest", "voices", recording.to_str().unwrap()];
    home.weft(&ingest).with(0).says(&["1 document read"]);
    let search = ["dataset", "search", "broken pump", "--in", "voices", "--json"];
    let found = home.weft(&search).with(0).json_lines();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["document_name"], "note.mp3");
    assert_eq!(found[0]["content"], "Good morning. The pump is broken.");
}
