//! The revisions of the protocol that are spoken.

/// A revision. Up to [`ProtocolRevision::V2025_11_25`] a conversation begins with `initialize`; from
/// [`ProtocolRevision::V2026_07_28`] on every request stands alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtocolRevision {
    /// 2024-11-05.
    V2024_11_05,
    /// 2025-03-26.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25.
    V2025_11_25,
    /// 2026-07-28.
    V2026_07_28,
}

impl ProtocolRevision {
    /// Every revision, the newest first.
    pub const ALL: [Self; 5] =
        [Self::V2026_07_28, Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];

    /// The newest that begins with `initialize`.
    pub const LAST_WITH_SESSIONS: Self = Self::V2025_11_25;

    /// What a request over HTTP speaks that does not say it.
    pub const UNSAID: Self = Self::V2025_03_26;

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The one of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == name)
    }

    /// Whether every request stands alone.
    pub fn is_stateless(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// What an `initialize` is answered with: the revision that it asks for, else the newest that it can mean.
    pub fn negotiated(asked: Option<&str>) -> Self {
        let known = asked.and_then(Self::parse).filter(|revision| !revision.is_stateless());
        known.unwrap_or(Self::LAST_WITH_SESSIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_uses_the_requested_revision_or_the_newest() {
        let check = |asked: Option<&str>, expected: &str| {
            assert_eq!(ProtocolRevision::negotiated(asked).as_str(), expected, "{asked:?}");
        };
        check(Some("2025-06-18"), "2025-06-18");
        check(Some("2024-11-05"), "2024-11-05");
        // That revision has no `initialize`, so a client that sends one also speaks an older revision.
        check(Some("2026-07-28"), "2025-11-25");
        check(Some("1.0"), "2025-11-25");
        check(None, "2025-11-25");
    }

    #[test]
    fn the_newest_revision_comes_first() {
        assert!(ProtocolRevision::ALL.windows(2).all(|pair| pair[0] > pair[1]));
        for revision in ProtocolRevision::ALL {
            assert_eq!(ProtocolRevision::parse(revision.as_str()), Some(revision));
        }
    }
}
