//! The YahooFinance component: reports what Yahoo Finance knows about a stock.
//!
//! Company figures are served only to browsers: a first page sets a cookie, and the cookie grants a token that every
//! further request carries. Statements, prices and news need neither.

mod report;
mod statements;

use std::time::Duration;

use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, OutputSpec, Result, Role, Template, ToolSpec};

use super::search::answer::{self, garbled};
use super::search::request::BROWSER;
use super::search::{Ask, Asks, BASE_URL, Facts, Request, Service, Step, component};
use crate::params::{Field, FieldGroup, Params, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};
use statements::{BALANCE_SHEETS, CASH_FLOWS, INCOME_STATEMENTS, Statement};

/// Host of figures, prices and news.
const HOST: &str = "https://query1.finance.yahoo.com";
/// The page that sets the cookie.
const COOKIES: &str = "https://fc.yahoo.com";
/// The period for which statements are requested, in seconds since 1970: from the end of 2016 on. The service returns
/// the last four years of it.
const SINCE: &str = "1483142400";
const UNTIL: &str = "9999999999";
/// Maximum number of characters in the token that goes with the cookie.
const CRUMB_MAX: usize = 100;
/// Maximum number of characters in a stock symbol.
const SYMBOL_MAX: usize = 40;

static STOCK_CODE: Field<Template> =
    Field::template("stock_code", "the ticker symbol, such as `AAPL` or `0700.HK`")
        .or("sys.query")
        .by_model("the symbol of the stock at Yahoo Finance, such as AAPL, 0700.HK or VOD.L");
static INFO: Field<bool> =
    Field::flag("info", "whether to include the company and its current figures").on_by_default();
static NEWS: Field<bool> = Field::flag("news", "whether to include news").on_by_default();
static HISTORY: Field<bool> = Field::flag("history", "whether to include the prices of the last month");
static COUNT: Field<bool> = Field::flag("count", "whether to include the number of shares");
static FINANCIALS: Field<bool> = Field::flag("financials", "the same as `income_stmt`");
static INCOME_STMT: Field<bool> =
    Field::flag("income_stmt", "whether to include the income statements of recent years");
static BALANCE_SHEET: Field<bool> =
    Field::flag("balance_sheet", "whether to include the balance sheets of recent years");
static CASH_FLOW_STATEMENT: Field<bool> =
    Field::flag("cash_flow_statement", "whether to include the cash flow statements of recent years");

