//! Which display each agent at the screen has: the first one that of the person, which all share, those that come
//! while it is there each one of their own, for as long as their turns go on.
//!
//! Two agents at one display type into each other's windows. Those that need a program with windows beside each other
//! are rare and a display costs some 50 MB, so it is made when a second one comes, and ended with the turn. Where the
//! image has none for them, all are at the one display, as persons would be.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
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
    sync::{OnceCell, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Status, transport::Channel};

use crate::{
    computer::MESSAGE_BYTES_MAX,
    control::Displays,
    desktop::{Plan, private_name},
    journal::{Error, Journal},
    lines::quoted,
    socket,
};

/// From being asked for until its windows are told: an X server and three programs, on a busy machine.
const OPEN_MAX: Duration = Duration::from_secs(30);
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// Looks without changing anything, and is answered once the display is up.
const LOOK: &str = r#"{"action":"windows"}"#;

/// The displays that agents can have. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Seats(Arc<Inner>);

struct Inner {
    /// By number; the first is shared. Empty where the box has no desktop.
    places: Vec<Place>,
    seated: Mutex<BTreeMap<u32, Seated>>,
    /// Displays that are there.
    open: watch::Sender<BTreeSet<u32>>,
    /// How often each display has ended, as those say who keep it.
    ended: watch::Sender<BTreeMap<u32, u64>>,
    /// Those of an earlier process are ended.
    is_begun: watch::Sender<bool>,
    wake_id: String,
    journal: Journal,
    displays: Displays,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// A display that can be had.
struct Place {
    client: ComputerClient<Channel>,
    /// For programs that are to show there; none where they do so anyway.
    environment: HashMap<String, String>,
}

struct Seated {
    agent_id: String,
    /// Its display is up.
    up: Arc<OnceCell<()>>,
    /// The agent knows which it has.
    is_told: bool,
    is_leaving: bool,
}

/// The display that an agent has.
pub(crate) struct Seat {
    pub(crate) display: u32,
    pub(crate) client: ComputerClient<Channel>,
    /// To be told.
    pub(crate) is_new: bool,
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
        let mut places = Vec::new();
        if shared.exists() {
            places.push(Place::new(shared.clone(), HashMap::new()));
        }
        let plan = plan.filter(|_| !places.is_empty());
        let private = (1..).map_while(|number| Some((number, plan.as_ref()?.private(number)?)));
        for (number, private) in private {
            let socket = shared.with_file_name(format!("{}.sock", private_name(number)));
            if !socket.exists() {
                break;
            }
            let environment = private.environment.into_iter().collect();
            places.push(Place::new(socket, environment));
        }
        let open = if places.is_empty() {
            BTreeSet::new()
        } else {
            BTreeSet::from([SHARED_DISPLAY])
        };
        Self(Arc::new(Inner {
            places,
            seated: Mutex::default(),
            open: watch::Sender::new(open),
            ended: watch::Sender::default(),
            is_begun: watch::Sender::new(false),
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
        Some(self.place(display)?.client.clone())
    }

    /// Returns the display that an agent has, or gives it one. Who calls tells the agent if it is new.
    pub(crate) async fn seat(&self, agent_id: &str) -> Result<Seat, NoSeat> {
        let (display, place) = self.placed(agent_id).await?;
        let mut seated = self.seated();
        let one = seated.get_mut(&display);
        Ok(Seat {
            display,
            client: place.client.clone(),
            is_new: one.is_some_and(|one| !std::mem::replace(&mut one.is_told, true)),
        })
    }

    /// What programs get that an agent starts, so that they show on its display.
    pub(crate) async fn environment(&self, agent_id: &str) -> HashMap<String, String> {
        match self.placed(agent_id).await {
            Ok((_, place)) => place.environment.clone(),
            Err(NoSeat::None) => HashMap::new(),
            // Nowhere, rather than among another's windows.
            Err(error) => {
                tracing::info!(%error, agent_id, "its programs show nowhere");
                HashMap::from([("DISPLAY".to_owned(), String::new())])
            }
        }
    }

    /// Takes the display of an agent whose turn is over.
    pub(crate) fn leave(&self, agent_id: &str) {
        let display = {
            let mut seated = self.seated();
            let is_its = |seated: &Seated| seated.agent_id == agent_id && !seated.is_leaving;
            let Some((&display, one)) = seated.iter_mut().find(|(_, one)| is_its(one)) else {
                return;
            };
            if display == SHARED_DISPLAY {
                seated.remove(&display);
                return;
            }
            one.is_leaving = true;
            display
        };
        let (seats, stop) = (self.clone(), self.0.stop.clone());
        let closing = async move {
            // A person who has taken it over keeps it until they hand it back.
            seats.0.displays.free(display).await;
            seats.close(display).await;
        };
        self.0.tasks.spawn(stop.run_until_cancelled_owned(closing));
    }

    /// Takes note that a part of the desktop has ended, which may be what keeps an agent's display.
    pub(crate) fn ended(&self, part: &str) {
        let places = 1..u32::try_from(self.0.places.len()).unwrap_or(1);
        let number = places.into_iter().find(|one| private_name(*one) == part);
        if let Some(number) = number {
            self.0
                .ended
                .send_modify(|ended| *ended.entry(number).or_default() += 1);
        }
    }

    /// Ends the displays that agents of an earlier process had. The box has to be released.
    pub(crate) async fn begin(&self) {
        match self.left_open().await {
            Ok(left) => {
                for display in left {
                    self.close(display).await;
                }
            }
            Err(error) => tracing::warn!(%error, "displays of agents may be left"),
        }
        self.0.is_begun.send_replace(true);
    }

    async fn left_open(&self) -> Result<Vec<u32>, NoSeat> {
        let mut fold = self.0.journal.fold::<State>(stream()?);
        fold.refresh(&**self.0.journal.store()).await?;
        // What was there before the box slept is gone.
        let is_now = fold.state.wake_id == self.0.wake_id;
        let displays = fold.state.displays.into_keys();
        Ok(displays.filter(|_| is_now).collect())
    }

    /// Returns the display that an agent has, once it is up.
    async fn placed(&self, agent_id: &str) -> Result<(u32, &Place), NoSeat> {
        let (display, up) = self.sit(agent_id)?;
        let place = self.place(display).ok_or(NoSeat::None)?;
        if display != SHARED_DISPLAY {
            up.get_or_try_init(|| self.bring_up(display, place, agent_id))
                .await?;
        }
        Ok((display, place))
    }

    /// Finds the agent's display, or one that nobody has.
    fn sit(&self, agent_id: &str) -> Result<(u32, Arc<OnceCell<()>>), NoSeat> {
        let mut seated = self.seated();
        let is_its = |one: &Seated| one.agent_id == agent_id && !one.is_leaving;
        if let Some((display, one)) = seated.iter().find(|(_, one)| is_its(one)) {
            return Ok((*display, Arc::clone(&one.up)));
        }
        let count = u32::try_from(self.0.places.len()).unwrap_or(0);
        let free = (0..count).find(|display| !seated.contains_key(display));
        let display = match (count, free) {
            (0, _) => return Err(NoSeat::None),
            // There is no other: it is shared by all, and whose it is does not matter.
            (1, _) => return Ok((SHARED_DISPLAY, Arc::default())),
            (_, Some(display)) => display,
            (_, None) => {
                let holders = seated.values().map(|one| quoted(&one.agent_id));
                let holders = holders.collect::<Vec<_>>().join(", ");
                return Err(NoSeat::Taken { holders });
            }
        };
        let up = Arc::default();
        let one = Seated {
            agent_id: agent_id.to_owned(),
            up: Arc::clone(&up),
            is_told: display == SHARED_DISPLAY,
            is_leaving: false,
        };
        seated.insert(display, one);
        Ok((display, up))
    }

    async fn bring_up(&self, display: u32, place: &Place, agent_id: &str) -> Result<(), NoSeat> {
        let mut is_begun = self.0.is_begun.subscribe();
        // The sender lives as long as we do.
        drop(is_begun.wait_for(|is_begun| *is_begun).await);
        let agent_id = agent_id.to_owned();
        // In the log before it is there, so that a process that finds it knows whose it was.
        let opened = DesktopDisplayOpened {
            display,
            agent_id: agent_id.clone(),
        };
        self.record(Command::OpenDisplay(opened)).await?;
        let request = ComputerActRequest {
            agent_id,
            args_json: LOOK.to_owned(),
            look: true,
        };
        let mut client = place.client.clone();
        let late = |_| Status::deadline_exceeded("it does not answer");
        timeout(OPEN_MAX, client.act(request))
            .await
            .map_err(late)??;
        self.0.open.send_modify(|open| {
            open.insert(display);
        });
        Ok(())
    }

    /// Ends a display with all that is on it, and says so.
    async fn close(&self, number: u32) {
        // What a person left behind is found out there.
        self.0.displays.left(number, u64::MAX).await;
        self.0.open.send_modify(|open| {
            open.remove(&number);
        });
        if timeout(CLOSE_MAX, self.end(number)).await != Ok(true) {
            tracing::warn!(number, "a display of an agent did not end");
        }
        let closed = Command::CloseDisplay(DesktopDisplayClosed { display: number });
        if let Err(error) = self.record(closed).await {
            tracing::warn!(%error, number, "that a display was ended is not written down");
        }
        self.0.displays.forget(number);
        self.seated().remove(&number);
    }

    /// Returns once nothing that kept the display runs, or false if it is not to be ended.
    async fn end(&self, number: u32) -> bool {
        let Some(place) = self.place(number) else {
            return false;
        };
        let count = |ended: &BTreeMap<u32, u64>| ended.get(&number).copied();
        let mut ended = self.0.ended.subscribe();
        let before = count(&ended.borrow_and_update());
        let mut client = place.client.clone();
        client.close(ComputerCloseRequest {}).await.is_ok()
            && ended.wait_for(|ended| count(ended) > before).await.is_ok()
    }

    async fn record(&self, command: Command) -> Result<(), NoSeat> {
        let journal = &self.0.journal;
        let mut fold = journal.fold::<State>(stream()?);
        let own = journal.own_actor();
        journal
            .record(&mut fold, &command, own, &self.0.stop)
            .await?;
        Ok(())
    }

    fn place(&self, display: u32) -> Option<&Place> {
        self.0.places.get(usize::try_from(display).ok()?)
    }

    fn seated(&self) -> MutexGuard<'_, BTreeMap<u32, Seated>> {
        let seated = self.0.seated.lock();
        seated.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn new(socket: PathBuf, environment: HashMap<String, String>) -> Self {
        let channel = socket::channel("http://computer", socket);
        Self {
            client: ComputerClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX),
            environment,
        }
    }
}

fn stream() -> Result<StreamName, NoSeat> {
    StreamName::new(STREAM).map_err(|_| NoSeat::None)
}
