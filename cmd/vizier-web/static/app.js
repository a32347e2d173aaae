// The page. Everything that it says of jobs is an answer of the kernel, which runs here;
// the server hands it the state, logs, and word that something happened.

const $ = (id) => document.getElementById(id);
const embedded = $("given"); // the page is a file of its own, with the state in it
const most = 200; // rows that are shown before somebody asks for more

let ask; // (question, args) => text; throws what the kernel refuses
let stand; // how everything stands
let fetched = 0; // when, by this machine's clock
let shown = most;
let key; // with which the server does what the page asks for; in no store of the browser
let at = {}; // what the address says: view, q, status, run, job

// el makes an element of a name with attributes and children; texts stay texts.
function el(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) {
    if (k === "on") for (const [event, f] of Object.entries(v)) e["on" + event] = f; // become hands them on
    else if (v !== undefined && v !== false) e.setAttribute(k, v);
  }
  e.append(...children.filter((c) => c !== undefined && c !== null));
  return e;
}

const handed = ["onclick", "onmouseenter", "onfocus", "svg"]; // properties of elements that become hands on
const keyOf = (n) => n.dataset?.key;

// become brings the children of an element to those that are wanted and leaves alone what is so already, so that
// a redraw takes nothing from who types, selects, reads or points there. A child with a data-key becomes
// that of this key, another one that of its kind in its place. What is in a child with data-own is not looked at.
function become(box, wanted) {
  const want = wanted.map((w) => typeof w === "string" ? document.createTextNode(w) : w);
  const keys = new Set(want.map(keyOf));
  const had = new Map();
  for (const e of [...box.children]) {
    if (keyOf(e) === undefined) continue;
    if (keys.has(keyOf(e))) had.set(keyOf(e), e);
    else e.remove(); // first, so that those behind it need not move
  }
  let next = box.firstChild;
  for (const w of want) {
    const have = w.parentNode === box ? w : keyOf(w) !== undefined ? had.get(keyOf(w)) : next && keyOf(next) === undefined && next.nodeName === w.nodeName ? next : undefined;
    had.delete(keyOf(w));
    if (have === next && next) next = next.nextSibling;
    else box.insertBefore(have || w, next);
    if (have && have !== w) be(have, w);
  }
  while (next) {
    const rest = next;
    next = next.nextSibling;
    rest.remove();
  }
}

// be brings a node to one of the same kind.
function be(have, want) {
  if (have.nodeType !== Node.ELEMENT_NODE) {
    if (have.data !== want.data) have.data = want.data;
    return;
  }
  for (const p of handed) if (have[p] !== want[p]) have[p] = want[p];
  if (have.hasAttribute("data-own")) return;
  for (const { name } of [...have.attributes]) if (!want.hasAttribute(name)) have.removeAttribute(name);
  for (const { name, value } of want.attributes) if (have.getAttribute(name) !== value) have.setAttribute(name, value);
  become(have, [...want.childNodes]);
}

// --- the kernel -----------------------------------------------------------

async function start() {
  const go = new Go();
  let program;
  if (embedded) {
    const packed = Uint8Array.from(atob($("kernel").textContent), (c) => c.charCodeAt(0));
    const open = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    program = await WebAssembly.instantiate(await new Response(open).arrayBuffer(), go.importObject);
  } else {
    program = await WebAssembly.instantiateStreaming(fetch("kernel.wasm"), go.importObject);
  }
  go.run(program.instance);
  ask = (question, args) => {
    const got = vizierKernel(question, typeof args === "string" ? args : JSON.stringify(args));
    if (got.error !== undefined) throw new Error(got.error);
    return got.answer;
  };
}

let patience = 20000; // how long an answer may take, in milliseconds

// get returns the server's answer, as "text" or "json"; throws what it refuses with, and if it does not answer. Then the
// next answer may take longer, up to five minutes: what is asked again is as large.
async function get(path, as = "text") {
  try {
    const got = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(patience) }); // in a cache, it would wait for those of other tabs
    const answer = await got[got.ok ? as : "text"]();
    if (!got.ok) throw new Error(answer);
    return answer;
  } catch (e) {
    if (e.name !== "TimeoutError") throw e;
    patience = Math.min(2 * patience, 300000);
    throw new Error("the server does not answer");
  }
}

