// The page without a server.

import { $, element } from "./board.js";
import { enter } from "./game.js";
import { LocalGame, World } from "./local.js";

const facts = JSON.parse($("facts").textContent);
let [game, world, pictures] = [null, null, []];
let address = "";

async function unpack(content) {
  // Undoes gzip, unless the host has done so.
  const [one, two] = new Uint8Array(content, 0, 2);
  if (one !== 0x1f || two !== 0x8b) return new Uint8Array(content);
  const stream = new Blob([content]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function bytes(name) {
  // A file of the page: from its folder, or from within it.
  const inside = $(`file-${name}`);
  const source = inside ? `data:application/octet-stream;base64,${inside.textContent}` : name;
  const answer = await fetch(source);
  if (!answer.ok) throw new Error(`${name} is missing.`);
  return unpack(await answer.arrayBuffer());
}

async function runtime() {
  const [name, binary] = [facts.runtime.module, bytes(`${facts.runtime.binary}.gz`)];
  const inside = $(`file-${name}`);
  const module = inside ? URL.createObjectURL(new Blob([await bytes(name)], { type: "text/javascript" })) : `./${name}`;
  const ort = await import(module);
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = (await binary).buffer;
  return ort;
}

async function cut() {
  // The pictures of the sheet.
  const { side, columns } = facts.sheet;
  const image = await createImageBitmap(new Blob([await bytes("sheet.png")], { type: "image/png" }));
  const count = columns * (image.height / side);
  return Promise.all(Array.from({ length: count }, (_, i) => (
    createImageBitmap(image, side * (i % columns), side * Math.floor(i / columns), side, side)
  )));
}

function begin() {
  $("over").hidden = true;
  const seed = crypto.getRandomValues(new Uint32Array(1))[0] >>> 1;
  game = new LocalGame(facts, pictures, Number($("seat").value), seed);
  const mine = game;
  enter("", "", {
    socket: () => mine,
    onOver: (text) => {
      $("over").hidden = false;
      $("result").textContent = text;
      $("status").textContent = "";
      URL.revokeObjectURL(address);
      address = URL.createObjectURL(new Blob([mine.journal()], { type: "application/jsonl" }));
      $("record").href = address;
      const time = new Date().toISOString().replace(/[-:]|\..*/g, "").replace("T", "-");
      $("record").download = `${time}-${mine.seed.toString(16)}.jsonl`;
      $("record").hidden = !mine.steps;
    },
  });
  if (world) mine.enter(world);
}

async function load() {
  const loading = runtime();
  const models = { "start.onnx.gz": bytes("start.onnx.gz"), "step.onnx.gz": bytes("step.onnx.gz") };
  const seats = Array.from({ length: facts.seats }, (_, i) => element("option", `${i + 1}`, { value: i }));
  $("seat").replaceChildren(...seats);
  $("seat").value = String(facts.seat);
  $("place").hidden = facts.seats < 2;
  pictures = await cut();
  begin();
  performance.mark("first-frame");
  try {
    world = await World.load(await loading, (name) => models[name], facts);
    performance.mark("first-step");
    await game.enter(world);
  } catch (error) {
    $("status").textContent = `The game cannot be played in this browser: ${error.message}`;
  }
}

$("again").onclick = begin;
$("seat").onchange = (event) => { event.target.blur(); begin(); };
document.addEventListener("visibilitychange", () => {
  if (document.hidden && game && game.status.begun) game.send(JSON.stringify({ type: "pause", on: true }));
});
globalThis.eqgrid = { get world() { return world; }, get game() { return game; } }; // for tests and other programs
load();
