//! How much work it is to build and to ask an index of 100,000 chunks, half English and half Chinese.
//!
//! `cargo run --release -p weft-search --example speed -- --data ../shared/data [--chunks 100000] [--count 100] [--topics]`
//!
//! Chunks are put together from sentences of the test collections and get vectors that look random; with `--topics`
//! such as lie around one of a thousand points, as do those of the questions. `--count` is how many chunks each part finds. Times are
//! of the processor, of all threads together. How they came out is in docs/quality.md.
#![expect(clippy::print_stdout, reason = "a program for people at a terminal")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use weft_core::filter::{Condition, Filter, FilterOperator, Logic};
use weft_core::id::{ChunkId, DatasetKey, DocumentId, TenantId};
use weft_core::seam::Index;
use weft_core::seam::index::{
    IndexChange, IndexQuery, IndexedChunk, IndexedDocument, TextQuery, VectorQuery,
};
use weft_search::TantivyIndex;

const DIMENSION: usize = 384;
/// Chunks of one write, as background work makes them.
const BATCH: usize = 2_000;
const CHUNKS_OF_DOCUMENT: usize = 100;
const COUNT_MAX: usize = 100;
const TOPICS: u64 = 1_000;
/// Questions whose neighbours are looked up one by one as well.
const COMPARED: usize = 100;
/// So few chunks are all compared.
const EXACT: usize = 100_000;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Numbers that look random.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or(0) % end.max(1)
    }

    fn vector(&mut self) -> Vec<f32> {
        let mut number = || f32::from(u16::try_from(self.below(2_001)).unwrap_or(0)) / 1_000.0 - 1.0;
        of_length_one((0..DIMENSION).map(|_| number()).collect())
    }

    /// One that lies around a point, as near as two texts about the same have with usual models.
    fn about(&mut self, topic: u64) -> Vec<f32> {
        let point = Chance(0xd6e8_feb8_6659_fd93 ^ (topic + 1)).vector();
        of_length_one(point.iter().zip(self.vector()).map(|(point, own)| point + own).collect())
    }
}

fn of_length_one(vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.into_iter().map(|value| value / length).collect()
}

/// Where vectors lie.
#[derive(Clone, Copy, PartialEq)]
enum Lie {
    Anywhere,
    AroundTopics,
}

impl Lie {
    fn vector(self, chance: &mut Chance, topic: u64) -> Vec<f32> {
        match self {
            Self::Anywhere => chance.vector(),
            Self::AroundTopics => chance.about(topic % TOPICS),
        }
    }
}

fn processor() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) / 1_024
}

fn texts(file: &Path) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(file).map_err(|cause| format!("{}: {cause}", file.display()))?;
    let field = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(line.get("text")?.as_str()?.to_owned())
    };
    Ok(text.lines().filter_map(field).collect())
}

fn sentences(texts: &[String]) -> Vec<String> {
    let ends = ['。', '！', '？', '.'];
    let all = texts.iter().flat_map(|text| text.split_inclusive(ends));
    all.map(str::trim).filter(|sentence| sentence.len() > 20).map(str::to_owned).collect()
}

struct Material {
    lie: Lie,
    count_max: usize,
    sentences: [Vec<String>; 2],
    questions: [Vec<String>; 2],
}

fn chunk(material: &Material, number: usize, chance: &mut Chance) -> (ChunkId, IndexedChunk) {
    let sentences = &material.sentences[number % 2];
    let content: Vec<&str> = (0..4).map(|_| sentences[chance.below(sentences.len())].as_str()).collect();
    let vector = Some(material.lie.vector(chance, (number / CHUNKS_OF_DOCUMENT) as u64));
    let chunk = IndexedChunk { content: content.join(" "), vector, ..IndexedChunk::default() };
    (ChunkId::new(format!("{number:032x}")), chunk)
}

