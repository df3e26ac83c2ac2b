//! Which IP addresses are public servers, and which are not. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address may not be reached on behalf of a canvas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRefusal {
    /// This machine.
    Loopback,
    /// A private network: RFC 1918, unique local, site local.
    Private,
    /// Only valid on one link; clouds also serve credentials at such addresses.
    LinkLocal,
    /// Shared by a provider's customers (RFC 6598).
    CarrierGradeNat,
    /// No single receiver: multicast or broadcast.
    Multicast,
    /// Does not identify a host.
    Unspecified,
    /// A cloud's metadata or host service outside the ranges above.
    Metadata,
    /// Reserved, for documentation, or a tunnel that hides where it ends.
    Reserved,
}

impl AddressRefusal {
    /// Returns its name for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::LinkLocal => "a link-local address",
            Self::CarrierGradeNat => "a carrier-grade NAT address",
            Self::Multicast => "a multicast or broadcast address",
            Self::Unspecified => "an unspecified address",
            Self::Metadata => "a cloud metadata address",
            Self::Reserved => "a reserved address",
        }
    }
}

/// Azure's host service has a public address, but is only reachable from inside its machines.
const AZURE_HOST: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Returns why `ip` is refused; `None` when it is public. An IPv4 address embedded in an IPv6 one is checked as IPv4.
pub fn refusal(ip: IpAddr) -> Option<AddressRefusal> {
    match plain(ip) {
        IpAddr::V4(v4) => refusal_v4(v4),
        IpAddr::V6(v6) => refusal_v6(v6),
    }
}

/// Returns the address at which a packet arrives: extracts an IPv4 address from its mapped, compatible or NAT64 form.
pub(crate) fn plain(ip: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = ip else { return ip };
    let [a, b, c, d, e, f, high, low] = v6.segments();
    let tail = Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] | [0, 0, 0, 0, 0xffff, 0] | [0x64, 0xff9b, 0, 0, 0, 0] => IpAddr::V4(tail),
        // `::` and `::1` look like compatible forms of 0.0.0.0 and 0.0.0.1, but mean what they say.
        [0, 0, 0, 0, 0, 0] if u32::from(tail) > 1 => IpAddr::V4(tail),
        // ISATAP embeds the IPv4 address of the tunnel's end in an otherwise ordinary address.
        [_, _, _, _, 0 | 0x200, 0x5efe] => IpAddr::V4(tail),
        _ => ip,
    }
}

fn refusal_v4(ip: Ipv4Addr) -> Option<AddressRefusal> {
    match ip.octets() {
        // All of 0.0.0.0/8: systems take 0.0.0.0 for this machine, and the rest identifies no host (RFC 1122,
        // section 3.2.1.3).
        [0, ..] => Some(AddressRefusal::Unspecified),
        [127, ..] => Some(AddressRefusal::Loopback),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some(AddressRefusal::Private),
        [169, 254, ..] => Some(AddressRefusal::LinkLocal),
        [100, 64..=127, ..] => Some(AddressRefusal::CarrierGradeNat),
        [224..=239, ..] | [255, 255, 255, 255] => Some(AddressRefusal::Multicast),
        _ if ip == AZURE_HOST => Some(AddressRefusal::Metadata),
        // IETF assignments, documentation, 6to4 relays, benchmarking, reserved for future use.
        [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [240..=255, ..] => Some(AddressRefusal::Reserved),
        _ => None,
    }
}

fn refusal_v6(ip: Ipv6Addr) -> Option<AddressRefusal> {
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(AddressRefusal::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(AddressRefusal::Loopback),
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Some(AddressRefusal::Private),
        [0xfe80..=0xfebf, ..] => Some(AddressRefusal::LinkLocal),
        [0xff00..=0xffff, ..] => Some(AddressRefusal::Multicast),
        // Teredo, ORCHID and other IETF assignments; documentation; 6to4.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => {
            Some(AddressRefusal::Reserved)
        }
        // All public unicast addresses in use today; the rest is unassigned or special.
        [0x2000..=0x3fff, ..] => None,
        _ => Some(AddressRefusal::Reserved),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_address_that_is_not_public_is_refused() {
        let check = |ip: &str, expected: Option<AddressRefusal>| {
            assert_eq!(refusal(ip.parse().unwrap()), expected, "{ip}");
        };
        for ip in
            ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "::127.0.0.1"]
        {
            check(ip, Some(AddressRefusal::Loopback));
        }
        for ip in
            ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fd00:ec2::254", "fec0::1"]
        {
            check(ip, Some(AddressRefusal::Private));
        }
        for ip in ["::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "::ffff:0:10.0.0.1", "2001:470::5efe:192.168.0.1"]
        {
            check(ip, Some(AddressRefusal::Private));
        }
        for ip in ["169.254.169.254", "169.254.170.2", "fe80::1", "::ffff:169.254.169.254"] {
            check(ip, Some(AddressRefusal::LinkLocal));
        }
        for ip in ["100.64.0.1", "100.100.100.200", "100.127.255.255"] {
            check(ip, Some(AddressRefusal::CarrierGradeNat));
        }
        for ip in ["224.0.0.1", "239.255.255.255", "255.255.255.255", "ff02::1"] {
            check(ip, Some(AddressRefusal::Multicast));
        }
        for ip in ["0.0.0.0", "0.1.2.3", "::"] {
            check(ip, Some(AddressRefusal::Unspecified));
        }
        check("168.63.129.16", Some(AddressRefusal::Metadata));
        for ip in [
            "192.0.0.192",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.9",
            "240.0.0.1",
            "192.88.99.1",
        ] {
            check(ip, Some(AddressRefusal::Reserved));
        }
        for ip in [
            "2002:a00:1::",
            "2001::1",
            "2001:db8::1",
            "64:ff9b:1::1",
            "100::1",
            "5f00::1",
            "4000::1",
            "3fff::1",
        ] {
            check(ip, Some(AddressRefusal::Reserved));
        }
    }

    #[test]
    fn public_addresses_next_to_refused_ranges_are_allowed() {
        for ip in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
        ] {
            assert_eq!(refusal(ip.parse().unwrap()), None, "{ip}");
        }
        for ip in [
            "172.15.255.255",
            "172.32.0.0",
            "192.169.0.0",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
        ] {
            assert_eq!(refusal(ip.parse().unwrap()), None, "{ip}");
        }
        for ip in ["64:ff9b::1.1.1.1", "::ffff:1.1.1.1", "2001:4860:4860::8888", "2a00::1"] {
            assert_eq!(refusal(ip.parse().unwrap()), None, "{ip}");
        }
    }
}