// take brings the kernel to a state, or to what one has become, and the page to what that changes.
function take(state) {
  ask("read", state);
  const told = JSON.parse(ask("stand", { news: stand !== undefined }));
  fetched = Date.now();
  if (stand === undefined) { stand = told; return; }
  const other = new Map(told.jobs.map((j) => [j.job, j]));
  const gone = new Set(told.gone);
  const jobs = stand.jobs.filter((j) => !gone.has(j.job)).map((j) => other.get(j.job) || j);
  for (const j of told.jobs) if (j.at !== undefined) jobs.splice(j.at, 0, j); // in the order of the list
  stand = { ...told, jobs, runs: told.runs || stand.runs };
}

// version is of the state that the kernel has; "": it has none.
const version = () => stand ? ask("version", {}) : "";

// moment is the moment that the kernel is asked about: the page's, or that of the file.
function moment() {
  if (embedded) return undefined;
  const now = Date.parse(stand.now) + Date.now() - fetched;
  return new Date(now).toISOString();
}

// --- the address ----------------------------------------------------------

function read() {
  at = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  if (!["graph", "timeline"].includes(at.view)) at.view = "list";
}

function address(change) {
  const to = new URLSearchParams();
  for (const [k, v] of Object.entries({ ...at, ...change })) if (v && !(k === "view" && v === "list")) to.set(k, v);
  return "#" + to.toString();
}

function go(change) {
  const to = address(change);
  if (to === (location.hash || "#")) return;
  if (change.q !== undefined) { history.replaceState(null, "", to); route(); } // not an entry for each letter
  else location.hash = to;
}

function route() {
  const was = at.job;
  read();
  draw();
  if (was !== at.job) drawJob(true);
}

// --- what is shown --------------------------------------------------------

const brief = (s) => s < 60 ? `${Math.round(s)}s` : s < 3600 ? `${Math.round(s / 60)}m` : s < 86400 ? `${(s / 3600).toFixed(1)}h` : `${Math.round(s / 86400)}d`;
const ago = (t) => t ? brief(Math.max(0, (Date.parse(stand.now) - Date.parse(t)) / 1000)) + " ago" : "";

// called is what people call a job: of one in a run the reference has its name.
const called = (ref, name) => !ref ? name : ref.endsWith("/" + name) ? ref : `${ref} ${name}`;

function commandOf(what, ref) {
  return what === "approve" || what === "reject" ? `vizier jobs ${what} ${ref}` : `vizier ${what} ${ref}`;
}

// claim changes the key of the address, which counts once, into one of this page.
async function claim(once) {
  history.replaceState(null, "", location.pathname);
  const got = await fetch("claim", { method: "POST", headers: { "Content-Type": "application/json", "X-Vizier-Key": once } });
  if (!got.ok) throw new Error(await got.text());
  key = (await got.json()).key;
}

let deed = {}; // of the chosen job: what was pressed once, what the server is asked to do, or what came of it

// actButton does what it says once it is pressed, and pressed again.
function actButton(what, j) {
  const once = JSON.stringify([what, j.digest, j.head]); // what is pressed, of what is shown
  const look = () => foresee($("job").querySelector(".follows"), what, j.row.job, commandOf(what, j.row.ref));
  const press = async () => {
    const before = deed, mine = deed = {};
    if (before.once !== once) {
      look();
      deed.once = once;
      drawJob();
      setTimeout(() => { if (deed === mine) { deed = {}; drawJob(); } }, 5000);
      return;
    }
    const reason = what === "reject" ? $("job").querySelector(".acts input").value : undefined;
    deed.asked = what;
    drawJob();
    try {
      const got = await fetch("act", { method: "POST", headers: { "Content-Type": "application/json", "X-Vizier-Key": key },
        body: JSON.stringify({ what, job: j.row.job, digest: what === "approve" ? j.digest : undefined, head: what === "approve" ? j.head : undefined, reason }) });
      if (!got.ok) throw new Error(await got.text());
      mine.said = `${what}: done`;
      refresh();
    } catch (e) {
      mine.said = `${what}: ${e.message}`;
    }
    mine.asked = undefined;
    drawJob();
  };
  return el("button", { type: "button", class: "act", "data-key": what, disabled: deed.asked && "", on: { click: press, mouseenter: look, focus: look } },
    deed.once === once ? `${what}: sure?` : what);
}

