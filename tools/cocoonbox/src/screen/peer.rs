//! Whose the other end of a connection within this host is.

use std::net::SocketAddr;

/// Returns the user who owns the socket at `peer` that is connected to `local`, as the kernel lists it.
pub(super) fn uid(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    let table = match peer {
        SocketAddr::V4(_) => "/proc/net/tcp",
        SocketAddr::V6(_) => "/proc/net/tcp6",
    };
    find(&std::fs::read_to_string(table).ok()?, peer, local)
}

fn find(table: &str, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    let (peer, local) = (hex(peer), hex(local));
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1) == Some(&peer.as_str()) && fields.get(2) == Some(&local.as_str());
        // Of a socket that is closed already nobody is the owner.
        let is_open = fields.get(9).is_some_and(|inode| *inode != "0");
        (is_it && is_open).then(|| fields.get(7)?.parse().ok())?
    })
}

/// As the kernel writes an address: words in this machine's order.
fn hex(address: SocketAddr) -> String {
    let words: Vec<u32> = match address {
        SocketAddr::V4(v4) => vec![u32::from_ne_bytes(v4.ip().octets())],
        SocketAddr::V6(v6) => {
            let octets = v6.ip().octets();
            let (words, _) = octets.as_chunks::<4>();
            words.iter().map(|word| u32::from_ne_bytes(*word)).collect()
        }
    };
    let words: Vec<String> = words.iter().map(|word| format!("{word:08X}")).collect();
    format!("{}:{:04X}", words.concat(), address.port())
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn our_own_connection_is_ours() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address).await else {
                // A host without IPv6.
                continue;
            };
            let to = listener.local_addr().unwrap();
            let (viewer, accepted) = tokio::join!(TcpStream::connect(to), listener.accept());
            let (_viewer, (_accepted, peer)) = (viewer.unwrap(), accepted.unwrap());
            let own = rustix::process::geteuid().as_raw();
            assert_eq!(uid(peer, to), Some(own), "{address}");
            let other = SocketAddr::new(peer.ip(), 1);
            assert_eq!(uid(other, to), None);
        }
    }

    #[test]
    fn a_closed_socket_has_no_owner() {
        let local = "127.0.0.1:5901".parse().unwrap();
        let peer = "127.0.0.1:40000".parse().unwrap();
        let line = |inode: u32| {
            let ends = format!("{} {}", hex(peer), hex(local));
            format!("head\n 0: {ends} 01 0:0 00:0 0 1000 0 {inode} 1 0 20 4 30 10 -1")
        };
        assert_eq!(find(&line(7), peer, local), Some(1_000));
        assert_eq!(find(&line(0), peer, local), None);
    }
}
