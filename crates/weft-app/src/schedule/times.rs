//! The times at which a schedule fires. Pure: the result only depends on the arguments.

use std::str::FromStr as _;
use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use weft_core::seam::schedule_store::Timing;
use weft_core::{Error, Result};

/// The shortest interval, in milliseconds.
// Workers look for schedules that are due about once a second.
const EVERY_MS_MIN: i64 = 1_000;

/// The longest interval, in milliseconds: a hundred years.
const EVERY_MS_MAX: i64 = 100 * 366 * 86_400_000;

/// Maximum size of a cron expression, in bytes.
const EXPRESSION_BYTES_MAX: usize = 256;

/// Maximum number of characters of an invalid interval that an error repeats.
const TEXT_SHOWN_MAX: usize = 40;

/// A valid [`Timing`].
#[derive(Clone, Debug)]
pub struct Times(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Cron { cron: Box<Cron>, zone: TimeZone },
    Every { every_ms: i64, from_ms: i64 },
}

impl Times {
    /// Parses a timing.
    ///
    /// # Errors
    /// `Invalid`, with the reason.
    pub fn parse(timing: &Timing) -> Result<Self> {
        Ok(Self(match timing {
            Timing::Cron { expression, zone } => {
                Kind::Cron { cron: Box::new(cron(expression)?), zone: self::zone(zone)? }
            }
            &Timing::Every { every_ms, from_ms } => {
                if !(EVERY_MS_MIN..=EVERY_MS_MAX).contains(&every_ms) {
                    return Err(Error::invalid(
                        "an interval must be at least a second and at most 100 years",
                    ));
                }
                Kind::Every { every_ms, from_ms }
            }
        }))
    }

    /// Returns the first time after this one, in milliseconds since 1970; `None` if there are no more.
    pub fn after(&self, ms: i64) -> Option<i64> {
        match &self.0 {
            Kind::Cron { cron, zone } => {
                let found = cron.find_next_occurrence(&zoned(ms, zone)?, false).ok()?;
                Some(found.timestamp().as_millisecond()).filter(|found| *found > ms)
            }
            Kind::Every { every_ms, from_ms } => {
                let passed = ms.checked_sub(*from_ms)?.max(0) / every_ms;
                from_ms.checked_add((passed + 1).checked_mul(*every_ms)?)
            }
        }
    }

    /// Returns the last time that is not after this one, in milliseconds since 1970; `None` if there is none.
    pub fn until(&self, ms: i64) -> Option<i64> {
        match &self.0 {
            Kind::Cron { cron, zone } => {
                let found = cron.find_previous_occurrence(&zoned(ms, zone)?, true).ok()?;
                Some(found.timestamp().as_millisecond()).filter(|found| *found <= ms)
            }
            Kind::Every { every_ms, from_ms } => {
                let passed = ms.checked_sub(*from_ms)? / every_ms;
                if passed < 1 { None } else { from_ms.checked_add(passed.checked_mul(*every_ms)?) }
            }
        }
    }
}

/// Converts a time to whole seconds, the resolution of cron.
fn zoned(ms: i64, zone: &TimeZone) -> Option<Zoned> {
    Some(Timestamp::from_second(ms.div_euclid(1_000)).ok()?.to_zoned(zone.clone()))
}

fn cron(expression: &str) -> Result<Cron> {
    let refuse = |why: String| {
        Error::invalid(format!("the cron expression `{expression}` is not valid: {why}"))
            .help("write minute, hour, day of month, month and day of week, such as `0 8 * * MON-FRI`")
    };
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(Error::invalid("the cron expression is too long")
            .help(format!("use at most {EXPRESSION_BYTES_MAX} bytes")));
    }
    // The parser's message for this case is about its own settings.
    match expression.split_whitespace().count() {
        5 | 6 => {}
        1 if expression.trim_start().starts_with('@') => {}
        1 => return Err(refuse("it has 1 field".to_owned())),
        fields => return Err(refuse(format!("it has {fields} fields"))),
    }
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
    let cron = parser
        .parse(expression)
        .map_err(|cause| refuse(wrong_field(expression, &parser).unwrap_or_else(|| cause.to_string())))?;
    // An expression that matches no day, such as the 30th of February, is detected by searching for a match.
    let from = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
    match cron.find_next_occurrence(&from, false) {
        Ok(_) => Ok(cron),
        Err(_) => Err(refuse("there is no such day".to_owned())),
    }
}

/// The fields of an expression and the values they allow. The first may be absent.
const FIELDS: [(&str, &str); 6] = [
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of month", "1 to 31, or L for the last"),
    ("month", "1 to 12, or JAN to DEC"),
    ("day of week", "0 to 7, or SUN to SAT"),
];

