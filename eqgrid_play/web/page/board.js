// A grid of pictures on a canvas, and small tools of all pages.

export const $ = (id) => document.getElementById(id);

export async function ask(path, body, headers = {}, seconds = 120) {
  const post = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const options = { headers, signal: AbortSignal.timeout?.(1000 * seconds), ...post };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(found.text || "This did not work."), { status: answer.status });
  return found;
}

export function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export const OWN = "#ffd43b"; // the colour of one's own mark

export function setting(name, value) {
  // Reads what this browser remembers, or sets it; null without a storage.
  try {
    if (value !== undefined) localStorage.setItem(`eqgrid-${name}`, value);
    return localStorage.getItem(`eqgrid-${name}`);
  } catch {
    return null;
  }
}

export function table(id, names, rows) {
  const head = element("tr");
  head.append(...names.map((name) => element("th", name)));
  const body = rows.map((row) => {
    const line = element("tr");
    line.append(...row.map((cell) => {
      const made = element("td", cell instanceof Node ? undefined : String(cell ?? ""));
      if (cell instanceof Node) made.append(cell);
      return made;
    }));
    return line;
  });
  $(id).replaceChildren(head, ...body);
}

export const short = (score) => String(Number(score.toFixed(2)));

export function showDisplay(id, display) {
  // Shows the state of a game in words, as the server sends it.
  $(id).replaceChildren(...Object.entries(display).map(([label, text]) => {
    const entry = element("div");
    entry.append(element("dt", label), element("dd", text));
    return entry;
  }));
}

const GLIDE = 120; // how long an agent takes from a cell to the next one, in milliseconds
const RISE = 1000; // how long a reward is shown
export const STEPS = (width) => [-width, width, 1, -1]; // to the cell that an agent faces, by its direction

export const facedBy = ([place, direction], width) => place + STEPS(width)[direction];

export function rewardsIn(before, frame, width) {
  // The rewards of a step and their cells, from the states before and after it: the cell that an agent faced whose
  // hands have changed, and otherwise the agent's cell. A reward that all agents share has one cell.
  const gains = frame.scores.map((score, i) => score - before.scores[i]);
  const worked = frame.held.map((held, i) => held !== before.held[i]);
  const shared = gains.every((gain) => gain === gains[0]);
  const giver = before.held.findIndex((held, i) => held && !frame.held[i]);
  const agents = shared ? [Math.max(0, giver < 0 ? worked.indexOf(true) : giver)] : [...gains.keys()];
  return agents.filter((i) => Math.abs(gains[i]) >= 0.05).map((i) => ({
    place: worked[i] ? facedBy(before.agents[i], width) : frame.agents[i][0],
    gain: gains[i],
  }));
}

