//! The writer: takes what waits, writes it, syncs, and only then answers.

use std::task::Poll;

use cocoonbox_events::{AppendError, Appended, LogId, Recorded, Store};
use tokio::sync::oneshot;

use super::{
    Inner, Job, SimStore,
    ask::{Answer, Ask},
    done,
};
use crate::{
    broken::Broken,
    disk::{self, Fault, Frame},
    scheduler::lock,
};

/// Appends of one sync.
const BATCH_MAX: usize = 32;

type Answered = (oneshot::Sender<Answer>, Answer);

impl SimStore {
    /// Writes until its process ends or the disk fails.
    pub async fn serve(self) {
        let store = &*self.0;
        while !lock(&store.state).is_stopped {
            let batch = store.batch().await;
            let fault = store.disk.fault();
            let before = store.disk.synced();
            let mut frames = Vec::new();
            let mut answers = Vec::new();
            for job in batch {
                store.begin(job, fault, &mut frames, &mut answers);
            }
            for frame in &frames {
                store.disk.write(frame.clone());
            }
            if store.broken == Broken::AckBeforeSync {
                store.publish(&frames);
                answers.drain(..).for_each(answer);
            }
            let latency = store.sim.draw(|chance| chance.between(200, 8_000));
            store.sim.sleep_us(latency).await;
            if store.disk.fault() == Fault::SyncFails && !frames.is_empty() {
                store
                    .sim
                    .note(&store.name, || "sync failed; the store stops".to_owned());
                let mut state = lock(&store.state);
                state.is_stopped = true;
                // Nobody knows what came of these; what waits was never looked at.
                state.queue.clear();
                return;
            }
            store.disk.sync();
            debug_assert!(store.disk.synced() == before + frames.len());
            if store.broken != Broken::AckBeforeSync {
                store.publish(&frames);
            }
            answers.into_iter().for_each(answer);
        }
    }
}

fn answer((to, what): Answered) {
    // Whoever asked may be gone.
    drop(to.send(what));
}

impl Inner {
    async fn batch(&self) -> Vec<Job> {
        std::future::poll_fn(|context| {
            let mut state = lock(&self.state);
            if state.queue.is_empty() {
                state.arrived = Some(context.waker().clone());
                return Poll::Pending;
            }
            let count = state.queue.len().min(BATCH_MAX);
            Poll::Ready(state.queue.drain(..count).collect())
        })
        .await
    }

    /// Decides one job against what the writer knows, ahead of the disk.
    fn begin(&self, job: Job, fault: Fault, frames: &mut Vec<Frame>, answers: &mut Vec<Answered>) {
        let Job {
            ask,
            now_us,
            answer,
        } = job;
        let refused = match fault {
            Fault::Full => Some(ask.refuse(|| AppendError::DiskFull)),
            Fault::ReadOnly => Some(ask.refuse(|| AppendError::Stopped)),
            Fault::None | Fault::SyncFails => None,
        };
        if let Some(refused) = refused {
            answers.push((answer, refused));
            return;
        }
        self.time.set(now_us);
        let what = match ask {
            Ask::Open(new) => {
                let tail = done(self.front.open(new.clone()));
                if tail.is_ok() {
                    frames.push(Frame::Open(new));
                }
                Answer::Tail(tail)
            }
            Ask::Rewind(new) => {
                let tail = done(self.front.rewind(new.clone()));
                if tail.is_ok() {
                    frames.push(Frame::Rewind(new));
                }
                Answer::Tail(tail)
            }
            Ask::Append(log, append) => {
                let known = self.digest(log, append.command);
                if known.is_some_and(|known| known != append.digest) {
                    answers.push((answer, Answer::Appended(Err(AppendError::CommandReused))));
                    return;
                }
                let command = (append.command, append.digest);
                let appended = done(self.front.append(log, append));
                if let Ok(Appended::Committed(range, _)) = &appended {
                    let events = self.written(log, range.first - 1);
                    let batch = disk::encode(log, &events);
                    lock(&self.state)
                        .digests
                        .insert((log, command.0), command.1);
                    frames.push(Frame::Events {
                        log,
                        command: Some(command),
                        batch,
                    });
                }
                Answer::Appended(appended)
            }
            Ask::Replicate(log, events) => {
                let before = self.front.tail(log).map_or(0, |tail| tail.pos);
                let tail = done(self.front.replicate(log, events));
                if tail.as_ref().is_ok_and(|tail| tail.pos > before) {
                    let batch = disk::encode(log, &self.written(log, before));
                    frames.push(Frame::Events {
                        log,
                        command: None,
                        batch,
                    });
                }
                Answer::Replica(tail)
            }
            Ask::Erase(log, positions) => {
                let erased = done(self.front.erase(log, &positions));
                if erased.is_ok() {
                    frames.push(Frame::Erase { log, positions });
                }
                Answer::Done(erased)
            }
            Ask::Checkpoint(log, checkpoint) => {
                let kept = done(self.front.keep_checkpoint(log, checkpoint.clone()));
                if kept.is_ok() {
                    frames.push(Frame::Checkpoint(log, checkpoint));
                }
                Answer::Done(kept)
            }
            Ask::Incarnation(incarnation) => {
                lock(&self.state).incarnation = incarnation;
                frames.push(Frame::Incarnation(incarnation));
                Answer::Done(Ok(()))
            }
        };
        answers.push((answer, what));
    }

    fn written(&self, log: LogId, after: u64) -> Vec<Recorded> {
        let mut events = Vec::new();
        let mut after = after;
        loop {
            let page = done(self.front.read(log, after, usize::MAX)).unwrap_or_default();
            let Some(last) = page.events.last() else {
                return events;
            };
            after = last.pos;
            events.extend(page.events);
        }
    }

    /// Shows readers what is synced.
    fn publish(&self, frames: &[Frame]) {
        for frame in frames {
            Self::take(&self.durable, frame)
                .expect("what the writer took in is what the readers get");
        }
    }
}
