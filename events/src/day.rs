//! Days as accounts are kept by: in UTC.

const DAY_US: i64 = 86_400_000_000;

/// Returns the day in UTC, yyyy-mm-dd, and when it ends.
pub fn day(at_us: i64) -> (String, i64) {
    let days = at_us.div_euclid(DAY_US);
    // Days to a civil date, by eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (
        format!("{year:04}-{month:02}-{day:02}"),
        days.saturating_add(1).saturating_mul(DAY_US),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_civil() {
        let start = 20_787 * DAY_US;
        assert_eq!(day(0), ("1970-01-01".into(), DAY_US));
        assert_eq!(day(start), ("2026-11-30".into(), start + DAY_US));
        assert_eq!(day(start - 1).0, "2026-11-29");
        assert_eq!(day(951_782_400_000_000).0, "2000-02-29");
        assert_eq!(day(4_107_542_400_000_000).0, "2100-03-01");
        assert_eq!(day(-1).0, "1969-12-31");
    }
}
