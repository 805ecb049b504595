//! What a liar shows to one of those who ask, and what goes wrong on the way. Values only: `answer` acts on them.

use merkle::{ResourcePath, TileId};
use std::time::Duration;

/// What one of the askers is shown: a head of one of the histories, that history's tiles, and mishaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Showing {
    /// The history, by the number that the liar gave it.
    pub history: usize,
    /// Which of its heads.
    pub head: Head,
    /// What goes wrong; the first that concerns a path counts.
    pub mishaps: Vec<Mishap>,
}

/// Which head of a history is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// The newest, growing as the history does.
    Newest,
    /// That of a size: what the history was once, or a lag.
    Of(u64),
}

/// Something that goes wrong with some of the answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mishap {
    /// With which.
    pub on: On,
    /// What.
    pub how: How,
}

/// Which answers a mishap concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// All.
    Everything,
    /// The checkpoint.
    Checkpoint,
    /// All tiles.
    Tiles,
    /// The tiles of a level.
    Level(u8),
    /// One tile, whatever the width that is asked for.
    Tile(TileId),
    /// Pages of entries.
    Entries,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// Nothing is there: 404.
    Withheld,
    /// Another status, without a body.
    Status(u16),
    /// No answer ever comes.
    Stalls,
    /// The length of the whole is announced, half of it comes, and the connection ends.
    BreaksOff,
    /// Half of it comes, announced as the whole.
    CutShort,
    /// So many bytes at a time, with a pause after each.
    Drips(usize, Duration),
    /// As many bytes that mean nothing.
    Garbage,
    /// One bit is changed.
    OneBit,
    /// More than any right answer has.
    Endless,
    /// 302, to where the same is served.
    Redirects,
    /// What another history has at that path.
    OfHistory(usize),
}

/// From when on a part of a script counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// From this fetch of the checkpoint on by this asker, counted from 0.
    Fetch(u64),
    /// From so long after the script was given on.
    After(Duration),
}

impl Showing {
    /// The newest head of a history, without mishaps.
    pub fn newest(history: usize) -> Showing {
        Showing { history, head: Head::Newest, mishaps: Vec::new() }
    }

    /// The head of one size.
    #[must_use]
    pub fn at(self, size: u64) -> Showing {
        Showing { head: Head::Of(size), ..self }
    }

    /// With one more mishap.
    #[must_use]
    pub fn but(mut self, on: On, how: How) -> Showing {
        self.mishaps.push(Mishap { on, how });
        self
    }

    /// What goes wrong with this path.
    pub(super) fn mishap(&self, path: &ResourcePath) -> Option<&How> {
        self.mishaps.iter().find(|mishap| mishap.on.concerns(path)).map(|mishap| &mishap.how)
    }
}

impl On {
    fn concerns(self, path: &ResourcePath) -> bool {
        match (self, path) {
            (On::Everything, _)
            | (On::Checkpoint, ResourcePath::Checkpoint)
            | (On::Tiles, ResourcePath::Tile(_))
            | (On::Entries, ResourcePath::Entries(_)) => true,
            (On::Level(level), ResourcePath::Tile(tile)) => tile.level == level,
            (On::Tile(this), ResourcePath::Tile(tile)) => tile.full() == this.full(),
            _ => false,
        }
    }
}
