//! Files in folders: the file manager of a tenant.

use super::common::PAGE;
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Body, Operation};

static MANAGED_FILE: Shape = Shape {
    name: "ManagedFile",
    summary: "a file or folder of the file manager",
    members: &[
        text("id", "its id"),
        text("parent_id", "parent folder; the root is its own parent"),
        text("tenant_id", "owning tenant"),
        text("created_by", "the same"),
        text("name", "name; unique within a folder regardless of case"),
        text("location", "name of a file; empty for a folder"),
        whole(
            "size",
            "size of a file in bytes; for a folder in a list the total of all files below it, else 0",
        ),
        text("type", "`folder`, or the type of file: `pdf`, `doc`, `visual`, `aural`, `other`"),
        text("source_type", "empty"),
        flag("has_child_folder", "in lists: whether the folder contains folders").optional(),
        time("create_time", "time of creation"),
        text("create_date", "the same as text"),
        time("update_time", "time of the last renaming or move"),
        text("update_date", "the same as text"),
    ],
};

const ENTRY: Type = Type::Of(&MANAGED_FILE);
const NAME: Member = text("name", "name: at most 255 bytes, without slashes");
const PARENT: Member = text("parent_id", "target folder; default: the root").optional().nullable();
const KIND: Member =
    text("type", "`folder`, or `virtual` for an empty file; default: `folder`").optional().nullable();
const FILE: [Member; 1] = [text("file_id", "id of the file or folder")];

/// `POST /api/v1/files`.
pub static ADD: Operation = Operation::edits(
    "Creates a folder from a JSON body, or uploads files from a form, whose part `parent_id` may name the \
     folder. A file whose name is taken gets a number; a folder is rejected.",
)
.takes(Body::FilesOrJson(Type::Object(&[NAME, PARENT, KIND])))
.data(Type::Either(&[ENTRY, Type::List(&ENTRY)]));
/// `POST …/file/upload`.
pub static UPLOAD: Operation = Operation::edits(
    "Uploads files into the folder named by the part `parent_id` of the form, or into the root. A name that is \
     taken gets a number.",
)
.takes(Body::Files)
.data(Type::List(&ENTRY));
/// `POST …/file/create`.
pub static CREATE: Operation =
    Operation::edits("Creates a folder or an empty file.").body(&[NAME, PARENT, KIND]).data(ENTRY);
/// `GET /api/v1/files`.
pub static LIST: Operation = Operation::reads("Lists the contents of a folder.")
    .query(&[
        text("parent_id", "the folder; default: the root").optional(),
        PAGE[0],
        PAGE[1],
        text("keywords", "only those with this text in the name").optional(),
        member(
            "orderby",
            Type::OneOf(&["create_time", "update_time", "name", "size"]),
            "sort field; the size of a folder is that of all files below it",
        )
        .optional(),
        flag("desc", "whether to sort in descending order; default: true").optional(),
    ])
    .data(Type::Object(&[
        list("files", &ENTRY, "entries of the page"),
        whole("total", "total number"),
        member("parent_folder", ENTRY, "parent of the listed folder"),
    ]));
/// `DELETE /api/v1/files`.
pub static DELETE: Operation = Operation::edits(
    "Removes files, and folders with everything below them. Documents created from them are kept.",
)
.body(&[list("ids", &Type::Text, "ids of files and folders; at most 100")])
.data(Type::Flag);
/// `POST …/file/rm`.
pub static REMOVE: Operation = Operation::edits(
    "Removes files, and folders with everything below them. Documents created from them are kept.",
)
.body(&[list("file_ids", &Type::Text, "ids of files and folders; at most 100")])
.data(Type::Flag);
/// `POST /api/v1/files/move`.
pub static MOVE: Operation = Operation::edits("Moves files and folders into another folder, or renames one.")
    .body(&[
        list("src_file_ids", &Type::Text, "ids of files and folders; at most 100"),
        text("dest_file_id", "target folder; default: the current one").optional().nullable(),
        text("new_name", "new name, for a single file or folder").optional().nullable(),
    ])
    .data(Type::Flag);
/// `POST /api/v1/files/link-to-datasets`.
pub static LINK: Operation =
    Operation::edits("Creates documents from files, and from those in folders, in each of the datasets. Reading them is requested separately.")
        .body(&[
            list("file_ids", &Type::Text, "ids of files and folders; at most 100, and 1,000 files in total"),
            list("kb_ids", &Type::Text, "ids of datasets; at most 100"),
        ])
        .data(Type::List(&Type::Object(&[
            text("file_id", "the file"),
            text("document_id", "the document created from it"),
            text("dataset_id", "dataset of the document"),
        ])));
/// `GET /api/v1/files/{id}`.
pub static DOWNLOAD: Operation = Operation::reads("Downloads a file.").answer(Answer::File);
/// `PUT` and `PATCH /api/v1/files/{id}`.
pub static RENAME: Operation = Operation::edits("Renames a file or folder. The extension of a file is kept.")
    .body(&[NAME])
    .data(Type::Flag);
/// `POST …/file/rename`.
pub static RENAME_NAMED: Operation =
    Operation::edits("Renames a file or folder. The extension of a file is kept.")
        .body(&[FILE[0], NAME])
        .data(Type::Flag);
/// `GET …/file/root_folder`.
pub static ROOT: Operation = Operation::reads("Shows the root folder.").data(Type::Object(&[member(
    "root_folder",
    ENTRY,
    "the root folder",
)]));

const ABOVE: Type =
    Type::Object(&[member("parent_folder", ENTRY, "parent folder; the root is its own parent")]);
const ALL_ABOVE: Type =
    Type::Object(&[list("parent_folders", &ENTRY, "itself, its parent, and so on up to the root")]);

/// `GET /api/v1/files/{id}/parent`.
pub static PARENT_FOLDER: Operation =
    Operation::reads("Shows the parent folder of a file or folder.").data(ABOVE);
/// `GET …/file/parent_folder`.
pub static PARENT_FOLDER_NAMED: Operation =
    Operation::reads("Shows the parent folder of a file or folder.").query(&FILE).data(ABOVE);
/// `GET /api/v1/files/{id}/ancestors`.
pub static ANCESTORS: Operation =
    Operation::reads("Shows all ancestor folders of a file or folder.").data(ALL_ABOVE);
/// `GET …/file/all_parent_folder`.
pub static ANCESTORS_NAMED: Operation =
    Operation::reads("Shows all ancestor folders of a file or folder.").query(&FILE).data(ALL_ABOVE);
