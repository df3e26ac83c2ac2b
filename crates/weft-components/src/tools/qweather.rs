//! The QWeather component: reports the weather, the air quality or the indices of daily life at a place.

use serde_json::json;
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Error, ErrorKind, Json, OutputSpec, Result, Role, Template, ToolSpec};

use super::search::answer::{self, lines, rows_if_any, text};
use super::search::{Ask, Asks, BASE_URL, Facts, Request, Service, Step, component};
use crate::params::{Field, FieldGroup, Params, choice, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

/// Host of the place search.
const PLACES: &str = "https://geoapi.qweather.com";
/// Host for free keys.
const FREE: &str = "https://devapi.qweather.com";
/// Host for other keys.
const PAID: &str = "https://api.qweather.com";

static PLACE: Field<Template> =
    Field::template("query", "the place").or("sys.query").by_model("the name of the place");
static WEB_APIKEY: Field<Template> =
    Field::template("web_apikey", "the API key, preferably as `{secret.NAME}`").secret();
static LANG: Field<String> = Field::text("lang", "the language of the answer, as a code").or("zh");
static TYPE: Field<&str> = Field::choice(
    "type",
    "weather",
    &[
        choice("weather", "temperature, wind, rain"),
        choice("indices", "how suitable the day is for sports, washing and so on"),
        choice("airquality", "air quality"),
    ],
    "the kind of data",
);
static USER_TYPE: Field<&str> = Field::choice(
    "user_type",
    "free",
    &[choice("free", ""), choice("paid", "")],
    "the kind of account that the key belongs to",
);
static TIME_PERIOD: Field<&str> = Field::choice(
    "time_period",
    "now",
    &[
        choice("now", "current"),
        choice("3d", "three days"),
        choice("7d", "seven days"),
        choice("10d", "ten days"),
        choice("15d", "fifteen days"),
        choice("30d", "thirty days"),
    ],
    "the period",
)
.shown_when("type", &["weather"]);

/// The values that are shown, by the service's names.
const NAMES: [(&str, &str); 36] = [
    ("date", "/fxDate"),
    ("day", "/date"),
    ("observed at", "/obsTime"),
    ("published at", "/pubTime"),
    ("index", "/name"),
    ("weather", "/text"),
    ("temperature in °C", "/temp"),
    ("feels like °C", "/feelsLike"),
    ("highest °C", "/tempMax"),
    ("lowest °C", "/tempMin"),
    ("by day", "/textDay"),
    ("by night", "/textNight"),
    ("wind from", "/windDir"),
    ("wind by day from", "/windDirDay"),
    ("wind by night from", "/windDirNight"),
    ("wind force", "/windScale"),
    ("wind force by day", "/windScaleDay"),
    ("wind force by night", "/windScaleNight"),
    ("wind in km/h", "/windSpeed"),
    ("humidity in %", "/humidity"),
    ("rain in mm", "/precip"),
    ("pressure in hPa", "/pressure"),
    ("sight in km", "/vis"),
    ("clouds in %", "/cloud"),
    ("UV index", "/uvIndex"),
    ("sunrise", "/sunrise"),
    ("sunset", "/sunset"),
    ("air quality index", "/aqi"),
    ("category", "/category"),
    ("main pollutant", "/primary"),
    ("PM10", "/pm10"),
    ("PM2.5", "/pm2p5"),
    ("NO2", "/no2"),
    ("SO2", "/so2"),
    ("CO", "/co"),
    ("O3", "/o3"),
];

static FACTS: Facts = Facts {
    text: Some("formalized_content"),
    asks: Asks { query: Some(&PLACE), top: None, key: Some(&WEB_APIKEY), base: &BASE_URL },
    ..Facts::keyed("QWeather")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "QWeather",
    role: Role::Step,
    summary: "Returns the weather, the air quality or lifestyle indices of a place.",
    fields: &[
        fields(&[&PLACE, &WEB_APIKEY, &TYPE, &TIME_PERIOD, &LANG, &USER_TYPE]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &[
        OutputSpec::new("formalized_content", "string", "the data as text"),
        OutputSpec::new("json", "object", "the response of the service, with the place"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "qweather", idempotent: true, sources: false }),
    build: |source| component(source, QWeather::of),
};

/// Looks up the place first, then the conditions there.
struct QWeather {
    what: &'static str,
    when: &'static str,
    language: String,
    paid: bool,
}

impl QWeather {
    fn of(params: &mut Params<'_>) -> Self {
        Self {
            what: params.take(&TYPE),
            when: params.take(&TIME_PERIOD),
            language: params.take(&LANG).trim().to_owned(),
            paid: params.take(&USER_TYPE) == "paid",
        }
    }

    fn request(&self, ask: &Ask<'_>, host: &str, path: &str, query: &[(&str, &str)]) -> Result<Step> {
        let mut all = query.to_vec();
        all.extend(Some(("lang", self.language.as_str())).filter(|(_, language)| !language.is_empty()));
        // In a header: addresses appear in logs and errors.
        Ok(Step::Ask(Request::get(ask.url(host, path, &all)?).header("X-QW-Api-Key", ask.key)))
    }
}

impl Service for QWeather {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        match answers {
            [] => {
                // Accounts with their own address have everything there.
                let path = if ask.base.is_some() { "/geo/v2/city/lookup" } else { "/v2/city/lookup" };
                self.request(ask, PLACES, path, &[("location", ask.query), ("number", "1")])
            }
            [places] => {
                let place = text(&place(places)?, "/id");
                let host = if self.paid { PAID } else { FREE };
                match self.what {
                    "indices" => {
                        self.request(ask, host, "/v7/indices/1d", &[("type", "0"), ("location", &place)])
                    }
                    "airquality" => self.request(ask, host, "/v7/air/now", &[("location", &place)]),
                    _ => self.request(
                        ask,
                        host,
                        &format!("/v7/weather/{}", self.when),
                        &[("location", &place)],
                    ),
                }
            }
            [places, weather, ..] => {
                let place = place(places)?;
                let weather = checked(weather)?;
                let days = match weather.get("now") {
                    Some(now) => vec![now.clone()],
                    None => rows_if_any(&weather, "/daily")?.unwrap_or_default(),
                };
                let told: Vec<String> =
                    days.iter().map(|day| lines(day, &NAMES)).filter(|day| !day.is_empty()).collect();
                let names = ["/name", "/adm2", "/adm1", "/country"].map(|name| text(&place, name));
                let text = match told.as_slice() {
                    [] => String::new(),
                    told => format!("{}\n\n{}", names.join(", "), told.join("\n\n")),
                };
                Ok(Step::Text(text, json!({"place": place, "weather": weather})))
            }
        }
    }
}

/// Returns the best match.
fn place(answer: &HttpResponse) -> Result<Json> {
    let answer = checked(answer)?;
    let found = rows_if_any(&answer, "/location")?.unwrap_or_default().into_iter().next();
    found.filter(|place| !text(place, "/id").is_empty()).ok_or_else(nowhere)
}

fn nowhere() -> Error {
    Error::not_found("the place is unknown").help("enter the name of a town, such as `Paris` or `北京`")
}

/// Returns the answer, if its code reports success.
fn checked(answer: &HttpResponse) -> Result<Json> {
    let answer = answer::json(answer)?;
    let (kind, message) = match text(&answer, "/code").as_str() {
        "200" => return Ok(answer),
        "204" | "404" => return Err(nowhere()),
        "400" => (ErrorKind::Invalid, "the request is not valid"),
        "401" => (ErrorKind::Unauthenticated, "the key in `web_apikey` is unknown"),
        "402" => (ErrorKind::QuotaExceeded, "the quota of the key is exhausted"),
        "403" => (ErrorKind::Denied, "the key in `web_apikey` does not allow this request"),
        "429" => (ErrorKind::RateLimited, "too many requests were sent"),
        "" => return Err(answer::garbled("the answer has no code")),
        _ => (ErrorKind::Unavailable, "it failed"),
    };
    Err(Error::new(kind, message).help("check the key, `user_type`, and the permissions of the account"))
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, asked, good, header};
    use serde_json::json;
    use weft_core::ErrorKind;

    fn place() -> serde_json::Value {
        json!({"code": "200", "location": [{"name": "Paris", "id": "2988507", "adm2": "Paris", "adm1": "Île-de-France", "country": "France"}]})
    }

    fn now() -> serde_json::Value {
        json!({"code": "200", "now": {"obsTime": "2024-05-01T10:00+02:00", "temp": "17", "text": "Sunny", "windScale": "2"}})
    }

    #[tokio::test]
    async fn it_fulfils_the_service_tool_contract() {
        let sample = Sample {
            kind: "QWeather",
            params: json!({"web_apikey": "not-a-real-one"}),
            key: Some("web_apikey"),
            answers: &[good(place()), good(now())],
            nothing: &[good(place()), good(json!({"code": "200", "daily": []}))],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn the_place_is_looked_up_first() {
        let params = json!({"web_apikey": "k-1", "lang": "en"});
        let (sent, result) = asked("QWeather", params, &[good(place()), good(now())]).await;
        assert_eq!(
            sent[0].url,
            "https://geoapi.qweather.com/v2/city/lookup?location=Q+%26+A&number=1&lang=en"
        );
        assert_eq!(sent[1].url, "https://devapi.qweather.com/v7/weather/now?location=2988507&lang=en");
        assert_eq!(header(&sent[1], "X-QW-Api-Key"), Some("k-1"));
        let text = "Paris, Paris, Île-de-France, France\n\nobserved at: 2024-05-01T10:00+02:00\nweather: Sunny\n\
                    temperature in °C: 17\nwind force: 2";
        assert_eq!(result.unwrap()["formalized_content"], text);
    }

    #[tokio::test]
    async fn every_query_type_has_its_own_path() {
        let check = async |params: serde_json::Value, url: &str| {
            let mut params = params;
            params["web_apikey"] = json!("k-1");
            let days = json!({"code": "200", "daily": [{"fxDate": "2024-05-01", "tempMax": "20"}]});
            let (sent, _) = asked("QWeather", params, &[good(place()), good(days)]).await;
            assert_eq!(sent[1].url, url);
        };
        let paid = "https://api.qweather.com/v7";
        check(
            json!({"user_type": "paid", "time_period": "7d"}),
            &format!("{paid}/weather/7d?location=2988507&lang=zh"),
        )
        .await;
        check(
            json!({"user_type": "paid", "type": "indices"}),
            &format!("{paid}/indices/1d?type=0&location=2988507&lang=zh"),
        )
        .await;
        check(
            json!({"type": "airquality", "lang": ""}),
            "https://devapi.qweather.com/v7/air/now?location=2988507",
        )
        .await;
    }

    #[tokio::test]
    async fn error_codes_are_explained() {
        let check = async |code: &str, kind: ErrorKind| {
            let answer = good(json!({"code": code}));
            let error = asked("QWeather", json!({"web_apikey": "k-1"}), &[answer]).await.1.unwrap_err();
            assert!(error.kind == kind && error.help.is_some(), "{code}: {}", error.full());
        };
        check("404", ErrorKind::NotFound).await;
        check("401", ErrorKind::Unauthenticated).await;
        check("402", ErrorKind::QuotaExceeded).await;
        check("403", ErrorKind::Denied).await;
        check("429", ErrorKind::RateLimited).await;
        check("500", ErrorKind::Unavailable).await;
        check("", ErrorKind::Garbled).await;
    }
}
