// What a page says when a game is over: stars, other scores, and what each player did.

import { $, element, facedBy, short } from "./board.js";

const SHARES = [0.25, 0.5, 0.75]; // of the best known score, for each star
const CALM = 700; // for how long a key that was meant for a game does not press a button

export function offerButton(button) {
  button.disabled = true;
  setTimeout(() => { button.disabled = false; button.focus(); }, CALM);
}

export function showEnd({ opening, message, frames, last }) {
  // Shows the element `over`. The frames are all frames of the game, or fewer if the page came later.
  if ($("over").hidden) offerButton($("again"));
  $("over").hidden = false;
  $("result").textContent = message.text;
  $("status").textContent = "";
  const { seat, seats, pictures, optimum } = opening;
  const mean = sum(last.scores) / last.scores.length;
  const kind = new Set(last.scores).size > 1 ? " (mean of all agents)" : "";
  const needed = message.finished && optimum > 0 ? SHARES.map((share) => share * optimum) : [];
  const stars = needed.filter((score) => mean >= score).length;
  const label = { class: "stars", role: "img", "aria-label": `${stars} of ${needed.length} stars` };
  const isBest = message.finished && mean > message.best;
  const compared = [
    stars < needed.length && `Next star: ${short(needed[stars])}.`,
    optimum && `Best known score${kind}: ${short(optimum)}.`,
    message.best && (isBest ? `This game is the best on this server so far (before: ${short(message.best)}).`
      : `Best on this server so far${kind}: ${short(message.best)}.`),
  ];
  const did = last.step && frames.length > last.step ? whatEachDid(frames, opening) : [];
  const says = [
    compared.filter(Boolean).join(" "),
    mean <= 0 && last.step && `No points this time. ${pictures.map(([, caption]) => caption).join(" ")}`,
    ...did.filter((_, i) => seats.length < 5 || i === seat), // not a line for each of many
  ];
  $("end").replaceChildren(...says.filter(Boolean).map((text) => element("p", text)));
  if (needed.length) $("end").prepend(element("p", "★".repeat(stars).padEnd(needed.length, "☆"), label));
}

function whatEachDid(frames, { seat, seats, width }) {
  // A line for each player: objects that it brought for a reward, objects that another one took over, and waiting.
  const tallies = seats.map(() => ({ brought: {}, handed: 0, stayed: 0 }));
  const lying = new Map(); // who has put down which object, by its cell
  frames.slice(1).forEach((frame, i) => {
    const before = frames[i];
    const rewarded = sum(frame.scores) > sum(before.scores);
    const cells = before.agents.map((agent) => facedBy(agent, width));
    tallies.forEach((own, who) => {
      const object = before.held[who];
      own.stayed += frame.agents[who][0] >= 0 && !frame.acted[who];
      if (!object || frame.held[who]) return;
      lying.set(cells[who], { object, giver: own });
      if (rewarded && !isChanged(before, frame, cells[who])) own.brought[object] = (own.brought[object] || 0) + 1;
    });
    tallies.forEach((own, who) => {
      if (before.held[who] || !frame.held[who]) return;
      const put = lying.get(cells[who]);
      if (put?.object === frame.held[who] && put.giver !== own) put.giver.handed += 1;
      lying.delete(cells[who]);
    });
  });
  const objects = [...new Set(tallies.flatMap(({ brought }) => Object.keys(brought)))];
  const hands = tallies.some(({ handed }) => handed);
  return tallies.map(({ brought, handed, stayed }, i) => `${i + 1}, ${i === seat ? "you" : seats[i]}: ${[
    ...objects.map((object) => count(brought[object], object)),
    ...(hands ? [count(handed, "hand-over")] : []),
    `waited ${Math.round((100 * stayed) / (frames.length - 1))}% of the time`,
  ].join(" · ")}`);
}

const sum = (scores) => scores.reduce((total, x) => total + x, 0);
const count = (number, name) => `${number || "no"} ${name}${number === 1 ? "" : "s"}`;

function isChanged(before, frame, place) {
  // Whether a step has changed a cell. Frames have all cells, or those that changed.
  const [old, now] = [before, frame].map(({ cells }) => cells.find(([cell]) => cell === place));
  return now !== undefined && String(now) !== String(old);
}
