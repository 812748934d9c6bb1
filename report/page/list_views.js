// The views over many workloads: the overview, and what changed.

function searchBox(name, title, placeholder, also) {
  const input = element('input', { type: 'search', id: 'box-' + name, placeholder, value: state.get(name),
    autocomplete: 'off' });
  input.addEventListener('input', () => state.change({ [name]: input.value, ...also }));
  return element('label', {}, title, input);
}

// `options`: values, or pairs of value and text; '' is all.
function choice(name, title, options, also) {
  const select = element('select', { id: 'choice-' + name },
    options.map((option) => {
      const [value, text] = Array.isArray(option) ? option : [option, option || 'all'];
      return element('option', { value, selected: state.get(name, options[0][0] ?? '') === value }, text);
    }));
  select.addEventListener('change', () => state.change({ [name]: select.value, ...also }));
  return element('label', {}, title, select);
}

const stateNames = ['stale', 'contended', 'damaged', 'no cubin', 'lost duel', 'inherited', 'recorded'];

function chosenWorkloads() {
  const words = state.get('q').toLowerCase().split(/\s+/).filter(Boolean);
  const kernel = state.get('kernel'), hardware = state.get('hardware'), wanted = state.get('state');
  return data.workloads.filter((w) => {
    const section = data.kernels[w.kernel];
    return (!kernel || section.name === kernel) && (!hardware || data.hardware[section.hardware].title === hardware) &&
      (!wanted || w.notes.includes(wanted)) && words.every((word) => w.haystack.includes(word));
  });
}

function filters() {
  const also = { page: '' };
  return element('div', { class: 'controls' },
    searchBox('q', 'Search (press /)', 'context=4096', also),
    choice('kernel', 'Kernel', ['', ...new Set(data.kernels.map((k) => k.name))], also),
    choice('hardware', 'Hardware', ['', ...new Set(data.hardware.map((h) => h.title))], also),
    choice('state', 'State', ['', ...stateNames], also),
    element('button', { type: 'button', onclick: () => state.change(
      { q: '', kernel: '', hardware: '', state: '', sort: '', page: '' }) }, 'Clear'));
}

function notesNode(w) {
  const shade = { damaged: 'bad', stale: 'warn', contended: 'warn' };
  const titles = { stale: w.stale.join('; '), inherited: `serves ${w.inherited_by.join(', ')} too` };
  const title = (note) => titles[note] ?? null;
  return element('span', {}, w.notes.map((note, i) =>
    [i ? ', ' : '', element('span', { class: shade[note], title: title(note) }, note)]));
}

const workloadColumns = [
  { id: 'key', title: 'key', number: true, value: (w) => w.key,
    node: (w) => element('a', { href: linkTo('workload', { key: w.key }) }, String(w.key)) },
  { id: 'problem', title: 'problem', long: true, value: (w) => w.brief,
    node: (w) => element('a', { href: linkTo('workload', { key: w.key }), title: w.problem }, broken(w.brief || '–')) },
  { id: 'best', title: 'best', number: true, value: (w) => w.best || null, text: (w) => timeText(w.best) },
  { id: 'spread', title: '95%', number: true, value: (w) => (w.best ? (w.high - w.low) / w.best : null),
    text: (w) => spreadText(w.low, w.high, w.best) },
  { id: 'speedup', title: 'over default', number: true, value: (w) => w.speedup || null,
    text: (w) => ratioText(w.speedup) },
  { id: 'gain', title: 'over before', number: true, value: (w) => w.gain || null, text: (w) => ratioText(w.gain) },
  { id: 'roofline', title: 'roofline', number: true, value: (w) => w.roofline || null,
    text: (w) => percentText(w.roofline) },
  { id: 'trials', title: 'trials', number: true, value: (w) => w.tried, text: (w) => countText(w.tried) },
  { id: 'age', title: 'age', number: true, value: (w) => (w.stored_at ? -Date.parse(w.stored_at) : null),
    text: (w) => ageText(w.stored_at) },
  { id: 'kernel', title: 'kernel', value: (w) => data.kernels[w.kernel].name },
  { id: 'hardware', title: 'hardware', value: (w) => data.hardware[data.kernels[w.kernel].hardware].title },
  { id: 'notes', title: 'notes', value: (w) => w.notes.join(', '), node: notesNode }];

function card(value, text) {
  return element('div', { class: 'card' }, element('b', {}, value), text);
}