// acts are the buttons that do something to a job, where this page may.
function acts(j) {
  const can = j.row.can || [];
  if (!stand.actions || !can.length) return null;
  if (!key) return el("p", { class: "note" }, "This page only reads. Press enter in the terminal of vizier web and open the address that it prints.");
  return el("div", { class: "acts", "data-key": "acts" }, ...can.map((what) => actButton(what, j)),
    can.includes("reject") ? el("input", { "data-key": "reason", "aria-label": "reason", placeholder: "reason of a reject" }) : null,
    can.includes("approve") ? el("pre", { "data-key": "statement", "aria-label": "what is approved" }, j.statement.join("\n")) : null, el("p", { role: "status" }, deed.said || ""));
}

// copyButton copies a command; with what it would change, a look at it tells what follows.
function copyButton(command, what, job) {
  const on = { click: async (event) => {
    const b = event.currentTarget;
    try { await navigator.clipboard.writeText(command); } catch { selectText(b); return; }
    b.textContent = "copied";
    setTimeout(() => { b.textContent = command; }, 1200);
  } };
  if (what) on.mouseenter = on.focus = (event) => foresee(event.currentTarget.closest("#job, #needs li").querySelector(".follows"), what, job, command);
  return el("button", { type: "button", class: "copy", title: "copy", "data-key": command, "data-what": what || undefined, on }, command);
}

function selectText(e) {
  const range = document.createRange();
  range.selectNodeContents(e);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}

// foresee shows what would follow in its area, and goes on to.
function foresee(area, what, job, command) {
  area.look = () => become(area, foreseen(what, job, command));
  area.look();
  area.hidden = false;
}

// foreseen is what would follow, in the words of the command that tells it.
function foreseen(what, job, command) {
  const asks = el("code", {}, command.replace(/^vizier (jobs )?(\w+) (.*)$/, "vizier what-if --$2 $3"));
  let cells;
  try {
    cells = JSON.parse(ask("follows", { what, job, now: moment() }));
  } catch (e) {
    return [`What would follow is not known here: ${e.message}. Ask `, asks];
  }
  const rows = cells.slice(1, 31);
  const more = cells.length - 1 - rows.length;
  return [el("div", { class: "note" }, asks), el("table", {}, ...[cells[0]].map((c) => el("tr", {}, ...c.map((t) => el(cells.length > 1 ? "th" : "td", {}, t)))),
    ...rows.map((c) => el("tr", {}, ...c.map((t) => el("td", {}, t))))), more > 0 ? el("p", { class: "note" }, `and ${more} more`) : ""];
}

const firstNeeds = 5; // of what needs somebody, before somebody asks for more
let needs = ""; // what is shown of it
let allNeeds = false;

function drawNeeds() {
  const items = stand.attention;
  const text = JSON.stringify([items, stand.needing, allNeeds]);
  if (text === needs) return; // what would follow is not asked again for nothing
  needs = text;
  $("needs").hidden = items.length === 0;
  document.title = (stand.needing ? `(${stand.needing}) ` : "") + stand.repository + " – Vizier";
  become($("needs").querySelector("ul"), items.slice(0, allNeeds ? items.length : firstNeeds).map((it) => {
    const command = (it.command || []).join(" ");
    const what = /^vizier jobs approve /.test(command) ? "approve" : /^vizier retry /.test(command) ? "retry" : "";
    return el("li", { "data-key": `${it.job} ${it.kind} ${command}` }, el("a", { href: it.job ? address({ job: it.job }) : "#" }, called(it.ref, it.name)), " ", el("span", { class: "note" }, ago(it.since)),
      el("span", { class: "what" }, it.what || it.kind || ""), command ? copyButton(command, what, it.job) : null, el("div", { class: "follows", "data-own": "", hidden: "" }));
  }));
  for (const area of $("needs").querySelectorAll(".follows")) area.look?.();
  const rest = stand.needing - (allNeeds ? items.length : Math.min(items.length, firstNeeds));
  become($("needs-more"), [rest === 0 ? "" : allNeeds || items.length <= firstNeeds ? `and ${rest} more` :
    el("button", { type: "button", on: { click: () => { allNeeds = true; drawNeeds(); } } }, `Show more (${rest} are left)`)]);
}

