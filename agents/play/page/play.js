// The page: a menu, and a game that is drawn as it is played. The server has the clock and the rules.

const $ = (id) => document.getElementById(id);
const PAD = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
const SIGNS = { up: "▲", down: "▼", left: "◀", right: "▶" };

// ---- Pictures -------------------------------------------------------------------------------

class Board {
  // A grid of pictures on a canvas, at any size.
  constructor(canvas) {
    this.canvas = canvas;
    this.images = new Map();
    this.clear(1, 1);
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  clear(height, width) {
    this.height = height;
    this.width = width;
    this.cells = new Array(height * width).fill(-1);
    this.own = null;
  }

  add(pictures) {
    for (const [number, png] of Object.entries(pictures)) {
      const image = new Image();
      image.src = `data:image/png;base64,${png}`;
      this.images.set(Number(number), image);
      image.decode().then(() => this.draw(), () => {});
    }
  }

  show(frame) {
    this.add(frame.pictures);
    for (const [place, number] of frame.cells) this.cells[place] = number;
    this.draw();
  }

  draw() {
    const scale = window.devicePixelRatio || 1;
    const box = this.canvas.getBoundingClientRect();
    const [wide, high] = [Math.round(box.width * scale), Math.round(box.height * scale)];
    if (!wide || !high) return;
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
    }
    const side = Math.floor(Math.min(wide / this.width, high / this.height));
    const left = Math.floor((wide - side * this.width) / 2);
    const top = Math.floor((high - side * this.height) / 2);
    const pen = this.canvas.getContext("2d");
    pen.clearRect(0, 0, wide, high);
    pen.imageSmoothingQuality = "high";
    this.cells.forEach((number, place) => {
      const image = this.images.get(number);
      if (!image || !image.complete || !image.naturalWidth) return;
      const [x, y] = [place % this.width, Math.floor(place / this.width)];
      pen.drawImage(image, left + x * side, top + y * side, side, side);
    });
    if (this.own !== null) this.mark(pen, left, top, side);
  }

  mark(pen, left, top, side) {
    // A triangle over one's own agent.
    const x = left + ((this.own % this.width) + 0.5) * side;
    const y = top + Math.floor(this.own / this.width) * side + 0.16 * side;
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x - 0.13 * side, y - 0.2 * side);
    pen.lineTo(x + 0.13 * side, y - 0.2 * side);
    pen.closePath();
    pen.fillStyle = "#ffffff";
    pen.strokeStyle = "#23272f";
    pen.lineWidth = Math.max(1, 0.035 * side);
    pen.stroke();
    pen.fill();
  }
}

// ---- Menu -----------------------------------------------------------------------------------

const preview = new Board($("preview"));
let chosen = { layout: 0, partner: null, seat: 0 };
let offered = null;

async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.text || "This did not work.");
  return found;
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function nameOf(key) {
  const names = { Space: "space", Enter: "enter" };
  return names[key] || key.replace(/^(Key|Digit)/, "").replace(/^Arrow(.*)$/, (_, x) => SIGNS[x.toLowerCase()]);
}

function show(name) {
  for (const id of ["menu", "game", "watch"]) $(id).hidden = id !== name;
}

async function showMenu() {
  leaveSocket();
  stop();
  show("menu");
  $("sorry").textContent = "";
  try {
    const menu = await ask("api/menu");
    $("layouts").replaceChildren(...menu.layouts.map((title, number) => {
      const button = element("button", title, { type: "button", role: "radio" });
      button.onclick = () => choose(number);
      return button;
    }));
    $("layouts").hidden = menu.layouts.length < 2;
    await Promise.all([choose(Math.min(chosen.layout, menu.layouts.length - 1)), showShelf()]);
  } catch (error) {
    $("sorry").textContent = error.message;
  }
}

async function choose(number) {
  chosen.layout = number;
  [...$("layouts").children].forEach((button, i) => button.setAttribute("aria-checked", i === number));
  $("start").disabled = true;
  $("sorry").textContent = "";
  try {
    const found = await ask(`api/layouts/${number}`);
    if (chosen.layout !== number) return;
    offered = found;
  } catch (error) {
    $("sorry").textContent = error.message;
    return;
  }
  preview.clear(offered.height, offered.width);
  $("preview").style.aspectRatio = `${offered.width} / ${offered.height}`;
  preview.show(offered.frame);
  $("notes").replaceChildren(...offered.notes.map((note) => element("li", note)));
  const partners = offered.offers.map((offer) => element("option", offer.name, { value: offer.key }));
  if (offered.seats > 1) partners.push(element("option", "another person, by a link", { value: "person" }));
  $("partner").replaceChildren(...partners);
  if (partners.some((x) => x.value === chosen.partner)) $("partner").value = chosen.partner;
  const seats = Array.from({ length: offered.seats }, (_, i) => element("option", `${i + 1}`, { value: i }));
  seats.push(element("option", "none: only watch", { value: -1 }));
  $("seat").replaceChildren(...seats);
  $("seat").value = String(chosen.seat < offered.seats ? chosen.seat : 0);
  $("keys").replaceChildren(...offered.controls.filter((x) => x.keys.length).flatMap((control) => [
    element("dt", control.keys.map(nameOf).join(" or ")),
    element("dd", control.name.replace(/_/g, " ")),
  ]));
  $("start").disabled = false;
}

