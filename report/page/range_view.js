// Ranges: the tables that serve whole families, with what they lose, and the single winners of families.

const regretText = (share) => (Number.isFinite(share) ? (100 * share).toFixed(1) + '%' : '–');

function letters(index) {
  return (index >= 26 ? letters(Math.floor(index / 26) - 1) : '') + String.fromCharCode(65 + (index % 26));
}

// Darker is longer, by ratio, between the least and the most of `all`.
function timeStyle(cell, time, all) {
  const low = Math.log(Math.min(...all)), high = Math.log(Math.max(...all));
  shadeStyle(cell, high > low ? (Math.log(time) - low) / (high - low) : 0, 215);
}

function variantCell(variant, name, link) {
  const made = element('td', { title: name }, link(letters(variant)));
  made.style.backgroundColor = `hsl(${(variant * 137.5) % 360} 45% ${isDark() ? 25 : 82}%)`;
  return made;
}

function variantKey(variants) {
  return element('details', {}, element('summary', {}, 'Variants'),
    element('dl', {}, variants.map((text, i) => [element('dt', {}, letters(i)), element('dd', {}, broken(text))])));
}

// Rows of [problem, configuration, variant, time, default, best, workload, times under each timing, who differs].
function cellsOf(range) {
  return range.cells.map(([problem, config, variant, time, defaultTime, best, key, timings, differing]) => ({
    problem, config: range.configs[config], variant, time, defaultTime, best, key, timings, differing,
    regret: time / best - 1 }));
}

const rangeTimings = ['chained', 'overlapped', 'alone'];

const rangeMetrics = [
  ['time', (cell) => timeText(cell.time), (made, cell, range, all) => timeStyle(made, cell.time, all)],
  ['variant', (cell) => letters(cell.variant), null],
  ['regret', (cell) => regretText(cell.regret), (made, cell, range) =>
    heatStyle(made, cell.regret / (2 * range.bound || 1))],
];

function rangeCell(range, cell, [name, text, paint], all) {
  const link = (shown) => (cell.key ? element('a', { href: linkTo('workload', { key: cell.key }) }, shown) : shown);
  if (name === 'variant') return variantCell(cell.variant, range.variants[cell.variant], link);
  const made = element('td', { title: `${cell.problem}: ${cell.config}` }, link(text(cell)));
  paint(made, cell, range, all);
  return made;
}

function rangeMaps(range, grid, cells) {
  const all = cells.map((cell) => cell.time);
  const where = grid.rest ? `, ${grid.rest}` : '';
  return rangeMetrics.map((metric) => heatTable({
    caption: `${metric[0]}${where}: ` + (grid.down ? `${grid.down} down, ${grid.across} across` : grid.across),
    corner: grid.down ? `${grid.down} \\ ${grid.across}` : grid.across,
    rows: grid.down ? grid.rows.map(countText) : [metric[0]], columns: grid.columns.map(countText),
    cell: (r, c) => {
      const found = cells[grid.cells[r * grid.columns.length + c]];
      return found ? rangeCell(range, found, metric, all) : element('td', { class: 'empty' }, '·');
    } }));
}

// The certificate: losses at random shapes that are no cells, each measured beside a search of its own.
function certificateTable(range) {
  const [shapes, median, p95, worst, toDefault] = range.certificate;
  if (!shapes) return element('p', { class: 'warn' }, 'No certificate: no shape outside of the grid was measured.');
  const past = (share) => (share > 2 * range.bound ? 'number bad' : share > range.bound ? 'number warn' : 'number');
  const figures = [['shapes', countText(shapes), 'number'], ['median', regretText(median), past(median)],
    ['p95', regretText(p95), past(p95)], ['worst', regretText(worst), past(worst)],
    ['slower than the default at worst', toDefault > 0 ? regretText(toDefault) : 'never', 'number']];
  return element('table', { class: 'certificate' },
    element('caption', {}, 'Certificate: regret at unseen shapes'),
    element('thead', {}, element('tr', {}, figures.map(([name]) =>
      element('th', { scope: 'col', class: 'number' }, name)))),
    element('tbody', {}, element('tr', {}, figures.map(([, text, kind]) => element('td', { class: kind }, text)))));
}

function rangeCellColumns(range) {
  const timed = range.cells.some(([, , , , , , , timings]) => timings !== 0);
  const time = (id, title, value) => ({ id, title, number: true, value: (c) => value(c) || null,
    text: (c) => timeText(value(c)) });
  return [
    { id: 'problem', title: 'problem', long: true, value: (c) => c.problem,
      node: (c) => (c.key ? element('a', { href: linkTo('workload', { key: c.key }) }, broken(c.problem))
        : element('span', {}, broken(c.problem))) },
    time('time', 'time', (c) => c.time), time('default', 'default', (c) => c.defaultTime),
    time('best', 'best measured', (c) => c.best),
    { id: 'regret', title: 'regret', number: true, value: (c) => c.regret, text: (c) => regretText(c.regret) },
    { id: 'variant', title: 'variant', value: (c) => letters(c.variant) },
    ...(timed ? rangeTimings.map((name, i) => time(name, name, (c) => (c.timings ? c.timings[i] : 0))) : []),
    ...(timed ? [{ id: 'differing', title: 'another winner if', value: (c) => c.differing || null }] : []),
    { id: 'config', title: 'configuration', long: true, value: (c) => c.config }];
}

