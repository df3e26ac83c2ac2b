//! Finds the line of a setting in its file, and what makes a file unreadable.

use toml::de::{DeTable, DeValue};

use crate::wrong_value::TOO_LARGE;

/// Returns the line of the setting at a path, or of the nearest one that contains it; the first line is 1.
pub(crate) fn line_of(text: &str, path: &[String]) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let start = in_table(document.get_ref(), path)?;
    Some(text.get(..start)?.matches('\n').count() + 1)
}

/// Describes why a file is not a table of settings.
pub(crate) fn no_table(text: &str, shown: &str, error: &toml::de::Error) -> String {
    // The parser accepts such a number, and its message for the table then names no place.
    if let Some(path) = too_large(text) {
        let line = line_of(text, &path).map(|line| format!(", line {line}")).unwrap_or_default();
        return format!("`{}` in {shown}{line}: {TOO_LARGE}", path.join("."));
    }
    // The parser's own message shows the line, which may contain a key.
    let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    format!("{shown} is not TOML, in line {line}: {}", error.message().trim())
}

/// Returns the path of the first integer of more than 64 bits; see [`line_of`] for its line.
fn too_large(text: &str) -> Option<Vec<String>> {
    let document = DeTable::parse(text).ok()?;
    let mut path = Vec::new();
    large_in_table(document.get_ref(), &mut path).then_some(path)
}

/// Whether a table has such an integer; `path` then leads to it.
fn large_in_table(table: &DeTable<'_>, path: &mut Vec<String>) -> bool {
    table.iter().any(|(key, value)| large_at((**key.get_ref()).to_owned(), value.get_ref(), path))
}

fn large_at(step: String, value: &DeValue<'_>, path: &mut Vec<String>) -> bool {
    path.push(step);
    let found = match value {
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).is_err(),
        DeValue::Table(table) => large_in_table(table, path),
        DeValue::Array(items) => {
            items.iter().enumerate().any(|(place, item)| large_at(place.to_string(), item.get_ref(), path))
        }
        _ => false,
    };
    if !found {
        path.pop();
    }
    found
}

/// Returns where a setting begins in the text.
fn in_table(table: &DeTable<'_>, path: &[String]) -> Option<usize> {
    let (name, inside) = path.split_first()?;
    let (key, value) = table.iter().find(|(key, _)| **key.get_ref() == **name)?;
    Some(in_value(value.get_ref(), inside).unwrap_or(key.span().start))
}

fn in_value(value: &DeValue<'_>, path: &[String]) -> Option<usize> {
    match value {
        DeValue::Table(table) => in_table(table, path),
        DeValue::Array(items) => {
            let (place, inside) = path.split_first()?;
            let item = items.get(place.parse::<usize>().ok()?)?;
            Some(in_value(item.get_ref(), inside).unwrap_or(item.span().start))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_of_more_than_64_bits_is_found() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(too_large(text).map(|path| path.join(".")).as_deref(), expected, "{text}");
        };
        check("a = 1\n[limits]\nrun_seconds = 99999999999999999999\n", Some("limits.run_seconds"));
        check("[[a.b]]\nc = 0xffff_ffff_ffff\n[[a.b]]\nd = [1, -9223372036854775809]\n", Some("a.b.1.d.1"));
        check("a = 9223372036854775807\nb = -9_223_372_036_854_775_808\nc = 1e99\n", None);
        check("a = \n", None);
    }

    #[test]
    fn the_line_of_a_setting_is_found() {
        let text = "a = 1\n\n[limits]\nrun_seconds = 2\nbudget.tokens = 3\n\n[[models.entries]]\nname = \"é\"\n\
                    [[models.entries]]\nname = \"b\"\n[net]\nallow = [\n  \"x\",\n  5,\n]\n";
        let check = |path: &str, expected: Option<usize>| {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            assert_eq!(line_of(text, &path), expected, "{path:?}");
        };
        check("a", Some(1));
        check("limits.run_seconds", Some(4));
        check("limits.budget.tokens", Some(5));
        check("models.entries.1.name", Some(10));
        check("net.allow.1", Some(14));
        check("net.allow.1.deeper", Some(14));
        check("nothing", None);
        assert_eq!(line_of("a = [", &["a".to_owned()]), None);
    }
}
