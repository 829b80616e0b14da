// The page without a server.

import { $, element } from "./board.js";
import { showEnd } from "./end.js";
import { enter } from "./game.js";
import { LocalGame, Replay, World } from "./local.js";

const facts = JSON.parse($("facts").textContent);
const LAST_PICTURE = 500; // for how many milliseconds a video shows the end of the game
let [game, world, pictures] = [null, null, []];
let recorder = null; // of a video

async function bytes(name) {
  // A file within the page, which is compressed with gzip.
  const answer = await fetch(`data:application/octet-stream;base64,${$(`file-${name}`).textContent}`);
  const stream = answer.body.pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function runtime() {
  const { module, binary } = facts.runtime;
  const [script, program] = await Promise.all([bytes(module), bytes(binary)]);
  const ort = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = program.buffer;
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
  stopRecording();
  const seed = crypto.getRandomValues(new Uint32Array(1))[0] >>> 1;
  game = new LocalGame(facts, pictures, Number($("seat").value), seed);
  const mine = game;
  enter("", "", { socket: () => mine, onOver: (_, end) => { showEnd(end); over(); } });
  if (world) mine.enter(world);
}

function over() {
  $("status").textContent = "";
  offer($("record"), new Blob([game.journal()], { type: "application/jsonl" }), "jsonl");
  $("video").hidden = true;
  for (const id of ["record", "look", "make-video"]) $(id).hidden = !game.steps;
  if (!globalThis.MediaRecorder) $("make-video").hidden = true;
}

function offer(link, content, suffix) {
  URL.revokeObjectURL(link.href);
  link.href = URL.createObjectURL(content);
  const time = new Date().toISOString().replace(/[-:]|\..*/g, "").replace("T", "-");
  link.download = `${time}-${game.seed.toString(16)}.${suffix}`;
}

function watch(text, onOver) {
  stopRecording();
  const mine = game;
  enter("", "", { socket: () => new Replay(mine, text), onOver });
}

function makeVideo() {
  // Records the canvas, while the game is shown once more.
  watch("Making a video, which takes as long as the game.", () => {
    over();
    setTimeout(() => recorder === mine && mine.stop(), LAST_PICTURE);
  });
  const parts = [];
  const mimeType = ["video/webm", "video/mp4"].find((type) => MediaRecorder.isTypeSupported(type));
  const mine = new MediaRecorder($("world").captureStream(), { mimeType });
  recorder = mine;
  recorder.ondataavailable = (event) => parts.push(event.data);
  recorder.onstop = () => {
    const type = mine.mimeType.split(";")[0];
    recorder = null;
    offer($("video"), new Blob(parts, { type }), type.split("/")[1]);
    $("video").hidden = false;
  };
  recorder.start();
}

function stopRecording() {
  if (!recorder) return;
  recorder.onstop = null;
  recorder.stop();
  recorder = null;
}

async function load() {
  const loading = Promise.all([runtime(), bytes("start.onnx"), bytes("step.onnx")]);
  loading.catch(() => {}); // which is told below, after the first picture
  const seats = Array.from({ length: facts.seats }, (_, i) => element("option", `${i + 1}`, { value: i }));
  $("seat").replaceChildren(...seats);
  $("place").hidden = facts.seats < 2;
  try {
    pictures = await cut();
    begin();
    performance.mark("first-frame");
    const [ort, ...models] = await loading;
    world = await World.load(ort, models, facts);
    performance.mark("first-step");
    $("loading").hidden = true;
    await game.enter(world);
  } catch (error) {
    $("loading").hidden = false;
    $("loading").textContent = `The game cannot be played in this browser: ${error.message}`;
  }
}

$("again").onclick = begin;
$("look").onclick = () => watch("You watch the game.", over);
$("make-video").onclick = makeVideo;
$("seat").onchange = (event) => { event.target.blur(); begin(); };
document.addEventListener("visibilitychange", () => {
  if (document.hidden && game && game.status.begun) game.send(JSON.stringify({ type: "pause", on: true }));
});
globalThis.eqgrid = { get world() { return world; }, get game() { return game; } }; // for tests and other programs
load();
