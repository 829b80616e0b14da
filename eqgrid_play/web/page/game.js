// A game: its connection, what is shown of it in place of the element `table`, and the keys. The server, or in a
// page without one `local.js`, has the clock and the rules.

import { $, Board, element, facedBy, rewardsIn, setting, showDisplay, STEPS } from "./board.js";
import { listenToGamepads } from "./gamepad.js";

const PAD = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
export const SIGNS = { up: "▲", down: "▼", left: "◀", right: "▶" };
const PING = 2000; // how often the server is asked for an answer, in milliseconds
const LOST = 1000; // after how many milliseconds without a frame, or without this answer, something is wrong
const OPENING = 5000; // how long a connection may take to open
const LOOK = 250;
const SLOW = 300; // the latency from which the page names it
const NAMED = 3000; // how long one's own agent is named after the first step
const LAST = /^(10|[1-5]) s$/; // the seconds left that are read to people who do not see them
const MOVES = ["up", "down", "right", "left"]; // in the order of directions
const PATIENCE = 1000; // how long a press is shown before a frame contains it
const PITCHES = { reward: 880, hands: 440, nothing: 150 };
const LASTING = ["over", "replaced", "refused"]; // a page in one of these states stays in it

$("table").outerHTML = `
  <header>
    <dl id="display"></dl>
    <nav>
      <button id="pause" type="button" hidden>Pause</button>
      <button id="leave" type="button" hidden>End game</button>
      <button id="sound" type="button" aria-label="Sound">♪</button>
      <button id="help" type="button" aria-label="Rules and keys" aria-controls="help-text">?</button>
    </nav>
  </header>
  <p id="note"></p>
  <p id="status" role="status"></p>
  <p id="aside"></p>
  <div id="stage">
    <div id="view"><canvas id="world" role="img" aria-label="The game"></canvas></div>
    <section id="help-text" hidden>
      <button id="close-help" type="button" aria-label="Close the rules">✕</button>
      <div id="rules" class="rules"></div>
      <div id="hint"></div>
    </section>
  </div>
  <ul id="seats"></ul>
  <p id="said" role="status"></p>`;
const board = new Board($("world"));
let socket = null;
let here = null; // the game and the token in the address
let opening = null;
let status = "";
let attempts = 0;
let joined = false; // whether this connection was let in
let heard = 0; // when the last message came
let looked = 0; // when this page last looked whether one is missing
let worried = false; // whether it has told that one is
let said = null; // the last status
let latency = 0; // of the last ping, in milliseconds
let ends = null; // when a game ends that waits for somebody
let frame = null; // the last one
let seen = []; // all frames, up to the first one that was missed
let shown = {}; // the last display
let stuck = false; // whether one's last action had no effect
let audio = null;
let floors = new Set(); // the pictures of free floor
let presses = 0; // of this page
let pending = []; // presses and repetitions that no frame contains yet
let arrived = 0; // when the last frame came
let held = null; // the control whose key is held down and repeats
let repeating = 0; // its timer
let onOver = () => {}; // what the page does when a game is over
let onStatus = () => {}; // and when it stands otherwise
let onRefused = () => {}; // and when there is no such game
let leaving = false; // whether the page is being closed or reloaded, which hides it too
const down = new Map(); // keys that are held down, with their controls if they have one

function drop() {
  // Forgets a connection at once: one that is dead does not close for a long time.
  if (!socket) return;
  for (const event of ["onopen", "onmessage", "onclose"]) socket[event] = null;
  socket.close();
  socket = null;
}

export function leaveSocket() {
  drop();
  repeat(null);
  here = null;
  opening = null;
}

export function enter(game, token, hooks = {}) {
  const same = here && !hooks.socket && here.game === game && here.token === token;
  if (same && !LASTING.includes(status)) return;
  leaveSocket();
  here = { game, token, socket: hooks.socket || webSocket };
  attempts = 0;
  status = "";
  said = frame = ends = null;
  latency = 0;
  seen = [];
  hideControls();
  onOver = hooks.onOver || (() => {});
  onStatus = hooks.onStatus || (() => {});
  onRefused = hooks.onRefused || (() => {});
  $("status").textContent = "Connecting";
  connect();
}

