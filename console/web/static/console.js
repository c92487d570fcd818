// Live updates that keep the state of the page, local times, sorted columns, pickers, copy buttons, and "select all".
// Every page works without this script.
"use strict";

const UPDATE_SECONDS = 5, HIDDEN_UPDATE_SECONDS = 60, TIMEOUT_SECONDS = 20;
const notice = document.getElementById("notice");
const live = document.getElementById("live");
const sections = () => [...document.querySelectorAll("[data-live][id]")];
let timer = null, isUpdating = false;

document.documentElement.classList.add("scripted");

// --- state of a section: checkboxes, inputs, open details, scroll positions, focus ---

const name = (box) => `${box.name}=${box.value}`;
const all = (section, selector) => [...section.querySelectorAll(selector)];

function saveState(section) {
  const focused = section.contains(document.activeElement) ? document.activeElement : null;
  return {
    ticked: new Set(all(section, "input[type=checkbox]:checked").map(name)),
    typed: new Map(all(section, "input:not([type=checkbox]):not([type=hidden]), textarea, select")
      .filter((field) => field.id && field.value !== initial(field)).map((field) => [field.id, field.value])),
    folded: new Map(all(section, "details").map((each, at) => [each.id || at, each.open])),
    scrolled: all(section, ".scroll, pre").map((each) => [each.scrollLeft, each.scrollTop]),
    focused: focused && selectorOf(focused),
    selection: focused && "selectionStart" in focused ? [focused.selectionStart, focused.selectionEnd] : null,
  };
}

function initial(field) {
  if (field.tagName !== "SELECT") return field.defaultValue;
  const chosen = [...field.options].find((each) => each.defaultSelected) || field.options[0];
  return chosen ? chosen.value : "";
}

function selectorOf(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  const tag = element.tagName.toLowerCase();
  if (element.name) return `${tag}[name="${CSS.escape(element.name)}"][value="${CSS.escape(element.value || "")}"]`;
  if (element.hasAttribute("href")) return `${tag}[href="${CSS.escape(element.getAttribute("href"))}"]`;
  return element.hasAttribute("data-copy") ? `${tag}[data-copy="${CSS.escape(element.dataset.copy)}"]` : null;
}

function restoreState(section, saved) {
  all(section, "input[type=checkbox]").forEach((box) => { if (saved.ticked.has(name(box))) box.checked = true; });
  saved.typed.forEach((value, id) => { const field = document.getElementById(id); if (field) field.value = value; });
  all(section, "details").forEach((each, at) => {
    const was = saved.folded.get(each.id || at);
    if (was !== undefined) each.open = was;
  });
  all(section, ".scroll, pre").forEach((each, at) => {
    if (saved.scrolled[at]) [each.scrollLeft, each.scrollTop] = saved.scrolled[at];
  });
  const focused = saved.focused && section.querySelector(saved.focused);
  if (focused) {
    focused.focus({ preventScroll: true });
    if (saved.selection && saved.selection[0] !== null) {
      try { focused.setSelectionRange(...saved.selection); } catch { /* not every input has a selection */ }
    }
  }
}

// --- live updates ---

function replaceSections(page) {
  for (const section of sections()) {
    const fresh = page.getElementById(section.id);
    if (!fresh || fresh.innerHTML === section.dataset.seen) continue;
    const saved = saveState(section), at = [scrollX, scrollY];
    section.dataset.seen = fresh.innerHTML;
    section.replaceChildren(...document.importNode(fresh, true).childNodes);
    enhance(section);  // before the state is restored: a button of a column may have the focus
    restoreState(section, saved);
    all(section, "[data-tick]").forEach(showCount);
    scrollTo({ left: at[0], top: at[1], behavior: "instant" });
  }
}

function showNotice(text) {
  if (notice.textContent !== text) notice.textContent = text;
  notice.hidden = !text;
}

async function update() {
  if (isUpdating) return;
  isUpdating = true;
  const abort = new AbortController(), timeout = setTimeout(() => abort.abort(), TIMEOUT_SECONDS * 1000);
  try {
    const response = await fetch(location.href, {
      headers: { "X-Mayfly-Live": "1" }, credentials: "same-origin", signal: abort.signal,
    });
    if (response.status === 401) return location.reload();
    if (response.ok) {
      replaceSections(new DOMParser().parseFromString(await response.text(), "text/html"));
      showNotice("");
    } else if (response.status === 503) {
      showNotice("The database is unavailable. Showing older data; retrying automatically.");
    } else if (response.status !== 429) {
      showNotice(`The page could not be updated (HTTP ${response.status}). Retrying automatically.`);
    }
  } catch {
    showNotice("The console does not respond. Showing older data; retrying automatically.");
  } finally {
    clearTimeout(timeout);
    isUpdating = false;
  }
}

const isPaused = () => sessionStorage.getItem("paused") === "yes";

