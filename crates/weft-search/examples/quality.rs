//! How well questions find what people judged to be relevant: nDCG@10 and Recall@100 over test collections.
//!
//! `cargo run --release -p weft-search --example quality -- --data ../shared/data [--vectors FOLDER] [--model FOLDER]`
//!
//! A collection is a folder with `corpus.jsonl` (or `.jsonl.gz`), `queries.jsonl` and `qrels.tsv`. Each folder below
//! FOLDER is a model, whose vectors are read from `NAME.docs.f32` and `NAME.queries.f32`: for each line of the two files
//! as many little-endian numbers as the model gives. `--model` names a folder with the files of a local embedder (docs/models.md):
//! what is missing of its vectors is made first, of title, line break and text (`--query-prefix` and `--passage-prefix` for
//! models that want them), and kept in a folder of its name below that of `--vectors`. Half of the questions, chosen by a hash of their ids, are for
//! setting weights; figures are of the other half and of all. How they came out is in docs/quality.md.
#![expect(clippy::print_stdout, reason = "a program for people at a terminal")]

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::GzDecoder;
use serde_json::Value as Json;
use weft_core::id::{ChunkId, DatasetKey, DocumentId, TenantId};
use weft_core::seam::embedder::EmbeddingPurpose;
use weft_core::seam::index::{
    IndexAnswer, IndexChange, IndexQuery, IndexedChunk, IndexedDocument, TextQuery, VectorQuery,
};
use weft_core::seam::{Embedder as _, Index};
use weft_knowledge::rank::{Fusion, RRF_DEPTH, RankSettings, Ranked, VECTOR_WEIGHT, rank, text_score};
use weft_models::LocalEmbedder;
use weft_search::TantivyIndex;

/// Chunks that each part finds.
const DEPTH: usize = 1_024;
/// The threshold that searches have when nobody says otherwise.
const THRESHOLD: f32 = 0.2;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A collection as it is on disk.
struct Collection {
    documents: Vec<(String, IndexedChunk)>,
    questions: Vec<(String, String)>,
    grades: HashMap<String, HashMap<String, f64>>,
    question_vectors: Vec<Vec<f32>>,
}

/// The lines of a file, which may be packed.
fn lines(path: &Path) -> Result<Vec<Json>, Failure> {
    let packed = path.with_extension("jsonl.gz");
    let open = |path: &Path| File::open(path).map_err(|cause| format!("{}: {cause}", path.display()));
    let reader: Box<dyn Read> =
        if packed.exists() { Box::new(GzDecoder::new(open(&packed)?)) } else { Box::new(open(path)?) };
    BufReader::new(reader).lines().map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

/// The vectors of so many lines; none without a file.
fn vectors(path: &Path, lines: usize) -> Vec<Vec<f32>> {
    let bytes = fs::read(path).unwrap_or_default();
    let numbers: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let dimension = (numbers.len() / lines.max(1)).max(1);
    numbers.chunks_exact(dimension).map(<[f32]>::to_vec).collect()
}

fn string(line: &Json, key: &str) -> String {
    line.get(key).and_then(Json::as_str).unwrap_or_default().to_owned()
}

/// A collection with the vectors of a model, or without any.
fn read(folder: &Path, name: &str, model: Option<&Path>) -> Result<Collection, Failure> {
    let documents = lines(&folder.join("corpus.jsonl"))?;
    let questions = lines(&folder.join("queries.jsonl"))?;
    let read = |kind: &str, lines: usize| {
        model.map(|model| vectors(&model.join(format!("{name}.{kind}.f32")), lines)).unwrap_or_default()
    };
    let question_vectors = read("queries", questions.len());
    let mut document_vectors = read("docs", documents.len()).into_iter();
    let documents = documents.into_iter().map(|line| {
        let vector = document_vectors.next();
        let (title, content) = (string(&line, "title"), string(&line, "text"));
        (string(&line, "_id"), IndexedChunk { title, content, vector, ..IndexedChunk::default() })
    });
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
        question_vectors,
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
    passing: [f64; 3],
    count: [f64; 3],
}

impl Sums {
    fn add(&mut self, id: &str, found: &[(String, f32)], grades: &HashMap<String, f64>) {
        let ids: Vec<String> = found.iter().take(100).map(|(id, _)| id.clone()).collect();
        let passing = found.iter().filter(|(_, score)| *score >= THRESHOLD).count();
        for group in [usize::from(!is_for_setting(id)), 2] {
            self.ndcg[group] += ndcg(&ids, grades);
            self.recall[group] += recall(&ids, grades);
            self.passing[group] += f64::from(u32::try_from(passing).unwrap_or(u32::MAX));
            self.count[group] += 1.0;
        }
    }

    fn line(&self, name: &str) -> String {
        let mean = |sums: &[f64; 3], group: usize| sums[group] / self.count[group].max(1.0);
        format!(
            "| {name} | {:.4} | {:.4} | {:.4} | {:.4} | {:.0} |",
            mean(&self.ndcg, 0),
            mean(&self.ndcg, 1),
            mean(&self.ndcg, 2),
            mean(&self.recall, 2),
            mean(&self.passing, 2),
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
                name: String::new(),
                metadata: serde_json::Map::new(),
                available: true,
            }));
            changes.push(IndexChange::Chunks(document, vec![(ChunkId::new(id.as_str()), chunk.clone())]));
        }
        index.write(dataset, changes).await?;
    }
    Ok(index)
}