export class Board {
  // A grid of pictures on a canvas, at any size, and the pictures of agents over it.
  constructor(canvas) {
    this.canvas = canvas;
    this.images = new Map();
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.clear(1, 1);
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  clear(height, width) {
    Object.assign(this, { height, width, agents: [], before: [], effects: [], own: -1, named: false });
    this.cells = new Array(height * width).fill(-1);
    this.changes = undefined;
    this.moved = [];
    this.shaken = -Infinity;
  }

  add(pictures) {
    for (const [number, png] of Object.entries(pictures)) {
      if (typeof png !== "string") { // it is an image already
        this.images.set(Number(number), png);
        continue;
      }
      const image = new Image();
      image.src = `data:image/png;base64,${png}`;
      this.images.set(Number(number), image);
      image.decode().then(() => this.draw(), () => {});
    }
  }

  show(frame, predict = () => frame) {
    // Shows a frame, or in its place the agents that `predict` returns, and cells that are changed until the next call.
    this.add(frame.pictures);
    for (const [place, number] of frame.cells) this.cells[place] = number;
    const { agents, changes } = predict();
    this.changes = changes;
    this.move(agents);
  }

  move(agents) {
    agents.forEach(([place], i) => {
      const old = this.agents[i]?.[0] ?? -1;
      if (old === place) return;
      this.before[i] = old;
      this.moved[i] = performance.now();
    });
    this.agents = agents;
    this.draw();
  }

  celebrate(rewards) {
    const begun = performance.now();
    this.effects = [...this.effects.filter((x) => begun - x.begun < RISE), ...rewards.map((x) => ({ ...x, begun }))];
    this.draw();
  }

  shake() {
    this.shaken = performance.now();
    this.draw();
  }

  position(agent, now) {
    // Column and row of an agent, which glides to a neighbouring cell, or shakes.
    const [place, from] = [this.agents[agent][0], this.before[agent] ?? -1];
    const at = (cell) => [cell % this.width, Math.floor(cell / this.width)];
    const [[x, y], [oldX, oldY]] = [at(place), at(from)];
    if (this.still.matches) return [x, y];
    const rest = from < 0 || Math.abs(x - oldX) + Math.abs(y - oldY) > 1 ? 0 : Math.max(0, 1 - (now - this.moved[agent]) / GLIDE);
    const shaking = agent === this.own ? Math.max(0, 1 - (now - this.shaken) / (2 * GLIDE)) : 0;
    return [x + (oldX - x) * rest + 0.06 * shaking * Math.sin(20 * shaking), y + (oldY - y) * rest];
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
    const pen = this.canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, wide, high);
    // From now on, the unit of length is a cell.
    const [left, top] = [(wide - side * this.width) / 2, (high - side * this.height) / 2].map(Math.floor);
    pen.setTransform(side, 0, 0, side, left, top);
    pen.imageSmoothingQuality = "high";
    const put = (number, x, y) => {
      const image = this.images.get(number);
      if (image && image.complete !== false && image.naturalWidth !== 0) pen.drawImage(image, x, y, 1, 1);
    };
    this.cells.forEach((numbers, place) => { // one picture, or several from the lowest to the uppermost
      for (const number of [this.changes?.get(place) ?? numbers].flat()) put(number, place % this.width, Math.floor(place / this.width));
    });
    const now = performance.now();
    const shown = [...this.agents.keys()].filter((i) => this.agents[i][0] >= 0);
    if (shown.includes(this.own)) this.ring(pen, ...this.position(this.own, now));
    for (const i of shown) put(this.agents[i][2], ...this.position(i, now));
    if (this.named && shown.includes(this.own)) this.name(pen, ...this.position(this.own, now));
    this.effects = this.effects.filter((x) => now - x.begun < RISE);
    for (const effect of this.effects) this.reward(pen, effect, now);
    const lasts = Math.max(...Array.from(this.moved, (x) => (x ?? 0) + GLIDE), this.shaken + 2 * GLIDE, ...this.effects.map((x) => x.begun + RISE));
    if (now < lasts && !this.waits) {
      this.waits = requestAnimationFrame(() => { this.waits = 0; this.draw(); });
    }
  }

  inCells(cells, pixels) {
    // A height in cells, of at least so many pixels of the page.
    return Math.max(cells, pixels * this.height / this.canvas.getBoundingClientRect().height);
  }

  ring(pen, x, y) {
    // The mark of one's own agent, under all agents and in the same colour in every game.
    for (const [colour, width] of [["#23272f", 0.09], [OWN, 0.055]]) {
      pen.beginPath();
      pen.arc(x + 0.5, y + 0.5, 0.45, 0, 2 * Math.PI);
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.stroke();
    }
  }

  name(pen, x, y) {
    // Names one's own agent, on the side where no other agent stands.
    const above = this.agents.some(([place]) => place === this.agents[this.own][0] - this.width) || y < 0.3;
    const height = this.inCells(0.25, 14);
    this.write(pen, "you", x + 0.5, above ? y + 0.95 + height / 2 : y + 0.05 - height / 2, height, OWN, "#23272f");
  }

  reward(pen, { place, gain, begun }, now) {
    const [x, y] = [place % this.width, Math.floor(place / this.width)];
    const rise = this.still.matches ? 0.5 : (now - begun) / RISE;
    const text = `${gain > 0 ? "+" : "−"}${short(Math.abs(gain))}`;
    this.write(pen, text, x + 0.5, Math.max(0.25, y + 0.3 - 0.5 * rise), this.inCells(0.4, 16), gain > 0 ? "#ffffff" : "#ffd0cb", "#23272f");
  }

  write(pen, text, x, y, height, ground, colour) {
    // A text on a small plate, within the board. Browsers measure a font of 100 pixels well, and one of a pixel badly.
    pen.font = "700 100px system-ui, sans-serif";
    const half = pen.measureText(text).width / 2 + 30;
    const middle = Math.min(Math.max(x, half * height / 100), this.width - half * height / 100);
    pen.save();
    pen.translate(middle, y);
    pen.scale(height / 100, height / 100);
    pen.beginPath();
    pen.roundRect(-half, -60, 2 * half, 120, 30);
    pen.fillStyle = ground;
    pen.fill();
    pen.fillStyle = colour;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(text, 0, 5);
    pen.restore();
  }
}
