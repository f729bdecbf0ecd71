//! Turns the frames of a reply and a fault into the bytes, pauses and breaks of one response.

use std::sync::Arc;
use std::time::Duration;
use std::vec;

use bytes::Bytes;
use futures::{Stream, stream};
use tokio_util::sync::CancellationToken;

use crate::fault::{Fault, Strike};

/// One event on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    /// Whether it carries content: these are the chunks that delays and faults count.
    pub(crate) is_chunk: bool,
}

/// One thing to do to the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Send(Bytes),
    Pause(Duration),
    Cut,
}

/// What a fault looks like on the wire at hand.
#[derive(Clone, Debug)]
pub(crate) struct FaultFrames {
    pub(crate) report: Bytes,
    pub(crate) garbage: Bytes,
    /// A sign of life.
    pub(crate) ping: Bytes,
}

/// Ends a body early: the server drops the connection instead of closing the stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the script cuts the connection here")]
    Cut,
    #[error("the server shuts down")]
    Shutdown,
}

/// Plans a response. A reply with fewer chunks than the fault waits for is struck after its last one.
pub(crate) fn plan(
    frames: Vec<Frame>,
    delay: Duration,
    strike: Option<(&Strike, FaultFrames)>,
) -> Vec<Act> {
    let chunks = frames.iter().filter(|frame| frame.is_chunk).count();
    let mut pending =
        strike.map(|(strike, look)| (strike.after_chunks.min(chunks), &strike.fault, look));
    let first = frames.iter().position(|frame| frame.is_chunk).unwrap_or(1);
    let mut acts = Vec::with_capacity(frames.len() + 2);
    let mut sent = 0;
    for (index, frame) in frames.into_iter().enumerate() {
        let due = pending.take_if(|(after, ..)| *after == sent && index >= first);
        if let Some((_, fault, look)) = due
            && strike_with(&mut acts, fault, look, &frame.bytes)
        {
            return acts;
        }
        if frame.is_chunk {
            sent += 1;
            if !delay.is_zero() {
                acts.push(Act::Pause(delay));
            }
        }
        acts.push(Act::Send(frame.bytes));
    }
    acts
}

/// Strikes before the event `next`. Returns whether the fault ends the stream.
fn strike_with(acts: &mut Vec<Act>, fault: &Fault, look: FaultFrames, next: &Bytes) -> bool {
    match fault {
        Fault::Cut { inside } => {
            if *inside {
                acts.push(Act::Send(next.slice(..next.len() / 2)));
            }
            acts.push(Act::Cut);
            true
        }
        Fault::Repeat => {
            acts.push(Act::Send(next.clone()));
            false
        }
        Fault::Report(_) => {
            acts.push(Act::Send(look.report));
            true
        }
        Fault::Garbage => {
            acts.push(Act::Send(look.garbage));
            false
        }
        Fault::Stall { length, ping: None } => {
            acts.push(Act::Pause(*length));
            false
        }
        Fault::Stall {
            length,
            ping: Some(every),
        } => {
            let mut left = *length;
            while !left.is_zero() {
                let pause = left.min(*every);
                acts.extend([Act::Pause(pause), Act::Send(look.ping.clone())]);
                left -= pause;
            }
            false
        }
        // A refused request has no stream to strike.
        Fault::Refuse(_) => false,
    }
}

/// Plays a plan as a response body. A shutdown breaks it off at the next pause. It holds a copy of `open` for as
/// long as somebody reads it or it has more to say.
pub(crate) fn play(
    acts: Vec<Act>,
    stop: CancellationToken,
    open: Arc<()>,
) -> impl Stream<Item = Result<Bytes, Broken>> {
    stream::unfold(
        (acts.into_iter(), stop, open),
        |(mut acts, stop, open)| async move {
            loop {
                match acts.next()? {
                    Act::Send(bytes) => return Some((Ok(bytes), (acts, stop, open))),
                    Act::Pause(pause) => {
                        tokio::select! {
                            () = tokio::time::sleep(pause) => {}
                            () = stop.cancelled() => {
                                return Some((Err(Broken::Shutdown), (vec::IntoIter::default(), stop, open)));
                            }
                        }
                    }
                    Act::Cut => {
                        // An error makes the server drop what it has not flushed yet; a pending body
                        // makes it flush.
                        tokio::task::yield_now().await;
                        return Some((Err(Broken::Cut), (vec::IntoIter::default(), stop, open)));
                    }
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(after_chunks: usize, fault: Fault) -> String {
        let frame = |text: &'static str, is_chunk| Frame {
            bytes: Bytes::from(text),
            is_chunk,
        };
        let frames = vec![
            frame("start", false),
            frame("a", true),
            frame("b", true),
            frame("end", false),
            frame("stop", false),
        ];
        let look = FaultFrames {
            report: "error".into(),
            garbage: "garbage".into(),
            ping: "ping".into(),
        };
        let strike = Strike {
            fault,
            after_chunks,
        };
        let acts = plan(frames, Duration::ZERO, Some((&strike, look)));
        let words: Vec<String> = acts
            .iter()
            .map(|act| match act {
                Act::Send(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Act::Pause(pause) => format!("{pause:?}"),
                Act::Cut => "cut".to_owned(),
            })
            .collect();
        words.join(" ")
    }

    #[test]
    fn a_fault_strikes_after_its_chunks() {
        let stall = |ping| Fault::Stall {
            length: Duration::from_millis(7),
            ping,
        };
        let cut = |inside| Fault::Cut { inside };
        assert_eq!(planned(0, cut(false)), "start cut");
        assert_eq!(planned(1, cut(false)), "start a cut");
        assert_eq!(planned(9, cut(false)), "start a b cut");
        assert_eq!(planned(9, cut(true)), "start a b e cut");
        assert_eq!(planned(1, Fault::Repeat), "start a b b end stop");
        assert_eq!(planned(1, Fault::Garbage), "start a garbage b end stop");
        assert_eq!(planned(2, stall(None)), "start a b 7ms end stop");
        let pings = stall(Some(Duration::from_millis(4)));
        assert_eq!(planned(2, pings), "start a b 4ms ping 3ms ping end stop");
    }

    #[tokio::test]
    async fn a_shutdown_breaks_a_pause() {
        use futures::StreamExt as _;
        let stop = CancellationToken::new();
        stop.cancel();
        let acts = vec![
            Act::Send("a".into()),
            Act::Pause(Duration::MAX),
            Act::Send("b".into()),
        ];
        let items: Vec<_> = play(acts, stop, Arc::default()).collect().await;
        assert!(
            matches!(items.as_slice(), [Ok(_), Err(Broken::Shutdown)]),
            "{items:?}"
        );
    }
}
