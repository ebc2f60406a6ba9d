"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const drawings = read("drawings"), palettes = read("colours");

  // The figures: roles such as "$rr" become colours of the theme.
  const painted = (value, palette) => {
    if (typeof value === "string") return value.startsWith("$") ? palette[value.slice(1)] : value;
    if (Array.isArray(value)) return value.map((entry) => painted(entry, palette));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, painted(entry, palette)]));
  };
  const touch = matchMedia("(pointer: coarse)").matches;
  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: !touch,
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
  };
  const draw = (theme, printed = false) => {
    for (const place of document.querySelectorAll("[data-figure]")) {
      const { data, layout } = painted(drawings[place.dataset.figure], palettes[theme]);
      const named = data.filter((trace) => trace.showlegend !== false).length;
      if (printed) { // what fits on paper, whatever the screen
        layout.width = place.closest(".pair") ? 290 : 640;
        layout.height *= 0.8;
      }
      const narrow = (layout.width ?? place.clientWidth) < 560;
      if (narrow) layout.font.size = 12;
      if (narrow && named > 1) layout.height += 18 * (named - 1);
      if (touch) layout.dragmode = false; // a finger on a figure scrolls the page
      Plotly.newPlot(place, data, layout, config);
    }
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const redraw = () => draw(dark.matches ? "dark" : "light");
  dark.addEventListener("change", redraw);
  addEventListener("beforeprint", () => draw("light", true));
  addEventListener("afterprint", redraw);
  redraw();
})();
