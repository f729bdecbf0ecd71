//! The simulation: that it repeats itself, that the system passes it, and that it can fail.

mod broken;
mod repeated;
mod seeds;
