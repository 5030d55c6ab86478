//! Source text -> its generic mutants: operators, conditions, returned values, early exits, calls.

use crate::mutant::{Form, Mutant};
use proc_macro2::Span;
use std::collections::HashMap;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ReturnType, Stmt, Type, UnOp};

/// Methods, and what replaces them.
const METHODS: [(&str, &str); 20] = [
    ("min", "max"),
    ("max", "min"),
    ("any", "all"),
    ("all", "any"),
    ("is_some", "is_none"),
    ("is_none", "is_some"),
    ("is_ok", "is_err"),
    ("is_err", "is_ok"),
    ("wrapping_add", "wrapping_sub"),
    ("wrapping_sub", "wrapping_add"),
    ("saturating_sub", "saturating_add"),
    ("band", "bor"),
    ("bor", "band"),
    ("band_not", "band"),
    ("iadd", "isub"),
    ("isub", "iadd"),
    ("umin", "umax"),
    ("umax", "umin"),
    ("fadd", "fsub"),
    ("leading_zeros", "trailing_zeros"),
];

/// The mutants of a file; none in tests, constants, texts for people, and code for other systems.
pub fn mutants(file: &str, source: &str) -> Result<Vec<Mutant>, String> {
    let tree = syn::parse_file(source).map_err(|e| format!("{file}: {e}"))?;
    let mut finder = Finder { file, source, scope: Vec::new(), found: Vec::new(), seen: HashMap::new() };
    finder.visit_file(&tree);
    Ok(finder.found)
}

struct Finder<'a> {
    file: &'a str,
    source: &'a str,
    /// Names of the surrounding functions and types.
    scope: Vec<String>,
    found: Vec<Mutant>,
    seen: HashMap<String, usize>,
}

fn bytes(span: Span) -> Range<usize> {
    span.byte_range()
}

/// Text on one line, for names.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 90 { line.chars().take(87).chain("...".chars()).collect() } else { line }
}

