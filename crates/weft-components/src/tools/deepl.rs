//! The DeepL component: translates a text.

use serde_json::json;
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, OutputSpec, Result, Role, Template, ToolSpec};

use super::search::answer::{self, rows, text};
use super::search::{Ask, Asks, BASE_URL, Facts, Request, Service, Step, component};
use crate::params::{Field, FieldGroup, Params, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

/// The host for paid keys.
const PAID: &str = "https://api.deepl.com";
/// The host for free keys, which end with a mark.
const FREE: &str = "https://api-free.deepl.com";
const FREE_MARK: &str = ":fx";

static TEXT: Field<Template> =
    Field::template("query", "the text to translate").or("sys.query").by_model("the text to translate");
static AUTH_KEY: Field<Template> =
    Field::template("auth_key", "the API key, preferably as `{secret.NAME}`").secret();
// The defaults in the editors of such canvases.
static SOURCE_LANG: Field<String> =
    Field::text("source_lang", "the language of the text, as a code; detected by the service if empty")
        .or("ZH");
static TARGET_LANG: Field<String> =
    Field::text("target_lang", "the language to translate into, as a code").or("EN-GB");

static FACTS: Facts = Facts {
    text: Some("formalized_content"),
    asks: Asks { query: Some(&TEXT), top: None, key: Some(&AUTH_KEY), base: &BASE_URL },
    ..Facts::keyed("DeepL")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "DeepL",
    role: Role::Step,
    summary: "Translates a text with DeepL.",
    fields: &[
        fields(&[&TEXT, &AUTH_KEY, &SOURCE_LANG, &TARGET_LANG]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &[
        OutputSpec::new("formalized_content", "string", "the translation"),
        OutputSpec::new("json", "array", "the response of the service"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "deepl_translate", idempotent: true, sources: false }),
    build: |source| component(source, DeepL::of),
};

struct DeepL {
    from: String,
    to: String,
}

impl DeepL {
    fn of(params: &mut Params<'_>) -> Self {
        let mut code = |field: &Field<String>| params.take(field).trim().to_uppercase();
        Self { from: code(&SOURCE_LANG), to: code(&TARGET_LANG) }
    }
}

impl Service for DeepL {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [answer, ..] = answers else {
            let host = if ask.key.ends_with(FREE_MARK) { FREE } else { PAID };
            let mut body = json!({"text": [ask.query], "target_lang": self.to});
            if !self.from.is_empty() {
                body["source_lang"] = self.from.as_str().into();
            }
            let request = Request::post(ask.url(host, "/v2/translate", &[])?, body);
            return Ok(Step::Ask(request.header("Authorization", format!("DeepL-Auth-Key {}", ask.key))));
        };
        let parts = rows(&answer::json(answer)?, "/translations")?;
        let translated = parts.iter().map(|part| text(part, "/text")).collect::<Vec<_>>().join("\n");
        Ok(Step::Text(translated, parts.into()))
    }
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, answered, asked, good, header};
    use serde_json::json;
    use weft_core::ErrorKind;
    use weft_core::seam::http::HttpBody;

    fn translated() -> serde_json::Value {
        json!({"translations": [{"detected_source_language": "DE", "text": "Good morning"}]})
    }

    #[tokio::test]
    async fn it_fulfils_the_service_tool_contract() {
        let sample = Sample {
            kind: "DeepL",
            params: json!({"auth_key": "not-a-real-one"}),
            key: Some("auth_key"),
            answers: &[good(translated())],
            nothing: &[good(json!({"translations": []}))],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn the_key_selects_the_server() {
        let check = async |key: &str, url: &str| {
            let params = json!({"auth_key": key, "source_lang": "", "target_lang": "en-us"});
            let (sent, result) = asked("DeepL", params, &[good(translated())]).await;
            assert_eq!(sent[0].url, url);
            assert_eq!(header(&sent[0], "Authorization"), Some(&*format!("DeepL-Auth-Key {key}")));
            assert_eq!(sent[0].body, HttpBody::Json(json!({"text": ["Q & A"], "target_lang": "EN-US"})));
            assert_eq!(result.unwrap()["formalized_content"], "Good morning");
        };
        check("k-1", "https://api.deepl.com/v2/translate").await;
        check("k-1:fx", "https://api-free.deepl.com/v2/translate").await;
        let params = json!({"auth_key": "k-1"});
        let error = asked("DeepL", params, &[answered(456, "Quota exceeded")]).await.1.unwrap_err();
        assert_eq!(error.kind, ErrorKind::QuotaExceeded);
    }
}
