//! Users. The table is called `account`, because `user` is a reserved word in SQL.

use sea_orm::entity::prelude::*;
use sea_orm::{Condition, ConnectionTrait, IntoActiveModel, Order, QueryOrder, QuerySelect};
use weft_core::access::MemberRole;
use weft_core::id::{TenantId, UserId};
use weft_core::seam::UserStore;
use weft_core::seam::tenant_store::Membership;
use weft_core::seam::user_store::{LOGINS_MAX, Login, Logins, User, UserChange};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, bounded, fold, text};
use crate::open::repeated;
use crate::rows::tenant::{self, MemberChange};
use crate::rows::{behind, identity, login, membership, token};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "account")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// In lower case: unique.
    pub email: String,
    pub nickname: String,
    pub password_hash: String,
    pub enabled: i64,
    pub created_ms: i64,
    /// 0 until their first sign-in.
    pub signed_in_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    pub(crate) fn new(user: &User) -> Result<Self> {
        ids::check("user", user.id.as_str())?;
        let email = address(&user.email)?;
        Ok(Self {
            id: user.id.as_str().to_owned(),
            email,
            nickname: text(&user.nickname),
            password_hash: user.password_hash.clone(),
            enabled: i64::from(user.enabled),
            created_ms: user.created_ms,
            signed_in_ms: user.signed_in_ms.unwrap_or(0),
        })
    }
}

/// An address in the form in which it is stored and compared.
fn address(email: &str) -> Result<String> {
    let email = fold(email.trim());
    ids::check("e-mail address as an", &email)?;
    Ok(email)
}

impl From<Model> for User {
    fn from(row: Model) -> Self {
        Self {
            id: UserId::from(row.id),
            email: row.email,
            nickname: row.nickname,
            password_hash: row.password_hash,
            enabled: row.enabled != 0,
            created_ms: row.created_ms,
            signed_in_ms: (row.signed_in_ms > 0).then_some(row.signed_in_ms),
        }
    }
}

fn taken() -> Error {
    Error::new(ErrorKind::Conflict, "another user has this e-mail address")
}

fn of_login(hash: &str) -> Condition {
    Condition::all().add(login::Column::Hash.eq(text(hash)))
}

pub(crate) fn no_user() -> Error {
    Error::not_found("there is no such user")
}

impl Store {
    async fn user_by(&self, condition: Condition) -> Result<User> {
        let found = Entity::find().filter(condition).one(&self.inner.read).await;
        let found = found.map_err(|error| self.fail("read the user", error))?;
        found.map(User::from).ok_or_else(no_user)
    }

    async fn change_login(&self, which: Condition, column: login::Column, value: Expr) -> Result<()> {
        let _permit = self.inner.gate.permit().await;
        let change = login::Entity::update_many().col_expr(column, value).filter(which);
        let changed = repeated(|| change.clone().exec(&self.inner.write)).await;
        changed.map(drop).map_err(|error| self.fail("change the sign-in", error))
    }

    async fn write_login(&self, row: &login::Model) -> Result<(), DbErr> {
        let transaction = self.begin().await?;
        login::Entity::insert(row.clone().into_active_model()).exec_without_returning(&*transaction).await?;
        let last_kept: Option<(i64, String)> = login::Entity::find()
            .select_only()
            .columns([login::Column::CreatedMs, login::Column::Hash])
            .filter(login::Column::UserId.eq(&row.user_id))
            .order_by_desc(login::Column::CreatedMs)
            .order_by_asc(login::Column::Hash)
            .offset(LOGINS_MAX - 1)
            .into_tuple()
            .one(&*transaction)
            .await?;
        if let Some((created_ms, hash)) = last_kept {
            let time = (login::Column::CreatedMs, Order::Desc, created_ms);
            login::Entity::delete_many()
                .filter(login::Column::UserId.eq(&row.user_id))
                .filter(behind(time, (login::Column::Hash, Order::Asc, hash)))
                // Of several from the same millisecond, the new one must not be the one to go.
                .filter(login::Column::Hash.ne(&row.hash))
                .exec(&*transaction)
                .await?;
        }
        transaction.commit().await
    }

