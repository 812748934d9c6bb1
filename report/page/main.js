// Draws the view that the address names, anew whenever it changes.

const views = {
  overview: ['Overview', overviewView],
  kernel: ['Kernels', kernelView],
  ranges: ['Ranges', rangesView],
  changes: ['Changes', changesView],
  workload: [null, workloadView],
};

function drawNavigation(current) {
  const links = Object.entries(views).filter(([, [title]]) => title).map(([name, [title]]) =>
    element('a', { href: linkTo(name), 'aria-current': name === current ? 'page' : null }, title));
  document.getElementById('nav').replaceChildren(...links);
}

// The focused place, so that a table or a box that is drawn again keeps it.
function focusedPlace() {
  const active = document.activeElement;
  if (!active || active === document.body) return null;
  const table = active.closest('table');
  return { id: active.id, column: active.dataset && active.dataset.column, table: table && table.id,
    caret: active.selectionStart ?? null, text: active.textContent, pager: active.dataset && active.dataset.pager };
}

function focusAgain(place) {
  if (!place) return;
  let found = place.id ? document.getElementById(place.id) : null;
  if (!found && place.column && place.table)
    found = document.querySelector(`#${CSS.escape(place.table)} button[data-column="${CSS.escape(place.column)}"]`);
  if (!found && place.pager) {
    const buttons = [...document.querySelectorAll('.pager button')].filter((b) => b.dataset.pager === place.pager);
    found = buttons.find((b) => b.textContent === place.text && !b.disabled) || buttons.find((b) => !b.disabled);
  }
  if (!found || found === document.activeElement) return;
  found.focus({ preventScroll: true });
  if (place.caret !== null && found.setSelectionRange) found.setSelectionRange(place.caret, place.caret);
}

let lastView = '';

function render() {
  const name = Object.hasOwn(views, state.get('view', 'overview')) ? state.get('view', 'overview') : 'overview';
  const place = focusedPlace();
  const main = document.getElementById('main');
  dropCharts();
  drawNavigation(name);
  main.replaceChildren(...views[name][1]().flat(4).filter((node) => node !== null && node !== undefined));
  const address = name + state.get('key') + state.get('id');
  if (address !== lastView && lastView !== '') scrollTo(0, 0);
  lastView = address;
  focusAgain(place);
}

// Printing begins as soon as the listener returns: charts are drawn at once.
function drawOnPaper(paper) {
  onPaper = paper;
  document.documentElement.toggleAttribute('data-paper', paper);
  render();
  drawWaiting();
}

function start() {
  for (const w of data.workloads) {
    const kernel = data.kernels[w.kernel];
    w.haystack = [w.key, kernel.name, w.problem, w.config, w.family, data.hardware[kernel.hardware].title,
      w.notes.join(' ')].join(' ').toLowerCase();
  }
  document.getElementById('subtitle').textContent = `${data.cache}, ${data.now}`;
  document.getElementById('footer').textContent =
    `Made by moetune ${data.version}. Charts: Chart.js ${Chart.version}, MIT licence.`;
  document.getElementById('skip').addEventListener('click', (event) => {
    event.preventDefault();  // the address holds the page's state
    document.getElementById('main').focus();
  });
  addEventListener('hashchange', render);
  addEventListener('beforeprint', () => drawOnPaper(true));
  addEventListener('afterprint', () => drawOnPaper(false));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', render);
  addEventListener('keydown', (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key !== '/' || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const box = document.querySelector('input[type=search]');
    if (!box) return;
    event.preventDefault();
    box.focus();
  });
  render();
}

start();
