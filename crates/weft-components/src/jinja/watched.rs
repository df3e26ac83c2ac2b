//! The library's own filters and tests, each with a charge for what it scans, however it is called: `map('sort')` and
//! `select('in', text)` name one, too, and the work for each member is visible only there.

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error as JinjaError, State, filters, tests};

use super::arguments::Arguments;
use super::charges::RenderBudget;
use super::limits::{DEPTH_MAX, NODE_COST};

/// Cost of scanning a value besides its text.
// An empty text is read as well: without its own cost, a list of a million of them would be sorted for free.
const STEP_COST: usize = 8;

/// Adds all of them.
pub(super) fn added(environment: &mut Environment<'static>, budget: &RenderBudget) {
    const CHOICE: &[&str] = &["case_sensitive", "attribute"];
    let sorting: [(&str, &'static [&'static str], Value); 6] = [
        ("dictsort", &["case_sensitive", "by", "reverse"], Value::from_function(filters::dictsort)),
        ("groupby", &["attribute", "default", "case_sensitive"], Value::from_function(filters::groupby)),
        ("max", CHOICE, Value::from_function(filters::max)),
        ("min", CHOICE, Value::from_function(filters::min)),
        ("sort", &["reverse", "case_sensitive", "attribute"], Value::from_function(filters::sort)),
        ("unique", CHOICE, Value::from_function(filters::unique)),
    ];
    for (name, names, filter) in sorting {
        let b = budget.clone();
        environment.add_filter(
            name,
            move |state: &mut State<'_, '_>, items: Value, args: Rest<ValueOrKwargs>| {
                let args = [items, Arguments::of(name, names, args)?.by_name()];
                charge_sorting(&b, name, &args)?;
                filter.call(state, &args)
            },
        );
    }
    let choosing = [
        ("map", Value::from_function(filters::map)),
        ("reject", Value::from_function(filters::reject)),
        ("rejectattr", Value::from_function(filters::rejectattr)),
        ("select", Value::from_function(filters::select)),
        ("selectattr", Value::from_function(filters::selectattr)),
    ];
    for (name, filter) in choosing {
        let b = budget.clone();
        environment.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            // The work for each member has its own charges; a path of names is followed for each.
            let path = path(&args).or_else(|| args.get(1).and_then(|path| path.as_str().map(str::to_owned)));
            let path = path.unwrap_or_default().len() + STEP_COST;
            b.charge_read(count(&args).saturating_mul(path))?;
            filter.call(state, &args)
        });
    }
    let b = budget.clone();
    environment.add_filter("string", move |state: &State<'_, '_>, value: &Value| {
        b.charge_value(value, 0)?;
        filters::string(state, value)
    });
    compared(environment, budget);
}

/// Adds the tests that compare two values.
fn compared(environment: &mut Environment<'static>, budget: &RenderBudget) {
    let comparing: [([&str; 3], Common, Value); 6] = [
        (["eq", "equalto", "=="], equal, Value::from_function(tests::is_eq)),
        (["ne", "!=", "ne"], equal, Value::from_function(tests::is_ne)),
        (["lt", "lessthan", "<"], ordered, Value::from_function(tests::is_lt)),
        (["le", "<=", "le"], ordered, Value::from_function(tests::is_le)),
        (["gt", "greaterthan", ">"], ordered, Value::from_function(tests::is_gt)),
        (["ge", ">=", "ge"], ordered, Value::from_function(tests::is_ge)),
    ];
    let all = comparing
        .into_iter()
        .flat_map(|(names, common, test)| names.map(|name| (name, common, test.clone())));
    for (name, common, test) in all {
        let b = budget.clone();
        environment.add_test(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            if let [one, other, ..] = &args[..] {
                charge_common(&b, one, other, common, 0)?;
            }
            test.call(state, &args)
        });
    }
    let found = Value::from_function(tests::is_in);
    let b = budget.clone();
    environment.add_test("in", move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
        let args = args.into_values();
        if let [one, container, ..] = &args[..] {
            match (container.kind(), container.as_str()) {
                (_, Some(text)) => {
                    b.charge_read(text.len())?;
                    charge_all(&b, one, 1, 0)?;
                }
                (ValueKind::Seq | ValueKind::Iterable, _) => {
                    for item in container.try_iter()? {
                        charge_common(&b, one, &item, equal, 0)?;
                    }
                }
                _ => charge_all(&b, one, 1, 0)?,
            }
        }
        found.call(state, &args)
    });
}

