//! The connection to the X server, and the pointer and the keyboard that are the agents' own.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use x11rb::{
    connection::Connection as _,
    protocol::{
        Event,
        damage::{ConnectionExt as _, ReportLevel},
        xinput::{
            ChangeMode, ConnectionExt as _, DeviceType, HierarchyChange, HierarchyChangeData,
            HierarchyChangeDataAddMaster, HierarchyChangeDataRemoveMaster,
        },
        xproto::{ConnectionExt as _, ImageFormat},
    },
    rust_connection::RustConnection,
};

use super::super::{
    backend::{Hands, Pixels},
    geometry::{Point, Rect, Size},
    keymap::{Keymap, Lent},
    refusal::Fault,
};

/// Of the agents' pointer and keyboard.
const NAME: &str = "cocoonbox";
/// The person's, in every X server.
const CORE_POINTER: u16 = 2;
const CORE_KEYBOARD: u16 = 3;
const EVERY_DEVICE: u16 = 0;

/// How often this process has connected: who connects takes away what those before had on the display.
static CONNECTED: AtomicU64 = AtomicU64::new(0);

x11rb::atom_manager! {
    pub(super) Atoms: AtomsCookie {
        _NET_CLIENT_LIST_STACKING,
        _NET_ACTIVE_WINDOW,
        _NET_RESTACK_WINDOW,
        _NET_WM_NAME,
        _NET_WM_PID,
        _NET_WM_STATE,
        _NET_WM_STATE_HIDDEN,
        _GTK_FRAME_EXTENTS,
        UTF8_STRING,
        WM_STATE,
    }
}

/// An X display.
#[derive(Debug)]
pub(super) struct Display {
    /// Its input comes from the agents' own pointer and keyboard, where the server has them.
    pub(super) input: RustConnection,
    /// Speaks of the person's keyboard: programs look up there what a key means, whichever keyboard it is on.
    pub(super) person: RustConnection,
    pub(super) root: u32,
    pub(super) pointer: u16,
    pub(super) keyboard: u16,
    pub(super) atoms: Atoms,
    /// Tells of what is drawn, where the server does.
    damage: Option<u32>,
    /// The window that was brought or clicked, and the one that was active then.
    pub(super) chosen: Mutex<Option<(u32, u32)>>,
    pub(super) lent: Mutex<Lent>,
    /// Which connection of this process it is.
    connected: u64,
}

impl Display {
    pub(super) fn connect(hands: Hands) -> Result<Self, Fault> {
        let (input, screen) = RustConnection::connect(None)?;
        let (person, _) = RustConnection::connect(None)?;
        let root = input.setup().roots[screen].root;
        let atoms = Atoms::new(&input)?.reply()?;
        let connected = CONNECTED.fetch_add(1, Ordering::SeqCst) + 1;
        let (pointer, keyboard) = match hands.of(&input) {
            Ok(devices) => devices,
            Err(fault) => {
                tracing::warn!(%fault, "no pointer of our own: the person's is used");
                (CORE_POINTER, CORE_KEYBOARD)
            }
        };
        let damage = watch(&input, root).ok();
        let display = Self {
            input,
            person,
            root,
            pointer,
            keyboard,
            atoms,
            damage,
            chosen: Mutex::default(),
            lent: Mutex::default(),
            connected,
        };
        *display.lent() = display.keymap()?.to_lend();
        Ok(display)
    }

    /// Whether the person's pointer and keyboard are left alone.
    pub(super) fn has_own(&self) -> bool {
        self.pointer != CORE_POINTER
    }

    pub(super) fn size(&self) -> Result<Size, Fault> {
        size(&self.input, self.root)
    }

    /// A part of what is shown.
    pub(super) fn pixels(&self, area: Rect) -> Result<Pixels, Fault> {
        pixels(&self.input, self.root, area)
    }

    pub(super) fn pointer(&self) -> Result<Point, Fault> {
        let at = self
            .input
            .xinput_xi_query_pointer(self.root, self.pointer)?
            .reply()?;
        // In 65,536ths of a pixel.
        Ok(Point {
            x: at.root_x >> 16,
            y: at.root_y >> 16,
        })
    }

    /// Whether something was drawn since it was last asked.
    pub(super) fn has_drawn(&self) -> Result<bool, Fault> {
        let mut has_drawn = false;
        while let Some(event) = self.input.poll_for_event()? {
            has_drawn |= matches!(event, Event::DamageNotify(_));
        }
        while self.person.poll_for_event()?.is_some() {}
        if let Some(damage) = self.damage.filter(|_| has_drawn) {
            self.input
                .damage_subtract(damage, x11rb::NONE, x11rb::NONE)?;
            self.input.flush()?;
        }
        Ok(has_drawn)
    }

    /// What keys mean to programs.
    pub(super) fn keymap(&self) -> Result<Keymap, Fault> {
        let setup = self.person.setup();
        let (first, last) = (setup.min_keycode, setup.max_keycode);
        let count = last.saturating_sub(first).saturating_add(1);
        let map = self.person.get_keyboard_mapping(first, count)?.reply()?;
        Ok(Keymap::new(first, map.keysyms_per_keycode, map.keysyms))
    }

    pub(super) fn lent(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        // A look that went on beside a later connection ends behind it: what is there is that one's.
        if self.has_own() && CONNECTED.load(Ordering::SeqCst) == self.connected {
            // A connection that is lost has nothing to put away.
            remove(&self.input).ok();
        }
    }
}

