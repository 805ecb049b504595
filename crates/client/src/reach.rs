//! Which addresses a client may connect to.
//!
//! Whoever runs a server chooses what its name resolves to, at every moment anew. A witness that follows a name wherever it
//! points could be sent to its operator's own machines; so the addresses themselves are judged, the very ones that are then
//! connected to. Holds the judgement ([`is_public`]) and the resolver that applies it. Does not hold the request
//! (`http`), which judges addresses that a URL spells out, for those are never resolved.

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Which addresses a client may connect to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Any. For who asks servers of his own choice and shows the answers to nobody else: a gate its log, a log its
    /// witnesses, an auditor both, often all in one network.
    #[default]
    Any,
    /// Public ones only ([`is_public`]). For a witness, which asks logs of other people, all day and unwatched, and tells
    /// the world how they answer.
    Public,
}

/// A name, or an address that stood for it, that a client with [`Reach::Public`] does not connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a public address")]
pub(crate) struct NotPublic(pub(crate) IpAddr);

/// IPv4 that is not public: the entries of IANA's special-purpose registry (RFC 6890) that are not globally reachable, or
/// are relays to somewhere else, with multicast, the reserved block, and one address that a cloud gives to the host itself.
const NOT_PUBLIC_V4: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),        // this network, RFC 791
    (Ipv4Addr::new(10, 0, 0, 0), 8),       // private, RFC 1918
    (Ipv4Addr::new(100, 64, 0, 0), 10),    // shared behind a provider's NAT, RFC 6598
    (Ipv4Addr::new(127, 0, 0, 0), 8),      // loopback, RFC 1122
    (Ipv4Addr::new(168, 63, 129, 16), 32), // Azure's host, which hands out a machine's credentials
    (Ipv4Addr::new(169, 254, 0, 0), 16),   // link-local, RFC 3927; other clouds' hosts
    (Ipv4Addr::new(172, 16, 0, 0), 12),    // private, RFC 1918
    (Ipv4Addr::new(192, 0, 0, 0), 24),     // protocol assignments, RFC 6890
    (Ipv4Addr::new(192, 0, 2, 0), 24),     // documentation, RFC 5737
    (Ipv4Addr::new(192, 88, 99, 0), 24),   // 6to4 relays, RFC 7526
    (Ipv4Addr::new(192, 168, 0, 0), 16),   // private, RFC 1918
    (Ipv4Addr::new(198, 18, 0, 0), 15),    // benchmarking, RFC 2544
    (Ipv4Addr::new(198, 51, 100, 0), 24),  // documentation, RFC 5737
    (Ipv4Addr::new(203, 0, 113, 0), 24),   // documentation, RFC 5737
    (Ipv4Addr::new(224, 0, 0, 0), 4),      // multicast, RFC 5771
    (Ipv4Addr::new(240, 0, 0, 0), 4),      // reserved, RFC 1112, and limited broadcast
];

/// IPv6 that is not public although it lies in the block of global unicast ([`GLOBAL_V6`]).
const NOT_PUBLIC_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments, RFC 2928: Teredo, benchmarking, ORCHID
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation, RFC 3849
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4: an IPv4 address in the second to the sixth byte, RFC 3056
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation, RFC 9637
];

/// Global unicast, the only block from which public addresses are given out. Outside it lie loopback, unspecified,
/// unique-local, link-local, site-local, multicast, discard, the compatible form of IPv4 and the NAT64 of one's own network.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Where NAT64 puts IPv4 (RFC 6052): how a machine with IPv6 only reaches a log with IPv4 only.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Whether `address` is one that the public Internet routes to somebody in particular.
///
/// IPv4 inside IPv6 counts as the IPv4 that it is where such forms are in use (mapped, and NAT64 with its well-known
/// prefix), and is not public where they are no more (compatible, 6to4, Teredo): no log is behind those. A NAT64 prefix
/// that a network chose for itself cannot be told from any other address.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NOT_PUBLIC_V4.iter().any(|&block| v4_in(address, block)),
        IpAddr::V6(address) => match embedded_v4(address) {
            Some(embedded) => is_public(embedded.into()),
            None => v6_in(address, GLOBAL_V6) && !NOT_PUBLIC_V6.iter().any(|&block| v6_in(address, block)),
        },
    }
}

