//! Routes of the file manager, under the names of both generations of clients.

use axum::extract::DefaultBodyLimit;

use super::methods::{DELETE, GET, PATCH, POST, PUT};
use crate::handler::BoxedHandler;
use crate::openapi::Routes;
use crate::openapi::agents as of_agent;
use crate::openapi::files as of_file;
use crate::routes::{attachments, files};

const GROUP: &str = "Files in folders";

pub(super) fn of_files(upload_max: usize) -> Routes {
    let add = BoxedHandler::limited(DefaultBodyLimit::max(upload_max), files::add);
    Routes::new(GROUP)
        .on(POST, "/api/v1/files", add, &of_file::ADD)
        .on(GET, "/api/v1/files", files::list, &of_file::LIST)
        .on(DELETE, "/api/v1/files", files::remove, &of_file::DELETE)
        .on(POST, "/api/v1/files/move", files::relocate, &of_file::MOVE)
        .on(POST, "/api/v1/files/link-to-datasets", files::link, &of_file::LINK)
        .on(GET, "/api/v1/files/{id}", files::download, &of_file::DOWNLOAD)
        .on(PUT, "/api/v1/files/{id}", files::rename, &of_file::RENAME)
        .on(PATCH, "/api/v1/files/{id}", files::rename, &of_file::RENAME)
        .on(GET, "/api/v1/files/{id}/parent", files::parent, &of_file::PARENT_FOLDER)
        .on(GET, "/api/v1/files/{id}/ancestors", files::ancestors, &of_file::ANCESTORS)
        .nest("/v1/file", older(upload_max))
        .nest("/api/v1/file", older(upload_max))
        // Below `/api/v1/file`, this name belongs to the files of conversations.
        .on(GET, "/v1/file/download/{id}", attachments::download, &of_agent::DOWNLOAD)
}

/// Older names.
fn older(upload_max: usize) -> Routes {
    let upload = BoxedHandler::limited(DefaultBodyLimit::max(upload_max), files::upload);
    Routes::new(GROUP)
        .on(POST, "/upload", upload, &of_file::UPLOAD)
        .on(POST, "/create", files::create, &of_file::CREATE)
        .on(GET, "/list", files::list, &of_file::LIST)
        .on(GET, "/root_folder", files::root, &of_file::ROOT)
        .on(GET, "/parent_folder", files::parent_named, &of_file::PARENT_FOLDER_NAMED)
        .on(GET, "/all_parent_folder", files::ancestors_named, &of_file::ANCESTORS_NAMED)
        .on(POST, "/rm", files::remove, &of_file::REMOVE)
        .on(POST, "/rename", files::rename_named, &of_file::RENAME_NAMED)
        .on(GET, "/get/{id}", files::download, &of_file::DOWNLOAD)
        .on(POST, "/mv", files::relocate, &of_file::MOVE)
        .on(POST, "/convert", files::link, &of_file::LINK)
}
