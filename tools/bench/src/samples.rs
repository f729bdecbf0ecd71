//! Durations and what is said of them.

use std::time::Duration;

/// Measured durations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn push(&mut self, took: Duration) {
        self.0.push(took);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest duration that `percent` of the samples do not exceed; `None` without samples.
    pub(crate) fn percentile(&self, percent: usize) -> Option<Duration> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted.get(rank.max(1) - 1).copied()
    }

    /// A percentile as text, or a dash.
    pub(crate) fn show(&self, percent: usize) -> String {
        self.percentile(percent)
            .map_or_else(|| "-".to_owned(), duration)
    }
}

/// The middle of some numbers; 0 without any.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

/// A duration in the unit that gives it three figures.
pub(crate) fn duration(took: Duration) -> String {
    let us = took.as_secs_f64() * 1e6;
    if us < 1_000.0 {
        format!("{us:.0} us")
    } else if us < 1_000_000.0 {
        format!("{:.2} ms", us / 1e3)
    } else {
        format!("{:.2} s", us / 1e6)
    }
}

/// A rate without decimals.
pub(crate) fn rate(per_second: f64) -> String {
    format!("{per_second:.0}")
}

/// A count as a number to divide.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are far below 2^52"
)]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let mut samples = Samples::default();
        assert_eq!(samples.percentile(50), None);
        for ms in [5, 1, 4, 2, 3] {
            samples.push(Duration::from_millis(ms));
        }
        assert_eq!(samples.percentile(50), Some(Duration::from_millis(3)));
        assert_eq!(samples.percentile(95), Some(Duration::from_millis(5)));
        assert_eq!(samples.percentile(1), Some(Duration::from_millis(1)));
        assert_eq!(samples.show(50), "3.00 ms");
    }

    #[test]
    fn the_median_of_three_is_the_middle_one() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
    }
}
