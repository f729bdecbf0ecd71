//! Sockets in a box's network, made from outside.
//!
//! A socket belongs to the network namespace of the thread that made it, for good. So a thread enters the
//! box's namespace, makes one socket, and ends; the socket is then used like any other. There is no
//! forwarder, and no path that a box could put a link in.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::thread::LinkNameSpaceType;

use super::run::Init;

/// A connection inside one kernel: anything slower is a full backlog.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A network namespace that is not the host's.
pub(super) struct Network(OwnedFd);

impl Network {
    pub(super) fn of(init: &Init) -> io::Result<Self> {
        let path = format!("/proc/{}/ns/net", init.pid.as_raw_nonzero());
        let namespace = std::fs::File::open(path)?;
        // A box without its own network would be handed sockets of the host.
        let own = std::fs::metadata("/proc/self/ns/net")?;
        let other = namespace.metadata()?;
        if (own.dev(), own.ino()) == (other.dev(), other.ino()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Self(namespace.into()))
    }

    pub(super) fn dial(self, port: u16) -> io::Result<TcpStream> {
        self.enter(move || {
            let stream = TcpStream::connect_timeout(&local(port), CONNECT_TIMEOUT)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        })
    }

    pub(super) fn listen(self, port: u16) -> io::Result<TcpListener> {
        self.enter(move || {
            // The standard library sets SO_REUSEADDR, which a listener after a restart of the api needs.
            let listener = TcpListener::bind(local(port))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })
    }

    fn enter<T: Send>(self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let entered = move || {
                let kind = Some(LinkNameSpaceType::Network);
                rustix::thread::move_into_link_name_space(self.0.as_fd(), kind)?;
                work()
            };
            let thread = std::thread::Builder::new()
                .name("netns".into())
                .spawn_scoped(scope, entered)?;
            thread.join().unwrap_or_else(|_| {
                Err(io::Error::other("the thread in the box's network panicked"))
            })
        })
    }
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
