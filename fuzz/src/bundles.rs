//! audit: a small honest bundle under a script of damage. Whatever it does, no panic; and a bundle that is not as it was is
//! never accepted as if it were.

use crate::audits::edit_as_it_says;
use crate::bytes::Bytes;
use audit::MemoryBundle;
use std::sync::LazyLock;
use testkit::world::accepted::Base;
use testkit::world::honest::{Oddity, Plan};
use testkit::world::{World, namesake_accused, told};

struct Ground {
    world: World,
    bundle: MemoryBundle,
    base: Base,
}

/// Some forty receipts, kept proofs, a document, journals with folded lines.
static GROUND: LazyLock<Ground> = LazyLock::new(|| {
    let mut world = Plan { rounds: 2, ..Plan::of(3).with([Oddity::KeptProofs, Oddity::FoldedJournals]) }.world();
    let document = namesake_accused(&world.gates[0].name, world.now_ms);
    world.beside.insert(String::from("evidence/namesake.json"), document);
    let bundle = world.bundle();
    let verdict = world.audit(&bundle);
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    let base = Base::new(bundle.clone(), MemoryBundle::new(), &verdict);
    Ground { world, bundle, base }
});

/// Damages the bundle as the input says, and audits it.
pub fn damaged(data: &[u8]) {
    let mut bundle = GROUND.bundle.clone();
    edit_as_it_says(&mut bundle, &mut Bytes(data));
    let verdict = GROUND.world.audit(&bundle);
    if verdict.exit_code == 0
        && let Err(why) = GROUND.base.why(&bundle, &verdict)
    {
        panic!("{why}\n{}", told(&verdict));
    }
}

/// The paths of the undamaged bundle, in the order in which a script counts them.
pub fn paths() -> Vec<String> {
    audit::BundleSource::list(&GROUND.bundle)
}
