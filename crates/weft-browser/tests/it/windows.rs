//! What a window does, and what it prevents.

use std::path::Path;
use std::sync::Arc;

use weft_browser::{BrowserSettings, Chromium, installed};
use weft_core::ErrorKind;
use weft_core::seam::browser::BrowserAction as Action;
use weft_core::seam::browser::{Browser, BrowserWindow, PageView};
use weft_net::{AllowList, Outbound};

use crate::pages::Pages;

/// A browser that may reach this machine, or none where Chromium is not installed.
fn browser(profiles: &Path) -> Option<Chromium> {
    if installed().is_none() {
        weft_testkit::skipped("no Chromium is installed");
        return None;
    }
    let outbound = Arc::new(Outbound::open(AllowList::parse(&["127.0.0.1".to_owned()]).unwrap()));
    let settings = BrowserSettings {
        program: None,
        // Processes of root cannot confine themselves.
        sandbox: false,
        at_once: 2,
        memory_bytes: 3 << 30,
        received_bytes: 64 << 20,
        download_bytes: 1 << 20,
        stored_bytes: 1 << 30,
        profiles: profiles.to_owned(),
    };
    Some(Chromium::new(settings, outbound))
}

async fn window(browser: &Chromium, profile: Option<&str>) -> Box<dyn BrowserWindow> {
    browser.open(&"t".into(), profile).await.unwrap()
}

async fn go(window: &mut Box<dyn BrowserWindow>, url: &str) -> PageView {
    window.act(Action::Open(url.to_owned())).await.unwrap()
}

/// The number of the element whose line contains `what`.
fn number(view: &PageView, what: &str) -> usize {
    let before = view.text.split(what).next().filter(|before| before.len() < view.text.len());
    let before = before.unwrap_or_else(|| panic!("no {what} in {}", view.text));
    let (_, from) = before.rsplit_once('[').unwrap();
    from.split(']').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_form_is_filled_in_and_sent() {
    let folder = tempfile::tempdir().unwrap();
    let Some(browser) = browser(folder.path()) else { return };
    let pages = Pages::serve().await;
    let mut window = window(&browser, None).await;
    let view = go(&mut window, &format!("{}/form", pages.base)).await;
    assert_eq!((view.title.as_str(), view.url.clone()), ("Form", format!("{}/form", pages.base)));
    assert!(
        view.text.contains("# Order") && view.text.contains("<password field pw: filled>"),
        "{}",
        view.text
    );
    assert!(!view.text.contains("hidden-word") && !view.text.contains("not shown"), "{}", view.text);
    let write = |element, text: &str| Action::Write { element, text: text.to_owned(), submit: false };
    let fields = [("Your name", "Žofie O'Neil"), ("<date field", "2026-11-24"), ("\"old\"", "new\nlines")];
    for (what, text) in fields {
        window.act(write(number(&view, what), text)).await.unwrap();
    }
    let choose =
        |option: &str| Action::Choose { element: number(&view, "<list size"), option: option.to_owned() };
    window.act(choose("LARGE")).await.unwrap();
    let error = window.act(choose("huge")).await.unwrap_err();
    assert!(error.message.contains("`huge`"), "{error:?}");
    let upload = Action::Upload {
        element: number(&view, "<file field"),
        name: "../ñ 汉.txt".to_owned(),
        bytes: "from a file".into(),
    };
    let view = window.act(upload).await.unwrap();
    assert!(view.text.contains("from a file") && view.text.contains("Žofie"), "{}", view.text);
    let view = window.act(Action::Click(number(&view, "<button Send"))).await.unwrap();
    assert_eq!(view.title, "Done");
    assert_eq!(
        *pages.seen.lock().unwrap(),
        ["who=Žofie O'Neil&day=2026-11-24&size=large&note=new\r\nlines&pw=hidden-word"]
    );
    let view = window.act(Action::Back).await.unwrap();
    assert_eq!(view.title, "Form");
    let element = number(&view, "Your name");
    let view = window.act(Action::Write { element, text: "B".to_owned(), submit: true }).await.unwrap();
    assert_eq!((view.title.as_str(), pages.seen.lock().unwrap().len()), ("Done", 2));
    let error = window.act(Action::Click(99)).await.unwrap_err();
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("[99]"), "{error:?}");
}

