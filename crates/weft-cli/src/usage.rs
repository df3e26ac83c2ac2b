//! `weft usage`: the usage of models.

use std::time::Duration;

use serde_json::json;
use weft_app::App;
use weft_app::spending::day;
use weft_core::seam::usage_store::{UsageBy, UsageLine};

use crate::args::UsageArgs;
use crate::failure::{Exit, Outcome};
use crate::screen::{Data, Notes, harmless};
use crate::setup::Setup;
use crate::token::tenant;
use crate::words::plural;

/// Prints a line per combination of the dimensions, the most expensive first.
///
/// # Errors
/// When the store cannot be read.
pub(crate) async fn run(args: &UsageArgs, setup: &Setup) -> Outcome {
    let app = setup.open().await?;
    let shown = show(args, &app).await;
    app.shut_down(Duration::ZERO).await?;
    shown
}

async fn show(args: &UsageArgs, app: &App) -> Outcome {
    let mut by: Vec<UsageBy> = Vec::new();
    // A dimension that is named twice would give two identical columns.
    for side in args.by.iter().copied() {
        if !by.contains(&side) {
            by.push(side);
        }
    }
    let lines = app.usage(&tenant(&args.tenant)?, by.clone(), Vec::new(), args.days).await?;
    if lines.is_empty() {
        Notes::line(format!("no model was called in the last {}", plural(args.days, "day")));
    }
    let mut data = Data::stdout();
    for line in &lines {
        data.line(&harmless(&if args.json { json_line(line, &by) } else { text_line(line, &by) }))?;
    }
    data.flush()?;
    Ok(Exit::Done)
}

/// Formats a value of a dimension for people: a day is stored as its number.
fn shown(side: UsageBy, value: &str) -> String {
    match (side, value) {
        (UsageBy::Day, number) => number.parse().map(day).unwrap_or_default(),
        (_, "") => "-".to_owned(),
        (_, value) => value.to_owned(),
    }
}

fn json_line(line: &UsageLine, by: &[UsageBy]) -> String {
    let mut json = json!(line.usage);
    json["money"] = json!(line.micros as f64 / 1e6);
    for (side, value) in by.iter().zip(&line.of) {
        let value = if *side == UsageBy::Day { shown(*side, value) } else { value.clone() };
        json[side.as_str()] = json!(value);
    }
    json.to_string()
}

/// Formats a line: `2026-01-31  big  3 model calls, 700 + 112 tokens, 0.0042 money`
fn text_line(line: &UsageLine, by: &[UsageBy]) -> String {
    let mut text: String =
        by.iter().zip(&line.of).map(|(side, value)| format!("{}  ", shown(*side, value))).collect();
    let usage = &line.usage;
    text.push_str(&format!(
        "{}, {} + {} tokens",
        plural(usage.calls, "model call"),
        usage.prompt_tokens,
        usage.completion_tokens
    ));
    let parts = [
        (usage.cache_read_tokens, "read from cache"),
        (usage.cache_write_tokens, "written to cache"),
        (usage.reasoning_tokens, "of reasoning"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !parts.is_empty() {
        text.push_str(&format!(" ({})", parts.join(", ")));
    }
    if line.micros > 0 {
        text.push_str(&format!(", {} money", line.micros as f64 / 1e6));
    }
    text
}

#[cfg(test)]
mod tests {
    use weft_core::seam::chat_model::Usage;

    use super::*;

    #[test]
    fn a_line_names_the_usage_and_its_group() {
        let usage = Usage {
            prompt_tokens: 7,
            completion_tokens: 2,
            calls: 1,
            reasoning_tokens: 1,
            ..Usage::default()
        };
        let line = UsageLine { of: vec!["19782".to_owned(), String::new()], usage, micros: 4_200 };
        let by = [UsageBy::Day, UsageBy::User];
        assert_eq!(
            text_line(&line, &by),
            "2024-02-29  -  1 model call, 7 + 2 tokens (1 of reasoning), 0.0042 money"
        );
        assert!(json_line(&line, &by).contains(r#""day":"2024-02-29""#));
    }
}
