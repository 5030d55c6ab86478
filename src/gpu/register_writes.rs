//! A register write -> what it stores and changes: configuration, units, uniforms and attributes.
//!
//! Most writes of a frame store a word, or add one to a vector. These are inlined or calls of small
//! functions; all that is rare is out of line, so that frequent writes save no registers for it.

use super::assembly::Topology;
use super::registers::{self, GSH, Kind, VSH, configuring_bits, merge};
use super::{Draw, Effect, Gpu, State};

impl Gpu {
    /// Writes the bytes of register `id` that `mask` selects. Registers unrelated to shaders are
    /// stored only. Queues and triggers act on every write, with the whole value, whatever the mask
    /// (as in every known emulator; *unknown on hardware*). Writes to the vertex units take effect
    /// at once, also during draws, where games must not write
    /// ([`START_DRAW_FUNC0`](super::RegisterFile::START_DRAW_FUNC0)).
    #[inline]
    pub fn write(&mut self, id: u16, value: u32, mask: u8) -> Effect {
        match Kind::of(id) {
            kind if kind.only_stores() => self.store(id, value, mask),
            Kind::FloatData if mask == 0xF => self.write_float(id, value),
            Kind::FixedData if mask == 0xF => return self.write_fixed(id, value),
            kind if kind.acts_on_change() && self.state.registers.has(id, value, mask) => {}
            _ => return self.write_with_effect(id, value, mask),
        }
        Effect::None
    }

    /// Whether [`Gpu::write`] only stores the value, as [`Gpu::store`] does.
    #[inline]
    #[cfg(feature = "capi")]
    pub(crate) fn only_stores(id: u16) -> bool {
        Kind::of(id).only_stores()
    }

    /// Writes a register without an effect. Never panics.
    #[inline]
    pub(crate) fn store(&mut self, id: u16, value: u32, mask: u8) {
        match self.state.registers.0.get_mut(usize::from(id)) {
            Some(word) if mask == 0xF => *word = value,
            Some(word) => *word = merge(*word, value, mask),
            None => {}
        }
    }

    /// A write that comes with each draw, or another. Those are out of line.
    #[inline(never)]
    fn write_with_effect(&mut self, id: u16, value: u32, mask: u8) -> Effect {
        let mut effect = Effect::None;
        // Ids and `&`: the compiler makes compares of them. Of kinds, or with `&&`, it makes a jump through a
        // table. Between draws the table is in no near cache, and a jump that was predicted wrongly waits for it.
        match id {
            // Games write the bytes above at each draw.
            _ if (id == registers::GEOSTAGE_CONFIG) & (mask & 1 == 0) => {}
            registers::RESTART_PRIMITIVE => self.state.assembly.restart(),
            registers::DRAWARRAYS => effect = Effect::Draw(Draw::Arrays),
            registers::DRAWELEMENTS => effect = Effect::Draw(Draw::Elements),
            registers::FIXEDATTRIB_INDEX => {
                if self.state.fixed.select(value, mask) {
                    self.state.geometry_input.discard();
                }
            }
            _ => return self.write_between_draws(id, value, mask),
        }
        self.store(id, value, mask);
        effect
    }

    /// A write to a configuration or a unit, or of bytes of a queue.
    #[inline(never)]
    fn write_between_draws(&mut self, id: u16, value: u32, mask: u8) -> Effect {
        let kind = Kind::of(id);
        let (old, new) = self.state.registers.write(id, value, mask);
        if kind.configures_draws() && (old ^ new) & configuring_bits(id) != 0 {
            self.forget_configuration();
        }
        match kind {
            Kind::Unused | Kind::Stored | Kind::Configuration => {}
            Kind::Topology => {
                if Topology::from_register(old) != Topology::from_register(new) {
                    self.state.assembly.restart();
                }
            }
            Kind::FixedData => return self.push_fixed(value),
            kind => self.write_unit(kind, id, value, mask, new),
        }
        Effect::None
    }

