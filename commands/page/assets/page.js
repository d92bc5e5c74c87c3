// The page fetches the document as JSON and builds its elements from it. Foreign text becomes
// text nodes alone, so it cannot become markup.
"use strict";
(() => {
const root = document.getElementById("page");
const said = document.getElementById("said");
const embedded = document.getElementById("document"); // in a file of `status --html`
const SVG = "http://www.w3.org/2000/svg";

// ui is everything that the page shows besides the document.
const ui = {
  doc: null,
  version: "", // of the listener that this script came from
  skew: 0, // the clock of the listener minus ours
  link: "connecting", // "live", "reconnecting", "login", "file"
  heard: 0, // when the last bytes came
  refused: "", // why the listener refuses the stream
  login: { pending: false, error: "" },
  open: new Map(), // the forms of acts, by their group
  results: new Map(), // the results and late errors of acts, by their section
  searches: new Map(), // by handle
};

// ---- Elements

// h describes an element. A child is a description, a text, or nothing.
const h = (tag, props, ...kids) => ({ tag, props: props || {}, kids: kids.flat(9).filter((k) => k || k === 0) });

// patch makes the children of an element match their descriptions. It changes only the differences,
// so that the focus, typed text, a selection and opened details survive.
function patch(parent, kids) {
  const keyed = new Map();
  const wanted = new Set(kids.map((k) => k.props && k.props.key));
  for (const n of [...parent.childNodes]) {
    if (n.$key === undefined) continue;
    if (wanted.has(n.$key)) keyed.set(n.$key, n);
    else n.remove();
  }
  let at = parent.firstChild;
  for (const k of kids) {
    let n = null;
    if (!k.props) {
      const text = String(k);
      if (at && at.nodeType === Node.TEXT_NODE) n = at;
      else parent.insertBefore((n = document.createTextNode(text)), at);
      if (n.data !== text) n.data = text;
    } else {
      const key = k.props.key;
      if (key !== undefined) {
        n = keyed.get(key);
        keyed.delete(key);
      } else if (at && at.$tag === k.tag && at.$key === undefined) n = at;
      if (!n) {
        n = k.tag === "svg" || parent.namespaceURI === SVG ? document.createElementNS(SVG, k.tag) : document.createElement(k.tag);
        n.$tag = k.tag;
        n.$key = key;
      }
      if (n !== at) parent.insertBefore(n, at);
      update(n, k);
    }
    at = n.nextSibling;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function update(n, k) {
  const old = n.$props || {};
  for (const name in old) if (!(name in k.props)) set(n, name, null);
  for (const name in k.props) if (k.props[name] !== old[name]) set(n, name, k.props[name], !n.$props);
  n.$props = k.props;
  patch(n, k.kids);
}

function set(n, name, value, first) {
  if (name === "key") return;
  if (name.startsWith("on")) n[name] = value;
  else if (name === "style") for (const p in value) n.style.setProperty(p, value[p]);
  else if (name === "value") first && (n.value = value); // later it is the user's
  else if (value === null || value === undefined || value === false) n.removeAttribute(name);
  else n.setAttribute(name, value === true ? "" : value);
}

// plain replaces characters that are invisible, reorder text or control a terminal, and truncates.
function plain(text, limit) {
  let s = String(text);
  if (s.length > limit) s = s.slice(0, limit).replace(/[\ud800-\udbff]$/, "") + "…";
  return s.replace(/\r\n?/g, "\n").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, "\ufffd");
}

// line and block show foreign text, isolated from the text around it.
const line = (text, limit = 300) => h("bdi", null, plain(text, limit).replace(/\s+/g, " "));
const block = (text, name = "quote", limit = 4000) => h("div", { class: name, dir: "auto" }, plain(text, limit));

// ---- Times

const now = () => (ui.link === "file" ? Date.parse(ui.doc.made) : Date.now() + ui.skew);

// east is the distance of the listener's clock from UTC at a moment, in minutes. A listener that does
// not send its zones has the zone of the browser.
const browserEast = (t) => -new Date(t).getTimezoneOffset();
function east(t) {
  const zones = ui.doc?.zones || [];
  if (!zones.length) return browserEast(t);
  return (zones.findLast((z) => Date.parse(z.from) <= t) || zones[0]).minutes;
}
const zone = (minutes) => "UTC" + (minutes ? (minutes < 0 ? "-" : "+") + Math.floor(Math.abs(minutes) / 60) + (minutes % 60 ? ":" + String(Math.abs(minutes) % 60).padStart(2, "0") : "") : "");

// wall moves a moment so that its fields in UTC are those of the listener's clock. moment is its inverse.
const MINUTE = 60e3, HOUR = 3600e3, DAY = 86400e3;
const wall = (at) => +new Date(at) + east(+new Date(at)) * MINUTE;
const moment = (w) => w - east(w - east(w) * MINUTE) * MINUTE;

function format(options) {
  const f = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...options });
  return (at) => f.format(wall(at));
}
const hm = format({ hour: "2-digit", minute: "2-digit" });
const hms = format({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const weekday = format({ weekday: "short" });
const date = format({ day: "numeric", month: "short" });
const dateOf = format({ weekday: "long", day: "numeric", month: "long" });
const whole = format({ weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });

// lasting shows words such as "thinking for 12s" with a duration that goes on.
const UNITS = { d: 86400, h: 3600, m: 60, s: 1 };
function lasting(text) {
  const found = ui.link !== "file" && /^(.*) for ((?:\d+[dhms])+)(.*)$/s.exec(text);
  if (!found) return line(text);
  let seconds = 0;
  for (const [, n, unit] of found[2].matchAll(/(\d+)([dhms])/g)) seconds += n * UNITS[unit];
  return [line(found[1]), " for ", since(new Date(Date.parse(ui.doc.made) - seconds * 1000).toISOString()), line(found[3])];
}

const dayOf = (at) => Math.floor(wall(at) / DAY);

function clock(at) {
  if (dayOf(at) === dayOf(now())) return hm(at);
  return (Math.abs(Date.parse(at) - now()) < 6 * DAY ? weekday(at) + " " : date(at) + ", ") + hm(at);
}

// long formats a duration with its two largest units.
function long(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return s + " s";
  const m = Math.floor(s / 60);
  if (m < 60) return m + " min" + (m < 10 && s % 60 ? " " + (s % 60) + " s" : "");
  if (m < 1440) return Math.floor(m / 60) + " h" + (m % 60 ? " " + (m % 60) + " min" : "");
  return Math.floor(m / 1440) + " d" + (Math.floor(m / 60) % 24 ? " " + (Math.floor(m / 60) % 24) + " h" : "");
}

// count formats the time until a moment as digits, or "now".
function count(at) {
  const s = Math.ceil((Date.parse(at) - now()) / 1000);
  if (s <= 0) return "now";
  if (s >= 86400) return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
  const two = (n) => String(n).padStart(2, "0");
  return s >= 3600 ? Math.floor(s / 3600) + ":" + two(Math.floor((s % 3600) / 60)) + " h" : Math.floor(s / 60) + ":" + two(s % 60);
}

const title = (at) => whole(at) + " " + zone(east(Date.parse(at)));
const known = (at) => at && !at.startsWith("0001"); // the zero time of Go
const time = (at) => known(at) ? h("time", { datetime: at, title: title(at) }, clock(at)) : "unknown";

// until and since show a distance that tick keeps current. In a file, where time stands still, until
// shows the moment itself.
function until(at) {
  if (ui.link === "file") return h("time", { datetime: at, title: title(at) }, clock(at));
  return h("time", { datetime: at, title: title(at), "data-until": at }, count(at));
}
const since = (at) => h("time", { datetime: at, title: title(at), "data-since": at }, long(now() - Date.parse(at)));

function tick() {
  if (document.hidden || !ui.doc || ui.link === "file") return;
  for (const n of root.querySelectorAll("[data-until]")) write(n, count(n.dataset.until));
  for (const n of root.querySelectorAll("[data-since]")) write(n, long(now() - Date.parse(n.dataset.since)));
}
function write(n, text) {
  if (n.firstChild && n.firstChild.data !== text) n.firstChild.data = text;
}

// ---- Acts

const mayAct = (a) => a.may_act && !a.error && ui.doc.act_token !== null;
const groupOf = (id) => [...root.querySelectorAll("[data-group]")].find((n) => n.dataset.group === id);
const sectionOf = (a, section) => a.handle + "\n" + section;

// acts shows the buttons of a group. A button opens a form in their place, which asks for a
// confirmation, and for a text if the act has a field. offered are the open forms of the last render.
const offered = new Set();
function acts(a, section, group, list) {
  list = list.filter(Boolean);
  if (!mayAct(a) || !list.length) return null;
  const id = a.handle + "\n" + section + "\n" + group;
  const open = ui.open.get(id);
  const o = open && list.find((o) => o.name === open.name && o.what === open.what);
  if (!o) {
    return h("div", { class: "acts", key: "acts", "data-group": id, role: "group", "aria-label": plain(list[0].about, 120) },
      list.map((o) => h("button", { type: "button", key: o.name, class: o.tone || "", "data-name": o.name, "data-act": o.act, onclick: () => begin(id, o) }, o.label)));
  }
  offered.add(id);
  const field = "f" + hash(id);
  return h("form", {
    class: "confirm " + (o.tone || ""), key: "confirm " + o.name, "data-group": id, "aria-label": plain(o.about, 120), novalidate: true,
    onsubmit: (e) => { e.preventDefault(); send(a, section, id, o); },
    onkeydown: (e) => {
      if (e.key === "Escape") { e.preventDefault(); cancel(id, o); }
      else if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); send(a, section, id, o); }
    },
  },
  h("p", { class: "ask", id: field + "q" }, o.ask),
  o.field && [
    h("label", { for: field }, o.field, !o.required && h("span", { class: "dim" }, " (optional)")),
    h("textarea", {
      key: "text", id: field, dir: "auto", rows: o.required ? 4 : 2, value: open.text, disabled: open.pending, "aria-describedby": field + "q" + (open.error ? " " + field + "e" : ""),
      "aria-invalid": open.error ? "true" : null, oninput: (e) => { open.text = e.target.value; },
    }),
  ],
  open.error && h("p", { class: "error", key: "error", id: field + "e" }, plain(open.error, 2000)),
  h("div", { class: "acts" },
    h("button", { type: "submit", class: "go " + (o.tone || ""), disabled: open.pending, "aria-describedby": field + "q" }, open.pending ? "Sending…" : o.confirm),
    h("button", { type: "button", disabled: open.pending, onclick: () => cancel(id, o) }, "Cancel")));
}

function hash(text) {
  let n = 5381;
  for (let i = 0; i < text.length; i++) n = (n * 33 + text.charCodeAt(i)) >>> 0;
  return n.toString(36);
}

function begin(id, o) {
  ui.open.set(id, { name: o.name, what: o.what, text: "", error: "", pending: false, at: performance.now() });
  render();
  focusIn(id, "textarea, [type=submit]");
}

function cancel(id, o) {
  if (ui.open.get(id)?.pending) return;
  ui.open.delete(id);
  render();
  focusIn(id, `[data-name="${CSS.escape(o.name)}"]`);
}

// forget closes the forms whose act the page no longer offers, so that they do not open again for
// another turn. A form of an agent that cannot be read now, or that another page shows, stays.
function forget(agent) {
  for (const [id, open] of ui.open) {
    const a = ui.doc.agents.find((a) => id.startsWith(a.handle + "\n"));
    if (!open.pending && !offered.has(id) && (!a || (a === agent && !a.error))) ui.open.delete(id);
  }
}

function focusIn(id, selector) {
  const n = groupOf(id)?.querySelector(selector);
  if (n) n.focus();
}

async function send(a, section, id, o) {
  const open = ui.open.get(id);
  // The second click of a double click is not a confirmation.
  if (!open || open.pending || performance.now() - open.at < 300) return;
  const text = open.text.trim();
  if (o.required && !text) {
    open.error = "Type a text first.";
    render();
    focusIn(id, "textarea");
    return;
  }
  Object.assign(open, { pending: true, error: "" });
  render();
  const body = { agent: a.handle, act: o.act, what: o.what || "", text: o.text ?? text };
  const got = await post("page/act", body, { "X-Page-Token": ui.doc.act_token });
  open.pending = false;
  if (got.status === 401) {
    open.error = "Your session has ended. Log in and try again.";
    needLogin();
    return;
  }
  const ours = document.activeElement === document.body || groupOf(id)?.contains(document.activeElement);
  say(got.words);
  if (!got.ok) {
    open.error = got.words;
    render();
    if (ui.open.get(id) === open) {
      if (ours) focusIn(id, "textarea, [type=submit]");
      return;
    }
  } else if (ui.open.get(id) === open) ui.open.delete(id);
  const key = sectionOf(a, section);
  ui.results.set(key, got);
  render();
  if (ours) [...root.querySelectorAll("[data-result]")].find((n) => n.dataset.result === key)?.focus();
}

// post sends JSON and returns the words of the answer.
async function post(path, body, headers) {
  try {
    const response = await fetch(path, { method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body), signal: AbortSignal.timeout(70e3) });
    let answer = {};
    try { answer = await response.json(); } catch { /* the status says enough */ }
    return { ok: response.ok, status: response.status, words: wordsOf(answer, response) };
  } catch {
    return { ok: false, status: 0, words: "The listener did not answer. Before you try again, see in the history whether it was done." };
  }
}

