// The live page: asks the API for what is there, then follows the event stream. Text goes into the page as text only.
'use strict';

const MOST_ROWS = 50, RETRY_MS = 2000;
const warnings = [];  // of the event stream, the newest first: {at, job, warning, text}
const searches = new Map();  // running jobs by id: {title, points, budget, trials, best, phase, chart}
let stream = null, refreshing = null;

const byId = (id) => document.getElementById(id);
const time = (us) => us == null ? '–' : us < 1000 ? us.toPrecision(3) + ' µs' : (us / 1000).toPrecision(3) + ' ms';
const clock = (text) => text ? new Date(text).toLocaleString() : '–';
const works = (job) => [job.kernel, job.problem || job.over].filter(Boolean).join(' ') || '–';

async function ask(path) {
  const answer = await fetch(path, {headers: {Accept: 'application/json'}});
  if (answer.status === 401) { showLogin(); throw new Error('a token is needed'); }
  if (!answer.ok) throw new Error(path + ' answers ' + answer.status);
  return answer.json();
}

function showLogin() {
  byId('login').hidden = false;
  byId('state').textContent = 'a token is needed';
}

function row(cells) {
  const line = document.createElement('tr');
  for (const [text, kind] of cells) {
    const cell = document.createElement('td');
    cell.textContent = text;
    if (kind) cell.className = kind;
    line.append(cell);
  }
  return line;
}

const fill = (id, rows) => byId(id).tBodies[0].replaceChildren(...rows.slice(0, MOST_ROWS));

function showDevices(devices) {
  fill('devices', devices.map(({device, job, recorded}) => {
    const search = searches.get(job) || {};
    const trials = search.trials == null ? '–' : search.trials + '/' + search.budget;
    return row([[device + (recorded ? ', recorded' : '')], [job == null ? 'idle' : String(job)], [search.title || '–'], [search.phase || '–'],
      [trials, 'number'], [time(search.best), 'number']]);
  }));
}

function showJobs(queued, ended) {
  byId('waiting').textContent = queued.length === 1000 ? '1000 or more' : String(queued.length);
  queued.sort((a, b) => b.priority - a.priority || b.weight - a.weight || a.id - b.id);
  fill('queue', queued.map((job) => row([[job.id, 'number'], [job.kind], [works(job)], [job.priority, 'number'],
    [job.weight, 'number'],
    [clock(job.created) + (job.not_before ? ', put off until ' + clock(job.not_before) : '')]])));
  fill('ended', ended.map((job) => row([[job.id, 'number'], [job.kind], [works(job)],
    [job.error ? job.state + ': ' + job.error.message : job.state, job.state], [clock(job.ended)]])));
}

function showWinners(winners) {
  byId('tuned').textContent = String(winners.length);
  winners.sort((a, b) => a.stored_at < b.stored_at ? 1 : -1);
  fill('winners', winners.map((one) => row([[one.kernel], [one.problem], [one.hardware + (one.recorded ? ', recorded' : '')],
    [time(one.time_us), 'number'], [time(one.default_us), 'number'], [clock(one.stored_at)]])));
}

// A service repeats what still holds: an equal one takes the place of the one before.
function warn(event) {
  const {job, warning, text} = JSON.parse(event.data);
  const known = warnings.findIndex((one) => one.job === job && one.text === text);
  if (known >= 0) warnings.splice(known, 1);
  warnings.unshift({at: new Date().toISOString(), job, warning, text});
  warnings.splice(MOST_ROWS);
  fill('warnings', warnings.map((one) => row([[clock(one.at)], [one.job == null ? '–' : one.job, 'number'],
    [one.warning], [one.text, 'failed']])));
  byId('warned').hidden = false;
}

