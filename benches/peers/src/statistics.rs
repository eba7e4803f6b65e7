//! Medians and spreads.

use std::fmt;

/// A median, and the quartiles around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The value that half of the samples do not exceed.
    pub median: f64,
    /// The first quartile.
    pub low: f64,
    /// The third quartile.
    pub high: f64,
}

impl Summary {
    /// The summary of samples in any order.
    ///
    /// # Panics
    /// There are none.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = samples.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share| quantile(&sorted, share);
        Self { median: at(0.5), low: at(0.25), high: at(0.75) }
    }

    /// The summary of the ratios of two samples of the same round each.
    ///
    /// # Panics
    /// There are none, or not as many of one as of the other.
    pub fn of_ratios(of: &[f64], to: &[f64]) -> Self {
        assert_eq!(of.len(), to.len(), "both were measured in every round");
        Self::of(of.iter().zip(to).map(|(of, to)| of / to))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, low, high } = self;
        write!(f, "{median:.2} ({low:.2} to {high:.2})")
    }
}

/// The value below which a share of sorted samples lies, between two neighbours in proportion.
///
/// # Panics
/// There are no samples.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    assert!(!sorted.is_empty(), "there is something to summarise");
    let position = share * (sorted.len() - 1) as f64;
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    let part = position - position.floor();
    (sorted[above] - sorted[below]).mul_add(part, sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_whatever_the_order() {
        let summary = Summary::of([9.0, 1.0, 5.0, 3.0, 7.0]);
        assert_eq!(summary, Summary { median: 5.0, low: 3.0, high: 7.0 });
    }

    #[test]
    fn the_median_of_two_is_between_them() {
        assert_eq!(Summary::of([1.0, 2.0]).median, 1.5);
    }

    #[test]
    fn one_sample_is_its_own_summary() {
        assert_eq!(Summary::of([4.0]), Summary { median: 4.0, low: 4.0, high: 4.0 });
    }

    #[test]
    fn one_disturbed_round_does_not_move_the_median() {
        assert_eq!(Summary::of([1.0, 1.0, 1.0, 1.0, 1000.0]).median, 1.0);
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        // The machine was ten times as fast in the second round. The ratio of the medians would be 1.
        let summary = Summary::of_ratios(&[2.0, 10.0, 2.0], &[4.0, 20.0, 4.0]);
        assert_eq!(summary.median, 0.5);
    }

    #[test]
    fn quantiles_reach_from_the_least_to_the_greatest() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!([0.0, 1.0].map(|share| quantile(&sorted, share)), [1.0, 4.0]);
        assert_eq!(quantile(&sorted, 0.99), 3.97);
    }
}
