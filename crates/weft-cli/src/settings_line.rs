//! Finds the line of a setting in its file.

use toml::de::{DeTable, DeValue};

/// Returns the line of the setting at a path, or of the nearest one that contains it; the first line is 1.
pub(crate) fn line_of(text: &str, path: &[String]) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let start = in_table(document.get_ref(), path)?;
    Some(text.get(..start)?.matches('\n').count() + 1)
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
