// The page of free play: a menu, games, and recorded games to look at.

import { $, Board, ask, element, rewardsIn, short, showDisplay, table } from "./board.js";
import { showEnd } from "./end.js";
import { enter, keyboard, leaveSocket, showRules } from "./game.js";

// ---- Menu -----------------------------------------------------------------------------------

const preview = new Board($("preview"));
let chosen = { layout: 0, partners: [], seat: 0 }; // the partners by their seats
let offered = null;
let choosing = 0; // the request for a layout that was made last

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
      const [label, radio] = [element("label"), element("input", undefined, { type: "radio", name: "layout" })];
      radio.onchange = () => choose(number);
      const picture = { src: `api/layouts/${number}/picture.png`, alt: "", loading: "lazy" };
      label.append(radio, element("img", undefined, picture), title.replaceAll("_", " "));
      return label;
    }));
    $("layouts").hidden = menu.layouts.length < 2;
    for (const id of ["heading", "notes", "choices"]) $(id).hidden = !menu.layouts.length; // as in `eqgrid watch`
    const last = menu.layouts.length - 1;
    await Promise.all([last < 0 || choose(Math.min(chosen.layout, last)), showShelf()]);
  } catch (error) {
    $("sorry").textContent = error.message;
  }
}

async function choose(number) {
  chosen.layout = number;
  [...$("layouts").children].forEach((label, i) => { label.firstChild.checked = i === number; });
  $("start").disabled = true;
  $("sorry").textContent = "";
  const mine = ++choosing;
  try {
    const found = await ask(`api/layouts/${number}?seat=${chosen.seat}`);
    if (mine !== choosing) return;
    offered = found;
    showLayout();
    const { offers } = await ask(`api/layouts/${number}/partners`);
    if (mine !== choosing) return;
    offered.offers = offers;
    takeSeat();
    $("start").disabled = false;
  } catch (error) {
    if (mine === choosing) $("sorry").textContent = error.message;
  }
}

function showLayout() {
  preview.clear(offered.height, offered.width);
  $("preview").style.aspectRatio = `${offered.width} / ${offered.height}`;
  preview.show(offered.frame);
  showRules("notes", offered);
  const seats = Array.from({ length: offered.seats }, (_, i) => element("option", `${i + 1}`, { value: i }));
  seats.push(element("option", "none: only watch", { value: -1 }));
  $("seat").replaceChildren(...seats);
  $("seat").value = String(chosen.seat < offered.seats ? chosen.seat : 0);
  chosen.seat = Number($("seat").value);
  preview.own = chosen.seat;
  preview.named = true;
  preview.draw();
  $("partners").replaceChildren(element("p", "Preparing the partners."));
  $("keys").replaceChildren(element("h2", "Keys"), ...keyboard(offered.controls));
}

function takeSeat() {
  // Asks who has each of the other seats.
  const others = Array.from({ length: offered.seats }, (_, i) => i).filter((i) => i !== chosen.seat);
  if (!others.length) return $("partners").replaceChildren();
  const single = others.length === 1 && chosen.seat >= 0;
  const own = others.map((seat, i) => choosePartner([seat], `partner-${i + 2}`, `At place ${seat + 1}`));
  if (own.length < 2) {
    return $("partners").replaceChildren(...choosePartner(others, "partner", single ? "Your partner" : "Partner"));
  }
  // One choice for all places, or one for each of them.
  const each = element("details");
  each.append(element("summary", "Choose each partner"), ...own.flat());
  return $("partners").replaceChildren(...choosePartner(others, "partner", "All partners"), each);
}

function choosePartner(seats, id, text) {
  const options = offered.offers.map((offer) => element("option", offer.name, { value: offer.key }));
  if (offered.seats > 1) options.push(element("option", "another person, by a link", { value: "person" }));
  const select = element("select", undefined, { id, class: "partner" });
  select.replaceChildren(...options);
  const before = chosen.partners[seats[0]] ?? chosen.partners.find((x) => x);
  if (options.some((x) => x.value === before)) select.value = before;
  const has = (value) => options.some((x) => x.value === value);
  for (const seat of seats.filter((x) => !has(chosen.partners[x]))) chosen.partners[seat] = select.value;
  select.onchange = () => {
    for (const seat of seats) chosen.partners[seat] = select.value;
    if (seats.length > 1) takeSeat();
  };
  return [element("label", text, { for: id }), select];
}