function chartOf(search) {
  const figure = document.createElement('figure');
  const canvas = document.createElement('canvas');
  canvas.setAttribute('aria-label', 'best time by trial: ' + search.title);
  canvas.setAttribute('role', 'img');
  figure.append(canvas);
  byId('curves').append(figure);
  search.figure = figure;
  search.chart = new Chart(canvas, {
    type: 'line',
    data: {datasets: [{label: search.title, data: search.points, stepped: true, borderColor: '#1c7ed6',
      backgroundColor: '#1c7ed6', pointRadius: 3}]},
    options: {animation: false, maintainAspectRatio: false, parsing: false,
      scales: {x: {type: 'linear', min: 0, title: {display: true, text: 'trial'}},
        y: {title: {display: true, text: 'best, µs'}}}},
  });
}

function drawSearches() {
  for (const search of searches.values()) {
    if (!search.points.length) continue;
    if (!search.chart) chartOf(search);
    const last = search.points[search.points.length - 1];
    search.chart.data.datasets[0].data =
      search.trials > last.x ? search.points.concat({x: search.trials, y: last.y}) : search.points;
    search.chart.update();
  }
  const none = document.querySelector('#curves .none');
  if (none) none.hidden = [...searches.values()].some((search) => search.chart);
}

function drop(id) {
  const search = searches.get(id);
  if (!search) return;
  if (search.chart) { search.chart.destroy(); search.figure.remove(); }
  searches.delete(id);
}

function take(job) {
  const progress = job.progress || {};
  const search = searches.get(job.id) || {points: []};
  search.title = [progress.kernel || job.kernel, progress.problem || job.problem].filter(Boolean).join(' ') || job.kind;
  Object.assign(search, {phase: progress.phase, trials: progress.trials, budget: progress.budget, best: progress.best_us});
  if (progress.curve) search.points = progress.curve.map(([x, y]) => ({x, y}));
  searches.set(job.id, search);
}

async function refresh() {
  const [devices, running, queued, done, winners] = await Promise.all([ask('v1/devices'), ask('v1/jobs?state=running'),
    ask('v1/jobs?state=queued&limit=1000'), ask('v1/ended'), ask('v1/winners')]);
  running.jobs.forEach(take);
  for (const id of [...searches.keys()]) if (!running.jobs.some((job) => job.id === id)) drop(id);
  showDevices(devices.devices);
  showJobs(queued.jobs, done.jobs);
  showWinners(winners.winners);
  drawSearches();
}

// At most once in 500 ms, however many events come.
function refreshSoon() {
  if (refreshing) return;
  refreshing = setTimeout(() => {
    refresh().catch((error) => { byId('state').textContent = error.message; }).finally(() => { refreshing = null; });
  }, 500);
}

// A connection that breaks is opened again by the browser. One that is refused (a session that has ended, a service
// that is full) is closed for good: then everything starts again, which shows the login if it is that.
function follow() {
  if (stream) stream.close();
  const mine = stream = new EventSource('v1/events');
  mine.onopen = () => { byId('state').textContent = 'live'; refreshSoon(); };
  mine.onerror = () => {
    if (mine !== stream) return;
    byId('state').textContent = 'connection lost; trying again …';
    if (mine.readyState === EventSource.CLOSED) startAgain();
  };
  for (const type of ['job', 'phase', 'search', 'trial', 'range', 'packs', 'lost'])
    mine.addEventListener(type, refreshSoon);
  mine.addEventListener('warning', warn);
}

byId('login').addEventListener('submit', async (event) => {
  event.preventDefault();
  const answer = await fetch('v1/session', {method: 'POST', headers: {'Content-Type': 'application/json'},
    body: JSON.stringify({token: byId('token').value})});
  if (!answer.ok) { byId('refused').textContent = (await answer.json()).error.message; return; }
  byId('login').hidden = true;
  start();
});

let starting = null;

function startAgain() {
  if (starting) return;
  starting = setTimeout(() => { starting = null; start(); }, RETRY_MS);
}

// Until it succeeds, or a token is needed: the login starts it then.
function start() {
  refresh().then(follow).catch((error) => {
    byId('state').textContent = error.message;
    if (byId('login').hidden) startAgain();
  });
}
start();
