//! The AkShare component: news about a Chinese stock, from East Money.

use serde_json::json;
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Json, Result, Role, Template, ToolSpec};

use super::search::answer::{garbled, rows_if_any, text};
use super::search::request::BROWSER;
use super::search::{Ask, Asks, BASE_URL, FOUND, Facts, Hit, Request, Service, Step, TOP_N, component};
use crate::params::{Field, FieldGroup, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES, elements};

const HOST: &str = "https://search-api-web.eastmoney.com";
/// The function that the answer calls: the answer is written for scripts of pages.
const CALLED: &str = "news";

static SYMBOL: Field<Template> = Field::template("query", "the stock code, such as `300059`")
    .or("sys.query")
    .by_model("the code of the stock at a Chinese exchange, such as 300059, or the name of the company");

static FACTS: Facts = Facts {
    asks: Asks { query: Some(&SYMBOL), top: Some(&TOP_N), key: None, base: &BASE_URL },
    ..Facts::free("East Money")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "AkShare",
    role: Role::Step,
    summary: "Finds news about a Chinese stock and returns them as citable sources.",
    fields: &[
        fields(&[&SYMBOL, &TOP_N]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "akshare_stock_news", idempotent: true, sources: true }),
    build: |source| component(source, |_| AkShare),
};

struct AkShare;

impl Service for AkShare {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [answer, ..] = answers else {
            let articles = json!({"searchScope": "default", "sort": "default", "pageIndex": 1, "pageSize": ask.top,
                "preTag": "", "postTag": ""});
            let question = json!({"uid": "", "keyword": ask.query, "type": ["cmsArticleWebOld"], "client": "web",
                "clientType": "web", "clientVersion": "curr", "param": {"cmsArticleWebOld": articles}});
            let url = ask.url(HOST, "/search/jsonp", &[("cb", CALLED), ("param", &question.to_string())])?;
            return Ok(Step::Ask(Request::get(url).header("User-Agent", BROWSER)));
        };
        let news = rows_if_any(&unwrapped(&answer.body)?, "/result/cmsArticleWebOld")?;
        Ok(Step::Hits(news.unwrap_or_default().into_iter().map(hit).collect()))
    }
}

/// Returns the JSON argument of the function call in the answer.
fn unwrapped(answer: &str) -> Result<Json> {
    let inside = answer.split_once('(').and_then(|(_, rest)| Some(rest.rsplit_once(')')?.0));
    serde_json::from_str(inside.unwrap_or(answer))
        .map_err(|cause| garbled("the answer is not valid JSONP").because(cause))
}

fn hit(row: Json) -> Hit {
    let plain = |name: &str| elements::text(&text(&row, name));
    let url = match (text(&row, "/url"), text(&row, "/code")) {
        (url, code) if url.is_empty() && !code.is_empty() => {
            format!("https://finance.eastmoney.com/a/{code}.html")
        }
        (url, _) => url,
    };
    let content = format!("{}\n{}, {}", plain("/content"), plain("/mediaName"), plain("/date"));
    Hit { url, title: plain("/title"), content, score: None, row }
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, asked, good};
    use serde_json::json;

    fn found() -> String {
        let news = json!({"code": 0, "result": {"cmsArticleWebOld": [
            {"date": "2024-05-01 10:00:00", "code": "20240501300", "title": "<em>东方财富</em> (新闻)", "content": "内容&nbsp;一", "mediaName": "证券时报",
                "url": "http://finance.eastmoney.com/a/20240501300.html"},
            {"date": "2024-05-02", "code": "20240502300", "title": "B", "content": "b", "mediaName": "M"}]}});
        format!("news({news})")
    }

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let sample = Sample {
            kind: "AkShare",
            params: json!({}),
            key: None,
            answers: &[good(found())],
            nothing: &[good("news({\"code\": 0, \"result\": {}})")],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn news_are_extracted_from_the_jsonp_wrapper() {
        let (sent, result) = asked("AkShare", json!({"query": "300059", "top_n": 2}), &[good(found())]).await;
        let url = url::Url::parse(&sent[0].url).unwrap();
        let query: std::collections::HashMap<_, _> = url.query_pairs().collect();
        let question: serde_json::Value = serde_json::from_str(&query["param"]).unwrap();
        assert_eq!((&query["cb"], &question["keyword"]), (&"news".into(), &json!("300059")));
        assert_eq!(question["param"]["cmsArticleWebOld"]["pageSize"], 2);
        let result = result.unwrap();
        assert_eq!(result["chunks"][0]["document_name"], "东方财富 (新闻)");
        assert_eq!(result["chunks"][0]["content"], "内容 一\n证券时报, 2024-05-01 10:00:00");
        assert_eq!(result["chunks"][1]["url"], "https://finance.eastmoney.com/a/20240502300.html");
    }
    #[tokio::test]
    async fn a_failure_is_not_reported_as_no_hits() {
        let failed = good("news({\"error\": \"the index is gone\"})");
        let error = asked("AkShare", json!({}), &[failed]).await.1.unwrap_err().full();
        assert!(error.contains("it says: the index is gone"), "{error}");
    }
}
