//! Non-public addresses that the operator allows. Pure.

use std::net::IpAddr;

use url::Host;
use weft_core::{Error, Result};

use crate::address::plain;

/// Maximum number of entries in a list.
// The list is searched in order for each address that is not public.
const ENTRIES_MAX: usize = 1000;

/// Hosts and networks that canvases may reach although they are not public. An entry is a host name, an address or a
/// network, each with or without a port: `erp.example`, `10.1.2.3:8080`, `10.0.0.0/8`, `[fd00::/8]:443`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllowList(Vec<Allowed>);

#[derive(Clone, Debug, PartialEq)]
struct Allowed {
    place: AllowedPlace,
    /// The port; `None` for every port.
    port: Option<u16>,
}

/// Number of bits of an IPv6 address that precede an embedded IPv4 address.
const EMBEDDED_FROM: u8 = 96;

#[derive(Clone, Debug, PartialEq)]
enum AllowedPlace {
    Host(String),
    Network { address: IpAddr, prefix: u8 },
}

impl AllowList {
    /// Returns a list that allows only public addresses.
    pub fn none() -> Self {
        Self::default()
    }

    /// Parses the entries.
    ///
    /// # Errors
    /// `Invalid` naming the first entry that is not valid.
    pub fn parse<T: AsRef<str>>(entries: impl IntoIterator<Item = T>) -> Result<Self> {
        let entries: Vec<_> = entries.into_iter().map(|entry| read(entry.as_ref())).collect::<Result<_>>()?;
        if entries.len() > ENTRIES_MAX {
            return Err(
                Error::invalid(format!("more than {ENTRIES_MAX} allowed addresses")).help("allow networks")
            );
        }
        Ok(Self(entries))
    }

    /// Whether `host`, which resolves to `ip`, may be reached on `port`.
    pub fn allows(&self, host: &str, ip: IpAddr, port: u16) -> bool {
        self.0.iter().any(|allowed| {
            allowed.port.is_none_or(|only| only == port)
                && match &allowed.place {
                    // A name with a final dot is the same name.
                    AllowedPlace::Host(name) => name.eq_ignore_ascii_case(host.trim_end_matches('.')),
                    AllowedPlace::Network { address, prefix } => contains(*address, *prefix, plain(ip)),
                }
        })
    }
}

fn read(entry: &str) -> Result<Allowed> {
    let wrong = || {
        Error::invalid(format!("`{entry}` is not a host, address or network"))
            .help("write `host`, `10.1.2.3:8080`, `10.0.0.0/8` or `[fd00::/8]:443`")
    };
    let entry = entry.trim();
    let (place, port) = match entry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((place, "")) => (place, None),
        Some((place, port)) => (place, Some(port.strip_prefix(':').ok_or_else(wrong)?)),
        // More than one colon without brackets is an IPv6 address without a port.
        None if entry.matches(':').count() > 1 => (entry, None),
        None => entry.split_once(':').map_or((entry, None), |(place, port)| (place, Some(port))),
    };
    let port = port.map(|port| port.parse().map_err(|_| wrong())).transpose()?;
    Ok(Allowed { place: read_place(place).ok_or_else(wrong)?, port })
}

fn read_place(place: &str) -> Option<AllowedPlace> {
    let (address, prefix) = place.split_once('/').map_or((place, None), |(a, p)| (a, Some(p)));
    if let Ok(address) = address.parse::<IpAddr>() {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Some(longest), |p| p.parse().ok())?;
        return (prefix <= longest).then(|| network(address, prefix));
    }
    let name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_host = prefix.is_none() && !address.is_empty() && address.chars().all(name);
    let name = address.trim_end_matches('.');
    is_host.then(|| match Host::parse(name) {
        // In the form that URLs use, which is ASCII: `bücher.example` is `xn--bcher-kva.example` there.
        Ok(Host::Domain(name)) => AllowedPlace::Host(name),
        Ok(Host::Ipv4(_) | Host::Ipv6(_)) | Err(_) => AllowedPlace::Host(name.to_owned()),
    })
}

/// Normalises an entry like targets, which are compared by the addresses at which their packets arrive.
fn network(address: IpAddr, prefix: u8) -> AllowedPlace {
    match (plain(address), prefix.checked_sub(EMBEDDED_FROM)) {
        (inner @ IpAddr::V4(_), Some(prefix)) if address.is_ipv6() => {
            AllowedPlace::Network { address: inner, prefix }
        }
        // A shorter prefix covers more than embedded addresses, so it remains an IPv6 network.
        _ => AllowedPlace::Network { address, prefix },
    }
}

fn contains(network: IpAddr, prefix: u8, ip: IpAddr) -> bool {
    let same = |a: u128, b: u128, bits: u8| {
        let away = u32::from(bits.saturating_sub(prefix));
        // Shifting out all 128 bits leaves nothing to compare, so that every address matches.
        a.checked_shr(away).unwrap_or(0) == b.checked_shr(away).unwrap_or(0)
    };
    match (network, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_allow_what_they_name_and_nothing_else() {
        let check = |entry: &str, host: &str, ip: &str, port: u16, expected: bool| {
            let list = AllowList::parse([entry]).unwrap();
            assert_eq!(list.allows(host, ip.parse().unwrap(), port), expected, "{entry} {host} {ip} {port}");
        };
        check("erp.example", "erp.example", "10.0.0.1", 80, true);
        check("erp.example", "ERP.example.", "10.0.0.1", 80, true);
        check("bücher.example", "xn--bcher-kva.example", "10.0.0.1", 80, true);
        check("erp.example", "evil-erp.example", "10.0.0.1", 80, false);
        check("erp.example:443", "erp.example", "10.0.0.1", 80, false);
        check("10.0.0.0/8", "x", "10.255.0.1", 1, true);
        check("10.0.0.0/8", "x", "::ffff:10.1.1.1", 1, true);
        check("10.0.0.0/8", "x", "11.0.0.1", 1, false);
        check("10.1.2.3:8080", "x", "10.1.2.3", 8080, true);
        check("10.1.2.3:8080", "x", "10.1.2.3", 22, false);
        check("10.1.2.3", "x", "10.1.2.4", 80, false);
        check("fd00::/8", "x", "fd12::1", 80, true);
        check("[fd00::/8]:443", "x", "fd12::1", 80, false);
        check("[::1]:9000", "localhost", "::1", 9000, true);
        check("0.0.0.0/0", "x", "127.0.0.1", 80, true);
        check("::/0", "x", "127.0.0.1", 80, false);
        check("[::ffff:127.0.0.1]:80", "x", "127.0.0.1", 80, true);
        check("[::ffff:127.0.0.1]:80", "x", "::ffff:127.0.0.1", 80, true);
        check("[::ffff:127.0.0.1]:80", "x", "127.0.0.2", 80, false);
        check("::ffff:10.0.0.0/104", "x", "10.200.0.1", 1, true);
        check("::ffff:10.0.0.0/104", "x", "11.0.0.1", 1, false);
    }

    #[test]
    fn an_invalid_entry_is_refused_by_name() {
        for entry in ["", "10.0.0.0/33", "host:port", "a/8", "[::1]x", "http://x", "10.0.0.0/x"] {
            assert!(AllowList::parse([entry]).unwrap_err().message.contains(entry), "{entry}");
        }
    }
}
