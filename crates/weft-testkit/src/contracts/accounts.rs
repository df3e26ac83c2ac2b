//! Contract of the stores for users, tenants and share tokens.

use futures::future::join_all;
use weft_core::ErrorKind::{Conflict, Invalid, NotFound, QuotaExceeded};
use weft_core::access::MemberRole;
use weft_core::id::{CanvasId, TenantId, UserId, generate};
use weft_core::seam::share_store::{SHARES_MAX, ShareTarget, ShareToken};
use weft_core::seam::tenant_store::{INVITATIONS_MAX, Invitation, Joining, MemberCounts, Membership, Tenant};
use weft_core::seam::token_store::{StoredToken, TokenFilter};
use weft_core::seam::user_store::{LOGINS_MAX, Login, Logins, User, UserChange};
use weft_core::seam::{ShareStore, TenantStore, TokenStore, UserStore};

use super::{fine, refused, tenant};

/// The interfaces of one store that hold accounts.
#[derive(Clone, Copy)]
pub struct ContractStores<'a> {
    /// Users and their sign-ins.
    pub users: &'a dyn UserStore,
    /// Tenants, members and invitations.
    pub tenants: &'a dyn TenantStore,
    /// API keys, which are removed with their users.
    pub tokens: &'a dyn TokenStore,
}

impl std::fmt::Debug for ContractStores<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContractStores").finish_non_exhaustive()
    }
}

fn user(at_ms: i64) -> User {
    let id = UserId::generate();
    User {
        email: format!("{id}@example.com"),
        nickname: "Ünïcode 🦜".to_owned(),
        password_hash: "$argon2id$v=19$x".to_owned(),
        enabled: true,
        created_ms: at_ms,
        signed_in_ms: None,
        id,
    }
}

fn member(tenant: &TenantId, user: &User, role: MemberRole) -> Membership {
    Membership { tenant: tenant.clone(), user: user.id.clone(), role, created_ms: user.created_ms }
}

async fn new_tenant(stores: ContractStores<'_>) -> TenantId {
    let id = tenant();
    fine(stores.tenants.add_tenant(&Tenant { id: id.clone(), name: "Ours".to_owned(), created_ms: 5 }).await);
    id
}

/// Checks the contract of [`UserStore`] and [`TenantStore`].
pub async fn account_stores_keep_their_contract(stores: ContractStores<'_>) {
    tenants_are_stored_once(stores).await;
    users_round_trip(stores).await;
    a_tenant_keeps_an_owner(stores).await;
    sign_ins_belong_to_their_users(stores).await;
    the_oldest_of_too_many_sign_ins_end(stores).await;
    credentials_of_a_member_end_with_the_membership(stores).await;
    an_invitation_is_accepted_once(stores).await;
    open_invitations_are_limited(stores).await;
    a_tenant_is_removed_with_its_data(stores).await;
}

async fn a_tenant_is_removed_with_its_data(stores: ContractStores<'_>) {
    let ContractStores { users, tenants, tokens } = stores;
    let (home, away) = (new_tenant(stores).await, new_tenant(stores).await);
    let ann = user(10);
    let both = [member(&home, &ann, MemberRole::Owner), member(&away, &ann, MemberRole::Owner)];
    fine(users.add_user(&ann, &both).await);
    let (here, there) = (login(&home, &ann, 10), login(&away, &ann, 20));
    for one in [&here, &there] {
        fine(users.add_login(one).await);
    }
    let key = StoredToken {
        tenant: home.clone(),
        hash: generate(),
        name: String::new(),
        created_ms: 1,
        last_used_ms: None,
        user: None,
        role: MemberRole::Owner,
    };
    fine(tokens.add(&key).await);
    let bob = user(11);
    fine(users.add_user(&bob, &[member(&home, &bob, MemberRole::Editor)]).await);
    let his = login(&home, &bob, 30);
    fine(users.add_login(&his).await);
    let before = fine(tenants.tenant(&home).await);
    fine(tenants.rename_tenant(&home, "Ünïcode 汉").await);
    assert_eq!(fine(tenants.tenant(&home).await), Tenant { name: "Ünïcode 汉".to_owned(), ..before });
    refused(tenants.rename_tenant(&tenant(), "x").await, NotFound);
    refused(tenants.close_tenant(&tenant()).await, NotFound);
    fine(tenants.close_tenant(&home).await);
    // Only a user who may have to request its removal again gets in.
    refused(tokens.find(&key.hash).await, NotFound);
    refused(users.login(&his.hash).await, NotFound);
    refused(tenants.membership(&home, &bob.id).await, NotFound);
    assert_eq!(fine(users.login(&here.hash).await), (here.clone(), Some(MemberRole::Owner)));
    assert_eq!(fine(users.login(&there.hash).await), (there.clone(), Some(MemberRole::Owner)));
    fine(tokens.add(&key).await);
    refused(tenants.remove_tenant(&tenant()).await, NotFound);
    fine(tenants.remove_tenant(&home).await);
    refused(tenants.remove_tenant(&home).await, NotFound);
    refused(tenants.tenant(&home).await, NotFound);
    refused(tenants.membership(&home, &ann.id).await, NotFound);
    refused(users.login(&here.hash).await, NotFound);
    assert!(
        fine(
            tokens
                .list(&TokenFilter { tenant: Some(home.clone()), limit: 9, ..TokenFilter::default() })
                .await
        )
        .is_empty()
    );
    // Its members remain, with their data in other tenants.
    assert_eq!(fine(users.user(&ann.id).await).id, ann.id);
    assert_eq!(fine(users.login(&there.hash).await), (there, Some(MemberRole::Owner)));
    assert_eq!(fine(tenants.memberships(&ann.id).await).len(), 1);
}

