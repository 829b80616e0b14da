// A game: its connection, what is shown of it in place of the element `table`, and the keys. The server, or in a
// page without one `local.js`, has the clock and the rules.

import { $, Board, element, scoresOf } from "./board.js";
import { listenToGamepads } from "./gamepad.js";

const PAD = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
export const SIGNS = { up: "▲", down: "▼", left: "◀", right: "▶" };
const PING = 2000; // how often the server is asked for an answer, in milliseconds
const LOST = 1000; // after how many milliseconds without a frame, or without this answer, something is wrong
const OPENING = 5000; // how long a connection may take to open
const LOOK = 250;

$("table").outerHTML = `
  <header>
    <div><small>Score</small><output id="score">0</output></div>
    <div id="mean-score" hidden><small>Mean of all</small><output id="mean"></output></div>
    <div><small id="time-name">Time left</small><output id="time"></output></div>
    <div><small>You hold</small><output id="held"></output></div>
    <nav>
      <button id="pause" type="button">Pause</button>
      <button id="leave" type="button">End game</button>
    </nav>
  </header>
  <p id="note"></p>
  <p id="status" role="status"></p>
  <div id="stage"><canvas id="world" role="img" aria-label="The game"></canvas></div>
  <ul id="seats"></ul>
  <p id="hint"></p>
  <ul id="rules"></ul>`;
const board = new Board($("world"));
let socket = null;
let here = null; // the game and the token in the address
let opening = null;
let status = "";
let attempts = 0;
let joined = false; // whether this connection was let in
let steps = 0;
let heard = 0; // when the last message came
let looked = 0; // when this page last looked whether one is missing
let worried = false; // whether it has told that one is
let said = null; // the last status
let latency = null; // of the last ping, in milliseconds
let onOver = () => {}; // what the page does when a game is over
let onStatus = () => {}; // and when it stands otherwise
let onRefused = () => {}; // and when there is no such game
const down = new Map(); // keys that are held down, with their controls

function drop() {
  // Forgets a connection at once: one that is dead does not close for a long time.
  if (!socket) return;
  for (const event of ["onopen", "onmessage", "onclose"]) socket[event] = null;
  socket.close();
  socket = null;
}

export function leaveSocket() {
  drop();
  here = null;
  opening = null;
}

export function enter(game, token, hooks = {}) {
  const same = here && !hooks.socket && here.game === game && here.token === token;
  if (same && !["over", "refused", "replaced"].includes(status)) return;
  leaveSocket();
  here = { game, token, socket: hooks.socket || webSocket };
  attempts = 0;
  status = "";
  said = null;
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
    if (here && !["over", "replaced", "refused"].includes(status)) connectAgain();
  };
}

function connectAgain() {
  drop();
  worried = false;
  attempts += 1;
  $("status").textContent = "The connection was lost. Trying again.";
  $("stage").style.opacity = 0.6;
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
  if (!remote || !socket || ["over", "replaced", "refused"].includes(status)) return;
  const silent = now - heard - patience();
  if (silent > LOST) connectAgain();
  else if (silent > 0 && joined && !worried) {
    worried = true;
    $("status").textContent = "Nothing is coming from the server. If this lasts, the page connects again.";
    $("stage").style.opacity = 0.6;
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
  if (message.type === "frame") showFrame(message);
  if (message.type === "status") showStatus(message);
  if (message.type === "pong") {
    latency = performance.now() - message.sent;
    attempts = 0; // both directions work
  }
  if (message.type === "refusal") {
    if (!joined) status = "refused"; // there is nothing to come back to
    if (!joined) opening = null;
    $("status").textContent = message.text;
    if (!joined) onRefused(message.text);
  }
}

function open(message) {
  opening = message;
  joined = true;
  board.clear(message.height, message.width);
  board.images = new Map();
  const seats = message.seats.map((name, i) => {
    const entry = element("li");
    const colour = element("span");
    colour.style.background = message.colours[i];
    entry.append(colour, `${i + 1}: ${i === message.seat ? "you" : name}`);
    return entry;
  });
  $("seats").replaceChildren(...seats);
  $("rules").replaceChildren(...message.notes.map((note) => element("li", note)));
  $("time-name").textContent = message.horizon === null ? "Step" : "Time left";
  const plays = message.seat >= 0;
  for (const id of ["pause", "leave"]) $(id).hidden = !plays;
  $("held").parentElement.hidden = !plays || !message.holds;
  const words = message.controls.filter((x) => x.keys.length).map((x) => `${nameOf(x.keys[0])} ${x.name}`);
  $("hint").textContent = plays ? words.join(" · ") : "";
  makeButtons(message.controls);
}

function showFrame(frame) {
  board.own = opening.seat >= 0 ? frame.places[opening.seat] : null;
  board.show(frame);
  steps = frame.step;
  const [own, mean] = scoresOf(frame.scores, opening.seat);
  $("score").textContent = own;
  $("mean").textContent = mean;
  $("mean-score").hidden = mean === null;
  const left = opening.horizon === null ? null : (opening.horizon - frame.step) / opening.ticks_per_second;
  $("time").textContent = left === null ? frame.step : `${Math.max(0, Math.ceil(left))} s`;
  $("held").textContent = opening.seat >= 0 ? frame.held[opening.seat] || "nothing" : "";
}

function showStatus(message) {
  status = message.status;
  said = message;
  $("status").textContent = message.text;
  $("pause").textContent = status === "paused" ? "Resume" : "Pause";
  onStatus(status);
  const over = status === "over";
  $("stage").style.opacity = status === "playing" || over ? 1 : 0.6;
  if (!over) return;
  for (const id of ["pause", "leave"]) $(id).hidden = true;
  $("buttons").classList.remove("has-controls");
  onOver(message.text, here, opening.seat, steps);
}

setInterval(() => {
  if (opening && status !== "over") send({ type: "ping", sent: performance.now(), latency });
}, PING);

export function nameOf(key) {
  const names = { Space: "space", Enter: "enter" };
  return names[key] || key.replace(/^(Key|Digit)/, "").replace(/^Arrow(.*)$/, (_, x) => SIGNS[x.toLowerCase()]);
}

// ---- Keys and buttons -----------------------------------------------------------------------

function press(key, control) {
  if (down.has(key)) return;
  down.set(key, control);
  send({ type: "press", choice: control.choice, action: control.action });
  if (control.repeats) send({ type: "hold", choice: control.choice, action: control.action });
}

function release(key) {
  const control = down.get(key);
  down.delete(key);
  if (!control || !control.repeats) return;
  const still = [...down.values()].filter((x) => x.choice === control.choice && x.repeats).pop();
  send({ type: "hold", choice: control.choice, action: still ? still.action : null });
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

$("leave").onclick = () => send({ type: "leave" });
$("pause").onclick = (event) => { event.target.blur(); send({ type: "pause", on: status !== "paused" }); };
