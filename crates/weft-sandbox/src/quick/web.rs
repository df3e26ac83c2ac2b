//! `URL`, `URLSearchParams` and `Buffer`: what a program for the web expects, over Rust's `url`.

use rquickjs::{Ctx, Exception, Function, Object};
use serde_json::json;
use url::{Url, form_urlencoded, quirks};

use super::script;

const WEB: &str = include_str!("web.js");
/// Bytes of an address or a query. What is read of it lies outside of the memory that is counted for the program.
const TEXT_BYTES: usize = 4 << 20;

/// Makes the classes, by their names.
pub fn load<'js>(ctx: Ctx<'js>) -> rquickjs::Result<Object<'js>> {
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

/// The parts of an address as JSON; nothing when it is none.
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
    Ok(Url::options().base_url(base.as_ref()).parse(&text).ok().map(|url| parts(&url)))
}

/// The parts of an address of which one was set; nothing when there is none any more. A part that cannot be
/// set to the value stays, as everywhere on the web.
fn set(ctx: Ctx<'_>, href: String, part: String, value: String) -> rquickjs::Result<Option<String>> {
    within(&ctx, &value)?;
    let Ok(mut url) = Url::parse(&href) else { return Ok(None) };
    let _ = match part.as_str() {
        "href" => return Ok(quirks::set_href(&mut url, &value).is_ok().then(|| parts(&url))),
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
    Ok(Some(parts(&url)))
}

fn parts(url: &Url) -> String {
    json!({
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
    })
    .to_string()
}

/// The names and values of a query, as JSON.
fn pairs(ctx: Ctx<'_>, text: String) -> rquickjs::Result<String> {
    within(&ctx, &text)?;
    let pairs: Vec<_> = form_urlencoded::parse(text.as_bytes()).collect();
    Ok(json!(pairs).to_string())
}

/// A query of names and values, which come as JSON.
fn query(ctx: Ctx<'_>, pairs: String) -> rquickjs::Result<String> {
    within(&ctx, &pairs)?;
    let Ok(pairs) = serde_json::from_str::<Vec<(String, String)>>(&pairs) else {
        return Err(Exception::throw_type(&ctx, "a query is made of names and values"));
    };
    Ok(form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish())
}
