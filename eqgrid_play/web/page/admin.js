// The page of who runs a study: who is where, and which games go on.

import { $, ask, element, table } from "./board.js";
import { enter, leaveSocket } from "./game.js";

const token = location.hash.slice(1);
let stopped = false;
const call = (path, body) => ask(path, body, { "X-Token": token });

function watch(game) {
  const made = element("button", "Watch", { type: "button" });
  made.onclick = () => {
    $("game").hidden = false;
    $("over").hidden = true;
    enter(game.game, game.watch, { onOver: (text) => { $("over").hidden = false; $("result").textContent = text; } });
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
  table("games", ["game", "layout", "people", "step", "score", ""],
    found.games.map((x) => [x.game, x.layout, x.people.join(", "), x.step, [...new Set(x.scores)].join(", "), watch(x)]));
  table("people", ["person", "id", "same as", "stage", "state", "code", "came", "last heard of"],
    found.people.map((x) => [x.person, x.id, x.same_as, `${Math.min(x.stage + 1, found.stages)} of ${found.stages}`,
      x.outcome || "on the way", x.code, x.started.slice(0, 16).replace("T", " "), x.seen.slice(11, 19)]).reverse());
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
