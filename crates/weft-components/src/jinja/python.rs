//! What templates expect from Jinja on Python: methods of values, formats, namespaces, and some filters; each with a
//! charge for what it builds.

use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Kwargs, Rest, Serde, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error as JinjaError, State, filters};
use minijinja_contrib::{filters as more, pycompat};

use super::arguments::Arguments;
use super::charges::{RenderBudget, refused, written};
use super::formats::{Translated, translated};
use super::limits::{NODE_COST, WIDTH_MAX};

/// Maximum number of bytes that upper case makes of one byte.
// `ΐ` of two bytes becomes three letters of six.
const UPPER: usize = 3;

/// Adds all of them.
pub(super) fn added(environment: &mut Environment<'static>, budget: &RenderBudget) {
    methods(environment, budget);
    formats(environment, budget);
    lists(environment, budget);
    texts(environment, budget);
    let b = budget.clone();
    environment.add_function("weft_plain", move |value: Value| {
        b.charge_value(&value, 0)?;
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
                let plain = serde_json::to_value(&value)
                    .map_err(|_| refused("it stores a value that JSON cannot represent"))?;
                Ok::<_, JinjaError>(Value::from(Serde(plain)))
            }
            _ => Ok(value),
        }
    });
}

/// Adds `x.split(',')`, `x.items()`, `x.get('key')` and the like.
fn methods(environment: &mut Environment<'static>, budget: &RenderBudget) {
    let b = budget.clone();
    environment.set_unknown_method_callback(move |state, value, method, args| {
        let size = value.as_str().map_or_else(|| value.len().unwrap_or_default(), str::len);
        match (value.kind(), method, args) {
            // These are filters with their own charges.
            (ValueKind::String, "split", _) => return state.apply_filter("split", &with(value, args)),
            (ValueKind::String, "replace", _) => return state.apply_filter("replace", &with(value, args)),
            (ValueKind::String, "join", [items]) => {
                return state.apply_filter("join", &[items.clone(), value.clone()]);
            }
            (ValueKind::String, "format", _) => {
                return formatted(&b, FormatStyle::StrFormat, value.as_str().unwrap_or_default(), args);
            }
            // Every byte may be a separate line.
            (ValueKind::String, "splitlines", _) => b.charge(size.saturating_mul(1 + NODE_COST))?,
            (ValueKind::String, "count" | "find" | "rfind" | "startswith" | "endswith", _) => {
                b.charge_read(size)?;
            }
            (ValueKind::String, _, _) => b.charge(size.saturating_mul(UPPER))?,
            // A pair for each member, and both of its parts.
            (ValueKind::Map, "items" | "keys" | "values", _) => {
                b.charge(size.saturating_mul(3 * NODE_COST))?;
            }
            _ => b.charge_read(size)?,
        }
        pycompat::unknown_method_callback(state, value, method, args)
    });
}

fn with(value: &Value, args: &[Value]) -> Vec<Value> {
    std::iter::once(value).chain(args).cloned().collect()
}

/// Adds `'%.2f' % x`, `'%.2f'|format(x)`, `'{:.2f}'.format(x)`.
fn formats(environment: &mut Environment<'static>, budget: &RenderBudget) {
    let b = budget.clone();
    environment.add_function("weft_printf", move |text: &str, args: Value| match args.kind() {
        ValueKind::Seq => formatted(&b, FormatStyle::Printf, text, &args.try_iter()?.collect::<Vec<_>>()),
        _ => formatted(&b, FormatStyle::Printf, text, &[args]),
    });
    let b = budget.clone();
    environment.add_filter("format", move |text: &str, args: Rest<ValueOrKwargs>| {
        formatted(&b, FormatStyle::Printf, text, &args.into_values())
    });
}

