//! cocoonbox-bench
