"""Files for every format that is read, whole and damaged, each with what its reader should find.

A case is made of a format and a seed. Whole files come from a grammar and carry the matrix that they stand for; damaged ones are
whole ones with bytes flipped, cut, doubled or replaced, and must be refused in words or still be readable.
"""

import bz2
import gzip
import io
import json
import lzma
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.records import checksum

PACKED = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def numbers(rng, shape):
    """Of many sizes, some of them zero or whole."""
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-9, 9, shape)
    values = np.where(rng.random(shape) < 0.3, np.rint(values % 7), values)
    return np.where(rng.random(shape) < 0.3, 0.0, values)


def written(rng, value):
    """A number in one of the ways in which people write it."""
    text = repr(float(value))
    forms = [text, f"{value:.17e}", f"{value:+.17g}", text.replace("e", "E"), f"{text}" if "e" in text else f"{text}000"]
    return str(rng.choice(forms))


def svmlight(rng):
    n, d = int(rng.integers(1, 12)), int(rng.integers(1, 9))
    X, y = numbers(rng, (n, d)), np.rint(numbers(rng, n) % 5)
    base = int(rng.integers(2))
    if base == 0:
        X[0, 0] = 1.5  # the index 0 occurs, so there is nothing to guess
    lines = []
    for label, row in zip(y, X, strict=True):
        blank = str(rng.choice([" ", "  ", "\t", " \t "]))
        cells = [f"{j + base}:{written(rng, x)}" for j, x in enumerate(row) if x or rng.random() < 0.1]
        query = [f"qid:{rng.integers(99)}"] if rng.random() < 0.2 else []
        comment = str(rng.choice(["", "", " # 7:7 q", "#x"]))
        lines.append(blank.join([written(rng, label), *query, *cells]) + comment)
        lines += ["", "# nothing here"] if rng.random() < 0.1 else []
    end = str(rng.choice(["\n", "\r\n"]))
    text = end.join(lines) + (end if rng.random() < 0.8 else "")
    return text.encode(), X, y, {"n_features": d, "zero_based": base == 0}


def csv(rng):
    n, d = int(rng.integers(2, 12)), int(rng.integers(1, 7))
    X, y = numbers(rng, (n, d)), np.rint(numbers(rng, n) % 5)
    X[0] += 0.25  # a column of zeros and ones in words would be another thing
    between = str(rng.choice([",", "\t", ";"])) if d > 1 else ","
    end = str(rng.choice(["\n", "\r\n"]))
    quoted = rng.random() < 0.2
    rows = [[written(rng, v) for v in (*row, label)] for row, label in zip(X, y, strict=True)]
    if rng.random() < 0.7:
        rows.insert(0, [f"feature {k}" for k in range(d)] + ["label"])
    text = end.join(between.join(f'"{cell}"' if quoted else cell for cell in row) for row in rows) + end
    return text.encode("utf-8-sig" if rng.random() < 0.1 else "utf-8"), X, y, {}


def _table(rng):
    n, d = int(rng.integers(2, 12)), int(rng.integers(1, 7))
    X, y = numbers(rng, (n, d)), np.rint(numbers(rng, n) % 5)
    return X, y, pa.table({**{f"f{k}": X[:, k] for k in range(d)}, "label": y})


def parquet(rng):
    X, y, table = _table(rng)
    out = io.BytesIO()
    packing = str(rng.choice(["NONE", "SNAPPY", "GZIP", "ZSTD"]))
    pa.parquet.write_table(
        table, out, compression=packing, use_dictionary=bool(rng.integers(2)), row_group_size=int(rng.integers(1, 9))
    )
    return out.getvalue(), X, y, {}


def feather(rng):
    X, y, table = _table(rng)
    out = io.BytesIO()
    pa.feather.write_feather(table, out, compression=str(rng.choice(["uncompressed", "lz4", "zstd"])))
    return out.getvalue(), X, y, {}


def npy(rng):
    X = numbers(rng, (int(rng.integers(1, 12)), int(rng.integers(1, 9))))
    kind = str(rng.choice(["<f8", ">f8", "<f4", "<i4", "u1", "?", "<f2"]))
    with np.errstate(over="ignore", invalid="ignore"):
        X = np.clip(X, -1e4, 1e4).astype(kind) if kind != "u1" else np.clip(X, 0, 255).astype(kind)
    out = io.BytesIO()
    np.save(out, np.asfortranarray(X) if rng.random() < 0.3 else X)
    return out.getvalue(), X.astype(np.float64), None, {}