/// Formats values. The maximum size of the result is charged first.
fn formatted(
    budget: &RenderBudget,
    style: FormatStyle,
    text: &str,
    args: &[Value],
) -> Result<Value, JinjaError> {
    let widest = widest(style, text)?;
    let fields = text.matches(['%', '{']).count();
    let mut longest = 0;
    for value in args {
        let written =
            written(value, budget.room()).ok_or_else(|| refused("it builds texts that are too large"))?;
        budget.charge_read(written.len())?;
        longest = longest.max(written.len());
    }
    budget.charge(text.len().saturating_add(fields.saturating_mul(longest + widest)))?;
    let Translated { text, args } = translated(style, text, args);
    format(style, &text, &args).map(Value::from)
}

/// Returns the largest number in the fields of a format: a width, or a number of digits. A number that an argument
/// supplies cannot be known.
fn widest(style: FormatStyle, text: &str) -> Result<usize, JinjaError> {
    let unknown = match style {
        FormatStyle::Printf => text.contains('*'),
        _ => text.replace("{{", "").split('{').skip(1).any(|field| !field.contains('}')),
    };
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let widest = numbers.map(|digits| digits.parse().unwrap_or(usize::MAX)).max().unwrap_or_default();
    if unknown || widest > WIDTH_MAX {
        return Err(refused("a format makes its values wider than 1000"));
    }
    Ok(widest)
}

/// Adds filters that rearrange lists.
fn lists(environment: &mut Environment<'static>, budget: &RenderBudget) {
    let b = budget.clone();
    environment.add_filter(
        "batch",
        move |state: &State<'_, '_>, items: Value, count: usize, fill: Option<Value>| {
            let there = counted(&items)?;
            let made =
                if fill.is_some() { there.div_ceil(count.max(1)).saturating_mul(count) } else { there };
            b.charge(made.saturating_mul(2 * NODE_COST))?;
            filters::batch(state, items, count, fill)
        },
    );
    let b = budget.clone();
    environment.add_filter(
        "slice",
        move |state: &State<'_, '_>, items: Value, count: usize, fill: Option<Value>| {
            let made = counted(&items)?.saturating_add(count);
            b.charge(made.saturating_mul(2 * NODE_COST))?;
            filters::slice(state, items, count, fill)
        },
    );
}

/// Returns the number of members in a list.
fn counted(items: &Value) -> Result<usize, JinjaError> {
    match items.len() {
        Some(count) => Ok(count),
        None => Ok(items.try_iter()?.count()),
    }
}

/// Adds filters that shorten and count texts.
fn texts(environment: &mut Environment<'static>, budget: &RenderBudget) {
    let b = budget.clone();
    environment.add_filter(
        "truncate",
        move |state: &mut State<'_, '_>, value: &Value, args: Rest<ValueOrKwargs>| {
            b.charge(value.as_str().map_or(0, str::len))?;
            let args = Arguments::of("truncate", &["length", "killwords", "end", "leeway"], args)?;
            more::truncate(state, value, Kwargs::try_from(args.by_name())?)
        },
    );
    let b = budget.clone();
    environment.add_filter("urlencode", move |value: Value| {
        let mut encoded = String::new();
        if value.kind() != ValueKind::Map {
            percent(&b, &value, &mut encoded)?;
            return Ok::<_, JinjaError>(encoded);
        }
        for key in value.try_iter()? {
            let item = value.get_item(&key)?;
            if item.is_none() || item.is_undefined() {
                continue;
            }
            if !encoded.is_empty() {
                encoded.push('&');
            }
            percent(&b, &key, &mut encoded)?;
            encoded.push('=');
            percent(&b, &item, &mut encoded)?;
        }
        Ok(encoded)
    });
    let b = budget.clone();
    environment.add_filter("wordcount", move |text: &str| {
        b.charge_read(text.len())?;
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        Ok::<_, JinjaError>(words.count())
    });
}

/// Percent-encodes a value as a part of an address.
fn percent(budget: &RenderBudget, value: &Value, encoded: &mut String) -> Result<(), JinjaError> {
    let text = written(value, budget.room()).ok_or_else(|| refused("it builds texts that are too large"))?;
    // Each byte may become three, and a member without text has a cost as well.
    budget.charge(text.len().saturating_mul(3).saturating_add(2))?;
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    Ok(())
}
