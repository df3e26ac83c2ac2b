//! Python formats that the library lacks: numbers with a fraction in `%d`, `%r`, and `%` as the type of a `str.format`
//! field. Such a field is formatted here and inserted as text.

use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Kwargs, Value, ValueKind};

/// A format and its arguments in terms that the library supports.
pub(super) struct Translated {
    /// The format.
    pub(super) text: String,
    /// Its arguments.
    pub(super) args: Vec<Value>,
}

/// Translates a format; what is not understood is left as it is, for the library to report.
pub(super) fn translated(style: FormatStyle, text: &str, args: &[Value]) -> Translated {
    let known = match style {
        FormatStyle::Printf => printf(text, args),
        FormatStyle::StrFormat => str_format(text, args),
    };
    known.unwrap_or_else(|| Translated { text: text.to_owned(), args: args.to_vec() })
}

/// `%d` of 3.7 is 3, `%r` of a text has quotes. Named fields become positional ones.
fn printf(text: &str, args: &[Value]) -> Option<Translated> {
    let (mut written, mut given) = (String::with_capacity(text.len()), Vec::new());
    let mut by_place = args.iter();
    let mut rest = text;
    while let Some((before, field)) = rest.split_once('%') {
        written.push_str(before);
        written.push('%');
        let (name, spec) = match field.strip_prefix('(') {
            Some(named) => named.split_once(')').map(|(name, spec)| (Some(name), spec))?,
            None => (None, field),
        };
        let end =
            spec.find(|c: char| !matches!(c, '#' | '0'..='9' | '-' | ' ' | '+' | '.' | 'h' | 'l' | 'L'))?;
        let kind = spec[end..].chars().next()?;
        rest = &spec[end + kind.len_utf8()..];
        if kind == '%' {
            written.push_str(&spec[..=end]);
            continue;
        }
        let value = match name {
            Some(name) => {
                args.first()?.get_item(&Value::from(name)).ok().filter(|value| !value.is_undefined())?
            }
            None => by_place.next()?.clone(),
        };
        written.push_str(&spec[..end]);
        match kind {
            'd' | 'i' | 'u' if is_fraction(&value) => {
                written.push('d');
                given.push(whole(&value)?);
            }
            'r' | 'a' => {
                written.push('s');
                given.push(Value::from(quoted(&value)));
            }
            kind => {
                written.push(kind);
                given.push(value);
            }
        }
    }
    written.push_str(rest);
    // Surplus arguments are left to the library.
    if !text.contains("%(") {
        given.extend(by_place.cloned());
    }
    Some(Translated { text: written, args: given })
}

