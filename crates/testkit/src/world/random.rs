//! Choices out of a seed: the same seed, the same choices, on any machine and for ever.

/// A stream of choices (SplitMix64). Good enough to vary tests, for nothing else.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// A place in something of this length, which is not 0.
    pub fn place(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number from `first` to `last`, both included.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// Yes, once in `times` on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these, which are not none.
    pub fn pick<'these, T>(&mut self, these: &'these [T]) -> &'these T {
        &these[self.place(these.len())]
    }

    /// A stream of its own for one purpose, so that more choices there change none here.
    pub fn branch(&mut self) -> Random {
        Random(self.bits())
    }
}
