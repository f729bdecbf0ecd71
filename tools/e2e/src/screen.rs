//! What a box's display shows, read by a small RFB client.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    os::fd::AsFd,
    thread,
    time::Duration,
};

use bytes::Bytes;
use cocoonbox_proto::agent::v1::{
    ControlState, ReleaseControlRequest, ScreenRequest, ScreenResponse, ScreenStart,
    TakeControlRequest, screen_request::Frame, screen_response, session_client::SessionClient,
};
use rustix::thread::LinkNameSpaceType;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, transport::Channel};

use crate::{TheBox, until::soon};

const PORT: u16 = 5900;
/// Between two bytes of a display that works.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bits per pixel, depth, little endian, true colour, the greatest red, green and blue, their shifts, padding.
const PIXELS: [u8; 16] = [32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0];
const RAW: i32 = 0;

/// A picture of the display.
#[derive(Clone, Debug)]
pub struct Picture {
    pub width: usize,
    pub height: usize,
    /// `0xRRGGBB`, row by row.
    pub pixels: Vec<u32>,
}

impl Picture {
    /// How much of it has this colour, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a display has few pixels")]
    pub fn share(&self, colour: u32) -> f64 {
        let of = self.pixels.iter().filter(|pixel| **pixel == colour).count();
        of as f64 / self.pixels.len() as f64
    }

    /// What a PNG file of red, green and blue shows.
    pub fn of_png(file: &[u8]) -> Self {
        let decoder = png::Decoder::new(io::Cursor::new(file));
        let mut reader = decoder.read_info().expect("a PNG file");
        let mut rgb = vec![0; reader.output_buffer_size().expect("it fits")];
        let info = reader.next_frame(&mut rgb).expect("it is whole");
        assert_eq!(info.color_type, png::ColorType::Rgb);
        let pixel = |rgb: &[u8]| u32::from_be_bytes([0, rgb[0], rgb[1], rgb[2]]);
        Self {
            width: info.width as usize,
            height: info.height as usize,
            pixels: rgb.chunks_exact(3).map(pixel).collect(),
        }
    }
}

impl TheBox {
    /// Takes control of the display; `idle_ms` = 0: for as long as is usual.
    pub async fn take_control(&self, lease_id: &str, idle_ms: u64) -> Result<ControlState, Status> {
        let request = TakeControlRequest {
            lease_id: lease_id.into(),
            idle_ms,
            ..TakeControlRequest::default()
        };
        let taken = self.user.control(&self.id).take(request).await?;
        Ok(taken.into_inner())
    }

    /// Takes control of a display that an agent has for itself.
    pub async fn take_display(&self, display: u32, lease_id: &str) -> Result<ControlState, Status> {
        let request = TakeControlRequest {
            display,
            lease_id: lease_id.into(),
            ..TakeControlRequest::default()
        };
        let taken = self.user.control(&self.id).take(request).await?;
        Ok(taken.into_inner())
    }

    /// Hands such a display back.
    pub async fn hand_back_display(&self, display: u32, lease_id: &str, note: &str) {
        let request = ReleaseControlRequest {
            display,
            lease_id: lease_id.into(),
            note: note.into(),
        };
        let released = self.user.control(&self.id).release(request).await;
        released.expect("it is let go");
    }

    /// Hands the display back.
    pub async fn hand_back(&self, lease_id: &str, note: &str) {
        let request = ReleaseControlRequest {
            lease_id: lease_id.into(),
            note: note.into(),
            ..ReleaseControlRequest::default()
        };
        let released = self.user.control(&self.id).release(request).await;
        released.expect("it is let go");
    }

    /// Takes a picture of the box's display; `None` while nobody answers there.
    pub fn picture(&self) -> Option<Picture> {
        let init = self.init().pid;
        // A socket belongs to the network of the thread that makes it, so this one is left behind.
        let dialed = thread::spawn(move || -> io::Result<TcpStream> {
            let network = std::fs::File::open(format!("/proc/{init}/ns/net"))?;
            let kind = Some(LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(network.as_fd(), kind)?;
            TcpStream::connect((Ipv4Addr::LOCALHOST, PORT))
        });
        let stream = dialed.join().expect("dialing does not panic").ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        read(stream).ok()
    }
}

/// A person's screen, by the api.
pub struct Viewer {
    frames: Streaming<ScreenResponse>,
    requests: mpsc::Sender<ScreenRequest>,
}

impl Viewer {
    /// Looks at the display, until what was shown is enough. With a lease it may send input.
    pub async fn open(
        the_box: &TheBox,
        lease_id: &str,
        is_enough: impl Fn(&[u8]) -> bool,
    ) -> Result<Self, Status> {
        let (requests, sent) = begin(0, lease_id).await;
        let mut session = the_box.user.session(&the_box.id);
        let frames = session.screen(ReceiverStream::new(sent)).await?;
        Self::greet(requests, frames, is_enough).await
    }

    /// Looks at a display that an agent has for itself, and does nothing there.
    pub async fn of_display(
        the_box: &TheBox,
        display: u32,
        is_enough: impl Fn(&[u8]) -> bool,
    ) -> Result<Self, Status> {
        let (requests, sent) = begin(display, "").await;
        let mut session = the_box.user.session(&the_box.id);
        let frames = session.screen(ReceiverStream::new(sent)).await?;
        Self::greet(requests, frames, is_enough).await
    }

    /// Looks as somebody who has the secret of a share, and nothing else.
    pub async fn of_guest(
        channel: Channel,
        secret: &str,
        is_enough: impl Fn(&[u8]) -> bool,
    ) -> Result<Self, Status> {
        let (requests, sent) = begin(0, "").await;
        let mut asked = Request::new(ReceiverStream::new(sent));
        let secret = secret.parse().expect("a secret is ASCII");
        asked.metadata_mut().insert("x-cocoonbox-share", secret);
        let frames = SessionClient::new(channel).screen(asked).await?;
        Self::greet(requests, frames, is_enough).await
    }

