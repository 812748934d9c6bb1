// One workload: its search, its trials and its history.

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-';

// A trial's configuration from its letters, one for a parameter, two where it has more than 64 values.
function configText(kernel, code) {
  if (code.startsWith('!')) return code.slice(1);
  let at = 0;
  return kernel.factors.map(([name, levels]) => {
    let level = alphabet.indexOf(code[at++]);
    if (levels.length > alphabet.length) level = level * alphabet.length + alphabet.indexOf(code[at++]);
    return name + '=' + levels[level];
  }).join(',');
}

// Rows of [number, time, half interval in percent, seconds on the GPU, outcome, contended, configuration].
function trialsOf(workload) {
  const kernel = data.kernels[workload.kernel];
  return workload.trials.map(([number, time, spread, seconds, outcome, contended, code]) => ({
    number, time: time || null, spread, seconds, outcome: data.outcomes[outcome], contended: contended === 1, code,
    get config() { return configText(kernel, this.code); },
  }));
}

function bestFigure(workload, trials, seconds) {
  const x = (point) => (seconds ? point.seconds : point.number);
  const best = workload.best_so_far.map(([number, spent, time]) => ({ number, seconds: spent, time }));
  const unit = seconds ? 'seconds on the GPU' : 'trials';
  return figure({
    title: `Best so far over ${unit}`,
    label: `Best time over ${unit}: ${timeText(workload.best)} at the end`,
    note: seconds ? 'Seconds of checking and measuring; candidates compile beside it.' : '',
    columns: [
      { id: 'number', title: 'trial', number: true, value: (r) => r.number },
      { id: 'seconds', title: 's on the GPU', number: true, value: (r) => r.seconds,
        text: (r) => r.seconds.toFixed(2) },
      { id: 'time', title: 'best', number: true, value: (r) => r.time, text: (r) => timeText(r.time) }],
    rows: best,
    make: () => ({
      type: 'scatter',
      data: { datasets: [
        line('best so far', best.map((p) => ({ x: x(p), y: p.time })), colour('accent'), { stepped: 'before' }),
        dots('trials', trials.filter((t) => t.time).map((t) => ({ x: x(t), y: t.time })), colour('second'))] },
      options: { scales: { x: axis(unit, false, { min: 0 }), y: logAxis('µs', trials.map((t) => t.time)) } },
    }),
  });
}

function outcomeFigure(workload) {
  const names = Object.keys(workload.outcomes);
  return barFigure({ title: 'Trials by outcome', label: 'Trials by outcome', axisTitle: 'trials', names,
    values: names.map((name) => workload.outcomes[name]), text: (v) => countText(v) });
}

function historyFigure(workload) {
  const rows = [...workload.history.map((one) => ({ ...one })),
    { time: workload.best, low: workload.low, high: workload.high, stored_at: workload.stored_at,
      reason: 'today’s winner', config: workload.config }]
    .filter((row) => row.stored_at).sort((a, b) => compare(a.stored_at, b.stored_at));
  const points = rows.map((row) => ({ x: Date.parse(row.stored_at) / 1000, y: row.time }));
  return figure({
    title: 'Winners over time', label: 'Times of the winners by date',
    columns: [
      { id: 'stored', title: 'stored', value: (r) => r.stored_at },
      { id: 'time', title: 'time', number: true, value: (r) => r.time, text: (r) => timeText(r.time) },
      { id: 'spread', title: '95%', number: true, value: (r) => (r.high - r.low) / r.time,
        text: (r) => spreadText(r.low, r.high, r.time) },
      { id: 'reason', title: 'replaced because', value: (r) => r.reason },
      { id: 'config', title: 'configuration', long: true, value: (r) => r.config }],
    rows,
    make: () => ({
      type: 'scatter',
      data: { datasets: [line('winner', points, colour('accent'), { pointRadius: 4, stepped: 'before' })] },
      options: { scales: {
        x: axis('date', false, { ticks: { callback: (v) => new Date(v * 1000).toISOString().slice(0, 10) } }),
        y: axis('µs', false) } },
    }),
  });
}

