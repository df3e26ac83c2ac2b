//! How well questions find what people judged to be relevant: nDCG@10 and Recall@100 over test collections.
//!
//! `cargo run --release -p weft-search --example quality -- --data ../shared/data [--vectors FOLDER]`
//!
//! A collection is a folder with `corpus.jsonl` (or `.jsonl.gz`), `queries.jsonl` and `qrels.tsv`. Vectors are
//! read from `FOLDER/NAME.docs.f32` and `FOLDER/NAME.queries.f32`: 384 little-endian numbers for each line of
//! the two files. Half of the questions, chosen by a hash of their ids, are for setting weights; figures are of
//! the other half and of all. How they came out is in docs/quality.md.
#![expect(clippy::print_stdout, reason = "a program for people at a terminal")]

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::GzDecoder;
use serde_json::Value as Json;
use weft_core::id::{ChunkId, DatasetKey, DocumentId, TenantId};
use weft_core::seam::Index;
use weft_core::seam::index::{
    IndexChange, IndexQuery, IndexedChunk, IndexedDocument, TextQuery, VectorQuery,
};
use weft_knowledge::rank::{Fusion, RRF_DEPTH, RankSettings, VECTOR_WEIGHT, rank};
use weft_search::TantivyIndex;

const DIMENSION: usize = 384;
const COLLECTIONS: [&str; 3] = ["scifact", "cranfield", "cmrc2018-dev"];
/// Chunks that each part finds.
const DEPTH: usize = 1_024;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A collection as it is on disk.
struct Collection {
    documents: Vec<(String, IndexedChunk)>,
    questions: Vec<(String, String)>,
    grades: HashMap<String, HashMap<String, f64>>,
    question_vectors: Option<Vec<Vec<f32>>>,
}

