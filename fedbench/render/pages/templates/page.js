"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const tip = document.getElementById("tip");
  const say = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - box.width - 4))}px`;
    tip.style.top = `${y - box.height - 10 > 0 ? y - box.height - 10 : y + 16}px`;
  };
  const hush = () => { tip.hidden = true; };

  // Tables: sort by a column in the view that is shown; words by their letters, below all numbers.
  const shown = (cell, view) => {
    const given = cell.dataset[view];
    if (given !== undefined) return Number(given);
    if (cell.querySelector(".view")) return NaN;
    const text = cell.textContent.trim();
    return text === "" ? NaN : Number(text);
  };
  const order = (one, other, view, sign) => {
    const a = shown(one, view), b = shown(other, view);
    if (!isNaN(a) && !isNaN(b)) return sign * (a - b);
    if (isNaN(a) !== isNaN(b)) return isNaN(a) ? 1 : -1;
    return sign * one.textContent.trim().localeCompare(other.textContent.trim());
  };
  const sort = (table) => {
    const head = table.querySelector("th[aria-sort]");
    if (!head) return;
    const sign = head.getAttribute("aria-sort") === "ascending" ? 1 : -1;
    const body = table.tBodies[0], column = head.cellIndex, view = table.dataset.view || "mean";
    body.append(...[...body.rows].sort((a, b) => order(a.cells[column], b.cells[column], view, sign)));
  };
  all("th button").forEach((button) => button.addEventListener("click", () => {
    const head = button.parentElement, table = head.closest("table");
    const next = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
    all("th[aria-sort]", table).forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", next);
    sort(table);
  }));
  all("select[data-views]").forEach((select) => select.addEventListener("change", () => {
    const table = document.getElementById(select.dataset.views);
    table.dataset.view = select.value;
    sort(table);
  }));
  all("input[data-heat]").forEach((box) => box.addEventListener("change", () => {
    document.getElementById(box.dataset.heat).classList.toggle("heated", box.checked);
  }));

  // Copying: the clipboard where a page from the file system may use it, else the old way.
  const copy = async (text) => {
    try { await navigator.clipboard.writeText(text); return true; } catch (error) { /* the old way */ }
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };
  all("button[data-copy]").forEach((button) => button.addEventListener("click", async () => {
    const done = await copy(document.getElementById(button.dataset.copy).textContent);
    const words = button.textContent;
    button.textContent = done ? "copied" : "cannot copy";
    setTimeout(() => { button.textContent = words; }, 1200);
  }));

  // Legends switch lines and dots of their figure on and off.
  all(".legend button").forEach((button) => button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    all("[data-label]", button.closest(".figure")).forEach((part) => {
      if (part.dataset.label === button.dataset.of) part.classList.toggle("off", !on);
    });
  }));

  // Charts that show a part of their range can show the whole of it.
  all("input[data-whole]").forEach((box) => box.addEventListener("change", () => {
    all("svg[data-stretch]", box.closest(".figure")).forEach((svg) => {
      svg.classList.toggle("whole", box.checked);
      const { stretch, shift } = svg.dataset;
      svg.querySelector(".stretched").setAttribute("transform", box.checked ? `translate(0 ${shift}) scale(1 ${stretch})` : "");
    });
  }));

  // Values of lines: the nearest point to the pointer, or, with the arrow keys, one after the other.
  const places = (path) => {
    if (!path.places) {
      const pixels = path.getAttribute("d").slice(1).split("L").map((pair) => pair.split(",").map(Number));
      path.places = path.dataset.values.split(" ").map((pair, at) => [...pixels[at], ...pair.split(":")]);
    }
    return path.places;
  };
  const height = (svg, y) => svg.classList.contains("whole") ? y * svg.dataset.stretch + Number(svg.dataset.shift) : y;
  const mark = (svg, path, at) => {
    const [x, drawn, place, value, spread] = places(path)[at], y = height(svg, drawn);
    const ring = svg.querySelector(".focus"), spot = svg.createSVGPoint();
    ring.setAttribute("cx", x); ring.setAttribute("cy", y); ring.removeAttribute("hidden");
    spot.x = x; spot.y = y;
    const here = spot.matrixTransform(svg.getScreenCTM());
    const name = path.parentElement.dataset.label;
    const where = svg.dataset.names ? JSON.parse(svg.dataset.names)[place] : `${svg.dataset.x} ${place}`;
    say(`${name ? `${name}, ` : ""}${where}: ${value}${spread ? ` ± ${spread}` : ""}`, here.x, here.y);
    svg.at = [path, at];
  };
  const curves = (svg) => all(".curve", svg).filter((path) => !path.parentElement.classList.contains("off"));
  all("svg.lines").forEach((svg) => {
    const leave = () => { svg.querySelector(".focus").setAttribute("hidden", ""); hush(); };
    svg.addEventListener("pointermove", (event) => {
      const spot = svg.createSVGPoint();
      spot.x = event.clientX; spot.y = event.clientY;
      const here = spot.matrixTransform(svg.getScreenCTM().inverse());
      let best = [Infinity];
      curves(svg).forEach((path) => places(path).forEach(([x, y], at) => {
        const far = Math.hypot(x - here.x, height(svg, y) - here.y);
        if (far < best[0]) best = [far, path, at];
      }));
      if (best[1]) mark(svg, best[1], best[2]);
    });
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (event.key === "Escape") leave();
      const there = curves(svg);
      if (!step || !there.length) return;
      event.preventDefault();
      const [path, at] = svg.at && there.includes(svg.at[0]) ? svg.at : [there[0], -1];
      const next = there[(there.indexOf(path) + step[0] + there.length) % there.length];
      mark(svg, next, Math.max(0, Math.min(at + step[1], places(next).length - 1)));
    });
  });
  all("[data-text]").forEach((part) => {
    const tell = () => { const box = part.getBoundingClientRect(); say(part.dataset.text, box.x + box.width / 2, box.y); };
    part.addEventListener("pointerenter", tell);
    part.addEventListener("focus", tell);
    part.addEventListener("pointerleave", hush);
    part.addEventListener("blur", hush);
  });

  // While a study runs its page is written again and again: look for news, but not under somebody's hands.
  const every = Number(document.body.dataset.reload || 0), stale = 120;
  let touched = -Infinity;
  if (every) {
    ["pointerdown", "keydown", "wheel"].forEach((kind) => addEventListener(kind, () => { touched = Date.now(); }, { passive: true }));
    const look = () => {
      if (Date.now() / 1000 - Number(document.body.dataset.written) > stale) {
        const news = document.getElementById("news");
        news.textContent = `Nothing new for ${stale} seconds: the command has probably been stopped. Reload the page to look again.`;
        news.hidden = false;
      } else if (Date.now() - touched > 3000 * every) location.reload();
      else setTimeout(look, 1000 * every);
    };
    setTimeout(look, 1000 * every);
  }
})();