#[tokio::test]
async fn windows_dialogs_and_downloads_are_handled() {
    let folder = tempfile::tempdir().unwrap();
    let Some(browser) = browser(folder.path()) else { return };
    let pages = Pages::serve().await;
    let mut window = window(&browser, None).await;
    let view = go(&mut window, &format!("{}/links", pages.base)).await;
    let opened = window.act(Action::Click(number(&view, "<link In a window"))).await.unwrap();
    assert_eq!(opened.title, "Form");
    let view = window.act(Action::Back).await.unwrap();
    assert_eq!(view.title, "Links");
    let view = window.act(Action::Click(number(&view, "<button Alarm"))).await.unwrap();
    assert!(view.notes.iter().any(|note| note.contains("careful")), "{:?}", view.notes);
    let view = window.act(Action::Click(number(&view, "<button Ask"))).await.unwrap();
    assert!(view.text.ends_with("no\n"), "{}", view.text);
    let declined = "a dialog (confirm) was declined: sure?";
    assert!(view.notes.iter().any(|note| note == declined), "{:?}", view.notes);
    let view = window.act(Action::Click(number(&view, "<button Under"))).await.unwrap();
    assert!(view.text.ends_with("covered\n"), "{}", view.text);
    let view = window.act(Action::Click(number(&view, "<link A file"))).await.unwrap();
    let files: Vec<_> = view.downloads.iter().map(|file| (file.name.as_str(), &file.bytes[..])).collect();
    assert!(
        matches!(files[..], [(name, b"a,b\n1,2\n")] if name.contains("report.csv") && !name.contains('/')),
        "{files:?}"
    );
}

#[tokio::test]
async fn a_new_window_may_show_a_dialog_while_it_loads() {
    let folder = tempfile::tempdir().unwrap();
    let Some(browser) = browser(folder.path()) else { return };
    let pages = Pages::serve().await;
    let mut window = window(&browser, None).await;
    let view = go(&mut window, &format!("{}/links", pages.base)).await;
    let began = std::time::Instant::now();
    let view = window.act(Action::Click(number(&view, "<link Loud"))).await.unwrap();
    assert_eq!((view.title.as_str(), view.text.as_str()), ("Loud", "After it\n"));
    assert_eq!(view.notes.iter().filter(|note| note.contains("at once")).count(), 1, "{:?}", view.notes);
    assert!(began.elapsed().as_secs() < 12, "{:?}", began.elapsed());
    assert_eq!(window.act(Action::Back).await.unwrap().title, "Links");
    // The same page, opened from here.
    let view = go(&mut window, &format!("{}/loud", pages.base)).await;
    assert_eq!(view.notes.iter().filter(|note| note.contains("at once")).count(), 1, "{:?}", view.notes);
}

#[tokio::test]
async fn typing_into_a_select_chooses_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let Some(browser) = browser(folder.path()) else { return };
    let pages = Pages::serve().await;
    let mut window = window(&browser, None).await;
    let view = go(&mut window, &format!("{}/form", pages.base)).await;
    let write = |text: &str| Action::Write {
        element: number(&view, "<list size"),
        text: text.to_owned(),
        submit: false,
    };
    let error = window.act(write("huge")).await.unwrap_err();
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("`huge`"), "{error:?}");
    window.act(write("Large")).await.unwrap();
    window.act(Action::Click(number(&view, "<button Send"))).await.unwrap();
    assert!(pages.seen.lock().unwrap()[0].contains("size=large"));
}

#[tokio::test]
async fn shadow_dom_slots_and_frames_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let Some(browser) = browser(folder.path()) else { return };
    let pages = Pages::serve().await;
    let mut window = window(&browser, None).await;
    let view = go(&mut window, &format!("{}/parts", pages.base)).await;
    assert!(view.text.starts_with("## Card\nGiven text\nno foot"), "{}", view.text);
    assert!(!view.text.contains("in its place"), "{}", view.text);
    let view = window.act(Action::Click(number(&view, "<button Press"))).await.unwrap();
    assert!(view.text.ends_with("2pressed\n"), "{}", view.text);
    let view = go(&mut window, &format!("{}/frames", pages.base)).await;
    assert!(view.text.contains("# Order") && view.text.contains("Given text"), "{}", view.text);
}

