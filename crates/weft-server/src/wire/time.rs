//! Times in the formats of the API.

/// Formats a time as `Fri, 11 Oct 2024 08:46:43 GMT`; empty for a time outside the calendar.
pub(crate) fn http_date(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map(|time| time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())
        .unwrap_or_default()
}

/// Formats a time as `2024-10-11 08:46:43`, in UTC; empty for a time outside the calendar.
pub(crate) fn date_and_time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
        .unwrap_or_default()
}

/// Parses `2024-10-11 08:46:43` in UTC, or `2024-10-11` as the midnight at which it begins, to milliseconds since
/// 1970.
pub(crate) fn read(text: &str) -> Option<i64> {
    // A time with a zone is taken as it is.
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(time.as_millisecond());
    }
    let time: jiff::civil::DateTime = text.parse().ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

/// Parses a time as the last millisecond of its day or second, depending on its precision. A fraction of a second is
/// taken as it is.
pub(crate) fn read_end(text: &str) -> Option<i64> {
    let is_day = text.parse::<jiff::civil::Date>().is_ok() && !text.contains(':');
    // Nothing else in a time contains these.
    let has_fraction = text.contains(['.', ',']);
    let more = if is_day {
        86_399_999
    } else if has_fraction {
        0
    } else {
        999
    };
    Some(read(text)?.saturating_add(more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(http_date(1_728_636_403_000), "Fri, 11 Oct 2024 08:46:43 GMT");
        assert_eq!(date_and_time(1_728_636_403_000), "2024-10-11 08:46:43");
        assert_eq!(read("2024-10-11 08:46:43"), Some(1_728_636_403_000));
        assert_eq!(read("2024-10-11T08:46:43"), Some(1_728_636_403_000));
        assert_eq!(read("2024-10-11T10:46:43+02:00"), Some(1_728_636_403_000));
        assert_eq!(read("2024-10-11"), Some(1_728_604_800_000));
        assert_eq!(read_end("2024-10-11"), Some(1_728_691_199_999));
        assert_eq!(read_end("2024-10-11 08:46:43"), Some(1_728_636_403_999));
        for text in ["2024-10-11 08:46:43.25", "2024-10-11T10:46:43,25+02:00"] {
            assert_eq!(read_end(text), Some(1_728_636_403_250), "{text}");
        }
        assert_eq!(read_end("2024-10-11T08:46:43.000Z"), Some(1_728_636_403_000));
        assert_eq!((read("yesterday"), read_end("2024-13-01")), (None, None));
        assert_eq!((http_date(i64::MAX), date_and_time(i64::MIN)), (String::new(), String::new()));
    }
}
