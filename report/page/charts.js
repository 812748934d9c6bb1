// Chart.js with the page's colours. Every chart has a table behind it, and a sentence for who does not see it.

const mostPoints = 2000;  // of a series
let drawn = [];   // of the present view
let waiting = [];  // charts whose canvas is not in the page yet

function dropCharts() {
  for (const chart of drawn) chart.destroy();
  drawn = [];
  waiting = [];
}

function drawWaiting() {
  for (const draw of waiting.splice(0)) draw();
}

function axis(title, log, more = {}) {
  return {
    type: log ? 'logarithmic' : 'linear',
    title: { display: true, text: title, color: colour('faint') },
    ticks: { color: colour('faint'), maxTicksLimit: 8, ...(more.ticks || {}) },
    grid: { color: colour('grid') },
    ...Object.fromEntries(Object.entries(more).filter(([name]) => name !== 'ticks')),
  };
}

// A logarithmic axis as long as its values, not to the next powers of ten.
function logAxis(title, values) {
  const known = values.filter((value) => value > 0);
  let low = Infinity, high = 0;
  for (const value of known) { low = Math.min(low, value); high = Math.max(high, value); }
  if (!known.length) return axis(title, true);
  // Round values alone; a short axis has few, so that two digits count as round there.
  const digits = high > 2 * low ? 1 : 2;
  const short = (value) => (Number(value.toPrecision(digits)) === value ? String(value) : '');
  return axis(title, true, { min: Number((low * 0.9).toPrecision(2)), max: Number((high * 1.1).toPrecision(2)),
    ticks: { autoSkip: true, callback: short } });
}

// `make` gives the chart's type, data and options; it runs once the canvas is in the page.
function figure({ title, label, note, columns, rows, make }) {
  const canvas = element('canvas', { role: 'img', 'aria-label': label || title });
  const made = element('figure', {},
    element('h3', {}, title),
    element('div', { class: 'canvas' }, canvas),
    note && element('figcaption', {}, note),
    tableBehind(title, columns, rows));
  waiting.push(() => {
    if (!canvas.isConnected) return;
    const config = make();
    config.options = {
      animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true,
      ...config.options,
      plugins: { legend: { labels: { color: colour('text'), boxWidth: 12 } }, ...(config.options.plugins || {}) },
    };
    drawn.push(new Chart(canvas, config));
  });
  requestAnimationFrame(drawWaiting);
  return made;
}

function dots(label, points, shade, radius = 2) {
  return { type: 'scatter', label, data: points, backgroundColor: shade, borderColor: shade, pointRadius: radius,
    pointHoverRadius: radius + 2 };
}

function line(label, points, shade, more = {}) {
  return { type: 'line', label, data: points, borderColor: shade, backgroundColor: shade, borderWidth: 2,
    pointRadius: 0, ...more };
}

function barFigure({ title, note, label, axisTitle = '', names, values, text, columns }) {
  const rows = names.map((name, i) => ({ name, value: values[i] }));
  return figure({
    title, note, label,
    columns: columns || [{ id: 'name', title: 'name', value: (r) => r.name },
      { id: 'value', title: 'value', number: true, value: (r) => r.value, text: (r) => text(r.value) }],
    rows,
    make: () => ({
      type: 'bar',
      data: { labels: names, datasets: [{ data: values, backgroundColor: colour('accent'), maxBarThickness: 36 }] },
      options: {
        indexAxis: 'y', parsing: true, normalized: false,
        plugins: { legend: { display: false },
          tooltip: { callbacks: { label: (item) => text(item.parsed.x) } } },
        scales: { x: axis(axisTitle, false, { beginAtZero: true, ticks: { callback: (v) => (v ? text(v) : '0') } }),
          y: { ticks: { color: colour('text'), autoSkip: false }, grid: { display: false } } },
      },
    }),
  });
}
