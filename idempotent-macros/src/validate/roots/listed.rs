//! The parameters that there are, for a path that starts at none of them.

use crate::suggest::quoted_list;

impl super::Unknown<'_> {
    /// The parameters that there are.
    pub(super) fn all(&self) -> String {
        let function = &self.function.sig.ident;
        match self.parameters {
            [] if self.function.has_parameters() => {
                let root = &self.path.root;
                format!("give the parameter a name: `{root}: ..`")
            }
            [] => format!("`{function}` has no named parameters"),
            [only] => format!("the only parameter is `{only}`"),
            several => format!("the parameters are {}", quoted_list(several)),
        }
    }

    /// The field that the path takes first, if it is a parameter that the key does not have already.
    fn bound_field(&self) -> Option<String> {
        let paths = self.key.paths();
        let field = self.path.first_field().filter(|field| self.parameters.contains(field))?;
        paths.iter().all(|path| path.root != field).then_some(field)
    }

    /// Returns `true` if these parameters are parts of the key.
    fn has(&self, parameters: &[String]) -> bool {
        let paths = self.key.paths();
        parameters.iter().all(|name| paths.iter().any(|path| path.root == name))
    }

    /// The parameters that there are, with an example that can be typed.
    pub(super) fn listed(&self) -> String {
        let Self { path, parameters, .. } = self;
        let all = self.all();
        // `req.order_id` where the pattern of the parameter has bound `order_id`.
        if let Some(field) = self.bound_field() {
            return format!("`{}`; {all}", self.written(&field));
        }
        // Of a template or a tuple, a single part.
        let is_part = self.key.is_template() || self.key.is_tuple();
        match self.scalars().as_slice() {
            [only] if path.is_word() && !self.key.is_tuple() => {
                format!("{all}, as in `{}`", self.written(only))
            }
            [first, ..] if path.is_word() && self.key.is_template() => {
                format!("{all}, as in `{}`", self.written(first))
            }
            several @ [_, _, ..] if path.is_word() && !is_part => {
                let tuple = self.written(&format!("({})", several.join(", ")));
                format!("{all}, as in `{tuple}`")
            }
            _ if parameters.is_empty() => all,
            // The other parts have all that there is.
            scalars
                if self.key.is_tuple() && self.with_fields().is_empty() && self.has(scalars) =>
            {
                all
            }
            // The name of a field that the body reads takes its place.
            _ => format!("{all}, as in `{}`", self.written("req.item")),
        }
    }
}