async function start() {
  chosen.partner = $("partner").value;
  chosen.seat = Number($("seat").value);
  const seats = Array.from({ length: offered.seats }, (_, i) => (i === chosen.seat ? "person" : chosen.partner));
  try {
    const made = await ask("api/games", { layout: chosen.layout, seats });
    const token = chosen.seat >= 0 ? made.tokens[chosen.seat] : made.watch;
    const other = made.tokens.find((x, i) => x && i !== chosen.seat);
    sessionStorage.setItem(`invite-${made.game}`, other ? address(made.game, other) : "");
    location.hash = `/${made.game}/${token}`;
  } catch (error) {
    show("menu");
    $("sorry").textContent = error.message;
  }
}

const address = (game, token) => `${location.origin}${location.pathname}#/${game}/${token}`;

// ---- Game -----------------------------------------------------------------------------------

const board = new Board($("world"));
let socket = null;
let here = null; // the game and the token in the address
let opening = null;
let status = "";
let attempts = 0;
const down = new Map(); // keys that are held down, with their controls

function leaveSocket() {
  if (socket) socket.onclose = null;
  if (socket) socket.close();
  socket = null;
  here = null;
  opening = null;
}

function enter(game, token) {
  leaveSocket();
  here = { game, token };
  attempts = 0;
  status = "";
  stop();
  show("game");
  $("over").hidden = true;
  $("status").textContent = "Connecting";
  const invite = sessionStorage.getItem(`invite-${game}`) || "";
  $("link").value = invite;
  connect();
}

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const base = location.pathname.replace(/[^/]*$/, "");
  const { game, token } = here;
  socket = new WebSocket(`${scheme}://${location.host}${base}api/games/${encodeURIComponent(game)}`);
  socket.onopen = () => send({ type: "join", token });
  socket.onmessage = (event) => receive(JSON.parse(event.data));
  socket.onclose = () => {
    if (!here || ["over", "replaced", "refused"].includes(status)) return;
    attempts += 1;
    $("status").textContent = "The connection was lost. Trying again.";
    setTimeout(() => here && connect(), Math.min(5000, 300 * attempts));
  };
}