    async fn write_user(&self, row: &Model, memberships: &[Membership]) -> Result<(), DbErr> {
        let transaction = self.begin().await?;
        Entity::insert(row.clone().into_active_model()).exec_without_returning(&*transaction).await?;
        for one in memberships {
            membership::Model::new(one).put(&*transaction).await?;
        }
        transaction.commit().await
    }

    async fn erase_user(&self, id: &UserId) -> Result<MemberChange, DbErr> {
        // Outside of the transaction: MariaDB fixes a transaction's view at its first read, and the owners have to be
        // seen as they are when no other writer can change them.
        let theirs = membership::Entity::find()
            .filter(membership::Column::UserId.eq(text(id.as_str())))
            .order_by_asc(membership::Column::TenantId)
            .all(&self.inner.write)
            .await?;
        let transaction = self.begin().await?;
        // In the order of their ids, so that two writers that lock several do not deadlock.
        for one in &theirs {
            tenant::lock(&*transaction, &one.tenant_id).await?;
            if !membership::may_leave(&*transaction, &one.tenant_id, id).await? {
                transaction.rollback().await?;
                return Ok(MemberChange::LastOwner);
            }
        }
        forget(&*transaction, None, id).await?;
        membership::Entity::delete_many()
            .filter(membership::Column::UserId.eq(text(id.as_str())))
            .exec(&*transaction)
            .await?;
        let gone = Entity::delete_many().filter(Column::Id.eq(text(id.as_str()))).exec(&*transaction).await?;
        if gone.rows_affected == 0 {
            transaction.rollback().await?;
            return Ok(MemberChange::NoUser);
        }
        // Last: an identity that was being added has held the user's row, so it is there by now.
        identity::forget(&*transaction, id).await?;
        transaction.commit().await?;
        Ok(MemberChange::Done)
    }
}

/// Removes the sign-ins and API keys of a user, for one tenant or for all.
pub(crate) async fn forget(
    db: &impl ConnectionTrait,
    tenant: Option<&TenantId>,
    user: &UserId,
) -> Result<(), DbErr> {
    let mut logins = login::Entity::delete_many().filter(login::Column::UserId.eq(text(user.as_str())));
    let mut keys = token::Entity::delete_many().filter(token::Column::UserId.eq(text(user.as_str())));
    if let Some(tenant) = tenant {
        logins = logins.filter(login::Column::TenantId.eq(text(tenant.as_str())));
        keys = keys.filter(token::Column::TenantId.eq(text(tenant.as_str())));
    }
    logins.exec(db).await?;
    keys.exec(db).await.map(drop)
}

#[async_trait]
impl UserStore for Store {
    async fn add_user(&self, user: &User, memberships: &[Membership]) -> Result<()> {
        let row = Model::new(user)?;
        repeated(|| self.write_user(&row, memberships))
            .await
            .map_err(|error| if is_duplicate(&error) { taken() } else { self.fail("store the user", error) })
    }

    async fn user(&self, id: &UserId) -> Result<User> {
        self.user_by(Column::Id.eq(text(id.as_str())).into()).await
    }

    async fn user_by_email(&self, email: &str) -> Result<User> {
        self.user_by(Column::Email.eq(fold(email.trim())).into()).await
    }

    async fn change_user(&self, id: &UserId, change: &UserChange) -> Result<()> {
        let email = change.email.as_deref().map(address).transpose()?;
        let values = [
            (Column::Email, email.map(Expr::value)),
            (Column::Nickname, change.nickname.as_deref().map(|name| Expr::value(text(name)))),
            (Column::PasswordHash, change.password_hash.clone().map(Expr::value)),
            (Column::Enabled, change.enabled.map(|enabled| Expr::value(i64::from(enabled)))),
            (Column::SignedInMs, change.signed_in_ms.map(Expr::value)),
        ];
        let mut update = Entity::update_many().filter(Column::Id.eq(text(id.as_str())));
        for (column, value) in values.into_iter().filter_map(|(column, value)| Some((column, value?))) {
            update = update.col_expr(column, value);
        }
        let permit = self.inner.gate.permit().await;
        let changed = repeated(|| update.clone().exec(&self.inner.write)).await;
        drop(permit);
        let changed = changed.map_err(|error| {
            if is_duplicate(&error) { taken() } else { self.fail("change the user", error) }
        })?;
        if changed.rows_affected == 0 { Err(no_user()) } else { Ok(()) }
    }

