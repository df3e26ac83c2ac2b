//! Maps the kind of a component to its spec.

use std::collections::HashMap;

use crate::component::ComponentSpec;

/// The component types that a plan is compiled against.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    specs: HashMap<&'static str, &'static ComponentSpec>,
}

impl Catalog {
    /// Creates a catalog of these types.
    pub fn new(specs: impl IntoIterator<Item = &'static ComponentSpec>) -> Self {
        Self { specs: specs.into_iter().map(|spec| (spec.kind, spec)).collect() }
    }

    /// Returns the type with this name. An exact match takes precedence over a case-insensitive one.
    pub fn get(&self, kind: &str) -> Option<&'static ComponentSpec> {
        self.specs
            .get(kind)
            .copied()
            // Canvases are written by hand and by many editors, which differ in case.
            .or_else(|| self.specs.values().find(|spec| spec.kind.eq_ignore_ascii_case(kind)).copied())
    }

    /// Returns every type, sorted by name.
    pub fn all(&self) -> Vec<&'static ComponentSpec> {
        let mut all: Vec<_> = self.specs.values().copied().collect();
        // The iteration order of the table differs between processes, but output generated from it must not.
        all.sort_by_key(|spec| spec.kind);
        all
    }
}