/// Whether a value is a number but not an integer, including `3.0`.
fn is_fraction(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

/// Truncates a number to its integer part.
fn whole(value: &Value) -> Option<Value> {
    // A larger number has no fraction, and might not fit into the integer.
    let number = f64::try_from(value.clone()).ok().filter(|number| number.abs() < 1e30)?;
    #[expect(clippy::cast_possible_truncation, reason = "looked at above")]
    let whole = number.trunc() as i128;
    Some(Value::from(whole))
}

/// Returns a value as Python source would write it.
fn quoted(value: &Value) -> String {
    let Some(text) = value.as_str() else { return value.to_string() };
    // Python's choice: the quotes that need no backslash.
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(mark);
    for c in text.chars() {
        match c {
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c == mark => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    quoted.push(mark);
    quoted
}

/// Translates `{:.1%}` and `{!r}`: the field takes the formatted text.
fn str_format(text: &str, args: &[Value]) -> Option<Translated> {
    let mut given = args.to_vec();
    let named = given.pop_if(|last| last.is_kwargs());
    let mut names: Vec<(String, Value)> = Vec::new();
    if let Some(named) = &named {
        let all = Kwargs::try_from(named.clone()).ok()?;
        names = all
            .args()
            .map(|name| Some((name.to_owned(), all.get::<Value>(name).ok()?)))
            .collect::<Option<_>>()?;
    }
    let mut written = String::with_capacity(text.len());
    let (mut rest, mut next) = (text, 0_usize);
    while let Some(at) = rest.find(['{', '}']) {
        written.push_str(&rest[..at]);
        // Doubled braces are not a field.
        if let Some(brace) = ["{{", "}}"].into_iter().find(|brace| rest[at..].starts_with(brace)) {
            written.push_str(brace);
            rest = &rest[at + 2..];
            continue;
        }
        let (field, behind) = rest[at..].strip_prefix('{')?.split_once('}')?;
        rest = behind;
        let (whole_name, spec) = field.split_once(':').unwrap_or((field, ""));
        let (name, conversion) = whole_name.split_once('!').unwrap_or((whole_name, ""));
        let place = if name.is_empty() { next } else { name.parse().unwrap_or(usize::MAX) };
        next += usize::from(name.is_empty());
        let is_translated = spec.ends_with('%') || matches!(conversion, "r" | "s" | "a");
        if !is_translated {
            written.push_str(&format!("{{{field}}}"));
            continue;
        }
        let value = match names.iter().find(|(known, _)| known == name) {
            Some((_, value)) => value.clone(),
            None => given.get(place)?.clone(),
        };
        let (value, spec) = match (conversion, spec.strip_suffix('%')) {
            ("", Some(spec)) => (Value::from(percent(spec, &value)?), ""),
            ("s", None) => (Value::from(value.to_string()), spec),
            (_, None) => (Value::from(quoted(&value)), spec),
            (_, Some(_)) => return None,
        };
        let spec = if spec.is_empty() { String::new() } else { format!(":{spec}") };
        // Automatically numbered fields stay so: each is the only one that reads its argument.
        if name.is_empty() {
            *given.get_mut(place)? = value;
            written.push_str(&format!("{{{spec}}}"));
        } else if place == usize::MAX {
            let name = format!("weft_{}", names.len());
            written.push_str(&format!("{{{name}{spec}}}"));
            names.push((name, value));
        } else {
            written.push_str(&format!("{{{}{spec}}}", given.len()));
            given.push(value);
        }
    }
    written.push_str(rest);
    if !names.is_empty() {
        given.push(Kwargs::from_iter(names).into());
    }
    Some(Translated { text: written, args: given })
}

/// Formats a number as a percentage, given what precedes the `%` in its field.
fn percent(spec: &str, value: &Value) -> Option<String> {
    let hundredfold = f64::try_from(value.clone()).ok()? * 100.0;
    let (before, precision) = match spec.split_once('.') {
        Some((before, precision)) => (before, precision),
        None => (spec, "6"),
    };
    let grouped = before.trim_end_matches([',', '_']);
    let separator = &before[grouped.len()..];
    let width = grouped.len() - grouped.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (flags, width) = grouped.split_at(grouped.len() - width);
    let (zeros, width) = match width.strip_prefix('0') {
        Some(width) if !flags.contains(['<', '>', '^', '=']) => ("0", width),
        _ => ("", width),
    };
    let (align, sign) = flags.split_at(flags.rfind(['<', '>', '^', '=']).map_or(0, |at| at + 1));
    // The percent sign counts towards the width.
    let inner = match (zeros, width.parse::<usize>()) {
        ("0", Ok(width)) => format!("0{}", width.saturating_sub(1)),
        _ => String::new(),
    };
    let number = format(
        FormatStyle::StrFormat,
        &format!("{{:{sign}{inner}{separator}.{precision}f}}"),
        &[Value::from(hundredfold)],
    );
    let number = number.ok()? + "%";
    if zeros == "0" || width.is_empty() {
        return Some(number);
    }
    let align = if align.is_empty() { ">" } else { align };
    format(FormatStyle::StrFormat, &format!("{{:{align}{width}}}"), &[Value::from(number)]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(style: FormatStyle, text: &str, args: &[Value]) -> String {
        let Translated { text, args } = translated(style, text, args);
        format(style, &text, &args).unwrap_or_else(|error| format!("error: {error}"))
    }

    #[test]
    fn formats_match_python() {
        let printf = |text: &str, args: &[Value]| filled(FormatStyle::Printf, text, args);
        let number = |number: f64| Value::from(number);
        assert_eq!(
            printf("%d|%5i|%-4d|%05d", &[number(3.7), number(-3.0), 2.into(), number(9.9)]),
            "3|   -3|2   |00009"
        );
        assert_eq!(printf("100%% %r %s %x", &["it's".into(), "x".into(), 255.into()]), "100% \"it's\" x ff");
        assert_eq!(printf("%r", &["a'\"\n".into()]), "'a\\'\"\\n'");
        let named = Value::from_pairs([("a", number(2.5)), ("b", Value::from("x"))]);
        assert_eq!(printf("%(a)d %(b)s %(a).1f", std::slice::from_ref(&named)), "2 x 2.5");
        assert!(printf("%d", &["x".into()]).starts_with("error"));
        let field = |text: &str, args: &[Value]| filled(FormatStyle::StrFormat, text, args);
        assert_eq!(field("{:.1%} {} {:.0%}", &[number(0.256), "x".into(), number(0.5)]), "25.6% x 50%");
        assert_eq!(
            field("{1:>8.1%}|{0:<8.1%}|{1:%}|{0}", &[number(0.5), number(0.25)]),
            "   25.0%|50.0%   |25.000000%|0.5"
        );
        assert_eq!(field("{:07.1%} {:+,.0%}", &[number(-0.5), number(50.0)]), "-050.0% +5,000%");
        assert_eq!(field("{{{:.0%}}} {!r:>5}", &[number(1.0), "a".into()]), "{100%}   'a'");
        let named = Value::from(Kwargs::from_iter([("p", number(0.1)), ("q", Value::from("z"))]));
        assert_eq!(field("{p:.0%} {q} {p:.2f}", &[named]), "10% z 0.10");
        assert!(field("{:.1%}", &["x".into()]).starts_with("error"));
    }
}
