//! A person acts on the display, and it is watched what they do.

use std::sync::Arc;

use super::{
    super::{
        backend::{Backend, Typed, Typing, Window},
        geometry::Mapping,
        picture,
        refusal::{Fault, Refusal},
    },
    Holder,
};

/// The display at one moment.
#[derive(Debug)]
pub(in super::super) struct Seen {
    pub(in super::super) png: Vec<u8>,
    /// The one in front first.
    pub(in super::super) windows: Vec<Window>,
}

/// Somebody else acts on the display, and it is watched what they do.
pub(in super::super) struct Watch {
    _call: Arc<()>,
    _watched: Watched,
    typing: Option<Typing>,
}

/// A person acts, until it is dropped.
struct Watched {
    holder: Holder,
    held: Option<Arc<()>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.held = None;
        // Who acts next makes another, with hands.
        self.holder.let_go();
    }
}

impl Seen {
    async fn of(backend: &dyn Backend) -> Result<Self, Fault> {
        let size = backend.size().await?;
        let pixels = backend.pixels(size.whole()).await?;
        let scaled = picture::scaled(&pixels, Mapping::of(size.whole()).picture);
        let mut windows = backend.windows().await?;
        windows.reverse();
        Ok(Self {
            // Only a picture without pixels is none.
            png: picture::png(&scaled).unwrap_or_default(),
            windows,
        })
    }
}

impl Holder {
    /// Looks at the display before somebody else acts on it.
    pub(in super::super) async fn watch(&self) -> Result<(Seen, Watch), Refusal> {
        let call = self.called();
        let watched = Watched {
            holder: self.clone(),
            held: Some(Arc::clone(&self.0.watched)),
        };
        // Another is made, without hands.
        self.let_go();
        let backend = self.backend()?;
        let typing = match backend.typing().await {
            Ok(typing) => Some(typing),
            Err(fault) => {
                tracing::info!(%fault, "what is typed is not watched");
                None
            }
        };
        let seen = self.seen_over(Seen::of(&*backend).await)?;
        let watch = Watch {
            _call: call,
            _watched: watched,
            typing,
        };
        Ok((seen, watch))
    }

    /// Looks again, and says what was typed meanwhile.
    pub(in super::super) async fn watched(
        &self,
        watch: Watch,
    ) -> Result<(Seen, Vec<Typed>), Refusal> {
        let backend = self.backend()?;
        // The last click may have opened something.
        let settled = backend.settled().await;
        let typed = match watch.typing {
            Some(typing) => typing.end().await,
            None => Vec::new(),
        };
        self.seen_over(settled)?;
        Ok((self.seen_over(Seen::of(&*backend).await)?, typed))
    }

    fn seen_over<T>(&self, seen: Result<T, Fault>) -> Result<T, Refusal> {
        self.looked_over(seen.map_err(Refusal::Fault))
    }
}
