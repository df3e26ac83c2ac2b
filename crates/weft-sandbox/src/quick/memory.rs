//! Counts the memory of an interpreter: QuickJS does not distinguish running out of memory from a thrown `null`.

use std::cell::Cell;
use std::rc::Rc;

use rquickjs::allocator::{Allocator, RustAllocator};

/// The peak memory use of an interpreter.
#[derive(Clone, Debug, Default)]
pub(super) struct Peak(Rc<Cell<usize>>);

impl Peak {
    /// Whether the peak came near a limit. The interpreter counts what it allocates, plus an overhead for each
    /// allocation; this counts what it was given. The two differ by less than half.
    pub(super) fn was_near(&self, limit: usize) -> bool {
        self.0.get() >= limit / 2
    }
}

/// The memory of the process, with a count of what is in use.
pub(super) struct CountedMemory {
    in_use: usize,
    peak: Peak,
}

impl CountedMemory {
    /// Creates an allocator with nothing in use.
    pub(super) fn new(peak: &Peak) -> Self {
        Self { in_use: 0, peak: peak.clone() }
    }

    fn given(&mut self, bytes: usize) {
        self.in_use = self.in_use.saturating_add(bytes);
        self.peak.0.set(self.peak.0.get().max(self.in_use));
    }

    fn taken_back(&mut self, bytes: usize) {
        self.in_use = self.in_use.saturating_sub(bytes);
    }
}

#[expect(unsafe_code, reason = "every promise is kept by the allocator that does the work; this one counts")]
// SAFETY: each method passes its arguments on to `RustAllocator` and returns its result; sizes are requested only for
// pointers that it has allocated and not yet freed.
unsafe impl Allocator for CountedMemory {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        let pointer = RustAllocator.alloc(size);
        if !pointer.is_null() {
            // SAFETY: it was just allocated.
            self.given(unsafe { RustAllocator::usable_size(pointer) });
        }
        pointer
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let pointer = RustAllocator.calloc(count, size);
        if !pointer.is_null() {
            // SAFETY: it was just allocated.
            self.given(unsafe { RustAllocator::usable_size(pointer) });
        }
        pointer
    }

    unsafe fn dealloc(&mut self, pointer: *mut u8) {
        // SAFETY: the caller guarantees that it was allocated here.
        self.taken_back(unsafe { RustAllocator::usable_size(pointer) });
        // SAFETY: as above.
        unsafe { RustAllocator.dealloc(pointer) }
    }

    unsafe fn realloc(&mut self, pointer: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that it was allocated here.
        let before = unsafe { RustAllocator::usable_size(pointer) };
        // SAFETY: as above.
        let moved = unsafe { RustAllocator.realloc(pointer, new_size) };
        if !moved.is_null() {
            self.taken_back(before);
            // SAFETY: it was just allocated.
            self.given(unsafe { RustAllocator::usable_size(moved) });
        }
        moved
    }

    unsafe fn usable_size(pointer: *mut u8) -> usize {
        // SAFETY: the caller guarantees that it was allocated here.
        unsafe { RustAllocator::usable_size(pointer) }
    }
}
