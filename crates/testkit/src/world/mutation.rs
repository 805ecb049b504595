//! What somebody without any key does to a bundle: every kind of file, damaged in every way.

use super::random::Random;
use audit::{BundleSource, MemoryBundle};
use merkle::{PageId, ResourcePath, TileId};

/// A kind of file in a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// `log/checkpoint`.
    Checkpoint,
    /// `log/tile/entries/…`.
    Entries,
    /// `log/tile/<L>/…`.
    Tile,
    /// `log/heads/…`.
    Heads,
    /// `witness/<name>/checkpoint`.
    WitnessCheckpoint,
    /// `witness/<name>/journal/checkpoint`.
    JournalCheckpoint,
    /// `witness/<name>/journal/tile/entries/…`.
    JournalEntries,
    /// `witness/<name>/journal/tile/<L>/…`.
    JournalTile,
    /// `proofs/*.tlog-proof`.
    KeptProof,
    /// `proofs/*.entry`.
    KeptEntry,
    /// `evidence/*.json`.
    Evidence,
}

impl FileKind {
    /// All of them.
    pub const ALL: [FileKind; 11] = [
        FileKind::Checkpoint,
        FileKind::Entries,
        FileKind::Tile,
        FileKind::Heads,
        FileKind::WitnessCheckpoint,
        FileKind::JournalCheckpoint,
        FileKind::JournalEntries,
        FileKind::JournalTile,
        FileKind::KeptProof,
        FileKind::KeptEntry,
        FileKind::Evidence,
    ];

    /// The kind of a file, if an audit reads it.
    pub fn of(path: &str) -> Option<FileKind> {
        let tiled = |rest: &str, kinds: [Option<FileKind>; 4]| {
            let [checkpoint, entries, tile, heads] = kinds;
            match ResourcePath::parse(rest)? {
                ResourcePath::Checkpoint => checkpoint,
                ResourcePath::Entries(_) => entries,
                ResourcePath::Tile(_) => tile,
                ResourcePath::Heads(_) => heads,
            }
        };
        if let Some(rest) = path.strip_prefix("log/") {
            let kinds = [FileKind::Checkpoint, FileKind::Entries, FileKind::Tile, FileKind::Heads];
            return tiled(rest, kinds.map(Some));
        }
        if let Some(rest) = path.strip_prefix("witness/") {
            let (_, rest) = rest.split_once('/')?;
            let kinds =
                [Some(FileKind::JournalCheckpoint), Some(FileKind::JournalEntries), Some(FileKind::JournalTile), None];
            return match rest.strip_prefix("journal/") {
                None => (rest == "checkpoint").then_some(FileKind::WitnessCheckpoint),
                Some(rest) => tiled(rest, kinds),
            };
        }
        match path.rsplit_once('.')? {
            (start, "tlog-proof") if start.starts_with("proofs/") => Some(FileKind::KeptProof),
            (start, "entry") if start.starts_with("proofs/") => Some(FileKind::KeptEntry),
            (start, "json") if start.starts_with("evidence/") => Some(FileKind::Evidence),
            _ => None,
        }
    }
}

/// A way to damage a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MutationKind {
    /// One bit of it is another.
    Flip,
    /// Its end is missing.
    Cut,
    /// It and another file change places.
    Swap,
    /// Its beginning, and then the end of another file or of itself.
    Splice,
    /// Another log's file in its place.
    Replay,
    /// What stood in its place earlier.
    Older,
    /// A file beside it that nobody asked for.
    Extra,
    /// It is gone.
    Removed,
    /// It stands a second time under another width, or another name.
    Duplicate,
}

impl MutationKind {
    /// All of them.
    pub const ALL: [MutationKind; 9] = [
        MutationKind::Flip,
        MutationKind::Cut,
        MutationKind::Swap,
        MutationKind::Splice,
        MutationKind::Replay,
        MutationKind::Older,
        MutationKind::Extra,
        MutationKind::Removed,
        MutationKind::Duplicate,
    ];
}

