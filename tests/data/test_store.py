"""Stores: what is built of files is what was in them, however often the build was killed; what is damaged is named."""

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.data import build, store, streams
from reshuffle.rows.disk import DiskRows

ROOT = Path(__file__).parents[2]
N, D = 400, 30


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Several blocks of several pieces each."""
    monkeypatch.setattr(build, "BLOCK", 4000)
    monkeypatch.setattr(streams, "TEXT", 1500)
    monkeypatch.setattr(streams, "CELLS", 300)


def sparse(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) * (rng.random((n, D)) < 0.3)
    X[0, D - 1] = 0.1  # a number that float32 does not have
    return X, np.where(X[:, 0] + 0.3 * rng.standard_normal(n) > 0.0, 1, -1)


def text(X, y, base=1):
    lines = [
        " ".join([f"{label:g}", *(f"{j + base}:{v!r}" for j, v in enumerate(row.tolist()) if v)])
        for label, row in zip(y, X, strict=True)
    ]
    return ("\n".join(lines) + "\n").encode()


def parts(folder, X, y, base=1):
    """The same rows in four files, three of them compressed."""
    cuts = [0, 90, 91, 250, len(y)]
    endings = {".svm": bytes, ".svm.gz": gzip.compress, ".svm.bz2": bz2.compress, ".svm.xz": lzma.compress}
    for k, (ending, pack) in enumerate(endings.items()):
        rows = slice(cuts[k], cuts[k + 1])
        (folder / f"part-{k}{ending}").write_bytes(pack(text(X[rows], y[rows], base)))
    return folder / "part-*"


def opened(path, room=1.5):
    """Its rows, with memory for vectors and `room` times the rows."""
    rows = rs.open(path)
    rows.memory = int(room * rows.nbytes)
    return rows


@pytest.fixture
def built(tmp_path):
    X, y = sparse()
    rs.build_store(tmp_path / "a.store", parts(tmp_path, X, y), zero_based=False)
    return tmp_path / "a.store", X, y


def stop_after_each_block(monkeypatch):
    """Builds, as Ctrl-C would."""
    written = build._Build._write

    def then_stop(self, *arguments):
        written(self, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(build._Build, "_write", then_stop)


def content(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


# --- what is in a store


def test_a_store_holds_what_the_files_held(built):
    path, X, y = built
    rows = rs.open(path)
    assert isinstance(rows, rs.Rows)
    assert len(rows.blocks) > 5
    np.testing.assert_array_equal(rows.csr().toarray(), X)
    np.testing.assert_array_equal(rows.labels, y)
    assert {block.facts.arrays["values"]["dtype"] for block in rows.blocks} == {"<f8"}
    assert rows.labels.dtype == np.int8
    assert rows.weights is None
    some = np.array([3, 399, 3, 100, 7])
    np.testing.assert_array_equal(rows.take(some).matrix.toarray(), X[some])
    data = rs.load(path)
    assert str(data) == f"{path}: 400 x 30, sparse, {np.count_nonzero(X)} entries, on disk"
    manifest = json.loads((path / "store.json").read_text())
    assert [manifest[name] for name in ("n", "d", "entries", "zero_based", "format")] == [N, D, np.count_nonzero(X), False, 1]
    assert [Path(source["name"]).name for source in manifest["sources"]] == [
        f"part-{k}.svm{e}" for k, e in enumerate(["", ".gz", ".bz2", ".xz"])
    ]


def test_types_are_the_smallest_that_hold_the_numbers(tmp_path):
    X = np.random.default_rng(0).integers(0, 200, (60, 5)).astype(float)
    for name, matrix, dtype in (
        ("bytes", X, "|u1"),
        ("signed", X - 100.0, "|i1"),
        ("short", X * 100.0, "<u2"),
        ("half", X / 4.0, "<f2"),
        ("single", (X / 3.0).astype(np.float32), "<f4"),
        ("double", X / 3.0, "<f8"),
    ):
        np.save(tmp_path / f"{name}.npy", matrix)
        rs.build_store(tmp_path / f"{name}.store", tmp_path / f"{name}.npy")
        rows = rs.open(tmp_path / f"{name}.store")
        assert {block.facts.arrays["values"]["dtype"] for block in rows.blocks} == {dtype}
        np.testing.assert_array_equal(rows.take(np.arange(60)).matrix, matrix)
        assert rows.labels is None


def _csv(path, X, y):
    np.savetxt(
        path, np.column_stack([X, y]), delimiter=",", fmt="%.17g", header=",".join([*(f"f{k}" for k in range(D)), "y"]), comments=""
    )


def _parquet(path, X, y):
    table = pa.table({**{f"f{k}": X[:, k] for k in range(D)}, "y": y})
    pa.parquet.write_table(table, path, row_group_size=170)


def _npz(path, X, y):
    with path.open("wb") as file:
        A = sp.csr_array(X)
        np.savez(file, y=y, data=A.data, indices=A.indices, indptr=A.indptr, shape=A.shape, format=b"csr")


def _anndata(group, X, y):
    A = sp.csr_array(X)
    held = group.create_group("X")
    held.attrs.update({"encoding-type": "csr_matrix", "shape": list(A.shape)})
    obs = group.create_group("obs")
    for place, arrays in ((held, {"data": A.data, "indices": A.indices, "indptr": A.indptr}), (obs, {"y": y})):
        for name, values in arrays.items():
            array = place.create_array if hasattr(place, "create_array") else place.create_dataset
            array(name, data=values)


def _h5ad(path, X, y):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        _anndata(file, X, y)


def _zarr(path, X, y):
    zarr = pytest.importorskip("zarr")
    _anndata(zarr.open_group(str(path), mode="w"), X, y)


@pytest.mark.parametrize(
    ("ending", "write", "target"),
    [(".csv", _csv, "y"), (".parquet", _parquet, "y"), (".npz", _npz, None), (".h5ad", _h5ad, "y"), (".zarr", _zarr, "y")],
)
def test_every_format(tmp_path, ending, write, target, monkeypatch):
    """Also where the build is stopped after each block and goes on."""
    X, y = sparse()
    write(tmp_path / f"data{ending}", X, y)
    rs.build_store(tmp_path / "whole.store", tmp_path / f"data{ending}", target=target)
    rows = rs.open(tmp_path / "whole.store")
    np.testing.assert_array_equal(rows.csr().toarray(), X)
    np.testing.assert_array_equal(rows.labels, y)
    stop_after_each_block(monkeypatch)
    for _ in rows.blocks:
        with pytest.raises(KeyboardInterrupt):
            rs.build_store(tmp_path / "parts.store", tmp_path / f"data{ending}", target=target)
    rs.build_store(tmp_path / "parts.store", tmp_path / f"data{ending}", target=target)
    assert content(tmp_path / "parts.store") == content(tmp_path / "whole.store")


@pytest.mark.parametrize("first", [0, 200, 399])
def test_indices_count_from_0_wherever_the_first_0_occurs(tmp_path, first):
    X, y = sparse()
    X[:first, 0] = 0.0
    X[first, 0] = 1.5
    (tmp_path / "zero.svm").write_bytes(text(X, y, base=0))
    said = []
    rs.build_store(tmp_path / "zero.store", tmp_path / "zero.svm", say=said.append)
    np.testing.assert_array_equal(rs.open(tmp_path / "zero.store").csr().toarray(), X)
    assert said == []
    with pytest.raises(ValueError, match=r"zero\.svm holds an index 0 and is to be read as counting from 1"):
        rs.build_store(tmp_path / "one.store", tmp_path / "zero.svm", zero_based=False)


def test_a_guess_and_a_width_are_said_once(tmp_path):
    X, y = sparse()
    (tmp_path / "a.svm").write_bytes(text(X[:300, :20], y[:300]))
    (tmp_path / "b.svm").write_bytes(text(X[300:], y[300:]))
    said = []
    manifest = rs.build_store(tmp_path / "s.store", [tmp_path / "a.svm", tmp_path / "b.svm"], say=said.append)
    assert len(said) == 2
    assert said[0].startswith("no index is 0, so they are taken to count from 1")
    assert said[1].endswith("a.svm uses 20 features and others up to 30; the store has 30")
    assert manifest.d == 30
    wide = rs.build_store(tmp_path / "w.store", tmp_path / "b.svm", n_features=50, zero_based=False)
    assert wide.d == 50
    with pytest.raises(ValueError, match="n_features=5, but the files use 30 features"):
        rs.build_store(tmp_path / "n.store", tmp_path / "b.svm", n_features=5)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_are_found_by_name_in_every_file(tmp_path, ending):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 3)), rng.integers(0, 2, 300)
    names, turned = ["a", "b", "y", "c"], ["y", "c", "b", "a"]
    for k, order in enumerate((names, turned)):
        rows = slice(150 * k, 150 * (k + 1))
        held = {"a": X[rows, 0], "b": X[rows, 1], "c": X[rows, 2], "y": y[rows]}
        frame = pa.table({name: held[name] for name in order})
        if ending == "csv":
            lines = [",".join(order), *(",".join(map(repr, row.values())) for row in frame.to_pylist())]
            (tmp_path / f"{k}.csv").write_text("\n".join(lines))
        else:
            pa.parquet.write_table(frame, tmp_path / f"{k}.parquet")
    rs.build_store(tmp_path / "a.store", tmp_path / f"*.{ending}", target="y")
    rows = rs.open(tmp_path / "a.store")
    np.testing.assert_array_equal(rows.csr().toarray(), X)
    np.testing.assert_array_equal(rows.labels, y)
    (tmp_path / "2.csv").write_text("a,b,y,d\n1,2,0,3\n")
    if ending == "csv":
        with pytest.raises(ValueError, match=r"2\.csv has other columns than .*0\.csv: it lacks c and has d besides"):
            rs.build_store(tmp_path / "b.store", tmp_path / "*.csv", target="y")
    with pytest.raises(ValueError, match="target='z' is not a column of"):
        rs.build_store(tmp_path / "c.store", tmp_path / f"0.{ending}", target="z")


def test_the_index_of_a_frame_is_no_feature(tmp_path):
    pa.parquet.write_table(pa.table({"a": [1.0, 2.0], "y": [0, 1], "__index_level_0__": [5, 6]}), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text(",a,y\n5,1.0,0\n6,2.0,1\n")
    for name, words in {"a.parquet": "left out __index_level_0__", "a.csv": "left out the first column"}.items():
        said = []
        rs.build_store(tmp_path / f"{name}.store", tmp_path / name, say=said.append)
        assert [line for line in said if words in line and name in line] == said
        np.testing.assert_array_equal(rs.open(tmp_path / f"{name}.store").csr().toarray(), [[1.0], [2.0]])


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1,oops,0", r"line 2002, column 'b': 'oops' is no number"),
        ("1,,0", r"line 2002, column 'b': '' is no number"),
        ("1,inf,0", r"line 2002, column 'b': 'inf' is no number"),
        ("1,2,nan", r"line 2002, column 'y': 'nan' is no number"),
        ("1,2", r"line 2002: 2 columns where the first line has 3"),
        ("1,2,3,4", r"line 2002: 4 columns where the first line has 3"),
        ("1,\xff,3", r"line 2002: .* is not UTF-8"),
    ],
)
def test_a_line_that_is_no_row_of_numbers_is_named(tmp_path, row, words):
    before, after = ["a,b,y", *(f"{k},{k % 7}.5,{k % 2}" for k in range(2000))], ["5,6,1"] * 300
    (tmp_path / "a.csv").write_bytes("\n".join([*before, row, *after]).encode("latin-1"))
    with pytest.raises(ValueError, match=rf"a\.csv, {words}"):
        rs.build_store(tmp_path / "a.store", tmp_path / "a.csv")


def test_nan_is_named_with_its_file_and_row_there(tmp_path):
    for k in range(3):
        X = np.ones((400, 30))
        if k == 1:
            X[321, 4] = np.nan
        np.save(tmp_path / f"{k}.npy", X)
    with pytest.raises(ValueError, match=r"1\.npy holds nan in row 321 \(counted from 0\)"):
        rs.build_store(tmp_path / "a.store", tmp_path / "*.npy")


# --- builds that were killed

KILLED = """
import os, random, signal, sys
from pathlib import Path
import reshuffle as rs
from reshuffle.data import build, streams