function factsOf(workload) {
  const kernel = data.kernels[workload.kernel];
  const facts = [
    ['kernel', element('a', { href: linkTo('kernel', { id: workload.kernel }) }, kernel.name)],
    ['hardware', data.hardware[kernel.hardware].title], ['timing', workload.timing],
    ['problem', workload.problem], ['family', workload.family],
    ['configuration', workload.config],
    ['best', `${timeText(workload.best)} ${spreadText(workload.low, workload.high, workload.best)}`],
    ['rate', workload.rate], ['default', workload.default ? `${timeText(workload.default)}, the best is ` +
      `${ratioText(workload.speedup)} as fast` : ''],
    ['roofline', workload.roofline ? `${percentText(workload.roofline)} (${workload.bound})` : ''],
    ['before', workload.before ? `${timeText(workload.before.time)}, stored ${workload.before.stored_at}: ` +
      `today's is ${ratioText(workload.gain)} as fast` : ''],
    ['stored', workload.stored_at], ['search', workload.origin], ['driver', workload.driver],
    ['compiler', workload.toolchain], ['stale', workload.stale.join('; ')], ['damage', workload.damage]];
  return element('dl', {}, facts.filter(([, value]) => value)
    .map(([name, value]) => [element('dt', {}, name),
      element('dd', {}, typeof value === 'string' ? broken(value) : value)]));
}

// The winner under each way in which launches may follow each other, and whether it would have won there.
function timingsTable(workload) {
  if (!workload.timings.length) return null;
  const rows = workload.timings.map(([name, time, defaultTime, fastest, fastestTime]) => ({
    name, time, defaultTime, fastest, fastestTime, other: fastest !== workload.config }));
  const others = rows.filter((row) => row.other).map((row) => row.name);
  return [element('h2', {}, 'Under each timing'),
    element('p', { class: others.length ? 'timings warn' : 'timings note' }, others.length
      ? `The winner differs by timing: another configuration is faster ${others.join(' and ')}.`
      : 'The same configuration wins under each timing.'),
    tableOf({ id: 'timings', caption: `Measured side by side; the winner is of ${workload.timing} launches`,
      columns: [
        { id: 'name', title: 'timing', value: (r) => r.name },
        { id: 'time', title: 'winner', number: true, value: (r) => r.time || null, text: (r) => timeText(r.time) },
        { id: 'default', title: 'default', number: true, value: (r) => r.defaultTime || null,
          text: (r) => timeText(r.defaultTime) },
        { id: 'fastest', title: 'fastest', number: true, value: (r) => r.fastestTime || null,
          text: (r) => timeText(r.fastestTime) },
        { id: 'config', title: 'fastest configuration', long: true, value: (r) => r.fastest,
          text: (r) => (r.other ? r.fastest : 'the winner') }],
      rows, view: { sort: state.get('wsort') }, onChange: ({ sort }) => state.change({ wsort: sort }) })];
}

function trialTable(workload, trials) {
  const query = state.get('tq').toLowerCase();
  const wanted = state.get('outcome');
  const rows = trials.filter((t) => (!wanted || t.outcome === wanted) &&
    (!query || (t.config + ' ' + t.outcome).toLowerCase().includes(query)));
  const onChange = ({ sort, page }) => state.change({ tsort: sort, tpage: page });
  const shown = workload.total > trials.length
    ? `${countText(trials.length)} of ${countText(workload.total)} trials: ` +
      'the improvements, the fastest, and others evenly'
    : 'Trials';
  return [
    element('div', { class: 'controls' },
      searchBox('tq', 'Search trials', 'tma', { tpage: '' }),
      choice('outcome', 'Outcome', ['', ...Object.keys(workload.outcomes)], { tpage: '' })),
    tableOf({ id: 'trials', caption: shown, rows, total: trials.length, onChange,
      view: { sort: state.get('tsort'), page: state.get('tpage') },
      columns: [
        { id: 'number', title: 'trial', number: true, value: (t) => t.number },
        { id: 'time', title: 'time', number: true, value: (t) => t.time, text: (t) => timeText(t.time) },
        { id: 'spread', title: '95%', number: true, value: (t) => t.spread,
          text: (t) => (t.time ? spreadShown(t.spread) : '–') },
        { id: 'outcome', title: 'outcome', value: (t) => t.outcome + (t.contended ? ', contended' : '') },
        { id: 'config', title: 'configuration', long: true, value: (t) => t.config }] })];
}

function workloadView() {
  const workload = data.workloads.find((one) => String(one.key) === state.get('key'));
  if (!workload) return [element('p', {}, 'This report has no such workload.')];
  const trials = trialsOf(workload);
  const figures = [];
  if (workload.best_so_far.length) figures.push(bestFigure(workload, trials, false));
  // A replayed search took no time on a GPU.
  if (workload.best_so_far.some(([, seconds]) => seconds > 0)) figures.push(bestFigure(workload, trials, true));
  if (Object.keys(workload.outcomes).length) figures.push(outcomeFigure(workload));
  if (workload.history.length) figures.push(historyFigure(workload));
  return [element('h2', {}, `Workload ${workload.key}`), factsOf(workload),
    element('div', { class: 'charts' }, figures), timingsTable(workload),
    trials.length ? element('h2', {}, 'Trials') : null, trials.length ? trialTable(workload, trials) : null];
}