async function start() {
  const seats = Array.from({ length: offered.seats }, (_, i) => (i === chosen.seat ? "person" : chosen.partners[i]));
  try {
    const made = await ask("api/games", { layout: chosen.layout, seats });
    const token = chosen.seat >= 0 ? made.tokens[chosen.seat] : made.watch;
    invite(made.game, made.tokens.filter((x, i) => x && i !== chosen.seat));
    location.hash = `/${made.game}/${token}`;
  } catch (error) {
    show("menu");
    $("sorry").textContent = error.message;
  }
}

async function again({ game, token }) {
  const next = (own) => ask(`api/games/${encodeURIComponent(game)}/again?token=${encodeURIComponent(own)}`, {});
  try {
    const made = await next(token);
    const others = await Promise.all(invited(game).map(next));
    invite(made.game, others.map((other) => other.token));
    location.hash = `/${made.game}/${made.token}`;
  } catch (error) {
    $("status").textContent = error.message;
  }
}

// The tokens of the other people of a game, which only the page that opened the first game has.
const invited = (game) => JSON.parse(sessionStorage.getItem(`invite-${game}`) || "[]");
const invite = (game, tokens) => sessionStorage.setItem(`invite-${game}`, JSON.stringify(tokens));
const address = (game, token) => `${location.origin}${location.pathname}#/${game}/${token}`;

// ---- Recorded games -------------------------------------------------------------------------

const watched = new Board($("watched"));
const PER_PAGE = 20;
let games = []; // that can be looked at
let shelf = 0; // the page of their list
let tape = null; // the game that is looked at, with all its pictures
let at = 0;
let running = 0;
let request = 0; // of the game or the thoughts that were asked for last

async function showShelf() {
  games = (await ask("api/recordings")).games;
  $("recordings").hidden = !games.length;
  turn(0);
}

function turn(step) {
  // Shows a page of recorded games, the newest ones first.
  const pages = Math.ceil(games.length / PER_PAGE);
  shelf = Math.max(0, Math.min(shelf + step, pages - 1));
  $("pages").hidden = pages < 2;
  $("page-of").textContent = `Page ${shelf + 1} of ${pages}`;
  $("newer").disabled = shelf === 0;
  $("older").disabled = shelf === pages - 1;
  const first = shelf * PER_PAGE;
  table("shelf", ["game", "date", "steps", "score", "agents"], games.slice(first, first + PER_PAGE).map((game, i) => {
    const date = game.started && new Date(game.started).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    const link = element("a", game.title, { href: `#/watch/${first + i}` });
    const scores = new Set(game.scores).size > 1 ? game.scores : game.scores.slice(0, 1);
    return [link, date, game.steps, scores.map(short).join(", "), game.seats.join(", ")];
  }));
}

async function watch(path, query) {
  leaveSocket();
  stop();
  show("watch");
  tape = null;
  const mine = ++request;
  for (const id of ["mind", "mind-label"]) $(id).hidden = true;
  $("thoughts").replaceChildren();
  $("watch-status").textContent = "Reading the game";
  let found;
  try {
    found = await ask(`${path}/scenes${query}`);
  } catch (error) {
    if (mine === request) $("watch-status").textContent = error.message;
    return;
  }
  if (mine !== request) return;
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
  mark(found);
  const names = found.policies.map((name, i) => element("option", name, { value: i }));
  $("mind").replaceChildren(element("option", "choose a policy", { value: "" }), ...names);
  for (const id of ["mind", "mind-label"]) $(id).hidden = !names.length;
  go(0);
  $("slider").focus();
}

function mark({ frames, width }) {
  // Marks the rewards of a game under the slider.
  const events = frames.flatMap((frame, i) => (i ? rewardsIn(frames[i - 1], frame, width).map((x) => [i, x.gain]) : []));
  $("strip").setAttribute("aria-label", `Rewards: ${events.map(([step]) => `step ${step}`).join(", ") || "none"}`);
  $("strip").replaceChildren(...events.map(([step, gain]) => {
    const sign = element("span", undefined, { title: `${gain > 0 ? "+" : ""}${gain} at step ${step}` });
    sign.classList.toggle("loss", gain < 0);
    sign.style.left = `${(100 * step) / Math.max(1, frames.length - 1)}%`;
    return sign;
  }));
}

function go(step) {
  if (!tape) return;
  const before = at;
  at = Math.max(0, Math.min(step, tape.frames.length - 1));
  watched.cells = tape.cells[at];
  watched.show({ ...tape.frames[at], cells: [], pictures: {} });
  if (before === at - 1) watched.celebrate(rewardsIn(tape.frames[before], tape.frames[at], tape.width));
  $("slider").value = at;
  showDisplay("watch-display", tape.frames[at].display);
  $("watch-status").textContent = "";
  showThoughts();
}

