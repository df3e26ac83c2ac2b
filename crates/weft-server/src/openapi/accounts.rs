//! Users, sign-ins, tenants, share tokens and the audit log.

use super::agents::{PAGE, STREAM, WHOLE};
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Operation, Shared};

/// The role of a member.
pub const ROLE: Type = Type::OneOf(&["viewer", "user", "editor", "owner"]);

static USER: Shape = Shape {
    name: "User",
    summary: "somebody who signs in",
    members: &[
        text("id", "their id"),
        text("nickname", "what others call them"),
        text("email", "the address that they sign in with"),
        text("avatar", "nothing"),
        text("status", "`1`, or `0` for somebody who is disabled"),
        flag("is_superuser", "false: there is nobody above the owners of a tenant"),
        text("login_channel", "`password`"),
        flag("has_password", "whether they can sign in with a password"),
        text("last_login_time", "when they last signed in").nullable(),
        text("tenant_id", "the tenant that they work in"),
        member("role", ROLE, "what they may do there"),
        time("create_time", "when the account was made"),
        text("create_date", "the same in words"),
    ],
};
const OF_USER: Type = Type::Of(&USER);

/// `GET /api/v1/system/config`.
pub static SETTINGS: Operation =
    Operation::open("Tells what a page has to know before anybody has signed in.").data(Type::Object(&[
        whole("registerEnabled", "1 when people may register, else 0"),
        flag("disablePasswordLogin", "whether people cannot sign in with a password"),
    ]));
/// `POST /api/v1/auth/login`.
pub static SIGN_IN: Operation = Operation::open(
    "Signs in with a password. The answer's header Authorization holds what to show from then on.",
)
.body(&[
    text("email", "the address of the account"),
    text("password", "its password"),
    text("tenant_id", "the tenant to work in; the one where they may do most when absent").optional(),
])
.data(OF_USER);
/// `POST /api/v1/auth/logout` and its older name.
pub static SIGN_OUT: Operation =
    Operation::reads("Ends the sign-in that the request is made with.").data(Type::Flag);
/// `POST /api/v1/users`.
pub static REGISTER: Operation =
    Operation::open("Registers and signs in, where the setting `accounts.sign_up` lets people do so.")
        .body(&[
            text("email", "the address to sign in with"),
            text("password", "8 characters at least"),
            text("nickname", "what others call them").optional(),
        ])
        .data(OF_USER);
/// `GET /api/v1/users/me`.
pub static ME: Operation = Operation::reads("Shows who has signed in.").data(OF_USER);
/// `PATCH /api/v1/users/me`.
pub static CHANGE_ME: Operation = Operation::reads("Changes one's own name or password.")
    .body(&[
        text("nickname", "what others call one").optional(),
        text("password", "the password until now, for another one").optional(),
        text("new_password", "the other one; all other sign-ins end").optional(),
    ])
    .data(OF_USER);
/// `DELETE /api/v1/users/me`.
pub static ERASE_ME: Operation = Operation::reads("Removes one's own account and conversations.")
    .body(&[text("password", "one's password; absent for an account without one").optional()])
    .data(Type::Flag);
/// `GET /api/v1/users/me/export`.
pub static EXPORT_ME: Operation =
    Operation::reads("Gives everything that is kept of oneself.").data(Type::List(&Type::Any));
static LOGIN: Shape = Shape {
    name: "SignIn",
    summary: "a sign-in of a user",
    members: &[
        text("id", "its id"),
        text("tenant_id", "the tenant that it works in"),
        flag("current", "whether the request is made with it"),
        time("create_time", "when it was made"),
        time("expire_time", "when it ends"),
        time("last_used_time", "when it was last shown").nullable(),
    ],
};
/// `GET /api/v1/users/me/logins`.
pub static LOGINS: Operation =
    Operation::reads("Lists one's own sign-ins, the newest first; without a page up to 10,000.")
        .query(&PAGE)
        .data(Type::List(&Type::Of(&LOGIN)));
/// `DELETE /api/v1/users/me/logins`.
pub static END_LOGINS: Operation =
    Operation::reads("Ends all of one's own sign-ins but the one that the request is made with.")
        .data(Type::Whole);
/// `DELETE /api/v1/users/me/logins/{login}`.
pub static END_LOGIN: Operation = Operation::reads("Ends one of one's own sign-ins.").data(Type::Flag);

