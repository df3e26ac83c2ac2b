//! An insertion-ordered map, optimised for a handful of entries.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::iter::FusedIterator;

use indexmap::IndexMap;

/// Up to this many entries are searched linearly. Most activations read and produce one or two values, for which a
/// hash table would cost an extra allocation and a hash per lookup.
const FEW_MAX: usize = 8;

type IndexedEntries<K, V> = IndexMap<K, V, foldhash::fast::RandomState>;

/// An insertion-ordered map. Small maps are stored as a list, larger ones as a table whose hash is randomly seeded
/// and fast on short keys.
#[derive(Clone)]
pub struct OrderedMap<K, V>(OrderedEntries<K, V>);

#[derive(Clone)]
enum OrderedEntries<K, V> {
    Few(Vec<(K, V)>),
    Many(Box<IndexedEntries<K, V>>),
}

impl<K, V> Default for OrderedMap<K, V> {
    fn default() -> Self {
        Self(OrderedEntries::Few(Vec::new()))
    }
}

impl<K: Eq + Hash, V> OrderedMap<K, V> {
    /// Creates an empty map with room for `count` entries.
    pub fn with_capacity(count: usize) -> Self {
        Self(match count {
            0..=FEW_MAX => OrderedEntries::Few(Vec::with_capacity(count)),
            _ => OrderedEntries::Many(Box::new(IndexedEntries::with_capacity_and_hasher(
                count,
                Default::default(),
            ))),
        })
    }

    /// Returns the value of a key.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        match &self.0 {
            OrderedEntries::Few(list) => {
                list.iter().find(|(known, _)| known.borrow() == key).map(|(_, value)| value)
            }
            OrderedEntries::Many(table) => table.get(key),
        }
    }

    /// Sets the value of a key, which keeps its position if it exists. Returns the previous value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let list = match &mut self.0 {
            OrderedEntries::Few(list) => list,
            OrderedEntries::Many(table) => return table.insert(key, value),
        };
        if let Some((_, known)) = list.iter_mut().find(|(known, _)| *known == key) {
            return Some(std::mem::replace(known, value));
        }
        if list.len() < FEW_MAX {
            list.push((key, value));
            return None;
        }
        let mut table: IndexedEntries<K, V> = std::mem::take(list).into_iter().collect();
        table.insert(key, value);
        self.0 = OrderedEntries::Many(Box::new(table));
        None
    }

    /// Removes an entry; later entries move up.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match &mut self.0 {
            OrderedEntries::Few(list) => {
                let place = list.iter().position(|(known, _)| known.borrow() == key)?;
                Some(list.remove(place).1)
            }
            // `swap_remove` is faster but would move the last entry into the gap.
            OrderedEntries::Many(table) => table.shift_remove(key),
        }
    }
}

impl<K, V> OrderedMap<K, V> {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        match &self.0 {
            OrderedEntries::Few(list) => list.len(),
            OrderedEntries::Many(table) => table.len(),
        }
    }

    /// Returns whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entries in order.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter(match &self.0 {
            OrderedEntries::Few(list) => Rest::Few(list.iter()),
            OrderedEntries::Many(table) => Rest::Many(table.iter()),
        })
    }

    /// Returns the values in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Returns the values for modification, in the order of their keys.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        let (few, many) = match &mut self.0 {
            OrderedEntries::Few(list) => (Some(list.iter_mut()), None),
            OrderedEntries::Many(table) => (None, Some(table.values_mut())),
        };
        few.into_iter().flatten().map(|(_, value)| value).chain(many.into_iter().flatten())
    }
}

/// The entries of an [`OrderedMap`].
pub struct Iter<'a, K, V>(Rest<'a, K, V>);

enum Rest<'a, K, V> {
    Few(std::slice::Iter<'a, (K, V)>),
    Many(indexmap::map::Iter<'a, K, V>),
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Rest::Few(list) => list.next().map(|(key, value)| (key, value)),
            Rest::Many(table) => table.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Rest::Few(list) => list.size_hint(),
            Rest::Many(table) => table.size_hint(),
        }
    }
}

impl<K, V> ExactSizeIterator for Iter<'_, K, V> {}

impl<K, V> FusedIterator for Iter<'_, K, V> {}

impl<'a, K, V> IntoIterator for &'a OrderedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K: Eq + Hash, V> FromIterator<(K, V)> for OrderedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        let mut map = Self::with_capacity(entries.size_hint().0);
        map.extend(entries);
        map
    }
}

impl<K: Eq + Hash, V> Extend<(K, V)> for OrderedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K, V> IntoIterator for OrderedMap<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        match self.0 {
            OrderedEntries::Few(list) => list.into_iter(),
            OrderedEntries::Many(table) => table.into_iter().collect::<Vec<_>>().into_iter(),
        }
    }
}

/// As with other maps, order is ignored.
impl<K: Eq + Hash, V: PartialEq> PartialEq for OrderedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for OrderedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_ordered_map_behaves_like_a_map(entries in prop::collection::vec((0..24_u8, any::<u8>()), 0..40)) {
            let (mut map, mut other) = (OrderedMap::default(), IndexMap::new());
            for (key, value) in &entries {
                prop_assert_eq!(map.insert(*key, *value), other.insert(*key, *value));
            }
            prop_assert!(map.iter().eq(other.iter()) && map.values().eq(other.values()));
            map.values_mut().chain(other.values_mut()).for_each(|value| *value = value.wrapping_add(1));
            prop_assert!(map.iter().eq(other.iter()));
            prop_assert_eq!((map.len(), map.is_empty()), (other.len(), other.is_empty()));
            for key in 0..24 {
                prop_assert_eq!(map.get(&key), other.get(&key));
            }
            for key in [3, 7, 7] {
                prop_assert_eq!(map.remove(&key), other.shift_remove(&key));
                prop_assert!(map.iter().eq(other.iter()));
            }
            prop_assert!(map.clone().into_iter().eq(other.clone()));
            let backwards: OrderedMap<u8, u8> = other.iter().rev().map(|(key, value)| (*key, *value)).collect();
            prop_assert_eq!(&map, &backwards);
            prop_assert_eq!(map.clone() == OrderedMap::from_iter([(99, 0)]), false);
        }
    }
}
