// Accessibility problems that can be found without knowing the purpose of a page. A function that returns the list of
// findings, each with the broken rule and the element. Called by tests/browser/checks.py.
() => {
  const found = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (element) => element.checkVisibility({ visibilityProperty: true });
  const describe = (element) => element.outerHTML.replace(/\s+/g, " ").slice(0, 160);
  const report = (rule, element, detail = "") => found.push({ rule, element: element ? describe(element) : "", detail });

  // The accessible name, as a screen reader would read it.
  const referenced = (element) =>
    (element.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean)
      .map((id) => document.getElementById(id)?.textContent.trim() || "").join(" ").trim();
  const named = (element) => referenced(element) || (element.getAttribute("aria-label") || "").trim();
  const spoken = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeType !== Node.ELEMENT_NODE || node.getAttribute("aria-hidden") === "true") return "";
    return named(node) || node.getAttribute("alt") || [...node.childNodes].map(spoken).join("");
  };

  const checkDocument = () => {
    if (!/^[a-z]{2,3}(-|$)/i.test(document.documentElement.lang)) report("language", document.documentElement);
    if (!document.title.trim()) report("title", document.head);
    if (all("main").length !== 1) report("main", null, `${all("main").length} of them`);
    if (document.scrollingElement.scrollWidth > document.scrollingElement.clientWidth) {
      const edge = document.scrollingElement.clientWidth;
      const wide = all("body *").filter((element) => element.getBoundingClientRect().right > edge + 1);
      report("sideways scroll", wide[0], `${document.scrollingElement.scrollWidth} px in ${edge} px`);
    }
    const ids = new Set();
    for (const element of all("[id]")) {
      if (ids.has(element.id)) report("doubled id", element);
      ids.add(element.id);
    }
  };

  const checkHeadings = () => {
    let before = 0;
    const headings = all("h1, h2, h3, h4, h5, h6").filter(shown);
    const first = headings.filter((element) => element.tagName === "H1");
    if (first.length !== 1) report("one h1", first[1], `${first.length} of them`);
    for (const element of headings) {
      const level = Number(element.tagName[1]);
      if (level > before + 1) report("heading order", element, `h${level} after ${before ? "h" + before : "nothing"}`);
      if (!spoken(element).trim()) report("empty heading", element);
      before = level;
    }
  };

  const checkNames = () => {
    const unlabelled = ["hidden", "submit", "button", "reset", "image"];
    for (const element of all("input, select, textarea")) {
      if (unlabelled.includes(element.type) && element.tagName === "INPUT") continue;
      const labels = [...(element.labels || [])].map((label) => spoken(label).trim()).join("");
      if (!labels && !named(element)) report("label", element);
    }
    for (const element of all("a[href], button, summary, [role=button], [role=link]")) {
      if (!spoken(element).trim()) report(element.tagName === "A" ? "link name" : "button name", element);
    }
    for (const element of all("input[type=submit], input[type=button], input[type=reset]")) {
      if (!element.value && !named(element)) report("button name", element);
    }
    for (const element of all("img")) if (!element.hasAttribute("alt")) report("alternative text", element);
    for (const element of all("svg")) {
      if (element.closest("[aria-hidden=true]")) continue;
      const title = element.querySelector(":scope > title")?.textContent.trim();
      if (element.getAttribute("role") !== "img" || !(title || named(element))) report("alternative text", element);
    }
  };

  const checkTables = () => {
    for (const table of all("table")) {
      const headers = [...table.querySelectorAll("th")];
      if (!headers.length) report("table headers", table);
      for (const header of headers) if (!spoken(header).trim()) report("empty header", header);
    }
  };

  const checkKeyboard = () => {
    for (const element of all("[tabindex]")) if (element.tabIndex > 0) report("tab order", element);
    const scrolls = (element) => {
      const style = getComputedStyle(element);
      const across = /auto|scroll/.test(style.overflowX) && element.scrollWidth > element.clientWidth + 1;
      return across || (/auto|scroll/.test(style.overflowY) && element.scrollHeight > element.clientHeight + 1);
    };
    const reachable = "a[href], button, input, select, textarea, summary, [tabindex]";
    for (const element of all("body *")) {
      if (element.matches("textarea, select") || !shown(element) || !scrolls(element)) continue;
      if (!element.matches(reachable) && !element.querySelector(reachable)) report("scrolled by keyboard", element);
    }
  };

  // Colours as the browser computes them, in any notation: a canvas converts each to four numbers.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const seen = new Map();
  const rgba = (colour) => {
    if (!seen.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
      seen.set(colour, [red, green, blue, alpha / 255]);
    }
    return seen.get(colour);
  };
  const over = (above, below) => below.map((under, index) => above[index] * above[3] + under * (1 - above[3]));
  const luminance = (colour) => {
    const [red, green, blue] = colour.slice(0, 3).map((each) => {
      const part = each / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  // The background colour of an element; without one of its own it is the canvas of the browser.
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const style = getComputedStyle(each);
      if (style.backgroundImage !== "none") return null;
      layers.push(rgba(style.backgroundColor));
    }
    const dark = getComputedStyle(document.documentElement).colorScheme.includes("dark")
      && matchMedia("(prefers-color-scheme: dark)").matches;
    const canvasColour = dark ? [18, 18, 18] : [255, 255, 255];
    return layers.reverse().reduce((below, above) => over(above, below), canvasColour);
  };
  const opacity = (element) => {
    let part = 1;
    for (let each = element; each; each = each.parentElement) part *= Number(getComputedStyle(each).opacity);
    return part;
  };

  const checkContrast = () => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const asked = new Set();
    const texts = all("input:not([type=hidden]):not([type=checkbox]):not([type=radio]), textarea, select");
    while (walker.nextNode()) if (walker.currentNode.data.trim()) texts.push(walker.currentNode.parentElement);
    for (const element of texts) {
      if (asked.has(element) || element.closest(":disabled, title, script, style, noscript, option")) continue;
      asked.add(element);
      const box = element.getBoundingClientRect();
      if (!shown(element) || box.width <= 1 || box.height <= 1) continue;
      const isEmpty = element.placeholder && !element.value;
      const style = getComputedStyle(element, isEmpty ? "::placeholder" : null);
      const background = behind(element);
      if (!background) {
        report("contrast", element, "on a picture, where it cannot be computed");
        continue;
      }
      const drawn = rgba(element instanceof SVGElement ? style.fill : style.color);
      const part = opacity(element) * (isEmpty ? Number(style.opacity) : 1);
      const text = over([...drawn.slice(0, 3), drawn[3] * part], background);
      const size = parseFloat(style.fontSize);
      const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
      const ratio = contrast(text, background);
      if (ratio < least) report("contrast", element, `${ratio.toFixed(2)} where ${least} is the least`);
    }
  };

  // Called after a Tab, so that focus() by a script has the same style as focus by the keyboard.
  const checkFocus = () => {
    const styleOf = (element) => {
      const style = getComputedStyle(element);
      const outline = style.outlineStyle === "none" || !parseFloat(style.outlineWidth) ? "" : style.outline;
      return [outline, style.boxShadow, style.borderColor, style.backgroundColor, style.textDecorationLine].join("|");
    };
    const reachable = all("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']");
    for (const element of reachable) {
      if (!shown(element) || element.disabled) continue;
      document.activeElement?.blur();
      const before = styleOf(element);
      element.focus({ focusVisible: true, preventScroll: true });
      if (document.activeElement === element && styleOf(element) === before) report("visible focus", element);
    }
    document.activeElement?.blur();
  };

  checkDocument();
  checkHeadings();
  checkNames();
  checkTables();
  checkKeyboard();
  checkContrast();
  checkFocus();
  return found;
}
