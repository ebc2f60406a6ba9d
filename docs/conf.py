"""The site: `make docs` builds it into docs/_build/html, without the network.

Docstrings are plain text, in which `name : meaning` describes an argument and bars and stars are mathematics; `as_rst` says that
to Sphinx. MathJax is copied into the site, so the pages need no network either.
"""

import importlib.util
import inspect
import re
from dataclasses import is_dataclass
from typing import Any

import reshuffle
from reshuffle.losses import Loss

project = "reshuffle"
author = copyright = "The reshuffle developers"
version = release = reshuffle.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build", "gallery/*.md5", "gallery/*.ipynb", "gallery/*.zip"]
smartquotes_action = "D"  # dashes; quotes stay as they are typed
default_role = "py:obj"  # `Problem` in a docstring is a link
add_module_names = False
toc_object_entries_show_parents = "hide"

myst_enable_extensions = ["dollarmath", "fieldlist"]
myst_heading_anchors = 3

autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    # without torch, the example that needs it is shown and not run
    "filename_pattern": r"\.py$" if importlib.util.find_spec("torch") else r"/(?!shuffle_of_a_network)\w+\.py$",
    "default_thumb_file": "docs/_static/logo.svg",
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e9,  # how long an example took on one machine says nothing
    "write_computation_times": False,
    "remove_config_comments": True,
    "copyfile_regex": r"^$",
}

html_theme = "pydata_sphinx_theme"
html_title = "reshuffle"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars: dict[str, list[str]] = {"index": [], "theory": [], "proofs": [], "contributing": [], "changelog": [], "cite": []}
html_theme_options = {
    "logo": {"text": "reshuffle", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_favicon = "_static/logo.svg"

ITEM = re.compile(r"(\w+) : (.*)")


def escape(line: str) -> str:
    """Outside of backticks, stars, bars and trailing underscores mean themselves."""
    parts = re.split(r"(`[^`]*`)", line)
    parts[::2] = [re.sub(r"([\\*|]|_(?!\w))", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def as_rst(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """`name : meaning` and the lines indented below it become a field of the argument."""
    text: list[str] = []
    among_items = False
    for line in lines:
        item = ITEM.match(line)
        if item and not among_items:
            text.append("")
        elif among_items and not item and not line.startswith(" "):
            text.append("")
            among_items = False
        among_items = among_items or item is not None
        text.append(f":param {item[1]}: {escape(item[2])}" if item else escape(line))
    lines[:] = text


def simpler_signature(app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: str | None) -> Any:
    """No signature for results and protocols, which nobody constructs; for functions, the name of what they return."""
    if isinstance(obj, type) and (is_dataclass(obj) or getattr(obj, "_is_protocol", False)) and not issubclass(obj, Loss):
        return "", None
    if what in ("function", "method") and signature:
        annotation = inspect.get_annotations(obj).get("return")
        text = getattr(annotation, "__name__", re.sub(r"\b\w+\.", "", str(annotation)))  # which may be text itself
        return signature, {"ndarray": "array", "Any": None, "None": None, "Self": None}.get(text, text)
    return None


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", as_rst)
    app.connect("autodoc-process-signature", simpler_signature)