function matching() {
  const words = (at.q || "").toLowerCase().split(/\s+/).filter(Boolean);
  return stand.jobs.filter((j) => (!at.status || j.short === at.status) && (!at.run || j.run === at.run) &&
    words.every((w) => `${j.ref} ${j.name} ${j.status} ${j.tags || ""}`.toLowerCase().includes(w) || w.length > 5 && j.job.startsWith(w))); // few letters are in any id
}

function drawList() {
  const jobs = matching();
  const out = [];
  if (!at.run && !at.q && !at.status && stand.runs.length) {
    out.push(el("h2", { "data-key": "runs title" }, `Runs (${stand.runs.length})`), el("table", { class: "jobs runs", "data-key": "runs" },
      el("thead", {}, el("tr", {}, ...["#", "Run", "Status", "Begun", "Done"].map((t) => el("th", {}, t)))),
      el("tbody", {}, ...stand.runs.slice(0, 15).map((r) => el("tr", { "data-key": r.run },
        el("td", { class: "ref" }, r.ref), el("td", { class: "name" }, el("a", { href: address({ run: r.run }) }, r.name || r.run)),
        el("td", { class: "state " + runClass(r.status) }, r.status), el("td", { class: "when" }, ago(r.created_at)), el("td", { class: "when" }, `${r.done}/${r.total}`))))));
  }
  const filtered = at.q || at.status || at.run;
  out.push(el("h2", {}, filtered ? `${jobs.length} of ${stand.outcome}` : `Jobs (${stand.outcome})`));
  out.push(el("table", { class: "jobs" },
    el("thead", {}, el("tr", {}, ...["#", "Name", "Status", "Since", "What"].map((t) => el("th", {}, t)))),
    el("tbody", { id: "rows" }, ...jobs.slice(0, shown).map((j) => el("tr", { "data-key": j.job, class: j.job === at.job ? "chosen" : undefined },
      el("td", { class: "ref" }, j.ref), el("td", { class: "name" }, el("a", { href: address({ job: j.job }), "data-job": j.job }, j.name)),
      el("td", { class: "state " + j.short }, `${j.sign} ${j.short}`), el("td", { class: "when" }, ago(j.since)), el("td", { class: "what" }, j.what || ""))))));
  if (jobs.length > shown) {
    out.push(el("p", {}, el("button", { type: "button", on: { click: () => { shown += 1000; draw(); } } }, `Show more (${jobs.length - shown} are left)`)));
  }
  return out;
}

const runClass = (s) => s.startsWith("needs") ? "approval" : s;

// picture is the one that is shown already where that is the same.
function picture(svg) {
  const have = document.querySelector("#main .picture");
  if (have?.svg === svg) return have;
  const doc = new DOMParser().parseFromString(svg, "image/svg+xml");
  const box = el("div", { class: "picture", tabindex: "0", "data-key": `${at.view} ${at.run} ${at.job}` }, document.importNode(doc.documentElement, true));
  box.svg = svg;
  return box;
}

function drawPicture(question) {
  const args = { run: at.run || "", job: question === "graph" && !at.run ? at.job || "" : "" };
  const title = question === "graph" ? "Graph" : "Timeline of the latest attempts";
  try {
    const svg = ask(question, args);
    return [el("h2", {}, title), svg ? picture(svg) : el("p", { class: "note" }, "Nothing has run. Choose another run.")];
  } catch (e) {
    return [el("h2", {}, title), el("p", { class: "note" }, e.message)];
  }
}

function options(select, values, now) {
  if (now && !values.some(([v]) => v === now)) values = [...values, [now, now]]; // no job has it any more
  const text = JSON.stringify(values);
  if (select.dataset.of !== text) {
    select.dataset.of = text;
    become(select, [["", "all"], ...values].map(([v, t]) => el("option", { value: v, "data-key": v }, t)));
  }
  if (select.value !== (now || "")) select.value = now || "";
}

