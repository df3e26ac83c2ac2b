//! Selects the reply for a request.

use std::fmt;
use std::sync::Arc;

use weft_core::seam::chat_model::{Author, ChatRequest};
use weft_core::{Error, Result};

use super::{Reply, Script, When};

impl When {
    fn fits(&self, model: &str, request: &ChatRequest) -> bool {
        let asks = |part: &Option<String>, found: &dyn Fn(&str) -> bool| part.as_deref().is_none_or(found);
        let said_by = |author: Author| request.messages.iter().filter(move |m| m.author == author);
        asks(&self.model, &|part| model.contains(part))
            && asks(&self.system, &|part| said_by(Author::System).any(|m| m.text.contains(part)))
            && asks(&self.user, &|part| {
                said_by(Author::User).next_back().is_some_and(|m| m.text.contains(part))
            })
            && asks(&self.tool, &|part| {
                request
                    .messages
                    .iter()
                    .rev()
                    .take_while(|m| m.author == Author::Tool)
                    .any(|m| m.text.contains(part))
            })
    }
}

impl Reply {
    fn fits(&self, model: &str, request: &ChatRequest) -> bool {
        self.when.as_ref().is_none_or(|when| when.fits(model, request))
    }

    fn times_max(&self) -> u32 {
        self.times.unwrap_or(u32::from(self.when.is_none()))
    }
}

type Answerer = Arc<dyn Fn(&ChatRequest, usize) -> Reply + Send + Sync>;

/// Plays a script, keeping track of used-up replies, or calls a function that creates each reply.
#[derive(Debug)]
pub struct Playback(ReplySource);

enum ReplySource {
    Script { script: Script, used: Vec<u32> },
    Function { answerer: Answerer, asked: usize },
}

impl fmt::Debug for ReplySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script { script, used } => f.debug_tuple("Script").field(script).field(used).finish(),
            Self::Function { asked, .. } => f.debug_tuple("Function").field(asked).finish(),
        }
    }
}

impl Playback {
    /// Plays a script from its start.
    pub fn new(script: Script) -> Self {
        let used = vec![0; script.replies.len()];
        Self(ReplySource::Script { script, used })
    }

    /// Creates replies from the request and the number of requests before it; `when` and `times` of these replies are
    /// ignored.
    pub fn from_fn(answerer: impl Fn(&ChatRequest, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self(ReplySource::Function { answerer: Arc::new(answerer), asked: 0 })
    }

    /// The reply for a request.
    ///
    /// # Errors
    /// `Invalid` when no reply of the script matches or all that match are used up.
    pub fn next(&mut self, model: &str, request: &ChatRequest) -> Result<Reply> {
        let (script, used) = match &mut self.0 {
            ReplySource::Script { script, used } => (script, used),
            ReplySource::Function { answerer, asked } => {
                let nth = *asked;
                *asked += 1;
                return Ok(answerer(request, nth));
            }
        };
        for (reply, used) in script.replies.iter().zip(used) {
            let left = reply.times_max() == 0 || *used < reply.times_max();
            if left && reply.fits(model, request) {
                *used = used.saturating_add(1);
                return Ok(reply.clone());
            }
        }
        let last = request.messages.last().map_or("", |m| m.text.as_str());
        // A prompt may be long; its beginning tells which request it is.
        let shown: String = last.chars().take(80).collect();
        Err(Error::invalid(format!("the script has no reply left for `{shown}`"))
            .help("add a reply, or set `times: 0` for one of them"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::seam::chat_model::ChatMessage;

    fn asked(user: &str) -> ChatRequest {
        ChatRequest { messages: vec![ChatMessage::new(Author::User, user)], ..ChatRequest::default() }
    }

    #[test]
    fn replies_are_used_in_order_and_run_out() {
        let script = Script::new()
            .reply(Reply::text("weather").when_user("sun"))
            .reply(Reply::text("first"))
            .reply(Reply::text("second").times(2));
        let mut playback = Playback::new(script);
        let mut said = |user: &str| playback.next("m", &asked(user)).map(|reply| reply.text).ok();
        assert_eq!(said("a"), Some("first".to_owned()));
        assert_eq!(said("sun?"), Some("weather".to_owned()));
        assert_eq!(said("sun!"), Some("weather".to_owned()));
        assert_eq!(said("b"), Some("second".to_owned()));
        assert_eq!(said("c"), Some("second".to_owned()));
        assert_eq!(said("d"), None);
    }

    #[test]
    fn a_reply_can_match_model_system_and_tool_result() {
        let mut request = asked("go");
        request.messages.insert(0, ChatMessage::new(Author::System, "You are terse."));
        request.messages.push(ChatMessage::new(Author::Tool, "sunny"));
        let check = |reply: Reply, fits: bool| assert_eq!(reply.fits("gpt-x", &request), fits, "{reply:?}");
        check(Reply::default().when_model("gpt").when_system("terse").when_tool("sun"), true);
        check(Reply::default().when_model("claude"), false);
        check(Reply::default().when_system("chatty"), false);
        check(Reply::default().when_tool("rain"), false);
    }

    #[test]
    fn a_function_computes_each_reply_from_the_request_and_its_index() {
        let mut playback =
            Playback::from_fn(|request, nth| Reply::text(format!("{} {nth}", request.messages[0].text)));
        let mut said = |user: &str| playback.next("m", &asked(user)).map(|reply| reply.text).unwrap();
        assert_eq!((said("a"), said("b")), ("a 0".to_owned(), "b 1".to_owned()));
    }
}