async fn tenants_are_stored_once(stores: ContractStores<'_>) {
    let ContractStores { tenants, .. } = stores;
    let one = Tenant { id: tenant(), name: "One 汉".to_owned(), created_ms: 7 };
    refused(tenants.tenant(&one.id).await, NotFound);
    let adding = (0..4).map(|_| tenants.add_tenant(&one));
    join_all(adding).await.into_iter().for_each(fine);
    fine(tenants.add_tenant(&Tenant { name: "Other".to_owned(), ..one.clone() }).await);
    assert_eq!(fine(tenants.tenant(&one.id).await), one);
    refused(tenants.add_tenant(&Tenant { id: TenantId::from(""), ..one.clone() }).await, Invalid);
    let mut seen = Vec::new();
    loop {
        let page = fine(tenants.tenants(seen.last(), 2).await);
        assert!(page.len() <= 2);
        if page.is_empty() {
            break;
        }
        seen.extend(page.into_iter().map(|tenant| tenant.id));
    }
    assert_eq!(seen.iter().filter(|id| **id == one.id).count(), 1);
}

async fn users_round_trip(stores: ContractStores<'_>) {
    let ContractStores { users, tenants, .. } = stores;
    let home = new_tenant(stores).await;
    let one = user(5);
    refused(users.user(&one.id).await, NotFound);
    fine(users.add_user(&one, &[member(&home, &one, MemberRole::Owner)]).await);
    assert_eq!(fine(users.user(&one.id).await), one);
    assert_eq!(fine(users.user_by_email(&format!(" {} ", one.email.to_uppercase())).await), one);
    assert_eq!(fine(tenants.memberships(&one.id).await), [member(&home, &one, MemberRole::Owner)]);
    let same = User { email: one.email.to_uppercase(), ..user(6) };
    refused(users.add_user(&same, &[member(&home, &same, MemberRole::Owner)]).await, Conflict);
    assert!(fine(tenants.memberships(&same.id).await).is_empty(), "all of it or nothing");
    refused(users.add_user(&User { email: "  ".to_owned(), ..user(6) }, &[]).await, Invalid);
    let other = user(6);
    fine(users.add_user(&other, &[]).await);
    let address = |email: &str| UserChange { email: Some(email.to_owned()), ..UserChange::default() };
    refused(users.change_user(&other.id, &address(&one.email.to_uppercase())).await, Conflict);
    refused(users.change_user(&other.id, &address(" ")).await, Invalid);
    refused(users.change_user(&user(6).id, &address("nobody@example.org")).await, NotFound);
    let changed = User { nickname: "New".to_owned(), enabled: false, signed_in_ms: Some(9), ..other.clone() };
    // Changes are independent: a change to one field leaves the others as they are.
    for change in [
        UserChange { enabled: Some(false), ..UserChange::default() },
        UserChange { nickname: Some("New".to_owned()), ..UserChange::default() },
        UserChange { signed_in_ms: Some(9), ..UserChange::default() },
    ] {
        fine(users.change_user(&other.id, &change).await);
    }
    assert_eq!(fine(users.user(&other.id).await), changed);
    let listed = fine(users.users("", u64::MAX).await);
    let mut sorted = listed.clone();
    sorted.sort_by(|a, b| a.email.cmp(&b.email));
    assert_eq!(listed, sorted);
    let after = fine(users.users(&one.email, 1).await);
    assert!(after.len() <= 1 && after.iter().all(|user| user.email > one.email));
}

