//! The time capsule of each user: saved moments of their boxes' files.
//!
//! ```text
//!  Save ─▶ save_requested ─▶ keeper ─▶ worker: walks the box's folders, packs, reads back ─▶ committed
//!                            (reactor)   │
//!                                        ▼ packs, sealed with the user's key
//!                               capsules/<user>/     ◀── Browse, ReadFile, Diff: box awake or asleep
//! ```
//!
//! **The packer runs here, outside of the box.** It reads the box's folders by descriptors, beneath their roots and
//! through no link. So no key is ever in a box, and a box can put nothing into the store but what its files say; one
//! that packed for itself would hold a key that opens what every box of its user ever saved, and could store chunks
//! that are not what their ids say. It also works while the box sleeps, or has lost its machine. The price is the
//! host's CPU, and that a machine whose disks the host cannot read needs a reader in the box.

mod browse;
mod checker;
mod failure;
mod guard;
mod keeper;
mod key;
mod moment;
mod place;
mod progress;
mod restore;
mod save;
mod service;
mod shown;
mod storage;
mod sweeper;
mod swept;
mod watched;
mod whole;
mod worker;

pub(crate) use failure::reason;
pub(crate) use guard::Guard;
pub use keeper::{Keeper, Parts, SAVES_MAX, When};
pub(crate) use moment::Finder;
pub use place::{Place, PlaceError, Shelf};
pub use progress::Progress;
pub use service::Capsules;
pub use sweeper::{Bell, Sweeper};
pub use whole::Whole;
