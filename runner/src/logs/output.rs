//! What of a task's output is shipped, and what is given up: pure arithmetic over offsets.
//!
//! Half of the limit is kept from the head and half from the tail, for both outputs together. The head goes to
//! whichever output grows first and is shipped as it appears. What comes after it waits on disk until the task has
//! ended and its tail is known; the middle is cut.

/// What of one output has been written, sent and stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Output {
    /// How many bytes the task has written, as last seen.
    pub(super) size: u64,
    /// Everything before this is shipped as it appears.
    pub(super) head: u64,
    /// This range is given up.
    pub(super) cut: Option<(u64, u64)>,
    /// The next byte to send.
    pub(super) sent: u64,
    /// Everything before this is stored.
    pub(super) stored: u64,
    /// Everything before this is freed on disk.
    pub(super) freed: u64,
    /// Of what is given up, everything before this is freed on disk.
    pub(super) cut_freed: u64,
    /// The end was sent on the present connection.
    pub(super) last_sent: bool,
}

/// The outputs of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outputs {
    limit: u64,
    head_left: u64,
    pub(super) each: [Output; 2],
    pub(super) ended: bool,
}

/// A chunk to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) skipped: u64,
    pub(super) last: bool,
}

impl Outputs {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, head_left: limit / 2, each: Default::default(), ended: false }
    }

    /// An output has grown.
    pub(super) fn grew(&mut self, stream: usize, size: u64) {
        let output = &mut self.each[stream];
        output.size = size.max(output.size);
        // The head grows with the output as long as there is some left. Once it stopped it never goes on.
        let more = (output.size - output.head).min(self.head_left);
        output.head += more;
        self.head_left -= more;
    }

    /// The task writes no more: the tails are known.
    pub(super) fn end(&mut self) {
        self.ended = true;
        let tail = self.limit - (self.limit / 2 - self.head_left);
        let rest = self.each.each_ref().map(|output| output.size - output.head);
        // Half of it for each; what one does not need is the other's.
        let first = rest[0].min((tail / 2).max(tail.saturating_sub(rest[1])));
        let kept = [first, rest[1].min(tail - first)];
        for (output, (rest, kept)) in self.each.iter_mut().zip(rest.into_iter().zip(kept)) {
            if kept < rest {
                output.cut = Some((output.head, output.size - kept));
            }
            output.head = output.size;
        }
    }

    /// The next chunk of an output, at most `most` bytes, if there is one now.
    pub(super) fn next(&self, stream: usize, most: u64) -> Option<Chunk> {
        let output = &self.each[stream];
        let (mut offset, mut skipped, mut end) = (output.sent, 0, output.head);
        if let Some((from, to)) = output.cut {
            if offset == from {
                (offset, skipped) = (to, to - from);
            } else if offset < from {
                end = from;
            }
        }
        let len = (end - offset).min(most);
        // The end of an output without a byte needs no word.
        let last = self.ended && offset + len == output.size && !output.last_sent && output.size > 0;
        (len > 0 || last).then_some(Chunk { offset, len, skipped, last })
    }

    /// A chunk was sent.
    pub(super) fn sent(&mut self, stream: usize, chunk: Chunk) {
        let output = &mut self.each[stream];
        output.sent = chunk.offset + chunk.len;
        output.last_sent |= chunk.last;
    }

    /// Everything before `offset` is stored.
    pub(super) fn stored(&mut self, stream: usize, offset: u64) {
        let output = &mut self.each[stream];
        output.stored = offset.clamp(output.stored, output.sent.max(output.stored));
    }

    /// A new connection goes on from what is stored.
    pub(super) fn rewind(&mut self) {
        for output in &mut self.each {
            output.sent = output.stored;
            output.last_sent = false;
        }
    }

    /// How many bytes were sent and are not stored.
    pub(super) fn in_flight(&self, stream: usize) -> u64 {
        self.each[stream].sent - self.each[stream].stored
    }

    /// Whether everything is stored that will ever be.
    pub(super) fn done(&self) -> bool {
        let done = |output: &Output| output.size == 0 || (output.last_sent && output.stored >= output.size);
        self.ended && self.each.iter().all(done)
    }

    /// The ranges of an output that are on disk and that nobody needs: what is stored, and what is beyond the limit
    /// whatever comes.
    pub(super) fn needless(&self, stream: usize) -> [(u64, u64); 2] {
        let output = &self.each[stream];
        let (from, to) = match output.cut {
            Some(cut) => cut,
            None if !self.ended && self.head_left == 0 => {
                (output.head, output.size.saturating_sub(self.limit - self.limit / 2))
            }
            None => (0, 0),
        };
        let from = from.max(output.cut_freed);
        [(output.freed, output.stored), (from, to.max(from))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that would be shipped, as (offset, len, skipped, last).
    fn ship(outputs: &mut Outputs, stream: usize) -> Vec<(u64, u64, u64, bool)> {
        let mut all = Vec::new();
        while let Some(chunk) = outputs.next(stream, 1000) {
            outputs.sent(stream, chunk);
            all.push((chunk.offset, chunk.len, chunk.skipped, chunk.last));
        }
        all
    }

    #[test]
    fn output_within_the_limit_is_shipped_whole_and_its_end_is_marked() {
        let mut outputs = Outputs::new(100);
        outputs.grew(0, 30);
        assert_eq!(ship(&mut outputs, 0), [(0, 30, 0, false)]);
        outputs.grew(0, 100);
        assert_eq!(ship(&mut outputs, 0), [(30, 20, 0, false)], "the head is half of the limit");
        outputs.end();
        assert_eq!(ship(&mut outputs, 0), [(50, 50, 0, true)]);
        assert!(ship(&mut outputs, 1).is_empty(), "an output without a byte needs no word");
        assert!(!outputs.done());
        outputs.stored(0, 100);
        assert!(outputs.done());
    }

    #[test]
    fn output_beyond_the_limit_loses_its_middle_and_says_how_much() {
        let mut outputs = Outputs::new(100);
        outputs.grew(0, 1000);
        assert_eq!(outputs.needless(0)[1], (50, 950));
        outputs.end();
        assert_eq!(ship(&mut outputs, 0), [(0, 50, 0, false), (950, 50, 900, true)]);
    }

    #[test]
    fn the_limit_is_shared_and_what_one_output_does_not_need_is_the_others() {
        let mut outputs = Outputs::new(100);
        outputs.grew(1, 60);
        outputs.grew(0, 1000);
        outputs.end();
        assert_eq!(ship(&mut outputs, 1), [(0, 60, 0, true)]);
        assert_eq!(ship(&mut outputs, 0), [(960, 40, 960, true)]);
    }

    #[test]
    fn a_new_connection_goes_on_from_what_is_stored_on_either_side_of_the_cut() {
        let mut outputs = Outputs::new(100);
        outputs.grew(0, 1000);
        outputs.end();
        ship(&mut outputs, 0);
        outputs.stored(0, 40);
        outputs.rewind();
        assert_eq!(ship(&mut outputs, 0), [(40, 10, 0, false), (950, 50, 900, true)]);
        outputs.stored(0, 970);
        outputs.rewind();
        assert_eq!(ship(&mut outputs, 0), [(970, 30, 0, true)]);
        outputs.stored(0, 1000);
        outputs.rewind();
        assert_eq!(ship(&mut outputs, 0), [(1000, 0, 0, true)], "the end is said again");
    }

    #[test]
    fn the_scheduler_cannot_claim_to_have_stored_what_was_never_sent() {
        let mut outputs = Outputs::new(100);
        outputs.grew(0, 10);
        ship(&mut outputs, 0);
        outputs.stored(0, 1_000_000);
        assert_eq!(outputs.in_flight(0), 0);
        outputs.grew(0, 20);
        assert_eq!(ship(&mut outputs, 0), [(10, 10, 0, false)]);
    }
}
