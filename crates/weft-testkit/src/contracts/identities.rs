//! Contract of the store for identities of users at OpenID providers.

use futures::future::join_all;
use weft_core::ErrorKind::{Conflict, Denied, NotFound, QuotaExceeded, RateLimited};
use weft_core::id::{UserId, generate};
use weft_core::seam::identity_store::{AuthorizationRequest, IDENTITIES_MAX, Identity};
use weft_core::seam::user_store::User;
use weft_core::seam::{IdentityStore, UserStore};

use super::{fine, refused};

/// A time for which no other test stores requests: expired ones are removed for all users.
const LATE_MS: i64 = i64::MAX / 2;

async fn new_user(users: &dyn UserStore) -> UserId {
    let id = UserId::generate();
    let user = User {
        email: format!("{id}@example.com"),
        nickname: String::new(),
        password_hash: String::new(),
        enabled: true,
        created_ms: 1,
        signed_in_ms: None,
        id: id.clone(),
    };
    fine(users.add_user(&user, &[]).await);
    id
}

fn identity(user: &UserId, created_ms: i64) -> Identity {
    Identity {
        hash: generate(),
        user: user.clone(),
        provider: "corp".to_owned(),
        issuer: format!("https://login.example.com/{}", "ü".repeat(300)),
        subject: "Ünïcode 🦜".repeat(30),
        email: "ann@example.com".to_owned(),
        created_ms,
        used_ms: None,
    }
}

fn request(user: Option<&UserId>, expires_ms: i64) -> AuthorizationRequest {
    AuthorizationRequest {
        hash: generate(),
        browser_hash: generate(),
        provider: "corp".to_owned(),
        issuer: "https://login.example.com".to_owned(),
        nonce: "n".repeat(43),
        verifier: "v".repeat(43),
        next: format!("/{}", "x".repeat(2_000)),
        user: user.cloned(),
        expires_ms,
    }
}

/// Checks the contract of [`IdentityStore`].
pub async fn identity_store_keeps_its_contract(users: &dyn UserStore, store: &dyn IdentityStore) {
    an_identity_is_one_users(users, store).await;
    identities_have_a_minimum_and_a_maximum(users, store).await;
    a_request_is_taken_once(users, store).await;
}

async fn an_identity_is_one_users(users: &dyn UserStore, store: &dyn IdentityStore) {
    let (ann, bob) = (new_user(users).await, new_user(users).await);
    let (first, second) = (identity(&ann, 5), identity(&ann, 6));
    refused(store.identity(&first.hash).await, NotFound);
    refused(store.add_identity(&identity(&UserId::generate(), 5)).await, NotFound);
    fine(store.add_identity(&second).await);
    join_all((0..4).map(|_| store.add_identity(&first))).await.into_iter().for_each(fine);
    assert_eq!(fine(store.identity(&first.hash).await), first);
    assert_eq!(fine(store.identities(&ann, 9).await), [first.clone(), second.clone()]);
    assert_eq!(fine(store.identities(&ann, 1).await), std::slice::from_ref(&first));
    refused(store.add_identity(&Identity { user: bob.clone(), ..first.clone() }).await, Conflict);
    // An existing identity is not changed.
    fine(store.add_identity(&Identity { created_ms: 99, ..first.clone() }).await);
    fine(store.identity_used(&first.hash, "new@example.com", 70).await);
    fine(store.identity_used(&generate(), "new@example.com", 70).await);
    let used = Identity { used_ms: Some(70), email: "new@example.com".to_owned(), ..first.clone() };
    assert_eq!(fine(store.identity(&first.hash).await), used);
    refused(store.remove_identity(&bob, &first.hash).await, NotFound);
    fine(store.remove_identity(&ann, &first.hash).await);
    refused(store.remove_identity(&ann, &first.hash).await, NotFound);
    // Another user can have it then.
    fine(store.add_identity(&Identity { user: bob.clone(), ..first.clone() }).await);
    fine(users.remove_user(&ann).await);
    refused(store.identity(&second.hash).await, NotFound);
    assert_eq!(fine(store.identities(&bob, 9).await).len(), 1);
    an_identity_never_outlives_its_user(users, store).await;
}

