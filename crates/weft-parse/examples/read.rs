//! Reads files in this very process and says how long it took and what it needed: `read FILE...`.
#![allow(clippy::print_stdout, reason = "what it is for")]

use std::time::Instant;

use weft_parse::DocumentSettings;

fn main() {
    for path in std::env::args().skip(1) {
        let started = Instant::now();
        let said = match std::fs::read(&path)
            .map(|bytes| weft_parse::parse(&path, &bytes, &DocumentSettings::new()))
        {
            Ok(Ok(parsed)) => format!("{} parts, {} warnings", parsed.elements.len(), parsed.warnings.len()),
            Ok(Err(error)) => error.full(),
            Err(error) => error.to_string(),
        };
        println!("{:8.3} s  {} MiB at most  {path}: {said}", started.elapsed().as_secs_f64(), peak_mib());
    }
}

/// The most memory that this process has had at once, where the system says so.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() / 1_024
}
