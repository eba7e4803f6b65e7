//! The function with another return type, for help texts: with the end of the body that goes with it.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::{Block, Expr, ReturnType, Stmt};

use super::Function;
use crate::source::{signature_source, source};

/// Longer functions are not shown.
const LONGEST: usize = 170;

impl Function {
    /// The whole function, async and with this return type. `end` makes the last expression of the
    /// body, from the one that it has. `None` if the function is long, or returns elsewhere, too.
    pub(crate) fn rewritten(
        &self,
        returns: &str,
        end: impl Fn(Option<&Expr>) -> Option<String>,
    ) -> Option<String> {
        let mut stmts = statements(self.user_body())?;
        if has_return(self.user_body()) {
            return None;
        }
        let last = match stmts.last() {
            Some(Stmt::Expr(_, None)) => match stmts.pop() {
                Some(Stmt::Expr(last, None)) => Some(last),
                _ => None,
            },
            _ => None,
        };
        let stmts: String = stmts.iter().map(|stmt| format!("{} ", statement(stmt))).collect();
        let head = self.head(Some(returns));
        let function = format!("{head} {{ {stmts}{} }}", end(last.as_ref())?);
        let is_short = function.len() <= LONGEST && !function.contains('\n');
        is_short.then_some(function)
    }

    /// `pub async fn create(id: u64) -> Result<u64, Error>`, with this return type: async, and neither `const` nor
    /// `extern`.
    pub(crate) fn head(&self, returns: Option<&str>) -> String {
        let mut sig = self.sig.clone();
        (sig.constness, sig.abi) = (None, None);
        sig.asyncness = Some(Default::default());
        sig.output = ReturnType::Default;
        // It stands behind the return type.
        let condition = sig.generics.where_clause.take();
        let vis = &self.vis;
        let mut head = signature_source(&quote!(#vis #sig));
        if let Some(returns) = returns {
            head.push_str(&format!(" -> {returns}"));
        }
        if let Some(condition) = condition {
            head.push_str(&format!(" {}", signature_source(&condition)));
        }
        head
    }

    /// The body that `#[async_trait]` has put into a statement, with its braces, if it is short.
    pub(crate) fn written_body(&self) -> Option<String> {
        let mut before = String::new();
        let mut body = None;
        for token in self.user_body() {
            match &token {
                TokenTree::Group(group) if before == "=" => body = Some(shown(group)),
                _ => {}
            }
            before = token.to_string();
        }
        body.filter(|body| body.len() <= LONGEST / 2 && !body.contains('\n'))
    }

    /// The last expression of the body, if it ends in one.
    pub(crate) fn last_expression(&self) -> Option<Expr> {
        match statements(self.user_body())?.pop()? {
            Stmt::Expr(last, None) => Some(last),
            _ => None,
        }
    }
}

fn statements(body: TokenStream) -> Option<Vec<Stmt>> {
    Block::parse_within.parse2(body).ok()
}

fn statement(stmt: &Stmt) -> String {
    source(stmt).replace("! (", "!(")
}

/// Help text for an expression.
pub(crate) fn shown(expr: &impl ToTokens) -> String {
    source(expr)
}

/// Returns `true` if the tokens have a `return` in them.
fn has_return(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "return",
        TokenTree::Group(group) => has_return(group.stream()),
        _ => false,
    })
}
