//! Web browsers controlled by models.

use std::fmt;

use bytes::Bytes;
use weft_macros::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;

/// An action in a browser window.
#[derive(Clone, Debug, PartialEq)]
pub enum BrowserAction {
    /// Opens an address, `http` or `https`.
    Open(String),
    /// Clicks on an element.
    Click(usize),
    /// Replaces the content of a field.
    Write {
        /// The field.
        element: usize,
        /// The new content.
        text: String,
        /// Whether to press Enter afterwards, which submits most forms.
        submit: bool,
    },
    /// Selects an option of a list by its text or its value.
    Choose {
        /// The list.
        element: usize,
        /// The option.
        option: String,
    },
    /// Uploads a file into a file field.
    Upload {
        /// The field.
        element: usize,
        /// The file's name.
        name: String,
        /// The file's content.
        bytes: Bytes,
    },
    /// Scrolls by this many screens, upwards if negative: some pages then load more content.
    Scroll(i32),
    /// Goes back to the previous page.
    Back,
    /// Waits for this many milliseconds.
    Wait(u64),
    /// Only looks at the page.
    Look,
}

/// The contents of a window. Usable elements are numbered in `text`, as in `[3]`; the numbers are valid until the
/// next action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageView {
    /// The address of the page.
    pub url: String,
    /// Its title.
    pub title: String,
    /// Its text, with a number before each usable element.
    pub text: String,
    /// Further events, such as a message box of the page.
    pub notes: Vec<String>,
    /// Files that were downloaded since the last action.
    pub downloads: Vec<Download>,
}

/// A file downloaded from a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Download {
    /// Its name, as given by the page.
    pub name: String,
    /// Its content.
    pub bytes: Bytes,
}

/// Web browsers.
///
/// An implementation connects only to addresses that canvases may reach, by whatever means a page connects; opens no
/// local files; isolates the windows of different tenants and profiles; and limits the resources of a page.
#[async_trait]
pub trait Browser: Send + Sync + fmt::Debug {
    /// Opens an empty window. With a profile, what pages stored in it is available again next time, provided that
    /// only one window at a time uses the profile; a second one starts without it.
    ///
    /// # Errors
    /// `Unsupported` when there is no browser, `Unavailable` when it does not start or too many windows are open.
    async fn open(&self, tenant: &TenantId, profile: Option<&str>) -> Result<Box<dyn BrowserWindow>>;
}

/// A browser window. Dropping it closes the window.
#[async_trait]
pub trait BrowserWindow: Send + Sync {
    /// Performs an action, waits until the page has settled, and returns its contents.
    ///
    /// # Errors
    /// `Denied` for an address that must not be reached, `Invalid` for an invalid address and for elements that do
    /// not exist, `Timeout` when the page does not respond, `Unavailable` when the browser has exited.
    async fn act(&mut self, action: BrowserAction) -> Result<PageView>;

    /// Ends the browser after it has saved what pages have stored. The window must not be used afterwards. If it is
    /// merely dropped, the most recent data may be lost.
    async fn close(&mut self);
}

/// No browser: the operator has switched browsing off, whatever is installed.
#[derive(Clone, Copy, Debug)]
pub struct NoBrowser;

#[async_trait]
impl Browser for NoBrowser {
    async fn open(&self, _: &TenantId, _: Option<&str>) -> Result<Box<dyn BrowserWindow>> {
        Err(Error::new(ErrorKind::Unsupported, "no web browser is available")
            .help("set `browser.at_once`, the number of windows that may be open, above 0"))
    }
}
