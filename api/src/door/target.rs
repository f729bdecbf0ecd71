//! Where a request wants to go, read from its URI in one way only.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::uri::Authority;

use super::GATEWAY_HOST;
use super::address::canonical;

/// The longest name that DNS has.
const NAME_BYTES_MAX: usize = 253;

/// The top-level name that belongs to the door. No such name is ever asked of a resolver.
const OWN_DOMAIN: &str = "cocoonbox";

/// A host and a port. Two spellings of one destination are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// Lower case, without a dot at the end, letters, digits, `-`, `_` and dots.
    Name(String),
    Address(IpAddr),
}

/// Why a destination could not be read. It is refused rather than guessed: whoever resolves the name
/// might guess otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadTarget {
    #[error("a user name in the address is not allowed")]
    UserInfo,
    #[error("the host is not a name or an address")]
    Host,
    #[error("the port is missing or not a number from 1 to 65535")]
    Port,
}

impl Target {
    /// Reads an authority; `default_port` is for where it names none.
    pub(crate) fn parse(
        authority: &Authority,
        default_port: Option<u16>,
    ) -> Result<Self, BadTarget> {
        let text = authority.as_str();
        if text.contains('@') {
            return Err(BadTarget::UserInfo);
        }
        let host_end = match text.strip_prefix('[') {
            Some(_) => text.find(']').ok_or(BadTarget::Host)? + 1,
            None => text.find(':').unwrap_or(text.len()),
        };
        let (host, rest) = text.split_at(host_end);
        let port = match rest.strip_prefix(':') {
            None if rest.is_empty() => None,
            Some("") => None,
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().map_err(|_| BadTarget::Port)?)
            }
            _ => return Err(BadTarget::Port),
        };
        let port = port.or(default_port).filter(|port| *port != 0);
        Ok(Self {
            host: Host::parse(host)?,
            port: port.ok_or(BadTarget::Port)?,
        })
    }

    pub(crate) fn is_gateway(&self) -> bool {
        matches!(&self.host, Host::Name(name) if name == GATEWAY_HOST)
    }
}