/// `GET /api/v1/auth/providers`.
pub static PROVIDERS: Operation = Operation::open(
    "Lists the providers that people may sign in with by OpenID Connect.",
)
.data(Type::List(&Type::Object(&[
    text("name", "its name"),
    text("title", "what people call it"),
    text("path", "where the sign-in begins"),
])));
const BEGUN: Type = Type::Object(&[text("url", "where the browser goes to sign in")]);
/// `GET /api/v1/auth/oidc/{provider}`.
pub static BEGIN_OIDC: Operation = Operation::open(
    "Sends a browser to a provider to sign in there, by HTTP status 303. The browser is known again by a cookie.",
)
.query(&[text("next", "the path of the page to go to then; without it the sign-in is answered in place").optional()])
.data(BEGUN);
static IDENTITY: Shape = Shape {
    name: "Identity",
    summary: "what a user is at a provider",
    members: &[
        text("id", "its id"),
        text("provider", "the provider's name in the settings"),
        text("issuer", "the provider's own name"),
        text("subject", "what the provider calls the user"),
        text("email", "the address that they had there when they last signed in"),
        time("create_time", "when it was added"),
        time("last_used_time", "when they last signed in with it").nullable(),
    ],
};
/// `GET /api/v1/auth/oidc/{provider}/callback`.
pub static FINISH_OIDC: Operation = Operation::open(
    "Takes a browser back from a provider and signs in as with a password: the header Authorization holds what to show \
     from then on. With `next` the browser goes there by HTTP status 303, with it behind the `#` as `authorization`, or \
     with `error`. For somebody who has signed in before and adds an identity, the identity is answered, or `added`.",
)
.query(&[
    text("state", "which sign-in it is"),
    text("code", "what the provider takes for a token").optional(),
    text("iss", "who the provider is").optional(),
    text("error", "why there is no code").optional(),
    text("error_description", "the same in words").optional(),
])
.data(Type::Either(&[OF_USER, Type::Of(&IDENTITY)]));
/// `GET /api/v1/users/me/identities`.
pub static IDENTITIES: Operation =
    Operation::reads("Lists what one is at providers.").data(Type::List(&Type::Of(&IDENTITY)));
/// `POST /api/v1/users/me/identities`.
pub static ADD_IDENTITY: Operation = Operation::reads(
    "Begins to add an identity at a provider to one's account; the browser goes to `url` then.",
)
.body(&[
    text("provider", "the provider's name"),
    text("next", "the path of the page to go to at the end").optional(),
])
.data(BEGUN);
/// `DELETE /api/v1/users/me/identities/{identity}`.
pub static REMOVE_IDENTITY: Operation =
    Operation::reads("Removes an identity from one's account: nobody signs in with it any more.")
        .data(Type::Flag);

static TENANCY: Shape = Shape {
    name: "Tenancy",
    summary: "a tenant that somebody belongs to or is invited to",
    members: &[
        text("tenant_id", "the tenant"),
        text("name", "what it is called"),
        text("nickname", "the same"),
        text("role", "what they may do there; `invite` as long as they have not accepted"),
    ],
};
/// `GET /api/v1/tenants`.
pub static TENANTS: Operation = Operation::reads("Lists the tenants that one belongs to or is invited to.")
    .data(Type::List(&Type::Of(&TENANCY)));
/// `PATCH /api/v1/tenants/{tenant}` and its older name.
pub static ACCEPT: Operation =
    Operation::reads("Accepts the invitation to a tenant.").data(Type::Of(&TENANCY));
/// `DELETE /api/v1/tenants/{tenant}`.
pub static REMOVE_TENANT: Operation = Operation::administers(
    "Removes the tenant with everything that it has: agents, conversations, datasets, files, secrets, members, API keys.",
)
.body(&[text("tenant_id", "the id of the tenant once more")])
.data(Type::Flag);
/// `PUT /api/v1/users/me/tenant`.
pub static SWITCH: Operation = Operation::reads("Works in another tenant that one belongs to.")
    .body(&[text("tenant_id", "which one")])
    .data(OF_USER);
/// `DELETE /api/v1/users/me/tenants/{tenant}`.
pub static LEAVE: Operation =
    Operation::reads("Leaves a tenant, with one's sign-ins and API keys there.").data(Type::Flag);

