// One kernel on one hardware: the roofline, and what its parameters do.

// Points are FLOPs a byte against TFLOP/s if the kernel computes, else bytes against TB/s.
function rooflineFigure(kernel) {
  const own = kernel.workloads.map((i) => data.workloads[i]).filter((w) => w && w.bytes > 0);
  if (!own.length) return null;
  const computes = own.some((w) => w.flops > 0);
  const x = (w) => (computes ? w.flops / w.bytes : w.bytes / 1e6);
  const y = (w, time) => (computes ? w.flops : w.bytes) / time * 1e-6;
  const rows = [], best = [];
  for (const w of own) {
    for (const trial of trialsOf(w)) if (trial.time) rows.push({ w, time: trial.time, kind: 'trial' });
    if (w.best > 0) best.push({ w, time: w.best, kind: 'best' });
  }
  const few = spaced(rows, mostPoints), winners = spaced(best, mostPoints);
  const xs = own.map(x).filter((v) => v > 0), low = Math.min(...xs) / 2, high = Math.max(...xs) * 2;
  const ceilings = data.hardware[kernel.hardware].ceilings.filter(([, , unit]) =>
    computes ? unit !== 'us' : unit === 'tb_s');
  const shades = ['good', 'third', 'warn', 'faint'];
  const lines = () => ceilings.slice(0, 6).map(([title, value, unit], i) =>
    line(title, [low, high].map((at) => ({ x: at, y: unit === 'tb_s' && computes ? at * value : value })),
      colour(shades[i % shades.length]), { borderWidth: 1, borderDash: [6, 4] }));
  const unit = computes ? 'TFLOP/s' : 'TB/s';
  const point = (row) => ({ x: x(row.w), y: y(row.w, row.time) });
  return figure({
    title: 'Roofline', label: `Trials and winners against the measured ceilings, in ${unit}`,
    note: ceilings.length ? 'Dashed: ceilings that were measured on this hardware.' :
      'No ceilings were measured on this hardware: moetune devices --calibrate does.',
    columns: [
      { id: 'key', title: 'workload', number: true, value: (r) => r.w.key },
      { id: 'kind', title: 'kind', value: (r) => r.kind },
      { id: 'x', title: computes ? 'FLOPs a byte' : 'MB', number: true, value: (r) => x(r.w),
        text: (r) => x(r.w).toPrecision(4) },
      { id: 'y', title: unit, number: true, value: (r) => y(r.w, r.time), text: (r) => y(r.w, r.time).toPrecision(4) },
      { id: 'time', title: 'time', number: true, value: (r) => r.time, text: (r) => timeText(r.time) }],
    rows: [...winners, ...few],
    make: () => ({
      type: 'scatter',
      data: { datasets: [dots('best', winners.map(point), colour('accent'), 4),
        dots('trials', few.map(point), colour('second'), 1.5), ...lines()] },
      options: { scales: { x: logAxis(computes ? 'FLOPs a byte' : 'MB', [low, high]),
        y: logAxis(unit, [...winners, ...few].map((row) => y(row.w, row.time)).concat(ceilings.flatMap(([, value, kind]) =>
          (kind === 'tb_s' ? [(computes ? high : 1) * value] : [])))) } },
    }),
  });
}

// Below this a model of the trials says little, and its shares are mostly noise.
const poorModel = 0.25;

function importanceFigure(parameters) {
  const pairs = parameters.pairs.slice(0, 5).filter(([, , share]) => share >= 0.005);
  const name = (i) => parameters.factors[i][0];
  const names = [...parameters.main.map(([f]) => name(f)), ...pairs.map(([a, b]) => `${name(a)} with ${name(b)}`)];
  const values = [...parameters.main.map(([, share]) => share), ...pairs.map(([, , share]) => share)];
  const most = 16;
  return barFigure({
    title: 'Parameters by importance', label: 'Share of the variance that each parameter causes',
    note: `Functional ANOVA over ${countText(parameters.trials)} timed trials: ` +
      'the share of the variance of log time. ' +
      `The model explains ${Math.max(0, 100 * parameters.explained).toFixed(0)}% of trials that it has not seen` +
      (parameters.explained < poorModel ? ': do not rely on these shares.' : '.'),
    axisTitle: 'share of the variance',
    names: names.slice(0, most), values: values.slice(0, most), text: percentText });
}

