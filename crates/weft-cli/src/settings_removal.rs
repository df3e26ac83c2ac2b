//! Removes invalid settings from what was read of a file, and knows where the others are written in it.

/// The items that were removed from lists of a file: the path of the list and the place of the item, as written.
#[derive(Debug, Default)]
pub(crate) struct RemovedItems(Vec<(Vec<String>, usize)>);

/// What a setting was removed from.
enum RemovedFrom {
    Table,
    List,
}

impl RemovedItems {
    /// Removes the setting at a path of `table`, if there is one. Returns its path as written in the file.
    pub(crate) fn remove(&mut self, table: &mut toml::Table, path: &[String]) -> Option<Vec<String>> {
        let written = self.as_written(path);
        let from = remove(table, path)?;
        if let (RemovedFrom::List, Some((last, list))) = (from, written.split_last())
            && let Ok(place) = last.parse()
        {
            self.0.push((list.to_vec(), place));
        }
        Some(written)
    }

    /// Returns a path as written: the items after one that was removed have moved up.
    fn as_written(&self, path: &[String]) -> Vec<String> {
        let mut written: Vec<String> = Vec::with_capacity(path.len());
        for step in path {
            let of_list = self.0.iter().filter(|(list, _)| *list == written);
            let mut removed: Vec<usize> = of_list.map(|(_, place)| *place).collect();
            removed.sort_unstable();
            let moved = |place: usize| {
                removed.iter().fold(place, |place, removed| place + usize::from(*removed <= place))
            };
            written.push(match step.parse() {
                Ok(place) if !removed.is_empty() => moved(place).to_string(),
                _ => step.clone(),
            });
        }
        written
    }
}

fn remove(table: &mut toml::Table, path: &[String]) -> Option<RemovedFrom> {
    let (last, before) = path.split_last()?;
    let Some((first, middle)) = before.split_first() else {
        return table.remove(last).map(|_| RemovedFrom::Table);
    };
    let mut at = table.get_mut(first);
    for step in middle {
        at = match at {
            Some(toml::Value::Table(table)) => table.get_mut(step),
            Some(toml::Value::Array(items)) => step.parse().ok().and_then(|ix: usize| items.get_mut(ix)),
            _ => None,
        };
    }
    match at {
        Some(toml::Value::Table(table)) => table.remove(last).map(|_| RemovedFrom::Table),
        Some(toml::Value::Array(items)) => {
            let found = last.parse().ok().filter(|ix: &usize| *ix < items.len());
            found.map(|ix| items.remove(ix)).map(|_| RemovedFrom::List)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_after_removed_items_are_those_of_the_file() {
        let text = "a = [[0, 1, 2, 3], 4, [5, 6]]\n[b]\n7 = 8\n9 = 10\n";
        let mut table: toml::Table = text.parse().unwrap();
        let mut items = RemovedItems::default();
        let mut removed = |path: &str| {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            items.remove(&mut table, &path).map(|written| written.join("."))
        };
        for (path, written) in [
            ("a.0.1", "a.0.1"),
            ("a.0.1", "a.0.2"),
            ("a.0.0", "a.0.0"),
            ("a.0.0", "a.0.3"),
            ("a.1", "a.1"),
            ("a.1.1", "a.2.1"),
            ("a.0", "a.0"),
            ("a.0.0", "a.2.0"),
            // A number may also be the name of a setting.
            ("b.7", "b.7"),
            ("b.9", "b.9"),
        ] {
            assert_eq!(removed(path).as_deref(), Some(written), "{path}");
        }
        assert_eq!((removed("a.1"), removed("b.9"), removed("c.d")), (None, None, None));
    }
}
