//! cocoonbox-commands
