//! Answers of chat assistants in the format of their routes: pieces of the answer, and the sources with the last of
//! them.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use weft_core::{CanvasId, Entry, Error, Record, RunId, SessionId};

use crate::answer::Answer;
use crate::dialect::write_json;
use crate::error::code;
use crate::frames::{CUT_OFF, GOES_ON};
use crate::sse::{Frames, Prefix, put_frame, put_text};
use crate::wire::chat_question::reference;

/// Whether an answer includes its sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoting {
    /// It includes the sources.
    Sources,
    /// It does not.
    Nothing,
}

/// How the pieces of an answer are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceMode {
    /// Each piece once; reasoning is between two frames that mark it.
    New,
    /// The whole answer so far in each frame, with reasoning in tags, as older clients expect.
    SoFar,
}

/// State shared by all frames of an answer.
#[derive(Clone, Debug)]
pub(crate) struct ChatAnswer {
    /// The run id, which is also the id of the message.
    pub run: RunId,
    /// The session id.
    pub session: SessionId,
    /// The assistant.
    pub chat: CanvasId,
    /// Its instructions.
    pub prompt: String,
    /// Whether to include sources.
    pub quoting: Quoting,
    /// Start of the run, in milliseconds since 1970.
    pub started_ms: i64,
}

impl ChatAnswer {
    fn data(&self, answer: &str) -> Json {
        json!({
            "answer": answer,
            "reference": {},
            "audio_binary": null,
            "id": self.run,
            "session_id": self.session,
            "chat_id": self.chat,
        })
    }

    /// The answer as a single object.
    pub(crate) fn whole(&self, answer: &Answer) -> Json {
        self.ended(&answer.text(), answer)
    }

    /// The data of the last frame.
    fn ended(&self, text: &str, answer: &Answer) -> Json {
        let mut data = self.data(text);
        if self.quoting == Quoting::Sources {
            data["reference"] = reference(&answer.sources);
        }
        data["prompt"] = self.prompt.as_str().into();
        data["created_at"] = self.started_ms.div_euclid(1000).into();
        data
    }
}

/// The frame that reports a failure.
pub(crate) fn failed(reason: &str) -> Json {
    let data = json!({"answer": format!("**ERROR**: {reason}"), "reference": []});
    json!({"code": code::FAILED, "message": reason, "data": data})
}

/// Appends a frame.
pub(crate) fn put(out: &mut Vec<u8>, id: Option<u64>, data: &Json) {
    put_frame(out, Prefix::Tight, id, |out| {
        write_json(&json!({"code": 0, "message": "", "data": data}), out);
        true
    });
}

