//! A thousand worlds with a lying log, gate or witness, or two of these: what is provable is found and convicts the right
//! key, what is not is found and convicts nobody.

use std::collections::BTreeMap;
use testkit::world::attacks::{Attacked, all as attacks};
use testkit::world::{seeds, told};

/// By attack: how often alone, how often with another.
type Tally = BTreeMap<&'static str, [u64; 2]>;

fn audit_one(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let attacked = Attacked::of(seed);
    let verdict = attacked.stage.world.audit(&attacked.stage.bundle());
    let names: Vec<&str> = attacked.attacks.iter().map(|attack| attack.name).collect();
    attacked
        .answered_by(&verdict)
        .map_err(|wrong| format!("{names:?}: {wrong}\n{:?}\n{}", attacked.plan, told(&verdict)))?;
    names.iter().for_each(|name| tally.entry(*name).or_default()[names.len() - 1] += 1);
    Ok(())
}

#[test]
fn every_attack_is_answered_as_the_table_says() {
    let wanted = seeds::wanted(0..1000);
    let all = wanted.end - wanted.start == 1000;
    let tally = seeds::over(wanted, audit_one, |sum: &mut Tally, more| {
        for (name, [alone, together]) in more {
            let counts = sum.entry(name).or_default();
            *counts = [counts[0] + alone, counts[1] + together];
        }
    });
    println!("{:<50} {:>5} {:>8}  must find; must convict", "attack", "alone", "together");
    for attack in attacks() {
        let [alone, together] = tally.get(attack.name).copied().unwrap_or_default();
        let codes: Vec<&str> = attack.finds.iter().map(|(code, _)| *code).collect();
        println!("{:<50} {alone:>5} {together:>8}  {}; {:?}", attack.name, codes.join(", "), attack.evidence);
        assert!(!all || alone >= 8, "{} was tried {alone} times", attack.name);
    }
}
