//! The surroundings of an agent that runs without a canvas and without a run.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use weft_core::budget::{Budget, BudgetLimits, Holder, Spent};
use weft_core::context::{RunContext, SIGNALS_IN_FLIGHT_MAX, Signal, TurnInput};
use weft_core::effect::Effects;
use weft_core::reference::Inputs;
use weft_core::seam::http::{HttpRequest, HttpResponse};
use weft_core::seam::{Clock, Http, Seams};
use weft_core::{Error, ErrorKind, NodeContext, Result, TenantId, async_trait};

/// The signals that an agent sends while it works.
pub(crate) type Signals = mpsc::Receiver<(u32, Signal)>;

/// An environment with a clock and nothing else.
pub(crate) fn seams() -> Seams {
    Seams::without_services(Arc::new(NoHttp), Arc::new(WallClock(Instant::now())))
}

/// The run context for the work of a program. Nothing of it is stored: there is no journal.
pub(crate) fn run_context(seams: &Arc<Seams>, limits: BudgetLimits, session: &str) -> Arc<RunContext> {
    Arc::new(RunContext {
        // An embedding program is a single tenant, but every seam requires one.
        tenant: TenantId::from("program"),
        run: weft_core::id::generate().as_str().into(),
        canvas: "".into(),
        session: session.into(),
        input: TurnInput::default(),
        history: Vec::new(),
        past_calls: Default::default(),
        inbox: Default::default(),
        citations: Default::default(),
        masks: Default::default(),
        seams: Arc::clone(seams),
        components: Arc::default(),
        budget: Budget::new(Holder::Run, limits, Spent::default(), None),
        seed: 0,
    })
}

/// The context of one task of an agent, and the receiver of its signals.
pub(crate) fn node_context(
    run: &Arc<RunContext>,
    agent: &Arc<str>,
    effects: Effects,
    cancel: CancellationToken,
) -> (Arc<NodeContext>, Signals) {
    let (signals, coming) = mpsc::channel(SIGNALS_IN_FLIGHT_MAX);
    let ctx = NodeContext {
        run: Arc::clone(run),
        node: format!("Agent:{agent}").as_str().into(),
        name: Arc::clone(agent),
        activation: 1,
        inputs: Inputs::default(),
        alternative: 0,
        round: None,
        filled: serde_json::Map::new(),
        timed_out: false,
        resumed: None,
        budget: Arc::clone(&run.budget),
        effects,
        part: "".into(),
        heard: false,
        keeps_data: false,
        floor: Default::default(),
        cancel,
        signals,
    };
    (Arc::new(ctx), coming)
}

struct NoHttp;

#[async_trait]
impl Http for NoHttp {
    async fn send(&self, _: &TenantId, _: HttpRequest) -> Result<HttpResponse> {
        Err(no_network())
    }

    async fn may_reach(&self, _: &TenantId, _: &str) -> Result<()> {
        Err(no_network())
    }
}

fn no_network() -> Error {
    Error::new(ErrorKind::Denied, "this agent has no network access")
        .help("set `seams` with network access in its builder")
}

struct WallClock(Instant);

impl Clock for WallClock {
    fn now_ms(&self) -> i64 {
        // A clock set to a time before 1970 is no reason to fail.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn running(&self) -> Duration {
        self.0.elapsed()
    }
}