static FACTS: Facts = Facts {
    time_limit: Duration::from_secs(20),
    text: Some("report"),
    asks: Asks { query: Some(&STOCK_CODE), top: None, key: None, base: &BASE_URL },
    ..Facts::free("Yahoo Finance")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "YahooFinance",
    role: Role::Step,
    summary: "Returns what Yahoo Finance knows about a stock: the company, its figures, prices and news.",
    fields: &[
        fields(&[&STOCK_CODE]),
        FieldGroup {
            title: "Report",
            fields: &[
                &INFO,
                &NEWS,
                &HISTORY,
                &COUNT,
                &INCOME_STMT,
                &FINANCIALS,
                &BALANCE_SHEET,
                &CASH_FLOW_STATEMENT,
            ],
        },
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &[
        OutputSpec::new("report", "string", "the report in Markdown"),
        OutputSpec::new("json", "object", "the responses of the service"),
    ],
    time_limit: Some(Duration::from_secs(60)),
    measuring_only: false,
    tool: Some(ToolSpec { function: "yahoo_finance", idempotent: true, sources: false }),
    build: |source| component(source, YahooFinance::of),
};

/// One request of a report.
#[derive(Clone, Copy)]
enum ReportRequest {
    Cookie,
    Crumb,
    Figures,
    Years(&'static Statement),
    Prices,
    News,
}

struct YahooFinance {
    /// The figures that are requested, by the service's names.
    modules: Vec<&'static str>,
    /// The requests, in their order.
    parts: Vec<ReportRequest>,
}

impl YahooFinance {
    fn of(params: &mut Params<'_>) -> Self {
        let mut modules = Vec::new();
        let mut add = |wanted: bool, names: &[&'static str]| modules.extend(names.iter().filter(|_| wanted));
        add(params.take(&INFO), &["assetProfile", "price", "summaryDetail", "financialData"]);
        add(params.take(&COUNT), &["defaultKeyStatistics"]);
        let mut parts = Vec::new();
        if !modules.is_empty() {
            parts.extend([ReportRequest::Cookie, ReportRequest::Crumb, ReportRequest::Figures]);
        }
        let (income, financials) = (params.take(&INCOME_STMT), params.take(&FINANCIALS));
        let statements = [
            (income || financials, &INCOME_STATEMENTS),
            (params.take(&BALANCE_SHEET), &BALANCE_SHEETS),
            (params.take(&CASH_FLOW_STATEMENT), &CASH_FLOWS),
        ];
        parts.extend(
            statements.into_iter().filter(|(wanted, _)| *wanted).map(|(_, of)| ReportRequest::Years(of)),
        );
        parts.extend(Some(ReportRequest::Prices).filter(|_| params.take(&HISTORY)));
        parts.extend(Some(ReportRequest::News).filter(|_| params.take(&NEWS)));
        Self { modules, parts }
    }

    fn request(&self, part: ReportRequest, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Request> {
        let below = |path: &str, symbol: &str| {
            let mut url = ask.url(HOST, path, &[])?;
            // A single path segment, whatever it contains.
            if let Ok(mut segments) = url.path_segments_mut() {
                segments.push(symbol);
            }
            Ok::<_, weft_core::Error>(url)
        };
        let request = match part {
            // The page itself does not exist; only its cookie matters.
            ReportRequest::Cookie => Request::get(ask.url(COOKIES, "/", &[])?).any_status(),
            ReportRequest::Crumb => Request::get(ask.url(HOST, "/v1/test/getcrumb", &[])?)
                .header("Cookie", cookies(answers.first())?),
            ReportRequest::Figures => {
                let mut url = below("/v10/finance/quoteSummary", ask.query)?;
                url.query_pairs_mut()
                    .append_pair("modules", &self.modules.join(","))
                    .append_pair("crumb", crumb(answers.get(1))?);
                Request::get(url).header("Cookie", cookies(answers.first())?)
            }
            ReportRequest::Years(statement) => {
                let mut url = below("/ws/fundamentals-timeseries/v1/finance/timeseries", ask.query)?;
                url.query_pairs_mut()
                    .append_pair("symbol", ask.query)
                    .append_pair("type", &statement.asked_for())
                    .append_pair("period1", SINCE)
                    .append_pair("period2", UNTIL);
                Request::get(url)
            }
            ReportRequest::Prices => {
                let mut url = below("/v8/finance/chart", ask.query)?;
                url.query_pairs_mut().append_pair("range", "1mo").append_pair("interval", "1d");
                Request::get(url)
            }
            ReportRequest::News => {
                let query = [("q", ask.query), ("quotesCount", "0"), ("newsCount", "10")];
                Request::get(ask.url(HOST, "/v1/finance/search", &query)?)
            }
        };
        Ok(request.header("User-Agent", BROWSER))
    }
}

impl Service for YahooFinance {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        // It becomes a path segment.
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '^' | '=' | '&' | ' ');
        if ask.query.chars().count() > SYMBOL_MAX
            || !ask.query.chars().all(plain)
            || ask.query.starts_with('.')
        {
            let message = "the query is not a ticker symbol";
            return Err(
                weft_core::Error::invalid(message).help("enter a symbol, such as `AAPL` or `0700.HK`")
            );
        }
        // If it sets a cookie, the missing page is expected; without one, its status states the reason.
        if let (Some(ReportRequest::Cookie), [page]) = (self.parts.first(), answers)
            && page.status >= 300
            && cookies(Some(page)).is_err()
        {
            return Ok(Step::Refused);
        }
        // Each part has one answer, so that their number determines the next part.
        if let Some(part) = self.parts.get(answers.len()) {
            return self.request(*part, ask, answers).map(Step::Ask);
        }
        let mut known = report::StockFacts::default();
        for (part, answer) in self.parts.iter().zip(answers) {
            match part {
                ReportRequest::Cookie | ReportRequest::Crumb => {}
                ReportRequest::Figures => known.figures = report::figures(&answer::json(answer)?)?,
                ReportRequest::Years(statement) => known.years.push(statement.years(&answer::json(answer)?)?),
                ReportRequest::Prices => known.prices = report::prices(&answer::json(answer)?)?,
                ReportRequest::News => known.news = report::news(&answer::json(answer)?)?,
            }
        }
        Ok(Step::Text(report::markdown(ask.query, &known), known.into_json()))
    }
}

/// Returns the cookies that an answer sets, as a request sends them back.
fn cookies(answer: Option<&HttpResponse>) -> Result<String> {
    let set = answer.iter().flat_map(|answer| &answer.headers).filter(|(name, _)| name == "set-cookie");
    let pairs: Vec<&str> = set.filter_map(|(_, cookie)| cookie.split(';').next()).map(str::trim).collect();
    if pairs.is_empty() {
        return Err(garbled("the first page sets no cookie"));
    }
    Ok(pairs.join("; "))
}

fn crumb(answer: Option<&HttpResponse>) -> Result<&str> {
    let crumb = answer.map_or("", |answer| answer.body.trim());
    // A page or JSON in its place indicates a failure.
    let is_one = !crumb.is_empty() && crumb.len() <= CRUMB_MAX && !crumb.contains(['<', '{', ' ']);
    is_one.then_some(crumb).ok_or_else(|| garbled("the answer contains no crumb for the cookie"))
}

#[cfg(test)]
mod tests;
