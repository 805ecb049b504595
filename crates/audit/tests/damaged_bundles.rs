//! A thousand bundles that somebody without any key damaged: every kind of file in every way. None is accepted as if it
//! were whole, nothing panics.
//!
//! What ends `ok` all the same is one of [`Accepted`], proven for every file that was changed, and only where the table
//! [`may_be_ok`] says that it can happen at all.

use audit::MemoryBundle;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use testkit::world::accepted::{Accepted, Base};
use testkit::world::honest::{Oddity, Plan};
use testkit::world::mutation::{FileKind, MutationKind, Sources, damage};
use testkit::world::random::Random;
use testkit::world::{World, namesake_accused, seeds, told};

use Accepted::{Gone, Honest, Named, Neutral};

/// How an audit answered a damaged bundle: `None` where it was not `ok`.
type Class = Option<Accepted>;

/// The ways to end `ok` that are open to damage of one kind. All others must be refused.
fn may_be_ok(file: FileKind, kind: MutationKind) -> &'static [Accepted] {
    use FileKind::{
        Checkpoint, Entries, Evidence, Heads, JournalCheckpoint, JournalEntries, JournalTile, KeptEntry, KeptProof,
        Tile, WitnessCheckpoint,
    };
    use MutationKind::{Cut, Duplicate, Extra, Flip, Older, Removed, Replay, Splice, Swap};
    match (file, kind) {
        (_, Extra) => &[Named],
        // A line under a name or key id that nobody knows is nobody's line.
        (Checkpoint | WitnessCheckpoint | KeptProof, Flip) => &[Named],
        // The journal's own line is nobody's either where the policy pins no journal: the witness's lines are what counts.
        (JournalCheckpoint, Flip | Cut | Splice) => &[Neutral],
        // Lines that are gone, where enough others are left.
        (Checkpoint | WitnessCheckpoint | KeptProof, Cut | Splice) => &[Neutral, Honest, Named],
        // Copies of one head in each other's place.
        (Checkpoint | WitnessCheckpoint, Swap) => &[Neutral, Honest],
        (Checkpoint, Older) => &[Named],
        (WitnessCheckpoint, Older) => &[Honest],
        (Entries | Tile | Heads | JournalEntries | JournalTile, Duplicate) => &[Neutral, Named],
        (Checkpoint | WitnessCheckpoint | JournalCheckpoint | KeptEntry, Duplicate) => &[Named],
        (Evidence, Duplicate | Replay) => &[Named],
        (Evidence, Removed) => &[Gone],
        (KeptProof, Removed) => &[Gone, Named],
        _ => &[],
    }
}

struct Ground {
    world: World,
    sources: Sources,
    base: Base,
}

/// Two worlds: a small one with a kept proof and much that is odd, and one whose log and heads fill their first pages.
static GROUNDS: LazyLock<Vec<Ground>> = LazyLock::new(|| {
    let odd =
        [Oddity::FoldedJournals, Oddity::KeptProofs, Oddity::KeyRotation, Oddity::ForeignRecords, Oddity::MlDsaWitness];
    vec![ground(11, &odd, 0), ground(12, &[Oddity::KeptProofs, Oddity::HeadsBetween], 250)]
});

fn ground(seed: u64, oddities: &[Oddity], more: usize) -> Ground {
    let mut world = Plan::of(seed).with(oddities.iter().copied()).world();
    accuse(&mut world);
    let older = grown(&mut world, 4);
    grown(&mut world, more);
    let honest = world.bundle();
    let mut elsewhere = Plan::of(seed + 100).with(oddities.iter().copied()).world();
    elsewhere.log = renamed(&elsewhere);
    elsewhere.offered = elsewhere.log.heads.last().cloned();
    for witness in &mut elsewhere.witnesses {
        witness.look(elsewhere.offered.as_ref().unwrap(), elsewhere.now_ms);
    }
    accuse(&mut elsewhere);
    let verdict = world.audit(&honest);
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    let base = Base::new(honest.clone(), older.clone(), &verdict);
    Ground { world, sources: Sources { honest, older, other: elsewhere.bundle() }, base }
}

fn accuse(world: &mut World) {
    let document = namesake_accused(&world.gates[0].name, world.now_ms);
    world.beside.insert(String::from("evidence/namesake.json"), document);
}

/// The same entries under another log's key.
fn renamed(world: &World) -> testkit::world::tiled::TiledLog {
    let mut log = testkit::world::tiled::TiledLog::new("log.example/elsewhere");
    for entry in &world.log.entries {
        log.push(entry.clone());
        if log.entries.len().is_multiple_of(20) {
            log.seal();
        }
    }
    log.seal();
    log
}

