//! Scope rings and the next pc: CALL, IF and LOOP scopes, the order in which they close, and the
//! quirks.
//!
//! The rules were measured on consoles by flacs and Tilka (ISA notes, section 5.1). In short: a
//! scope closes only when the word just before its end is *executed*; jumping to the end does not
//! close it. Pushing onto a full ring forgets the oldest scope. No state here is a register value.
//! A condition arrives as the chosen [`Action`]. Loop counters stay with the engine: at the end of
//! a loop's body it receives [`Next::LoopEnd`] and decides whether the body repeats. So the
//! interpreter, which knows the values, and the recompiler, which explores both outcomes, share the
//! same rules.
//!
//! Invariant: equal states compare and hash equal. Unused slots of a ring hold the default, so
//! derived equality is equality of meaning.

use super::Pc;

/// The exit of a run, equal on every engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Exit {
    /// `END`.
    End = 0,
    /// The run executed more words than its fuel, and was to transfer backward.
    Fuel = 1,
    /// `BREAK` or a taken `BREAKC` with no open loop. The hardware hangs.
    BreakOutsideLoop = 2,
    /// pc left the program's words. Unknown on hardware; it counts as an end.
    PastEnd = 3,
    /// Another thread called [`Engine::cancel`](crate::engine::Engine::cancel). When a run notices
    /// depends on the engine, and registers are then unspecified. The only exit of which this holds.
    // 4 is a status of the C interface.
    Cancelled = 5,
}

impl Exit {
    /// Whether no run follows in a batch or a draw: [`Exit::Fuel`], or [`Exit::Cancelled`].
    #[inline]
    pub(crate) fn ends_batch(self) -> bool {
        matches!(self, Exit::Fuel | Exit::Cancelled)
    }

    /// How runs in order ended, `self` before `next`: as the one that [ends the
    /// batch](Exit::ends_batch), otherwise as the first that is not [`Exit::End`].
    #[inline]
    pub(crate) fn and_then(self, next: Exit) -> Exit {
        if next.ends_batch() || self == Exit::End { next } else { self }
    }
}

/// A bounded stack that forgets its oldest entry when pushed while full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ring<T, const N: usize> {
    items: [T; N],
    len: u8,
}

impl<T: Copy + Default, const N: usize> Default for Ring<T, N> {
    fn default() -> Self {
        Ring { items: [T::default(); N], len: 0 }
    }
}

impl<T: Copy + Default, const N: usize> Ring<T, N> {
    /// Entries held, at most `N`.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }
    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Whether the next push forgets the oldest entry.
    pub fn is_full(&self) -> bool {
        self.len() == N
    }
    /// The newest entry.
    pub fn top(&self) -> Option<&T> {
        self.len().checked_sub(1).map(|i| &self.items[i])
    }
    /// The newest entry, mutable.
    pub fn top_mut(&mut self) -> Option<&mut T> {
        self.len().checked_sub(1).map(|i| &mut self.items[i])
    }
    /// Adds an entry; a full ring forgets its oldest.
    pub fn push(&mut self, item: T) {
        if self.is_full() {
            self.items.copy_within(1.., 0);
            self.items[N - 1] = item;
        } else {
            self.items[self.len()] = item;
            self.len += 1;
        }
    }
    /// Removes and returns the newest entry.
    pub fn pop(&mut self) -> Option<T> {
        let i = self.len().checked_sub(1)?;
        self.len -= 1;
        Some(std::mem::take(&mut self.items[i]))
    }
    /// Entries from the oldest to the newest.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items[..self.len()].iter()
    }
}

/// A running procedure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallScope {
    /// First word after the procedure.
    pub end: Pc,
    /// Its return address.
    pub ret: Pc,
}

/// The running then block of an IF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IfScope {
    /// First word after the then block.
    pub end: Pc,
    /// First word after the else block.
    pub cont: Pc,
}

/// A running loop. Its counters stay with the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoopScope {
    /// First word of the body.
    pub start: Pc,
    /// First word after the body.
    pub end: Pc,
}

/// All open scopes. The depths 4, 8, 4 were measured (3dbrew, flacs and Tilka).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scopes {
    /// Procedures.
    pub calls: Ring<CallScope, 4>,
    /// Then blocks.
    pub ifs: Ring<IfScope, 8>,
    /// Loops.
    pub loops: Ring<LoopScope, 4>,
}

