//! The Jin10 component: flashes, news, the calendar and the quotes of the markets from Jin10.

use serde_json::Map;
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Error, ErrorKind, Json, OutputSpec, Result, Role, Template, ToolSpec};

use super::search::answer::{self, rows_if_any, text};
use super::search::table::{ROWS_MAX, table};
use super::search::{Ask, Asks, BASE_URL, Facts, Request, Service, Step, component};
use crate::params::{Field, FieldGroup, Params, choice, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES, elements};

const HOST: &str = "https://open-data-api.jin10.com";

static SECRET_KEY: Field<Template> =
    Field::template("secret_key", "the API key, preferably as `{secret.NAME}`").secret();
static TYPE: Field<&str> = Field::choice(
    "type",
    "flash",
    &[
        choice("flash", "news flashes"),
        choice("calendar", "figures, events and holidays"),
        choice("symbols", "traded symbols, or their quotes"),
        choice("news", "articles"),
    ],
    "the kind of data",
);
static FLASH_TYPE: Field<&str> = Field::choice(
    "flash_type",
    "1",
    &[
        choice("1", "the markets"),
        choice("2", "futures"),
        choice("3", "America and Hong Kong"),
        choice("4", "China"),
        choice("5", "commodities and currencies"),
    ],
    "the kind of flashes",
)
.shown_when("type", &["flash"]);
static CALENDAR_TYPE: Field<&str> = Field::choice(
    "calendar_type",
    "cj",
    &[choice("cj", "economy"), choice("qh", "futures"), choice("hk", "Hong Kong"), choice("us", "America")],
    "the market of the calendar",
)
.shown_when("type", &["calendar"]);
static CALENDAR_DATATYPE: Field<&str> = Field::choice(
    "calendar_datatype",
    "data",
    &[choice("data", "figures"), choice("event", "events"), choice("holiday", "holidays")],
    "the kind of entries",
)
.shown_when("type", &["calendar"]);
static SYMBOLS_TYPE: Field<&str> = Field::choice(
    "symbols_type",
    "GOODS",
    &[choice("GOODS", ""), choice("FOREX", ""), choice("FUTURE", ""), choice("CRYPTO", "")],
    "the market",
)
.shown_when("type", &["symbols"]);
static SYMBOLS_DATATYPE: Field<&str> = Field::choice(
    "symbols_datatype",
    "symbols",
    &[choice("symbols", "the traded symbols"), choice("quotes", "their prices")],
    "the kind of market data",
)
.shown_when("type", &["symbols"]);
static CONTAIN: Field<Template> =
    Field::template("contain", "only entries with this word").shown_when("type", &["flash", "news"]);
static FILTER: Field<Template> =
    Field::template("filter", "no entries with this word").shown_when("type", &["flash", "news"]);
static WORD: Field<Template> = Field::template("query", "only lines with this word")
    .by_model_if_wanted("only what holds this word, in Chinese");

/// The members of symbols and quotes, which the service abbreviates to letters.
const LETTERS: [(&str, &str); 11] = [
    ("a", "ask"),
    ("b", "bid"),
    ("c", "code"),
    ("e", "exchange"),
    ("h", "high"),
    ("hc", "previous close"),
    ("l", "low"),
    ("n", "name"),
    ("o", "open"),
    ("p", "last"),
    ("t", "time or type"),
];

