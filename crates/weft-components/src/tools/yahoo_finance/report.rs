//! Formats what is known about a stock as a report.

use serde_json::{Map, json};
use weft_core::value::to_text;
use weft_core::{Json, Result};

use crate::tools::search::answer::{garbled, rows_if_any, text};
use crate::tools::search::table::{ROWS_MAX, table};

use super::statements::Years;

/// Maximum number of news items in a report.
const NEWS_MAX: usize = 20;
/// Maximum number of characters in one figure: a company's business is described in a paragraph.
const FIGURE_MAX: usize = 2_000;
/// Information about a company, with its pointer among the figures.
const INFORMATION: [(&str, &str); 26] = [
    ("Name", "/price/longName"),
    ("Exchange", "/price/exchangeName"),
    ("Currency", "/price/currency"),
    ("Price", "/price/regularMarketPrice"),
    ("Change", "/price/regularMarketChangePercent"),
    ("Market capitalization", "/price/marketCap"),
    ("Previous close", "/summaryDetail/previousClose"),
    ("Open", "/summaryDetail/open"),
    ("Low of the day", "/summaryDetail/dayLow"),
    ("High of the day", "/summaryDetail/dayHigh"),
    ("Low of 52 weeks", "/summaryDetail/fiftyTwoWeekLow"),
    ("High of 52 weeks", "/summaryDetail/fiftyTwoWeekHigh"),
    ("Volume", "/summaryDetail/volume"),
    ("Price to earnings", "/summaryDetail/trailingPE"),
    ("Dividend yield", "/summaryDetail/dividendYield"),
    ("Beta", "/summaryDetail/beta"),
    ("Revenue", "/financialData/totalRevenue"),
    ("Gross margin", "/financialData/grossMargins"),
    ("Profit margin", "/financialData/profitMargins"),
    ("Return on equity", "/financialData/returnOnEquity"),
    ("Recommendation", "/financialData/recommendationKey"),
    ("Sector", "/assetProfile/sector"),
    ("Industry", "/assetProfile/industry"),
    ("Country", "/assetProfile/country"),
    ("Employees", "/assetProfile/fullTimeEmployees"),
    ("Business", "/assetProfile/longBusinessSummary"),
];
/// Information about its shares.
const SHARES: [(&str, &str); 3] = [
    ("Shares outstanding", "/defaultKeyStatistics/sharesOutstanding"),
    ("Shares that are traded", "/defaultKeyStatistics/floatShares"),
    ("Shares sold short", "/defaultKeyStatistics/sharesShort"),
];

/// What is known about a stock.
#[derive(Debug, Default)]
pub(super) struct StockFacts {
    /// Figures by the service's names.
    pub figures: Json,
    /// The statements that were requested.
    pub years: Vec<Years>,
    /// Prices, one row per day.
    pub prices: Vec<Json>,
    /// News, newest first.
    pub news: Vec<Json>,
}

impl StockFacts {
    /// Returns it as data.
    pub(super) fn into_json(self) -> Json {
        let mut known = json!({"info": self.figures, "history": self.prices, "news": self.news});
        if !self.years.is_empty() {
            known["statements"] = self.years.into_iter().map(Years::into_json).collect();
        }
        known
    }
}

/// Returns the figures in an answer.
///
/// # Errors
/// `Garbled` when there is no list of them.
pub(super) fn figures(answer: &Json) -> Result<Json> {
    let found = rows_if_any(answer, "/quoteSummary/result")?.unwrap_or_default();
    found.into_iter().next().ok_or_else(|| garbled("the answer contains no figures"))
}

/// Returns the prices in an answer, by day.
///
/// # Errors
/// `Garbled` when there is no list of them.
pub(super) fn prices(answer: &Json) -> Result<Vec<Json>> {
    let found = rows_if_any(answer, "/chart/result")?.unwrap_or_default();
    let chart = found.first().ok_or_else(|| garbled("the answer contains no prices"))?;
    let days = chart.get("timestamp").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let row = |(place, day): (usize, &Json)| {
        let day = jiff::Timestamp::from_second(day.as_i64()?).ok()?;
        let mut row = Map::from_iter([("date".to_owned(), Json::from(day.strftime("%Y-%m-%d").to_string()))]);
        for name in ["open", "high", "low", "close", "volume"] {
            let value = chart.pointer(&format!("/indicators/quote/0/{name}/{place}"));
            row.insert(name.to_owned(), value.map_or(Json::Null, rounded));
        }
        Some(Json::Object(row))
    };
    Ok(days.iter().enumerate().take(ROWS_MAX).filter_map(row).collect())
}

/// Rounds a price to remove digits that are artefacts of its computation.
fn rounded(value: &Json) -> Json {
    match value.as_f64() {
        Some(number) if !value.is_u64() => Json::from((number * 10_000.0).round() / 10_000.0),
        _ => value.clone(),
    }
}

/// Returns the news in an answer.
///
/// # Errors
/// `Garbled` when something else is in their place.
pub(super) fn news(answer: &Json) -> Result<Vec<Json>> {
    let found = rows_if_any(answer, "/news")?.unwrap_or_default();
    Ok(found.into_iter().take(NEWS_MAX).collect())
}

/// Returns the report; empty if nothing is known.
pub(super) fn markdown(symbol: &str, known: &StockFacts) -> String {
    let figures = |names: &[(&str, &str)]| {
        let told =
            names.iter().filter_map(|(name, place)| Some((name, figure(known.figures.pointer(place)?))));
        let lines =
            told.filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("- {name}: {value}"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let mut sections = vec![("Information", figures(&INFORMATION)), ("Shares", figures(&SHARES))];
    sections.push(("Prices of the last month", table(&known.prices)));
    sections.extend(known.years.iter().map(|years| (years.title(), years.table())));
    let item = |news: &Json| {
        let (title, link, publisher) = (text(news, "/title"), text(news, "/link"), text(news, "/publisher"));
        // A bracket in a title would end the link.
        format!("- [{}]({link}), {publisher}", title.replace(['[', ']', '\n'], " "))
    };
    sections.push(("News", known.news.iter().map(item).collect::<Vec<_>>().join("\n")));
    let told = sections.iter().filter(|(_, text)| !text.is_empty());
    let told: Vec<String> = told.map(|(title, text)| format!("## {title}\n\n{text}")).collect();
    if told.is_empty() { String::new() } else { format!("# {symbol}\n\n{}", told.join("\n\n")) }
}

/// Formats a figure: numbers come with a human-readable form.
fn figure(value: &Json) -> String {
    let shown = value.get("fmt").or_else(|| value.get("raw")).unwrap_or(value);
    match shown {
        Json::Object(_) | Json::Array(_) => String::new(),
        shown => {
            let line = to_text(shown).split_whitespace().collect::<Vec<_>>().join(" ");
            line.chars().take(FIGURE_MAX).collect()
        }
    }
}
