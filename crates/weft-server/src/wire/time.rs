//! Times as the API writes them.

/// `Fri, 11 Oct 2024 08:46:43 GMT`; empty for a time outside the calendar.
pub(crate) fn http_date(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map(|time| time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())
        .unwrap_or_default()
}

/// `2024-10-11 08:46:43`, in UTC; empty for a time outside the calendar.
pub(crate) fn date_and_time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(http_date(1_728_636_403_000), "Fri, 11 Oct 2024 08:46:43 GMT");
        assert_eq!(date_and_time(1_728_636_403_000), "2024-10-11 08:46:43");
        assert_eq!((http_date(i64::MAX), date_and_time(i64::MIN)), (String::new(), String::new()));
    }
}
