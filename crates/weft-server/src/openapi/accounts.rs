//! Users, sign-ins, tenants, share tokens and the audit log.

use super::agents::WHOLE;
use super::common::{PAGE, STREAM};
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Operation, Shared};

/// The role of a member.
pub const ROLE: Type = Type::OneOf(&["viewer", "user", "editor", "owner"]);

static USER: Shape = Shape {
    name: "User",
    summary: "a user account",
    members: &[
        text("id", "user id"),
        text("nickname", "display name"),
        text("email", "email address for signing in"),
        text("avatar", "nothing"),
        text("status", "`1`, or `0` for a disabled user"),
        flag("is_superuser", "always false: no role ranks above the owners of a tenant"),
        text("login_channel", "`password`"),
        flag("has_password", "whether the user can sign in with a password"),
        text("last_login_time", "time of the last sign-in").nullable(),
        text("tenant_id", "current tenant"),
        member("role", ROLE, "role in that tenant"),
        time("create_time", "time of creation of the account"),
        text("create_date", "the same as text"),
    ],
};
const OF_USER: Type = Type::Of(&USER);

/// `GET /api/v1/system/config`.
pub static SETTINGS: Operation = Operation::open("Returns the settings that a page needs before sign-in.")
    .data(Type::Object(&[
        whole("registerEnabled", "1 if registration is open, else 0"),
        flag("disablePasswordLogin", "whether signing in with a password is disabled"),
    ]));
/// `POST /api/v1/auth/login`.
pub static SIGN_IN: Operation = Operation::open(
    "Signs in with a password. The response header Authorization holds the credential for further requests.",
)
.body(&[
    text("email", "email address of the account"),
    text("password", "password of the account"),
    text("tenant_id", "tenant to work in; default: the one with the highest role").optional(),
])
.data(OF_USER);
/// `POST /api/v1/auth/logout` and its older name.
pub static SIGN_OUT: Operation = Operation::reads("Ends the current sign-in.").data(Type::Flag);
/// `POST /api/v1/users`.
pub static REGISTER: Operation =
    Operation::open("Registers an account and signs in, if the setting `accounts.sign_up` allows it.")
        .body(&[
            text("email", "email address for signing in"),
            text("password", "at least 8 characters"),
            text("nickname", "display name").optional(),
        ])
        .data(OF_USER);
/// `GET /api/v1/users/me`.
pub static ME: Operation = Operation::reads("Shows the signed-in user.").data(OF_USER);
/// `PATCH /api/v1/users/me`.
pub static CHANGE_ME: Operation = Operation::reads("Changes the caller's name or password.")
    .body(&[
        text("nickname", "display name").optional(),
        text("password", "current password, required to change it").optional(),
        text("new_password", "new password; ends all other sign-ins").optional(),
    ])
    .data(OF_USER);
/// `DELETE /api/v1/users/me`.
pub static ERASE_ME: Operation = Operation::reads("Removes the caller's account and conversations.")
    .body(&[text("password", "password; absent for an account without one").optional()])
    .data(Type::Flag);
/// `GET /api/v1/users/me/export`.
pub static EXPORT_ME: Operation =
    Operation::reads("Exports all data stored about the caller.").data(Type::List(&Type::Any));
static LOGIN: Shape = Shape {
    name: "SignIn",
    summary: "a sign-in of a user",
    members: &[
        text("id", "its id"),
        text("tenant_id", "tenant of the sign-in"),
        flag("current", "whether it is the current one"),
        time("create_time", "time of creation"),
        time("expire_time", "time of expiry"),
        time("last_used_time", "time of last use").nullable(),
    ],
};
/// `GET /api/v1/users/me/logins`.
pub static LOGINS: Operation =
    Operation::reads("Lists the caller's sign-ins, newest first; without `page` up to 10,000.")
        .query(&PAGE)
        .data(Type::List(&Type::Of(&LOGIN)));
/// `DELETE /api/v1/users/me/logins`.
pub static END_LOGINS: Operation =
    Operation::reads("Ends all of the caller's sign-ins except the current one.").data(Type::Whole);
/// `DELETE /api/v1/users/me/logins/{login}`.
pub static END_LOGIN: Operation = Operation::reads("Ends one of the caller's sign-ins.").data(Type::Flag);

/// `GET /api/v1/auth/providers`.
pub static PROVIDERS: Operation =
    Operation::open("Lists the OpenID Connect providers for signing in.").data(Type::List(&Type::Object(&[
        text("name", "its name"),
        text("title", "display name"),
        text("path", "URL that starts the sign-in"),
    ])));