/// The lines of a file, which may be packed.
fn lines(path: &Path) -> Result<Vec<Json>, Failure> {
    let packed = path.with_extension("jsonl.gz");
    let open = |path: &Path| File::open(path).map_err(|cause| format!("{}: {cause}", path.display()));
    let reader: Box<dyn Read> = match packed.exists() {
        true => Box::new(GzDecoder::new(open(&packed)?)),
        false => Box::new(open(path)?),
    };
    BufReader::new(reader).lines().map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

fn vectors(path: &Path) -> Option<Vec<Vec<f32>>> {
    let bytes = fs::read(path).ok()?;
    let numbers: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    Some(numbers.chunks_exact(DIMENSION).map(<[f32]>::to_vec).collect())
}

fn string(line: &Json, key: &str) -> String {
    line.get(key).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn read(data: &Path, vectors_in: &Path, name: &str) -> Result<Collection, Failure> {
    let folder = data.join(name);
    let document_vectors = vectors(&vectors_in.join(format!("{name}.docs.f32")));
    let documents = lines(&folder.join("corpus.jsonl"))?.into_iter().enumerate().map(|(at, line)| {
        let vector = document_vectors.as_ref().and_then(|vectors| vectors.get(at).cloned());
        let (title, content) = (string(&line, "title"), string(&line, "text"));
        (string(&line, "_id"), IndexedChunk { title, content, vector, ..IndexedChunk::default() })
    });
    let questions = lines(&folder.join("queries.jsonl"))?;
    let mut grades: HashMap<String, HashMap<String, f64>> = HashMap::new();
    for line in fs::read_to_string(folder.join("qrels.tsv"))?.lines().skip(1) {
        if let [question, document, grade] = line.split('\t').collect::<Vec<_>>()[..] {
            grades.entry(question.to_owned()).or_default().insert(document.to_owned(), grade.trim().parse()?);
        }
    }
    Ok(Collection {
        documents: documents.collect(),
        questions: questions.iter().map(|line| (string(line, "_id"), string(line, "text"))).collect(),
        grades,
        question_vectors: vectors(&vectors_in.join(format!("{name}.queries.f32"))),
    })
}

/// The normalised discounted cumulative gain of the first ten, with the grades as gains.
fn ndcg(found: &[String], grades: &HashMap<String, f64>) -> f64 {
    let discount = |place: usize| (f64::from(u32::try_from(place).unwrap_or(u32::MAX)) + 2.0).log2();
    let gain =
        |place: usize, id: &String| grades.get(id).copied().unwrap_or_default().max(0.0) / discount(place);
    let mut best: Vec<f64> = grades.values().copied().filter(|grade| *grade > 0.0).collect();
    best.sort_by(|one, other| other.total_cmp(one));
    let ideal: f64 = best.iter().take(10).enumerate().map(|(place, grade)| grade / discount(place)).sum();
    let sum: f64 = found.iter().take(10).enumerate().map(|(place, id)| gain(place, id)).sum();
    if ideal > 0.0 { sum / ideal } else { 0.0 }
}

fn recall(found: &[String], grades: &HashMap<String, f64>) -> f64 {
    let relevant = grades.values().filter(|grade| **grade > 0.0).count();
    let seen = found.iter().take(100).filter(|id| grades.get(*id).is_some_and(|grade| *grade > 0.0)).count();
    f64::from(u32::try_from(seen).unwrap_or(0)) / f64::from(u32::try_from(relevant.max(1)).unwrap_or(1))
}

/// Whether a question is among those that weights are set with: FNV-1a of its id, mixed, last bit.
fn is_for_setting(id: &str) -> bool {
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed ^ (mixed >> 33)) & 1 == 0
}

/// Sums over the questions for setting, the others, and all.
#[derive(Default, Clone, Copy)]
struct Sums {
    ndcg: [f64; 3],
    recall: [f64; 3],
    count: [f64; 3],
}

impl Sums {
    fn add(&mut self, id: &str, found: &[String], grades: &HashMap<String, f64>) {
        for group in [usize::from(!is_for_setting(id)), 2] {
            self.ndcg[group] += ndcg(found, grades);
            self.recall[group] += recall(found, grades);
            self.count[group] += 1.0;
        }
    }

    fn line(&self, name: &str) -> String {
        let mean = |sums: &[f64; 3], group: usize| sums[group] / self.count[group].max(1.0);
        format!(
            "| {name} | {:.4} | {:.4} | {:.4} | {:.4} |",
            mean(&self.ndcg, 0),
            mean(&self.ndcg, 1),
            mean(&self.ndcg, 2),
            mean(&self.recall, 2)
        )
    }
}

async fn build(collection: &Collection, dataset: &DatasetKey) -> Result<TantivyIndex, Failure> {
    let index = TantivyIndex::in_memory();
    for documents in collection.documents.chunks(1_000) {
        let mut changes = Vec::new();
        for (id, chunk) in documents {
            let document = DocumentId::new(id.as_str());
            changes.push(IndexChange::Document(IndexedDocument {
                id: document.clone(),
                metadata: serde_json::Map::new(),
                available: true,
            }));
            changes.push(IndexChange::Chunks(document, vec![(ChunkId::new(id.as_str()), chunk.clone())]));
        }
        index.write(dataset, changes).await?;
    }
    Ok(index)
}

/// The ways of ranking that need no vectors.
fn by_words() -> Vec<(String, Fusion)> {
    vec![("text".to_owned(), Fusion::Weighted { vector_weight: 0.0 })]
}

/// The ways of ranking that are compared.
fn ways() -> Vec<(String, Fusion)> {
    let weighted = |weight: f32| Fusion::Weighted { vector_weight: weight };
    let mut ways = by_words();
    ways.push(("vectors".to_owned(), weighted(1.0)));
    for tenths in [3_u8, 4, 5, 6, 7, 8] {
        let weight = f32::from(tenths) / 10.0;
        ways.push((format!("weighted {weight}"), weighted(weight)));
    }
    ways.push((format!("weighted {VECTOR_WEIGHT} (the default)"), weighted(VECTOR_WEIGHT)));
    ways.push((
        format!("reciprocal rank ({RRF_DEPTH}), equal parts"),
        Fusion::Rrf { vector_weight: 0.5, depth: RRF_DEPTH },
    ));
    ways
}

async fn measure(data: &Path, vectors_in: &Path, name: &str) -> Result<(), Failure> {
    let collection = read(data, vectors_in, name)?;
    let dataset = DatasetKey::new(&TenantId::new("quality"), name);
    let index = Arc::new(build(&collection, &dataset).await?);
    let ways = if collection.question_vectors.is_some() { ways() } else { by_words() };
    let mut sums = vec![Sums::default(); ways.len()];
    let none = HashMap::new();
    for (at, (id, text)) in collection.questions.iter().enumerate() {
        let vector = collection.question_vectors.as_ref().and_then(|vectors| vectors.get(at).cloned());
        let query = IndexQuery {
            datasets: vec![dataset.id.clone()],
            text: Some(TextQuery { text: text.clone(), keywords: Vec::new() }),
            vector: vector.map(|vector| VectorQuery { vector, cosine_min: -1.0 }),
            count_max: DEPTH,
            ..IndexQuery::default()
        };
        let answer = index.search(&dataset.tenant, &query).await?;
        for ((_, fusion), sums) in ways.iter().zip(&mut sums) {
            let settings = RankSettings { fusion: *fusion, ..RankSettings::default() };
            let found: Vec<String> =
                rank(&answer, &settings).into_iter().take(100).map(|one| one.hit.chunk.to_string()).collect();
            sums.add(id, &found, collection.grades.get(id).unwrap_or(&none));
        }
    }
    println!(
        "\n### {name}: {} documents, {} questions\n",
        collection.documents.len(),
        collection.questions.len()
    );
    println!("| ranking | nDCG@10, for setting | nDCG@10, held out | nDCG@10, all | Recall@100, all |");
    println!("|---|---|---|---|---|");
    for ((way, _), sums) in ways.iter().zip(&sums) {
        println!("{}", sums.line(way));
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).map(PathBuf::from)
    };
    let data = option("--data").unwrap_or_else(|| PathBuf::from("../shared/data"));
    let vectors = option("--vectors").unwrap_or_else(|| PathBuf::from("vectors"));
    let only = option("--only");
    for name in
        COLLECTIONS.into_iter().filter(|name| only.as_ref().is_none_or(|only| only == Path::new(name)))
    {
        match data.join(name).exists() {
            true => measure(&data, &vectors, name).await?,
            false => println!("{name} is not in {}: left out", data.display()),
        }
    }
    Ok(())
}
