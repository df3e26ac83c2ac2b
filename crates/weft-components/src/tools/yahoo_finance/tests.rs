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
    let statement = |end: &str, revenue: &str| json!({"maxAge": 1, "endDate": {"raw": 1, "fmt": end}, "totalRevenue": {"raw": 1, "fmt": revenue}, "ebit": {}});
    good(json!({"quoteSummary": {"error": null, "result": [{
        "price": {"longName": "A Inc.", "regularMarketPrice": {"raw": 189.5, "fmt": "189.50"}, "currency": "USD"},
        "assetProfile": {"sector": "Technology", "fullTimeEmployees": 161_000},
        "defaultKeyStatistics": {"sharesOutstanding": {"raw": 1.5e10, "fmt": "15B"}},
        "incomeStatementHistory": {"incomeStatementHistory": [statement("2023-09-30", "383B"), statement("2022-09-30", "394B")]},
    }]}}))
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
async fn it_does_what_every_service_does() {
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
async fn a_report_has_what_is_wanted_and_no_more_is_asked() {
    let params = json!({"stock_code": "0700.HK", "history": true, "income_stmt": true, "count": true});
    let answers = [cookie(), good("cr.umb/1\n"), figures(), prices(), news()];
    let (sent, result) = asked("YahooFinance", params, &answers).await;
    let host = "https://query1.finance.yahoo.com";
    let modules = "assetProfile%2Cprice%2CsummaryDetail%2CfinancialData%2CdefaultKeyStatistics%2CincomeStatementHistory";
    let expected = [
        "https://fc.yahoo.com/".to_owned(),
        format!("{host}/v1/test/getcrumb"),
        format!("{host}/v10/finance/quoteSummary/0700.HK?modules={modules}&crumb=cr.umb%2F1"),
        format!("{host}/v8/finance/chart/0700.HK?range=1mo&interval=1d"),
        format!("{host}/v1/finance/search?q=0700.HK&quotesCount=0&newsCount=10"),
    ];
    assert_eq!(sent.iter().map(|request| request.url.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(header(&sent[2], "Cookie"), Some("A3=d=x&S=y"));
    let report = "# 0700.HK\n\n## Information\n\n- Name: A Inc.\n- Currency: USD\n- Price: 189.50\n- Sector: Technology\n\
        - Employees: 161000\n\n## Shares\n\n- Shares outstanding: 15B\n\n## Prices of the last month\n\n\
        | date | open | high | low | close | volume |\n| --- | --- | --- | --- | --- | --- |\n\
        | 2024-05-01 | 1.0 | 2 | 1 | 1.5 | 100 |\n| 2024-05-02 |  | 2 | 1 | 1.6 | 200 |\n\n## Income statements\n\n\
        | item | 2023-09-30 | 2022-09-30 |\n| --- | --- | --- |\n| totalRevenue | 383B | 394B |\n\n## News\n\n\
        - [A  grows ](https://n.example/a), The N";
    assert_eq!(result.unwrap()["report"], report);
    let params = json!({"stock_code": "AAPL", "info": false, "news": false, "history": true});
    let (sent, _) = asked("YahooFinance", params, &[prices()]).await;
    assert_eq!(sent.len(), 1);
}

#[tokio::test]
async fn what_is_no_symbol_is_not_asked_for() {
    for code in ["../../v1", "a/b", "?x", &"A".repeat(50), "what about Apple?"] {
        let (sent, result) = asked("YahooFinance", json!({"stock_code": code}), &[]).await;
        assert_eq!((sent.len(), result.unwrap_err().kind), (0, ErrorKind::Invalid), "{code}");
    }
}

#[tokio::test]
async fn a_refusal_without_a_cookie_is_told_by_its_status() {
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
