//! Which display each agent at the screen has: the first one that of the person, which all share, those that come
//! while it is there each one of their own, for as long as their turns go on.
//!
//! Two agents at one display type into each other's windows. Those that need a program with windows beside each other
//! are rare and a display costs some 50 MB, so it is made when a second one comes, and ended with the turn. Where the
//! image has none for them, all are at the one display, as persons would be.

mod table;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use cocoonbox_commands::desktop::{Command, Rejection, SHARED_DISPLAY, STREAM, State};
use cocoonbox_events::{LoadError, StreamName};
use cocoonbox_proto::{
    log::v1::{DesktopDisplayClosed, DesktopDisplayOpened},
    toolhost::v1::{ComputerActRequest, ComputerCloseRequest, computer_client::ComputerClient},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Status, transport::Channel};

use self::table::Table;
use crate::{
    computer::MESSAGE_BYTES_MAX,
    control::Displays,
    desktop::{Plan, private_name},
    journal::{Error, Journal},
    socket,
};

/// From being asked for until its windows are told: an X server and three programs, on a busy machine.
const OPEN_MAX: Duration = Duration::from_secs(30);
/// For a display to end, with what keeps it.
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// Before one that did not end is asked again to; doubles.
const CLOSE_WAIT: Duration = Duration::from_secs(1);
const CLOSE_WAIT_MAX: Duration = Duration::from_mins(1);
/// Looks without changing anything, and is answered once the display is up.
const LOOK: &str = r#"{"action":"windows"}"#;

/// The displays that agents can have. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Seats(Arc<Inner>);