function send(message) {
  if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

function receive(message) {
  if (message.type === "opening") open(message);
  if (message.type === "frame") showFrame(message);
  if (message.type === "status") showStatus(message);
  if (message.type === "refusal") {
    if (!opening) status = "refused";
    $("status").textContent = message.text;
  }
}

function open(message) {
  opening = message;
  attempts = 0;
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
  $("held").parentElement.hidden = !plays;
  makeButtons(message.controls);
}

function showFrame(frame) {
  board.own = opening.seat >= 0 ? frame.places[opening.seat] : null;
  board.show(frame);
  $("score").textContent = Number(frame.score.toFixed(2));
  const left = opening.horizon === null ? null : (opening.horizon - frame.step) / opening.ticks_per_second;
  $("time").textContent = left === null ? frame.step : `${Math.max(0, Math.ceil(left))} s`;
  $("held").textContent = opening.seat >= 0 ? frame.held[opening.seat] || "nothing" : "";
}

function showStatus(message) {
  status = message.status;
  $("status").textContent = message.text;
  $("pause").textContent = status === "paused" ? "Go on" : "Pause";
  $("invite").hidden = !(status === "waiting" && $("link").value);
  const over = status === "over";
  $("over").hidden = !over;
  $("stage").style.opacity = status === "playing" || over ? 1 : 0.6;
  if (over) {
    $("result").textContent = message.text;
    $("status").textContent = "";
    for (const [id, file] of [["film", "film.gif"], ["record", "record"]]) {
      $(id).href = `api/games/${encodeURIComponent(here.game)}/${file}?token=${encodeURIComponent(here.token)}`;
    }
    $("look").href = `#/again/${here.game}/${here.token}`;
    $("again").hidden = offered === null || opening.seat < 0;
    for (const id of ["pause", "leave"]) $(id).hidden = true;
  }
}

// ---- Recorded games -------------------------------------------------------------------------

const watched = new Board($("watched"));
let tape = null; // the game that is looked at, with all its pictures
let at = 0;
let running = 0;

async function showShelf() {
  const { games } = await ask("api/recordings");
  $("recordings").hidden = !games.length;
  $("shelf").replaceChildren(...games.map((game, number) => {
    const link = element("a", `${game.title}: ${game.seats.join(" and ")}, score ${game.score}`, {
      href: `#/watch/${number}`,
    });
    const entry = element("li");
    entry.append(link);
    return entry;
  }));
}

async function watch(path, query) {
  leaveSocket();
  stop();
  show("watch");
  tape = null;
  $("watch-status").textContent = "Reading the game";
  let found;
  try {
    found = await ask(`${path}/scenes${query}`);
  } catch (error) {
    $("watch-status").textContent = error.message;
    return;
  }
  tape = { ...found, path, query, cells: [], thoughts: null };
  watched.clear(found.height, found.width);
  watched.images = new Map();
  const cells = new Array(found.height * found.width).fill(-1);
  for (const frame of found.frames) {
    watched.add(frame.pictures);
    for (const [place, number] of frame.cells) cells[place] = number;
    tape.cells.push([...cells]);
  }
  $("slider").max = found.frames.length - 1;
  const names = found.policies.map((name, i) => element("option", name, { value: i }));
  $("mind").replaceChildren(element("option", "choose a policy", { value: "" }), ...names);
  for (const id of ["mind", "mind-label"]) $(id).hidden = !names.length;
  go(0);
}

function go(step) {
  at = Math.max(0, Math.min(step, tape.frames.length - 1));
  watched.cells = tape.cells[at];
  watched.draw();
  $("slider").value = at;
  $("watch-step").textContent = `${at} of ${tape.frames.length}`;
  $("watch-score").textContent = Number(tape.frames[at].score.toFixed(2));
  $("watch-status").textContent = "";
  showThoughts();
}

function showThoughts() {
  const parts = tape.seats.map((name, seat) => {
    const section = element("section");
    section.append(element("h3", `${seat + 1}: ${name}`));
    const taken = [tape.action[at][seat]].flat();
    const words = taken.map((action, choice) => tape.actions[choice][action] ?? "stay");
    const held = tape.frames[at].held[seat];
    section.append(element("p", `takes: ${words.join(", ")}${held ? `; holds: ${held}` : ""}`));
    const mind = tape.thoughts;
    if (!mind) return section;
    mind.probabilities[at][seat].forEach((share, action) => {
      const row = element("div", undefined, action === taken[0] ? { class: "taken" } : {});
      row.append(element("span", tape.actions[0][action]),
        element("progress", undefined, { value: share, max: 1 }),
        element("span", `${Math.round(100 * share)}%`));
      section.append(row);
    });
    if (mind.values) section.append(element("p", `value: ${mind.values[at][seat].toFixed(2)}`));
    return section;
  });
  $("thoughts").replaceChildren(...parts);
}

async function think() {
  tape.thoughts = null;
  const number = $("mind").value;
  if (number !== "") {
    $("watch-status").textContent = "Asking the policy";
    try {
      tape.thoughts = await ask(`${tape.path}/thoughts/${number}${tape.query}`);
    } catch (error) {
      $("watch-status").textContent = error.message;
      return;
    }
  }
  go(at);
}

function stop() {
  clearInterval(running);
  running = 0;
  $("run").textContent = "Run";
}

function run() {
  if (running) return stop();
  if (at >= tape.frames.length - 1) go(0);
  running = setInterval(() => (at < tape.frames.length - 1 ? go(at + 1) : stop()), 160);
  $("run").textContent = "Stop";
}

$("slider").oninput = () => go(Number($("slider").value));
$("run").onclick = () => tape && run();
$("mind").onchange = think;
$("close").onclick = () => { location.hash = ""; };

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

window.addEventListener("keydown", (event) => {
  if (!opening || $("game").hidden || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.tagName === "BUTTON" && ["Space", "Enter"].includes(event.code)) event.target.blur();
  const control = opening.controls.find((x) => x.keys.includes(event.code));
  if (control && status !== "over") {
    event.preventDefault();
    if (!event.repeat) press(event.code, control);
  } else if (["KeyP", "Escape"].includes(event.code) && opening.seat >= 0 && status !== "over") {
    send({ type: "pause", on: status !== "paused" });
  }
});
window.addEventListener("keyup", (event) => release(event.code));
window.addEventListener("blur", releaseAll);

function makeButtons(controls) {
  const [pad, others] = [element("div", undefined, { id: "pad" }), element("div", undefined, { id: "others" })];
  for (const control of controls) {
    const side = PAD[control.keys.find((key) => key in PAD)];
    const button = element("button", SIGNS[side] || control.name.replace(/_/g, " "), { type: "button" });
    if (side) button.className = side;
    button.setAttribute("aria-label", control.name.replace(/_/g, " "));
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

// ---- Address --------------------------------------------------------------------------------

function follow() {
  const [, game, token, more] = location.hash.split("/");
  if (game === "watch") watch(`api/recordings/${Number(token)}`, "");
  else if (game === "again" && more) {
    watch(`api/games/${encodeURIComponent(token)}`, `?token=${encodeURIComponent(more)}`);
  } else if (game && token) enter(game, token);
  else showMenu();
}

$("start").onclick = start;
$("again").onclick = start;
$("back").onclick = () => { location.hash = ""; };
$("leave").onclick = () => send({ type: "leave" });
$("pause").onclick = (event) => { event.target.blur(); send({ type: "pause", on: status !== "paused" }); };
$("copy").onclick = () => navigator.clipboard.writeText($("link").value);
window.addEventListener("hashchange", follow);
follow();
