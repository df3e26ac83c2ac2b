//! Kind → spec: what a canvas may be made of.

use std::collections::HashMap;

use crate::component::ComponentSpec;

/// The component types a plan is compiled against.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    specs: HashMap<&'static str, &'static ComponentSpec>,
}

impl Catalog {
    /// A catalog of these types.
    pub fn new(specs: impl IntoIterator<Item = &'static ComponentSpec>) -> Self {
        Self { specs: specs.into_iter().map(|spec| (spec.kind, spec)).collect() }
    }

    /// The type of this name. Exact spelling first, then without regard to case.
    pub fn get(&self, kind: &str) -> Option<&'static ComponentSpec> {
        self.specs
            .get(kind)
            .copied()
            // Canvases are written by hand and by many editors, which differ in case.
            .or_else(|| self.specs.values().find(|spec| spec.kind.eq_ignore_ascii_case(kind)).copied())
    }

    /// Every type, by name.
    pub fn all(&self) -> Vec<&'static ComponentSpec> {
        let mut all: Vec<_> = self.specs.values().copied().collect();
        // The table has an order of its own in each process; what is written from it must not change from one
        // to the next.
        all.sort_by_key(|spec| spec.kind);
        all
    }
}