async fn identities_have_a_minimum_and_a_maximum(users: &dyn UserStore, store: &dyn IdentityStore) {
    let (ann, bob) = (new_user(users).await, new_user(users).await);
    let mut theirs: Vec<Identity> = (1..20).map(|n| identity(&ann, n)).collect();
    for one in &theirs {
        fine(store.add_identity(one).await);
    }
    // There is room for one more, even under concurrent requests.
    let many: Vec<Identity> = (20..24).map(|n| identity(&ann, n)).collect();
    let added = join_all(many.iter().map(|one| store.add_identity(one))).await;
    theirs.extend(many.iter().zip(&added).filter(|(_, added)| added.is_ok()).map(|(one, _)| one.clone()));
    assert_eq!(theirs.len() as u64, IDENTITIES_MAX);
    for error in added.into_iter().filter_map(Result::err) {
        assert_eq!(error.kind, QuotaExceeded, "{error}");
    }
    // An existing identity needs no room.
    fine(store.add_identity(&theirs[0]).await);
    fine(store.add_identity(&identity(&bob, 1)).await);
    // A user without a password keeps one, also if all are removed concurrently.
    let removed = join_all(theirs.iter().map(|one| store.remove_identity(&ann, &one.hash))).await;
    let kept: Vec<_> = removed.into_iter().filter_map(Result::err).map(|error| error.kind).collect();
    assert_eq!(kept, [Denied]);
    assert_eq!(fine(store.identities(&ann, 99).await).len(), 1);
}

async fn an_identity_never_outlives_its_user(users: &dyn UserStore, store: &dyn IdentityStore) {
    for _ in 0..8 {
        let user = new_user(users).await;
        let one = identity(&user, 1);
        let (added, removed) = futures::join!(store.add_identity(&one), users.remove_user(&user));
        fine(removed);
        if let Err(error) = added {
            assert_eq!(error.kind, NotFound, "{error}");
        }
        refused(store.identity(&one.hash).await, NotFound);
    }
}

async fn a_request_is_taken_once(users: &dyn UserStore, store: &dyn IdentityStore) {
    let ann = new_user(users).await;
    let (one, hers) = (request(None, LATE_MS), request(Some(&ann), LATE_MS));
    refused(store.take_authorization_request(&one.hash).await, NotFound);
    fine(store.add_authorization_request(&one, 1, u64::MAX).await);
    fine(store.add_authorization_request(&hers, 1, u64::MAX).await);
    assert_eq!(fine(store.take_authorization_request(&hers.hash).await), hers);
    let taken = join_all((0..4).map(|_| store.take_authorization_request(&one.hash))).await;
    let taken: Vec<AuthorizationRequest> = taken.into_iter().filter_map(Result::ok).collect();
    assert_eq!(taken, [one]);
    // Their number is limited, and expired ones make room.
    let (early, late) = (request(None, 10), request(None, LATE_MS));
    fine(store.add_authorization_request(&early, 9, u64::MAX).await);
    refused(store.add_authorization_request(&late, 9, 0).await, RateLimited);
    assert_eq!(fine(store.take_authorization_request(&early.hash).await), early);
    fine(store.add_authorization_request(&early, 9, u64::MAX).await);
    fine(store.add_authorization_request(&late, 10, u64::MAX).await);
    refused(store.take_authorization_request(&early.hash).await, NotFound);
    assert_eq!(fine(store.take_authorization_request(&late.hash).await), late);
    // Requests of a user are removed with the user.
    let hers = request(Some(&ann), LATE_MS);
    fine(store.add_authorization_request(&hers, 1, u64::MAX).await);
    fine(users.remove_user(&ann).await);
    refused(store.take_authorization_request(&hers.hash).await, NotFound);
}