function wordsOf(answer, response) {
  if (response.ok) return answer.text ? sentence(answer.text) : "Done.";
  if (!answer.error) return "The listener answered " + response.status + ".";
  return sentence(answer.error) + (answer.hint ? " " + sentence(answer.hint) : "");
}

const sentence = (s) => s.charAt(0).toUpperCase() + s.slice(1) + (/[.!?]$/.test(s) ? "" : ".");

function result(a, section) {
  const key = sectionOf(a, section), got = ui.results.get(key);
  return got && h("p", { class: "result" + (got.ok ? "" : " failed"), key: "result", tabindex: -1, "data-result": key }, h("span", { dir: "auto" }, plain(got.words, 2000)),
    h("button", { type: "button", class: "quiet", "aria-label": "Hide this result", onclick: () => { ui.results.delete(key); render(); document.getElementById(section)?.focus(); } }, "×"));
}

// ---- Words

const called = (a) => line("@" + a.handle, 80);

const PHASES = { IDLE: "idle", PREP: "prep", ACTIVE: "active" };
const phaseClass = (p) => PHASES[p] || "unknown";
const phase = (p) => h("span", { class: "phase " + phaseClass(p) }, plain(p || "UNKNOWN", 20));
const many = (n, word) => n + " " + word + (n === 1 ? "" : "s");
const money = (usd) => (usd < 0 ? "-" : "") + "$" + Math.abs(usd).toFixed(Math.abs(usd) >= 1000 ? 0 : 2);
const spaced = (word) => plain(word, 40).replace(/_/g, " ");