async fn a_tenant_keeps_an_owner(stores: ContractStores<'_>) {
    let ContractStores { users, tenants, .. } = stores;
    let home = new_tenant(stores).await;
    let (ann, bob, carl) = (user(1), user(2), user(3));
    fine(users.add_user(&ann, &[member(&home, &ann, MemberRole::Owner)]).await);
    fine(users.add_user(&carl, &[]).await);
    refused(tenants.set_role(&tenant(), &ann.id, MemberRole::Owner).await, NotFound);
    refused(tenants.set_role(&home, &user(1).id, MemberRole::Owner).await, NotFound);
    refused(tenants.set_role(&home, &carl.id, MemberRole::Owner).await, NotFound);
    refused(tenants.membership(&home, &carl.id).await, NotFound);
    refused(tenants.set_role(&home, &ann.id, MemberRole::Editor).await, Conflict);
    fine(users.add_user(&bob, &[member(&home, &bob, MemberRole::Viewer)]).await);
    refused(tenants.remove_member(&home, &ann.id).await, Conflict);
    refused(users.remove_user(&ann.id).await, Conflict);
    assert_eq!(fine(users.user(&ann.id).await), ann);
    fine(tenants.set_role(&home, &bob.id, MemberRole::Owner).await);
    let roles = fine(tenants.members(&home, 0, 9).await);
    let roles: Vec<_> = roles.into_iter().map(|(one, user)| (user.id, one.role)).collect();
    assert_eq!(roles, [(ann.id.clone(), MemberRole::Owner), (bob.id.clone(), MemberRole::Owner)]);
    let second = fine(tenants.members(&home, 1, 9).await);
    assert_eq!(second.iter().map(|(one, _)| &one.user).collect::<Vec<_>>(), [&bob.id]);
    assert!(fine(tenants.members(&home, 2, 9).await).is_empty());
    let counts = MemberCounts { members: 2, invitations: 0 };
    assert_eq!(fine(tenants.member_counts(&home).await), counts);
    // Both give up ownership concurrently: one of them remains an owner.
    let (first, second) = futures::join!(
        tenants.set_role(&home, &ann.id, MemberRole::Viewer),
        tenants.set_role(&home, &bob.id, MemberRole::Editor)
    );
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    let owners = fine(tenants.members(&home, 0, 9).await);
    assert_eq!(owners.iter().filter(|(one, _)| one.role == MemberRole::Owner).count(), 1);
    let (other, owner) = if first.is_ok() { (&ann, &bob) } else { (&bob, &ann) };
    fine(tenants.remove_member(&home, &other.id).await);
    refused(tenants.remove_member(&home, &other.id).await, NotFound);
    refused(tenants.membership(&home, &other.id).await, NotFound);
    // The only member of a tenant may be removed.
    fine(users.remove_user(&owner.id).await);
    // Where an API key is the only owner, members who are not owners may leave.
    let others = [user(4), user(5), user(6)];
    for one in &others {
        fine(users.add_user(one, &[member(&home, one, MemberRole::Editor)]).await);
    }
    refused(tenants.remove_member(&home, &user(7).id).await, NotFound);
    fine(tenants.remove_member(&home, &others[0].id).await);
    fine(users.remove_user(&others[1].id).await);
    refused(users.remove_user(&owner.id).await, NotFound);
    let left = fine(tenants.members(&home, 0, 9).await);
    assert_eq!(left.iter().map(|(_, user)| &user.id).collect::<Vec<_>>(), [&others[2].id]);
}

fn login(tenant: &TenantId, user: &User, created_ms: i64) -> Login {
    Login {
        hash: generate(),
        user: user.id.clone(),
        tenant: tenant.clone(),
        created_ms,
        expires_ms: created_ms + 1_000,
        last_used_ms: None,
    }
}