const BEGUN: Type = Type::Object(&[text("url", "URL for the browser to sign in at")]);
/// `GET /api/v1/auth/oidc/{provider}`.
pub static BEGIN_OIDC: Operation = Operation::open(
    "Redirects a browser to a provider for signing in, with HTTP status 303. A cookie identifies the browser on \
     return.",
)
.query(&[text("next", "path of the page to redirect to afterwards; without it the sign-in is returned directly").optional()])
.data(BEGUN);
static IDENTITY: Shape = Shape {
    name: "Identity",
    summary: "an identity of a user at a provider",
    members: &[
        text("id", "its id"),
        text("provider", "name of the provider in the settings"),
        text("issuer", "issuer of the provider"),
        text("subject", "identifier of the user at the provider"),
        text("email", "email address there at the last sign-in"),
        time("create_time", "time of addition"),
        time("last_used_time", "time of the last sign-in with it").nullable(),
    ],
};
/// `GET /api/v1/auth/oidc/{provider}/callback`.
pub static FINISH_OIDC: Operation = Operation::open(
    "Receives a browser from a provider and signs in as with a password: the header Authorization holds the \
     credential for further requests. With `next` the browser is redirected there with HTTP status 303, with the \
     credential as `authorization`, or with `error`, after the `#`. For a signed-in user who adds an identity, \
     the response is the identity, or `added`.",
)
.query(&[
    text("state", "identifies the sign-in"),
    text("code", "authorization code to exchange for a token").optional(),
    text("iss", "issuer of the provider").optional(),
    text("error", "error instead of a code").optional(),
    text("error_description", "the same as text").optional(),
])
.data(Type::Either(&[OF_USER, Type::Of(&IDENTITY)]));
/// `GET /api/v1/users/me/identities`.
pub static IDENTITIES: Operation =
    Operation::reads("Lists the caller's identities at providers.").data(Type::List(&Type::Of(&IDENTITY)));
/// `POST /api/v1/users/me/identities`.
pub static ADD_IDENTITY: Operation = Operation::reads(
    "Starts adding an identity at a provider to the caller's account; the browser continues at `url`.",
)
.body(&[
    text("provider", "name of the provider"),
    text("next", "path of the page to redirect to at the end").optional(),
])
.data(BEGUN);
/// `DELETE /api/v1/users/me/identities/{identity}`.
pub static REMOVE_IDENTITY: Operation =
    Operation::reads("Removes an identity from the caller's account: it can no longer be used to sign in.")
        .data(Type::Flag);

static TENANCY: Shape = Shape {
    name: "Tenancy",
    summary: "a tenant that the user is a member of or invited to",
    members: &[
        text("tenant_id", "the tenant"),
        text("name", "display name"),
        text("nickname", "the same"),
        text("role", "role in the tenant; `invite` until the invitation is accepted"),
    ],
};
/// `GET /api/v1/tenants`.
pub static TENANTS: Operation =
    Operation::reads("Lists the tenants that the caller is a member of or invited to.")
        .data(Type::List(&Type::Of(&TENANCY)));
/// `PATCH /api/v1/tenants/{tenant}` and its older name.
pub static ACCEPT: Operation =
    Operation::reads("Accepts the invitation to a tenant.").data(Type::Of(&TENANCY));
/// `DELETE /api/v1/tenants/{tenant}`.
pub static REMOVE_TENANT: Operation = Operation::administers(
    "Removes the tenant and all its data: agents, conversations, datasets, files, secrets, members, API keys.",
)
.body(&[text("tenant_id", "id of the tenant, repeated to confirm")])
.data(Type::Flag);
/// `PUT /api/v1/users/me/tenant`.
pub static SWITCH: Operation = Operation::reads("Switches to another tenant of the caller.")
    .body(&[text("tenant_id", "id of the tenant")])
    .data(OF_USER);
/// `DELETE /api/v1/users/me/tenants/{tenant}`.
pub static LEAVE: Operation =
    Operation::reads("Leaves a tenant and ends the caller's sign-ins and API keys there.").data(Type::Flag);

