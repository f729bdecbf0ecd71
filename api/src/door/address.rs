//! Which addresses are on the public internet.
//!
//! The list is of what may be reached, not of what may not: an address that nobody has given a public
//! meaning is refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Address blocks, as their first address and prefix length, that are not public: IANA's special
/// purpose registry, multicast, and the class that was never given out.
const PRIVATE_V4: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    // A cloud's metadata service that looks like a public address.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// Blocks within 2000::/3 that are not public. Outside of 2000::/3 nothing is.
const PRIVATE_V6: [(Ipv6Addr, u32); 4] = [
    // IETF protocol assignments: Teredo, ORCHID, benchmarking. Teredo embeds IPv4 addresses.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // 6to4 embeds an IPv4 address, and the last public relays are gone.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Hosts without IPv4 reach it through this prefix, so its addresses are as public as what they embed.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Any port will do to ask for a route.
const DISCARD_PORT: u16 = 9;

/// Returns whether anyone on the internet could reach the address.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !PRIVATE_V4.iter().any(|(block, bits)| {
        let shift = 32 - bits;
        address.to_bits() >> shift == block.to_bits() >> shift
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let within = |(block, bits): &(Ipv6Addr, u32)| {
        let shift = 128 - bits;
        address.to_bits() >> shift == block.to_bits() >> shift
    };
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    if within(&NAT64) {
        let [.., a, b, c, d] = address.octets();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    address.segments()[0] & 0xe000 == 0x2000 && !PRIVATE_V6.iter().any(within)
}

/// Writes an IPv4 address that came in IPv6 clothes as what it is.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Returns whether the address is one of this machine's own.
///
/// A public address of the machine itself is reached over loopback, past whatever firewall protects
/// its services from outside. Asking the kernel needs no netlink, and sees every change.
pub(crate) fn is_own(address: IpAddr) -> bool {
    let foreign: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    // Only own addresses can be bound, unless the host is set up to bind any (`ip_nonlocal_bind`).
    can_bind(address) && (!can_bind(foreign) || is_source_to_itself(address))
}

fn can_bind(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Returns whether packets to the address leave from it. Nothing is sent.
fn is_source_to_itself(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, DISCARD_PORT))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn public(text: &str) -> bool {
        is_public(text.parse().unwrap())
    }

    #[test]
    fn each_private_block_is_refused_at_both_ends_and_not_beyond() {
        for (block, bits) in PRIVATE_V4 {
            let size = 1_u64 << (32 - bits);
            let first = u64::from(block.to_bits());
            let at = |bits: u64| Ipv4Addr::from_bits(u32::try_from(bits).unwrap());
            assert!(!is_public_v4(at(first)), "{block}/{bits}");
            assert!(!is_public_v4(at(first + size - 1)), "{block}/{bits}");
            let neighbours = [first.checked_sub(1), Some(first + size)];
            for next in neighbours
                .into_iter()
                .flatten()
                .filter(|bits| *bits >> 32 == 0)
            {
                let next = at(next);
                let known = ["224.0.0.0", "239.255.255.255", "240.0.0.0"];
                assert!(
                    is_public_v4(next) || known.contains(&next.to_string().as_str()),
                    "{next}"
                );
            }
        }
    }

    #[test]
    fn public_addresses_are_let_through() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "172.32.0.1",
            "192.0.1.1",
            "2606:4700::1111",
            "2a00:1450:4001:81b::200e",
            "2400:cb00::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
        ] {
            assert!(public(text), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "0.0.0.0",
            "169.254.169.254",
            "168.63.129.16",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::8.8.8.8",
            "::ffff:7f00:1",
            "::ffff:169.254.169.254",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "2002:7f00:1::1",
            "2002:808:808::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:20::1",
            "2001:db8::1",
            "3fff::1",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
            "5f00::1",
        ] {
            assert!(!public(text), "{text}");
        }
    }

    #[test]
    fn own_addresses_are_known() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("192.0.2.77".parse().unwrap()));
        assert!(is_source_to_itself("127.0.0.1".parse().unwrap()));
        assert!(!is_source_to_itself("192.0.2.77".parse().unwrap()));
    }

    fn private_v4() -> impl Strategy<Value = Ipv4Addr> {
        (prop::sample::select(&PRIVATE_V4[..]), any::<u32>()).prop_map(|((block, bits), host)| {
            let mask = u32::MAX.checked_shr(bits).unwrap_or(0);
            Ipv4Addr::from_bits(block.to_bits() | (host & mask))
        })
    }

    proptest! {
        #[test]
        fn no_ipv6_form_carries_a_private_address_out(v4 in private_v4(), low in any::<u64>()) {
            prop_assert!(!is_public(v4.into()));
            let bits = u128::from(v4.to_bits());
            let low = u128::from(low);
            let forms = [
                bits,
                0xffff_u128 << 32 | bits,
                0xffff_u128 << 48 | bits,
                0x0064_ff9b_u128 << 96 | bits,
                0x0064_ff9b_0001_u128 << 80 | bits,
                0x2002_u128 << 112 | bits << 80 | low,
                0x2001_0000_u128 << 96 | bits << 64 | low,
                0x2001_0000_u128 << 96 | low << 32 | (bits ^ 0xffff_ffff),
                0xfe80_u128 << 112 | 0x0000_5efe_u128 << 32 | bits,
            ];
            for form in forms {
                prop_assert!(!is_public(Ipv6Addr::from_bits(form).into()), "{}", Ipv6Addr::from_bits(form));
            }
        }
    }
}