/// More receipts and heads; answers the bundle as it was in the middle of it.
fn grown(world: &mut World, receipts: usize) -> MemoryBundle {
    for _ in 0..receipts / 2 {
        world.say(0, &serde_json::json!({"type": "heartbeat"}));
    }
    world.wait(5000);
    world.seal_and_look();
    let older = world.bundle();
    for number in 0..receipts.div_ceil(2) {
        world.say(0, &serde_json::json!({"type": "heartbeat"}));
        if number % 3 == 2 {
            world.log.seal();
        }
    }
    world.wait(5000);
    world.seal_and_look();
    world.keep("newest", merkle::LeafIndex(world.log.size().0 - 1));
    older
}

type Table = BTreeMap<(FileKind, MutationKind), BTreeMap<Class, u64>>;

/// Seeds go round the kinds of files and of damage.
fn audit_one(seed: u64, table: &mut Table) -> Result<(), String> {
    let files = FileKind::ALL.len() as u64;
    let file = FileKind::ALL[(seed % files) as usize];
    let kind = MutationKind::ALL[((seed / files) % MutationKind::ALL.len() as u64) as usize];
    let ground = &GROUNDS[(seed / (files * 9) % 2) as usize];
    let mut random = Random::new(seed);
    let Some(damaged) = (0..20).find_map(|_| damage(&ground.sources, file, kind, &mut random)) else {
        return Ok(());
    };
    let verdict = ground.world.audit(&damaged.bundle);
    let class = match verdict.exit_code {
        0 => {
            let fault = |why: String| format!("{}: {why}\n{}", damaged.deed, told(&verdict));
            let why = ground.base.why(&damaged.bundle, &verdict).map_err(fault)?;
            match why.values().find(|accepted| !may_be_ok(file, kind).contains(accepted)) {
                Some(accepted) => return Err(fault(format!("{accepted:?} is not foreseen: {why:?}"))),
                None => why.into_values().max(),
            }
        }
        _ => None,
    };
    *table.entry((file, kind)).or_default().entry(class).or_default() += 1;
    Ok(())
}

#[test]
fn none_of_a_thousand_damaged_bundles_passes_as_whole() {
    // Round after round until a thousand were damaged: a few kinds do not apply to a few files.
    let wanted = seeds::wanted(0..1188);
    let all = wanted.end - wanted.start == 1188;
    let table = seeds::over(wanted, audit_one, |sum: &mut Table, more| {
        for (cell, classes) in more {
            let counts = sum.entry(cell).or_default();
            classes.into_iter().for_each(|(class, count)| *counts.entry(class).or_default() += count);
        }
    });
    println!(
        "{:<20} {:<10} {:>8} {:>6} {:>8} {:>7} {:>5}",
        "file", "damage", "refused", "named", "neutral", "honest", "gone"
    );
    for ((file, kind), classes) in &table {
        let count = |class| classes.get(&class).copied().unwrap_or(0);
        println!(
            "{:<20} {:<10} {:>8} {:>6} {:>8} {:>7} {:>5}",
            format!("{file:?}"),
            format!("{kind:?}"),
            count(None),
            count(Some(Named)),
            count(Some(Neutral)),
            count(Some(Honest)),
            count(Some(Gone))
        );
    }
    let sum = |class| table.values().filter_map(|classes| classes.get(&class)).sum::<u64>();
    let total: u64 = [None, Some(Named), Some(Neutral), Some(Honest), Some(Gone)].into_iter().map(sum).sum();
    println!(
        "total {total}: refused {}, named {}, neutral {}, honest {}, gone {}",
        sum(None),
        sum(Some(Named)),
        sum(Some(Neutral)),
        sum(Some(Honest)),
        sum(Some(Gone))
    );
    if all {
        assert!(total >= 1000, "{total}");
        for (cell, classes) in &table {
            assert!(classes.values().sum::<u64>() >= 6, "{cell:?} was tried too rarely");
        }
        // What may end `ok` because it was named is almost all of it files that were added.
        let added: u64 = FileKind::ALL
            .iter()
            .filter_map(|file| table.get(&(*file, MutationKind::Extra)))
            .flat_map(|classes| classes.values())
            .sum();
        assert!(sum(None) + added >= total * 85 / 100, "too much ends ok");
        assert!(sum(Some(Honest)) + sum(Some(Gone)) <= total * 6 / 100, "too much ends ok");
    }
}