#[tokio::test]
async fn no_page_reaches_forbidden_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let Some(browser) = browser(folder.path()) else { return };
    let pages = Pages::serve().await;
    let mut window = window(&browser, None).await;
    let forbidden = format!("http://{}/", pages.forbidden.local_addr().unwrap());
    for (url, kind) in [
        (forbidden.as_str(), ErrorKind::Denied),
        ("http://[::ffff:127.0.0.2]/", ErrorKind::Denied),
        ("http://2130706434/", ErrorKind::Denied),
        ("file:///etc/hostname", ErrorKind::Invalid),
        ("chrome://settings", ErrorKind::Invalid),
        ("javascript:alert(1)", ErrorKind::Invalid),
        ("nothing", ErrorKind::Invalid),
    ] {
        let error = window.act(Action::Open(url.to_owned())).await.unwrap_err();
        assert_eq!(error.kind, kind, "{url}: {error:?}");
    }
    // A server that redirects there, a page that requests it, and one that links to a file.
    let away = window.act(Action::Open(format!("{}/away", pages.base))).await.unwrap();
    assert!(away.text.contains("net.allow"), "{away:?}");
    let view = go(&mut window, &format!("{}/links", pages.base)).await;
    let view = window.act(Action::Click(number(&view, "<button Inside"))).await.unwrap();
    assert!(view.text.ends_with("failed\n"), "{}", view.text);
    let view = window.act(Action::Click(number(&view, "<button Read"))).await.unwrap();
    assert_eq!(view.title, "Links");
    let reached = tokio::time::timeout(std::time::Duration::from_millis(300), pages.forbidden.accept()).await;
    assert!(reached.is_err(), "something reached {forbidden}");
}

#[tokio::test]
async fn a_hanging_page_is_closed_and_a_growing_one_ends_only_its_browser() {
    let folder = tempfile::tempdir().unwrap();
    let Some(browser) = browser(folder.path()) else { return };
    let pages = Pages::serve().await;
    let mut first = window(&browser, None).await;
    let links = format!("{}/links", pages.base);
    let view = go(&mut first, &links).await;
    let error = first.act(Action::Click(number(&view, "<button Forever"))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout, "{error:?}");
    let view = go(&mut first, &links).await;
    let mut second = window(&browser, None).await;
    go(&mut second, &links).await;
    // Whichever comes first: the limit of one page or that of the window.
    drop(first.act(Action::Click(number(&view, "<button Memory"))).await);
    assert_eq!(go(&mut second, &links).await.title, "Links");
}

#[tokio::test]
async fn a_profile_is_used_by_one_window_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let Some(browser) = browser(folder.path()) else { return };
    let pages = Pages::serve().await;
    let url = format!("{}/kept", pages.base);
    let mut first = window(&browser, Some("p")).await;
    assert_eq!(go(&mut first, &url).await.text, "new\n");
    let mut beside = window(&browser, Some("p")).await;
    let view = go(&mut beside, &url).await;
    assert!(
        view.text == "new\n" && view.notes.iter().any(|note| note.contains("another window")),
        "{view:?}"
    );
    drop(beside);
    let mut other = window(&browser, Some("q")).await;
    assert_eq!(go(&mut other, &url).await.text, "new\n");
    assert_eq!(go(&mut first, &url).await.text, "again\n");
}

#[tokio::test]
async fn closing_a_window_keeps_stored_page_data() {
    let folder = tempfile::tempdir().unwrap();
    let Some(browser) = browser(folder.path()) else { return };
    let pages = Pages::serve().await;
    let url = format!("{}/cookies", pages.base);
    let mut first = window(&browser, Some("p")).await;
    assert_eq!(go(&mut first, &url).await.text, "none\n");
    first.close().await;
    drop(first);
    let mut second = window(&browser, Some("p")).await;
    let view = go(&mut second, &url).await;
    assert!(view.notes.is_empty(), "{:?}", view.notes);
    assert!(view.text.contains("lasting=1") && view.text.contains("visit=1"), "{}", view.text);
    second.close().await;
    let mut other = window(&browser, Some("q")).await;
    assert_eq!(go(&mut other, &url).await.text, "none\n");
}