struct Inner {
    /// By number; the first is shared. Empty where the box has no desktop.
    places: Vec<Place>,
    table: Mutex<Table>,
    /// Displays that are there.
    open: watch::Sender<BTreeSet<u32>>,
    /// What is known of those who keep the displays.
    keepers: watch::Sender<Keepers>,
    wake_id: String,
    journal: Journal,
    displays: Displays,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// A display that can be had.
struct Place {
    socket: PathBuf,
    /// For programs that are to show there; none where they do so anyway.
    environment: HashMap<String, String>,
}

#[derive(Debug, Default)]
struct Keepers {
    /// The displays of an earlier process are known, and nobody gets them.
    is_begun: bool,
    /// Of the desktop, once it is in the log.
    session: Option<String>,
    /// Displays that were asked for, and whose keepers have not ended since.
    running: BTreeSet<u32>,
}

/// A display that is up.
#[derive(Clone, Debug)]
struct Opened {
    client: ComputerClient<Channel>,
    /// The newest hand-over of an earlier display of this number; 0 = none.
    fence: u64,
}

/// The display that an agent has.
pub(crate) struct Seat {
    pub(crate) display: u32,
    pub(crate) client: ComputerClient<Channel>,
    /// The agent is to be told that it has it. What people did up to this fence was no news of it.
    pub(crate) is_new: Option<u64>,
}

/// Why an agent gets no display.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSeat {
    #[error(
        "no display is free: agents have all of them ({holders}); try again when one of them is done"
    )]
    Taken { holders: String },
    #[error("a display of your own did not start: {0}")]
    Silent(#[from] Status),
    #[error("it cannot be written down: {0}")]
    Journal(#[from] Error<Rejection>),
    #[error("the log cannot be read: {0}")]
    Log(#[from] LoadError),
    #[error("there is no display in this box")]
    None,
}

impl Seats {
    /// `shared` is the socket where the display that all share is acted on, and those of the others stand beside it.
    /// Displays whose sockets are missing are none.
    pub(crate) fn new(
        shared: PathBuf,
        plan: Option<Plan>,
        wake_id: String,
        journal: Journal,
        displays: Displays,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let places = places(shared, plan);
        let open = if places.is_empty() {
            BTreeSet::new()
        } else {
            BTreeSet::from([SHARED_DISPLAY])
        };
        let count = u32::try_from(places.len()).unwrap_or(0);
        Self(Arc::new(Inner {
            places,
            table: Mutex::new(Table::new(count)),
            open: watch::Sender::new(open),
            keepers: watch::Sender::default(),
            wake_id,
            journal,
            displays,
            tasks,
            stop,
        }))
    }

    /// The displays that are there, and each change of them.
    pub(crate) fn open(&self) -> watch::Receiver<BTreeSet<u32>> {
        self.0.open.subscribe()
    }

    /// Where a display is looked at.
    pub(crate) fn client(&self, display: u32) -> Option<ComputerClient<Channel>> {
        Some(self.place(display)?.client())
    }

    /// Whose own display it is, or was until it was done with it.
    pub(crate) fn owner(&self, display: u32) -> Option<String> {
        let table = self.table();
        let agent = table.agent(display).filter(|_| display != SHARED_DISPLAY);
        agent.map(str::to_owned)
    }

    /// Whether a display was an agent's own that is done with it.
    pub(crate) fn is_left(&self, display: u32) -> bool {
        display != SHARED_DISPLAY && self.table().is_left(display)
    }

    /// Returns the display that an agent has, or gives it one. Who calls tells the agent if it is new.
    pub(crate) async fn seat(&self, agent_id: &str) -> Result<Seat, NoSeat> {
        let (display, Opened { client, fence }) = self.placed(agent_id).await?;
        Ok(Seat {
            display,
            client,
            is_new: self.table().tell(display).then_some(fence),
        })
    }

    /// What programs get that an agent starts, so that they show on its display.
    pub(crate) async fn environment(
        &self,
        agent_id: &str,
    ) -> Result<HashMap<String, String>, NoSeat> {
        let (display, _) = self.placed(agent_id).await?;
        let place = self.place(display).ok_or(NoSeat::None)?;
        Ok(place.environment.clone())
    }

    /// Takes the display of an agent whose turn is over.
    pub(crate) fn leave(&self, agent_id: &str) {
        let display = self.table().leave(agent_id);
        if let Some(display) = display {
            self.clear_soon(display);
        }
    }

    /// Takes note that a part of the desktop has ended, which may be what keeps an agent's display.
    pub(crate) fn ended(&self, part: &str) {
        let mut numbers = self.private();
        if let Some(number) = numbers.find(|number| private_name(*number) == part) {
            self.lost(number);
        }
    }

    /// Takes note that the desktop's session is in the log. Of another one before it nothing runs any more.
    pub(crate) fn desktop_began(&self, session: &str) {
        let mut before = None;
        self.0.keepers.send_modify(|keepers| {
            before = keepers.session.replace(session.to_owned());
        });
        if before.is_some_and(|before| before != session) {
            for number in self.private() {
                self.lost(number);
            }
        }
    }

    /// Ends the displays that agents of an earlier process had; until it knows them nobody gets one. The box has to be
    /// released.
    pub(crate) async fn begin(self) {
        match self.left_open().await {
            Ok(left) => {
                for (display, agent_id) in left {
                    self.table().leave_over(display, &agent_id);
                    self.0.keepers.send_modify(|keepers| {
                        keepers.running.insert(display);
                    });
                    self.0.open.send_modify(|open| {
                        open.insert(display);
                    });
                    self.clear_soon(display);
                }
            }
            Err(error) => tracing::warn!(%error, "displays of agents may be left"),
        }
        self.0
            .keepers
            .send_modify(|keepers| keepers.is_begun = true);
    }

    async fn left_open(&self) -> Result<Vec<(u32, String)>, NoSeat> {
        let mut fold = self.0.journal.fold::<State>(stream()?);
        fold.refresh(&**self.0.journal.store()).await?;
        // What was there before the box slept is gone.
        let is_now = fold.state.wake_id == self.0.wake_id;
        let displays = fold.state.displays.into_iter();
        Ok(displays.filter(|_| is_now).collect())
    }

    /// Returns the display that an agent has, once it is up.
    async fn placed(&self, agent_id: &str) -> Result<(u32, Opened), NoSeat> {
        let begun = self.know(|keepers| keepers.is_begun);
        let begun = self.0.stop.run_until_cancelled(begun).await;
        begun.ok_or(NoSeat::Journal(Error::Closed))?;
        let (display, up) = self.table().sit(agent_id)?;
        let place = self.place(display).ok_or(NoSeat::None)?;
        let opened = up
            .get_or_try_init(|| async {
                if display == SHARED_DISPLAY {
                    let client = place.client();
                    return Ok(Opened { client, fence: 0 });
                }
                self.bring_up(display, place, agent_id).await
            })
            .await;
        match opened {
            Ok(opened) => Ok((display, opened.clone())),
            Err(error) => {
                // The next call gets another.
                self.leave(agent_id);
                Err(error)
            }
        }
    }

    async fn bring_up(
        &self,
        display: u32,
        place: &Place,
        agent_id: &str,
    ) -> Result<Opened, NoSeat> {
        let late = |_| Status::deadline_exceeded("it does not answer");
        // The log has it as one of this desktop's, not of one before the box slept.
        let begun = self.know(|keepers| keepers.session.is_some());
        timeout(OPEN_MAX, begun).await.map_err(late)?;
        let agent_id = agent_id.to_owned();
        // In the log before it is there, so that a process that finds it knows whose it was.
        let opened = Command::OpenDisplay(DesktopDisplayOpened {
            display,
            agent_id: agent_id.clone(),
        });
        let journal = &self.0.journal;
        let mut fold = journal.fold::<State>(stream()?);
        journal
            .execute(&mut fold, &opened, journal.own_actor())
            .await?;
        let left = self.0.displays.handed_back(display);
        self.0.keepers.send_modify(|keepers| {
            keepers.running.insert(display);
        });
        let client = place.client();
        let looking = async {
            let request = ComputerActRequest {
                agent_id,
                args_json: LOOK.to_owned(),
                look: true,
            };
            client.clone().act(request).await
        };
        tokio::select! {
            looked = timeout(OPEN_MAX, looking) => drop(looked.map_err(late)??),
            () = self.know(|keepers| !keepers.running.contains(&display)) => {
                return Err(Status::unavailable("a part of it does not come up").into());
            }
        }
        self.0.open.send_modify(|open| {
            open.insert(display);
        });
        Ok(Opened {
            client,
            fence: left.map_or(0, |back| back.fence),
        })
    }

    fn lost(&self, number: u32) {
        self.table().lose(number);
        self.0.open.send_modify(|open| {
            open.remove(&number);
        });
        self.0.keepers.send_modify(|keepers| {
            keepers.running.remove(&number);
        });
    }

    fn clear_soon(&self, number: u32) {
        let (seats, stop) = (self.clone(), self.0.stop.clone());
        let clearing = async move { seats.clear(number).await };
        self.0.tasks.spawn(stop.run_until_cancelled_owned(clearing));
    }

    /// Ends a display that was left, with all that is on it. Only then it is somebody else's to have.
    async fn clear(&self, number: u32) {
        let displays = &self.0.displays;
        loop {
            // A person who has taken it over keeps it until they hand it back, and what they did is found out.
            displays.free(number).await;
            displays.at_rest(number).await;
            let was_open = self.0.open.send_if_modified(|open| open.remove(&number));
            if !displays.is_held(number) {
                break;
            }
            if was_open {
                self.0.open.send_modify(|open| {
                    open.insert(number);
                });
            }
        }
        let mut wait = CLOSE_WAIT;
        while !self.end(number).await {
            tracing::warn!(number, "a display of an agent does not end");
            sleep(wait).await;
            wait = (wait * 2).min(CLOSE_WAIT_MAX);
        }
        if let Err(error) = self.closed(number).await {
            tracing::warn!(%error, number, "that a display was ended is not written down");
        }
        displays.forget(number);
        self.table().free(number);
    }

    /// Returns whether nothing that kept a display runs any more.
    async fn end(&self, number: u32) -> bool {
        let is_gone = |keepers: &Keepers| !keepers.running.contains(&number);
        if is_gone(&self.0.keepers.borrow()) {
            return true;
        }
        let Some(place) = self.place(number) else {
            return true;
        };
        let ending = async {
            // Whoever is gone says nothing.
            place.client().close(ComputerCloseRequest {}).await.ok();
            self.know(is_gone).await;
        };
        timeout(CLOSE_MAX, ending).await.is_ok()
    }

    async fn closed(&self, number: u32) -> Result<(), NoSeat> {
        let journal = &self.0.journal;
        let mut fold = journal.fold::<State>(stream()?);
        let closed = Command::CloseDisplay(DesktopDisplayClosed { display: number });
        let own = journal.own_actor();
        journal
            .record(&mut fold, &closed, own, &self.0.stop)
            .await?;
        Ok(())
    }

    /// Resolves once this is known of the keepers.
    async fn know(&self, what: impl Fn(&Keepers) -> bool) {
        let mut keepers = self.0.keepers.subscribe();
        // The sender is ours.
        drop(keepers.wait_for(|keepers| what(keepers)).await);
    }

    fn place(&self, display: u32) -> Option<&Place> {
        self.0.places.get(usize::try_from(display).ok()?)
    }

    /// Numbers of the displays that agents can have for themselves.
    fn private(&self) -> std::ops::Range<u32> {
        1..u32::try_from(self.0.places.len()).unwrap_or(1)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Over a connection of its own, which is made when something is asked.
    fn client(&self) -> ComputerClient<Channel> {
        let channel = socket::channel("http://computer", self.socket.clone());
        ComputerClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }
}

fn places(shared: PathBuf, plan: Option<Plan>) -> Vec<Place> {
    if !shared.exists() {
        return Vec::new();
    }
    let private = |number| plan.as_ref()?.private(number);
    let private = (1..).map_while(|number| Some((number, private(number)?)));
    let beside = private.map(|(number, plan)| Place {
        socket: shared.with_file_name(format!("{}.sock", private_name(number))),
        environment: plan.environment.into_iter().collect(),
    });
    let mut places: Vec<Place> = beside.take_while(|place| place.socket.exists()).collect();
    let first = Place {
        socket: shared.clone(),
        environment: HashMap::new(),
    };
    places.insert(0, first);
    places
}

fn stream() -> Result<StreamName, NoSeat> {
    StreamName::new(STREAM).map_err(|_| NoSeat::None)
}
