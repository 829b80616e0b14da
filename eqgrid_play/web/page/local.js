// A game without a server: the world runs in ONNX Runtime, and speaks the messages of the server with `game.js`.

import { short } from "./board.js";

const WAITING = 2; // how many presses wait for their steps

export class World {
  // The world and its partner, as two models.
  constructor(ort, start, step, facts) {
    Object.assign(this, { ort, facts, models: { start, step } });
  }

  static async load(ort, files, facts) {
    const options = { executionProviders: ["wasm"], logSeverityLevel: 3, graphOptimizationLevel: "disabled" };
    const models = [];
    for (const model of files) models.push(await ort.InferenceSession.create(model, options));
    const world = new World(ort, ...models, facts);
    const { idle, seats } = facts;
    const pressed = Int32Array.from(Array.from({ length: seats }, () => idle).flat());
    await world.step(await world.start(0), pressed, seats - 1); // the first step of a model takes longer
    return world;
  }

  async start(seed) {
    const key = new this.ort.Tensor("uint32", Uint32Array.of(0, seed), [2]);
    return this.run("start", { key }, "state_");
  }

  async step(before, pressed, seat) {
    const { seats, choices } = this.facts;
    const person = Uint8Array.from({ length: seats }, (_, i) => Number(i === seat || seat === "all"));
    return this.run("step", {
      ...before.state,
      pressed: new this.ort.Tensor("int32", pressed, choices === null ? [seats] : [seats, choices]),
      person: new this.ort.Tensor("bool", person, [seats]),
    }, "next_");
  }

  async run(name, inputs, prefix) {
    const model = this.models[name];
    const given = Object.fromEntries(model.inputNames.map((input) => [input, inputs[input]]));
    const found = await model.run(given);
    const state = {};
    for (const [output, tensor] of Object.entries(found)) {
      if (output.startsWith(prefix)) state[`state_${output.slice(prefix.length)}`] = tensor;
    }
    return { state, ...found };
  }
}

class Hands {
  // What a person presses between two steps.
  constructor(idle) {
    this.idle = idle;
    this.release();
  }

  release() {
    this.pressed = this.idle.map(() => []);
    this.held = this.idle.map(() => null);
  }

  press(choice, action) {
    this.pressed[choice] = [...this.pressed[choice], action].slice(-WAITING);
  }

  take() {
    return this.idle.map((idle, i) => this.pressed[i].shift() ?? this.held[i] ?? idle);
  }
}

export class LocalGame {
  // Looks like the connection to a server.
  constructor(facts, pictures, seat, seed) {
    Object.assign(this, { facts, pictures, seat, seed, readyState: WebSocket.OPEN });
    this.hands = new Hands(facts.idle);
    this.world = null;
    this.lines = [];
    this.frames = [];
    this.steps = 0;
    this.scores = Array.from({ length: facts.seats }, () => 0);
    this.status = { begun: false, paused: false, left: false, over: false, finished: false };
    queueMicrotask(() => this.open());
  }

  open() {
    const { opening, first, seats, partner } = this.facts;
    const names = Array.from({ length: seats }, (_, i) => (i === this.seat ? "person" : partner));
    const colours = [...opening.colours]; // one's own agent has the first one
    [colours[0], colours[this.seat]] = [colours[this.seat], colours[0]];
    this.opening = { ...opening, seat: this.seat, seats: names, colours };
    this.post(this.opening);
    this.show(first);
    this.tell();
  }

  post(message) {
    if (this.onmessage) this.onmessage({ data: message });
  }

  async enter(world) {
    // The game can begin, now that its world is here.
    this.now = await world.start(this.seed);
    this.world = world;
    this.show(numbersOf(this.now));
    this.tell();
    this.play();
  }

  send(text) {
    const message = JSON.parse(text);
    if (message.type === "ping") return this.post({ type: "pong", sent: message.sent });
    if (message.type === "leave") this.status.left = true;
    if (message.type === "pause") {
      if (message.on !== this.status.paused) this.note(message.on ? "paused" : "resumed");
      this.status.paused = message.on;
      this.hands.release();
    }
    if (message.type === "hold" && !this.status.paused) this.hands.held[message.choice] = message.action;
    if (message.type === "press" && !this.status.paused) {
      this.hands.press(message.choice, message.action);
      this.status.begun = true;
    }
    if (this.world) this.play();
    return this.tell();
  }

  close() {
    this.onmessage = null;
    this.status.left = true;
    clearTimeout(this.timer);
  }

  play() {
    // Plays a step after each period; a late step postpones those after it.
    const { begun, paused, left, over } = this.status;
    if (left && !over) return this.end();
    if (!begun || paused || over || this.timer) return undefined;
    const period = 1000 / this.facts.opening.ticks_per_second;
    this.due = Math.max(this.due ?? performance.now(), performance.now() - period) + period;
    this.timer = setTimeout(async () => {
      if (!this.status.paused && !this.status.left) await this.step();
      this.timer = null;
      if (this.status.paused) this.due = null;
      this.play();
    }, Math.max(0, this.due - performance.now()));
    return undefined;
  }

  async step() {
    this.began ??= performance.now();
    const { idle, seats, choices } = this.facts;
    const own = this.hands.take();
    const pressed = Int32Array.from(Array.from({ length: seats }, (_, i) => (i === this.seat ? own : idle)).flat());
    const time = this.seconds();
    this.now = await this.world.step(this.now, pressed, this.seat);
    const action = [...this.now.action.data];
    const rows = choices === null ? action : Array.from({ length: seats }, (_, i) => action.slice(choices * i, choices * (i + 1)));
    this.lines.push({ action: rows, reward: [...this.now.reward.data], time });
    this.steps += 1;
    this.scores = [...this.now.returns.data];
    this.show(numbersOf(this.now));
    if (this.now.finished.data[0]) this.end(true);
  }

