// Run by Chromium over MAILS (base64 of UTF-8 HTML): the text of each that a person would see, as [[words…], …] in #out.
const HIDE_PX = 2;

function channels(text) {
  const found = text.match(/[\d.]+/g);
  return found ? found.map(Number) : [0, 0, 0, 0];
}

function behind(element) {
  for (let at = element; at; at = at.parentElement) {
    const style = at.ownerDocument.defaultView.getComputedStyle(at);
    if (style.backgroundImage !== "none") return null;
    const colour = channels(style.backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
}

function unreadable(element, style) {
  const ink = channels(style.webkitTextFillColor || style.color);
  if (ink.length > 3 && ink[3] < 0.1) return true;
  const paper = behind(element);
  return paper !== null && Math.max(...[0, 1, 2].map((at) => Math.abs(ink[at] - paper[at]))) < 24;
}

function cutOff(element) {
  for (let at = element; at; at = at.parentElement) {
    const style = at.ownerDocument.defaultView.getComputedStyle(at);
    if (style.overflow !== "visible" && at !== at.ownerDocument.body && at !== at.ownerDocument.documentElement) {
      if (at.getBoundingClientRect().height < HIDE_PX || at.getBoundingClientRect().width < HIDE_PX) return true;
    }
  }
  return false;
}

function isShown(node) {
  const element = node.parentElement;
  const style = element.ownerDocument.defaultView.getComputedStyle(element);
  if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false;
  if (parseFloat(style.fontSize) < HIDE_PX || unreadable(element, style) || cutOff(element)) return false;
  const range = element.ownerDocument.createRange();
  range.selectNodeContents(node);
  return [...range.getClientRects()].some((box) => box.width > 0 && box.height >= HIDE_PX && box.right > 0 && box.bottom > 0);
}

function blockOf(node) {
  let at = node.parentElement;
  while (at && at.ownerDocument.defaultView.getComputedStyle(at).display === "inline") at = at.parentElement;
  return at;
}

function shownText(page) {
  const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
  let text = "";
  let block = null;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.nodeType === 1) {
      if (["BR", "IMG", "HR"].includes(node.tagName)) text += "\n";
    } else if (node.nodeValue.trim() === "") {
      text += " ";
    } else if (isShown(node)) {
      const within = blockOf(node);
      text += (within === block ? "" : "\n") + node.nodeValue;
      block = within;
    }
  }
  return text;
}

async function load(encoded) {
  const bytes = Uint8Array.from(atob(encoded), (char) => char.charCodeAt(0));
  const frame = document.createElement("iframe");
  frame.sandbox = "allow-same-origin";
  frame.style = "width:1000px;height:2000px;border:0";
  const loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
  frame.srcdoc = new TextDecoder().decode(bytes);
  document.body.append(frame);
  await loaded;
  const text = frame.contentDocument.body ? shownText(frame.contentDocument) : "";
  frame.remove();
  return text;
}

const texts = [];
for (const mail of MAILS) texts.push(await load(mail));
const bytes = new TextEncoder().encode(JSON.stringify(texts));
let binary = "";
for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
document.body.innerHTML = `<pre id="out">${btoa(binary)}</pre>`;