function doing(a) {
  const s = a.status;
  if (a.error) return "its state cannot be read";
  if (s?.moved) return "moved away";
  if (a.turn) return a.turn.words;
  if (s?.halted) return "halted";
  if (s && s.inbox.waiting) return many(s.inbox.waiting, "message") + " waiting";
  if (s?.sleep_until) return "asleep until " + clock(s.sleep_until);
  return "nothing to do";
}

// needs lists why a person should look at an agent.
function needs(a) {
  const list = [];
  if (a.error) list.push("unreadable");
  if (a.trouble.length) list.push(many(a.trouble.length, "problem"));
  if (a.questions.length) list.push(many(a.questions.length, "open question"));
  return list;
}

// ---- The page

function section(a, id, name, aside, ...kids) {
  kids = kids.flat(9).filter(Boolean);
  const text = result(a, id);
  if (!kids.length && !text) return null;
  return h("section", { key: id, class: "part part-" + id, "aria-labelledby": id },
    h("div", { class: "head" }, h("h2", { id, tabindex: -1 }, name), aside && h("span", { class: "aside" }, aside)), text, kids);
}

function hero(a) {
  const s = a.status, t = a.turn;
  const counts = [];
  const add = (label, at, tone) => at && counts.push(h("div", { key: label, class: "count " + (tone || "") }, h("dt", null, label), h("dd", null, until(at))));
  const live = ui.link !== "file";
  if (s && !s.moved) {
    if (s.cooldown_until) add(live ? "Turns again in" : "Turns again", s.cooldown_until, "warn");
    add(live ? "Next poll in" : "Next poll", s.schedule.alarm && Date.parse(s.schedule.alarm) < Date.parse(s.next_due) ? s.schedule.alarm : s.next_due);
    if (s.phase !== "IDLE" && Date.parse(s.deadline) > now()) add(live ? "IDLE in" : "IDLE at", s.deadline); // a past one waits for the turn
    add(live ? "Ack in" : "Ack", s.ack_due);
    if (t) add((t.kill_for?.startsWith("printed") ? "Idle kill" : "Time limit") + (live ? " in" : ""), t.kill_at, live && Date.parse(t.kill_at) - now() < MINUTE ? "warn" : "");
    if (s.sleep_until) add(live ? "Wakes in" : "Wakes", s.sleep_until);
  }
  const badges = [s && phase(s.phase), s?.halted && h("span", { class: "badge bad" }, "HALTED"), s?.moved && h("span", { class: "badge bad" }, "MOVED"),
    t?.lifecycle && h("span", { class: "badge" }, spaced(t.lifecycle)), t?.state && t.state !== "idle" && h("span", { class: "badge" }, spaced(t.state)),
    !t && s?.asleep && h("span", { class: "badge" }, "asleep"), s && s.tier && s.tier !== "normal" && h("span", { class: "badge bad" }, "budget: " + spaced(s.tier))];
  return h("header", { key: "hero", class: "hero " + phaseClass(s?.phase) },
    h("div", { class: "who" },
      h("h1", { id: "agent", tabindex: -1 }, h("bdi", null, "@" + plain(a.handle, 80))),
      h("p", { class: "badges" }, badges),
      h("p", { class: "doing" }, a.turn && !a.error ? lasting(a.turn.words) : line(doing(a))),
      h("p", { class: "meta" }, s?.phase_since && [s.phase, " since ", time(s.phase_since), ", "], "on ", line(ui.doc.host, 80))),
    h("div", { class: "now" },
      counts.length > 0 && h("dl", { class: "counts" }, counts),
      result(a, "agent"),
      acts(a, "agent", "agent", [
        { act: "tell", name: "tell", tone: "main", label: "Tell…", about: "Acts on @" + a.handle, ask: ["Tell ", called(a), " something. It counts as a message from you."], field: "Message", required: true, confirm: "Send" },
        t && { act: "stop", what: s?.turn.id, name: "stop", label: "Stop turn…", about: "Stop the turn", ask: ["Stop the running turn of ", called(a), "? Its output so far is delivered. The next message then gets its turn."], field: "Reason", confirm: "Stop the turn", tone: "danger" },
        s && !s.halted && { act: "halt", name: "halt", label: "Halt…", about: "Halt", ask: ["Halt ", called(a), "? The running turn ends, mail is held back, and messages are only collected until you resume."], field: "Reason", confirm: "Halt", tone: "danger" },
        s?.halted && { act: "resume", name: "resume", label: "Resume…", about: "Resume", ask: ["Resume ", called(a), "? The agent works again, and the held mail is sent."], confirm: "Resume", tone: "main" },
      ])));
}

function troubleOf(a) {
  return a.trouble.length > 0 && h("section", { key: "trouble", class: "part trouble", "aria-labelledby": "trouble" },
    h("h2", { id: "trouble", class: "unseen" }, "Problems"),
    h("dl", { class: "troubles" }, a.trouble.map((r) => h("div", null, h("dt", null, plain(r.label, 80)), h("dd", { dir: "auto" }, plain(r.text, 1000))))));
}

function questionsOf(a) {
  const list = a.questions.map((q) => {
    const ask = (text) => ["Answer ", called(a), " ", h("q", null, line(text)), "?"];
    const options = q.options.map((text, n) => ({
      act: "answer", what: q.id, text, name: "option " + n, label: line(text, 120), about: "Answers to " + q.number, confirm: q.permission ? "Yes, " + plain(text, 40) : "Send this answer",
      ask: ask(text), tone: n === 0 && !q.permission ? "main" : "",
    }));
    const own = !q.permission && { act: "answer", what: q.id, name: "own", label: options.length ? "Other answer…" : "Answer…", about: "Answers to " + q.number, ask: ["Your answer goes to ", called(a), "."], field: "Answer", required: true, confirm: "Send the answer", tone: options.length ? "" : "main" };
    return h("li", { key: q.id, class: "item question" },
      block(q.text, "said", 4096), // the limit of a question
      h("p", { class: "meta" }, q.permission ? "asks for permission " : "asked ", time(q.asked), q.deadline && [", waits until ", time(q.deadline)]),
      mayAct(a) ? acts(a, "questions", q.id, [...options, own]) : q.options.length > 0 && h("ul", { class: "options" }, q.options.map((o) => h("li", null, line(o, 120)))));
  });
  return section(a, "questions", "Questions for you", list.length > 1 && list.length, list.length > 0 && h("ul", { class: "items" }, list));
}

