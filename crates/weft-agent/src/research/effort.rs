//! How much effort goes into the points of a question, and which sources are searched when.

use serde::{Deserialize, Serialize};
use weft_core::Json;
use weft_core::value::to_text;

use super::{Limits, SourceKind};

/// The effort spent on a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// One search for the question, and a report that is not judged.
    Low,
    /// A few points, each report judged.
    Medium,
    /// More points, and sources one after the other.
    #[default]
    High,
    /// The most points, including those discovered on the way, and lower thresholds.
    Ultra,
}

/// Confidence thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bars {
    /// Minimum confidence at which a point is settled.
    pub(super) sure: f64,
    /// Minimum confidence at which its report is used with a caveat; below it, the report is not used.
    pub(super) likely: f64,
    /// If the judge's confidence is lower, the point is investigated again, whatever the report says.
    pub(super) floor: f64,
}

impl Effort {
    /// The effort with this name or number: `low` to `ultra`, 1 to 4.
    pub fn named(value: &Json) -> Option<Self> {
        match to_text(value).trim().to_ascii_lowercase().as_str() {
            "low" | "1" => Some(Self::Low),
            "medium" | "2" => Some(Self::Medium),
            "high" | "3" => Some(Self::High),
            "ultra" | "4" => Some(Self::Ultra),
            _ => None,
        }
    }

    /// Its default limits of points, rounds and searches.
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
            // There is no judge whose confidence could be compared with the floor.
            Self::Low => Bars { sure: 0.85, likely: 0.45, floor: 0.0 },
            Self::Medium => Bars { sure: 0.75, likely: 0.45, floor: 0.55 },
            Self::High => Bars { sure: 0.70, likely: 0.40, floor: 0.50 },
            // Lower, because more rounds and sources support each report.
            Self::Ultra => Bars { sure: 0.65, likely: 0.35, floor: 0.45 },
        }
    }

    /// Whether a second request judges each report.
    pub(super) fn is_judged(self) -> bool {
        self != Self::Low
    }

    /// Whether points named in a report are investigated as well.
    pub(super) fn discovers(self) -> bool {
        self == Self::Ultra
    }

    /// Whether the answer may come from the model's own knowledge when no source has anything.
    pub fn may_go_without_sources(self) -> bool {
        self == Self::Ultra
    }
}

/// The purpose of a round, which decides the sources it may search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Find the passages: the datasets.
    Locate,
    /// Find what they are related to: the graph as well.
    Explore,
    /// Verify the findings: all sources.
    Verify,
}

impl Phase {
    /// The phase of a round, given the number of rounds. The last one searches all sources, as some might otherwise
    /// never be searched.
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

    /// The sources that it searches, out of those available; all of them if there would be none.
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
    fn efforts_are_names_or_numbers() {
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
    fn sources_are_widened_step_by_step_until_all_are_searched() {
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
