//! A request body on its way to the vendor: unchanged, as it arrives, and read in passing.
//!
//! Its last piece is held back until there is room for the call in the user's budgets: by then all is
//! known that an estimate needs, nothing was kept in memory, and a vendor cannot begin with half a request.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::oneshot;

use super::hold::{Asker, Hold, Refusal};
use super::scan::Members;
use crate::door::BoxError;

/// The largest request. Vendors' own limits are about this.
pub(crate) const BODY_BYTES_MAX: u64 = 32 << 20;

/// What is read of a request: which model, and how much it may write.
const MEMBERS: &[&str] = &[
    "model",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "n",
];

/// For calls that set no limit. Real ones stay below it but for rare exceptions.
const OUTPUT_TOKENS_DEFAULT: u64 = 16_384;

/// Answers that one call may ask for.
const ANSWERS_MAX: u64 = 128;

/// Prose has about four bytes to a token, code and JSON three, other scripts three to one.
pub(super) const BYTES_PER_TOKEN: u64 = 3;

/// What a call may use, by its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    pub input_tokens: u64,
    pub output_tokens: u64,
}

/// What is known of a request while it is sent, and of its failure afterwards.
#[derive(Debug)]
pub(crate) struct Sending {
    too_large: AtomicBool,
    broken: AtomicBool,
    whole: AtomicBool,
    bytes: AtomicU64,
    members: Mutex<Members>,
    refusal: Mutex<Option<Refusal>>,
    hold: Mutex<Slot>,
}

/// Where a reservation waits to be settled by the end of its call.
#[derive(Debug, Default)]
enum Slot {
    #[default]
    Empty,
    Held(Hold),
    /// The call has ended: nobody would settle what comes.
    Closed,
}

#[derive(Debug)]
pub(crate) struct Outbound<B> {
    inner: B,
    held: Option<Bytes>,
    /// The inner body has come to its end.
    ended: bool,
    gate: Gate,
    sending: Arc<Sending>,
}

#[derive(Debug)]
enum Gate {
    /// Not asked yet.
    Shut(Asker),
    Asking(oneshot::Receiver<bool>),
    Open,
}

#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error("request body is larger than {BODY_BYTES_MAX} bytes")]
    TooLarge,
    #[error("there is no room for the call in a budget")]
    Refused,
}

impl Default for Sending {
    fn default() -> Self {
        Self {
            too_large: AtomicBool::default(),
            broken: AtomicBool::default(),
            whole: AtomicBool::default(),
            bytes: AtomicU64::default(),
            members: Mutex::new(Members::new(MEMBERS)),
            refusal: Mutex::default(),
            hold: Mutex::default(),
        }
    }
}

impl Sending {
    pub(crate) fn is_too_large(&self) -> bool {
        self.too_large.load(Ordering::Relaxed)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Whether the vendor was given all of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Relaxed)
    }

    /// Returns the model that was asked for, as far as it was sent.
    pub(crate) fn model(&self) -> String {
        let members = lock(&self.members);
        let name = members
            .value("model")
            .and_then(|value| serde_json::from_slice(value).ok());
        name.unwrap_or_default()
    }

    pub(crate) fn estimate(&self) -> Estimate {
        let members = lock(&self.members);
        let number = |name: &str| -> Option<u64> {
            members
                .value(name)
                .and_then(|value| serde_json::from_slice(value).ok())
        };
        let limits = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
        let limit = limits.into_iter().filter_map(number).max();
        let answers = number("n").unwrap_or(1).clamp(1, ANSWERS_MAX);
        let blobs = members.blobs();
        let text = self
            .bytes
            .load(Ordering::Relaxed)
            .saturating_sub(blobs.bytes);
        Estimate {
            input_tokens: text.div_ceil(BYTES_PER_TOKEN).saturating_add(blobs.tokens),
            output_tokens: limit
                .unwrap_or(OUTPUT_TOKENS_DEFAULT)
                .saturating_mul(answers),
        }
    }

    pub(crate) fn refuse(&self, refusal: Refusal) {
        *lock(&self.refusal) = Some(refusal);
    }

    pub(crate) fn refusal(&self) -> Option<Refusal> {
        lock(&self.refusal).clone()
    }

    /// Leaves a reservation for the end of the call; gives it back if that was already.
    pub(crate) fn hold(&self, hold: Hold) -> Result<(), Hold> {
        let mut slot = lock(&self.hold);
        match *slot {
            Slot::Closed => Err(hold),
            Slot::Empty | Slot::Held(_) => {
                *slot = Slot::Held(hold);
                Ok(())
            }
        }
    }

    /// Takes the reservation at the end of the call.
    pub(crate) fn close(&self) -> Option<Hold> {
        match std::mem::replace(&mut *lock(&self.hold), Slot::Closed) {
            Slot::Held(hold) => Some(hold),
            Slot::Empty | Slot::Closed => None,
        }
    }
}

impl<B> Outbound<B> {
    /// Without an asker nothing is asked.
    pub(crate) fn new(inner: B, asker: Option<Asker>, sending: Arc<Sending>) -> Self {
        Self {
            inner,
            held: None,
            ended: false,
            gate: asker.map_or(Gate::Open, Gate::Shut),
            sending,
        }
    }

    /// Asks for room, once; ready when there is.
    fn poll_gate(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        if let Gate::Shut(asker) = &self.gate {
            self.gate = Gate::Asking(asker.ask(&self.sending));
        }
        if let Gate::Asking(answer) = &mut self.gate {
            // Without an answer the process is ending.
            if !ready!(Pin::new(answer).poll(cx)).unwrap_or(false) {
                return Poll::Ready(Err(Stopped::Refused));
            }
            self.gate = Gate::Open;
        }
        self.sending.whole.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }

    fn take_in(&self, data: &[u8]) -> Result<(), Stopped> {
        let length = data.len() as u64;
        let before = self.sending.bytes.fetch_add(length, Ordering::Relaxed);
        if before.saturating_add(length) > BODY_BYTES_MAX {
            self.sending.too_large.store(true, Ordering::Relaxed);
            return Err(Stopped::TooLarge);
        }
        lock(&self.sending.members).feed(data);
        Ok(())
    }
}

impl<B> http_body::Body for Outbound<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        while !this.ended && !this.inner.is_end_stream() {
            // Trailers are headers, and headers from the box pass by name only: they are an end.
            let data = match Pin::new(&mut this.inner).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(error))) => {
                    this.sending.broken.store(true, Ordering::Relaxed);
                    return Poll::Ready(Some(Err(error.into())));
                }
                Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
                Poll::Ready(None) => None,
            };
            let Some(data) = data else { break };
            if let Err(stopped) = this.take_in(&data) {
                return Poll::Ready(Some(Err(stopped.into())));
            }
            if let Some(before) = this.held.replace(data) {
                return Poll::Ready(Some(Ok(Frame::data(before))));
            }
        }
        this.ended = true;
        if let Err(stopped) = ready!(this.poll_gate(cx)) {
            return Poll::Ready(Some(Err(stopped.into())));
        }
        Poll::Ready(this.held.take().map(|last| Ok(Frame::data(last))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.gate, Gate::Open)
            && self.held.is_none()
            && (self.ended || self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.as_ref().map_or(0, |data| data.len() as u64);
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(held));
        }
        hint.set_lower(inner.lower().saturating_add(held));
        hint
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
