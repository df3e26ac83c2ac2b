//! Splits the question into points ("claims") that are investigated in parallel. The results for each are reported,
//! the report is checked against the passages (by the program and by a model), and each point is settled, searched
//! for again, or left open.

use std::sync::LazyLock;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weft_core::citation::marks;
use weft_core::{Json, NodeContext, Result};

use super::effort::{Bars, Phase};
use super::known::plain;
use super::tree::structured;
use super::{Course, QueryResults, Research, SourceKind, StopReason, ends_the_work};
use crate::window::cut;

const CLAIMS: &str = include_str!("../prompts/research_claims.md");
const REPORT: &str = include_str!("../prompts/research_report.md");
const VERDICT: &str = include_str!("../prompts/research_verdict.md");

/// A round that raises the average confidence of the points by less than this is the last one.
const GAIN: f64 = 0.05;
/// The factor for a report that says more than its passages.
const UNGROUNDED: f64 = 0.5;
/// The passages of one point may fill one part in this many of the model's window.
// The rest is for the instructions, the report and the judge's answer.
const WINDOW_SHARE: usize = 2;

/// A point of a question and its outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Claim {
    /// The point, as a question.
    pub claim: String,
    /// What the passages say about it, with their numbers.
    pub report: String,
    /// Whether it is settled.
    pub verified: bool,
    /// The confidence in the report, from 0 to 1.
    pub confidence: f64,
    /// The numbers of the passages that its report cites.
    pub evidence_ids: Vec<u32>,
    /// What is still open.
    pub gaps: Vec<String>,
    /// Whether its report may be used, with a caveat when it is not settled.
    #[serde(skip)]
    pub likely: bool,
}

impl Claim {
    /// Whether its report may be used.
    pub fn is_likely(&self) -> bool {
        self.verified || (self.likely && !self.report.is_empty())
    }
}

static PLANNED: LazyLock<Json> = LazyLock::new(|| {
    let entry = json!({
        "type": "object",
        "properties": {"question": {"type": "string"}, "query": {"type": "string"}},
        "required": ["question", "query"],
    });
    json!({"type": "object", "properties": {"claims": {"type": "array", "items": entry}}, "required": ["claims"]})
});
static REPORTED: LazyLock<Json> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "report": {"type": "string"},
            "confidence": {"type": "number"},
            "gaps": {"type": "array", "items": {"type": "string"}},
            "next_query": {"type": "string"},
            "discovered": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["report", "confidence"],
    })
});
static JUDGED: LazyLock<Json> = LazyLock::new(|| {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    json!({
        "type": "object",
        "properties": {
            "is_sufficient": {"type": "boolean"},
            "confidence": {"type": "number"},
            "missing": texts,
            "contradictions": texts,
        },
        "required": ["is_sufficient", "confidence"],
    })
});

#[derive(Debug, Deserialize)]
struct Planned {
    claims: Vec<PlannedPoint>,
}