function rangeTable(range) {
  const cells = cellsOf(range);
  const lost = `${regretText(range.worst_cell)} in the worst cell (bound ${regretText(range.bound)}` +
    (range.kept ? ')' : ', which so few cubins do not keep)');
  const facts = [range.family, `${counted(range.total, 'cell')}, ${counted(range.cubins, 'cubin')}`, lost,
    `measured ${range.timing}`, `stored ${range.stored_at}`];
  return element('section', { class: 'range', 'aria-label': `${range.kernel} over ${range.ranges}` },
    element('h3', {}, broken(`${range.kernel} over ${range.ranges} on ${range.hardware}`)),
    element('p', { class: 'note' }, broken(facts.filter(Boolean).join('; '))),
    range.contended && element('p', { class: 'warn' },
      'Contended: somebody else used the GPU meanwhile, so no server uses this table.'),
    range.inherited_by.length > 0 && element('p', { class: 'note' }, `Inherited by ${range.inherited_by.join(', ')}.`),
    certificateTable(range),
    range.folded > 0 && element('p', { class: 'note' },
      `${counted(range.folded, 'shape')} searched for this table alone; moetune report --csv has their rows.`),
    range.timings && element('p', { class: 'timings' }, range.timings),
    element('div', { class: 'maps' }, range.grids.map((grid) => rangeMaps(range, grid, cells))),
    variantKey(range.variants),
    tableBehind(`Cells of ${range.ranges}`, rangeCellColumns(range), cells, 'Table of the cells'),
    range.total > cells.length ? element('p', { class: 'note' },
      `Left out of this page: ${counted(range.total - cells.length, 'more cell')}; moetune report --csv has all.`)
      : null);
}

function rangeTables(words) {
  const chosen = data.ranges.filter((r) => words.every((word) =>
    [r.kernel, r.hardware, r.family, r.ranges, r.timing].join(' ').toLowerCase().includes(word)));
  const most = 4, pages = Math.max(1, Math.ceil(chosen.length / most));
  const page = Math.min(Math.max(0, Number(state.get('rpage')) || 0), pages - 1);
  return [
    element('h2', {}, 'Range tables'),
    data.ranges.length ? null : element('p', {}, 'No range was tuned: moetune search --over does.'),
    data.ranges_left_out ? element('p', { class: 'note' },
      `Left out of this page: ${counted(data.ranges_left_out, 'more table', 'more tables')}.`) : null,
    chosen.slice(page * most, (page + 1) * most).map(rangeTable),
    data.ranges.length ? pager(page, pages, chosen.length, data.ranges.length,
      (next) => state.change({ rpage: next || '' }), 'table') : null];
}

// By name: title, the cell's text, and its colour.
const gridMetrics = {
  time: ['time', (w) => timeText(w.best), (cell, w, all) => timeStyle(cell, w.best, all)],
  roofline: ['roofline fraction', (w) => percentText(w.roofline), (cell, w) => {
    if (w.roofline > 0) heatStyle(cell, 1 - w.roofline);
  }],
  speedup: ['speed-up over the default', (w) => ratioText(w.speedup), (cell, w) => {
    if (w.speedup > 0) shadeStyle(cell, (w.speedup - 1) * 2, 130);
  }],
  variant: ['variant (equal letters share a cubin)', null, null],
};

function gridCell(grid, metric, workload, variant) {
  const link = (text) => element('a', { href: linkTo('workload', { key: workload.key }) }, text);
  const best = grid.cells.filter(Boolean).map(([w]) => data.workloads[w].best);
  if (metric === 'variant') return variantCell(variant, grid.variants[variant], link);
  const [, text, paint] = gridMetrics[metric];
  const made = element('td', { title: workload.config }, link(text(workload)));
  paint(made, workload, best);
  return made;
}

function gridView(grid) {
  const metric = Object.hasOwn(gridMetrics, state.get('show')) ? state.get('show') : 'time';
  const table = heatTable({
    caption: `${gridMetrics[metric][0]}: ${grid.down} down, ${grid.across} across`,
    corner: `${grid.down} \\ ${grid.across}`,
    rows: grid.rows.map(countText), columns: grid.columns.map(countText),
    cell: (r, c) => {
      const found = grid.cells[r * grid.columns.length + c];
      return found ? gridCell(grid, metric, data.workloads[found[0]], found[1])
        : element('td', { class: 'empty' }, '·');
    } });
  const key = metric === 'variant' ? variantKey(grid.variants) : null;
  return [element('h3', {}, `${grid.kernel} on ${grid.hardware}`),
    element('p', { class: 'note' }, broken(grid.family + (grid.rest ? `; ${grid.rest}` : ''))), table, key];
}

function familyGrids(words) {
  const chosen = data.grids.filter((g) =>
    words.every((word) => [g.kernel, g.hardware, g.family, g.rest].join(' ').toLowerCase().includes(word)));
  const most = 12, pages = Math.max(1, Math.ceil(chosen.length / most));
  const page = Math.min(Math.max(0, Number(state.get('page')) || 0), pages - 1);
  return [
    element('h2', {}, 'Single winners'),
    element('p', { class: 'note' },
      'The winners of each family over the two dimensions in which its problems differ most.'),
    data.grids.length ? element('div', { class: 'controls' }, choice('show', 'Cells show',
      Object.entries(gridMetrics).map(([id, [title]]) => [id, title]), {})) : null,
    chosen.length ? null : element('p', {}, 'There is no family with winners over two dimensions.'),
    chosen.slice(page * most, (page + 1) * most).map(gridView),
    chosen.length ? pager(page, pages, chosen.length, data.grids.length,
      (next) => state.change({ page: next || '' }), 'family', 'families') : null];
}

function rangesView() {
  const words = state.get('q').toLowerCase().split(/\s+/).filter(Boolean);
  return [
    element('div', { class: 'controls' },
      searchBox('q', 'Search (press /)', 'head_dim=128', { page: '', rpage: '' })),
    rangeTables(words), familyGrids(words)];
}
