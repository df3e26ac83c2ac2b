//! The system's Python: what its packages return and write.

use serde_json::{Value as Json, json};
use weft_core::seam::sandbox::{Failure, Limits};
use weft_sandbox::LIMITS;

use crate::system::{run, sandboxes};

#[tokio::test]
async fn packages_are_available_and_their_values_become_json() {
    for sandbox in sandboxes(&["numpy", "pandas"]) {
        let check = async |source: &str, expected: Json| {
            assert_eq!(run(&sandbox, source, LIMITS).await.result, Ok(expected), "{source}");
        };
        let frame = "import pandas as pd\nframe = pd.DataFrame({'a': [1, 2], 'b': ['x', None]})\n";
        check(&format!("{frame}frame"), json!([{"a": 1, "b": "x"}, {"a": 2, "b": null}])).await;
        check(&format!("{frame}frame['a'].sum()"), json!(3)).await;
        check(
            &format!("{frame}{{'m': frame.a.mean(), 't': pd.Timestamp('2024-02-29'), 'n': pd.NaT}}"),
            json!({"m": 1.5, "t": "2024-02-29T00:00:00", "n": null}),
        )
        .await;
        check(
            "import numpy as np\nnp.linalg.solve(np.array([[3., 1], [1, 2]]), np.array([9., 8]))",
            json!([2.0, 3.0]),
        )
        .await;
        check(
            "import numpy as np\n[np.float64('nan'), np.int32(4), np.arange(3)]",
            json!([null, 4, [0, 1, 2]]),
        )
        .await;
        let ran = run(
            &sandbox,
            &format!("{frame}frame.to_csv('a.csv', index=False)\npd.read_csv('a.csv').shape"),
            LIMITS,
        )
        .await;
        assert_eq!(ran.result, Ok(json!([2, 2])));
        assert_eq!((ran.files.len(), ran.files[0].name.as_str()), (1, "a.csv"));
        // Random numbers differ from those at the import of the packages.
        let draws = "import numpy, random\n[numpy.random.rand(), random.random()]";
        assert_ne!(run(&sandbox, draws, LIMITS).await.result, run(&sandbox, draws, LIMITS).await.result);
    }
}

#[tokio::test]
async fn results_of_pandas_keep_their_labels() {
    for sandbox in sandboxes(&["pandas"]) {
        let frame = "import pandas as pd\nframe = pd.DataFrame({'a': ['x', 'y', 'x'], 'b': [1, 2, 3]})\n";
        let check = async |source: &str, expected: Json| {
            assert_eq!(
                run(&sandbox, &format!("{frame}{source}"), LIMITS).await.result,
                Ok(expected),
                "{source}"
            );
        };
        check("frame.groupby('a')['b'].sum()", json!({"x": 4, "y": 2})).await;
        check("frame['a'].value_counts()", json!({"x": 2, "y": 1})).await;
        check("frame.describe()[2:4]", json!([{"index": "std", "b": 1.0}, {"index": "min", "b": 1.0}])).await;
        check(
            "frame.groupby('a').agg({'b': ['sum', 'max']})",
            json!([{"a": "x", "b_sum": 4, "b_max": 3}, {"a": "y", "b_sum": 2, "b_max": 2}]),
        )
        .await;
        check("frame.set_index(['a', 'b']).index", json!([["x", 1], ["y", 2], ["x", 3]])).await;
        check("frame.b", json!([1, 2, 3])).await;
        check("frame[frame.b > 1]", json!([{"a": "y", "b": 2}, {"a": "x", "b": 3}])).await;
        // An object would keep one of two values.
        check(
            "pd.Series([1, 2], index=['p', 'p'], name='n')",
            json!([{"index": "p", "n": 1}, {"index": "p", "n": 2}]),
        )
        .await;
        check("pd.DataFrame([[1, 2]], columns=['c', 'c'])", json!([{"c": 1, "c_2": 2}])).await;
        check(
            "frame.set_index(pd.to_datetime(['2024-01-01', '2024-01-02', '2024-01-03']))['b'][:1]",
            json!({"2024-01-01T00:00:00": 1}),
        )
        .await;
    }
}

