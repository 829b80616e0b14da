// The page of a person in a study: one stage after another, as the server says.

import { $, ask, element } from "./board.js";
import { offerButton } from "./end.js";
import { enter, leaveSocket } from "./game.js";

const HERE = 20000; // how often the server is told that somebody is still there, in milliseconds
const ANSWER = 30; // after how many seconds without an answer the connection counts as lost
const AGAIN = 5000; // after how many milliseconds the page tries again by itself
const LONGEST = 5000; // the letters of an answer
const TRIES = 5; // the number of requests by which the connection is measured

let token = null; // by which the server knows this browser
let at = ""; // the place in the study, which answers name
let asking = null; // the request for what comes next, of which there is one at a time
let retry = 0;
let study = "Study"; // its title

const call = (path, body) => ask(path, body, { "X-Token": token }, ANSWER);

function show(name) {
  $("stage-page").hidden = name !== "stage";
  $("game").hidden = name !== "game";
}

function paragraphs(text) {
  return text.trim().split(/\n\s*\n/).map((part) => element("p", part.trim()));
}

function button(text, action, strong = false) {
  const made = element("button", text, { type: "button", ...(strong ? { class: "strong" } : {}) });
  made.onclick = async () => {
    made.disabled = true;
    await action();
    made.disabled = false;
  };
  return made;
}

function present(title, content, choice) {
  leaveSocket();
  show("stage");
  $("problem").textContent = "";
  $("title").textContent = title || study;
  $("content").replaceChildren(...content);
  $("choice").replaceChildren(...choice);
  window.scrollTo(0, 0);
}

function copyOf(...consent) {
  // A link that saves the paragraphs of the consent as a file.
  const href = URL.createObjectURL(new Blob([consent.join("\n\n")], { type: "text/plain;charset=utf-8" }));
  return element("a", "Save a copy of the consent", { id: "copy", href, download: "consent.txt" });
}

async function measure() {
  // The median time of some requests, in milliseconds.
  present("One moment", paragraphs("Your connection is being measured."), []);
  const times = [];
  for (let begun = performance.now(); times.length < TRIES; begun = performance.now()) {
    await ask("api/study");
    times.push(performance.now() - begun);
  }
  return Math.round(times.sort((a, b) => a - b)[(TRIES - 1) / 2]);
}

async function answer(answers) {
  try {
    await call("api/study/answer", { at, answers });
  } catch (error) {
    if (error.status === 401) return start();
    show("stage");
    $("problem").textContent = error.message;
    return;
  }
  await next();
}

function failed(error, again) {
  show("stage");
  $("problem").textContent = error.message;
  $("choice").replaceChildren(button("Try again", () => again()));
  clearTimeout(retry);
  retry = setTimeout(again, AGAIN);
}

function next(wait = false) {
  clearTimeout(retry);
  asking = asking || look(wait).finally(() => { asking = null; });
  return asking;
}

async function look(wait) {
  let found;
  try {
    found = await call(wait ? "api/study/now?wait" : "api/study/now");
  } catch (error) {
    if (error.status === 401) return void asking.finally(start);
    return failed(error, next);
  }
  document.title = study = found.study;
  at = found.at;
  $("progress").value = found.progress ?? 1;
  $("stop").hidden = ["consent", "end"].includes(found.kind);
  STAGES[found.kind](found);
}

const STAGES = {
  consent: ({ title, text, agree }) => present(title, paragraphs(text), [
    button(agree, () => answer({ agree: "yes" }), true),
    button("I do not take part", () => answer({ agree: "no" })),
    copyOf(study, title, text, "Answer: none yet"),
  ]),
  text: (found) => present(found.title, paragraphs(found.text), [button("Continue", () => answer({}), true)]),
  questions: (found) => present(found.title, found.questions.map(ask_one), [
    button("Continue", () => check(found.questions), true),
  ]),
  waiting: (found) => {
    present("One moment", paragraphs(found.text), []);
    asking.finally(() => next(true)); // the server answers when there is a game, or after some seconds
  },
  game: (found) => {
    show("game");
    $("over").hidden = true;
    $("note").textContent = found.note;
    if (document.hidden) document.title = "Your game begins";
    enter(found.game, found.token, {
      onOver: (text) => offer("Continue", text),
      onStatus: ({ status, text }) => status === "replaced" && offer("Go on here", text),
      onRefused: () => next(),
    });
  },
  end: (found) => {
    const said = paragraphs(found.text);
    if (found.code) said.push(element("p", "Your code:"), element("output", found.code, { id: "code" }));
    const links = found.redirect ? [element("a", "Continue", { href: found.redirect, class: "strong", id: "redirect" })] : [];
    if (found.copy) links.push(copyOf(found.copy));
    return present("Thank you", said, links);
  },
};