async fn build(
    index: &TantivyIndex,
    dataset: &DatasetKey,
    material: &Material,
    count: usize,
) -> Result<(), Failure> {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let (mut spent, mut bytes, mut written) = (Duration::ZERO, 0, 0);
    while written < count {
        let mut changes = Vec::new();
        for first in (written..(written + BATCH).min(count)).step_by(CHUNKS_OF_DOCUMENT) {
            let id = DocumentId::new(format!("document {first}"));
            let mut metadata = serde_json::Map::new();
            metadata.insert("year".to_owned(), (1990 + first / CHUNKS_OF_DOCUMENT % 30).into());
            changes.push(IndexChange::Document(IndexedDocument {
                id: id.clone(),
                name: String::new(),
                metadata,
                available: true,
            }));
            let last = (first + CHUNKS_OF_DOCUMENT).min(count);
            let chunks: Vec<_> = (first..last).map(|number| chunk(material, number, &mut chance)).collect();
            bytes += chunks.iter().map(|(_, chunk)| chunk.content.len()).sum::<usize>();
            changes.push(IndexChange::Chunks(id, chunks));
        }
        written = (written + BATCH).min(count);
        let before = processor();
        index.write(dataset, changes).await?;
        spent += processor() - before;
    }
    let per_second = f64::from(u32::try_from(count)?) / spent.as_secs_f64();
    println!(
        "build: {count} chunks of {} bytes in {:.1} s of the processor: {per_second:.0} a second",
        bytes / count,
        spent.as_secs_f64()
    );
    Ok(())
}

async fn ask(
    index: &TantivyIndex,
    tenant: &TenantId,
    name: &str,
    queries: &[IndexQuery],
) -> Result<(), Failure> {
    let mut times = Vec::new();
    for query in queries {
        let before = processor();
        index.search(tenant, query).await?;
        times.push(processor() - before);
    }
    times.sort_unstable();
    let quantile = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1_000.0;
    println!(
        "{name}: p50 {:.2} ms, p95 {:.2} ms, most {:.2} ms of the processor",
        quantile(50),
        quantile(95),
        quantile(100)
    );
    Ok(())
}

fn queries(
    dataset: &DatasetKey,
    material: &Material,
    questions: &[String],
    chance: &mut Chance,
    parts: (bool, bool),
) -> Vec<IndexQuery> {
    let mut vector = || {
        let topic = chance.below(1 << 20) as u64;
        VectorQuery { vector: material.lie.vector(chance, topic), cosine_min: -1.0 }
    };
    let query = |question: &String| IndexQuery {
        datasets: vec![dataset.id.clone()],
        text: parts.0.then(|| TextQuery { text: question.clone(), keywords: Vec::new() }),
        vector: parts.1.then(&mut vector),
        count_max: material.count_max,
        ..IndexQuery::default()
    };
    questions.iter().take(300).map(query).collect()
}

/// How many of the nearest ten, and of the nearest hundred, are found, compared with all chunks looked at some at a time.
async fn recall(
    (index, count): (&TantivyIndex, usize),
    tenant: &TenantId,
    name: &str,
    queries: &[IndexQuery],
) -> Result<(), Failure> {
    let documents: Vec<DocumentId> = (0..count)
        .step_by(CHUNKS_OF_DOCUMENT)
        .map(|first| DocumentId::new(format!("document {first}")))
        .collect();
    let nearest = async |query: &IndexQuery| -> Result<Vec<(f32, ChunkId)>, Failure> {
        let answer = index.search(tenant, &IndexQuery { text: None, ..query.clone() }).await?;
        let found = answer.hits.into_iter().filter(|hit| hit.vector_rank.is_some());
        Ok(found.filter_map(|hit| Some((hit.cosine?, hit.chunk))).collect())
    };
    let (mut of_ten, mut of_hundred, mut asked) = (0, 0, 0);
    for query in queries.iter().take(COMPARED) {
        let mut exact = Vec::new();
        for some in documents.chunks(EXACT / CHUNKS_OF_DOCUMENT) {
            exact.extend(nearest(&IndexQuery { documents: Some(some.to_vec()), ..query.clone() }).await?);
        }
        exact.sort_by(|one, other| other.0.total_cmp(&one.0));
        let found: std::collections::HashSet<ChunkId> =
            nearest(query).await?.into_iter().map(|(_, id)| id).collect();
        let held = |most: usize| exact.iter().take(most).filter(|(_, id)| found.contains(id)).count();
        (of_ten, of_hundred, asked) = (of_ten + held(10), of_hundred + held(100), asked + 1);
    }
    let share = |found: usize, of: usize| f64::from(u32::try_from(found).unwrap_or(0)) / (asked * of) as f64;
    println!(
        "{name}: {:.4} of the nearest 10, {:.4} of the nearest 100",
        share(of_ten, 10),
        share(of_hundred, 100)
    );
    Ok(())
}

