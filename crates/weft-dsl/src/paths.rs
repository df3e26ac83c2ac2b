//! Paths into the members of values, such as `env.settings.city`.

/// Maximum number of prefixes of a path that are tried. No output or variable has a name with that many dots.
// Each prefix is looked up as a whole, so a path of a megabyte of dots would be read half a million times.
pub(crate) const NAMES_MAX: usize = 16;

/// Returns the prefixes of a path that end before a dot: the values it may lead into.
pub fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('.').take(NAMES_MAX).map(|(at, _)| &path[..at])
}