/// Where the parts of a damaged bundle come from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The honest bundle.
    pub honest: MemoryBundle,
    /// A bundle of the same world, fetched earlier.
    pub older: MemoryBundle,
    /// A bundle of another log and other witnesses, laid out alike.
    pub other: MemoryBundle,
}

/// A damaged bundle.
#[derive(Clone, Debug)]
pub struct Damaged {
    /// The bundle.
    pub bundle: MemoryBundle,
    /// What was done, for a message.
    pub deed: String,
}

impl Damaged {
    /// The files that are new or other than in `honest`, and those that are gone.
    pub fn changed(&self, honest: &MemoryBundle) -> (Vec<String>, Vec<String>) {
        let differs = |path: &String| self.bundle.get(path) != honest.get(path);
        let new = self.bundle.list().into_iter().filter(differs).collect();
        let gone = honest.list().into_iter().filter(|path| self.bundle.get(path).is_none()).collect();
        (new, gone)
    }
}

/// Damages a file of this kind in this way; `None` where there is no such file, or nothing changed.
pub fn damage(sources: &Sources, file: FileKind, kind: MutationKind, random: &mut Random) -> Option<Damaged> {
    let honest = &sources.honest;
    let paths = of_kind(honest, file);
    if paths.is_empty() {
        return None;
    }
    let path = random.pick(&paths).clone();
    let bytes = honest.get(&path)?.to_vec();
    let mut bundle = honest.clone();
    let mut with = String::new();
    match kind {
        MutationKind::Flip => {
            let (place, bit) = (random.place(bytes.len()), random.below(8));
            let mut flipped = bytes;
            flipped[place] ^= 1 << bit;
            with = format!("bit {bit} of byte {place}");
            bundle.insert(&path, flipped);
        }
        MutationKind::Cut => {
            let length = random.place(bytes.len());
            with = format!("to {length} of {} bytes", bytes.len());
            bundle.insert(&path, &bytes[..length]);
        }
        MutationKind::Swap => {
            let others = if paths.len() > 1 && random.once_in(2) { paths } else { honest.list() };
            with = random.pick(&others).clone();
            let other = honest.get(&with)?.to_vec();
            bundle.insert(&path, other);
            bundle.insert(&with, bytes);
        }
        MutationKind::Splice => {
            let others = if random.once_in(2) { paths } else { honest.list() };
            with = random.pick(&others).clone();
            let other = honest.get(&with)?;
            let (start, end) = (random.place(bytes.len() + 1), random.place(other.len() + 1));
            with.push_str(&format!(", {start} bytes and then from byte {end}"));
            bundle.insert(&path, [&bytes[..start], &other[end..]].concat());
        }
        MutationKind::Replay => {
            with = random.pick(&of_kind(&sources.other, file)).clone();
            bundle.insert(&path, sources.other.get(&with)?);
        }
        MutationKind::Older => {
            with = older_path(&sources.older, &path)?;
            // A resource that grew has another path now: the old one stands in place of the new.
            bundle.remove(&path);
            bundle.insert(&with, sources.older.get(&with)?);
        }
        MutationKind::Extra => {
            with = extra_path(&path, random);
            bundle.insert(&with, bytes);
        }
        MutationKind::Removed => drop(bundle.remove(&path)),
        MutationKind::Duplicate => {
            let (other, width) = duplicate_path(&path, random);
            // The same bytes, or as many of them as that width has.
            let whole = random.once_in(2);
            let kept = if whole { bytes } else { narrowed(&path, &bytes, width) };
            with = format!("{other}, {} bytes", kept.len());
            bundle.insert(other, kept);
        }
    }
    let damaged = Damaged { bundle, deed: format!("{kind:?} of {path}: {with}") };
    let (new, gone) = damaged.changed(honest);
    (!new.is_empty() || !gone.is_empty()).then_some(damaged)
}

