//! What the components that use a web service have in common.
//!
//! A service consists of its settings and one pure function: from the question and the answers so far to the next
//! request, or to the result. Everything else is here: keys, addresses, limits, sending, and the sources that can be
//! cited.

pub(crate) mod answer;
mod hit;
pub(crate) mod request;
pub(crate) mod several;
pub(crate) mod table;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod xml;

use std::sync::Arc;
use std::time::Duration;

use url::Url;
use weft_core::citation::Chunk;
use weft_core::component::NeededText;
use weft_core::effect::Delivery;
use weft_core::masking::MASK;
use weft_core::reference::Inputs;
use weft_core::seam::http::{HttpRequest, HttpResponse};
use weft_core::{
    Component, Error, ErrorKind, Finished, Json, NodeContext, NodeSource, OutputSpec, Outputs, ParamProblem,
    Reads, Result, Shape, Template, Value, async_trait,
};

pub(crate) use hit::Hit;
pub(crate) use request::Request;

use crate::params::{Field, Params};
use crate::passages::{chunks, formalized};
use crate::web::{Retries, address_problem, passes, refused};
use hit::chunk;
use request::Accepts;

/// Maximum number of hits in a search.
pub(crate) const HITS_MAX: usize = 100;
/// Maximum number of characters in a hit.
pub(crate) const HIT_MAX: usize = 10_000;
/// Maximum number of bytes in an answer.
// A hundred hits with their texts are less; the answer is stored with the run.
const BODY_MAX: usize = 5 * 1024 * 1024;
/// Maximum number of bytes in a query: services refuse longer ones, each with a different message.
const QUERY_MAX: usize = 100_000;
/// Maximum number of requests for one question.
// The longest sequence is five requests. Otherwise a faulty service implementation would send requests forever, at the
// user's cost.
const REQUESTS_MAX: usize = 10;
/// Minimum length of a key that is masked in answers.
// A shorter key, such as `test`, is a word that answers contain for other reasons; masking it would make them
// unreadable.
const KEY_MIN: usize = 5;
/// Statuses by which services report that the quota is used up.
// 402 is the standard one; the others are inventions of single services.
const USED_UP: [u16; 4] = [402, 432, 433, 456];
/// Time limit for one request of a search.
// An agent asks several services in a round, and the slowest of them determines how long it takes.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(12);

/// The search query.
pub(crate) static QUERY: Field<Template> = Field::template("query", "the search query")
    .or("sys.query")
    .by_model("what to look for: the words that a good page would hold");
/// The number of hits.
pub(crate) static TOP_N: Field<usize> =
    Field::count("top_n", 10, &(1..=HITS_MAX), "the maximum number of results");
/// The key of a service.
pub(crate) static API_KEY: Field<Template> =
    Field::template("api_key", "the API key, preferably as `{secret.NAME}`").secret();
/// An alternative address of the service.
pub(crate) static BASE_URL: Field<Template> = Field::template(
    "base_url",
    "an alternative address of the service, such as that of a proxy in front of it",
);

/// The outputs of a search.
pub(crate) static FOUND: [OutputSpec; 3] = [
    OutputSpec::new("formalized_content", "string", "the results as text for prompts"),
    OutputSpec::new("json", "array", "the results"),
    OutputSpec::new("chunks", "array", "the results as passages"),
];

/// A web service: what to request from it, and how to read its answers. It performs no I/O and never waits.
pub(crate) trait Service: Send + Sync {
    /// Returns what does not depend on a canvas.
    fn facts(&self) -> &'static Facts;

    /// Returns the texts of its settings that may hold references.
    fn texts(&self) -> Vec<&Template> {
        Vec::new()
    }

    /// Whether it needs a key with these settings.
    fn need(&self) -> Need {
        self.facts().need
    }

    /// Whether it needs the current time.
    fn wants_time(&self) -> bool {
        false
    }

    /// Returns what to do after these answers: none at first, then one for each request so far.
    ///
    /// # Errors
    /// When an answer is not valid, or reports a failure of the service.
    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step>;
}

/// Static facts about a service.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Its display name.
    pub name: &'static str,
    /// Whether it needs a key.
    pub need: Need,
    /// Time limit for one request.
    pub time_limit: Duration,
    /// Maximum number of characters in a hit.
    pub hit_max: usize,
    /// The output for the text, if the service returns no hits.
    pub text: Option<&'static str>,
    /// Remedy for a missing address, if the service is self-hosted.
    pub server: Option<&'static str>,
    /// Remedy for a refusal without an explanation, besides asking later or in another way.
    pub hint: &'static str,
    /// The parameters that every service has in one form or another.
    pub asks: Asks,
}