async fn sign_ins_belong_to_their_users(stores: ContractStores<'_>) {
    let ContractStores { users, tenants, .. } = stores;
    let (home, away) = (new_tenant(stores).await, new_tenant(stores).await);
    let (ann, bob) = (user(1), user(2));
    fine(users.add_user(&ann, &[member(&home, &ann, MemberRole::Editor)]).await);
    fine(users.add_user(&bob, &[]).await);
    let (first, second, third) = (login(&home, &ann, 10), login(&home, &ann, 20), login(&home, &bob, 30));
    for one in [&first, &second, &third] {
        fine(users.add_login(one).await);
    }
    refused(users.login(&generate()).await, NotFound);
    refused(users.login(&first.hash.to_uppercase()).await, NotFound);
    assert_eq!(fine(users.login(&first.hash).await), (first.clone(), Some(MemberRole::Editor)));
    assert_eq!(fine(users.login(&third.hash).await), (third.clone(), None), "no member there");
    assert_eq!(fine(users.logins(&ann.id, None, 0, 9).await), [second.clone(), first.clone()]);
    assert_eq!(fine(users.logins(&ann.id, None, 0, 1).await), std::slice::from_ref(&second));
    assert_eq!(fine(users.logins(&ann.id, None, 1, 9).await), std::slice::from_ref(&first));
    assert!(fine(users.logins(&ann.id, None, 2, 9).await).is_empty());
    // A position in the list is valid even if its entry no longer exists.
    for place in [(20, second.hash.as_str()), (20, "g"), (15, "")] {
        assert_eq!(fine(users.logins(&ann.id, Some(place), 0, 9).await), std::slice::from_ref(&first));
    }
    assert!(fine(users.logins(&ann.id, Some((10, first.hash.as_str())), 0, 9).await).is_empty());
    for hash in [&first.hash, &generate()] {
        fine(users.move_login(hash, &away).await);
        // The use was recorded by a caller that had read the sign-in before it was moved.
        for at_ms in [40, 30] {
            fine(users.login_used(hash, at_ms).await);
        }
    }
    let moved = Login { tenant: away, last_used_ms: Some(40), ..first.clone() };
    assert_eq!(fine(users.login(&first.hash).await), (moved, None));
    let enabled = |enabled| UserChange { enabled: Some(enabled), ..UserChange::default() };
    fine(users.change_user(&ann.id, &enabled(false)).await);
    refused(users.login(&second.hash).await, NotFound);
    fine(users.change_user(&ann.id, &enabled(true)).await);
    assert_eq!(fine(users.remove_logins(&bob.id, Logins::One(&first.hash)).await), 0, "not Bob's");
    for none in ["%", "", &first.hash, second.id()] {
        assert_eq!(fine(users.remove_logins(&bob.id, Logins::Named(none)).await), 0, "not Bob's: {none}");
    }
    assert_eq!(fine(users.remove_logins(&ann.id, Logins::Named(first.id())).await), 1);
    fine(users.add_login(&first).await);
    assert_eq!(fine(users.remove_logins(&ann.id, Logins::Others(&second.hash)).await), 1);
    refused(users.login(&first.hash).await, NotFound);
    assert_eq!(fine(users.remove_logins(&ann.id, Logins::One(&second.hash)).await), 1);
    assert_eq!(fine(users.remove_logins(&bob.id, Logins::All).await), 1);
    // Far in the past, so that nothing else is found.
    let old = login(&home, &ann, -9_000_000);
    fine(users.add_login(&old).await);
    assert_eq!(fine(users.remove_expired_logins(-8_999_000).await), 0, "it expires in this millisecond");
    assert_eq!(fine(users.remove_expired_logins(-8_998_999).await), 1);
    fine(tenants.remove_member(&home, &ann.id).await);
}

async fn the_oldest_of_too_many_sign_ins_end(stores: ContractStores<'_>) {
    let ContractStores { users, .. } = stores;
    let home = new_tenant(stores).await;
    let (ann, bob) = (user(1), user(2));
    for one in [&ann, &bob] {
        fine(users.add_user(one, &[member(&home, one, MemberRole::Editor)]).await);
    }
    let (oldest, his) = (login(&home, &ann, 1), login(&home, &bob, 1));
    for one in [&oldest, &his] {
        fine(users.add_login(one).await);
    }
    for created_ms in (2..).take(usize::try_from(LOGINS_MAX).unwrap_or_default() - 1) {
        fine(users.add_login(&login(&home, &ann, created_ms)).await);
    }
    fine(users.login(&oldest.hash).await);
    let newest = login(&home, &ann, 1_000_000);
    fine(users.add_login(&newest).await);
    refused(users.login(&oldest.hash).await, NotFound);
    let left = fine(users.logins(&ann.id, None, 0, LOGINS_MAX + 9).await);
    assert_eq!((left.len() as u64, &left[0]), (LOGINS_MAX, &newest));
    fine(users.login(&his.hash).await);
    assert_eq!(fine(users.remove_logins(&ann.id, Logins::All).await), LOGINS_MAX);
}

