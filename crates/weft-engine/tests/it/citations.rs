//! Citation marks in an answer, followed to the passage and to the page of the file with the fact.

use std::path::Path;

use serde_json::{Value as Json, json};
use weft_core::citation::{Cited, marks, reference};
use weft_core::seam::document_reader::{ChunkMethod, ReadRequest};
use weft_core::{Record, TurnInput};
use weft_models::script::{Reply, Script};
use weft_testkit::fake_http::FakeHttp;

use crate::golden::{samples, world_of};
use crate::kit::{Ran, asking};
use crate::real::{World, drawn, searching};

/// The text before a mark, the text of the file, and its page: 0 for a file without pages.
struct Lead {
    claim: &'static str,
    fact: &'static str,
    file: &'static str,
    page: u64,
}

const fn lead(claim: &'static str, fact: &'static str, file: &'static str, page: u64) -> Lead {
    Lead { claim, fact, file, page }
}

/// Every mark of `canvases/cited_pages`, turn by turn.
const LEADS: [&[Lead]; 3] = [
    &[
        lead("every six months", "Both filters have to be changed every six months", "manual.pdf", 3),
        lead("39 euros", "A set of two filters for the Breeze 180 costs 39 euros", "service.md", 0),
        lead("five years", "The warranty lasts for five years", "manual.pdf", 4),
    ],
    &[lead("supply fan is blocked", "E3: the supply fan is blocked", "manual.pdf", 4)],
    &[lead(
        "2 centimetres",
        "The drain hose must fall by at least 2 centimetres for each metre",
        "manual.pdf",
        2,
    )],
];

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text of one page, read from the file itself as one string.
fn page(file: &Path, page: u64) -> String {
    let settings = match page {
        0 => json!({}),
        page => json!({"pages": [[page, page]]}),
    };
    let request = ReadRequest {
        name: file.file_name().unwrap().to_string_lossy().into_owned(),
        method: ChunkMethod::One,
        settings: settings.as_object().unwrap().clone(),
    };
    let read = weft_parse::read(&request, &std::fs::read(file).unwrap()).unwrap();
    words(&read.pieces.iter().map(|piece| piece.content.as_str()).collect::<Vec<_>>().join(" "))
}

fn cited(ran: &Ran) -> Vec<Cited> {
    let ends = ran.records.iter().filter_map(|record| match record {
        Record::MessageEnded { end, .. } => Some(end.cited.clone()),
        _ => None,
    });
    ends.flatten().collect()
}

/// Follows the marks of one answer as a client would, from its text and `reference` only.
fn follow(ran: &Ran, leads: &[Lead]) {
    let said = &ran.report.said;
    let (numbers, reference) = (marks(said), reference(&cited(ran)));
    assert_eq!(numbers.len(), leads.len(), "{said}");
    assert_eq!(reference["chunks"].as_object().unwrap().len(), leads.len(), "no source is missing or idle");
    let claims = said.split("[ID:").map(|part| part.split_once(']').map_or(part, |(_, claim)| claim));
    for ((number, claim), lead) in numbers.iter().zip(claims).zip(leads) {
        let chunk = &reference["chunks"][number.to_string()];
        assert!(claim.contains(lead.claim), "[ID:{number}] follows {claim:?}");
        assert_eq!(chunk["document_name"], lead.file, "[ID:{number}]");
        assert!(words(chunk["content"].as_str().unwrap()).contains(lead.fact), "[ID:{number}] {chunk}");
        let positions = chunk["positions"].as_array().unwrap();
        assert_eq!(positions.is_empty(), lead.page == 0, "{chunk}");
        for position in positions {
            assert_eq!((&position[0], position.as_array().unwrap().len()), (&Json::from(lead.page), 5));
        }
        let file = samples().join("cited_pages/documents").join(lead.file);
        assert!(page(&file, lead.page).contains(lead.fact), "the fact is on page {}", lead.page);
    }
}

#[tokio::test(start_paused = true)]
async fn every_mark_leads_to_its_passage_and_its_page() {
    let folder = samples().join("cited_pages");
    let (world, plan, conversations) = world_of(&folder).await;
    let mut answers = Vec::new();
    for conversation in conversations {
        answers.extend(world.hold(&plan, conversation.turns).await);
    }
    assert_eq!(answers.len(), LEADS.len());
    for (ran, leads) in answers.iter().zip(LEADS) {
        follow(ran, leads);
    }
}

/// A search without hits, and the model's answer after it, also with a human task in between.
#[tokio::test(start_paused = true)]
async fn marks_are_removed_after_a_search_without_hits() {
    let search = json!({"query": "sys.query", "dataset_ids": ["cats"], "similarity_threshold": 0.99});
    let form =
        json!({"enable_tips": true, "tips": "Go on?", "inputs": {"ok": {"name": "OK", "type": "line"}}});
    let answer = json!({"cite": true, "prompts": [{"role": "user",
        "content": "{sys.query} {Retrieval:R@formalized_content}"}]});
    let said = json!({"content": ["{LLM:L@content}"]});
    let plan = drawn(&[
        ("begin", "Begin", json!({}), &["Retrieval:R"], None),
        ("Retrieval:R", "Retrieval", search, &["UserFillUp:U"], None),
        ("UserFillUp:U", "UserFillUp", form, &["LLM:L"], None),
        ("LLM:L", "LLM", answer, &["Message:M"], None),
        ("Message:M", "Message", said, &[], None),
    ]);
    let index = searching([("cats", "cats.md".to_owned(), b"The cat sleeps.".to_vec())]).await;
    let script = Script::new().reply(Reply::text("So it is [ID:1]."));
    let world = World::with_search(script, FakeHttp::new(), index);
    let inputs = serde_json::Map::from_iter([("ok".to_owned(), json!({"value": "yes"}))]);
    let turns = [asking("zebra"), TurnInput { inputs, ..TurnInput::default() }];
    let ran = world.hold(&plan, turns).await;
    assert_eq!(ran[0].output("Retrieval:R", "json"), json!([]));
    assert_eq!(ran[1].report.said, "So it is.");
    // The journal records it, for a run that another process recovers.
    let told = |record: &Record| matches!(record, Record::Sourced { sources } if sources.is_empty());
    assert!(ran[0].records.iter().any(told));
}
