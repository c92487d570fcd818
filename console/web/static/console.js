// Live updates that keep the state of the page, copy buttons, and a checkbox that selects all. Every page works without it.
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
    restoreState(section, saved);
    enhance(section);
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
      showNotice("The database is unavailable. The page shows older data and retries by itself.");
    } else if (response.status !== 429) {
      showNotice(`The page could not be updated (HTTP ${response.status}). It retries by itself.`);
    }
  } catch {
    showNotice("The console does not respond. The page shows older data and retries by itself.");
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

// --- copy buttons and "select all" ---

function enhance(root) {
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
