// Small comforts: live updates that keep what somebody is doing, copy buttons, ticking all boxes. No page needs it.
"use strict";

const SECONDS = 5, SECONDS_HIDDEN = 60, PATIENCE = 20;
const notice = document.getElementById("notice");
const live = document.getElementById("live");
const sections = () => [...document.querySelectorAll("[data-live][id]")];
let timer = null, asking = false;

document.documentElement.classList.add("scripted");

// --- what somebody is doing, and how it is put back ---

const name = (box) => `${box.name}=${box.value}`;
const places = (section, selector) => [...section.querySelectorAll(selector)];

function remember(section) {
  const focused = section.contains(document.activeElement) ? document.activeElement : null;
  return {
    ticked: new Set(places(section, "input[type=checkbox]:checked").map(name)),
    typed: new Map(places(section, "input:not([type=checkbox]):not([type=hidden]), textarea, select")
      .filter((field) => field.id && field.value !== initial(field)).map((field) => [field.id, field.value])),
    folded: new Map(places(section, "details").map((each, at) => [each.id || at, each.open])),
    scrolled: places(section, ".scroll, pre").map((each) => [each.scrollLeft, each.scrollTop]),
    focused: focused && address(section, focused),
    selection: focused && "selectionStart" in focused ? [focused.selectionStart, focused.selectionEnd] : null,
  };
}

function initial(field) {
  if (field.tagName !== "SELECT") return field.defaultValue;
  const chosen = [...field.options].find((each) => each.defaultSelected) || field.options[0];
  return chosen ? chosen.value : "";
}

function address(section, element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  const tag = element.tagName.toLowerCase();
  if (element.name) return `${tag}[name="${CSS.escape(element.name)}"][value="${CSS.escape(element.value || "")}"]`;
  if (element.hasAttribute("href")) return `${tag}[href="${CSS.escape(element.getAttribute("href"))}"]`;
  return element.hasAttribute("data-copy") ? `${tag}[data-copy="${CSS.escape(element.dataset.copy)}"]` : null;
}

function restore(section, kept) {
  places(section, "input[type=checkbox]").forEach((box) => { if (kept.ticked.has(name(box))) box.checked = true; });
  kept.typed.forEach((value, id) => { const field = document.getElementById(id); if (field) field.value = value; });
  places(section, "details").forEach((each, at) => {
    const was = kept.folded.get(each.id || at);
    if (was !== undefined) each.open = was;
  });
  places(section, ".scroll, pre").forEach((each, at) => {
    if (kept.scrolled[at]) [each.scrollLeft, each.scrollTop] = kept.scrolled[at];
  });
  const focused = kept.focused && section.querySelector(kept.focused);
  if (focused) {
    focused.focus({ preventScroll: true });
    if (kept.selection && kept.selection[0] !== null) {
      try { focused.setSelectionRange(...kept.selection); } catch { /* not every kind of field has one */ }
    }
  }
}

// --- live updates ---

function put(page) {
  for (const section of sections()) {
    const fresh = page.getElementById(section.id);
    if (!fresh || fresh.innerHTML === section.dataset.seen) continue;
    const kept = remember(section), at = [scrollX, scrollY];
    section.dataset.seen = fresh.innerHTML;
    section.replaceChildren(...document.importNode(fresh, true).childNodes);
    restore(section, kept);
    comfort(section);
    scrollTo({ left: at[0], top: at[1], behavior: "instant" });
  }
}

function say(text) {
  if (notice.textContent !== text) notice.textContent = text;
  notice.hidden = !text;
}

async function look() {
  if (asking) return;
  asking = true;
  const patience = new AbortController(), ending = setTimeout(() => patience.abort(), PATIENCE * 1000);
  try {
    const answer = await fetch(location.href, {
      headers: { "X-Mayfly-Live": "1" }, credentials: "same-origin", signal: patience.signal,
    });
    if (answer.status === 401) return location.reload();
    if (answer.ok) {
      put(new DOMParser().parseFromString(await answer.text(), "text/html"));
      say("");
    } else if (answer.status === 503) {
      say("The database does not answer just now. What you see is from before; this page looks again by itself.");
    } else if (answer.status !== 429) {
      say(`The page could not be renewed (${answer.status}). It looks again by itself.`);
    }
  } catch {
    say("The console does not answer just now. What you see is from before; this page looks again by itself.");
  } finally {
    clearTimeout(ending);
    asking = false;
  }
}

const isPaused = () => sessionStorage.getItem("paused") === "yes";

function plan() {
  clearTimeout(timer);
  if (isPaused() || !sections().length) return;
  timer = setTimeout(() => look().finally(plan), (document.hidden ? SECONDS_HIDDEN : SECONDS) * 1000);
}

function show() {
  live.hidden = !sections().length;
  live.setAttribute("aria-pressed", String(!isPaused()));
  live.textContent = isPaused() ? "Paused" : "Live";
}

live.addEventListener("click", () => {
  sessionStorage.setItem("paused", isPaused() ? "no" : "yes");
  show();
  isPaused() ? clearTimeout(timer) : look().finally(plan);
});
document.addEventListener("visibilitychange", () => { if (!document.hidden && !isPaused()) look().finally(plan); });

// --- comforts ---

function comfort(root) {
  root.querySelectorAll("[data-copy]").forEach((each) => { each.hidden = false; });
  root.querySelectorAll("[data-tick]").forEach((each) => { each.hidden = false; count(each); });
}

function count(all) {
  const boxes = [...document.querySelectorAll(`input[name="${CSS.escape(all.dataset.tick)}"]`)];
  const ticked = boxes.filter((box) => box.checked).length;
  all.checked = ticked > 0 && ticked === boxes.length;
  all.indeterminate = ticked > 0 && ticked < boxes.length;
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
  document.querySelectorAll("[data-tick]").forEach(count);
});

comfort(document);
show();
plan();