/// The effect of an executed instruction on control flow, with its condition decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// None: arithmetic, or a failed condition except an IF's.
    Next,
    /// A taken jump, or an IF whose condition fails (to its else block; no scope opens).
    Jump(Pc),
    /// A taken call.
    Call {
        /// First word of the procedure.
        target: Pc,
        /// Its length in words.
        len: u8,
    },
    /// An IF whose condition holds.
    Then {
        /// End of the then block.
        end: Pc,
        /// End of the else block.
        cont: Pc,
    },
    /// A LOOP. The engine pushes its counters onto a ring of the same depth.
    Loop {
        /// Last word of the body.
        last: Pc,
    },
    /// A taken BREAK. The loop ring must not be empty ([`Scopes::can_break`]).
    Break,
}

/// The next pc after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To this address.
    Go(Pc),
    /// The innermost loop's body ends. The engine adds the increment to aL. If iterations remain,
    /// it decrements their count and continues at `again`; otherwise it calls
    /// [`Scopes::leave_loop`] and continues at `exit`.
    LoopEnd {
        /// First word of the body.
        again: Pc,
        /// First word after the loop.
        exit: Pc,
    },
    /// A BREAK. The engine adds the increment to aL (*unknown on hardware*; widely used engines
    /// differ), calls [`Scopes::leave_loop`] and continues at `exit`.
    LoopBreak {
        /// First word after the loop.
        exit: Pc,
    },
}

impl Scopes {
    /// Whether a BREAK here has a loop to leave. The hardware hangs if not; engines stop with
    /// [`Exit::BreakOutsideLoop`].
    pub fn can_break(&self) -> bool {
        !self.loops.is_empty()
    }

    /// Opens the scope of the instruction at `pc`, closes the scopes that end after it, and returns
    /// the next pc.
    pub fn step(&mut self, pc: Pc, action: Action) -> Next {
        // Scope ends are compared with the word after the executed one, never with a jump's target.
        let n = pc + 1;
        let mut next = n;
        let mut broke = false;
        match action {
            Action::Next => {}
            Action::Jump(target) => next = target,
            Action::Call { target, len } => {
                self.calls.push(CallScope { end: target + Pc::from(len), ret: n });
                next = target;
            }
            Action::Then { end, cont } => self.ifs.push(IfScope { end, cont }),
            Action::Loop { last } => self.loops.push(LoopScope { start: n, end: last + 1 }),
            Action::Break => broke = true,
        }

        // CALL: a return address may itself be the end of the caller's procedure, up to four in one
        // step. The fourth pop's return address is lost (considered a hardware bug).
        let mut arrived = n;
        for pops in 0..4 {
            match self.calls.top() {
                Some(call) if call.end == arrived => {
                    if pops < 3 {
                        arrived = call.ret;
                        next = arrived;
                    }
                    self.calls.pop();
                }
                _ => break,
            }
        }

        // IF: at most one, on the original address; it takes precedence over CALL.
        if let Some(&IfScope { end, cont }) = self.ifs.top()
            && end == n
        {
            self.ifs.pop();
            next = cont;
        }

        // LOOP: at most one, on the original address; it takes precedence over both.
        match self.loops.top() {
            Some(l) if broke => Next::LoopBreak { exit: l.end },
            Some(l) if l.end == n => Next::LoopEnd { again: l.start, exit: l.end },
            _ => Next::Go(next),
        }
    }

    /// Closes the innermost loop. Returns whether an outer loop is open; the engine then restores
    /// aL to its value at the inner loop's start.
    pub fn leave_loop(&mut self) -> bool {
        self.loops.pop();
        !self.loops.is_empty()
    }
}

/// Whether a transfer is backward. A run that has executed more words than its fuel ends there.
///
/// Between two backward transfers the pc only rises. So a run executes at most as many words as its
/// fuel, and once more those of the program. It counts executed words, not the distance of the
/// transfer: a procedure costs the same wherever it is laid out.
pub fn is_backward(pc: Pc, next: Pc) -> bool {
    next <= pc
}