async fn credentials_of_a_member_end_with_the_membership(stores: ContractStores<'_>) {
    let ContractStores { users, tenants, tokens } = stores;
    let (home, away) = (new_tenant(stores).await, new_tenant(stores).await);
    let ann = user(1);
    let both = [member(&home, &ann, MemberRole::Owner), member(&away, &ann, MemberRole::User)];
    fine(users.add_user(&ann, &both).await);
    let listed = fine(tenants.memberships(&ann.id).await);
    assert_eq!(listed, both, "the greatest role first");
    let key = |tenant: &TenantId, user: Option<&User>| StoredToken {
        tenant: tenant.clone(),
        hash: generate(),
        name: "key".to_owned(),
        role: MemberRole::User,
        user: user.map(|user| user.id.clone()),
        created_ms: 3,
        last_used_ms: None,
    };
    let (there, here, nobodys) = (key(&away, Some(&ann)), key(&home, Some(&ann)), key(&away, None));
    for one in [&there, &here, &nobodys] {
        fine(tokens.add(one).await);
    }
    let logins = [login(&away, &ann, 10), login(&home, &ann, 10)];
    for one in &logins {
        fine(users.add_login(one).await);
    }
    fine(tenants.remove_member(&away, &ann.id).await);
    refused(tokens.find(&there.hash).await, NotFound);
    refused(users.login(&logins[0].hash).await, NotFound);
    assert_eq!(fine(tokens.find(&here.hash).await), here);
    assert_eq!(fine(tokens.find(&nobodys.hash).await), nobodys);
    fine(users.login(&logins[1].hash).await);
    fine(users.remove_user(&ann.id).await);
    refused(tokens.find(&here.hash).await, NotFound);
    refused(users.login(&logins[1].hash).await, NotFound);
    refused(users.user_by_email(&ann.email).await, NotFound);
}

fn invitation(tenant: &TenantId, email: &str, role: MemberRole) -> Invitation {
    Invitation {
        hash: generate(),
        tenant: tenant.clone(),
        email: email.to_owned(),
        role,
        invited_by: "user:x".to_owned(),
        created_ms: 5,
        expires_ms: 9,
    }
}

