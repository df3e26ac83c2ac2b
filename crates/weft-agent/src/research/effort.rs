//! How much is done for the points of a question, and which sources are asked when.

use serde::{Deserialize, Serialize};
use weft_core::Json;
use weft_core::value::to_text;

use super::{Limits, SourceKind};

/// How much is done for a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// One search for the question, and a report that nobody judges.
    Low,
    /// A few points, each report judged.
    Medium,
    /// More points, and sources one after the other.
    #[default]
    High,
    /// The most points, also those that are discovered on the way, and lower bars.
    Ultra,
}

/// How sure one has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bars {
    /// From this on a point is settled.
    pub(super) sure: f64,
    /// From this on its report is told with a caveat; below it there is none.
    pub(super) likely: f64,
    /// A judge that is less sure has the point looked into again, whatever the report says.
    pub(super) floor: f64,
}

impl Effort {
    /// The effort of this name or number: `low` to `ultra`, 1 to 4.
    pub fn named(value: &Json) -> Option<Self> {
        match to_text(value).trim().to_ascii_lowercase().as_str() {
            "low" | "1" => Some(Self::Low),
            "medium" | "2" => Some(Self::Medium),
            "high" | "3" => Some(Self::High),
            "ultra" | "4" => Some(Self::Ultra),
            _ => None,
        }
    }

    /// What it may use of points, rounds and searches, when nobody says otherwise.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Limits {
        let (queries, depth, nodes) = match self {
            Self::Low => (1, 0, 1),
            Self::Medium => (3, 2, 9),
            Self::High => (5, 2, 15),
            Self::Ultra => (8, 3, 32),
        };
        Limits { queries, depth, nodes, effort: self, ..limits }
    }

    pub(super) fn bars(self) -> Bars {
        match self {
            // There is no judge whose floor could count.
            Self::Low => Bars { sure: 0.85, likely: 0.45, floor: 0.0 },
            Self::Medium => Bars { sure: 0.75, likely: 0.45, floor: 0.55 },
            Self::High => Bars { sure: 0.70, likely: 0.40, floor: 0.50 },
            // Lower, since more rounds and sources stand behind each report.
            Self::Ultra => Bars { sure: 0.65, likely: 0.35, floor: 0.45 },
        }
    }

    /// Whether a second request judges each report.
    pub(super) fn is_judged(self) -> bool {
        self != Self::Low
    }

    /// Whether points that a report names are looked into, too.
    pub(super) fn discovers(self) -> bool {
        self == Self::Ultra
    }

    /// Whether the answer may come from what the model knows when no source has anything.
    pub fn may_go_without_sources(self) -> bool {
        self == Self::Ultra
    }
}

/// What a round is for, which decides what it may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Where the passages are: the datasets.
    Locate,
    /// What hangs together with them: their graph as well.
    Explore,
    /// Whether it is so: everything there is.
    Verify,
}

impl Phase {
    /// The phase of a round, of so many. The last one asks everything, or a source might never be asked.
    pub(super) fn of(round: usize, rounds: usize) -> Self {
        match round {
            _ if round + 1 >= rounds => Self::Verify,
            0 => Self::Locate,
            1 => Self::Explore,
            _ => Self::Verify,
        }
    }

    fn allows(self, kind: SourceKind) -> bool {
        match self {
            Self::Locate => kind == SourceKind::Dataset,
            Self::Explore => kind != SourceKind::Web,
            Self::Verify => true,
        }
    }

    /// The sources that it asks, of those there are; all of them where it would ask none.
    pub(super) fn sources(self, there: &[SourceKind]) -> Vec<SourceKind> {
        let asked: Vec<SourceKind> = there.iter().copied().filter(|kind| self.allows(*kind)).collect();
        if asked.is_empty() { there.to_vec() } else { asked }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn efforts_go_by_names_and_numbers() {
        for (value, effort) in [
            (json!("low"), Some(Effort::Low)),
            (json!(" Medium"), Some(Effort::Medium)),
            (json!(3), Some(Effort::High)),
            (json!("4"), Some(Effort::Ultra)),
            (json!(true), None),
            (json!(""), None),
            (json!(5), None),
        ] {
            assert_eq!(Effort::named(&value), effort, "{value}");
        }
    }

    #[test]
    fn sources_are_asked_one_after_the_other_and_in_the_end_all_of_them() {
        use SourceKind::{Dataset, Graph, Web};
        let all = [Graph, Dataset, Web];
        let asked = |rounds: usize, there: &[SourceKind]| {
            (0..rounds).map(|round| Phase::of(round, rounds).sources(there)).collect::<Vec<_>>()
        };
        assert_eq!(asked(1, &all), [all.to_vec()]);
        assert_eq!(asked(2, &all), [vec![Dataset], all.to_vec()]);
        assert_eq!(asked(4, &all), [vec![Dataset], vec![Graph, Dataset], all.to_vec(), all.to_vec()]);
        assert_eq!(asked(3, &[Web]), [[Web], [Web], [Web]]);
    }
}
