//! The CurrentTime component: tells the time in a time zone. Knows the zones of the IANA database as of this build.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use weft_core::effect::Delivery;
use weft_core::{
    Component, ComponentSpec, Error, Finished, Json, NodeContext, Outputs, ParamProblem, Reads, Result, Role,
    Shape, Template, ToolSpec, Value, async_trait,
};

use crate::params::{Field, Params, fields};

/// The zone when none is named.
const DEFAULT_ZONE: &str = "UTC";
/// An example of a valid name, for messages.
const HELP: &str = "write a name of the IANA database, such as `Europe/Berlin` or `UTC`";

static TIMEZONE: Field<Template> = Field::template("timezone", "an IANA name, such as `Europe/Berlin`")
    .or(DEFAULT_ZONE)
    .by_model_if_wanted("a name of the IANA time zone database, such as Europe/Berlin");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "CurrentTime",
    role: Role::Step,
    summary: "Returns the date, the weekday and the time of day in a time zone.",
    fields: &[fields(&[&TIMEZONE])],
    outputs: &[
        weft_core::OutputSpec::new("result", "string", "weekday, date and time as text"),
        weft_core::OutputSpec::new("iso", "string", "date and time in ISO 8601 format"),
        weft_core::OutputSpec::new("weekday", "string", "its English name"),
        weft_core::OutputSpec::new("timezone", "string", "an IANA name, such as `Europe/Paris`"),
        weft_core::OutputSpec::new("unix_ms", "integer", "milliseconds since 1970"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "current_time", idempotent: true, sources: false }),
    build: |source| {
        let mut params = Params::of(source);
        let zone = params.take(&TIMEZONE);
        // The value of a reference is known only at run time.
        if zone.references().next().is_none() && find(zone.source()).is_err() {
            let message = format!("`{}` is not a time zone", zone.source());
            params.problem(ParamProblem::new("/timezone", message).help(HELP));
        }
        params.finish(CurrentTime { zone })
    },
};

struct CurrentTime {
    zone: Template,
}

fn find(name: &str) -> Result<TimeZone> {
    TimeZone::get(name.trim())
        .map_err(|_| Error::invalid(format!("`{}` is not a time zone", name.trim())).help(HELP))
}

/// Formats the moment in that zone.
fn told(now_ms: i64, zone: &str) -> Result<Outputs> {
    let zone = if zone.trim().is_empty() { DEFAULT_ZONE } else { zone };
    let moment = Timestamp::from_millisecond(now_ms)
        .map_err(|cause| Error::internal("the system clock is wrong").because(cause))?
        .to_zoned(find(zone)?);
    let iso = moment.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    let weekday = moment.strftime("%A").to_string();
    let zone = moment.time_zone().iana_name().unwrap_or(DEFAULT_ZONE);
    let mut outputs = Outputs::of("result", Value::text(format!("{weekday} {iso} ({zone})")));
    outputs.set("iso", Value::text(iso));
    outputs.set("weekday", Value::text(weekday));
    outputs.set("timezone", Value::text(zone));
    outputs.set("unix_ms", Json::from(now_ms));
    Ok(outputs)
}

#[async_trait]
impl Component for CurrentTime {
    fn shape(&self) -> Shape {
        let reads = Reads::always(self.zone.references().cloned());
        Shape { reads, main_output: "result", ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let zone = self.zone.render(&ctx.inputs)?;
        let now = async { Ok(ctx.run.seams.clock.now_ms()) };
        let (now_ms, _) = ctx.effect("clock", Delivery::Idempotent, now).await?;
        Ok(told(now_ms, &zone)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::told;
    use crate::testing::{Node, Setting, failure, outputs};
    use serde_json::json;

    #[test]
    fn times_are_given_in_the_requested_zone_with_dst() {
        let check = |now_ms: i64, zone: &str, expected: &str| {
            let outputs = told(now_ms, zone).unwrap();
            assert_eq!(json!(outputs)["result"], expected);
        };
        check(1_767_225_600_000, "UTC", "Thursday 2026-01-01T00:00:00+00:00 (UTC)");
        check(1_767_225_600_000, "Europe/Berlin", "Thursday 2026-01-01T01:00:00+01:00 (Europe/Berlin)");
        check(1_782_864_000_000, "europe/berlin", "Wednesday 2026-07-01T02:00:00+02:00 (Europe/Berlin)");
        check(1_767_225_599_999, " Asia/Kolkata ", "Thursday 2026-01-01T05:29:59+05:30 (Asia/Kolkata)");
        check(-1, "", "Wednesday 1969-12-31T23:59:59+00:00 (UTC)");
    }

    #[tokio::test]
    async fn the_time_comes_from_the_run_clock() {
        let node = Node::new("CurrentTime", json!({"timezone": "{Agent:A@zone}"}));
        let found = outputs(&node, Setting::values([("Agent:A@zone", json!("Asia/Tokyo"))])).await;
        let expected = json!({"result": "Thursday 1970-01-01T09:00:00+09:00 (Asia/Tokyo)",
            "iso": "1970-01-01T09:00:00+09:00", "weekday": "Thursday", "timezone": "Asia/Tokyo", "unix_ms": 0});
        assert_eq!(found, expected);
        assert_eq!(
            outputs(&Node::new("CurrentTime", json!({})), Setting::default()).await["timezone"],
            "UTC"
        );
        let error = failure(&node, Setting::values([("Agent:A@zone", json!("../etc/localtime"))])).await;
        assert!(error.full().contains("Europe/Berlin"), "{}", error.full());
        assert_eq!(Node::new("CurrentTime", json!({"timezone": "Mars"})).problems(), ["/timezone"]);
    }
}