static FACTS: Facts = Facts {
    text: Some("formalized_content"),
    asks: Asks { query: None, top: None, key: Some(&SECRET_KEY), base: &BASE_URL },
    ..Facts::keyed("Jin10")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Jin10",
    role: Role::Step,
    summary: "Returns news flashes, articles, the calendar or quotes of the Chinese and other markets.",
    fields: &[
        fields(&[&TYPE, &SECRET_KEY, &WORD, &CONTAIN, &FILTER]),
        FieldGroup {
            title: "Data",
            fields: &[&FLASH_TYPE, &CALENDAR_TYPE, &CALENDAR_DATATYPE, &SYMBOLS_TYPE, &SYMBOLS_DATATYPE],
        },
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &[
        OutputSpec::new("formalized_content", "string", "the data as text or as a table"),
        OutputSpec::new("json", "array", "the data as JSON"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "jin10_market_data", idempotent: true, sources: false }),
    build: |source| component(source, Jin10::of),
};

struct Jin10 {
    kind: Jin10Request,
    contain: Template,
    filter: Template,
    word: Template,
}

/// What is requested.
enum Jin10Request {
    Flash { category: &'static str },
    Calendar { what: &'static str, category: &'static str },
    Symbols { what: &'static str, market: &'static str },
    News,
}

impl Jin10 {
    fn of(params: &mut Params<'_>) -> Self {
        let category = params.take(&FLASH_TYPE);
        let calendar = (params.take(&CALENDAR_DATATYPE), params.take(&CALENDAR_TYPE));
        let symbols = (params.take(&SYMBOLS_DATATYPE), params.take(&SYMBOLS_TYPE));
        Self {
            kind: match params.take(&TYPE) {
                "calendar" => Jin10Request::Calendar { what: calendar.0, category: calendar.1 },
                "symbols" => Jin10Request::Symbols { what: symbols.0, market: symbols.1 },
                "news" => Jin10Request::News,
                _ => Jin10Request::Flash { category },
            },
            contain: params.take(&CONTAIN),
            filter: params.take(&FILTER),
            word: params.take(&WORD),
        }
    }

    fn request(&self, ask: &Ask<'_>) -> Result<Request> {
        let words =
            [("contain", self.contain.render(ask.inputs)?), ("filter", self.filter.render(ask.inputs)?)];
        let words =
            words.iter().map(|(name, word)| (*name, word.trim())).filter(|(_, word)| !word.is_empty());
        let (path, query): (_, Vec<(&str, &str)>) = match self.kind {
            Jin10Request::Flash { category } => {
                ("flash".to_owned(), [("category", category)].into_iter().chain(words).collect())
            }
            Jin10Request::Calendar { what, category } => {
                (format!("calendar/{what}"), vec![("category", category)])
            }
            Jin10Request::Symbols { what, market } => (what.to_owned(), vec![("type", market)]),
            Jin10Request::News => ("news".to_owned(), words.collect()),
        };
        let url = ask.url(HOST, &format!("/data-api/{path}"), &query)?;
        Ok(Request::get(url).header("secret-key", ask.key))
    }

    fn told(&self, rows: &[Json]) -> String {
        match self.kind {
            Jin10Request::Flash { .. } => {
                let line = |row: &Json| {
                    let content = elements::text(&text(row, "/data/content"));
                    (!content.is_empty())
                        .then(|| format!("{} {content}", text(row, "/time")).trim().to_owned())
                };
                rows.iter().filter_map(line).collect::<Vec<_>>().join("\n")
            }
            Jin10Request::Symbols { .. } => table(&rows.iter().map(spelled_out).collect::<Vec<_>>()),
            Jin10Request::Calendar { .. } | Jin10Request::News => table(rows),
        }
    }
}

impl Service for Jin10 {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn texts(&self) -> Vec<&Template> {
        vec![&self.contain, &self.filter, &self.word]
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [answer, ..] = answers else { return self.request(ask).map(Step::Ask) };
        let answer = answer::json(answer)?;
        // The service reports failures in the body, too.
        let status = answer.get("status").and_then(Json::as_i64).unwrap_or(200);
        if status != 200 {
            let kind =
                if matches!(status, 401 | 403) { ErrorKind::Unauthenticated } else { ErrorKind::Unavailable };
            return Err(Error::new(kind, format!("it says: {}", text(&answer, "/message")))
                .help("check that `secret_key` contains a valid key with access to this data"));
        }
        // The service cannot search calendars and quotes by words.
        let word = self.word.render(ask.inputs)?.trim().to_lowercase();
        let holds = |row: &Json| word.is_empty() || row.to_string().to_lowercase().contains(&word);
        let rows = rows_if_any(&answer, "/data")?.unwrap_or_default();
        let rows: Vec<Json> = rows.into_iter().filter(holds).take(ROWS_MAX).collect();
        Ok(Step::Text(self.told(&rows), rows.into()))
    }
}

fn spelled_out(row: &Json) -> Json {
    let name = |letter: &str| {
        LETTERS.iter().find(|(short, _)| *short == letter).map_or(letter, |(_, long)| long).to_owned()
    };
    let members = row.as_object().into_iter().flatten();
    Json::Object(members.map(|(letter, value)| (name(letter), value.clone())).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, asked, good, header};
    use serde_json::{Value as Json, json};
    use weft_core::ErrorKind;

    fn flashes() -> Json {
        json!({"status": 200, "message": "OK", "data": [
            {"id": "1", "time": "2024-05-01 10:00:00", "data": {"content": "<b>黄金</b>上涨"}},
            {"id": "2", "time": "2024-05-01 11:00:00", "data": {"content": "GDP 5%"}}, {"id": "3", "data": {}}]})
    }

    #[tokio::test]
    async fn it_fulfils_the_service_tool_contract() {
        let sample = Sample {
            kind: "Jin10",
            params: json!({"secret_key": "not-a-real-one"}),
            key: Some("secret_key"),
            answers: &[good(flashes())],
            nothing: &[good(json!({"status": 200, "data": []}))],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn every_kind_has_its_own_path() {
        let check = async |params: Json, rows: Json, (way, told): (&str, &str)| {
            let mut params = params;
            params["secret_key"] = json!("k-1");
            let answer = good(json!({"status": 200, "data": rows}));
            let (sent, result) = asked("Jin10", params, &[answer]).await;
            assert_eq!(sent[0].url, format!("https://open-data-api.jin10.com/data-api/{way}"));
            assert_eq!(header(&sent[0], "secret-key"), Some("k-1"));
            assert_eq!(result.unwrap()["formalized_content"], told);
        };
        let flashes = flashes()["data"].clone();
        let told = "2024-05-01 11:00:00 GDP 5%";
        check(
            json!({"flash_type": "2", "contain": " x", "query": "gdp"}),
            flashes,
            ("flash?category=2&contain=x", told),
        )
        .await;
        let calendar = json!({"type": "calendar", "calendar_datatype": "event", "calendar_type": "us"});
        let told = "| event |\n| --- |\n| E |";
        check(calendar, json!([{"event": "E"}]), ("calendar/event?category=us", told)).await;
        let quotes = json!({"type": "symbols", "symbols_type": "crypto", "symbols_datatype": "quotes"});
        let told = "| code | last |\n| --- | --- |\n| BTCUSD | 1 |";
        check(quotes, json!([{"c": "BTCUSD", "p": 1}]), ("quotes?type=CRYPTO", told)).await;
        let told = "| title |\n| --- |\n| N |";
        check(json!({"type": "news", "filter": "y"}), json!([{"title": "N"}]), ("news?filter=y", told)).await;
    }

    #[tokio::test]
    async fn a_refusal_may_have_a_success_status() {
        let answer = good(json!({"status": 401, "message": "bad key"}));
        let error = asked("Jin10", json!({"secret_key": "k-1"}), &[answer]).await.1.unwrap_err();
        assert!(
            error.kind == ErrorKind::Unauthenticated && error.message.contains("bad key"),
            "{}",
            error.full()
        );
    }
}