/// Returns which field of an expression is not valid and what it allows; the parser's message contains neither.
fn wrong_field(expression: &str, parser: &CronParser) -> Option<String> {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    if let [word] = fields.as_slice() {
        let known = "@hourly, @daily, @weekly, @monthly and @yearly";
        return Some(format!("there is no `{word}`; the words are {known}"));
    }
    let known = FIELDS.iter().skip(FIELDS.len().saturating_sub(fields.len()));
    fields.iter().zip(known).enumerate().find_map(|(at, (field, (name, allowed)))| {
        let alone: Vec<&str> =
            (0..fields.len()).map(|other| if other == at { *field } else { "*" }).collect();
        parser.parse(&alone.join(" ")).is_err().then(|| {
            format!(
                "`{field}` is not possible for the {name}: write {allowed}, also in lists (A,B), ranges (A-B) and steps (*/N, A-B/N)"
            )
        })
    })
}

/// Returns a time zone from the database compiled into the program, so that all workers of one version agree.
fn zone(name: &str) -> Result<TimeZone> {
    TimeZone::get(name).map_err(|_| {
        Error::invalid(format!("there is no time zone `{name}`"))
            .help("write a name of the IANA database, such as Europe/Berlin or UTC")
    })
}

/// Parses an interval such as `90s`, `15m`, `1h30m` or `2 days`.
///
/// # Errors
/// `Invalid` for any other text.
pub fn interval(text: &str) -> Result<Duration> {
    let refuse = || {
        let shown: String = text.chars().take(TEXT_SHOWN_MAX).collect();
        Error::invalid(format!("`{shown}` is not an interval"))
            .help("write a number and a unit, such as 90s, 15m, 2h or 1d")
    };
    // A day means 24 hours here. The parser below accepts no days, because their length depends on clock changes.
    let small = text.trim().to_ascii_lowercase();
    let days = ["days", "day", "d"].iter().find_map(|unit| small.strip_suffix(unit));
    if let Some(days) = days.and_then(|days| days.trim().parse::<u32>().ok()) {
        return Ok(Duration::from_secs(u64::from(days) * 86_400));
    }
    // Without the parser's message, which is about formats that are not documented here.
    let parsed = SignedDuration::from_str(text.trim()).map_err(|_| refuse())?;
    Duration::try_from(parsed).map_err(|_| refuse())
}

