//! What one append costs on SQLite: `cargo run --release -p weft-store --example journal_cost [FILE]`.
//!
//! Prints wall time, CPU time and stored bytes for several numbers of runs at once.
#![expect(clippy::print_stdout, reason = "it reports to a person")]

use std::time::Instant;

use futures::future::try_join_all;
use weft_core::id::{RunKey, TenantId, generate};
use weft_core::seam::RunStore;
use weft_core::seam::run_store::{RunLease, StoredEntry, StoredRun};
use weft_core::{Error, Result};
use weft_store::Store;

const APPENDS: usize = 20_000;
const ENTRIES_AN_APPEND: u64 = 3;
const RECORD_BYTES: usize = 300;

#[tokio::main]
async fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("weft-journal-cost-{}", std::process::id()));
    println!("{APPENDS} appends of {ENTRIES_AN_APPEND} entries of {RECORD_BYTES} bytes");
    for runs in [1, 4, 16, 64, 256] {
        let file = folder.join(format!("{runs}.db"));
        measure(&format!("sqlite:{}", file.display()), runs).await?;
    }
    std::fs::remove_dir_all(&folder)
        .map_err(|cause| Error::internal("cannot remove the files").because(cause))
}

async fn measure(url: &str, runs: usize) -> Result<()> {
    let store = Store::open(url).await?;
    let record: std::sync::Arc<str> = "x".repeat(RECORD_BYTES).into();
    let tenant = TenantId::from("tenant");
    let keys: Vec<_> = (0..runs).map(|_| RunKey::new(&tenant, generate())).collect();
    for key in &keys {
        RunStore::create(&store, &begun(key)).await?;
    }
    let (wall, cpu) = (Instant::now(), cpu_us());
    let write = async |key: &RunKey| -> Result<()> {
        for step in 0..(APPENDS / runs) as u64 {
            let first = step * ENTRIES_AN_APPEND + 1;
            let entries = (first..first + ENTRIES_AN_APPEND)
                .map(|seq| StoredEntry { seq, event: Some(seq), at_ms: 1_000, record: record.clone() })
                .collect();
            store.append(&RunLease::first(key), entries).await?;
        }
        Ok(())
    };
    try_join_all(keys.iter().map(write)).await?;
    let appends = (APPENDS / runs * runs) as f64;
    let wall = wall.elapsed().as_secs_f64() * 1e6 / appends;
    let cpu = (cpu_us() - cpu) / appends;
    println!("{runs:>4} runs at once: {wall:>6.1} us wall, {cpu:>6.1} us CPU an append");
    store.close().await
}

fn begun(key: &RunKey) -> StoredRun {
    StoredRun { query: "What?".into(), ..StoredRun::begun(key.clone(), key.id.as_str(), "canvas", 0) }
}

/// User and system time of this process so far, from `/proc`; 0 elsewhere.
fn cpu_us() -> f64 {
    const TICK_US: f64 = 10_000.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = |n: usize| after_name.split_whitespace().nth(n).and_then(|t| t.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) * TICK_US
}