function draw() {
  if (!stand) return;
  $("title").textContent = stand.repository;
  if (document.activeElement !== $("q")) $("q").value = at.q || "";
  options($("status"), [...new Set(stand.jobs.map((j) => j.short))].sort().map((s) => [s, s]), at.status);
  options($("run"), stand.runs.slice(0, 200).map((r) => [r.run, `${r.ref} ${r.name}`]), at.run);
  for (const b of $("views").children) b.setAttribute("aria-pressed", b.dataset.view === at.view);
  become($("main"), at.view === "list" ? drawList() : drawPicture(at.view));
  if (!performance.getEntriesByName("list").length) requestAnimationFrame(() => performance.mark("list")); // for who measures
}

// --- one job --------------------------------------------------------------

const kept = 500000; // letters of a log
const streams = ["stdout", "stderr"];

let logs = {}; // by stream: what is shown of the chosen job
let details = {}; // of it: attempts and effects, or why they are not known
let record = ""; // what the kernel said of it
let unread = false; // logs and details are those of an earlier record

function drawJob(opened) {
  const box = $("job");
  if (!at.job || !stand) { box.hidden = true; return; }
  if (opened) {
    logs = {}, details = {}, deed = {}, record = "";
    box.replaceChildren();
  }
  let parts;
  try {
    const text = ask("job", { job: at.job });
    unread ||= text !== record;
    record = text;
    parts = partsOf(JSON.parse(text));
  } catch (e) {
    parts = [el("h2", {}, at.job), el("p", { class: "note" }, e.message)];
  }
  box.hidden = false;
  become(box, [closer(), ...parts]);
  box.querySelector(".follows")?.look?.();
  for (const pre of box.querySelectorAll("pre[data-stream]")) fill(pre, logs[pre.dataset.stream]);
  if (opened) {
    box.scrollTop = 0;
    box.focus({ preventScroll: true });
  }
  if (unread) readFiles();
}

// partsOf is what is shown of a job.
function partsOf(j) {
  const can = j.row.can || [];
  const parts = [el("h2", {}, called(j.row.ref, j.row.name) + " ", el("span", { class: j.row.short }, `${j.row.sign} ${j.row.status}`)),
    el("div", {}, ...can.map((what) => copyButton(commandOf(what, j.row.ref), what, at.job)), acts(j),
      el("div", { class: "follows note", "data-own": "", "data-key": `follows ${can}` }, "Point at a command to see what would follow."))];
  const part = (title, ...content) => parts.push(el("div", { "data-key": title }, el("h3", {}, title), ...content));
  const links = (list) => el("ul", {}, ...list.slice(0, 40).map((n) => el("li", { "data-key": n.job }, el("a", { href: address({ job: n.job }) }, called(n.ref, n.name)), ` ${n.status}`)), list.length > 40 ? el("li", {}, `and ${list.length - 40} more`) : null);
  const near = (title, list) => { if (list.length) part(title, links(list)); };
  if (j.unmet.length) part("Why it does not run", el("ul", {}, ...j.unmet.map((u) => el("li", {}, u.detail, u.clears ? el("span", { class: "note" }, ` – ${u.clears}`) : ""))));
  if (j.root) parts.push(el("p", { "data-key": "root" }, "It began with ", j.root));
  if (j.actions.length) part("What would start it", el("div", {}, ...j.actions.map((a) => a.startsWith("vizier ") ? copyButton(a) : el("p", {}, a))));
  near("After", j.near.filter((n) => n.before));
  near("Before", j.near.filter((n) => !n.before));
  parts.push(el("div", { id: "files", "data-key": "files" }, ...filesOf(j.row.ref)));
  part("On record", el("dl", {}, ...j.fields.flatMap((f) => [el("dt", { "data-key": `${f.Label}:` }, f.Label), el("dd", { "data-key": f.Label }, f.Text)])));
  return parts;
}

function closer() {
  return el("button", { type: "button", class: "close", on: { click: () => go({ job: "" }) } }, "Close (esc)");
}