async fn an_invitation_is_accepted_once(stores: ContractStores<'_>) {
    let ContractStores { users, tenants, .. } = stores;
    let home = new_tenant(stores).await;
    let ann = user(1);
    let lost = invitation(&tenant(), &ann.email, MemberRole::User);
    refused(tenants.add_invitation(&lost).await, NotFound);
    let replaced = invitation(&home, &ann.email, MemberRole::User);
    fine(tenants.add_invitation(&replaced).await);
    let one = invitation(&home, &ann.email.to_uppercase(), MemberRole::Editor);
    fine(tenants.add_invitation(&one).await);
    refused(tenants.invitation(&replaced.hash).await, NotFound);
    let one = Invitation { email: ann.email.clone(), ..one };
    assert_eq!(fine(tenants.invitation(&one.hash).await), one);
    assert_eq!(fine(tenants.invitations(&home, 0, 9).await), std::slice::from_ref(&one));
    assert!(fine(tenants.invitations(&home, 1, 9).await).is_empty());
    assert_eq!(fine(tenants.member_counts(&home).await).invitations, 1);
    assert_eq!(fine(tenants.invitations_for(&ann.email.to_uppercase()).await), std::slice::from_ref(&one));
    refused(tenants.remove_invitation(&tenant(), &one.hash).await, NotFound);
    let nobody = UserId::generate();
    refused(tenants.accept_invitation(&one, Joining::Known(&nobody), 7).await, NotFound);
    fine(tenants.invitation(&one.hash).await);
    let both = [Joining::New(&ann), Joining::New(&ann)];
    let accepted = join_all(both.into_iter().map(|who| tenants.accept_invitation(&one, who, 7))).await;
    assert_eq!(accepted.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{accepted:?}");
    assert_eq!(fine(users.user(&ann.id).await), ann);
    assert_eq!(fine(tenants.membership(&home, &ann.id).await).role, MemberRole::Editor);
    let lower = invitation(&home, &ann.email, MemberRole::Viewer);
    fine(tenants.add_invitation(&lower).await);
    fine(tenants.accept_invitation(&lower, Joining::Known(&ann.id), 8).await);
    assert_eq!(fine(tenants.membership(&home, &ann.id).await).role, MemberRole::Editor, "the greater role");
    let taken = invitation(&home, "x@example.com", MemberRole::User);
    fine(tenants.add_invitation(&taken).await);
    let same = User { email: ann.email.clone(), ..user(3) };
    refused(tenants.accept_invitation(&taken, Joining::New(&same), 8).await, Conflict);
    fine(tenants.remove_invitation(&home, &taken.hash).await);
    refused(tenants.remove_invitation(&home, &taken.hash).await, NotFound);
}

async fn open_invitations_are_limited(stores: ContractStores<'_>) {
    let tenants = stores.tenants;
    let home = new_tenant(stores).await;
    let one = |nth: u64| invitation(&home, &format!("{nth}@example.com"), MemberRole::User);
    for nth in 0..INVITATIONS_MAX {
        fine(tenants.add_invitation(&one(nth)).await);
    }
    refused(tenants.add_invitation(&one(INVITATIONS_MAX)).await, QuotaExceeded);
    // A replacement fits, and so does an invitation in place of one that has expired by then.
    fine(tenants.add_invitation(&one(0)).await);
    assert_eq!(fine(tenants.member_counts(&home).await).invitations, INVITATIONS_MAX);
    let later = Invitation { created_ms: 9, expires_ms: 20, ..one(INVITATIONS_MAX) };
    fine(tenants.add_invitation(&later).await);
    assert_eq!(fine(tenants.invitations(&home, 0, 9).await), [later]);
}

/// Checks the contract of [`ShareStore`].
pub async fn share_store_keeps_its_contract(store: &dyn ShareStore) {
    let tenant = tenant();
    let agent = ShareTarget::Agent(CanvasId::generate());
    // Agents and assistants have separate ids, which may be equal.
    let chat = ShareTarget::Chat(agent.id().clone());
    let share = |target: &ShareTarget, created_ms: i64| ShareToken {
        tenant: tenant.clone(),
        target: target.clone(),
        hash: generate(),
        name: "page 🦜".to_owned(),
        created_ms,
        expires_ms: (created_ms > 1).then_some(99),
        last_used_ms: None,
    };
    let (first, second, other) = (share(&agent, 1), share(&agent, 2), share(&chat, 3));
    refused(store.share(&first.hash).await, NotFound);
    for one in [&second, &first, &other] {
        fine(store.add_share(one).await);
    }
    refused(store.add_share(&first).await, Conflict);
    assert_eq!(fine(store.share(&first.hash).await), first);
    refused(store.share(&first.hash.to_uppercase()).await, NotFound);
    assert_eq!(fine(store.shares(&tenant, &agent, 9).await), [first.clone(), second.clone()]);
    assert_eq!(fine(store.shares(&tenant, &agent, 1).await), std::slice::from_ref(&first));
    assert_eq!(fine(store.shares(&tenant, &chat, 9).await), std::slice::from_ref(&other));
    let stranger = super::tenant();
    assert!(fine(store.shares(&stranger, &agent, 9).await).is_empty());
    for at_ms in [50, 40] {
        fine(store.share_used(&first.hash, at_ms).await);
    }
    fine(store.share_used(&generate(), 60).await);
    assert_eq!(fine(store.share(&first.hash).await).last_used_ms, Some(50));
    refused(store.remove_share(&stranger, &agent, &first.hash).await, NotFound);
    refused(store.remove_share(&tenant, &chat, &first.hash).await, NotFound);
    fine(store.remove_share(&tenant, &agent, &first.hash).await);
    refused(store.share(&first.hash).await, NotFound);
    assert_eq!(fine(store.remove_shares(&stranger, &agent).await), 0);
    assert_eq!(fine(store.remove_shares(&tenant, &agent).await), 1);
    assert_eq!(fine(store.share(&other.hash).await), other);
    for nth in 1..SHARES_MAX {
        fine(store.add_share(&share(&agent, i64::try_from(nth).unwrap_or_default())).await);
    }
    // There is room for one more, even under concurrent requests.
    let many: Vec<ShareToken> = (0..4).map(|_| share(&agent, 1)).collect();
    let added = join_all(many.iter().map(|one| store.add_share(one))).await;
    assert_eq!(added.iter().filter(|added| added.is_ok()).count(), 1);
    refused(store.add_share(&share(&agent, 1)).await, QuotaExceeded);
    fine(store.add_share(&share(&chat, 1)).await);
}