    async fn greet(
        requests: mpsc::Sender<ScreenRequest>,
        frames: Response<Streaming<ScreenResponse>>,
        is_enough: impl Fn(&[u8]) -> bool,
    ) -> Result<Self, Status> {
        let mut viewer = Self {
            frames: frames.into_inner(),
            requests,
        };
        viewer.say(b"RFB 003.008\n\x01\x01").await;
        let mut shown = Vec::new();
        while !is_enough(&shown) {
            let frame = soon("a frame", viewer.frames.message()).await?;
            let frame = frame.and_then(|response| response.frame);
            if let screen_response::Frame::Rfb(bytes) = frame.expect("it goes on") {
                shown.extend(bytes);
            }
        }
        Ok(viewer)
    }

    /// Sends bytes of the protocol.
    pub async fn say(&self, bytes: &[u8]) {
        let frame = Frame::Rfb(Bytes::copy_from_slice(bytes));
        let request = ScreenRequest { frame: Some(frame) };
        self.requests.send(request).await.expect("it is heard");
    }

    /// Clicks at a place.
    pub async fn click(&self, x: u16, y: u16) {
        let [left, right] = x.to_be_bytes();
        let [top, bottom] = y.to_be_bytes();
        for pressed in [0, 1, 0] {
            self.say(&[5, pressed, left, right, top, bottom]).await;
        }
    }

    /// Presses and lets go the keys of a text, which has only what one key writes.
    pub async fn type_in(&self, text: &str) {
        for key in text.bytes() {
            for down in [1, 0] {
                self.say(&[4, down, 0, 0, 0, 0, 0, key]).await;
            }
        }
    }

    /// Waits for the end and returns why.
    pub async fn end(mut self) -> Status {
        loop {
            match soon("the end", self.frames.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok(""),
                Err(status) => return status,
            }
        }
    }
}

async fn begin(
    display: u32,
    lease_id: &str,
) -> (mpsc::Sender<ScreenRequest>, mpsc::Receiver<ScreenRequest>) {
    let (requests, sent) = mpsc::channel(16);
    let start = Frame::Start(ScreenStart {
        display,
        lease_id: lease_id.into(),
    });
    let first = ScreenRequest { frame: Some(start) };
    requests.send(first).await.expect("room for the first");
    (requests, sent)
}

fn read(mut stream: TcpStream) -> io::Result<Picture> {
    let mut version = [0; 12];
    stream.read_exact(&mut version)?;
    stream.write_all(b"RFB 003.008\n")?;
    let kinds = usize::from(take::<1>(&mut stream)?[0]);
    let mut offered = vec![0; kinds];
    stream.read_exact(&mut offered)?;
    // No password: whoever is in this network may look.
    stream.write_all(&[1])?;
    if u32::from_be_bytes(take(&mut stream)?) != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // Beside others.
    stream.write_all(&[1])?;
    let width = u16::from_be_bytes(take(&mut stream)?);
    let height = u16::from_be_bytes(take(&mut stream)?);
    take::<16>(&mut stream)?;
    skip_text(&mut stream)?;
    let mut ask = vec![0, 0, 0, 0];
    ask.extend(PIXELS);
    ask.extend([2, 0, 0, 1]);
    ask.extend(RAW.to_be_bytes());
    // All of it, whatever was sent before.
    ask.extend([3, 0, 0, 0, 0, 0]);
    ask.extend(width.to_be_bytes());
    ask.extend(height.to_be_bytes());
    stream.write_all(&ask)?;
    let mut picture = Picture {
        width: width.into(),
        height: height.into(),
        pixels: vec![0; usize::from(width) * usize::from(height)],
    };
    let mut left = picture.pixels.len();
    while left > 0 {
        match take::<1>(&mut stream)?[0] {
            0 => left = left.saturating_sub(update(&mut stream, &mut picture)?),
            // A bell.
            2 => {}
            // Somebody copied something.
            3 => {
                take::<3>(&mut stream)?;
                skip_text(&mut stream)?;
            }
            other => return Err(io::Error::other(format!("message {other}"))),
        }
    }
    Ok(picture)
}

/// Reads one update into the picture and returns how many pixels it had.
fn update(stream: &mut TcpStream, picture: &mut Picture) -> io::Result<usize> {
    take::<1>(stream)?;
    let rectangles = u16::from_be_bytes(take(stream)?);
    let mut seen = 0;
    for _ in 0..rectangles {
        let mut number = || Ok::<_, io::Error>(usize::from(u16::from_be_bytes(take(stream)?)));
        let (x, y, width, height) = (number()?, number()?, number()?, number()?);
        if i32::from_be_bytes(take(stream)?) != RAW {
            return Err(io::Error::other("not what was asked for"));
        }
        for row in y..y + height {
            let mut bytes = vec![0; width * 4];
            stream.read_exact(&mut bytes)?;
            let at = row * picture.width + x;
            let outside = || io::Error::other("outside of the display");
            let row = picture.pixels.get_mut(at..at + width).ok_or_else(outside)?;
            for (pixel, bytes) in row.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *pixel = u32::from_le_bytes(*bytes) & 0x00ff_ffff;
            }
        }
        seen += width * height;
    }
    Ok(seen)
}

fn skip_text(stream: &mut TcpStream) -> io::Result<()> {
    let bytes = u32::from_be_bytes(take(stream)?);
    io::copy(&mut stream.take(bytes.into()), &mut io::sink()).map(drop)
}

fn take<const BYTES: usize>(stream: &mut TcpStream) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