function turnOf(a) {
  const t = a.turn;
  if (!t) return section(a, "turn", "Turn", null, h("p", { class: "empty" }, "No turn runs."));
  const seen = new Map();
  const steps = [...t.steps].map((s) => {
    const id = s.at + s.kind, n = seen.get(id) || 0;
    seen.set(id, n + 1);
    return h("li", { key: id + n, class: "step is-" + spaced(plain(s.kind, 20)) }, block(s.text, "text", 2000), h("time", { datetime: s.at, title: title(s.at) }, hms(s.at)));
  }).reverse();
  return section(a, "turn", "Turn", t.since && since(t.since),
    h("p", { key: "words", class: "words" }, h("span", { class: "pulse", "aria-hidden": "true" }), h("span", null, lasting(t.words)), t.tool && !t.words.includes(t.tool) && [" · ", h("code", null, line(t.tool, 80))]),
    t.message && h("p", { key: "message", class: "meta" }, "for ", h("span", { class: "number" }, plain(t.message.number, 20)), " ", h("strong", null, line(t.message.subject || "(no subject)")), " from ", line(t.message.from, 120)),
    t.kill_at && h("p", { key: "kill", class: "meta" }, "killed ", ui.link === "file" ? "at " : "in ", until(t.kill_at), " if nothing changes", t.kill_for && [": ", line(t.kill_for, 120)]),
    steps.length > 0 && h("ol", { key: "steps", class: "steps", reversed: true }, steps.slice(0, 6)),
    steps.length > 6 && h("details", { key: "earlier" }, h("summary", null, "Earlier: " + many(steps.length - 6, "step")), h("ol", { class: "steps", reversed: true }, steps.slice(6))));
}

const STATES = { held: "bad", failing: "bad", deferred: "warn", working: "good" };

function messagesOf(a) {
  const list = a.messages.map((m) => h("li", { key: m.key, class: "item" },
    h("p", { class: "subject" }, h("span", { class: "number" }, plain(m.number, 20)), " ", line(m.subject || "(no subject)"), " ", h("span", { class: "badge " + (STATES[m.state] || "") }, spaced(m.state))),
    h("p", { class: "meta" }, line(m.from, 120), ", ", time(m.at)),
    m.why && h("p", { class: "why", dir: "auto" }, plain(m.why, 600)),
    acts(a, "messages", m.key, [
      m.may_retry && { act: "retry", what: m.number || m.key, name: "retry", label: "Retry…", about: "Acts on " + m.number, ask: ["Queue this message of ", called(a), " again? It gets a turn as soon as possible."], confirm: "Retry" },
      m.may_drop && { act: "drop", what: m.number || m.key, name: "drop", label: "Drop…", about: "Drop " + m.number, ask: ["Drop this message of ", called(a), "? It gets no turn."], field: "Reason", confirm: "Drop", tone: "danger" },
    ])));
  return section(a, "messages", "Messages", list.length > 1 && list.length, list.length ? h("ul", { key: "list", class: "items" }, list) : h("p", { key: "none", class: "empty" }, "No message waits."), rest(a.more.messages, "inbox list"));
}

function quarantineOf(a) {
  const list = a.quarantine.map((m) => h("li", { key: m.key, class: "item" },
    h("p", { class: "subject" }, h("span", { class: "number" }, plain(m.number, 20)), " ", line(m.subject || "(no subject)")),
    h("p", { class: "meta" }, line(m.from, 120), ", ", time(m.at)),
    h("p", { class: "why", dir: "auto" }, plain(m.why || m.reason, 1000)),
    h("details", { key: "more" }, h("summary", null, "Evidence and text"),
      h("dl", { class: "facts" }, fact("Gate", m.gate), fact("Reason", m.reason), fact("Field", m.field), fact("Evidence", m.evidence)),
      m.text && block(m.text, "quote", 2000)),
    acts(a, "quarantine", m.key, [
      { act: "release", what: m.number || m.key, name: "release", label: "Release…", about: "Acts on " + m.number, ask: ["Release this message to ", called(a), "? It counts as a message, and the agent reads it."], confirm: "Release" },
      { act: "drop", what: m.number || m.key, name: "drop", label: "Drop…", about: "Drop " + m.number, ask: ["Delete this message from the quarantine of ", called(a), " for good?"], confirm: "Drop", tone: "danger" },
    ])));
  return section(a, "quarantine", "Quarantine", list.length > 1 && list.length, list.length > 0 && h("ul", { key: "list", class: "items" }, list), rest(a.more.quarantine, "inbox list --quarantined"));
}

// rest names the rows that a document leaves out.
const rest = (n, command) => n > 0 && h("p", { key: "rest", class: "meta" }, n + " more: ", h("code", null, "agentstateloop " + command));

const fact = (label, text) => text && h("div", null, h("dt", null, plain(label, 80)), h("dd", { dir: "auto" }, plain(text, 2000)));

function incidentsOf(a) {
  const s = a.status, list = [];
  if (!s) return null;
  const add = (name, text, at) => list.push(h("li", { class: "item" }, h("p", { class: "subject" }, line(name, 120)), h("p", { class: "meta" }, line(text, 600), at)));
  for (const o of s.outages || []) add(o.name, spaced(o.kind) + ": " + o.reason, [", until ", time(o.until)]);
  for (const [name, c] of Object.entries(s.credentials || {})) add(name, many(c.failures, "failure") + " in a row: " + c.reason, [", since ", time(c.since)]);
  if (s.sending) add("Sending mail", s.sending.reason, [", since ", time(s.sending.since)]);
  for (const [name, k] of Object.entries(s.hooks || {})) if (k.since) add("Hook " + name, k.reason || "fails", [", since ", time(k.since)]);
  for (const text of s.obstacles || []) add("File", text);
  const limits = [];
  if (s.spend?.limit) limits.push(fact("Budget", (s.spend.left_usd !== null ? money(s.spend.left_usd) + " left: " : "") + s.spend.limit));
  for (const text of s.spend?.savings || []) limits.push(fact("Saving", text));
  if (s.spend?.remedy) limits.push(fact("Remedy", s.spend.remedy));
  if (s.self?.limit) limits.push(fact("Turns planned by the agent", s.self.turns + " of " + s.self.limit + " since your last message"));
  return section(a, "incidents", "Incidents and limits", null, list.length ? h("ul", { class: "items" }, list) : h("p", { class: "empty" }, "No incident."), limits.length > 0 && h("dl", { class: "facts" }, limits));
}

const PLANS = { poll: "Poll", phase: "Phase", ack: "Ack", wakeup: "Wakeup", prompt: "Prompt", alarm: "Alarm", retry: "Retry", kill: "Kill", resume: "Resume" };

function scheduleOf(a) {
  const rows = a.schedule.map((p, n) => h("li", { key: p.what + p.at + n }, h("span", { class: "at" }, time(p.at), ui.link !== "file" && h("span", { class: "dim" }, until(p.at))),
    h("span", { class: "plan" }, h("span", { class: "kind" }, PLANS[p.what] || spaced(p.what)), " ", line(p.text))));
  return section(a, "schedule", "Schedule", null, rows.length ? h("ol", { key: "list", class: "schedule" }, rows) : h("p", { key: "none", class: "empty" }, "Nothing is planned."), rest(a.more.schedule, "status"));
}