def npz(rng):
    n = int(rng.integers(1, 12))
    X, y, out = numbers(rng, (n, int(rng.integers(1, 9)))), rng.integers(0, 3, n), io.BytesIO()
    if rng.random() < 0.6:
        sp.save_npz(out, getattr(sp, f"{rng.choice(['csr', 'csc', 'coo', 'bsr'])}_array")(X), compressed=bool(rng.integers(2)))
        return out.getvalue(), X, None, {}
    (np.savez if rng.random() < 0.5 else np.savez_compressed)(out, X=X, y=y)
    return out.getvalue(), X, y, {}


FORMATS = {
    "svm": (svmlight, ".svm"),
    "csv": (csv, ".csv"),
    "parquet": (parquet, ".parquet"),
    "feather": (feather, ".feather"),
    "npy": (npy, ".npy"),
    "npz": (npz, ".npz"),
}
TEXT = ("svm", "csv")
TOKENS = [
    b"nan",
    b"inf",
    b"-1",
    b"99999999999",
    b"1e999",
    b":",
    b",",
    b"\n",
    b'"',
    b"\x00",
    b"\xff\xfe",
    b"q",
    b"#",
    b"0:",
    b"1:1",
    b"=",
]
TOKENS += [b"PK\x03\x04", b"\x93NUMPY", b"(3,)", b"\xff" * 8, b"\x00" * 8, b"\x7f\xff\xff\xff", b"[" * 50]