function showThoughts() {
  const parts = tape.seats.map((name, seat) => {
    const section = element("section");
    section.append(element("h3", `${seat + 1}: ${name}`));
    const taken = at < tape.action.length ? [tape.action[at][seat]].flat() : [];
    const words = taken.map((action, choice) => tape.actions[choice][action] ?? "stay");
    const { held: { [seat]: held }, scores } = tape.frames[at];
    const score = new Set(scores).size > 1 ? `score: ${short(scores[seat])}` : "";
    const says = [score, words.length ? `takes: ${words.join(", ")}` : "", held ? `holds: ${held}` : ""];
    section.append(element("p", says.filter((x) => x).join("; ")));
    const mind = tape.thoughts;
    if (!mind) return section;
    mind.probabilities[at][seat].forEach((share, action) => {
      const row = element("div", undefined, action === taken[0] ? { class: "taken" } : {});
      row.append(element("span", tape.actions[0][action]),
        element("progress", undefined, { value: share, max: 1 }),
        element("span", `${Math.round(100 * share)}%`));
      section.append(row);
    });
    if (mind.values) section.append(element("p", `value: ${mind.values[at][seat].toFixed(2)} (what its critic expects, in the units of its training)`));
    return section;
  });
  $("thoughts").replaceChildren(...parts);
}

async function think() {
  tape.thoughts = null;
  const number = $("mind").value;
  const mine = ++request;
  if (number !== "") {
    $("watch-status").textContent = "Asking the policy";
    let found;
    try {
      found = await ask(`${tape.path}/thoughts/${number}${tape.query}`);
    } catch (error) {
      if (mine === request) $("watch-status").textContent = error.message;
      return;
    }
    if (mine !== request) return;
    tape.thoughts = found;
  }
  go(at);
}

function stop() {
  clearInterval(running);
  running = 0;
  $("run").textContent = "Play";
}

function run() {
  if (running) return stop();
  if (at >= tape.frames.length - 1) go(0);
  running = setInterval(() => (at < tape.frames.length - 1 ? go(at + 1) : stop()), 160);
  $("run").textContent = "Stop";
}

$("slider").oninput = () => go(Number($("slider").value));
$("run").onclick = () => tape && run();
$("newer").onclick = () => turn(-1);
$("older").onclick = () => turn(1);
$("mind").onchange = think;
$("close").onclick = () => { location.hash = ""; };

// ---- Address --------------------------------------------------------------------------------

function invitation(link) {
  const entry = element("p");
  const field = element("input", undefined, { readonly: "", "aria-label": "Address for another person", class: "link" });
  field.value = link;
  const copy = element("button", "Copy", { type: "button" });
  copy.onclick = async () => {
    field.select();
    try {
      await navigator.clipboard.writeText(link);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Press Ctrl-C";
    }
  };
  entry.append(field, copy);
  if ($("local").hidden) {
    const add = ({ picture }) => entry.append(element("img", undefined, { src: picture, alt: "QR code of the link" }));
    ask("api/qr", link).then(add, () => {}); // the link itself is there
  }
  return entry;
}

function play(game, token) {
  stop();
  show("game");
  $("over").hidden = true;
  const links = invited(game).map((other) => address(game, other));
  $("local").hidden = !["127.0.0.1", "localhost", "[::1]"].includes(location.hostname);
  $("links").replaceChildren(...links.map(invitation));
  enter(game, token, {
    onStatus: (message) => { $("invite").hidden = !(message.missing && links.length); },
    onOver: (_, end) => {
      const { here, opening, last } = end;
      showEnd(end);
      for (const id of ["look", "video", "record"]) $(id).hidden = !last.step;
      for (const [id, file] of [["video", "video.gif"], ["record", "record"]]) {
        $(id).href = `api/games/${encodeURIComponent(here.game)}/${file}?token=${encodeURIComponent(here.token)}`;
      }
      $("look").href = `#/again/${here.game}/${here.token}`;
      $("again").hidden = opening.seat < 0;
      $("again").onclick = () => again(here);
    },
  });
}

function follow() {
  const [, game, token, more] = location.hash.split("/");
  if (game === "watch") watch(`api/recordings/${Number(token)}`, "");
  else if (game === "again" && more) {
    watch(`api/games/${encodeURIComponent(token)}`, `?token=${encodeURIComponent(more)}`);
  } else if (game && token) play(game, token);
  else showMenu();
}

$("seat").onchange = () => {
  chosen.seat = Number($("seat").value);
  choose(chosen.layout);
};
$("start").onclick = start;
$("back").onclick = () => { location.hash = ""; };
const menuButton = element("button", "Menu", { type: "button" });
menuButton.onclick = () => { location.hash = ""; };
$("leave").after(menuButton);
window.addEventListener("hashchange", follow);
follow();
