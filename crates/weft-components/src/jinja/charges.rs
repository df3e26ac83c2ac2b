//! Charges for what a template builds, before it is built.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error as JinjaError, ErrorKind as JinjaKind};

use serde::Serialize as _;

use super::arguments::Arguments;
use super::limits::{DEPTH_MAX, LimitedText, NODE_COST, WIDTH_MAX, WORK_MAX};
use super::watched::at;

/// What one rendering has built and read so far.
#[derive(Clone, Debug)]
pub(super) struct RenderBudget(Arc<RenderCounts>);

#[derive(Debug)]
struct RenderCounts {
    /// Number of bytes built.
    built: AtomicUsize,
    /// Number of bytes scanned by steps that build nothing.
    read: AtomicUsize,
    /// Number of bytes written, including what a filter consumes.
    written: AtomicUsize,
    /// Maximum number of bytes it may scan.
    read_max: usize,
    /// Byte length of the longest value it was given.
    longest: usize,
    /// Deadline.
    until: Instant,
}

/// Adds a cost and returns whether the sum is within the limit. A cost may be any number, so it is capped to keep the
/// counter from overflowing.
fn fits(count: &AtomicUsize, cost: usize, max: usize) -> bool {
    let cost = cost.min(max + 1);
    // The counters order no other memory accesses.
    count.fetch_add(cost, Ordering::Relaxed).saturating_add(cost) <= max
}

impl RenderBudget {
    /// Creates the budget of a rendering whose longest value has `longest` bytes, that may scan `read_max` bytes and
    /// must be done by `until`.
    pub(super) fn new(longest: usize, read_max: usize, until: Instant) -> Self {
        let (built, read, written) = Default::default();
        Self(Arc::new(RenderCounts { built, read, written, read_max, longest, until }))
    }

    /// Checks the deadline. Whatever may take long calls this before it begins.
    pub(super) fn in_time(&self) -> Result<(), JinjaError> {
        if Instant::now() < self.0.until {
            return Ok(());
        }
        Err(refused("it takes longer than the 10 seconds that a node has for its templates"))
    }

    pub(super) fn charge(&self, cost: usize) -> Result<(), JinjaError> {
        self.in_time()?;
        if fits(&self.0.built, cost, WORK_MAX) {
            Ok(())
        } else {
            Err(refused("it builds values that are too large"))
        }
    }

    /// Charges a step that scans `bytes` bytes of text or as many values of a list.
    pub(super) fn charge_read(&self, bytes: usize) -> Result<(), JinjaError> {
        self.in_time()?;
        if fits(&self.0.read, bytes, self.0.read_max) {
            Ok(())
        } else {
            Err(refused("it reads long texts too often: shorten them first, or loop over fewer items"))
        }
    }

    /// Charges writing a value. What a filter consumes is not output, whose size has its own limit.
    pub(super) fn charge_written(&self, bytes: usize) -> Result<(), JinjaError> {
        if fits(&self.0.written, bytes, WORK_MAX) { Ok(()) } else { Err(refused("it writes too much")) }
    }

    /// Upper bound for a value that cannot be inspected: the longest value given, or everything built so far.
    fn longest(&self) -> usize {
        let built = self.0.built.load(Ordering::Relaxed).min(WORK_MAX);
        self.0.longest.max(built)
    }