// filesOf is what is shown of the logs, attempts and effects of a job.
function filesOf(ref) {
  if (embedded) return [el("h3", {}, "Output"), el("p", { class: "note" }, "Attempts and logs are not in this file:"), copyButton(`vizier tail ${ref}`)];
  const out = [];
  for (const stream of streams) {
    const log = logs[stream];
    if (!log?.text) continue;
    out.push(el("h3", { "data-key": `${stream} title` }, stream + (log.still ? " (stands still while you read further up; go to its end for the rest)" : log.left > 0 ? " (the end of it)" : "")),
      el("pre", { tabindex: "0", "data-key": stream, "data-own": "", "data-stream": stream, "aria-label": stream }));
  }
  const { attempts = [], effects = [], error } = details;
  if (error) out.push(el("p", { class: "note" }, `Logs and attempts: ${error}. `), copyButton(`vizier tail ${ref}`));
  if (attempts.length) out.push(el("h3", {}, "Attempts"), el("ul", {}, ...attempts.map((a) => el("li", {},
    `${a.attempt}: ${a.status}` + (a.exit_code !== null ? `, exit ${a.exit_code}` : "") + (a.seconds !== null ? `, ${brief(a.seconds)}` : "") + (a.host ? `, on ${a.host}` : ""), a.reason ? el("span", { class: "note" }, ` – ${a.reason}`) : ""))));
  if (effects.length) out.push(el("h3", {}, "Effects"), el("ul", {}, ...effects.map((e) => el("li", {}, `${e.state}: ${e.operation}${e.part ? ` (${e.part})` : ""}, attempt ${e.attempt}`))));
  return out;
}

const atEnd = (pre) => pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;

// fill brings a log on the page to what is known of it. Who reads its end goes on to, who has scrolled back stays there.
function fill(pre, log) {
  const had = pre.log;
  if (had === log) return;
  const end = !had || atEnd(pre);
  const text = pre.firstChild || pre.appendChild(document.createTextNode(""));
  if (had?.whole === log.whole) { // what somebody has selected stays selected
    text.deleteData(0, log.cut - had.cut);
    text.appendData(log.text.slice(text.length));
  } else {
    text.data = log.text;
  }
  if (end) pre.scrollTop = pre.scrollHeight;
  pre.log = log;
}

// more reads what was written to a log since, the end of it if that is much, or the log of a new attempt.
// Of a log that ends within a letter, the end comes once nothing writes to it any more.
async function more(job, stream, ended) {
  const have = logs[stream];
  const pre = document.querySelector(`#files pre[data-stream=${stream}]`);
  const back = pre && !atEnd(pre); // somebody reads further up: nothing is taken away there
  const stop = () => { if (!have.still) logs[stream] = { ...have, still: true }; };
  if (back && have.text.length >= kept) return stop();
  const piece = await get(`log/${job}/${stream}?` + (have ? `from=${have.next}&file=${have.file}` : "") + (ended ? "&ended" : ""), "json");
  if (job !== at.job) return;
  const same = have && piece.file === have.file;
  if (same && piece.from === have.next) {
    const all = have.text + piece.text;
    const cut = back ? 0 : Math.max(0, all.length - kept);
    if (piece.text || have.still) logs[stream] = { ...have, next: piece.next, text: all.slice(cut), cut: have.cut + cut, left: have.left + cut, still: false };
  } else if (same && back && piece.from > have.next) {
    stop();
  } else {
    logs[stream] = { whole: {}, file: piece.file, next: piece.next, text: piece.text, cut: 0, left: piece.from, still: false };
  }
}

let reading = false;

// readFiles goes on with the logs of a job that runs, and reads them and its details once its record has changed.
async function readFiles() {
  const job = at.job, all = unread;
  const running = () => stand?.jobs.find((j) => j.job === job)?.short === "running";
  if (reading || embedded || !job || !(all || !document.hidden && (running() || streams.some((s) => logs[s]?.still)))) return;
  const was = { ...logs };
  reading = true;
  unread = false;
  try {
    for (const stream of streams) await more(job, stream, !running());
    if (all) {
      const doc = await get(`job/${job}`, "json");
      if (job === at.job) details = doc;
    }
  } catch (e) { // of what goes on, the line above says that the connection is lost
    if (all && job === at.job) details = { ...details, error: e.message };
  }
  reading = false;
  if (all || streams.some((s) => logs[s] !== was[s])) drawJob();
}

// --- news -----------------------------------------------------------------

let busy = false, again = false;
let failed = false; // the state could not be read the last time

