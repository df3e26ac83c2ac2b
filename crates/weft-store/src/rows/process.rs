//! Processes that work on runs.

use sea_orm::IntoActiveModel;
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict, Query};
use weft_core::seam::ProcessStore;
use weft_core::seam::process_store::{ProcessPlace, StoredProcess};
use weft_core::{ProcessId, Result, async_trait};

use crate::Store;
use crate::ids::{self, text};
use crate::open::repeated;
use crate::rows::run;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "process")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Empty when the host of the process is unknown.
    pub host: String,
    pub boot: String,
    pub pid: i64,
    pub started: i64,
    pub beat: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    fn first(id: &ProcessId, place: Option<&ProcessPlace>) -> Self {
        let name =
            |part: fn(&ProcessPlace) -> &String| place.map(|place| text(part(place))).unwrap_or_default();
        Self {
            id: id.as_str().to_owned(),
            host: name(|place| &place.host),
            boot: name(|place| &place.boot),
            pid: place.map_or(0, |place| i64::from(place.pid)),
            started: place.map_or(0, |place| place.started.cast_signed()),
            beat: 1,
        }
    }

    fn into_process(self) -> StoredProcess {
        let Self { id, host, boot, pid, started, beat } = self;
        let pid = u32::try_from(pid).ok().filter(|_| !host.is_empty());
        let place = pid.map(|pid| ProcessPlace { host, boot, pid, started: started.cast_unsigned() });
        StoredProcess { id: id.into(), place, beat }
    }
}

#[async_trait]
impl ProcessStore for Store {
    async fn beat(&self, id: &ProcessId, place: Option<&ProcessPlace>) -> Result<()> {
        ids::check("process", id.as_str())?;
        place.map_or(Ok(()), |place| {
            ids::fits("machine", &place.host).and_then(|()| ids::fits("start of the machine", &place.boot))
        })?;
        let row = Model::first(id, place).into_active_model();
        let again = OnConflict::column(Column::Id)
            // A counter and not a time: each process watches with its own clock whether it still grows.
            .value(Column::Beat, Expr::col((Entity, Column::Beat)).add(1))
            .to_owned();
        let _permit = self.inner.gate.permit().await;
        let say = async || {
            let row = Entity::insert(row.clone()).on_conflict(again.clone());
            row.exec_without_returning(&self.inner.write).await
        };
        repeated(say).await.map_err(|error| self.fail("store that the process is at work", error))?;
        Ok(())
    }

    async fn list(&self) -> Result<Vec<StoredProcess>> {
        let rows = Entity::find().order_by_asc(Column::Id).all(&self.inner.read).await;
        let rows = rows.map_err(|error| self.fail("read which processes are at work", error))?;
        Ok(rows.into_iter().map(Model::into_process).collect())
    }

    async fn forget(&self, id: &ProcessId, beat: i64) -> Result<bool> {
        let owners = Query::select()
            .column(run::Column::Owner)
            .from(run::Entity)
            .and_where(run::Column::Ending.is_null())
            .and_where(run::Column::Owner.eq(text(id.as_str())))
            .take();
        let _permit = self.inner.gate.permit().await;
        let forget = async || {
            Entity::delete_many()
                .filter(Column::Id.eq(text(id.as_str())))
                .filter(Column::Beat.eq(beat))
                // In the removing statement and not in a check before it: a run may have started in between.
                .filter(Expr::exists(owners.clone()).not())
                .exec(&self.inner.write)
                .await
        };
        let forgotten = repeated(forget).await.map_err(|error| self.fail("forget the process", error))?;
        Ok(forgotten.rows_affected > 0)
    }
}