/// A way of ranking.
#[derive(Clone, Copy)]
enum Way {
    /// One of Weft's.
    Own(Fusion),
    /// Cosines as they come.
    AsTheyCome(f32),
    /// Both scores from 0 for the worst find to 1 for the best one, which means something else for every question.
    MinMax(f32),
}

impl Way {
    fn list(self, answer: &IndexAnswer) -> Vec<(String, f32)> {
        let ranked = |answer: &IndexAnswer, fusion: Fusion| -> Vec<(String, f32)> {
            let settings = RankSettings { fusion, ..RankSettings::default() };
            let pair = |one: Ranked| (one.hit.chunk.to_string(), one.similarity);
            rank(answer, &settings).into_iter().map(pair).collect()
        };
        match self {
            Self::Own(fusion) => ranked(answer, fusion),
            Self::AsTheyCome(vector_weight) => {
                let unknown = IndexAnswer { cosine_count: 0, ..answer.clone() };
                ranked(&unknown, Fusion::Weighted { vector_weight })
            }
            Self::MinMax(weight) => {
                let texts = answer.hits.iter().map(|hit| text_score(hit.text, answer.bm25_scale));
                let cosines = answer.hits.iter().map(|hit| hit.cosine.unwrap_or_default());
                let scores = stretched(texts.collect()).into_iter().zip(stretched(cosines.collect()));
                let scores = scores.map(|(text, cosine)| weight * cosine + (1.0 - weight) * text);
                let ids = answer.hits.iter().map(|hit| hit.chunk.to_string());
                let mut list: Vec<(String, f32)> = ids.zip(scores).collect();
                list.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
                list
            }
        }
    }
}

fn stretched(scores: Vec<f32>) -> Vec<f32> {
    let least = scores.iter().copied().fold(f32::INFINITY, f32::min);
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.into_iter().map(|score| (score - least) / (most - least).max(f32::MIN_POSITIVE)).collect()
}

/// The ways of ranking that are compared; without vectors there is one.
fn ways(collection: &Collection) -> Vec<(String, Way)> {
    let weighted = |weight: f32| Way::Own(Fusion::Weighted { vector_weight: weight });
    let mut ways = vec![("text".to_owned(), weighted(0.0))];
    if collection.question_vectors.is_empty() {
        return ways;
    }
    ways.push(("vectors".to_owned(), weighted(1.0)));
    for tenths in [3_u8, 4, 5, 6, 7] {
        let weight = f32::from(tenths) / 10.0;
        let is_default = (weight - VECTOR_WEIGHT).abs() < f32::EPSILON;
        let name = if is_default { "(the default)" } else { "" };
        ways.push((format!("weighted {weight} {name}").trim_end().to_owned(), weighted(weight)));
    }
    let rrf = Fusion::Rrf { vector_weight: 0.5, depth: RRF_DEPTH };
    ways.push((format!("reciprocal rank ({RRF_DEPTH}), equal parts"), Way::Own(rrf)));
    for weight in [0.3, 0.5] {
        ways.push((format!("weighted {weight}, cosines as they come"), Way::AsTheyCome(weight)));
    }
    ways.push(("weighted 0.5, minimum to maximum of the finds".to_owned(), Way::MinMax(0.5)));
    ways
}

