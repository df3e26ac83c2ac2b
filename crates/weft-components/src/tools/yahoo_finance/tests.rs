use crate::tools::search::testing::{Sample, answered, asked, good, header};
use serde_json::json;
use weft_core::ErrorKind;
use weft_core::seam::http::HttpResponse;

fn cookie() -> HttpResponse {
    let cookie =
        ("set-cookie".to_owned(), "A3=d=x&S=y; Expires=Thu, 1 May 2025; Domain=.yahoo.com".to_owned());
    HttpResponse { headers: vec![cookie], ..answered(404, "<html>") }
}

fn figures() -> HttpResponse {
    good(json!({"quoteSummary": {"error": null, "result": [{
        "price": {"longName": "A Inc.", "regularMarketPrice": {"raw": 189.5, "fmt": "189.50"}, "currency": "USD"},
        "assetProfile": {"sector": "Technology", "fullTimeEmployees": 161_000},
        "defaultKeyStatistics": {"sharesOutstanding": {"raw": 1.5e10, "fmt": "15B"}},
    }]}}))
}

/// An answer with series: each with its name, and the figures of its years.
fn series(all: &[(&str, &[(&str, f64)])]) -> HttpResponse {
    let point = |(end, raw): &(&str, f64)| json!({"asOfDate": end, "periodType": "12M", "currencyCode": "USD", "reportedValue": {"raw": raw, "fmt": "?"}});
    let one = |(name, years): &(&str, &[(&str, f64)])| {
        let mut points: Vec<_> = years.iter().map(point).collect();
        points.push(json!(null));
        json!({"meta": {"symbol": ["A"], "type": [name]}, "timestamp": [1, 2], *name: points})
    };
    let mut result: Vec<_> = all.iter().map(one).collect();
    // Figures that the company does not report.
    result.push(json!({"meta": {"symbol": ["A"], "type": ["annualInventory"]}}));
    good(json!({"timeseries": {"result": result, "error": null}}))
}

fn prices() -> HttpResponse {
    good(
        json!({"chart": {"error": null, "result": [{"meta": {"currency": "USD"}, "timestamp": [1_714_570_200, 1_714_656_600],
        "indicators": {"quote": [{"open": [1.00004, null], "high": [2, 2], "low": [1, 1], "close": [1.5, 1.6], "volume": [100, 200]}]}}]}}),
    )
}

fn news() -> HttpResponse {
    good(json!({"quotes": [], "news": [
        {"title": "A [grows]", "publisher": "The N", "link": "https://n.example/a", "providerPublishTime": 1_714_570_200}]}))
}

#[tokio::test]
async fn it_fulfils_the_service_tool_contract() {
    let sample = Sample {
        kind: "YahooFinance",
        params: json!({"stock_code": "AAPL"}),
        key: None,
        answers: &[cookie(), good("cr.umb/1"), figures(), news()],
        nothing: &[
            cookie(),
            good("c"),
            good(json!({"quoteSummary": {"result": [{}]}})),
            good(json!({"news": []})),
        ],
    };
    sample.holds().await;
}