#[derive(Clone, Debug, Deserialize)]
struct PlannedPoint {
    question: String,
    query: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct PointReport {
    report: String,
    confidence: f64,
    #[serde(default)]
    gaps: Vec<String>,
    #[serde(default)]
    next_query: String,
    /// Further points, found while reporting, as questions.
    #[serde(default)]
    discovered: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct PointVerdict {
    is_sufficient: bool,
    confidence: f64,
    #[serde(default)]
    missing: Vec<String>,
    #[serde(default)]
    contradictions: Vec<String>,
}

/// A point that is being investigated.
struct OpenPoint {
    claim: Claim,
    query: String,
    queries: Vec<String>,
    passages: String,
    /// The sources that are searched in this round.
    sources: Vec<SourceKind>,
    over: bool,
}

impl OpenPoint {
    fn new(point: PlannedPoint) -> Self {
        Self {
            claim: Claim { claim: point.question, ..Claim::default() },
            query: point.query,
            queries: Vec::new(),
            passages: String::new(),
            sources: Vec::new(),
            over: false,
        }
    }
}

pub(super) async fn run(course: &mut Course<'_, '_>, question: &str) -> Result<StopReason> {
    let limits = course.research.limits;
    let mut works = planned(course, question).await?;
    let there = course.research.kinds();
    let (mut before, mut late) = (0.0, false);
    // One round more than the depth: the first search is not one of the rounds in which points are investigated
    // again.
    for nth in 0..=limits.depth {
        let sources = Phase::of(nth, limits.depth + 1).sources(&there);
        let open = open(course, &mut works, &sources);
        if open.is_empty() {
            break;
        }
        if course.is_late().await? {
            late = true;
            break;
        }
        round(course, &mut works, &open).await?;
        let sure = mean(&works);
        // A round that searches more sources than before may still gain something.
        let asks_more = Phase::of(nth + 1, limits.depth + 1).sources(&there).len() > sources.len();
        if sure - before < GAIN && before > 0.0 && !asks_more {
            break;
        }
        before = sure;
    }
    let claims: Vec<Claim> = works.into_iter().map(|work| work.claim).collect();
    let open = claims.iter().filter(|claim| !claim.verified);
    course.findings.gaps = open.flat_map(gaps).collect();
    course.findings.claims = claims;
    Ok(match (late, course.findings.gaps.is_empty()) {
        (true, _) => StopReason::Time,
        (false, true) => StopReason::Enough,
        (false, false) => StopReason::Limit,
    })
}

/// The points that are investigated in a round with these sources.
fn open(course: &Course<'_, '_>, works: &mut [OpenPoint], sources: &[SourceKind]) -> Vec<usize> {
    // Counted by the queries made, so that points which are answered by known results cost nothing.
    let mut left = course.research.limits.nodes.saturating_sub(course.findings.queries.len());
    let mut open = Vec::new();
    for (place, work) in works.iter_mut().enumerate().filter(|(_, work)| !work.over) {
        // A query that was already made for this point, to the same sources, finds nothing new.
        let again =
            work.sources == sources && work.queries.iter().any(|made| plain(made) == plain(&work.query));
        work.over = again;
        if !again && left > 0 {
            left -= 1;
            work.sources = sources.to_vec();
            open.push(place);
        }
    }
    open
}

fn gaps(claim: &Claim) -> Vec<String> {
    if claim.gaps.is_empty() { vec![claim.claim.clone()] } else { claim.gaps.clone() }
}

#[expect(clippy::cast_precision_loss, reason = "there are few points")]
fn mean(works: &[OpenPoint]) -> f64 {
    works.iter().map(|work| work.claim.confidence).sum::<f64>() / works.len().max(1) as f64
}

/// The points of a question; the question itself when the model names none.
async fn planned(course: &mut Course<'_, '_>, question: &str) -> Result<Vec<OpenPoint>> {
    let research = course.research;
    let most = research.limits.queries.max(1);
    let instructions = CLAIMS.replace("{claims}", &most.to_string());
    let given = format!("The question: {question}");
    let ctx = research.inside("plan");
    let mut points = match structured::<Planned>(research, &ctx, &instructions, &given, &PLANNED).await {
        Ok(planned) => planned.claims,
        Err(error) if ends_the_work(error.kind) => return Err(error),
        Err(error) => {
            course.findings.notes.push(format!("the question could not be decomposed: {}", error.full()));
            Vec::new()
        }
    };
    points.retain(|point| !point.question.trim().is_empty() && !point.query.trim().is_empty());
    // A model may name more than it was asked for.
    points.truncate(most);
    if points.is_empty() {
        points.push(PlannedPoint { question: question.to_owned(), query: question.to_owned() });
    }
    for (place, point) in points.iter().enumerate() {
        course.say(&format!("{}. {}\n", place + 1, point.question));
    }
    course.say("\n");
    Ok(points.into_iter().map(OpenPoint::new).collect())
}

/// Searches once for each open point, unless there are results of nearly the same query, and has the results reported
/// and judged.
async fn round(course: &mut Course<'_, '_>, works: &mut Vec<OpenPoint>, open: &[usize]) -> Result<()> {
    let research = course.research;
    let base = course.looks;
    course.looks += open.len();
    let answers = answered(course, works, open).await?;
    // Read-only while the reports are written in parallel; they are added afterwards, in the order of the points.
    let seen: &[OpenPoint] = works;
    let each = open.iter().enumerate().map(|(nth, place)| async move {
        let ctx = research.inside(&format!("{}-claim", base + nth));
        looked_at(research, &ctx, &seen[*place]).await
    });
    let results = join_all(each).await;
    let mut discovered = Vec::new();
    for ((place, answer), result) in open.iter().zip(answers).zip(results) {
        let work = &mut works[*place];
        let summary = match result {
            Ok((report, verdict)) => {
                discovered.extend(report.discovered.iter().cloned());
                work.settle(report, &verdict, research.limits.effort.bars())
            }
            Err(error) if ends_the_work(error.kind) => return Err(error),
            Err(error) => {
                // The remedy is for the operator, and not for the readers of the reasoning.
                let summary = "what was found could not be reported".to_owned();
                course.findings.notes.push(format!("{summary}: {}", error.full()));
                // A second report on the same passages would most likely fail again.
                work.over = true;
                summary
            }
        };
        course.say(&format!("{}: {summary}\n\n", work.claim.claim));
        if let Some(answer) = answer {
            course.keep(&answer, summary);
        }
    }
    if research.limits.effort.discovers() {
        discover(course, works, discovered);
    }
    Ok(())
}

/// Gives each open point the results of its query. The answer is `None` if nearly the same query was made before.
async fn answered(
    course: &mut Course<'_, '_>,
    works: &mut [OpenPoint],
    open: &[usize],
) -> Result<Vec<Option<QueryResults>>> {
    let tokens_max = course.research.model.info().window / WINDOW_SHARE;
    let Some(sources) = open.first().map(|place| works[*place].sources.clone()) else {
        return Ok(Vec::new());
    };
    let mut asked = Vec::new();
    for place in open {
        let work = &mut works[*place];
        let known = course.known.like(&work.query, &sources, &work.queries).map(str::to_owned);
        let Some(text) = known else {
            asked.push(*place);
            continue;
        };
        course.say(&format!("“{}” is nearly what was looked for before\n\n", work.query));
        work.take(&text, tokens_max);
    }
    // When two points make the same query at the same time, it is made once.
    let mut queries: Vec<String> = Vec::new();
    let mut firsts = Vec::new();
    for place in &asked {
        let query = &works[*place].query;
        if !queries.iter().any(|other| plain(other) == plain(query)) {
            course.say(&format!("Searching for “{query}”\n\n"));
            queries.push(query.clone());
            firsts.push(*place);
        }
    }
    let found = course.search(&queries, &sources).await?;
    for (query, answer) in queries.iter().zip(&found) {
        course.known.note(query, &sources, &answer.text(tokens_max));
    }
    for place in asked {
        let work = &mut works[place];
        let found = queries.iter().zip(&found).find(|(query, _)| plain(query) == plain(&work.query));
        work.take(&found.map(|(_, answer)| answer.text(tokens_max)).unwrap_or_default(), tokens_max);
    }
    let mut found = found.into_iter();
    Ok(open.iter().map(|place| firsts.contains(place).then(|| found.next()).flatten()).collect())
}

/// Adds points named in reports, up to the limit.
fn discover(course: &mut Course<'_, '_>, works: &mut Vec<OpenPoint>, questions: Vec<String>) {
    for question in questions {
        let question = question.trim().to_owned();
        let known = works.iter().any(|work| work.claim.claim == question);
        if question.is_empty() || known || works.len() >= course.research.limits.queries {
            continue;
        }
        course.say(&format!("To look into as well: {question}\n\n"));
        works.push(OpenPoint::new(PlannedPoint { query: question.clone(), question }));
    }
}

/// The report on a point and the judge's verdict on it.
async fn looked_at(
    research: &Research<'_>,
    ctx: &NodeContext,
    work: &OpenPoint,
) -> Result<(PointReport, PointVerdict)> {
    if work.passages.is_empty() {
        return Ok((PointReport::default(), PointVerdict::default()));
    }
    let point = &work.claim.claim;
    let given = format!(
        "The point: {point}\n\nQueries so far:\n- {}\n\nThe passages:\n{}",
        work.queries.join("\n- "),
        work.passages
    );
    let report: PointReport = structured(research, ctx, REPORT, &given, &REPORTED).await?;
    if !research.limits.effort.is_judged() {
        let verdict =
            PointVerdict { is_sufficient: true, confidence: report.confidence, ..PointVerdict::default() };
        return Ok((report, verdict));
    }
    let given =
        format!("The point: {point}\n\nThe report: {}\n\nThe passages:\n{}", report.report, work.passages);
    let verdict = structured(research, ctx, VERDICT, &given, &JUDGED).await?;
    Ok((report, verdict))
}

impl OpenPoint {
    fn take(&mut self, new: &str, tokens_max: usize) {
        self.queries.push(self.query.clone());
        let all = if self.passages.is_empty() {
            new.to_owned()
        } else {
            format!("{new}\n------\n{}", self.passages)
        };
        // The latest results come first, so that they stay when there is not enough room.
        self.passages = cut(&all, tokens_max).to_owned();
    }

    /// Takes a report and its verdict; returns the message about it.
    fn settle(&mut self, report: PointReport, verdict: &PointVerdict, bars: Bars) -> String {
        let unsupported = unsupported(&report.report, &self.passages);
        let judged = sure(verdict.confidence);
        // The lower confidence of the two: a report rates itself too highly.
        let mut confidence = sure(report.confidence).min(judged);
        if !unsupported.is_empty() {
            confidence *= UNGROUNDED;
        }
        let mut gaps: Vec<String> = report.gaps.iter().chain(&verdict.missing).cloned().collect();
        gaps.extend(verdict.contradictions.iter().map(|what| format!("contradiction: {what}")));
        gaps.extend(unsupported.iter().map(|number| format!("`{number}` stands in no passage")));
        gaps.retain(|gap| !gap.trim().is_empty());
        gaps.dedup();
        let settled = verdict.is_sufficient
            && confidence >= bars.sure
            && judged >= bars.floor
            && verdict.contradictions.is_empty()
            && unsupported.is_empty();
        // A later report with less confidence does not replace an earlier one.
        if settled || confidence >= self.claim.confidence {
            self.claim.evidence_ids = cited_in(&report.report);
            self.claim.report = report.report;
            self.claim.confidence = confidence;
            self.claim.likely = confidence >= bars.likely;
        }
        (self.claim.verified, self.over) = (settled, settled);
        self.claim.gaps = if settled { Vec::new() } else { gaps };
        let asked = Some(report.next_query).filter(|query| !query.trim().is_empty());
        let missing = || self.claim.gaps.first().map(|gap| format!("{} {gap}", self.claim.claim));
        self.query = asked.or_else(missing).unwrap_or_else(|| self.claim.claim.clone());
        if settled {
            format!("settled ({confidence:.2})")
        } else {
            format!("open ({confidence:.2}): {}", self.claim.gaps.join("; "))
        }
    }
}

/// A confidence from 0 to 1. Models may write 95 for 0.95, and JSON may contain numbers beyond a double.
fn sure(value: f64) -> f64 {
    match value {
        value if !value.is_finite() => 0.0,
        percent if percent > 1.0 => (percent / 100.0).min(1.0),
        value => value.max(0.0),
    }
}

/// The numbers in a report that occur in none of its passages. Numbers are what models invent most easily, and they
/// can be compared without understanding the text.
fn unsupported(report: &str, passages: &str) -> Vec<String> {
    let known: Vec<String> = numbers(passages);
    let mut missing = numbers(&without_marks(report));
    missing.retain(|number| !known.contains(number));
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// The numbers with at least two digits in a text, without thousands separators.
fn numbers(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut number = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let inside = matches!(letter, '.' | ',') && !number.is_empty();
        if letter.is_ascii_digit() {
            number.push(letter);
        } else if inside && letters.peek().is_some_and(char::is_ascii_digit) {
            if letter == '.' {
                number.push(letter);
            }
        } else if !number.is_empty() {
            found.push(std::mem::take(&mut number));
        }
    }
    found.push(number);
    // Single digits are mostly counts ("3 reasons"), which passages spell out.
    found.retain(|number| number.len() > 1);
    found
}

/// A report without its citation marks. Other text in such brackets is part of the report.
fn without_marks(report: &str) -> String {
    let mut plain = String::with_capacity(report.len());
    let mut rest = report;
    while let Some((before, behind)) = rest.split_once("[ID:") {
        plain.push_str(before);
        let of_a_mark = |letter: char| letter.is_ascii_digit() || " ,;:ID".contains(letter);
        let after = behind.trim_start_matches(of_a_mark);
        rest = after.strip_prefix(']').unwrap_or(behind);
    }
    plain + rest
}

/// The numbers of the passages that a report cites, each once.
fn cited_in(report: &str) -> Vec<u32> {
    let mut ids = marks(report);
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests {
    use super::super::Effort;
    use super::*;

    fn work(passages: &str) -> OpenPoint {
        let point = PlannedPoint { question: "How high?".to_owned(), query: String::new() };
        OpenPoint { passages: passages.to_owned(), ..OpenPoint::new(point) }
    }

    fn report(text: &str, confidence: f64) -> PointReport {
        PointReport { report: text.to_owned(), confidence, ..PointReport::default() }
    }

    fn verdict(confidence: f64) -> PointVerdict {
        PointVerdict { is_sufficient: true, confidence, ..PointVerdict::default() }
    }

    #[test]
    fn a_point_is_settled_only_by_its_passages() {
        let settled = |report: PointReport, verdict: PointVerdict| {
            let mut work = work("The tower is 1,234.5 m high [built 1999].");
            work.settle(report, &verdict, Effort::High.bars());
            (work.claim.verified, work.claim.is_likely(), work.claim.gaps)
        };
        let text = "It is 1234.5 m high [ID:12].";
        assert_eq!(settled(report(text, 0.9), verdict(0.8)), (true, true, vec![]));
        assert!(!settled(report(text, 0.9), verdict(0.5)).0);
        assert_eq!(settled(report(text, 0.5), verdict(0.9)), (false, true, vec![]));
        assert!(!settled(report(text, f64::NAN), verdict(0.9)).1);
        assert!(settled(report(text, 90.0), verdict(80.0)).0);
        assert!(!settled(report(text, 30.0), verdict(0.9)).1, "30 is 0.3 and not 1");
        let made_up = settled(report("It is 1300 m high.", 1.0), verdict(1.0));
        assert_eq!(made_up, (false, true, vec!["`1300` stands in no passage".to_owned()]));
        let torn = PointVerdict { contradictions: vec!["two heights".to_owned()], ..verdict(1.0) };
        assert_eq!(settled(report(text, 1.0), torn).2, ["contradiction: two heights"]);
        let open =
            PointVerdict { is_sufficient: false, missing: vec!["the year".to_owned()], ..verdict(1.0) };
        assert_eq!(settled(report(text, 1.0), open).2, ["the year"]);
    }

    #[test]
    fn a_less_confident_report_does_not_replace_a_better_one() {
        let mut work = work("42 and 43");
        let open = PointVerdict { is_sufficient: false, ..verdict(0.6) };
        work.settle(report("It is 42 [ID:3].", 0.6), &open, Effort::High.bars());
        work.settle(report("Perhaps 43.", 0.2), &open, Effort::High.bars());
        assert_eq!(
            (work.claim.report.as_str(), work.claim.evidence_ids.as_slice()),
            ("It is 42 [ID:3].", &[3][..])
        );
        assert_eq!(work.query, "How high?");
    }

    #[test]
    fn numbers_are_compared_as_written() {
        assert_eq!(numbers("1,234.5 m, 12. And 7; 2024"), ["1234.5", "12", "2024"]);
        assert_eq!(unsupported("In 2024 it was 3.50 [ID:77] of 9", "2024: 3.5"), ["3.50"]);
        // Text that is no source mark is considered, also after a bracket that is never closed.
        assert_eq!(unsupported("[ID:1, 23] so [ID: 1300 m] and [ID:4 1400", "1"), ["1300", "1400"]);
        assert_eq!(cited_in("a [ID:2] b [ID: 1][ID:2] [ID:x]"), [1, 2]);
    }
}