/// Formats an interval in milliseconds in the syntax of [`interval`].
pub fn interval_text(ms: i64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let fits = units.iter().find(|(unit, _)| ms % unit == 0);
    fits.map_or_else(|| format!("{ms}ms"), |(unit, name)| format!("{}{name}", ms / unit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(expression: &str, zone: &str) -> Times {
        let timing = Timing::Cron { expression: expression.into(), zone: zone.into() };
        Times::parse(&timing).unwrap()
    }

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    /// The times between two instants, in UTC.
    fn between(times: &Times, from: &str, to: &str) -> Vec<String> {
        let (mut at, to) = (ms(from), ms(to));
        let mut found = Vec::new();
        while let Some(next) = times.after(at).filter(|next| *next <= to) {
            found.push(Timestamp::from_millisecond(next).unwrap().to_string());
            at = next;
        }
        found
    }

    #[test]
    fn a_time_skipped_by_daylight_saving_fires_right_after_the_gap() {
        // In Berlin 3:00 follows 1:59:59 on that day, which is 1:00 UTC.
        let daily = of("30 2 * * *", "Europe/Berlin");
        assert_eq!(
            between(&daily, "2026-03-28T00:00:00Z", "2026-03-30T12:00:00Z"),
            ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
        );
        // A time that recurs every half hour simply goes on.
        let often = of("*/30 * * * *", "Europe/Berlin");
        assert_eq!(
            between(&often, "2026-03-29T00:20:00Z", "2026-03-29T01:40:00Z"),
            ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]
        );
    }

    #[test]
    fn a_time_repeated_by_daylight_saving_fires_once() {
        // In Berlin 2:00 follows 2:59:59 on that day, which is 1:00 UTC.
        let daily = of("30 2 * * *", "Europe/Berlin");
        assert_eq!(
            between(&daily, "2026-10-24T00:00:00Z", "2026-10-26T12:00:00Z"),
            ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        let often = of("*/30 * * * *", "Europe/Berlin");
        assert_eq!(
            between(&often, "2026-10-25T00:20:00Z", "2026-10-25T02:00:00Z"),
            ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"]
        );
    }

    #[test]
    fn cron_fields_have_their_standard_meaning() {
        let check = |expression: &str, next: &str| {
            let found = of(expression, "UTC").after(ms("2026-01-31T10:20:30.500Z")).unwrap();
            assert_eq!(Timestamp::from_millisecond(found).unwrap().to_string(), next, "{expression}");
        };
        check("* * * * *", "2026-01-31T10:21:00Z");
        check("* * * * * *", "2026-01-31T10:20:31Z");
        check("0 8 * * MON-FRI", "2026-02-02T08:00:00Z");
        check("0 0 31 * *", "2026-03-31T00:00:00Z");
        check("0 0 29 2 *", "2028-02-29T00:00:00Z");
        // With both a day of the month and a day of the week, either one matches.
        check("0 0 13 * FRI", "2026-02-06T00:00:00Z");
        check("@daily", "2026-02-01T00:00:00Z");
    }

    #[test]
    fn invalid_expressions_are_refused_with_the_reason() {
        let refused = |expression: &str, zone: &str| {
            let timing = Timing::Cron { expression: expression.into(), zone: zone.into() };
            Times::parse(&timing).unwrap_err().full()
        };
        for expression in ["", "x", "* * * *", "60 * * * *", "0 0 30 2 *", "0 0 0 0 *", "* * * * * * 2027"] {
            assert!(refused(expression, "UTC").contains("cron expression"), "{expression}");
        }
        assert!(refused("0 8 * *", "UTC").contains("`0 8 * *` is not valid: it has 4 fields"));
        for (expression, why) in [
            ("61 8 * * *", "`61 8 * * *` is not valid: `61` is not possible for the minute: write 0 to 59,"),
            ("61 0 8 * * *", "`61` is not possible for the second"),
            ("0 8-25 * * *", "`8-25` is not possible for the hour: write 0 to 23,"),
            ("0 8 * 13 *", "`13` is not possible for the month: write 1 to 12,"),
            ("0 8 * * MO", "`MO` is not possible for the day of week: write 0 to 7, or SUN to SAT"),
            ("5/10 * * * *", "steps (*/N, A-B/N)"),
            ("@hourli", "there is no `@hourli`; the words are @hourly,"),
        ] {
            assert!(refused(expression, "UTC").contains(why), "{}", refused(expression, "UTC"));
        }
        assert!(refused(&"*".repeat(300), "UTC").contains("too long"));
        assert!(refused("* * * * *", "Europe/Nowhere").contains("Europe/Nowhere"));
        for every_ms in [0, 999, -1, i64::MAX] {
            assert!(Times::parse(&Timing::Every { every_ms, from_ms: 0 }).is_err());
        }
    }

    #[test]
    fn intervals_are_counted_from_their_start() {
        let times = Times::parse(&Timing::Every { every_ms: 1_000, from_ms: 500 }).unwrap();
        assert_eq!(
            [-9_000, 500, 1_499, 1_500].map(|ms| times.after(ms)),
            [1_500, 1_500, 1_500, 2_500].map(Some)
        );
        assert_eq!(
            [500, 1_499, 1_500, 2_600].map(|ms| times.until(ms)),
            [None, None, Some(1_500), Some(2_500)]
        );
        assert_eq!((times.after(i64::MAX), times.after(i64::MIN)), (None, None));
        let cron = of("* * * * *", "UTC");
        assert_eq!((cron.after(i64::MAX), cron.until(i64::MIN)), (None, None));
    }

    #[test]
    fn intervals_are_parsed_and_printed_readably() {
        let seconds = |text: &str| interval(text).map(|interval| interval.as_secs()).ok();
        let texts = ["90s", "15m", "2h", "1h30m", "1d", " 2 d ", "PT15M", "15 minutes"];
        assert_eq!(texts.map(seconds), [90, 900, 7_200, 5_400, 86_400, 172_800, 900, 900].map(Some));
        assert_eq!(
            ["1 day", "2 days", "3DAYS", "1D"].map(seconds),
            [1, 2, 3, 1].map(|days| Some(days * 86_400))
        );
        let texts = [90_000, 900_000, 7_200_000, 86_400_000, 1_500].map(interval_text);
        assert_eq!(texts, ["90s", "15m", "2h", "1d", "1500ms"]);
        assert_eq!(["", "15", "m", "-5m", "soon", "1 fortnight"].map(seconds), [None; 6]);
    }

    proptest! {
        /// Searching backward finds the same times as searching forward, across both clock changes.
        #[test]
        fn backward_and_forward_search_agree(
            expression in prop::sample::select(vec![
                "30 2 * * *", "*/20 * * * *", "0 * * * *", "15 1-3 * * *", "0 2 29 3 *", "59 59 23 * * SUN", "0 0 1 */2 *",
            ]),
            zone in prop::sample::select(vec!["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
            minutes in 0_i64..525_600,
        ) {
            let times = of(expression, zone);
            let now = ms("2026-01-01T00:00:00Z") + minutes * 60_000;
            let next = times.after(now).unwrap();
            prop_assert!(next > now);
            prop_assert_eq!(times.until(next), Some(next));
            let before = times.until(next - 1).unwrap();
            prop_assert!(before <= now);
            prop_assert_eq!(times.after(before), Some(next));
        }
    }
}