function overviewView() {
  const rows = chosenWorkloads();
  const faster = rows.filter((w) => w.speedup > 0);
  const mean = Math.exp(faster.reduce((sum, w) => sum + Math.log(w.speedup), 0) / (faster.length || 1));
  return [
    element('div', { class: 'cards' },
      card(countText(rows.length), rows.length === 1 ? 'workload' : 'workloads'),
      card(countText(rows.reduce((sum, w) => sum + w.tried, 0)), 'trials'),
      card(faster.length ? ratioText(mean) : '–', 'over the default (geometric mean)'),
      card(countText(rows.filter((w) => w.stale.length).length), 'stale')),
    filters(),
    data.left_out ? element('p', { class: 'note' },
      `Left out of this page: ${counted(data.left_out, 'more workload')}; moetune report --csv has all.`) : null,
    tableOf({ id: 'workloads', caption: 'Workloads', columns: workloadColumns, rows, total: data.workloads.length,
      view: { sort: state.get('sort'), page: state.get('page') }, onChange: (view) => state.change(view) }),
    data.next.length ? element('h2', {}, 'Worth running next') : null,
    data.next.map(([command, reason]) => [element('pre', {}, command), element('p', { class: 'note' }, reason)])];
}

function changeRows() {
  return data.workloads.filter((w) => w.before && w.best > 0).map((w) => ({ w, before: w.before.time, after: w.best,
    ratio: w.before.time / w.best, apart: w.before.low > w.high || w.low > w.before.high }));
}

// The same kernel and problem on several kinds of hardware.
function hardwareRows() {
  const groups = new Map();
  for (const w of data.workloads) {
    if (!(w.best > 0)) continue;
    const name = [data.kernels[w.kernel].name, w.problem, w.timing].join('\n');
    groups.set(name, [...(groups.get(name) || []), w]);
  }
  return [...groups.values()].filter((all) => new Set(all.map((w) => data.kernels[w.kernel].hardware)).size > 1)
    .flatMap((all) => {
      const best = Math.min(...all.map((w) => w.best));
      return all.map((w) => ({ w, ratio: w.best / best }));
    });
}

const linkedWorkload = { id: 'key', title: 'workload', number: true, value: (r) => r.w.key,
  node: (r) => element('a', { href: linkTo('workload', { key: r.w.key }) }, String(r.w.key)) };
const ofKernel = { id: 'kernel', title: 'kernel', value: (r) => data.kernels[r.w.kernel].name };
const ofProblem = { id: 'problem', title: 'problem', long: true, value: (r) => r.w.brief };

function changesFigure(rows) {
  const few = rows.slice(0, 2000);
  const side = few.flatMap((r) => [r.before, r.after]), low = Math.min(...side), high = Math.max(...side);
  return figure({
    title: 'Before and after', label: 'Time of the earlier winner against today’s',
    note: 'Below the line today’s winner is faster.', columns: changeColumns, rows: few,
    make: () => ({ type: 'scatter',
      data: { datasets: [dots('winner', few.map((r) => ({ x: r.before, y: r.after })), colour('accent'), 3),
        line('equal', [{ x: low, y: low }, { x: high, y: high }], colour('faint'), { borderWidth: 1 })] },
      options: { scales: { x: logAxis('before, µs', side), y: logAxis('after, µs', side) } } }) });
}

const changeColumns = [linkedWorkload, ofKernel, ofProblem,
  { id: 'before', title: 'before', number: true, value: (r) => r.before, text: (r) => timeText(r.before) },
  { id: 'after', title: 'after', number: true, value: (r) => r.after, text: (r) => timeText(r.after) },
  { id: 'ratio', title: 'speed-up', number: true, value: (r) => r.ratio, text: (r) => ratioText(r.ratio) },
  { id: 'apart', title: 'intervals', value: (r) => (r.apart ? 'apart' : 'overlap') },
  { id: 'stored', title: 'earlier one stored', value: (r) => r.w.before.stored_at }];

function changesView() {
  const changes = changeRows(), across = hardwareRows();
  const view = { sort: state.get('sort'), page: state.get('page') };
  return [
    element('h2', {}, 'Before and after'),
    changes.length ? element('div', { class: 'charts' }, changesFigure(changes)) : null,
    changes.length ? tableOf({ id: 'changes', caption: 'Winners that replaced others', columns: changeColumns,
      rows: changes, view, onChange: (next) => state.change(next) })
      : element('p', {}, 'No winner has replaced another so far.'),
    element('h2', {}, 'Across hardware'),
    across.length ? tableOf({ id: 'across', caption: 'The same problem on several kinds of hardware', rows: across,
      columns: [linkedWorkload, ofKernel, ofProblem, { id: 'timing', title: 'timing', value: (r) => r.w.timing },
        { id: 'hardware', title: 'hardware', value: (r) => data.hardware[data.kernels[r.w.kernel].hardware].title },
        { id: 'best', title: 'best', number: true, value: (r) => r.w.best, text: (r) => timeText(r.w.best) },
        { id: 'ratio', title: 'over the fastest', number: true, value: (r) => r.ratio,
          text: (r) => ratioText(r.ratio) }],
      view: { sort: state.get('hsort'), page: state.get('hpage') },
      onChange: ({ sort, page }) => state.change({ hsort: sort, hpage: page }) })
      : element('p', {}, 'No problem was tuned on two kinds of hardware.')];
}
