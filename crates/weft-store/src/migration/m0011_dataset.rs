//! Datasets with their documents, the chunks of these, and the other data derived from them. A document is also its
//! own entry in the queue of documents to read.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    dataset(&c, manager).await?;
    document(&c, manager).await?;
    chunk(&c, manager).await?;
    document_extra(&c, manager).await
}

async fn dataset(c: &Columns, manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let dataset = c
        .table("dataset")
        .col(c.id("tenant_id"))
        .col(c.id("id"))
        .col(c.id("name"))
        .col(c.id("name_folded"))
        .col(c.long_text("avatar"))
        .col(c.long_text("description"))
        .col(c.id("language"))
        .col(c.id("permission"))
        .col(c.id("embedder"))
        .col(c.id("method"))
        .col(c.long_text("settings"))
        .col(c.fraction("similarity_threshold"))
        .col(c.fraction("vector_similarity_weight"))
        .col(c.number("pagerank"))
        .col(c.number("created_ms"))
        .col(c.number("updated_ms"))
        .primary_key(Index::create().col("tenant_id").col("id"))
        .index(Index::create().unique().name("dataset_name").col("tenant_id").col("name_folded"))
        .take();
    manager.create_table(dataset).await
}

async fn document(c: &Columns, manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let document = c
        .table("document")
        .col(c.id("tenant_id"))
        .col(c.id("dataset_id"))
        .col(c.id("id"))
        .col(c.id("name"))
        .col(c.id("name_folded"))
        .col(c.id("suffix"))
        .col(c.number("size"))
        .col(c.id("blob"))
        .col(c.id("method"))
        .col(c.long_text("settings"))
        .col(c.long_text("metadata"))
        .col(c.number("enabled"))
        .col(c.id("state"))
        .col(c.fraction("progress"))
        .col(c.long_text("message"))
        .col(c.number("begun_ms").null())
        .col(c.number("duration_ms"))
        .col(c.number("chunk_count"))
        .col(c.number("token_count"))
        .col(c.number("created_ms"))
        .col(c.number("updated_ms"))
        // Its entry in the queue.
        .col(c.id("stage"))
        .col(c.number("taken"))
        .col(c.number("taken_ms"))
        .col(c.number("at_ms"))
        .col(c.number("fence"))
        .col(c.number("attempts"))
        .col(c.number("wanted"))
        .col(c.number("new_chunks"))
        .col(c.number("new_tokens"))
        // 1 while the index may be out of date.
        .col(c.number("unindexed"))
        .primary_key(Index::create().col("tenant_id").col("dataset_id").col("id"))
        .index(
            Index::create()
                .unique()
                .name("document_name")
                .col("tenant_id")
                .col("dataset_id")
                .col("name_folded"),
        )
        .take();
    manager.create_table(document).await?;
    let by_state =
        Index::create().name("document_by_state").table("document").col("state").col("at_ms").take();
    manager.create_index(by_state).await?;
    let unindexed =
        Index::create().name("document_unindexed").table("document").col("unindexed").col("id").take();
    manager.create_index(unindexed).await
}

async fn chunk(c: &Columns, manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let chunk = c
        .table("chunk")
        .col(c.id("tenant_id"))
        .col(c.id("id"))
        // 1 for a chunk that is not searchable yet: its document is being read again.
        .col(c.number("fresh"))
        .col(c.id("dataset_id"))
        .col(c.id("document_id"))
        .col(c.number("ordinal"))
        .col(c.id("kind"))
        .col(c.long_text("content"))
        .col(c.long_text("searched").null())
        .col(c.long_text("headings"))
        .col(c.long_text("positions"))
        .col(c.long_text("keywords"))
        .col(c.long_text("questions"))
        .col(c.long_text("fields"))
        .col(c.id("parent_id").null())
        .col(c.number("is_parent"))
        .col(c.number("available"))
        .col(c.number("tokens"))
        .col(c.number("created_ms"))
        .col(c.long_bytes("vector").null())
        .primary_key(Index::create().col("tenant_id").col("id").col("fresh"))
        .take();
    manager.create_table(chunk).await?;
    // The order comes last; an index of MariaDB has room for three ids.
    let of_document = Index::create()
        .name("chunk_of_document")
        .table("chunk")
        .col("dataset_id")
        .col("document_id")
        .col("fresh")
        .col("ordinal")
        .take();
    manager.create_index(of_document).await
}

async fn document_extra(c: &Columns, manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let extra = c
        .table("document_extra")
        .col(c.id("tenant_id"))
        .col(c.id("dataset_id"))
        .col(c.id("document_id"))
        .col(c.number("kind"))
        .col(c.long_text("value"))
        .primary_key(Index::create().col("tenant_id").col("dataset_id").col("document_id").col("kind"))
        .take();
    manager.create_table(extra).await
}