function effectsTable(parameters) {
  const rows = [];
  for (const [f, share, levels] of parameters.main) {
    const least = Math.min(...levels);
    levels.forEach((mean, l) => rows.push({ name: parameters.factors[f][0], share,
      value: parameters.factors[f][1][l], slower: 2 ** (mean - least) }));
  }
  return tableBehind('Mean slowdown of each value over the parameter’s best value', [
    { id: 'name', title: 'parameter', value: (r) => r.name },
    { id: 'share', title: 'share', number: true, value: (r) => r.share, text: (r) => percentText(r.share) },
    { id: 'value', title: 'value', value: (r) => r.value },
    { id: 'slower', title: 'slowdown', number: true, value: (r) => r.slower, text: (r) => ratioText(r.slower) }], rows,
    'Slowdown of each value');
}

// Chart.js draws no heat maps: a table with colours, which anybody can read.
function heatTable({ caption, corner, rows, columns, cell }) {
  return element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    element('table', { class: 'heat' }, element('caption', {}, caption),
      element('thead', {}, element('tr', {}, element('th', { scope: 'col' }, corner),
        columns.map((name) => element('th', { scope: 'col', class: 'number' }, name)))),
      element('tbody', {}, rows.map((name, r) => element('tr', {}, element('th', { scope: 'row' }, name),
        columns.map((_, c) => cell(r, c)))))));
}

function pairMap(parameters, { first, second, cells }) {
  const [down, rows] = parameters.factors[first], [across, columns] = parameters.factors[second];
  const metric = state.get('cell', 'best');
  return heatTable({
    caption: `${down} (down) with ${across} (across): ` + (metric === 'mean' ? 'the mean trial' : 'the best trial') +
      ' over the fastest of its problem, geometric mean over problems',
    corner: `${down} \\ ${across}`, rows, columns,
    cell: (r, c) => {
      const [trials, best, mean] = cells[r * columns.length + c] || [0];
      if (!trials) return element('td', { class: 'empty' }, '·');
      const ratio = metric === 'mean' ? mean : best;
      const title = `${countText(trials)} trials, best ${ratioText(best)}, mean ${ratioText(mean)}`;
      const made = element('td', { title }, ratioText(ratio));
      heatStyle(made, 1.5 * Math.log2(ratio));
      return made;
    },
  });
}

// Several recordings, or several settings of one GPU, have one title: the first problem tells them apart.
function kernelTitles() {
  const titles = data.kernels.map((one) => `${one.name} on ${data.hardware[one.hardware].title}`);
  return titles.map((title, i) => {
    const first = data.workloads[data.kernels[i].workloads[0]];
    return first && titles.indexOf(title) !== titles.lastIndexOf(title) ? `${title}: ${first.brief || '–'}` : title;
  });
}

function kernelView() {
  const kernel = data.kernels[Number(state.get('id', '0'))];
  if (!data.kernels.length) return [element('p', {}, 'Nothing is tuned yet.')];
  if (!kernel) return [element('p', {}, 'This report has no such kernel.')];
  const parameters = kernel.parameters;
  const titles = kernelTitles(), others = titles.map((title, i) => [String(i), title]);
  return [
    element('h2', {}, broken(titles[data.kernels.indexOf(kernel)])),
    element('div', { class: 'controls' }, choice('id', 'Kernel and hardware', others, {}),
      parameters && choice('cell', 'Heat maps show', [['', 'the best trial'], ['mean', 'the mean trial']], {})),
    element('div', { class: 'charts' }, rooflineFigure(kernel), parameters && importanceFigure(parameters)),
    parameters ? effectsTable(parameters) : element('p', { class: 'note' },
      'Too few timed trials to tell which parameters matter.'),
    parameters && parameters.maps.length ? element('h2', {}, 'Pairs of parameters') : null,
    parameters ? element('div', { class: 'maps' }, parameters.maps.map((map) => pairMap(parameters, map))) : null];
}
