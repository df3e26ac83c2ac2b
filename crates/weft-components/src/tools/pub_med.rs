//! The PubMed component: searches the literature of medicine and biology, and returns titles, abstracts and sources.

use serde_json::json;
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Result, Role, Template, ToolSpec};

use super::search::answer::{self, garbled};
use super::search::request::AGENT;
use super::search::xml::{self, XmlElement};
use super::search::{Ask, Asks, BASE_URL, FOUND, Facts, HITS_MAX, Hit, Request, Service, Step, component};
use crate::params::{Field, FieldGroup, Params, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

const HOST: &str = "https://eutils.ncbi.nlm.nih.gov";
/// Maximum number of authors of a paper that are named.
// Some papers have three thousand, which are of no use to a model.
const AUTHORS_MAX: usize = 20;

static QUERY: Field<Template> = Field::template("query", "the search query")
    .or("sys.query")
    .by_model("what to look for: a few words in English, also with AND, OR and field tags such as [Title]");
static TOP_N: Field<usize> = Field::count("top_n", 12, &(1..=HITS_MAX), "the maximum number of papers");
static EMAIL: Field<String> =
    Field::text("email", "an optional address at which the service can report excessive use");

static FACTS: Facts = Facts {
    asks: Asks { query: Some(&QUERY), top: Some(&TOP_N), key: None, base: &BASE_URL },
    ..Facts::free("PubMed")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "PubMed",
    role: Role::Step,
    summary: "Searches medical and biological literature in PubMed and returns abstracts as citable sources.",
    fields: &[
        fields(&[&QUERY, &TOP_N, &EMAIL]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "pubmed_search", idempotent: true, sources: true }),
    build: |source| component(source, PubMed::of),
};

/// A search in PubMed: first for the numbers of papers, then for the papers.
pub(super) struct PubMed {
    email: String,
}

impl PubMed {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        Self { email: params.take(&EMAIL).trim().to_owned() }
    }

    fn request(&self, ask: &Ask<'_>, path: &str, query: &[(&str, &str)]) -> Result<Step> {
        // The service asks programs to identify themselves, so that it can contact someone before it blocks an address.
        let mut all = vec![("db", "pubmed"), ("tool", "weft")];
        all.extend(Some(("email", self.email.as_str())).filter(|(_, email)| !email.is_empty()));
        all.extend(query);
        let url = ask.url(HOST, &format!("/entrez/eutils/{path}.fcgi"), &all)?;
        Ok(Step::Ask(Request::get(url).header("User-Agent", AGENT)))
    }
}

impl Service for PubMed {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        match answers {
            [] => {
                let max = ask.top.to_string();
                let query =
                    [("term", ask.query), ("retmax", &max), ("retmode", "json"), ("sort", "relevance")];
                self.request(ask, "esearch", &query)
            }
            [found] => {
                let ids = ids(found)?;
                if ids.is_empty() {
                    return Ok(Step::Hits(Vec::new()));
                }
                self.request(ask, "efetch", &[("id", &ids.join(",")), ("retmode", "xml")])
            }
            [_, papers, ..] => {
                let document = xml::parse(&papers.body)?;
                let papers = document
                    .at("PubmedArticleSet")
                    .ok_or_else(|| garbled("the answer contains no papers"))?;
                Ok(Step::Hits(papers.children("PubmedArticle").map(hit).collect()))
            }
        }
    }
}

/// Returns the numbers that were found.
fn ids(found: &HttpResponse) -> Result<Vec<String>> {
    let found = answer::json(found)?;
    let ids = found.pointer("/esearchresult/idlist").and_then(weft_core::Json::as_array);
    let ids = ids.ok_or_else(|| garbled("the answer contains no list of papers"))?;
    // Digits only, because they go into the next request.
    let number = |id: &&str| !id.is_empty() && id.chars().all(|c| c.is_ascii_digit());
    Ok(ids
        .iter()
        .filter_map(weft_core::Json::as_str)
        .filter(number)
        .take(HITS_MAX)
        .map(str::to_owned)
        .collect())
}

