//! What every service has to do, as checks that its tests call.

use serde_json::{Value as Json, json};
use weft_core::seam::http::{HttpRequest, HttpResponse};
use weft_core::{ErrorKind, Result};

use crate::testing::{Node, Setting, Stage};

/// An answer that says that all went well.
pub(crate) fn good(body: impl ToString) -> HttpResponse {
    answered(200, body)
}

/// An answer with this status.
#[expect(clippy::needless_pass_by_value, reason = "bodies are written where they are used")]
pub(crate) fn answered(status: u16, body: impl ToString) -> HttpResponse {
    HttpResponse { status, headers: Vec::new(), body: body.to_string() }
}

/// What is sent and what comes of it when the user's question is `Q & A`.
pub(crate) async fn asked(
    kind: &'static str,
    params: Json,
    answers: &[HttpResponse],
) -> (Vec<HttpRequest>, Result<Json>) {
    let node = Node::new(kind, params);
    let component = node.build();
    let stage = Stage::new(&node, &*component, Setting { query: "Q & A", ..Setting::default() });
    *stage.outside.pages.lock().unwrap() = answers.iter().cloned().map(Ok).collect();
    let result = component.run(&stage.ctx).await.map(|finished| json!(finished.outputs));
    let sent = stage.outside.sent.lock().unwrap().clone();
    (sent, result)
}

/// A header of a request.
pub(crate) fn header<'r>(request: &'r HttpRequest, name: &str) -> Option<&'r str> {
    request.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
}

/// A service and what it answers.
pub(crate) struct Sample<'s> {
    pub kind: &'static str,
    /// Parameters with which it works.
    pub params: Json,
    /// The parameter that holds its key, where it does nothing without one.
    pub key: Option<&'static str>,
    /// Answers that lead to something.
    pub answers: &'s [HttpResponse],
    /// Answers that hold nothing.
    pub nothing: &'s [HttpResponse],
}

