// What is wrong with the layout of a page, and which of its texts are hard to read. browser.py runs this in the page.

const boxOf = (at) => at.getBoundingClientRect();
const scrollsSideways = (at) => ["auto", "scroll"].includes(getComputedStyle(at).overflowX);
const isTooWide = (at) => at.scrollWidth > at.clientWidth + 1;

function named(at) {
  return `${at.tagName.toLowerCase()}${at.id ? `#${at.id}` : ""} "${at.textContent.trim().slice(0, 40)}"`;
}

function isShown(at) {
  const { width, height } = boxOf(at);
  return at.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }) && width > 1 && height > 1;
}

function ancestors(at) {
  const found = [];
  for (; at instanceof Element; at = at.parentElement) found.push(at);
  return found;
}

const isFixed = (at) => ancestors(at).some((each) => ["fixed", "sticky"].includes(getComputedStyle(each).position));

function isCutOff(at) {
  const style = getComputedStyle(at);
  return ["hidden", "clip"].includes(style.overflowX) && style.textOverflow !== "ellipsis" && isTooWide(at);
}

function overlap(one, two) {
  return one.bottom > two.top + 1 && one.top < two.bottom - 1 && one.right > two.left + 1 && one.left < two.right - 1;
}

// [what is wrong in any window, tables that scroll: that is wrong where there is room for them]
function layoutProblems() {
  const width = document.documentElement.clientWidth, page = document.scrollingElement.scrollWidth, found = [];
  if (page > width) found.push(`the page is ${page} px wide`);
  const texts = "h1, h2, h3, p, li, dt, dd, td, th, pre, summary, label, button, figcaption";
  for (const at of [...document.querySelectorAll(texts)].filter((each) => isShown(each) && !isFixed(each))) {
    const isOut = boxOf(at).right > width + 1 && !ancestors(at.parentElement).some(scrollsSideways);
    if (isOut) found.push(`outside the window: ${named(at)}`);
    if (isCutOff(at)) found.push(`cut off: ${named(at)}`);
  }
  const blocks = "h1, h2, h3, p, ul, ol, dl, pre, table, details, figure, .table-wrapper, div.highlight";
  for (const parent of new Set([...document.querySelectorAll(blocks)].map((each) => each.parentElement))) {
    const shown = [...parent.children].filter((each) => each.matches(blocks) && isShown(each) && !isFixed(each));
    shown.slice(1).forEach((each, at) => {
      if (overlap(boxOf(shown[at]), boxOf(each))) found.push(`${named(shown[at])} overlaps ${named(each)}`);
    });
  }
  const scrolling = [...document.querySelectorAll("table")].filter((table) => isShown(table)
    && ancestors(table).some((each) => scrollsSideways(each) && isTooWide(each)));
  return [found, scrolling.map((table) => `a table scrolls: ${named(table.rows[0])}`)];
}

// The relative luminance of a colour. Source: WCAG 2.2.
function luminance([red, green, blue]) {
  const [r, g, b] = [red, green, blue].map((each) => each / 255)
    .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

const partsOf = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);

function colourBelow(at) {
  for (const each of ancestors(at)) {
    const [red, green, blue, alpha = 1] = partsOf(getComputedStyle(each).backgroundColor);
    if (alpha > 0.99) return [red, green, blue];
  }
  return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
}

// Texts whose contrast with the colour below them is less than `least`, one of each pair of colours. WCAG 2.2, 1.4.3.
function contrastProblems(least) {
  const found = new Map(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const at = texts.currentNode.parentElement, text = texts.currentNode.data.trim();
    const isRead = text && !at.closest("svg, script, style") && at.checkVisibility({ visibilityProperty: true, opacityProperty: true });
    if (!isRead) continue;
    const colour = getComputedStyle(at).color, below = colourBelow(at);
    const [dim, bright] = [luminance(partsOf(colour)), luminance(below)].sort((one, two) => one - two);
    const ratio = (bright + 0.05) / (dim + 0.05), pair = `${colour} on rgb(${below})`;
    if (ratio < least && !found.has(pair)) found.set(pair, `contrast ${ratio.toFixed(1)}: ${pair}, "${text.slice(0, 40)}"`);
  }
  return [...found.values()];
}