function offer(choice, text) {
  // What there is to do when nothing more can be done in a game.
  $("over").hidden = false;
  $("result").textContent = text;
  $("status").textContent = "";
  $("go-on").textContent = choice;
  offerButton($("go-on"));
}

function ask_one(question) {
  const part = element("fieldset");
  part.append(element("legend", question.text + (question.optional ? " (optional)" : "")));
  if (question.kind === "text") {
    const field = element("textarea", undefined, { name: question.name, rows: 4, "aria-label": question.text });
    const count = element("small");
    field.oninput = () => { count.textContent = `${[...field.value].length} of ${LONGEST} letters`; };
    part.append(field, count);
    return part;
  }
  const scale = question.kind === "scale";
  const values = scale ? Array.from({ length: question.points }, (_, i) => i + 1) : question.options;
  const row = element("div", undefined, { class: scale ? "scale" : "options" });
  if (scale) row.append(element("span", question.low));
  for (const value of values) {
    const label = element("label");
    label.append(element("input", undefined, { type: "radio", name: question.name, value }), String(value));
    row.append(label);
  }
  if (scale) row.append(element("span", question.high));
  part.append(row);
  return part;
}

async function check(questions) {
  // Sends the answers, or shows the first question whose answer is missing or too long.
  const given = read(questions);
  const parts = [...$("content").children];
  const wrong = questions.map(({ name, optional }) => {
    if (given[name] === null) return optional ? "" : "Please answer the marked questions.";
    return [...String(given[name])].length > LONGEST ? `Please shorten the marked answers to ${LONGEST} letters.` : "";
  });
  parts.forEach((part, i) => part.classList.toggle("wrong", Boolean(wrong[i])));
  const first = wrong.findIndex(Boolean);
  if (first < 0) return answer(given);
  $("problem").textContent = wrong[first];
  parts[first].scrollIntoView({ block: "center" });
  parts[first].querySelector("input, textarea").focus({ preventScroll: true });
}

function read(questions) {
  const given = new FormData($("form"));
  return Object.fromEntries(questions.map((question) => {
    const value = given.get(question.name);
    if (value === null || value.trim() === "") return [question.name, null];
    return [question.name, question.kind === "scale" ? Number(value) : value];
  }));
}

function ownToken(study, id) {
  // By which this browser is known in a study: two windows, and a page that asks twice, are one person.
  const key = `study/${study}/${id}`;
  const made = [...crypto.getRandomValues(new Uint8Array(24))].map((x) => x.toString(16).padStart(2, "0")).join("");
  if (!localStorage.getItem(key)) localStorage.setItem(key, made);
  return localStorage.getItem(key);
}

async function start() {
  clearTimeout(retry);
  try {
    const facts = await ask("api/study");
    const address = new URLSearchParams(location.search);
    const id = address.get(facts.id_parameter) || "";
    const kept = facts.parameters.filter((name) => address.has(name));
    const parameters = Object.fromEntries(kept.map((name) => [name, address.get(name)]));
    const own = () => ownToken(facts.study, id);
    token = navigator.locks ? await navigator.locks.request("study", own) : own();
    const latency_ms = facts.latency ? await measure() : null;
    await ask("api/study/join", { id, token, parameters, screen: [screen.width, screen.height], latency_ms });
  } catch (error) {
    leaveSocket();
    return failed(error, start);
  }
  await next();
}

setInterval(() => token && call("api/study/here", {}).catch(() => {}), HERE);
document.addEventListener("visibilitychange", () => { document.title = study; });
$("form").onsubmit = (event) => event.preventDefault();
$("go-on").onclick = () => next();
$("stop").onclick = async (event) => {
  event.target.blur(); // so that keys are those of the game again
  if (!window.confirm("Stop taking part? You cannot come back. Your answers so far are kept.")) return;
  await call("api/study/leave", {}).then(() => next(), (error) => failed(error, next));
};
start();
