//! The names that interfaces use for one number: the share of the vectors in a score.
//!
//! Internally there is only the vector weight. It is converted here, at the boundary.

use crate::rank::VECTOR_WEIGHT;

/// Weights are rounded to this many parts of one.
const PARTS_OF_ONE: f64 = 1e12;

/// The interface that a weight comes from, or is passed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interface {
    /// The Retrieval component, and the tool built from it.
    Component,
    /// `POST /api/v1/retrieval`.
    Http,
    /// The settings of a dataset.
    Dataset,
    /// The settings of a chat assistant.
    Chat,
    /// The endpoint that follows Dify's external knowledge API.
    Dify,
    /// The search of memories: its parameter is named after the words but weighs the vectors.
    Memory,
}

/// What a weight applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WeightMeaning {
    Words,
    Vectors,
}

impl Interface {
    /// All interfaces, in the order of the documentation.
    pub const ALL: [Self; 6] =
        [Self::Component, Self::Http, Self::Dataset, Self::Chat, Self::Dify, Self::Memory];

    /// Returns the name of its parameter; `None` if it has none.
    pub fn parameter(self) -> Option<&'static str> {
        match self {
            Self::Component | Self::Chat | Self::Memory => Some("keywords_similarity_weight"),
            Self::Http | Self::Dataset => Some("vector_similarity_weight"),
            Self::Dify => None,
        }
    }

    fn counts(self) -> WeightMeaning {
        match self {
            Self::Component | Self::Chat => WeightMeaning::Words,
            Self::Http | Self::Dataset | Self::Dify | Self::Memory => WeightMeaning::Vectors,
        }
    }

    /// Returns the default vector weight. A search without a weight leaves the choice to Weft and gets the
    /// equal shares that docs/quality.md measures. The settings of datasets and chats keep the value of
    /// RAGFlow's API, since their clients read it back and compare.
    pub fn default_vector_weight(self) -> f64 {
        match self {
            Self::Component | Self::Http | Self::Dify => f64::from(VECTOR_WEIGHT),
            Self::Memory => 0.7,
            Self::Dataset | Self::Chat => 0.3,
        }
    }

    /// Returns the default minimum score.
    pub const fn default_threshold(self) -> f64 {
        match self {
            Self::Component | Self::Http | Self::Dataset | Self::Chat | Self::Memory => 0.2,
            Self::Dify => 0.0,
        }
    }

    /// Returns the vector weight for a parameter.
    pub fn vector_weight(self, given: Option<f64>) -> f64 {
        match (given.filter(|given| given.is_finite()), self.counts()) {
            (None, _) => self.default_vector_weight(),
            (Some(given), WeightMeaning::Words) => 1.0 - given.clamp(0.0, 1.0),
            (Some(given), WeightMeaning::Vectors) => given.clamp(0.0, 1.0),
        }
    }

    /// Returns the parameter for a vector weight: reading returns what was written.
    pub fn parameter_for(self, vector_weight: f64) -> f64 {
        match self.counts() {
            // Two subtractions of binary fractions do not yield 0.1 again, and clients compare what they read
            // with what they wrote.
            WeightMeaning::Words => ((1.0 - vector_weight) * PARTS_OF_ONE).round() / PARTS_OF_ONE,
            WeightMeaning::Vectors => vector_weight,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_has_a_name_in_every_interface() {
        let check = |interface: Interface, name: Option<&str>, given: Option<f64>, expected: f64| {
            assert_eq!(interface.parameter(), name, "{interface:?}");
            let weight = interface.vector_weight(given);
            assert!((weight - expected).abs() < 1e-9, "{interface:?} {given:?}: {weight}");
        };
        let (words, vectors) = (Some("keywords_similarity_weight"), Some("vector_similarity_weight"));
        check(Interface::Component, words, None, 0.5);
        check(Interface::Component, words, Some(0.7), 0.3);
        check(Interface::Component, words, Some(1.0), 0.0);
        check(Interface::Http, vectors, None, 0.5);
        check(Interface::Http, vectors, Some(0.7), 0.7);
        check(Interface::Dataset, vectors, None, 0.3);
        check(Interface::Dataset, vectors, Some(1.0), 1.0);
        check(Interface::Chat, words, None, 0.3);
        check(Interface::Chat, words, Some(0.7), 0.3);
        check(Interface::Dify, None, None, 0.5);
        check(Interface::Http, vectors, Some(7.0), 1.0);
        check(Interface::Http, vectors, Some(f64::NAN), 0.5);
    }

    #[test]
    fn weights_round_trip() {
        for interface in Interface::ALL {
            for given in [0.0, 0.25, 0.7, 1.0] {
                let back = interface.parameter_for(interface.vector_weight(Some(given)));
                assert!((back - given).abs() < 1e-9, "{interface:?}");
            }
            for given in (0..=1_000_u32).map(|part| f64::from(part) / 1_000.0) {
                let back = interface.parameter_for(interface.vector_weight(Some(given)));
                assert_eq!(back.to_bits(), given.to_bits(), "{interface:?}: {given} came back as {back}");
            }
        }
    }
}