fn of_kind(bundle: &MemoryBundle, kind: FileKind) -> Vec<String> {
    bundle.list().into_iter().filter(|path| FileKind::of(path) == Some(kind)).collect()
}

/// The resource of a path without its width: `log/tile/0/000` of `log/tile/0/000.p/17`.
fn unwidened(path: &str) -> &str {
    path.split_once(".p/").map_or(path, |(start, _)| start)
}

fn older_path(older: &MemoryBundle, path: &str) -> Option<String> {
    older.list().into_iter().find(|other| unwidened(other) == unwidened(path))
}

/// A path beside `path` that nothing should be at: a name that means nothing, or a resource beyond the log.
fn extra_path(path: &str, random: &mut Random) -> String {
    let dir = unwidened(path).rsplit_once('/').map_or("", |(dir, _)| dir);
    match (random.below(3), FileKind::of(path)) {
        (0, Some(FileKind::Entries | FileKind::JournalEntries | FileKind::Heads)) => format!("{dir}/007"),
        (0, Some(FileKind::Tile | FileKind::JournalTile)) => format!("{dir}/007"),
        (0, Some(FileKind::KeptEntry)) => String::from("proofs/alone.entry"),
        (1, _) => format!("{dir}/README"),
        _ => format!("{path}.old"),
    }
}

/// The same resource under another width, or the file under another name; and that width.
fn duplicate_path(path: &str, random: &mut Random) -> (String, u16) {
    let (start, width) = match path.split_once(".p/") {
        Some((start, width)) => (start, width.parse().unwrap_or(1)),
        None if path.contains("/tile/") || path.contains("/heads/") => (path, 256),
        None => {
            let (start, ending) = path.rsplit_once('.').unwrap_or((path, "copy"));
            return (format!("{start}-again.{ending}"), u16::MAX);
        }
    };
    let other = loop {
        let other = if random.once_in(2) { random.between(1, 255) } else { random.between(1, u64::from(width)) } as u16;
        if other != width && other < 256 {
            break other;
        }
        if width == 1 {
            break 2;
        }
    };
    (format!("{start}.p/{other}"), other)
}

/// What a log would have served at that width: the first entries, the first hashes.
fn narrowed(path: &str, bytes: &[u8], width: u16) -> Vec<u8> {
    let take = usize::from(width);
    match FileKind::of(path) {
        Some(FileKind::Tile | FileKind::JournalTile) => bytes[..bytes.len().min(take * 32)].to_vec(),
        Some(FileKind::Entries | FileKind::JournalEntries | FileKind::Heads) => {
            let mut page = Vec::new();
            let entries = merkle::decode_entries(bytes).unwrap_or_default();
            for entry in entries.into_iter().take(take) {
                merkle::encode_entry(&mut page, entry).expect("it came from a page");
            }
            page
        }
        _ => bytes.to_vec(),
    }
}

/// Whether a new file is what the log itself served at that width when it was as small: the beginning of a wider file
/// of `honest`, and whole.
pub fn is_genuine_narrower(honest: &MemoryBundle, path: &str, bytes: &[u8]) -> bool {
    let wider = honest.list().into_iter().find(|other| unwidened(other) == unwidened(path) && other != path);
    let (Some(wider), Some((_, resource))) = (wider, path.split_once("log/").or_else(|| path.split_once("journal/")))
    else {
        return false;
    };
    let width = match ResourcePath::parse(resource) {
        Some(ResourcePath::Tile(TileId { width, .. })) => width,
        Some(ResourcePath::Entries(PageId { width, .. }) | ResourcePath::Heads(PageId { width, .. })) => width,
        _ => return false,
    };
    let whole = honest.get(&wider).unwrap_or_default();
    let genuine = narrowed(path, whole, width);
    let is_whole = match FileKind::of(path) {
        Some(FileKind::Tile | FileKind::JournalTile) => bytes.len() == usize::from(width) * 32,
        _ => merkle::decode_entries(bytes).is_ok_and(|entries| entries.len() == usize::from(width)),
    };
    is_whole && genuine == bytes
}
