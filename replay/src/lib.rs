//! cocoonbox-replay