function schedule() {
  clearTimeout(timer);
  if (isPaused() || !sections().length) return;
  timer = setTimeout(() => update().finally(schedule), (document.hidden ? HIDDEN_UPDATE_SECONDS : UPDATE_SECONDS) * 1000);
}

function showLiveState() {
  live.hidden = !sections().length;
  live.setAttribute("aria-pressed", String(!isPaused()));
  live.textContent = isPaused() ? "Paused" : "Live";
}

live.addEventListener("click", () => {
  sessionStorage.setItem("paused", isPaused() ? "no" : "yes");
  showLiveState();
  isPaused() ? clearTimeout(timer) : update().finally(schedule);
});
document.addEventListener("visibilitychange", () => { if (!document.hidden && !isPaused()) update().finally(schedule); });

// --- local times, beside UTC in the tooltip ---

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

function addLocalTime(element) {
  if (zone === "UTC" || !element.title || element.title.includes(zone)) return;
  const at = new Date(element.dateTime);  // Swedish dates are written as in ISO 8601
  element.title += `\n${at.toLocaleString("sv-SE")} ${zone}`;
}

// --- sorted columns: the rows of this page ---

const UNITS = { ms: 0.001, s: 1, min: 60, h: 3600, d: 86400 };
const sorted = new Map();  // by table: the number of the column, and the direction

function tableKey(table) {
  return `${table.closest("[data-live]")?.id} ${table.caption?.textContent}`;
}

function makeSortable(table) {
  const rows = [...(table.tBodies[0]?.rows || [])];
  const headers = [...table.querySelectorAll("thead th")];
  if (rows.length < 2 || rows.some((row) => row.cells.length !== headers.length)) return;
  headers.forEach((header, column) => {
    if (header.childElementCount || ["Action", ""].includes(header.textContent)) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.id = `sort-${tableKey(table)}-${column}`.replace(/\W+/g, "-");
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const isAscending = header.getAttribute("aria-sort") === "ascending";
      sorted.set(tableKey(table), [column, isAscending ? "descending" : "ascending"]);
      sortRows(table);
    });
  });
  sortRows(table);
}

function sortRows(table) {
  const [column, direction] = sorted.get(tableKey(table)) || [];
  if (column === undefined) return;
  const sign = direction === "ascending" ? 1 : -1, body = table.tBodies[0];
  const keys = new Map([...body.rows].map((row) => [row, keyOf(row.cells[column])]));
  const compare = (one, other) => (typeof one === typeof other && typeof one === "number"
    ? one - other : String(one).localeCompare(String(other), "en", { numeric: true }));
  body.append(...[...body.rows].sort((one, other) => sign * compare(keys.get(one), keys.get(other))));
  table.querySelectorAll("thead th").forEach((header, at) => {
    at === column ? header.setAttribute("aria-sort", direction) : header.removeAttribute("aria-sort");
  });
}

function keyOf(cell) {
  const time = cell.querySelector("time"), bar = cell.querySelector("progress"), text = cell.textContent.trim();
  if (bar) return bar.value;
  if (time && cell.matches(".nowrap")) return Date.parse(time.dateTime) / 1000;
  const found = /^([0-9][0-9,]*(?:\.[0-9]+)?)\+?\s*([a-z]*)/.exec(text);
  if (found) return Number(found[1].replaceAll(",", "")) * (UNITS[found[2]] || 1);
  return text === "–" ? -1 : text.toLowerCase();
}

// --- copy buttons and "select all" ---

function enhance(root) {
  root.querySelectorAll("time[datetime]").forEach(addLocalTime);
  root.querySelectorAll("table").forEach(makeSortable);
  root.querySelectorAll("[data-picks], [data-scripted]").forEach((each) => { each.hidden = false; });
  root.querySelectorAll("[data-copy]").forEach((each) => { each.hidden = false; });
  root.querySelectorAll("[data-tick]").forEach((each) => { each.hidden = false; showCount(each); });
}

function showCount(box) {
  const boxes = [...document.querySelectorAll(`input[name="${CSS.escape(box.dataset.tick)}"]`)];
  const ticked = boxes.filter((each) => each.checked).length;
  box.checked = ticked > 0 && ticked === boxes.length;
  box.indeterminate = ticked > 0 && ticked < boxes.length;
  document.querySelectorAll("[data-ticked]").forEach((each) => { each.textContent = ticked ? `${ticked} selected` : ""; });
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Press Ctrl-C";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-picks]")) document.getElementById(event.target.dataset.picks).value = event.target.value;
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  if (event.target.matches("[data-tick]")) {
    document.querySelectorAll(`input[name="${CSS.escape(event.target.dataset.tick)}"]`)
      .forEach((box) => { box.checked = event.target.checked; });
  }
  document.querySelectorAll("[data-tick]").forEach(showCount);
});

enhance(document);
showLiveState();
schedule();