// ---- The band

const MARKS = { mail: "mail", nudge: "nudge", answer: "answer", turn: "turn", halt: "halt" };

function band(a, id, name, b) {
  const from = Date.parse(b.from), to = Date.parse(b.to), all = Math.max(1, to - from);
  const x = (at) => Math.min(100, Math.max(0, ((Date.parse(at) - from) / all) * 100)).toFixed(3) + "%";
  const width = (f, t) => Math.max(0, ((Math.min(to, Date.parse(t)) - Math.max(from, Date.parse(f))) / all) * 100).toFixed(3) + "%";
  const spans = [], turns = [], dots = [], axis = [];
  const total = {}, marks = {};
  for (const p of b.phases) {
    total[p.phase] = (total[p.phase] || 0) + Date.parse(p.to) - Date.parse(p.from);
    spans.push(h("rect", { class: "span " + phaseClass(p.phase), x: x(p.from), y: 0, width: width(p.from, p.to), height: 20 }));
  }
  for (const m of b.marks) {
    marks[m.kind] = (marks[m.kind] || 0) + 1;
    if (m.to) turns.push(h("rect", { class: "mark " + m.kind, x: x(m.at), y: m.kind === "halt" ? 0 : 24, width: width(m.at, m.to), height: m.kind === "halt" ? 20 : 7, rx: 2, style: { width: `max(3px, ${width(m.at, m.to)})` } }));
    else if (m.kind === "mail") dots.push(h("circle", { class: "mark mail", cx: x(m.at), cy: 40, r: 3.5 }));
    else if (m.kind === "answer") dots.push(h("circle", { class: "mark answer", cx: x(m.at), cy: 51, r: 3 }));
    else dots.push(h("rect", { class: "mark " + m.kind, x: x(m.at), y: 47, width: 3, height: 8 }));
  }
  const step = all > 2 * DAY ? DAY : 6 * HOUR;
  for (let w = dayOf(from) * DAY; moment(w) < to; w += step) {
    const t = moment(w);
    if (t <= from) continue;
    const at = ((t - from) / all) * 100;
    axis.push(h("line", { class: "tick", x1: at + "%", x2: at + "%", y1: 0, y2: 58 }));
    const name = step === DAY ? at + (DAY / 2 / all) * 100 : at; // the name of a day is below its middle
    if (name > 3 && name < 97) axis.push(h("text", { class: "label", x: name + "%", y: 71, "text-anchor": "middle" }, step === DAY ? weekday(t) : hm(t)));
  }
  const words = [...Object.entries(total).map(([p, ms]) => p + " " + long(ms)), ...Object.entries(marks).map(([k, n]) => many(n, MARKS[k] || plain(k, 20)))].map((w) => plain(w, 60)).join(", ");
  const rows = [...b.phases.map((p) => ({ at: p.from, to: p.to, text: p.phase })), ...b.marks.map((m) => ({ at: m.at, to: m.to, text: m.text || MARKS[m.kind] || m.kind }))].sort((p, q) => Date.parse(q.at) - Date.parse(p.at));
  return h("figure", { key: id, class: "band" },
    h("figcaption", null, h("strong", null, name), h("span", { class: "dim" }, words || "nothing happened")),
    h("svg", { role: "img", "aria-label": name + ": " + (words || "nothing happened"), width: "100%", height: 76, class: "plot" }, axis.filter((n) => n.tag === "line"), spans, turns, dots, axis.filter((n) => n.tag === "text")),
    lazyDetails("table " + id, a, name + " as a table", () => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name + " as a table" }, h("table", null,
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "From"), h("th", { scope: "col" }, "For"), h("th", { scope: "col" }, "What"))),
      h("tbody", null, rows.map((r) => h("tr", null, h("td", null, time(r.at)), h("td", null, r.to ? long(Date.parse(r.to) - Date.parse(r.at)) : "–"), h("td", null, line(r.text)))))))));
}

// lazyDetails builds what it hides only while it is open.
const opened = new Set();
function lazyDetails(id, a, name, build) {
  const key = a.handle + "\n" + id;
  return h("details", { key: id, ontoggle: (e) => { if (e.target.open !== opened.has(key)) { if (e.target.open) opened.add(key); else opened.delete(key); render(); } } },
    h("summary", null, name), opened.has(key) && build());
}

function bandsOf(a) {
  return section(a, "past", "Day and week", null, band(a, "day", "Last 24 hours", a.bands.day), band(a, "week", "Last 7 days", a.bands.week),
    h("ul", { key: "legend", class: "legend", "aria-hidden": "true" }, ["IDLE", "PREP", "ACTIVE"].map((p) => h("li", null, h("i", { class: "swatch " + phaseClass(p) }), p)),
      [["turn", "turn"], ["mail", "mail"], ["answer", "answer"], ["nudge", "nudge"], ["halt", "halt"]].map(([c, w]) => h("li", null, h("i", { class: "swatch mark-" + c }), w))));
}

// ---- Cost

function costsOf(a) {
  const c = a.costs;
  if (!c.days.length) return null;
  const today = c.days[c.days.length - 1];
  const most = Math.max(...c.days.map((d) => d.usd), c.budget_day_usd || 0, 0.01) * 1.08;
  const H = 96, y = (usd) => H - (usd / most) * H;
  const n = c.days.length, slot = 100 / n;
  const bars = c.days.map((d, i) => h("rect", { class: "bar" + (c.budget_day_usd !== null && d.usd > c.budget_day_usd ? " over" : "") + (i === n - 1 ? " today" : ""), x: (i * slot + slot * 0.18).toFixed(3) + "%", width: (slot * 0.64).toFixed(3) + "%", y: d.usd > 0 ? Math.min(y(d.usd), H - 2) : H - 1, height: d.usd > 0 ? Math.max(2, H - y(d.usd)) : 1, rx: 2 }));
  const labels = c.days.map((d, i) => (n - 1 - i) % 3 === 0 && h("text", { class: "label", x: (i * slot + slot / 2).toFixed(3) + "%", y: H + 16, "text-anchor": "middle" }, String(Number(d.day.slice(8)))));
  const facts = [money(today.usd) + " today" + (c.budget_day_usd !== null ? " of " + money(c.budget_day_usd) : ""), money(c.month_usd) + " this month"];
  if (c.credit_usd !== null) facts.push(money(c.credit_usd) + " of credit left");
  return section(a, "costs", "Cost", null,
    h("p", { key: "now", class: "cost" }, h("span", { class: "big" }, money(today.usd)), h("span", { class: "dim" }, " today", c.budget_day_usd !== null && " of " + money(c.budget_day_usd))),
    h("p", { key: "more", class: "meta" }, facts.slice(1).join(" · ")),
    c.days.some((d) => d.usd > 0) && h("svg", { key: "plot", role: "img", "aria-label": "Cost of the last " + many(n, "day") + ": " + facts.join(", "), width: "100%", height: H + 20, class: "plot" },
      h("line", { class: "tick", x1: "0%", x2: "100%", y1: H, y2: H }), bars,
      c.budget_day_usd !== null && [h("line", { class: "budget", x1: "0%", x2: "100%", y1: y(c.budget_day_usd), y2: y(c.budget_day_usd) })], labels),
    lazyDetails("table costs", a, "Cost as a table", () => h("table", null, h("thead", null, h("tr", null, h("th", { scope: "col" }, "Day"), h("th", { scope: "col", class: "num" }, "Cost"), h("th", { scope: "col", class: "num" }, "Turns"))),
      h("tbody", null, [...c.days].reverse().map((d) => h("tr", null, h("td", null, d.day), h("td", { class: "num" }, money(d.usd)), h("td", { class: "num" }, d.turns)))))));
}

