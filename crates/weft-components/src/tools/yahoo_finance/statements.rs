//! The statements of a company, year by year.
//!
//! The service returns them as one series for each item. The whole statements that it once returned among the figures
//! have been empty, except for the dates, since 2024.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Map;
use weft_core::value::to_text;
use weft_core::{Json, Result};

use crate::tools::search::answer::{rows_if_any, text};
use crate::tools::search::table::table;

/// The cell of an item without a figure for a year.
// Scripts that look for numbers in the row of an item would skip an empty cell, and take the next year's number for
// this one's.
const MISSING: &str = "nan";

/// A kind of statement.
#[derive(Debug)]
pub(super) struct Statement {
    /// Its title in reports.
    title: &'static str,
    /// Its name in data.
    name: &'static str,
    /// Its items. The service's names are these without spaces.
    // If one is the beginning of another, the shorter comes first: scripts take the first row that contains a name.
    items: &'static [&'static str],
}

pub(super) static INCOME_STATEMENTS: Statement = Statement {
    title: "Income statements",
    name: "income_stmt",
    items: &[
        "Total Revenue",
        "Cost Of Revenue",
        "Gross Profit",
        "Operating Expense",
        "Selling General And Administration",
        "Research And Development",
        "Operating Income",
        "Interest Income",
        "Interest Expense",
        "Other Income Expense",
        "Pretax Income",
        "Tax Provision",
        "Net Income",
        "Net Income Common Stockholders",
        "Basic EPS",
        "Diluted EPS",
        "Basic Average Shares",
        "Diluted Average Shares",
        "Total Expenses",
        "Normalized Income",
        "EBIT",
        "EBITDA",
        "Normalized EBITDA",
        "Reconciled Depreciation",
    ],
};

pub(super) static BALANCE_SHEETS: Statement = Statement {
    title: "Balance sheets",
    name: "balance_sheet",
    items: &[
        "Total Assets",
        "Current Assets",
        "Cash And Cash Equivalents",
        "Cash Cash Equivalents And Short Term Investments",
        "Other Short Term Investments",
        "Receivables",
        "Accounts Receivable",
        "Inventory",
        "Other Current Assets",
        "Total Non Current Assets",
        "Net PPE",
        "Gross PPE",
        "Accumulated Depreciation",
        "Goodwill",
        "Goodwill And Other Intangible Assets",
        "Investments And Advances",
        "Other Non Current Assets",
        "Total Liabilities Net Minority Interest",
        "Current Liabilities",
        "Payables",
        "Accounts Payable",
        "Current Debt",
        "Current Deferred Revenue",
        "Other Current Liabilities",
        "Total Non Current Liabilities Net Minority Interest",
        "Long Term Debt",
        "Long Term Debt And Capital Lease Obligation",
        "Other Non Current Liabilities",
        "Total Equity Gross Minority Interest",
        "Stockholders Equity",
        "Capital Stock",
        "Retained Earnings",
        "Minority Interest",
        "Total Capitalization",
        "Common Stock Equity",
        "Capital Lease Obligations",
        "Net Tangible Assets",
        "Working Capital",
        "Invested Capital",
        "Tangible Book Value",
        "Total Debt",
        "Net Debt",
        "Share Issued",
        "Ordinary Shares Number",
        "Treasury Shares Number",
    ],
};

pub(super) static CASH_FLOWS: Statement = Statement {
    title: "Cash flows",
    name: "cash_flow_statement",
    items: &[
        "Operating Cash Flow",
        "Net Income From Continuing Operations",
        "Depreciation And Amortization",
        "Stock Based Compensation",
        "Change In Working Capital",
        "Change In Receivables",
        "Change In Inventory",
        "Change In Payable",
        "Investing Cash Flow",
        "Capital Expenditure",
        "Net Business Purchase And Sale",
        "Net Investment Purchase And Sale",
        "Financing Cash Flow",
        "Long Term Debt Issuance",
        "Long Term Debt Payments",
        "Repurchase Of Capital Stock",
        "Cash Dividends Paid",
        "Beginning Cash Position",
        "Changes In Cash",
        "End Cash Position",
        "Free Cash Flow",
    ],
};

impl Statement {
    /// Returns the series of its items by the service's names, separated by commas.
    pub(super) fn asked_for(&self) -> String {
        self.items.iter().map(|item| series_name(item)).collect::<Vec<_>>().join(",")
    }

    /// Reads the statement from an answer.
    ///
    /// # Errors
    /// `Garbled` when there is no list of series.
    pub(super) fn years(&'static self, answer: &Json) -> Result<Years> {
        let series = rows_if_any(answer, "/timeseries/result")?.unwrap_or_default();
        let found: Vec<(&str, BTreeMap<String, Json>)> = self
            .items
            .iter()
            .map(|item| (*item, figures(&series, item)))
            .filter(|(_, figures)| !figures.is_empty())
            .collect();
        let ends: BTreeSet<&String> = found.iter().flat_map(|(_, figures)| figures.keys()).collect();
        let row = |(item, figures): &(&str, BTreeMap<String, Json>)| {
            let mut row = Map::from_iter([("item".to_owned(), Json::from(*item))]);
            for end in ends.iter().rev() {
                row.insert((*end).clone(), figures.get(*end).cloned().unwrap_or_default());
            }
            Json::Object(row)
        };
        let rows = found.iter().map(row).collect();
        Ok(Years { of: self, rows })
    }
}

/// Returns the service's name of an item's series.
fn series_name(item: &str) -> String {
    format!("annual{}", item.replace(' ', ""))
}

/// Returns the figures of an item, by the end of their years.
fn figures(series: &[Json], item: &str) -> BTreeMap<String, Json> {
    let name = series_name(item);
    let points = series.iter().find_map(|one| one.get(&name)?.as_array());
    let figure = |point: &Json| {
        let end = text(point, "/asOfDate");
        let value = point.pointer("/reportedValue/raw").filter(|value| value.is_number())?;
        (!end.is_empty()).then(|| (end, value.clone()))
    };
    points.into_iter().flatten().filter_map(figure).collect()
}

/// The years of a statement.
#[derive(Debug)]
pub(super) struct Years {
    of: &'static Statement,
    /// A row for each item that has a figure: its name, and a member for each year, newest first.
    rows: Vec<Json>,
}

impl Years {
    /// Returns its display title.
    pub(super) fn title(&self) -> &'static str {
        self.of.title
    }

    /// Returns it as a table; empty if there are no rows.
    pub(super) fn table(&self) -> String {
        let cell = |(name, value): (&String, &Json)| {
            let shown = match value {
                Json::Null => MISSING.to_owned(),
                // Sums are whole numbers, but arrive as floats.
                Json::Number(number) if number.is_f64() => {
                    number.as_f64().map(|number| number.to_string()).unwrap_or_default()
                }
                other => to_text(other),
            };
            (name.clone(), Json::from(shown))
        };
        let row = |row: &Json| row.as_object().into_iter().flatten().map(cell).collect::<Json>();
        table(&self.rows.iter().map(row).collect::<Vec<_>>())
    }

    /// Returns its name and its data.
    pub(super) fn into_json(self) -> (String, Json) {
        (self.of.name.to_owned(), self.rows.into())
    }
}