    async fn users(&self, after: &str, count_max: u64) -> Result<Vec<User>> {
        let rows = Entity::find()
            .filter(Column::Email.gt(fold(after)))
            .order_by_asc(Column::Email)
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("list the users", error))?;
        Ok(rows.into_iter().map(User::from).collect())
    }

    async fn remove_user(&self, id: &UserId) -> Result<()> {
        let changed = repeated(|| self.erase_user(id)).await;
        changed.map_err(|error| self.fail("remove the user", error))?.into_result()
    }

    async fn add_login(&self, login: &Login) -> Result<()> {
        ids::check("sign-in", &login.hash)?;
        let row = login::Model::from(login);
        repeated(|| self.write_login(&row)).await.map_err(|error| self.fail("store the sign-in", error))
    }

    async fn login(&self, hash: &str) -> Result<(Login, Option<MemberRole>)> {
        let fail = |error| self.fail("read the sign-in", error);
        let unknown = || Error::not_found("there is no such sign-in");
        let row = login::Entity::find_by_id(text(hash)).one(&self.inner.read).await.map_err(fail)?;
        let login = Login::from(row.ok_or_else(unknown)?);
        let user = Entity::find_by_id(text(login.user.as_str())).one(&self.inner.read).await.map_err(fail)?;
        // At each use and not when a user is disabled: existing sign-ins have to end as well.
        if user.is_none_or(|user| user.enabled == 0) {
            return Err(unknown());
        }
        let member = membership::Entity::find()
            .filter(membership::of(&login.tenant, &login.user))
            .one(&self.inner.read)
            .await
            .map_err(fail)?;
        let role = member.map(|row| row.role.parse()).transpose()?;
        Ok((login, role))
    }

    async fn logins(
        &self,
        user: &UserId,
        after: Option<(i64, &str)>,
        offset: u64,
        count_max: u64,
    ) -> Result<Vec<Login>> {
        let mut found = login::Entity::find().filter(login::Column::UserId.eq(text(user.as_str())));
        if let Some((created_ms, hash)) = after {
            let time = (login::Column::CreatedMs, Order::Desc, created_ms);
            found = found.filter(behind(time, (login::Column::Hash, Order::Asc, text(hash))));
        }
        let rows = found
            .order_by_desc(login::Column::CreatedMs)
            .order_by_asc(login::Column::Hash)
            .offset(bounded(offset))
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("list the sign-ins", error))?;
        Ok(rows.into_iter().map(Login::from).collect())
    }

    async fn login_used(&self, hash: &str, at_ms: i64) -> Result<()> {
        // Uses are recorded concurrently, in any order: an earlier one must not replace a later one.
        let used_before = of_login(hash).add(login::Column::LastUsedMs.lt(at_ms));
        self.change_login(used_before, login::Column::LastUsedMs, Expr::value(at_ms)).await
    }

    async fn move_login(&self, hash: &str, tenant: &TenantId) -> Result<()> {
        self.change_login(of_login(hash), login::Column::TenantId, Expr::value(text(tenant.as_str()))).await
    }

    async fn remove_logins(&self, user: &UserId, which: Logins<'_>) -> Result<u64> {
        let theirs = login::Entity::delete_many().filter(login::Column::UserId.eq(text(user.as_str())));
        let removal = match which {
            Logins::All => theirs,
            Logins::One(hash) => theirs.filter(login::Column::Hash.eq(text(hash))),
            Logins::Named(id) => match ids::hashes_of(id) {
                Some(hashes) => theirs.filter(login::Column::Hash.like(hashes)),
                None => return Ok(0),
            },
            Logins::Others(kept) => theirs.filter(login::Column::Hash.ne(text(kept))),
        };
        let _permit = self.inner.gate.permit().await;
        let removed = repeated(|| removal.clone().exec(&self.inner.write)).await;
        Ok(removed.map_err(|error| self.fail("remove the sign-ins", error))?.rows_affected)
    }

    async fn remove_expired_logins(&self, before_ms: i64) -> Result<u64> {
        let removal = login::Entity::delete_many().filter(login::Column::ExpiresMs.lt(before_ms));
        let _permit = self.inner.gate.permit().await;
        let removed = repeated(|| removal.clone().exec(&self.inner.write)).await;
        Ok(removed.map_err(|error| self.fail("remove the sign-ins", error))?.rows_affected)
    }
}
