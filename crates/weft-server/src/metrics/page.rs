//! All metrics as one page.

use std::time::Duration;

use prometheus::TextEncoder;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use weft_app::app::App;
use weft_core::counts::{Backlog, CountTable, Counts, Label};
use weft_core::{Error, Result};

use crate::state::ServerState;

/// Time limit for the store to count the backlog. Without that, the rest of the page is still returned.
// Shorter than the ten seconds after which Prometheus gives up a scrape by default.
const BACKLOG_TIME: Duration = Duration::from_secs(3);

/// Returns the current page.
///
/// # Errors
/// `Internal` when it cannot be written.
pub async fn page(state: &ServerState) -> Result<String> {
    let app = &state.app;
    let mut page = MetricsPage(state.metrics.families());
    process(&mut page, state.metrics.since_ms).await;
    runs(&mut page, app);
    models(&mut page, app);
    documents(&mut page, app);
    page.counters(
        ("weft_store_errors_total", "Failures of the store, each attempt separately."),
        by("kind", &app.meters.store_failures),
    );
    let tried = "Sign-ins that were tried in this process.";
    page.counters(("weft_sign_ins_total", tried), by("outcome", app.accounts.sign_ins()));
    if let Some(backlog) = backlog(app).await {
        waiting(&mut page, backlog);
    }
    page.text()
}

/// Name and help text.
type Named = (&'static str, &'static str);

/// A value with its labels, neither of which can contain text from outside.
struct Sample {
    labels: Vec<Named>,
    value: f64,
}

impl Sample {
    fn new(labels: &[Named], value: u64) -> Self {
        Self { labels: labels.to_vec(), value: value as f64 }
    }

    fn metric(&self) -> Metric {
        let pair = |(name, value): &Named| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        };
        Metric::from_label(self.labels.iter().map(pair).collect())
    }
}

struct MetricsPage(Vec<MetricFamily>);

impl MetricsPage {
    fn family(&mut self, (name, help): Named, kind: MetricType, samples: Vec<Metric>) {
        // The format does not allow an empty family.
        if samples.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(samples);
        self.0.push(family);
    }

    fn counters(&mut self, named: Named, samples: Vec<Sample>) {
        let counted = |sample: Sample| {
            let (mut metric, mut counter) = (sample.metric(), Counter::default());
            counter.set_value(sample.value);
            metric.set_counter(counter);
            metric
        };
        self.family(named, MetricType::COUNTER, samples.into_iter().map(counted).collect());
    }

    fn gauges(&mut self, named: Named, samples: Vec<Sample>) {
        let measured = |sample: Sample| {
            let (mut metric, mut gauge) = (sample.metric(), Gauge::default());
            gauge.set_value(sample.value);
            metric.set_gauge(gauge);
            metric
        };
        self.family(named, MetricType::GAUGE, samples.into_iter().map(measured).collect());
    }

    fn counter(&mut self, named: Named, count: u64) {
        self.counters(named, vec![Sample::new(&[], count)]);
    }

    fn gauge(&mut self, named: Named, number: u64) {
        self.gauges(named, vec![Sample::new(&[], number)]);
    }

    fn text(mut self) -> Result<String> {
        self.0.sort_by(|a, b| a.name().cmp(b.name()));
        let text = TextEncoder::new().encode_to_string(&self.0);
        text.map_err(|cause| Error::internal("cannot write the metrics").because(cause))
    }
}

/// Returns a sample for each word.
fn by<L: Label>(label: &'static str, counts: &Counts<L>) -> Vec<Sample> {
    counts.all().map(|(word, count)| Sample::new(&[(label, word.word())], count)).collect()
}

/// Returns a sample for each pair of words, if the first one was counted at all.
fn by_both<R: Label, C: Label>(labels: [&'static str; 2], table: &CountTable<R, C>) -> Vec<Sample> {
    let [of_row, of_column] = labels;
    let is_used = |row: R| table.all().any(|(other, _, count)| other == row && count > 0);
    let used = table.all().filter(|(row, ..)| is_used(*row));
    used.map(|(row, column, count)| Sample::new(&[(of_row, row.word()), (of_column, column.word())], count))
        .collect()
}

async fn process(page: &mut MetricsPage, since_ms: i64) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    page.gauges(("weft_build_info", "The running version; always 1."), vec![Sample::new(&version, 1)]);
    let since = Sample { labels: Vec::new(), value: since_ms as f64 / 1_000.0 };
    page.gauges(("process_start_time_seconds", "Start time, in seconds since 1970."), vec![since]);
    // Left out where the system does not provide this file.
    let status = tokio::fs::read_to_string("/proc/self/status").await.unwrap_or_default();
    if let Some(bytes) = resident_bytes(&status) {
        page.gauge(("process_resident_memory_bytes", "Resident memory of the process."), bytes);
    }
}

/// Returns the memory of the process as Linux reports it.
fn resident_bytes(status: &str) -> Option<u64> {
    let said = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = said.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1_024)
}