impl Host {
    pub(crate) fn parse(text: &str) -> Result<Self, BadTarget> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(BadTarget::Host)?;
            // Zone ids (`%eth0`) do not parse: they only mean something for link-local addresses.
            let address: Ipv6Addr = inner.parse().map_err(|_| BadTarget::Host)?;
            return Ok(Self::Address(canonical(address.into())));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let label = |label: &str| {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
            !label.is_empty() && label.bytes().all(allowed)
        };
        if name.len() > NAME_BYTES_MAX || !name.split('.').all(label) {
            return Err(BadTarget::Host);
        }
        let last = name.rsplit('.').next().unwrap_or(&name);
        if is_number(last) {
            let address = parse_v4(&name).ok_or(BadTarget::Host)?;
            return Ok(Self::Address(address.into()));
        }
        Ok(Self::Name(name))
    }

    /// Returns whether the name is under the domain that is in no DNS.
    pub(crate) fn is_in_own_domain(&self) -> bool {
        match self {
            Self::Name(name) => name.rsplit('.').next() == Some(OWN_DOMAIN),
            Self::Address(_) => false,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Returns whether a last label makes the whole host an IPv4 address, as browsers have it.
fn is_number(label: &str) -> bool {
    let hex = label
        .strip_prefix("0x")
        .is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
    hex || label.bytes().all(|b| b.is_ascii_digit())
}

/// Reads every spelling that C libraries and browsers read: one to four numbers, decimal, octal or
/// hexadecimal, the last of which fills what is left.
fn parse_v4(name: &str) -> Option<Ipv4Addr> {
    let mut numbers = Vec::with_capacity(4);
    for label in name.split('.') {
        let number = if let Some(hex) = label.strip_prefix("0x") {
            if hex.is_empty() {
                Some(0)
            } else {
                u64::from_str_radix(hex, 16).ok()
            }
        } else if label.len() > 1 && label.starts_with('0') {
            u64::from_str_radix(label, 8).ok()
        } else {
            label.parse().ok()
        };
        numbers.push(number?);
    }
    let (last, first) = numbers.split_last()?;
    if first.len() > 3 || first.iter().any(|number| *number > 255) {
        return None;
    }
    let left_bits = 8 * (4 - u32::try_from(first.len()).ok()?);
    if last.checked_shr(left_bits).unwrap_or(0) != 0 {
        return None;
    }
    let high = first.iter().fold(0, |high, number| high << 8 | number);
    Some(Ipv4Addr::from_bits(
        u32::try_from(high << left_bits | last).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Target, String> {
        let authority: Authority = text.parse().map_err(|_| "not an authority".to_owned())?;
        Target::parse(&authority, Some(80)).map_err(|error| error.to_string())
    }

    #[test]
    fn odd_spellings_are_the_same_address() {
        for text in [
            "127.0.0.1",
            "127.0.0.1.",
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f000001",
            "0x7F.0.0.0x1",
            "0177.0.0.01",
            "017700000001",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[0:0:0:0:0:FFFF:7F00:0001]",
        ] {
            let target = parse(text).unwrap();
            assert_eq!(target.to_string(), "127.0.0.1:80", "{text}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for text in [
            "good@127.0.0.1",
            "good:80@127.0.0.1:80",
            "1.2.3.4.5",
            "1.2.3.256",
            "1.2.3.09",
            "256.1",
            "4294967296",
            "0xfffffffff",
            "99999999999999999999999",
            "example.0x7g.1",
            "a..b",
            ".",
            "..",
            "-.-.",
            "127%2e0.0.1",
            "ex\u{430}mple.com",
            "\u{ff11}27.0.0.1",
            "[fe80::1%25eth0]",
            "[::1",
            "[127.0.0.1]",
            "[::1]x",
            "::1",
            "host:0",
            "host:65536",
            "host:+80",
            "host:80:80",
            "host:8o",
        ] {
            let read = parse(text);
            let harmless =
                matches!(&read, Ok(Target { host: Host::Name(name), .. }) if name == "-.-");
            assert!(read.is_err() || harmless, "{text}: {read:?}");
        }
    }

    #[test]
    fn names_are_compared_without_case_and_last_dot() {
        let target = parse("Gateway.CocoonBox.:80").unwrap();
        assert!(target.is_gateway());
        assert!(parse("x.cocoonbox").unwrap().host.is_in_own_domain());
        assert!(!parse("cocoonbox.example").unwrap().host.is_in_own_domain());
        assert_eq!(
            parse("Example.COM:8080").unwrap().to_string(),
            "example.com:8080"
        );
        assert_eq!(
            parse("0x7f.example").unwrap().to_string(),
            "0x7f.example:80"
        );
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(text in "[\\[\\]0-9a-fx.:@%-]{0,24}") {
            if let Ok(target) = parse(&text) {
                // Reading what was printed gives the same destination: nothing is left to guess.
                prop_assert_eq!(parse(&target.to_string()), Ok(target));
            }
        }

        #[test]
        fn every_address_has_one_reading(bits in any::<u32>()) {
            let address = Ipv4Addr::from_bits(bits);
            let [a, b, c, d] = address.octets();
            let (bc, bcd) = (bits & 0xffff, bits & 0x00ff_ffff);
            let spellings = [
                format!("{address}"),
                format!("{bits}"),
                format!("{bits:#x}"),
                format!("0{bits:o}"),
                format!("{a:#x}.0{b:o}.{c}.{d:#x}"),
                format!("{a}.{b}.{bc}"),
                format!("{a}.{bcd:#x}"),
                format!("[::ffff:{address}]"),
            ];
            for text in spellings {
                let read = parse(&text).map(|target| target.host);
                prop_assert_eq!(read, Ok(Host::Address(address.into())), "{}", text);
            }
        }
    }
}
