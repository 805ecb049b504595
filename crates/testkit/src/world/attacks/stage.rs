//! Where an attack happens: the world, who of it is the liar, and what the auditor is shown of it.

use super::Who;
use crate::world::World;
use crate::world::gate::Gate;
use crate::world::honest::Plan;
use crate::world::random::Random;
use crate::world::tiled::TiledLog;
use audit::MemoryBundle;
use merkle::LeafIndex;
use note::{SignedCheckpoint, TlogProof, Verified, VerifierKey};
use std::collections::BTreeMap;

/// A world under attack.
pub struct Stage {
    /// The world.
    pub world: World,
    /// Choices.
    pub random: Random,
    /// The gate that lies, if one does.
    pub gate: usize,
    /// The witness that lies or is lied to.
    pub witness: usize,
    /// Whether that witness no longer sees what the log offers to all.
    pub captured: bool,
    /// What the auditor gets instead of what the world has.
    pub shown: Option<MemoryBundle>,
    /// Files that are put in their place at the end, or taken away.
    pub replaced: BTreeMap<String, Option<Vec<u8>>>,
}

impl Stage {
    /// The world of a plan, before anything happens to it.
    pub fn new(plan: &Plan, mut random: Random) -> Stage {
        let world = plan.world();
        let (gate, witness) = (random.place(world.gates.len()), world.witnesses.len() - 1);
        Stage { world, random, gate, witness, captured: false, shown: None, replaced: BTreeMap::new() }
    }

    /// The key of somebody here.
    pub fn key_of(&self, who: Who) -> VerifierKey {
        match who {
            Who::Log => self.world.log.key.verifier(),
            Who::Gate => self.world.gates[self.gate].registered.verifier(),
            Who::Witness => self.world.witnesses[self.witness].keys[0].verifier(),
        }
    }

    /// What the auditor gets.
    pub fn bundle(&self) -> MemoryBundle {
        let mut bundle = self.shown.clone().unwrap_or_else(|| self.world.bundle());
        for (path, bytes) in &self.replaced {
            match bytes {
                Some(bytes) => bundle.insert(path, bytes.as_slice()),
                None => drop(bundle.remove(path)),
            }
        }
        bundle
    }

    /// Receipts of any gate that nobody has seen a head over yet.
    pub fn grow(&mut self) {
        if self.world.gates.iter().all(|gate| gate.closed || gate.muted) {
            // Somebody must go on, or there is nothing to show anybody.
            self.world.add_gate(Gate::new("gate.example/after"));
        }
        let speaks = |place: &usize| !self.world.gates[*place].closed && !self.world.gates[*place].muted;
        let speaking: Vec<usize> = (0..self.world.gates.len()).filter(speaks).collect();
        for _ in 0..self.random.between(1, 4) {
            let gate = *self.random.pick(&speaking);
            self.grow_by(gate);
        }
    }

    /// A call through one gate, if it still speaks.
    pub fn grow_by(&mut self, gate: usize) {
        if self.world.gates[gate].closed || self.world.gates[gate].muted {
            return;
        }
        let number = self.random.bits();
        let call = self.world.call(&format!("a-{number}"), "crm.read", "READ", &format!("customer:a{number}"));
        self.world.wait(500);
        self.world.carry_out(gate, &call);
    }

    /// Witnesses that see what the log offers to all.
    pub fn seeing(&self) -> Vec<usize> {
        (0..self.world.witnesses.len()).filter(|place| !self.captured || *place != self.witness).collect()
    }

    /// A head, shown to all who still see.
    pub fn seal(&mut self) -> SignedCheckpoint<Verified> {
        self.world.wait(200);
        let head = self.world.seal();
        self.world.look(self.seeing());
        head
    }

    /// Life goes on: more receipts, more heads.
    pub fn go_on(&mut self) {
        self.grow();
        self.seal();
    }

    /// A second history of the log that agrees with the first up to `keep` and then has others' entries, `more` of them.
    pub fn second_history(&mut self, keep: usize, more: usize) -> TiledLog {
        let kept = self.world.log.entries[..keep].to_vec();
        let others = (0..more).map(|_| format!("another entry, {}", self.random.bits()).into_bytes());
        self.world.log.with_entries(kept.into_iter().chain(others.collect::<Vec<_>>()))
    }

    /// The proof of an entry of a second history under that history's own head.
    pub fn keep_from(&mut self, second: &TiledLog, index: u64) {
        let proof = TlogProof {
            extra: None,
            index: LeafIndex(index),
            inclusion: merkle::prove_inclusion(&second.tree, LeafIndex(index), second.size())
                .expect("the tree holds all its hashes"),
            checkpoint: second.head().into_unverified(),
        };
        self.world.beside.insert(String::from("proofs/second.tlog-proof"), proof.to_string().into_bytes());
        self.world.beside.insert(String::from("proofs/second.entry"), second.entries[index as usize].clone());
    }
}
