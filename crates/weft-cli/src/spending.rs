//! `weft spending`: the usage of runs.

use std::time::Duration;

use serde_json::json;
use weft_app::App;
use weft_app::spending::day;
use weft_core::seam::spending_store::DaySpent;

use crate::args::SpendingArgs;
use crate::chosen_tenant::{choose, tenant};
use crate::failure::{Exit, Outcome};
use crate::progress::duration;
use crate::screen::{Data, Notes};
use crate::setup::Setup;
use crate::words::plural;

/// Prints a line per canvas and day.
///
/// # Errors
/// When the store cannot be read.
pub(crate) async fn run(args: &SpendingArgs, setup: &Setup) -> Outcome {
    choose(&args.tenant)?;
    let app = setup.open().await?;
    let shown = show(args, &app).await;
    app.shut_down(Duration::ZERO).await?;
    shown
}

async fn show(args: &SpendingArgs, app: &App) -> Outcome {
    let lines = app.spending(&tenant(), args.days).await?;
    if lines.is_empty() {
        Notes::line(format!("no model or tool was called in the last {}", plural(args.days, "day")));
    }
    let mut data = Data::stdout();
    for line in &lines {
        data.line(&if args.json { json_line(line) } else { text_line(line) })?;
    }
    data.flush()?;
    Ok(Exit::Done)
}

fn json_line(line: &DaySpent) -> String {
    let mut json = json!(line.spent);
    json["canvas"] = json!(line.canvas);
    json["date"] = json!(day(line.day));
    json.to_string()
}

/// Formats a line: `2026-01-31  greet  3 model calls, 812 tokens, 0.0042 money, 2 tool calls, 1.3 s`
fn text_line(DaySpent { canvas, day: of, spent }: &DaySpent) -> String {
    let money = spent.micros as f64 / 1e6;
    let money = if spent.micros == 0 { String::new() } else { format!(", {money} money") };
    format!(
        "{}  {canvas}  {}, {}{money}, {}, {}",
        day(*of),
        plural(spent.model_calls, "model call"),
        plural(spent.tokens, "token"),
        plural(spent.tool_calls, "tool call"),
        duration(Duration::from_millis(spent.millis).as_secs_f64())
    )
}