/// Charges what sorting compares: the keys, as often as a sort of this length looks at each.
fn charge_sorting(budget: &RenderBudget, name: &str, args: &[Value]) -> Result<(), JinjaError> {
    let count = count(args);
    let Some(items) = args.first() else { return Ok(()) };
    // Each member may be a separate group: a pair, its key and a list.
    if name == "groupby" {
        budget.charge(count.saturating_mul(3 * NODE_COST))?;
    }
    // A comparison sort looks at each key about as often as the logarithm of their number.
    let times = usize::try_from(count.max(1).ilog2()).unwrap_or_default() + 1;
    let Some(path) = path(args) else { return charge_all(budget, items, times, 0) };
    budget.charge_read(count.saturating_mul(path.len()))?;
    for item in items.try_iter()? {
        for path in path.split(',') {
            charge_all(budget, &at(&item, path.trim()), times, 0)?;
        }
    }
    Ok(())
}

/// Returns the value at a path of names separated by dots.
pub(super) fn at(item: &Value, path: &str) -> Value {
    let step = |value: Value, name: &str| match name.parse::<usize>() {
        Ok(place) => value.get_item(&Value::from(place)).unwrap_or_default(),
        Err(_) => value.get_attr(name).unwrap_or_default(),
    };
    path.split('.').fold(item.clone(), step)
}

/// Returns the number of members of the first argument.
fn count(args: &[Value]) -> usize {
    args.first().and_then(Value::len).unwrap_or_default()
}

/// Returns the argument `attribute`.
fn path(args: &[Value]) -> Option<String> {
    let named = args.last().filter(|last| last.is_kwargs())?;
    named.get_attr("attribute").ok()?.as_str().map(str::to_owned)
}

/// Charges scanning a value with everything in it, `times` times.
fn charge_all(budget: &RenderBudget, value: &Value, times: usize, depth: usize) -> Result<(), JinjaError> {
    let size = STEP_COST + value.as_str().map_or(0, str::len);
    budget.charge_read(size.saturating_mul(times))?;
    if depth < DEPTH_MAX && matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
        let map = value.kind() == ValueKind::Map;
        for item in value.try_iter()? {
            if map {
                charge_all(budget, &value.get_item(&item)?, times, depth + 1)?;
            }
            charge_all(budget, &item, times, depth + 1)?;
        }
    }
    Ok(())
}

/// Returns the maximum number of bytes that a comparison of two texts reads.
type Common = fn(&str, &str) -> usize;

fn equal(one: &str, other: &str) -> usize {
    // Texts of different lengths are distinguished by their lengths alone.
    if one.len() == other.len() { one.len() } else { 0 }
}

fn ordered(one: &str, other: &str) -> usize {
    // They may first differ after the last letter of the shorter one.
    one.len().min(other.len())
}

/// Charges comparing two values: as much as they may have in common.
fn charge_common(
    budget: &RenderBudget,
    one: &Value,
    other: &Value,
    common: Common,
    depth: usize,
) -> Result<(), JinjaError> {
    let sequence = |value: &Value| matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
    if let (Some(one), Some(other)) = (one.as_str(), other.as_str()) {
        return budget.charge_read(STEP_COST + common(one, other));
    }
    budget.charge_read(STEP_COST)?;
    if depth < DEPTH_MAX && sequence(one) && sequence(other) {
        for (one, other) in one.try_iter()?.zip(other.try_iter()?) {
            charge_common(budget, &one, &other, common, depth + 1)?;
        }
    } else if one.kind() == ValueKind::Map && other.kind() == ValueKind::Map {
        charge_all(budget, one, 1, depth)?;
    }
    Ok(())
}
