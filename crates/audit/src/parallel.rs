//! Work on all cores: signature checks are nine tenths of an audit, and order-free.

/// `judge` of every item, in the items' order, on at most `threads` threads. No thread outlives the call.
pub(crate) fn map<Item: Sync, Answer: Send>(
    threads: usize,
    items: &[Item],
    judge: impl Fn(&Item) -> Answer + Sync,
) -> Vec<Answer> {
    // Below this many items a thread costs more than it saves.
    const WORTH_A_THREAD: usize = 16;
    let threads = threads.clamp(1, items.len() / WORTH_A_THREAD + 1);
    if threads == 1 {
        return items.iter().map(judge).collect();
    }
    let share = items.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let judge = &judge;
        let workers: Vec<_> =
            items.chunks(share).map(|share| scope.spawn(move || share.iter().map(judge).collect::<Vec<_>>())).collect();
        let answers =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        answers.flatten().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..1000).collect();
        for threads in [0, 1, 2, 3, 64] {
            assert_eq!(map(threads, &items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
        assert_eq!(map(4, &[] as &[u32], |item| *item), Vec::<u32>::new());
    }
}
