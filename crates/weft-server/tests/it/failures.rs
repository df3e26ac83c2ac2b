//! What the log says of runs that fail.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};
use weft_testkit::Script;

use crate::notifications::failing;
use crate::support::{bench, echo_canvas};

/// The warnings of the engine.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("weft_engine")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn a_failed_run_leaves_one_line_in_the_log() {
    let bench = bench(Script::new()).await;
    let (echo, fails) = (bench.store("Echo", echo_canvas()).await, bench.store("Fails", failing()).await);
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    for id in [&echo, &fails] {
        let asked = json!({"query": "x", "stream": false});
        bench.post(&format!("/api/v1/agents/{id}/completions"), asked).await;
    }
    let lines = warnings.0.lock().unwrap().clone();
    let lines: Vec<_> = lines.iter().filter(|line| line.contains("a run has failed")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in [&*format!("canvas.id={fails} "), "run.id=", "error.kind=", "Invoke:I", " failed: "] {
        assert!(lines[0].contains(part), "no {part} in {lines:?}");
    }
}
