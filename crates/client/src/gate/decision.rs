//! What a gate's author says of one decision, member by member.

use super::bodies::{ClaimsFault, DECISION_ORDER};
use receipt::body::{Executes, Ruling};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// One decision, before it is signed: [`crate::gate::Gate::decide`] allows it, [`crate::gate::Gate::deny`] denies it.
///
/// What is not given is not in the receipt, but for the request id (128 random bits, in hex) and `executes` (`gate` for
/// what is allowed, `none` for what is denied).
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub(super) request_id: Option<String>,
    /// By wire name; `args` as given, whatever becomes of them.
    pub(super) members: Map<String, Value>,
    pub(super) args_mode: ArgsMode,
    pub(super) commit: Vec<String>,
    pub(super) extra: Map<String, Value>,
    /// When the history that it was judged by was true.
    pub(super) as_of: Option<AsOf>,
}

/// What the receipt says of the arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArgsMode {
    /// Their digest.
    #[default]
    Digest,
    /// The arguments themselves. Only then can an auditor recompute the action digest.
    Clear,
}

/// The history that a gate judged by, as the decision states it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriorHistory {
    /// The action classes logged for the decision's subjects, in order.
    pub action_classes: Vec<String>,
    /// Subject to the id of the newest receipt that names it.
    pub heads: Vec<(String, String)>,
    /// Size of the log's tree under which this was true.
    pub size: u64,
    /// Its root, in base64.
    pub root: String,
    /// Whether a quorum of witnesses vouched for that tree lately.
    pub witnessed: bool,
    /// Why not, where they did not.
    pub why: Option<String>,
    /// What was not decided yet when it was read. It is not written: a decision is refused where the gate has decided on one
    /// of the subjects since, for that is not in the history that it was judged by.
    pub as_of: Option<AsOf>,
}

/// The moment of a history, in the gate's own stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsOf {
    /// The subjects of the history.
    pub subjects: Vec<String>,
    /// The gate's next seq when it was read.
    pub next_seq: u64,
}

impl PriorHistory {
    /// Reads `{"classes":[…],"heads":{…},"size":N,"root":"…","witnessed":true,"why":"…","as_of":{…}}`, the form in which calls
    /// in JSON carry a history. The last two may be absent.
    ///
    /// # Errors
    /// [`ClaimsFault::WrongType`].
    pub fn from_call(value: &Value) -> Result<Self, ClaimsFault> {
        let read = || {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let classes = value.get("classes")?.as_array()?;
            let heads = value.get("heads")?.as_object()?;
            Some(Self {
                action_classes: classes.iter().map(text).collect::<Option<_>>()?,
                heads: heads.iter().map(|(subject, id)| Some((subject.clone(), text(id)?))).collect::<Option<_>>()?,
                size: value.get("size")?.as_u64()?,
                root: text(value.get("root")?)?,
                witnessed: value.get("witnessed")?.as_bool()?,
                why: match value.get("why") {
                    Some(why) => Some(text(why)?),
                    None => None,
                },
                as_of: match value.get("as_of") {
                    Some(as_of) => Some(AsOf::deserialize(as_of).ok()?),
                    None => None,
                },
            })
        };
        let expected = "an object with classes, heads, size, root and witnessed, and perhaps why and as_of";
        read().ok_or(ClaimsFault::WrongType { name: "history", expected })
    }
}

impl Decision {
    /// A decision about a request whose own signature verified (`authenticated`) or did not.
    pub fn new(authenticated: bool) -> Self {
        Self {
            request_id: None,
            members: Map::from_iter([("authenticated".to_owned(), json!(authenticated))]),
            args_mode: ArgsMode::default(),
            commit: Vec::new(),
            extra: Map::new(),
            as_of: None,
        }
    }

    /// Reads a decision from the members of a call in JSON: those that the protocol defines by their names, and beside them
    /// `args_mode` (`digest` or `clear`), `commit` (names), `extra` (an object) and `history` ([`PriorHistory::from_call`]). `decision` says whether it is allowed,
    /// which it is where that is absent.
    ///
    /// # Errors
    /// [`ClaimsFault`]: a member that no decision has, or a wrong type; `authenticated` must be there.
    pub fn from_call(call: &Map<String, Value>) -> Result<(Ruling, Self), ClaimsFault> {
        let wrong = |name, expected| ClaimsFault::WrongType { name, expected };
        let mut decision = Self::new(false);
        let mut ruling = Ruling::Allow;
        decision.members.clear();
        for (name, value) in call {
            match name.as_str() {
                "decision" => {
                    ruling = match value.as_str() {
                        Some("allow") => Ruling::Allow,
                        Some("deny") => Ruling::Deny,
                        _ => return Err(wrong("decision", "\"allow\" or \"deny\"")),
                    }
                }
                "request_id" => {
                    let text = value.as_str().ok_or_else(|| wrong("request_id", "a string"))?;
                    decision.request_id = Some(text.to_owned());
                }
                "args_mode" => {
                    decision.args_mode = match value.as_str() {
                        Some("digest") => ArgsMode::Digest,
                        Some("clear") => ArgsMode::Clear,
                        _ => return Err(wrong("args_mode", "\"digest\" or \"clear\"")),
                    }
                }
                "commit" => {
                    let names = value.as_array().ok_or_else(|| wrong("commit", "an array of names"))?;
                    for name in names {
                        let name = name.as_str().ok_or_else(|| wrong("commit", "an array of names"))?;
                        decision.commit.push(name.to_owned());
                    }
                }
                "extra" => decision.extra = value.as_object().ok_or_else(|| wrong("extra", "an object"))?.clone(),
                "history" => decision = decision.history(PriorHistory::from_call(value)?),
                "args_digest" | "prior_action_classes" | "prior_heads" => {
                    return Err(ClaimsFault::UnknownMember(name.clone()));
                }
                known if DECISION_ORDER.contains(&known) => {
                    decision.members.insert(name.clone(), value.clone());
                }
                _ => return Err(ClaimsFault::UnknownMember(name.clone())),
            }
        }
        if !decision.members.get("authenticated").is_some_and(Value::is_boolean) {
            return Err(wrong("authenticated", "given, true or false: whether the request's own signature verified"));
        }
        Ok((ruling, decision))
    }