/// The address that `url` spells out. `Url` has read every spelling of it (`127.1`, `0x7f.1`, `2130706433`, `127.0.0.1.`)
/// as the address it is; everything else is a name, `localhost` too, and gets to the resolver.
pub(crate) fn literal(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Refuses a `url` that spells out an address that is not public.
pub(crate) fn check_literal(url: &Url) -> Result<(), NotPublic> {
    match literal(url) {
        Some(address) if !is_public(address) => Err(NotPublic(address)),
        _ => Ok(()),
    }
}

/// The system's resolver.
#[derive(Debug)]
pub(crate) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // The port is the URL's; 0 stands for none.
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// A resolver that hands on public addresses only. What it hands on is what gets connected to: a name that resolves to
/// something else a moment later is resolved, and judged, again.
///
/// An address that is not public is left out, and does not spoil the public ones beside it: a log whose own network adds
/// an inner address to its name can be watched, and nobody stops a witness by adding a record. A name with no
/// public address is refused.
pub(crate) struct PublicOnly(pub(crate) Arc<dyn Resolve>);

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let resolving = self.0.resolve(name);
        Box::pin(async move {
            let (public, other): (Vec<_>, Vec<_>) = resolving.await?.partition(|found| is_public(found.ip()));
            match other.first() {
                Some(refused) if public.is_empty() => Err(NotPublic(refused.ip()).into()),
                _ => Ok(Box::new(public.into_iter()) as Addrs),
            }
        })
    }
}

/// The IPv4 address that `address` means, in the forms that are in use.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [.., a, b, c, d] = address.octets();
    let nat64 = v6_in(address, NAT64).then(|| Ipv4Addr::new(a, b, c, d));
    address.to_ipv4_mapped().or(nat64)
}

fn v4_in(address: Ipv4Addr, (block, bits): (Ipv4Addr, u32)) -> bool {
    (address.to_bits() ^ block.to_bits()).leading_zeros() >= bits
}

fn v6_in(address: Ipv6Addr, (block, bits): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ block.to_bits()).leading_zeros() >= bits
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn only_addresses_that_the_public_internet_routes_are_public() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::2",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:8.8.8.8",
            "64:ff9b::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::8.8.8.8",
            "100::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:808:808::1",
            "3fff::1",
            "3fff:fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "ff0e::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "168.63.129.15",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2001:200::1",
            "2001:db7::1",
            "2001:db9::1",
            "2003::1",
            "2606:4700:4700::1111",
            "2a00::1",
            "3ffe::1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn an_address_in_a_url_is_judged_however_it_is_spelt() {
        for host in [
            "127.0.0.1",
            "127.0.0.1.",
            "127.1",
            "0x7f.1",
            "0x7f000001",
            "2130706433",
            "017700000001",
            "127.0.1",
            "%31%32%37.0.0.1",
            "１２７.0.0.1",
            "10.0.0.1:8080",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[0:0:0:0:0:0:0:1]",
            "[fd00::1]:443",
            "[64:ff9b::7f00:1]",
        ] {
            let url: Url = format!("http://{host}/").parse().unwrap();
            assert!(check_literal(&url).is_err(), "{host} -> {url}");
        }
        for host in ["8.8.8.8", "[2606:4700:4700::1111]", "localhost", "127.0.0.1.example", "10.example"] {
            let url: Url = format!("https://{host}/").parse().unwrap();
            assert_eq!(check_literal(&url), Ok(()), "{host}");
        }
    }
}
