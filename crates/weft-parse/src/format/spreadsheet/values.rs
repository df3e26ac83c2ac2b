//! Formats cell values for readers.

use calamine::Data;

/// Formats a value as a spreadsheet program would show it.
pub(super) fn shown(data: &Data) -> String {
    match data {
        Data::String(text) => text.clone(),
        // A date without a time is stored as midnight.
        Data::DateTimeIso(text) => text.strip_suffix("T00:00:00").unwrap_or(text).replacen('T', " ", 1),
        Data::DurationIso(text) => duration(text).unwrap_or_else(|| text.clone()),
        Data::Int(number) => number.to_string(),
        Data::Float(number) => rounded(*number).to_string(),
        Data::Bool(value) => value.to_string(),
        Data::DateTime(date) if date.is_duration() => {
            let seconds = (date.as_f64() * 86_400.0).round();
            format!(
                "{}:{:02}:{:02}",
                (seconds / 3_600.0).floor(),
                (seconds / 60.0).floor() % 60.0,
                seconds % 60.0
            )
        }
        Data::DateTime(date) => {
            let (year, month, day, hour, minute, second, _) = date.to_ymd_hms_milli();
            match (hour, minute, second) {
                // A value below one day is a time of day without a date.
                _ if (0.0..1.0).contains(&date.as_f64()) => format!("{hour:02}:{minute:02}:{second:02}"),
                // A date without a time is stored as midnight.
                (0, 0, 0) => format!("{year:04}-{month:02}-{day:02}"),
                _ => format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"),
            }
        }
        // `#N/A` carries no information.
        Data::Error(_) | Data::Empty => String::new(),
    }
}

/// Rounds a number to the 15 digits that spreadsheets show; further digits are artefacts of binary floating point.
fn rounded(number: f64) -> f64 {
    if number.fract() == 0.0 {
        return number;
    }
    format!("{number:.14e}").parse().unwrap_or(number)
}

/// Converts a duration in OpenDocument's form, `PT01H30M00S`, to hours, minutes and seconds.
fn duration(text: &str) -> Option<String> {
    let mut rest = text.strip_prefix("PT")?;
    let mut parts = [0.0_f64; 3];
    for (part, unit) in parts.iter_mut().zip(['H', 'M', 'S']) {
        if let Some((number, behind)) = rest.split_once(unit) {
            *part = number.parse().ok()?;
            rest = behind;
        }
    }
    let [hours, minutes, seconds] = parts.map(f64::round);
    rest.is_empty().then(|| format!("{hours}:{minutes:02}:{seconds:02}"))
}

#[cfg(test)]
mod tests {
    use calamine::{ExcelDateTime, ExcelDateTimeType};

    use super::*;

    #[test]
    fn a_time_of_day_has_no_date() {
        let check = |value: f64, expected: &str| {
            let date = ExcelDateTime::new(value, ExcelDateTimeType::DateTime, false);
            assert_eq!(shown(&Data::DateTime(date)), expected);
        };
        check(0.34375, "08:15:00");
        check(0.0, "00:00:00");
        check(45_943.0, "2025-10-13");
        check(45_943.5, "2025-10-13 12:00:00");
    }

    #[test]
    fn numbers_have_their_displayed_digits() {
        let check = |number: f64, expected: &str| assert_eq!(shown(&Data::Float(number)), expected);
        check(0.1 + 0.2, "0.3");
        check(1.000_000_000_000_000_2e-2, "0.01");
        check(36.5, "36.5");
        check(-1.0 / 3.0, "-0.333333333333333");
        check(1_234_567_890_123_456.0, "1234567890123456");
        let day = |text: &str| shown(&Data::DateTimeIso(text.to_owned()));
        assert_eq!(day("2024-03-01T00:00:00"), "2024-03-01");
        assert_eq!(day("2024-03-01T10:30:00"), "2024-03-01 10:30:00");
    }

    #[test]
    fn durations_are_shown_as_clock_times() {
        let check = |text: &str, expected: &str| {
            assert_eq!(shown(&Data::DurationIso(text.to_owned())), expected);
        };
        check("PT01H30M00S", "1:30:00");
        check("PT30H5M7.6S", "30:05:08");
        check("PT45S", "0:00:45");
        check("P1Y", "P1Y");
        check("PTxS", "PTxS");
    }
}