// ---- The history

const RECENT = 50; // a document has fewer entries only if the history has no more
const KINDS = [["", "All"], ["message", "Messages"], ["answer", "Answers"], ["phase", "Phases"], ["trouble", "Problems"], ["order", "Orders"], ["other", "Other"]];

function searchOf(a) {
  // older are the entries below those of the document, or null before the reader asks for them.
  if (!ui.searches.has(a.handle)) ui.searches.set(a.handle, { q: "", kind: "", found: null, older: null, newest: "", before: null, busy: false, error: "", run: 0, window: a.history });
  return ui.searches.get(a.handle);
}

const filtered = (s) => s.q.trim() !== "" || s.kind !== "";

function matches(s, e) {
  const text = (e.text + " " + (e.quote || "")).toLowerCase();
  return (!s.kind || e.kind === s.kind) && s.q.toLowerCase().split(/\s+/).every((w) => text.includes(w));
}

// newer reports whether an entry came after the one with this id. Their clock may have been wrong.
function newer(e, id) {
  const [serial, n] = e.id.split("."), [serial2, n2] = id.split(".");
  return (serial - serial2 || n - n2) > 0;
}

// slide keeps the shown entries that the newest document no longer has. If it lacks entries between
// the last document and itself, the list begins again.
function slide(a) {
  const s = ui.searches.get(a.handle);
  if (!s || a.error) return;
  const have = new Set(a.history.map((e) => e.id)), left = s.window.filter((e) => !have.has(e.id));
  const joined = !s.window.length || left.length < s.window.length;
  s.window = a.history;
  if (joined) {
    s.older?.unshift(...left);
    const found = new Set(s.found?.map((e) => e.id));
    s.found?.unshift(...left.filter((e) => !found.has(e.id) && newer(e, s.newest) && matches(s, e)));
    return;
  }
  Object.assign(s, { older: null, found: null, newest: "", before: null, end: false });
  search(a, false);
}

// entries returns the shown entries, the newest first.
function entries(a, s) {
  if (ui.link === "file") return a.history.filter((e) => matches(s, e));
  if (!filtered(s)) {
    const have = new Set(a.history.map((e) => e.id));
    return [...a.history, ...(s.older || []).filter((e) => !have.has(e.id))];
  }
  // New entries of the document come before those that the search found.
  const have = new Set((s.found || []).map((e) => e.id));
  return [...a.history.filter((e) => !have.has(e.id) && (!s.newest || newer(e, s.newest)) && matches(s, e)), ...(s.found || [])];
}

async function search(a, older) {
  const s = searchOf(a), run = ++s.run;
  if (ui.link === "file" || (!older && !filtered(s))) {
    s.busy = false;
    render();
    return;
  }
  const shown = entries(a, s);
  const before = older ? s.before || shown[shown.length - 1]?.id || "" : "";
  if (older && !filtered(s)) s.older ||= []; // from now on no entry may be lost
  s.busy = true;
  s.error = "";
  render();
  let found = null, error = "The listener did not answer the search. Try again.";
  try {
    const response = await fetch("page/history?" + new URLSearchParams({ agent: a.handle, before, q: s.q.trim(), kind: s.kind }), { credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(30e3) });
    if (response.status === 401) needLogin();
    if (response.ok) found = await response.json();
    else error = wordsOf(await response.json().catch(() => ({})), response);
  } catch { /* shown below */ }
  if (run !== s.run) return;
  s.busy = false;
  if (!found) s.error = error;
  else if (older) {
    (filtered(s) ? (s.found ||= []) : s.older).push(...found.entries);
    s.before = found.before;
    s.end = found.before === null;
  } else {
    s.found = found.entries;
    s.before = found.before;
    s.end = found.before === null;
    const first = found.entries[0], last = a.history[0];
    s.newest = (first && (!last || newer(first, last.id)) ? first : last)?.id || "";
    say(found.entries.length ? many(found.entries.length, "entry").replace("entrys", "entries") + " found" : "No entry found");
  }
  render();
}

let typing = 0;
function changed(a, s) {
  Object.assign(s, { found: null, newest: "", before: null, end: false });
  clearTimeout(typing);
  typing = setTimeout(() => search(a, false), 250);
  render();
}

function historyOf(a) {
  const s = searchOf(a), list = entries(a, s), live = ui.link !== "file";
  const days = [], times = {};
  for (const e of list) {
    const day = dayOf(e.at);
    if (days.at(-1)?.day !== day) {
      times[day] = (times[day] || 0) + 1; // a clock that was wrong made the same day twice
      days.push({ day, key: "day " + day + " " + times[day], at: e.at, entries: [] });
    }
    days.at(-1).entries.push(e);
  }
  const today = dayOf(now());
  const dayName = (d) => (d.day === today ? "Today" : d.day === today - 1 ? "Yesterday" : dateOf(d.at));
  const wait = s.busy || (live && filtered(s) && !s.found);
  return section(a, "history", "History", null,
    h("form", { key: "filter", class: "filter", role: "search", "aria-label": "History", onsubmit: (e) => { e.preventDefault(); clearTimeout(typing); search(a, false); } },
      h("label", { for: "q", class: "unseen" }, "Search in the history"),
      h("input", { id: "q", key: "q " + a.handle, type: "search", dir: "auto", placeholder: "Search", autocomplete: "off", spellcheck: "false", value: s.q, oninput: (e) => { s.q = e.target.value; changed(a, s); } }),
      h("fieldset", { class: "kinds" }, h("legend", { class: "unseen" }, "Kind of entry"), KINDS.map(([kind, word]) => h("label", { key: a.handle + kind, class: "chip" + (s.kind === kind ? " on" : "") },
        h("input", { type: "radio", name: "kind", value: kind, class: "unseen", checked: s.kind === kind, onchange: () => { s.kind = kind; changed(a, s); } }), h("span", null, word))))),
    s.error && h("p", { key: "error", class: "error" }, s.error),
    list.length ? days.map((d) => h("div", { key: d.key, class: "day" }, h("h3", null, dayName(d)), h("ol", { class: "entries" }, d.entries.map((e) => h("li", { key: e.id, class: "entry is-" + spaced(plain(e.kind, 20)) },
      h("time", { datetime: e.at, title: title(e.at) }, hm(e.at)), h("div", { class: "what" }, h("p", { dir: "auto" }, plain(e.text, 1000)), e.quote && block(e.quote, "quote", 1500)))))))
      : h("p", { key: "none", class: "empty" }, wait ? "Searching…" : filtered(s) ? "No entry matches." : "The history is empty."),
    live && list.length > 0 && !s.end && (filtered(s) || s.older || a.history.length >= RECENT) && h("div", { key: "more", class: "acts" }, h("button", { type: "button", "aria-disabled": s.busy ? "true" : null, onclick: () => { if (!s.busy) search(a, true); } }, s.busy ? "Loading…" : "Show older")));
}

