//! `URL`, `URLSearchParams` and `Buffer`: what programs for the web expect, implemented over Rust's `url`.

#![expect(clippy::needless_pass_by_value, reason = "the interpreter hands over what it has made for a call")]

use rquickjs::{Ctx, Exception, Function, Object};
use serde_json::json;
use url::{Url, form_urlencoded, quirks};

use super::script;

const WEB: &str = include_str!("web.js");
/// Maximum number of bytes in an address or a query. Parsing it uses memory that is not counted for the program.
const TEXT_BYTES: usize = 4 << 20;
/// Maximum number of parts in a query that is parsed; each takes a hundred times as much memory as its two bytes may
/// take.
const QUERY_PARTS: usize = 100_000;

/// Creates the classes, by name.
pub(super) fn load<'js>(ctx: Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    native.set("parse", Function::new(ctx.clone(), parse)?)?;
    native.set("set", Function::new(ctx.clone(), set)?)?;
    native.set("pairs", Function::new(ctx.clone(), pairs)?)?;
    native.set("query", Function::new(ctx.clone(), query)?)?;
    let classes: Function<'js> = script(&ctx, "web.js", WEB)?.get()?;
    classes.call((native,))
}

fn within(ctx: &Ctx<'_>, text: &str) -> rquickjs::Result<()> {
    if text.len() <= TEXT_BYTES {
        return Ok(());
    }
    Err(Exception::throw_range(ctx, &format!("an address has {TEXT_BYTES} bytes at most")))
}

/// Returns the parts of an address as JSON; `None` if it is invalid.
fn parse(ctx: Ctx<'_>, text: String, base: Option<String>) -> rquickjs::Result<Option<String>> {
    within(&ctx, &text)?;
    let base = match base {
        None => None,
        Some(base) => {
            within(&ctx, &base)?;
            let Ok(base) = Url::parse(&base) else { return Ok(None) };
            Some(base)
        }
    };
    let url = Url::options().base_url(base.as_ref()).parse(&text).ok();
    url.map(|url| parts(&ctx, &url)).transpose()
}

/// Sets a part of an address and returns its parts; `None` if the address has become invalid. A part that cannot be set
/// to the value is left unchanged, as everywhere on the web.
fn set(ctx: Ctx<'_>, href: String, part: String, value: String) -> rquickjs::Result<Option<String>> {
    within(&ctx, &value)?;
    let Ok(mut url) = Url::parse(&href) else { return Ok(None) };
    let _ = match part.as_str() {
        "href" => {
            let is_set = quirks::set_href(&mut url, &value).is_ok();
            return is_set.then(|| parts(&ctx, &url)).transpose();
        }
        "protocol" => quirks::set_protocol(&mut url, &value),
        "username" => quirks::set_username(&mut url, &value),
        "password" => quirks::set_password(&mut url, &value),
        "host" => quirks::set_host(&mut url, &value),
        "hostname" => quirks::set_hostname(&mut url, &value),
        "port" => quirks::set_port(&mut url, &value),
        "pathname" => {
            quirks::set_pathname(&mut url, &value);
            Ok(())
        }
        "search" => {
            quirks::set_search(&mut url, &value);
            Ok(())
        }
        _ => {
            quirks::set_hash(&mut url, &value);
            Ok(())
        }
    };
    parts(&ctx, &url).map(Some)
}

fn parts(ctx: &Ctx<'_>, url: &Url) -> rquickjs::Result<String> {
    // Longer than its source: an unescaped character of a program may take nine bytes here.
    within(ctx, url.as_str())?;
    let parts = json!({
        "href": quirks::href(url),
        "origin": quirks::origin(url),
        "protocol": quirks::protocol(url),
        "username": quirks::username(url),
        "password": quirks::password(url),
        "host": quirks::host(url),
        "hostname": quirks::hostname(url),
        "port": quirks::port(url),
        "pathname": quirks::pathname(url),
        "search": quirks::search(url),
        "hash": quirks::hash(url),
    });
    Ok(parts.to_string())
}

/// Returns the names and values of a query as JSON.
fn pairs(ctx: Ctx<'_>, text: String) -> rquickjs::Result<String> {
    within(&ctx, &text)?;
    let pairs: Vec<_> = form_urlencoded::parse(text.as_bytes()).take(QUERY_PARTS + 1).collect();
    if pairs.len() > QUERY_PARTS {
        return Err(Exception::throw_range(&ctx, &format!("a query has {QUERY_PARTS} parts at most")));
    }
    Ok(json!(pairs).to_string())
}

/// Formats a query from names and values, which are passed as JSON.
fn query(ctx: Ctx<'_>, pairs: String) -> rquickjs::Result<String> {
    within(&ctx, &pairs)?;
    let Ok(pairs) = serde_json::from_str::<Vec<(String, String)>>(&pairs) else {
        return Err(Exception::throw_type(&ctx, "a query is made of names and values"));
    };
    Ok(form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish())
}