impl Sample<'_> {
    fn with(&self, params: &Json) -> Json {
        let mut all = self.params.clone();
        for (name, value) in params.as_object().unwrap() {
            all[name] = value.clone();
        }
        all
    }

    /// Everything that holds for all services. The last answer of the good ones is the one that is found broken.
    pub(crate) async fn holds(&self) {
        self.finds_and_finds_nothing().await;
        self.survives_what_makes_no_sense().await;
        self.takes_no_failure_for_nothing().await;
        self.says_what_is_refused().await;
        self.asks_elsewhere().await;
        if let Some(key) = self.key {
            self.needs_its_key(key).await;
        }
    }

    async fn finds_and_finds_nothing(&self) {
        let kind = self.kind;
        let (sent, found) = asked(kind, self.params.clone(), self.answers).await;
        let found = found.unwrap();
        assert_eq!(sent.len(), self.answers.len(), "{kind}");
        let node = Node::new(kind, self.params.clone());
        let main = node.build().shape().main_output;
        assert!(!found[main].as_str().unwrap().is_empty(), "{kind}: {found}");
        for (name, _) in found.as_object().unwrap() {
            let spec = crate::catalog::find(kind).unwrap();
            assert!(spec.outputs.iter().any(|output| output.name == name), "{kind}: {name}");
        }
        for (place, chunk) in found["chunks"].as_array().into_iter().flatten().enumerate() {
            assert_eq!(chunk["number"], place, "{kind}");
            assert!(chunk["url"].as_str().unwrap().starts_with("http"), "{kind}");
            assert!(!chunk["document_name"].as_str().unwrap().is_empty(), "{kind}");
        }
        let (_, nothing) = asked(kind, self.params.clone(), self.nothing).await;
        assert_eq!(nothing.unwrap()[main], "", "{kind}");
        let spec = crate::catalog::find(kind).unwrap();
        assert!(spec.tool.as_ref().unwrap().idempotent, "{kind}");
    }

    /// However an answer is broken, the node gives less or fails; it never breaks.
    async fn survives_what_makes_no_sense(&self) {
        let kind = self.kind;
        for place in 0..self.answers.len() {
            let with = |body: &str| {
                let mut answers = self.answers.to_vec();
                answers[place].body = body.to_owned();
                answers
            };
            let whole = &self.answers[place].body;
            for part in 1..12 {
                let cut = (0..=whole.len() * part / 12).rev().find(|at| whole.is_char_boundary(*at)).unwrap();
                if let (_, Err(error)) = asked(kind, self.params.clone(), &with(&whole[..cut])).await {
                    assert!(error.kind != ErrorKind::Internal, "{kind}: {}", error.full());
                }
            }
            for body in ["[[1]]", "{\"results\": 1}", "null", "\"", "<a"] {
                if let (_, Err(error)) = asked(kind, self.params.clone(), &with(body)).await {
                    assert!(error.kind != ErrorKind::Internal && error.help.is_some(), "{kind} {body}");
                }
            }
        }
    }

    /// That a service failed may be told with the status of a success.
    async fn takes_no_failure_for_nothing(&self) {
        let mut answers = self.answers.to_vec();
        let last = answers.len() - 1;
        answers[last] = good(json!({"error": {"code": 500, "message": "the index is gone"}}));
        let (_, result) = asked(self.kind, self.params.clone(), &answers).await;
        let error = result.expect_err(self.kind);
        assert!(error.kind != ErrorKind::Internal && error.help.is_some(), "{}: {}", self.kind, error.full());
    }

    async fn says_what_is_refused(&self) {
        let key = self.key.and_then(|key| self.params[key].as_str());
        for (status, expected) in [
            (302, ErrorKind::Invalid),
            (401, ErrorKind::Unauthenticated),
            (403, ErrorKind::Denied),
            (429, ErrorKind::RateLimited),
            (503, ErrorKind::Unavailable),
        ] {
            let mut answers = self.answers.to_vec();
            let last = answers.len() - 1;
            answers[last] = answered(status, format!("no access with {}", key.unwrap_or("nothing")));
            let error = asked(self.kind, self.params.clone(), &answers).await.1.unwrap_err();
            assert!(error.kind == expected && error.help.is_some(), "{}: {}", self.kind, error.full());
            assert!(key.is_none_or(|key| !error.full().contains(key)), "{}", error.full());
            // Who has to change a key is told where it is set.
            let name = self.key.filter(|_| matches!(status, 401 | 403)).map(|name| format!("`{name}`"));
            assert!(name.is_none_or(|name| error.full().contains(&name)), "{}", error.full());
        }
    }

    async fn asks_elsewhere(&self) {
        let declared = crate::catalog::find(self.kind).unwrap();
        let elsewhere = weft_core::field::specs(declared.fields).any(|spec| spec.name == "base_url");
        if !elsewhere {
            return;
        }
        let arguments = declared.arguments().unwrap();
        assert!(arguments["properties"].get("base_url").is_none(), "{}", self.kind);
        let params = self.with(&json!({"base_url": "http://proxy.example/below/"}));
        for request in asked(self.kind, params, self.answers).await.0 {
            assert!(request.url.starts_with("http://proxy.example/below/"), "{}", request.url);
        }
        let error = asked(self.kind, self.with(&json!({"base_url": "nowhere"})), &[]).await.1.unwrap_err();
        assert!(error.kind == ErrorKind::Invalid && error.full().contains("base_url"), "{}", error.full());
    }

    async fn needs_its_key(&self, name: &str) {
        let value = self.params[name].as_str().unwrap();
        let (_, found) = asked(self.kind, self.params.clone(), self.answers).await;
        assert!(!found.unwrap().to_string().contains(value), "{}", self.kind);
        for key in ["", " ", "{Agent:A@none}"] {
            let params = self.with(&json!({name: key}));
            let shape = Node::new(self.kind, params.clone()).build().shape();
            let literal = key.trim().is_empty();
            assert_eq!(shape.lacks.is_some(), literal, "{}", self.kind);
            assert_eq!(shape.warnings.iter().any(|one| one.pointer == format!("/{name}")), literal);
            assert_eq!(shape.secrets.len(), usize::from(!literal), "{}", self.kind);
            let (sent, result) = asked(self.kind, params, &[]).await;
            let error = result.unwrap_err();
            assert_eq!((sent.len(), error.kind), (0, ErrorKind::Unauthenticated), "{}", self.kind);
            assert!(error.help.unwrap().contains(&format!("`{name}`")), "{}", self.kind);
        }
        let spec = crate::catalog::find(self.kind).unwrap();
        let field = weft_core::field::specs(spec.fields).find(|field| field.name == name).unwrap();
        assert!(field.secret && field.by_model.is_none(), "{}", self.kind);
    }
}
