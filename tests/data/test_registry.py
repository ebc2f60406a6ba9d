"""Named datasets: found, added, fetched. Downloads run against a server of this test, with everything that can go wrong."""

import bz2
import gc
import hashlib
import io
import os
import resource
import signal
import subprocess
import sys
import tarfile
import threading
import warnings
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.data.fetch import fetch
from reshuffle.data.registry import DATASETS, Dataset, add, cache_folder, locate
from reshuffle.experiments.paper import TABLE_2

# the HTTP client leaves its socket to the garbage collector when a download breaks off
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")

TEXT = b"+1 1:0.5 3:2\n-1 2:1\n"
CONTENT = bz2.compress(TEXT)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RESHUFFLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RESHUFFLE_DATA", raising=False)


@pytest.fixture
def server():
    """Serves what `files` holds; a name that starts with "cut" promises more bytes than it sends."""
    files = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            content = files.get(self.path.lstrip("/"))
            if content is None:
                self.send_error(404)
                return
            cut = self.path.startswith("/cut")
            self.send_response(200)
            self.send_header("Content-Length", str(len(content) + (1000 if cut else 0)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}", files
    httpd.shutdown()
    httpd.server_close()
    with warnings.catch_warnings():  # here, and not in whatever test comes later
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def tiny(url, **changes):
    return replace(Dataset("tiny", 2, 4, url, "svmlight", "made for this test"), **changes)


def leftovers():
    return sorted(path.name for path in cache_folder().iterdir()) if cache_folder().exists() else []


def test_the_registry_is_the_papers_table():
    assert set(DATASETS) == set(TABLE_2)
    assert len(DATASETS) == 15
    assert all(dataset.note and dataset.url.startswith("https://") for dataset in DATASETS.values())


def test_a_fetched_dataset_is_converted_and_kept(server, monkeypatch):
    url, files = server
    files["tiny.bz2"] = CONTENT
    dataset = tiny(f"{url}/tiny.bz2", sha256=hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setitem(DATASETS, "tiny", dataset)
    path = fetch(dataset)
    assert leftovers() == ["sums.json", "tiny.npz"]
    files.clear()
    assert fetch(dataset) == path  # from now on without the network
    data = rs.load("tiny")
    np.testing.assert_array_equal(data.X.toarray(), [[0.5, 0, 2, 0], [0, 1, 0, 0]])
    np.testing.assert_array_equal(data.y, [1, -1])


@pytest.mark.skipif(os.name != "posix", reason="needs the signals of POSIX")
def test_a_fetch_that_was_killed_leaves_nothing_for_the_next(server):
    url, files = server
    files["tiny.bz2"] = CONTENT
    code = (
        "import os, signal\nfrom reshuffle.data import fetch, registry\nreplace = os.replace\n"
        "os.replace = lambda old, new: os.kill(os.getpid(), signal.SIGKILL) if new.name == 'tiny.npz' else replace(old, new)\n"
        f"fetch.fetch(registry.Dataset('tiny', 2, 4, '{url}/tiny.bz2', 'svmlight', ''))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert leftovers() == [".tiny.npz.lock", ".tiny.npz.part", "sums.json"]
    fetch(tiny(f"{url}/tiny.bz2"))
    assert leftovers() == ["sums.json", "tiny.npz"]


def test_a_download_that_nobody_vouches_for_is_told_and_compared_the_next_time(server):
    url, files = server
    files["tiny.bz2"] = CONTENT
    said: list[str] = []
    dataset = tiny(f"{url}/tiny.bz2")
    fetch(dataset, say=said.append).unlink()
    fetch(dataset, say=said.append).unlink()
    fetch(replace(dataset, sha256=hashlib.sha256(CONTENT).hexdigest()), say=said.append).unlink()
    sum_of_it = hashlib.sha256(CONTENT).hexdigest()
    assert said[0] == f"tiny: not verified: its source publishes no SHA-256. {sum_of_it} is kept and compared from now on"
    assert said[1].endswith("the same as at the first download")
    assert said[2] == "tiny: verified by its published SHA-256"
    files["tiny.bz2"] = bz2.compress(TEXT.replace(b"0.5", b"0.6"))
    with pytest.raises(OSError, match=f"not {sum_of_it} of an earlier download from the same address; if the source was changed"):
        fetch(dataset)
    assert leftovers() == ["sums.json"]
    (cache_folder() / "sums.json").write_text("[")
    with pytest.raises(OSError, match=r"sums\.json is damaged; delete it"):
        fetch(dataset)


def test_links_and_bombs_in_archives_are_refused_in_one_line(server, monkeypatch):
    url, files = server
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            member = tarfile.TarInfo("cifar/data_batch_1.bin")
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
        files["cifar.tar.gz"] = archive.getvalue()
        with pytest.raises(
            OSError, match=r"data_batch_1\.bin in cifar\.tar\.gz is a link or a folder, not a file; nothing was kept"
        ):
            fetch(tiny(f"{url}/cifar.tar.gz", kind="cifar", name="cifar"))
    monkeypatch.setenv("RESHUFFLE_MEMORY", "20M")
    files["bomb.bz2"] = bz2.compress(b"1 1:1\n" * 5_000_000)
    for kind in ("svmlight", "multilabel"):
        with pytest.raises(OSError, match=r"bomb\.bz2 holds more than the 21 MB of memory that are free"):
            fetch(tiny(f"{url}/bomb.bz2", kind=kind))
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        member = tarfile.TarInfo("cifar/data_batch_1.bin")
        member.size = 3073 * 10_000
        tar.addfile(member, io.BytesIO(bytes(member.size)))
    files["cifar.tar.gz"] = archive.getvalue()
    with pytest.raises(OSError, match=r"holds batches that would take 30.7 MB of memory"):
        fetch(tiny(f"{url}/cifar.tar.gz", kind="cifar", name="cifar"))
    assert leftovers() == []


@pytest.mark.parametrize(
    ("name", "changes", "complaint"),
    [
        ("cut.bz2", {}, "could not be fetched"),
        ("missing.bz2", {}, "404"),
        ("tiny.bz2", {"sha256": "0" * 64}, "not 0000"),
        ("tiny.bz2", {"n": 3}, "is 2 x 3; tiny is 3 x 4: this is another file or version"),
        ("tiny.bz2", {"d": 2}, "another file or version"),
    ],
)
def test_whatever_fails_leaves_nothing_behind(server, name, changes, complaint):
    url, files = server
    files["tiny.bz2"] = files["cut.bz2"] = CONTENT
    with pytest.raises((OSError, ValueError), match=r"\w") as error:
        fetch(tiny(f"{url}/{name}", **changes))
    assert complaint in str(error.value)
    assert leftovers() == []


@pytest.mark.skipif(os.name != "posix", reason="limits the size of files")
def test_a_full_disk_leaves_nothing_behind(server):
    """A limit on file size stands in for the full disk: writing fails in the same place."""
    url, files = server
    files["big"] = b"1 1:1\n" * 200_000
    code = (
        "from reshuffle.data.fetch import fetch; from reshuffle.data.registry import Dataset\n"
        f"fetch(Dataset('big', 200000, 1, '{url}/big', 'svmlight', ''))"
    )

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.returncode != 0
    assert "big could not be fetched" in done.stderr
    assert leftovers() == []


def test_no_server_at_all():
    with pytest.raises(OSError, match="tiny could not be fetched"):
        fetch(tiny("http://127.0.0.1:9/tiny"))
    assert leftovers() == []


def test_lists_of_labels_give_way_to_rows(server):
    url, files = server
    files["many.bz2"] = bz2.compress(b"1,5,7 1:0.5\n 2:1\n3 4:2\n")
    path = fetch(tiny(f"{url}/many.bz2", kind="multilabel", n=3))
    np.testing.assert_array_equal(rs.load(path).X.toarray(), [[0.5, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 2]])


def test_cifar_batches_and_images_are_flattened(server):
    Image = pytest.importorskip("PIL.Image")
    url, files = server
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (4, 3072), dtype=np.uint8)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for k in (0, 1):
            records = np.column_stack([np.zeros(2, np.uint8), pixels[2 * k : 2 * k + 2]]).tobytes()
            member = tarfile.TarInfo(f"cifar/data_batch_{k + 1}.bin")
            member.size = len(records)
            tar.addfile(member, io.BytesIO(records))
    files["cifar.tar.gz"] = archive.getvalue()
    made = fetch(tiny(f"{url}/cifar.tar.gz", kind="cifar", n=4, d=3072, name="cifar"))
    np.testing.assert_array_equal(rs.load(made).X, pixels)
    archive = io.BytesIO()
    images = rng.integers(0, 256, (3, 4, 5), dtype=np.uint8)
    with zipfile.ZipFile(archive, "w") as zipped:
        for k, image in enumerate(images):
            file = io.BytesIO()
            Image.fromarray(image).save(file, format="TIFF")
            zipped.writestr(f"folder/{k}.tif", file.getvalue())
    files["images.zip"] = archive.getvalue()
    made = fetch(tiny(f"{url}/images.zip", kind="images", n=3, d=20, name="images"))
    np.testing.assert_array_equal(rs.load(made).X, images.reshape(3, 20))


def test_folders_are_searched_in_order(tmp_path, monkeypatch):
    monkeypatch.setitem(DATASETS, "tiny", tiny("http://nowhere/tiny", aliases=("tiny_scale",)))
    places = [tmp_path / "chosen", tmp_path / "environment", cache_folder()]
    for place in places:
        place.mkdir(parents=True)
    monkeypatch.setenv("RESHUFFLE_DATA", str(places[1]))
    assert locate("tiny", places[0]) is None
    with pytest.raises(FileNotFoundError, match="reshuffle datasets fetch tiny"):
        rs.load("tiny")
    for place, name in zip(reversed(places), ("tiny.bz2", "tiny_scale", "tiny"), strict=True):
        (place / name).write_bytes(CONTENT if name.endswith("bz2") else TEXT)
        assert locate("tiny", places[0]) == place / name


def test_a_local_file_is_added_after_a_look_at_its_size(tmp_path, monkeypatch):
    monkeypatch.setitem(DATASETS, "tiny", tiny("http://nowhere/tiny"))
    (tmp_path / "mine.svm").write_bytes(TEXT)
    assert add("tiny", tmp_path / "mine.svm") == tmp_path / "mine.svm"
    assert rs.load("tiny").X.shape == (2, 4)
    (tmp_path / "other.svm").write_bytes(TEXT + TEXT)
    with pytest.raises(ValueError, match="is 4 x 3; tiny is 2 x 4"):
        add("tiny", tmp_path / "other.svm")
    (cache_folder() / "added.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged; delete it"):
        locate("tiny")
