//! Fuzzer input taken apart: numbers and chunks from the front, zeroes when it has run out.

/// What is left of the input.
pub struct Bytes<'input>(pub &'input [u8]);

impl<'input> Bytes<'input> {
    /// The next bytes, at most `count`.
    pub fn chunk(&mut self, count: usize) -> &'input [u8] {
        let (chunk, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        chunk
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// The next two bytes, as a length or an offset.
    pub fn short(&mut self) -> usize {
        usize::from(u16::from_be_bytes(self.array()))
    }

    /// The next eight bytes.
    pub fn number(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let chunk = self.chunk(N);
        array[..chunk.len()].copy_from_slice(chunk);
        array
    }
}
