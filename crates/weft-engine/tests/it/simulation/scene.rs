//! The subject of a history: a canvas, and the messages to it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::json;
use weft_core::journal::WaitingForm;
use weft_core::seam::{Clock, Knowledge, Seams, Workspace};
use weft_core::{Json, TurnInput};
use weft_dsl::Plan;
use weft_models::script::Script;
use weft_models::scripted::ScriptedModel;
use weft_testkit::{Dice, FaultyStore, MemoryWorkspace};

use crate::branches::{Spot, draw, filled, level};
use crate::golden::{Input, documents, http, read, samples};
use crate::kit::{Does, Outside, asking, node, plan, seams};
use crate::real::compiled;
use crate::survival::{OneModel, steady};

/// One in this many histories is a conversation of a sample canvas.
const SAMPLES_ONE_IN: u64 = 6;

/// How long an external call may take.
const OUTSIDE_MS_MAX: u64 = 400;

/// The external calls that were made, by node.
pub(super) type Calls = Arc<Mutex<BTreeMap<String, u64>>>;

pub(super) enum Scene {
    /// A random canvas of fakes, with this many items for its Iterations.
    Drawn(Vec<Spot>, usize),
    /// A sample canvas.
    Sample(Box<Sample>),
}

pub(super) struct Sample {
    pub folder: PathBuf,
    plan: Arc<Plan>,
    turns: Vec<TurnInput>,
    model: Arc<ScriptedModel>,
    knowledge: Arc<dyn Knowledge>,
}

impl Scene {
    pub(super) fn draw(dice: &mut Dice) -> Self {
        if dice.below(SAMPLES_ONE_IN) == 0 {
            return Self::sample(dice);
        }
        let mut bytes = [0; 32];
        bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&dice.number().to_le_bytes()));
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let spots = level(2).new_tree(&mut runner).unwrap().current();
        Self::Drawn(spots, dice.below(4) as usize)
    }

    fn sample(dice: &mut Dice) -> Self {
        let entries = std::fs::read_dir(samples()).unwrap().map(|entry| entry.unwrap().path());
        let mut folders: Vec<_> = entries.filter(|path| path.is_dir()).collect();
        folders.sort();
        let folder = folders.swap_remove(dice.below(folders.len() as u64) as usize);
        let plan = compiled(&read(&folder.join("canvas.json")).unwrap()).unwrap();
        let input: Input = serde_json::from_str(&read(&folder.join("input.json")).unwrap()).unwrap();
        let mut conversations = input.conversations;
        let turns = conversations.swap_remove(dice.below(conversations.len() as u64) as usize).turns;
        let script =
            read(&folder.join("script.json")).map_or_else(Script::new, |text| Script::parse(&text).unwrap());
        let knowledge = documents(&folder).now_or_never().unwrap();
        let model = steady(script).into();
        Self::Sample(Box::new(Sample { folder, plan, turns, model, knowledge }))
    }

    /// The world as one process sees it. A process cut off from its store gets no external answers either.
    pub(super) fn world(
        &self,
        (store, calls, files): (&Arc<FaultyStore>, &Calls, &Arc<MemoryWorkspace>),
        clock: Arc<dyn Clock>,
        mut dice: Dice,
    ) -> (Arc<Plan>, Seams) {
        match self {
            Self::Sample(sample) => (Arc::clone(&sample.plan), sample.seams(files, clock)),
            Self::Drawn(spots, _) => {
                let (store, calls) = (Arc::clone(store), Arc::clone(calls));
                let dice = Mutex::new(dice.split());
                let outside: Outside = Arc::new(move |who| {
                    let (store, calls) = (Arc::clone(&store), Arc::clone(&calls));
                    let ms = dice.lock().unwrap().below(OUTSIDE_MS_MAX);
                    let call = async move {
                        store.awake().await;
                        if store.is_cut() {
                            return std::future::pending().await;
                        }
                        *calls.lock().unwrap().entry(who).or_default() += 1;
                        tokio::time::sleep(Duration::from_millis(ms)).await;
                        store.awake().await;
                        if store.is_cut() { std::future::pending().await } else { Ok(Json::Null) }
                    };
                    call.boxed()
                });
                let mut nodes = Vec::new();
                let first = draw(spots, "n", None, &outside, &mut nodes);
                nodes.push(node("begin", Does::Echo, &first));
                (plan(&nodes), Seams { clock, ..Arc::into_inner(seams()).unwrap() })
            }
        }
    }

    /// The next message, after this many turns of which the last left these forms open.
    pub(super) fn says(&self, turn: usize, forms: &[WaitingForm]) -> Option<TurnInput> {
        match self {
            Self::Sample(sample) => sample.turns.get(turn).cloned(),
            Self::Drawn(_, items) if turn == 0 => {
                Some(TurnInput { files: (0..*items).map(|n| json!(n)).collect(), ..asking("q") })
            }
            Self::Drawn(..) if forms.is_empty() || turn > 60 => None,
            Self::Drawn(..) => {
                let mut input = filled(&json!({"v": "answer"}));
                for waiting in forms {
                    let task = waiting.form.fields.keys().next().unwrap();
                    if task != "v" {
                        let decision = json!({task: if task == "t" { 1 } else { 2 }});
                        input.inputs.insert(waiting.address(), decision);
                    }
                }
                Some(input)
            }
        }
    }

    /// Whether outputs may depend on the time of day.
    pub(super) fn tells_the_time(&self) -> bool {
        matches!(self, Self::Sample(_))
    }
}

impl Sample {
    fn seams(&self, files: &Arc<MemoryWorkspace>, clock: Arc<dyn Clock>) -> Seams {
        Seams {
            models: Arc::new(OneModel(Arc::clone(&self.model))),
            http: Arc::new(http(&self.folder)),
            knowledge: Arc::clone(&self.knowledge),
            workspace: Arc::clone(files) as Arc<dyn Workspace>,
            clock,
            ..weft_testkit::around::no_seams()
        }
    }
}
