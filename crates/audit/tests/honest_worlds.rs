//! A thousand worlds in which nobody lies, with every benign oddity: nobody is accused.
//!
//! What an audit could not check it says, and only where the world gives it reason to.

use audit::{Severity, Status};
use std::collections::{BTreeMap, BTreeSet};
use testkit::world::honest::{Oddity, Plan};
use testkit::world::{seeds, told};

/// How many worlds had each oddity, and how many receipts they had together.
#[derive(Debug, Default)]
struct Seen {
    oddities: BTreeMap<Oddity, u64>,
    receipts: u64,
    ok: u64,
    notices: BTreeMap<&'static str, u64>,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        other.oddities.into_iter().for_each(|(oddity, count)| *self.oddities.entry(oddity).or_default() += count);
        other.notices.into_iter().for_each(|(code, count)| *self.notices.entry(code).or_default() += count);
        self.receipts += other.receipts;
        self.ok += other.ok;
    }
}

fn audit_one(seed: u64, seen: &mut Seen) -> Result<(), String> {
    let plan = Plan::of(seed);
    let world = plan.world();
    let verdict = world.audit(&world.bundle());
    let fault = |what: String| Err(format!("{plan:?}\n{what}\n{}", told(&verdict)));
    if !verdict.evidence.is_empty() {
        return fault(String::from("an evidence document"));
    }
    let unchecked: BTreeSet<&str> =
        plan.oddities.iter().flat_map(|oddity| oddity.leaves_unchecked()).copied().collect();
    let mut complete = true;
    for finding in verdict.checks.iter().flat_map(|check| &check.findings) {
        match finding.severity {
            Severity::Fail => return fault(format!("an accusation: {}", finding.code)),
            Severity::NotChecked if !unchecked.contains(finding.code) => {
                return fault(format!("not checked, and no reason for it: {}", finding.code));
            }
            Severity::NotChecked => complete = false,
            Severity::Notice => *seen.notices.entry(finding.code).or_default() += 1,
        }
    }
    let expected = if complete { Status::Ok } else { Status::NotChecked };
    if verdict.overall != expected && (complete || verdict.overall != Status::Ok) {
        return fault(format!("the verdict is {}, not {expected}", verdict.overall));
    }
    if verdict.coverage.ignored != ["policy"] {
        return fault(format!("ignored: {:?}", verdict.coverage.ignored));
    }
    seen.receipts += world.log.size().0;
    seen.ok += u64::from(verdict.exit_code == 0);
    plan.oddities.iter().for_each(|oddity| *seen.oddities.entry(*oddity).or_default() += 1);
    Ok(())
}

#[test]
fn in_a_thousand_honest_worlds_nobody_is_accused() {
    let wanted = seeds::wanted(0..1000);
    let all = wanted.end - wanted.start == 1000;
    let seen = seeds::over(wanted, audit_one, Seen::add);
    println!("{seen:#?}");
    if all {
        for oddity in Oddity::ALL {
            assert!(seen.oddities.get(&oddity).is_some_and(|count| *count >= 100), "{oddity:?}: {seen:?}");
        }
        assert!(seen.ok >= 500, "most worlds leave nothing unchecked: {seen:?}");
    }
}