/// Whether an expression is a condition with `let`, which only an `if` may have.
pub fn contains_let(e: &Expr) -> bool {
    struct Search(bool);
    impl<'a> Visit<'a> for Search {
        fn visit_expr_let(&mut self, _: &'a syn::ExprLet) {
            self.0 = true;
        }
        fn visit_expr_if(&mut self, _: &'a syn::ExprIf) {}
        fn visit_expr_closure(&mut self, _: &'a syn::ExprClosure) {}
        fn visit_expr_block(&mut self, _: &'a syn::ExprBlock) {}
        fn visit_expr_match(&mut self, _: &'a syn::ExprMatch) {}
    }
    let mut search = Search(false);
    search.visit_expr(e);
    search.0
}

/// What replaces a binary operator.
fn operators(op: &BinOp) -> &'static [&'static str] {
    match op {
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["+"],
        BinOp::Div(_) => &["*"],
        BinOp::Rem(_) => &["/"],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::BitAnd(_) => &["|"],
        BinOp::BitOr(_) => &["&"],
        BinOp::BitXor(_) => &["|"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        BinOp::BitAndAssign(_) => &["|="],
        BinOp::BitOrAssign(_) => &["&="],
        _ => &[],
    }
}

/// Whether an item is a test, or code for another system than this one.
fn is_left_out(attrs: &[syn::Attribute]) -> bool {
    let other = if cfg!(target_arch = "aarch64") { "target_arch = \"x86_64\"" } else { "target_arch = \"aarch64\"" };
    attrs.iter().any(|a| {
        let text = match &a.meta {
            syn::Meta::List(list) => list.tokens.to_string(),
            _ => String::new(),
        };
        let of_another = text.contains(other) && !text.starts_with("not") && !text.starts_with("any");
        a.path().is_ident("test") || a.path().is_ident("cfg") && (text == "test" || of_another)
    })
}

impl Finder<'_> {
    fn text(&self, range: Range<usize>) -> &str {
        &self.source[range]
    }

    fn add(&mut self, range: Range<usize>, form: Form, new: String, shown: String) {
        let line = 1 + self.source[..range.start].matches('\n').count();
        let scope = self.scope.last().cloned().unwrap_or_default();
        let key = format!("{} {scope}: {shown}", self.file);
        let count = self.seen.entry(key.clone()).or_default();
        *count += 1;
        let key = if *count == 1 { key } else { format!("{key} #{count}") };
        let (file, semantic, equivalent) = (self.file.to_string(), false, None);
        self.found.push(Mutant { key, file, line, range, form, new, semantic, equivalent, by_function: false });
    }

    fn replace(&mut self, range: Range<usize>, new: String) {
        let shown = format!("{} -> {}", one_line(self.text(range.clone())), one_line(&new));
        self.add(range, Form::Expression, new, shown);
    }

    /// A condition: itself, if it has no operator of its own, becomes true and false.
    fn boolean(&mut self, e: &Expr, may_be_true: bool) {
        match e {
            Expr::Paren(p) => self.boolean(&p.expr, may_be_true),
            Expr::Binary(b) if matches!(b.op, BinOp::And(_) | BinOp::Or(_)) => {
                self.boolean(&b.left, may_be_true);
                self.boolean(&b.right, may_be_true);
                if contains_let(e) {
                    for side in [&b.left, &b.right] {
                        let comparison = matches!(&**side, Expr::Binary(b) if !matches!(b.op, BinOp::And(_)));
                        if comparison && !contains_let(side) && may_be_true {
                            self.replace(bytes(side.span()), "true".into());
                        }
                    }
                }
            }
            Expr::Unary(u) if matches!(u.op, UnOp::Not(_)) => {}
            Expr::Binary(_) | Expr::Let(_) | Expr::Lit(_) => {}
            _ if contains_let(e) => {}
            _ => {
                let range = bytes(e.span());
                if may_be_true {
                    self.replace(range.clone(), "true".into());
                }
                self.replace(range, "false".into());
            }
        }
    }

    /// A function's body: it returns a constant at once.
    fn body(&mut self, output: &ReturnType, block: &syn::Block) {
        if block.stmts.is_empty() {
            return;
        }
        let open = bytes(block.brace_token.span.open()).end;
        let returned: &[&str] = match output {
            ReturnType::Default => &["()"],
            ReturnType::Type(_, ty) => match &**ty {
                Type::Path(path) => match path.path.segments.last().map(|s| s.ident.to_string()).as_deref() {
                    Some("bool") => &["true", "false"],
                    Some("Option") => &["None"],
                    Some("usize" | "u8" | "u16" | "u32" | "u64" | "i32" | "i64" | "Components") => &["0", "1"],
                    Some("Vec") => &["Vec::new()"],
                    _ => &[],
                },
                _ => &[],
            },
        };
        for value in returned {
            let (new, shown) = (format!("return {value};"), format!("body -> {value}"));
            self.add(open..open, Form::Statements, new, shown);
        }
    }

    fn function(&mut self, sig: &syn::Signature, block: &syn::Block) {
        if sig.constness.is_some() || matches!(&*sig.ident.to_string(), "fmt" | "main") {
            return;
        }
        self.scope.push(sig.ident.to_string());
        self.body(&sig.output, block);
        self.visit_block(block);
        self.scope.pop();
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_left_out(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        if !is_left_out(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }
    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !is_left_out(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }
    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if !is_left_out(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }
    // No code runs there, or none that a variable can steer.
    fn visit_type(&mut self, _: &'a Type) {}
    fn visit_pat(&mut self, _: &'a syn::Pat) {}
    fn visit_item_const(&mut self, _: &'a syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'a syn::ImplItemConst) {}
    fn visit_item_static(&mut self, _: &'a syn::ItemStatic) {}
    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}
    fn visit_generic_argument(&mut self, _: &'a syn::GenericArgument) {}
    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        for member in &item.items {
            if let syn::TraitItem::Fn(syn::TraitItemFn { sig, default: Some(block), .. }) = member {
                self.function(sig, block);
            }
        }
    }
    fn visit_expr_repeat(&mut self, e: &'a syn::ExprRepeat) {
        self.visit_expr(&e.expr);
    }

    fn visit_expr_binary(&mut self, e: &'a syn::ExprBinary) {
        let whole = Expr::Binary(e.clone());
        if !contains_let(&whole) {
            let assigns = matches!(
                e.op,
                BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::BitAndAssign(_) | BinOp::BitOrAssign(_)
            );
            let (l, r) = (bytes(e.left.span()), bytes(e.right.span()));
            for op in operators(&e.op) {
                let (left, right) = (self.text(l.clone()), self.text(r.clone()));
                let new = if assigns { format!("{left} {op} {right}") } else { format!("({left}) {op} ({right})") };
                let old = one_line(self.text(l.start..r.end));
                self.add(l.start..r.end, Form::Expression, new, format!("{old} -> {op}"));
            }
            if matches!(e.op, BinOp::And(_) | BinOp::Or(_)) {
                self.boolean(&whole, true);
            }
        }
        visit::visit_expr_binary(self, e);
    }

    fn visit_expr_unary(&mut self, e: &'a syn::ExprUnary) {
        if let UnOp::Not(_) | UnOp::Neg(_) = e.op
            && !matches!(&*e.expr, Expr::Lit(_))
        {
            let new = self.text(bytes(e.expr.span())).to_string();
            self.replace(bytes(e.span()), new);
        }
        visit::visit_expr_unary(self, e);
    }

    fn visit_expr_method_call(&mut self, e: &'a syn::ExprMethodCall) {
        let name = e.method.to_string();
        if let Some((_, other)) = METHODS.iter().find(|(method, _)| *method == name) {
            let (all, method) = (bytes(e.span()), bytes(e.method.span()));
            let new = format!("{}{other}{}", self.text(all.start..method.start), self.text(method.end..all.end));
            let shown = format!("{} -> {other}", one_line(self.text(all.clone())));
            self.add(all, Form::Expression, new, shown);
        }
        visit::visit_expr_method_call(self, e);
    }

    fn visit_expr_if(&mut self, e: &'a syn::ExprIf) {
        self.boolean(&e.cond, true);
        visit::visit_expr_if(self, e);
    }

    fn visit_expr_while(&mut self, e: &'a syn::ExprWhile) {
        self.boolean(&e.cond, false);
        visit::visit_expr_while(self, e);
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if let Some((_, guard)) = &arm.guard
            && !contains_let(guard)
        {
            let range = bytes(guard.span());
            self.replace(range.clone(), "true".into());
            self.replace(range, "false".into());
        }
        visit::visit_arm(self, arm);
    }

    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::Expr(e, semicolon) = stmt {
            let exits = matches!(e, Expr::Return(_) | Expr::Break(_) | Expr::Continue(_));
            let effect = matches!(e, Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_));
            if exits || effect && semicolon.is_some() {
                let range = bytes(stmt.span());
                let shown = format!("delete {}", one_line(self.text(range.clone())));
                self.add(range, Form::Statements, String::new(), shown);
            }
        }
        visit::visit_stmt(self, stmt);
    }
}
