//! canvas JSON → plan → run → components → **agents** → events → API
//!
//! Question → model turns and tool calls → answer. A [`driver::Driver`] works on a [`driver::Job`]:
//! it decides in pure code (`turns`, [`planner`]) and acts through [`ask`] and [`calls`].
//!
//! # For programs that embed the engine
//!
//! A [`ReActAgent`] defines an agent; a [`Session`] is one conversation with it. Tools are made from plain
//! asynchronous functions, with the attribute [`macro@tool`] or from a closure ([`function`]). A [`Toolkit`]
//! validates the arguments that a model writes for them and limits the time and the output of each call.
//!
//! ```
//! use std::sync::Arc;
//!
//! use weft_agent::{ReActAgent, Toolkit, tool};
//! use weft_core::Result;
//! use weft_models::{Reply, Script, ScriptedModel};
//!
//! /// Adds numbers.
//! #[tool]
//! async fn add(
//!     /// The numbers to add.
//!     numbers: Vec<i64>,
//! ) -> Result<String> {
//!     Ok(numbers.iter().sum::<i64>().to_string())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let tools = Toolkit::new();
//! tools.register(add_tool()?)?;
//!
//! // Any model; this one says what it is told to.
//! let script = Script::new()
//!     .reply(Reply::call("add", serde_json::json!({"numbers": [1, 2]})))
//!     .reply(Reply::text("It is 3."));
//! let model = Arc::new(ScriptedModel::new(script));
//!
//! let agent = ReActAgent::builder("Ada", model).instructions("Be brief.").toolkit(tools).build()?;
//! let mut session = agent.session();
//! assert_eq!(session.reply("What is 1 + 2?").await?.text(), "It is 3.");
//! # Ok(())
//! # }
//! ```
//!
//! * **Ending.** The model ends a reply by calling [`react::FINISH_FUNCTION`], which is always offered; a message of
//!   text alone counts as such a call. [`Session::reply_as`] additionally asks for a value of a Rust type, and asks
//!   the model again until the value fits. After [`react::Settings::max_iters`] requests the model has to sum up.
//!   With [`react::FinishStyle::Text`] text alone ends a reply, which takes fewer tokens.
//! * **Failures.** A tool that fails, times out or is called with wrong arguments is reported to the model as text.
//!   Only an error of the model, of a hook or of the budget fails a reply.
//! * **Observing the work.** Put a [`react::message_queue`] into a session and read
//!   [`react::PrintedMessages::during`] the reply. Every item is the whole message so far; the last item of each
//!   message is marked as such.
//! * **Changing the work.** [`react::Hooks`] run before and after each stage, for one session, for all sessions of
//!   an agent, or for everything that shares them.
//! * **Stopping.** [`react::Interrupt`] ends a reply with a message that asks what to do. No call is left without a
//!   result, so the conversation can continue.
//! * **Messages in between.** What is put into [`Session::inbox`] during a reply is read before the next request to
//!   the model.
//! * **Background work.** A call of a [`react::ReActAgentBuilder::background_tool`] becomes a task that the model can
//!   inspect, wait for and stop, and that keeps running between replies.
//! * **Questions to people.** Registered as a background tool, the tool of [`react::UserQuestions`] asks people while
//!   the model works on; their answer is the result of its task.
//! * **Long conversations.** [`react::Settings::compression`] selects how the prompt is kept short: by leaving out
//!   the
//!   results of old calls, by sending the last turns only, or with a summary of a fixed form. The memory keeps
//!   everything.
//! * **Groups of tools.** Tools may be in groups that can be switched off; with
//!   [`react::ReActAgentBuilder::with_meta_tool`] the model switches on the groups it needs.
//! * **Plans.** [`react::ReActAgentBuilder::with_plan_notebook`] gives each session a notebook in which the model
//!   plans larger tasks, and hints that keep it to its plan; see [`plan_notebook`].
//! * **Memory and knowledge.** A [`long_term`] memory outlives a session; a [`react::KnowledgeBase`] is searched
//!   before the model reasons. A failure of either does not fail a reply.
//! * **Persistence.** [`Session::state`] is plain data; [`ReActAgent::resume`] continues from it in any process.
//!
//! # A graph of small steps
//!
//! A [`GraphAgent`] runs the same loop as a graph of nodes. Its state is saved after each node, before the next
//! begins, so that another process can continue the turn; see [`graph`].
//!
//! The folder `examples` has complete programs.

pub mod answer_stream;
pub mod arguments;
pub mod ask;
pub mod bm25;
pub mod calls;
pub mod code_mode;
pub mod driver;
pub mod function;
pub mod graph;
pub mod long_results;
pub mod long_term;
mod loop_guard;
pub mod marks;
pub mod memory;
pub mod message;
pub mod native;
mod offered_tools;
pub mod pipeline;
pub mod plan_notebook;
pub mod planner;
pub mod react;
pub mod research;
pub mod run_files;
mod standalone;
pub mod structured;
pub mod tool_search;
pub mod toolkit;
mod trace;
pub mod transcript;
mod turns;
mod used;
pub mod window;

pub use driver::{Answer, Driver, End, Job, Options, Start};
pub use graph::GraphAgent;
pub use memory::Memory;
pub use message::Message;
pub use react::{ReActAgent, Session};
pub use toolkit::Toolkit;
pub use weft_macros::tool;