function restOf(a) {
  return a.rows.length > 0 && h("section", { key: "rest", class: "part", "aria-labelledby": "rest" }, h("h2", { id: "rest", tabindex: -1, class: "unseen" }, "Status"),
    h("details", { key: "all" }, h("summary", null, "All of ", h("code", null, "status")), h("dl", { class: "facts" }, a.rows.map((r) => fact(r.label, r.text)))));
}

function agentPage(a) {
  if (a.error) {
    return h("main", { key: "agent " + a.handle, class: "agent" }, hero(a),
      h("section", { key: "error", class: "part trouble" }, h("h2", { id: "error", class: "unseen" }, "Error"), h("dl", { class: "troubles" }, h("div", null, h("dt", null, "UNREADABLE"), h("dd", { dir: "auto" }, plain(a.error, 2000))))));
  }
  return h("main", { key: "agent " + a.handle, class: "agent" }, hero(a), troubleOf(a),
    h("div", { class: "columns" },
      h("div", { class: "column" }, questionsOf(a), turnOf(a), quarantineOf(a), messagesOf(a), bandsOf(a)),
      h("div", { class: "column side" }, scheduleOf(a), costsOf(a), incidentsOf(a), restOf(a)),
      h("div", { class: "column wide" }, historyOf(a))));
}

// ---- The overview

const href = (a) => "#/" + encodeURIComponent(a.handle);

function overview(agents) {
  const by = (p) => agents.filter((a) => a.status?.phase === p).length;
  const calling = agents.filter((a) => needs(a).length);
  return h("main", { key: "overview", class: "overview" },
    h("header", { class: "hero" }, h("h1", { id: "agent", tabindex: -1 }, agents.length ? many(agents.length, "agent") : "No agent"),
      h("p", { class: "doing" }, agents.length ? [["ACTIVE", "PREP", "IDLE"].filter(by).map((p) => by(p) + " " + p).join(" · "), h("span", { class: "dim" }, " on ", line(ui.doc.host, 80))] : "The listener has no agent."),
      calling.length > 0 && h("p", { class: "calling" }, calling.length === 1 ? "One needs you: " : calling.length + " need you: ", calling.slice(0, 6).map((a, n) => [n > 0 && ", ", h("a", { key: a.handle, href: href(a) }, line("@" + a.handle, 60))]), calling.length > 6 && " and " + (calling.length - 6) + " more")),
    h("ul", { class: "cards" }, agents.map((a) => {
      const s = a.status, why = needs(a);
      return h("li", { key: a.handle, class: "card " + phaseClass(s?.phase) + (why.length ? " calls" : "") },
        h("h2", null, h("a", { href: href(a) }, line("@" + a.handle, 80))),
        h("p", { class: "badges" }, s && phase(s.phase), s?.halted && h("span", { class: "badge bad" }, "HALTED"), why.map((w) => h("span", { class: "badge bad" }, w))),
        h("p", { class: "meta" }, a.turn && !a.error ? lasting(a.turn.words) : line(doing(a))),
        a.trouble[0] && h("p", { class: "first" }, h("strong", null, plain(a.trouble[0].label, 40)), " ", line(a.trouble[0].text, 160)),
        h("p", { class: "meta foot" }, s?.next_due && !s.moved && h("span", null, ui.link === "file" ? "next poll " : "polls in ", until(s.next_due)),
          s && s.inbox.waiting + s.inbox.deferred + s.inbox.held + s.inbox.quarantined > 0 && h("span", null, [[s.inbox.waiting, "waiting"], [s.inbox.deferred, "deferred"], [s.inbox.held, "held"], [s.inbox.quarantined, "quarantined"]].filter(([n]) => n).map(([n, w]) => n + " " + w).join(" · "))));
    })));
}

// ---- The frame