// refresh reads the state, once at a time and not more than once a second.
async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    take(await get("state?since=" + version()));
    unread ||= details.error !== undefined;
    drawNeeds(); draw(); drawJob($("job").hidden);
    say("live", false);
    failed = false;
  } catch (e) {
    failed = true;
    say(`Not up to date: ${e.message}`, true);
  }
  setTimeout(() => { busy = false; if (again) { again = false; refresh(); } }, 1000);
}

function say(text, lost) {
  $("link").textContent = text;
  $("link").classList.toggle("lost", lost);
}

let lost = false; // the stream of events

// heard takes word of the stream: there is news, or it is lost.
function heard(what) {
  lost = what === "lost";
  if (lost) say(`Connection lost: this is the state of ${new Date(fetched).toLocaleTimeString()}. Trying again; if vizier web has ended, start it again and open its new address.`, true);
  else refresh();
}

// listen hears what happens. One page of a browser holds the stream and tells the others, until it is closed and the
// next one does: browsers open few connections to a server, and a stream of each page would leave none for the rest.
function listen() {
  const name = "events of " + location.pathname;
  const pages = new BroadcastChannel(name);
  const tell = (what) => { heard(what); pages.postMessage(what); };
  const stream = () => {
    const events = new EventSource("events"); // tells the last number it saw when it connects again
    events.onopen = events.onmessage = () => tell("news");
    events.onerror = () => {
      tell("lost");
      if (events.readyState === EventSource.CLOSED) setTimeout(stream, 2000);
    };
  };
  pages.onmessage = (e) => heard(e.data);
  navigator.locks.request(name, () => new Promise(stream)); // for as long as the page is open
  refresh();
}

// --- keys -----------------------------------------------------------------

function move(by) {
  const rows = [...document.querySelectorAll("#rows a")];
  if (!rows.length) return;
  const i = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, i < 0 ? 0 : i + by))].focus();
}

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "Escape") {
    const job = at.job;
    if (document.activeElement === $("q")) $("q").blur();
    else if (job) { go({ job: "" }); document.querySelector(`#rows a[data-job="${CSS.escape(job)}"]`)?.focus(); }
    return;
  }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName)) return;
  const act = { "/": () => $("q").focus(), j: () => move(1), k: () => move(-1), l: () => go({ view: "list" }), g: () => go({ view: "graph" }), t: () => go({ view: "timeline" }) }[e.key];
  if (act) { e.preventDefault(); act(); }
});

$("q").addEventListener("input", () => { shown = most; go({ q: $("q").value }); });
$("status").addEventListener("change", () => { shown = most; go({ status: $("status").value }); });
$("run").addEventListener("change", () => { shown = most; go({ run: $("run").value }); });
$("filters").addEventListener("submit", (e) => { e.preventDefault(); move(0); });
for (const b of $("views").children) b.addEventListener("click", () => go({ view: b.dataset.view }));
addEventListener("hashchange", route);

try {
  const once = embedded ? undefined : new URLSearchParams(location.hash.slice(1)).get("key");
  const claimed = once && claim(once).catch((e) => e);
  read();
  const early = embedded ? undefined : get("state").catch(() => undefined); // while the kernel is read
  await start();
  if (embedded) {
    const given = JSON.parse(embedded.textContent);
    take(given.state);
    say(`the state of ${new Date(stand.now).toLocaleString()}`, false);
    if (given.job && !at.job) { history.replaceState(null, "", address({ job: given.job })); read(); }
    drawNeeds(); draw(); drawJob(true);
  } else {
    const state = await early;
    const refused = await claimed;
    if (state !== undefined) { take(state); drawNeeds(); draw(); drawJob(true); }
    if (refused) { drawJob(true); $("said").textContent = `This page only reads: ${refused.message}`; }
    listen();
    setInterval(() => { // what no event tells of: progress, and what changes without a scheduler
      const often = stand?.jobs.some((j) => j.short === "running" && j.what);
      if (!document.hidden && !lost && (often || failed || Date.now() - fetched >= 30000)) refresh();
    }, 5000);
    setInterval(readFiles, 1000);
  }
} catch (e) {
  say(`The page cannot start: ${e.message}`, true);
  throw e;
}
