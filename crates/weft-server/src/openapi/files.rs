//! Files in folders: the file manager of a tenant.

use super::agents::PAGE;
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Body, Operation};

static MANAGED_FILE: Shape = Shape {
    name: "ManagedFile",
    summary: "a file or a folder of the file manager",
    members: &[
        text("id", "its id"),
        text("parent_id", "the folder that it is in; the root is in itself"),
        text("tenant_id", "whose it is"),
        text("created_by", "the same"),
        text("name", "its name; no two of a folder differ in case only"),
        text("location", "the name of a file; empty for a folder"),
        whole("size", "bytes of a file; of a folder in a list those of all files below it, else 0"),
        text("type", "`folder`, or what kind of file it is: `pdf`, `doc`, `visual`, `aural`, `other`"),
        text("source_type", "empty"),
        flag("has_child_folder", "in lists of folders: whether there are folders in it").optional(),
        time("create_time", "when it was made"),
        text("create_date", "the same in words"),
        time("update_time", "when it was renamed or moved"),
        text("update_date", "the same in words"),
    ],
};

const ENTRY: Type = Type::Of(&MANAGED_FILE);
const NAME: Member = text("name", "its name: at most 255 bytes, without slashes");
const PARENT: Member =
    text("parent_id", "the folder that it goes to; the root when absent").optional().nullable();
const KIND: Member =
    text("type", "`folder`, or `virtual` for an empty file; a folder when absent").optional().nullable();
const FILE: [Member; 1] = [text("file_id", "which one")];

/// `POST /api/v1/files`.
pub static ADD: Operation = Operation::edits(
    "Makes a folder, when JSON is sent; uploads files into one, when a form is sent, whose part `parent_id` may name it. A \
     file whose name is taken gets a number, a folder is refused.",
)
.takes(Body::FilesOrJson(Type::Object(&[NAME, PARENT, KIND])))
.data(Type::Either(&[ENTRY, Type::List(&ENTRY)]));
/// `POST …/file/upload`.
pub static UPLOAD: Operation = Operation::edits(
    "Uploads files into the folder that the part `parent_id` of the form names, or into the root. A name that is taken gets a number.",
)
.takes(Body::Files)
.data(Type::List(&ENTRY));
/// `POST …/file/create`.
pub static CREATE: Operation =
    Operation::edits("Makes a folder or an empty file.").body(&[NAME, PARENT, KIND]).data(ENTRY);
/// `GET /api/v1/files`.
pub static LIST: Operation = Operation::reads("Lists what is in a folder.")
    .query(&[
        text("parent_id", "which folder; the root when absent").optional(),
        PAGE[0],
        PAGE[1],
        text("keywords", "only with this in the name").optional(),
        member(
            "orderby",
            Type::OneOf(&["create_time", "update_time", "name", "size"]),
            "by what; a folder is as large as all files below it",
        )
        .optional(),
        flag("desc", "whether the largest come first; true when absent").optional(),
    ])
    .data(Type::Object(&[
        list("files", &ENTRY, "the page"),
        whole("total", "how many there are in all"),
        member("parent_folder", ENTRY, "the folder that the listed one is in"),
    ]));
/// `DELETE /api/v1/files`.
pub static DELETE: Operation =
    Operation::edits("Removes files, and folders with everything below them. Documents made of them stay.")
        .body(&[list("ids", &Type::Text, "which ones; at most 100")])
        .data(Type::Flag);
/// `POST …/file/rm`.
pub static REMOVE: Operation =
    Operation::edits("Removes files, and folders with everything below them. Documents made of them stay.")
        .body(&[list("file_ids", &Type::Text, "which ones; at most 100")])
        .data(Type::Flag);
/// `POST /api/v1/files/move`.
pub static MOVE: Operation =
    Operation::edits("Moves files and folders into another folder, or gives one another name.")
        .body(&[
            list("src_file_ids", &Type::Text, "which ones; at most 100"),
            text("dest_file_id", "the folder; where they are when absent").optional().nullable(),
            text("new_name", "another name, for one alone").optional().nullable(),
        ])
        .data(Type::Flag);
/// `POST /api/v1/files/link-to-datasets`.
pub static LINK: Operation =
    Operation::edits("Makes documents of files, and of those in folders, in each of the datasets. They are read when that is asked for.")
        .body(&[
            list("file_ids", &Type::Text, "which files and folders; at most 100, and 1,000 files in all"),
            list("kb_ids", &Type::Text, "which datasets; at most 100"),
        ])
        .data(Type::List(&Type::Object(&[
            text("file_id", "the file"),
            text("document_id", "the document that was made of it"),
            text("dataset_id", "the dataset that this is in"),
        ])));
/// `GET /api/v1/files/{id}`.
pub static DOWNLOAD: Operation = Operation::reads("Sends a file, to be saved.").answer(Answer::File);
/// `PUT` and `PATCH /api/v1/files/{id}`.
pub static RENAME: Operation =
    Operation::edits("Gives a file or folder another name. The ending of a file stays.")
        .body(&[NAME])
        .data(Type::Flag);
/// `POST …/file/rename`.
pub static RENAME_NAMED: Operation =
    Operation::edits("Gives a file or folder another name. The ending of a file stays.")
        .body(&[FILE[0], NAME])
        .data(Type::Flag);
/// `GET …/file/root_folder`.
pub static ROOT: Operation = Operation::reads("Shows the root folder.").data(Type::Object(&[member(
    "root_folder",
    ENTRY,
    "the folder that all others are in",
)]));

const ABOVE: Type = Type::Object(&[member("parent_folder", ENTRY, "the folder; the root is in itself")]);
const ALL_ABOVE: Type = Type::Object(&[list(
    "parent_folders",
    &ENTRY,
    "itself, the folder that it is in, and so on up to the root",
)]);

/// `GET /api/v1/files/{id}/parent`.
pub static PARENT_FOLDER: Operation =
    Operation::reads("Shows the folder that a file or folder is in.").data(ABOVE);
/// `GET …/file/parent_folder`.
pub static PARENT_FOLDER_NAMED: Operation =
    Operation::reads("Shows the folder that a file or folder is in.").query(&FILE).data(ABOVE);
/// `GET /api/v1/files/{id}/ancestors`.
pub static ANCESTORS: Operation =
    Operation::reads("Shows all folders that a file or folder is in.").data(ALL_ABOVE);
/// `GET …/file/all_parent_folder`.
pub static ANCESTORS_NAMED: Operation =
    Operation::reads("Shows all folders that a file or folder is in.").query(&FILE).data(ALL_ABOVE);