    /// Charges a value with everything in it; shared parts count each time they occur.
    pub(super) fn charge_value(&self, value: &Value, depth: usize) -> Result<(), JinjaError> {
        if depth > DEPTH_MAX {
            return Err(refused("it builds values that are nested too deeply"));
        }
        self.charge(NODE_COST + value.as_str().map_or(0, str::len))?;
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()? {
                    self.charge_value(&item, depth + 1)?;
                }
            }
            ValueKind::Map => {
                for key in value.try_iter()? {
                    self.charge_value(&value.get_item(&key)?, depth + 1)?;
                    self.charge_value(&key, depth + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Charges what a filter builds from a value before it does so: a text of about the same length, or a list of as
    /// many values, of which `map` may build new ones.
    fn charge_copy(&self, value: &Value, filter: &str) -> Result<(), JinjaError> {
        let text = value.as_str().map(str::len);
        match (filter, text) {
            ("map", _) => self.charge_value(value, 0),
            // Applied to a text, they build a value for each letter.
            ("list" | "sort" | "unique" | "select" | "reject", Some(bytes)) => {
                self.charge(bytes.saturating_mul(NODE_COST))
            }
            (_, Some(bytes)) => self.charge(bytes),
            (_, None) => self.charge(value.len().unwrap_or_default().saturating_mul(NODE_COST)),
        }
    }

    pub(super) fn room(&self) -> usize {
        WORK_MAX.saturating_sub(self.0.built.load(Ordering::Relaxed))
    }
}

pub(super) fn refused(what: &'static str) -> JinjaError {
    JinjaError::new(JinjaKind::InvalidOperation, what)
}

/// Adds wrappers that charge for whatever can make a value grow.
pub(super) fn charged(environment: &mut Environment<'static>, budget: &RenderBudget) {
    let b = budget.clone();
    environment.add_function("weft_cost", move |value: Value| {
        b.charge_value(&value, 0)?;
        Ok::<_, JinjaError>(worked_out(value))
    });
    let b = budget.clone();
    environment.add_function("weft_each", move |value: Value| {
        b.charge_read(value.len().unwrap_or_default())?;
        // A lazily evaluated sequence is turned into a separate list.
        if value.kind() == ValueKind::Iterable {
            b.charge(value.len().unwrap_or_default().saturating_mul(NODE_COST))?;
        }
        Ok::<_, JinjaError>(worked_out(value))
    });
    let b = budget.clone();
    environment.add_filter("weft_filter", move |value: Value, name: &str| {
        b.charge_copy(&value, name).map(|()| value)
    });
    let b = budget.clone();
    environment.add_filter("weft_read", move |value: Value| {
        let size = value.as_str().map_or_else(|| value.len().unwrap_or_default(), str::len);
        b.charge_read(size).map(|()| value)
    });
    let b = budget.clone();
    environment.add_function("weft_slice", move |from: Value| b.charge_read(b.longest()).map(|()| from));
    changing(environment, budget);
    defaults(environment);
    splitting(environment, budget);
    numbers(environment, budget);
}

/// Adds filters that build texts from other texts.
fn changing(environment: &mut Environment<'static>, budget: &RenderBudget) {
    let b = budget.clone();
    environment.add_filter("replace", move |text: &str, args: Rest<ValueOrKwargs>| {
        let args = Arguments::of("replace", &["old", "new", "count"], args)?;
        let (from, to) = (args.needed_text("old")?, args.needed_text("new")?);
        // A negative number means every occurrence.
        let most = args.number("count")?.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        // The empty text occurs before each letter and at the end.
        let found = if from.is_empty() { text.len() + 1 } else { text.matches(from.as_str()).count() };
        b.charge(text.len().saturating_add(found.min(most).saturating_mul(to.len())))?;
        Ok::<_, JinjaError>(text.replacen(from.as_str(), &to, most))
    });
    let b = budget.clone();
    environment.add_filter("join", move |items: Value, args: Rest<ValueOrKwargs>| {
        let args = Arguments::of("join", &["d", "attribute"], args)?;
        let (joiner, path) = (args.text("d").unwrap_or_default(), args.text("attribute"));
        let mut text = String::new();
        for (place, item) in items.try_iter()?.enumerate() {
            let item = member(&b, item, path.as_deref())?;
            let item =
                written(&item, b.room()).ok_or_else(|| refused("it builds texts that are too large"))?;
            b.charge(item.len() + joiner.len())?;
            if place > 0 {
                text.push_str(&joiner);
            }
            text.push_str(&item);
        }
        Ok::<_, JinjaError>(text)
    });
    let b = budget.clone();
    environment.add_filter("tojson", move |value: Value, args: Rest<ValueOrKwargs>| {
        let indent = Arguments::of("tojson", &["indent"], args)?.number("indent")?;
        let text = match indent {
            None => json_text(&value, b.room()),
            Some(indent) => pretty_json(&value, width(indent)?, b.room()),
        };
        let text = text.ok_or_else(|| refused("it builds texts that are too large"))?;
        b.charge(text.len())?;
        Ok::<_, JinjaError>(text)
    });
    let b = budget.clone();
    environment.add_filter("indent", move |text: &str, args: Rest<ValueOrKwargs>| {
        let args = Arguments::of("indent", &["width", "first", "blank"], args)?;
        let prefix = match args.set("width").and_then(Value::as_str) {
            Some(prefix) => prefix.to_owned(),
            None => {
                let width = usize::try_from(args.number("width")?.unwrap_or(4)).unwrap_or_default();
                // The prefix is built once, even for a text of one line.
                b.charge(width)?;
                " ".repeat(width)
            }
        };
        let lines = text.matches('\n').count() + 1;
        b.charge(text.len().saturating_add(lines.saturating_mul(prefix.len())))?;
        let mut indented = String::new();
        for (place, line) in text.split('\n').enumerate() {
            indented.push_str(if place > 0 { "\n" } else { "" });
            let is_wanted =
                if place > 0 { args.flag("blank") || !line.is_empty() } else { args.flag("first") };
            indented.push_str(if is_wanted { &prefix } else { "" });
            indented.push_str(line);
        }
        Ok::<_, JinjaError>(indented)
    });
}

/// Adds the filters that replace a missing value.
fn defaults(environment: &mut Environment<'static>) {
    let default = |value: Value, args: Rest<ValueOrKwargs>| {
        let args = Arguments::of("default", &["default_value", "boolean"], args)?;
        let stands_in = value.is_undefined() || (args.flag("boolean") && !value.is_true());
        let other = || args.get("default_value").cloned().unwrap_or_else(|| Value::from(""));
        Ok::<_, JinjaError>(if stands_in { other() } else { value })
    };
    environment.add_filter("default", default);
    environment.add_filter("d", default);
}

/// Returns a member of a list, or its value at a path of names.
fn member(budget: &RenderBudget, item: Value, path: Option<&str>) -> Result<Value, JinjaError> {
    let Some(path) = path else { return Ok(item) };
    budget.charge_read(path.len())?;
    Ok(at(&item, path))
}

/// Returns the width of an indentation.
fn width(given: i64) -> Result<usize, JinjaError> {
    let width = usize::try_from(given).unwrap_or_default();
    if width > WIDTH_MAX { Err(refused("it is indented by more than 1000")) } else { Ok(width) }
}

/// Adds functions and filters for numbers.
fn numbers(environment: &mut Environment<'static>, budget: &RenderBudget) {
    let b = budget.clone();
    environment.add_function("weft_number", move |value: Value| match value.kind() {
        ValueKind::Number | ValueKind::Bool => b.in_time().map(|()| value),
        _ => Err(refused("only numbers can be multiplied")),
    });
    let b = budget.clone();
    environment.add_filter("sum", move |items: Value, args: Rest<ValueOrKwargs>| {
        let args = Arguments::of("sum", &["attribute", "start"], args)?;
        let path = args.text("attribute");
        let number = |value: Value| f64::try_from(value).map_err(|_| refused("only numbers can be added up"));
        let mut sum = number(args.set("start").cloned().unwrap_or_else(|| Value::from(0)))?;
        for item in items.try_iter()? {
            sum += number(member(&b, item, path.as_deref())?)?;
        }
        Ok::<_, JinjaError>(crate::params::whole(sum).map_or_else(|| Value::from(sum), Value::from))
    });
}

/// Turns a sequence that is evaluated each time it is iterated (a slice, a sum of lists, a reversed list) into a list.
/// Its cost is charged once; otherwise iterating over it a thousand times would be free.
fn worked_out(value: Value) -> Value {
    match value.try_iter() {
        Ok(items) if value.kind() == ValueKind::Iterable => Value::from_iter(items),
        _ => value,
    }
}

/// Adds filters that split a text into many.
fn splitting(environment: &mut Environment<'static>, budget: &RenderBudget) {
    let b = budget.clone();
    environment.add_filter("lines", move |text: &str| {
        b.charge(text.len() + (text.matches('\n').count() + 1).saturating_mul(NODE_COST))?;
        Ok::<_, JinjaError>(text.lines().map(Value::from).collect::<Vec<_>>())
    });
    let b = budget.clone();
    environment.add_filter("split", move |text: &str, args: Rest<ValueOrKwargs>| {
        let args = Arguments::of("split", &["sep", "maxsplit"], args)?;
        let (by, times) = (args.text("sep"), args.number("maxsplit")?);
        // Without a number or with a negative one, at every occurrence; the number counts splits rather than pieces.
        let most =
            times.and_then(|times| usize::try_from(times).ok()).map_or(usize::MAX, |n| n.saturating_add(1));
        let pieces: Box<dyn Iterator<Item = &str>> = match by.as_deref() {
            Some(by) => Box::new(text.splitn(most, by)),
            None => Box::new(words(text, most)),
        };
        let mut list = Vec::new();
        for piece in pieces {
            b.charge(piece.len() + NODE_COST)?;
            list.push(Value::from(piece));
        }
        Ok::<_, JinjaError>(list)
    });
}

/// Splits a text at white space; after `most - 1` words the rest is one piece.
fn words(text: &str, most: usize) -> impl Iterator<Item = &str> {
    let mut rest = text.trim_start();
    let mut count = 0_usize;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        count += 1;
        let end =
            if count >= most { rest.len() } else { rest.find(char::is_whitespace).unwrap_or(rest.len()) };
        let (word, after) = rest.split_at(end);
        rest = after.trim_start();
        Some(word)
    })
}

/// Returns the text form of a value, as everywhere on a canvas: null is empty, a text is itself, everything else is
/// JSON. `None` when it is longer than `max`.
pub(super) fn written(value: &Value, max: usize) -> Option<String> {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => Some(String::new()),
        ValueKind::String => value.as_str().filter(|text| text.len() <= max).map(str::to_owned),
        _ => json_text(value, max),
    }
}

/// Formats a value as JSON on several lines.
fn pretty_json(value: &Value, indent: usize, max: usize) -> Option<String> {
    let (mut text, indent) = (LimitedText { bytes: Vec::new(), max }, " ".repeat(indent));
    let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter)).ok()?;
    String::from_utf8(text.bytes).ok()
}

fn json_text(value: &Value, max: usize) -> Option<String> {
    let mut text = LimitedText { bytes: Vec::new(), max };
    serde_json::to_writer(&mut text, value).ok()?;
    String::from_utf8(text.bytes).ok()
}
