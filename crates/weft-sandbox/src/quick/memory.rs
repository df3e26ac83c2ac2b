//! The memory of an interpreter, counted: QuickJS does not tell the end of its memory from a thrown `null`.

use std::cell::Cell;
use std::rc::Rc;

use rquickjs::allocator::{Allocator, RustAllocator};

/// The most memory that an interpreter has had at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Peak(Rc<Cell<usize>>);

impl Peak {
    /// Whether it came near a limit. The interpreter counts what it hands out, with an overhead for each, and this
    /// what it was given; they differ by less than half.
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
    /// Nothing is in use yet.
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
// SAFETY: each method hands its arguments on to `RustAllocator` and gives back what that gives; sizes are asked
// only of pointers that it has given and not yet taken back.
unsafe impl Allocator for CountedMemory {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        let pointer = RustAllocator.alloc(size);
        if !pointer.is_null() {
            // SAFETY: it was just given.
            self.given(unsafe { RustAllocator::usable_size(pointer) });
        }
        pointer
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let pointer = RustAllocator.calloc(count, size);
        if !pointer.is_null() {
            // SAFETY: it was just given.
            self.given(unsafe { RustAllocator::usable_size(pointer) });
        }
        pointer
    }

    unsafe fn dealloc(&mut self, pointer: *mut u8) {
        // SAFETY: the caller promises that it comes from here.
        self.taken_back(unsafe { RustAllocator::usable_size(pointer) });
        // SAFETY: as above.
        unsafe { RustAllocator.dealloc(pointer) }
    }

    unsafe fn realloc(&mut self, pointer: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that it comes from here.
        let before = unsafe { RustAllocator::usable_size(pointer) };
        // SAFETY: as above.
        let moved = unsafe { RustAllocator.realloc(pointer, new_size) };
        if !moved.is_null() {
            self.taken_back(before);
            // SAFETY: it was just given.
            self.given(unsafe { RustAllocator::usable_size(moved) });
        }
        moved
    }

    unsafe fn usable_size(pointer: *mut u8) -> usize {
        // SAFETY: the caller promises that it comes from here.
        unsafe { RustAllocator::usable_size(pointer) }
    }
}