// address returns the handle in the address, or "".
function address() {
  try { return decodeURIComponent(location.hash.replace(/^#\/?/, "")); } catch { return ""; }
}

// shown returns the agent that the page shows. Another agent never takes the place of one that the
// address names.
function shown() {
  const agents = ui.doc.agents, handle = address();
  return (handle ? agents.find((a) => a.handle === handle) : agents.length === 1 && agents[0]) || null;
}

function gone(handle) {
  return h("main", { key: "gone", class: "gone" }, h("header", { class: "hero" }, h("h1", { id: "agent", tabindex: -1 }, "Not shown"),
    h("p", { class: "doing" }, "The page no longer shows ", line("@" + handle, 80), ". ", h("a", { href: "#/" }, "Show all agents"))));
}

function bar(agent) {
  const doc = ui.doc, several = doc && doc.agents.length > 1;
  const link = { live: "Live", connecting: "Connecting…", reconnecting: "Reconnecting…", login: "", file: "" }[ui.link];
  return h("header", { key: "bar", class: "bar is-" + ui.link },
    several && agent ? h("a", { key: "back", class: "back", href: "#/" }, "‹ All agents") : h("span", { key: "brand", class: "brand" }, "agentStateLoop"),
    h("span", { key: "link", class: "link" }, ui.link === "file" ? ["Made ", h("time", { datetime: doc.made }, title(doc.made))] : [link && h("i", { class: "dot", "aria-hidden": "true" }), link, ui.link === "reconnecting" && doc && h("span", { class: "dim" }, " as of " + hms(doc.made))]));
}

function loginForm() {
  const l = ui.login;
  return h("main", { key: "login", class: "login" },
    h("h1", { id: "agent", tabindex: -1 }, "Log in"),
    h("p", null, "Enter the listener’s token. It is in the file that ", h("code", null, "--token-file"), " names. This browser then stays logged in for 30 days."),
    h("form", { novalidate: true, onsubmit: (e) => { e.preventDefault(); logIn(e.target); } },
      h("input", { key: "name", class: "unseen", type: "text", autocomplete: "username", value: "agentstateloop", tabindex: -1, readonly: true, "aria-hidden": "true" }),
      h("label", { for: "token" }, "Token"),
      h("input", { key: "token", id: "token", type: "password", autocomplete: "current-password", autocapitalize: "none", spellcheck: "false", required: true, "aria-describedby": l.error ? "wrong" : null, "aria-invalid": l.error ? "true" : null }),
      l.error && h("p", { key: "wrong", id: "wrong", class: "error" }, plain(l.error, 500)),
      h("div", { class: "acts" }, h("button", { type: "submit", class: "main go", disabled: l.pending }, l.pending ? "Checking…" : "Log in"))));
}

async function logIn(form) {
  const field = form.querySelector("#token"), l = ui.login;
  if (l.pending) return;
  const token = field.value.trim();
  if (!token) l.error = "Type or paste the token first.";
  else {
    Object.assign(l, { pending: true, error: "" });
    render();
    const got = await post("page/login", { token });
    l.pending = false;
    if (got.ok) {
      field.value = "";
      ui.link = "connecting";
      await connect();
      document.getElementById("agent")?.focus();
      return;
    }
    l.error = got.status ? got.words : "The listener did not answer. Is it running?";
  }
  say(l.error);
  render();
  field.focus();
  field.select();
}

async function logOut() {
  await post("page/logout", {});
  location.reload();
}

function foot() {
  const n = now();
  return h("footer", { key: "foot" }, h("span", null, "agentStateLoop " + plain(ui.doc.version, 60) + (east(n) !== browserEast(n) ? " · times in " + zone(east(n)) : "")),
    ui.link !== "file" && h("button", { type: "button", class: "quiet", onclick: logOut }, "Log out"));
}

function render() {
  const login = ui.link === "login";
  const agent = !login && ui.doc ? shown() : null;
  const focus = document.activeElement;
  // What a reader looks at stays in its place when something above it grows.
  offered.clear();
  const held = scrollY > 0 ? document.elementFromPoint(innerWidth / 2, Math.min(innerHeight / 3, 240)) : null;
  const top = held?.getBoundingClientRect().top;
  const main = () => (agent ? agentPage(agent) : address() ? gone(address()) : overview(ui.doc.agents));
  patch(root, [bar(agent), login ? loginForm() : !ui.doc ? h("main", { key: "wait", class: "wait" }, h("h1", { class: "unseen" }, "agentStateLoop"), h("p", { class: "empty" }, ui.link === "reconnecting" ? (ui.refused ? plain(ui.refused, 500) : "The listener does not answer.") + " This page tries again." : "Loading…")) : main(), !login && ui.doc && foot()].filter(Boolean));
  if (!login && ui.doc) forget(agent);
  if (held && held.isConnected && held !== document.documentElement) scrollBy(0, held.getBoundingClientRect().top - top);
  if (focus !== document.activeElement && focus && focus.isConnected && !focus.disabled) focus.focus({ preventScroll: true });
  const calling = ui.doc ? ui.doc.agents.filter((a) => needs(a).length).length : 0;
  document.title = (calling && !login ? "(" + calling + ") " : "") + (agent ? "@" + plain(agent.handle, 60) + " " + (agent.status?.phase || "") + " – " : "") + "agentStateLoop";
}

// say speaks to a screen reader. Only changes that a person would want to hear are said.
function say(text) {
  const last = plain(text, 300);
  said.textContent = said.textContent === last ? last + "\u00a0" : last;
}

// news says what has changed since the last document.
function news(old, doc) {
  if (!old) return;
  const list = [];
  for (const a of doc.agents) {
    const b = old.agents.find((b) => b.handle === a.handle);
    if (!b) continue;
    const name = doc.agents.length > 1 ? "@" + a.handle + ": " : "";
    const known = new Set(b.questions.map((q) => q.id)), troubles = new Set(b.trouble.map((r) => r.label));
    for (const q of a.questions) if (!known.has(q.id)) list.push(name + "new question: " + q.text);
    for (const r of a.trouble) if (!troubles.has(r.label)) list.push(name + r.label + " " + r.text);
    if (a.status && b.status && a.status.phase !== b.status.phase) list.push(name + a.status.phase);
    if (!a.turn !== !b.turn) list.push(name + (a.turn ? "a turn has started" : "the turn has ended"));
  }
  if (list.length) say(list.slice(0, 3).join(". "));
}

function take(doc) {
  const old = ui.doc;
  ui.doc = doc;
  ui.version ||= doc.version;
  ui.skew = Date.parse(known(doc.now) ? doc.now : doc.made) - Date.now();
  const again = ui.link === "reconnecting";
  ui.link = "live";
  if (again) say("Connected again");
  news(old, doc);
  doc.agents.forEach(slide);
  render();
  renew();
}

// renew loads the page again after an upgrade of the listener, when no form is open.
function renew() {
  if (ui.doc && ui.doc.version !== ui.version && !ui.open.size) location.reload();
}

// ---- The connection

const SILENCE = 45e3; // the heartbeats of the listener come more often
const PATIENCE = 20e3; // for the start of a stream
let stream = null, retry = 0, failures = 0;

function needLogin() {
  stop();
  ui.link = "login";
  ui.login.error = ui.doc ? "The session has ended. Log in again." : "";
  render();
  document.getElementById("token")?.focus();
}

function stop() {
  clearTimeout(retry);
  if (stream) stream.abort();
  stream = null;
}

// connect follows the stream of documents. It returns when the first has come, or the connection has
// failed.
async function connect() {
  stop();
  const mine = (stream = new AbortController());
  let first;
  const ready = new Promise((resolve) => { first = resolve; });
  follow(mine, first).catch(() => {}).finally(() => {
    first();
    if (stream === mine) lost();
  });
  return ready;
}

async function follow(mine, first) {
  ui.heard = Date.now();
  ui.refused = "";
  const response = await fetch("page/events", { credentials: "same-origin", cache: "no-store", signal: mine.signal, headers: { Accept: "text/event-stream" } });
  if (stream !== mine) return;
  if (response.status === 401) {
    needLogin();
    return;
  }
  if (!response.ok || !response.body) {
    ui.refused = wordsOf(await response.json().catch(() => ({})), response);
    return;
  }
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let parts = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done || stream !== mine) return;
    ui.heard = Date.now();
    let text = decoder.decode(value, { stream: true });
    if (parts.length && !text.includes("\n")) {
      parts.push(text);
      continue;
    }
    text = parts.join("") + text;
    const events = text.split("\n\n");
    parts = [events.pop()];
    for (const event of events) {
      const lines = event.split("\n");
      if (!lines.includes("event: document")) continue;
      const data = lines.filter((l) => l.startsWith("data:")).map((l) => l.slice(5)).join("\n");
      failures = 0;
      take(JSON.parse(data));
      first();
    }
  }
}

function lost() {
  stop();
  const was = ui.link;
  ui.link = "reconnecting";
  failures++;
  retry = setTimeout(connect, ui.refused ? 30e3 : Math.min(30e3, 500 * 2 ** Math.min(failures, 6)) * (0.75 + Math.random() / 2));
  if (was === "live") say("The connection is lost. Reconnecting.");
  render();
}

// look notices a dead connection: after a sleep of the machine no error comes.
let looked = Date.now();
function look() {
  const slept = Date.now() - looked > 15e3;
  looked = Date.now();
  tick();
  renew();
  if (slept) wake();
  else if (stream && Date.now() - ui.heard > (ui.link === "live" ? SILENCE : PATIENCE)) lost();
}
function wake() {
  looked = Date.now();
  if (ui.link === "reconnecting") connect();
  else if (ui.link === "live" && Date.now() - ui.heard > PATIENCE) {
    ui.link = "reconnecting";
    render();
    connect();
  }
}

addEventListener("hashchange", () => {
  render();
  scrollTo(0, 0);
  document.getElementById("agent")?.focus({ preventScroll: true });
});

if (embedded) {
  ui.link = "file";
  ui.doc = JSON.parse(embedded.textContent);
  render();
} else {
  document.addEventListener("visibilitychange", () => { if (!document.hidden) { tick(); wake(); } });
  addEventListener("online", wake);
  setInterval(look, 1000);
  render();
  connect();
}
})();