impl Facts {
    /// Returns the facts of a search that needs no key.
    pub(crate) const fn free(name: &'static str) -> Self {
        let asks = Asks { query: Some(&QUERY), top: Some(&TOP_N), key: None, base: &BASE_URL };
        Self {
            name,
            need: Need::Never,
            time_limit: TIME_LIMIT,
            hit_max: HIT_MAX,
            text: None,
            server: None,
            hint: "use another service",
            asks,
        }
    }

    /// Returns the facts of a search that requires a key.
    pub(crate) const fn keyed(name: &'static str) -> Self {
        let free = Self::free(name);
        Self { need: Need::Always, asks: Asks { key: Some(&API_KEY), ..free.asks }, ..free }
    }

    /// Returns the facts of a search with an optional key.
    pub(crate) const fn free_or_keyed(name: &'static str) -> Self {
        Self { need: Need::Never, ..Self::keyed(name) }
    }
}

/// Whether a service needs a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It takes none, or works without it.
    Never,
    /// It does not work without one.
    Always,
}

/// The fields for what every service has in one form or another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asks {
    /// The query; with an empty query no request is sent.
    pub query: Option<&'static Field<Template>>,
    /// The number of hits.
    pub top: Option<&'static Field<usize>>,
    /// The key.
    pub key: Option<&'static Field<Template>>,
    /// The alternative address.
    pub base: &'static Field<Template>,
}

/// One question to a service.
pub(crate) struct Ask<'a> {
    /// The query.
    pub query: &'a str,
    /// The key; empty if there is none.
    pub key: &'a str,
    /// The address that the canvas sets in place of the service's own.
    pub base: Option<&'a str>,
    /// The parameter that sets the address.
    pub base_name: &'static str,
    /// Maximum number of hits.
    pub top: usize,
    /// The values of references.
    pub inputs: &'a Inputs,
    /// The time in milliseconds since 1970, for services that need it.
    pub now_ms: i64,
}

impl Ask<'_> {
    /// Returns an address of the service: below `host`, or below the address that the canvas sets in its place.
    ///
    /// # Errors
    /// `Invalid` when it is not a valid address.
    pub(crate) fn url(&self, host: &str, path: &str, query: &[(&str, &str)]) -> Result<Url> {
        let base = self.base.unwrap_or(host).trim_end_matches('/');
        let mut url = Url::parse(&format!("{base}{path}")).map_err(|cause| {
            Error::invalid(format!("`{}` is not an address", self.base_name))
                .because(cause)
                .help("enter a complete address, such as `https://service.example/path`")
        })?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Send another request.
    Ask(Request),
    /// The last answer, whatever its status, contains nothing that the service can read.
    Refused,
    /// These hits were found.
    Hits(Vec<Hit>),
    /// The service returned a text, and the same as data.
    Text(String, Json),
}

/// Builds the component of a service.
///
/// # Errors
/// Problems with the parameters.
pub(crate) fn component<S: Service + 'static>(
    source: &NodeSource<'_>,
    of: impl FnOnce(&mut Params<'_>) -> S,
) -> Result<Arc<dyn Component>, Vec<ParamProblem>> {
    let mut params = Params::of(source);
    let service = Box::new(of(&mut params));
    let asks = service.facts().asks;
    let asking = ServiceNode::of(&mut params, asks, service);
    params.finish(asking)
}

