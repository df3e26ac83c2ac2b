//! The supported revisions of the protocol.

/// A revision of the protocol. Up to [`ProtocolRevision::V2025_11_25`] a session begins with `initialize`; from
/// [`ProtocolRevision::V2026_07_28`] on every request is stateless.
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
    /// All revisions, newest first.
    pub const ALL: [Self; 5] =
        [Self::V2026_07_28, Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];

    /// The newest revision with sessions.
    pub const LAST_WITH_SESSIONS: Self = Self::V2025_11_25;

    /// The revision of a request over HTTP that does not name one.
    pub const UNNAMED: Self = Self::V2025_03_26;

    /// Returns its name in the protocol, which is its date.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Returns the revision with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == name)
    }

    /// Returns whether every request is stateless.
    pub fn is_stateless(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// Returns the revision for the response to `initialize`: the requested one if it is supported and has sessions,
    /// otherwise the newest with sessions.
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