function webSocket(game) {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const base = location.pathname.replace(/[^/]*$/, "");
  return new WebSocket(`${scheme}://${location.host}${base}api/games/${encodeURIComponent(game)}`);
}

function connect() {
  const { game, token } = here;
  joined = false;
  heard = performance.now();
  socket = here.socket(game);
  socket.onopen = () => send({ type: "join", token });
  socket.onmessage = (event) => receive(typeof event.data === "string" ? JSON.parse(event.data) : event.data);
  socket.onclose = () => {
    if (here && !LASTING.includes(status)) connectAgain();
  };
}

function connectAgain() {
  drop();
  worried = false;
  attempts += 1;
  $("status").textContent = "The connection was lost. Trying again.";
  $("world").style.opacity = 0.6;
  const mine = here;
  setTimeout(() => here === mine && !socket && connect(), Math.min(5000, 300 * attempts));
}

function patience() {
  // How long nothing may come: frames come with the clock, and answers to pings when it stands still.
  if (!joined) return OPENING;
  const frames = Math.max(LOST, 3000 / opening.ticks_per_second);
  return status === "playing" ? Math.min(frames, PING + LOST) : PING + LOST;
}

setInterval(() => {
  const now = performance.now();
  if (now - looked > 2 * LOST) heard = now; // the page itself stood still; what came is not read yet
  looked = now;
  const remote = here && here.socket === webSocket; // a game within the page cannot be lost
  showAside();
  if (!remote || !socket || LASTING.includes(status)) return;
  const silent = now - heard - patience();
  if (silent > LOST) connectAgain();
  else if (silent > 0 && joined && !worried) {
    worried = true;
    $("status").textContent = "Nothing is coming from the server. If this lasts, the page connects again.";
    $("world").style.opacity = 0.6;
  }
}, LOOK);

