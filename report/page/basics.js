// Elements, numbers and the page's state. Text from the cache becomes text nodes, never markup.

const data = JSON.parse(document.getElementById('data').textContent);

// element('td', {class: 'number'}, 'text', otherElement)
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) made.append(child);
  }
  return made;
}

// May break behind commas.
function broken(text) {
  return String(text).split(',').flatMap((part, i) => (i ? [',', document.createElement('wbr'), part] : [part]));
}

function timeText(us) {
  if (!(us > 0)) return '–';
  if (us < 1) return us.toFixed(3) + ' µs';
  if (us < 100) return us.toFixed(2) + ' µs';
  if (us < 1000) return us.toFixed(1) + ' µs';
  if (us < 1e6) return (us / 1e3).toFixed(2) + ' ms';
  return (us / 1e6).toFixed(2) + ' s';
}
const percentText = (share) => (share > 0 ? (100 * share).toFixed(1) + '%' : '–');
const ratioText = (ratio) => (ratio > 0 ? ratio.toFixed(2) + '×' : '–');
const countText = (count) => Number(count).toLocaleString('en-US');

// "1 row", "2 rows".
const counted = (count, one, more = one + 's') => `${countText(count)} ${Number(count) === 1 ? one : more}`;

// Half an interval's width in percent.
const spreadShown = (percent) => '±' + percent.toFixed(percent < 0.095 ? 2 : 1) + '%';

function spreadText(low, high, time) {
  return low > 0 && time > 0 ? spreadShown((50 * (high - low)) / time) : '–';
}

function ageText(stored) {
  const then = Date.parse(stored), now = Date.parse(data.now);
  if (Number.isNaN(then) || Number.isNaN(now)) return '–';
  const hours = (now - then) / 3.6e6;
  if (hours < 1) return Math.max(0, Math.round(hours * 60)) + ' min';
  return hours < 48 ? Math.round(hours) + ' h' : Math.round(hours / 24) + ' d';
}

// The state of the page is its address: #view=workload&key=12&q=tma, so that a link keeps it.
const state = {
  all() { return new URLSearchParams(location.hash.replace(/^#/, '')); },
  get(name, fallback = '') { return this.all().get(name) ?? fallback; },
  // Changes some names; an empty value removes one.
  href(changes, from = this.all()) {
    const next = new URLSearchParams(from);
    for (const [name, value] of Object.entries(changes)) {
      if (value === '' || value === null || value === undefined) next.delete(name);
      else next.set(name, String(value));
    }
    return '#' + next.toString();
  },
  // Makes no step in the browser's history, as typing and sorting should not.
  change(changes) {
    history.replaceState(null, '', this.href(changes));
    render();
  },
};
// A link to a view that keeps nothing of the present one.
const linkTo = (view, more = {}) => state.href({ view, ...more }, new URLSearchParams());

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

// Paper is light, shows all rows of every table, and none that is closed.
let onPaper = false;

const isDark = () => matchMedia('(prefers-color-scheme: dark)').matches && !onPaper && !matchMedia('print').matches;

// At most so many of a list, evenly from between.
function spaced(list, most) {
  const step = Math.max(1, list.length / most);
  return Array.from({ length: Math.min(list.length, most) }, (_, i) => list[Math.floor(i * step)]);
}

// More of one colour for a larger share, where no value is bad.
function shadeStyle(cell, share, hue) {
  const part = Math.min(Math.max(share, 0), 1);
  cell.style.backgroundColor = isDark() ? `hsl(${hue} 55% ${12 + 20 * part}%)` : `hsl(${hue} 75% ${97 - 24 * part}%)`;
}

// 0 is best. From green over yellow to red, dark or light enough for the text on it.
function heatStyle(cell, share) {
  const hue = 130 - 130 * Math.min(Math.max(share, 0), 1);
  cell.style.backgroundColor = isDark() ? `hsl(${hue} 55% 22%)` : `hsl(${hue} 70% 80%)`;
}