/// Appends the frame that ends every stream.
pub(crate) fn put_end(out: &mut Vec<u8>) {
    put_text(out, Prefix::Tight, r#"{"code":0,"message":"","data":true}"#);
}

/// The frames of one answer.
pub(crate) struct ChatFrames {
    about: ChatAnswer,
    pieces: PieceMode,
    answer: Answer,
    /// The text so far, with reasoning in tags.
    text: String,
}

impl ChatFrames {
    /// Creates the frames of this answer.
    pub(crate) fn new(about: ChatAnswer, pieces: PieceMode) -> Self {
        Self { about, pieces, answer: Answer::default(), text: String::new() }
    }

    /// Returns the data of an entry's frame, if it has one.
    fn shown(&mut self, record: &Record) -> Option<Json> {
        let (piece, mark) = match record {
            Record::Said { text, .. } => (&**text, None),
            Record::ThinkingStarted { .. } => ("<think>", Some("start_to_think")),
            Record::ThinkingEnded { .. } => ("</think>", Some("end_to_think")),
            Record::MessageReset { .. } => {
                // Only affects the whole text; pieces that were sent cannot be taken back.
                self.text = self.answer.text();
                return None;
            }
            _ => return None,
        };
        let mut data = match self.pieces {
            PieceMode::SoFar => {
                self.text.push_str(piece);
                self.about.data(&self.text)
            }
            PieceMode::New => self.about.data(if mark.is_some() { "" } else { piece }),
        };
        data["final"] = false.into();
        if let Some(mark) = mark.filter(|_| self.pieces == PieceMode::New) {
            data[mark] = true.into();
        }
        Some(data)
    }
}

impl Frames for ChatFrames {
    fn write(&mut self, entry: &Arc<Entry>, out: &mut Vec<u8>) {
        if let Record::RunStarted { .. } = &entry.record {
            self.about.started_ms = entry.at_ms;
        }
        // Before the frame is built: after a reset it contains what is left of the answer.
        self.answer.learn(entry);
        if let Some(data) = self.shown(&entry.record) {
            put(out, entry.event, &data);
        }
    }

    fn finish(&mut self, cut: Option<&Error>, out: &mut Vec<u8>) {
        let whole = cut.is_none() && self.answer.end.is_some();
        let elsewhere = cut.map(|_| GOES_ON);
        let failure = if whole { self.answer.failure() } else { elsewhere.or(Some(CUT_OFF)) };
        match failure {
            Some(reason) => put_frame(out, Prefix::Tight, None, |out| {
                write_json(&failed(reason), out);
                true
            }),
            None => {
                // Clients of single pieces already have all of them; the last frame adds the sources.
                let text = match self.pieces {
                    PieceMode::New => "",
                    PieceMode::SoFar => &self.text,
                };
                let mut data = self.about.ended(text, &self.answer);
                data["final"] = true.into();
                put(out, None, &data);
            }
        }
        put_end(out);
    }
}

#[cfg(test)]
mod tests {
    use weft_core::Ending;
    use weft_core::citation::{Chunk, Cited};
    use weft_core::seam::chat_model::Usage;

    use super::*;

    fn frames(pieces: PieceMode, records: &[Record]) -> Vec<Json> {
        let about = ChatAnswer {
            run: "r".into(),
            session: "s".into(),
            chat: "c".into(),
            prompt: "P".into(),
            quoting: Quoting::Sources,
            started_ms: 0,
        };
        let (mut frames, mut out) = (ChatFrames::new(about, pieces), Vec::new());
        for record in records {
            let entry = Entry { seq: 1, event: None, at_ms: 5_000, record: record.clone() };
            frames.write(&Arc::new(entry), &mut out);
        }
        frames.finish(None, &mut out);
        let text = String::from_utf8(out).unwrap();
        text.split("\n\n")
            .filter_map(|frame| serde_json::from_str(frame.strip_prefix("data:")?).ok())
            .collect()
    }

    fn end(ending: Ending, error: Option<&str>) -> Record {
        Record::RunFinished {
            ending,
            outputs: Arc::default(),
            error: error.map(Into::into),
            usage: Usage::default(),
            limited: Vec::new(),
            uses: Vec::new(),
            spent: Default::default(),
            elapsed: 0.0,
        }
    }

    fn told() -> Vec<Record> {
        let said = |text: &str| Record::Said { activation: 1, node: "M".into(), text: text.into() };
        let chunk = |id: &str| Chunk {
            id: id.into(),
            document_id: "d".into(),
            document_name: "d.md".into(),
            ..Chunk::default()
        };
        let sources = (0..).zip(["a", "b"]).map(|(number, id)| Cited { number, chunk: Arc::new(chunk(id)) });
        vec![
            Record::Sourced { sources: sources.collect() },
            Record::ThinkingStarted { activation: 1, node: "M".into() },
            said("hm"),
            Record::ThinkingEnded { activation: 1, node: "M".into() },
            said("Hel"),
            said("lo"),
            end(Ending::Succeeded, None),
        ]
    }

    #[test]
    fn each_piece_is_sent_once_and_the_sources_at_the_end() {
        let frames = frames(PieceMode::New, &told());
        let delta = json!({"answer": "Hel", "reference": {}, "audio_binary": null, "id": "r", "session_id": "s",
            "chat_id": "c", "final": false});
        assert_eq!(frames[3], json!({"code": 0, "message": "", "data": delta}));
        let answers: Vec<&str> = frames.iter().filter_map(|frame| frame["data"]["answer"].as_str()).collect();
        assert_eq!(answers, ["", "hm", "", "Hel", "lo", ""]);
        assert_eq!(
            (&frames[0]["data"]["start_to_think"], &frames[2]["data"]["end_to_think"]),
            (&json!(true), &json!(true))
        );
        let last = &frames[5]["data"];
        assert_eq!(
            (&last["final"], &last["prompt"], &last["created_at"]),
            (&json!(true), &json!("P"), &json!(0))
        );
        assert_eq!(last["reference"]["chunks"][1]["id"], "b");
        assert_eq!(last["reference"]["doc_aggs"], json!([{"doc_id": "d", "doc_name": "d.md", "count": 2}]));
        assert_eq!((&last["reference"]["total"], &frames[6]["data"]), (&json!(2), &json!(true)));
    }

    #[test]
    fn old_clients_get_the_whole_answer_so_far_in_each_frame() {
        let frames = frames(PieceMode::SoFar, &told());
        let answers: Vec<&str> = frames.iter().filter_map(|frame| frame["data"]["answer"].as_str()).collect();
        let whole = "<think>hm</think>Hello";
        assert_eq!(answers[3..], ["<think>hm</think>Hel", whole, whole]);
        assert!(frames[0]["data"].get("start_to_think").is_none());
    }

    #[test]
    fn a_failure_is_sent_as_a_frame_and_ends_the_stream() {
        let check = |records: &[Record], reason: &str| {
            let frames = frames(PieceMode::New, records);
            let data = json!({"answer": format!("**ERROR**: {reason}"), "reference": []});
            assert_eq!(frames[0], json!({"code": 500, "message": reason, "data": data}));
            assert_eq!(frames[1], json!({"code": 0, "message": "", "data": true}));
        };
        check(&[end(Ending::Failed, Some("it broke"))], "it broke");
        check(&[], CUT_OFF);
    }
}