def damaged(rng, content):
    """Whole bytes with a few of them changed."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        if not data:
            break
        at, kind = int(rng.integers(len(data))), int(rng.integers(6))
        size = int(rng.integers(1, 1 + min(64, len(data))))
        if kind == 0:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at : at + size]
        elif kind == 3:
            data[at:at] = TOKENS[int(rng.integers(len(TOKENS)))]
        elif kind == 4:
            data[at:at] = data[at : at + size]
        else:
            data[at : at + size] = rng.integers(0, 256, size, dtype=np.uint8).tobytes()
    return bytes(data)


def trial(folder, form, seed):
    """What was wrong with reading one file: None, or a kind ("wrong", "refused_valid", "traceback") and words."""
    rng = np.random.default_rng([seed, list(FORMATS).index(form)])
    make, ending = FORMATS[form]
    content, X, y, options = make(rng)
    whole = rng.random() < 0.4
    packing = str(rng.choice(list(PACKED))) if form in TEXT else ""
    if not whole and rng.random() < 0.7:
        content = PACKED[packing](damaged(rng, content))
    else:
        content = PACKED[packing](content)
        content = content if whole else damaged(rng, content)
    path = Path(folder) / f"case{ending}{packing}"
    path.write_bytes(content)
    if not whole and rng.random() < 0.3:
        options = {**options, "weight": str(rng.choice(["0", "-1", "y", "X", "case.npy", "none"]))}
    try:
        data = rs.load(path, **options)
    except (ValueError, OSError) as error:
        words = str(error)
        if whole:
            return "refused_valid", words
        return None if "case" in words and "\n" not in words and len(words) < 2000 else ("traceback", words[:300])
    except Exception as error:  # what a user should never see
        return "traceback", f"{type(error).__name__}: {error}"[:300]
    found = data.X.toarray() if sp.issparse(data.X) else np.asarray(data.X, dtype=np.float64)
    if not np.isfinite(found).all() or found.ndim != 2 or not found.size:
        return "wrong", f"read as {found!r}"
    if whole and not (np.array_equal(found, X) and (y is None or np.array_equal(np.asarray(data.y, dtype=float), y))):
        return "wrong", f"{X!r} was read as {found!r}"
    return None


# --- what the library writes itself


PROBLEM = rs.Problem(np.arange(60.0).reshape(20, 3) % 7, np.arange(20) % 2)
RUNS = {
    "journal": (
        lambda path: rs.constants(PROBLEM, permutations=3, jobs=1, out=path),
        lambda run: run.hat.tobytes() + run.til.tobytes(),
    ),
    "checkpoint": (lambda path: rs.minimize(PROBLEM, step_size=0.01, epochs=3, checkpoint=path), lambda run: run.x.tobytes()),
    "balanced": (
        lambda path: rs.minimize(PROBLEM, order="balanced", step_size=0.01, epochs=3, checkpoint=path),
        lambda run: run.x.tobytes(),
    ),
}
_RECORDS: dict = {}


def record_trial(folder, what, seed):
    """A damaged record is refused in words, or what comes of it is what came of the whole one."""
    import warnings

    path = Path(folder) / f"record.{what}"
    run, key = RUNS[what]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # lines that were damaged are named so
        if what not in _RECORDS:
            path.unlink(missing_ok=True)
            result = key(run(path))
            _RECORDS[what] = path.read_bytes(), result
        content, expected = _RECORDS[what]
        path.write_bytes(damaged(np.random.default_rng([seed, len(what)]), content))
        try:
            found = key(run(path))
        except ValueError as error:
            return None if "record" in str(error) and "\n" not in str(error) else ("traceback", str(error)[:300])
        except Exception as error:
            return "traceback", f"{type(error).__name__}: {error}"[:300]
    return None if found == expected else ("wrong", f"{what} gave other numbers after it was damaged")


def model_trial(folder, seed):
    """A damaged model is refused in words, or predicts as the whole one; one with a checksum that fits is looked at inside."""
    path = Path(folder) / "model.json"
    if "model" not in _RECORDS:
        model = rs.CertifiedClassifier(alpha=0.1).fit(PROBLEM.X, PROBLEM.y)
        rs.models.save(model, path)
        _RECORDS["model"] = path.read_bytes(), model.decision_function(PROBLEM.X)
    content, expected = _RECORDS["model"]
    rng = np.random.default_rng([seed, 7])
    forged = rng.random() < 0.5
    if forged:
        fields = json.loads(content)
        name = str(rng.choice(sorted(fields)))
        wrong = [None, -1, 2.5, "x", [], [[1]], {}, True, [1.0, "a"], float("nan"), 10**400, {"a": [1]}]
        fields[name] = wrong[int(rng.integers(len(wrong)))]
        if name != "checksum":
            fields["checksum"] = checksum({key: value for key, value in fields.items() if key != "checksum"})
        path.write_text(json.dumps(fields))
    else:
        path.write_bytes(damaged(rng, content))
    try:
        model = rs.models.load(path)
        found = model.decision_function(PROBLEM.X)
    except ValueError as error:
        return None if "model.json" in str(error) or forged else ("traceback", str(error)[:300])
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"[:300]
    return None if forged or np.array_equal(found, expected) else ("wrong", "a damaged model predicts otherwise")


def stored(path):
    """Every file of a store."""
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def store_trial(folder, seed):
    """A store with one damaged file is refused in words, or reads as the whole one; a manifest with a checksum that fits is looked
    at inside, and so are blocks that it vouches for.
    """
    from reshuffle.data import build
    from reshuffle.data.store import save

    path, rng = Path(folder) / "case.store", np.random.default_rng([seed, 11])
    if "store" not in _RECORDS:
        X = numbers(np.random.default_rng(3), (90, 5))
        np.savez(Path(folder) / "case.npz", X=X, y=np.arange(90) % 2, w=np.arange(90) % 5)
        sp.save_npz(Path(folder) / "sparse.npz", sp.csr_array(X))
        build.BLOCK, kept = 900, build.BLOCK
        for name, source, weight in (("dense", "case.npz", "w"), ("sparse", "sparse.npz", None)):
            rs.build_store(Path(folder) / f"{name}.store", Path(folder) / source, weight=weight)
        build.BLOCK = kept
        _RECORDS["store"] = {name: stored(Path(folder) / f"{name}.store") for name in ("dense", "sparse")}, X
    whole, X = _RECORDS["store"]
    files = whole[str(rng.choice(list(whole)))]
    shutil.rmtree(path, ignore_errors=True)
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    forged = rng.random() < 0.4
    if not forged:
        name = str(rng.choice(list(files)))
        (path / name).write_bytes(damaged(rng, files[name]))
    else:
        manifest = json.loads(files["store.json"])
        manifest.pop("checksum")
        block = manifest["blocks"][int(rng.integers(len(manifest["blocks"])))]
        wrong = [None, -1, 2.5, "x", [], {}, True, 10**18, 0, 1]
        if rng.random() < 0.5:  # an array that is not what the others ask for
            name = str(rng.choice(list(block["arrays"])))
            array = np.array(np.load(path / block["name"] / f"{name}.npy"))
            array.reshape(-1)[int(rng.integers(array.size))] = np.array(rng.choice([-1, 99, 10**9])).astype(array.dtype)
            block["arrays"][name] = save(path / block["name"] / f"{name}.npy", array[: int(rng.integers(len(array) + 1))])
        else:
            place = block if rng.random() < 0.5 else manifest
            place[str(rng.choice(sorted(place)))] = wrong[int(rng.integers(len(wrong)))]
        (path / "store.json").write_text(json.dumps(manifest | {"checksum": checksum(manifest)}))
    try:
        rows = rs.open(path)
        found = rows.csr().toarray()
        rows.transposed(np.ones(rows.n))
        rows.labels, rows.weights  # noqa: B018
    except (ValueError, OSError) as error:
        return None if "case.store" in str(error) and "\n" not in str(error) else ("traceback", str(error)[:300])
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"[:300]
    return None if forged or np.array_equal(found, X) else ("wrong", "a damaged store reads otherwise")
