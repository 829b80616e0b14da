// The page of a person in a study: one stage after another, as the server says.

import { $, ask, element } from "./board.js";
import { enter, leaveSocket } from "./game.js";

const HERE = 20000; // how often the server is told that somebody is still there, in milliseconds
const AGAIN = 5000; // after how many milliseconds the page tries again by itself
const CALM = 700; // for how long a key that was meant for a game does not press a button

let key = ""; // under which the browser keeps who somebody is, for each study and id in the address
let token = null;
let at = ""; // the place in the study, which answers name
let asking = null; // the request for what comes next, of which there is one at a time
let retry = 0;
let study = "Study"; // its title

const call = (path, body) => ask(path, body, { "X-Token": token });

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

async function answer(answers) {
  try {
    await call("api/study/answer", { at, answers });
  } catch (error) {
    if (error.status === 401) return joinAnew();
    show("stage");
    $("problem").textContent = error.message;
    return;
  }
  await next();
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
    if (error.status === 401) return void asking.finally(joinAnew);
    show("stage");
    $("problem").textContent = error.message;
    $("choice").replaceChildren(button("Try again", () => next()));
    retry = setTimeout(next, AGAIN);
    return;
  }
  document.title = study = found.study;
  if (found.kind !== "end") {
    at = found.at;
    $("progress").value = found.progress;
  }
  STAGES[found.kind](found);
}

const STAGES = {
  consent: (found) => present(found.title, paragraphs(found.text), [
    button(found.agree, () => answer({ agree: "yes" }), true),
    button("I do not take part", () => answer({ agree: "no" })),
  ]),
  text: (found) => present(found.title, paragraphs(found.text), [button("Continue", () => answer({}), true)]),
  questions: (found) => present(found.title, found.questions.map(ask_one), [
    button("Continue", () => answer(read(found.questions)), true),
  ]),
  waiting: (found) => {
    present("One moment", paragraphs(found.text), []);
    asking.finally(() => next(true)); // the server answers when there is a game, or after some seconds
  },
  game: (found) => {
    show("game");
    $("over").hidden = true;
    $("note").textContent = found.note ? (found.again ? "Please try once more. " : "") + found.note : "";
    if (document.hidden) document.title = "Your game begins";
    enter(found.game, found.token, {
      onOver: (text) => {
        $("over").hidden = false;
        $("result").textContent = text;
        $("status").textContent = "";
        $("go-on").disabled = true;
        setTimeout(() => { $("go-on").disabled = false; $("go-on").focus(); }, CALM);
      },
      onRefused: () => next(),
    });
  },
  end: (found) => {
    $("progress").value = 1;
    if (found.outcome === "declined") return present("Thank you", [element("p", "You do not take part. Nothing more is to be done.")], []);
    if (found.outcome === "failed") return present("Thank you", [element("p", "The study ends here for you, since the first game was not passed.")], []);
    const said = [element("p", "You have reached the end. Thank you for taking part!")];
    if (found.code) said.push(element("p", "Your code:"), element("output", found.code, { id: "code" }));
    const links = found.redirect ? [element("a", "Continue", { href: found.redirect, class: "strong", id: "redirect" })] : [];
    return present("Thank you", said, links);
  },
};

function ask_one(question) {
  const part = element("fieldset");
  part.append(element("legend", question.text + (question.optional ? " (optional)" : "")));
  if (question.kind === "text") {
    part.append(element("textarea", undefined, { name: question.name, rows: 4, maxlength: 5000, "aria-label": question.text }));
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

function read(questions) {
  const given = new FormData($("content"));
  return Object.fromEntries(questions.map((question) => {
    const value = given.get(question.name);
    if (value === null || value === "") return [question.name, null];
    return [question.name, question.kind === "scale" ? Number(value) : value];
  }));
}

async function begin() {
  try {
    const facts = await ask("api/study");
    const id = new URLSearchParams(location.search).get(facts.id_parameter) || "";
    key = `study/${facts.study}/${id}`;
    token = localStorage.getItem(key);
    if (!token) {
      token = (await ask("api/study/join", { id })).token;
      localStorage.setItem(key, token);
    }
  } catch (error) {
    $("problem").textContent = error.message;
    $("choice").replaceChildren(button("Try again", start));
    return;
  }
  await next();
}

function start() {
  // Two windows of one browser that open at once are one person.
  return navigator.locks ? navigator.locks.request("study", begin) : begin();
}

function joinAnew() {
  if (localStorage.getItem(key) === token) localStorage.removeItem(key);
  return start();
}

setInterval(() => token && call("api/study/here", {}).catch(() => {}), HERE);
document.addEventListener("visibilitychange", () => { document.title = study; });
$("content").onsubmit = (event) => event.preventDefault();
$("go-on").onclick = () => next();
start();