  seconds() {
    return Math.round((performance.now() - this.began) * 10) / 1e4;
  }

  note(event) {
    // Writes down a pause, once the game has begun.
    const playing = this.began !== undefined && !this.status.over;
    if (playing) this.lines.push({ event, seat: this.seat, why: "pause", time: this.seconds() });
  }

  end(finished = false) {
    this.status.over = true;
    this.status.finished = finished;
    this.lines.push(finished ? { end: "finished" } : { end: "left", left: [this.seat] });
    this.tell();
  }

  show(shown) {
    const { sheet, names, idle, opening, horizon, holds } = this.facts;
    const held = shown.held.map((code) => names[code]);
    const [score, mean] = this.scoreTexts();
    const left = Math.max(0, Math.ceil((horizon - this.steps) / opening.ticks_per_second));
    const display = { // as `display` of eqgrid_play/games
      ...(mean ? { "Your score": score, "Mean of all": mean } : { Score: score }),
      ...(horizon === null ? { Step: String(this.steps) } : { "Time left": `${left} s` }),
      ...(holds ? { "You hold": held[this.seat] || "nothing" } : {}),
    };
    const acted = this.steps ? this.lines.at(-1).action.map((own) => String(own) !== String(idle)) : [];
    const pictures = this.frames.length ? {} : Object.fromEntries(this.pictures.entries());
    const frame = { type: "frame", step: this.steps, ...drawn(sheet, shown, this.seat), pictures, scores: this.scores, held, acted, display };
    this.frames.push(frame);
    this.post(frame);
  }

  scoreTexts() {
    // The score of the person; and, if agents have different scores, the mean of all.
    const mean = this.scores.reduce((sum, x) => sum + x, 0) / this.scores.length;
    return [this.scores[this.seat], ...(this.scores.every((x) => x === this.scores[0]) ? [] : [mean])].map(short);
  }

  tell() {
    this.post(this.standing());
  }

  standing() {
    const { begun, paused, over, finished } = this.status;
    const [own, mean] = this.scoreTexts();
    const score = mean ? `${own} (mean of all agents: ${mean})` : own;
    const ended = finished ? "The game is over" : "The game has ended early";
    let [status, text] = ["playing", ""];
    if (over) [status, text] = ["over", `${ended}, with a score of ${score}.`];
    else if (paused) [status, text] = ["paused", "Paused. Press P to continue."];
    else if (!begun) [status, text] = ["waiting", "Press any of your keys or buttons to begin."];
    else if (!this.world) [status, text] = ["preparing", "Loading the kitchen."];
    return { type: "status", status, text, finished };
  }

  journal() {
    // The recording, which replays in Python.
    const { header, seats, partner, sha256 } = this.facts;
    const who = Array.from({ length: seats }, (_, i) => (
      i === this.seat ? { name: "person", human: true } : { name: partner, human: false, sha256 }
    ));
    const started = new Date(performance.timeOrigin + (this.began ?? 0)).toISOString().replace(/\..*/, "+00:00");
    const first = JSON.stringify({ ...header, seed: this.seed, seats: who, started });
    let check = checksum(first, 0);
    const lines = this.lines.map((line) => {
      const text = JSON.stringify(line);
      check = checksum(text, check);
      return `${text.slice(0, -1)},"check":${check}}\n`;
    });
    return [`${first}\n`, ...lines].join("");
  }
}

export class Replay {
  // A game that is over, once more: looks like the connection of a page that watches it.
  constructor(game, text) {
    Object.assign(this, { game, text, readyState: WebSocket.OPEN });
    queueMicrotask(() => this.open());
  }

  open() {
    const { opening, frames } = this.game;
    const waiting = [...frames];
    this.post({ ...opening, seat: -1, controls: [] });
    this.post(waiting.shift());
    this.post({ type: "status", status: "playing", text: this.text });
    this.timer = setInterval(() => {
      if (waiting.length) return this.post(waiting.shift());
      clearInterval(this.timer);
      return this.post(this.game.standing());
    }, 1000 / opening.ticks_per_second);
  }

  post(message) {
    if (this.onmessage) this.onmessage({ data: message });
  }

  send(text) {
    const { type, sent } = JSON.parse(text);
    if (type === "ping") this.post({ type: "pong", sent });
  }

  close() {
    this.onmessage = null;
    clearInterval(this.timer);
  }
}

function checksum(text, before) {
  // CRC-32 of a text that continues another one.
  let check = ~before;
  for (const byte of new TextEncoder().encode(text)) {
    check ^= byte;
    for (let bit = 0; bit < 8; bit += 1) check = (check >>> 1) ^ (check & 1 ? 0xedb88320 : 0);
  }
  return ~check >>> 0;
}

function numbersOf(state) {
  const names = ["lying", "timer", "place", "direction", "held", "extra"];
  return Object.fromEntries(names.map((name) => [name, [...state[name].data]]));
}

function drawn(sheet, shown, seat) {
  // The pictures of each cell, from the lowest to the uppermost, and of each agent, for the person in a seat.
  const cells = sheet.tiles.map((kind, place) => {
    const known = sheet.looks[kind];
    return [place, [...known[shown.lying[place] + sheet.codes * (shown.timer[place] + 1)]]];
  });
  const agents = shown.place.map((place, agent) => {
    const direction = shown.direction[agent];
    return [place, direction, sheet.agents[seat][agent][direction + 4 * (shown.held[agent] + sheet.codes * shown.extra[agent])]];
  });
  return { cells, agents };
}
