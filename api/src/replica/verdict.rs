//! What becomes of a box's log once it is known what the box's disk has of it.
//!
//! The box is hostile: nothing it says rewrites what is here. Whatever it has lost, or has otherwise, the
//! log that was copied stays as it is and readable, and the box goes on in a branch of it.

/// What the box's disk has, compared with what is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compared {
    /// The last position of the log that the box has as well.
    pub(super) common: u64,
    /// How far the box's own log goes, in the part that both should have.
    pub(super) reach: u64,
    /// The box has written a branch that is not known here.
    pub(super) is_foreign: bool,
    /// The box has nothing, or is being given back what it lost.
    pub(super) is_lost: bool,
    /// Where the log is here, and where its own part begins.
    pub(super) tail: u64,
    pub(super) base: u64,
    /// Nothing was written in the box since it was last quiesced.
    pub(super) is_untouched: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The box goes on with its log.
    GoOn,
    /// The box is given back what it lost, and goes on with its log.
    Restore,
    /// The box goes on in a branch behind this position, which it has or is given back.
    Rewind { common: u64, reason: Reason },
}

/// Why a log was rewound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The disk is one from before.
    OlderDisk,
    /// The disk is empty. What it had besides is not known, so that no position is used again.
    DiskLost,
    /// The disk has another history behind the common position. It is not taken in.
    Diverged,
    /// The disk went on in a branch that is not known here: what is here was put back.
    UnknownBranch,
}

impl Compared {
    pub(super) fn verdict(self) -> Verdict {
        let rewind = |common, reason| Verdict::Rewind { common, reason };
        if self.is_lost {
            // A branch without events has given out no position.
            return match (self.tail, self.base) {
                (0, _) => Verdict::GoOn,
                (tail, base) if tail == base || self.is_untouched => Verdict::Restore,
                (tail, _) => rewind(tail, Reason::DiskLost),
            };
        }
        if self.is_foreign {
            return rewind(self.common, Reason::UnknownBranch);
        }
        if self.common == self.tail {
            return Verdict::GoOn;
        }
        let reason = if self.common < self.reach {
            Reason::Diverged
        } else {
            Reason::OlderDisk
        };
        rewind(self.common, reason)
    }
}

impl Reason {
    /// As it stands in the log.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::OlderDisk => "OLDER_DISK",
            Self::DiskLost => "DISK_LOST",
            Self::Diverged => "DIVERGED",
            Self::UnknownBranch => "UNKNOWN_BRANCH",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: Compared = Compared {
        common: 9,
        reach: 9,
        is_foreign: false,
        is_lost: false,
        tail: 9,
        base: 4,
        is_untouched: false,
    };

    fn rewind(common: u64, reason: Reason) -> Verdict {
        Verdict::Rewind { common, reason }
    }

    #[test]
    fn a_box_that_has_everything_goes_on() {
        assert_eq!(SAME.verdict(), Verdict::GoOn);
        // Just branched off: the box has what the branch stands on.
        let (common, reach, tail) = (4, 4, 4);
        let branched = Compared {
            common,
            reach,
            tail,
            ..SAME
        };
        assert_eq!(branched.verdict(), Verdict::GoOn);
    }

    #[test]
    fn what_the_disk_has_less_or_otherwise_is_left_behind() {
        let older = Compared {
            common: 7,
            reach: 7,
            ..SAME
        };
        assert_eq!(older.verdict(), rewind(7, Reason::OlderDisk));
        let before = Compared {
            common: 2,
            reach: 2,
            ..SAME
        };
        assert_eq!(before.verdict(), rewind(2, Reason::OlderDisk));
        let other = Compared {
            common: 7,
            reach: 9,
            ..SAME
        };
        assert_eq!(other.verdict(), rewind(7, Reason::Diverged));
        let all_other = Compared { common: 0, ..SAME };
        assert_eq!(all_other.verdict(), rewind(0, Reason::Diverged));
        let foreign = Compared {
            is_foreign: true,
            ..SAME
        };
        assert_eq!(foreign.verdict(), rewind(9, Reason::UnknownBranch));
    }

    #[test]
    fn a_lost_disk_is_given_back_and_gives_out_no_position_again() {
        let lost = Compared {
            common: 0,
            reach: 0,
            is_lost: true,
            ..SAME
        };
        assert_eq!(lost.verdict(), rewind(9, Reason::DiskLost));
        let quiet = Compared {
            is_untouched: true,
            ..lost
        };
        assert_eq!(quiet.verdict(), Verdict::Restore);
        // The branch was opened, and the api ended before the disk had everything.
        let half = Compared {
            common: 3,
            reach: 3,
            tail: 4,
            ..lost
        };
        assert_eq!(half.verdict(), Verdict::Restore);
        let new = Compared {
            tail: 0,
            base: 0,
            ..lost
        };
        assert_eq!(new.verdict(), Verdict::GoOn);
    }
}