static MEMBER: Shape = Shape {
    name: "Member",
    summary: "a member of a tenant, or somebody who is invited",
    members: &[
        text("id", "the user, or the invitation"),
        text("user_id", "the user").optional(),
        text("email", "their address"),
        text("nickname", "what others call them").optional(),
        text("role", "what they may do; `invite` as long as they have not accepted"),
        member("offered_role", ROLE, "what they may do then").optional(),
        text("invitation", "what they show to accept, in the answer that has made it").optional().nullable(),
        time("create_time", "since when"),
    ],
};
const OF_MEMBER: Type = Type::Of(&MEMBER);
/// `GET /api/v1/tenants/{tenant}/users`.
pub static MEMBERS: Operation =
    Operation::administers("Lists the members of a tenant, and who is invited; without a page up to 10,000.")
        .query(&PAGE)
        .answer(Answer::Counted(Type::List(&OF_MEMBER), "total"));
/// `POST /api/v1/tenants/{tenant}/users`.
pub static INVITE: Operation = Operation::administers(
    "Invites somebody into a tenant. What they show to accept is in the answer, this once; the same is answered \
     whether or not they have an account.",
)
.body(&[text("email", "their address"), member("role", ROLE, "what they may do; `user` when absent").optional()])
.data(OF_MEMBER);
/// `PATCH /api/v1/tenants/{tenant}/users/{user}`.
pub static SET_ROLE: Operation = Operation::administers("Gives a member another role.")
    .body(&[member("role", ROLE, "what they may do")])
    .data(Type::Flag);
/// `DELETE /api/v1/tenants/{tenant}/users/{user}`.
pub static REMOVE_MEMBER: Operation = Operation::administers(
    "Removes a member with their sign-ins and API keys of the tenant, or takes back an invitation.",
)
.data(Type::Flag);
/// `GET /api/v1/tenants/{tenant}/users/{user}/export`.
pub static EXPORT_MEMBER: Operation =
    Operation::administers("Gives everything that is kept of a member in this tenant.")
        .data(Type::List(&Type::Any));
/// `POST /api/v1/auth/invitations/accept`.
pub static ACCEPT_WITH_SECRET: Operation = Operation::open(
    "Accepts an invitation and signs in. Whoever has no account gets one with this password; whoever has one must know \
     its password.",
)
.body(&[
    text("invitation", "what the invitation has said"),
    text("password", "the password"),
    text("nickname", "what others call one").optional(),
])
.data(OF_USER);

static SHARE: Shape = Shape {
    name: "ShareToken",
    summary: "a token for pages that show one agent or one chat assistant",
    members: &[
        text("id", "its id"),
        text("name", "what it is called"),
        text("token", "the token, in the answer that has made it").nullable(),
        text("kind", "`agent` or `chat`"),
        text("target_id", "which one it opens"),
        time("create_time", "when it was made"),
        time("expire_time", "when it ends").nullable(),
        time("last_used_time", "when it was last shown").nullable(),
    ],
};
const SHARE_BODY: [Member; 2] = [
    text("name", "what to call it").optional(),
    time("expires_time", "when it ends; never when absent").optional(),
];
/// `GET …/shares`.
pub static SHARES: Operation =
    Operation::edits("Lists the share tokens.").data(Type::List(&Type::Of(&SHARE)));
/// `POST …/shares`.
pub static MAKE_SHARE: Operation = Operation::edits(
    "Makes a share token: it opens this and nothing else, for everybody who has it. It is shown this once.",
)
.body(&SHARE_BODY)
.data(Type::Of(&SHARE));
/// `DELETE …/shares/{share}`.
pub static REMOVE_SHARE: Operation = Operation::edits("Takes a share token back.").data(Type::Flag);

const OLDER_TARGET: [Member; 2] =
    [text("dialog_id", "the chat assistant").optional(), text("canvas_id", "or the agent").optional()];
const OLDER_TOKEN: Type = Type::Object(&[
    text("tenant_id", "whose it is"),
    text("token", "the token in the answer that makes it, after that only its end"),
    text("dialog_id", "what it opens"),
    text("source", "`agent`; null for a chat assistant").nullable(),
    time("create_time", "when it was made"),
    text("create_date", "the same in words"),
]);
/// `POST /v1/api/new_token`.
pub static OLDER_NEW_TOKEN: Operation =
    Operation::edits("Makes a share token of one assistant or agent, by its oldest name.")
        .body(&OLDER_TARGET)
        .data(OLDER_TOKEN);
/// `GET /v1/api/token_list`.
pub static OLDER_TOKENS: Operation = Operation::edits("Lists the share tokens of one assistant or agent.")
    .query(&OLDER_TARGET)
    .data(Type::List(&OLDER_TOKEN));