#[tokio::test]
async fn libraries_can_write_and_read_files() {
    for sandbox in sandboxes(&["numpy", "pandas"]) {
        let source = "import numpy as np, os, tempfile, zipfile, shutil
np.savetxt('x.csv', np.arange(3)); np.save('artifacts/y.npy', np.arange(3))
with tempfile.TemporaryDirectory() as folder:
    with zipfile.ZipFile(os.path.join(folder, 'z.zip'), 'w') as archive: archive.write('x.csv')
    shutil.copy2(os.path.join(folder, 'z.zip'), 'z.zip')
os.rename('z.zip', 'kept.zip'); open('gone', 'w').close(); os.remove('gone')
[np.loadtxt('x.csv'), np.load('artifacts/y.npy'), zipfile.ZipFile('kept.zip').namelist(), os.path.exists(folder), sorted(os.listdir())]";
        let ran = run(&sandbox, source, LIMITS).await;
        let seen = json!([[0.0, 1.0, 2.0], [0, 1, 2], ["x.csv"], false, ["artifacts", "kept.zip", "x.csv"]]);
        assert_eq!(ran.result, Ok(seen));
        let mut names: Vec<_> = ran.files.iter().map(|file| file.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["kept.zip", "x.csv", "y.npy"]);
        // Paths that libraries need: of matplotlib for its caches, and of system lists.
        let source = "import mimetypes, os
os.makedirs(os.environ['MPLCONFIGDIR'])
open(os.path.join(os.environ['MPLCONFIGDIR'], 'fonts'), 'x').close()
mimetypes.init()
[os.environ['MPLBACKEND'], mimetypes.guess_type('a.png')[0], os.listdir(os.environ['MPLCONFIGDIR'])]";
        let ran = run(&sandbox, source, LIMITS).await;
        assert_eq!((ran.result, ran.files.len()), (Ok(json!(["Agg", "image/png", ["fonts"]])), 0));
        // Library files can be read as before.
        let source = "import numpy, os\n[os.path.isfile(numpy.__file__), len(open(numpy.__file__).read()) > 100, 'core' in os.listdir(os.path.dirname(numpy.__file__))]";
        assert_eq!(run(&sandbox, source, LIMITS).await.result, Ok(json!([true, true, true])));
    }
}

#[tokio::test]
async fn thread_tasks_run_immediately() {
    for sandbox in sandboxes(&[]) {
        let source = "import asyncio, threading, queue, concurrent.futures as cf
from concurrent.futures import ThreadPoolExecutor
seen = queue.Queue()
threads = [threading.Thread(target=seen.put, args=(n,)) for n in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
with ThreadPoolExecutor(max_workers=4) as pool:
    squares = list(pool.map(lambda n: n * n, range(4)))
    futures = [pool.submit(lambda n: 1 / n, n) for n in (1, 0)]
    done = sorted(future.result() for future in cf.as_completed(futures) if not future.exception())
async def main():
    return [seen.qsize(), threads[0].is_alive(), squares, done, type(futures[1].exception()).__name__, await asyncio.to_thread(pow, 2, 5)]";
        let ran = run(&sandbox, source, LIMITS).await;
        assert_eq!(ran.result, Ok(json!([3, false, [0, 1, 4, 9], [1.0], "ZeroDivisionError", 32])));
    }
}

#[tokio::test]
async fn charts_become_files() {
    for sandbox in sandboxes(&["matplotlib"]) {
        let source = "import matplotlib.pyplot as plt\nplt.plot([1, 2], label='汉')\nplt.legend()\nplt.savefig('a.png')\nplt.savefig('artifacts/b.svg')\n1";
        let ran = run(&sandbox, source, Limits { memory_bytes: 256 << 20, ..LIMITS }).await;
        assert_eq!(ran.result, Ok(json!(1)));
        let mut starts: Vec<_> =
            ran.files.iter().map(|file| (file.name.as_str(), &file.base64[..4])).collect();
        starts.sort_unstable();
        assert_eq!(starts, [("a.png", "iVBO"), ("b.svg", "PD94")]);
    }
}

#[tokio::test]
async fn files_of_a_program_are_limited() {
    for sandbox in sandboxes(&[]) {
        let check = async |source: &str, part: &str| {
            let ran = run(&sandbox, source, LIMITS).await;
            let Err(Failure::Program { message, .. }) = &ran.result else { panic!("{source}: {ran:?}") };
            assert!(message.contains(part) && ran.files.is_empty(), "{source}: {message}");
        };
        check("for n in range(11): open(f'{n}', 'w').write('x')\n1", "it leaves more than 10 files").await;
        check("open('b.bin', 'wb').write(bytes(11 << 20))\n1", "more than 10 MiB together; the file `b.bin`")
            .await;
        check(
            "for n in range(2000): open(f'/tmp/{n}', 'w').write('x')\n1",
            "no more than 1000 files and folders",
        )
        .await;
        check("open('a/b', 'w')", "No such file or directory").await;
        check("open('../a', 'w')", "its own folder and /tmp only").await;
        check("open('a', 'w').read()", "not readable").await;
    }
}