    // Not inlined: dropping one takes much code.
    #[inline(never)]
    fn forget_configuration(&mut self) {
        self.configuration = None;
        self.diagnostics.configuration_changed(&self.state.registers);
    }

    #[inline(never)]
    fn write_unit(&mut self, kind: Kind, id: u16, value: u32, mask: u8, merged: u32) {
        let State { registers, vertex, geometry, .. } = &mut self.state;
        let mut copy = Some(merged);
        if id >= VSH {
            if vertex.would_change_uniform(kind, id, merged) {
                self.deferred.run(vertex);
            }
            if vertex.write(kind, id, value, mask, merged) {
                self.vertex.words_changed();
            }
            copy = registers.is_mirroring().then(|| registers.write(id - (VSH - GSH), value, mask).1);
        }
        if let Some(merged) = copy
            && geometry.write(kind, id, value, mask, merged)
        {
            self.geometry.words_changed();
            self.diagnostics.geometry_code_changed();
        }
    }

    /// Writes a whole word of a float uniform: [`Gpu::write_unit`] of the queue that gets most words.
    fn write_float(&mut self, id: u16, word: u32) {
        let State { registers, vertex, geometry, .. } = &mut self.state;
        let at = usize::from(id);
        let Some(register) = registers.0.get_mut(at) else { return };
        *register = word;
        if id < VSH {
            geometry.write_float(word);
        } else if !registers.is_mirroring() {
            if vertex.push_float(word) {
                self.complete_float(word, true, false);
            }
        } else {
            registers.0[at - usize::from(VSH - GSH)] = word;
            match (vertex.push_float(word), geometry.push_float(word)) {
                (false, false) => {}
                (completes, completes_copy) => self.complete_float(word, completes, completes_copy),
            }
        }
    }

    /// Stores the float uniforms that the last word completes, in the vertex units and in the fourth. What calls
    /// other functions is apart: this one saves no register.
    #[inline(never)]
    fn complete_float(&mut self, last: u32, completes: bool, completes_copy: bool) {
        let State { vertex, geometry, .. } = &mut self.state;
        let (false, Some(vector)) = (self.deferred.is_pending(), vertex.exact_vector(last)) else {
            return self.complete_float_with_calls(last, completes, completes_copy);
        };
        if completes_copy {
            let is_same = completes && geometry.completes_as(vertex);
            let copy = if is_same { Some(vector) } else { geometry.exact_vector(last) };
            let Some(copy) = copy else {
                return self.complete_float_with_calls(last, completes, completes_copy);
            };
            geometry.store_float(copy);
        }
        if completes {
            vertex.store_float(vector);
        }
    }

    /// [`Gpu::complete_float`] of vectors to be rounded, or before the deferred run.
    #[inline(never)]
    fn complete_float_with_calls(&mut self, last: u32, completes: bool, completes_copy: bool) {
        let State { vertex, geometry, .. } = &mut self.state;
        if completes_copy {
            geometry.store_float(geometry.float_vector(last));
        }
        if completes {
            let vector = vertex.float_vector(last);
            if vertex.would_change_float(vector) {
                self.deferred.run(vertex);
            }
            vertex.store_float(vector);
        }
    }

    /// Writes a whole word of an attribute: in immediate mode most writes do.
    #[inline]
    fn write_fixed(&mut self, id: u16, word: u32) -> Effect {
        self.store(id, word, 0xF);
        self.push_fixed(word)
    }

    #[inline]
    fn push_fixed(&mut self, word: u32) -> Effect {
        match self.state.fixed.words.push(word, 2) {
            true => self.complete_fixed(word),
            false => Effect::None,
        }
    }

    // Not inlined: it would take registers from all other writes.
    #[inline(never)]
    fn complete_fixed(&mut self, last: u32) -> Effect {
        let State { registers, fixed, .. } = &mut self.state;
        match fixed.complete(last, registers.immediate_attributes()) {
            true => Effect::Vertex,
            false => Effect::None,
        }
    }
}