    /// The request's own id, unlike any other of this gate.
    pub fn request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = Some(request_id.into());
        self
    }

    /// The code of the rule that decided.
    pub fn rule(self, rule: impl Into<String>) -> Self {
        self.text("rule", rule)
    }

    /// Why, for the gate's operator.
    pub fn why(self, why: impl Into<String>) -> Self {
        self.text("why", why)
    }

    /// What the caller was told, where that is less than the rule.
    pub fn caller_reason(self, reason: impl Into<String>) -> Self {
        self.text("caller_reason", reason)
    }

    /// The normalised tool or operation.
    pub fn operation(self, operation: impl Into<String>) -> Self {
        self.text("operation", operation)
    }

    /// Its target.
    pub fn resource(self, resource: impl Into<String>) -> Self {
        self.text("resource", resource)
    }

    /// Its class, for example `READ`.
    pub fn action_class(self, class: impl Into<String>) -> Self {
        self.text("action_class", class)
    }

    /// The risk objects that it touches.
    pub fn subjects(self, subjects: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let subjects: Vec<String> = subjects.into_iter().map(Into::into).collect();
        self.value("subjects", json!(subjects))
    }

    /// The agent's session.
    pub fn session(self, session: impl Into<String>) -> Self {
        self.text("session", session)
    }

    /// The arguments, of which the receipt holds the digest.
    pub fn args(self, args: impl Into<Value>) -> Self {
        self.value("args", args.into())
    }

    /// The arguments, which the receipt holds in the clear.
    pub fn args_in_clear(mut self, args: impl Into<Value>) -> Self {
        self.args_mode = ArgsMode::Clear;
        self.value("args", args.into())
    }

    /// What had been verified: `capability_signature`, `request_signature`, `nonce_fresh`, …
    pub fn proven(self, proven: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let proven: Vec<String> = proven.into_iter().map(Into::into).collect();
        self.value("proven", json!(proven))
    }

    /// Who the caller says it is.
    pub fn claimed_agent(self, agent: impl Into<String>) -> Self {
        self.text("claimed_agent", agent)
    }

    /// Who the verified capability is bound to. Only with `capability_signature` among the proven.
    pub fn bound_agent(self, agent: impl Into<String>) -> Self {
        self.text("bound_agent", agent)
    }

    /// The capability presented: an object (protocol, section 3).
    pub fn capability(self, capability: Value) -> Self {
        self.value("capability", capability)
    }

    /// On whose behalf and to what end: an object.
    pub fn grant(self, grant: Value) -> Self {
        self.value("grant", grant)
    }

    /// What the agent had read when it asked: an array of objects.
    pub fn facts(self, facts: Value) -> Self {
        self.value("facts", facts)
    }

    /// The history that it was judged by.
    pub fn history(mut self, history: PriorHistory) -> Self {
        self.as_of = history.as_of;
        let heads: Map<String, Value> =
            history.heads.into_iter().map(|(subject, id)| (subject, Value::String(id))).collect();
        let mut head = Map::new();
        head.insert("size".into(), json!(history.size));
        head.insert("root".into(), json!(history.root));
        head.insert("witnessed".into(), json!(history.witnessed));
        head.extend(history.why.map(|why| ("why".to_owned(), json!(why))));
        self.value("prior_action_classes", json!(history.action_classes))
            .value("prior_heads", Value::Object(heads))
            .value("history", Value::Object(head))
    }

    /// Who performs the action. For `caller` and `none` a scope writes no outcome; the caller's word comes by
    /// [`crate::gate::Gate::reported`].
    pub fn executes(self, executes: Executes) -> Self {
        self.text("executes", executes.as_str())
    }

    /// The approval that the decision rests on: an object.
    pub fn approval(self, approval: Value) -> Self {
        self.value("approval", approval)
    }

    /// Names of members that the receipt only commits to. `args` are then committed whole, in place of their digest.
    pub fn commit(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.commit.extend(names.into_iter().map(Into::into));
        self
    }

    /// A member of the author's own.
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }

    pub(super) fn is_by_caller(&self) -> bool {
        self.members.get("executes").is_some_and(|executes| executes == Executes::Caller.as_str())
    }

    fn text(self, name: &str, text: impl Into<String>) -> Self {
        self.value(name, Value::String(text.into()))
    }

    fn value(mut self, name: &str, value: Value) -> Self {
        self.members.insert(name.to_owned(), value);
        self
    }
}