fn hit(paper: &XmlElement) -> Hit {
    let number = paper.text_at("MedlineCitation/PMID");
    let none = XmlElement::default();
    let article = paper.at("MedlineCitation/Article").unwrap_or(&none);
    let title = article.text_at("ArticleTitle");
    let parts = article.at("Abstract").into_iter().flat_map(|parts| parts.children("AbstractText"));
    let labelled = parts.map(|part| match part.attribute("Label") {
        Some(label) => format!("{label}: {}", part.text()),
        None => part.text(),
    });
    let summary = labelled.collect::<Vec<_>>().join("\n");
    let authors = authors(article);
    let journal = article.text_at("Journal/Title");
    let year = article.text_at("Journal/JournalIssue/PubDate/Year");
    let ids = paper.at("PubmedData/ArticleIdList").into_iter().flat_map(|ids| ids.children("ArticleId"));
    let doi = ids
        .filter(|id| id.attribute("IdType") == Some("doi"))
        .map(XmlElement::text)
        .next()
        .unwrap_or_default();
    let url = format!("https://pubmed.ncbi.nlm.nih.gov/{number}/");
    let row = json!({"pmid": number, "title": title, "abstract": summary, "authors": authors, "journal": journal,
        "year": year, "doi": doi, "url": url});
    let names = [
        ("Authors", "/authors"),
        ("Journal", "/journal"),
        ("Year", "/year"),
        ("DOI", "/doi"),
        ("Abstract", "/abstract"),
    ];
    Hit { url, title, content: answer::lines(&row, &names), score: None, row }
}

fn authors(article: &XmlElement) -> Vec<String> {
    let authors = article.at("AuthorList").into_iter().flat_map(|all| all.children("Author"));
    let name = |author: &XmlElement| {
        let person = format!("{} {}", author.text_at("ForeName"), author.text_at("LastName"));
        Some(person.trim().to_owned())
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| author.text_at("CollectiveName"))
    };
    authors.map(name).take(AUTHORS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, asked, good};
    use serde_json::json;

    const PAPERS: &str = r#"<?xml version="1.0"?><!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle//EN" "x.dtd">
        <PubmedArticleSet><PubmedArticle><MedlineCitation><PMID Version="1">12345</PMID><Article>
        <Journal><Title>J. of A</Title><JournalIssue><PubDate><Year>2023</Year></PubDate></JournalIssue></Journal>
        <ArticleTitle>A <i>in vivo</i>.</ArticleTitle><Abstract><AbstractText Label="AIM">Why.</AbstractText>
        <AbstractText Label="RESULTS">p &lt; 0.05.</AbstractText></Abstract>
        <AuthorList><Author><LastName>L.</LastName><ForeName>Ada</ForeName></Author>
        <Author><CollectiveName>The Group</CollectiveName></Author></AuthorList></Article></MedlineCitation>
        <PubmedData><ArticleIdList><ArticleId IdType="pubmed">12345</ArticleId><ArticleId IdType="doi">10.1/x</ArticleId>
        </ArticleIdList></PubmedData></PubmedArticle></PubmedArticleSet>"#;

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let found = good(json!({"esearchresult": {"count": "1", "idlist": ["12345"]}}));
        let sample = Sample {
            kind: "PubMed",
            params: json!({}),
            key: None,
            answers: &[found, good(PAPERS)],
            nothing: &[good(json!({"esearchresult": {"count": "0", "idlist": []}}))],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn papers_are_searched_and_then_fetched() {
        let found = good(json!({"esearchresult": {"idlist": ["12345", "6", "no number&x=1"]}}));
        let params = json!({"email": "ada@example.org", "top_n": 2});
        let (sent, result) = asked("PubMed", params, &[found, good(PAPERS)]).await;
        let eutils = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils";
        let who = "db=pubmed&tool=weft&email=ada%40example.org";
        assert_eq!(
            sent[0].url,
            format!("{eutils}/esearch.fcgi?{who}&term=Q+%26+A&retmax=2&retmode=json&sort=relevance")
        );
        assert_eq!(sent[1].url, format!("{eutils}/efetch.fcgi?{who}&id=12345%2C6&retmode=xml"));
        let text = "ID: 0\nTitle: A in vivo.\nURL: https://pubmed.ncbi.nlm.nih.gov/12345/\nAuthors: Ada L., The Group\n\
                    Journal: J. of A\nYear: 2023\nDOI: 10.1/x\nAbstract: AIM: Why.\nRESULTS: p < 0.05.";
        assert_eq!(result.unwrap()["formalized_content"], text);
    }
}