/// Takes the agents' pointer and keyboard away from the display that the environment names, with whatever a
/// process that was killed held down on them.
pub(in super::super) fn put_away() -> Result<(), Fault> {
    let (connection, _) = RustConnection::connect(None)?;
    connection.xinput_xi_query_version(2, 0)?.reply()?;
    remove(&connection)
}

/// What a whole display shows. Leaves nothing behind on it.
pub(in super::super) fn look(display: &str) -> Result<Pixels, Fault> {
    let (connection, screen) = RustConnection::connect(Some(display))?;
    let root = connection.setup().roots[screen].root;
    pixels(&connection, root, size(&connection, root)?.whole())
}

fn size(connection: &RustConnection, root: u32) -> Result<Size, Fault> {
    let geometry = connection.get_geometry(root)?.reply()?;
    Ok(Size {
        width: geometry.width.into(),
        height: geometry.height.into(),
    })
}

fn pixels(connection: &RustConnection, root: u32, area: Rect) -> Result<Pixels, Fault> {
    let size = Size {
        width: area.width,
        height: area.height,
    };
    let (Ok(x), Ok(y), Ok(width), Ok(height)) = (
        i16::try_from(area.x),
        i16::try_from(area.y),
        u16::try_from(area.width),
        u16::try_from(area.height),
    ) else {
        return Err(Fault::Pixels { depth: 0 });
    };
    let (format, planes) = (ImageFormat::Z_PIXMAP, u32::MAX);
    let image = connection.get_image(format, root, x, y, width, height, planes)?;
    let image = image.reply()?;
    let formats = &connection.setup().pixmap_formats;
    let format = formats.iter().find(|format| format.depth == image.depth);
    let count = usize::from(width) * usize::from(height);
    // Servers of this kind have blue, green, red and a byte that says nothing, in the order of the machine.
    let is_read = matches!(image.depth, 24 | 32)
        && format.is_some_and(|format| format.bits_per_pixel == 32)
        && image.data.len() >= count * 4;
    if !is_read {
        return Err(Fault::Pixels { depth: image.depth });
    }
    let mut rgb = Vec::with_capacity(count * 3);
    for pixel in image.data.chunks_exact(4).take(count) {
        rgb.extend_from_slice(&[pixel[2], pixel[1], pixel[0]]);
    }
    Ok(Pixels { size, rgb })
}

impl Hands {
    fn of(self, connection: &RustConnection) -> Result<(u16, u16), Fault> {
        match self {
            Self::Own => own_devices(connection),
            Self::None => {
                connection.xinput_xi_query_version(2, 0)?.reply()?;
                remove(connection)?;
                Ok((CORE_POINTER, CORE_KEYBOARD))
            }
        }
    }
}

/// Makes a pointer and a keyboard, and has this connection's input come from them.
fn own_devices(connection: &RustConnection) -> Result<(u16, u16), Fault> {
    connection.xinput_xi_query_version(2, 0)?.reply()?;
    remove(connection)?;
    let name = NAME.as_bytes().to_vec();
    let words = 2 + NAME.len().div_ceil(4);
    let add = HierarchyChange {
        len: u16::try_from(words).unwrap_or(u16::MAX),
        data: HierarchyChangeData::AddMaster(HierarchyChangeDataAddMaster {
            send_core: true,
            enable: true,
            name,
        }),
    };
    connection.xinput_xi_change_hierarchy(&[add])?.check()?;
    let pointer = device(connection, "pointer")?.unwrap_or(CORE_POINTER);
    let keyboard = device(connection, "keyboard")?.unwrap_or(CORE_KEYBOARD);
    connection
        .xinput_xi_set_client_pointer(x11rb::NONE, pointer)?
        .check()?;
    Ok((pointer, keyboard))
}

fn remove(connection: &RustConnection) -> Result<(), Fault> {
    while let Some(pointer) = device(connection, "pointer")? {
        let remove = HierarchyChange {
            len: 3,
            data: HierarchyChangeData::RemoveMaster(HierarchyChangeDataRemoveMaster {
                deviceid: pointer,
                return_mode: ChangeMode::FLOAT,
                return_pointer: 0,
                return_keyboard: 0,
            }),
        };
        connection.xinput_xi_change_hierarchy(&[remove])?.check()?;
    }
    Ok(())
}

fn device(connection: &RustConnection, kind: &str) -> Result<Option<u16>, Fault> {
    let devices = connection.xinput_xi_query_device(EVERY_DEVICE)?.reply()?;
    let name = format!("{NAME} {kind}");
    let is_master = |kind| {
        matches!(
            kind,
            DeviceType::MASTER_POINTER | DeviceType::MASTER_KEYBOARD
        )
    };
    let mut masters = devices.infos.iter().filter(|info| is_master(info.type_));
    let found = masters.find(|info| info.name == name.as_bytes());
    Ok(found.map(|info| info.deviceid))
}

fn watch(connection: &RustConnection, root: u32) -> Result<u32, Fault> {
    connection.damage_query_version(1, 1)?.reply()?;
    let damage = connection.generate_id()?;
    connection
        .damage_create(damage, root, ReportLevel::NON_EMPTY)?
        .check()?;
    Ok(damage)
}
