// The page of who runs a study: who is where, and which games go on.

import { $, ask, element, short, table } from "./board.js";
import { enter, leaveSocket } from "./game.js";

const token = location.hash.slice(1);
let stopped = false;
const call = (path, body) => ask(path, body, { "X-Token": token });

function watch(game) {
  const made = element("button", "Watch", { type: "button" });
  made.onclick = () => {
    $("game").hidden = false;
    $("over").hidden = true;
    enter(game.file, game.watch, { onOver: (text) => { $("over").hidden = false; $("result").textContent = text; } });
    $("game").scrollIntoView();
  };
  return made;
}

async function refresh() {
  let found;
  try {
    found = await call("api/admin");
  } catch (error) {
    $("problem").textContent = error.message;
    return;
  }
  $("problem").textContent = "";
  $("title").textContent = found.title;
  stopped = found.stopped;
  $("stop").textContent = stopped ? "Let the study go on" : "Stop the study";
  const everybody = Object.values(found.outcomes).reduce((sum, x) => sum + x, 0); // a person in two browsers counts once
  $("summary").textContent = `${everybody} people: ${Object.entries(found.outcomes).map(([end, x]) => `${x} ${end}`).join(", ")}.`
    + (found.stopped ? " The study is stopped: nobody can join, and no new game begins." : "");
  showPeople(found);
}

function showPeople({ people, stages }) {
  // Away people come first, then connected people, and then people who have reached the end.
  const rank = (x) => (x.outcome ? 2 : x.away ? 0 : 1);
  const sorted = [...people].sort((x, y) => rank(x) - rank(y) || y.person - x.person);
  const time = (at) => new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const state = (x) => [`○ away since ${time(x.seen)}`, "● connected", `${x.outcome === "finished" ? "✓" : "✕"} ${x.outcome}`][rank(x)];
  const minutes = (x) => Math.round(((x.finished ? new Date(x.finished) : Date.now()) - new Date(x.started)) / 60000);
  table("people", ["person", "id", "state", "stage", "order", "game", "score", "missed", "minutes", "code", ""],
    sorted.map((x) => [x.person, `${x.id ?? ""}${x.same_as ? ` (as ${x.same_as})` : ""}`, state(x),
      `${Math.min(x.stage + 1, stages)} of ${stages}`, x.order.join(", "), x.game, x.file ? short(x.score) : "", x.missed || "", minutes(x), x.code, x.file ? watch(x) : ""]));
  sorted.forEach((x, i) => { $("people").rows[i + 1].className = ["away", "", "ended"][rank(x)]; });
}

$("stop").onclick = async () => {
  const question = stopped
    ? "Let the study go on? People can then join and play again."
    : "Stop the study? Games that go on are finished, and nobody can begin another.";
  if (!window.confirm(question)) return;
  try {
    await call("api/admin/stop", { on: !stopped });
  } catch (error) {
    $("problem").textContent = error.message;
    return;
  }
  refresh();
};
$("go-on").onclick = () => { leaveSocket(); $("game").hidden = true; };
$("go-on").textContent = "Close";
refresh();
setInterval(refresh, 2000);
