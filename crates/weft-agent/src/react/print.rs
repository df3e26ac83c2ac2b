//! Shows messages while they are written: runs the hooks, and fills a queue that programs read.

use std::sync::{Mutex, PoisonError};

use futures::stream::{BoxStream, StreamExt as _};
use tokio::sync::mpsc;
use weft_core::Result;

use super::finish::as_shown;
use super::hooks::{HookContext, HookSet};
use super::printed::PrintedMessage;

/// Capacity of a queue of messages. When it is full, the printing session waits for its reader.
// Each entry contains the whole message so far.
pub const MESSAGES_QUEUED_MAX: usize = 100;

/// The sending end of a queue to which sessions copy what they print; see [`message_queue`]. Clones share the queue,
/// so several sessions can use one.
#[derive(Clone, Debug)]
pub struct MessageQueue(mpsc::Sender<PrintedMessage>);

/// The receiving end of a queue. It has to be read or dropped: nothing is skipped for a slow reader, so sessions wait
/// for it.
#[derive(Debug)]
pub struct PrintedMessages(mpsc::Receiver<PrintedMessage>);

/// Creates a queue of printed messages.
pub fn message_queue() -> (MessageQueue, PrintedMessages) {
    let (send, receive) = mpsc::channel(MESSAGES_QUEUED_MAX);
    (MessageQueue(send), PrintedMessages(receive))
}

impl PrintedMessages {
    /// Receives the next message. `None` means the end: all senders have been dropped.
    pub async fn next(&mut self) -> Option<PrintedMessage> {
        self.0.recv().await
    }

    /// The messages printed while `work` runs. The stream drives the work and ends with it; an error of the work is
    /// the last item. Dropping the stream stops the work.
    pub fn during<'a, T: Send + 'a>(
        self,
        work: impl Future<Output = Result<T>> + Send + 'a,
    ) -> BoxStream<'a, Result<PrintedMessage>> {
        let mut queue = self.0;
        async_stream::stream! {
            let mut work = Box::pin(work);
            let end = loop {
                let printed = tokio::select! {
                    biased;
                    Some(printed) = queue.recv() => Ok(printed),
                    end = &mut work => Err(end),
                };
                match printed {
                    Ok(printed) => yield Ok(printed),
                    Err(end) => break end,
                }
            };
            // Printed with the last step of the work, which finished at the same moment.
            while let Ok(printed) = queue.try_recv() {
                yield Ok(printed);
            }
            if let Err(error) = end {
                yield Err(error);
            }
        }
        .boxed()
    }
}

/// Prints the messages of one session.
#[derive(Debug)]
pub(crate) struct Printer {
    hooks: HookSet,
    queue: Mutex<Option<MessageQueue>>,
}

impl Printer {
    pub(crate) fn new(hooks: HookSet) -> Self {
        Self { hooks, queue: Mutex::new(None) }
    }

    /// Sends what is printed from now on to this queue, or to none.
    pub(crate) fn attach(&self, queue: Option<MessageQueue>) {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = queue;
    }

    /// Prints a message.
    pub(crate) async fn print(&self, context: &HookContext, printed: PrintedMessage) -> Result<()> {
        let shown = PrintedMessage { message: as_shown(printed.message), ..printed };
        let shown = self.hooks.run(|hooks| &hooks.pre_print, context, shown).await?;
        // Cloned, so that no lock is held while waiting for a slow reader.
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(queue) = queue {
            // The reader is gone; the reply continues.
            let _ = queue.0.send(shown.clone()).await;
        }
        self.hooks.run(|hooks| &hooks.post_print, context, shown).await.map(drop)
    }
}
