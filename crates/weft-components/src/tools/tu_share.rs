//! The TuShare component: short news of the Chinese markets from Tushare.

use jiff::tz::TimeZone;
use serde_json::{Map, json};
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Error, ErrorKind, Json, OutputSpec, Result, Role, Template, ToolSpec};

use super::search::answer::{self, garbled, text};
use super::search::{Ask, Asks, BASE_URL, Facts, Request, Service, Step, component};
use crate::params::{Field, FieldGroup, Params, choice, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

const HOST: &str = "https://api.tushare.pro";
/// Maximum number of news items.
const NEWS_MAX: usize = 200;
/// The time zone of the service's times.
const ZONE: &str = "Asia/Shanghai";

static TOKEN: Field<Template> =
    Field::template("token", "the API key, preferably as `{secret.NAME}`").secret();
static SRC: Field<String> = Field::text("src", "the source of the news").or("eastmoney").one_of(&[
    choice("sina", ""),
    choice("wallstreetcn", ""),
    choice("10jqka", ""),
    choice("eastmoney", ""),
    choice("yuncaijing", ""),
    choice("fenghuang", ""),
    choice("jinrongjie", ""),
]);
static START_DATE: Field<Template> =
    Field::template("start_date", "the earliest time, such as `2024-01-01 09:00:00`")
        .or("2024-01-01 09:00:00");
static END_DATE: Field<Template> = Field::template("end_date", "the latest time; now if absent");
static KEYWORD: Field<Template> = Field::template("keyword", "only news that contains this word")
    .older(&["query"])
    .by_model_if_wanted("only news that hold this word, in Chinese");

static FACTS: Facts = Facts {
    text: Some("formalized_content"),
    asks: Asks { query: None, top: None, key: Some(&TOKEN), base: &BASE_URL },
    ..Facts::keyed("Tushare")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "TuShare",
    role: Role::Step,
    summary: "Returns short news of the Chinese markets.",
    fields: &[
        fields(&[&KEYWORD, &TOKEN, &SRC, &START_DATE, &END_DATE]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &[
        OutputSpec::new("formalized_content", "string", "the news as text"),
        OutputSpec::new("json", "array", "the news as JSON"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "tushare_news", idempotent: true, sources: false }),
    build: |source| component(source, TuShare::of),
};

struct TuShare {
    source: String,
    keyword: Template,
    from: Template,
    until: Template,
}

impl TuShare {
    fn of(params: &mut Params<'_>) -> Self {
        Self {
            source: params.take(&SRC),
            keyword: params.take(&KEYWORD),
            from: params.take(&START_DATE),
            until: params.take(&END_DATE),
        }
    }
}

impl Service for TuShare {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn texts(&self) -> Vec<&Template> {
        vec![&self.keyword, &self.from, &self.until]
    }

    fn wants_time(&self) -> bool {
        self.until.source().trim().is_empty()
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [answer, ..] = answers else {
            // Without an end, the current time is used, which a repeated run takes from its journal.
            let until = if self.wants_time() { now(ask.now_ms)? } else { self.until.render(ask.inputs)? };
            let params = json!({"src": self.source.trim(), "start_date": self.from.render(ask.inputs)?, "end_date": until});
            let body = json!({"api_name": "news", "token": ask.key, "params": params, "fields": "datetime,title,content"});
            return Ok(Step::Ask(Request::post(ask.url(HOST, "/", &[])?, body)));
        };
        // The service cannot search by words.
        let keyword = self.keyword.render(ask.inputs)?.trim().to_lowercase();
        let holds = |row: &Json| {
            ["/title", "/content"].iter().any(|place| text(row, place).to_lowercase().contains(&keyword))
        };
        let rows: Vec<Json> =
            rows(&answer::json(answer)?)?.into_iter().filter(holds).take(NEWS_MAX).collect();
        let told = rows.iter().map(|row| {
            let told = ["/datetime", "/title", "/content"].map(|place| text(row, place).trim().to_owned());
            told.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
        });
        Ok(Step::Text(told.collect::<Vec<_>>().join("\n\n"), rows.into()))
    }
}

/// Formats the time as the service does.
fn now(now_ms: i64) -> Result<String> {
    let wrong = |cause| Error::internal("cannot determine the time in China").because(cause);
    let moment = jiff::Timestamp::from_millisecond(now_ms).map_err(wrong)?;
    let moment = moment.to_zoned(TimeZone::get(ZONE).map_err(wrong)?);
    Ok(moment.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// Returns the rows of an answer, which names its columns once.
fn rows(answer: &Json) -> Result<Vec<Json>> {
    let refusal = text(answer, "/msg");
    // The service reports failures in the body.
    match answer.get("code").and_then(Json::as_i64) {
        Some(0) => {}
        None => return Err(garbled("the answer has no code")),
        Some(_) if refusal.contains("token") => {
            return Err(Error::new(ErrorKind::Unauthenticated, format!("it says: {refusal}"))
                .help("check that `token` contains a valid key"));
        }
        Some(_) => {
            return Err(Error::new(ErrorKind::Denied, format!("it says: {refusal}"))
                .help("check the permissions and the rate limit of the account"));
        }
    }
    let list = |place: &str| answer.pointer(place).and_then(Json::as_array);
    let (Some(columns), Some(items)) = (list("/data/fields"), list("/data/items")) else {
        return Err(garbled("the answer contains no table"));
    };
    let row = |item: &Json| {
        let cells = columns.iter().filter_map(Json::as_str).zip(item.as_array()?);
        Some(Json::Object(cells.map(|(name, cell)| (name.to_owned(), cell.clone())).collect::<Map<_, _>>()))
    };
    Ok(items.iter().filter_map(row).collect())
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, asked, good};
    use serde_json::json;
    use weft_core::ErrorKind;
    use weft_core::seam::http::HttpBody;

    fn found() -> serde_json::Value {
        json!({"code": 0, "msg": null, "data": {"fields": ["datetime", "title", "content"], "has_more": false,
            "items": [["2024-05-01 10:00:00", "黄金", "上涨"], ["2024-05-01 11:00:00", null, "GDP 5%"]]}})
    }

    #[tokio::test]
    async fn it_fulfils_the_service_tool_contract() {
        let sample = Sample {
            kind: "TuShare",
            params: json!({"token": "not-a-real-one"}),
            key: Some("token"),
            answers: &[good(found())],
            nothing: &[good(json!({"code": 0, "data": {"fields": [], "items": []}}))],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn news_are_filtered_by_time_and_keyword() {
        let (sent, result) =
            asked("TuShare", json!({"token": "k-1", "keyword": "gdp"}), &[good(found())]).await;
        assert_eq!(sent[0].url, "https://api.tushare.pro/");
        let params = json!({"src": "eastmoney", "start_date": "2024-01-01 09:00:00", "end_date": "1970-01-01 08:00:00"});
        let body =
            json!({"api_name": "news", "token": "k-1", "params": params, "fields": "datetime,title,content"});
        assert_eq!(sent[0].body, HttpBody::Json(body));
        let result = result.unwrap();
        assert_eq!(result["formalized_content"], "2024-05-01 11:00:00\nGDP 5%");
        assert_eq!(result["json"].as_array().unwrap().len(), 1);
        let params = json!({"token": "k-1", "end_date": "2024-06-01 00:00:00"});
        let (sent, _) = asked("TuShare", params, &[good(found())]).await;
        assert!(
            matches!(&sent[0].body, HttpBody::Json(body) if body["params"]["end_date"] == "2024-06-01 00:00:00")
        );
    }

    #[tokio::test]
    async fn refusals_are_explained() {
        let check = async |message: &str, kind: ErrorKind| {
            let answer = good(json!({"code": 40101, "msg": message, "data": null}));
            let error = asked("TuShare", json!({"token": "k-1"}), &[answer]).await.1.unwrap_err();
            assert!(error.kind == kind && error.message.contains(message), "{}", error.full());
        };
        check("您的token不对", ErrorKind::Unauthenticated).await;
        check("没有访问权限", ErrorKind::Denied).await;
    }
}