fn option(arguments: &[String], name: &str) -> Option<String> {
    let at = arguments.iter().position(|argument| argument == name)?;
    arguments.get(at + 1).cloned()
}

/// What chunks and questions are made of.
fn material(arguments: &[String]) -> Result<Material, Failure> {
    let data = PathBuf::from(option(arguments, "--data").unwrap_or_else(|| "../shared/data".to_owned()));
    let (english, chinese) = (data.join("cranfield"), data.join("cmrc2018-dev"));
    let topics = arguments.iter().any(|argument| argument == "--topics");
    Ok(Material {
        lie: if topics { Lie::AroundTopics } else { Lie::Anywhere },
        count_max: option(arguments, "--count").map_or(Ok(COUNT_MAX), |count| count.parse())?,
        sentences: [
            sentences(&texts(&english.join("corpus.jsonl"))?),
            sentences(&texts(&chinese.join("corpus.jsonl"))?),
        ],
        questions: [texts(&english.join("queries.jsonl"))?, texts(&chinese.join("queries.jsonl"))?],
    })
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let count = option(&arguments, "--chunks").map_or(Ok(100_000), |count| count.parse())?;
    let material = material(&arguments)?;
    let folder = std::env::temp_dir().join(format!("weft-speed-{}", std::process::id()));
    let index = TantivyIndex::in_folder(&folder);
    let dataset = DatasetKey::new(&TenantId::new("speed"), "speed");
    build(&index, &dataset, &material, count).await?;
    drop(index);
    drop(weft_search::analyze("汉"));
    let index = TantivyIndex::in_folder(&folder);
    let before = processor();
    let size = index.size(&dataset).await?;
    println!("open: {:.0} ms of the processor; {size:?}", (processor() - before).as_secs_f64() * 1_000.0);
    let chance = &mut Chance(7);
    let both: Vec<String> =
        material.questions.iter().flat_map(|list| list.iter().take(150).cloned()).collect();
    let tenant = &dataset.tenant;
    ask(
        &index,
        tenant,
        "text, English",
        &queries(&dataset, &material, &material.questions[0], chance, (true, false)),
    )
    .await?;
    ask(
        &index,
        tenant,
        "text, Chinese",
        &queries(&dataset, &material, &material.questions[1], chance, (true, false)),
    )
    .await?;
    ask(&index, tenant, "text, both", &queries(&dataset, &material, &both, chance, (true, false))).await?;
    ask(&index, tenant, "vectors", &queries(&dataset, &material, &both, chance, (false, true))).await?;
    let hybrid = queries(&dataset, &material, &both, chance, (true, true));
    ask(&index, tenant, "hybrid", &hybrid).await?;
    let condition = Condition { key: "year".to_owned(), operator: FilterOperator::Less, value: 2005.into() };
    let filter = Some(Filter { logic: Logic::And, conditions: vec![condition] });
    let filtered: Vec<IndexQuery> =
        hybrid.iter().map(|query| IndexQuery { filter: filter.clone(), ..query.clone() }).collect();
    ask(&index, tenant, "hybrid, half of the documents", &filtered).await?;
    if count > EXACT {
        recall((&index, count), tenant, "found of all", &hybrid).await?;
        recall((&index, count), tenant, "found of half", &filtered).await?;
    }
    let common: Vec<String> = vec!["的 一 年 中国 公司 and of the flow number".to_owned(); 50];
    ask(
        &index,
        tenant,
        "text, words that are everywhere",
        &queries(&dataset, &material, &common, chance, (true, false)),
    )
    .await?;
    println!("resident: {} MB", resident());
    index.remove(&dataset).await?;
    fs::remove_dir_all(&folder)?;
    Ok(())
}
