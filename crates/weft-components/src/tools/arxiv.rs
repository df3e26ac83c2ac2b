//! The ArXiv component: searches the preprints of arXiv and returns their abstracts.

use serde_json::json;
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Error, ErrorKind, Result, Role, Template, ToolSpec};

use super::search::answer::garbled;
use super::search::request::AGENT;
use super::search::xml::{self, XmlElement};
use super::search::{Ask, Asks, BASE_URL, FOUND, Facts, HITS_MAX, Hit, Request, Service, Step, component};
use crate::params::{Field, FieldGroup, Params, choice, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

const HOST: &str = "https://export.arxiv.org";

static QUERY: Field<Template> = Field::template("query", "what to look for").or("sys.query").by_model(
    "what to look for: a few words in English; `ti:`, `au:` and `abs:` before a word look for it in titles, names and abstracts",
);
static TOP_N: Field<usize> = Field::count("top_n", 12, &(1..=HITS_MAX), "the maximum number of papers");
static SORT_BY: Field<&str> = Field::choice(
    "sort_by",
    "submittedDate",
    &[
        choice("submittedDate", "newest first"),
        choice("lastUpdatedDate", "most recently updated first"),
        choice("relevance", "most relevant first"),
    ],
    "the order of the papers",
);

static FACTS: Facts = Facts {
    asks: Asks { query: Some(&QUERY), top: Some(&TOP_N), key: None, base: &BASE_URL },
    ..Facts::free("arXiv")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "ArXiv",
    role: Role::Step,
    summary: "Searches the preprints on arXiv and returns their abstracts as citable sources.",
    fields: &[
        fields(&[&QUERY, &TOP_N, &SORT_BY]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "arxiv_search", idempotent: true, sources: true }),
    build: |source| component(source, ArXiv::of),
};

/// A search in arXiv.
pub(super) struct ArXiv {
    order: &'static str,
}

impl ArXiv {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        Self { order: params.take(&SORT_BY) }
    }
}

impl Service for ArXiv {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [answer, ..] = answers else {
            let max = ask.top.to_string();
            let query = [
                ("search_query", ask.query),
                ("start", "0"),
                ("max_results", &max),
                ("sortBy", self.order),
                ("sortOrder", "descending"),
            ];
            let url = ask.url(HOST, "/api/query", &query)?;
            return Ok(Step::Ask(Request::get(url).header("User-Agent", AGENT)));
        };
        let document = xml::parse(&answer.body)?;
        let feed = document.at("feed").ok_or_else(|| garbled("the answer is not a feed"))?;
        feed.children("entry").map(hit).collect::<Result<_>>().map(Step::Hits)
    }
}

fn hit(entry: &XmlElement) -> Result<Hit> {
    let (title, content) = (entry.text_at("title"), entry.text_at("summary"));
    let id = entry.text_at("id");
    // Errors are returned as an entry of the feed.
    if id.contains("/api/errors") {
        return Err(Error::new(ErrorKind::Invalid, format!("it says: {content}")).help("simplify the query"));
    }
    let authors: Vec<String> = entry.children("author").map(|author| author.text_at("name")).collect();
    let mut links = entry.children("link");
    let pdf =
        links.find(|link| link.attribute("title") == Some("pdf")).and_then(|link| link.attribute("href"));
    let url = pdf.map_or_else(|| id.clone(), str::to_owned);
    let published = entry.text_at("published");
    let row = json!({"id": id, "title": title, "summary": content, "authors": authors, "published": published, "pdf_url": url});
    Ok(Hit { url, title, content, score: None, row })
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, asked, good};
    use serde_json::json;
    use weft_core::ErrorKind;

    const FEED: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
        <feed xmlns="http://www.w3.org/2005/Atom"><title>ArXiv Query</title>
        <opensearch:totalResults xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">1</opensearch:totalResults>
        <entry><id>http://arxiv.org/abs/2401.00001v1</id><published>2024-01-01T00:00:00Z</published>
          <title>On A
            &amp; B</title><summary>  We show
            that A is B. </summary><author><name>Ada L.</name></author><author><name>Grace H.</name></author>
          <link href="http://arxiv.org/abs/2401.00001v1" rel="alternate" type="text/html"/>
          <link title="pdf" href="http://arxiv.org/pdf/2401.00001v1" rel="related" type="application/pdf"/></entry></feed>"#;

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let sample = Sample {
            kind: "ArXiv",
            params: json!({}),
            key: None,
            answers: &[good(FEED)],
            nothing: &[good("<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>none</title></feed>")],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn a_paper_has_its_abstract_and_url() {
        let (sent, result) = asked("ArXiv", json!({"sort_by": "relevance"}), &[good(FEED)]).await;
        assert_eq!(
            sent[0].url,
            "https://export.arxiv.org/api/query?search_query=Q+%26+A&start=0&max_results=12&sortBy=relevance&sortOrder=descending"
        );
        let text = "ID: 0\nTitle: On A & B\nURL: http://arxiv.org/pdf/2401.00001v1\nWe show that A is B.";
        let result = result.unwrap();
        assert_eq!(result["formalized_content"], text);
        assert_eq!(result["json"][0]["authors"], json!(["Ada L.", "Grace H."]));
        let wrong = "<feed><entry><id>http://arxiv.org/api/errors#x</id><summary>malformed query</summary></entry></feed>";
        let error = asked("ArXiv", json!({}), &[good(wrong)]).await.1.unwrap_err();
        assert!(error.kind == ErrorKind::Invalid && error.message.contains("malformed"), "{}", error.full());
    }
}
