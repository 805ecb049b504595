//! The posts of all logs, by what they are asked for. They can be replaced while the witness runs.

use crate::post::Post;
use client::witness::origin_hash;
use note::Origin;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// All posts. Cheap to clone; clones show the same.
#[derive(Debug, Clone, Default)]
pub struct Posts(Arc<RwLock<Arc<Listed>>>);

#[derive(Debug, Default)]
struct Listed {
    in_order: Vec<Arc<Post>>,
    by_hash: HashMap<String, usize>,
    by_origin: HashMap<String, usize>,
}

impl Posts {
    /// Shows these from now on, in the order of the configuration.
    pub fn replace(&self, posts: Vec<Arc<Post>>) {
        let mut listed = Listed::default();
        for (place, post) in posts.iter().enumerate() {
            let origin = Origin::from(post.name());
            listed.by_hash.insert(origin_hash(&origin), place);
            listed.by_origin.insert(origin.as_str().to_owned(), place);
        }
        listed.in_order = posts;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(listed);
    }

    /// All of them, in the order of the configuration.
    pub fn all(&self) -> Vec<Arc<Post>> {
        self.listed().in_order.clone()
    }

    /// The post of the log whose origin has this SHA-256, in lowercase hex.
    pub fn by_hash(&self, hash: &str) -> Option<Arc<Post>> {
        let listed = self.listed();
        listed.by_hash.get(hash).and_then(|place| listed.in_order.get(*place)).cloned()
    }

    /// The post of the log with this origin.
    pub fn by_origin(&self, origin: &Origin) -> Option<Arc<Post>> {
        let listed = self.listed();
        listed.by_origin.get(origin.as_str()).and_then(|place| listed.in_order.get(*place)).cloned()
    }

    fn listed(&self) -> Arc<Listed> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}
