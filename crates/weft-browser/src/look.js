// Gives the text of a page with a number before each element that can be used, and keeps the elements by number.
(() => {
  const LETTERS = 400000, ELEMENTS = 5000, DEPTH = 400;
  const ROLES = new Set(["button", "link", "checkbox", "tab", "menuitem", "option", "radio", "switch", "combobox", "textbox", "searchbox"]);
  const SKIPPED = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "SVG", "CANVAS", "VIDEO", "AUDIO"]);
  const elements = [];
  let text = "", line = "", cut = false;
  const end = () => {
    const said = line.replace(/\s+/g, " ").trim();
    if (said) text += said + "\n";
    line = "";
    if (text.length > LETTERS) cut = true;
  };
  const label = (element) => {
    const said = element.getAttribute("aria-label") || element.getAttribute("placeholder") || element.getAttribute("title")
      || (element.labels && element.labels[0] && element.labels[0].innerText) || element.getAttribute("name") || "";
    return said.replace(/\s+/g, " ").trim().slice(0, 120);
  };
  const number = (element) => { elements.push(element); return "[" + (elements.length - 1) + "]"; };
  const field = (element) => {
    const off = element.disabled ? ", disabled" : "";
    const tag = element.tagName;
    if (tag === "SELECT") {
      const options = Array.from(element.options).slice(0, 60);
      const said = options.map((o) => (o.selected ? "*" : "") + o.text.trim().slice(0, 60)).join(" | ");
      return `<list ${label(element)}${off}: ${said}>`;
    }
    const kind = tag === "TEXTAREA" ? "text" : (element.type || "text");
    if (kind === "checkbox" || kind === "radio") return `<${kind} ${label(element)}${element.checked ? ", chosen" : ""}${off}>`;
    if (kind === "submit" || kind === "button" || kind === "reset" || kind === "image") return `<button ${element.value || label(element)}${off}>`;
    if (kind === "file") return `<file field ${label(element)}: ${element.files.length} chosen${off}>`;
    const held = kind === "password" ? (element.value ? "filled" : "empty") : JSON.stringify(element.value.slice(0, 200));
    return `<${kind} field ${label(element)}: ${held}${off}>`;
  };
  const walk = (node, depth) => {
    if (cut || depth > DEPTH) return;
    if (node.nodeType === 3) { line += node.nodeValue; return; }
    if (node.nodeType !== 1 && node.nodeType !== 11) return;
    if (node.nodeType === 1) {
      const tag = node.tagName.toUpperCase();
      if (SKIPPED.has(tag)) return;
      const style = getComputedStyle(node);
      if (style.display === "none" || (style.visibility === "hidden" && !node.childElementCount)) return;
      const block = style.display !== "inline" && style.display !== "inline-block" && style.display !== "contents";
      if (tag === "BR") { end(); return; }
      if (tag === "IMG") { if (node.alt) line += ` (picture: ${node.alt.slice(0, 120)}) `; return; }
      const usable = elements.length < ELEMENTS;
      if (tag === "INPUT" || tag === "TEXTAREA" || tag === "SELECT") {
        if (node.type !== "hidden" && usable) line += " " + number(node) + field(node) + " ";
        return;
      }
      if (block) end();
      const heading = /^H[1-6]$/.test(tag);
      if (heading) line += "#".repeat(+tag[1]) + " ";
      if (tag === "LI") line += "- ";
      const link = tag === "A" && node.hasAttribute("href");
      const control = link || tag === "BUTTON" || tag === "SUMMARY" || node.isContentEditable && !node.parentElement?.isContentEditable
        || ROLES.has(node.getAttribute("role")) || node.hasAttribute("onclick");
      if (control && usable) {
        const kind = link ? "link" : node.isContentEditable ? "field" : node.getAttribute("role") || "button";
        line += " " + number(node) + "<" + kind + " ";
        const before = line.length + text.length;
        inner(node, depth);
        if (line.length + text.length === before) line += label(node);
        line = line.trimEnd() + (node.disabled ? ", disabled> " : "> ");
      } else inner(node, depth);
      if (tag === "TD" || tag === "TH") line += " | ";
      if (block) end();
      return;
    }
    inner(node, depth);
  };
  const inner = (node, depth) => {
    if (node.tagName === "IFRAME" || node.tagName === "FRAME") {
      let inside = null;
      try { inside = node.contentDocument; } catch {}
      if (inside && inside.body) walk(inside.body, depth + 1);
      else line += " (a frame of another site) ";
      return;
    }
    // What a component is given to show stands in its slots; what a slot itself holds is shown when it is given nothing.
    const given = node.tagName === "SLOT" ? node.assignedNodes() : [];
    const children = given.length ? given : (node.shadowRoot || node).childNodes;
    for (const child of children) walk(child, depth + 1);
  };
  if (document.body) walk(document.body, 0);
  end();
  globalThis.weft = elements;
  const page = document.scrollingElement;
  const below = page ? Math.round(page.scrollHeight - page.scrollTop - innerHeight) : 0;
  return { url: location.href.slice(0, 4000), title: document.title.slice(0, 300), text, cut, below };
})()