#[tokio::test]
async fn a_report_has_and_requests_only_what_is_configured() {
    let params = json!({"stock_code": "0700.HK", "history": true, "income_stmt": true, "count": true});
    let revenue: &[(&str, f64)] = &[("2022-09-30", 394.0e9), ("2023-09-30", 383.0e9)];
    let answers = [
        cookie(),
        good("cr.umb/1\n"),
        figures(),
        series(&[("annualTotalRevenue", revenue)]),
        prices(),
        news(),
    ];
    let (sent, result) = asked("YahooFinance", params, &answers).await;
    let host = "https://query1.finance.yahoo.com";
    let modules = "assetProfile%2Cprice%2CsummaryDetail%2CfinancialData%2CdefaultKeyStatistics";
    let expected = [
        "https://fc.yahoo.com/".to_owned(),
        format!("{host}/v1/test/getcrumb"),
        format!("{host}/v10/finance/quoteSummary/0700.HK?modules={modules}&crumb=cr.umb%2F1"),
        format!("{host}/v8/finance/chart/0700.HK?range=1mo&interval=1d"),
        format!("{host}/v1/finance/search?q=0700.HK&quotesCount=0&newsCount=10"),
    ];
    let mut urls: Vec<_> = sent.iter().map(|request| request.url.clone()).collect();
    let statements = urls.remove(3);
    assert_eq!(urls, expected);
    let place = format!(
        "{host}/ws/fundamentals-timeseries/v1/finance/timeseries/0700.HK?symbol=0700.HK&type=annualTotalRevenue%2C"
    );
    assert!(statements.starts_with(&place), "{statements}");
    assert_eq!(header(&sent[2], "Cookie"), Some("A3=d=x&S=y"));
    let report = "# 0700.HK\n\n## Information\n\n- Name: A Inc.\n- Currency: USD\n- Price: 189.50\n- Sector: Technology\n\
        - Employees: 161000\n\n## Shares\n\n- Shares outstanding: 15B\n\n## Prices of the last month\n\n\
        | date | open | high | low | close | volume |\n| --- | --- | --- | --- | --- | --- |\n\
        | 2024-05-01 | 1.0 | 2 | 1 | 1.5 | 100 |\n| 2024-05-02 |  | 2 | 1 | 1.6 | 200 |\n\n## Income statements\n\n\
        | item | 2023-09-30 | 2022-09-30 |\n| --- | --- | --- |\n| Total Revenue | 383000000000 | 394000000000 |\n\n## News\n\n\
        - [A  grows ](https://n.example/a), The N";
    assert_eq!(result.unwrap()["report"], report);
    let params = json!({"stock_code": "AAPL", "info": false, "news": false, "history": true});
    let (sent, _) = asked("YahooFinance", params, &[prices()]).await;
    assert_eq!(sent.len(), 1);
}

/// Canvas scripts read them: by the item names, and the first number of a line as that of the newest year.
#[tokio::test]
async fn statements_have_integers_per_year_and_no_empty_cells() {
    let params = json!({"stock_code": "A", "info": false, "news": false, "balance_sheet": true});
    let answer = series(&[
        ("annualLongTermDebtAndCapitalLeaseObligation", &[("2023-09-30", 2.0)]),
        ("annualLongTermDebt", &[("2022-09-30", 98_959_000_000.0)]),
        ("annualTotalAssets", &[("2022-09-30", 352_755_000_000.0), ("2023-09-30", 0.5)]),
        ("annualUnknown", &[("2021-09-30", 1.0)]),
    ]);
    let (sent, result) = asked("YahooFinance", params, &[answer]).await;
    let result = result.unwrap();
    assert_eq!(sent.len(), 1, "neither a cookie nor its token is needed");
    let report = "# A\n\n## Balance sheets\n\n| item | 2023-09-30 | 2022-09-30 |\n| --- | --- | --- |\n\
        | Total Assets | 0.5 | 352755000000 |\n| Long Term Debt | nan | 98959000000 |\n\
        | Long Term Debt And Capital Lease Obligation | 2 | nan |";
    assert_eq!(result["report"], report);
    let row = json!({"item": "Long Term Debt", "2023-09-30": null, "2022-09-30": 98_959_000_000.0});
    assert_eq!(result["json"]["statements"]["balance_sheet"][1], row);
    let nothing = good(json!({"timeseries": {"result": [], "error": null}}));
    let params = json!({"stock_code": "A", "info": false, "news": false, "cash_flow_statement": true});
    assert_eq!(asked("YahooFinance", params, &[nothing]).await.1.unwrap()["report"], "");
}

#[tokio::test]
async fn an_invalid_symbol_is_not_requested() {
    for code in ["../../v1", "a/b", "?x", &"A".repeat(50), "what about Apple?"] {
        let (sent, result) = asked("YahooFinance", json!({"stock_code": code}), &[]).await;
        assert_eq!((sent.len(), result.unwrap_err().kind), (0, ErrorKind::Invalid), "{code}");
    }
}

#[tokio::test]
async fn a_refusal_without_a_cookie_is_reported_by_its_status() {
    for (status, kind) in
        [(500, ErrorKind::Unavailable), (401, ErrorKind::Unauthenticated), (404, ErrorKind::NotFound)]
    {
        let error = asked("YahooFinance", json!({}), &[answered(status, "no")]).await.1.unwrap_err();
        assert_eq!(error.kind, kind, "{}", error.full());
        assert!(error.full().contains(&format!("the status {status}")), "{}", error.full());
    }
    let error = asked("YahooFinance", json!({}), &[good("<html>")]).await.1.unwrap_err();
    assert!(error.full().contains("sets no cookie"), "{}", error.full());
}
