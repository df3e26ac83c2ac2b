//! canvas JSON → plan → run → components → **agents** → events → API
//!
//! Question → model turns and tool calls → answer. A [`driver::Driver`] works on a [`driver::Job`]:
//! it decides in pure code (`turns`, [`planner`]) and acts through [`ask`] and [`calls`].
//!
//! # For programs that embed the engine
//!
//! A [`ReActAgent`] says what an agent is, a [`Session`] is one conversation with it. Tools come from plain
//! asynchronous functions, by an attribute ([`macro@tool`]) or from a closure ([`function`]); a [`Toolkit`] checks what a
//! model writes for them, and limits what they may take and give.
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
//! * **Ending.** The model ends a reply by calling [`react::FINISH_FUNCTION`], which is always on offer; words
//!   alone count as such a call. [`Session::reply_as`] asks for a value of a Rust type beside the words, and
//!   sends the model back until the value fits. After [`react::Settings::max_iters`] requests it has to sum up.
//!   With [`react::FinishStyle::Text`] words alone end a reply, and take fewer tokens.
//! * **Failures.** A tool that fails, is too slow or is called wrongly is text for the model. What fails a
//!   reply is an error of the model, of a hook, or of the budget.
//! * **Seeing the work.** Put a [`react::message_queue`] into a session and read
//!   [`react::PrintedMessages::during`] the reply. Every item is a whole message so far; the last one of each
//!   says so.
//! * **Changing the work.** [`react::Hooks`] run before and after each stage, for one session, for all of an
//!   agent, or for whoever shares them.
//! * **Stopping.** [`react::Interrupt`] ends a reply with a message that asks what to do. No call stays
//!   without a result, so the conversation can go on.
//! * **Messages in between.** What is put into [`Session::inbox`] while a reply goes on is read before the next
//!   request to the model.
//! * **Work in the background.** A call of a [`react::ReActAgentBuilder::background_tool`] becomes a task that the
//!   model looks at, waits for and stops, and that goes on between replies.
//! * **Questions to people.** The tool of [`react::UserQuestions`], put there, asks people while the model works on;
//!   their answer is the result of its task.
//! * **Long conversations.** [`react::Settings::compression`] says how they are kept short for the model: results of
//!   old calls left out, the last turns only, or a summary with a fixed form. The memory keeps everything.
//! * **Groups of tools.** Tools may be in groups that are switched off; with
//!   [`react::ReActAgentBuilder::with_meta_tool`] the model switches on what it needs.
//! * **Plans.** [`react::ReActAgentBuilder::with_plan_notebook`] gives each session a notebook in which the model
//!   plans larger tasks, and hints that keep it to its plan; see [`plan_notebook`].
//! * **Memory and knowledge.** A [`long_term`] memory lasts beyond a session, a [`react::KnowledgeBase`] is looked
//!   up before the model reasons. Neither fails a reply.
//! * **Keeping.** [`Session::state`] is plain data; [`ReActAgent::resume`] goes on with it in any process.
//!
//! # A graph of small steps
//!
//! A [`GraphAgent`] keeps the same loop as nodes, each of which is kept before the next begins, so that another
//! process can go on with a turn; see [`graph`].
//!
//! The folder `examples` has whole programs.

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
pub mod window;

pub use driver::{Answer, Driver, End, Job, Options, Start};
pub use graph::GraphAgent;
pub use memory::Memory;
pub use message::Message;
pub use react::{ReActAgent, Session};
pub use toolkit::Toolkit;
pub use weft_macros::tool;