async fn measure(data: &Path, name: &str, model: Option<&Path>) -> Result<(), Failure> {
    let collection = read(&data.join(name), name, model)?;
    let dataset = DatasetKey::new(&TenantId::new("quality"), name);
    let index = Arc::new(build(&collection, &dataset).await?);
    let ways = ways(&collection);
    let mut sums = vec![Sums::default(); ways.len()];
    let (none, mut usual) = (HashMap::new(), 0.0);
    for (at, (id, text)) in collection.questions.iter().enumerate() {
        let vector = collection.question_vectors.get(at).cloned();
        let query = IndexQuery {
            datasets: vec![dataset.id.clone()],
            text: Some(TextQuery { text: text.clone(), keywords: Vec::new() }),
            vector: vector.map(|vector| VectorQuery { vector, cosine_min: -1.0 }),
            count_max: DEPTH,
            ..IndexQuery::default()
        };
        let answer = index.search(&dataset.tenant, &query).await?;
        usual += f64::from(answer.cosine_mean);
        for ((_, way), sums) in ways.iter().zip(&mut sums) {
            sums.add(id, &way.list(&answer), collection.grades.get(id).unwrap_or(&none));
        }
    }
    let model = model.and_then(Path::file_name).map_or("no vectors".into(), |name| name.to_string_lossy());
    let (documents, questions) = (collection.documents.len(), collection.questions.len());
    println!("\n### {name}, {model}: {documents} documents, {questions} questions\n");
    let questions = f64::from(u32::try_from(questions.max(1)).unwrap_or(u32::MAX));
    println!("The mean of the usual cosines is {:.3}.\n", usual / questions);
    println!(
        "| ranking | nDCG@10, for setting | nDCG@10, held out | nDCG@10, all | Recall@100, all | score {THRESHOLD} or more |"
    );
    println!("|---|---|---|---|---|---|");
    for ((way, _), sums) in ways.iter().zip(&sums) {
        println!("{}", sums.line(way));
    }
    Ok(())
}

/// Texts that the embedder gets at once.
const TEXTS_AT_ONCE: usize = 32;

/// Makes the vectors of a file's lines, unless they are there. Under another name until all of them are.
async fn make_vectors(
    embedder: &LocalEmbedder,
    purpose: EmbeddingPurpose,
    texts: &[String],
    path: &Path,
) -> Result<(), Failure> {
    if path.exists() {
        return Ok(());
    }
    let unfinished = path.with_extension("unfinished");
    let mut file = BufWriter::new(File::create(&unfinished)?);
    for (number, texts) in texts.chunks(TEXTS_AT_ONCE).enumerate() {
        let made = embedder.embed(purpose, texts).await?.vectors;
        if made.len() != texts.len() {
            return Err(format!("the embedder gave {} vectors for {} texts", made.len(), texts.len()).into());
        }
        for number in made.iter().flatten() {
            file.write_all(&number.to_le_bytes())?;
        }
        if number % 32 == 0 {
            println!("{}: {} texts are done", path.display(), number * TEXTS_AT_ONCE + texts.len());
        }
    }
    file.into_inner()?.sync_all()?;
    Ok(fs::rename(&unfinished, path)?)
}

/// Makes what is missing of the vectors of a collection.
async fn embed(collection: &Path, embedder: &LocalEmbedder, model: &Path) -> Result<(), Failure> {
    let Some(name) = collection.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    fs::create_dir_all(model)?;
    let documents = lines(&collection.join("corpus.jsonl"))?;
    let documents: Vec<String> = documents
        .iter()
        .map(|line| format!("{}\n{}", string(line, "title"), string(line, "text")).trim().to_owned())
        .collect();
    let path = model.join(format!("{name}.docs.f32"));
    make_vectors(embedder, EmbeddingPurpose::Passage, &documents, &path).await?;
    let questions: Vec<String> =
        lines(&collection.join("queries.jsonl"))?.iter().map(|line| string(line, "text")).collect();
    let path = model.join(format!("{name}.queries.f32"));
    make_vectors(embedder, EmbeddingPurpose::Query, &questions, &path).await
}

/// The folders in a folder that hold such a file, by name.
fn folders(folder: &Path, file: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let holds = |folder: &PathBuf| {
        let mut names =
            entries(folder).into_iter().filter_map(|path| path.file_name().map(ToOwned::to_owned));
        names.any(|name| name.to_str().is_some_and(&file))
    };
    let mut found: Vec<PathBuf> = entries(folder).into_iter().filter(holds).collect();
    found.sort();
    found
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
    let text = |name: &str| option(name).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
    let embedder = match option("--model") {
        None => None,
        Some(folder) => {
            let name = folder.file_name().ok_or("--model names no folder")?.to_owned();
            let embedder = LocalEmbedder::open(name.to_string_lossy(), &folder)?
                .with_prefixes(text("--query-prefix"), text("--passage-prefix"));
            Some((embedder, vectors.join(name)))
        }
    };
    for folder in folders(&data, |name| name == "queries.jsonl") {
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else { continue };
        if only.as_ref().is_some_and(|only| only != Path::new(name)) {
            continue;
        }
        if let Some((embedder, model)) = &embedder {
            embed(&folder, embedder, model).await?;
        }
        let models = folders(&vectors, |file| file == format!("{name}.docs.f32"));
        if models.is_empty() {
            measure(&data, name, None).await?;
        }
        for model in models {
            measure(&data, name, Some(&model)).await?;
        }
    }
    Ok(())
}
