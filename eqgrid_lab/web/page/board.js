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

const short = (score) => String(Number(score.toFixed(2)));

export function scoresOf(scores, seat = -1) {
  // The score of the agent in a seat; and, if agents have different scores, the mean of all.
  const mean = short(scores.reduce((sum, x) => sum + x, 0) / scores.length);
  if (seat < 0 || scores.every((x) => x === scores[0])) return [mean, null];
  return [short(scores[seat]), mean];
}

export function scoreInWords(scores, seat) {
  const [own, mean] = scoresOf(scores, seat);
  return mean === null ? own : `${own} (mean of all agents: ${mean})`;
}

export class Board {
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
    this.cells.forEach((numbers, place) => { // one picture, or several from the lowest to the uppermost
      const [x, y] = [place % this.width, Math.floor(place / this.width)];
      for (const number of [numbers].flat()) {
        const image = this.images.get(number);
        if (image && image.complete !== false && image.naturalWidth !== 0) {
          pen.drawImage(image, left + x * side, top + y * side, side, side);
        }
      }
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
