//! The GoogleScholar component: searches papers with Google Scholar, using its page for browsers. There is no interface
//! for programs, and frequent requests are refused.

use serde_json::json;
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Error, ErrorKind, Result, Role, ToolSpec};

use super::search::answer;
use super::search::request::BROWSER;
use super::search::{
    Ask, Asks, BASE_URL, FOUND, Facts, HITS_MAX, Hit, QUERY, Request, Service, Step, component,
};
use crate::params::{Field, FieldGroup, Params, choice, fields};
use crate::web::elements::{PagePart, with_class, with_tag};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

const HOST: &str = "https://scholar.google.com";
/// Maximum number of hits on a page.
// A page shows no more, whatever is requested.
const PAGE_MAX: usize = 20;
/// The element that contains the papers; present even if there are none.
const FRAME: &str = "gs_res_ccl";
/// Texts of a page that checks whether the visitor is a person.
const RIDDLES: [&str; 3] = ["gs_captcha", "/sorry/", "unusual traffic"];

static TOP_N: Field<usize> = Field::count("top_n", 12, &(1..=HITS_MAX), "the maximum number of papers");
static SORT_BY: Field<&str> = Field::choice(
    "sort_by",
    "relevance",
    &[choice("relevance", "most relevant first"), choice("date", "papers of the last year, newest first")],
    "the order of the papers",
);
static YEAR_LOW: Field<Option<usize>> =
    Field::optional_count("year_low", &(0..=9_999), "the earliest year of publication");
static YEAR_HIGH: Field<Option<usize>> =
    Field::optional_count("year_high", &(0..=9_999), "the latest year of publication");
static PATENTS: Field<bool> = Field::flag("patents", "whether to include patents").on_by_default();

static FACTS: Facts = Facts {
    asks: Asks { query: Some(&QUERY), top: Some(&TOP_N), key: None, base: &BASE_URL },
    ..Facts::free("Google Scholar")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "GoogleScholar",
    role: Role::Step,
    summary: "Searches papers with Google Scholar and returns the results as citable sources.",
    fields: &[
        fields(&[&QUERY, &TOP_N, &SORT_BY, &YEAR_LOW, &YEAR_HIGH, &PATENTS]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "google_scholar_search", idempotent: true, sources: true }),
    build: |source| component(source, GoogleScholar::of),
};

/// A search with Google Scholar.
pub(super) struct GoogleScholar {
    newest: bool,
    years: [(&'static str, Option<usize>); 2],
    patents: bool,
}

impl GoogleScholar {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        Self {
            newest: params.take(&SORT_BY) == "date",
            years: [("as_ylo", params.take(&YEAR_LOW)), ("as_yhi", params.take(&YEAR_HIGH))],
            patents: params.take(&PATENTS),
        }
    }
}

impl Service for GoogleScholar {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [page, ..] = answers else {
            let count = ask.top.min(PAGE_MAX).to_string();
            let kinds = if self.patents { "0,33" } else { "1,33" };
            let mut query = vec![("q", ask.query), ("hl", "en"), ("num", &count), ("as_sdt", kinds)];
            // Editors write 0 for a year that was not chosen.
            let years =
                self.years.map(|(name, year)| (name, year.filter(|year| *year > 0).map(|y| y.to_string())));
            query.extend(years.iter().filter_map(|(name, year)| Some((*name, year.as_deref()?))));
            query.extend(self.newest.then_some(("scisbd", "1")));
            let url = ask.url(HOST, "/scholar", &query)?;
            // A refusal is recognised by its redirect.
            return Ok(Step::Ask(Request::get(url).header("User-Agent", BROWSER).any_status()));
        };
        let place = page.headers.iter().find(|(name, _)| name == "location").map(|(_, place)| place.as_str());
        let riddle = |text: &str| RIDDLES.iter().any(|riddle| text.contains(riddle));
        if riddle(place.unwrap_or_default()) || riddle(&page.body) {
            return Err(Error::new(ErrorKind::RateLimited, "it asks for proof that a human is searching")
                .help("try later and less often, or search papers with ArXiv or PubMed"));
        }
        if page.status >= 300 {
            return Ok(Step::Refused);
        }
        let hits: Vec<Hit> = with_class(&page.body, "gs_r").iter().filter_map(hit).collect();
        // A page without the element that contains papers is not a result.
        if hits.is_empty() && !page.body.contains(FRAME) {
            return Err(answer::garbled("the page is not a page of papers"));
        }
        Ok(Step::Hits(hits))
    }
}

fn hit(paper: &PagePart<'_>) -> Option<Hit> {
    let heading = with_class(paper.inner(), "gs_rt").into_iter().next()?;
    let link = with_tag(heading.inner(), "a").into_iter().next()?;
    let (title, url) = (link.text(), link.attribute("href")?);
    let part = |class: &str| with_class(paper.inner(), class).first().map(PagePart::text).unwrap_or_default();
    let (who, summary) = (part("gs_a"), part("gs_rs"));
    let row = json!({"title": title, "url": url, "publication": who, "abstract": summary});
    Some(Hit { url, title, content: format!("{who}\n{summary}").trim().to_owned(), score: None, row })
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, answered, asked, good};
    use serde_json::json;
    use weft_core::ErrorKind;

    const PAGE: &str = r#"<div id="gs_res_ccl_mid">
        <div class="gs_r gs_or gs_scl" data-cid="x"><div class="gs_ggs"><a href="https://a.example/full.pdf">[PDF]</a></div>
        <div class="gs_ri"><h3 class="gs_rt"><span class="gs_ctc">[HTML]</span> <a href="https://a.example/p?a=1&amp;b=2">On <b>A</b></a></h3>
        <div class="gs_a">A Lovelace - Journal, 2021 - a.example</div><div class="gs_rs">We show &hellip; <br>that A.</div></div></div>
        <div class="gs_r"><h3 class="gs_rt">[CITATION] No link</h3></div></div>"#;

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let sample = Sample {
            kind: "GoogleScholar",
            params: json!({}),
            key: None,
            answers: &[good(PAGE)],
            nothing: &[good("<div id=gs_res_ccl>did not match any articles</div>")],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn papers_are_requested_by_year_and_order() {
        let params = json!({"year_low": 2020, "year_high": 0, "sort_by": "date", "patents": false});
        let (sent, result) = asked("GoogleScholar", params, &[good(PAGE)]).await;
        assert_eq!(
            sent[0].url,
            "https://scholar.google.com/scholar?q=Q+%26+A&hl=en&num=12&as_sdt=1%2C33&as_ylo=2020&scisbd=1"
        );
        let text = "ID: 0\nTitle: On A\nURL: https://a.example/p?a=1&b=2\nA Lovelace - Journal, 2021 - a.example\nWe show … that A.";
        assert_eq!(result.unwrap()["formalized_content"], text);
    }

    #[tokio::test]
    async fn an_unexpected_page_is_not_reported_as_no_papers() {
        for page in ["", "<p>Welcome</p>", "[]"] {
            let error = asked("GoogleScholar", json!({}), &[good(page)]).await.1.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Garbled, "{page}");
        }
    }

    #[tokio::test]
    async fn a_robot_check_is_reported() {
        let mut away = answered(302, "");
        away.headers.push(("location".to_owned(), "https://www.google.com/sorry/index".to_owned()));
        for page in [away, answered(429, "unusual traffic"), good("<form id=gs_captcha_f>")] {
            let error = asked("GoogleScholar", json!({}), &[page]).await.1.unwrap_err();
            assert_eq!(error.kind, ErrorKind::RateLimited, "{}", error.full());
        }
    }
}