build.BLOCK, streams.TEXT = 4000, 1500
folder, moments = Path(sys.argv[1]), random.Random(5)
rs.build_store(folder / "whole.store", folder / "part-*")
save, append, replace = build.save, build._Build._append, os.replace
left = 0


def dies(half):
    global left
    left -= 1
    if left == 0:
        half()
        os.kill(os.getpid(), signal.SIGKILL)


def dying_save(path, array):
    dies(lambda: path.write_bytes(array.tobytes()[: array.nbytes // 2]))
    return save(path, array)


def dying_append(self, line):
    dies(lambda: (self.folder / "build.jsonl").open("ab").write(build._written(line)[:50]))
    append(self, line)
    dies(lambda: None)


def dying_replace(*paths):
    dies(lambda: None)
    replace(*paths)
    dies(lambda: None)


build.save, build._Build._append, os.replace = dying_save, dying_append, dying_replace
kills = 0
while True:
    left = moments.randint(1, 120)
    child = os.fork()
    if child == 0:
        rs.build_store(folder / "killed.store", folder / "part-*")
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
    kills += 1
print(kills)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_build_that_was_killed_makes_the_same_store(tmp_path):
    X, y = sparse(n=3000)
    X[:2000, 0], X[2000, 0] = 0.0, 1.0  # blocks are written anew at the end
    for k in range(3):
        (tmp_path / f"part-{k}").write_bytes(text(X[k * 1000 : (k + 1) * 1000], y[k * 1000 : (k + 1) * 1000], base=0))
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 5
    assert content(tmp_path / "killed.store") == content(tmp_path / "whole.store")
    np.testing.assert_array_equal(rs.open(tmp_path / "killed.store").csr().toarray(), X)
    assert [path.name for path in tmp_path.iterdir() if ".part" in path.suffix] == []


def test_a_build_goes_on_with_the_same_settings_only(tmp_path, monkeypatch):
    X, y = sparse()
    source = parts(tmp_path, X, y)

    def stopped(self, say):
        raise KeyboardInterrupt

    with monkeypatch.context() as at_the_end:
        at_the_end.setattr(build._Build, "finish", stopped)
        with pytest.raises(KeyboardInterrupt):
            rs.build_store(tmp_path / "a.store", source, zero_based=False)
    with pytest.raises(ValueError, match="a store whose build has not ended; the command that began it goes on"):
        rs.load(tmp_path / "a.store")
    with pytest.raises(ValueError, match="begun with other settings: zero_based is False there and True now"):
        rs.build_store(tmp_path / "a.store", source, zero_based=True)
    journal = tmp_path / "a.store.part" / "build.jsonl"
    journal.write_bytes(journal.read_bytes()[:-7])  # torn: its block is built again
    rs.build_store(tmp_path / "a.store", source, zero_based=False)
    np.testing.assert_array_equal(rs.open(tmp_path / "a.store").csr().toarray(), X)
    with pytest.raises(ValueError, match="is a store already; choose another name"):
        rs.build_store(tmp_path / "a.store", source)


def test_a_build_killed_at_its_very_end_is_ended_by_the_same_command_alone(tmp_path, monkeypatch):
    X, y = sparse()
    source, replace = parts(tmp_path, X, y), os.replace

    def last(old, new):
        replace(old, new)
        if new == tmp_path / "a.store":
            raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(os, "replace", last)
        with pytest.raises(KeyboardInterrupt):
            rs.build_store(tmp_path / "a.store", source)
    (tmp_path / "other.svm").write_bytes(text(X, y))
    with pytest.raises(ValueError, match="begun with other settings: sources"):
        rs.build_store(tmp_path / "a.store", tmp_path / "other.svm")
    before = content(tmp_path / "a.store")
    (tmp_path / ".a.store.lock").touch()  # a kill leaves it
    assert rs.build_store(tmp_path / "a.store", source).n == len(X)
    assert content(tmp_path / "a.store") == {name: held for name, held in before.items() if name != "build.jsonl"}
    (tmp_path / ".a.store.lock").touch()
    with pytest.raises(ValueError, match="is a store already"):
        rs.build_store(tmp_path / "a.store", source)
    assert not (tmp_path / ".a.store.lock").exists()


def test_a_build_that_goes_on_never_shortens_what_is_whole(tmp_path, monkeypatch):
    X, y = sparse()
    source = parts(tmp_path, X, y)
    monkeypatch.setattr(build._Build, "finish", lambda self, say: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        rs.build_store(tmp_path / "a.store", source)
    journal = tmp_path / "a.store.part" / "build.jsonl"
    whole, modes, real = journal.read_bytes(), set(), io.open
    journal.write_bytes(whole + b'{"name": "0000')  # a line that was torn

    def watched(path, mode="r", *arguments, **options):
        modes.update({mode} if path == journal else ())
        return real(path, mode, *arguments, **options)

    monkeypatch.setattr(io, "open", watched)
    with pytest.raises(KeyboardInterrupt):
        rs.build_store(tmp_path / "a.store", source)
    assert journal.read_bytes() == whole
    assert modes == {"rb"}  # to open it for writing would empty it, and a kill in that moment lose every block


def test_a_build_does_not_go_on_with_files_that_were_changed(tmp_path, monkeypatch):
    X, y = sparse()
    source = parts(tmp_path, X, y)
    with monkeypatch.context() as at_the_end:
        at_the_end.setattr(build._Build, "finish", lambda self, say: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            rs.build_store(tmp_path / "a.store", source)
    edited = tmp_path / "part-0.svm"
    before = edited.stat()
    edited.write_bytes(edited.read_bytes().replace(b"1", b"2", 5))  # of the same size
    os.utime(edited, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    with pytest.raises(ValueError, match=r"part-0\.svm has changed since .*a\.store\.part was begun; remove"):
        rs.build_store(tmp_path / "a.store", source)


def test_a_folder_of_others_is_not_taken_for_a_build(tmp_path):
    source = parts(tmp_path, *sparse())
    (tmp_path / "a.store.part").mkdir()
    (tmp_path / "a.store.part" / "mine.txt").write_text("precious")
    with pytest.raises(ValueError, match=r"a\.store\.part' is no store that was begun; move it"):
        rs.build_store(tmp_path / "a.store", source)
    assert (tmp_path / "a.store.part" / "mine.txt").read_text() == "precious"


# --- what cannot be used


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    X, y = sparse()
    source, save, count = parts(tmp_path, X, y), build.save, iter(range(10**6))

    def full(path, array):
        if next(count) == 20:
            raise OSError(28, "No space left on device")
        return save(path, array)

    monkeypatch.setattr(build, "save", full)
    with pytest.raises(
        OSError, match=r"a\.store\.part: No space left on device; the same command goes on after the last whole block"
    ):
        rs.build_store(tmp_path / "a.store", source, zero_based=False)
    rs.build_store(tmp_path / "a.store", source, zero_based=False)
    np.testing.assert_array_equal(rs.open(tmp_path / "a.store").csr().toarray(), X)


def test_a_store_that_is_not_whole_is_refused_with_the_file_that_is_not(built):
    path, _, _ = built
    block = path / "000003"
    whole = (block / "values.npy").read_bytes()
    changed = bytearray(whole)
    changed[-1] ^= 1
    (block / "values.npy").write_bytes(changed)
    with pytest.raises(ValueError, match=r"000003/values\.npy is damaged: its content is not what its checksum says"):
        rs.open(path).margins(np.ones(D))
    (block / "values.npy").write_bytes(whole[:-8])
    with pytest.raises(ValueError, match=rf"000003/values\.npy has {len(whole) - 8} bytes where {len(whole)} were written"):
        rs.open(path)
    (block / "values.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"000003/values\.npy is missing; the store is not whole"):
        rs.open(path)
    manifest = (path / "store.json").read_text()
    (path / "store.json").write_text(manifest.replace('"n": 400', '"n": 401'))
    with pytest.raises(ValueError, match=r"store\.json cannot be used: its content is not what its checksum says"):
        rs.open(path)
    (path / "store.json").write_text(manifest.replace('"format": 1', '"format": 7'))
    with pytest.raises(ValueError, match="it has format 7, and this version of reshuffle reads format 1; build it anew"):
        rs.open(path)


def test_indices_that_lie_outside_are_seen_even_where_checksums_fit(built):
    path, _, _ = built
    manifest = json.loads((path / "store.json").read_text())
    manifest.pop("checksum")
    indices = np.load(path / "000001" / "indices.npy")
    indices[0] = 10**6
    manifest["blocks"][1]["arrays"]["indices"] = store.save(path / "000001" / "indices.npy", indices)
    (path / "store.json").write_text(json.dumps(manifest | {"checksum": store.checksum(manifest)}))
    with pytest.raises(ValueError, match=r"000001 is a damaged sparse matrix: index 1000000 at place 0 is outside of 0\.\.29"):
        rs.constants(rs.open(path))


@pytest.mark.parametrize(
    ("name", "lines", "match"),
    [
        (
            "a.csv",
            b"x,y\n1,2\nred,3\n",
            r"a\.csv, line 3, column 'x': 'red' is no number to compute with; a store takes numbers only",
        ),
        ("a.svm", b"1 1:1\n2 1:x\n", r"a\.svm, line 2: the value in '1:x' is not a number"),
        ("a.svm", b"# nothing\n", r"a\.svm holds no samples"),
        ("a.svm", b"nan 1:1\n", r"a\.svm, line 1: 'nan' is not finite"),
    ],
)
def test_files_that_cannot_be_stored(tmp_path, name, lines, match):
    (tmp_path / name).write_bytes(lines)
    with pytest.raises(ValueError, match=match):
        rs.build_store(tmp_path / "a.store", tmp_path / name)


def test_lines_are_counted_through_all_pieces(tmp_path):
    X, y = sparse()
    (tmp_path / "a.svm").write_bytes(text(X, y) + b"1 7:oops\n")
    for _ in range(2):  # from the beginning, and going on
        with pytest.raises(ValueError, match=r"a\.svm, line 401: the value in '7:oops' is not a number"):
            rs.build_store(tmp_path / "a.store", tmp_path / "a.svm", zero_based=False)


def test_arguments_that_do_not_fit(built, tmp_path):
    path, _, _ = built
    with pytest.raises(ValueError, match=r"a\.store in memory=1000: vectors .* use memory=16811616 or more"):
        rs.open(path, memory=1000)
    with pytest.raises(ValueError, match="memory='much' is not a size"):
        rs.open(path, memory="much")
    with pytest.raises(ValueError, match="scratch='/nowhere' is not a folder"):
        rs.open(path, scratch="/nowhere")
    with pytest.raises(FileNotFoundError, match=r"is no store: it has no store\.json"):
        rs.open(tmp_path)
    with pytest.raises(ValueError, match=r"n_features=3: .* is a store, which was built with its own"):
        rs.load(path, n_features=3)
    with pytest.raises(ValueError, match="memory='1G': only a store is read in parts"):
        rs.load("iris", memory="1G")
    (tmp_path / "x.csv").write_text("1,2\n")
    with pytest.raises(ValueError, match="are files of different kinds"):
        rs.build_store(tmp_path / "b.store", [tmp_path / "part-0.svm", tmp_path / "x.csv"])


# --- computing with a store


@pytest.mark.parametrize("batch_size", [1, 7, N])
def test_constants_are_those_in_memory(built, batch_size):
    path, X, _ = built
    expected = rs.constants(sp.csr_array(X), batch_size=batch_size, permutations=3)
    for room in (1.5, 100.0):
        found = rs.constants(opened(path, room), batch_size=batch_size, permutations=3)
        np.testing.assert_allclose(found.hat, expected.hat, rtol=1e-9)
        np.testing.assert_allclose(found.til, expected.til, rtol=1e-9)
        np.testing.assert_allclose([found.L, found.hat_bound], [expected.L, expected.hat_bound], rtol=1e-9)


@pytest.mark.parametrize(("room", "within"), [(1.5, 0.02), (100.0, 1e-3)])
def test_quick_constants_bound_and_estimate(built, room, within):
    """Oracle: the norm itself, and the constants of measured orders below the bounds. No direction of this data is dominant, and
    half of the rows are looked at first where memory has no room for all.
    """
    path, X, _ = built
    for batch_size in (1, 7, N):
        quick = rs.quick_constants(opened(path, room), batch_size=batch_size)
        c = rs.constants(sp.csr_array(X), batch_size=batch_size, permutations=5)
        full = np.linalg.norm(X, 2) ** 2 / N
        assert quick.full_gradient_constant <= full * (1.0 + 1e-12)
        assert quick.full_gradient_constant == pytest.approx(full, rel=within)
        assert pytest.approx(c.L, rel=1e-12) == quick.L == (X**2).sum(axis=1).max()
        assert quick.mean_sample == pytest.approx((X**2).sum() / N, rel=1e-12)
        assert full <= quick.hat_bound * (1.0 + 1e-12) <= quick.mean_sample * (1.0 + 1e-12)
        assert c.lhat_max <= quick.hat_bound
        assert c.ltil_max <= quick.til_bound * (1.0 + 1e-12)
        assert quick.predicted_lhat == pytest.approx(c.predicted_lhat, rel=within)
        assert quick.predicted_step_size_limit == pytest.approx(c.safe_step_size_limit, rel=within)
        assert quick.safe_step_size_limit <= c.safe_step_size_limit * (1.0 + 1e-12)
    assert "no order was measured" in str(quick)


def test_upper_bounds_are_those_in_memory(built):
    path, X, _ = built
    how = {"batch_size": 7, "permutations": 2, "failure_probability": 0.01}
    expected, found = rs.constants(sp.csr_array(X), **how), rs.constants(opened(path), **how)
    np.testing.assert_allclose(found.til, expected.til, rtol=1e-9)
    np.testing.assert_allclose(found.hat, expected.hat, rtol=1e-9)


@pytest.mark.parametrize("order", ["rr", "so", "ig", "balanced", "blocks:16", "buffer:50", "replacement"])
def test_training_is_that_in_memory(built, order):
    path, X, y = built
    how = {"order": order, "batch_size": 4, "epochs": 3, "step_size": 0.01}
    expected = rs.minimize(rs.Problem(sp.csr_array(X), y, alpha=0.01, fit_intercept=True), **how)
    found = rs.minimize(rs.Problem(opened(path), y, alpha=0.01, fit_intercept=True), **how)
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.gap, expected.gap, rtol=1e-6)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_certified_fit_on_disk_has_the_gap_that_it_says(built, loss):
    path, X, y = built
    problem = rs.Problem(sp.csr_array(X), y, loss=loss, alpha=1e-3, fit_intercept=True)
    rows = opened(path)
    model = rs.CertifiedClassifier(loss, alpha=1e-3, tol=1e-6, random_state=0).fit(rows, rows.labels)
    least = rs.CertifiedClassifier(loss, alpha=1e-3, tol=1e-9, random_state=0).fit(X, y)
    f, best = (problem.objective(np.append(one.coef_, one.intercept_)) for one in (model, least))
    assert model.relative_gap_ <= 1e-6
    assert f - best <= model.dual_gap_ + least.dual_gap_
    np.testing.assert_array_equal(model.predict(rows), model.predict(X))
    assert model.score(rows, y) == model.score(X, y)
    sgd = rs.ShuffledSGDClassifier(loss, alpha=1e-3, epochs=3, step_size=0.01, tol=1e3, random_state=0)
    np.testing.assert_allclose(sgd.fit(rows, y).coef_, sgd.fit(X, y).coef_, rtol=1e-9)
    np.testing.assert_allclose(sgd.partial_fit(rows, y).coef_.shape, (1, D))


@pytest.mark.parametrize("kind", ["maxabs", "std", "rows"])
def test_scaled_rows_stay_on_disk(built, kind):
    path, X, y = built
    rows = opened(path)
    scaled = rs.scale(rows, kind).apply(rows)
    assert isinstance(scaled, DiskRows)
    expected = rs.scale(sp.csr_array(X), kind).apply(sp.csr_array(X))
    np.testing.assert_allclose(scaled.csr().toarray(), expected.csr().toarray(), rtol=1e-12, atol=1e-12)
    found = rs.constants(rs.Problem(scaled, y, alpha=0.1), permutations=2, batch_size=3)
    other = rs.constants(rs.Problem(expected, y, alpha=0.1), permutations=2, batch_size=3)
    np.testing.assert_allclose([*found.hat, *found.til], [*other.hat, *other.til], rtol=1e-9)


def test_a_journal_goes_on_whatever_the_memory(built, tmp_path):
    path, _, _ = built
    rs.constants(opened(path), permutations=2, out=tmp_path / "run.jsonl")
    found = rs.constants(opened(path, 100.0), permutations=4, out=tmp_path / "run.jsonl")
    np.testing.assert_allclose(found.hat, rs.constants(opened(path), permutations=4).hat, rtol=1e-12)
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 5


def test_scratch_that_has_no_room_is_refused_before_work(built, monkeypatch):
    import shutil

    path, _, _ = built
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 100}))
    with pytest.raises(ValueError, match="has 100 bytes free, and this order needs"):
        rs.constants(opened(path))
    before = sorted(path.iterdir())
    monkeypatch.undo()
    rs.constants(opened(path), permutations=2)
    assert sorted(path.iterdir()) == before  # nothing is left there


def test_commands(built, tmp_path, called):
    path, X, _ = built
    assert "rows         400" in called("store", "build", tmp_path / "c.store", tmp_path / "part-*", "--one-based").out
    assert content(tmp_path / "c.store").keys() == content(path).keys()
    assert "labels       yes" in called("store", "info", path, "--check").out
    assert json.loads(called("store", "info", path, "--json").out)["n"] == N
    c = json.loads(called("constants", path, "--memory", "64MiB", "--permutations", "2", "--json").out)
    assert c["lhat_mean"] == pytest.approx(rs.constants(sp.csr_array(X), permutations=2).lhat_mean, rel=1e-9)
    assert "certified relative gap" in called("fit", path, "--alpha", "1e-3", "--scale", "none", "--out", tmp_path / "m.json").out
    predicted = called("predict", tmp_path / "m.json", path)
    assert len(predicted.out.splitlines()) == N
    assert "accuracy" in predicted.err