/// `POST /v1/api/rm`.
pub static OLDER_REMOVE: Operation = Operation::edits("Takes share tokens back.")
    .body(&[
        list("tokens", &Type::Text, "the tokens themselves"),
        text("tenant_id", "passed over: it is the caller's").optional(),
    ])
    .data(Type::Flag);
/// `GET /v1/api/stats`.
pub static OLDER_STATS: Operation =
    Operation::reads("Is refused: such numbers are not kept; `GET /api/v1/usage` has others.");
/// `GET /v1/api/new_conversation`.
pub static NEW_CONVERSATION: Operation =
    Operation::runs("Begins a conversation with an assistant or an agent, by its oldest name.")
        .query(&[
            text("dialog_id", "the chat assistant").optional(),
            text("canvas_id", "or the agent").optional(),
            text("user_id", "who asks").optional(),
        ])
        .data(Type::Of(&super::agents::SESSION));

static AUDIT_ENTRY: Shape = Shape {
    name: "AuditEntry",
    summary: "something that somebody did, or was refused",
    members: &[
        text("id", "its id"),
        time("time", "when"),
        text("actor", "who: `user:ID`, `key:ID`, `share:ID`, `local`, `cli` or `nobody`"),
        text("action", "what, such as `PUT /api/v1/agents/{id}` or `login`"),
        text("target", "on what"),
        whole("code", "0 when it was done, else why not"),
        text("address", "from which network address"),
    ],
};
const AUDIT_FILTER: [Member; 3] = [
    text("actor", "only what this one did").optional(),
    time("since", "not before").optional(),
    time("until", "before").optional(),
];
/// `GET /api/v1/audit`.
pub static AUDIT: Operation = Operation::administers("Lists the audit log, the newest entries first.")
    .query(&[
        AUDIT_FILTER[0],
        AUDIT_FILTER[1],
        AUDIT_FILTER[2],
        PAGE[1],
        text("after", "the `next` of the page before").optional(),
    ])
    .data(Type::Object(&[
        list("entries", &Type::Of(&AUDIT_ENTRY), "the page"),
        text("next", "where the next page begins").nullable(),
    ]));
/// `GET /api/v1/audit/export`.
pub static EXPORT_AUDIT: Operation =
    Operation::administers("Gives the audit log as lines of JSON, the oldest entry first.")
        .query(&AUDIT_FILTER)
        .answer(Answer::File);

static NOTICE: Shape = Shape {
    name: "Notice",
    summary: "something that people are told without having asked",
    members: &[
        text("event", "`run_failed`, `budget` or `task_overdue`"),
        text("subject", "of which run, task or budget"),
        time("time", "when it became known"),
        member(
            "state",
            Type::OneOf(&["waiting", "taken", "delivered", "given_up"]),
            "how far its delivery has come",
        ),
        time("state_time", "when it is tried next, or since when it is so"),
        list(
            "done",
            &Type::Text,
            "the ways that are done with, such as `webhook`; with the reason where one has failed",
        ),
        whole("attempts", "how often it was tried"),
        text("reason", "why it was put off or given up"),
    ],
};
/// `GET /api/v1/notifications`.
pub static NOTICES: Operation =
    Operation::administers("Lists what people are told without having asked, the newest first.")
        .query(&PAGE)
        .data(Type::Object(&[
            list("notifications", &Type::Of(&NOTICE), "the page"),
            whole("total", "how many there are in all"),
        ]));

/// `GET /api/v1/agentbots/{id}/inputs`.
pub static AGENTBOT: Operation =
    Operation::reads("Shows what a page needs of an agent.").shared(Shared::Agent).data(Type::Object(&[
        text("title", "its title"),
        text("avatar", "a picture as a data URI, or nothing"),
        member("inputs", Type::Map(&Type::Any), "the fields of the form that a conversation may begin with"),
        text("prologue", "its opening words"),
        text("mode", "`conversational`"),
    ]));
/// `POST /api/v1/agentbots/{id}/completions`.
pub static ASK_AGENTBOT: Operation = Operation::runs("Asks an agent from a page that shows it.")
    .shared(Shared::Agent)
    .body(&[
        text("question", "the question; also `query`").optional(),
        text("session_id", "the conversation; a new one when absent").optional(),
        member("inputs", Type::Map(&Type::Any), "values for the fields of its form").optional(),
        STREAM,
    ])
    .answer(Answer::EventsOrData(WHOLE));
