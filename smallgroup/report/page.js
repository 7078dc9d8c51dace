"use strict";
(function () {
  let data = {operations: {}, cells: {}};
  const all = (root, query) => Array.from(root.querySelectorAll(query));
  const set = (node, values) => Object.entries(values).forEach(([name, value]) => node.setAttribute(name, value));
  document.documentElement.classList.add("js");

  // A tip at the pointer. Titles of drawings would be shown beside it, so a script takes them away; labels stay.
  const tip = document.createElement("p");
  set(tip, {class: "tip", role: "status"});
  tip.hidden = true;
  document.body.append(tip);
  function say(told, x, y) {
    tip.textContent = told;
    tip.hidden = false;
    const left = Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 4));
    const top = y + tip.offsetHeight + 20 > innerHeight ? Math.max(4, y - tip.offsetHeight - 12) : y + 16;
    tip.style.left = `${left}px`;
    tip.style.top = `${top}px`;
  }
  const hush = () => { tip.hidden = true; };
  function tips(root, query, told) {
    all(root, query).forEach((one) => {
      one.addEventListener("pointermove", (event) => say(told(one), event.clientX, event.clientY));
      one.addEventListener("focus", () => {
        const box = one.getBoundingClientRect();
        say(told(one), box.left, box.bottom - 12);
      });
      ["pointerleave", "blur"].forEach((event) => one.addEventListener(event, hush));
    });
  }
  function points(root) {
    const names = new Map(all(root, "g.point").map((one) => [one, one.querySelector("title").textContent]));
    tips(root, "g.point", (one) => names.get(one));
  }

  // Leaderboards: heads sort, words filter.
  const number_of = (words) => (words.trim() === "" ? NaN : Number(words));
  function compare(a, b, down) {
    if (a === "" || b === "") { return (a === "") - (b === ""); }  // what is not known comes last, both ways
    const [x, y] = [number_of(a), number_of(b)];
    const order = Number.isNaN(x) || Number.isNaN(y) ? (a < b ? -1 : a > b ? 1 : 0) : x - y;
    return down ? -order : order;
  }
  function boards(root) {
    all(root, ".board").forEach((board) => {
      const body = board.querySelector("tbody"), rows = all(body, "tr"), heads = all(board, "thead th");
      const input = board.querySelector("input"), count = board.querySelector("output");
      const filter = () => {
        const wanted = input.value.toLowerCase().split(/\s+/);
        rows.forEach((row) => { row.hidden = !wanted.every((word) => row.textContent.toLowerCase().includes(word)); });
        count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} runs`;
      };
      input.addEventListener("input", filter);
      heads.forEach((head, place) => head.querySelector("button").addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        set(head, {"aria-sort": down ? "descending" : "ascending"});
        rows.sort((a, b) => compare(a.children[place].dataset.value, b.children[place].dataset.value, down));
        body.append(...rows);
      }));
      filter();
    });
  }

  // Tabs: one panel at a time, arrow keys between them.
  function tabs(root) {
    const buttons = all(root, ":scope > [role=tablist] > [role=tab]");
    const panels = all(root, ":scope > [role=tabpanel]");
    const choose = (place) => {
      buttons.forEach((button, i) => set(button, {"aria-selected": i === place, tabindex: i === place ? 0 : -1}));
      panels.forEach((panel, i) => { panel.hidden = i !== place; });
    };
    buttons.forEach((button, place) => {
      button.addEventListener("click", () => choose(place));
      button.addEventListener("keydown", (event) => {
        const move = {ArrowRight: 1, ArrowLeft: -1}[event.key];
        if (move) {
          const next = (place + move + buttons.length) % buttons.length;
          choose(next);
          buttons[next].focus();
        }
      });
    });
    choose(Math.max(0, buttons.findIndex((button) => button.getAttribute("aria-selected") === "true")));
  }

  // Copy buttons.
  function copies(root) {
    all(root, "button.copy").forEach((button) => button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      let done = false;
      try { await navigator.clipboard.writeText(code.textContent); done = true; } catch (_) {
        const range = document.createRange();
        range.selectNodeContents(code);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        try { done = document.execCommand("copy"); } catch (_) { done = false; }
      }
      const told = button.parentElement.querySelector("[role=status]");
      told.textContent = button.textContent = done ? "Copied" : "Select and copy";
      setTimeout(() => { button.textContent = "Copy"; told.textContent = ""; }, 1500);
    }));
  }

  // Cells: rows stay where they are; what is on them changes with the epoch.
  const share = (course, frame, edge, name) => {
    const row = frame.shares[edge], place = course.operations.indexOf(name);
    return row && place >= 0 && row[place] !== null ? row[place] / 10000 : null;
  };
  function words(course, frame, row) {
    const [node, source, name, edge] = row;
    const own = share(course, frame, edge, name);
    const start = `${name} from node ${source} to node ${node}`;
    if (own === null) { return start; }
    const others = course.operations
      .map((other) => [other, share(course, frame, edge, other)])
      .filter(([other, value]) => other !== name && value !== null)
      .sort((a, b) => b[1] - a[1]);
    const told = others.map(([other, value]) => `${other} ${value.toFixed(3)}`).join(", ");
    return `${start}, share ${own.toFixed(3)}; alternatives: ${told}`;
  }
  function showCell(svg, epoch) {
    const course = data.cells[svg.dataset.frame];
    if (!course) { return; }
    const known = Object.keys(course.epochs).map(Number).filter((one) => one <= epoch);
    const frame = course.epochs[known.length ? Math.max(...known) : Object.keys(course.epochs)[0]];
    const left = +svg.dataset.left, lane = +svg.dataset.lane, pill = +svg.dataset.pill;
    const rows = {}, ends = {};
    frame.rows.forEach((row) => { (rows[row[0]] = rows[row[0]] || []).push(row); });
    all(svg, "g.edge").forEach((group) => {
      const row = (rows[group.dataset.node] || []).shift();
      group.classList.toggle("empty", !row);
      if (!row) { return; }
      const [, source, name, edge] = row;
      const [color, ink] = data.operations[name] || ["#8c959f", "#000000"];
      const part = share(course, frame, edge, name), y = +group.dataset.y, x = left + lane * source;
      const known = (frame.shares[edge] || []).filter((one) => one !== null).length, uniform = 1 / known;
      const decided = known > 1 ? Math.max(0, (part - uniform) / (1 - uniform)) : 1;
      const width = part === null ? 2 : 1 + 7 * decided, dash = name === "none" ? "4 3" : "none";
      const bar = pill + 10, length = +svg.dataset.gauge, below = y + 12.5, level = bar + length * uniform;
      set(group.querySelector(".gauge"), {d: part === null ? "" : `M${bar} ${below}L${bar + length * part} ${below}`});
      set(group.querySelector(".uniform"), {d: part === null ? "" : `M${level} ${y + 10}L${level} ${y + 15}`});
      ends[source] = y;
      set(group.querySelector(".halo"), {d: `M${x} ${y}L${pill} ${y}`, "stroke-width": width + 3});
      set(group.querySelector(".rim"), {d: `M${x} ${y}L${pill} ${y}`, "stroke-width": name === "none" ? 0 : width + 1.2});
      set(group.querySelector(".ride"), {d: `M${x} ${y}L${pill} ${y}`, stroke: color, "stroke-width": width, "stroke-dasharray": dash});
      set(group.querySelector(".tail"), {stroke: color, "stroke-width": width, "stroke-dasharray": dash});
      set(group.querySelector(".stop"), {cx: x, fill: color});
      set(group.querySelector(".pill"), {fill: color});
      const label = group.querySelector(".operation"), number = group.querySelector(".share");
      label.textContent = name;
      number.textContent = part === null ? "" : part.toFixed(2);
      [label, number].forEach((one) => set(one, {fill: ink}));
      set(group, {"aria-label": words(course, frame, row)});
    });
    frame.output.forEach((node) => { ends[node] = +svg.dataset.bottom; });
    all(svg, "g.lane").forEach((group) => {
      const x = left + lane * group.dataset.lane, start = +group.dataset.start;
      const end = Math.max(start, ends[group.dataset.lane] || start);
      set(group.querySelector("path"), {d: `M${x} ${start}L${x} ${end}`});
    });
  }
  function cells(root) {
    all(root, ".slider").forEach((box) => {
      const part = box.closest(".part"), slider = box.querySelector("input"), output = box.querySelector("output");
      const epochs = slider.dataset.epochs.split(",").map(Number);
      const show = () => {
        const epoch = epochs[+slider.value];
        output.textContent = epoch;
        set(slider, {"aria-valuetext": `epoch ${epoch}`});
        all(part, "svg.cell[data-frame]").forEach((svg) => showCell(svg, epoch));
      };
      slider.addEventListener("input", show);
      const play = box.querySelector(".play");
      let timer = null;
      const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
      play.addEventListener("click", () => {
        if (timer) { stop(); return; }
        if (+slider.value === epochs.length - 1) { slider.value = 0; show(); }
        play.textContent = "Stop";
        timer = setInterval(() => {
          if (+slider.value >= epochs.length - 1) { stop(); return; }
          slider.value = +slider.value + 1;
          show();
        }, 600);
      });
      if (+slider.value !== epochs.length - 1) { show(); }
    });
  }

  // Charts: the table of numbers is the data; a line follows the pointer or the arrow keys.
  function charts(root) {
    all(root, ".chart-figure").forEach((figure) => {
      const svg = figure.querySelector("svg.chart");
      const titles = all(figure, "table.numbers thead th").slice(1).map((one) => one.textContent);
      const unit = (figure.querySelector(".unit") || {textContent: ""}).textContent.trim();
      const rows = all(figure, "table.numbers tbody tr").map((row) => ({
        epoch: +row.querySelector("th").textContent, cells: all(row, "td")}));
      const size = svg.dataset;
      const mark = document.createElementNS("http://www.w3.org/2000/svg", "path");
      set(mark, {stroke: "var(--ink)", "stroke-width": 1, class: "mark"});
      svg.append(mark);
      let place = rows.length - 1;
      const show = (next, pointer) => {
        place = Math.min(Math.max(next, 0), rows.length - 1);
        const row = rows[place], span = +size.last - +size.first;
        const x = +size.left + (row.epoch - +size.first) / span * (+size.right - +size.left);
        set(mark, {d: `M${x} ${size.top}L${x} ${size.bottom}`});
        const told = row.cells.map((cell, i) => cell.textContent && `${titles[i]} ${cell.textContent} (line ${cell.dataset.line})`);
        const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
        const [left, top] = pointer || [box.left + x * scale, box.top + 8];
        say([`Epoch ${row.epoch} ${unit}`, ...told.filter(Boolean)].join("\n"), left, top);
      };
      const hide = () => { mark.removeAttribute("d"); hush(); };
      svg.setAttribute("tabindex", "0");
      svg.addEventListener("pointermove", (event) => {
        const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
        const share = ((event.clientX - box.left) * scale - +size.left) / (+size.right - +size.left);
        const epoch = +size.first + share * (+size.last - +size.first);
        let best = 0;
        rows.forEach((row, i) => { if (Math.abs(row.epoch - epoch) < Math.abs(rows[best].epoch - epoch)) { best = i; } });
        show(best, [event.clientX, event.clientY]);
      });
      svg.addEventListener("pointerleave", hide);
      svg.addEventListener("blur", hide);
      svg.addEventListener("keydown", (event) => {
        const move = {ArrowRight: 1, ArrowLeft: -1}[event.key];
        if (move) { event.preventDefault(); show(mark.hasAttribute("d") ? place + move : place); }
      });
      all(figure, ".legend button").forEach((button) => button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        set(button, {"aria-pressed": on});
        const group = svg.querySelector(`g.series[data-series="${button.dataset.series}"]`);
        if (on) { group.removeAttribute("hidden"); } else { group.setAttribute("hidden", ""); }
      }));
    });
  }

  // Heat maps: the share below the pointer, or below the arrow keys.
  function heats(root) {
    all(root, ".heat-figure").forEach((figure) => {
      const svg = figure.querySelector("svg");
      const course = data.cells[svg.dataset.frame];
      if (!course) { return; }
      const epochs = Object.keys(course.epochs).map(Number).filter((e) => course.epochs[e].shares.length).sort((a, b) => a - b);
      const size = svg.dataset;
      let at = [0, 0, epochs.length - 1];
      const show = (pointer) => {
        const box = svg.getBoundingClientRect(), [left, top] = pointer || [box.left, box.top];
        const [edge, place, column] = at, frame = course.epochs[epochs[column]];
        const value = frame.shares[edge][place], [source, node] = course.edges[edge];
        const told = value === null ? "removed" : `share ${(value / 10000).toFixed(3)}`;
        say(`Epoch ${epochs[column]}, edge ${source} → ${node}, ${course.operations[place]}: ${told}`, left, top);
      };
      const clip = (value, end) => Math.min(Math.max(value, 0), end - 1);
      svg.setAttribute("tabindex", "0");
      svg.addEventListener("pointermove", (event) => {
        const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
        const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale - +size.top;
        const edge = clip(Math.floor(y / +size.band), course.edges.length);
        const place = clip(Math.floor((y - edge * +size.band) / +size.strip), course.operations.length);
        const column = clip(Math.floor((x - +size.left) / (+size.right - +size.left) * epochs.length), epochs.length);
        at = [edge, place, column];
        show([event.clientX, event.clientY]);
      });
      svg.addEventListener("keydown", (event) => {
        const columns = {ArrowRight: 1, ArrowLeft: -1}[event.key], strips = {ArrowDown: 1, ArrowUp: -1}[event.key];
        if (!columns && !strips) { return; }
        event.preventDefault();
        const count = course.operations.length;
        const strip = clip(at[0] * count + at[1] + (strips || 0), course.edges.length * count);
        at = [Math.floor(strip / count), strip % count, clip(at[2] + (columns || 0), epochs.length)];
        show();
      });
      ["pointerleave", "blur"].forEach((event) => svg.addEventListener(event, hush));
    });
  }

  function begin() {
    const main = document.querySelector("main");
    hush();
    points(main);
    all(main, "svg title").forEach((one) => one.remove());
    tips(main, "g.edge", (one) => one.getAttribute("aria-label"));
    [copies, cells, charts, heats, boards].forEach((part) => part(main));
    all(main, ".tabs").forEach(tabs);
  }

  // A page that is served looks for news; what the reader has set stays as it is.
  // Parts come and go between two looks, so a thing is known by its words in the part with an id that it is in.
  const words_of = (node) => node.getAttribute("aria-label") || node.textContent;
  const name_of = (node) => {
    const home = node.closest("[id]");
    return `${home ? home.id : ""} ${node.tagName} ${node.matches("details") ? words_of(node.querySelector("summary")) : words_of(node)}`;
  };
  const SET = {
    open: "details[open]", chosen: "[role=tab][aria-selected=true]", off: ".legend button[aria-pressed=false]"};
  const epochs_of = (slider) => slider.dataset.epochs.split(",").map(Number);
  function settings() {
    const kept = {sliders: {}, playing: new Set(), scroll: scrollY, focus: null};
    Object.entries(SET).forEach(([name, query]) => { kept[name] = new Set(all(document, query).map(name_of)); });
    all(document, ".slider input").forEach((one) => {
      if (+one.value !== +one.max) { kept.sliders[one.id] = epochs_of(one)[+one.value]; }
      if (one.closest(".slider").querySelector(".play").textContent === "Stop") { kept.playing.add(one.id); }
    });
    const focused = document.activeElement;
    if (focused && focused.closest("main")) {
      const home = focused.closest("[id]") || document.body;
      kept.focus = {name: name_of(focused), home: home.id, tag: focused.tagName, place: all(home, focused.tagName).indexOf(focused)};
    }
    return kept;
  }
  function restore(kept) {
    all(document, "details").forEach((one) => { one.open = kept.open.has(name_of(one)); });
    all(document, "[role=tab]").forEach((one) => { if (kept.chosen.has(name_of(one))) { one.click(); } });
    all(document, ".legend button").forEach((one) => { if (kept.off.has(name_of(one))) { one.click(); } });
    all(document, ".slider input").forEach((one) => {
      if (one.id in kept.sliders) {
        const later = epochs_of(one).findIndex((epoch) => epoch >= kept.sliders[one.id]);
        one.value = later < 0 ? one.max : later;
        one.dispatchEvent(new Event("input"));
      }
      if (kept.playing.has(one.id) && +one.value !== +one.max) { one.closest(".slider").querySelector(".play").click(); }
    });
    if (kept.focus) {
      const home = document.getElementById(kept.focus.home) || document.body;
      const alike = home.matches(kept.focus.tag) ? [home] : all(home, kept.focus.tag);
      const same = alike.find((one) => name_of(one) === kept.focus.name) || alike[kept.focus.place];
      if (same) { same.focus({preventScroll: true}); }
    }
    scrollTo(0, kept.scroll);
  }
  let version = "", seen = new Date();
  async function look() {
    try {
      const answer = await fetch(`data?version=${encodeURIComponent(version)}`, {cache: "no-store"});
      const news = await answer.json();
      document.body.dataset.reached = "yes";
      seen = new Date();
      const problem = document.querySelector(".problem");
      problem.hidden = !news.problem;
      problem.textContent = news.problem ? `This run cannot be read now: ${news.problem}. This page shows it as it was.` : "";
      if (news.main && news.version !== version) {
        const kept = settings();
        document.querySelector("main").outerHTML = news.main;
        data = news.data;
        begin();
        restore(kept);
      }
      version = news.version || version;
    } catch (_) {
      document.body.dataset.reached = "no";
      document.querySelector(".since").textContent = seen.toLocaleTimeString();
    }
    setTimeout(look, 2000);
  }

  // Paper opens nothing: what belongs on it is opened for it, and closed again.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all(document, "details.printed:not([open])");
    opened.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => { opened.forEach((one) => { one.open = false; }); });

  data = JSON.parse(document.getElementById("data").textContent);
  begin();
  if (document.body.dataset.live) { look(); }
})();