static MEMBER: Shape = Shape {
    name: "Member",
    summary: "a member of a tenant, or an invited person",
    members: &[
        text("id", "id of the user or the invitation"),
        text("user_id", "the user").optional(),
        text("email", "email address"),
        text("nickname", "display name").optional(),
        text("role", "role; `invite` until the invitation is accepted"),
        member("offered_role", ROLE, "role after acceptance").optional(),
        text("invitation", "token to accept the invitation with; only in the response that creates it")
            .optional()
            .nullable(),
        time("create_time", "time of joining or invitation"),
    ],
};
const OF_MEMBER: Type = Type::Of(&MEMBER);
/// `GET /api/v1/tenants/{tenant}/users`.
pub static MEMBERS: Operation =
    Operation::administers("Lists the members and invited people of a tenant; without `page` up to 10,000.")
        .query(&PAGE)
        .answer(Answer::Counted(Type::List(&OF_MEMBER), "total"));
/// `POST /api/v1/tenants/{tenant}/users`.
pub static INVITE: Operation = Operation::administers(
    "Invites a person to a tenant. The response contains the token to accept with, only once; it is the same \
     whether or not the person has an account.",
)
.body(&[text("email", "email address"), member("role", ROLE, "role; default: `user`").optional()])
.data(OF_MEMBER);
/// `PATCH /api/v1/tenants/{tenant}/users/{user}`.
pub static SET_ROLE: Operation = Operation::administers("Changes the role of a member.")
    .body(&[member("role", ROLE, "role")])
    .data(Type::Flag);
/// `DELETE /api/v1/tenants/{tenant}/users/{user}`.
pub static REMOVE_MEMBER: Operation = Operation::administers(
    "Removes a member with their sign-ins and API keys for the tenant, or revokes an invitation.",
)
.data(Type::Flag);
/// `GET /api/v1/tenants/{tenant}/users/{user}/export`.
pub static EXPORT_MEMBER: Operation =
    Operation::administers("Exports all data stored about a member in this tenant.")
        .data(Type::List(&Type::Any));
/// `POST /api/v1/auth/invitations/accept`.
pub static ACCEPT_WITH_SECRET: Operation = Operation::open(
    "Accepts an invitation and signs in. Without an account, one is created with this password; an existing \
     account requires its password.",
)
.body(&[
    text("invitation", "token from the invitation"),
    text("password", "the password"),
    text("nickname", "display name").optional(),
])
.data(OF_USER);

static SHARE: Shape = Shape {
    name: "ShareToken",
    summary: "a token for pages that show one agent or one chat assistant",
    members: &[
        text("id", "its id"),
        text("name", "name of the token"),
        text("token", "the token; only in the response that creates it").nullable(),
        text("kind", "`agent` or `chat`"),
        text("target_id", "id of the agent or chat assistant"),
        time("create_time", "time of creation"),
        time("expire_time", "time of expiry").nullable(),
        time("last_used_time", "time of last use").nullable(),
    ],
};
const SHARE_BODY: [Member; 3] = [
    text("name", "name of the token").optional(),
    time("expires_time", "time of expiry; default: never").optional().nullable(),
    time("expire_time", "the same, under the name that answers have").optional().nullable(),
];
/// `GET …/shares`.
pub static SHARES: Operation =
    Operation::edits("Lists the share tokens.").data(Type::List(&Type::Of(&SHARE)));
/// `POST …/shares`.
pub static MAKE_SHARE: Operation = Operation::edits(
    "Creates a share token: it gives everyone who has it access to this and nothing else. It is shown only once.",
)
.body(&SHARE_BODY)
.data(Type::Of(&SHARE));
/// `DELETE …/shares/{share}`.
pub static REMOVE_SHARE: Operation = Operation::edits("Revokes a share token.").data(Type::Flag);

const OLDER_TARGET: [Member; 2] =
    [text("dialog_id", "the chat assistant").optional(), text("canvas_id", "or the agent").optional()];
const OLDER_TOKEN: Type = Type::Object(&[
    text("tenant_id", "owning tenant"),
    text("token", "the token in the response that creates it, afterwards only its end"),
    text("dialog_id", "id of what it gives access to"),
    text("source", "`agent`; null for a chat assistant").nullable(),
    time("create_time", "time of creation"),
    text("create_date", "the same as text"),
]);
/// `POST /v1/api/new_token`.
pub static OLDER_NEW_TOKEN: Operation =
    Operation::edits("Creates a share token for an assistant or agent; oldest name of the route.")
        .body(&OLDER_TARGET)
        .data(OLDER_TOKEN);
/// `GET /v1/api/token_list`.
pub static OLDER_TOKENS: Operation = Operation::edits("Lists the share tokens of an assistant or agent.")
    .query(&OLDER_TARGET)
    .data(Type::List(&OLDER_TOKEN));
