//! A change of arbitrary text -> a change of the expression or the statements around it.

use crate::generic::contains_let;
use crate::mutant::Form;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, Stmt};

/// Byte ranges of a file.
#[derive(Default)]
pub struct Places {
    expressions: Vec<Range<usize>>,
    statements: Vec<Range<usize>>,
}

impl Places {
    pub fn new(source: &str) -> Result<Places, String> {
        let tree = syn::parse_file(source).map_err(|e| e.to_string())?;
        let mut places = Places::default();
        places.visit_file(&tree);
        Ok(places)
    }

    /// What to replace for `new` in the place of the bytes `marked`: statements, or the smallest
    /// expression around them.
    pub fn around(&self, source: &str, marked: Range<usize>, new: &str) -> Option<(Range<usize>, Form, String)> {
        let starts = |at: usize| self.statements.iter().any(|s| s.start == at);
        let ends = |at: usize| self.statements.iter().any(|s| s.end == at);
        if starts(marked.start) && ends(marked.end) {
            return Some((marked, Form::Statements, new.into()));
        }
        let around = |range: &&Range<usize>| range.start <= marked.start && marked.end <= range.end;
        let place = self.expressions.iter().filter(around).min_by_key(|range| range.len())?.clone();
        let text = [&source[place.start..marked.start], new, &source[marked.end..place.end]].concat();
        let form = if self.statements.contains(&place) { Form::Statements } else { Form::Expression };
        Some((place, form, text))
    }
}

impl<'a> Visit<'a> for Places {
    fn visit_expr(&mut self, e: &'a Expr) {
        if !contains_let(e) {
            self.expressions.push(e.span().byte_range());
        }
        visit::visit_expr(self, e);
    }
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        self.statements.push(stmt.span().byte_range());
        visit::visit_stmt(self, stmt);
    }
    fn visit_pat(&mut self, _: &'a syn::Pat) {}
    fn visit_type(&mut self, _: &'a syn::Type) {}
}