function send(message) {
  if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

function receive(message) {
  heard = performance.now();
  if (worried && said) showStatus(said);
  worried = false;
  if (message.type === "opening") open(message);
  if (message.type === "frame") {
    showFrame(message);
    reportShown(message, heard);
  }
  if (message.type === "status") showStatus(message);
  if (message.type === "pong") {
    latency = performance.now() - message.sent;
    attempts = 0; // both directions work
  }
  if (message.type === "refusal") {
    if (!joined) status = "refused"; // there is nothing to come back to
    if (!joined) opening = null;
    $("status").textContent = message.text;
    if (joined) return;
    hideControls();
    onRefused(message.text);
  }
}

function showAside() {
  // What may change each second, so that it must not be read aloud each time.
  const left = ends === null ? null : Math.max(0, Math.ceil((ends - performance.now()) / 1000));
  const slow = latency > SLOW && status === "playing" ? `Your connection is slow (${(latency / 1000).toFixed(1)} s).` : "";
  $("aside").textContent = left === null ? slow : `The game ends in ${left} s.`;
}

function hideControls() {
  for (const id of ["pause", "leave"]) $(id).hidden = true;
  $("buttons").classList.remove("has-controls");
}

function open(message) {
  opening = message;
  joined = true;
  board.clear(message.height, message.width);
  board.images = new Map();
  floors = new Set();
  pending = [];
  repeat(null); // the server has released all keys
  $("said").textContent = "";
  const seats = message.seats.map((name, i) => {
    const entry = element("li");
    const colour = element("span", undefined, i === message.seat ? { class: "own" } : {});
    colour.style.background = message.colours[i];
    entry.append(colour, `${i + 1}: ${i === message.seat ? "you" : name}`);
    return entry;
  });
  $("seats").replaceChildren(...seats);
  showRules("rules", message);
  const plays = message.seat >= 0;
  for (const id of ["pause", "leave"]) $(id).hidden = !plays;
  $("hint").replaceChildren(...(plays ? keyboard(message.controls) : []));
  makeButtons(message.controls);
  board.own = message.seat;
  board.named = plays;
  showHelp(plays && !setting("played"));
  send({ type: "hidden", on: document.hidden });
  ping();
}

function showHelp(on) {
  $("help-text").hidden = !on;
  $("help").setAttribute("aria-expanded", on);
}

function showFrame(next) {
  const before = frame;
  frame = next;
  if (next.step === seen.length) seen.push(next);
  const changed = new Set(next.cells.map(([place]) => place));
  for (const number of next.floors ?? []) floors.add(number);
  arrived = performance.now();
  if (next.taken > presses) { // after a reload, or the server has repeated a held key before the page
    presses = next.taken;
    repeat();
  }
  pending = pending.filter((x) => x.number > next.taken && arrived - x.time < PATIENCE + latency);
  board.show(next, predicted);
  const rewarded = before?.step === next.step - 1 ? react(before, changed) : null;
  const lines = Object.entries(next.display);
  if (!lines.length) return;
  // For people who do not see the board. The first line is the score.
  const says = lines.filter(([label, text], i) => shown[label] !== text
    && (!opening.quiet.includes(label) || LAST.test(text) || (rewarded && !i)));
  if (rewarded !== null && says.length) $("said").textContent = says.map((line) => `${line.join(": ")}.`).join(" ");
  showDisplay("display", next.display);
  shown = next.display;
}

function reportShown({ number }, arrived) {
  // Tells the server that a frame is on the screen, unless a later one comes first. The browser paints after this call,
  // or not at all while the page is hidden.
  if (!number) return;
  if (document.hidden) return send({ type: "shown", frame: number, after: null, focus: false });
  requestAnimationFrame(() => {
    const message = { type: "shown", frame: number, after: performance.now() - arrived, focus: document.hasFocus() };
    if (frame?.number === number) send(message);
  });
}

function predicted() {
  // The agents, and the cells that one's own agent changes, after the presses that no frame contains yet. The next frame
  // corrects them.
  const [seat, { agents, turned, ahead = [] }, { width, cells }] = [opening.seat, frame, board];
  let looks = turned?.[seat];
  if (!pending.length || !looks || agents[seat][0] < 0) return { agents };
  const [period, changes] = [1000 / opening.ticks_per_second, new Map()];
  let [[place, direction, picture], step] = [agents[seat], 0];
  for (const { control, time } of pending) {
    step = Math.max(step + 1, Math.ceil((time + latency - arrived) / period)); // in which the server will take it
    const [then, before] = [ahead[step - 1], step > 1 ? (ahead[step - 2] ?? ahead.at(-1))?.poses ?? agents : agents];
    const side = control.repeats ? MOVES.indexOf(control.name) : -1;
    if (then && before[seat][0] === place && before[seat][1] === direction) { // as the server expects
      const effect = then.effects[opening.controls.indexOf(control)];
      if (!effect) continue;
      [place, direction] = effect.pose;
      if (effect.faced) [looks] = [effect.turned, changes.set(...effect.faced)];
    } else if (side >= 0) {
      direction = side;
      const target = place + STEPS(width)[side];
      const near = Math.abs(target % width - place % width) <= 1; // and not in the row after it
      const others = [before, then?.poses ?? []].flatMap((poses) => poses.filter((_, i) => i !== seat));
      const isTaken = others.some(([other]) => other >= 0 && distance(other, target, width) <= (then ? 0 : 1));
      if (near && floors.has(changes.get(target) ?? cells[target]) && !isTaken) place = target;
    } else continue;
    picture = looks[direction];
  }
  return { agents: agents.map((agent, i) => (i === seat ? [place, direction, picture] : agent)), changes };
}

function distance(one, other, width) {
  return Math.abs(one % width - other % width) + Math.abs(Math.floor(one / width) - Math.floor(other / width));
}

function react(before, changed) {
  // Shows what the last step did: rewards, objects, and an action of one's own without an effect.
  // Returns whether it had rewards.
  const seat = opening.seat;
  const rewards = rewardsIn(before, frame, opening.width);
  board.celebrate(rewards);
  if (seat < 0) return rewards.length > 0;
  const own = frame.agents[seat];
  const worked = frame.held[seat] !== before.held[seat];
  const idle = String(own) === String(before.agents[seat]) && !changed.has(facedBy(own, opening.width)) && !rewards.length;
  const first = frame.acted[seat] && idle && !stuck;
  stuck = frame.acted[seat] && idle;
  if (first) board.shake();
  if (rewards.length || worked || first) beep(rewards.length ? "reward" : worked ? "hands" : "nothing");
  return rewards.length > 0;
}

function beep(name) {
  if (setting("sound") !== "on") return;
  audio = audio || new AudioContext();
  const [tone, volume, now] = [audio.createOscillator(), audio.createGain(), audio.currentTime];
  tone.frequency.value = PITCHES[name];
  volume.gain.setValueAtTime(0.1, now);
  volume.gain.exponentialRampToValueAtTime(0.001, now + 0.15);
  tone.connect(volume).connect(audio.destination);
  tone.start(now);
  tone.stop(now + 0.15);
}

function showStatus(message) {
  status = message.status;
  said = message;
  if (status !== "playing") pending = [];
  if (LASTING.includes(status) || status === "paused") repeat(null);
  $("status").textContent = message.text;
  ends = message.ends_in == null ? null : performance.now() + 1000 * message.ends_in;
  showAside();
  if (status === "playing") begin();
  $("pause").textContent = status === "paused" ? "Resume" : "Pause";
  onStatus(message);
  const over = status === "over";
  $("world").style.opacity = status === "playing" || over || !frame?.step ? 1 : 0.6; // a game that has not begun is looked at
  if (LASTING.includes(status)) hideControls();
  if (over) onOver(message.text, { here, opening, message, frames: seen, last: frame });
}

function begin() {
  setting("played", "yes");
  showHelp(false);
  const mine = opening;
  setTimeout(() => { board.named = board.named && opening !== mine; board.draw(); }, NAMED);
}

const ping = () => send({ type: "ping", sent: performance.now() });
setInterval(() => opening && status !== "over" && ping(), PING);

export function showRules(id, { pictures, notes }) {
  const shown = pictures.map(([cells, caption, alt]) => {
    const [entry, row] = [element("li"), element("span", undefined, { role: "img", "aria-label": alt })];
    row.append(...cells.map((png) => element("img", undefined, { src: `data:image/png;base64,${png}`, alt: "" })));
    entry.append(row, caption);
    return entry;
  });
  const [list, others] = [element("ol"), element("ul")];
  list.append(...shown);
  others.append(...notes.map((note) => element("li", note)));
  $(id).replaceChildren(...[list, others].filter((x) => x.children.length));
}

export function keyboard(controls) {
  // The keys as they lie on a keyboard, with what each does: an inverted T of arrows, the space bar, and others.
  const pause = document.body.classList.contains("study") ? [] : [{ keys: ["KeyP", "Escape"], name: "pause" }];
  const used = [...controls.filter((x) => x.keys.length), ...pause];
  const list = element("ul", undefined, { class: "keyboard" });
  list.append(...used.map(({ keys: [key], name }) => {
    const entry = element("li", undefined, { class: PAD[key] || (key === "Space" ? "space" : "other") });
    const arrow = PAD[key] ? { role: "img", "aria-label": `arrow ${PAD[key]}` } : {};
    entry.append(element("kbd", nameOf(key), arrow), name);
    return entry;
  }));
  const also = used.flatMap(({ keys }) => keys.slice(1)).map(nameOf);
  return [list, element("p", `Other keys for the same: ${also.join(", ")}`)];
}

function nameOf(key) {
  const names = { Space: "space", Enter: "enter", Escape: "escape" };
  return names[key] || key.replace(/^(Key|Digit)/, "").replace(/^Arrow(.*)$/, (_, x) => SIGNS[x.toLowerCase()]);
}

// ---- Keys and buttons -----------------------------------------------------------------------

const pageTime = () => performance.timeOrigin + performance.now();
const sendKey = (key, isDown) => send({ type: "key", key: key.slice(0, 40), time: pageTime(), down: isDown });

function press(key, control) {
  if (down.has(key)) return;
  down.set(key, control);
  const raw = opening.keys ? { key, time: pageTime() } : {};
  send({ type: "press", choice: control.choice, action: control.action, number: presses + 1, ...raw });
  expect(control);
  if (control.repeats) send({ type: "hold", choice: control.choice, action: control.action, number: presses });
  repeat(control.repeats && status !== "paused" ? control : held);
}

function expect(control) {
  // Shows an action that the server will take.
  pending.push({ number: ++presses, control, time: performance.now() });
  if (status !== "playing" || !frame) pending = [];
  else board.show({ cells: [], pictures: {} }, predicted);
}

function repeat(control = held) {
  // Repeats a held key in each step, as the server does until it hears that the key is up. The server then catches up
  // with what was shown.
  held = control;
  clearInterval(repeating);
  if (!held) return;
  const period = 1000 / opening.ticks_per_second;
  repeating = setInterval(() => {
    if (status === "playing" && pending.length * period < latency + 3 * period) expect(held);
  }, period);
}

function release(key) {
  if (!down.has(key)) return;
  const control = down.get(key);
  down.delete(key);
  if (opening?.keys) sendKey(key, false);
  if (!control?.repeats) return;
  const still = [...down.values()].filter((x) => x?.repeats && x.choice === control.choice).pop();
  send({ type: "hold", choice: control.choice, action: still ? still.action : null, number: presses });
  repeat(still ?? null);
}

function releaseAll() {
  for (const key of [...down.keys()]) release(key);
}

function keyDown(code, again) {
  // Does what a key stands for; returns whether it stands for an action.
  const control = opening.controls.find((x) => x.keys.includes(code));
  if (control && status !== "over") {
    if (!again) press(code, control);
    return true;
  }
  if (opening.keys && !again) {
    down.set(code, null);
    sendKey(code, true);
  }
  if (["KeyP", "Escape"].includes(code) && opening.seat >= 0 && status !== "over") {
    send({ type: "pause", on: status !== "paused" });
  }
  return false;
}

const listens = () => opening && !$("game").hidden;

window.addEventListener("keydown", (event) => {
  if (!listens() || event.ctrlKey || event.metaKey || event.altKey) return;
  const onButton = ["BUTTON", "A"].includes(event.target.tagName);
  if (onButton && ["Space", "Enter"].includes(event.code)) return; // which presses the button
  if (keyDown(event.code, event.repeat)) event.preventDefault();
});
window.addEventListener("keyup", (event) => release(event.code));
listenToGamepads((code) => listens() && keyDown(code, false), release);
window.addEventListener("blur", releaseAll);
window.addEventListener("pagehide", () => { leaving = true; });
window.addEventListener("pageshow", () => { leaving = false; });
document.addEventListener("visibilitychange", () => opening && !leaving && send({ type: "hidden", on: document.hidden }));

function makeButtons(controls) {
  const [pad, others] = [element("div", undefined, { id: "pad" }), element("div", undefined, { id: "others" })];
  for (const control of controls) {
    const side = PAD[control.keys.find((key) => key in PAD)];
    const button = element("button", SIGNS[side] || control.name, { type: "button" });
    if (side) button.className = side;
    button.setAttribute("aria-label", control.name);
    const key = `button-${control.choice}-${control.action}`;
    button.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      button.setPointerCapture(event.pointerId);
      press(key, control);
    });
    for (const end of ["pointerup", "pointercancel"]) button.addEventListener(end, () => release(key));
    button.addEventListener("contextmenu", (event) => event.preventDefault());
    (side ? pad : others).append(button);
  }
  $("buttons").replaceChildren(pad, others);
  $("buttons").classList.toggle("has-controls", controls.length > 0);
}

$("sound").setAttribute("aria-pressed", setting("sound") === "on");
$("sound").onclick = (event) => {
  event.target.blur();
  $("sound").setAttribute("aria-pressed", setting("sound", setting("sound") === "on" ? "off" : "on") === "on");
  beep("hands");
};
for (const id of ["help", "close-help"]) $(id).onclick = (event) => { event.target.blur(); showHelp($("help-text").hidden); };
$("leave").onclick = () => send({ type: "leave" });
$("pause").onclick = (event) => { event.target.blur(); send({ type: "pause", on: status !== "paused" }); };
