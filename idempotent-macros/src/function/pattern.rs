//! The names that a pattern binds.

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::visit_mut::VisitMut;
use syn::{Pat, PatIdent};

pub(super) fn names(pattern: &Pat) -> Vec<Ident> {
    struct Names(Vec<Ident>);
    impl Visit<'_> for Names {
        fn visit_pat_ident(&mut self, pattern: &PatIdent) {
            self.0.push(pattern.ident.clone());
            visit::visit_pat_ident(self, pattern);
        }
    }
    let mut names = Names(Vec::new());
    names.visit_pat(pattern);
    names.0
}

/// Rewrites the pattern so that it matches a reference.
pub(super) fn by_reference(pattern: &Pat) -> Pat {
    struct Plain;
    impl VisitMut for Plain {
        fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
            pattern.by_ref = None;
            pattern.mutability = None;
        }
    }
    let mut pattern = pattern.clone();
    Plain.visit_pat_mut(&mut pattern);
    pattern
}