/// `POST /v1/api/rm`.
pub static OLDER_REMOVE: Operation = Operation::edits("Revokes share tokens.")
    .body(&[
        list("tokens", &Type::Text, "the tokens themselves"),
        text("tenant_id", "ignored: always the caller's").optional(),
    ])
    .data(Type::Flag);
/// `GET /v1/api/stats`.
pub static OLDER_STATS: Operation =
    Operation::reads("Always rejected: such statistics are not kept; see `GET /api/v1/usage` for others.");
/// `GET /v1/api/new_conversation`.
pub static NEW_CONVERSATION: Operation =
    Operation::runs("Starts a conversation with an assistant or agent; oldest name of the route.")
        .query(&[
            text("dialog_id", "the chat assistant").optional(),
            text("canvas_id", "or the agent").optional(),
            text("user_id", "id of the user who asks").optional(),
        ])
        .data(Type::Of(&super::agents::SESSION));

static AUDIT_ENTRY: Shape = Shape {
    name: "AuditEntry",
    summary: "an action that was performed or denied",
    members: &[
        text("id", "its id"),
        time("time", "when"),
        text("actor", "actor: `user:ID`, `key:ID`, `share:ID`, `local`, `cli` or `nobody`"),
        text("action", "action, such as `PUT /api/v1/agents/{id}` or `login`"),
        text("target", "target of the action"),
        whole("code", "0 on success, else an error code"),
        text("address", "network address of the client"),
    ],
};
const AUDIT_FILTER: [Member; 3] = [
    text("actor", "only actions of this actor").optional(),
    time("since", "only entries from this time on").optional(),
    time("until", "before").optional(),
];
/// `GET /api/v1/audit`.
pub static AUDIT: Operation = Operation::administers("Lists the audit log, newest entries first.")
    .query(&[
        AUDIT_FILTER[0],
        AUDIT_FILTER[1],
        AUDIT_FILTER[2],
        PAGE[1],
        text("after", "`next` of the previous page").optional(),
    ])
    .data(Type::Object(&[
        list("entries", &Type::Of(&AUDIT_ENTRY), "entries of the page"),
        text("next", "start of the next page").nullable(),
    ]));
/// `GET /api/v1/audit/export`.
pub static EXPORT_AUDIT: Operation =
    Operation::administers("Returns the audit log as lines of JSON, oldest entry first.")
        .query(&AUDIT_FILTER)
        .answer(Answer::File);

static NOTICE: Shape = Shape {
    name: "Notice",
    summary: "a notification about a run, a budget or a task",
    members: &[
        text("event", "`run_failed`, `budget` or `task_overdue`"),
        text("subject", "the run, task or budget concerned"),
        time("time", "time of creation"),
        member("state", Type::OneOf(&["waiting", "taken", "delivered", "given_up"]), "state of the delivery"),
        time("state_time", "time of the next attempt, or since when the state applies"),
        list("done", &Type::Text, "finished channels, such as `webhook`; with the reason if one failed"),
        whole("attempts", "number of attempts"),
        text("reason", "why it was postponed or given up"),
    ],
};
/// `GET /api/v1/notifications`.
pub static NOTICES: Operation =
    Operation::administers("Lists the notifications, newest first.").query(&PAGE).data(Type::Object(&[
        list("notifications", &Type::Of(&NOTICE), "entries of the page"),
        whole("total", "total number"),
    ]));

/// `GET /api/v1/agentbots/{id}/inputs`.
pub static AGENTBOT: Operation = Operation::reads("Shows what a page needs to show an agent.")
    .shared(Shared::Agent)
    .data(Type::Object(&[
        text("title", "its title"),
        text("avatar", "image as a data URI, or empty"),
        member("inputs", Type::Map(&Type::Any), "fields of the form at the start of a conversation"),
        text("prologue", "opening message"),
        text("mode", "`conversational`"),
    ]));
/// `POST /api/v1/agentbots/{id}/completions`.
pub static ASK_AGENTBOT: Operation = Operation::runs("Asks an agent from a page that embeds it.")
    .shared(Shared::Agent)
    .body(&[
        text("question", "the question; also accepted as `query`").optional(),
        text("session_id", "the conversation; default: a new one").optional(),
        member("inputs", Type::Map(&Type::Any), "values for the fields of its form").optional(),
        STREAM,
    ])
    .answer(Answer::EventsOrData(WHOLE));