/// The most fuel; more counts as this. Engines subtract in 32 bits, and below zero by the words of
/// one path at most.
pub const MAX_FUEL: u32 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_forgets_its_oldest_entry() {
        let mut ring: Ring<u16, 4> = Ring::default();
        (1..=6).for_each(|n| ring.push(n));
        assert_eq!(ring.iter().copied().collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert_eq!(ring.pop(), Some(6));
        let mut other: Ring<u16, 4> = Ring::default();
        (3..=5).for_each(|n| other.push(n));
        assert_eq!(ring, other, "what was popped or forgotten leaves no trace");
    }

    #[test]
    fn a_scope_closes_by_sequential_arrival_only() {
        let mut s = Scopes::default();
        assert_eq!(s.step(0, Action::Then { end: 3, cont: 5 }), Next::Go(1));
        assert_eq!(s.step(1, Action::Jump(3)), Next::Go(3), "a jump to the end closes nothing");
        assert_eq!(s.ifs.len(), 1);
        assert_eq!(s.step(2, Action::Next), Next::Go(5));
        assert!(s.ifs.is_empty());
    }

    #[test]
    fn a_scope_that_ends_drops_the_jump_of_its_last_word() {
        let mut s = Scopes::default();
        s.step(0, Action::Then { end: 2, cont: 9 });
        assert_eq!(s.step(1, Action::Jump(20)), Next::Go(9));
        // A dropped CALL still opens its scope.
        s.step(0, Action::Then { end: 2, cont: 9 });
        assert_eq!(s.step(1, Action::Call { target: 20, len: 4 }), Next::Go(9));
        assert_eq!(s.calls.top(), Some(&CallScope { end: 24, ret: 2 }));
    }

    #[test]
    fn loop_wins_over_if_and_if_over_call() {
        let mut s = Scopes::default();
        s.step(0, Action::Call { target: 10, len: 5 });
        s.step(10, Action::Loop { last: 14 });
        s.step(11, Action::Then { end: 15, cont: 30 });
        assert_eq!(s.step(14, Action::Next), Next::LoopEnd { again: 11, exit: 15 });
        assert!(s.calls.is_empty() && s.ifs.is_empty(), "the others are closed as well");
        assert!(!s.leave_loop());
    }

    #[test]
    fn the_fourth_return_in_one_step_is_lost() {
        // Nested procedures, each of which ends at its callee's return address: 4 scopes, ends 20,
        // 11, 12, 13.
        let mut s = Scopes::default();
        s.calls.push(CallScope { end: 13, ret: 40 });
        s.calls.push(CallScope { end: 12, ret: 13 });
        s.calls.push(CallScope { end: 11, ret: 12 });
        s.calls.push(CallScope { end: 20, ret: 11 });
        assert_eq!(s.step(19, Action::Next), Next::Go(13), "not 40");
        assert!(s.calls.is_empty());
    }

    #[test]
    fn nested_loops_on_one_end_close_one_at_a_time() {
        let mut s = Scopes::default();
        s.step(0, Action::Loop { last: 5 });
        s.step(1, Action::Loop { last: 5 });
        assert_eq!(s.step(5, Action::Next), Next::LoopEnd { again: 2, exit: 6 });
        assert!(s.leave_loop(), "the outer loop stays open");
    }

    #[test]
    fn runs_end_like_the_first_that_is_not_end_or_ends_the_batch() {
        let [end, hang, past] = [Exit::End, Exit::BreakOutsideLoop, Exit::PastEnd];
        for (first, second, both) in [(end, end, end), (end, hang, hang), (hang, end, hang), (hang, past, hang)] {
            assert_eq!(first.and_then(second), both);
        }
        for last in [Exit::Fuel, Exit::Cancelled] {
            assert!([end, last, hang, past].iter().all(|e| (e.and_then(last), last.and_then(*e)) == (last, last)));
        }
    }

    #[test]
    fn a_backward_transfer_costs_the_words_that_it_leads_back_over() {
        assert!([(4, 5), (4, 400)].iter().all(|&(pc, next)| !is_backward(pc, next)));
        assert!([(4, 4), (4, 3), (4, 0), (Pc::MAX, 0)].iter().all(|&(pc, next)| is_backward(pc, next)));
    }
}
