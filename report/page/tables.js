// Tables that sort, filter and page. A column: {id, title, value(row), text(row), node(row), number, long}; `value` is
// what it sorts by.

const pageSize = 50;

function compare(a, b) {
  const empty = (v) => v === null || v === undefined || v === '' || Number.isNaN(v);
  if (empty(a) || empty(b)) return empty(a) - empty(b);
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a).localeCompare(String(b), 'en', { numeric: true });
}

function sortedRows(rows, columns, sort) {
  const descending = sort.startsWith('-');
  const column = columns.find((one) => one.id === sort.replace(/^-/, ''));
  if (!column) return rows;
  const keyed = rows.map((row) => [column.value(row), row]);
  const empty = (v) => v === null || v === undefined || v === '' || Number.isNaN(v);
  // Unknown values stay at the end in both directions.
  keyed.sort((a, b) => {
    if (empty(a[0]) || empty(b[0])) return empty(a[0]) - empty(b[0]);
    return descending ? compare(b[0], a[0]) : compare(a[0], b[0]);
  });
  return keyed.map((pair) => pair[1]);
}

function headCell(column, sort, onSort) {
  const current = sort.replace(/^-/, '') === column.id;
  const order = !current ? 'none' : sort.startsWith('-') ? 'descending' : 'ascending';
  const next = order === 'ascending' ? '-' + column.id : column.id;
  return element('th', { scope: 'col', class: column.number && 'number', 'aria-sort': order },
    element('button', { type: 'button', 'data-column': column.id, onclick: () => onSort(next) }, column.title));
}

function bodyRow(row, columns) {
  const cells = columns.map((column) => {
    const content = column.node ? column.node(row) : column.text ? column.text(row) : column.value(row);
    const shown = typeof content === 'string' && column.long ? broken(content) : content;
    const brief = typeof shown === 'string' && shown.length <= 24;
    const kind = column.number ? 'number' : column.long ? 'long' : brief ? 'text brief' : 'text';
    return element('td', { class: kind }, shown === null ? '–' : shown);
  });
  return element('tr', {}, cells);
}

function pager(page, pages, count, total, onPage, one = 'row', what = one + 's') {
  if (count === 0) return element('p', { class: 'pager' }, total > 0 ? 'Nothing matches.' : 'Nothing is tuned yet.');
  const text = count === total ? counted(count, one, what) : `${countText(count)} of ${counted(total, one, what)}`;
  if (pages < 2) return element('p', { class: 'pager' }, text);
  const turn = (title, to) => element('button', { type: 'button', 'data-pager': what, disabled: to < 0 || to >= pages,
    onclick: () => onPage(to) }, title);
  return element('div', { class: 'pager' },
    turn('Previous', page - 1), `page ${page + 1} of ${pages}`, turn('Next', page + 1),
    text);
}

// `view`: {sort, page}; onChange({sort, page}) draws anew.
function tableOf({ id, caption, columns, rows, total, view, onChange }) {
  const sorted = sortedRows(rows, columns, view.sort || '');
  const size = onPaper ? Math.max(1, sorted.length) : pageSize;
  const pages = Math.max(1, Math.ceil(sorted.length / size));
  const page = Math.min(Math.max(Number(view.page) || 0, 0), pages - 1);
  const shown = sorted.slice(page * size, (page + 1) * size);
  const table = element('table', { id, class: 'wide' },
    caption && element('caption', {}, caption),
    element('thead', {}, element('tr', {},
      columns.map((column) => headCell(column, view.sort || '', (sort) => onChange({ sort, page: '' }, column.id))))),
    element('tbody', {}, shown.map((row) => bodyRow(row, columns))));
  return element('div', {},
    element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption || 'table' }, table),
    pager(page, pages, rows.length, total ?? rows.length, (next) => onChange({ sort: view.sort, page: next || '' })));
}

// A table with a state of its own, behind a chart: made when it is opened.
function tableBehind(title, columns, rows, summary = 'Table of this chart') {
  const holder = element('div');
  const draw = (view) => holder.replaceChildren(tableOf({ caption: title, columns, rows, view, onChange: draw }));
  const details = element('details', { class: 'behind' }, element('summary', {}, summary), holder);
  details.addEventListener('toggle', () => { if (details.open && !holder.firstChild) draw({}); });
  if (onPaper) {
    details.open = true;
    draw({});
  }
  return details;
}