/// A node that uses a service.
pub(crate) struct ServiceNode {
    service: Box<dyn Service>,
    query: Option<Template>,
    key: Option<(&'static str, Template)>,
    base: (&'static str, Template),
    top: usize,
    retries: Retries,
    warnings: Vec<ParamProblem>,
}

impl ServiceNode {
    /// Reads the parameters that every service has.
    pub(crate) fn of(params: &mut Params<'_>, asks: Asks, service: Box<dyn Service>) -> Self {
        Self {
            service,
            query: asks.query.map(|field| params.take(field)),
            key: asks.key.map(|field| (field.name(), params.take(field))),
            base: (asks.base.name(), params.take(asks.base)),
            top: asks.top.map_or(HITS_MAX, |field| params.take(field)),
            // A question has no side effects, whatever method carries it.
            retries: Retries::of(params).idempotent(),
            warnings: params.warnings(),
        }
    }

    /// Returns the requirements for sending a request: the address of a server, and a key.
    fn needs(&self) -> Vec<NeededText> {
        let needed = |name: &str, text: &Template, message: String, help: String| NeededText {
            text: text.clone(),
            problem: ParamProblem::new(format!("/{name}"), message).help(help),
        };
        let server = self.service.facts().server.map(|help| {
            let message = "is missing, so there is no server to query".to_owned();
            needed(self.base.0, &self.base.1, message, help.to_owned())
        });
        let key = self.key.as_ref().filter(|_| self.service.need() == Need::Always).map(|(name, key)| {
            let message = format!("is missing, and {} requires a key", self.service.facts().name);
            needed(name, key, message, self.remedy())
        });
        server.into_iter().chain(key).collect()
    }

    fn remedy(&self) -> String {
        let (name, service) = (self.key.as_ref().map_or("", |(name, _)| name), self.service.facts().name);
        format!(
            "set `{name}` to a key of {service}: store it with `weft secret set NAME` and enter `{{secret.NAME}}` here"
        )
    }

    fn texts(&self) -> impl Iterator<Item = &Template> {
        let own = self.query.iter().chain(self.key.iter().map(|(_, key)| key)).chain([&self.base.1]);
        own.chain(self.service.texts())
    }

    /// Asks the service and reads its answer.
    ///
    /// # Errors
    /// `Unauthenticated` without a required key; errors of the requests; `Garbled` for an answer that cannot be read.
    pub(crate) async fn ask(&self, ctx: &NodeContext) -> Result<Outputs> {
        let query = self.query.as_ref().map(|query| query.render(&ctx.inputs)).transpose()?;
        let query = query.map(|query| query.trim().to_owned());
        // Some services return arbitrary hits for an empty query, and each counts it as a request.
        if query.as_deref() == Some("") {
            return Ok(self.outputs(ctx, ServiceResult::default()));
        }
        let gave = self.gave(ctx, query.unwrap_or_default()).await?;
        Ok(self.outputs(ctx, gave))
    }

    /// Returns the hits for a question other than that of the canvas, as sources that can be cited.
    ///
    /// # Errors
    /// As [`ServiceNode::ask`].
    pub(crate) async fn look_for(&self, ctx: &NodeContext, query: &str) -> Result<Vec<Chunk>> {
        let gave = self.gave(ctx, query.to_owned()).await?;
        Ok(self.cited(&gave))
    }

    async fn gave(&self, ctx: &NodeContext, query: String) -> Result<ServiceResult> {
        let facts = self.service.facts();
        let rendered = |text: &Template| text.render(&ctx.inputs).map(|text| text.trim().to_owned());
        if query.len() > QUERY_MAX {
            let message = format!("the query has more than {QUERY_MAX} bytes");
            return Err(Error::invalid(message).help("search for a few words"));
        }
        let key = self.key.as_ref().map(|(_, key)| rendered(key)).transpose()?.unwrap_or_default();
        // The key may be a reference, so that only now is it known to be empty.
        if key.is_empty() && self.service.need() == Need::Always {
            let message = format!("{} requires a key, and none is set", facts.name);
            return Err(Error::new(ErrorKind::Unauthenticated, message).help(self.remedy()));
        }
        let base = Some(rendered(&self.base.1)?).filter(|base| !base.is_empty());
        if let (Some(help), None) = (facts.server, &base) {
            return Err(Error::invalid(format!("{}: there is no server to query", facts.name)).help(help));
        }
        let now_ms = if self.service.wants_time() {
            // Repeated work gets the time of the first attempt.
            ctx.effect("clock", Delivery::Idempotent, async { Ok(ctx.run.seams.clock.now_ms()) }).await?.0
        } else {
            0
        };
        let ask = Ask {
            query: &query,
            key: &key,
            base: base.as_deref(),
            base_name: self.base.0,
            top: self.top,
            inputs: &ctx.inputs,
            now_ms,
        };
        self.answers(ctx, &ask).await
    }

    fn cited(&self, gave: &ServiceResult) -> Vec<Chunk> {
        gave.hits.iter().filter_map(|hit| chunk(hit, self.service.facts().hit_max)).collect()
    }

    async fn answers(&self, ctx: &NodeContext, ask: &Ask<'_>) -> Result<ServiceResult> {
        let mut answers: Vec<HttpResponse> = Vec::new();
        loop {
            let request = match self.service.step(ask, &answers).map_err(|error| self.told(error))? {
                Step::Ask(request) if answers.len() < REQUESTS_MAX => request,
                // A faulty service implementation that never finishes: the canvas cannot do anything about it.
                Step::Ask(_) => return Err(Error::internal("a service is queried without end")),
                Step::Refused => {
                    let none = || Error::internal("the call was refused before any request was sent");
                    return Err(answers.last().map_or_else(none, |answer| self.refused(answer, ask.key)));
                }
                Step::Hits(hits) => {
                    // A page contains as many hits as the service chooses.
                    let hits = hits.into_iter().take(self.top).collect();
                    return Ok(ServiceResult { hits, ..ServiceResult::default() });
                }
                Step::Text(text, json) => return Ok(ServiceResult { text, json, hits: Vec::new() }),
            };
            let accepts = request.accepts;
            let request = HttpRequest {
                time_limit: self.service.facts().time_limit,
                body_max: BODY_MAX,
                ..request.into()
            };
            let mut answer = self.retries.send(ctx, request).await?;
            // If a server repeats the key it was sent, the key must not get into outputs and errors.
            if ask.key.len() >= KEY_MIN && answer.body.contains(ask.key) {
                answer.body = answer.body.replace(ask.key, MASK);
            }
            if accepts == Accepts::Success && answer.status >= 300 {
                return Err(self.refused(&answer, ask.key));
            }
            answers.push(answer);
        }
    }

    /// Converts a failed answer to a request with this key into an error.
    fn refused(&self, answer: &HttpResponse, key: &str) -> Error {
        let mut error = self.told(refused(answer));
        if USED_UP.contains(&answer.status) {
            error.kind = ErrorKind::QuotaExceeded;
        }
        match (error.kind, &self.key) {
            // Many services allow some requests without a key, and then no more.
            (ErrorKind::Unauthenticated | ErrorKind::Denied, Some(_)) if key.is_empty() => {
                error.help(self.remedy())
            }
            (ErrorKind::Unauthenticated | ErrorKind::Denied, Some((name, _))) => {
                // The service's message refers to its own pages, and not to the canvas.
                error.help(format!("check that `{name}` contains a valid key with access to this service"))
            }
            (ErrorKind::RateLimited, _) => error.help("try later, or less often"),
            _ if answer.status < 400 => {
                error.help("the service has moved: set `base_url` to its new address")
            }
            _ if error.help.is_none() => {
                // An invalid request gets the same answer at any time.
                let first = if passes(answer.status) { "try again later" } else { "change the request" };
                error.help(format!("{first}, or {}", self.service.facts().hint))
            }
            _ => error,
        }
    }

    /// Prefixes an error with the name of the service.
    fn told(&self, error: Error) -> Error {
        Error { message: format!("{}: {}", self.service.facts().name, error.message), ..error }
    }

    fn outputs(&self, ctx: &NodeContext, gave: ServiceResult) -> Outputs {
        let facts = self.service.facts();
        if let Some(name) = facts.text {
            let mut outputs = Outputs::of(name, Value::text(gave.text));
            outputs.set("json", gave.json);
            return outputs;
        }
        ctx.run.citations.note_search();
        let found = ctx.run.citations.number(self.cited(&gave));
        let rows: Vec<Json> = gave.hits.into_iter().map(|hit| hit.row).collect();
        let mut outputs = Outputs::of("formalized_content", Value::text(formalized(&found)));
        outputs.set("json", Json::from(rows));
        outputs.set("chunks", chunks(&found));
        outputs
    }
}

/// The final result of a service.
#[derive(Default)]
struct ServiceResult {
    hits: Vec<Hit>,
    text: String,
    json: Json,
}

#[async_trait]
impl Component for ServiceNode {
    fn shape(&self) -> Shape {
        let (lacking, needs): (Vec<_>, Vec<_>) =
            self.needs().into_iter().partition(|needed| needed.text.source().trim().is_empty());
        let lacks = lacking.into_iter().next().map(|needed| needed.problem);
        let wrong = address_problem(self.base.0, &self.base.1);
        Shape {
            reads: Reads::always(self.texts().flat_map(Template::references).cloned()),
            main_output: self.service.facts().text.unwrap_or("formalized_content"),
            warnings: self.warnings.iter().chain(&lacks).chain(&wrong).cloned().collect(),
            secrets: self.key.iter().flat_map(|(_, key)| key.references()).cloned().collect(),
            lacks,
            needs,
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let asked = self.ask(ctx).await;
        // A failed search is a search as well: a citation mark in the answer leads to no source.
        if asked.is_err() && self.service.facts().text.is_none() {
            ctx.run.citations.note_search();
        }
        asked.map(Finished::from)
    }
}