fn runs(page: &mut MetricsPage, app: &App) {
    let counts = app.engine.counts();
    page.counter(("weft_runs_started_total", "Runs that started in this process."), counts.started.get());
    let picked_up = "Interrupted or forked runs that were resumed in this process.";
    page.counter(("weft_runs_picked_up_total", picked_up), counts.picked_up.get());
    let ended = "Runs that ended in this process; `waiting` ones wait for a person.";
    page.counters(("weft_runs_ended_total", ended), by("status", &counts.ended));
    page.gauge(("weft_runs_under_way", "Runs under way in this process."), app.engine.under_way() as u64);
    page.gauge(("weft_runs_max", "Maximum of runs under way in it."), app.engine.runs_at_once() as u64);
    let questions = "Questions in this process that are queued for their sessions, or are about to begin.";
    page.gauge(("weft_questions_waiting", questions), app.questions_waiting() as u64);
    page.counters(("weft_tool_calls_total", "Tool calls by agents."), by("outcome", &counts.tools));
}

fn models(page: &mut MetricsPage, app: &App) {
    let counts = &app.meters.models;
    let calls = "Finished model calls, by runs and by all other work; the outcome is `succeeded`, the kind of failure, or \
                 `abandoned` if nobody waited for the end.";
    page.counters(("weft_model_calls_total", calls), by_both(["kind", "outcome"], &counts.calls));
    let tokens = "Tokens of these calls, as far as providers report them.";
    page.counters(("weft_model_tokens_total", tokens), by_both(["kind", "direction"], &counts.tokens));
}

fn documents(page: &mut MetricsPage, app: &App) {
    let counts = app.library.counts();
    let documents = "Work on documents that has ended in this process, temporarily or finally.";
    page.counters(("weft_ingestion_tasks_total", documents), by("outcome", &counts.documents));
    let vectors = "Datasets whose vectors were computed again in this process, or could not be.";
    page.counters(("weft_reembedding_tasks_total", vectors), by("outcome", &counts.reembeddings));
}

async fn backlog(app: &App) -> Option<Backlog> {
    match tokio::time::timeout(BACKLOG_TIME, (app.meters.backlog)()).await {
        Ok(Ok(backlog)) => Some(backlog),
        Ok(Err(error)) => {
            tracing::warn!(error = error.detail(), "cannot count the work that waits in the store");
            None
        }
        Err(_) => {
            tracing::warn!("counting the work that waits in the store took too long");
            None
        }
    }
}

fn waiting(page: &mut MetricsPage, Backlog { queued_runs, documents, reembeddings, tasks }: Backlog) {
    let all = [
        ("queued_runs", queued_runs),
        ("documents", documents),
        ("reembeddings", reembeddings),
        ("human_tasks", tasks),
    ];
    let samples = all.iter().map(|(queue, count)| Sample::new(&[("queue", *queue)], *count)).collect();
    let meaning = "Work of all tenants that waits in the store for any process, or for a person.";
    page.gauges(("weft_backlog", meaning), samples);
}

#[cfg(test)]
mod tests {
    use weft_core::counts::Success;
    use weft_core::seam::chat_model::ModelKind;

    use super::*;

    #[test]
    fn the_page_has_the_prometheus_text_format() {
        let (counts, table) = (Counts::<Success>::default(), CountTable::<ModelKind, Success>::default());
        counts.add(Success::Failed, 3);
        table.add(ModelKind::Ocr, Success::Succeeded, 1 << 40);
        let mut page = MetricsPage(Vec::new());
        page.gauge(("weft_z", "The last."), 7);
        page.counters(("weft_b_total", "Some."), by("outcome", &counts));
        page.counters(("weft_a_total", "A \\ and\nmore."), by_both(["kind", "outcome"], &table));
        page.counters(("weft_none_total", "None."), Vec::new());
        let expected = "# HELP weft_a_total A \\\\ and\\nmore.\n\
            # TYPE weft_a_total counter\n\
            weft_a_total{kind=\"ocr\",outcome=\"succeeded\"} 1099511627776\n\
            weft_a_total{kind=\"ocr\",outcome=\"failed\"} 0\n\
            # HELP weft_b_total Some.\n\
            # TYPE weft_b_total counter\n\
            weft_b_total{outcome=\"succeeded\"} 0\n\
            weft_b_total{outcome=\"failed\"} 3\n\
            # HELP weft_z The last.\n\
            # TYPE weft_z gauge\n\
            weft_z 7\n";
        assert_eq!(page.text().unwrap(), expected);
    }

    #[test]
    fn process_memory_is_read_from_proc() {
        assert_eq!(resident_bytes("VmPeak:\t 9 kB\nVmRSS:\t    1234 kB\nX: 1\n"), Some(1_263_616));
        for other in ["", "VmRSS:\t12", "VmRSS:\tmuch kB", "VmRSS: 18446744073709551615 kB"] {
            assert_eq!(resident_bytes(other), None, "{other}");
        }
    }
}
