//! Web browsers that models drive.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;

/// What is done in a window.
#[derive(Clone, Debug, PartialEq)]
pub enum BrowserAction {
    /// Goes to an address, `http` or `https`.
    Open(String),
    /// Clicks on an element.
    Click(usize),
    /// Replaces what a field holds.
    Write {
        /// The field.
        element: usize,
        /// What it holds from then on.
        text: String,
        /// Whether the enter key follows, which sends most forms.
        submit: bool,
    },
    /// Chooses an option of a list by its text or its value.
    Choose {
        /// The list.
        element: usize,
        /// The option.
        option: String,
    },
    /// Puts a file into a field for files.
    Upload {
        /// The field.
        element: usize,
        /// The file's name.
        name: String,
        /// What the file holds.
        bytes: Bytes,
    },
    /// Scrolls by screens, upwards when negative: some pages load more then.
    Scroll(i32),
    /// Goes back to the page before.
    Back,
    /// Waits for so many milliseconds.
    Wait(u64),
    /// Does nothing but look.
    Look,
}

/// What a window shows. Elements that can be used are numbered in `text`, as `[3]`; the numbers hold until the next
/// action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageView {
    /// The address of the page.
    pub url: String,
    /// Its title.
    pub title: String,
    /// Its text, with a number before each element that can be used.
    pub text: String,
    /// What happened beside, such as a message of the page.
    pub notes: Vec<String>,
    /// Files that were downloaded since the last action.
    pub downloads: Vec<Download>,
}

/// A file that a page gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Download {
    /// Its name, as the page says.
    pub name: String,
    /// What it holds.
    pub bytes: Bytes,
}

/// Web browsers.
///
/// An implementation connects only to addresses that canvases may reach, on every way that a page has; opens no file of
/// the machine; keeps the windows of tenants and of profiles apart; and bounds what a page may use.
#[async_trait]
pub trait Browser: Send + Sync + fmt::Debug {
    /// Opens an empty window. With a profile, what pages have stored in it is there again the next time, as long as one
    /// window at a time uses the profile; a second one begins without.
    ///
    /// # Errors
    /// `Unsupported` when there is no browser, `Unavailable` when it does not start or too many windows are open.
    async fn open(&self, tenant: &TenantId, profile: Option<&str>) -> Result<Box<dyn BrowserWindow>>;
}

/// A window of a browser. It closes with this value.
#[async_trait]
pub trait BrowserWindow: Send + Sync {
    /// Does something, waits until the page is at rest, and looks at it.
    ///
    /// # Errors
    /// `Denied` for an address that may not be reached, `Invalid` for one that is none and for elements that are not
    /// there, `Timeout` when the page does not answer, `Unavailable` when the browser has ended.
    async fn act(&mut self, action: BrowserAction) -> Result<PageView>;

    /// Ends the browser once it has written down what pages have stored. Nothing is done in the window afterwards; of one
    /// that is only let go of, what was stored last may be lost.
    async fn close(&mut self);
}

/// No browser: the operator wants none, whatever the machine has.
#[derive(Clone, Copy, Debug)]
pub struct NoBrowser;

#[async_trait]
impl Browser for NoBrowser {
    async fn open(&self, _: &TenantId, _: Option<&str>) -> Result<Box<dyn BrowserWindow>> {
        Err(Error::new(ErrorKind::Unsupported, "no web browser is used here")
            .help("set `browser.at_once`, which is how many windows may be open: 0 is none"))
    }
}
