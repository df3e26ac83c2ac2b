//! Turns a file of texts into a file of vectors, by a model in a folder:
//!
//! `cargo run --release -p weft-models --features local-embedder --example embed -- --model FOLDER --in
//! texts.jsonl --out texts`
//!
//! Each line of the input is an object with `_id` or `id`, `text`, and `title` if there is one, which goes
//! before the text on a line of its own. `--in -` reads the standard input. What comes out is `texts.f32`,
//! all vectors one after the other as little-endian f32, and `texts.ids`, a line for each vector.
#![expect(clippy::print_stderr, reason = "an example talks to a person")]

use std::error::Error;
use std::io::{BufRead as _, BufReader, BufWriter, Read, Write as _};
use std::time::Instant;

use weft_core::seam::embedder::{Embedder as _, EmbeddingPurpose};
use weft_models::LocalEmbedder;

/// Texts that are given to the model at once.
const TEXTS_AT_ONCE: usize = 256;

#[derive(serde::Deserialize)]
struct Line {
    #[serde(alias = "_id")]
    id: String,
    #[serde(default)]
    title: String,
    text: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let option = |name: &str| {
        let value = std::env::args().skip_while(|word| word != name).nth(1);
        value.ok_or_else(|| format!("{name} is missing: --model FOLDER --in FILE --out FILE"))
    };
    let (model, input, output) = (option("--model")?, option("--in")?, option("--out")?);
    let embedder = LocalEmbedder::open("local", model)?;
    let input: Box<dyn Read> = match input.as_str() {
        "-" => Box::new(std::io::stdin()),
        path => Box::new(std::fs::File::open(path)?),
    };
    let mut vectors = BufWriter::new(std::fs::File::create(format!("{output}.f32.part"))?);
    let mut ids = BufWriter::new(std::fs::File::create(format!("{output}.ids"))?);
    let (begun, mut tokens, mut count) = (Instant::now(), 0, 0);
    let mut lines = BufReader::new(input).lines();
    loop {
        let mut texts = Vec::new();
        for line in lines.by_ref().take(TEXTS_AT_ONCE) {
            let Line { id, title, text } = serde_json::from_str(&line?)?;
            texts.push(if title.is_empty() { text } else { format!("{title}\n{text}") });
            writeln!(ids, "{id}")?;
        }
        if texts.is_empty() {
            break;
        }
        let embedded = embedder.embed(EmbeddingPurpose::Passage, &texts).await?;
        for number in embedded.vectors.iter().flatten() {
            vectors.write_all(&number.to_le_bytes())?;
        }
        count += texts.len();
        tokens += embedded.tokens;
        let seconds = begun.elapsed().as_secs_f64();
        eprintln!("{count} texts, {tokens} tokens, {:.0} tokens/s", tokens as f64 / seconds);
    }
    vectors.flush()?;
    ids.flush()?;
    std::fs::rename(format!("{output}.f32.part"), format!("{output}.f32"))?;
    Ok(())
}
